"""The true table-tennis ball: it spins, the air drags and lifts it, and what it touches changes its
spin.

::

    dv/dt = -g z - c C_D |v| v + c C_L r (spin x v),    c = density area / (2 mass)
    C_L   = slope / (1 + saturation S),                 S = r |spin| / |v|
    dw/dt = -decay spin

by the rule of Runge and Kutta in steps of 0.5 ms. Arrays of many balls go through the same code as
the floats of one; the calibration does that.
"""

import enum
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# Vectors as triples of plain floats: for a single ball quicker than arrays of three.

Triple = tuple[float, float, float]


def plus(a: Triple, b: Triple) -> Triple:
    """Sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Triple, b: Triple) -> Triple:
    """Difference of two vectors."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scaled(s: float, a: Triple) -> Triple:
    """``s`` times the vector ``a``."""
    return s * a[0], s * a[1], s * a[2]


def dot(a: Triple, b: Triple) -> float:
    """Inner product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Triple, b: Triple) -> Triple:
    """Outer product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def unit(a: Triple) -> Triple:
    """The vector's direction."""
    return scaled(1.0 / math.sqrt(dot(a, a)), a)


def mixed(a: Triple, b: Triple, part: float) -> Triple:
    """``part`` (0 to 1) of the way from ``a`` to ``b``."""
    return a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]), a[2] + part * (b[2] - a[2])


STEP = 0.0005  # Longest step of the flight [s].


class BallState(NamedTuple):
    """Where the ball is and what it does, in the world frame."""

    position: Triple  # Centre [m].
    velocity: Triple  # [m/s]
    spin: Triple  # Angular velocity [rad/s].


@dataclass(frozen=True)
class BallPhysics:
    """Ball and air. [R] lab's source, [L] literature, [C] fitted to balls, [A] assumed."""

    mass: float = 0.0027  # [kg] [R]
    radius: float = 0.02  # [m] [R]
    gravity: float = 9.808  # [m/s^2], the lab's ball models [R].
    density: float = 1.18  # Of the air [kg/m^3], the lab's ball models [R].
    drag: float = 0.388  # C_D [C].
    lift_slope: float = 2.26  # C_L per spin ratio S, of a ball that spins slowly [C].
    lift_saturation: float = 8.0
    """How much less a quick spin lifts: C_L S stays below slope / saturation [A]; the slope above
    was fitted to it."""
    spin_decay: float = 0.05  # Share of the spin that the air takes in a second [1/s] [A].

    @cached_property
    def _air(self) -> float:
        return 0.5 * self.density * math.pi * self.radius**2 / self.mass

    def acceleration(self, velocity: Triple, spin: Triple, turning: float) -> Triple:
        """Of the ball in the air [m/s^2]; ``turning``: the speed of its surface [m/s]."""
        vx, vy, vz = velocity
        wx, wy, wz = spin
        speed = (vx * vx + vy * vy + vz * vz) ** 0.5
        drag = self._air * self.drag * speed
        lift = (
            self._air
            * self.lift_slope
            * self.radius
            * speed
            / (speed + self.lift_saturation * turning + 1e-12)
        )
        return (
            lift * (wy * vz - wz * vy) - drag * vx,
            lift * (wz * vx - wx * vz) - drag * vy,
            lift * (wx * vy - wy * vx) - drag * vz - self.gravity,
        )

    def flown(self, ball: BallState, h: float) -> BallState:
        """The ball ``h`` [s] later, if it meets nothing on its way: one step of Runge and Kutta."""
        (px, py, pz), (vx, vy, vz), (wx, wy, wz) = ball
        # The spin changes so little that its value halfway serves the step.
        middle = 1.0 - 0.5 * h * self.spin_decay
        spin = (wx * middle, wy * middle, wz * middle)
        turning = self.radius * (spin[0] ** 2 + spin[1] ** 2 + spin[2] ** 2) ** 0.5
        half = 0.5 * h
        ax, ay, az = self.acceleration((vx, vy, vz), spin, turning)
        bx, by, bz = self.acceleration(
            (vx + half * ax, vy + half * ay, vz + half * az), spin, turning
        )
        cx, cy, cz = self.acceleration(
            (vx + half * bx, vy + half * by, vz + half * bz), spin, turning
        )
        dx, dy, dz = self.acceleration((vx + h * cx, vy + h * cy, vz + h * cz), spin, turning)
        sixth, square = h / 6.0, h * h / 6.0
        left = 1.0 - h * self.spin_decay
        return BallState(
            (
                px + h * vx + square * (ax + bx + cx),
                py + h * vy + square * (ay + by + cy),
                pz + h * vz + square * (az + bz + cz),
            ),
            (
                vx + sixth * (ax + 2.0 * bx + 2.0 * cx + dx),
                vy + sixth * (ay + 2.0 * by + 2.0 * cy + dy),
                vz + sixth * (az + 2.0 * bz + 2.0 * cz + dz),
            ),
            (wx * left, wy * left, wz * left),
        )

    def energy(self, ball: BallState) -> float:
        """Energy of flight, spin and height above the floor [J]; the ball is a thin shell."""
        squares = [sum(x * x for x in part) for part in (ball.velocity, ball.spin)]
        turning = self.radius**2 * squares[1] / 1.5
        return self.mass * (0.5 * (squares[0] + turning) + self.gravity * ball.position[2])


