"""Where a fit stands and how fast it goes, for whoever shows it."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from genan.actuator import artifact
from genan.actuator.artifact import load
from genan.actuator.base import BaseProblem, as_layer, uses
from genan.actuator.contract import Contract
from genan.actuator.dataset import Data, gather
from genan.actuator.ensemble import Ensemble
from genan.actuator.losses import PositionLoss
from genan.actuator.network import Layer, Scaling, initialise
from genan.actuator.settings import FitSettings
from genan.actuator.training import (
    Programs,
    State,
    Training,
    platform,
    precision_for,
    prepare_training,
)
from genan.data import read_truth_for_evaluation_only, summary
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, SettingError
from genan.files import load_checkpoint, remove_checkpoint, save_checkpoint
from genan.jax_setup import check_sums, compiling
from genan.provenance import versions
from genan.robot import Robot
from genan.tensorboard import EventFile

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Progress:
    """Where a fit stands."""

    epoch: int
    """Whole epochs done."""
    epochs: int
    """Epochs to do."""
    share: float
    """Part of the present epoch that is done, 0 to 1."""
    train: list[float]
    """Each member's mean training loss in the last whole epoch; empty before there is one."""
    validation: list[float]
    """Each member's validation loss after the last whole epoch; empty before there is one."""
    best_epoch: list[int]
    """Epoch of each member's lowest validation loss so far."""
    samples_per_second: float
    """Samples that all members together have learnt from per second, in this run."""
    seconds_left: float
    """Estimated time to the last epoch [s]."""


class Pace:
    """How fast a fit goes, compiling left out."""

    def __init__(self, training: Training, *, members: int) -> None:
        self._piece = training.piece * training.batch * members
        self._epoch = training.steps * training.batch * members
        self._samples = 0
        self._begun: float | None = None

    def count(self) -> None:
        """One more piece is done."""
        if self._begun is None:
            self._begun = time.perf_counter()
        else:
            self._samples += self._piece

    @property
    def samples_per_second(self) -> float:
        """Samples of all members per second, validation and everything else included; 0 before it
        is known."""
        passed = time.perf_counter() - self._begun if self._begun is not None else 0.0
        return self._samples / passed if passed > 0.0 else 0.0

    def seconds_for(self, epochs: float) -> float:
        """Time that ``epochs`` more epochs take [s]; infinite before it is known."""
        return epochs * self._epoch / self.samples_per_second if self._samples else float("inf")


ProgressFunction = Callable[[Progress], None]


# --- ``fit``: from a recording to an ensemble of actuator networks, interrupted or not.

CHECKPOINT_SECONDS = 10.0
"""Time between two checkpoints [s]; a killed fit loses no more than this."""

EVENTS = "tensorboard"
"""Folder of the TensorBoard events within a fit's folder."""


@dataclass
class Curve:
    """Mean losses of every epoch so far, one list entry per member."""

    train: list[list[float]]
    validation: list[list[float]]


class DivergedError(ActuatorError):
    """The loss became NaN or infinite; what was good before is kept."""


def fit(
    data: Data,
    robot: Robot | Path | str,
    *,
    out: Path | str | None = None,
    start: Ensemble | Path | str | None = None,
    overwrite: bool = False,
    progress: ProgressFunction | None = None,
    **settings: Any,
) -> Ensemble:
    """Learn what the actuators do.

    Args:
        data: a recording: ``Trajectories``, or one or several files.
        robot: the robot it was made on: a ``Robot``, a bundled robot's name, or the path of a
            ``robot.toml``.
        out: folder for the artifact, checkpoints and TensorBoard events; left out, nothing is
            written. A fit that was interrupted goes on from its last checkpoint when the same call
            is repeated.
        start: an ensemble to go on from, with its history, networks and scaling.
        overwrite: replace what an earlier fit left in ``out``.
        progress: called after every piece of work.
        settings: fields of ``FitSettings``, as ``loss="torque"``, ``history_length=10``,
            ``epochs=30``.

    Returns:
        The ensemble; ``ensemble.torque(q_history, u_history)`` gives torques, ``ensemble.record``
        says how it was made.
    """
    known = FitSettings.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise SettingError(f"There is no setting {name!r}; there are: {', '.join(known)}.")
    fitting = Fitting(
        data, robot, FitSettings(**settings), out=out, start=start, overwrite=overwrite
    )
    del data
    found = fitting.run(progress=progress)
    assert found is not None  # nobody asked it to stop
    return found


