"""The virtual PAMY2 at table tennis: a gun, a table, a racket, and a ball that is really there
(``docs/virtual-table-tennis.md`` has a program that plays).

The true ball spins, the air drags and lifts it, and what it touches changes its spin::

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
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from genan.errors import SettingError, refuse
from genan.robots.pamy2.pressures import Joints, Muscles
from genan.robots.pamy2.virtual import DESIGN
from genan.robots.pamy2.virtual.parameters import design
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.robots.pamy2.virtual.tracking import Cameras, Point

Triple = tuple[float, float, float]
Rub = tuple[float, float, float]  # Restitution e, grip (the largest k), friction mu; inf: no slide.
Offsets = Float[np.ndarray, "4 3"]  # Joint origins, each in the frame of the link before [m].
STEP = 0.0005  # Longest step of the flight [s].
#: What a shot is drawn in: x, y, z where the ball is first seen [m], speed [m/s], azimuth and
#: elevation [rad], topspin and sidespin [rad/s].
QUANTITIES = ("x", "y", "z", "speed", "azimuth", "elevation", "topspin", "sidespin")
_LONGEST = 5.0  # A ball that is not judged by then is given up [s]; none flies that long.
Obstacle = enum.Enum("Obstacle", "NOTHING TABLE NET FLOOR")  # What the ball met within a step.
# Vectors as triples of plain floats: for a single ball quicker than arrays of three.
_STILL, _UP = (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)
_plus = lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2])
_minus = lambda a, b: (a[0] - b[0], a[1] - b[1], a[2] - b[2])
_scaled = lambda s, a: (s * a[0], s * a[1], s * a[2])
_ahead = lambda a, s, b: (a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2])
_dot = lambda a, b: a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
_unit = lambda a: _scaled(1.0 / math.sqrt(_dot(a, a)), a)
_tilted = lambda a, b, c, by: _unit(_plus(a, _ahead(_scaled(by[0], b), by[1], c)))


def _cross(a: Triple, b: Triple) -> Triple:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


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
    lift_saturation: float = 8.0  # C_L S stays below slope / this [A]; the slope was fitted to it.
    spin_decay: float = 0.05  # Share of the spin that the air takes in a second [1/s] [A].

    @cached_property
    def _air(self) -> float:
        return 0.5 * self.density * math.pi * self.radius**2 / self.mass

    def acceleration(self, velocity: Triple, spin: Triple, turning: float) -> Triple:
        """Of the ball in the air [m/s^2]; ``turning``: the speed of its surface [m/s]."""
        speed = _dot(velocity, velocity) ** 0.5
        drag = self._air * self.drag * speed
        slower = speed + self.lift_saturation * turning + 1e-12
        lift = self._air * self.lift_slope * self.radius * speed / slower
        x, y, z = _ahead(_scaled(lift, _cross(spin, velocity)), -drag, velocity)
        return x, y, z - self.gravity

    def flown(self, ball: BallState, h: float) -> BallState:
        """The ball ``h`` [s] later, if it meets nothing: one step of Runge and Kutta."""
        p, v, w = ball
        # The spin changes so little that its value halfway serves the step.
        spin = _scaled(1.0 - 0.5 * h * self.spin_decay, w)
        turning = self.radius * _dot(spin, spin) ** 0.5
        a = self.acceleration(v, spin, turning)
        b = self.acceleration(_ahead(v, 0.5 * h, a), spin, turning)
        c = self.acceleration(_ahead(v, 0.5 * h, b), spin, turning)
        d = self.acceleration(_ahead(v, h, c), spin, turning)
        position = _ahead(_ahead(p, h, v), h * h / 6.0, _plus(_plus(a, b), c))
        velocity = _ahead(v, h / 6.0, _plus(_ahead(_ahead(a, 2.0, b), 2.0, c), d))
        return BallState(position, velocity, _scaled(1.0 - h * self.spin_decay, w))


def rebound(ball: BallState, normal: Triple, surface: Triple, radius: float, rub: Rub) -> BallState:
    """The ball just after it met a surface, where it was just before.

    The surface pushes along its normal and rubs against the sliding of the ball's touching point,
    whose velocity is s::

        dv = -(1 + e) v_n n - k s,   dspin = 3 k / (2 r) n x s,
        k = min(grip, mu (1 + e) |v_n| / |s|)

    With a grip of 2/5 a ball that does not slide leaves rolling (Nakashima et al. 2010); more would
    throw its surface back. Momentum and angular momentum are kept whatever k is, and energy does
    not grow up to k = 4/5. ``normal``, of length 1, is towards the ball, ``surface`` [m/s] the
    velocity of the touched place.
    """
    restitution, grip, friction = rub
    relative = _minus(ball.velocity, surface)
    coming = _dot(relative, normal)
    turning = _cross(ball.spin, _scaled(-radius, normal))
    slide = _ahead(_plus(relative, turning), -coming, normal)
    sliding = math.sqrt(_dot(slide, slide))
    push = (1.0 + restitution) * abs(coming)
    k = min(grip, friction * push / sliding) if sliding > 1e-9 else grip
    velocity = _plus(ball.velocity, _ahead(_scaled(push, normal), -k, slide))
    spin = _ahead(ball.spin, 1.5 * k / radius, _cross(normal, slide))
    return BallState(ball.position, velocity, spin)


@dataclass(frozen=True)
class Room:
    """Places and surfaces. [R] lab's source, [L] literature, [C] calibrated, [A] assumed. World
    frame, the lab's: z up, floor at z = 0, balls come along -y, the arm reaches to +x."""

    base: Triple = (0.0, 0.0, 1.21)  # Origin of the arm's base, its axes along the world's [m] [R].
    table: Triple = (0.4, 1.57, 0.775)  # Middle of its top; the net is above, along x [m] [R].
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
    net_speed: float = 0.08  # Part of its speed that a ball in the net keeps, backwards [A].
    floor_restitution: float = 0.75  # [A]

    def step(
        self, physics: BallPhysics, ball: BallState, h: float, luck: float = 0.0
    ) -> tuple[BallState, Obstacle]:
        """The ball ``h`` [s] later, off whatever it meets, and what that was; ``luck``, in
        standard deviations, is how much more than usual the table gives back."""
        after = physics.flown(ball, h)
        height = self.table[2] + physics.radius
        if after.position[2] < height <= ball.position[2]:
            until = h * (ball.position[2] - height) / (ball.position[2] - after.position[2])
            touching = physics.flown(ball, until)
            x, y, _ = touching.position
            beside = abs(x - self.table[0]) > self.half_width
            if not beside and abs(y - self.table[1]) <= self.half_length:
                faster = -touching.velocity[2] - self.impact
                more = self.restitution_slope * faster + self.restitution_spread * luck
                restitution = min(max(self.restitution + more, 0.0), 1.0)
                up = self._off(physics, touching._replace(position=(x, y, height)), restitution)
                return physics.flown(up, h - until), Obstacle.TABLE
        near = abs(after.position[1] - self.table[1]) < 2.0 * physics.radius
        if near and (off := self._at_net(physics, ball, after)) is not None:
            return off, Obstacle.NET
        if after.position[2] < physics.radius and after.velocity[2] < 0.0:
            lying = after._replace(position=(*after.position[:2], physics.radius))
            return self._off(physics, lying, self.floor_restitution), Obstacle.FLOOR
        return after, Obstacle.NOTHING

    def _off(self, physics: BallPhysics, ball: BallState, restitution: float) -> BallState:
        """The ball off something flat and level."""
        rub = (restitution, self.grip, self.friction)
        return rebound(ball, _UP, _STILL, physics.radius, rub)

    def _at_net(self, physics: BallPhysics, before: BallState, ball: BallState) -> BallState | None:
        """The ball off the tape (thrown back) or mesh (caught); None if it touches neither."""
        (x, y, z), (vx, vy, vz), _ = ball
        aside, above = y - self.table[1], z - (self.table[2] + self.net_height)
        if abs(x - self.table[0]) > self.net_half_width:
            return None
        if above < 0.0:
            if aside * (before.position[1] - self.table[1]) > 0.0 or vy == 0.0:
                return None
            slowed = (0.3 * vx, -self.net_speed * vy, 0.3 * vz)
            return BallState((*before.position[:2], z), slowed, _STILL)
        apart = (aside * aside + above * above) ** 0.5
        if apart >= physics.radius or aside * vy + above * vz >= 0.0:
            return None
        off, tape = (0.0, aside / apart, above / apart), (self.tape_restitution, 0.2, math.inf)
        return rebound(ball, off, _STILL, physics.radius, tape)


