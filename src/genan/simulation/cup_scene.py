"""``CupScene``: the arm with a cup, and a ball on a string, in steps of the robot's period.

The arm is the chain of ``genan.dynamics``; string, cup and links act on the ball by one-sided
impulses. ``docs/ball-in-a-cup.md`` says what was chosen and why; ``benchmarks/cup_model.py`` builds
the same scene for MuJoCo, as its judge.

The cup frame has its origin in the middle of the cup and its z axis along the cup's axis, out of
the opening. In the half plane of the ball's radius r and height z the cup is an L of two segments,
wall and bottom, thickened to ``thickness`` with round edges.

Seen from the cup, the ball's velocity u changes by W P under an impulse P, where W = 1/m + C M^-1
C^T is the inverse of the mass that the two bodies show each other. Every contact k asks for n_k . u
>= target_k with an impulse l_k >= 0 that is zero unless equality holds. This is the problem that
MuJoCo solves too, for constraints as stiff as the step allows; here it has four rows and the joint
limits, and a few sweeps of Gauss-Seidel unrolled over scalars solve it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.dynamics import ChainDynamics, chain
from genan.dynamics.base import Joints, check_shapes
from genan.dynamics.chain import Scalar, Scalars, Vector, add, cross, dot, mul, plus, scale
from genan.errors import RobotError, check_numbers, refuse
from genan.robot import Robot
from genan.simulation.simulator import LimitedArm, Tip, rounded

Vector3 = Float[Array, " 3"]
Number = Float[Array, ""]
Maybe = Number | None

CUP_SITE = "cup"  # Site of the model that is the cup frame.
_TINY = 1e-6  # Keeps divisions finite on the cup's axis, amid its wall or a link [m].
_STILL = 1e-5  # A ball slower than this does not slide [m/s].
_LIGHT = 1e-6  # Keeps a division finite where there is no direction to push in [1/kg].
_SWEEPS = 4  # Over limits, string, contacts: right to 5e-5 m/s for 99 % of fast swings.
_LIMIT_RECOVERY = 0.5  # A joint beyond its limit is brought back at this speed at most [rad/s].
_RULES = {
    "be a positive number": "ball_mass string_length ball_radius cup_radius cup_height thickness",
    "lie from 0 to 1": "restitution recovery",
    "be 0 or more": "friction bounce_speed recovery_speed",
}


@dataclass(frozen=True)
class CupSettings:
    """All numbers, in SI units. The paper gives the ball's mass and the string's length alone."""

    ball_mass: float = 0.054  # Mass of the ball [kg] (paper, ball-in-a-cup).
    string_length: float = 0.20  # To the ball's centre [m] (paper, table of hyperparameters).
    ball_radius: float = 0.025  # Radius of the ball [m]: 54 g are then 825 kg/m^3, hard wood.
    cup_radius: float = 0.045  # Outer radius of the cup [m], as drawn in the robot's model.
    cup_height: float = 0.080  # Outer height of the cup [m], as drawn in the robot's model.
    thickness: float = 0.004  # Of wall and bottom [m]: the opening is 82 mm wide and 76 mm deep.
    attachment: float = -0.040  # Of the string, height on the axis [m]: middle of the underside.
    restitution: float = 0.5  # Speed after an impact over the speed before it, along the normal.
    bounce_speed: float = 0.1  # Slower impacts do not rebound [m/s]; gravity adds a fifth in 2 ms.
    friction: float = 0.1  # Coulomb's, of ball and cup; the ball does not turn: slides and rolls.
    recovery: float = 0.2  # Part of an overlap of two bodies that is taken back in a step.
    recovery_speed: float = 0.5  # Highest speed at which an overlap is taken back [m/s].

    def __post_init__(self) -> None:
        check_numbers(self, _RULES)
        ball, opening = self.ball_radius, self.opening_radius
        deepest, string = self.floor + ball - self.attachment, self.string_length
        wide = f"A ball of radius {1e3 * ball:g} mm does not fit into an opening of radius"
        smaller = "give a smaller ball_radius, a larger cup_radius or a thinner cup"
        short = f"A string of {1e3 * string:g} mm does not reach the ball's place in the cup"
        longer = f"{1e3 * deepest:g} mm from its attachment; give a longer string_length"
        refuse(
            (not ball < opening, f"{wide} {1e3 * opening:g} mm; {smaller}."),
            (not deepest < string, f"{short}, {longer}."),
        )

    @property
    def opening_radius(self) -> float:
        """Inner radius of the cup [m]."""
        return self.cup_radius - self.thickness

    @property
    def floor(self) -> float:
        """Height of the bottom's inner side in the cup frame [m]."""
        return self.thickness - 0.5 * self.cup_height

    @property
    def rim(self) -> float:
        """Height of the rim in the cup frame [m]."""
        return 0.5 * self.cup_height


