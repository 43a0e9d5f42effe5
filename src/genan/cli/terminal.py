"""What the verbs share on the screen: folders to write to, progress, Ctrl-C, tables, sentences."""

import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from genan.errors import SettingError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that exists, unless what an earlier run put there may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file, so nothing can be put there; give another --out.")
    if folder.exists() and not overwrite:
        raise SettingError(
            f"{folder} exists; give another --out, or --overwrite to replace what an earlier run "
            "put there."
        )


def progress_bar(console: "Console") -> "Progress":
    """A bar with count, items per second, elapsed time and time left, on ``console``."""
    from rich import progress
    from rich.text import Text

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.0f}/s")

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        Speed(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=console,
    )


class ProgressBars:
    """A progress bar for each part of the work: call it with what, how much, of how much."""

    def __init__(self, console: "Console") -> None:
        self._bar = progress_bar(console)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "ProgressBars":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` of ``what``."""
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done)


def time_left(seconds: float) -> str:
    """How a line of progress ends: ", 1:05 left"; nothing while it is not known."""
    if seconds == float("inf"):
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f", {hours}:{minutes:02d}:{rest:02d} left" if hours else f", {minutes}:{rest:02d} left"


class Interrupt:
    """Whether someone pressed Ctrl-C.

    An interrupt that Python raises anywhere can be lost (in a callback that swallows it) or land in
    the middle of a write; a job that asks ``requested`` between its steps has neither problem.
    """

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take the signal; the second one stops at once."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Within this block Ctrl-C sets ``requested`` instead of raising."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()
) -> "Table":
    """A plain table; columns named in ``left`` are aligned there, the others to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        made.add_column(Text(column), justify="left" if column in left else "right", no_wrap=True)
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def print_table(console: "Console", made: "Table") -> None:
    """Print a table in its own width: where the screen is narrower its lines go on, uncut."""
    made.width = console.measure(made, options=console.options.update(max_width=1000)).maximum
    console.print(made, crop=False)


def print_sentences(
    console: "Console", title: str, colour: str, sentences: Sequence[str], otherwise: str = ""
) -> None:
    """A heading and a list; ``otherwise``: what to print where there is nothing to list."""
    from rich.table import Table
    from rich.text import Text

    if not sentences:
        console.print(f"[green]{otherwise}[/green]")
        return
    console.print(f"[bold]{title}[/bold]")
    grid = Table.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row(f"[{colour}]•[/{colour}]", Text(sentence))
    console.print(grid)
