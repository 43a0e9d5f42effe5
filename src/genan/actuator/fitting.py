"""``Fitting``: one ensemble of actuator networks, trained to its end, interrupted or not."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genan.actuator import artifact
from genan.actuator.base import BaseProblem, as_layer, uses
from genan.actuator.dataset import Data, SharedData, gather
from genan.actuator.ensemble import Ensemble
from genan.actuator.losses import PositionLoss
from genan.actuator.network import Layer, initialise
from genan.actuator.reference import NAME as REFERENCE
from genan.actuator.reference import Reference
from genan.actuator.settings import FitSettings
from genan.actuator.training import (
    TrainingPrograms,
    TrainingState,
    platform,
    precision_for,
    prepare_training,
)
from genan.data import Trajectories
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, GenanError, SettingError
from genan.files import load_checkpoint, remove_checkpoint, save_checkpoint
from genan.jax_setup import check_sums, compiling
from genan.provenance import versions
from genan.robot import Robot
from genan.tensorboard import EventFile

CHECKPOINT_SECONDS = 10.0  # Time between two checkpoints [s]; a killed fit loses no more than this.

EVENTS = "tensorboard"  # Folder of the TensorBoard events within a fit's folder.


class FitDivergedError(ActuatorError):
    """The loss became NaN or infinite; what was good before is kept."""


class FitInterruptedError(GenanError):
    """A fit was asked to stop; what is finished is kept, and the same call continues from there."""


@dataclass(frozen=True)
class FitProgress:
    """How far a fit is."""

    epoch: int  # Whole epochs done.
    epochs: int  # Epochs to do.
    share: float  # Part of the present epoch that is done, 0 to 1.
    train: list[float]
    """Each member's mean training loss in the last whole epoch; empty before there is one."""
    validation: list[float]
    """Each member's validation loss after the last whole epoch; empty before there is one."""
    best_epoch: list[int]  # Epoch of each member's lowest validation loss so far.
    samples_per_second: float
    """Samples that all members together have learnt from per second, in this run."""
    seconds_left: float  # Estimated time to the last epoch [s].


@dataclass(frozen=True)
class FitObserver:
    """Functions that are called while a fit runs; those left out do nothing."""

    note: Callable[[str], None] = lambda sentence: None
    """With a sentence that a person should read."""
    begin: Callable[["Fitting"], None] = lambda fitting: None
    """When the data are ready and training begins or continues; not for candidates of a choice."""
    candidate: Callable[[str, int, int], None] = lambda name, number, total: None
    """With name, number and count, when a choice tries the next candidate."""
    progress: Callable[[FitProgress], None] = lambda now: None  # After every chunk of training.
    stopping: Callable[[], bool] = lambda: False  # Whether to stop at the next safe point.


