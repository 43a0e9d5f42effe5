"""The recorded logs of real robots through the commands of the tutorial; skipped where the logs are
not at hand."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.docs.typed import typed
from tests.real_data import LOGS, needs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import real_logs  # noqa: E402

import genan  # noqa: E402
from genan.data import load, summary  # noqa: E402

pytestmark = [pytest.mark.slow, needs(LOGS)]

CASES = {case.name: case for case in real_logs.CASES}


def test_a_servo_is_predicted_at_a_gain_it_never_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Better than every baseline with what the choice takes for this log, among fewer candidates
    than it would try itself, and the servo is seen."""
    words = typed(
        "python benchmarks/real_logs.py logs --out runs/real",
        *("--only", "xl330-800"),
        "--fit=--choose always --history-length 10 --hidden 16 --epochs 10",
        instead={"benchmarks/real_logs.py": real_logs.__file__, "logs": LOGS},
        out=tmp_path,
    )
    monkeypatch.setattr(sys, "argv", words)
    real_logs.main()
    done = capsys.readouterr()
    folder = tmp_path / "xl330-800"
    text = (folder / "robot.toml").read_text()
    assert "dt = 0.01 " in text and text.count("[[controls]]") == 3
    learnt, unseen = load(folder / "train.h5"), load(folder / "test.h5")
    assert (len(set(learnt.recordings)), len(set(unseen.recordings))) == (8, 4)
    assert len(learnt) == 16 and len(unseen) == 4  # both phases to learn from, one to judge by
    said = " ".join((done.out + done.err).split())
    assert (
        "pulled to 'goal_position_rad' by the gain 'kp_firmware' while 'torque_enable' is on"
        in said
    )
    said = " ".join(real_logs.inspected(folder))
    assert "0.0879 deg" in said and "Stiction" in said
    check_better(folder / "actuators")
    assert (folder / "actuators" / "evaluation" / "report.html").exists()
    record = json.loads((folder / "actuators" / "actuator.json").read_text())["record"]
    tried = record["choice"]["tried"]
    assert tried[record["choice"]["chosen"]]["score"] <= tried[record["choice"]["linear"]]["score"]


def test_swing_ups_of_the_double_pendulum_are_predicted_from_identification_runs(
    tmp_path: Path,
) -> None:
    """Better than every baseline, one step ahead and after 0.5 s, on every joint."""
    case, train, test = CASES["double-pendulum"], tmp_path / "train.h5", tmp_path / "test.h5"
    real_logs.describe(case, LOGS, tmp_path)
    flags = ("--test", *case.test, "--test-out", test)
    real_logs.run(
        "import", LOGS / "double_pendulum.npz", "--robot", tmp_path, "--out", train, *flags
    )
    settings = "--base parametric --hidden 32 --history-length 3 --folds 3 --members 3 --epochs 20"
    folder = tmp_path / "actuators"
    real_logs.run(
        "fit", "--data", train, "--robot", tmp_path, "--out", folder, *settings.split(), "--balance"
    )
    real_logs.run("inspect", train, "--robot", tmp_path, "--out", tmp_path / "inspection")
    assert "0.0219 deg" in " ".join(real_logs.inspected(tmp_path))  # the encoder's quantum
    real_logs.run("evaluate", "--actuators", folder, "--data", test, "--horizon", "50")
    check_better(folder)


def test_a_muscle_arm_is_predicted_on_later_episodes(tmp_path: Path) -> None:
    """A small network, learnt from every third episode: better than constant velocity one step
    ahead on every joint, and less than half as far off as standing still after 0.5 s, in the mean
    over the joints (the last one hardly moves in this log)."""
    case, train, test = CASES["pamy1"], tmp_path / "train.h5", tmp_path / "test.h5"
    real_logs.describe(case, LOGS, tmp_path)
    flags = ("--test", *case.test, "--test-out", test)
    real_logs.run("import", LOGS / "pamy1.npz", "--robot", tmp_path, "--out", train, *flags)
    learnt, unseen = (load(path, range(0, len(summary(path)), 3)) for path in (train, test))
    assert (len(learnt), len(unseen), learnt.channels.nu) == (308, 77, 8)
    small = {"history_length": 10, "hidden": (64, 64), "members": 1, "epochs": 25}
    robot = tmp_path / "robot.toml"
    ensemble = genan.fit(learnt, robot, learning_rate=3e-3, balance=True, **small)
    horizon = round(real_logs.SECONDS / learnt.dt)
    found = genan.evaluate(ensemble, unseen, robot, train=learnt, horizon=horizon)
    baselines = {errors.name.split(",")[0]: errors for errors in found.baselines}
    constant, still = baselines["constant velocity"], baselines["standing still"]
    assert (found.errors.one_step_rms.mean < constant.one_step_rms.mean).all()
    assert found.errors.curve[-1, -1].mean < 0.5 * still.curve[-1, -1].mean


def check_better(folder: Path) -> None:
    """The actuators are better than every baseline, one step ahead and at the end of the rollouts,
    on every joint."""
    models = json.loads((folder / "evaluation" / "evaluation.json").read_text())["models"]
    found = {name.split(",")[0]: errors for name, errors in models.items()}
    for measure in (
        lambda errors: errors["one_step_rms"]["mean"],
        lambda errors: errors["curve"]["mean"][-1],
    ):
        mine = np.array(measure(found["actuators"]))
        for baseline in ("ridge ARX", "constant velocity", "standing still"):
            assert (mine < np.array(measure(found[baseline]))).all(), baseline
