"""Films of transfer trials from what was kept of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from genan.errors import DataError
from genan.evaluation.transfer import Trial
from genan.report.rendering import Renderer
from genan.report.trials import TrialPath, film_trial, load_trial_renderer
from genan.robot import Robot


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
    trial = Trial(3, 0, True, "in the cup", "", [], None)
    path = TrialPath.load(tmp_path, "ball-in-a-cup", trial)
    assert (path.start, path.end) == pytest.approx((-0.5, 0.998)) and len(path.moments) == 75
    base = np.array([0.0, 0.0, 1.21])
    moment = path.moments[10]  # 0.2 s later
    np.testing.assert_allclose(moment.ball, 7.0 + 0.3 + 0.2 + base, atol=1e-9)
    np.testing.assert_allclose(moment.points[-1], moment.ball, atol=0.021)
    np.testing.assert_allclose(moment.q, q[250])
    renderer = load_trial_renderer("ball-in-a-cup", Robot.load("pamy2-cup"))
    assert isinstance(renderer, Renderer)
    frames = list(
        film_trial(TrialPath(path.moments[:1], 0.0, 0.0), renderer, caption="", result="")
    )
    renderer.close()
    assert len(frames) == 31


def test_a_trial_without_a_reading_is_refused(tmp_path: Path) -> None:
    ticks = tmp_path / "robot" / "flights.ticks"
    ticks.mkdir(parents=True)
    nothing = {"time": np.full(3, np.nan), "q": np.full((3, 4), np.nan), "phase": np.zeros(3, int)}
    np.savez(
        ticks / "0000.npz", about=np.array('{"phases": ["PolicyController", "to rest"]}'), **nothing
    )
    with pytest.raises(DataError, match="nothing to film"):
        TrialPath.load(tmp_path, "reacher", Trial(0, None, False, "", "", [], None))
