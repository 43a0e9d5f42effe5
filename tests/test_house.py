"""What keeps the house small: one name for one thing, robots in their folders, files one can
read."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES, ZOO = (sorted((ROOT / name).rglob("*.py")) for name in ("src", "zoo"))

LINES, FILES = 30_000, 160
"""What the package may grow to: what one person can hold in the head."""


def test_no_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in [*MODULES, *ZOO]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice


def test_the_package_stays_small() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES)
    assert lines <= LINES and len(MODULES) <= FILES
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_a_robot_of_the_zoo_stays_small() -> None:
    for folder in {path.parent for path in ZOO if path.parent.name != "genan_zoo"}:
        lines = [len(p.read_text(encoding="utf-8").splitlines()) for p in folder.glob("*.py")]
        assert sum(lines) <= 350, folder


def test_no_line_is_over_100_characters() -> None:
    """ruff lets a line pass that a pragma makes too long."""
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*MODULES, *ZOO]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 100
    ]
    assert not long


def test_pamy2_is_named_in_its_own_folder() -> None:
    others = [
        path
        for path in MODULES
        if "pamy2" in path.read_text(encoding="utf-8") and "pamy2" not in path.parts
    ]
    assert len(others) <= 3, others
