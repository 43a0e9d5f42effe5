"""What a picture shows: a robot and what belongs to its task, as one MuJoCo model for the eye.

Floor, post and camera follow from the robot's reach. A task adds what it needs by three hooks, all
of them optional:

- ``TaskEntry.base``: where the robot's base is in the task's frame, whose floor is z = 0 [m]. Left
  out (None), the task's frame is that of the base, and the floor is as far below as it reaches.
- ``TaskEntry.scenery``: a function that adds to the picture's ``mujoco.MjSpec``: a table, and a
  mocap body for each thing that moves.
- ``Task.markers(scene, memory)``: where those are, for a batch of states: a position for a mocap
  body of that name, points for a line, joint positions for ``"goal"``, a second arm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from jaxtyping import Float

from genan.robot import Robot

if TYPE_CHECKING:
    from genan.tasks.registry import TaskEntry
    from genan.tasks.task import Task

Joints = Float[np.ndarray, " nq"]  # Joint positions [rad or m].
Point = Float[np.ndarray, " 3"]  # A place [m].
Limits = tuple[Joints, Joints]  # Lowest and highest joint positions [rad or m].
Poses = tuple[Float[np.ndarray, "bodies 3"], Float[np.ndarray, "bodies 4"]]
"""Positions [m] and orientations (unit quaternions) of a robot's bodies, in the frame of its base;
the world is the first."""

#: Colours, red to alpha from 0 to 1.
GOAL_COLOUR, LINE_COLOUR = (0.10, 0.62, 0.35, 0.30), (0.45, 0.45, 0.42, 1.0)
_POST_COLOUR = (0.30, 0.32, 0.35, 1.0)
ARM, GOAL = "arm/", "goal/"  # Prefixes of names: of the arm, and of the second, at the goal.
_HEIGHT = 1.15  # From the floor to the base, in reaches of the arm.
_DISTANCE = 1.6  # How far away the camera is, in half diagonals of what it shows.


@dataclass(frozen=True)
class Snapshot:
    """What moves, at one moment."""

    q: Joints
    goal: Joints | None = None  # Joint positions to reach [rad or m].
    markers: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Position [3] of each moving thing and points [points, 3] of each line, in the task's frame
    [m]; what is not named is not there."""


def snapshots(task: "Task", scene: Any, memory: Any) -> list[Snapshot]:
    """The moments of a batch of states of ``task``'s scene and memory."""
    import jax

    scene, memory = jax.tree.map(jax.numpy.asarray, (scene, memory))
    q = np.asarray(jax.vmap(task.scene.q)(scene), np.float64)
    found = {name: np.asarray(a, np.float64) for name, a in task.markers(scene, memory).items()}
    goals = found.pop("goal", [None] * len(q))
    return [Snapshot(q[k], goals[k], {n: a[k] for n, a in found.items()}) for k in range(len(q))]