class Racket(NamedTuple):
    """Where the racket is, in the world frame."""

    position: Triple  # Middle of the blade [m].
    axes: tuple[Triple, Triple, Triple]  # Across the handle, the face's normal, along the handle.

    def towards(self, other: "Racket", part: float) -> "Racket":
        """The racket at ``part`` (0 to 1) of the way to ``other``, a tick later."""
        pairs = zip((self.position, *self.axes), (other.position, *other.axes), strict=True)
        position, across, normal, along = (_ahead(a, part, _minus(b, a)) for a, b in pairs)
        return Racket(position, (_unit(across), _unit(normal), _unit(along)))


class Hit(NamedTuple):
    """What is particular about one hit."""

    restitution: float
    tangential: float
    tilt: tuple[float, float]  # Of the normal across and along the handle [rad].


@dataclass(frozen=True)
class RacketModel:
    """The racket and its spread. [R] lab's source, [D] from recorded hits, [A] assumed. An elliptic
    plate; its nearest point decides: over the face the ball is pushed along the normal, at the rim
    away from the rim. Every hit has its own restitution, tangential factor and tilt: rubber is
    sponge, pimples and dust."""

    half_width: float = 0.0743  # Across the handle [m] [R].
    half_length: float = 0.0941  # Along the handle [m] [R].
    half_thickness: float = 0.006  # Blade and rubbers [m] [A].
    reach: float = 0.361  # From the elbow to the middle of the blade [m] [R].
    reach_spread: float = 0.003  # Of that, between specimens [m] [A].
    mount_spread: float = math.radians(0.5)  # How crooked it is, about both axes [rad] [A].
    restitution: float = 0.70  # Mean of the normal restitution [D].
    restitution_spread: float = 0.08  # From hit to hit [D].
    tangential: tuple[float, float] = (0.5, 0.9)  # Left of the speed along the face, no spin [D].
    unevenness: float = math.radians(1.0)  # Tilt of the face where it is hit [rad] [A].

    def drawn_hit(self, chance: np.random.Generator) -> Hit:
        """What the next hit will be like."""
        more, across, along = chance.standard_normal(3).tolist()
        restitution = self.restitution + self.restitution_spread * min(max(more, -2.5), 2.5)
        tilt = (self.unevenness * across, self.unevenness * along)
        return Hit(restitution, float(chance.uniform(*self.tangential)), tilt)

    def gap(self, ball: Triple, racket: Racket, radius: float) -> tuple[float, Triple]:
        """Distance of ball and racket [m], negative where they overlap; direction to the ball."""
        from_middle = _minus(ball, racket.position)
        a, n, b = (_dot(axis, from_middle) for axis in racket.axes)
        beyond = math.sqrt((a / self.half_width) ** 2 + (b / self.half_length) ** 2)
        # Outside of the ellipse: from the rim, where the line to the middle crosses it.
        out = 0.0 if beyond <= 1.0 else 1.0 - 1.0 / beyond
        far = math.sqrt((out * a) ** 2 + n**2 + (out * b) ** 2)
        if far < 1e-9:
            return -radius - self.half_thickness, racket.axes[1]
        across, normal, along = racket.axes
        off = _ahead(_scaled(out * a / far, across), n / far, normal)
        return far - radius - self.half_thickness, _ahead(off, out * b / far, along)

    def struck(
        self, ball: BallState, before: Racket, now: Racket, hit: Hit, radius: float
    ) -> BallState | None:
        """The ball off the racket, put where it touches, if they overlap and come nearer, else
        None. The racket came from ``before`` to ``now`` in a ``STEP``."""
        apart, normal = self.gap(ball.position, now, radius)
        if apart > 0.0:
            return None
        # The touching point moves with the middle of the racket and turns with its axes.
        arm = _minus(_minus(ball.position, _scaled(radius, normal)), now.position)
        surface = _minus(now.position, before.position)
        for axis, then in zip(now.axes, before.axes, strict=True):
            surface = _ahead(surface, _dot(axis, arm), _minus(axis, then))
        surface = _scaled(1.0 / STEP, surface)
        tilted = _tilted(normal, now.axes[0], now.axes[2], hit.tilt)
        if _dot(_minus(ball.velocity, surface), tilted) >= 0.0:
            return None
        touching = ball._replace(position=_minus(ball.position, _scaled(apart, normal)))
        rub = (hit.restitution, 1.0 - hit.tangential, math.inf)
        return rebound(touching, tilted, surface, radius, rub)


