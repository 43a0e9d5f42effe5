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
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from jaxtyping import Float

from genan.robot import Robot
from genan.tasks.scenery import add_box

if TYPE_CHECKING:
    from genan.tasks.registry import TaskEntry
    from genan.tasks.task import Task

#: Colours, red to alpha from 0 to 1.
GOAL_COLOUR = (0.10, 0.62, 0.35, 0.30)
LINE_COLOUR = (0.45, 0.45, 0.42, 1.0)
_POST_COLOUR = (0.30, 0.32, 0.35, 1.0)
#: Prefixes of the names of the arm, and of the second arm that shows the goal.
ARM, GOAL = "arm/", "goal/"
#: From the floor to the base, in reaches of the arm.
_HEIGHT = 1.15
#: How far away the camera is, in half diagonals of what it shows; from which side and how high it
#: looks, as MuJoCo counts it [deg].
_DISTANCE, _AZIMUTH, _ELEVATION = 1.6, 130.0, -14.0
_POSES = 64


@dataclass(frozen=True)
class Snapshot:
    """What moves, at one moment."""

    q: Float[np.ndarray, " nq"]
    """Joint positions [rad or m]."""
    goal: Float[np.ndarray, " nq"] | None = None
    """Joint positions to reach [rad or m]."""
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
    return [
        Snapshot(q[k], goals[k], {name: a[k] for name, a in found.items()}) for k in range(len(q))
    ]


class Stage:
    """A robot with its task's scenery, ready for pictures. Nothing steps it."""

    def __init__(self, robot: Robot, task: "TaskEntry | None" = None, *, arms: bool = True) -> None:
        """``robot`` in ``task``; without one, the robot alone. Without
        ``arms``, all but the robot, and ``place`` is not for it."""
        self.robot = robot
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        base = None if task is None else task.base
        self.base: Float[np.ndarray, 3] = np.array(base or (0.0, 0.0, 0.0))
        """Where the robot's base is in the picture's frame, which is the task's [m]."""
        rest, usual, poses = _poses(robot)
        reach = float(np.linalg.norm(poses, axis=1).max())
        if task is not None and task.scenery is not None:
            task.load("scenery")(spec)
        props = [
            np.array([np.array(geom.pos) - geom.size, np.array(geom.pos) + geom.size])
            for geom in spec.worldbody.geoms
        ]
        planes = robot.mj_model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        self.floor: float = 0.0 if base else -_HEIGHT * reach
        """Height of the floor in the picture's frame [m]."""
        if planes.any():  # the robot's own
            self.floor = float(self.base[2] + robot.mj_model.geom_pos[planes][0, 2])
        elif rest[:, 2].min() > -0.1 * reach:  # it does not hang from its base
            _add_post(spec, self.base, self.floor, 0.06 * reach)
        _add_room(spec, self.floor, reach)
        for prefix in (ARM, GOAL) if arms else ():
            _attach(spec, robot, self.base, prefix)
        self.model: mujoco.MjModel = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.camera = _camera(
            *(np.concatenate([points + self.base, *props]) for points in (usual, poses))
        )
        names = [self.model.body(k).name for k in range(self.model.nbody)]
        self.moving: dict[str, int] = {
            name: k for k, name in enumerate(names) if self.model.body_mocapid[k] >= 0
        }
        """The bodies that markers move, by name."""
        owner = np.array(names)[self.model.geom_bodyid]
        self._geoms = {GOAL: np.flatnonzero(np.char.startswith(owner, GOAL))}
        self._geoms |= {name: np.flatnonzero(owner == name) for name in self.moving}
        self._alpha = self.model.geom_rgba[:, 3].copy()
        self._arm, self._goal = (
            [int(self.model.joint(prefix + name).qposadr[0]) for name in robot.joint_names if arms]
            for prefix in (ARM, GOAL)
        )

    def colour(self, name: str) -> tuple[float, ...]:
        """Of the moving body ``name``, red to alpha from 0 to 1."""
        return tuple(map(float, self.model.geom_rgba[self._geoms[name][0]]))

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


def _poses(robot: Robot) -> list[Float[np.ndarray, "points 3"]]:
    """Where the bodies and geoms of the robot are at rest, mostly, and at all, about, in the frame
    of its base [m]."""
    model, data = robot.mj_model, mujoco.MjData(robot.mj_model)
    chance, (low, high) = np.random.default_rng(0), np.clip(robot.q_range, -np.pi, np.pi)
    moving = model.geom_bodyid > 0
    drawn, rest = chance.uniform(low, high, (_POSES, robot.nq)), robot.q_rest[None]
    found = []
    for poses in (rest, 0.5 * (rest + drawn), np.concatenate([rest, drawn])):
        points = []
        for q in poses:
            data.qpos[list(robot.dof)] = q
            mujoco.mj_kinematics(model, data)
            points += [data.xpos.copy(), data.geom_xpos[moving], data.site_xpos.copy()]
        found.append(np.concatenate(points))
    return found