def rebound(
    ball: BallState,
    normal: Triple,
    surface: Triple,
    *,
    radius: float,
    restitution: float,
    grip: float,
    friction: float,
) -> BallState:
    """The ball just after it met a surface, where it was just before.

    The surface pushes along its normal and rubs against the sliding of the ball's touching point,
    whose velocity is s:

        dv = -(1 + e) v_n n - k s,   dspin = 3 k / (2 r) n x s,   k = min(grip, mu (1 + e) |v_n| /
        |s|)

    With a grip of 2/5 a ball that does not slide leaves rolling (Nakashima et al. 2010); more would
    throw its surface back. Between them momentum and angular momentum are kept whatever k is, and
    energy does not grow up to k = 4/5.

    Args:
        ball: just before.
        normal: of the surface, towards the ball, of length 1.
        surface: velocity of the surface where it is touched [m/s].
        radius: of the ball [m].
        restitution: e, the part of the normal speed that is left.
        grip: largest k.
        friction: mu of the sliding ball; infinite where it never slides.
    """
    relative = minus(ball.velocity, surface)
    coming = dot(relative, normal)
    arm = scaled(-radius, normal)
    slide = minus(plus(relative, cross(ball.spin, arm)), scaled(coming, normal))
    sliding = math.sqrt(dot(slide, slide))
    push = (1.0 + restitution) * abs(coming)
    k = min(grip, friction * push / sliding) if sliding > 1e-9 else grip
    change = plus(scaled(push, normal), scaled(-k, slide))
    turn = scaled(1.5 * k / radius, cross(normal, slide))
    return BallState(ball.position, plus(ball.velocity, change), plus(ball.spin, turn))


class Obstacle(enum.Enum):
    """What the ball met within a step."""

    NOTHING = enum.auto()
    TABLE = enum.auto()
    NET = enum.auto()
    FLOOR = enum.auto()


