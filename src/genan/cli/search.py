"""Search for better settings of a trainer: UAN, the fit of actuators, or the training of a policy.

Each trial is a job that is kept, as those of a study are: a search that was interrupted goes on
with the same command, and one with more trials takes those of the shorter one over. The first trial
has the defaults.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

if TYPE_CHECKING:
    from rich.console import Console

    from genan.evaluation.studies.executor import Executor
    from genan.evaluation.study_result import SearchResult, SearchTrial

SHOWN = 5
"""Trials in the table."""


@dataclass(frozen=True)
class Search:
    """Flags of ``genan search``."""

    what: tyro.conf.Positional[str]
    """What to search for: uan, fit, reacher, table-tennis, or ball-in-a-cup."""
    trials: int = 50
    """Sets of settings to try, the defaults among them (the paper gave UAN 500)."""
    size: Literal["smoke", "small", "full"] = "small"
    """How much each trial takes: that of a study of this size."""
    out: Path = Path("runs/studies")
    """Folder of the studies: the result goes there, and jobs are shared with them."""
    seed: int = 0
    """Of the suggestions."""
    at_once: int = 2
    """Trials at once. Each is suggested before the others of its group are known, so that another
    number makes another search."""
    retry_failed: bool = False
    """Try again what failed in an earlier run of this search; left out, it counts as failed."""
    on: Literal["local", "ray"] = "local"
    """Where jobs are done: in processes on this machine, or on a Ray cluster (pip install
    genan[ray])."""
    ray_address: str | None = None
    """The cluster's address; left out: the one that RAY_ADDRESS names or that runs here, or else a
    new one."""

    def run(self) -> int:
        """Search, say what was found; exit code."""
        from rich.console import Console

        from genan.cli import INTERRUPTED, REFUSED
        from genan.cli.job_bars import JobBars
        from genan.cli.terminal import interruptible
        from genan.evaluation.studies.schedule import Progress
        from genan.evaluation.studies.search import SearchProgress, search
        from genan.evaluation.studies.sizes import find_size
        from genan.evaluation.studies.spaces import find_space
        from genan.evaluation.studies.study import store_in

        console = Console(highlight=False, markup=False, soft_wrap=True)
        size, store = find_size(self.size), store_in(self.out)
        find_space(self.what, size)  # refuses before anything is started
        earlier = self._earlier()
        store.root.mkdir(parents=True, exist_ok=True)
        executor = self._executor(store.root)
        try:
            with interruptible() as interrupt, JobBars(executor.words) as bars:

                def show(now: SearchProgress) -> None:
                    jobs = now.jobs
                    bars.show(
                        Progress(
                            now.trials,
                            done=len(now.told),
                            running=jobs.running,
                            stopping=jobs.stopping,
                        )
                    )

                result = search(
                    self.what,
                    size,
                    store,
                    executor,
                    trials=self.trials,
                    seed=self.seed,
                    at_once=self.at_once,
                    earlier=earlier,
                    progress=show,
                    saved=lambda so_far: so_far.save(self.out),
                    stopping=lambda: interrupt.requested,
                )
        finally:
            executor.close()
        path = result.save(self.out)
        _print_result(console, result)
        console.print(f"Wrote {path}")
        if interrupt.requested:
            console.print(
                "stopped: everything that is done is kept; the same command goes on from there."
            )
            return INTERRUPTED
        return 0 if result.best is not None else REFUSED

    def _earlier(self) -> "SearchResult | None":
        from genan.evaluation.study_result import SearchResult, search_filename

        path = self.out / search_filename(self.what, self.size)
        return SearchResult.load(path) if path.exists() and not self.retry_failed else None

    def _executor(self, root: Path) -> "Executor":
        if self.on == "ray":
            from genan.evaluation.studies.cluster import RayExecutor

            return RayExecutor(root, address=self.ray_address)
        from genan.evaluation.studies.local import LocalExecutor

        return LocalExecutor(root, workers=self.at_once)


def _print_result(console: "Console", result: "SearchResult") -> None:
    from rich.table import Table

    failed = [trial for trial in result.trials if trial.state == "failed"]
    done = sum(trial.state == "done" for trial in result.trials)
    console.print(
        f"{result.what} ({result.size}): {result.objective} [{result.unit}], {done} trials",
        style="bold",
    )
    ranked, defaults = result.ranked(), result.defaults
    if ranked:
        shown = list(ranked[:SHOWN])
        if defaults is not None and defaults not in shown:
            shown.append(defaults)
        table = Table("setting", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for trial in shown:
            table.add_column(
                "defaults" if trial.number == 0 else f"trial {trial.number}", justify="right"
            )
        table.add_row(result.objective, *(f"{trial.value:.4g}" for trial in shown))
        table.add_row(
            "against the defaults", *(_against(trial, defaults, result) for trial in shown)
        )
        names = list(result.importance) or list(shown[0].settings)
        for name in names:
            part = f" ({100 * result.importance[name]:.0f} %)" if name in result.importance else ""
            table.add_row(f"{name}{part}", *(_short(trial.settings[name]) for trial in shown))
        table.width = console.measure(table, options=console.options.update(max_width=1000)).maximum
        console.print(table, crop=False)
        if result.importance:
            console.print(
                "In brackets: how much of what makes a trial good the setting explains; below 15 % is noise."
            )
    for trial in failed[:SHOWN]:
        console.print(f"trial {trial.number} failed: {trial.error}")
    if failed:
        console.print(f"{len(failed)} trials failed; --retry-failed tries them again.")
    for note in result.notes:
        console.print(f"Note: {note}")


def _against(trial: "SearchTrial", defaults: "SearchTrial | None", result: "SearchResult") -> str:
    """How much better than the defaults a trial is."""
    if defaults is None or trial.value is None or defaults.value is None:
        return "unknown"
    if trial.number == defaults.number:
        return "-"
    if result.unit == "%":
        return f"{trial.value - defaults.value:+.1f} points"
    return (
        "-" if defaults.value == 0.0 else f"{100.0 * (trial.value / defaults.value - 1.0):+.1f} %"
    )


def _short(value: Any) -> str:
    """A setting, for a table."""
    if value is None:
        return "auto"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
