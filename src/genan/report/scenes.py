"""What a picture of a task shows: its scene as a MuJoCo model with floor and light, and where
things are in a state.

The model is for the eye alone: nothing steps it. The arm's base is at the height of the lab's, on a
post.
"""

from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np
from jaxtyping import Float, Int

from genan.robot import Robot
from genan.simulation.cup_contact import CupSettings
from genan.tasks.ball import Court as Room
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.reacher import Reacher
from genan.tasks.table_tennis import TableTennis
from genan.tasks.task import Task

Colour = tuple[float, float, float, float]

#: Prefixes of the names of the arm, and of the second arm that shows the goal.
ARM, GOAL = "arm/", "goal/"


@dataclass(frozen=True)
class Palette:
    """Colours of a picture, red to alpha from 0 to 1."""

    goal: Colour = (0.10, 0.62, 0.35, 0.30)
    ball: Colour = (1.00, 0.55, 0.08, 1.0)
    wooden_ball: Colour = (0.10, 0.38, 0.78, 1.0)
    cup: Colour = (0.93, 0.62, 0.16, 0.55)
    string: Colour = (0.95, 0.95, 0.92, 1.0)
    post: Colour = (0.30, 0.32, 0.35, 1.0)
    table: Colour = (0.08, 0.30, 0.45, 1.0)
    line: Colour = (0.95, 0.95, 0.95, 1.0)
    net: Colour = (0.85, 0.87, 0.90, 0.45)


@dataclass(frozen=True)
class Camera:
    """Where a picture is taken from: a point to look at, and from how far and which side."""

    lookat: tuple[float, float, float]
    """[m]"""
    distance: float
    """[m]"""
    azimuth: float
    """[deg]"""
    elevation: float
    """[deg]"""


_ROOM = Room()
_PALETTE = Palette()
_CAMERAS: dict[type[Task], Camera] = {
    Reacher: Camera((0.14, 0.0, 1.52), 1.75, 130.0, -14.0),
    BallInACup: Camera((0.18, 0.0, 1.48), 1.75, 130.0, -12.0),
    TableTennis: Camera((0.35, 1.20, 0.98), 3.7, 205.0, -17.0),
}


@dataclass(frozen=True)
class Snapshot:
    """What moves, at one moment."""

    q: Float[np.ndarray, " nq"]
    """Joint positions [rad or m]."""
    goal: Float[np.ndarray, " nq"] | None = None
    """Joint positions to reach [rad or m]."""
    ball: Float[np.ndarray, " 3"] | None = None
    """The ball's centre, in the picture's frame [m]."""
    string: float | None = None
    """Length of the string that the ball hangs on [m]."""


@dataclass(frozen=True)
class Stage:
    """A task's scene, ready for pictures."""

    model: mujoco.MjModel
    camera: Camera
    dof: tuple[int, ...]
    """For each joint of the robot, its coordinate in the model."""
    palette: Palette = _PALETTE
    data: mujoco.MjData = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", mujoco.MjData(self.model))

    @classmethod
    def build(cls, task: Task, robot: Robot) -> "Stage":
        """The scene of ``task`` on ``robot``."""
        spec = _room()
        _add_arm(spec, robot, prefix=ARM)
        match task:
            case Reacher():
                _add_arm(spec, robot, prefix=GOAL)
            case TableTennis():
                _add_table(spec)
                _add_ball(spec, _ROOM.ball_radius, _PALETTE.ball)
            case BallInACup():
                _add_cup(spec, robot, task.scene.settings)
                _add_ball(spec, task.scene.settings.ball_radius, _PALETTE.wooden_ball)
        model = spec.compile()
        dof = tuple(int(model.joint(ARM + name).qposadr[0]) for name in robot.joint_names)
        return cls(model, _CAMERAS.get(type(task), _CAMERAS[Reacher]), dof)

    def place(self, now: Snapshot) -> None:
        """Put everything where it is at the moment ``now``."""
        data = self.data
        data.qpos[list(self.dof)] = now.q
        if now.goal is not None:
            data.qpos[[at + len(now.q) for at in self.dof]] = now.goal
        if now.ball is not None:
            data.mocap_pos[0] = now.ball
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_camlight(self.model, data)

    def string(self, now: Snapshot, *, pieces: int = 16) -> Float[np.ndarray, "points 3"] | None:
        """Points of the string from the cup to the ball, which sags as far as its length allows;
        after ``place``."""
        if now.string is None or now.ball is None:
            return None
        start, end = self.data.site("string").xpos.copy(), now.ball
        along = np.linspace(0.0, 1.0, pieces + 1)[:, None]
        chord, sagging = (
            (1.0 - along) * start + along * end,
            np.array([0.0, 0.0, -4.0]) * along * (1.0 - along),
        )
        low, high = 0.0, now.string
        for _ in range(20):  # halve the range of the sag
            middle = 0.5 * (low + high)
            longer = (
                np.linalg.norm(np.diff(chord + middle * sagging, axis=0), axis=1).sum() > now.string
            )
            low, high = (low, middle) if longer else (middle, high)
        return chord + low * sagging