@dataclass(frozen=True)
class Room:
    """Places and surfaces. [R] lab's source, [L] literature, [C] calibrated, [A] assumed.

    World frame: z up, floor at z = 0, balls come along -y, the arm reaches to +x; the lab's
    simulation and its recorded balls are given in it.
    """

    base: Triple = (0.0, 0.0, 1.21)  # Origin of the arm's base, its axes along the world's [m] [R].
    table: Triple = (0.4, 1.57, 0.775)
    """Middle of the table's top; the net stands above it, along x [m] [R]."""
    half_width: float = 0.7625  # Of the table, along x [m] [R].
    half_length: float = 1.37  # Of the table, along y [m] [R].
    net_height: float = 0.1525  # Above the top [m]; the rules.
    net_half_width: float = 0.915  # Along x, posts included [m]; the rules.
    friction: float = 0.25  # mu of the ball on the table [L: Nakashima et al. 2010].
    grip: float = 0.424  # Largest part of the touching point's sliding that a bounce takes [C].
    restitution: float = 0.927  # Of the table, at the mean impact [C].
    restitution_slope: float = -0.04  # Change with the speed of the impact [s/m] [C].
    impact: float = 3.9  # Mean vertical speed of the impact [m/s] [C].
    restitution_spread: float = 0.012  # Standard deviation from bounce to bounce [C].
    tape_restitution: float = 0.4  # Of the net's upper edge [A].
    net_speed: float = 0.08
    """Part of its speed that the ball keeps when it runs into the net, backwards [A]."""
    floor_restitution: float = 0.75  # [A]

    @property
    def net_top(self) -> float:
        """Height of the net's upper edge [m]."""
        return self.table[2] + self.net_height

    def over_table(self, position: Triple) -> bool:
        """Whether the ball's centre is above or below the table's top."""
        return (
            abs(position[0] - self.table[0]) <= self.half_width
            and abs(position[1] - self.table[1]) <= self.half_length
        )

    def step(
        self, physics: BallPhysics, ball: BallState, h: float, luck: float = 0.0
    ) -> tuple[BallState, Obstacle]:
        """The ball ``h`` [s] later, off whatever it meets, and what that was.

        ``luck``, in standard deviations, is how much more than usual the table gives back.
        """
        after = physics.flown(ball, h)
        height = self.table[2] + physics.radius
        if after.position[2] < height <= ball.position[2]:
            until = h * (ball.position[2] - height) / (ball.position[2] - after.position[2])
            touching = physics.flown(ball, until)
            if self.over_table(touching.position):
                x, y, _ = touching.position
                restitution = self.table_restitution(-touching.velocity[2], luck)
                up = self._off(physics, touching._replace(position=(x, y, height)), restitution)
                return physics.flown(up, h - until), Obstacle.TABLE
        if abs(after.position[1] - self.table[1]) < 2.0 * physics.radius:
            after, touched = self._at_net(physics, ball, after)
            if touched:
                return after, Obstacle.NET
        if after.position[2] < physics.radius and after.velocity[2] < 0.0:
            x, y, _ = after.position
            lying = after._replace(position=(x, y, physics.radius))
            return self._off(physics, lying, self.floor_restitution), Obstacle.FLOOR
        return after, Obstacle.NOTHING

    def table_restitution(self, speed: float, luck: float = 0.0) -> float:
        """Part of the vertical ``speed`` [m/s] that a bounce leaves."""
        usual = self.restitution + self.restitution_slope * (speed - self.impact)
        return min(max(usual + self.restitution_spread * luck, 0.0), 1.0)

    def _off(self, physics: BallPhysics, ball: BallState, restitution: float) -> BallState:
        """The ball off something flat and level."""
        return rebound(
            ball,
            (0.0, 0.0, 1.0),
            (0.0, 0.0, 0.0),
            radius=physics.radius,
            restitution=restitution,
            grip=self.grip,
            friction=self.friction,
        )

    def _at_net(
        self, physics: BallPhysics, before: BallState, ball: BallState
    ) -> tuple[BallState, bool]:
        """The ball near the net, and whether it touches tape (thrown back) or mesh (caught)."""
        (x, y, z), (vx, vy, vz), _ = ball
        if abs(x - self.table[0]) > self.net_half_width:
            return ball, False
        aside, above = y - self.table[1], z - self.net_top
        if above < 0.0:
            if aside * (before.position[1] - self.table[1]) > 0.0 or vy == 0.0:
                return ball, False
            back = (before.position[0], before.position[1], z)
            return BallState(
                back, (0.3 * vx, -self.net_speed * vy, 0.3 * vz), (0.0, 0.0, 0.0)
            ), True
        apart = (aside * aside + above * above) ** 0.5
        if apart >= physics.radius or aside * vy + above * vz >= 0.0:
            return ball, False
        normal = (0.0, aside / apart, above / apart)
        bounced = rebound(
            ball,
            normal,
            (0.0, 0.0, 0.0),
            radius=physics.radius,
            restitution=self.tape_restitution,
            grip=0.2,
            friction=float("inf"),
        )
        return bounced, True


Rows = tuple[Triple, Triple, Triple]


@dataclass(frozen=True)
class RacketModel:
    """The racket and its spread. [R] lab's source, [D] from recorded hits, [A] assumed.

    The blade is an elliptic plate. Its nearest point decides: over the face the ball is pushed
    along the face's normal, at the rim away from the rim. Every hit has its own restitution,
    tangential factor and local tilt: rubber is sponge, pimples and dust.
    """

    half_width: float = 0.0743  # Across the handle [m] [R].
    half_length: float = 0.0941  # Along the handle [m] [R].
    half_thickness: float = 0.006  # Blade and rubbers [m] [A].
    reach: float = 0.361  # From the elbow to the middle of the blade [m] [R].
    reach_spread: float = 0.003  # Of that, between specimens [m] [A].
    mount_spread: float = math.radians(0.5)
    """How crooked the racket is screwed on, about each axis across its normal [rad] [A]."""
    restitution: float = 0.70  # Mean of the normal restitution [D].
    restitution_spread: float = 0.08  # From hit to hit [D].
    tangential: tuple[float, float] = (0.5, 0.9)
    """Least and most that is left of the speed along the face, without spin [D]."""
    unevenness: float = math.radians(1.0)
    """Tilt of the face where it is hit, about each axis across its normal [rad] [A]."""