@dataclass(frozen=True)
class Capsule:
    """A link of the arm that the ball can hit, in the cup frame [m]."""

    start: Vector
    end: Vector
    radius: float


class ContactPoint(NamedTuple):
    """One place where the ball may be held or pushed."""

    normal: Vector  # Direction of the force on the ball, in the cup frame.
    distance: Scalar  # How far it can still move against ``normal`` [m]; below 0: overlap.

    @classmethod
    def at(cls, away: Vector, reach: float) -> "ContactPoint":
        """For a ball that is ``away`` from the nearest point, and touches it at ``reach`` [m]."""
        distance, inverse = _norm(away)
        return cls(scale(inverse, away), distance - reach)

    def target(self, settings: CupSettings, velocity: Vector, dt: float) -> Scalar:
        """Velocity along the normal [m/s] that a contact asks for. A ball that would reach the
        surface in this step leaves it with the speed of ``velocity`` times the restitution; one
        that is slow is stopped at the surface, and an overlap is taken back slowly."""
        approach = dot(self.normal, velocity)
        rebound = (approach < -settings.bounce_speed) & (self.distance + dt * approach < 0.0)
        recover = jnp.minimum(-settings.recovery / dt * self.distance, settings.recovery_speed)
        stop = jnp.where(self.distance > 0.0, -self.distance / dt, recover)
        return jnp.where(rebound, -settings.restitution * approach, stop)

    def sliding(self, velocity: Vector) -> Vector:
        """Unit vector along which ``velocity`` [m/s] slides; zero where it does not."""
        sliding = plus(velocity, scale(-dot(self.normal, velocity), self.normal))
        return scale(lax.rsqrt(jnp.asarray(add(dot(sliding, sliding), _STILL**2))), sliding)


def _cup_contacts(settings: CupSettings, ball: Vector) -> tuple[ContactPoint, ContactPoint]:
    """Wall (with the rim) and bottom, for a ball at ``ball`` in the cup frame."""
    x, y, z = ball
    half = 0.5 * settings.thickness
    middle, low, high = settings.cup_radius - half, half - settings.rim, settings.rim - half
    radius, inverse_radius = _norm((x, y, 0.0))
    outward = x * inverse_radius, y * inverse_radius

    def contact(across: Scalar, along: Scalar) -> ContactPoint:
        """From the vector from the nearest point of a segment, in the half plane."""
        (out, up, _), distance = ContactPoint.at((across, along, 0.0), settings.ball_radius + half)
        return ContactPoint((out * outward[0], out * outward[1], up), distance)

    wall = contact(radius - middle, z - jnp.clip(z, low, high))
    return wall, contact(radius - jnp.minimum(radius, middle), z - low)


def _link_contact(settings: CupSettings, link: Capsule, ball: Vector) -> ContactPoint:
    """The link ``link``, for a ball at ``ball`` in the cup frame."""
    along, from_start = (plus(end, scale(-1.0, link.start)) for end in (link.end, ball))
    part = jnp.clip(dot(along, from_start) / dot(along, along), 0.0, 1.0)
    away = plus(from_start, scale(-part, along))
    return ContactPoint.at(away, settings.ball_radius + link.radius)


def _norm(v: Vector) -> tuple[Scalar, Scalar]:
    """Length of ``v`` and its inverse."""
    square = add(dot(v, v), _TINY**2)
    inverse = lax.rsqrt(jnp.asarray(square))
    return square * inverse, inverse


Contact = tuple[Vector, Scalar, Vector | None]  # Normal, target along it [m/s], sliding.


