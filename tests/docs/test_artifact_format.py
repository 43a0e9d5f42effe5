"""The reader that the page on the artifact format spells out reads every kind of artifact."""

import contextlib
from pathlib import Path

import pytest
from tests.actuator.ensembles import CASES, make
from tests.docs.blocks import ROOT, Program, steps

from genan.actuator import ensemble as artifact

pytestmark = pytest.mark.docs

BLOCKS = [step for step in steps(ROOT / "docs" / "artifact-format.md") if isinstance(step, Program)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_readers_torques_are_those_of_genan(case: dict, tmp_path: Path) -> None:
    artifact.save(make(**case), tmp_path / "runs" / "pamy2")
    names: dict[str, object] = {}
    with contextlib.chdir(tmp_path):
        for block in BLOCKS:  # the last one compares
            exec(compile(block.text, str(block), "exec"), names)
    assert callable(names["torques"])
