import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.py"))


def run(number: str, *arguments: object) -> str:
    script = next(example for example in EXAMPLES if example.name.startswith(number))
    command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short_and_say_what_they_are() -> None:
    assert len(EXAMPLES) >= 2
    for example in EXAMPLES:
        text = example.read_text()
        assert text.startswith('"""') and len(text.splitlines()) < 80


def test_01_records_and_inspects(tmp_path: Path) -> None:
    out = run("01", tmp_path)
    assert "20 trajectories" in out and (tmp_path / "pendulum.h5").exists()


def test_02_retraces_to_rounding() -> None:
    error = re.search(r"within ([0-9.e-]+) rad", run("02"))
    assert error is not None and float(error[1]) == pytest.approx(0.0, abs=1e-9)
