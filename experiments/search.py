"""Searching for better settings: a sampler suggests, jobs try, and the sampler learns from what
they found.

Suggestions follow from the seed and from what the trials before found, in the order in which they
were suggested. A search that was interrupted therefore needs no memory of its own: done again it
suggests the same, and what is done is found in the store.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.executors import Executor, JobsProgress, run
from experiments.jobs import Job, in_order
from experiments.sizes import Size
from experiments.spaces import OneOf, Setting, Space, find_space
from experiments.store import JobResult, Store
from genan.errors import DataError, SettingError
from genan.evaluation.study_result import SearchResult, SearchTrial

AT_RANDOM = 10
"""Trials before the sampler makes anything of them."""
TELLING = 100
"""Trials with a value that it takes to say which settings matter; with fewer, chance does
(docs/search.md)."""


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
    progress: Callable[[JobsProgress], None] = lambda now: None,
    saved: Callable[[SearchResult], object] = lambda result: None,
    stopping: Callable[[], bool] = lambda: False,
) -> SearchResult:
    """Try ``trials`` sets of settings of a trainer, one of ``SEARCHES``, the defaults first.

    ``at_once`` of them are suggested together, before any of them is known: another number gives
    other trials. A trial that failed in an ``earlier`` run is not tried again. ``saved`` is given
    everything so far whenever some trials are through. Those that were not tried because
    ``stopping`` said so are ``missing`` in the result, or not there.
    """
    for name, count in (("trials", trials), ("at_once", at_once)):
        if count < 1:
            raise SettingError(f"A search needs at least 1 for {name}, not {count}.")
    space = find_space(what, size)
    sampler = _Sampler(space, seed)
    known_failures = {t.job: t.error for t in earlier.trials if t.error} if earlier else {}
    done: list[SearchTrial] = []
    found: list[JobResult] = []

    def result(rest: Sequence[SearchTrial] = ()) -> SearchResult:
        return SearchResult(
            what=what,
            size=size.name,
            objective=space.objective,
            unit=space.unit,
            lower_is_better=space.lower_is_better,
            trials=(*done, *rest),
            command=f"python -m experiments search-{what} --trials {trials} --size {size.name} "
            f"--seed {seed} --at-once {at_once}",
            notes=(*size.notes, *space.notes),
            versions=_distinct(one.versions for one in found),
            hardware=_distinct(one.hardware for one in found),
        )

    def show(now: JobsProgress) -> None:
        progress(replace(now, total=trials, known=0, done=len(done), failed={}))

    ready = run(space.shared, store, executor, progress=show, stopping=stopping)
    if ready.failed:
        raise DataError(f"No trial can begin: {next(iter(ready.failed.values()))}")
    while len(done) < trials and not stopping():
        suggested = [sampler.ask() for _ in range(min(at_once, trials - len(done)))]
        jobs = [
            space.job(values, label=f"{what}, trial {number}")
            for number, values in enumerate(suggested, len(done))
        ]
        new = [job for job in jobs if job.id not in known_failures]
        now = run(new, store, executor, progress=show, stopping=stopping)
        batch = []
        for number, (values, job) in enumerate(zip(suggested, jobs, strict=True), len(done)):
            # The first job that failed; those after it only miss it.
            errors = (now.failed.get(part.fingerprint) for part in in_order([job]))
            error = next(filter(None, errors), None) or known_failures.get(job.id)
            batch.append(_trial(number, values, job, space, store, error))
        found += [one for job in jobs if (one := store.find(job)) is not None]
        if any(trial.state == "missing" for trial in batch):  # stopped
            return result(batch)
        for trial in batch:
            sampler.tell(trial)
        done += batch
        show(now)
        saved(result())
    return replace(result(), importance=sampler.importance())


class _Sampler:
    """Optuna's TPE, whose suggestions depend on the seed and earlier results alone."""

    def __init__(self, space: Space, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            raise SettingError("A search needs Optuna: pip install genan[search].") from None
        self._optuna, self._settings = optuna, space.settings
        self._distributions = {one.name: self._distribution(one) for one in space.settings}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with self._quiet():
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=AT_RANDOM, multivariate=True, constant_liar=True
            )
        self._study = optuna.create_study(
            direction="minimize" if space.lower_is_better else "maximize", sampler=sampler
        )
        defaults = {one.name: one.encoded(space.defaults[one.name]) for one in space.settings}
        self._study.enqueue_trial(defaults)
        self._asked: list[Any] = []

    def ask(self) -> dict[str, Any]:
        asked = self._study.ask(self._distributions)
        self._asked.append(asked)
        return {one.name: one.decoded(asked.params[one.name]) for one in self._settings}

    def tell(self, trial: SearchTrial) -> None:
        failed = self._optuna.trial.TrialState.FAIL if trial.value is None else None
        self._study.tell(self._asked[trial.number], trial.value, state=failed)

    def importance(self) -> dict[str, float]:
        """How much each setting tells a good trial from a bad one, the most important first."""
        values = {trial.value for trial in self._study.trials if trial.value is not None}
        if len(values) < TELLING:
            return {}
        importance = self._optuna.importance
        with self._quiet():
            evaluator = importance.PedAnovaImportanceEvaluator()
            found = importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: round(float(part), 4) for name, part in found.items()}

    def _quiet(self) -> Any:
        experimental = self._optuna.exceptions.ExperimentalWarning
        return warnings.catch_warnings(action="ignore", category=experimental)

    def _distribution(self, setting: Setting) -> Any:
        kinds = self._optuna.distributions
        if isinstance(setting, OneOf):
            return kinds.CategoricalDistribution(list(map(setting.encoded, setting.options)))
        kind = kinds.IntDistribution if setting.whole else kinds.FloatDistribution
        return kind(*setting.ends, log=setting.scale != "linear")


def _trial(
    number: int, values: Mapping[str, Any], job: Job, space: Space, store: Store, error: str | None
) -> SearchTrial:
    """What became of a trial; ``error`` says why a job of its failed."""
    found = store.find(job)
    if found is None:
        state: Any = "missing" if error is None else "failed"
        return SearchTrial(number, values, job.id, state, error=error)
    shared = {need.fingerprint for need in in_order(space.shared)}
    own = [store.find(part) for part in in_order([job]) if part.fingerprint not in shared]
    seconds = round(sum(one.seconds for one in own if one is not None), 3)
    value = space.read(found.result)
    if value is None or not math.isfinite(value):
        why = "It ran away: its value is no number."
        return SearchTrial(number, values, job.id, "failed", seconds=seconds, error=why)
    return SearchTrial(number, values, job.id, "done", value, seconds)


def _distinct(rows: Iterable[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
    return tuple({tuple(sorted(row.items())): row for row in rows}.values())
