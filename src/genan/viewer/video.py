"""Films of episodes and of transfer trials, and a window that plays episodes.

MP4 by ffmpeg, which the package imageio-ffmpeg brings, or an animated GIF where it is missing.
"""

import itertools
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from genan.errors import DataError, GenanError, SettingError, listing
from genan.viewer.rendering import Renderer, Trails, add_lines
from genan.viewer.stage import Snapshot, Stage, snapshots

if TYPE_CHECKING:
    from genan.evaluation.transfer import TransferTrial
    from genan.rl.episodes import Episodes
    from genan.tasks.task import Task, TaskEnvironment

FORMATS = (".mp4", ".gif")
#: Pictures per second of a film.
FPS = 50.0
#: How long the last picture of an episode stays, in a film and in a window [s].
HOLD, PAUSE = 0.6, 1.0
_HELD = round(HOLD * FPS) - 1
#: How much of what was before the policy's turn the film of a trial shows [s].
BEFORE = 0.5
#: Of a GIF, which is large: every second picture, at half the size.
_GIF_SHARE = 2

Picture = UInt8[np.ndarray, "height width 3"]


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
        """Pictures."""
        return len(self.moments) + _HELD


def film(clips: Iterable[Clip], renderer: Renderer) -> Iterator[Picture]:
    """The pictures of ``clips``, one after the other, at real time."""
    for clip in clips:
        renderer.restart()
        for number, moment in enumerate(clip.moments):
            seconds = clip.start + number / FPS
            text = f"{clip.caption}   {seconds:.2f} s"
            picture = renderer.frame(moment)
            yield captioned(picture, f"{text}   {clip.result}" if seconds > clip.end else text)
        held = captioned(picture, f"{text}   {clip.result}")
        yield from itertools.repeat(held, _HELD)


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

    robot = robot_folder(folder, trial.robot_seed)
    ticks = (robot / FLIGHTS).with_suffix(".ticks") / f"{trial.number:04d}.npz"
    with np.load(ticks) as kept:
        about = json.loads(str(kept["about"]))
        times, q, phase = (kept[name] for name in ("time", "q", "phase"))
    sound = np.isfinite(times) & np.isfinite(q).all(axis=1)
    times, q, phase = times[sound], q[sound], phase[sound]
    if not len(times):
        raise DataError(f"There is nothing to film in {ticks}: no joint position was ever read.")
    acting = np.flatnonzero(phase == about["phases"].index("PolicyController"))
    begun, end = (times[acting[0]], times[acting[-1]]) if len(acting) else (times[0], times[-1])
    start = max(begun - BEFORE, times[0])
    rows = np.searchsorted(times, np.arange(start, min(end + after, times[-1]) + 1e-9, 1.0 / FPS))
    goal = None if trial.goal is None else np.array(trial.goal)
    path = robot / BALLS / f"{trial.number:04d}.npz"
    things = dict(np.load(path)) if path.exists() else {"time": np.empty(0)}
    moments = [Snapshot(q[k], goal, _things(float(times[k]), **things)) for k in rows]
    return Clip(moments, caption, trial.outcome, float(start - begun), float(end - begun))


def _things(now: float, time: np.ndarray, **paths: np.ndarray) -> dict[str, np.ndarray]:
    """The ball, and what else was kept over ``time`` [s], as it was at ``now`` [s]; nothing before
    it was there."""
    if not len(time) or now < time[0] - 1e-9:
        return {}
    row = min(int(np.searchsorted(time, now - 1e-9)), len(time) - 1)
    # What changes slowly was kept less often.
    return {
        name: a[min(row * len(a) // len(time), len(a) - 1)] for name, a in paths.items() if len(a)
    }


def play_in_window(environment: "TaskEnvironment", episodes: "Episodes", stage: Stage) -> None:
    """Play ``episodes`` of ``environment`` in MuJoCo's viewer at real time, again and again until
    it is closed."""
    import mujoco.viewer

    with mujoco.viewer.launch_passive(
        stage.model, stage.data, show_left_ui=False, show_right_ui=False
    ) as viewer:
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


def captioned(picture: Picture, text: str) -> Picture:
    """``picture`` with a line of text in its upper left corner."""
    from PIL import Image, ImageDraw, ImageFont

    height = len(picture)
    image = Image.fromarray(np.ascontiguousarray(picture))
    font = ImageFont.load_default(size=height / 27.0)
    ImageDraw.Draw(image).text((height // 30,) * 2, text, fill=(30, 34, 40), font=font)
    return np.asarray(image)


def has_encoder() -> bool:
    """Whether MP4 can be written here."""
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]

        return bool(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return False


def film_path(path: Path) -> Path:
    """Where a film goes that is wanted at ``path``: a GIF of that name where MP4 cannot be
    written."""
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"A film can be written as {listing(FORMATS)}, not as {path.name!r}.")
    return path if path.suffix.lower() == ".gif" or has_encoder() else path.with_suffix(".gif")


def write_film(frames: Iterator[Picture], path: Path, *, fps: float = FPS) -> None:
    """Write ``frames`` to ``path``, .mp4 or .gif; the file appears whole or not at all."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(frames, temporary, fps)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_mp4(frames: Iterator[Any], path: Path, fps: float) -> None:
    if not has_encoder():
        raise SettingError(
            "There is no MP4 encoder here; 'pip install genan[video]' brings one, or write a .gif."
        )
    import imageio_ffmpeg

    # Its own group of processes needs a fork, which JAX's threads do not survive.
    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])  # H.264 takes even sizes
    options = ["-crf", "20", "-movflags", "+faststart"]
    film = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=fps, codec="libx264", quality=None, macro_block_size=2,
        output_params=options, ffmpeg_log_level="error",
    )  # fmt: skip
    try:
        film.send(None)
        for frame in itertools.chain([first], frames):
            film.send(np.ascontiguousarray(frame[:height, :width]))
    except OSError as error:
        raise GenanError(
            f"ffmpeg could not write the film: {error}; a .gif needs no ffmpeg."
        ) from None
    finally:
        film.close()


def _write_gif(frames: Iterator[Any], path: Path, fps: float) -> None:
    from PIL import Image

    images = [
        (image := Image.fromarray(np.ascontiguousarray(frame)))
        .resize((image.width // _GIF_SHARE, image.height // _GIF_SHARE))
        .quantize(128)
        for frame in itertools.islice(frames, 0, None, _GIF_SHARE)
    ]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=1000.0 * _GIF_SHARE / fps, loop=0
    )
