"""What the documentation tells a reader to type: the commands and programs in the fenced blocks of
every page."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

#: Programs that a line of a block may begin with; other lines are what a command prints.
PROGRAMS = ("genan", "python", "pip", "make", "tensorboard", "cd", "mkdir", "cp")
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^ *```", re.S | re.M)
_INLINE = re.compile(r"`((?:genan|python -m experiments) [a-zA-Z][^`\n]*)`")


@dataclass(frozen=True)
class Command:
    """One line to type."""

    page: str
    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join(self.words)}"


@dataclass(frozen=True)
class Program:
    """One block of Python."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    """A page as the tables call it: ``README.md``, ``robots.md``, ``reference/data.md``."""
    return page.name if page.parent == ROOT else page.relative_to(ROOT / "docs").as_posix()


def steps(page: Path) -> list[Command | Program]:
    """Commands and programs of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Command | Program] = []
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("text")) + 1
        if block["language"] == "python":
            found.append(Program(name_of(page), line, block["text"]))
        elif block["language"] in ("", "bash", "sh", "console"):
            found += _commands(name_of(page), line, block["text"])
    return found


def inline(page: Path) -> list[Command]:
    """Commands in the running text, often only parts of one."""
    text = page.read_text(encoding="utf-8")
    plain = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    return [
        Command(
            name_of(page), plain.count("\n", 0, found.start()) + 1, tuple(shlex.split(found[1]))
        )
        for found in _INLINE.finditer(plain)
    ]


def _commands(page: str, line: int, text: str) -> list[Command]:
    found, waiting, begun = [], "", line
    for number, part in enumerate(text.split("\n"), line):
        if not waiting:
            begun = number
        waiting += part.removesuffix("\\")
        if part.endswith("\\"):
            continue
        typed, waiting = waiting.strip().removeprefix("$ "), ""
        if typed.split(" ")[0] in PROGRAMS:
            found.append(Command(page, begun, tuple(shlex.split(typed, comments=True))))
    return found
