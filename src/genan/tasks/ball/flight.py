"""How the ball flies, bounces, is hit and lands; and what the robot knows of it.

In the air gravity, drag that grows with the square of the speed, and the Magnus force act on it:

    dv/dt = -g z - drag |v| v + magnus (spin x v),    spin constant.

One step is the midpoint rule: at 2 ms its error after a second is a few micrometres and at 10 ms
still below a tenth of a millimetre, where that of semi-implicit Euler is 1 cm and 6 cm
(``docs/table-tennis.md``). Off the table velocity and spin are a linear map of those before; where
within a step the ball touches is found first, so that the result hardly depends on the step. The
racket rebounds as the lab's form of the model of Muelling et al. (2011): along the face's normal

    v_n' = -e v_n + (1 + e) w_n,   e = 0.78,

with the racket's velocity w at the point of contact, and 0.78 of the ball's velocity within the
face. No spin.

The robot knows what an extended Kalman filter makes of measured positions (following the lab's, Ma
et al. 2022): position, velocity and spin (9). The transition is the flight, through the bounce on
the table; covariances follow its Jacobian, that of the bounce included.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genan.actuator.ensemble import pick_rows
from genan.tasks.ball import MEASURED, NOISE_STEP, Court, FilterNoise, Triple

Number = float | Float[Array, ""]
Scalar = Float[Array, ""]
Vector3 = Float[Array, " 3"]
Vectors = Float[Array, "*n 3"]
Truth = Bool[Array, ""]
Mean = Float[Array, " 9"]
Matrix = Float[Array, "9 9"]
Times = Float[Array, " n"]
Points = Float[Array, "n 3"]

FILTER_MAP = ((0.9009, 0.0747, -0.0595), (-0.0041, 0.5657, -0.0561), (-0.0094, -0.0382, -0.8937))
"""Velocity map of the lab's Kalman filter (Ma et al. 2022), rows and columns x, y, z of a ball that
flies along y."""
LANDING_STEPS = 8  # Steps of a return whose landing is looked for (``docs/table-tennis.md``).


class FlyingBall(eqx.Module):
    """State of a ball in the world frame."""

    position: Vectors  # Centre [m].
    velocity: Vectors  # [m/s]
    spin: Vectors  # Angular velocity [rad/s].

    @classmethod
    def without_spin(cls, position: Vectors, velocity: Vectors) -> "FlyingBall":
        return cls(position, velocity, jnp.zeros_like(velocity))


@dataclass(frozen=True)
class AirDrag:
    """What the air does to the ball; defaults of the lab's Kalman filter (Ma et al. 2022)."""

    drag: Number = 0.1062  # [1/m]
    magnus: Number = 0.0057  # Per unit of spin and speed [-].
    gravity: float = 9.81  # [m/s^2]

    def acceleration(self, velocity: Vector3, spin: Vector3) -> Vector3:
        """Acceleration of the ball [m/s^2]."""
        # The tiny number keeps the derivative of the norm finite for a ball at rest.
        speed = jnp.sqrt(jnp.sum(velocity**2) + 1e-30)
        weight = jnp.array([0.0, 0.0, -self.gravity], velocity.dtype)
        return weight - self.drag * speed * velocity + self.magnus * jnp.cross(spin, velocity)


def step_free(ball: FlyingBall, dt: Number, air: AirDrag) -> FlyingBall:
    """The ball ``dt`` [s] later, if it meets nothing."""
    middle = ball.velocity + 0.5 * dt * air.acceleration(ball.velocity, ball.spin)
    velocity = ball.velocity + dt * air.acceleration(middle, ball.spin)
    return FlyingBall(ball.position + 0.5 * dt * (ball.velocity + velocity), velocity, ball.spin)


def time_to_height(ball: FlyingBall, height: Number, air: AirDrag) -> Scalar:
    """Time until the ball, above ``height`` now, comes down to it [s]; zero for a ball below. Meant
    for the rest of one step: the vertical acceleration is that of now."""
    above = jnp.maximum(ball.position[2] - height, 0.0)
    vz, az = ball.velocity[2], air.acceleration(ball.velocity, ball.spin)[2]
    # Positive root of above + vz t + az t^2 / 2, in the form that loses no digits in a fast fall.
    root = jnp.sqrt(jnp.maximum(vz**2 - 2.0 * az * above, 1e-12))
    falling = 2.0 * above / (root - jnp.minimum(vz, 0.0))
    return jnp.where(vz < 0.0, falling, (vz + root) / jnp.maximum(-az, 1e-6))


