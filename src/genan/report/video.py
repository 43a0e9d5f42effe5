"""Films of episodes: MP4 by ffmpeg, which the package imageio-ffmpeg brings, or an animated GIF
where it is missing."""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from genan.errors import GenanError, SettingError, listing
from genan.report.rendering import Renderer
from genan.report.scenes import snapshot
from genan.tasks.task import Task

if TYPE_CHECKING:
    from genan.rl.episodes import Episodes

FORMATS = (".mp4", ".gif")
#: Pictures per second of a film.
FPS = 50.0
#: How long the last picture of an episode stays [s].
HOLD = 0.6
#: Of a GIF, which is large: every second picture, at half the size.
_GIF_SHARE = 2


def film(
    task: Task,
    episodes: "Episodes",
    renderer: Renderer,
    *,
    period: float,
    captions: Sequence[tuple[str, str]],
    fps: float = FPS,
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """The pictures of all episodes, one after the other, at real time.

    Args:
        task: The task that was played.
        episodes: What happened, with NumPy arrays.
        renderer: Makes the pictures.
        period: Between two states [s].
        captions: For each episode, what is written into its pictures, and what is added to that at
            its end.
        fps: Pictures per second.
    """
    import jax

    for k, (caption, result) in enumerate(captions):
        renderer.restart()
        last, count = _length(episodes, k, period, fps)
        for number in range(count):
            at = min(round(number / (fps * period)), last)
            scene, memory = jax.tree.map(
                lambda a, t=at, e=k: np.asarray(a[t, e]), (episodes.scene, episodes.memory)
            )
            picture = renderer.frame(snapshot(task, scene, memory))
            if number + 1 < count:
                yield captioned(picture, f"{caption}   {at * period:.2f} s")
        for _ in range(_held(fps)):
            yield captioned(picture, f"{caption}   {last * period:.2f} s   {result}")


def count_pictures(episodes: "Episodes", *, period: float, fps: float = FPS) -> int:
    """How many pictures ``film`` makes of ``episodes``."""
    envs = episodes.reward.shape[1]
    return sum(_length(episodes, k, period, fps)[1] - 1 + _held(fps) for k in range(envs))


def _length(episodes: "Episodes", k: int, period: float, fps: float) -> tuple[int, int]:
    """Number of episode ``k``'s last sound state, and of its moments in a film."""
    last = int(np.sum(np.asarray(episodes.sound)[:, k]))
    return last, int(last * period * fps) + 1


def _held(fps: float) -> int:
    return max(1, round(HOLD * fps))


def captioned(
    picture: UInt8[np.ndarray, "height width 3"], text: str
) -> UInt8[np.ndarray, "height width 3"]:
    """``picture`` with a line of text in its upper left corner."""
    from PIL import Image, ImageDraw, ImageFont

    height = len(picture)
    image = Image.fromarray(np.ascontiguousarray(picture))
    draw = ImageDraw.Draw(image)
    margin = height // 30
    draw.text(
        (margin, margin), text, fill=(30, 34, 40), font=ImageFont.load_default(size=height / 27.0)
    )
    return np.asarray(image)


def encoder() -> str | None:
    """The ffmpeg on this machine, from the package imageio-ffmpeg or the system's own; None where
    there is none."""
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return shutil.which("ffmpeg")


def film_path(path: Path) -> Path:
    """Where a film goes that is wanted at ``path``: beside it, as a GIF, where MP4 cannot be
    written."""
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"A film can be written as {listing(FORMATS)}, not as {path.name!r}.")
    return path if path.suffix.lower() == ".gif" or encoder() else path.with_suffix(".gif")


def write_film(
    frames: Iterator[UInt8[np.ndarray, "height width 3"]], path: Path, *, fps: float = FPS
) -> None:
    """Write ``frames`` to ``path``, .mp4 or .gif; the file appears whole or not at all."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(frames, temporary, fps)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_mp4(frames: Iterator[Any], path: Path, fps: float) -> None:
    first = next(frames)
    # H.264 takes even sizes.
    height, width = (side - side % 2 for side in first.shape[:2])
    program = encoder()
    if program is None:
        raise SettingError(
            "There is no MP4 encoder here; 'pip install genan[video]' brings one, or write a .gif."
        )
    source = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
        "-r",
        f"{fps:g}",
        "-i",
        "-",
    ]
    target = [
        "-c:v",
        "libx264",
        "-crf",
        "20",
        "-pix_fmt",
        "yuv420p",
        "-movflags",
        "+faststart",
        str(path),
    ]
    # In its own group of processes, so that Ctrl-C does not end it before the file is closed.
    with subprocess.Popen(
        [program, "-y", "-loglevel", "error", *source, *target],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    ) as ffmpeg:
        assert ffmpeg.stdin is not None and ffmpeg.stderr is not None
        with contextlib.suppress(BrokenPipeError):  # ffmpeg has ended and says why below
            for frame in itertools.chain([first], frames):
                ffmpeg.stdin.write(np.ascontiguousarray(frame[:height, :width]).tobytes())
            ffmpeg.stdin.close()
        complaint = ffmpeg.stderr.read().decode(errors="replace").strip()
    if ffmpeg.returncode:
        raise GenanError(
            f"ffmpeg could not write the film: {complaint or ffmpeg.returncode}; a .gif needs no ffmpeg."
        )


def _write_gif(frames: Iterator[Any], path: Path, fps: float) -> None:
    from PIL import Image

    images = []
    for number, frame in enumerate(frames):
        if number % _GIF_SHARE == 0:
            image = Image.fromarray(np.ascontiguousarray(frame))
            images.append(
                image.resize((image.width // _GIF_SHARE, image.height // _GIF_SHARE)).quantize(128)
            )
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=1000.0 * _GIF_SHARE / fps, loop=0
    )
