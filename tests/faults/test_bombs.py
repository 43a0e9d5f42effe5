"""Small files that would take gigabytes, in every format: the rows of the table."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.importing.bombs import BOMBS
from tests.importing.test_bombs import ALLOWED, check

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("format", sorted({bomb.format for bomb in BOMBS.values()}))
def test_bombs(tmp_path: Path, tried: Callable, format: str) -> None:
    names = [name for name, bomb in BOMBS.items() if bomb.format == format]
    most = check(tmp_path, names, GENAN_MAX_MEMORY=ALLOWED)
    tried(f"bombs of {format}", len(names), f"refused in a sentence; {most} MB taken at most")