class Bounce(eqx.Module):
    """Velocity and spin after a bounce as a linear map of those before."""

    matrix: Float[Array, "6 6"]  # Rows and columns: velocity [m/s], then spin [rad/s].

    @classmethod
    def of_velocity(cls, velocity_map: tuple[tuple[float, ...], ...] = FILTER_MAP) -> "Bounce":
        """The map [3, 3] of the velocity alone, by default the lab's filter's; the spin stays."""
        return cls(jnp.eye(6).at[:3, :3].set(jnp.asarray(velocity_map)))

    @classmethod
    def symmetric(cls, normal: Number, tangential: Number, spin: Number) -> "Bounce":
        """The same in all horizontal directions, and blind to the spin before. The vertical
        velocity is turned round and multiplied by ``normal``, the horizontal one by ``tangential``;
        the ball leaves with ``spin`` [rad/m] times its former horizontal speed, about the axis
        about which it would roll. A hollow ball without spin that grips keeps 0.6 of its speed and
        rolls with 30 rad/m."""
        factors = [jnp.asarray(x, float) for x in (tangential, tangential, -1.0 * normal)]
        roll = spin * jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        matrix = jnp.zeros((6, 6)).at[:3, :3].set(jnp.diag(jnp.stack(factors)))
        return cls(matrix.at[3:, :3].set(roll).at[5, 5].set(1.0))

    def __call__(self, ball: FlyingBall) -> FlyingBall:
        """The ball just after, where it was just before."""
        before = jnp.concatenate([ball.velocity, ball.spin])
        after = self.matrix.astype(before.dtype) @ before
        return FlyingBall(ball.position, after[:3], after[3:])


def step(
    ball: FlyingBall, dt: Number, air: AirDrag, bounce: Bounce, court: Court
) -> tuple[FlyingBall, Truth]:
    """The ball ``dt`` [s] later, off the table or the floor if it meets them, at most once each;
    and whether it met the table."""
    height, free, table = court.contact_height, step_free(ball, dt, air), court.table
    falls = (free.position[2] < height) & (free.velocity[2] < 0.0)
    falls &= ball.position[2] > height - court.depth
    until = jnp.clip(time_to_height(ball, height, air), 0.0, dt)
    touching = _above(step_free(ball, until, air), height)
    on_table = falls & (jnp.abs(touching.position[0] - table.centre[0]) <= table.half_width)
    on_table &= jnp.abs(touching.position[1] - table.centre[1]) <= table.half_length
    bounced = _above(step_free(bounce(touching), dt - until, air), height)
    ball = pick_rows(on_table, bounced, free)

    # The floor needs no exact instant: nothing is counted there, the ball is only kept above it.
    ground = court.floor + court.ball_radius
    below = (ball.position[2] < ground) & (ball.velocity[2] < 0.0)
    factors = jnp.array(court.floor_factors, ball.velocity.dtype)
    velocity = jnp.where(below, ball.velocity * factors, ball.velocity)
    spin = jnp.where(below, 0.0, ball.spin)
    return FlyingBall(_above(ball, ground).position, velocity, spin), on_table


def fly(
    ball: FlyingBall, air: AirDrag, bounce: Bounce, court: Court, *, dt: float = 0.002, steps: int
) -> FlyingBall:
    """The ball at 0, dt, ..., dt ``steps`` [s]: its arrays have ``steps`` + 1 rows."""
    return _path(lambda ball: step(ball, dt, air, bounce, court)[0], ball, steps)


def _path(following: Callable[[FlyingBall], FlyingBall], ball: FlyingBall, n: int) -> FlyingBall:
    """The ball now, and after each of ``n`` steps."""
    last, path = jax.lax.scan(lambda ball, _: (following(ball), ball), ball, length=n)
    return jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), path, last)


def _above(ball: FlyingBall, height: float) -> FlyingBall:
    """The ball, lifted to ``height`` where it is below."""
    least = jnp.array([-jnp.inf, -jnp.inf, height], ball.position.dtype)
    return FlyingBall(jnp.maximum(ball.position, least), ball.velocity, ball.spin)


class RacketPose(eqx.Module):
    """Where the racket is, in the world frame: an elliptic plate with two equal faces."""

    position: Vector3  # Centre of the blade [m].
    rotation: Float[Array, "3 3"]  # Columns: across the handle, the face's normal, along it.

    def seen_from(self, point: Vector3) -> Vector3:
        """``point`` [m] along the racket's axes, from its centre."""
        # Elementwise: batches of tiny matrix products are slow, and a GPU would round them to TF32.
        return jnp.sum(self.rotation * (point - self.position)[:, None], axis=0)