class Hand:
    """Forward kinematics of the true arm: z, y, y, z, and then the racket."""

    def __init__(self, offset: Offsets, base: Triple, model: RacketModel, *, seed: int) -> None:
        drawn = np.random.default_rng([seed, 0x4ACE]).standard_normal(3)
        reach, across, along = np.clip(drawn, -2.0, 2.0).tolist()
        self._offset, self._base = np.asarray(offset, float).tolist(), base
        self._reach = model.reach + model.reach_spread * reach
        self._crooked = (model.mount_spread * across, model.mount_spread * along)

    def racket(self, q: Joints) -> Racket:
        """The racket at the true joint angles ``q`` [rad]."""
        q1, q2, q3, q4 = q.tolist()
        c1, s1, c4, s4 = math.cos(q1), math.sin(q1), math.cos(q4), math.sin(q4)
        c2, s2, c3, s3 = math.cos(q2), math.sin(q2), math.cos(q2 + q3), math.sin(q2 + q3)
        # Link 1 turns about z, links 2 and 3 about its y axis; rows are in the arm's upright plane.
        (ax, ay, az), (bx, by, bz), (ex, ey, ez), (fx, fy, fz) = self._offset
        x = bx + c2 * ex + s2 * ez + c3 * fx + s3 * (fz + self._reach)
        y = by + ey + fy
        z = az + bz - s2 * ex + c2 * ez - s3 * fx + c3 * (fz + self._reach)
        x0, y0, z0 = self._base
        position = (x0 + ax + c1 * x - s1 * y, y0 + ay + s1 * x + c1 * y, z0 + z)
        across, along = (c3 * c4, s4, -s3 * c4), (s3, 0.0, c3)
        normal = _tilted((-c3 * s4, c4, s3 * s4), across, along, self._crooked)
        across = _unit(_minus(across, _scaled(_dot(across, normal), normal)))
        turn = lambda w: (c1 * w[0] - s1 * w[1], s1 * w[0] + c1 * w[1], w[2])
        return Racket(position, (turn(across), turn(normal), turn(_cross(across, normal))))


