"""Predictions that need no model: stay where you are, or keep your speed."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class StandingStill:
    """The robot does not move any more."""

    name: str = "standing still"
    past: int = 1

    def next_position(  # noqa: D102
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        return np.asarray(q[:, -1])


@dataclass(frozen=True)
class ConstantVelocity:
    """The robot goes on at the speed of its last two positions."""

    name: str = "constant velocity"
    past: int = 1

    def next_position(  # noqa: D102
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        return np.asarray(2.0 * q[:, -1] - q[:, -2])
