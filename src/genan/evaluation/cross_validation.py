"""Cross-validation by whole recordings: actuators fitted again without a part of their recordings,
and judged on it; and errors before and after actuators went on learning.

Every recording is left out once. What comes of it is how good the settings of a fit are on
recordings that it has not seen, without a recording that was kept back for it.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genan.actuator import Ensemble, load
from genan.actuator.contract import CONTRACT
from genan.actuator.dataset import load_all, same_commands, split_usable
from genan.actuator.errors import JobProgress
from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting
from genan.actuator.settings import FitSettings
from genan.data import Trajectories
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, DataError, GenanError, SettingError
from genan.evaluation.accuracy import (
    HORIZON,
    ErrorSums,
    ModelErrors,
    divergence_bound,
    judge_baseline,
    judge_ensemble,
    plan,
)
from genan.evaluation.actuators import fit_baselines
from genan.evaluation.comparison import BaselineComparison, compare
from genan.files import write_atomically
from genan.robot import Robot

MOST = 200  # Trajectories that errors are measured on, at most.


@dataclass(frozen=True, eq=False)
class BeforeAndAfter:
    """Errors on one recording."""

    recording: str  # Which recording, in words.
    trajectories: int  # How many of its trajectories were held out, and judged by.
    before: ModelErrors
    after: ModelErrors


def compare_refit(
    before: Ensemble, after: Ensemble, robot: Robot, *, old: Path | None = None
) -> tuple[list[BeforeAndAfter], str | None]:
    """Errors on trajectories that neither fit learnt from; and, where the old recording is not to
    be had, why.

    Args:
        before: the ensemble that was gone on from.
        after: what became of it.
        robot: their robot.
        old: the recording that ``before`` was fitted to; left out, the file that it names.
    """
    found, missing = [], None
    for words, ensemble, path in (("new data", after, None), ("old data", before, old)):
        try:
            held_out = _held_out(ensemble, path)
        except GenanError as error:
            missing = f"No table for the {words}: {error}"
            continue
        trial = plan(held_out, [before.contract.history.reach])
        judged = [
            judge_ensemble(words, one, load_dynamics(robot), trial).errors
            for one in (before, after)
        ]
        found.append(BeforeAndAfter(words, len(held_out), *judged))
    return found, missing


def _held_out(ensemble: Ensemble, path: Path | None) -> Trajectories:
    """Trajectories that ``ensemble`` was not fitted to, from the recording that it was fitted
    to."""
    origin: dict[str, Any] = ensemble.record.get("data", {})
    named = path or origin.get("path")
    if named is None:
        raise DataError("the actuators do not name a file; give it by --old-data.")
    trajectories, _ = load_all(named)
    if trajectories.fingerprint != origin.get("fingerprint"):
        raise DataError(
            f"{named} is not the recording that they were fitted to; give it by --old-data."
        )
    _, held_out = split_usable(
        trajectories, FitSettings.from_settings(ensemble.record["settings"], strict=False)
    )
    return trajectories.select(held_out[:MOST])


# --- Cross-validation.

FOLDS, PLAN = "folds", "folds.json"
"""Folder within the artifact for the fits of the folds, and the file in it that says what they are
of."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One part left out."""

    recordings: tuple[str, ...]  # What it was judged on.
    one_step: Float[np.ndarray, " k"]
    """Mean absolute error one step ahead [rad or m], columns as in ``ModelErrors``."""
    rollout: Float[np.ndarray, " k"]  # The same after the whole rollout.


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What came of it; all folds' errors together."""

    name: str
    robot: str
    dt: float
    trajectories: int
    recordings: int
    fingerprint: str  # Of the recording.
    horizon: int  # Steps of a rollout.
    bound: Float[np.ndarray, " nq"]  # Where the error of a diverged rollout is cut [rad or m].
    notes: tuple[str, ...]
    errors: ModelErrors
    baselines: tuple[ModelErrors, ...]
    comparison: BaselineComparison
    folds: tuple[Fold, ...]

    @property
    def table(self) -> tuple[ModelErrors, ...]:
        """Every model."""
        return (self.errors, *self.baselines)


def folds(
    trajectories: Trajectories, count: int, *, seed: int = 0
) -> tuple[Int[np.ndarray, " k"], ...]:
    """Trajectories of each of ``count`` parts with about the same number of samples; no recording
    is in two of them.

    Nor are recordings under the same commands, as long as there are enough of other ones.

    Args:
        trajectories: what to cut.
        count: parts, at least 2 and no more than there are recordings.
        seed: the same seed gives the same parts.
    """
    of = trajectories.recording_numbers
    sizes = np.bincount(of, trajectories.lengths)
    if not 2 <= count <= len(sizes):
        raise SettingError(
            f"Cross-validation by whole recordings needs from 2 to {len(sizes)} parts, as many as "
            f"there are recordings, not {count}."
            if len(sizes) > 1
            else "Cross-validation needs at least two recordings, and there is one; cut it into "
            "several trajectories that are recordings of their own, or record more."
        )
    firsts = [int(np.flatnonzero(of == number)[0]) for number in range(len(sizes))]
    alike = same_commands(
        trajectories, [np.arange(*trajectories.offsets[k : k + 2]) for k in firsts]
    )
    if len(alike) >= count:
        group = np.empty(len(sizes), np.int64)
        for number, members in enumerate(alike):
            group[members] = number
        of, sizes = group[of], np.bincount(group, sizes)
    order = np.argsort(
        -sizes * np.random.default_rng(seed).uniform(0.7, 1.0, len(sizes)), kind="stable"
    )
    total, part_of = np.zeros(count), np.empty(len(sizes), np.int64)
    for recording in order:  # roughly the longest that is left, to the part with the fewest samples
        part_of[recording] = total.argmin()
        total[part_of[recording]] += sizes[recording]
    return tuple(np.flatnonzero(part_of[of] == part) for part in range(count))