def fit_true_torque(
    ensemble: Ensemble,
    *,
    data: Path,
    robot: Robot,
    out: Path,
    progress: ProgressFunction | None = None,
) -> Ensemble:
    """One network like those of ``ensemble``, taught the true torques that only a virtual robot can
    tell.

    What a torque sensor would buy. For evaluation only.
    """
    past, shape = ensemble.contract.history, ensemble.contract.architecture
    made = ensemble.record.get("settings", {})
    kept = {
        name: made[name]
        for name in ("epochs", "batch", "rate", "schedule", "validation", "split_seed")
        if name in made
    }
    settings = FitSettings(
        loss="torque",
        history_length=past.length,
        history_stride=past.stride,
        delta=past.delta,
        delay=past.delay,
        hidden=shape.hidden or FitSettings().hidden,
        activation=shape.activation,
        members=1,
        allow_constant=True,
        **kept,
    )
    tau = read_truth_for_evaluation_only(data)["tau"]
    fitting = Fitting(data, robot, settings, out=out, overwrite=True, true_torque=tau)
    found = fitting.run(progress=progress)
    assert found is not None
    return found


class Fitting:
    """One fit: what ``fit`` does, for those who want to stop it in between."""

    def __init__(
        self,
        data: Data,
        robot: Robot | Path | str,
        settings: FitSettings,
        *,
        out: Path | str | None = None,
        start: Ensemble | Path | str | None = None,
        overwrite: bool = False,
        true_torque: np.ndarray | None = None,
    ) -> None:
        """Check everything, prepare the data, and take up an unfinished fit that lies in
        ``out``."""
        check_sums()
        self.robot = robot if isinstance(robot, Robot) else Robot.load(robot)
        named = (
            None
            if isinstance(robot, Robot) or not Path(robot).exists()
            else str(Path(robot).resolve())
        )
        self.robot_path = named
        self.out = None if out is None else Path(out)
        self._clear(overwrite=overwrite)
        self.start = start if start is None or isinstance(start, Ensemble) else artifact.load(start)
        self.settings = settings if self.start is None else _like(settings, self.start)
        if self.start is not None:
            self.start.contract.check_robot(self.robot)
        dynamics = load_dynamics(self.robot)
        past = None if self.start is None else self.start.contract.history
        dataset = gather(
            data, self.robot, dynamics, self.settings, true_torque=true_torque, history=past
        )
        self.dataset, self.dynamics = dataset, dynamics
        self.validation_trajectories = dataset.validation_trajectories
        rows = dataset.train_rows
        scaling = (
            self.start.scaling
            if self.start
            else Scaling.of_samples(dataset.samples, rows, dataset.history)
        )
        self.precision = precision_for(self.settings.precision)
        self.training = prepare_training(self.settings, dataset, scaling, dynamics, self.precision)
        loss = "true-torque" if true_torque is not None else self.settings.loss
        made = self.settings
        self.contract = dataset.contract(
            self.robot, made.architecture, members=made.members, loss=loss
        )
        self.origin = dataset.origin
        self.state = self._begin()
        self._programs: Programs | None = None
        self.curve = Curve([], [])
        self._resume()

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for an unfinished fit to go on."""
        started = (
            None
            if self.start is None
            else self.start.record.get("data", {}).get("fingerprint", "unknown")
        )
        return {
            "settings": self.settings.settings(),
            "data": self.origin["fingerprint"],
            "robot": self.robot.name,
            "precision": self.precision,
            "from": started,
        }

    def run(
        self,
        *,
        progress: ProgressFunction | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Ensemble | None:
        """Train to the end and save the artifact; None when ``stopping`` said so before, with
        everything saved."""
        events = self._events()
        pace = Pace(self.training, members=self.contract.members)
        try:
            while self._unfinished():
                if not self._epoch(pace, progress, stopping):
                    self._save()
                    return None
                if events is not None:
                    self._log(events, len(self.curve.train) - 1)
        finally:
            if events is not None:
                events.close()
        return self._finish()

    def ensemble(self, fault: str | None = None) -> Ensemble:
        """The best weights so far."""
        record = {
            "settings": self.settings.settings(),
            "robot": self.robot_path,
            "data": self.origin,
            "training": {
                "epochs": int(self.state.epoch),
                "best_epoch": np.asarray(self.state.best_epoch).tolist(),
                "best_validation_loss": np.asarray(self.state.best_loss).tolist(),
                "batch": self.training.batch,
                "precision": self.precision,
                "device": platform(),
                "train_loss": self.curve.train,
                "validation_loss": self.curve.validation,
                "fault": fault,
            },
            "from": None if self.start is None else self.start.record.get("data"),
            "versions": versions(),
        }
        best = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), self.state.best)
        return Ensemble(
            self.contract,
            best,
            self.training.loss.member.scaling,
            json.dumps(record, sort_keys=True),
        )

    @property
    def closed_form(self) -> bool:
        """Whether there is nothing to train: the base torque model is all of it."""
        return self.start is None and self.settings.base != "none" and not self.settings.hidden

    def _unfinished(self) -> bool:
        return (
            not self.closed_form
            and int(self.state.epoch) < self.settings.epochs
            and not bool(jnp.all(self.state.stopped))
        )

    def _epoch(
        self, pace: Pace, progress: ProgressFunction | None, stopping: Callable[[], bool]
    ) -> bool:
        """One epoch, or the rest of it; False when it was stopped in between."""
        training = self.training
        while int(self.state.step) < training.steps:
            if stopping():
                return False
            self.state = jax.block_until_ready(self._compiled().advance(self.state))
            pace.count()
            self._report(pace, progress)
            self._save_in_time()
        train = np.asarray(self.state.loss_sum / training.steps, np.float64)
        self._guard()
        self.state, validation = self._compiled().close_epoch(self.state)
        self.curve.train.append(train.tolist())
        self.curve.validation.append(np.asarray(validation, np.float64).tolist())
        self._report(pace, progress)
        return True

    def _compiled(self) -> Programs:
        if self._programs is None:
            with compiling("the training programs"):
                self._programs = self.training.compiled(self.state)
        return self._programs

    def _report(self, pace: Pace, progress: ProgressFunction | None) -> None:
        if progress is None:
            return
        epoch, step = int(self.state.epoch), int(self.state.step)
        done = epoch + step / self.training.steps
        progress(
            Progress(
                epoch=epoch,
                epochs=self.settings.epochs,
                share=step / self.training.steps,
                train=self.curve.train[-1] if self.curve.train else [],
                validation=self.curve.validation[-1] if self.curve.validation else [],
                best_epoch=np.asarray(self.state.best_epoch).tolist(),
                samples_per_second=pace.samples_per_second,
                seconds_left=pace.seconds_for(self.settings.epochs - done),
            )
        )

    def _guard(self) -> None:
        """Stop where a loss is no longer a finite number; what was good before is saved."""
        steps = np.asarray(self.state.fault_step)
        if (steps < 0).all():
            return
        member = int(np.flatnonzero(steps >= 0)[0])
        epoch = int(self.state.epoch) + 1
        where = f"the loss of member {member} is not finite from step {int(steps[member]) + 1} of epoch {epoch} on"
        advice = "try a lower --rate, and look at the recording with 'genan inspect'"
        if np.asarray(self.state.best_epoch).min() < 1:
            self._forget()
            raise DivergedError(
                f"The fit was stopped: {where}, before there was anything worth keeping; {advice}."
            )
        kept = "in memory"
        if self.out is not None:
            artifact.save(self.ensemble(fault=where), self.out)
            remove_checkpoint(self.out)
            kept = f"in {self.out}"
        best = ", ".join(map(str, np.asarray(self.state.best_epoch)))
        raise DivergedError(
            f"The fit was stopped: {where}; each member's best weights until then (of epoch {best}) are kept {kept}; "
            f"{advice}."
        )

    def _begin(self) -> State:
        if self.start is not None:
            return self.training.begin_from(jax.tree.map(jnp.copy, self.start.layers))
        contract = self.contract
        initial = lambda key: initialise(
            contract.architecture, contract.inputs, contract.nq, key=key
        )  # noqa: E731
        if self.settings.base == "none":
            return self.training.begin(initial, contract.members)
        base = self._base()
        return self.training.begin(initial, contract.members, base)

    def _base(self) -> Layer:
        """The base torque model of each member, fitted to what that member learns from."""
        dataset, made, members = self.dataset, self.settings, self.contract.members
        loss = self.training.loss
        scale = np.asarray(loss.scale) if isinstance(loss, PositionLoss) else 1.0
        used = uses(made.base, dataset.history, dataset.channels.nq, dataset.channels.nu)
        problem = BaseProblem(
            dataset.samples, dataset.parts, dataset.history, loss.member.scaling, used, scale=scale
        )
        splits = {dataset.left_out(k): dataset.learnt(k) for k in range(members)}
        ridge = problem.best_ridge([(learnt, out) for out, learnt in splits.items()])
        solved = {out: problem.solve(ridge, learnt) for out, learnt in splits.items()}
        self.origin["ridge"] = ridge
        weights = np.stack([solved[dataset.left_out(k)] for k in range(members)])
        return as_layer(weights, problem.seen if made.hidden else None)

    def _clear(self, *, overwrite: bool) -> None:
        """Refuse a folder with finished actuators or a file; with ``overwrite``, forget what is
        there."""
        if self.out is None:
            return
        if self.out.exists() and not self.out.is_dir():
            raise SettingError(f"{self.out} is a file; give a folder for the actuators.")
        if overwrite:
            self._forget()
        elif (self.out / artifact.CONTRACT).exists():
            raise SettingError(
                f"{self.out} holds finished actuators; give another --out, --overwrite to fit them anew, or --from "
                f"{self.out} to go on from them."
            )

    def _forget(self) -> None:
        if self.out is not None:
            for path in (self.out / artifact.CONTRACT, self.out / artifact.WEIGHTS):
                path.unlink(missing_ok=True)
            remove_checkpoint(self.out)

    def _resume(self) -> None:
        self._saved = time.perf_counter()
        self.resumed = 0.0
        if self.out is None:
            return
        found = load_checkpoint(self.out, self.state, identity=self.identity, work="fit")
        if found is not None:
            self.state, self.curve = found[0], Curve(*found[1])
            self.resumed = int(self.state.epoch) + int(self.state.step) / self.training.steps
        else:
            self.out.mkdir(parents=True, exist_ok=True)

    def _save(self) -> None:
        if self.out is not None:
            beside = [self.curve.train, self.curve.validation]
            save_checkpoint(self.out, self.state, identity=self.identity, beside=beside)
        self._saved = time.perf_counter()

    def _save_in_time(self) -> None:
        if time.perf_counter() - self._saved > CHECKPOINT_SECONDS:
            self._save()

    def _events(self) -> EventFile | None:
        """TensorBoard's file, with what was trained before an interruption."""
        if self.out is None:
            return None
        events = EventFile(self.out / EVENTS)
        for epoch in range(len(self.curve.train)):
            self._log(events, epoch)
        return events

    def _log(self, events: EventFile, epoch: int) -> None:
        train, validation = self.curve.train[epoch], self.curve.validation[epoch]
        values = {
            "loss/train": float(np.mean(train)),
            "loss/validation": float(np.mean(validation)),
        }
        for member, (a, b) in enumerate(zip(train, validation, strict=True)):
            values |= {f"train/member {member}": a, f"validation/member {member}": b}
        events.scalars(epoch + 1, values)

    def _finish(self) -> Ensemble:
        ensemble = self.ensemble()
        if self.out is not None:
            artifact.save(ensemble, self.out)
            remove_checkpoint(self.out)
        return ensemble