class BallGun:
    """Shots with the means, spreads and correlations of ``design.toml``."""

    def __init__(self) -> None:
        self._mean, spread, correlation = (np.array(part) for part in DESIGN["gun"].values())
        values, vectors = np.linalg.eigh(correlation)
        self._root = spread[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))

    def shot(self, trial: int) -> BallState:
        """Ball number ``trial`` where it is first seen; the same number is the same ball."""
        chance = np.random.default_rng([0xBA11, trial]).standard_normal(len(QUANTITIES))
        drawn = self._mean + self._root @ chance
        x, y, z, speed, azimuth, elevation, top, side = drawn.tolist()
        level, sine, cosine = speed * math.cos(elevation), math.sin(azimuth), math.cos(azimuth)
        # Topspin turns about the level axis across the flight: the ball's upper side runs ahead.
        velocity = (level * sine, -level * cosine, speed * math.sin(elevation))
        return BallState((x, y, z), velocity, (top * cosine, top * sine, side))


class RallyOutcome(enum.Enum):
    """What became of a ball."""

    SUCCESS = "success"  # After the hit it first touched the opponent's half of the table.
    TOO_LONG = "too long"  # It flew over the opponent's end.
    TOO_SHORT = "too short"  # It came down on the robot's side of the net, or fell from the net.
    SIDE = "side"  # It passed the net and came down next to the table.
    MISSED = "missed"  # The racket did not touch it.