def _solve_impulses(
    motion: Scalars,
    answers: Sequence[Scalars],
    limits: Sequence[tuple[Scalar, Scalar]],
    contacts: Sequence[Contact],
    friction: float,
) -> tuple[Vector, Scalars]:
    """Impulse on the ball [N s], in the cup frame, and velocities after all impulses.

    From the ``motion`` without any: velocities of the n joints [rad/s] and of the ball, seen from
    the cup and in its frame [m/s]. ``answers`` [n + 3, n + 3] is what impulses on these add to
    them, ``limits`` the lowest and highest velocity that keep a joint within its range. Everything
    that costs a division is done before the sweeps, which are then one loop to the compiler.
    """

    def prepared(direction: Scalars, light: float = _LIGHT) -> tuple[Scalars, Scalars, Scalar]:
        """A direction, what an impulse in it adds, and the impulse for a unit of velocity [kg]."""
        response = [dot(row, direction) for row in answers]
        return direction, response, 1.0 / add(dot(direction, response), light)

    def pushed(motion: Scalars, response: Scalars, impulse: Scalar) -> Scalars:
        return [add(v, mul(r, impulse)) for v, r in zip(motion, response, strict=True)]

    still = [0.0] * len(limits)
    rows: list[tuple[Any, Scalar, Scalar | None]] = [
        (prepared(joint, 0.0), *ends)
        for joint, ends in zip(np.eye(len(limits), len(motion)).tolist(), limits, strict=True)
    ]
    brakes = []
    for normal, target, sliding in contacts:
        if sliding is not None:
            brakes.append((len(rows), prepared([*still, *sliding])))
        rows.append((prepared([*still, *normal]), target, None))
    impulses: list[Scalar] = [0.0] * len(rows)
    for _ in range(_SWEEPS):
        for k, ((direction, response, unit), lower, upper) in enumerate(rows):
            velocity, impulse = dot(direction, motion), impulses[k]
            impulses[k] = jnp.maximum(impulse + (lower - velocity) * unit, 0.0)
            if upper is not None:
                impulses[k] += jnp.minimum(impulse + (upper - velocity) * unit, 0.0)
            motion = pushed(motion, response, impulses[k] - impulse)
    first = len(limits)
    pushes = [(row[0], by) for (row, _, _), by in zip(rows[first:], impulses[first:], strict=True)]
    for k, (direction, response, unit) in brakes:  # friction, once
        bound = friction * impulses[k]
        impulse = jnp.clip(-dot(direction, motion) * unit, -bound, bound)
        motion = pushed(motion, response, impulse)
        pushes.append((direction, impulse))
    return plus(*(scale(by, tuple(direction[-3:])) for direction, by in pushes)), motion


class CupState(eqx.Module):
    """One scene between two steps: joints first, then the ball in world coordinates."""

    qpos: Float[Array, "*batch coordinates"]  # Joint positions [rad] and the ball's centre [m].
    qvel: Float[Array, "*batch coordinates"]  # Velocities of joints [rad/s] and ball [m/s].
    ball_mass: Float[Array, "*batch"] | None = None  # Of this ball [kg]; None: of the settings.
    string_length: Float[Array, "*batch"] | None = None  # Of this string [m]; None: the same.


