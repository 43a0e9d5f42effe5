"""Pictures of a robot and what belongs to its task, films, and a window that plays episodes.

A ``Stage`` is one MuJoCo model for the eye. Floor, post and camera follow from the robot's reach. A
task adds what it needs by ``TaskEntry.base`` and ``TaskEntry.scenery``, which has a mocap body for
each thing that moves, and says by ``Task.markers`` where those are; all of them are optional.

Pictures are rendered by MuJoCo where this machine has OpenGL (no screen is needed), else drawn
flat. Films are MP4 by ffmpeg (imageio-ffmpeg), or an animated GIF where it is missing.
"""

import ctypes.util
import importlib
import itertools
import json
import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from genan import memory
from genan.errors import DataError, GenanError, listing, refuse
from genan.robot import Robot

if TYPE_CHECKING:
    from trimesh import Trimesh

    from genan.evaluation.transfer import TransferTrial
    from genan.tasks.registry import TaskEntry
    from genan.tasks.task import Episodes, Task, TaskEnvironment

Joints = Float[np.ndarray, " nq"]  # Joint positions [rad or m].
Point = Float[np.ndarray, " 3"]  # A place [m].
Limits = tuple[Joints, Joints]  # Lowest and highest joint positions [rad or m].
Poses = tuple[Float[np.ndarray, "bodies 3"], Float[np.ndarray, "bodies 4"]]
"""Positions [m] and orientations (unit quaternions) of a robot's bodies, in the frame of its base;
the world is the first."""
Picture = UInt8[np.ndarray, "height width 3"]
Points = Float[np.ndarray, "n 3"]  # [m]
Line = tuple[Points, tuple[float, ...], float]  # Points [m], colour and radius [m].

#: Colours, red to alpha from 0 to 1.
GOAL_COLOUR, LINE_COLOUR = (0.10, 0.62, 0.35, 0.30), (0.45, 0.45, 0.42, 1.0)
_POST_COLOUR = (0.30, 0.32, 0.35, 1.0)
ARM, GOAL = "arm/", "goal/"  # Prefixes of names: of the arm, and of the second, at the goal.
_HEIGHT = 1.15  # From the floor to the base, in reaches of the arm.
_DISTANCE = 1.6  # How far away the camera is, in half diagonals of what it shows.
SIZE = (960, 540)  # Width and height of a picture [pixels].
TRAIL = 25  # Moments for which the path of what moves is shown behind it.
FORMATS = (".mp4", ".gif")
FPS = 50.0  # Pictures per second of a film.
HOLD, PAUSE = 29, 1.0
"""How long an episode's last picture stays: in a film, more of them, and in a window [s]."""
BEFORE = 0.5  # How much of what was before the policy's turn the film of a trial shows [s].


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


class Trails:
    """The lines of a moment: its own, and the recent path of each body that moves."""

    def __init__(self, stage: Stage) -> None:
        model = stage.model
        self._past = {name: deque[np.ndarray](maxlen=TRAIL) for name in stage.moving}
        first = {name: model.body_geomadr[body] for name, body in stage.moving.items()}
        self._colours = {name: model.geom_rgba[geom, :3].tolist() for name, geom in first.items()}

    def at(self, now: Snapshot) -> list[Line]:
        """The lines one moment later."""
        lines: list[Line] = [(p, LINE_COLOUR, 0.0018) for p in now.markers.values() if p.ndim == 2]
        for name, past in self._past.items():
            if name not in now.markers:
                past.clear()
                continue
            past.append(now.markers[name])
            for k, ends in enumerate(itertools.pairwise(past)):
                fading = (*self._colours[name], 0.5 * (k + 1) / len(past))
                lines.append((np.array(ends), fading, 0.004))
        return lines


def add_lines(scene: mujoco.MjvScene, lines: list[Line]) -> None:
    """Add ``lines`` to ``scene``: shapes that change from picture to picture."""
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    for points, colour, radius in lines:
        for start, end in itertools.pairwise(np.asarray(points, np.float64)):
            if scene.ngeom >= scene.maxgeom:
                return
            geom, rgba = scene.geoms[scene.ngeom], np.asarray(colour, np.float32)
            mujoco.mjv_initGeom(geom, capsule, np.zeros(3), np.zeros(3), np.eye(3).ravel(), rgba)
            mujoco.mjv_connector(geom, capsule, radius, start, end)
            scene.ngeom += 1


