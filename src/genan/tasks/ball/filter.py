"""What the robot knows of the ball: an extended Kalman filter on measured positions; a smoother.

States: position, velocity and spin (9). The transition is the flight with drag and Magnus force,
through the bounce on the table; covariances follow its Jacobian, that of the bounce included.
Following the lab's filter (Ma et al. 2022).
"""

from dataclasses import field

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from genan.tasks.ball import MEASURED, NOISE_STEP, Court, FilterNoise, Triple
from genan.tasks.ball.flight import AirDrag, Bounce, FlyingBall, Number, Truth, Vector3, step

Mean = Float[Array, " 9"]
Matrix = Float[Array, "9 9"]


class FilterState(eqx.Module):
    """Estimate and its covariance."""

    mean: Float[Array, "*n 9"]  # Position [m], velocity [m/s], spin [rad/s].
    covariance: Float[Array, "*n 9 9"]


class BallFilter(eqx.Module):
    """The filter's model; its methods are pure functions of one ball."""

    bounce: Bounce = field(default_factory=Bounce.of_velocity)
    noise: FilterNoise = eqx.field(static=True, default=FilterNoise())
    air: AirDrag = eqx.field(static=True, default=AirDrag())
    court: Court = eqx.field(static=True, default=Court())
    first_spin: Triple = eqx.field(static=True, default=(0.0, 0.0, 0.0))
    """Spin that balls are taken to start with [rad/s]."""

    def start(self, position: Vector3, velocity: Vector3 | None = None) -> FilterState:
        """The state at the first measured position [m]; ``velocity`` [m/s] is but a guess."""
        guess = jnp.zeros(3, position.dtype) if velocity is None else velocity
        noise = self.noise
        variances = (noise.measurement, noise.first_velocity, noise.first_spin)
        mean = jnp.concatenate([position, guess, jnp.array(self.first_spin, position.dtype)])
        return FilterState(mean, _diagonal(variances, position.dtype))

    def predict(self, state: FilterState, dt: Number) -> FilterState:
        """The state ``dt`` [s] later, without a measurement."""
        return self.predict_with_jacobian(state, dt)[0]

    def predict_with_jacobian(self, state: FilterState, dt: Number) -> tuple[FilterState, Matrix]:
        """The state ``dt`` [s] later, and the Jacobian of its mean by the mean before."""
        noise, dtype = self.noise, state.mean.dtype
        jacobian, (mean, bounced) = jax.jacfwd(self._follow, has_aux=True)(state.mean, dt)
        added = _diagonal((noise.position, noise.velocity, noise.spin), dtype) * (dt / NOISE_STEP)
        added += jnp.where(bounced, 1.0, 0.0) * _diagonal((0.0, noise.bounce, 0.0), dtype)
        covariance = _symmetric(jacobian @ state.covariance @ jacobian.T + added)
        return FilterState(mean, covariance), jacobian

    def correct(
        self, state: FilterState, measured: Vector3, present: Truth | bool = True
    ) -> FilterState:
        """The state with a measured position [m] taken in; unchanged where none is ``present``."""
        covariance, noise = state.covariance, self.noise.measurement
        innovation = covariance[:3, :3] + noise * jnp.eye(3, dtype=covariance.dtype)
        gain = jnp.linalg.solve(innovation, covariance[:3]).T  # [9, 3]
        mean = state.mean + gain @ (jnp.where(present, measured, state.mean[:3]) - state.mean[:3])
        # Joseph's form: stays positive in float32.
        keep = jnp.eye(9, dtype=covariance.dtype).at[:, :3].add(-gain)
        corrected = _symmetric(keep @ covariance @ keep.T + noise * gain @ gain.T)
        pick = lambda new, old: jnp.where(present, new, old)  # noqa: E731
        return FilterState(pick(mean, state.mean), pick(corrected, covariance))

    def move(self, mean: Mean, dt: Number) -> Mean:
        """The estimate ``dt`` [s] later."""
        return self._follow(mean, dt)[0]

    def _follow(self, mean: Mean, dt: Number) -> tuple[Mean, tuple[Mean, Truth]]:
        """The estimate ``dt`` [s] later; for ``jacfwd`` the same again, and whether it bounced."""
        ball = FlyingBall(mean[:3], mean[3:6], mean[6:])
        ball, bounced = step(ball, dt, self.air, self.bounce, self.court)
        after = jnp.concatenate([ball.position, ball.velocity, ball.spin])
        return after, (after, bounced)


