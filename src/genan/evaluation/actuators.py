"""How good actuators are on a recording they were not fitted to, compared with models to beat."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.actuator import Ensemble
from genan.actuator import load as load_actuators
from genan.actuator.dataset import load_all, split_usable
from genan.actuator.errors import JobProgress
from genan.actuator.reference import NAME, REASONS, Reference
from genan.actuator.settings import FitSettings
from genan.data import Trajectories, load, read_truth_for_evaluation_only, summary
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, DataError, GenanError, refuse
from genan.evaluation import accuracy
from genan.evaluation.accuracy import Calibration, Novelty, Overlay, TorqueComparison, quiet
from genan.evaluation.held_control import HeldControl, find_starts, judge_held_control
from genan.evaluation.statistics import BaselineComparison, ModelErrors
from genan.evaluation.statistics import compare as compare_with
from genan.plotting import draw
from genan.provenance import versions
from genan.robot import Robot
from genan.words import interval, reading_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Recording = Trajectories | Path | str  # A recording, or its file.
Fitted = tuple[Trajectories | None, str | None]  # What actuators were fitted to; or None, and why.

MOST = 200  # Trajectories that errors before and after a fit are measured on, at most.
EVALUATION = "evaluation.json"
_UNKEPT = ("name", "joints", "joint_units", "sums")  # Of ``ModelErrors``, in the file.
_RENAMED = {"begin": "from", "end": "to", "known": "trained"}  # Of ``Stretch``, in the file.


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedActuators:
    """What judging an ensemble and baselines on a recording found. Errors are in rad or m."""

    name: str  # What the judged ensemble is called.
    robot: str
    dt: float
    trajectories: int  # Trajectories in the recording.
    recordings: int = 0  # Recordings that they are pieces of.
    fingerprint: str  # Of the recording.
    horizon: int  # Steps of a rollout.
    bound: Float[np.ndarray, " nq"]  # Where the error of a diverged rollout is cut [rad or m].
    notes: tuple[str, ...]  # What a reader must know, one sentence each.
    is_training_data: bool = False  # Whether the ensemble was fitted to this very recording.
    errors: ModelErrors  # Of the judged ensemble.
    members: tuple[ModelErrors, ...] = ()  # Of each of its members alone.
    average: ModelErrors | None = None  # Mean over its members of their errors.
    compared: tuple[ModelErrors, ...] = ()  # Of the other ensembles.
    baselines: tuple[ModelErrors, ...]
    comparison: BaselineComparison | None = None  # With the baselines, where there are any.

    @property
    def table(self) -> tuple[ModelErrors, ...]:
        """Every model: the ensemble, the others, a member alone, the baselines."""
        average = () if self.average is None else (self.average,)
        return (self.errors, *self.compared, *average, *self.baselines)


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossValidation(JudgedActuators):
    """What ``cross_validate`` found; all folds' errors together."""

    folds: tuple[Mapping[str, Any], ...]
    """Each part left out: its ``recordings``, and mean absolute errors ``one_step`` ahead and after
    the ``rollout`` [rad or m], columns as in ``ModelErrors``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation(JudgedActuators):
    """Everything ``evaluate`` found out."""

    first: int  # First sample of a trajectory that is predicted from, counted from 0.
    held: tuple[HeldControl, ...]  # Of the judged ensemble, then of the others.
    overlays: tuple[Overlay, ...]
    torques: TorqueComparison | None  # Where the recording has true torques.
    calibration: tuple[Calibration, ...]  # By torques, where known, and positions.
    novelty: Novelty | None = None  # None where it is not known what it was trained on.

    def __repr__(self) -> str:
        what = f"{self.name} on {self.trajectories} trajectories of {self.robot}"
        said = f"mean absolute error after 1 and after {self.horizon} steps, 95 % intervals"
        rows = [f"Evaluation({what}; {said})"]
        for errors in self.table:
            unit, factor = reading_unit(errors.units[-1])
            parts = (part.times(factor) for part in (errors.one_step[-1], errors.curve[-1, -1]))
            values = (interval(float(p.mean), float(p.low), float(p.high)) for p in parts)
            rows.append(f"  {errors.name}: {' and '.join(values)} {unit}")
        return "\n".join(rows)

    def to_table(self) -> dict[str, list[Any]]:
        """A list for each column (as ``pandas.DataFrame`` takes it): model, joint, unit, and mean
        absolute errors with 95 % intervals after one step and after ``horizon`` steps; SI units."""
        rows: list[tuple[Any, ...]] = []
        for errors in self.table:
            parts = (errors.one_step, errors.curve[-1])
            ends = [end.tolist() for part in parts for end in (part.mean, part.low, part.high)]
            rows += zip(repeat(errors.name), errors.columns, errors.units, *ends, strict=False)
        values = [f"{of}{end}" for of in ("one_step", "rollout") for end in ("", "_low", "_high")]
        columns = map(list, zip(*rows, strict=True))
        return dict(zip(("model", "joint", "unit", *values), columns, strict=True))

    def plot(self) -> "Figure":
        """Error over time of every model, open loop (a matplotlib figure)."""
        return draw("figures.error_figure", self)


def evaluate(
    actuators: Ensemble | Path | str,
    data: Recording,
    robot: Robot | Path | str | None = None,
    *,
    name: str = "ensemble",
    compare: Mapping[str, Ensemble] | None = None,
    train: Recording | None = None,
    reference: Reference | None = None,
    horizon: int = accuracy.HORIZON,
    progress: JobProgress | None = None,
) -> Evaluation:
    """Judge fitted actuators.

    Args:
        actuators: an ensemble, or the folder of one. From a folder it is known what they were
            trained on, so where the recording is new to them is found too.
        data: a recording that they were not fitted to; from a file its true torques are used too,
            where it has them.
        robot: the robot; left out, the one that the actuators were fitted for.
        name: what to call them.
        compare: other ensembles to judge at the same samples, by name.
        train: the recording that the baselines are fitted to; left out, the file that the actuators
            were fitted to, where it is still there: otherwise a note says why there are none.
        reference: what they were trained on, where that is at hand.
        horizon: steps of the open-loop rollouts.
        progress: called with what is being done, how much of it is done, and how much there is.
    """
    say = progress or quiet
    ensemble = actuators if isinstance(actuators, Ensemble) else load_actuators(actuators)
    body = ensemble.contract.find_robot(ensemble.record, robot)
    recording = data if isinstance(data, Trajectories) else load(data)
    learnt, missing = training_data(ensemble, train)
    unknown = None
    if reference is None and not isinstance(actuators, Ensemble):
        reference, unknown = find_reference(Path(actuators), ensemble, learnt, progress=say)
    everyone = {name: ensemble, **(compare or {})}
    for each in everyone.values():
        each.contract.check_robot(body)
        each.contract.check_channels(recording.channels, whose="the recording")
    reaches = [each.contract.history.reach for each in everyone.values()]
    trial = accuracy.plan(recording, reaches, horizon=horizon)
    dynamics = load_dynamics(body)
    judge = partial(accuracy.judge_ensemble, dynamics=dynamics, trial=trial, progress=say)
    judged = {key: judge(key, each) for key, each in everyone.items()}
    main = judged[name]
    holds, held = find_starts(recording, first=trial.first, progress=say), []
    for k, (key, each) in enumerate(everyone.items(), start=1):
        held.append(judge_held_control(key, each, dynamics, holds, recording))
        say("held control", k, len(everyone))
    baselines: tuple[ModelErrors, ...] = ()
    if learnt is not None:
        say("baselines", 0, 1)
        baselines = accuracy.judge_baselines(learnt, ensemble, trial)
        say("baselines", 1, 1)
    torques, calibration = None, []
    if not isinstance(data, Trajectories) and "tau" in summary(data).truth:
        true = read_truth_for_evaluation_only(data)["tau"]
        if true.shape[1] == body.nq:
            sides = main.torque_mean, true[main.kept]
            torques = TorqueComparison(recording.joints, recording.joint_units, *sides)
    if ensemble.members > 1:
        if torques is not None:
            off = np.abs(torques.predicted - torques.true).sum(axis=1)
            calibration.append(Calibration(main.torque_std.sum(axis=1), off, None, "N m"))
        calibration.append(accuracy.position_calibration(ensemble, trial, main.positions))
    fingerprint = recording.fingerprint
    new = None if reference is None else accuracy.find_novelty(reference, ensemble, trial, main)
    return Evaluation(
        name=name, robot=body.name, dt=recording.dt, trajectories=len(recording),
        recordings=len(set(recording.recordings)), fingerprint=fingerprint, first=trial.first,
        horizon=trial.horizon, bound=trial.bound,
        notes=(*trial.notes, *(note for note in (missing, unknown) if note)),
        is_training_data=ensemble.record.get("data", {}).get("fingerprint") == fingerprint,
        errors=main.errors, members=main.members, average=main.average,
        compared=tuple(found.errors for key, found in judged.items() if key != name),
        baselines=baselines, comparison=compare_with(main.errors, baselines), held=tuple(held),
        overlays=accuracy.overlays(main, trial), torques=torques, calibration=tuple(calibration),
        novelty=new,
    )  # fmt: skip


def training_paths(ensemble: Ensemble) -> list[Path]:
    """The recordings that the actuators were fitted to, as far as they say."""
    found = ensemble.record.get("data", {}).get("path") or []
    return [Path(path) for path in ([found] if isinstance(found, str) else found)]


def training_data(ensemble: Ensemble, given: Recording | None = None) -> Fitted:
    """The recording ``given``, or the one that the actuators were fitted to; or None, and why."""
    if given is not None:
        return given if isinstance(given, Trajectories) else load(given), None
    try:
        return _learnt(ensemble, training_paths(ensemble)), None
    except GenanError as error:
        hint = "the baselines were left out; give the training recording by --train-data"
        return None, f"{str(error).rstrip('.')}, so {hint}."


def _learnt(ensemble: Ensemble, paths: list[Path]) -> Trajectories:
    """The recordings at ``paths``, refused unless they are what ``ensemble`` was fitted to."""
    fingerprint = ensemble.record.get("data", {}).get("fingerprint")
    gone = [path for path in paths if not path.exists()]
    refuse(
        (not paths or not fingerprint, "The artifact does not say what it was fitted to."),
        (gone, f"The training recording {gone and gone[0]} is not there any more."),
        error=DataError,
    )
    found, _ = load_all(paths)
    other = f"{paths[0]} is not the recording that the actuators were fitted to any more."
    refuse((found.fingerprint != fingerprint, other), error=DataError)
    return found


def find_reference(
    folder: Path, ensemble: Ensemble, train: Trajectories | None, *, progress: JobProgress = quiet
) -> tuple[Reference | None, str | None]:
    """The reference of the actuators in ``folder``: the one there, or one made from their training
    recording and kept there; or None, and why."""
    with suppress(ActuatorError):  # not there, damaged or of another version: it is made again
        kept = Reference.load(folder)
        if kept.belongs_to(ensemble):
            return kept, None
    fitted_to = ensemble.record.get("data", {}).get("fingerprint")
    if train is None:
        why = f"There is no {NAME} in {folder} that fits, and no training recording to make it from"
    elif fitted_to and fitted_to != train.fingerprint:
        why = "The recording of --train-data is not the one that the actuators were fitted to"
    else:
        progress("what it was trained on", 0, 1)
        made = Reference.of(ensemble, train)
        with suppress(OSError):  # a folder that cannot be written to: it is made again each time
            made.save(folder)
        progress("what it was trained on", 1, 1)
        return made, None
    return None, f"{why}, so where this log is new to it cannot be said."


def compare_refit(
    before: Ensemble, after: Ensemble, robot: Robot, *, old: Path | None = None
) -> tuple[list[tuple[str, int, ModelErrors, ModelErrors]], str | None]:
    """Which recording, how many of its trajectories neither learnt from, and the errors on those
    before and after a fit that continued; and, where the old recording is not to be had, why.
    ``old``: the recording that ``before`` was fitted to; left out, the file that it names."""
    found, missing, dynamics = [], None, load_dynamics(robot)
    for words, ensemble, path in (("new data", after, None), ("old data", before, old)):
        try:
            data = _learnt(ensemble, [path] if path else training_paths(ensemble))
            held_out = data.select(split_usable(data, settings_of(ensemble))[1][:MOST])
        except GenanError as error:
            missing = f"No table for the {words}: {error} Give the recording by --old-data."
            continue
        trial = accuracy.plan(held_out, [before.contract.history.reach])
        judge = partial(accuracy.judge_ensemble, words, trial=trial, members=False)
        both = [judge(one, dynamics=dynamics).errors for one in (before, after)]
        found.append((words, len(held_out), both[0], both[1]))
    return found, missing


def settings_of(ensemble: Ensemble) -> FitSettings:
    """The settings that ``ensemble`` was fitted with."""
    made: dict[str, Any] = ensemble.record.get("settings") or {}
    if not set(made) & {field.name for field in fields(FitSettings)}:
        unknown = "The actuators do not say what settings they were fitted with"
        raise ActuatorError(f"{unknown}; cross-validate actuators that 'genan fit' made.")
    return FitSettings.from_settings(made, strict=False)


# --- ``evaluation.json``: an evaluation as JSON can hold it.


def as_json(found: Evaluation | CrossValidation) -> dict[str, Any]:
    """Every number, in SI units (rad or m, s, N m or N)."""
    recording = _of(found, "fingerprint", "trajectories", "recordings")
    recording["training_data"] = found.is_training_data
    content = {
        "actuators": found.name, "robot": found.robot, "dt": found.dt, "recording": recording,
        **_of(found, "horizon", "notes"), "divergence_bound": found.bound,
        **_of(found.errors, "columns", "units"),
        "models": {one.name: _without(one, *_UNKEPT) for one in found.table},
        "held_control": {}, "versions": versions(),
        "certainty": None if found.comparison is None else _certainty(found.comparison),
    }  # fmt: skip
    if isinstance(found, CrossValidation):
        content["cross_validation"] = found.folds
    else:
        drawn = "speed", "robot_speed", "joints", "joint_units", "name"
        held = lambda one: _of(one, "verdict", "fit_for_training") | _without(one, *drawn)
        torque = lambda one: {"correlation": one.correlation, "mean_absolute_error": one.error}
        against = lambda one: {"against": one.words, "rank_correlation": one.rank_correlation}
        content |= {
            "first_sample": found.first,
            "members": {one.name: _without(one, *_UNKEPT) for one in found.members},
            "held_control": {one.name: held(one) for one in found.held},
            "torque": None if found.torques is None else torque(found.torques),
            "disagreement": [*map(against, found.calibration)],
            "novelty": None if found.novelty is None else _novelty(found.novelty),
        }
    return {**plain(content), "dt": found.dt}


def headline(found: Evaluation) -> dict[str, Any]:
    """What the artifact keeps: errors after one step and the horizon, and the verdict."""
    errors = found.errors
    return plain({
        "recording": _of(found, "fingerprint", "trajectories"),
        "training_data": found.is_training_data, "horizon": found.horizon,
        **_of(errors, "columns", "units", "rollouts", "diverged"), "one_step": errors.one_step,
        "rollout": errors.curve[-1],
        "held_control": _of(found.held[0], "fit_for_training", "verdict"),
    })  # fmt: skip


def _of(found: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names}


def _without(found: Any, *names: str) -> dict[str, Any]:
    return {one.name: getattr(found, one.name) for one in fields(found) if one.name not in names}


def errors_as_json(errors: ModelErrors) -> dict[str, Any]:
    """One model's errors, in SI units (rad or m)."""
    return dict(plain(_without(errors, *_UNKEPT)))


