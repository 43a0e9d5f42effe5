"""Commands run in this process: ``genan`` for every test, ``experiments`` for those of the
studies."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Answer:
    """What a command left: exit code, and what it printed."""

    code: int
    out: str
    err: str


def runner(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """A function that runs ``main`` with its arguments, as the command would."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(word) for word in arguments])
        except SystemExit as stop:  # tyro leaves this way after --help and after unknown flags
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def refusal(name: str, run: Callable[..., Answer]) -> Callable[..., str]:
    """A function that runs a command that must be refused: exit code 2, one sentence, no
    traceback; returns the sentence."""

    def refused(*arguments: object) -> str:
        answer = run(*arguments)
        assert answer.code == 2, answer
        lines = [line for line in answer.err.splitlines() if line.startswith(f"{name}: ")]
        assert len(lines) == 1 and "Traceback" not in answer.err, answer.err
        return lines[0]

    return refused