class Renderer(ABC):
    """Makes pictures of a stage. ``close``, once or more, gives back what the machine lent."""

    close: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.restart()

    @abstractmethod
    def frame(self, now: Snapshot) -> Picture:
        """The picture of a moment."""

    def restart(self) -> None:
        """Forget what moved where: another episode begins."""
        self._trails = Trails(self._stage)


def load_renderer(stage: Stage, *, size: tuple[int, int] = SIZE) -> Renderer:
    """The best that this machine has."""
    try:
        return GLRenderer(stage, size=size)
    except Exception:  # a missing OpenGL has no exception of its own
        return FlatRenderer(stage, size=size)


class GLRenderer(Renderer):
    """MuJoCo's own renderer, off the screen."""

    def __init__(self, stage: Stage, *, size: tuple[int, int] = SIZE) -> None:
        """Opens an OpenGL context: of the kind in MUJOCO_GL, or on Linux one that needs no screen,
        which MuJoCo's own choice does. Raises what the driver raises where there is none."""
        from mujoco.rendering.classic import gl_context

        super().__init__(stage)
        kind = os.environ.get("MUJOCO_GL", "").lower().strip()
        if kind in ("disable", "disabled", "off", "false", "0"):
            raise ImportError("OpenGL is switched off by MUJOCO_GL")
        if not kind and sys.platform.startswith("linux"):
            kind = "egl" if ctypes.util.find_library("EGL") else "osmesa"
        if kind in ("egl", "osmesa"):
            gl_context.GLContext = importlib.import_module(f"mujoco.{kind}").GLContext
        buffer = stage.model.vis.global_
        buffer.offwidth, buffer.offheight = size  # a larger buffer only costs time
        self._renderer = mujoco.Renderer(stage.model, size[1], size[0], max_geom=2000)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = True
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self.close = self._renderer.close

    def frame(self, now: Snapshot) -> Picture:
        self._stage.place(now)
        self._renderer.update_scene(self._stage.data, self._stage.camera, self._option)
        add_lines(self._renderer.scene, self._trails.at(now))
        return self._renderer.render()


