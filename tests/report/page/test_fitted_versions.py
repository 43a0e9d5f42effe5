"""Actuators of every version of their format are read by the report."""

import json
from pathlib import Path

import pytest
from tests.actuator.ensembles import CASES, make

from genan.actuator import save
from genan.errors import DataError
from genan.report.page.runs import load_fitted


@pytest.mark.parametrize(
    ("case", "version"), [("stride", 1), ("delay", 2), ("network on a base", 2)]
)
def test_actuators_of_every_version_are_read(case: str, version: int, tmp_path: Path) -> None:
    folder = save(make(**CASES[case], record='{"data": {"trajectories": 3}}'), tmp_path)
    content = json.loads((folder / "actuator.json").read_text())
    assert content["version"] == version
    assert load_fitted(folder / "actuator.json").trajectories == 3
    (folder / "actuator.json").write_text(json.dumps({**content, "version": 3}))
    with pytest.raises(DataError, match="version 3, not 'genan actuators', 2"):
        load_fitted(folder / "actuator.json")
