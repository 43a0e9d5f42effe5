from collections.abc import Callable
from dataclasses import dataclass

import pytest

from genan.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def genan(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run a command in this process, as ``genan ARGUMENTS`` would."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:  # tyro leaves this way after --help and after unknown flags
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(genan: Callable[..., Answer]) -> Callable[..., str]:
    """Run a command that must be refused: exit code 2, one sentence, no traceback; returns the
    sentence."""

    def run(*arguments: object) -> str:
        answer = genan(*arguments)
        assert answer.code == 2, answer
        lines = [line for line in answer.err.splitlines() if line.startswith("genan: ")]
        assert len(lines) == 1 and "Traceback" not in answer.err, answer.err
        return lines[0]

    return run
