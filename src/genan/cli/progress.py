"""The progress bar of every long job: done, speed, time left."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def progress_bar(console: "Console") -> "Progress":
    """A bar with count, items per second, elapsed time and time left, on ``console``."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Task as ProgressTask
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: ProgressTask) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.0f}/s")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Speed(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


def time_left(seconds: float) -> str:
    """How a line of progress ends: ", 1:05 left"; nothing while it is not known."""
    if seconds == float("inf"):
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f", {hours}:{minutes:02d}:{rest:02d} left" if hours else f", {minutes}:{rest:02d} left"