@final
class CupScene(LimitedArm):
    """Arm, cup, string and ball: functions of one state, to be batched by ``vmap``. Holds constants
    only, so that ``jax.jit`` takes its methods as they are."""

    dynamics: ChainDynamics
    settings: CupSettings = eqx.field(static=True)
    tip: Tip = eqx.field(static=True)  # The cup frame on the last link.
    links: tuple[Capsule, ...] = eqx.field(static=True)  # Of the body with the cup: hit too.

    @classmethod
    def load(cls, robot: Robot | str, settings: CupSettings | None = None) -> "CupScene":
        """The scene on ``robot``; refused without a cup at the end of a chain of hinges."""
        robot = Robot.load(robot)
        if robot.end_effector != CUP_SITE:
            has = f"The end_effector of the robot {robot.name!r} is {robot.end_effector!r}"
            needs = f"needs a robot whose end_effector is the site {CUP_SITE!r}"
            raise RobotError(f"{has}; ball-in-a-cup {needs} in its cup, z out of the opening.")
        tip = Tip.read(robot)
        if not all(link.hinge for link in tip.links):
            slides = f"The robot {robot.name!r} has a slide joint"
            raise RobotError(f"{slides}; ball-in-a-cup is made for arms of hinges.")
        model = robot.mj_model
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        site = model.site(CUP_SITE).id
        turn, origin = data.site_xmat[site].reshape(3, 3), data.site_xpos[site]
        capsules = model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
        capsules &= model.geom_bodyid == model.body_parentid[model.site_bodyid[site]]
        links = []
        for geom in np.flatnonzero(capsules):
            radius, half = model.geom_size[geom][:2]
            middle = turn.T @ (data.geom_xpos[geom] - origin)
            along = half * (turn.T @ data.geom_xmat[geom].reshape(3, 3)[:, 2])
            links.append(Capsule(rounded(middle - along), rounded(middle + along), float(radius)))
        limits = map(tuple, robot.q_range.tolist())
        return cls(ChainDynamics(robot), *limits, settings or CupSettings(), tip, tuple(links))

    def start(
        self,
        q: Joints,
        ball: Vector3,
        *,
        qd: Joints | None = None,
        ball_velocity: Vector3 | None = None,
        ball_mass: Maybe = None,
        string_length: Maybe = None,
    ) -> CupState:
        """The scene with the arm at ``q`` [rad] and the ball at ``ball`` [m], at rest unless
        velocities are given. A ball farther from the attachment than the string is long is put on
        the string's sphere. ``ball_mass`` [kg] and ``string_length`` [m] are for scenes that differ
        in them; left out, they are constants and cost nothing."""
        length = self.settings.string_length if string_length is None else string_length
        attachment = self.attachment(q)
        away = ball - attachment
        part = jnp.minimum(1.0, length / jnp.maximum(jnp.linalg.norm(away), 1e-6))
        qd = jnp.zeros_like(q) if qd is None else qd
        velocity = jnp.zeros_like(ball) if ball_velocity is None else ball_velocity
        qpos = jnp.concatenate([q, attachment + away * part])
        return CupState(qpos, jnp.concatenate([qd, velocity]), ball_mass, string_length)

    def on_sphere(self, q: Joints, *, key: PRNGKeyArray, string_length: Maybe = None) -> Vector3:
        """A ball position [m] drawn uniformly from the sphere of the string's length around its
        attachment. A draw inside a link (1 in 100) is taken to the opposite side of the sphere."""
        length = self.settings.string_length if string_length is None else string_length
        direction = jax.random.normal(key, (3,), q.dtype)
        direction = direction / jnp.linalg.norm(direction)
        position, rotation = self.cup_pose(q)
        above = jnp.asarray([0.0, 0.0, self.settings.attachment], q.dtype)
        ball = tuple(above + length * _times(rotation.T, direction))
        contacts = [_link_contact(self.settings, link, ball) for link in self.links]
        inside = jnp.any(jnp.asarray([contact.distance < 0.0 for contact in contacts]))
        return position + _times(rotation, above) + jnp.where(inside, -length, length) * direction

    def q(self, state: CupState) -> Joints:
        return state.qpos[: self.nq]

    def qd(self, state: CupState) -> Joints:
        return state.qvel[: self.nq]

    def ball(self, state: CupState) -> tuple[Vector3, Vector3]:
        """Position [m] and velocity [m/s] of the ball in world coordinates."""
        return state.qpos[self.nq :], state.qvel[self.nq :]

    def cup_pose(self, q: Joints) -> tuple[Vector3, Float[Array, "3 3"]]:
        """Origin of the cup frame [m] at ``q`` [rad], and its axes as columns, in the world."""
        check_shapes(self.nq, q)
        return self.tip.pose(q)

    def attachment(self, q: Joints) -> Vector3:
        """Where the string is tied [m], in world coordinates."""
        position, rotation = self.cup_pose(q)
        return position + self.settings.attachment * rotation[:, 2]

    def ball_in_cup_frame(self, state: CupState) -> Vector3:
        """The ball's centre in the cup frame [m]: z is along the cup's axis, out of the opening."""
        position, rotation = self.cup_pose(self.q(state))
        return _times(rotation.T, self.ball(state)[0] - position)

    def in_cup(self, state: CupState) -> Bool[Array, ""]:
        """Whether the ball's centre is within the cup's opening, between bottom and rim."""
        x, y, z = self.ball_in_cup_frame(state)
        cup = self.settings
        return (x * x + y * y < cup.opening_radius**2) & (z > cup.floor) & (z < cup.rim)

    def string_length(self, state: CupState) -> Number:
        """Distance from the string's attachment to the ball's centre [m]."""
        return jnp.linalg.norm(self.ball(state)[0] - self.attachment(self.q(state)))

    def step(self, state: CupState, tau: Joints) -> CupState:
        """The scene one ``dt`` later; all in scalars, which XLA fuses into one loop."""
        check_shapes(self.nq, tau)
        n, dt, cup, turn = self.nq, self.dt, self.settings, self.tip.rotation
        q, qd = [state.qpos[i] for i in range(n)], [state.qvel[i] for i in range(n)]
        mass = cup.ball_mass if state.ball_mass is None else state.ball_mass
        length = cup.string_length if state.string_length is None else state.string_length

        # The arm without the ball.
        poses = chain.place(self.dynamics.links, q)
        inertia = self.dynamics.inertia(poses)
        inverse = [chain.solve(inertia, unit) for unit in np.eye(n).tolist()]
        force = self.dynamics.net_force(poses, q, qd, [tau[i] for i in range(n)])
        qd = [add(v, mul(dt, dot(row, force))) for v, row in zip(qd, inverse, strict=True)]
        back = _LIMIT_RECOVERY
        limits = [
            (jnp.minimum((low - p) / dt, back), jnp.maximum((high - p) / dt, -back))
            for low, high, p in zip(self.lower, self.upper, q, strict=True)
        ]

        # Ball, its velocity, and per joint that of a point fixed to the cup, in the cup frame.
        gravity = self.dynamics.gravity
        flight: Vector = tuple(state.qvel[n + i] + dt * gravity[i] for i in range(3))
        velocity = flight
        ball: Vector = tuple(state.qpos[n + i] for i in range(3))
        axes: list[Vector] = []
        arms: list[Vector] = []  # from each joint's origin to the ball
        for pose in poses:
            ball = pose.to_link(plus(ball, scale(-1.0, pose.offset)))
            velocity = pose.to_link(velocity)
            axes = [*(pose.to_link(axis) for axis in axes), (0.0, 0.0, 1.0)]
            arms = [*(pose.to_link(arm) for arm in arms), ball]
        columns = [chain.unrotate(turn, moment) for moment in map(cross, axes, arms)]
        ball = chain.unrotate(turn, plus(ball, scale(-1.0, self.tip.position)))
        moved = (scale(-v, column) for v, column in zip(qd, columns, strict=True))
        free = plus(chain.unrotate(turn, velocity), *moved)

        # The string is no longer than itself after the step; only the cup has friction.
        away = (ball[0], ball[1], ball[2] - cup.attachment)
        distance, towards = _norm(away)
        contacts: list[Contact] = [(scale(-towards, away), -(length - distance) / dt, None)]
        for capsule in self.links:
            one = _link_contact(cup, capsule, ball)
            contacts.append((one.normal, one.target(cup, free, dt), None))
        for one in _cup_contacts(cup, ball):
            contacts.append((one.normal, one.target(cup, free, dt), one.sliding(free)))
        answers = _answers(inverse, columns, mass)
        push, motion = _solve_impulses([*qd, *free], answers, limits, contacts, cup.friction)
        push = chain.rotate(turn, push)
        for pose in reversed(poses):
            push = pose.to_parent(push)
        velocities = [*motion[:n], *plus(flight, scale(1.0 / mass, push))]
        qvel = chain.assemble(velocities, np.arange(n + 3), state.qvel.dtype)
        return replace(state, qpos=state.qpos + dt * qvel, qvel=qvel)


def _answers(inverse: Sequence[Scalars], columns: Sequence[Vector], mass: Scalar) -> list[Scalars]:
    """What impulses on n joints, and between cup and ball, add to the velocities [n + 3, n + 3]:
    from M^-1, C by columns (one per joint) and the mass of the ball [kg], M^-1, -M^-1 C^T and W."""
    coupling = [plus(*(scale(m, c) for m, c in zip(row, columns, strict=True))) for row in inverse]

    def entry(i: int, j: int) -> Scalar:
        i, j = min(i, j), max(i, j)
        own = add(*(mul(c[i], r[j]) for c, r in zip(columns, coupling, strict=True)))
        return add(own, 1.0 / mass) if i == j else own

    joints = [[*row, *scale(-1.0, c)] for row, c in zip(inverse, coupling, strict=True)]
    balls = [[*(-c[i] for c in coupling), *(entry(i, j) for j in range(3))] for i in range(3)]
    return [*joints, *balls]


def _times(matrix: Float[Array, "3 3"], vector: Vector3) -> Vector3:
    """Matrix times vector, summed elementwise: a GPU would round a matrix product to TF32."""
    return jnp.sum(matrix * vector, axis=1)
