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
from jaxtyping import Int

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
    divergence_bound,
    judge_baseline,
    judge_ensemble,
    plan,
    quiet,
)
from genan.evaluation.actuators import CrossValidation, Fold, fit_baselines
from genan.evaluation.statistics import ErrorSums, ModelErrors, compare
from genan.files import write_atomically
from genan.robot import Robot

MOST = 200  # Trajectories that errors before and after are measured on, at most.
FOLDS, PLAN = "folds", "folds.json"
"""Folder within the artifact for the fits of the folds, and the file in it that says what they are
of."""


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
    """Errors, before and after a fit that continued, on trajectories that neither learnt from; and,
    where the old recording is not to be had, why.

    ``old``: the recording that ``before`` was fitted to; left out, the file that it names.
    """
    found, missing = [], None
    for words, ensemble, path in (("new data", after, None), ("old data", before, old)):
        try:
            held_out = _held_out(ensemble, path)
        except GenanError as error:
            missing = f"No table for the {words}: {error}"
            continue
        trial, dynamics = plan(held_out, [before.contract.history.reach]), load_dynamics(robot)
        judged = (
            judge_ensemble(words, one, dynamics, trial, members=False).errors
            for one in (before, after)
        )
        found.append(BeforeAndAfter(words, len(held_out), *judged))
    return found, missing


def _held_out(ensemble: Ensemble, path: Path | None) -> Trajectories:
    """Trajectories that ``ensemble`` was not fitted to, of the recording that it was fitted to."""
    origin: dict[str, Any] = ensemble.record.get("data", {})
    named = path or origin.get("path")
    if named is None:
        raise DataError("the actuators do not name a file; give it by --old-data.")
    data, _ = load_all(named)
    if data.fingerprint != origin.get("fingerprint"):
        raise DataError(
            f"{named} is not the recording that they were fitted to; give it by --old-data."
        )
    return data.select(split_usable(data, settings_of(ensemble))[1][:MOST])


# --- Cross-validation.


def folds(data: Trajectories, count: int, *, seed: int = 0) -> tuple[Int[np.ndarray, " k"], ...]:
    """Trajectories of each of ``count`` parts with about the same number of samples; no recording
    is in two of them.

    Nor are recordings under the same commands, as long as there are enough of other ones. The same
    ``seed`` gives the same parts.
    """
    of = data.recording_numbers
    sizes = np.bincount(of, data.lengths)
    if len(sizes) == 1:
        raise SettingError(
            "Cross-validation needs at least two recordings, and there is one; cut it into several "
            "trajectories that are recordings of their own, or record more."
        )
    if not 2 <= count <= len(sizes):
        raise SettingError(
            f"Cross-validation by whole recordings needs from 2 to {len(sizes)} parts, as many as "
            f"there are recordings, not {count}."
        )
    firsts = np.unique(of, return_index=True)[1]
    alike = same_commands(data, [np.arange(*data.offsets[k : k + 2]) for k in firsts])
    if len(alike) >= count:
        group = np.empty(len(sizes), np.int64)
        for number, members in enumerate(alike):
            group[members] = number
        of, sizes = group[of], np.bincount(group, sizes)
    weights = sizes * np.random.default_rng(seed).uniform(0.7, 1.0, len(sizes))
    total, part_of = np.zeros(count), np.empty(len(sizes), np.int64)
    # Roughly the longest that is left, to the part with the fewest samples.
    for recording in np.argsort(-weights, kind="stable"):
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
    progress: JobProgress = quiet,
    stopping: Callable[[], bool] = lambda: False,
) -> CrossValidation | None:
    """Fit again without each part, with the settings that ``ensemble`` was fitted with, and judge
    on that part.

    The fits go into ``folder/1`` to ``folder/K``; finished ones of an earlier call are taken as
    they are, unless ``overwrite`` is given. ``stopping`` is asked often: None is returned soon
    after it says yes, and the same call goes on from there. ``seed``: of the parts.
    """
    ensemble.contract.check_robot(robot)
    ensemble.contract.check_channels(data.channels, whose="the recording")
    settings, cut = settings_of(ensemble), folds(data, parts, seed=seed)
    about = {"parts": parts, "seed": seed, "data": data.fingerprint}
    _prepare(folder, {**about, "settings": settings.settings()}, overwrite=overwrite)
    reach, tests = ensemble.contract.history.reach, [data.select(part) for part in cut]
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
        beaten = fit_baselines(learnt, fitted, trial)
        others = (judge_baseline(one, trial, name=one.name.partition(",")[0]) for one in beaten)
        judged.append([ours, *others])
    errors, *baselines = [
        ModelErrors.of(
            each[0].name,
            data.joints,
            ErrorSums.join([one.sums for one in each if one.sums is not None]),
            diverged=sum(one.diverged for one in each),
        )
        for each in zip(*judged, strict=True)
    ]
    parts_judged = (
        Fold(tuple(dict.fromkeys(test.recordings)), ours.one_step.mean, ours.curve.mean[-1])
        for test, (ours, *_) in zip(tests, judged, strict=True)
    )
    return CrossValidation(
        name=name, robot=robot.name, dt=data.dt, trajectories=len(data),
        recordings=len(set(data.recordings)), fingerprint=data.fingerprint, horizon=steps,
        bound=bound, notes=tuple(notes), errors=errors, baselines=tuple(baselines),
        comparison=compare(errors, baselines), folds=tuple(parts_judged),
    )  # fmt: skip


def settings_of(ensemble: Ensemble) -> FitSettings:
    """The settings that ``ensemble`` was fitted with."""
    made: dict[str, Any] = ensemble.record.get("settings") or {}
    if not set(made) & {field.name for field in fields(FitSettings)}:
        raise ActuatorError(
            "The actuators do not say what settings they were fitted with, so they cannot be "
            "fitted again; cross-validate actuators that 'genan fit' made."
        )
    return FitSettings.from_settings(made, strict=False)


def _prepare(folder: Path, about: dict[str, Any], *, overwrite: bool = False) -> None:
    """Make room for the fits of the folds; those of another cross-validation are taken away."""
    path, text = folder / PLAN, (json.dumps(about, sort_keys=True) + "\n").encode()
    if path.exists() and path.read_bytes() == text and not overwrite:
        return
    if not path.exists() and folder.exists() and any(folder.iterdir()):
        raise DataError(
            f"{folder} holds something else than the fits of a cross-validation; move it away."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_dir() and old.name.isdigit():
            shutil.rmtree(old)
    write_atomically(path, text)


def _fitted(
    learnt: Trajectories,
    robot: Robot,
    settings: FitSettings,
    out: Path,
    what: str,
    progress: JobProgress,
    stopping: Callable[[], bool],
) -> Ensemble | None:
    """Actuators fitted to ``learnt``: those in ``out``, or new ones; None when it was stopped."""
    if stopping():
        return None
    total = 100 * settings.epochs
    if not (out / CONTRACT).exists():
        show = lambda now: progress(what, round(100 * (now.epoch + now.share)), total)
        try:
            Fitting(learnt, robot, settings, out=out).run(FitObserver(show, stopping=stopping))
        except FitInterruptedError:
            return None
    progress(what, total, total)
    return load(out)
