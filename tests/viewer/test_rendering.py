import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import imageio_ffmpeg
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from genan.errors import DataError, SettingError
from genan.evaluation.transfer import TransferTrial
from genan.robot import Robot
from genan.simulation import ArmState
from genan.tasks.reacher import Reacher
from genan.tasks.registry import task_entry, task_settings
from genan.tasks.task import Episodes
from genan.viewer import rendering
from genan.viewer.rendering import Snapshot, Stage

SIZE = (64, 36)
STEPS = 20


def frames(count: int) -> list[np.ndarray]:
    """Grey pictures that get brighter."""
    return [np.full((SIZE[1], SIZE[0], 3), 10 * k, np.uint8) for k in range(count)]


def decoded(path: Path) -> np.ndarray:
    program = imageio_ffmpeg.get_ffmpeg_exe()
    command = [
        program,
        "-loglevel",
        "error",
        "-i",
        str(path),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, SIZE[1], SIZE[0], 3)


def test_an_mp4_holds_the_pictures(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    rendering.write_film(iter(frames(12)), path)
    np.testing.assert_allclose(decoded(path).mean(axis=(1, 2, 3)), 10.0 * np.arange(12), atol=4.0)
    assert list(tmp_path.iterdir()) == [path]


def test_a_gif_holds_every_second_picture_at_half_the_size(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    rendering.write_film(iter(frames(12)), path, fps=50.0)
    with Image.open(path) as found:
        assert found.n_frames == 6 and found.size == (32, 18) and found.info["duration"] == 40


def test_without_an_encoder_the_film_becomes_a_gif(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rendering.film_path(Path("a/film.mp4")) == Path("a/film.gif")
    with pytest.raises(SettingError, match=r"pip install genan\[video\]"):
        rendering.write_film(iter(frames(2)), tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_other_formats_are_refused() -> None:
    with pytest.raises(SettingError, match="'.mp4', '.gif', not as 'film.avi'"):
        rendering.film_path(Path("film.avi"))


class Slate(rendering.Renderer):
    """Writes down what it is asked to draw."""

    def __init__(self) -> None:
        self.moments: list[float] = []
        self.episodes = 0

    def restart(self) -> None:
        self.episodes += 1

    def frame(self, now: Snapshot) -> np.ndarray:
        self.moments.append(float(now.q[0]))
        return np.zeros((SIZE[1], SIZE[0], 3), np.uint8)


def test_episodes_are_filmed_at_real_time_up_to_where_they_ran_away() -> None:
    """Positions count the steps: 100 states per second, 50 pictures per second."""
    task = Reacher.load(Robot.load("pamy2"), task_settings("reacher"))
    q = jnp.broadcast_to(jnp.arange(STEPS + 1.0)[:, None, None], (STEPS + 1, 2, 4))
    zero = jnp.zeros((STEPS, 2))
    sound = jnp.ones((STEPS, 2), bool).at[9:, 1].set(False)
    played = Episodes(
        ArmState(q, q),
        q,
        q,
        jnp.zeros((STEPS, 2, 4)),
        zero,
        {"distance": zero},
        zero[0],
        {"error": zero[0]},
        sound,
    )
    slate, environment = Slate(), SimpleNamespace(task=task, period=0.01)
    clips = [
        rendering.episode_clip(environment, played, k, caption="a", result="won") for k in (0, 1)
    ]
    pictures = list(rendering.film(clips, slate))
    assert slate.episodes == 2 and slate.moments == [*range(0, 21, 2), *range(0, 9, 2)]
    assert len(pictures) == sum(map(len, clips)) == 11 + 5 + 2 * 29


def test_a_caption_is_written_into_the_upper_left_corner() -> None:
    plain = np.full((120, 200, 3), 255, np.uint8)
    changed = np.argwhere(np.any(rendering.captioned(plain, "reacher") != plain, axis=-1))
    assert len(changed) > 20 and changed[:, 0].max() < 20 and changed[:, 1].max() < 100


def test_a_film_shows_the_policys_turn_with_the_ball_and_the_string(tmp_path: Path) -> None:
    ticks, balls = tmp_path / "robot-0" / "flights.ticks", tmp_path / "robot-0" / "balls"
    ticks.mkdir(parents=True), balls.mkdir()
    time = 7.0 + 0.002 * np.arange(1000)
    q = np.linspace(0.0, 1.0, 1000)[:, None] * np.ones(4)
    phase = np.repeat([0, 1, 2], [400, 500, 100])
    about = json.dumps({"phases": ["RampTo", "PolicyController", "to rest"]})
    np.savez(ticks / "0003.npz", about=np.array(about), time=time, q=q, phase=phase)
    ball = np.stack([time, time, time], axis=1)
    np.savez(
        balls / "0003.npz", time=time, ball=ball, string=np.stack([0.5 * ball, ball], axis=1)[::10]
    )
    trial = TransferTrial(3, 0, True, "in the cup", "", [], None)
    clip = rendering.trial_clip(tmp_path, trial, caption="cup")
    assert (clip.start, clip.end) == pytest.approx((-0.5, 0.998)) and len(clip.moments) == 75
    moment = clip.moments[10]  # 0.2 s later
    np.testing.assert_allclose(moment.markers["ball"], 7.0 + 0.3 + 0.2, atol=1e-9)
    np.testing.assert_allclose(moment.markers["string"][-1], moment.markers["ball"], atol=0.021)
    np.testing.assert_allclose(moment.q, q[250])
    renderer = rendering.load_renderer(Stage(Robot.load("pamy2-cup"), task_entry("ball-in-a-cup")))
    frames = list(rendering.film([replace(clip, moments=clip.moments[:1])], renderer))
    renderer.close()
    assert len(frames) == 30


def test_a_trial_without_a_reading_is_refused(tmp_path: Path) -> None:
    ticks = tmp_path / "robot" / "flights.ticks"
    ticks.mkdir(parents=True)
    nothing = {"time": np.full(3, np.nan), "q": np.full((3, 4), np.nan), "phase": np.zeros(3, int)}
    np.savez(
        ticks / "0000.npz", about=np.array('{"phases": ["PolicyController", "to rest"]}'), **nothing
    )
    with pytest.raises(DataError, match="nothing to film"):
        rendering.trial_clip(tmp_path, TransferTrial(0, None, False, "", "", [], None), caption="")
