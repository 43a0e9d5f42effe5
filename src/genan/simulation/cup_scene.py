"""``CupScene``: the arm with a cup, and a ball on a string, in steps of the robot's period.

The arm is the chain of ``genan.dynamics``; string, cup and links act on the ball by one-sided
impulses (``genan.simulation.cup_contact``). ``docs/ball-in-a-cup.md`` says what was chosen and why;
``benchmarks/cup_model.py`` builds the same scene for MuJoCo, as its judge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.dynamics import ChainDynamics
from genan.dynamics.algebra import (
    Scalar,
    Vector,
    add,
    cross,
    dot,
    mul,
    plus,
    rotate,
    scale,
    solve,
    sub,
    unrotate,
)
from genan.dynamics.base import check_shapes
from genan.dynamics.newton_euler import Pose, composite_inertia, newton_euler, place
from genan.errors import RobotError
from genan.robot import Robot
from genan.simulation.cup_contact import (
    Capsule,
    CupMotion,
    CupSettings,
    cup_contacts,
    impulse_response,
    link_contact,
    solve_impulses,
    string_contact,
)
from genan.simulation.simulator import Tip, bounds_of, rounded

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