Swing = tuple[RacketPose, RacketPose]  # Before and after a step.


@dataclass(frozen=True)
class Rubber:
    """How the ball leaves the racket (pam_mujoco)."""

    restitution: Number = 0.78  # Along the normal, e [-].
    tangential: Number = 0.78  # Part of the velocity within the face that is left [-].
    drags_along: bool = False
    """Whether the face carries the ball along: the tangential factor then holds relative to the
    face's velocity. The lab's model, the default, leaves the face's own tangential velocity out."""

    def rebound(self, velocity: Vector3, normal: Vector3, surface: Vector3) -> Vector3:
        """Velocity after the contact [m/s], from that before, the face's normal (length 1, either
        sign) and the racket's velocity at the point of contact."""
        base = surface if self.drags_along else jnp.sum(surface * normal) * normal
        relative = velocity - base
        along = jnp.sum(relative * normal) * normal
        return base - self.restitution * along + self.tangential * (relative - along)


def contact(start: Vector3, end: Vector3, swing: Swing, court: Court) -> tuple[Truth, Scalar]:
    """Whether the ball meets the racket within a step, and at which fraction of it (0 to 1).

    The ball's centre goes from ``start`` to ``end`` [m]; followed relative to the plate, neither
    can pass through the other between two samples. They meet when the centre comes as near to the
    blade's middle plane as the ball's radius and half the blade's thickness, with its foot within
    the blade's ellipse widened by half the ball's radius (a ball that overlaps the rim by more than
    half its radius is hit). One that slips in from the side is met at the middle plane.
    """
    from_before, from_after = swing[0].seen_from(start), swing[1].seen_from(end)
    # Heights above the middle plane, on the side it came from.
    side = jnp.where(from_before[1] < 0.0, -1.0, 1.0)
    high, low = side * from_before[1], side * from_after[1]
    blade, margin = court.blade, 0.5 * court.ball_radius
    axes = jnp.array([blade.half_width + margin, blade.half_length + margin], start.dtype)

    def meets(level: float) -> tuple[Truth, Scalar]:
        fraction = jnp.clip((high - level) / jnp.maximum(high - low, 1e-9), 0.0, 1.0)
        foot = from_before + fraction * (from_after - from_before)
        within = jnp.sum((jnp.stack([foot[0], foot[2]]) / axes) ** 2) <= 1.0
        return (high >= level) & (low <= level) & (high > low) & within, fraction

    at_face, first = meets(court.ball_radius + blade.half_thickness)
    at_middle, last = meets(0.0)
    return at_face | at_middle, jnp.where(at_face, first, last)


def strike(
    start: FlyingBall, end: FlyingBall, swing: Swing, dt: Number, rubber: Rubber, court: Court
) -> tuple[Truth, FlyingBall]:
    """Whether the ball is hit within a step of ``dt`` [s], and the ball at its end; ``end`` is
    that ball if there were no racket: one step of flight, or of a replayed recording."""
    before, after = swing
    hit, fraction = contact(start.position, end.position, swing, court)
    between = lambda a, b: a + fraction * (b - a)
    at, velocity = between(start.position, end.position), between(start.velocity, end.velocity)
    rotation = between(before.rotation, after.rotation)
    normal = rotation[:, 1] / jnp.linalg.norm(rotation[:, 1])
    # The point of the racket that touches moves with its centre and turns with its axes.
    point = RacketPose(between(before.position, after.position), rotation).seen_from(at)
    turned = jnp.sum((after.rotation - before.rotation) * point, axis=1)
    surface = ((after.position - before.position) + turned) / dt
    leaving = rubber.rebound(velocity, normal, surface)
    away = FlyingBall.without_spin(at + (1.0 - fraction) * dt * leaving, leaving)
    return hit, pick_rows(hit, away, end)


class ReturnOutcome(enum.IntEnum):
    """How a return ends."""

    SUCCESS = 0  # On the opponent's half, over the net.
    SHORT = 1  # On the robot's side of the net, or into the net.
    LONG = 2  # Beyond the opponent's end, or longer in the air than a ball that comes down.
    SIDE = 3  # Beyond the net, but past the side of the table.