class TennisBench(VirtualPamy2):
    """One robot at one table: all that a ``VirtualPamy2`` does, with a ball. The same seed, hours,
    trial and commands give the same flight to the last bit."""

    gun, physics, room, racket_model = BallGun(), BallPhysics(), Room(), RacketModel()

    def __init__(self, *, seed: int = 0, hours: float = 0.0, drift: float = 1.0) -> None:
        offset = np.asarray(design().arm.offset)
        self._hand = Hand(offset, self.room.base, self.racket_model, seed=seed)
        super().__init__(seed=seed, hours=hours, drift=drift)

    def next_trial(self, trial: int) -> None:
        """Ready for another trial, and the ball taken away."""
        super().next_trial(trial)
        self._racket = self._hand.racket(np.asarray(self._state.q))
        self._begin(None)

    def _begin(self, ball: BallState | None) -> None:
        self._ball, self._steps = ball, 0
        self._outcome: RallyOutcome | None = None
        self._landing: Point | None = None
        self.hit = False  # Whether the racket has touched the ball.

    def launch(self, trial: int) -> None:
        """Shoot ball number ``trial``: the same for all robots, unlike the hit."""
        refuse((trial < 0, f"Balls are numbered from 0 on; got trial {trial}."))
        self._begin(self.gun.shot(trial))
        self._chance = np.random.default_rng([0x417, self.seed, trial])
        self._luck = float(np.random.default_rng([0xB0C, trial]).standard_normal())
        self._next_hit = self.racket_model.drawn_hit(self._chance)

    def command_pressures(self, pressure: Muscles) -> Muscles:
        """One tick of the robot, in which the ball flies on; the pressures sent [bar]."""
        sent = super().command_pressures(pressure)
        before, self._racket = self._racket, self._hand.racket(np.asarray(self._state.q))
        if self._ball is not None:
            steps = round(self.dt / STEP)
            path = [before.towards(self._racket, k / steps) for k in range(1, steps + 1)]
            for rackets in pairwise([before, *path]):
                self._step(rackets)
        return sent

    def tracker(self) -> Cameras:
        return Cameras(seed=self.seed)

    @property
    def time(self) -> float:
        """Since the launch [s]."""
        return self._steps * STEP

    @property
    def playing(self) -> bool:
        """Whether a ball is on its way and not judged yet."""
        return self._ball is not None and self._outcome is None

    def finish(self) -> RallyOutcome:
        """Let the ball fly on until it is judged, the robot still and out of its path."""
        while self._outcome is None:
            self._step()
        return self._outcome

    def outcome(self) -> RallyOutcome | None:
        """What became of the ball; None while that is open."""
        return self._outcome

    def landing(self) -> Point | None:
        """Where the ball came down to the table's height [m]; None before, or if missed."""
        return None if self._landing is None else self._landing.copy()

    def ball_for_evaluation_only(self) -> tuple[Point, Point, Point]:
        """True position [m], velocity [m/s] and spin [rad/s] in the world frame."""
        position, velocity, spin = map(np.array, self._launched())
        return position, velocity, spin

    def _launched(self) -> BallState:
        if self._ball is None:
            raise SettingError("There is no ball: launch(trial) first.")
        return self._ball

    def _step(self, rackets: tuple[Racket, Racket] | None = None) -> None:
        """One step of the ball; ``rackets``: where the racket comes from and where it is then."""
        old = self._launched()
        ball, touch = self.room.step(self.physics, old, STEP, self._luck)
        self._steps += 1
        if rackets is not None:
            off = self.racket_model.struck(ball, *rackets, self._next_hit, self.physics.radius)
            if off is not None:
                ball, self.hit = off, True
                self._next_hit = self.racket_model.drawn_hit(self._chance)
        self._ball = ball
        if self._outcome is None:
            self._judge(old, ball, touch)

    def _judge(self, old: BallState, ball: BallState, touch: Obstacle) -> None:
        """Whether this step decided it: coming down after a hit, the end without one."""
        room, (x, y, z), (middle, net, top) = self.room, ball.position, self.room.table
        ended = touch is Obstacle.FLOOR or self.time > _LONGEST
        if not self.hit:
            if ended or y < net - room.half_length - 2.0 or abs(x - middle) > 4.0:
                self._outcome = RallyOutcome.MISSED
            return
        height = top + self.physics.radius
        if not (ended or touch is Obstacle.TABLE or z < height <= old.position[2]):
            return
        self._landing = np.array([x, y, height])
        self._outcome = RallyOutcome.SUCCESS
        if y < net:
            self._outcome = RallyOutcome.TOO_SHORT
        elif abs(x - middle) > room.half_width:
            self._outcome = RallyOutcome.SIDE
        elif y > net + room.half_length:
            self._outcome = RallyOutcome.TOO_LONG