def _attach(spec: mujoco.MjSpec, robot: Robot, base: Float[np.ndarray, " 3"], prefix: str) -> None:
    """Add the robot's drawing at ``base`` [m]; as a goal, in one colour."""
    arm = mujoco.MjSpec.from_file(str(robot.model_file))
    for element in [*arm.keys, *arm.sensors, *arm.actuators, *arm.lights, *arm.cameras]:
        arm.delete(element)
    for geom in arm.geoms:
        if prefix == GOAL:
            geom.rgba, geom.material = GOAL_COLOUR, ""
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            geom.rgba, geom.material = [0.0] * 4, ""  # the room has a floor
    spec.attach(arm, prefix=prefix, frame=spec.worldbody.add_frame(pos=base.tolist()))


def _add_post(
    spec: mujoco.MjSpec, base: Float[np.ndarray, " 3"], floor: float, wide: float
) -> None:
    """The post that an arm stands on, from the floor to just below its base [m]."""
    x, y, top = base.tolist()
    top -= 0.03
    middle, half = 0.5 * (floor + top), 0.5 * (top - floor)
    add_box(spec, (0.9 * wide, 0.9 * wide, half), (x, y, middle), _POST_COLOUR)
    add_box(spec, (4.5 * wide, 4.5 * wide, 0.015), (x, y, floor + 0.015), _POST_COLOUR)
    add_box(spec, (1.7 * wide, 1.7 * wide, 0.012), (x, y, top - 0.006), _POST_COLOUR)


def _add_room(spec: mujoco.MjSpec, floor: float, reach: float) -> None:
    """Floor, light and sky."""
    visual = spec.visual
    visual.quality.shadowsize, visual.quality.offsamples = 1536, 4
    visual.headlight.ambient, visual.headlight.diffuse = [0.32, 0.32, 0.33], [0.38, 0.38, 0.38]
    visual.headlight.specular = [0.1, 0.1, 0.1]
    visual.map.znear, visual.map.shadowclip, visual.map.haze = 0.01, 3.0, 0.4
    visual.rgba.haze = [0.86, 0.89, 0.92, 1.0]
    spec.stat.extent, spec.stat.center = 2.2 * reach, [0.0, 0.0, floor + 1.2 * reach]
    texture, builtin = mujoco.mjtTexture, mujoco.mjtBuiltin
    for name, kind, pattern, one, other in (
        ("sky", texture.mjTEXTURE_SKYBOX, builtin.mjBUILTIN_GRADIENT, (62, 72, 82), (93, 95, 97)),
        ("tiles", texture.mjTEXTURE_2D, builtin.mjBUILTIN_CHECKER, (74, 76, 78), (66, 68, 71)),
    ):
        rgb1, rgb2 = (np.array(colour) / 100.0 for colour in (one, other))
        spec.add_texture(
            name=name, type=kind, builtin=pattern, rgb1=rgb1, rgb2=rgb2, width=512, height=512
        )
    tiles = spec.add_material(name="floor", texrepeat=[1.0, 1.0], texuniform=True)
    tiles.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.1], pos=[0, 0, floor], material="floor"
    )
    for pos, along, diffuse in (
        ([1.5, -1.5, floor + 4.0], [-0.35, 0.45, -1.0], [0.45, 0.44, 0.42]),
        ([-2.0, 2.0, floor + 3.0], [0.6, -0.5, -0.6], [0.16, 0.17, 0.2]),
    ):
        light = spec.worldbody.add_light(pos=pos, dir=along, diffuse=diffuse)
        light.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
        light.castshadow = pos[0] > 0.0  # one shadow is enough


def _camera(
    usual: Float[np.ndarray, "points 3"], points: Float[np.ndarray, "more 3"]
) -> mujoco.MjvCamera:
    """One that looks at the middle of the ``usual`` points [m] and has all ``points`` in view."""
    camera = mujoco.MjvCamera()
    camera.lookat[:] = 0.5 * (usual.min(axis=0) + usual.max(axis=0))
    camera.distance = _DISTANCE * 0.5 * float(np.linalg.norm(np.ptp(points, axis=0)))
    camera.azimuth, camera.elevation = _AZIMUTH, _ELEVATION
    return camera


def line_of_sight(
    camera: mujoco.MjvCamera,
) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]]:
    """Where the camera is [m], and the unit vector along which it looks."""
    turn, tilt = np.radians([camera.azimuth, camera.elevation])
    level = np.array([np.cos(turn), np.sin(turn), 0.0])
    ahead = np.cos(tilt) * level + np.array([0.0, 0.0, np.sin(tilt)])
    return np.array(camera.lookat) - camera.distance * ahead, ahead
