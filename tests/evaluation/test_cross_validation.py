import json
from pathlib import Path

import numpy as np
import pytest
from tests.docs.typed import typed

from genan.actuator import Ensemble, save
from genan.actuator.fit import fit
from genan.actuator.settings import FitSettings
from genan.cli import main
from genan.data import Channels, Trajectories, write
from genan.errors import ActuatorError, DataError, SettingError
from genan.evaluation.actuators import as_json, settings_of
from genan.evaluation.cross_validation import PLAN, cross_validate, folds
from genan.report.verdict import cross_validation_verdict
from genan.robot import Robot


def pieces(names: str, lengths: list[int]) -> Trajectories:
    robot = Robot.load("pendulum")
    pairs = [(np.zeros((length, 1)), np.zeros((length, 1))) for length in lengths]
    return Trajectories.from_list(Channels.of_robot(robot), pairs, recordings=tuple(names))


def test_folds_are_balanced_and_never_cut_a_recording():
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 200, 40).tolist()
    data = pieces("".join(chr(ord("a") + k % 15) for k in range(40)), lengths)
    parts = folds(data, 4)
    assert sorted(np.concatenate(parts).tolist()) == list(range(40))
    owners = [{data.recordings[k] for k in part} for part in parts]
    assert sum(map(len, owners)) == 15 and all(
        not a & b for a in owners for b in owners if a is not b
    )
    sizes = [data.lengths[part].sum() for part in parts]
    assert max(sizes) < 1.25 * min(sizes)
    for again, part in zip(folds(data, 4), parts, strict=True):
        np.testing.assert_array_equal(again, part)
    assert any(
        (a.shape != b.shape) or (a != b).any()
        for a, b in zip(folds(data, 4, seed=1), parts, strict=True)
    )
    assert [len(part) for part in folds(pieces("abc", [20, 20, 20]), 3)] == [1, 1, 1]


def test_recordings_under_the_same_commands_are_in_one_part():
    rng = np.random.default_rng(0)
    commands = [rng.uniform(-1, 1, (40, 1)) for _ in range(3)]
    pairs = [(np.zeros((40, 1)), commands[k % 3]) for k in range(9)]
    data = Trajectories.from_list(Channels.of_robot(Robot.load("pendulum")), pairs)
    assert sorted(sorted(part.tolist()) for part in folds(data, 3)) == [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
    ]
    assert len(folds(data, 5)) == 5  # more than there are kinds of commands: by recordings


def test_folds_that_cannot_be_made():
    with pytest.raises(SettingError, match="from 2 to 3 parts"):
        folds(pieces("abc", [20, 20, 20]), 4)
    with pytest.raises(SettingError, match="from 2 to 3 parts"):
        folds(pieces("abc", [20, 20, 20]), 1)
    with pytest.raises(SettingError, match="there is one"):
        folds(pieces("aa", [20, 20]), 2)


@pytest.fixture
def fitted(recorded) -> tuple[Ensemble, Trajectories, Robot]:
    robot = Robot.load("pendulum")
    data = recorded(robot, (80,) * 8, gain=0.5)
    made = fit(data, robot, hidden=(4,), members=1, epochs=2, history_length=1, batch_size=64)
    return made, data, robot


@pytest.mark.slow
def test_every_recording_is_left_out_once_and_finished_folds_are_kept(fitted, tmp_path: Path):
    ensemble, data, robot = fitted
    folder, told = tmp_path / "folds", []

    def run(**more):
        return cross_validate(
            ensemble,
            data,
            robot,
            parts=2,
            folder=folder,
            horizon=30,
            progress=lambda *step: told.append(step),
            **more,
        )

    asked = iter([False, False, False, False, True, True, True, True])
    assert run(stopping=lambda: next(asked, True)) is None  # stopped in between
    found = run()
    assert found.recordings == 8 and [len(fold["recordings"]) for fold in found.folds] == [4, 4]
    left_out = [name for fold in found.folds for name in fold["recordings"]]
    assert sorted(left_out) == sorted(data.recordings) and found.errors.sums.recordings == tuple(
        left_out
    )
    assert found.errors.samples == 8 * 69 and found.errors.rollouts == 8 * 2
    weighted = np.mean(
        [fold["one_step"] for fold in found.folds], axis=0
    )  # the folds have as many samples each
    np.testing.assert_allclose(found.errors.one_step.mean, weighted)
    assert [one.name for one in found.baselines] == [
        "ridge ARX",
        "constant velocity",
        "standing still",
    ]
    assert {what for what, done, total in told if done == total} == {"fold 1 of 2", "fold 2 of 2"}
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/actuator.json")}
    again = run()
    np.testing.assert_array_equal(again.errors.curve.mean, found.errors.curve.mean)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/actuator.json")} == before
    text = as_json(found)
    json.dumps(text, allow_nan=False)
    assert text["held_control"] == {} and len(text["cross_validation"]) == 2
    assert "all but one of 2 parts of the 8 recordings" in cross_validation_verdict(found)[0]


@pytest.mark.slow
def test_the_command_does_the_same(fitted, tmp_path: Path):
    ensemble, data, _ = fitted
    write(tmp_path / "train.h5", data)
    save(ensemble, tmp_path / "actuators")
    command = typed(
        "genan evaluate --actuators runs/pamy2 --cross-validate 3",
        *("--data", tmp_path / "train.h5", "--horizon", 30, "--no-report"),
        actuators=tmp_path / "actuators",
        cross_validate=2,
    )
    assert main(command) == 0
    found = json.loads(
        (tmp_path / "actuators" / "cross-validation" / "evaluation.json").read_text()
    )
    assert len(found["cross_validation"]) == 2


@pytest.mark.slow
def test_another_cross_validation_takes_the_place_of_the_first(tmp_path: Path):
    from genan.evaluation.cross_validation import _prepare

    _prepare(tmp_path, {"parts": 2})
    (tmp_path / "1").mkdir()
    _prepare(tmp_path, {"parts": 2})
    assert (tmp_path / "1").exists()
    _prepare(tmp_path, {"parts": 2}, overwrite=True)
    assert not (tmp_path / "1").exists()
    (tmp_path / "1").mkdir()
    _prepare(tmp_path, {"parts": 3})
    assert not (tmp_path / "1").exists() and json.loads((tmp_path / PLAN).read_text()) == {
        "parts": 3
    }
    (tmp_path / PLAN).unlink()
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="something else"):
        _prepare(tmp_path, {"parts": 3})


def test_settings_come_from_the_record(ensemble):
    robot = Robot.load("pendulum")
    made = FitSettings(hidden=(4, 3), epochs=2, learning_rate=0.1)
    record = json.dumps({"settings": {**made.settings(), "of another version": 1}})
    assert settings_of(ensemble(robot, record=record)) == made
    with pytest.raises(ActuatorError, match="do not say what settings"):
        settings_of(ensemble(robot))
