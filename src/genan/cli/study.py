"""Run a study: the experiments behind one figure or table of the paper, or behind all of them.

A study is a grid of jobs. What a job found is kept by the fingerprint of everything that it depends
on: a study that was interrupted goes on, one that shares jobs with another takes them over, and
only what is new is done.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

if TYPE_CHECKING:
    from rich.console import Console

    from genan.evaluation.studies.executor import Executor
    from genan.evaluation.studies.job import Job
    from genan.evaluation.studies.store import Store
    from genan.evaluation.study_result import StudyResult


@dataclass(frozen=True)
class Study:
    """Flags of ``genan study``."""

    names: tyro.conf.Positional[tuple[str, ...]]
    """Which, one or more: accuracy, history, stride, rollout, dataset-size, transfer, table-tennis,
    or all."""
    size: Literal["smoke", "small", "full"] = "small"
    """smoke shows that everything runs (minutes), small is about an hour on two cores, full is the
    paper's (a GPU)."""
    seeds: tuple[int, ...] = (0,)
    """Train every policy once for each of these seeds: how much of a difference is chance?"""
    out: Path = Path("runs/studies")
    """Folder of all studies: their results, and the jobs that they share."""
    on: Literal["local", "ray"] = "local"
    """Where jobs are done: in processes on this machine, or on a Ray cluster (pip install
    genan[ray])."""
    workers: int | None = None
    """Jobs at once on this machine; left out: two, or one where there is a GPU."""
    cpu_workers: int | None = None
    """Beside a GPU: jobs at once that need none (recordings, trials); left out: as many as cores,
    less two."""
    ray_address: str | None = None
    """The cluster's address; left out: the one that RAY_ADDRESS names or that runs here, or else a
    new one."""
    plan: bool = False
    """Only say what there is to do."""

    def run(self) -> int:
        """Do what is not done, say what was found; exit code."""
        from rich.console import Console

        from genan.cli import INTERRUPTED, REFUSED
        from genan.cli.job_bars import JobBars
        from genan.cli.terminal import interruptible
        from genan.evaluation.studies.catalogue import find_studies
        from genan.evaluation.studies.schedule import run
        from genan.evaluation.studies.sizes import find_size
        from genan.evaluation.studies.study import store_in

        console = Console(highlight=False, markup=False, soft_wrap=True)
        studies, size = find_studies(self.names), find_size(self.size).trained(self.seeds)
        store = store_in(self.out)
        jobs = [job for study in studies for job in study.jobs(size)]
        if self.plan:
            return _print_plan(console, jobs, store)
        store.root.mkdir(parents=True, exist_ok=True)
        executor = self._executor(store.root)
        try:
            with interruptible() as interrupt, JobBars(executor.words) as bars:
                now = run(
                    jobs, store, executor, progress=bars.show, stopping=lambda: interrupt.requested
                )
        finally:
            executor.close()
        results = [study.result(size, store, failed=now.failed) for study in studies]
        for result in results:
            path = result.save(self.out)
            _print_result(console, result)
            console.print(f"Wrote {path}\n")
        if interrupt.requested:
            console.print(
                f"stopped: everything that is done is safe in {self.out}; the same command goes on from there."
            )
            return INTERRUPTED
        if now.failed:
            _print_failures(console, results, self.out)
            return REFUSED
        words = "known already" if not now.done else f"done now, {now.known} known already"
        console.print(
            f"{now.done or now.known} jobs {words}. Next: genan report {shlex.quote(str(self.out))}"
        )
        return 0

    def _executor(self, root: Path) -> "Executor":
        if self.on == "ray":
            from genan.evaluation.studies.cluster import RayExecutor

            return RayExecutor(root, address=self.ray_address)
        from genan.evaluation.studies.local import LocalExecutor

        return LocalExecutor(root, workers=self.workers, cpu_workers=self.cpu_workers)


def _print_plan(console: "Console", jobs: "list[Job]", store: "Store") -> int:
    from genan.evaluation.studies.job import in_order

    everything = in_order(jobs)
    for job in everything:
        state = (
            "done"
            if store.find(job) is not None
            else "begun"
            if store.folder(job).exists()
            else "to do"
        )
        console.print(f"{state:<6} {job.id:<24} {job.label}")
    left = sum(store.find(job) is None for job in everything)
    console.print(f"{len(everything)} jobs, {left} to do.")
    return 0


def _print_result(console: "Console", result: "StudyResult") -> None:
    from rich.table import Table

    from genan.evaluation.studies.words import say

    console.print(f"{result.title} ({result.size}): {result.question}", style="bold")
    for figure in result.figures:
        unit = figure.unit
        table = Table(figure.axis, box=None, pad_edge=False, padding=(0, 2, 0, 0))
        console.print(f"{figure.title} [{unit}]")
        for row in figure.series:
            table.add_column(row.name)
            if row.paper:
                table.add_column(f"{row.name}, paper")
        for k, place in enumerate(figure.places):
            cells = []
            for row in figure.series:
                cells.append(say(row.values[k], "").replace("  ", " "))
                if row.paper:
                    cells.append(
                        "-" if row.paper[k] is None else say(row.paper[k], "").replace("  ", " ")
                    )
            table.add_row(str(place), *cells)
        table.width = console.measure(table, options=console.options.update(max_width=1000)).maximum
        console.print(table, crop=False)
    if result.headline:
        console.print(result.headline)
    marks = {True: "as in the paper", False: "NOT as in the paper", None: "cannot be told"}
    for finding in result.findings:
        console.print(f"- {finding.paper} {marks[finding.agrees]}: {finding.ours}")
    for note in result.notes:
        console.print(f"Note: {note}")


def _print_failures(console: "Console", results: list["StudyResult"], out: Path) -> None:
    from genan.evaluation.studies.study import JOBS
    from genan.evaluation.studies.worker import LOG

    seen = set()
    for job in (job for result in results for job in result.jobs if job.state == "failed"):
        if job.id not in seen:
            seen.add(job.id)
            log = out / JOBS / job.id / LOG
            console.print(
                f"failed: {job.label}: {job.error}" + (f" ({log})" if log.exists() else "")
            )
    console.print(
        f"{len(seen)} jobs failed; the others are kept, and the same command tries these again."
    )
