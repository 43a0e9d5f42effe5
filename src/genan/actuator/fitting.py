"""``Fitting``: one ensemble of actuator networks, trained to its end, interrupted or not."""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genan.actuator.contract import KIND
from genan.actuator.dataset import Data, SharedData, gather
from genan.actuator.ensemble import Ensemble, Layer, initialise, load, save
from genan.actuator.reference import Reference
from genan.actuator.settings import FitSettings
from genan.actuator.training import TrainingState, base_layer, prepare_training
from genan.data import Trajectories
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, GenanError
from genan.files import CHECKPOINT, load_checkpoint, save_checkpoint
from genan.jax_setup import check_sums, compiling
from genan.provenance import versions
from genan.robot import Robot, robot_names
from genan.tensorboard import EventFile

CHECKPOINT_SECONDS = 10.0  # Time between two checkpoints [s]; a killed fit loses no more than this.

EVENTS = "tensorboard"  # Folder of the TensorBoard events within a fit's folder.


class FitDivergedError(ActuatorError):
    """The loss became NaN or infinite; what was good before is kept."""


class FitInterruptedError(GenanError):
    """A fit was asked to stop; what is finished is kept, and the same call continues from there."""


@dataclass(frozen=True)
class FitProgress:
    """How far a fit is; lists are over the members, and empty before there is a whole epoch."""

    epoch: int  # Whole epochs done.
    epochs: int  # Epochs to do.
    share: float  # Part of the present epoch that is done, 0 to 1.
    train: list[float]  # Mean training loss in the last whole epoch.
    validation: list[float]  # Validation loss after the last whole epoch.
    best_epoch: list[int]  # Epoch of the lowest validation loss so far.
    samples_per_second: float  # That all members together have learnt from, in this run.
    seconds_left: float  # Estimated time to the last epoch [s].