class Racket(NamedTuple):
    """Where the racket is, in the world frame."""

    position: Triple  # Middle of the blade [m].
    axes: Rows  # Across the handle, normal of the face, along the handle: rows, each of length 1.


class Hit(NamedTuple):
    """What is particular about one hit."""

    restitution: float
    tangential: float
    tilt: tuple[float, float]  # Of the normal across and along the handle [rad].


class Hand:
    """Forward kinematics of the true arm: z, y, y, z, and then the racket."""

    def __init__(
        self, offset: Float[np.ndarray, "4 3"], base: Triple, model: RacketModel, *, seed: int
    ) -> None:
        """``offset`` [m]: joint origins, each in the frame of the link before."""
        chance = np.clip(
            np.random.default_rng([seed, 0x4ACE]).standard_normal(3), -2.0, 2.0
        ).tolist()
        self._offset = np.asarray(offset, float).tolist()
        self._base = base
        self._reach = model.reach + model.reach_spread * chance[0]
        self._crooked = (model.mount_spread * chance[1], model.mount_spread * chance[2])

    def racket(self, q: Float[np.ndarray, "4"]) -> Racket:
        """The racket at the true joint angles ``q`` [rad]."""
        q1, q2, q3, q4 = q.tolist()
        c1, s1, c4, s4 = math.cos(q1), math.sin(q1), math.cos(q4), math.sin(q4)
        c2, s2, c3, s3 = math.cos(q2), math.sin(q2), math.cos(q2 + q3), math.sin(q2 + q3)
        # Link 1 turns about z, links 2 and 3 about its y axis; the frames' rows below are in the
        # arm's upright plane.
        (ax, ay, az), (bx, by, bz), (ex, ey, ez), (fx, fy, fz) = self._offset
        x = bx + c2 * ex + s2 * ez + c3 * fx + s3 * (fz + self._reach)
        y = by + ey + fy
        z = az + bz - s2 * ex + c2 * ez - s3 * fx + c3 * (fz + self._reach)
        position = (
            self._base[0] + ax + c1 * x - s1 * y,
            self._base[1] + ay + s1 * x + c1 * y,
            self._base[2] + z,
        )
        across, along = (c3 * c4, s4, -s3 * c4), (s3, 0.0, c3)
        normal = _tilted((-c3 * s4, c4, s3 * s4), across, along, self._crooked)
        across = unit(minus(across, scaled(dot(across, normal), normal)))
        turn = lambda w: (c1 * w[0] - s1 * w[1], s1 * w[0] + c1 * w[1], w[2])
        return Racket(position, (turn(across), turn(normal), turn(cross(across, normal))))


def drawn_hit(model: RacketModel, chance: np.random.Generator) -> Hit:
    """What the next hit will be like."""
    normal = chance.standard_normal(3)
    restitution = model.restitution + model.restitution_spread * float(
        np.clip(normal[0], -2.5, 2.5)
    )
    tilt = (model.unevenness * float(normal[1]), model.unevenness * float(normal[2]))
    return Hit(restitution, float(chance.uniform(*model.tangential)), tilt)


def gap(ball: Triple, racket: Racket, model: RacketModel, radius: float) -> tuple[float, Triple]:
    """Distance of ball and racket [m], negative where they overlap; direction to the ball."""
    from_middle = minus(ball, racket.position)
    a, n, b = (dot(axis, from_middle) for axis in racket.axes)
    beyond = math.sqrt((a / model.half_width) ** 2 + (b / model.half_length) ** 2)
    # Outside of the ellipse: from the rim, where the line to the middle crosses it.
    out = 0.0 if beyond <= 1.0 else 1.0 - 1.0 / beyond
    far = math.sqrt((out * a) ** 2 + n**2 + (out * b) ** 2)
    if far < 1e-9:
        return -radius - model.half_thickness, racket.axes[1]
    across, normal, along = racket.axes
    off = plus(
        plus(scaled(out * a / far, across), scaled(n / far, normal)), scaled(out * b / far, along)
    )
    return far - radius - model.half_thickness, off


