from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.store import Store


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs")


@pytest.fixture
def experiments(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run a command in this process, as ``python -m experiments ARGUMENTS`` would."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(experiments: Callable[..., Answer]) -> Callable[..., str]:
    """Run a command that must be refused in one sentence; returns the sentence."""

    def run(*arguments: object) -> str:
        answer = experiments(*arguments)
        lines = [line for line in answer.err.splitlines() if line.startswith("experiments: ")]
        assert answer.code == 2 and len(lines) == 1 and "Traceback" not in answer.err, answer
        return lines[0]

    return run