@dataclass(frozen=True)
class FitObserver:
    """Functions that are called while a fit runs; those left out do nothing."""

    note: Callable[[str], None] = lambda sentence: None  # With a sentence for a person.
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
        """Check everything, prepare the data, and take up an unfinished fit that is in ``out``. As
        for ``genan.fit``; ``start``: an ensemble to continue from, ``true_torque`` [rows, nq] [N m
        or N]: instead of inverse dynamics, ``reference``: a recording to keep a reference to."""
        check_sums()
        self.robot = Robot.load(robot)
        installed = isinstance(robot, Robot) or robot in robot_names()
        self.robot_path = None if installed else str(Path(str(robot)).resolve())
        self.out = None if out is None else Path(out)
        if self.out is not None:
            KIND.clear(self.out, overwrite=overwrite)
        self.start = load(start) if isinstance(start, Path | str) else start
        if self.start is not None:
            known = self.start.contract
            known.check_robot(self.robot)
            settings = replace(
                settings.shaped(known.history, known.architecture), folds=None,
                members=known.members, learning_rate=settings.learning_rate or 2e-4,
                base="both" if known.architecture.skip else "none",  # it stays as it is
                allow_constant=True,  # what the old data varied need not vary again
            )  # fmt: skip
        self.settings, self._reference = settings, reference
        self.dynamics = data.dynamics if isinstance(data, SharedData) else load_dynamics(self.robot)
        self.dataset = gather(data, self.robot, self.dynamics, settings, true_torque, self.start)
        self.training = prepare_training(settings, self.dataset, self.dynamics)
        self.precision, self.origin = self.training.loss.model.precision, self.dataset.origin
        loss = settings.loss if true_torque is None else "true-torque"
        shape, members = settings.architecture, settings.members
        self.contract = self.dataset.contract(self.robot, shape, members=members, loss=loss)
        self.closed_form = self.start is None and settings.base != "none" and not settings.hidden
        """Whether there is nothing to train: the base torque model is all of it."""
        started = None if self.start is None else self.start.record.get("data", {})
        self.identity: dict[str, Any] = {  # must be the same for an unfinished fit to continue
            "settings": settings.settings(), "data": self.origin["fingerprint"],
            "robot": self.robot.name, "precision": self.precision,
            "from": None if started is None else started.get("fingerprint", "unknown"),
        }  # fmt: skip
        self.state, self._saved = self._begin(), time.perf_counter()
        self.losses: dict[str, list[list[float]]] = {"train": [], "validation": []}
        """Of each member after each epoch."""
        self.record: dict[str, Any] = {}  # More entries for the ensemble's record.
        self._programs: tuple[Any, Any] | None = None
        self._compiled, self._chunks = 0.0, 0  # When, and chunks trained since then.
        if self.out is not None:
            found = load_checkpoint(self.out, self.state, identity=self.identity, work="fit")
            if found is not None:
                self.state, losses = found
                self.losses = dict(zip(self.losses, losses, strict=True))
            self.out.mkdir(parents=True, exist_ok=True)
        self.resumed = self.epochs_done

    @property
    def epochs_done(self) -> float:
        """Epochs, and the part of one, that are done."""
        return int(self.state.epoch) + int(self.state.step) / self.training.steps

    def run(self, observer: FitObserver | None = None) -> Ensemble:
        """Train to the end and save; stopped by the observer, raise ``FitInterruptedError``."""
        observer = observer or FitObserver()
        events = None if self.out is None else EventFile(self.out / EVENTS)
        with closing(events) if events is not None else nullcontext():
            for epoch in range(len(self.losses["train"])):  # trained before an interruption
                self._log(events, epoch)
            last = 0 if self.closed_form else self.settings.epochs
            while int(self.state.epoch) < last and not bool(jnp.all(self.state.stopped)):
                self._epoch(observer)
                self._log(events, len(self.losses["train"]) - 1)
        return self._keep()

    def _keep(self, fault: str | None = None) -> Ensemble:
        """The best weights so far, saved."""
        training = {
            "epochs": int(self.state.epoch),
            "best_epoch": np.asarray(self.state.best_epoch).tolist(),
            "best_validation_loss": np.asarray(self.state.best_loss).tolist(),
            "batch": self.training.batch_size, "precision": self.precision,
            "device": jax.default_backend(), "fault": fault,
            **{f"{name}_loss": of_epochs for name, of_epochs in self.losses.items()},
        }  # fmt: skip
        best = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), self.state.best)
        ensemble = Ensemble(self.contract, best, self.dataset.scaling)
        training["disagreement"] = self._usual_disagreement(ensemble)
        ensemble = ensemble.with_record(
            settings=self.settings.settings(), robot=self.robot_path, data=self.origin,
            training=training, versions=versions(), **self.record,
            **{"from": None if self.start is None else self.start.record.get("data")},
        )  # fmt: skip
        if self.out is not None:
            keep(ensemble, self.out, self._reference, self.dataset.validation_trajectories)
            (self.out / CHECKPOINT).unlink(missing_ok=True)
        return ensemble

    def _usual_disagreement(self, ensemble: Ensemble) -> float:
        """Mean disagreement of the members on what they were trained on [N m or N]."""
        every = self.dataset.train_rows
        rows = jnp.asarray(every[:: max(1, len(every) // 4096)])
        samples, at = self.dataset.samples, self.dataset.history.at
        seen = jax.jit(jax.vmap(lambda row: at(samples.q, samples.u, row)))(rows)
        return float(f"{float(jnp.mean(ensemble.disagreement(*seen))):.4g}")

    def _epoch(self, observer: FitObserver) -> None:
        """One epoch, or the rest of it."""
        if self._programs is None:
            with compiling("the training programs"):
                self._programs = self.training.compiled(self.state)
            self._compiled = time.perf_counter()
        advance, close_epoch = self._programs
        while int(self.state.step) < self.training.steps:
            if observer.stopping():
                self._save()
                safe = f", all of it safe in {self.out}" if self.out is not None else ""
                done = f"stopped after {self.epochs_done:.3g} of {self.settings.epochs} epochs"
                raise FitInterruptedError(f"{done}{safe}; the same command continues from there.")
            self.state = jax.block_until_ready(advance(self.state))
            self._chunks += 1
            observer.progress(self._progress())
            if time.perf_counter() - self._saved > CHECKPOINT_SECONDS:
                self._save()
        train = np.asarray(self.state.loss_sum / self.training.steps, np.float64)
        self._guard()
        self.state, validation = close_epoch(self.state)
        self.losses["train"].append(train.tolist())
        self.losses["validation"].append(np.asarray(validation, np.float64).tolist())
        observer.progress(self._progress())

    def _progress(self) -> FitProgress:
        training, epochs = self.training, self.settings.epochs
        passed = time.perf_counter() - self._compiled
        of_step = training.batch_size * self.contract.members
        speed = self._chunks * training.chunk * of_step / max(passed, 1e-9)
        left = (epochs - self.epochs_done) * training.steps * of_step
        return FitProgress(
            epoch=int(self.state.epoch), epochs=epochs,
            share=int(self.state.step) / training.steps, samples_per_second=speed,
            **{name: of_epochs[-1] if of_epochs else [] for name, of_epochs in self.losses.items()},
            best_epoch=np.asarray(self.state.best_epoch).tolist(),
            seconds_left=left / speed if speed else float("inf"),
        )  # fmt: skip

    def _guard(self) -> None:
        """Stop where a loss is no longer a finite number; what was good before is saved."""
        steps, best = np.asarray(self.state.fault_step), np.asarray(self.state.best_epoch)
        if (steps < 0).all():
            return
        member, epoch = int(np.flatnonzero(steps >= 0)[0]), int(self.state.epoch) + 1
        step = int(steps[member]) + 1
        where = f"the loss of member {member} is not finite from step {step} of epoch {epoch} on"
        if best.min() < 1:
            kept = ", before there was anything worth keeping"
            if self.out is not None:
                (self.out / CHECKPOINT).unlink(missing_ok=True)
        else:
            self._keep(fault=where)
            place = f"in {self.out}" if self.out else "in memory"
            of = ", ".join(map(str, best))
            kept = f"; each member's best weights until then (of epoch {of}) are kept {place}"
        todo = "try a lower --learning-rate, and look at the recording with 'genan inspect'"
        raise FitDivergedError(f"The fit was stopped: {where}{kept}; {todo}.")

    def _begin(self) -> TrainingState:
        """The state before the first step, of the weights to continue from or of new ones."""
        contract, begin = self.contract, self.training.begin
        if self.start is not None:
            return jax.jit(lambda layers: begin(layers))(jax.tree.map(jnp.copy, self.start.layers))
        base = None
        if self.settings.base != "none":
            loss = self.training.loss
            scale = np.asarray(loss.scale) if loss.kind == "position" else 1.0
            base, self.origin["ridge"] = base_layer(self.dataset, self.settings, scale)
            if self.closed_form:
                return begin((base,))

        def begun(seeds: jax.Array, base: Layer | None) -> TrainingState:
            keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 0))(seeds)
            sizes = contract.architecture, contract.inputs, contract.nq
            layers = jax.vmap(lambda key: initialise(*sizes, key=key))(keys)
            return begin(layers if base is None else (*layers[:-1], base))

        return jax.jit(begun)(self.settings.seed + np.arange(contract.members), base)

    def _save(self) -> None:
        if self.out is not None:
            losses = list(self.losses.values())
            save_checkpoint(self.out, self.state, identity=self.identity, extra=losses)
        self._saved = time.perf_counter()

    def _log(self, events: EventFile | None, epoch: int) -> None:
        values = {}
        for name, of_epochs in self.losses.items():
            values[f"loss/{name}"] = float(np.mean(of_epochs[epoch]))
            values |= {f"{name}/member {k}": value for k, value in enumerate(of_epochs[epoch])}
        if events is not None:
            events.scalars(epoch + 1, values)


def keep(ensemble: Ensemble, out: Path, seen: Trajectories | None, held_out: Any = None) -> None:
    """Write what the actuators have ``seen``, then them; what says "finished" comes last."""
    if seen is not None:
        Reference.of(ensemble, seen, held_out=held_out).save(out)
    save(ensemble, out)
