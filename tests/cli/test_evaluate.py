import json
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from tests.docs.typed import typed

import genan.cli
from genan.actuator import Contract, Ensemble, History, load, save
from genan.actuator.ensemble import Layer, Scaling
from genan.actuator.fitting import FitInterruptedError
from genan.actuator.settings import Architecture
from genan.data import Channels, Trajectories, write
from genan.robot import Robot


@pytest.fixture(autouse=True)
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        genan.cli.VERBS, "evaluate", "judge fitted actuators on a recording they were not fitted to"
    )


def recording(seed: int, count: int = 4, robot: str = "pendulum") -> Trajectories:
    machine = Robot.load(robot)
    rng = np.random.default_rng(seed)
    t = np.arange(700)[:, None] * machine.dt
    pieces = []
    for _ in range(count):
        wave = np.sin(rng.uniform(2, 4) * t + rng.uniform(0, 6, max(machine.nq, machine.nu)))
        u = wave[:, : machine.nu] * 2.0
        u[150:] = u[150]
        q = 0.2 * wave[:, : machine.nq] + 1e-3 * np.cumsum(
            rng.normal(size=(700, machine.nq)), axis=0
        )
        pieces.append((q, u))
    return Trajectories.from_list(Channels.of_robot(machine), pieces)


def artifact(
    folder: Path,
    *,
    members: int = 2,
    damping: float = 0.2,
    record: dict | None = None,
    name: str = "pendulum",
) -> Path:
    robot = Robot.load("pendulum")
    weight = np.zeros((members, 4, 1), np.float32)
    weight[:, 1, 0] = damping / robot.dt
    weight[:, 2, 0] = 0.01 * np.arange(members)
    contract = Contract(
        name,
        robot.dt,
        robot.joint_names,
        ("rad",),
        robot.control_names,
        ("V",),
        History(1),
        Architecture(()),
        members,
        "position",
        ((0.0, 0.0),),
        ((0.0, 0.0),),
    )
    scaling = Scaling(jnp.zeros(4), jnp.ones(4), jnp.zeros(1), jnp.ones(1))
    layers = (Layer(jnp.asarray(weight), jnp.zeros((members, 1))),)
    return save(Ensemble(contract, layers, scaling, json.dumps(record or {})), folder)


@pytest.fixture
def judged_file(tmp_path: Path) -> Path:
    path = tmp_path / "test.h5"
    data = recording(0)
    write(path, data, truth={"tau": np.sin(data.q), "pressure": np.zeros((len(data.q), 2))})
    return path


