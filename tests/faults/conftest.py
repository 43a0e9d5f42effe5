"""``make test-faults`` ends with one table: what was tried, how often, and what held."""

from collections.abc import Callable
from typing import Any

import pytest

Tried = Callable[[str, int, str], None]
TRIED = "tried"


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """Add a row to the table: what was tried, how many times, and what held."""
    return lambda *row: request.node.user_properties.append((TRIED, row))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The rows of all tests; those of a test that failed say so."""
    rows: list[tuple[str, tuple[str, str, str]]] = []
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            found = [row for name, row in getattr(report, "user_properties", ()) if name == TRIED]
            if outcome == "passed" and not found:
                continue
            test = report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")
            for what, count, held in found or [(test, 0, "")]:
                if outcome == "skipped":
                    held = f"not tried: {report.longrepr[-1]}"
                held = held if outcome in ("passed", "skipped") else "DID NOT HOLD, see above"
                rows.append((report.nodeid, (what, f"{count:,}" if count else "", held)))
    if not rows:
        return
    table = [("what was tried", "how many", "what held"), *(row for _, row in sorted(rows))]
    first, second = (max(len(row[k]) for row in table) for k in (0, 1))
    terminalreporter.section("faults")
    for what, count, held in table:
        terminalreporter.write_line(f"{what:<{first}}  {count:>{second}}  {held}")