def snapshot(task: Task, scene: Any, memory: Any) -> Snapshot:
    """The moment of one episode, from its scene's state and the task's memory (arrays without a
    batch)."""
    numbers = lambda a: np.asarray(a, np.float64)  # noqa: E731
    match task:
        case Reacher():
            return Snapshot(numbers(scene.q), goal=numbers(memory))
        case TableTennis():
            return Snapshot(numbers(scene.arm.q), ball=numbers(scene.ball.position))
        case BallInACup():
            length = (
                task.settings.string_length
                if scene.string_length is None
                else float(scene.string_length)
            )
            nq = task.scene.nq
            ball = numbers(scene.qpos)[nq:] + np.asarray(_ROOM.base)
            return Snapshot(numbers(scene.qpos)[:nq], ball=ball, string=length)
    return Snapshot(numbers(task.scene.q(scene)))


def _room() -> mujoco.MjSpec:
    """Floor, light and sky, and the post that the arm stands on."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.visual.quality.shadowsize, spec.visual.quality.offsamples = 1536, 4
    spec.visual.headlight.ambient = [0.32, 0.32, 0.33]
    spec.visual.headlight.diffuse = [0.38, 0.38, 0.38]
    spec.visual.headlight.specular = [0.1, 0.1, 0.1]
    spec.visual.map.znear, spec.visual.map.shadowclip, spec.visual.map.haze = 0.01, 3.0, 0.4
    spec.visual.rgba.haze = [0.86, 0.89, 0.92, 1.0]
    spec.stat.extent, spec.stat.center = 2.0, [0.0, 0.0, 1.2]
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.62, 0.72, 0.82],
        rgb2=[0.93, 0.95, 0.97],
        width=256,
        height=256,
    )
    spec.add_texture(
        name="tiles",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.74, 0.76, 0.78],
        rgb2=[0.66, 0.68, 0.71],
        width=512,
        height=512,
    )
    floor = spec.add_material(name="floor", texrepeat=[1.0, 1.0], texuniform=True)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
    world = spec.worldbody
    world.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.1], material="floor")
    directional = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    world.add_light(
        type=directional,
        pos=[1.5, -1.5, 4.0],
        dir=[-0.35, 0.45, -1.0],
        castshadow=True,
        diffuse=[0.45, 0.44, 0.42],
    )
    world.add_light(
        type=directional,
        pos=[-2.0, 2.0, 3.0],
        dir=[0.6, -0.5, -0.6],
        castshadow=False,
        diffuse=[0.16, 0.17, 0.2],
    )
    x, y, z = _ROOM.base
    height = z - 0.03
    _box(world, (0.045, 0.045, 0.5 * height), (x, y, 0.5 * height), _PALETTE.post)
    _box(world, (0.22, 0.22, 0.015), (x, y, 0.015), _PALETTE.post)
    _box(world, (0.085, 0.085, 0.012), (x, y, z - 0.036), _PALETTE.post)
    return spec


def _add_arm(spec: mujoco.MjSpec, robot: Robot, *, prefix: str) -> None:
    arm = mujoco.MjSpec.from_file(str(robot.model_file))
    for element in [*arm.keys, *arm.sensors, *arm.actuators, *arm.lights, *arm.cameras]:
        arm.delete(element)
    if prefix == GOAL:
        for geom in arm.geoms:
            geom.rgba = _PALETTE.goal
    for geom in arm.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            geom.rgba = [0.0, 0.0, 0.0, 0.0]  # the room has a floor
    spec.attach(arm, prefix=prefix, frame=spec.worldbody.add_frame(pos=list(_ROOM.base)))


def _add_ball(spec: mujoco.MjSpec, radius: float, colour: Colour) -> None:
    ball = spec.worldbody.add_body(name="ball", mocap=True)
    ball.add_geom(
        name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0.0, 0.0], rgba=colour
    )


def _add_table(spec: mujoco.MjSpec) -> None:
    world, table = spec.worldbody, _ROOM.table
    x, y, z = table.centre
    width, length, thick, line = table.half_width, table.half_length, 0.0125, 0.01
    _box(world, (width, length, thick), (x, y, z - thick), _PALETTE.table)
    for side in (-1.0, 1.0):
        _box(world, (line, length, 0.0006), (x + side * (width - line), y, z), _PALETTE.line)
        _box(world, (width, line, 0.0006), (x, y + side * (length - line), z), _PALETTE.line)
        for end in (-1.0, 1.0):
            leg = 0.5 * (z - 2.0 * thick)
            _box(
                world,
                (0.025, 0.025, leg),
                (x + 0.85 * side * width, y + 0.8 * end * length, leg),
                _PALETTE.post,
            )
        _box(world, (0.012, 0.012, 0.5 * table.net_height + 0.01),
             (x + side * table.net_half_width, y, z + 0.5 * table.net_height - 0.01), _PALETTE.post)  # fmt: skip
    _box(world, (0.2 * line, length, 0.0006), (x, y, z), _PALETTE.line)
    net = 0.5 * table.net_height
    _box(world, (table.net_half_width, 0.001, net - 0.008), (x, y, z + net - 0.008), _PALETTE.net)
    _box(world, (table.net_half_width, 0.002, 0.008), (x, y, z + 2.0 * net - 0.008), _PALETTE.line)
    tx, ty, _ = _ROOM.target
    world.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[0.10, 0.0008, 0.0],
        pos=[tx, ty, z],
        rgba=_PALETTE.goal,
    )


def _add_cup(spec: mujoco.MjSpec, robot: Robot, settings: CupSettings) -> None:
    """The hollow cup in the place of the robot's own drawing of one, and the end of the string."""
    site = spec.site(f"{ARM}{robot.end_effector}")
    body = site.parent
    for geom in body.geoms:
        geom.rgba = [0.0, 0.0, 0.0, 0.0]
    vertices, faces = cup_mesh(settings)
    spec.add_mesh(name="cup", uservert=vertices.ravel().tolist(), userface=faces.ravel().tolist())
    frame = body.add_frame(pos=site.pos, quat=site.quat)
    frame.alt = site.alt
    cup = body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_MESH, meshname="cup", rgba=_PALETTE.cup, contype=0, conaffinity=0
    )
    cup.set_frame(frame)
    body.add_site(name="string", pos=[0.0, 0.0, settings.attachment], rgba=[0, 0, 0, 0]).set_frame(
        frame
    )


