from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Answer, refusal, runner

from experiments.__main__ import main
from experiments.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs")


@pytest.fixture
def experiments(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run a command in this process, as ``python -m experiments ARGUMENTS`` would."""
    return runner(main, capsys)


@pytest.fixture
def refused(experiments: Callable[..., Answer]) -> Callable[..., str]:
    """Run a command that must be refused in one sentence; returns the sentence."""
    return refusal("experiments", experiments)
