"""What the network sees of the past: histories of positions and controls, as differences to now.

A history of length H and stride s holds the samples t - sH, ..., t - s, t, in that order (the last
one is now). The network gets (x_t, x_{t-s} - x_t, ..., x_{t-sH} - x_t): consecutive samples are
nearly equal, and the differences keep what distinguishes them when everything is standardised. A
delay of d samples shifts the controls alone: x_t above is then u_{t-d}, because what is commanded
now does nothing before that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genan.actuator.terms import Terms
from genan.errors import SettingError

NO_TERMS = Terms()


@dataclass(frozen=True)
class History:
    """Which past samples the network sees, and how."""

    length: int = 3
    """Past samples besides the present one, H."""
    stride: int = 1
    """Samples from one of them to the next, s."""
    delta: bool = True
    """Past samples as differences to the present one (the paper's delta histories); False gives
    them as they are."""
    delay: int = 0
    """Samples that pass before a command does anything, d: the controls are those of t - d, t - d -
    s, and so on."""
    terms: Terms = NO_TERMS
    """What the network sees beside the history."""

    def __post_init__(self) -> None:
        if self.length < 0:
            raise SettingError(
                f"The history's length must be 0 or more past samples, not {self.length}."
            )
        if self.stride < 1:
            raise SettingError(
                f"The history's stride must be 1 or more samples, not {self.stride}."
            )
        if self.delay < 0:
            raise SettingError(f"The delay must be 0 or more samples, not {self.delay}.")
        if (self.terms.friction or self.terms.standing) and self.length < 1:
            raise SettingError(
                "Friction needs a velocity, and a history of length 0 has none; take 1 or more."
            )

    @property
    def rows(self) -> int:
        """Samples in a history, the present one included: H + 1."""
        return self.length + 1

    @property
    def span(self) -> int:
        """Samples from the oldest position to the present one: s H."""
        return self.length * self.stride

    @property
    def reach(self) -> int:
        """Samples from the oldest control to the present one: s H + d."""
        return self.span + self.delay

    @property
    def lags(self) -> Sequence[int]:
        """How many samples each row of a history lies in the past, oldest first: s H, ..., s, 0."""
        return range(self.span, -1, -self.stride)

    @property
    def control_lags(self) -> Sequence[int]:
        """The same for the controls: s H + d, ..., s + d, d."""
        return range(self.reach, self.delay - 1, -self.stride)

    def inputs(self, nq: int, nu: int) -> int:
        """Number of network inputs: (H + 1)(nq + nu), and those of the terms."""
        return self.rows * (nq + nu) + self.terms.count

    def of_window(self, q: Any, u: Any) -> tuple[Any, Any]:
        """Histories [..., H + 1, nq] and [..., H + 1, nu] out of every sample of the recent past,
        oldest first.

        Args:
            q: the last sH + 1 positions, or more [..., samples, nq]; the last is now.
            u: the last sH + d + 1 controls, or more [..., samples, nu]; the last is now.
        """
        q, u = q[..., q.shape[-2] - self.span - 1 :, :], u[..., u.shape[-2] - self.reach - 1 :, :]
        return q[..., :: self.stride, :], u[..., : self.span + 1 : self.stride, :]

    def features(self, q_history: Any, u_history: Any) -> Any:
        """Network inputs before standardising, for one sample: those of q, now first and oldest
        last, then those of u.

        Args:
            q_history: positions [H + 1, nq] [rad or m], oldest first.
            u_history: controls [H + 1, nu], oldest first.

        Returns:
            Inputs [(H + 1)(nq + nu) + terms].
        """
        import jax.numpy as jnp  # late: settings are read where JAX is not wanted yet

        return jnp.concatenate(self._parts(q_history, u_history, jnp))

    def features_of_many(self, q_history: np.ndarray, u_history: np.ndarray) -> np.ndarray:
        """``features`` of many samples [n, H + 1, nq] and [n, H + 1, nu], by NumPy in their
        precision [n, inputs]."""
        parts = self._parts(q_history, u_history, np)
        return np.concatenate(parts, axis=-1)

    def _parts(self, q_history: Any, u_history: Any, xp: Any) -> list[Any]:
        parts = []
        for x in (q_history, u_history):
            now, past = x[..., -1, :], x[..., -2::-1, :] if self.length else x[..., :0, :]
            past = past - now[..., None, :] if self.delta else past
            parts += [now, past.reshape(*x.shape[:-2], -1)]
        return parts + self.terms.features(q_history, u_history, xp)
