"""Where a recorded ball really was: filtered forwards, then backwards (Rauch, Tung and
Striebel)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from genan.tasks.ball.filter import BallFilter, FilterState
from genan.tasks.ball.noise import MEASURED


def smoothed(
    ball_filter: BallFilter,
    times: Float[Array, " n"],
    positions: Float[Array, "n 3"],
    present: Bool[Array, " n"],
    velocity: Float[Array, " 3"],
) -> Float[Array, "n 9"]:
    """Position [m], velocity [m/s] and spin [rad/s] at ``times`` [s] given all measurements [m].

    The model (drag, spin, bounce) is that of ``ball_filter``, the noises are ``MEASURED``: the
    filter's own may be wider than a camera's. ``velocity`` [m/s] is a first guess.
    """
    model = BallFilter(
        ball_filter.bounce, MEASURED, ball_filter.air, ball_filter.scene, ball_filter.first_spin
    )

    def forward(
        state: FilterState, row: tuple[Array, Array, Array]
    ) -> tuple[FilterState, tuple[Array, ...]]:
        dt, measured, there = row
        ahead, jacobian = model.predict_with_jacobian(state, dt)
        # What a correction of the state ahead says about the state before it.
        back = _solve(ahead.covariance, jacobian @ state.covariance).T
        after = model.correct(ahead, measured, there)
        return after, (state.mean, ahead.mean, back)

    def backward(later: Array, row: tuple[Array, ...]) -> tuple[Array, Array]:
        mean, ahead, back = row
        now = mean + back @ (later - ahead)
        return now, now

    first = model.start(positions[0], velocity)
    last, rows = jax.lax.scan(forward, first, (jnp.diff(times), positions[1:], present[1:]))
    _, means = jax.lax.scan(backward, last.mean, rows, reverse=True)
    return jnp.concatenate([means, last.mean[None]])


def _solve(matrix: Float[Array, "9 9"], right: Float[Array, "9 9"]) -> Float[Array, "9 9"]:
    """``matrix``^-1 ``right`` for a covariance, with its variances scaled to 1: they span ten
    orders of magnitude."""
    scale = 1.0 / jnp.sqrt(jnp.diagonal(matrix))
    return scale[:, None] * jnp.linalg.solve(
        scale[:, None] * matrix * scale, scale[:, None] * right
    )
