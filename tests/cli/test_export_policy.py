import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from tests.rl.policies import ensemble, policy

from genan.actuator import save as save_actuators
from genan.rl import numpy_policy


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return policy().save(tmp_path / "run")


def test_writes_onnx(genan: Callable, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "reacher.onnx"
    answer = genan("export", "--policy", run, "--format", "onnx", "--out", out)
    assert answer.code == 0 and f"Wrote {out}\n" in answer.out
    found = re.search(
        r"Largest difference to the policy: (\S+) of the largest action \((\S+) is allowed\)",
        answer.out,
    )
    assert found is not None and float(found[1]) < float(found[2]) <= 1e-4
    assert onnx.load(out).producer_name == "genan"


def test_writes_numpy(genan: Callable, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "robot"
    answer = genan("export", "--policy", run, "--format", "numpy", "--out", out)
    assert (
        answer.code == 0
        and f"Wrote {out}\n" in answer.out
        and "Largest difference to the policy" in answer.out
    )
    assert numpy_policy.load(out).action_repeat == 5


def test_exactly_one_thing_is_exported(refused: Callable, run: Path, tmp_path: Path) -> None:
    command = ("export", "--format", "numpy", "--out", tmp_path / "out")
    said = refused(*command)
    assert said.endswith("one thing to export, --actuators or --policy, not none.")
    said = refused(*command, "--policy", run, "--actuators", run)
    assert said.endswith("one thing to export, --actuators or --policy, not both.")
    assert not (tmp_path / "out").exists()


def test_the_wrong_kind_of_folder(refused: Callable, run: Path, tmp_path: Path) -> None:
    fit = save_actuators(ensemble(), tmp_path / "fit")
    command = ("export", "--format", "numpy", "--out", tmp_path / "out")
    assert "so it holds actuators; give the --out of 'genan train'." in refused(
        *command, "--policy", fit
    )
    assert "so it holds a policy; give the --out of 'genan fit'." in refused(
        *command, "--actuators", run
    )
    assert "no such folder; give the --out of 'genan train'." in refused(
        *command, "--policy", tmp_path / "no"
    )


def test_an_existing_output_is_replaced_only_when_asked(
    refused: Callable, genan: Callable, run: Path, tmp_path: Path
) -> None:
    command = ("export", "--policy", run, "--format", "onnx", "--out", tmp_path / "out")
    assert genan(*command).code == 0
    assert "out exists; give another --out, or --overwrite" in refused(*command)
    assert genan(*command, "--overwrite").code == 0
