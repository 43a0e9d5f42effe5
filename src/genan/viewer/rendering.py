"""Pictures and films of a stage, and a window that plays episodes.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from genan.errors import DataError, GenanError, listing, refuse
from genan.viewer.stage import LINE_COLOUR, Snapshot, Stage, snapshots

if TYPE_CHECKING:
    from trimesh import Trimesh

    from genan.evaluation.transfer import TransferTrial
    from genan.tasks.task import Episodes, Task, TaskEnvironment

Picture = UInt8[np.ndarray, "height width 3"]
Points = Float[np.ndarray, "n 3"]  # [m]
Line = tuple[Points, tuple[float, ...], float]  # Points [m], colour and radius [m].

SIZE = (960, 540)  # Width and height of a picture [pixels].
TRAIL = 25  # Moments for which the path of what moves is shown behind it.
FORMATS = (".mp4", ".gif")
FPS = 50.0  # Pictures per second of a film.
HOLD, PAUSE = 29, 1.0
"""How long an episode's last picture stays: in a film, more of them, and in a window [s]."""
BEFORE = 0.5  # How much of what was before the policy's turn the film of a trial shows [s].


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
    """Makes pictures of a stage. ``close`` gives back what the machine lent; more than once does no
    harm."""

    rendered = True  # Whether OpenGL makes them; else they are drawn flat.
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

    rendered = False

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
    if kind == kind.mjGEOM_PLANE:
        return None
    if kind == kind.mjGEOM_MESH:
        mesh = model.mesh(int(model.geom_dataid[geom]))
        points = model.mesh_vert[mesh.vertadr[0] :][: mesh.vertnum[0]]
        faces = model.mesh_face[mesh.faceadr[0] :][: mesh.facenum[0]]
        return Trimesh(points, faces, process=False)
    if kind == kind.mjGEOM_BOX:
        return creation.box(2.0 * size)
    if kind == kind.mjGEOM_CAPSULE:
        return creation.capsule(2.0 * size[1], size[0], count=[facets, facets // 2])
    if kind == kind.mjGEOM_CYLINDER:
        return creation.cylinder(size[0], 2.0 * size[1], sections=facets)
    ball = creation.icosphere(subdivisions=facets // 10)
    return ball.apply_scale(size[[0, 0, 0]] if kind == kind.mjGEOM_SPHERE else size)


@dataclass(frozen=True)
class Clip:
    """What a film shows of one episode or trial."""

    moments: Sequence[Snapshot]  # ``FPS`` of them to a second, the first at the time ``start`` [s].
    caption: str
    """Written into the pictures, with the time and, after ``end`` [s], with the ``result``."""
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
