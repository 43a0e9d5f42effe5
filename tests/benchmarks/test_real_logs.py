"""The recorded logs of real robots through the commands of the tutorial; skipped where the logs are not at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.docs.typed import typed

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import real_logs  # noqa: E402

REAL = ROOT.parent / "shared" / "data" / "real"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"the recorded logs are not here ({REAL})")

CASES = {case.name: case for case in real_logs.CASES}


@pytest.mark.parametrize(
    "name, seen",
    [
        pytest.param("double-pendulum", ("0.0219 deg",), id="swing-ups, learnt from identification runs"),
        pytest.param("xl330-800", ("0.0879 deg", "Stiction"), id="a servo's gain, learnt from two others"),
    ],
)
def test_it_is_better_than_every_baseline(name: str, seen: tuple[str, ...], tmp_path: Path) -> None:
    """One step ahead and after 0.5 s, on every joint; and ``genan inspect`` saw what there is to see."""
    # In a process of its own, with the compiler as users have it: a fit is more than a few quick compilations.
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    words = typed(
        "python benchmarks/real_logs.py logs --out runs/real",
        *("--only", name),
        instead={"benchmarks/real_logs.py": real_logs.__file__, "logs": REAL},
        out=tmp_path,
    )
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    folder = tmp_path / name
    _, steps = real_logs.row(CASES[name], folder, {})
    assert (steps["model"] < steps["ridge ARX"]).all() and (steps["model"] < steps["constant velocity"]).all()
    found = json.loads((folder / "actuators" / "evaluation" / "evaluation.json").read_text())
    ends = {key.split(",")[0]: np.array(errors["curve"]["mean"][-1]) for key, errors in found["models"].items()}
    for baseline in ("ridge ARX", "constant velocity", "standing still"):
        assert (ends["actuators"] < ends[baseline]).all(), baseline
    assert (folder / "actuators" / "evaluation" / "report.html").exists()
    record = json.loads((folder / "actuators" / "actuator.json").read_text())["record"]
    tried = record["choice"]["tried"]
    assert tried[record["choice"]["chosen"]]["score"] <= tried[record["choice"]["linear"]]["score"]
    said = " ".join(real_logs.inspected(folder))
    assert all(words in said for words in seen), said


def test_a_gain_can_be_held_out(tmp_path: Path) -> None:
    case = CASES["xl330-800"]
    real_logs.describe(case, REAL, tmp_path)
    text = (tmp_path / "robot.toml").read_text()
    assert "dt = 0.01 " in text and text.count("[[controls]]") == 3
    flags = ("--test", *case.test, "--test-out", tmp_path / "test.h5")
    real_logs.run("import", REAL / "xl330.npz", "--robot", tmp_path, "--out", tmp_path / "train.h5", *flags)
    from genan.data import load

    train, test = load(tmp_path / "train.h5"), load(tmp_path / "test.h5")
    assert (len(set(train.recordings)), len(set(test.recordings))) == (8, 4)
    assert len(train) == 16 and len(test) == 4  # both phases to learn from, one to judge by