def cup_mesh(
    settings: CupSettings, *, facets: int = 48
) -> tuple[Float[np.ndarray, "vertices 3"], Int[np.ndarray, "faces 3"]]:
    """The cup turned from its outline, in the cup frame: vertices [m], and triangles that look
    outwards."""
    r, h, t = settings.cup_radius, 0.5 * settings.cup_height, settings.thickness
    outline = [(r, -h), (r, h), (r - t, h), (r - t, t - h)]
    angle = 2.0 * np.pi * np.arange(facets) / facets
    rings = [
        np.stack([p * np.cos(angle), p * np.sin(angle), np.full(facets, z)], axis=1)
        for p, z in outline
    ]
    vertices = np.concatenate([*rings, [[0.0, 0.0, -h], [0.0, 0.0, t - h]]])
    below, above = len(vertices) - 2, len(vertices) - 1
    faces = []
    for k in range(facets):
        n = (k + 1) % facets
        for ring in range(len(outline) - 1):
            a, b = ring * facets, (ring + 1) * facets
            faces += [(a + k, a + n, b + n), (a + k, b + n, b + k)]
        last = (len(outline) - 1) * facets
        faces += [(below, n, k), (above, last + k, last + n)]
    return vertices, np.asarray(faces)


def _box(
    world: Any, size: tuple[float, float, float], pos: tuple[float, float, float], colour: Colour
) -> None:
    world.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=list(size), pos=list(pos), rgba=list(colour)
    )
