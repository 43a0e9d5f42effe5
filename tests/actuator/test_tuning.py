"""Noise and history of a large recording are tried on a part of it before the fit."""

from pathlib import Path

import numpy as np
import pytest
from tests.evaluation.conftest import simulate

import genan
from genan.actuator import fit as fitting
from genan.actuator import tuning
from genan.actuator.fitting import FitInterruptedError, FitObserver
from genan.actuator.settings import FitSettings
from genan.data import Channels, Trajectories
from genan.robot import Robot

COUNT = 2e-4  # Of the encoder [rad].
SMALL = {"hidden": (8,), "members": 1, "epochs": 1, "batch_size": 128}


@pytest.fixture(scope="module")
def recording() -> Trajectories:
    """A pendulum on a coarse encoder: 12 trajectories of 0.8 s."""
    robot, rng, pieces = Robot.load("pendulum"), np.random.default_rng(0), []
    t = np.arange(400)[:, None] * robot.dt
    for _ in range(12):
        u = np.sin(rng.uniform(4, 25) * t + rng.uniform(0, 6))
        q = simulate(robot, u, damping=0.1, gain=0.4, q0=rng.uniform(-1, 1, 1))
        pieces.append((np.round(q / COUNT) * COUNT, u))
    return Trajectories.from_list(Channels.of_robot(robot), pieces)


@pytest.fixture(autouse=True)
def a_large_recording_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_TO_CHOOSE", 1000)
    monkeypatch.setattr(tuning, "SMALL", {**tuning.SMALL, "hidden": (8,), "epochs": 1})


@pytest.mark.slow
def test_what_was_tried_is_said_and_kept_and_what_was_best_is_taken(
    recording: Trajectories, tmp_path: Path
) -> None:
    notes: list[str] = []
    observer = FitObserver(note=notes.append)
    fitted = genan.fit(recording, "pendulum", out=tmp_path / "a", observer=observer, **SMALL)
    tried = fitted.record["tuning"]["tried"]
    assert len(tried) == 5 and "as given" in tried
    assert sum("deg after" in note for note in notes) == 5
    assert fitted.record["tuning"]["seconds"] > 0.1
    alone = [name for name in tried if name.startswith("history noise") and "," not in name]
    noises = sorted(float(name.split()[2]) for name in alone)
    # The encoder's own noise is a twelfth of a squared count.
    assert noises[0] == pytest.approx(COUNT / np.sqrt(12), rel=0.5)
    assert noises[1] == pytest.approx(3 * noises[0], rel=0.05)
    chosen, made = fitted.record["tuning"]["chosen"], fitted.record["settings"]
    assert ("history noise" in chosen) == (made["history_noise"] > 0.0)
    assert (made["history_length"] == 10) == ("history length 10" in chosen)
    assert made["hidden"] == [8]  # the fit's own, not the trial's


@pytest.mark.parametrize("given", [{"choose": "never"}, {"history_noise": 1e-3}])
def test_what_is_given_is_taken(recording: Trajectories, given: dict) -> None:
    assert "tuning" not in genan.fit(recording, "pendulum", **SMALL, **given).record


def test_a_change_must_be_clearly_better(
    recording: Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged by errors that are made up: noise 1 % better is not taken, noise 10 % better is, and
    what is tried next builds on it."""
    monkeypatch.setattr(tuning.Fitting, "run", lambda self, observer: None)
    found = iter([1.0, 0.99, 0.9, 0.89, 0.8])
    judge = lambda self, ensemble, dataset, dynamics: np.array([[1.0], [next(found)]])
    monkeypatch.setattr(tuning.HeldOutSamples, "judge", judge)
    chosen = tuning.tune(
        recording, Robot.load("pendulum"), FitSettings(), noise=0.001, observer=FitObserver()
    )
    assert chosen.chosen == "history noise 0.003, history length 10"
    assert (chosen.settings.history_noise, chosen.settings.history_length) == (0.003, 10)
    assert chosen.settings.control_noise == 0.0 and chosen.settings.hidden == FitSettings().hidden
    stopping = FitObserver(stopping=lambda: True)
    with pytest.raises(FitInterruptedError, match="begins again"):
        tuning.tune(
            recording, Robot.load("pendulum"), FitSettings(), noise=0.001, observer=stopping
        )