class FlatRenderer(Renderer):
    """Each shape as its flat outline, the far ones first: enough to judge an episode by."""

    def __init__(self, stage: Stage, *, size: tuple[int, int] = SIZE) -> None:
        super().__init__(stage)
        self._size, (self._eye, ahead) = size, stage.eye()
        right = np.cross(ahead, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        self._axes = np.stack([right, np.cross(ahead, right), ahead], axis=1)  # right, down, ahead
        self._focal = 0.5 * size[1] / np.tan(np.radians(0.5 * stage.model.vis.global_.fovy))
        found = {geom: geom_mesh(stage.model, geom) for geom in range(stage.model.ngeom)}
        self._points = {geom: mesh.vertices for geom, mesh in found.items() if mesh is not None}

    def frame(self, now: Snapshot) -> Picture:
        from PIL import Image, ImageDraw
        from scipy.spatial import ConvexHull

        model, data = self._stage.model, self._stage.data
        self._stage.place(now)
        image = Image.new("RGB", self._size, (236, 239, 242))
        draw = ImageDraw.Draw(image, "RGBA")
        far = (data.geom_xpos - self._eye) @ self._axes[:, 2]
        # What is fixed to the world comes first: a table is behind all that is above it.
        for geom in sorted(self._points, key=lambda g: (model.geom_bodyid[g] > 0, -far[g])):
            colour = tuple(int(255 * part) for part in model.geom_rgba[geom])
            if colour[3]:
                turned = self._points[geom] @ data.geom_xmat[geom].reshape(3, 3).T
                seen = self._project(turned + data.geom_xpos[geom])
                outline = seen[ConvexHull(seen, qhull_options="QJ").vertices]
                edge = (*(int(0.7 * part) for part in colour[:3]), colour[3])
                draw.polygon([*map(tuple, outline)], fill=colour, outline=edge)
        for points, rgba, radius in self._trails.at(now):
            wide = max(1, round(2.0 * radius * self._focal / self._stage.camera.distance))
            ink = tuple(int(255 * part) for part in rgba)
            draw.line([*map(tuple, self._project(points))], fill=ink, width=wide)
        return np.array(image)

    def _project(self, points: Points) -> Float[np.ndarray, "n 2"]:
        """Pixels of ``points`` [m]."""
        seen = (points - self._eye) @ self._axes
        return seen[:, :2] * self._focal / np.maximum(seen[:, 2:], 1e-3) + np.divide(self._size, 2)


def geom_mesh(model: mujoco.MjModel, geom: int, *, facets: int = 24) -> "Trimesh | None":
    """A geom in its own frame [m]; None for planes. A circle has ``facets`` corners."""
    from trimesh import Trimesh, creation

    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    radius, half, round_about = float(size[0]), float(size[1]), [facets, 2 * (facets // 3)]
    if kind == kind.mjGEOM_PLANE:
        return None
    if kind == kind.mjGEOM_MESH:
        mesh = model.mesh(int(model.geom_dataid[geom]))
        points = model.mesh_vert[mesh.vertadr[0] :][: mesh.vertnum[0]]
        faces = model.mesh_face[mesh.faceadr[0] :][: mesh.facenum[0]]
        return Trimesh(points, faces, process=False)
    if kind == kind.mjGEOM_BOX:  # its edges are sharp, and so are those of a cylinder
        return creation.box(2.0 * size).smooth_shaded
    if kind == kind.mjGEOM_CYLINDER:
        return creation.cylinder(radius, 2.0 * half, facets).smooth_shaded
    if kind == kind.mjGEOM_CAPSULE:
        return creation.capsule(2.0 * half, radius, round_about)
    ball = creation.uv_sphere(1.0, round_about)
    return ball.apply_scale(radius if kind == kind.mjGEOM_SPHERE else size)


@dataclass(frozen=True)
class Clip:
    """What a film shows of one episode or trial."""

    moments: Sequence[Snapshot]  # ``FPS`` of them to a second, the first at the time ``start`` [s].
    caption: str  # In the pictures, with the time and, after ``end`` [s], with the ``result``.
    result: str
    start: float = 0.0
    end: float = math.inf

    def __len__(self) -> int:
        return len(self.moments) + HOLD


def film(clips: Iterable[Clip], renderer: Renderer) -> Iterator[Picture]:
    """The pictures of ``clips``, one after the other, at real time."""
    for clip in clips:
        renderer.restart()
        for number, moment in enumerate(clip.moments):
            seconds = clip.start + number / FPS
            text = f"{clip.caption}   {seconds:.2f} s"
            picture = renderer.frame(moment)
            yield captioned(picture, f"{text}   {clip.result}" if seconds > clip.end else text)
        yield from itertools.repeat(captioned(picture, f"{text}   {clip.result}"), HOLD)


def captioned(picture: Picture, text: str) -> Picture:
    """``picture`` with a line of text in its upper left corner."""
    from PIL import Image, ImageDraw, ImageFont

    image, height = Image.fromarray(np.ascontiguousarray(picture)), len(picture)
    font = ImageFont.load_default(size=height / 27.0)
    ImageDraw.Draw(image).text((height // 30,) * 2, text, fill=(30, 34, 40), font=font)
    return np.asarray(image)


def episode_moments(task: "Task", episodes: "Episodes", k: int) -> list[Snapshot]:
    """Every state of episode ``k``, up to where it ran away."""
    import jax

    last = int(np.sum(np.asarray(episodes.sound)[:, k]))
    kept = jax.tree.map(lambda a: np.asarray(a[: last + 1, k]), (episodes.scene, episodes.memory))
    return snapshots(task, *kept)


def episode_clip(
    environment: "TaskEnvironment", episodes: "Episodes", k: int, *, caption: str, result: str
) -> Clip:
    """Episode ``k`` of those that were played in ``environment``."""
    moments, period = episode_moments(environment.task, episodes, k), environment.period
    last = len(moments) - 1
    rows = [min(round(n / (FPS * period)), last) for n in range(int(last * period * FPS) + 1)]
    return Clip([moments[row] for row in rows], caption, result)


def trial_clip(folder: Path, trial: "TransferTrial", *, caption: str, after: float = 0.0) -> Clip:
    """Trial ``trial`` of the transfer in ``folder``, from what was kept of it: the policy's turn, a
    little of the ramp before it, and ``after`` [s] past it."""
    from genan.evaluation.transfer import BALLS, FLIGHTS, robot_folder

    robot, name = robot_folder(folder, trial.robot_seed), f"{trial.number:04d}.npz"
    ticks, path = (robot / FLIGHTS).with_suffix(".ticks") / name, robot / BALLS / name
    for archive in filter(Path.exists, (ticks, path)):
        memory.check_npz(archive)
    with np.load(ticks) as kept:
        acts = json.loads(str(kept["about"]))["phases"].index("PolicyController")
        sound = np.isfinite(kept["time"]) & np.isfinite(kept["q"]).all(axis=1)
        times, q, phase = (kept[name][sound] for name in ("time", "q", "phase"))
    nothing = f"There is nothing to film in {ticks}: no joint position was ever read."
    refuse((not len(times), nothing), error=DataError)
    turn = times[phase == acts] if (phase == acts).any() else times
    begun, end = float(turn[0]), float(turn[-1])
    start = max(begun - BEFORE, float(times[0]))
    rows = np.searchsorted(times, np.arange(start, min(end + after, times[-1]) + 1e-9, 1.0 / FPS))
    goal = None if trial.goal is None else np.array(trial.goal)
    # The ball, and what else was kept over time: nothing before it was there.
    things = dict(np.load(path)) if path.exists() else {}
    known, moments = things.pop("time", np.empty(0)), []
    for k in rows:
        now = {}
        if len(known) and times[k] >= known[0] - 1e-9:
            row = min(int(np.searchsorted(known, times[k] - 1e-9)), len(known) - 1)
            # What changes slowly was kept less often.
            now = {name: a[row * len(a) // len(known)] for name, a in things.items() if len(a)}
        moments.append(Snapshot(q[k], goal, now))
    return Clip(moments, caption, trial.outcome, start - begun, end - begun)


def play_in_window(environment: "TaskEnvironment", episodes: "Episodes", stage: Stage) -> None:
    """Play ``episodes`` in MuJoCo's viewer at real time, again and again until it is closed."""
    import mujoco.viewer

    hidden = {"show_left_ui": False, "show_right_ui": False}
    with mujoco.viewer.launch_passive(stage.model, stage.data, **hidden) as viewer:
        viewer.cam.lookat[:] = stage.camera.lookat
        for name in ("distance", "azimuth", "elevation"):
            setattr(viewer.cam, name, getattr(stage.camera, name))
        played = [episode_moments(environment.task, episodes, k) for k in range(environment.envs)]
        for moments in itertools.cycle(played):
            trails, start = Trails(stage), time.perf_counter()
            for k, now in enumerate(moments):
                if not viewer.is_running():
                    return
                with viewer.lock():
                    stage.place(now)
                    viewer.user_scn.ngeom = 0
                    add_lines(viewer.user_scn, trails.at(now))
                viewer.sync()
                time.sleep(max(0.0, start + (k + 1) * environment.period - time.perf_counter()))
            time.sleep(PAUSE)


def has_encoder() -> bool:
    """Whether MP4 can be written here."""
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]

        return bool(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return False


def film_path(path: Path) -> Path:
    """Where a film wanted at ``path`` goes: a GIF of that name where MP4 cannot be written."""
    other = f"A film can be written as {listing(FORMATS)}, not as {path.name!r}."
    refuse((path.suffix.lower() not in FORMATS, other))
    return path if path.suffix.lower() == ".gif" or has_encoder() else path.with_suffix(".gif")


def write_film(frames: Iterator[Picture], path: Path, *, fps: float = FPS) -> None:
    """Write ``frames`` to ``path``, .mp4 or .gif; the file appears whole or not at all."""
    with TemporaryDirectory(dir=path.parent, prefix=".film-") as folder:
        whole = Path(folder) / path.name
        (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(frames, whole, fps)
        whole.replace(path)


def _write_mp4(frames: Iterator[Any], path: Path, fps: float) -> None:
    none = "There is no MP4 encoder here; 'pip install genan[video]' brings one, or write a .gif."
    refuse((not has_encoder(), none))
    import imageio_ffmpeg

    # Its own group of processes needs a fork, which JAX's threads do not survive.
    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])  # H.264 takes even sizes
    film = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=fps, codec="libx264", quality=None, macro_block_size=2,
        output_params=["-crf", "20", "-movflags", "+faststart"], ffmpeg_log_level="error",
    )  # fmt: skip
    with closing(film):
        try:
            film.send(None)
            for frame in itertools.chain([first], frames):
                film.send(np.ascontiguousarray(frame[:height, :width]))
        except OSError as error:
            words = f"ffmpeg could not write the film: {error}; a .gif needs no ffmpeg."
            raise GenanError(words) from None


def _write_gif(frames: Iterator[Any], path: Path, fps: float) -> None:
    from PIL import Image

    first, *more = (  # which is large: every second picture, at half the size
        Image.fromarray(np.ascontiguousarray(frame)).reduce(2).quantize(128)
        for frame in itertools.islice(frames, 0, None, 2)
    )
    first.save(path, save_all=True, append_images=more, duration=2000.0 / fps, loop=0)
