"""The pages' blocks of Python, for the page's own test and for tests in which what a block needs is
at hand already."""

from collections.abc import Mapping
from typing import Any

from tests.docs.blocks import PAGES, Program, name_of, steps


def programs(page: str) -> list[Program]:
    """The blocks of Python of ``page`` (as ``policies.md``), in order."""
    (path,) = (path for path in PAGES if name_of(path) == page)
    return [step for step in steps(path) if isinstance(step, Program)]


def run_block(
    page: str, number: int, *, smaller: Mapping[str, str] | None = None, **names: Any
) -> dict[str, Any]:
    """Run block ``number`` (from 0) of ``page`` in the current folder; returns the names that it
    leaves.

    Args:
        page: as the tables call it.
        number: which of its blocks of Python.
        smaller: text of the block, and what takes its place so that it runs quickly or finds the
            test's robot.
        names: what the page takes for granted.
    """
    step = programs(page)[number]
    text = step.text
    for old, new in (smaller or {}).items():
        assert old in text, f"{step} has no {old!r}"
        text = text.replace(old, new)
    names.setdefault("__name__", "docs")
    exec(compile(text, str(step), "exec"), names)
    return names
