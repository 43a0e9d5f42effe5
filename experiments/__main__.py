"""Repeat the experiments behind the paper's figures, or search for better settings.

Every experiment is made of jobs. What a job found is kept by the fingerprint of everything that it
depends on: an experiment that was interrupted goes on with the same command, one that shares jobs
with another takes them over, and only what is new is done.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from genan.cli.terminal import interruptible, print_table
from genan.errors import GenanError, SettingError, listing

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.executors import Executor, JobsProgress
    from experiments.jobs import Job
    from experiments.sizes import Size
    from experiments.store import Store
    from experiments.studies import Study
    from genan.evaluation.study_result import SearchResult, SearchTrial, StudyResult

ALL, SEARCH = "all", "search-"
"""What stands for every study, and what the names of searches begin with."""
REFUSED, INTERRUPTED = 2, 130
SHOWN = 5
"""Trials of a search in the table."""
MARKS = {True: "as in the paper", False: "NOT as in the paper", None: "cannot tell"}


@dataclass(frozen=True)
class Experiments:
    """Flags of ``python -m experiments``."""

    names: tyro.conf.Positional[tuple[str, ...]]
    """Studies (accuracy, history, stride, rollout, dataset-size, transfer, table-tennis, or all)
    and searches (search-uan, search-fit, search-reacher, search-table-tennis,
    search-ball-in-a-cup)."""
    size: Literal["smoke", "small", "full"] = "small"
    """smoke shows that everything runs (minutes), small is about an hour on two cores, full is the
    paper's (a GPU)."""
    out: Path = Path("runs/studies")
    """Folder of all experiments: their results, and the jobs that they share."""
    workers: int | None = None
    """Jobs at once on this machine; left out: two, or one where there is a GPU, and in a search
    --at-once."""
    cpu_workers: int | None = None
    """With a GPU: jobs at once that need none (recordings, trials); left out: the cores less
    two."""
    ray: str | None = None
    """Do the jobs on the Ray cluster at this address, host:port (pip install genan[ray]); auto: the
    one that RAY_ADDRESS names or that runs here, or else a new one."""
    plan: bool = False
    """Only say what there is to do for the studies."""
    only: tuple[str, ...] = ()
    """Studies: do only jobs whose line in --plan contains one of these words, as "train reacher",
    and what those need; left out: all."""
    seeds: tuple[int, ...] = ()
    """Studies: train every policy once for each of these seeds; left out: 0, and at full 0 to
    4."""
    trials: int | None = None
    """Searches: sets of settings to try, the defaults among them; left out: 50, and 200 of UAN's at
    full (the paper gave it 500)."""
    seed: int = 0
    """Searches: of the suggestions."""
    at_once: int = 2
    """Searches: trials at once. Each is suggested before the others of its group are known, so that
    another number makes another search."""
    retry_failed: bool = False
    """Searches: try again what failed in an earlier run; left out, it counts as failed."""

    def run(self) -> int:
        """Do what is not done, say what was found; exit code."""
        from rich.console import Console

        from experiments.sizes import SIZES
        from experiments.spaces import find_space
        from experiments.store import JOBS, Store

        console = Console(highlight=False, markup=False, soft_wrap=True)
        size, store = SIZES[self.size], Store(self.out / JOBS)
        trained = size.trained(self.seeds) if self.seeds else size
        studies, searches = self._wanted()
        for what in searches:
            find_space(what, size)  # refuses before anything is started
        if self.plan:
            return _print_plan(console, self._jobs(studies, trained), store)
        executor = self._executor(store.root, searching=bool(searches))
        code = 0
        try:
            with interruptible() as stopping:
                session = Session(console, store, executor, stopping)
                if studies:
                    code = self._study(session, studies, trained)
                for what in searches:
                    if not stopping():
                        code = max(code, self._search(session, what, size))
        finally:
            executor.close()
        if stopping():
            console.print(
                f"stopped: what is done is safe in {self.out}; the same command goes on from there."
            )
            return INTERRUPTED
        return code

    def _wanted(self) -> "tuple[list[Study], list[str]]":
        from experiments.spaces import SEARCHES
        from experiments.studies import STUDIES

        there = [*STUDIES, ALL, *(SEARCH + what for what in SEARCHES)]
        for name in self.names:
            if name not in there:
                raise SettingError(f"There is no experiment {name!r}; there are: {listing(there)}.")
        names = STUDIES if ALL in self.names else dict.fromkeys(self.names)
        searches = [what for what in SEARCHES if SEARCH + what in self.names]
        return [STUDIES[name] for name in names if name in STUDIES], searches

    def _executor(self, root: Path, *, searching: bool) -> "Executor":
        if self.ray is not None:
            from experiments.cluster import RayExecutor

            return RayExecutor(root, address=self.ray)
        from experiments import executors

        workers = self.at_once if searching and self.workers is None else self.workers
        return executors.LocalExecutor(root, workers=workers, cpu_workers=self.cpu_workers)

    def _jobs(self, studies: "list[Study]", size: "Size") -> "list[Job]":
        """What is asked for, the longest lines of work first."""
        from experiments.jobs import in_order, longest_first

        jobs = [job for study in studies for job in study.jobs(size)]
        if self.only:
            jobs = [job for job in in_order(jobs) if any(word in job.label for word in self.only)]
            if not jobs:
                raise SettingError(
                    f"No job of these studies has {listing(self.only)} in its line; --plan without "
                    "--only shows the lines."
                )
        return longest_first(jobs)

    def _study(self, session: "Session", studies: "list[Study]", size: "Size") -> int:
        from experiments.executors import run
        from experiments.store import LOG

        say, store = session.console.print, session.store
        jobs = self._jobs(studies, size)
        with JobBars(session.executor.words) as bars:
            now = run(jobs, store, session.executor, progress=bars.show, stopping=session.stopping)
        failed = {}
        for study in studies:
            result = study.result(size, store, failed=now.failed)
            path = result.save(self.out)
            _print_study(session.console, result)
            say(f"Wrote {path}\n")
            failed.update({job.id: job for job in result.jobs if job.state == "failed"})
        if session.stopping():
            return INTERRUPTED
        for job in failed.values():
            log = store.root / job.id / LOG
            say(f"failed: {job.label}: {job.error}" + (f" ({log})" if log.exists() else ""))
        if failed:
            say(f"{len(failed)} jobs failed; the same command tries them again, and no others.")
            return REFUSED
        words = "known already" if not now.done else f"done now, {now.known} known already"
        folder = shlex.quote(str(self.out))
        say(f"{now.done or now.known} jobs {words}. Next: genan report {folder}")
        return 0

    def _search(self, session: "Session", what: str, size: "Size") -> int:
        from experiments.search import search
        from experiments.sizes import SEARCH_TRIALS
        from genan.evaluation.study_result import SearchResult

        path = self.out / SearchResult.file.format(what=what, size=self.size)
        known = path.exists() and not self.retry_failed
        trials = size.search_trials.get(what, SEARCH_TRIALS) if self.trials is None else self.trials
        with JobBars(session.executor.words) as bars:
            result = search(
                what,
                size,
                session.store,
                session.executor,
                trials=trials,
                seed=self.seed,
                at_once=self.at_once,
                earlier=SearchResult.load(path) if known else None,
                progress=bars.show,
                saved=lambda so_far: so_far.save(self.out),
                stopping=session.stopping,
            )
        result.save(self.out)
        _print_search(session.console, result)
        session.console.print(f"Wrote {path}")
        return 0 if result.best is not None else REFUSED