class Stage:
    """A robot with its task's scenery, ready for pictures. Nothing steps it."""

    def __init__(self, robot: Robot, task: "TaskEntry | None" = None, *, arms: bool = True) -> None:
        """``robot`` in ``task``; without one, the robot alone. Without ``arms``, all but the robot,
        and ``place`` is not for it."""
        self.robot = robot
        base = None if task is None else task.base
        # Where the robot's base is in the picture's frame, which is the task's; and the floor [m].
        self.base: Point = np.array(base or (0.0, 0.0, 0.0))
        low, high = np.clip(robot.q_range, -np.pi, np.pi)
        drawn = np.random.default_rng(0).uniform(low, high, (64, robot.nq))
        arm, rest = ArmKinematics(robot), robot.q_rest
        usual = np.vstack([arm.points(q) for q in 0.5 * (rest + drawn)])
        every = np.vstack([arm.points(q) for q in (rest, *drawn)])
        reach = float(np.linalg.norm(every, axis=1).max())
        spec = mujoco.MjSpec.from_file(str(Path(__file__).with_name("room.xml")))
        if task is not None and task.scenery is not None:
            task.load("scenery")(spec)
        ends = [(np.array(g.pos) - g.size, np.array(g.pos) + g.size) for g in spec.worldbody.geoms]
        scenery = np.array(ends[1:]).reshape(-1, 3)  # the first is the floor
        self.floor: float = 0.0 if base else -_HEIGHT * reach
        planes = robot.mj_model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        if planes.any():  # the robot has its own
            self.floor = float(self.base[2] + robot.mj_model.geom_pos[planes][0, 2])
        elif arm.points(rest)[:, 2].min() > -0.1 * reach:  # it does not hang from its base
            self._add_post(spec, 0.06 * reach)
        spec.geom("floor").pos = [0.0, 0.0, self.floor]
        spec.stat.extent, spec.stat.center = 2.2 * reach, [0.0, 0.0, self.floor + 1.2 * reach]
        for prefix in (ARM, GOAL) if arms else ():
            self._attach_arm(spec, prefix)
        self.model: mujoco.MjModel = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.camera = mujoco.MjvCamera()
        usual, shown = (np.concatenate([p + self.base, scenery]) for p in (usual, every))
        self.camera.lookat[:] = 0.5 * (usual.min(axis=0) + usual.max(axis=0))
        self.camera.distance = _DISTANCE * 0.5 * float(np.linalg.norm(np.ptp(shown, axis=0)))
        self.camera.azimuth, self.camera.elevation = 130.0, -14.0  # as MuJoCo counts them [deg]
        names = [self.model.body(k).name for k in range(self.model.nbody)]
        mocap = self.model.body_mocapid
        # The bodies that markers move, by name.
        self.moving: dict[str, int] = {n: k for k, n in enumerate(names) if mocap[k] >= 0}
        owner = np.array(names)[self.model.geom_bodyid]
        self._geoms = {GOAL: np.flatnonzero(np.char.startswith(owner, GOAL))}
        self._geoms |= {name: np.flatnonzero(owner == name) for name in self.moving}
        self._alpha = self.model.geom_rgba[:, 3].copy()
        self._arm, self._goal = (
            [int(self.model.joint(prefix + name).qposadr[0]) for name in robot.joint_names if arms]
            for prefix in (ARM, GOAL)
        )

    def _add_post(self, spec: Any, wide: float) -> None:
        """The post that the arm is mounted on, from the floor to just below its base [m]."""
        x, y, top = self.base.tolist()
        top -= 0.03
        for width, low, high in (
            (0.9 * wide, self.floor, top),
            (4.5 * wide, self.floor, self.floor + 0.03),
            (1.7 * wide, top - 0.018, top + 0.006),
        ):
            size, middle = [width, width, 0.5 * (high - low)], [x, y, 0.5 * (low + high)]
            box = mujoco.mjtGeom.mjGEOM_BOX
            spec.worldbody.add_geom(type=box, size=size, pos=middle, rgba=_POST_COLOUR)

    def _attach_arm(self, spec: Any, prefix: str) -> None:
        """Add the robot's drawing at its base; as a goal, in one colour."""
        arm = mujoco.MjSpec.from_file(str(self.robot.model_file))
        for element in [*arm.keys, *arm.sensors, *arm.actuators, *arm.lights, *arm.cameras]:
            arm.delete(element)
        for geom in arm.geoms:
            if prefix == GOAL:
                geom.rgba, geom.material = GOAL_COLOUR, ""
            if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
                geom.rgba, geom.material = [0.0] * 4, ""  # the room has a floor
        spec.attach(arm, prefix=prefix, frame=spec.worldbody.add_frame(pos=self.base.tolist()))

    def place(self, now: Snapshot) -> None:
        """Put everything where it is at the moment ``now``, and hide what is not there."""
        model, data = self.model, self.data
        there = dict(now.markers) | ({} if now.goal is None else {GOAL: now.goal})
        for name, geoms in self._geoms.items():
            model.geom_rgba[geoms, 3] = self._alpha[geoms] if name in there else 0.0
        data.qpos[self._arm] = now.q
        data.qpos[self._goal] = there.pop(GOAL, now.q)
        for name in self.moving.keys() & there.keys():
            data.mocap_pos[model.body_mocapid[self.moving[name]]] = there[name]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)

    def eye(self) -> tuple[Point, Point]:
        """Where the camera is [m], and the unit vector along which it looks."""
        turn, tilt = np.radians([self.camera.azimuth, self.camera.elevation])
        ahead = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
        return self.camera.lookat - self.camera.distance * ahead, ahead


class ArmKinematics:
    """Where the parts of a robot are. Places one MuJoCo state: not for several threads at once."""

    def __init__(self, robot: Robot) -> None:
        self._model, self._data = robot.mj_model, mujoco.MjData(robot.mj_model)
        self._dof, site = list(robot.dof), robot.end_effector
        self._site = None if site is None else int(self._model.site(site).id)

    def poses(self, q: Joints) -> Poses:
        """Where everything is at the joint positions ``q`` [rad or m]."""
        self._data.qpos[self._dof] = q
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.xpos.copy(), self._data.xquat.copy()

    def points(self, q: Joints) -> Float[np.ndarray, "points 3"]:
        """Where all bodies, geoms and sites are [m]."""
        positions, _ = self.poses(q)
        geoms = self._data.geom_xpos[self._model.geom_bodyid > 0]
        return np.concatenate([positions, geoms, self._data.site_xpos])

    def tip(self, q: Joints) -> Point:
        """The end effector in the frame of the base [m]; the last body where none is named."""
        positions, _ = self.poses(q)
        return positions[-1] if self._site is None else self._data.site_xpos[self._site].copy()

    def jacobian(self, q: Joints) -> Float[np.ndarray, "3 nq"]:
        """Velocity of the tip for each joint's velocity [m/rad; 1 for slides]."""
        tip, found = self.tip(q), np.zeros((3, self._model.nv))
        mujoco.mj_comPos(self._model, self._data)
        body = self._model.nbody - 1 if self._site is None else self._model.site_bodyid[self._site]
        mujoco.mj_jac(self._model, self._data, found, None, tip, int(body))
        return found[:, self._dof]

    def reach(self, target: Point, *, near: Joints, limits: Limits) -> Joints:
        """Joint positions [rad or m] within ``limits`` that bring the tip to ``target`` [m], in the
        frame of the base, or as close as they let it: of all solutions the one about ``near``."""
        from scipy.optimize import least_squares

        middle, span = 0.5 * (limits[0] + limits[1]), limits[1] - limits[0]
        bent, found = 0.25 * span * (-1.0) ** np.arange(len(span)), []
        for start in (near, middle, middle + bent, middle - bent):
            inside = np.clip(start, limits[0] + 1e-6 * span, limits[1] - 1e-6 * span)
            far = lambda q: self.tip(q) - target
            found.append(least_squares(far, inside, self.jacobian, limits, xtol=1e-6))
            if found[-1].cost < 0.5 * 0.01**2:  # from 0.01 m on the tip is at its target
                break
        return np.clip(min(found, key=lambda result: result.cost).x, *limits)
