"""What the network sees of the past: histories of positions and controls, as differences to now.

A history of length H and stride s holds the samples t - sH, ..., t - s, t, in that order (the last one is now). The
network gets (x_t, x_{t-s} - x_t, ..., x_{t-sH} - x_t): consecutive samples are nearly equal, and the differences keep
what distinguishes them when everything is standardised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from genan.errors import SettingError


@dataclass(frozen=True)
class History:
    """Which past samples the network sees, and how."""

    length: int = 3
    """Past samples besides the present one, H."""
    stride: int = 1
    """Samples from one of them to the next, s."""
    delta: bool = True
    """Past samples as differences to the present one (the paper's delta histories); False gives them as they are."""

    def __post_init__(self) -> None:
        if self.length < 0:
            raise SettingError(f"The history's length must be 0 or more past samples, not {self.length}.")
        if self.stride < 1:
            raise SettingError(f"The history's stride must be 1 or more samples, not {self.stride}.")

    @property
    def rows(self) -> int:
        """Samples in a history, the present one included: H + 1."""
        return self.length + 1

    @property
    def span(self) -> int:
        """Samples from the oldest one to the present one: s H."""
        return self.length * self.stride

    @property
    def lags(self) -> Sequence[int]:
        """How many samples each row of a history lies in the past, oldest first: s H, ..., s, 0."""
        return range(self.span, -1, -self.stride)

    def inputs(self, nq: int, nu: int) -> int:
        """Number of network inputs: (H + 1)(nq + nu)."""
        return self.rows * (nq + nu)

    def features(self, q_history: Any, u_history: Any) -> Any:
        """Network inputs before standardising, for one sample: those of q, now first and oldest last, then those of u.

        Args:
            q_history: positions [H + 1, nq] [rad or m], oldest first.
            u_history: controls [H + 1, nu], oldest first.

        Returns:
            Inputs [(H + 1)(nq + nu)].
        """
        import jax.numpy as jnp  # late: settings are read where JAX is not wanted yet

        parts = []
        for x in (q_history, u_history):
            now, past = x[-1], x[-2::-1] if self.length else x[:0]
            parts += [now, (past - now if self.delta else past).reshape(-1)]
        return jnp.concatenate(parts)