@dataclass(frozen=True)
class Session:
    """What all experiments of one command share."""

    console: "Console"
    store: "Store"
    executor: "Executor"
    stopping: Callable[[], bool]


class JobBars:
    """Bars on the screen: one for all jobs, and one for each that is being done."""

    def __init__(self, where: str) -> None:
        from rich import progress
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, markup=False)
        words, bar = progress.TextColumn("{task.description}"), progress.BarColumn()
        count, time = progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
        self._bars = progress.Progress(words, bar, count, time, console=self._console)
        self._whole = self._bars.add_task(f"jobs, {where}", total=None)
        self._rows: dict[str, Any] = {}

    def __enter__(self) -> "JobBars":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()
        if not self._console.is_terminal:
            self._console.print()  # rich leaves the last line open

    def show(self, now: "JobsProgress") -> None:
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
        for key in self._rows.keys() - now.running.keys():
            self._bars.remove_task(self._rows.pop(key))


def _print_plan(console: "Console", jobs: "list[Job]", store: "Store") -> int:
    from experiments.jobs import in_order

    jobs = in_order(jobs)
    done = [store.find(job) is not None for job in jobs]
    for job, known in zip(jobs, done, strict=True):
        state = "done" if known else "begun" if store.folder(job).exists() else "to do"
        console.print(f"{state:<6} {job.id:<24} {job.label}")
    console.print(f"{len(jobs)} jobs, {done.count(False)} to do.")
    return 0


