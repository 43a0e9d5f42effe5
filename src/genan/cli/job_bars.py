"""Jobs on the screen: one bar for all of them, and one for each that is being done."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import TaskID

    from genan.evaluation.studies.schedule import Progress as Standing


class JobBars:
    """What is going on, on the screen."""

    def __init__(self, where: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._console = Console(stderr=True, highlight=False, markup=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._whole = self._bars.add_task(f"jobs, {where}", total=None)
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> "JobBars":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()
        if not self._console.is_terminal:
            self._console.print()  # rich leaves the last line open

    def show(self, now: "Standing") -> None:
        """Bring the screen up to date."""
        completed = now.known + now.done + len(now.failed)
        self._bars.update(self._whole, total=now.total, completed=completed)
        if now.stopping:
            self._bars.update(self._whole, description="stopping where that is safe")
        for key, (job, share) in now.running.items():
            if key not in self._rows:
                self._rows[key] = self._bars.add_task(f"  {job.label}", total=100)
                if not self._console.is_terminal:
                    self._console.print(f"begun: {job.label}")
            self._bars.update(self._rows[key], completed=round(100 * share))
        for key in [key for key in self._rows if key not in now.running]:
            self._bars.remove_task(self._rows.pop(key))
