"""What a model was trained on: kept beside it, or learnt from the training recording where that is
to be had.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from genan.actuator import Ensemble
from genan.actuator.baselines import ORDERS, Arx, Baseline, ConstantVelocity, StandingStill
from genan.actuator.errors import JobProgress
from genan.actuator.reference import NAME, Reference
from genan.data import Trajectories, load, read_truth_for_evaluation_only, summary
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError
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
from genan.robot import Robot, robot_names


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
        progress: told what is being done, how much of it is done, and how much there is.
    """
    if (folder / NAME).exists():
        try:
            kept = Reference.load(folder)
            if kept.belongs_to(ensemble):
                return kept, None
        except ActuatorError:
            pass  # damaged or of another version: it is made anew, where that can be done
    without = "so where this log is new to it cannot be said"
    if train is None:
        return (
            None,
            f"There is no {NAME} in {folder} that fits, and no training recording to make it from, {without}.",
        )
    fitted_to = ensemble.record.get("data", {}).get("fingerprint")
    if fitted_to and fitted_to != train.fingerprint:
        return (
            None,
            f"The recording of --train-data is not the one that the actuators were fitted to, {without}.",
        )
    say = progress or (lambda what, done, total: None)
    say("what it was trained on", 0, 1)
    made = Reference.of(ensemble, train)
    with suppress(
        OSError
    ):  # a folder that cannot be written to, such as an installed package's: made anew each time
        made.save(folder)
    say("what it was trained on", 1, 1)
    return made, None


# --- ``evaluate``: how good fitted actuators are, on a recording they were not fitted to, besid


@dataclass(frozen=True, eq=False)
class Overlay:
    """One rollout beside the recording."""

    title: str
    """Which one it is: "best", "median", "worst"."""
    trajectory: int
    """Its trajectory, counted from 0."""
    recorded: Float[np.ndarray, "T nq"]
    """From the start on [rad or m]."""
    predicted: Float[np.ndarray, "T nq"]
    """The same of the ensemble [rad or m]."""
    members: Float[np.ndarray, "members T nq"]
    """The same of each member alone [rad or m]."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything ``evaluate`` found out."""

    name: str
    """What the judged ensemble is called."""
    robot: str
    dt: float
    trajectories: int
    """Trajectories in the recording."""
    first: int
    """First sample of a trajectory that is predicted from, counted from 0."""
    horizon: int
    """Steps of a rollout."""
    bound: Float[np.ndarray, " nq"]
    """Where the error of a diverged rollout is cut [rad or m]."""
    fingerprint: str
    """Of the recording."""
    is_training_data: bool
    """Whether the ensemble was fitted to this very recording."""
    notes: tuple[str, ...]
    """What a reader must know, one sentence each."""
    errors: ModelErrors
    """Of the judged ensemble."""
    members: tuple[ModelErrors, ...]
    """Of each of its members alone."""
    average: ModelErrors | None
    """Mean over its members of their errors."""
    compared: tuple[ModelErrors, ...]
    """Of the other ensembles."""
    baselines: tuple[ModelErrors, ...]
    held: tuple[HeldControl, ...]
    """The held-control test of the judged ensemble, then of the others."""
    overlays: tuple[Overlay, ...]
    torques: TorqueComparison | None
    """Where the recording has true torques."""
    calibration: tuple[Calibration, ...]
    """Disagreement against the error of torques, where they are known, and of positions; empty for
    an ensemble of one, which cannot disagree."""
    recordings: int = 0
    """Recordings that the trajectories are pieces of."""
    comparison: BaselineComparison | None = None
    """How much better than the baselines it is, and how certain that is; None without baselines."""
    novelty: Novelty | None = None
    """Where it should not be trusted; None where it is not known what it was trained on."""

    @property
    def table(self) -> tuple[ModelErrors, ...]:
        """Every model: the ensemble, the others, a member alone, the baselines."""
        average = () if self.average is None else (self.average,)
        return (self.errors, *self.compared, *average, *self.baselines)


def evaluate(
    ensemble: Ensemble,
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
        ensemble: the actuators.
        data: a recording that they were not fitted to; from a file its true torques are used too,
            where it has them.
        robot: the robot; left out, the bundled one that the actuators were fitted for.
        name: what to call them.
        compare: other ensembles to judge at the same samples, by name.
        train: the recording that the baselines are fitted to; left out, there are none.
        reference: what the actuators were trained on, to tell where the recording is new to them.
        horizon: steps of the open-loop rollouts.
        progress: told what is being done, how much of it is done, and how much there is.
    """
    body = load_robot(ensemble, robot)
    recording = data if isinstance(data, Trajectories) else load(data)
    everyone = {name: ensemble, **(compare or {})}
    for each in everyone.values():
        each.contract.check_robot(body)
        each.contract.check_channels(recording.channels, whose="the recording")
    trial = plan(
        recording, [each.contract.history.reach for each in everyone.values()], horizon=horizon
    )
    dynamics = load_dynamics(body)

    judged = {
        key: judge_ensemble(key, each, dynamics, trial, progress=progress)
        for key, each in everyone.items()
    }
    main = judged[name]
    holds = find_starts(recording, first=trial.first, progress=progress)
    held = []
    for k, (key, each) in enumerate(everyone.items()):
        if progress is not None:
            progress("held control", k, len(everyone))
        held.append(judge_held_control(key, each, dynamics, holds, recording))
    if progress is not None:
        progress("held control", len(everyone), len(everyone))

    baselines = [] if train is None else fit_baselines(train, ensemble, trial, progress)
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
        notes=trial.notes,
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
    the bundled one."""
    if isinstance(robot, Robot):
        return robot
    known = ensemble.record.get("robot")
    if robot is None and known and Path(known).exists():
        return Robot.load(Path(known))
    if robot is None and ensemble.contract.robot not in robot_names():
        raise ActuatorError(
            f"The actuators were fitted for robot {ensemble.contract.robot!r}, which does not come with genan; give "
            "its robot.toml (--robot)."
        )
    return Robot.load(ensemble.contract.robot if robot is None else robot)


def fit_baselines(
    train: Trajectories | Path | str,
    ensemble: Ensemble,
    trial: JudgedSamples,
    progress: JobProgress | None = None,
) -> list[Baseline]:
    """Models to beat, fitted to ``train``: ridge ARX, constant velocity, standing still."""
    recording = train if isinstance(train, Trajectories) else load(train)
    ensemble.contract.check_channels(recording.channels, whose="the training recording")
    orders = {
        order for order in (*ORDERS, ensemble.contract.history.span) if 1 <= order <= trial.first
    }
    if progress is not None:
        progress("baselines", 0, 1)
    fitted: list[Baseline] = [
        Arx.fit(recording, orders=sorted(orders)),
        ConstantVelocity(),
        StandingStill(),
    ]
    if progress is not None:
        progress("baselines", 1, 1)
    return fitted


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