class Fitting:
    """One fit: what ``genan.fit`` runs once it is known what to fit."""

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
        reference: Trajectories | None = None,
    ) -> None:
        """Check everything, prepare the data, and take up an unfinished fit that is in ``out``.

        Args:
            data: the recording.
            robot: the robot it was made on.
            settings: how to fit.
            out: folder for the artifact, checkpoints and TensorBoard events.
            start: an ensemble to continue from.
            overwrite: replace what an earlier fit left in ``out``.
            true_torque: instead of the torques of inverse dynamics [rows, nq] [N m or N].
            reference: the recording, where a ``Reference`` to it shall be kept with the artifact.
        """
        check_sums()
        self.robot = robot if isinstance(robot, Robot) else Robot.load(robot)
        named = not isinstance(robot, Robot) and Path(robot).exists()
        self.robot_path = str(Path(str(robot)).resolve()) if named else None
        self.out = None if out is None else Path(out)
        if self.out is not None:
            clear(self.out, overwrite=overwrite)
        self.start = start if start is None or isinstance(start, Ensemble) else artifact.load(start)
        history = scaling = None
        if self.start is not None:
            settings = _like(settings, self.start)
            self.start.contract.check_robot(self.robot)
            history, scaling = self.start.contract.history, self.start.scaling
        self.settings, self._reference = settings, reference
        known = data.dynamics if isinstance(data, SharedData) else None
        self.dynamics = known or load_dynamics(self.robot)
        self.dataset = dataset = gather(
            data,
            self.robot,
            self.dynamics,
            settings,
            true_torque=true_torque,
            history=history,
            scaling=scaling,
        )
        self.precision = precision_for(settings.precision)
        self.training = prepare_training(settings, dataset, self.dynamics, self.precision)
        loss = settings.loss if true_torque is None else "true-torque"
        shape, members = settings.architecture, settings.members
        self.contract = dataset.contract(self.robot, shape, members=members, loss=loss)
        self.origin = dataset.origin
        self.state = self._begin()
        self._programs: TrainingPrograms | None = None
        self.train_loss: list[list[float]] = []
        self.validation_loss: list[list[float]] = []
        self._resume()

    @property
    def epochs_done(self) -> float:
        """Epochs, and the part of one, that are done."""
        return int(self.state.epoch) + int(self.state.step) / self.training.steps

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for an unfinished fit to continue."""
        started = None
        if self.start is not None:
            started = self.start.record.get("data", {}).get("fingerprint", "unknown")
        return {
            "settings": self.settings.settings(),
            "data": self.origin["fingerprint"],
            "robot": self.robot.name,
            "precision": self.precision,
            "from": started,
        }

    def run(self, observer: FitObserver | None = None) -> Ensemble:
        """Train to the end and save the artifact.

        Where the observer says to stop, everything is saved and ``FitInterruptedError`` raised.
        """
        observer = observer or FitObserver()
        events = None if self.out is None else EventFile(self.out / EVENTS)
        pace = _Pace(self)
        try:
            for epoch in range(len(self.train_loss)):  # what was trained before an interruption
                self._log(events, epoch)
            while self._unfinished():
                self._epoch(pace, observer)
                self._log(events, len(self.train_loss) - 1)
        finally:
            if events is not None:
                events.close()
        return self._keep(self.ensemble())

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
                "batch": self.training.batch_size,
                "precision": self.precision,
                "device": platform(),
                "train_loss": self.train_loss,
                "validation_loss": self.validation_loss,
                "fault": fault,
            },
            "from": None if self.start is None else self.start.record.get("data"),
            "versions": versions(),
        }
        best = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), self.state.best)
        text = json.dumps(record, sort_keys=True)
        return Ensemble(self.contract, best, self.dataset.scaling, text)

    @property
    def closed_form(self) -> bool:
        """Whether there is nothing to train: the base torque model is all of it."""
        return self.start is None and self.settings.base != "none" and not self.settings.hidden

    def _unfinished(self) -> bool:
        done = int(self.state.epoch) >= self.settings.epochs or bool(jnp.all(self.state.stopped))
        return not self.closed_form and not done

    def _epoch(self, pace: "_Pace", observer: FitObserver) -> None:
        """One epoch, or the rest of it."""
        if self._programs is None:
            with compiling("the training programs"):
                self._programs = self.training.compiled(self.state)
        while int(self.state.step) < self.training.steps:
            if observer.stopping():
                self._save()
                raise FitInterruptedError(
                    f"stopped after {self.epochs_done:.3g} of {self.settings.epochs} epochs"
                    + (f", all of it safe in {self.out}" if self.out is not None else "")
                    + "; the same command continues from there."
                )
            self.state = jax.block_until_ready(self._programs.advance(self.state))
            pace.count()
            observer.progress(pace.progress())
            if time.perf_counter() - self._saved > CHECKPOINT_SECONDS:
                self._save()
        train = np.asarray(self.state.loss_sum / self.training.steps, np.float64)
        self._guard()
        self.state, validation = self._programs.close_epoch(self.state)
        self.train_loss.append(train.tolist())
        self.validation_loss.append(np.asarray(validation, np.float64).tolist())
        observer.progress(pace.progress())

    def _guard(self) -> None:
        """Stop where a loss is no longer a finite number; what was good before is saved."""
        steps = np.asarray(self.state.fault_step)
        if (steps < 0).all():
            return
        member, epoch = int(np.flatnonzero(steps >= 0)[0]), int(self.state.epoch) + 1
        where = (
            f"the loss of member {member} is not finite from step {int(steps[member]) + 1} of "
            f"epoch {epoch} on"
        )
        advice = "try a lower --learning-rate, and look at the recording with 'genan inspect'"
        best, place = (
            np.asarray(self.state.best_epoch),
            f"in {self.out}" if self.out else "in memory",
        )
        if best.min() < 1:
            if self.out is not None:
                remove_checkpoint(self.out)
            raise FitDivergedError(
                f"The fit was stopped: {where}, before there was anything worth keeping; {advice}."
            )
        self._keep(self.ensemble(fault=where))
        raise FitDivergedError(
            f"The fit was stopped: {where}; each member's best weights until then (of epoch "
            f"{', '.join(map(str, best))}) are kept {place}; {advice}."
        )

    def _begin(self) -> TrainingState:
        if self.start is not None:
            return self.training.begin_from(jax.tree.map(jnp.copy, self.start.layers))
        contract = self.contract
        base = None if self.settings.base == "none" else self._base()
        if base is not None and self.closed_form:
            return self.training._begin((base,))
        initial = lambda key: initialise(  # noqa: E731
            contract.architecture, contract.inputs, contract.nq, key=key
        )
        return self.training.begin(initial, contract.members, base)

    def _base(self) -> Layer:
        """The base torque model of each member, fitted to what that member learns from."""
        dataset, made, members = self.dataset, self.settings, range(self.contract.members)
        loss, history = self.training.loss, dataset.history
        scale = np.asarray(loss.scale) if isinstance(loss, PositionLoss) else 1.0
        used = uses(made.base, history, dataset.channels.nq, dataset.channels.nu)
        problem = BaseProblem(
            dataset.samples, dataset.parts, history, dataset.scaling, used, scale=scale
        )
        splits = {dataset.left_out(k): dataset.learnt(k) for k in members}
        ridge = problem.best_ridge([(learnt, out) for out, learnt in splits.items()])
        solved = {out: problem.solve(ridge, learnt) for out, learnt in splits.items()}
        self.origin["ridge"] = ridge
        weights = np.stack([solved[dataset.left_out(k)] for k in members])
        return as_layer(weights, problem.seen if made.hidden else None)

    def _resume(self) -> None:
        self._saved = time.perf_counter()
        if self.out is not None:
            found = load_checkpoint(self.out, self.state, identity=self.identity, work="fit")
            if found is not None:
                self.state, (self.train_loss, self.validation_loss) = found
            self.out.mkdir(parents=True, exist_ok=True)
        self.resumed = self.epochs_done

    def _save(self) -> None:
        if self.out is not None:
            losses = [self.train_loss, self.validation_loss]
            save_checkpoint(self.out, self.state, identity=self.identity, extra=losses)
        self._saved = time.perf_counter()

    def _log(self, events: EventFile | None, epoch: int) -> None:
        if events is None:
            return
        train, validation = self.train_loss[epoch], self.validation_loss[epoch]
        values = {
            "loss/train": float(np.mean(train)),
            "loss/validation": float(np.mean(validation)),
        }
        for member, (a, b) in enumerate(zip(train, validation, strict=True)):
            values |= {f"train/member {member}": a, f"validation/member {member}": b}
        events.scalars(epoch + 1, values)

    def _keep(self, ensemble: Ensemble) -> Ensemble:
        if self.out is not None:
            held_out = self.dataset.validation_trajectories
            keep(ensemble, self.out, self._reference, held_out=held_out)
            remove_checkpoint(self.out)
        return ensemble


class _Pace:
    """How fast a fit goes, compiling left out."""

    def __init__(self, fitting: Fitting) -> None:
        self._fitting = fitting
        self._samples_of_step = fitting.training.batch_size * fitting.contract.members
        self._samples = 0
        self._begun: float | None = None

    def count(self) -> None:
        """One more chunk is done."""
        if self._begun is None:
            self._begun = time.perf_counter()
        else:
            self._samples += self._fitting.training.chunk * self._samples_of_step

    def progress(self) -> FitProgress:
        """How far the fit is."""
        fit = self._fitting
        passed = time.perf_counter() - self._begun if self._begun is not None else 0.0
        speed = self._samples / passed if passed > 0.0 else 0.0
        left = (fit.settings.epochs - fit.epochs_done) * fit.training.steps * self._samples_of_step
        return FitProgress(
            epoch=int(fit.state.epoch),
            epochs=fit.settings.epochs,
            share=int(fit.state.step) / fit.training.steps,
            train=fit.train_loss[-1] if fit.train_loss else [],
            validation=fit.validation_loss[-1] if fit.validation_loss else [],
            best_epoch=np.asarray(fit.state.best_epoch).tolist(),
            samples_per_second=speed,
            seconds_left=left / speed if speed else float("inf"),
        )


def clear(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder with finished actuators, or a file; with ``overwrite``, forget what is there.

    The file that says "finished" goes first.
    """
    if out.exists() and not out.is_dir():
        raise SettingError(f"{out} is a file; give a folder for the actuators.")
    if overwrite:
        for name in (artifact.CONTRACT, artifact.WEIGHTS, REFERENCE):
            (out / name).unlink(missing_ok=True)
        remove_checkpoint(out)
    elif (out / artifact.CONTRACT).exists():
        raise SettingError(
            f"{out} holds finished actuators; give another --out, --overwrite to fit them again, "
            f"or --from {out} to continue from them."
        )


def keep(
    ensemble: Ensemble,
    out: Path,
    reference: Trajectories | None,
    *,
    held_out: np.ndarray | None = None,
) -> None:
    """Write the actuators into ``out``, and first what they have seen, so that new logs can be
    compared with it without the recording; ``actuator.json``, which says "finished", comes last."""
    if reference is not None:
        Reference.of(ensemble, reference, held_out=held_out).save(out)
    artifact.save(ensemble, out)


def _like(settings: FitSettings, start: Ensemble) -> FitSettings:
    """``settings`` with the history and the networks of the ensemble to continue from."""
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
        learning_rate=settings.learning_rate or 2e-4,
        allow_constant=True,  # what the old data varied need not vary again
    )