def cross_validate(
    ensemble: Ensemble,
    data: Trajectories,
    robot: Robot,
    *,
    parts: int,
    folder: Path,
    name: str = "ensemble",
    horizon: int = HORIZON,
    seed: int = 0,
    overwrite: bool = False,
    progress: JobProgress | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> CrossValidation | None:
    """Fit again without each part, with the settings that ``ensemble`` was fitted with, and judge
    on that part.

    Args:
        ensemble: the actuators whose settings are judged.
        data: the recordings to cut into parts, usually those that it was fitted to.
        robot: the robot.
        parts: how many, K.
        folder: for the fits, ``folder/1`` to ``folder/K``; finished ones of an earlier call are
            taken as they are.
        name: what to call the actuators.
        horizon: steps of the open-loop rollouts.
        seed: of the parts.
        overwrite: fit all again.
        progress: called with what is being done, how much of it is done, and how much there is.
        stopping: asked often; None is returned soon after it says yes, and the same call goes on
            from there.
    """
    ensemble.contract.check_robot(robot)
    ensemble.contract.check_channels(data.channels, whose="the recording")
    settings = settings_of(ensemble)
    cut = folds(data, parts, seed=seed)
    about = {
        "parts": parts,
        "seed": seed,
        "data": data.fingerprint,
        "settings": settings.settings(),
    }
    _prepare(folder, about, overwrite=overwrite)
    reach = ensemble.contract.history.reach
    tests = [data.select(part) for part in cut]
    steps = min(plan(test, [reach], horizon=horizon).horizon for test in tests)
    dynamics, bound = load_dynamics(robot), divergence_bound(data)
    judged: list[list[ModelErrors]] = []
    notes: list[str] = []
    for k, (part, test) in enumerate(zip(cut, tests, strict=True), start=1):
        learnt = data.select(np.setdiff1d(np.arange(len(data)), part))
        what = f"fold {k} of {parts}"
        fitted = _fitted(learnt, robot, settings, folder / str(k), what, progress, stopping)
        if fitted is None:
            return None
        trial = replace(plan(test, [fitted.contract.history.reach], horizon=steps), bound=bound)
        notes += [f"Fold {k}: {note}" for note in trial.notes]
        ours = judge_ensemble(name, fitted, dynamics, trial, members=False).errors
        others = [
            judge_baseline(one, trial, name=one.name.partition(",")[0])
            for one in fit_baselines(learnt, fitted, trial)
        ]
        judged.append([ours, *others])
    together = [_together(list(each)) for each in zip(*judged, strict=True)]
    comparison = compare(together[0], together[1:])
    assert comparison is not None
    return CrossValidation(
        name=name,
        robot=robot.name,
        dt=data.dt,
        trajectories=len(data),
        recordings=len(set(data.recordings)),
        fingerprint=data.fingerprint,
        horizon=steps,
        bound=bound,
        notes=tuple(notes),
        errors=together[0],
        baselines=tuple(together[1:]),
        comparison=comparison,
        folds=tuple(
            Fold(tuple(dict.fromkeys(test.recordings)), ours.one_step.mean, ours.curve.mean[-1])
            for test, (ours, *_) in zip(tests, judged, strict=True)
        ),
    )


def settings_of(ensemble: Ensemble) -> FitSettings:
    """The settings that ``ensemble`` was fitted with."""
    made: dict[str, Any] = ensemble.record.get("settings") or {}
    known = {field.name for field in fields(FitSettings)}
    if not set(made) & known:
        raise ActuatorError(
            "The actuators do not say what settings they were fitted with, so they cannot be "
            "fitted again; cross-validate actuators that 'genan fit' made."
        )
    return FitSettings.from_settings(made, strict=False)


def _prepare(folder: Path, about: dict[str, Any], *, overwrite: bool = False) -> None:
    """Make room for the fits of the folds; those of another cross-validation are taken away."""
    text = (json.dumps(about, sort_keys=True) + "\n").encode()
    path = folder / PLAN
    if path.exists() and path.read_bytes() == text and not overwrite:
        return
    if path.exists():
        for old in folder.iterdir():
            if old.is_dir() and old.name.isdigit():
                shutil.rmtree(old)
    elif folder.exists() and any(folder.iterdir()):
        raise DataError(
            f"{folder} holds something else than the fits of a cross-validation; move it away."
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def _fitted(
    learnt: Trajectories,
    robot: Robot,
    settings: FitSettings,
    out: Path,
    what: str,
    progress: JobProgress | None,
    stopping: Callable[[], bool],
) -> Ensemble | None:
    """Actuators fitted to ``learnt``: those in ``out``, or new ones; None when it was stopped."""
    if stopping():
        return None
    total = 100 * settings.epochs
    say = progress or (lambda what, done, total: None)
    if (out / CONTRACT).exists():
        found: Ensemble | None = load(out)
    else:
        observer = FitObserver(
            progress=lambda now: say(what, round(100 * (now.epoch + now.share)), total),
            stopping=stopping,
        )
        try:
            found = Fitting(learnt, robot, settings, out=out).run(observer)
        except FitInterruptedError:
            return None
    if found is not None:
        say(what, total, total)
    return found


def _together(parts: list[ModelErrors]) -> ModelErrors:
    """All folds' errors of one model."""
    sums = [one.sums for one in parts if one.sums is not None]
    return ModelErrors.of(
        parts[0].name,
        parts[0].joints,
        ErrorSums.join(sums),
        diverged=sum(one.diverged for one in parts),
    )