def _like(settings: FitSettings, start: Ensemble) -> FitSettings:
    """``settings`` with the history and the networks of the ensemble to go on from."""
    past, shape = start.contract.history, start.contract.architecture
    return replace(
        settings,
        history_length=past.length,
        history_stride=past.stride,
        delta=past.delta,
        delay=past.delay,
        base="both" if shape.skip else "none",  # it is in the weights and stays as it is
        folds=None,
        hidden=shape.hidden,
        activation=shape.activation,
        members=start.members,
        rate=settings.rate or 2e-4,
        allow_constant=True,  # what the old data varied need not vary again
    )


# --- What a torque sensor would buy: the same network, trained on the true torques that only a


def has_true_torque(train_path: Path | str) -> bool:
    """Whether the recording holds true torques."""
    return "tau" in summary(train_path).truth


def true_torque_baseline(
    ensemble: Ensemble,
    train_path: Path | str,
    robot: Robot,
    progress: Callable[[str, int, int], None] | None = None,
    *,
    out: Path,
) -> Ensemble:
    """A network like those of ``ensemble``, trained on the true torques in ``train_path``.

    It is kept in the folder ``out`` and trained only when that does not hold it yet. ``progress``
    is told what is being done, how much of it is done, and how much there is.
    """
    kept = _kept(ensemble, out)
    if kept is not None:
        return kept

    def told(at: "Progress") -> None:
        if progress is not None:
            progress("training on true torques", at.epoch, at.epochs)

    return fit_true_torque(ensemble, data=Path(train_path), robot=robot, out=out, progress=told)


def _kept(ensemble: Ensemble, out: Path) -> Ensemble | None:
    """The network in ``out``, if it is the counterpart of ``ensemble``: same channels, history,
    shape and data."""
    try:
        kept = load(out)
    except ActuatorError:
        return None
    same = _shape(ensemble.contract) == _shape(kept.contract)
    data = [one.record.get("data", {}).get("fingerprint") for one in (ensemble, kept)]
    return kept if same and data[0] == data[1] else None


def _shape(contract: Contract) -> Contract:
    """``contract`` without what differs between a network and its counterpart."""
    return replace(contract, members=1, loss="", q_seen=(), u_seen=())
