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
from genan.actuator.errors import (
    ORDERS,
    Arx,
    Baseline,
    ConstantVelocity,
    JobProgress,
    StandingStill,
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
    ModelErrors,
    TorqueComparison,
    compare_torques,
    judge_baseline,
    judge_ensemble,
    plan,
    position_calibration,
    torque_calibration,
)
from genan.evaluation.comparison import BaselineComparison
from genan.evaluation.comparison import compare as compare_with
from genan.evaluation.held_control import HeldControl, find_starts, judge_held_control
from genan.evaluation.novelty import Novelty, find_novelty
from genan.plotting import draw
from genan.robot import Robot, robot_names
from genan.words import interval, reading_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Overlay:
    """One rollout and the recording."""

    title: str  # Which one it is: "best", "median", "worst".
    trajectory: int  # Its trajectory, counted from 0.
    recorded: Float[np.ndarray, "T nq"]  # From the start on [rad or m].
    predicted: Float[np.ndarray, "T nq"]  # The same of the ensemble [rad or m].
    members: Float[np.ndarray, "members T nq"]  # The same of each member alone [rad or m].


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything ``evaluate`` found out. Errors are in rad or m."""

    name: str  # What the judged ensemble is called.
    robot: str
    dt: float
    trajectories: int  # Trajectories in the recording.
    first: int  # First sample of a trajectory that is predicted from, counted from 0.
    horizon: int  # Steps of a rollout.
    bound: Float[np.ndarray, " nq"]  # Where the error of a diverged rollout is cut [rad or m].
    fingerprint: str  # Of the recording.
    is_training_data: bool  # Whether the ensemble was fitted to this very recording.
    notes: tuple[str, ...]  # What a reader must know, one sentence each.
    errors: ModelErrors  # Of the judged ensemble.
    members: tuple[ModelErrors, ...]  # Of each of its members alone.
    average: ModelErrors | None  # Mean over its members of their errors.
    compared: tuple[ModelErrors, ...]  # Of the other ensembles.
    baselines: tuple[ModelErrors, ...]
    held: tuple[HeldControl, ...]
    """The held-control test of the judged ensemble, then of the others."""
    overlays: tuple[Overlay, ...]
    torques: TorqueComparison | None  # Where the recording has true torques.
    calibration: tuple[Calibration, ...]
    """Disagreement against the error of torques, where they are known, and of positions; empty for
    an ensemble of one, which cannot disagree."""
    recordings: int = 0  # Recordings that the trajectories are pieces of.
    comparison: BaselineComparison | None = None
    """How much better than the baselines it is, and how certain that is; None without baselines."""
    novelty: Novelty | None = None
    """Where it should not be trusted; None where it is not known what it was trained on."""

    @property
    def table(self) -> tuple[ModelErrors, ...]:
        """Every model: the ensemble, the others, a member alone, the baselines."""
        average = () if self.average is None else (self.average,)
        return (self.errors, *self.compared, *average, *self.baselines)

    def __repr__(self) -> str:
        head = (
            f"Evaluation({self.name} on {self.trajectories} trajectories of {self.robot}; mean "
            f"absolute error after 1 and after {self.horizon} steps, 95 % intervals)"
        )
        rows = []
        for errors in self.table:
            parts = (errors.one_step[-1], errors.curve[-1, -1])
            unit, factor = reading_unit(errors.units[-1])
            ends = [p.times(factor) for p in parts]
            values = (interval(float(p.mean), float(p.low), float(p.high)) for p in ends)
            rows.append(f"  {errors.name}: {' and '.join(values)} {unit}")
        return "\n".join([head, *rows])

    def to_table(self) -> dict[str, list[Any]]:
        """A list for each column (as ``pandas.DataFrame`` takes it): model, joint, unit, and mean
        absolute errors with 95 % intervals after one step and after ``horizon`` steps; SI units."""
        rows = [
            (errors.name, column, unit, *map(float, (one.mean, one.low, one.high)),
             *map(float, (last.mean, last.low, last.high)))
            for errors in self.table
            for k, (column, unit) in enumerate(zip(errors.columns, errors.units, strict=True))
            for one, last in [(errors.one_step[k], errors.curve[-1, k])]
        ]  # fmt: skip
        kinds = [
            f"{what}{end}" for what in ("one_step", "rollout") for end in ("", "_low", "_high")
        ]
        names = ("model", "joint", "unit", *kinds)
        return {
            name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }

    def plot(self) -> "Figure":
        """Error over time of every model, open loop (a matplotlib figure)."""
        return draw("figures.error_figure", self)


def evaluate(
    actuators: Ensemble | Path | str,
    data: Trajectories | Path | str,
    robot: Robot | Path | str | None = None,
    *,
    name: str = "ensemble",
    compare: Mapping[str, Ensemble] | None = None,
    train: Trajectories | Path | str | None = None,
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
    say = progress or (lambda what, done, total: None)
    ensemble = actuators if isinstance(actuators, Ensemble) else load_actuators(actuators)
    body = load_robot(ensemble, robot)
    recording = data if isinstance(data, Trajectories) else load(data)
    learnt, missing = training_data(ensemble, train)
    unknown = None
    if reference is None and not isinstance(actuators, Ensemble):
        reference, unknown = find_reference(Path(actuators), ensemble, learnt, progress=progress)
    everyone = {name: ensemble, **(compare or {})}
    for each in everyone.values():
        each.contract.check_robot(body)
        each.contract.check_channels(recording.channels, whose="the recording")
    reaches = [each.contract.history.reach for each in everyone.values()]
    trial = plan(recording, reaches, horizon=horizon)
    dynamics = load_dynamics(body)

    judged = {
        key: judge_ensemble(key, each, dynamics, trial, progress=progress)
        for key, each in everyone.items()
    }
    main = judged[name]
    holds = find_starts(recording, first=trial.first, progress=progress)
    held = []
    for k, (key, each) in enumerate(everyone.items()):
        held.append(judge_held_control(key, each, dynamics, holds, recording))
        say("held control", k + 1, len(everyone))

    baselines = [] if learnt is None else fit_baselines(learnt, ensemble, trial, progress)
    beaten = tuple(judge_baseline(baseline, trial) for baseline in baselines)
    torques = None if isinstance(data, Trajectories) else _true_torques(main, trial, data)
    calibration = [] if torques is None else [torque_calibration(main.torques, torques)]
    calibration.append(position_calibration(ensemble, trial, main.positions))
    fingerprint = recording.fingerprint
    return Evaluation(
        name=name,
        robot=body.name,
        dt=recording.dt,
        trajectories=len(recording),
        first=trial.first,
        horizon=trial.horizon,
        bound=trial.bound,
        fingerprint=fingerprint,
        is_training_data=ensemble.record.get("data", {}).get("fingerprint") == fingerprint,
        notes=(*trial.notes, *(note for note in (missing, unknown) if note)),
        errors=main.errors,
        members=main.members,
        average=main.average,
        compared=tuple(found.errors for key, found in judged.items() if key != name),
        baselines=beaten,
        held=tuple(held),
        overlays=_overlays(main, trial),
        torques=torques,
        calibration=tuple(calibration) if ensemble.members > 1 else (),
        recordings=len(set(recording.recordings)),
        comparison=compare_with(main.errors, beaten),
        novelty=None if reference is None else find_novelty(reference, ensemble, trial, main),
    )


def load_robot(ensemble: Ensemble, robot: Robot | Path | str | None) -> Robot:
    """``robot``, or the one that the actuators were fitted for: where its robot.toml was then, or
    the installed one."""
    if isinstance(robot, Robot):
        return robot
    known = ensemble.record.get("robot")
    if robot is None and known and Path(known).exists():
        return Robot.load(Path(known))
    if robot is None and ensemble.contract.robot not in robot_names():
        raise ActuatorError(
            f"The actuators were fitted for robot {ensemble.contract.robot!r}, which is not "
            "installed; give its robot.toml (--robot)."
        )
    return Robot.load(ensemble.contract.robot if robot is None else robot)


def training_paths(ensemble: Ensemble) -> list[Path]:
    """The recordings that the actuators were fitted to, as far as they say."""
    found = ensemble.record.get("data", {}).get("path") or []
    return [Path(path) for path in ([found] if isinstance(found, str) else found)]


def training_data(
    ensemble: Ensemble, given: Trajectories | Path | str | None = None
) -> tuple[Trajectories | None, str | None]:
    """The recording ``given``, or the one that the actuators were fitted to; or None, and why."""
    if given is not None:
        return given if isinstance(given, Trajectories) else load(given), None
    hint = "the baselines were left out; give the training recording by --train-data."
    fingerprint, paths = (
        ensemble.record.get("data", {}).get("fingerprint"),
        training_paths(ensemble),
    )
    if not paths or not fingerprint:
        return None, f"The artifact does not say what it was fitted to, so {hint}"
    gone = [path for path in paths if not path.exists()]
    if gone:
        return None, f"The training recording {gone[0]} is not there any more, so {hint}"
    try:
        parts = [load(path) for path in paths]
        recording = Trajectories.concatenate(parts) if len(parts) > 1 else parts[0]
    except GenanError as error:
        reason = str(error).rstrip(".")
        return None, f"The training recording cannot be read ({reason}), so {hint}"
    if recording.fingerprint != fingerprint:
        what = f"{paths[0]} is not the recording that the actuators were fitted to any more"
        return None, f"{what}, so {hint}"
    return recording, None


def find_reference(
    folder: Path,
    ensemble: Ensemble,
    train: Trajectories | None,
    *,
    progress: JobProgress | None = None,
) -> tuple[Reference | None, str | None]:
    """The reference of the actuators in ``folder``, and, where there is none, why.

    Args:
        folder: of the artifact; a reference that is made is kept there.
        ensemble: the actuators in it.
        train: their training recording, if there is one.
        progress: called with what is being done, how much of it is done, and how much there is.
    """
    if (folder / NAME).exists():
        with suppress(ActuatorError):  # damaged or of another version: it is made again
            kept = Reference.load(folder)
            if kept.belongs_to(ensemble):
                return kept, None
    without = "so where this log is new to it cannot be said"
    if train is None:
        why = f"There is no {NAME} in {folder} that fits, and no training recording to make it from"
        return None, f"{why}, {without}."
    fitted_to = ensemble.record.get("data", {}).get("fingerprint")
    if fitted_to and fitted_to != train.fingerprint:
        why = "The recording of --train-data is not the one that the actuators were fitted to"
        return None, f"{why}, {without}."
    say = progress or (lambda what, done, total: None)
    say("what it was trained on", 0, 1)
    made = Reference.of(ensemble, train)
    with suppress(OSError):  # a folder that cannot be written to: it is made again each time
        made.save(folder)
    say("what it was trained on", 1, 1)
    return made, None


def fit_baselines(
    train: Trajectories,
    ensemble: Ensemble,
    trial: JudgedSamples,
    progress: JobProgress | None = None,
) -> list[Baseline]:
    """Models to beat, fitted to ``train``: ridge ARX, constant velocity, standing still."""
    ensemble.contract.check_channels(train.channels, whose="the training recording")
    orders = {o for o in (*ORDERS, ensemble.contract.history.span) if 1 <= o <= trial.first}
    say = progress or (lambda what, done, total: None)
    say("baselines", 0, 1)
    arx = Arx.fit(train, orders=sorted(orders))
    say("baselines", 1, 1)
    return [arx, ConstantVelocity(), StandingStill()]


def _true_torques(
    judged: JudgedEnsemble, trial: JudgedSamples, path: Path | str
) -> TorqueComparison | None:
    if "tau" not in summary(path).truth:
        return None
    true = read_truth_for_evaluation_only(path)["tau"]
    return (
        compare_torques(judged.torques, trial, true)
        if true.shape[1] == trial.trajectories.channels.nq
        else None
    )


def _overlays(judged: JudgedEnsemble, trial: JudgedSamples) -> tuple[Overlay, ...]:
    """The best, the median and the worst rollout; fewer when there are fewer."""
    order = np.argsort(judged.error_of_rollout, kind="stable")
    places = {"best": 0, "median": (len(order) - 1) // 2, "worst": len(order) - 1}
    found, seen = [], set()
    for title, place in places.items():
        k = int(order[place])
        if k in seen:
            continue
        seen.add(k)
        now = trial.trajectories.q[trial.starts[k]][None]
        recorded = np.concatenate(
            [now, trial.trajectories.q[trial.starts[k] + np.arange(1, trial.horizon + 1)]]
        )
        predicted = np.concatenate([now, judged.positions[k]])
        members = np.concatenate([np.repeat(now[None], len(judged.member_positions), axis=0),
                                  judged.member_positions[:, k]], axis=1)  # fmt: skip
        found.append(Overlay(title, int(trial.start_owner[k]), recorded, predicted, members))
    return tuple(found)
