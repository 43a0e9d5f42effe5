"""Recorded flights, looked at by the script that knows nothing of the guard."""

import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

SCRIPT = str(Path(__file__).parents[2] / "benchmarks" / "check_flight.py")


def checked(path: Path) -> None:
    """No control that was sent left its range or its rate limit, by the file ``path`` and the ticks
    next to it."""
    with patch.object(sys, "argv", [SCRIPT, str(path)]), pytest.raises(SystemExit) as ended:
        runpy.run_path(SCRIPT, run_name="__main__")
    assert ended.value.code == 0