@pytest.mark.slow
def test_evaluate_prints_draws_and_keeps(
    genan: Callable, tmp_path: Path, judged_file: Path
) -> None:
    train = recording(1)
    write(tmp_path / "train.h5", train)
    record = {
        "data": {"path": str(tmp_path / "train.h5"), "fingerprint": train.fingerprint},
        "settings": {"learning_rate": 1},
    }
    ours, other = (
        artifact(tmp_path / "ours", record=record),
        artifact(tmp_path / "other", members=1),
    )
    weights = (ours / "model.safetensors").read_bytes()
    before = (other / "actuator.json").read_bytes()
    answer = genan(
        "evaluate", "--actuators", ours, "--compare", other, "--data", judged_file, "--horizon", 100
    )
    assert answer.code == 0, answer.err
    for word in (
        "ours",
        "other",
        "a member alone",
        "ridge ARX",
        "constant velocity",
        "standing still",
        "1 step",
        "100 steps",
        "diverged",
        "95 %",
        "Held control",
        "it settles",
        "rank correlation",
        "Compared with the baselines",
        "better in",
        "New to the model",
        "Verdict",
        "The model is off by",
        "report.html",
    ):
        assert word in answer.out, word
    assert "left out" not in answer.out and "fitted to:" not in answer.out
    folder = ours / "evaluation"
    for picture in ("error.png", "rollouts.png", "held-control.png", "trust.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((folder / "evaluation.json").read_text())
    assert list(numbers["models"])[:3] == ["ours", "other", "a member alone"]
    assert (
        len(numbers["models"]["ours"]["curve"]["low"]) == 100 and numbers["torque"]["correlation"]
    )
    assert len(numbers["certainty"]["comparisons"]) == 6 and numbers["certainty"]["recordings"] == 4
    assert (
        list(numbers["novelty"]["beyond"]) == ["q"]
        and numbers["versions"]["genan"]
        and len(numbers["verdict"]) > 2
    )
    assert (ours / "reference.safetensors").exists()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert (
        "How far to trust ours" in page
        and "Compared with the baselines" in page
        and "New to the model" in page
    )
    kept = load(ours)
    assert kept.record["metrics"]["horizon"] == 100 and kept.record["settings"] == {
        "learning_rate": 1
    }
    assert kept.record["metrics"]["one_step"] == numbers["models"]["ours"]["one_step"]
    assert kept.record["metrics"]["held_control"]["fit_for_training"] is True
    assert (ours / "model.safetensors").read_bytes() == weights
    assert (other / "actuator.json").read_bytes() == before

    again = genan(
        "evaluate",
        "--actuators",
        ours,
        "--data",
        judged_file,
        "--horizon",
        1000,
        "--train-data",
        judged_file,
        "--no-report",
    )
    assert (
        again.code == 0
        and "not 1000" in again.out
        and "ridge ARX" in again.out
        and "report.html" not in again.out
    )  # the folder is made again
    assert json.loads((folder / "evaluation.json").read_text())["horizon"] == 689


@pytest.mark.slow
def test_without_the_training_recording_there_are_no_baselines(
    genan: Callable, tmp_path: Path, judged_file: Path
) -> None:
    fingerprint = recording(0).fingerprint
    cases = (
        ({}, "does not say what it was fitted to"),
        (
            {"data": {"path": str(tmp_path / "gone.h5"), "fingerprint": "1"}},
            "is not there any more",
        ),
        (
            {"data": {"path": str(judged_file), "fingerprint": "1"}},
            "not the recording that the actuators were fitted to",
        ),
        (
            {"data": {"path": str(tmp_path / "gone.h5"), "fingerprint": fingerprint}},
            "This is the recording that the",
        ),
    )
    for k, (record, words) in enumerate(cases):
        folder = artifact(tmp_path / f"a{k}", members=1, damping=-0.3, record=record)
        answer = genan(
            "evaluate", "--actuators", folder, "--data", judged_file, "--horizon", 20, "--no-report"
        )
        assert answer.code == 0, answer.err
        out = " ".join(answer.out.split())
        assert words in out and "--train-data" in out and "ARX" not in out
        assert "no training recording to make it from" in out and "New to the model" not in out
        assert "unfit for training policies" in out


@pytest.mark.slow
def test_several_training_recordings(
    genan: Callable, refused: Callable, tmp_path: Path, judged_file: Path
) -> None:
    parts = [recording(1), recording(2)]
    paths = [tmp_path / "one.h5", tmp_path / "two.h5"]
    for path, part in zip(paths, parts, strict=True):
        write(path, part)
    record = {
        "data": {
            "path": [str(path) for path in paths],
            "fingerprint": Trajectories.concatenate(parts).fingerprint,
        }
    }
    folder = artifact(tmp_path / "a", members=1, record=record)
    arguments = (
        "evaluate",
        "--actuators",
        folder,
        "--data",
        judged_file,
        "--horizon",
        5,
        "--no-report",
    )
    answer = genan(*arguments)
    assert answer.code == 0 and "ridge ARX" in answer.out, answer.err
    assert "one training recording" in refused(*arguments, "--true-torque")


def test_where_it_writes(
    refused: Callable, genan: Callable, tmp_path: Path, judged_file: Path
) -> None:
    folder, out = artifact(tmp_path / "a", members=1), tmp_path / "out"
    out.mkdir()
    arguments = typed(
        "genan evaluate --actuators runs/pamy2 --data new.h5 --out runs/new-log",
        *("--horizon", 5, "--no-report"),
        actuators=folder,
        data=judged_file,
        out=out,
    )
    assert "--overwrite" in refused(*arguments)
    assert genan(*arguments, "--overwrite").code == 0 and (out / "error.png").exists()
    assert not (folder / "evaluation").exists()


def test_refusals(refused: Callable, tmp_path: Path, judged_file: Path) -> None:
    folder = artifact(tmp_path / "a", members=1)
    other = tmp_path / "other.h5"
    write(other, recording(0, robot="two-link"))
    assert "'q'" in refused("evaluate", "--actuators", folder, "--data", other)
    assert "two-link" in refused(
        "evaluate", "--actuators", folder, "--data", judged_file, "--robot", "two-link"
    )
    assert "There are no actuators" in refused(
        "evaluate", "--actuators", tmp_path / "no", "--data", judged_file
    )
    assert "There is no file" in refused(
        "evaluate", "--actuators", folder, "--data", tmp_path / "no.h5"
    )
    assert "--cross-validate K" in refused("evaluate", "--actuators", folder)
    assert "nothing to cross-validate on" in refused(
        "evaluate", "--actuators", folder, "--cross-validate", 2
    )
    assert "from 2 to 4 parts" in refused(
        "evaluate",
        "--actuators",
        artifact(tmp_path / "s", record={"settings": {"epochs": 1}}),
        "--cross-validate",
        9,
        "--data",
        judged_file,
    )
    assert "one set of settings" in refused(
        "evaluate",
        "--actuators",
        folder,
        "--cross-validate",
        2,
        "--data",
        judged_file,
        "--true-torque",
    )
    stranger = artifact(tmp_path / "b", members=1, name="my-own-arm")
    assert "'my-own-arm'" in refused("evaluate", "--actuators", stranger, "--data", judged_file)
    assert "--train-data" in refused(
        "evaluate", "--actuators", folder, "--data", judged_file, "--true-torque"
    )
    plain = tmp_path / "plain.h5"
    write(plain, recording(0))
    message = refused(
        "evaluate",
        "--actuators",
        folder,
        "--data",
        judged_file,
        "--true-torque",
        "--train-data",
        plain,
    )
    assert "no true torques" in message


@pytest.mark.slow
def test_a_stranger_can_be_judged_with_his_robot(
    genan: Callable, tmp_path: Path, judged_file: Path
) -> None:
    folder = artifact(tmp_path / "b", members=1, name="my-own-arm")
    answer = genan(
        "evaluate",
        "--actuators",
        folder,
        "--data",
        judged_file,
        "--robot",
        "pendulum",
        "--horizon",
        5,
        "--no-report",
    )
    assert answer.code == 0, answer.err


@pytest.mark.slow
def test_networks_on_true_torques_are_judged_too(
    genan: Callable, tmp_path: Path, judged_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = artifact(tmp_path / "a", members=2), artifact(tmp_path / "b", members=1)
    asked = []

    def baseline(ensemble, train_path, robot, progress, *, out):
        asked.append((train_path, robot.name, out))
        return ensemble

    monkeypatch.setattr("genan.actuator.fit.true_torque_baseline", baseline)
    answer = genan(
        *typed(
            "genan evaluate --actuators runs/position --compare runs/torque --data test.h5 "
            "--true-torque",
            *("--train-data", judged_file, "--horizon", 5, "--no-report"),
            actuators=folder,
            compare=other,
            data=judged_file,
        )
    )
    assert answer.code == 0 and "true torques" in answer.out
    assert asked == [(judged_file, "pendulum", folder / "baselines" / "true-torque")]


@pytest.mark.slow
def test_cross_validation_is_printed_and_goes_on_after_an_interruption(
    genan: Callable, tmp_path: Path, judged_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {
        "data": {"path": str(judged_file), "fingerprint": recording(0).fingerprint},
        "settings": {"epochs": 1},
    }
    folder = artifact(tmp_path / "a", members=1, record=record)
    learnt = []

    class Fitting:
        def __init__(self, data, robot, settings, *, out: Path) -> None:
            learnt.append((len(data), settings.epochs, out.name))
            self.out = out

        def run(self, observer) -> None:
            if len(learnt) == 2:
                raise FitInterruptedError("stopped")
            save(load(folder), self.out)

    monkeypatch.setattr("genan.actuator.fitting.Fitting", Fitting)
    arguments = ("evaluate", "--actuators", folder, "--cross-validate", 2, "--horizon", 10)
    answer = genan(*arguments)
    assert answer.code == 130 and "the same command goes on" in answer.err
    answer = genan(*arguments)
    assert answer.code == 0, answer.err
    assert learnt == [(2, 1, "1"), (2, 1, "2"), (2, 1, "2")]  # the first fold was kept
    for words in (
        "fitted again 2 times",
        "ridge ARX",
        "Compared with the baselines",
        "Verdict",
        "all but one of 2 parts",
    ):
        assert words in " ".join(answer.out.split()), words
    numbers = json.loads((folder / "cross-validation" / "evaluation.json").read_text())
    assert len(numbers["cross_validation"]) == 2 and numbers["models"]["a"]["samples"] == 4 * 689
    assert "How far to trust a" in (folder / "cross-validation" / "report.html").read_text(
        encoding="utf-8"
    )
    assert "metrics" not in load(folder).record and not (folder / "evaluation").exists()
