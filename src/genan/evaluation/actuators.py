"""``evaluate``: how good fitted actuators are, on a recording they were not fitted to, compared
with models to beat."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.actuator import Ensemble
from genan.actuator import load as load_actuators
from genan.actuator.dataset import load_all
from genan.actuator.errors import (
    CONSTANT_VELOCITY,
    ORDERS,
    STANDING_STILL,
    Baseline,
    JobProgress,
    fit_arx,
)
from genan.actuator.reference import NAME, Reference
from genan.data import Trajectories, load, read_truth_for_evaluation_only, summary
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, GenanError
from genan.evaluation.accuracy import (
    HORIZON,
    Calibration,
    JudgedEnsemble,
    JudgedSamples,
    TorqueComparison,
    judge_baseline,
    judge_ensemble,
    plan,
    position_calibration,
    quiet,
)
from genan.evaluation.held_control import HeldControl, find_starts, judge_held_control
from genan.evaluation.novelty import Novelty, find_novelty
from genan.evaluation.statistics import BaselineComparison, ModelErrors
from genan.evaluation.statistics import compare as compare_with
from genan.plotting import draw
from genan.robot import Robot, robot_names
from genan.words import interval, reading_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Recording = Trajectories | Path | str  # A recording, or its file.


@dataclass(frozen=True, eq=False)
class Overlay:
    """One rollout and the recording."""

    title: str  # Which one it is: "best", "median", "worst".
    trajectory: int  # Its trajectory, counted from 0.
    recorded: Float[np.ndarray, "T nq"]  # From the start on [rad or m].
    predicted: Float[np.ndarray, "T nq"]  # The same of the ensemble [rad or m].
    members: Float[np.ndarray, "members T nq"]  # The same of each member alone [rad or m].


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
    errors: ModelErrors  # Of the judged ensemble.
    baselines: tuple[ModelErrors, ...]
    comparison: BaselineComparison | None = None  # With the baselines, where there are any.

    @property
    def table(self) -> tuple[ModelErrors, ...]:
        """Every model."""
        return (self.errors, *self.baselines)


@dataclass(frozen=True, eq=False)
class Fold:
    """One part left out; columns of its errors as in ``ModelErrors``."""

    recordings: tuple[str, ...]  # What it was judged on.
    one_step: Float[np.ndarray, " k"]  # Mean absolute error one step ahead [rad or m].
    rollout: Float[np.ndarray, " k"]  # The same after the whole rollout.


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossValidation(JudgedActuators):
    """What ``genan.evaluation.cross_validation`` found; all folds' errors together."""

    folds: tuple[Fold, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation(JudgedActuators):
    """Everything ``evaluate`` found out."""

    first: int  # First sample of a trajectory that is predicted from, counted from 0.
    is_training_data: bool  # Whether the ensemble was fitted to this very recording.
    members: tuple[ModelErrors, ...]  # Of each of its members alone.
    average: ModelErrors | None  # Mean over its members of their errors.
    compared: tuple[ModelErrors, ...]  # Of the other ensembles.
    held: tuple[HeldControl, ...]  # Of the judged ensemble, then of the others.
    overlays: tuple[Overlay, ...]
    torques: TorqueComparison | None  # Where the recording has true torques.
    calibration: tuple[Calibration, ...]  # By torques, where known, and positions.
    novelty: Novelty | None = None  # None where it is not known what it was trained on.

    @property
    def table(self) -> tuple[ModelErrors, ...]:
        """Every model: the ensemble, the others, a member alone, the baselines."""
        average = () if self.average is None else (self.average,)
        return (self.errors, *self.compared, *average, *self.baselines)

    def __repr__(self) -> str:
        rows = [
            f"Evaluation({self.name} on {self.trajectories} trajectories of {self.robot}; mean "
            f"absolute error after 1 and after {self.horizon} steps, 95 % intervals)"
        ]
        for errors in self.table:
            unit, factor = reading_unit(errors.units[-1])
            parts = (part.times(factor) for part in (errors.one_step[-1], errors.curve[-1, -1]))
            values = (interval(float(p.mean), float(p.low), float(p.high)) for p in parts)
            rows.append(f"  {errors.name}: {' and '.join(values)} {unit}")
        return "\n".join(rows)

    def to_table(self) -> dict[str, list[Any]]:
        """A list for each column (as ``pandas.DataFrame`` takes it): model, joint, unit, and mean
        absolute errors with 95 % intervals after one step and after ``horizon`` steps; SI units."""
        ends = {"": "mean", "_low": "low", "_high": "high"}
        table: dict[str, list[Any]] = {"model": [], "joint": [], "unit": []}
        table |= {f"{what}{end}": [] for what in ("one_step", "rollout") for end in ends}
        for errors in self.table:
            table["model"] += [errors.name] * len(errors.columns)
            table["joint"] += errors.columns
            table["unit"] += errors.units
            for what, part in (("one_step", errors.one_step), ("rollout", errors.curve[-1])):
                for end, name in ends.items():
                    table[what + end] += getattr(part, name).tolist()
        return table

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
    horizon: int = HORIZON,
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
    body = load_robot(ensemble, robot)
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
    trial = plan(recording, reaches, horizon=horizon)
    dynamics = load_dynamics(body)

    judged = {
        key: judge_ensemble(key, each, dynamics, trial, progress=say)
        for key, each in everyone.items()
    }
    main = judged[name]
    holds, held = find_starts(recording, first=trial.first, progress=say), []
    for k, (key, each) in enumerate(everyone.items(), start=1):
        held.append(judge_held_control(key, each, dynamics, holds, recording))
        say("held control", k, len(everyone))

    baselines: tuple[ModelErrors, ...] = ()
    if learnt is not None:
        say("baselines", 0, 1)
        fitted = fit_baselines(learnt, ensemble, trial)
        baselines = tuple(judge_baseline(baseline, trial) for baseline in fitted)
        say("baselines", 1, 1)
    torques = None if isinstance(data, Trajectories) else _true_torques(main, trial, data)
    calibration = []
    if ensemble.members > 1:
        if torques is not None:
            off = np.abs(torques.predicted - torques.true).sum(axis=1)
            calibration.append(Calibration(main.kept.std.sum(axis=1), off, None, "N m"))
        calibration.append(position_calibration(ensemble, trial, main.positions))
    fingerprint = recording.fingerprint
    return Evaluation(
        name=name, robot=body.name, dt=recording.dt, trajectories=len(recording),
        recordings=len(set(recording.recordings)), fingerprint=fingerprint, first=trial.first,
        horizon=trial.horizon, bound=trial.bound,
        notes=(*trial.notes, *(note for note in (missing, unknown) if note)),
        is_training_data=ensemble.record.get("data", {}).get("fingerprint") == fingerprint,
        errors=main.errors, members=main.members, average=main.average,
        compared=tuple(found.errors for key, found in judged.items() if key != name),
        baselines=baselines, comparison=compare_with(main.errors, baselines), held=tuple(held),
        overlays=_overlays(main, trial), torques=torques, calibration=tuple(calibration),
        novelty=None if reference is None else find_novelty(reference, ensemble, trial, main),
    )  # fmt: skip


def load_robot(ensemble: Ensemble, robot: Robot | Path | str | None) -> Robot:
    """``robot``, or the one that the actuators were fitted for: where its robot.toml was then, or
    the installed one."""
    if isinstance(robot, Robot):
        return robot
    known, name = ensemble.record.get("robot"), ensemble.contract.robot
    if robot is None and known and Path(known).exists():
        return Robot.load(Path(known))
    if robot is None and name not in robot_names():
        raise ActuatorError(
            f"The actuators were fitted for robot {name!r}, which is not installed; give its "
            "robot.toml (--robot)."
        )
    return Robot.load(name if robot is None else robot)


def training_paths(ensemble: Ensemble) -> list[Path]:
    """The recordings that the actuators were fitted to, as far as they say."""
    found = ensemble.record.get("data", {}).get("path") or []
    return [Path(path) for path in ([found] if isinstance(found, str) else found)]


def training_data(
    ensemble: Ensemble, given: Recording | None = None
) -> tuple[Trajectories | None, str | None]:
    """The recording ``given``, or the one that the actuators were fitted to; or None, and why."""
    if given is not None:
        return given if isinstance(given, Trajectories) else load(given), None
    fingerprint = ensemble.record.get("data", {}).get("fingerprint")
    paths = training_paths(ensemble)
    gone = [path for path in paths if not path.exists()]
    if not paths or not fingerprint:
        why = "The artifact does not say what it was fitted to"
    elif gone:
        why = f"The training recording {gone[0]} is not there any more"
    else:
        try:
            recording, _ = load_all(paths)
            if recording.fingerprint == fingerprint:
                return recording, None
            why = f"{paths[0]} is not the recording that the actuators were fitted to any more"
        except GenanError as error:
            why = f"The training recording cannot be read ({str(error).rstrip('.')})"
    hint = "the baselines were left out; give the training recording by --train-data"
    return None, f"{why}, so {hint}."


def find_reference(
    folder: Path, ensemble: Ensemble, train: Trajectories | None, *, progress: JobProgress = quiet
) -> tuple[Reference | None, str | None]:
    """The reference of the actuators in ``folder``: the one there, or one made from their training
    recording and kept there; or None, and why."""
    if (folder / NAME).exists():
        with suppress(ActuatorError):  # damaged or of another version: it is made again
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


def fit_baselines(
    train: Trajectories, ensemble: Ensemble, trial: JudgedSamples
) -> tuple[Baseline, ...]:
    """Models to beat, fitted to ``train``: ridge ARX, constant velocity, standing still."""
    ensemble.contract.check_channels(train.channels, whose="the training recording")
    orders = {o for o in (*ORDERS, ensemble.contract.history.span) if 1 <= o <= trial.first}
    return fit_arx(train, orders=sorted(orders)), CONSTANT_VELOCITY, STANDING_STILL


def _true_torques(
    judged: JudgedEnsemble, trial: JudgedSamples, path: Path | str
) -> TorqueComparison | None:
    if "tau" not in summary(path).truth:
        return None
    data, true = trial.trajectories, read_truth_for_evaluation_only(path)["tau"]
    if true.shape[1] != data.channels.nq:
        return None
    kept = judged.kept
    return TorqueComparison(data.joints, data.joint_units, kept.mean, true[kept.rows])


def _overlays(judged: JudgedEnsemble, trial: JudgedSamples) -> tuple[Overlay, ...]:
    """The best, the median and the worst rollout; fewer when there are fewer."""
    order = np.argsort(judged.error_of_rollout, kind="stable").tolist()
    places = {order[-1]: "worst", order[(len(order) - 1) // 2]: "median", order[0]: "best"}
    found = []
    for k, title in reversed(places.items()):
        recorded = trial.trajectories.q[trial.starts[k] + np.arange(trial.horizon + 1)]
        everyone = np.concatenate([judged.positions[None, k], judged.member_positions[:, k]])
        now = np.broadcast_to(recorded[0], (len(everyone), 1, recorded.shape[1]))
        predicted, *members = np.concatenate([now, everyone], axis=1)
        owner = int(trial.start_owner[k])
        found.append(Overlay(title, owner, recorded, predicted, np.array(members)))
    return tuple(found)
