"""How good the settings of a fit are on recordings it has not seen: each left out once."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from genan.actuator import Ensemble
from genan.actuator import load as load_actuators
from genan.actuator.contract import CONTRACT
from genan.actuator.dataset import same_commands
from genan.actuator.errors import JobProgress
from genan.data import Trajectories
from genan.dynamics import load_dynamics
from genan.errors import DataError, refuse
from genan.evaluation import accuracy
from genan.evaluation.accuracy import quiet
from genan.evaluation.actuators import CrossValidation, settings_of
from genan.evaluation.statistics import ErrorSums, ModelErrors
from genan.evaluation.statistics import compare as compare_with
from genan.files import write_atomically
from genan.robot import Robot

FOLDS, PLAN = "folds", "folds.json"  # Folder in the artifact, and the file there that says of what.


def folds(data: Trajectories, count: int, *, seed: int = 0) -> tuple[Int[np.ndarray, " k"], ...]:
    """Trajectories of each of ``count`` parts with about the same number of samples; no recording
    is in two of them, nor are recordings under the same commands, as long as there are enough of
    other ones. The same ``seed`` gives the same parts."""
    of = data.recording_numbers
    sizes = np.bincount(of, data.lengths)
    refuse(
        (len(sizes) == 1, "Cross-validation needs at least two recordings, and there is one; cut "
         "it into trajectories that are recordings of their own, or record more."),
        (not 2 <= count <= len(sizes), "Cross-validation by whole recordings needs from 2 to "
         f"{len(sizes)} parts, as many as there are recordings, not {count}."),
    )  # fmt: skip
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
    horizon: int = accuracy.HORIZON,
    overwrite: bool = False,
    progress: JobProgress = quiet,
    stopping: Callable[[], bool] = lambda: False,
) -> CrossValidation | None:
    """Fit again without each part, with the settings that ``ensemble`` was fitted with, and judge
    on that part. The fits go into ``folder/1`` to ``folder/K``; finished ones of an earlier call
    are taken as they are, unless ``overwrite`` is given. ``stopping`` is asked often: None is
    returned soon after it says yes, and the same call goes on from there."""
    from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting

    ensemble.contract.check_robot(robot)
    ensemble.contract.check_channels(data.channels, whose="the recording")
    settings, cut = settings_of(ensemble), folds(data, parts)
    about = {"parts": parts, "seed": 0, "data": data.fingerprint}
    _prepare(folder, {**about, "settings": settings.settings()}, overwrite=overwrite)
    reach, tests = ensemble.contract.history.reach, [data.select(part) for part in cut]
    steps = min(accuracy.plan(test, [reach], horizon=horizon).horizon for test in tests)
    dynamics, bound = load_dynamics(robot), accuracy.divergence_bound(data)
    judged: list[list[ModelErrors]] = []
    notes: list[str] = []
    found: list[dict[str, Any]] = []
    epochs, share = 100 * settings.epochs, lambda now: round(100 * (now.epoch + now.share))
    for k, (part, test) in enumerate(zip(cut, tests, strict=True), start=1):
        learnt, out = data.select(np.setdiff1d(np.arange(len(data)), part)), folder / str(k)
        say = partial(progress, f"fold {k} of {parts}")
        observer = FitObserver(lambda now, say=say: say(share(now), epochs), stopping=stopping)
        try:
            if stopping():
                return None
            done = (out / CONTRACT).exists()
            fitted = None if done else Fitting(learnt, robot, settings, out=out).run(observer)
        except FitInterruptedError:
            return None
        say(epochs, epochs)
        fitted = fitted or load_actuators(out)
        trial = accuracy.plan(test, [fitted.contract.history.reach], horizon=steps)
        trial = replace(trial, bound=bound)
        notes += [f"Fold {k}: {note}" for note in trial.notes]
        ours = accuracy.judge_ensemble(name, fitted, dynamics, trial, members=False).errors
        others = accuracy.judge_baselines(learnt, fitted, trial)
        judged.append([ours, *(replace(one, name=one.name.partition(",")[0]) for one in others)])
        means = {"one_step": ours.one_step.mean, "rollout": ours.curve.mean[-1]}
        found.append({"recordings": tuple(dict.fromkeys(test.recordings)), **means})
    together = []
    for each in zip(*judged, strict=True):
        sums = ErrorSums.join([one.sums for one in each if one.sums is not None])
        away = sum(one.diverged for one in each)
        together.append(ModelErrors.of(each[0].name, sums, diverged=away))
    errors, *baselines = together
    return CrossValidation(
        name=name, robot=robot.name, dt=data.dt, trajectories=len(data),
        recordings=len(set(data.recordings)), fingerprint=data.fingerprint, horizon=steps,
        bound=bound, notes=tuple(notes), errors=errors, baselines=tuple(baselines),
        comparison=compare_with(errors, baselines), folds=tuple(found),
    )  # fmt: skip


def _prepare(folder: Path, about: dict[str, Any], *, overwrite: bool = False) -> None:
    """Make room for the fits of the folds; those of another cross-validation are taken away."""
    path, text = folder / PLAN, (json.dumps(about, sort_keys=True) + "\n").encode()
    if path.exists() and path.read_bytes() == text and not overwrite:
        return
    if not path.exists() and folder.exists() and any(folder.iterdir()):
        other = "holds something else than the fits of a cross-validation"
        raise DataError(f"{folder} {other}; move it away.")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_dir() and old.name.isdigit():
            shutil.rmtree(old)
    write_atomically(path, text)
