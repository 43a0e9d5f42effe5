"""``Balls``: flights that are ready to be played, whether drawn from a launcher model or replayed
from recordings."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

#: Length of an episode, step of the simulation and of the policy [s] (paper: 1.09 s, 500 Hz, 100
#: Hz).
DURATION, STEP, TICK = 1.09, 0.002, 0.01


class Balls(eqx.Module):
    """``n`` balls up to the racket: where they really are, and what the robot is told of them."""

    positions: Float[Array, "*n steps 3"]
    """True position at 0, 2, 4, ... ms, in the world frame [m]."""
    velocities: Float[Array, "*n steps 3"]
    """True velocity at the same times [m/s]."""
    observations: Float[Array, "*n ticks 6"]
    """Filtered position [m] and velocity [m/s] at 0, 10, 20, ... ms: what a policy sees."""

    def __len__(self) -> int:
        """Number of balls."""
        return self.positions.shape[0]

    def __getitem__(self, ball: int | Array) -> "Balls":
        """One ball, or several."""
        return jax.tree.map(lambda rows: rows[ball], self)

    def draw(self, *, key: Array) -> "Balls":
        """One ball at random."""
        return self[jax.random.randint(key, (), 0, len(self))]


def count(duration: float, step: float) -> int:
    """Samples from 0 to ``duration`` [s] that lie ``step`` [s] apart, both ends included."""
    return round(duration / step) + 1