def _certainty(comparison: BaselineComparison) -> dict[str, Any]:
    """How much better than the baselines a model is, and how certain that is."""
    comparisons = []
    for one in comparison.comparisons:
        found = _without(one, "low", "high", "better", "wins")
        found |= _of(one, "verdict", "certainty", "sentence")
        found |= {"ratio": {"mean": one.ratio, "low": one.low, "high": one.high}}
        comparisons.append(found | {"probability_better": one.better, "better_in": one.wins})
    spans = dict(zip(comparison.units, comparison.spans, strict=True))
    together = {"better_than_all": spans, "comparisons": comparisons}
    return _of(comparison, "recordings", "overall") | together


def _novelty(found: Novelty) -> dict[str, Any]:
    of_joints = lambda values: dict(zip(found.joints, values.tolist(), strict=True))
    correlation = {"one_step": of_joints(found.step_correlation)}
    correlation |= {"rollout": of_joints(found.rollout_correlation)}
    return {
        "samples": found.samples,
        "beyond": of_joints(found.beyond),
        "beyond_any_joint": found.anywhere,
        "reasons": dict(zip(REASONS, found.reasons, strict=True)),
        "recordings": dict(found.recordings),
        "stretches": [
            {_RENAMED.get(key, key): value for key, value in _without(one).items()}
            for one in found.stretches
        ],
        "rank_correlation": correlation | {"rollout_all_joints": found.whole_correlation},
        "error_beyond_over_within": of_joints(found.error_ratio),
    }


def plain(value: Any) -> Any:
    """Dataclasses and arrays as tables and lists, numbers with six digits; None for no number."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    value = _without(value) if is_dataclass(value) else value
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value