def landing(ball: FlyingBall, air: AirDrag, court: Court) -> tuple[Vector3, Int[Array, ""]]:
    """Where the ball's centre comes down to the height of the table, on it or off it, if it meets
    nothing but the net (then: the foot of the net below) [m]; and the ``ReturnOutcome``. From now
    on: ask once it has been hit."""
    height, table, net = court.contact_height, court.table, court.table.centre[1]
    # Equal steps of the flight, a quarter longer than it would be without air.
    above, vz = jnp.maximum(ball.position[2] - height, 0.0), ball.velocity[2]
    fall = (vz + jnp.sqrt(vz**2 + 2.0 * air.gravity * above)) / air.gravity
    dt = jnp.maximum(1.25 * fall, 0.05) / LANDING_STEPS
    path = _path(lambda ball: _long_step(ball, dt, air), ball, LANDING_STEPS)
    y, z = path.position[:, 1], path.position[:, 2]
    at = lambda index: jax.tree.map(lambda rows: rows[index], path)

    falls = (z[1:] <= height) & (path.velocity[1:, 2] < 0.0)
    lands, last = jnp.any(falls), at(jnp.argmax(falls))
    rest = jnp.clip(time_to_height(last, height, air), 0.0, dt)
    down = jnp.where(lands, dt * jnp.argmax(falls) + rest, dt * LANDING_STEPS)
    end = _long_step(last, rest, air).position

    crosses = (y[:-1] < net) & (y[1:] >= net)
    before = at(jnp.argmax(crosses))
    rise = at(jnp.argmax(crosses) + 1).position[1] - before.position[1]
    to_net = jnp.clip(dt * (net - before.position[1]) / jnp.maximum(rise, 1e-6), 0.0, dt)
    at_net = _long_step(before, to_net, air).position
    past_end = jnp.abs(at_net[0] - table.centre[0]) > table.net_half_width + court.ball_radius
    clear = (at_net[2] > height + table.net_height) | past_end
    passing = dt * jnp.argmax(crosses) + to_net
    reaches = jnp.any(crosses) & (passing <= down)  # what comes first counts

    netted = reaches & ~clear
    cleared = (ball.position[1] >= net) | (reaches & clear)
    point = jnp.where(netted, at_net.at[2].set(height), jnp.where(lands, end, path.position[-1]))
    flying = ~lands & ~netted
    side = jnp.abs(point[0] - table.centre[0]) > table.half_width
    long = (point[1] > net + table.half_length) | flying
    found = jnp.where(long, ReturnOutcome.LONG, ReturnOutcome.SUCCESS)
    found = jnp.where(side, ReturnOutcome.SIDE, found)
    found = jnp.where((point[1] < net) | ~cleared, ReturnOutcome.SHORT, found)
    return point, found.astype(jnp.int32)


def landing_reward(point: Float[Array, "*n"], court: Court, *, reading: str = "lab") -> Scalar:
    """Worth of a landing point (x, y, ...) [m] at the horizontal distance d [m] from the target.

    ``lab``: max(1 - (d / 2.96)^(3/4), 0), as in the lab's code. ``printed``: max(1 - 2.96 d^(3/4),
    0), as the paper prints it, zero from 0.235 m on.
    """
    squared = (point[0] - court.target[0]) ** 2 + (point[1] - court.target[1]) ** 2
    distance = jnp.sqrt(squared + 1e-12)
    loss = (distance / 2.96) ** 0.75 if reading == "lab" else 2.96 * distance**0.75
    return jnp.maximum(1.0 - loss, 0.0)


