"""Searching for better settings: a sampler suggests, jobs try, and the sampler learns from what
they found.

Suggestions follow from the seed and from what the trials before found, in the order in which they
were suggested. A search that was interrupted therefore needs no memory of its own: done again it
suggests the same, and what is done is found in the store.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from genan.errors import DataError, SettingError
from genan.evaluation.studies.executor import Executor
from genan.evaluation.studies.job import Job, in_order
from genan.evaluation.studies.schedule import Progress, run
from genan.evaluation.studies.sizes import Size
from genan.evaluation.studies.spaces import Choice, Setting, Space, find_space
from genan.evaluation.studies.store import Done, Store
from genan.evaluation.study_result import SearchResult, SearchTrial

AT_RANDOM = 10
"""Trials before the sampler makes anything of them."""
TELLING = 100
"""Trials with a value that it takes to say which settings matter; with fewer, chance does
(docs/search.md)."""


@dataclass(frozen=True)
class SearchProgress:
    """Where a search stands."""

    trials: int
    """In all."""
    told: tuple[SearchTrial, ...]
    """Those that are through."""
    jobs: Progress
    """The jobs of the present ones, or of what all share."""


def search(
    what: str,
    size: Size,
    store: Store,
    executor: Executor,
    *,
    trials: int,
    seed: int = 0,
    at_once: int = 2,
    earlier: SearchResult | None = None,
    progress: Callable[[SearchProgress], None] = lambda now: None,
    saved: Callable[[SearchResult], object] = lambda result: None,
    stopping: Callable[[], bool] = lambda: False,
) -> SearchResult:
    """Look for the best settings of a trainer.

    Args:
        what: the trainer: uan, fit, or the name of a task.
        size: how much each trial takes.
        store: where jobs are kept; those that are done are not done again.
        executor: where they are done.
        trials: how many sets of settings to try, the defaults first.
        seed: of the suggestions.
        at_once: trials that are suggested together, before any of them is known. Another number
            gives other trials.
        earlier: what an earlier run left; a trial that failed there is not tried again.
        progress: told what goes on.
        saved: given everything so far, whenever some trials are through.
        stopping: whether to stop; what runs is brought to where it can go on from.

    Returns:
        All trials; those that were not tried because it was stopped are ``missing`` or not there.
    """
    for name, count in (("trials", trials), ("at_once", at_once)):
        if count < 1:
            raise SettingError(f"A search needs at least 1 for {name}, not {count}.")
    space = find_space(what, size)
    sampler = _Sampler(space, seed)
    known_failures = (
        {trial.job: trial.error for trial in earlier.trials if trial.error} if earlier else {}
    )
    command = f"genan search {what} --trials {trials} --size {size.name} --seed {seed} --at-once {at_once}"
    told: list[SearchTrial] = []
    found: list[Done] = []

    def result(rest: Sequence[SearchTrial] = ()) -> SearchResult:
        return _result(space, size, (*told, *rest), found, command)

    def show(now: Progress) -> None:
        progress(SearchProgress(trials, tuple(told), now))

    ready = run(space.shared, store, executor, progress=show, stopping=stopping)
    if ready.failed:
        raise DataError(f"No trial can begin: {next(iter(ready.failed.values()))}")
    while len(told) < trials and not stopping():
        suggested = [sampler.ask() for _ in range(min(at_once, trials - len(told)))]
        jobs = [
            space.job(values, label=f"{what}, trial {len(told) + k}")
            for k, values in enumerate(suggested)
        ]
        now = run(
            [job for job in jobs if job.id not in known_failures],
            store,
            executor,
            progress=show,
            stopping=stopping,
        )
        batch = [
            _trial(
                len(told) + k,
                values,
                job,
                space,
                store,
                _reason(job, now.failed) or known_failures.get(job.id),
            )
            for k, (values, job) in enumerate(zip(suggested, jobs, strict=True))
        ]
        found += [done for job in jobs if (done := store.find(job)) is not None]
        if any(trial.state == "missing" for trial in batch):  # stopped
            return result(batch)
        for trial in batch:
            sampler.tell(trial)
            told.append(trial)
        show(now)
        saved(result())
    return replace(result(), importance=sampler.importance())


class _Sampler:
    """Optuna's TPE, whose suggestions depend on nothing but the seed and what it was told."""

    def __init__(self, space: Space, seed: int) -> None:
        self._optuna = optuna = _load_optuna()
        self._settings = space.settings
        self._distributions = {
            setting.name: self._distribution(setting) for setting in space.settings
        }
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=AT_RANDOM, multivariate=True, constant_liar=True
            )
        self._study = optuna.create_study(
            direction="minimize" if space.lower_is_better else "maximize", sampler=sampler
        )
        self._study.enqueue_trial(
            {s.name: s.encoded(space.defaults[s.name]) for s in space.settings}
        )
        self._asked: dict[int, Any] = {}

    def ask(self) -> dict[str, Any]:
        """The next settings to try."""
        asked = self._study.ask(self._distributions)
        self._asked[asked.number] = asked
        return {
            setting.name: setting.decoded(asked.params[setting.name]) for setting in self._settings
        }

    def tell(self, trial: SearchTrial) -> None:
        """What came of them."""
        if trial.value is None:
            self._study.tell(self._asked[trial.number], state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(self._asked[trial.number], trial.value)

    def importance(self) -> dict[str, float]:
        """How much each setting tells a good trial from a bad one, the most important first."""
        values = {trial.value for trial in self._study.trials if trial.value is not None}
        if len(values) < TELLING:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            found = self._optuna.importance.get_param_importances(
                self._study, evaluator=self._optuna.importance.PedAnovaImportanceEvaluator()
            )
        return {name: round(float(part), 4) for name, part in found.items()}

    def _distribution(self, setting: Setting) -> Any:
        distributions = self._optuna.distributions
        if isinstance(setting, Choice):
            return distributions.CategoricalDistribution(
                [setting.encoded(option) for option in setting.options]
            )
        kind = distributions.IntDistribution if setting.whole else distributions.FloatDistribution
        return kind(*setting.ends, log=setting.scale != "linear")


def _trial(
    number: int, values: Mapping[str, Any], job: Job, space: Space, store: Store, error: str | None
) -> SearchTrial:
    """What became of a trial; ``error`` says why a job of its failed."""
    done = store.find(job)
    if done is None:
        return SearchTrial(
            number, values, job.id, "missing" if error is None else "failed", error=error
        )
    value = space.read(done.result)
    shared = {need.fingerprint for need in in_order(space.shared)}
    own = [
        found
        for part in in_order([job])
        if part.fingerprint not in shared and (found := store.find(part))
    ]
    seconds = round(sum(found.seconds for found in own), 3)
    if value is None or not math.isfinite(value):
        return SearchTrial(
            number,
            values,
            job.id,
            "failed",
            seconds=seconds,
            error="It ran away: its value is no number.",
        )
    return SearchTrial(number, values, job.id, "done", value=value, seconds=seconds)


def _reason(job: Job, failed: Mapping[str, str]) -> str | None:
    """Why the first job of a trial failed that did; those after it only miss it."""
    return next(
        (failed[part.fingerprint] for part in in_order([job]) if part.fingerprint in failed), None
    )


def _result(
    space: Space, size: Size, trials: Sequence[SearchTrial], found: Sequence[Done], command: str
) -> SearchResult:
    return SearchResult(
        what=space.what,
        size=size.name,
        objective=space.objective,
        unit=space.unit,
        lower_is_better=space.lower_is_better,
        trials=tuple(trials),
        command=command,
        notes=(*size.notes, *space.notes),
        versions=_distinct(done.versions for done in found),
        hardware=_distinct(done.hardware for done in found),
    )


def _distinct(rows: Iterable[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
    return tuple({tuple(sorted(row.items())): row for row in rows}.values())


def _load_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise SettingError("A search needs Optuna: pip install genan[search].") from None
    return optuna
