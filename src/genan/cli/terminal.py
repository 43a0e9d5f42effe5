"""What the verbs share: printing, checks of flags, progress, Ctrl-C, tables, lists of sentences."""

import math
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich import box, progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genan.errors import refuse
from genan.words import interval


@dataclass(frozen=True, kw_only=True)
class KeyFlags:
    """A flag of the verbs that read actuators or policies."""

    require_signature: tuple[Path, ...] | None = None
    """Public keys: what none of them has signed is refused; left out: GENAN_REQUIRE_SIGNATURE's."""


def console(*, stderr: bool = False) -> Console:
    """Where a verb prints: plain text, long lines left as they are."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def say(text: str = "", style: str = "", *, stderr: bool = False) -> None:
    """Print a line."""
    console(stderr=stderr).print(text, style=style)


def given(**flags: Any) -> dict[str, Any]:
    """The flags that were given: those that are not None."""
    return {name: value for name, value in flags.items() if value is not None}


def check_out(path: Path, *, overwrite: bool, flag: str = "--out", folder: bool = True) -> None:
    """Refuse a place that is taken, unless what an earlier run put there may be replaced."""
    file = f"{path} is a file, so nothing can be put there; give another {flag}."
    taken = f"{path} exists; give another {flag}, or --overwrite to replace what an earlier run put"
    refuse(
        (folder and path.exists() and not path.is_dir(), file),
        (path.exists() and not overwrite, f"{taken} there."),
    )


@contextmanager
def interruptible(*others: signal.Signals) -> Iterator[Callable[[], bool]]:
    """Within this block Ctrl-C (or one of ``others``) makes the given function say yes; the second
    one stops at once. An interrupt that Python raises anywhere can be lost, in a callback, or land
    in the middle of a write; a job that asks between its steps has neither problem."""
    taken: list[int] = []

    def take(number: int, frame: Any) -> None:
        if taken:
            raise KeyboardInterrupt
        taken.append(number)

    before = {which: signal.signal(which, take) for which in (signal.SIGINT, *others)}
    try:
        yield lambda: bool(taken)
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


class Bars(progress.Progress):
    """A bar for each part of a long job, with its speed and times, and the newest numbers below.
    Call it with a part, how much of it is done and how much there is; the first call for a part
    ends the bar of the one before. Nothing is shown before the first call."""

    def __init__(self) -> None:
        self._numbers, self._lines = "", dict[str, progress.TaskID]()
        bar, time = progress.BarColumn(), progress.TimeElapsedColumn()
        columns = "{task.description}", bar, "{task.fields[speed]}", time
        super().__init__(*columns, console=console(stderr=True), refresh_per_second=4)

    def __enter__(self) -> "Bars":
        return self

    def get_renderables(self) -> Iterator[Any]:
        return iter((self.make_tasks_table(self.tasks), Text(self._numbers)))

    def stop(self) -> None:
        if self.live.is_started:
            super().stop()

    def __call__(
        self,
        part: str,
        done: int | float,
        total: int | float,
        words: str = "",
        speed: str | None = None,
        numbers: str = "",
    ) -> None:
        """``words`` for the part, its ``speed`` and the ``numbers`` where they are known better."""
        if part not in self._lines:
            for task in self.tasks:
                self.update(task.id, completed=task.total)
            begun: Any = done
            self._lines[part] = self.add_task(part, total=total, completed=begun, speed="")
        line = self._lines[part]
        self.update(line, completed=done, description=words or part)
        if speed is None:
            task = self.tasks[line]
            rate = "" if task.speed is None else f" {task.speed:.0f}/s"
            speed = f"{done}/{total}{rate}{time_left(task.time_remaining or math.inf)}"
        self.update(line, speed=speed)
        self._numbers = numbers
        self.start()


def time_left(seconds: int | float) -> str:
    """How a line of progress ends: ", 0:01:05 left"; nothing while it is not known."""
    return "" if seconds == math.inf else f", {timedelta(seconds=round(seconds))} left"


def estimate(found: Any, factor: float) -> str:
    """An ``Estimate`` of one number, in another unit: "4.44 (4.31 to 4.59)"."""
    mean, low, high = (factor * float(end) for end in (found.mean, found.low, found.high))
    return interval(mean, low, high)


def print_table(columns: Iterable[str], rows: Any = None, *, stderr: bool = False) -> None:
    """Print a table in its own width: where the screen is narrower its lines go on, uncut.
    ``columns``: cells by name, or the names alone, with ``rows``. Numbers are aligned to the right,
    other columns and the first one to the left."""
    out = console(stderr=stderr)
    rows = list(zip(*columns.values(), strict=True) if isinstance(columns, Mapping) else rows)
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    made.padding = (0, 1, 0, 0)
    for name, *cells in zip(columns, *rows, strict=True):
        numbers = made.columns and all(cell[:1] in "+-.0123456789" for cell in cells)
        made.add_column(name, justify="right" if numbers else "left", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    made.width = out.measure(made, options=out.options.update(max_width=1000)).maximum
    out.print(made, crop=False)


def print_pairs(pairs: Iterable[tuple[str, str]], style: str) -> None:
    """Two columns, the first in a style, the second in lines as wide as the screen."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column(overflow="fold")
    for pair in pairs:
        grid.add_row(*pair)
    console().print(grid, soft_wrap=False)


def print_sentences(title: str, colour: str, sentences: Iterable[str]) -> None:
    """A heading, a list, and an empty line."""
    say(title, "bold")
    print_pairs((("•", sentence) for sentence in sentences), colour)
    say()
