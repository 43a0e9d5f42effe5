"""The ball, the string and the cup of ball-in-a-cup: every number of the scene, where the ball can
touch, and what that does to it.

The cup frame has its origin in the middle of the cup and its z axis along the cup's axis, out of
the opening. The cup is round, so everything happens in the half plane of the ball's radius r and
height z: the cup is an L of two segments, wall and bottom, thickened to ``thickness`` with round
edges.

Seen from the cup, the ball's velocity u changes by W P under an impulse P, where W = 1/m + C M^-1
C^T is the inverse of the mass that the two bodies show each other. Every contact k asks for n_k . u
>= target_k with an impulse l_k >= 0 that is zero unless equality holds. This is the problem that
MuJoCo solves too, for constraints as stiff as the step allows; here it has four rows and the joint
limits, and a few sweeps of Gauss-Seidel unrolled over scalars solve it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.dynamics import ChainDynamics
from genan.dynamics.algebra import (
    Scalar,
    Symmetric,
    Vector,
    add,
    cross,
    dot,
    mul,
    multiply,
    plus,
    rotate,
    scale,
    solve,
    sub,
    unrotate,
)
from genan.dynamics.base import check_shapes
from genan.dynamics.chain import Pose, composite_inertia, newton_euler, place
from genan.errors import RobotError, SettingError
from genan.robot import Robot
from genan.simulation.simulator import Tip, bounds_of, rounded

#: Keeps a division finite where the ball's centre lies on the cup's axis, in the middle of the wall
#: or of a link [m].
_TINY = 1e-6
#: A ball slower than this does not slide [m/s].
_STILL = 1e-5
#: Keeps a division finite where there is no direction to push in [1/kg].
_LIGHT = 1e-6


@dataclass(frozen=True)
class CupSettings:
    """All numbers, in SI units. The paper gives the ball's mass and the string's length alone."""

    ball_mass: float = 0.054  # Mass of the ball [kg] (paper, ball-in-a-cup).
    string_length: float = 0.20
    """From the attachment point to the ball's centre [m] (paper, table of hyperparameters)."""
    ball_radius: float = 0.025  # Radius of the ball [m]: 54 g are then 825 kg/m^3, hard wood.
    cup_radius: float = 0.045  # Outer radius of the cup [m], as drawn in the robot's model.
    cup_height: float = 0.080  # Outer height of the cup [m], as drawn in the robot's model.
    thickness: float = 0.004
    """Of wall and bottom [m]: the opening is 82 mm wide and 76 mm deep. Edges are round."""
    attachment: float = -0.040
    """Height of the string's attachment on the cup's axis [m]: the middle of the underside."""
    restitution: float = 0.5  # Speed after an impact over the speed before it, along the normal.
    bounce_speed: float = 0.1
    """Slower impacts do not rebound [m/s]; gravity adds a fifth of this in a step of 2 ms."""
    friction: float = 0.1
    """Coulomb coefficient between ball and cup; the ball does not turn: sliding and rolling."""
    recovery: float = 0.2  # Part of an overlap of two bodies that is taken back in a step.
    recovery_speed: float = 0.5  # Highest speed at which an overlap is taken back [m/s].

    def __post_init__(self) -> None:
        sizes = ("ball_mass", "string_length", "ball_radius", "cup_radius", "cup_height")
        for names, low, high, words in (
            ((*sizes, "thickness"), math.ulp(0.0), math.inf, "be a positive number (kg or m)"),
            (("restitution", "recovery"), 0.0, 1.0, "lie between 0 and 1"),
            (
                ("friction", "bounce_speed", "recovery_speed"),
                0.0,
                math.inf,
                "be zero or a positive number",
            ),
        ):
            for name in names:
                value = getattr(self, name)
                if not (low <= value <= high and math.isfinite(value)):
                    raise SettingError(f"{name} must {words}, not {value!r}.")
        if not self.ball_radius < self.opening_radius:
            raise SettingError(
                f"A ball of radius {1e3 * self.ball_radius:g} mm does not fit into an opening of "
                f"radius {1e3 * self.opening_radius:g} mm; give a smaller ball_radius, a larger "
                "cup_radius or a thinner cup."
            )
        deepest = self.floor + self.ball_radius - self.attachment
        if not deepest < self.string_length:
            raise SettingError(
                f"A string of {1e3 * self.string_length:g} mm does not reach the ball's place in "
                f"the cup, which is {1e3 * deepest:g} mm from its attachment; give a longer "
                "string_length."
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
    distance: Scalar
    """How far the ball can still move against ``normal`` [m]; negative in an overlap."""

    def target(self, settings: CupSettings, velocity: Vector, dt: float) -> Scalar:
        """Velocity along the normal [m/s] that a contact asks for.

        A ball that would reach the surface in this step leaves it with the speed of ``velocity``
        times the restitution; one that is slow is stopped at the surface, and an overlap is taken
        back slowly.
        """
        approach = dot(self.normal, velocity)
        rebound = (approach < -settings.bounce_speed) & (self.distance + dt * approach < 0.0)
        recover = jnp.minimum(-settings.recovery / dt * self.distance, settings.recovery_speed)
        stop = jnp.where(self.distance > 0.0, -self.distance / dt, recover)
        return jnp.where(rebound, -settings.restitution * approach, stop)

    def sliding(self, velocity: Vector) -> Vector:
        """Unit vector along which ``velocity`` [m/s] slides; zero where it does not."""
        sliding = plus(velocity, scale(-dot(self.normal, velocity), self.normal))
        return scale(lax.rsqrt(jnp.asarray(add(dot(sliding, sliding), _STILL**2))), sliding)


def string_contact(settings: CupSettings, ball: Vector, length: Scalar) -> ContactPoint:
    """The string of ``length`` [m], when taut, pulls ``ball`` to its attachment."""
    away = (ball[0], ball[1], ball[2] - settings.attachment)
    distance, inverse = _norm(away)
    return ContactPoint(scale(-inverse, away), length - distance)


def cup_contacts(settings: CupSettings, ball: Vector) -> tuple[ContactPoint, ContactPoint]:
    """Wall (with the rim) and bottom, for a ball at ``ball`` in the cup frame."""
    x, y, z = ball
    half = 0.5 * settings.thickness
    middle, low, high = settings.cup_radius - half, half - settings.rim, settings.rim - half
    radius, inverse_radius = _norm((x, y, 0.0))
    outward = x * inverse_radius, y * inverse_radius
    reach = settings.ball_radius + half

    def contact(across: Scalar, along: Scalar) -> ContactPoint:
        """From the vector from the nearest point of a segment, in the half plane."""
        distance, inverse = _norm((across, along, 0.0))
        normal = across * inverse * outward[0], across * inverse * outward[1], along * inverse
        return ContactPoint(normal, distance - reach)

    wall = contact(radius - middle, z - jnp.clip(z, low, high))
    bottom = contact(radius - jnp.minimum(radius, middle), z - low)
    return wall, bottom


def link_contact(settings: CupSettings, link: Capsule, ball: Vector) -> ContactPoint:
    """The link ``link``, for a ball at ``ball`` in the cup frame."""
    start = link.start
    along = tuple(b - a for a, b in zip(start, link.end, strict=True))
    from_start = (ball[0] - start[0], ball[1] - start[1], ball[2] - start[2])
    part = jnp.clip(dot(along, from_start) / sum(a * a for a in along), 0.0, 1.0)
    away = plus(from_start, scale(-part, (along[0], along[1], along[2])))
    distance, inverse = _norm(away)
    return ContactPoint(scale(inverse, away), distance - settings.ball_radius - link.radius)


def _norm(v: Vector) -> tuple[Scalar, Scalar]:
    """Length of ``v`` and its inverse."""
    square = add(dot(v, v), _TINY**2)
    inverse = lax.rsqrt(jnp.asarray(square))
    return square * inverse, inverse


class ImpulseResponse(NamedTuple):
    """How the n joints and the ball answer to impulses."""

    joints: Sequence[Sequence[Scalar]]  # M^-1, the inverse of the arm's inertia.
    coupling: Sequence[Vector]
    """M^-1 C^T by rows: what an impulse on the ball takes from each joint's velocity."""
    ball: Symmetric
    """W = 1/m + C M^-1 C^T: what it gives to the ball's velocity, seen from the cup."""


def impulse_response(
    inverse: Sequence[Sequence[Scalar]], columns: Sequence[Vector], mass: Scalar
) -> ImpulseResponse:
    """From M^-1, C by columns (one per joint) and the mass of the ball [kg]."""
    coupling = [plus(*(scale(m, c) for m, c in zip(row, columns, strict=True))) for row in inverse]

    def entry(i: int, j: int) -> Scalar:
        return add(*(mul(c[i], r[j]) for c, r in zip(columns, coupling, strict=True)))

    xx, yy, zz = (add(entry(i, i), 1.0 / mass) for i in range(3))
    return ImpulseResponse(inverse, coupling, (xx, yy, zz, entry(0, 1), entry(0, 2), entry(1, 2)))


class CupMotion(NamedTuple):
    """Velocities of the joints [rad/s], and of the ball seen from the cup, in its frame [m/s]."""

    joints: Sequence[Scalar]
    ball: Vector


class ImpulseRow(NamedTuple):
    """A direction of an impulse, and how joints and ball answer to a unit of it."""

    direction: Vector
    step: Scalar  # Impulse for a unit of velocity along the direction [kg].
    ball: Vector
    joints: list[Scalar]

    @classmethod
    def along(cls, direction: Vector, answer: ImpulseResponse) -> "ImpulseRow":
        """The row of ``direction``."""
        ball = multiply(answer.ball, direction)
        joints = [-dot(row, direction) for row in answer.coupling]
        return cls(direction, 1.0 / add(dot(direction, ball), _LIGHT), ball, joints)

    def push(self, motion: CupMotion, impulse: Scalar) -> CupMotion:
        """The motion after ``impulse`` [N s]."""
        joints = [
            v + response * impulse for v, response in zip(motion.joints, self.joints, strict=True)
        ]
        return CupMotion(joints, plus(motion.ball, scale(impulse, self.ball)))


def solve_impulses(
    motion: CupMotion,
    contacts: Sequence[tuple[ContactPoint, Scalar]],
    limits: Sequence[tuple[Scalar, Scalar]],
    sliding: Sequence[tuple[int, Vector, float]],
    answer: ImpulseResponse,
    *,
    sweeps: int,
) -> tuple[Vector, list[Scalar]]:
    """Impulse on the ball [N s], in the cup frame, and joint velocities [rad/s] after all impulses.

    Everything that costs a division is done before the sweeps: the sweeps are then one loop to the
    compiler.

    Args:
        motion: The motion without any impulse.
        contacts: Every contact and the velocity it asks for [m/s].
        limits: For every joint the lowest and highest velocity [rad/s] that keep it within its
            limits.
        sliding: Where there is friction: the contact's number, the direction and the coefficient.
        answer: How joints and ball answer to impulses.
        sweeps: How often joint limits and contacts are gone through; friction follows once.
    """
    rows = [ImpulseRow.along(contact.normal, answer) for contact, _ in contacts]
    brakes = [ImpulseRow.along(direction, answer) for _, direction, _ in sliding]
    steps = [1.0 / row[k] for k, row in enumerate(answer.joints)]
    stops: list[Scalar] = [0.0] * len(limits)
    impulses: list[Scalar] = [0.0] * len(rows)
    for _ in range(sweeps):
        for k, (lower, upper) in enumerate(limits):
            below = jnp.maximum(stops[k] + (lower - motion.joints[k]) * steps[k], 0.0)
            above = jnp.minimum(stops[k] + (upper - motion.joints[k]) * steps[k], 0.0)
            change = below + above - stops[k]
            joints = [
                v + row[k] * change for v, row in zip(motion.joints, answer.joints, strict=True)
            ]
            motion = CupMotion(joints, plus(motion.ball, scale(-change, answer.coupling[k])))
            stops[k] = below + above
        for k, (row, (_, target)) in enumerate(zip(rows, contacts, strict=True)):
            impulse = jnp.maximum(
                impulses[k] + (target - dot(row.direction, motion.ball)) * row.step, 0.0
            )
            motion = row.push(motion, impulse - impulses[k])
            impulses[k] = impulse
    total = plus(
        *(scale(impulse, row.direction) for impulse, row in zip(impulses, rows, strict=True))
    )
    for row, (k, _, coefficient) in zip(brakes, sliding, strict=True):
        bound = coefficient * impulses[k]
        impulse = jnp.clip(-dot(row.direction, motion.ball) * row.step, -bound, bound)
        motion = row.push(motion, impulse)
        total = plus(total, scale(impulse, row.direction))
    return total, list(motion.joints)


# --- ``CupScene``: the arm with a cup, and a ball on a string, in steps of the robot's period.

Joints = Float[Array, " nq"]
Vector3 = Float[Array, " 3"]
Number = Float[Array, ""]

#: Site of the model that is the cup frame.
CUP_SITE = "cup"
#: Sweeps over joint limits, string and contacts: right to 5e-5 m/s for 99 in 100 states of fast
#: swings.
_SWEEPS = 4
#: A joint beyond its limit is brought back at this speed at most [rad/s].
_LIMIT_RECOVERY = 0.5


@dataclass(frozen=True)
class CupMount:
    """The cup on the last link of an arm, and what else the ball can hit."""

    tip: Tip  # The cup frame on the last link.
    links: tuple[Capsule, ...]  # The capsules of the body that carries the cup.

    @classmethod
    def read(cls, robot: Robot) -> "CupMount":
        """The mount of ``robot``; refused without a cup at the end of a chain of hinges."""
        if robot.end_effector != CUP_SITE:
            raise RobotError(
                f"The end_effector of the robot {robot.name!r} is {robot.end_effector!r}; "
                f"ball-in-a-cup needs a robot whose end_effector is the site {CUP_SITE!r}, in the "
                "middle of its cup and with z out of the opening."
            )
        tip = Tip.read(robot)
        if not all(link.hinge for link in tip.links):
            raise RobotError(
                f"The robot {robot.name!r} has a slide joint; ball-in-a-cup is made for arms of "
                "hinges."
            )
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
        return cls(tip, tuple(links))


class CupState(eqx.Module):
    """One scene between two steps: joints first, then the ball in world coordinates."""

    qpos: Float[Array, "*batch coordinates"]  # Joint positions [rad] and the ball's centre [m].
    qvel: Float[Array, "*batch coordinates"]
    """Joint velocities [rad/s] and the ball's velocity [m/s]."""
    ball_mass: Float[Array, "*batch"] | None = None
    """Mass of this scene's ball [kg]; None where all have the mass of the settings."""
    string_length: Float[Array, "*batch"] | None = None
    """Length of this scene's string [m]; None where all have that of the settings."""


@final
class CupScene(eqx.Module):
    """Arm, cup, string and ball: functions of one state, to be batched by ``vmap``.

    Holds constants only, so that ``jax.jit`` takes its methods as they are.
    """

    dynamics: ChainDynamics
    settings: CupSettings = eqx.field(static=True)
    mount: CupMount = eqx.field(static=True)
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)  # Joint limits [rad].

    @classmethod
    def load(cls, robot: Robot | str, settings: CupSettings | None = None) -> "CupScene":
        """The scene on ``robot``, whose end effector must be the site ``cup``."""
        robot = Robot.load(robot) if isinstance(robot, str) else robot
        bounds = bounds_of(robot.q_range)
        return cls(ChainDynamics(robot), settings or CupSettings(), CupMount.read(robot), *bounds)

    @property
    def nq(self) -> int:
        """Number of joints."""
        return self.dynamics.nq

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.dynamics.dt

    def start(
        self,
        q: Joints,
        ball: Vector3,
        *,
        qd: Joints | None = None,
        ball_velocity: Vector3 | None = None,
        ball_mass: Number | None = None,
        string_length: Number | None = None,
    ) -> CupState:
        """The scene with the arm at ``q`` [rad] and the ball at ``ball`` [m], at rest unless
        velocities are given.

        A ball farther from the attachment than the string is long is put on the string's sphere.
        ``ball_mass`` [kg] and ``string_length`` [m] are for scenes that differ in them; left out,
        they are constants and cost nothing.
        """
        check_shapes(self.nq, q)
        length = self.settings.string_length if string_length is None else string_length
        attachment = self.attachment(q)
        away = ball - attachment
        part = jnp.minimum(1.0, length / jnp.maximum(jnp.linalg.norm(away), 1e-6))
        ball = attachment + away * part
        qd = jnp.zeros_like(q) if qd is None else qd
        ball_velocity = jnp.zeros_like(ball) if ball_velocity is None else ball_velocity
        qpos, qvel = jnp.concatenate([q, ball]), jnp.concatenate([qd, ball_velocity])
        return CupState(qpos, qvel, ball_mass, string_length)

    def on_sphere(
        self, q: Joints, *, key: PRNGKeyArray, string_length: Number | None = None
    ) -> Vector3:
        """A ball position [m] drawn uniformly from the sphere of the string's length around its
        attachment.

        A draw inside a link (1 in 100) is taken to the opposite side of the sphere.
        """
        length = self.settings.string_length if string_length is None else string_length
        direction = jax.random.normal(key, (3,), q.dtype)
        direction = direction / jnp.linalg.norm(direction)
        position, rotation = self.cup_pose(q)
        above = jnp.asarray([0.0, 0.0, self.settings.attachment], q.dtype)
        in_cup = above + length * _times(rotation.T, direction)
        ball = (in_cup[0], in_cup[1], in_cup[2])
        contacts = [link_contact(self.settings, link, ball) for link in self.mount.links]
        inside = jnp.any(jnp.asarray([contact.distance < 0.0 for contact in contacts]))
        return position + _times(rotation, above) + jnp.where(inside, -length, length) * direction

    def step(self, state: CupState, tau: Joints) -> CupState:
        """One ``dt`` later, under the joint torques ``tau`` [N m]."""
        check_shapes(self.nq, tau)
        velocity = self._velocities(state, tau)
        qpos = state.qpos + self.dt * velocity
        return CupState(qpos, velocity, state.ball_mass, state.string_length)

    def q(self, state: CupState) -> Joints:
        """Joint positions [rad]."""
        return state.qpos[: self.nq]

    def qd(self, state: CupState) -> Joints:
        """Joint velocities [rad/s]."""
        return state.qvel[: self.nq]

    def ball(self, state: CupState) -> tuple[Vector3, Vector3]:
        """Position [m] and velocity [m/s] of the ball in world coordinates."""
        return state.qpos[self.nq :], state.qvel[self.nq :]

    def cup_pose(self, q: Joints) -> tuple[Vector3, Float[Array, "3 3"]]:
        """Origin of the cup frame [m] at ``q`` [rad], and its axes as columns, in the world."""
        check_shapes(self.nq, q)
        return self.mount.tip.pose(q)

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

    # From here on everything is in scalars, which XLA fuses into one loop over the scenes.

    def _velocities(self, state: CupState, tau: Joints) -> Float[Array, " coordinates"]:
        """Velocities after the step, of joints and ball."""
        n, dt, settings = self.nq, self.dt, self.settings
        q, qd = [state.qpos[i] for i in range(n)], [state.qvel[i] for i in range(n)]
        mass = settings.ball_mass if state.ball_mass is None else state.ball_mass
        length = settings.string_length if state.string_length is None else state.string_length
        poses = place(self.dynamics.links, q)
        inverse = self._inverse_inertia(poses)
        force = self._drive(poses, q, qd, [tau[i] for i in range(n)])
        qd = [add(v, mul(dt, dot(row, force))) for v, row in zip(qd, inverse, strict=True)]
        recovery = _LIMIT_RECOVERY
        limits = [
            (jnp.minimum((low - p) / dt, recovery), jnp.maximum((high - p) / dt, -recovery))
            for low, high, p in zip(self.lower, self.upper, q, strict=True)
        ]
        x, y, z = (state.qvel[n + i] + dt * self.dynamics.gravity[i] for i in range(3))
        flight: Vector = (x, y, z)
        ball, seen, columns = self._from_cup(
            poses, (state.qpos[n], state.qpos[n + 1], state.qpos[n + 2]), flight
        )
        answer = impulse_response(inverse, columns, mass)
        moved = (scale(-v, column) for v, column in zip(qd, columns, strict=True))
        free = CupMotion(qd, plus(seen, *moved))

        string, cup = string_contact(settings, ball, length), cup_contacts(settings, ball)
        links = [link_contact(settings, link, ball) for link in self.mount.links]
        # The string is no longer than itself after the step.
        contacts = [(string, -string.distance / dt)]
        contacts += [(one, one.target(settings, free.ball, dt)) for one in (*links, *cup)]
        sliding = [
            (1 + len(links) + k, one.sliding(free.ball), settings.friction)
            for k, one in enumerate(cup)
        ]
        impulse, joints = solve_impulses(free, contacts, limits, sliding, answer, sweeps=_SWEEPS)
        push = self._to_world(poses, rotate(self.mount.tip.rotation, impulse))
        return _stack([*joints, *plus(flight, scale(1.0 / mass, push))], state.qvel.dtype)

    def _inverse_inertia(self, poses: list[Pose]) -> list[list[Scalar]]:
        effective = composite_inertia(poses)
        for row, link in zip(effective, self.dynamics.links, strict=True):
            row[-1] = add(row[-1], self.dt * link.damping)
        return [solve(effective, [float(i == k) for i in range(self.nq)]) for k in range(self.nq)]

    def _drive(
        self, poses: list[Pose], q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar]
    ) -> list[Scalar]:
        """Torque that is left for acceleration."""
        bias = newton_euler(poses, qd, [0.0] * self.nq, gravity=self.dynamics.gravity)
        passive = [
            add(mul(-link.stiffness, sub(p, link.spring_reference)), mul(-link.damping, v))
            for link, p, v in zip(self.dynamics.links, q, qd, strict=True)
        ]
        return [sub(add(t, p), b) for t, p, b in zip(tau, passive, bias, strict=True)]

    def _from_cup(
        self, poses: list[Pose], ball: Vector, velocity: Vector
    ) -> tuple[Vector, Vector, list[Vector]]:
        """Ball, its velocity, and per joint that of a point fixed to the cup, in the cup frame."""
        axes: list[Vector] = []
        arms: list[Vector] = []  # from each joint's origin to the ball
        for pose in poses:
            ball = pose.to_link(plus(ball, scale(-1.0, pose.offset)))
            velocity = pose.to_link(velocity)
            axes = [*(pose.to_link(axis) for axis in axes), (0.0, 0.0, 1.0)]
            arms = [*(pose.to_link(arm) for arm in arms), ball]
        turn, origin = self.mount.tip.rotation, self.mount.tip.position
        columns = [unrotate(turn, cross(axis, arm)) for axis, arm in zip(axes, arms, strict=True)]
        from_cup = plus(ball, scale(-1.0, origin))
        return unrotate(turn, from_cup), unrotate(turn, velocity), columns

    def _to_world(self, poses: list[Pose], v: Vector) -> Vector:
        for pose in reversed(poses):
            v = pose.to_parent(v)
        return v


def _stack(values: "list[Scalar] | Vector", dtype: np.dtype) -> Float[Array, " n"]:
    """An array of scalars, by selections: ``genan.dynamics.algebra`` says why."""
    index = np.arange(len(values))
    array = jnp.zeros(len(values), dtype)
    for i, value in enumerate(values):
        array = jnp.where(index == i, value, array)
    return array.astype(dtype)


def _times(matrix: Float[Array, "3 3"], vector: Vector3) -> Vector3:
    """Matrix times vector, summed elementwise: a GPU would round a matrix product to TF32."""
    return jnp.sum(matrix * vector, axis=1)