def struck(
    ball: BallState,
    before: Racket,
    now: Racket,
    dt: float,
    hit: Hit,
    model: RacketModel,
    physics: BallPhysics,
) -> BallState | None:
    """The ball off the racket, if they overlap and come nearer; None if not.

    The racket came from ``before`` to where it is ``now`` in ``dt`` [s]. The ball is put back to
    where it touches.
    """
    apart, normal = gap(ball.position, now, model, physics.radius)
    if apart > 0.0:
        return None
    # The touching point moves with the middle of the racket and turns with its axes.
    arm = minus(minus(ball.position, scaled(physics.radius, normal)), now.position)
    surface = minus(now.position, before.position)
    for axis, then in zip(now.axes, before.axes, strict=True):
        surface = plus(surface, scaled(dot(axis, arm), minus(axis, then)))
    surface = scaled(1.0 / dt, surface)
    tilted = _tilted(normal, now.axes[0], now.axes[2], hit.tilt)
    if dot(minus(ball.velocity, surface), tilted) >= 0.0:
        return None
    return rebound(
        ball._replace(position=minus(ball.position, scaled(apart, normal))),
        tilted,
        surface,
        radius=physics.radius,
        restitution=hit.restitution,
        grip=1.0 - hit.tangential,
        friction=math.inf,
    )


def between(a: Racket, b: Racket, part: float) -> Racket:
    """The racket at ``part`` (0 to 1) of the way from ``a`` to ``b``, which are a tick apart."""
    axes = [unit(mixed(u, v, part)) for u, v in zip(a.axes, b.axes, strict=True)]
    return Racket(mixed(a.position, b.position, part), (axes[0], axes[1], axes[2]))


def _tilted(normal: Triple, across: Triple, along: Triple, tilt: tuple[float, float]) -> Triple:
    return unit(plus(normal, plus(scaled(tilt[0], across), scaled(tilt[1], along))))


#: What a shot is drawn in: x, y, z where the ball is first seen [m], speed [m/s], azimuth and
#: elevation [rad], topspin and sidespin [rad/s].
QUANTITIES = ("x", "y", "z", "speed", "azimuth", "elevation", "topspin", "sidespin")


@dataclass(frozen=True)
class BallGun:
    """Means and spreads of a shot; all of them [C], fitted to recorded balls.

    Its numbers were fitted to the 60 recorded balls of the group ``originals_2019`` (a commercial
    ball gun, 2019-07-15; intelligent-soft-robots, BSD-3-Clause) under the physics of this package,
    ball by ball; ``benchmarks/virtual_ball_gun.py`` repeats that and sets recorded and virtual
    balls side by side.
    """

    mean: tuple[float, ...] = (0.4636, 2.9513, 1.3729, 4.7128, 0.0510, 0.5012, 44.1, 4.4)
    """Of ``QUANTITIES``; azimuth is from -y towards +x."""
    spread: tuple[float, ...] = (0.0093, 0.0164, 0.0181, 0.1279, 0.0240, 0.0220, 6.0, 5.0)
    """Standard deviations between balls. Those of the spins are less than the fit's, which contain
    its noise."""
    correlation: tuple[tuple[float, ...], ...] = (
        (1.00, 0.11, -0.13, 0.02, 0.57, -0.07, 0.25, 0.30),
        (0.11, 1.00, -0.62, -0.04, 0.20, 0.26, 0.16, 0.02),
        (-0.13, -0.62, 1.00, 0.72, -0.19, 0.53, -0.60, -0.03),
        (0.02, -0.04, 0.72, 1.00, 0.05, 0.83, -0.47, -0.05),
        (0.57, 0.20, -0.19, 0.05, 1.00, -0.03, 0.18, -0.46),
        (-0.07, 0.26, 0.53, 0.83, -0.03, 1.00, -0.32, -0.09),
        (0.25, 0.16, -0.60, -0.47, 0.18, -0.32, 1.00, 0.09),
        (0.30, 0.02, -0.03, -0.05, -0.46, -0.09, 0.09, 1.00),
    )
    """Of the same. A ball that is gripped well leaves faster, higher and with less spin; y and z
    vary along the path, by when it is first seen."""

    @cached_property
    def _root(self) -> Float[np.ndarray, "8 8"]:
        values, vectors = np.linalg.eigh(np.array(self.correlation))
        return np.array(self.spread)[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))

    def shot(self, trial: int) -> BallState:
        """Ball number ``trial`` where it is first seen; the same number is the same ball."""
        chance = np.random.default_rng([0xBA11, trial]).standard_normal(len(QUANTITIES))
        x, y, z, speed, azimuth, elevation, top, side = (
            np.array(self.mean) + self._root @ chance
        ).tolist()
        level = speed * math.cos(elevation)
        sine, cosine = math.sin(azimuth), math.cos(azimuth)
        # Topspin turns about the level axis across the flight: the ball's upper side runs ahead.
        return BallState(
            (x, y, z),
            (level * sine, -level * cosine, speed * math.sin(elevation)),
            (top * cosine, top * sine, side),
        )