def track(
    ball_filter: BallFilter,
    times: Float[Array, " n"],
    positions: Float[Array, "n 3"],
    present: Bool[Array, " n"] | None = None,
    velocity: Vector3 | None = None,
) -> FilterState:
    """The filter's states after each of ``n`` measurements, the first of which must be present.

    Args:
        ball_filter: model and noises.
        times: of the measurements [s], increasing.
        positions: measured [m]; whatever stands where none is present is not looked at.
        present: whether there is a measurement; left out: always.
        velocity: a first guess [m/s].
    """
    there = jnp.ones(times.shape, bool) if present is None else present

    def one(state: FilterState, row: tuple[Array, Array, Array]) -> tuple[FilterState, FilterState]:
        dt, measured, present = row
        state = ball_filter.correct(ball_filter.predict(state, dt), measured, present)
        return state, state

    first = ball_filter.start(positions[0], velocity)
    _, states = jax.lax.scan(one, first, (jnp.diff(times), positions[1:], there[1:]))
    return jax.tree.map(lambda a, rest: jnp.concatenate([a[None], rest]), first, states)


def filtered(
    ball_filter: BallFilter,
    times: Float[Array, " n"],
    positions: Float[Array, "n 3"],
    ticks: Float[Array, " m"],
    present: Bool[Array, " n"] | None = None,
) -> Float[Array, "m 6"]:
    """Filtered position [m] and velocity [m/s] at ``ticks`` [s], from measurements up to each."""
    means = track(ball_filter, times, positions, present).mean
    return at_ticks(ball_filter, means, times, ticks)[:, :6]


def at_ticks(
    ball_filter: BallFilter,
    means: Float[Array, "n 9"],
    times: Float[Array, " n"],
    ticks: Float[Array, " m"],
) -> Float[Array, "m 9"]:
    """The latest estimate before each tick [s], predicted up to the tick."""
    # Half a microsecond: a measurement at the tick itself counts, whatever rounding says.
    latest = jnp.clip(jnp.searchsorted(times, ticks + 5e-7, side="right") - 1, 0)
    ages = jnp.maximum(ticks - times[latest], 0.0)
    return jax.vmap(ball_filter.move)(means[latest], ages)


def smoothed(
    ball_filter: BallFilter,
    times: Float[Array, " n"],
    positions: Float[Array, "n 3"],
    present: Bool[Array, " n"],
    velocity: Vector3,
) -> Float[Array, "n 9"]:
    """Position [m], velocity [m/s] and spin [rad/s] at ``times`` [s] given all measurements [m]:
    filtered forwards, then backwards (Rauch, Tung and Striebel).

    The model (drag, spin, bounce) is that of ``ball_filter``, the noises are ``MEASURED``: the
    filter's own may be wider than a camera's. ``velocity`` [m/s] is a first guess.
    """
    model = BallFilter(
        ball_filter.bounce, MEASURED, ball_filter.air, ball_filter.court, ball_filter.first_spin
    )

    def forward(
        state: FilterState, row: tuple[Array, Array, Array]
    ) -> tuple[FilterState, tuple[Array, ...]]:
        dt, measured, there = row
        ahead, jacobian = model.predict_with_jacobian(state, dt)
        # What a correction of the state ahead says about the state before it. Variances span ten
        # orders of magnitude: they are scaled to 1.
        scale = 1.0 / jnp.sqrt(jnp.diagonal(ahead.covariance))[:, None]
        matrix, right = scale * ahead.covariance * scale.T, scale * (jacobian @ state.covariance)
        back = (scale * jnp.linalg.solve(matrix, right)).T
        return model.correct(ahead, measured, there), (state.mean, ahead.mean, back)

    def backward(later: Array, row: tuple[Array, ...]) -> tuple[Array, Array]:
        mean, ahead, back = row
        now = mean + back @ (later - ahead)
        return now, now

    first = model.start(positions[0], velocity)
    last, rows = jax.lax.scan(forward, first, (jnp.diff(times), positions[1:], present[1:]))
    _, means = jax.lax.scan(backward, last.mean, rows, reverse=True)
    return jnp.concatenate([means, last.mean[None]])


def _diagonal(variances: Triple, dtype: jnp.dtype) -> Matrix:
    return jnp.diag(jnp.repeat(jnp.array(variances, dtype), 3))


def _symmetric(matrix: Matrix) -> Matrix:
    return 0.5 * (matrix + matrix.T)