def _long_step(ball: FlyingBall, dt: Scalar, air: AirDrag) -> FlyingBall:
    """As ``step_free``, for up to a tenth of a second: the classical Runge-Kutta rule."""
    a, v = lambda velocity: air.acceleration(velocity, ball.spin), ball.velocity
    k1 = a(v)
    k2 = a(v + 0.5 * dt * k1)
    k3 = a(v + 0.5 * dt * k2)
    k4 = a(v + dt * k3)
    position = ball.position + dt * v + dt**2 / 6.0 * (k1 + k2 + k3)
    return FlyingBall(position, v + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), ball.spin)


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
    first_spin: Triple = eqx.field(static=True, default=(0.0, 0.0, 0.0))  # At launch [rad/s].

    def start(self, position: Vector3, velocity: Vector3 | None = None) -> FilterState:
        """The state at the first measured position [m]; ``velocity`` [m/s] is but a guess."""
        guess, dtype = jnp.zeros_like(position) if velocity is None else velocity, position.dtype
        mean = jnp.concatenate([position, guess, jnp.array(self.first_spin, dtype)])
        noise = self.noise
        first = _diagonal(noise.measurement, noise.first_velocity, noise.first_spin, dtype)
        return FilterState(mean, first)

    def predict(self, state: FilterState, dt: Number) -> FilterState:
        """The state ``dt`` [s] later, without a measurement."""
        return self.predict_with_jacobian(state, dt)[0]

    def predict_with_jacobian(self, state: FilterState, dt: Number) -> tuple[FilterState, Matrix]:
        """The state ``dt`` [s] later, and the Jacobian of its mean by the mean before."""
        noise, dtype = self.noise, state.mean.dtype
        jacobian, (mean, bounced) = jax.jacfwd(self._follow, has_aux=True)(state.mean, dt)
        added = _diagonal(noise.position, noise.velocity, noise.spin, dtype) * (dt / NOISE_STEP)
        added += jnp.where(bounced, 1.0, 0.0) * _diagonal(0.0, noise.bounce, 0.0, dtype)
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
        return pick_rows(jnp.asarray(present), FilterState(mean, corrected), state)

    def move(self, mean: Mean, dt: Number) -> Mean:
        """The estimate ``dt`` [s] later."""
        return self._follow(mean, dt)[0]

    def _follow(self, mean: Mean, dt: Number) -> tuple[Mean, tuple[Mean, Truth]]:
        """The estimate ``dt`` [s] later; for ``jacfwd`` the same again, and whether it bounced."""
        ball = FlyingBall(mean[:3], mean[3:6], mean[6:])
        ball, bounced = step(ball, dt, self.air, self.bounce, self.court)
        after = jnp.concatenate([ball.position, ball.velocity, ball.spin])
        return after, (after, bounced)


def _diagonal(position: float, velocity: float, spin: float, dtype: jnp.dtype) -> Matrix:
    return jnp.diag(jnp.repeat(jnp.array((position, velocity, spin), dtype), 3))


def _symmetric(matrix: Matrix) -> Matrix:
    return 0.5 * (matrix + matrix.T)


def track(
    ball_filter: BallFilter,
    times: Times,
    positions: Points,
    present: Bool[Array, " n"] | None = None,
) -> FilterState:
    """The filter's states after each of ``n`` measurements: at increasing ``times`` [s], of
    ``positions`` [m] where they are ``present`` (left out: all; the first must be)."""
    there = jnp.ones(times.shape, bool) if present is None else present

    def one(state: FilterState, row: tuple[Array, ...]) -> tuple[FilterState, FilterState]:
        dt, measured, present = row
        state = ball_filter.correct(ball_filter.predict(state, dt), measured, present)
        return state, state

    first = ball_filter.start(positions[0])
    _, states = jax.lax.scan(one, first, (jnp.diff(times), positions[1:], there[1:]))
    return jax.tree.map(lambda a, rest: jnp.concatenate([a[None], rest]), first, states)


def filtered(
    ball_filter: BallFilter,
    times: Times,
    positions: Points,
    ticks: Float[Array, " m"],
    present: Bool[Array, " n"] | None = None,
) -> Float[Array, "m 6"]:
    """Filtered position [m] and velocity [m/s] at ``ticks`` [s], from measurements up to each."""
    means = track(ball_filter, times, positions, present).mean
    return at_ticks(ball_filter, means, times, ticks)[:, :6]


def at_ticks(
    ball_filter: BallFilter, means: Float[Array, "n 9"], times: Times, ticks: Float[Array, " m"]
) -> Float[Array, "m 9"]:
    """The latest estimate before each tick [s], predicted up to the tick."""
    # Half a microsecond: a measurement at the tick itself counts, whatever rounding says.
    latest = jnp.clip(jnp.searchsorted(times, ticks + 5e-7, side="right") - 1, 0)
    ages = jnp.maximum(ticks - times[latest], 0.0)
    return jax.vmap(ball_filter.move)(means[latest], ages)


def smoothed(
    ball_filter: BallFilter,
    times: Times,
    positions: Points,
    present: Bool[Array, " n"],
    velocity: Vector3,
) -> Float[Array, "n 9"]:
    """Position [m], velocity [m/s] and spin [rad/s] at ``times`` [s] given all measurements [m]:
    filtered forwards, then backwards (Rauch, Tung and Striebel).

    The model (drag, spin, bounce) is that of ``ball_filter``, the noises are ``MEASURED``: the
    filter's own may be wider than a camera's. ``velocity`` [m/s] is a first guess.
    """
    model = replace(ball_filter, noise=MEASURED)

    def forward(state: FilterState, row: tuple[Array, ...]) -> tuple[FilterState, Any]:
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