def _print_study(console: "Console", result: "StudyResult") -> None:
    from experiments.words import say

    console.print(f"{result.title} ({result.size}): {result.question}", style="bold")
    for figure in result.figures:
        columns = {figure.axis: [str(place) for place in figure.places]}
        for row in figure.series:
            columns[row.name] = [say(value) for value in row.values]
            if row.paper:
                columns[f"{row.name}, paper"] = ["-" if v is None else say(v) for v in row.paper]
        console.print(f"{figure.title} [{figure.unit}]")
        print_table(columns)
    if result.headline:
        console.print(result.headline)
    for finding in result.findings:
        console.print(f"- {finding.paper} {MARKS[finding.agrees]}: {finding.ours}")
    for note in result.notes:
        console.print(f"Note: {note}")


def _print_search(console: "Console", result: "SearchResult") -> None:
    ranked, defaults = result.ranked(), result.defaults
    title = f"{result.what} ({result.size}): {result.objective} [{result.unit}]"
    console.print(f"{title}, {len(ranked)} trials", style="bold")
    if ranked:
        shown = list(ranked[:SHOWN])
        if defaults is not None and defaults not in shown:
            shown.append(defaults)
        names = ["defaults" if trial is defaults else f"trial {trial.number}" for trial in shown]
        rows = [
            [result.objective, *(_short(trial.value) for trial in shown)],
            ["against the defaults", *(_against(trial, result) for trial in shown)],
        ]
        for name in result.importance or shown[0].settings:
            part = f" ({100 * result.importance[name]:.0f} %)" if result.importance else ""
            rows.append([f"{name}{part}", *(_short(trial.settings[name]) for trial in shown)])
        print_table(["setting", *names], rows)
        if result.importance:
            console.print(
                "In brackets: how much of what makes a trial good the setting explains; below 15 % "
                "is noise."
            )
    failed = [trial for trial in result.trials if trial.state == "failed"]
    for trial in failed[:SHOWN]:
        console.print(f"trial {trial.number} failed: {trial.error}")
    if failed:
        console.print(f"{len(failed)} trials failed; --retry-failed tries them again.")
    for note in result.notes:
        console.print(f"Note: {note}")


def _against(trial: "SearchTrial", result: "SearchResult") -> str:
    """How much better than the defaults a trial is."""
    if result.defaults is None:
        return "unknown"
    value, default = trial.value or 0.0, result.defaults.value or 0.0
    if trial.number == 0:
        return "-"
    if result.unit == "%" or default == 0.0:
        return f"{value - default:+.1f} points" if result.unit == "%" else "-"
    return f"{100.0 * (value / default - 1.0):+.1f} %"


def _short(value: Any) -> str:
    """A setting, for a table."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "auto" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _list() -> str:
    from experiments.spaces import SEARCHES
    from experiments.studies import STUDIES

    lines = {study.name: study.question for study in STUDIES.values()}
    lines[ALL] = "all seven of them"
    lines |= {SEARCH + what: f"better settings of {what}" for what in SEARCHES}
    return "usage: python -m experiments NAME... --size smoke|small|full [flags]\n\n" + "\n".join(
        f"  {name:<22}{line}" for name, line in lines.items()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run experiments; exit code: 0 done, 2 refused or failed, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments:
        print(_list())
        return 0
    flags = tyro.cli(Experiments, prog="python -m experiments", description=__doc__, args=arguments)
    try:
        return flags.run()
    except (GenanError, OSError) as error:
        print(f"experiments: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("\nexperiments: interrupted.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
