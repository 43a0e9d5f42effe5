"""Training the members of an ensemble together, in one compiled program that keeps everything on
the device.

Every step is the same program, whether it is run in one go or in chunks: a training that is
interrupted and resumed gives the same weights to the bit (on the CPU).

The random order of the samples needs no memory: which sample comes at place i is computed when it
is wanted. It is a permutation of n numbers as a cipher: each number is written with two digits, and
each digit in turn is shifted by a hash of the other (a Feistel network). Two digits to bases a and
b have a b >= n values, at most about sqrt(n) too many; a number that lands among those is sent
through again. Sorting random keys would need memory for all of them, once for each member.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt32

from genan.actuator.dataset import Dataset
from genan.actuator.losses import (
    Batch,
    Loss,
    MultiStepLoss,
    PositionLoss,
    TorqueLoss,
    balanced_scale,
    multi_step_scale,
    position_scale,
)
from genan.actuator.network import Layer, Precision, Skip, TorqueModel, pick_rows
from genan.actuator.samples import Samples
from genan.actuator.settings import FitSettings
from genan.dynamics import Dynamics

Layers = tuple[Layer, ...]
PerMember = Float[Array, " members"]
Numbers = Int[Array, " m"]
Hashed = UInt32[Array, " m"]
Seed = UInt32[Array, "2"]

CHUNK_OPERATIONS = {"cpu": 2e11, "gpu": 1e13}
"""Operations to run in one go: on a CPU a second or two, as long as Ctrl-C may wait."""

CHUNK_STEPS = {"cpu": 64, "gpu": 512}
"""Steps to run in one go at most; a GPU loses milliseconds whenever the host looks."""

_ROUNDS = 6


def shuffled(places: Numbers, count: int, seed: Seed) -> Numbers:
    """The numbers (0 to ``count`` - 1) at these places of the permutation that ``seed`` selects."""
    a = math.isqrt(count - 1) + 1
    b = -(-count // a)
    x = _permuted(places.astype(jnp.uint32), a, b, seed)
    for _ in range(3 if count > 10_000 else 12):  # each leaves less than one in sqrt(n) outside
        x = jnp.where(x < count, x, _permuted(x, a, b, seed))
    return jnp.minimum(x, count - 1).astype(places.dtype)


def _permuted(x: Hashed, a: int, b: int, seed: Seed) -> Hashed:
    left, right = x // b, x % b
    for k in range(_ROUNDS):
        if k % 2:
            right = (right + _hash(left, seed, k) % b) % b
        else:
            left = (left + _hash(right, seed, k) % a) % a
    return left * b + right


def _hash(x: Hashed, seed: Seed, k: int) -> Shaped[Array, " m"]:
    """Murmur3's finalizer, keyed."""
    x = (x ^ seed[0]) + jnp.uint32((k + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
    x = (x ^ x >> 13 ^ seed[1]) * jnp.uint32(0xC2B2AE35)
    return x ^ x >> 16


@dataclass(frozen=True)
class TrainingConfig:
    """How the members learn."""

    epochs: int
    batch_size: int
    learning_rate: float
    schedule: str
    patience: int | None  # Epochs without a better validation loss after which a member stops.
    history_noise: tuple[float, ...]
    """Standard deviation of the white noise on each joint's position history [rad or m]."""
    control_noise: tuple[float, ...]  # The same for each control, in its unit.
    weight_decay: float  # Of the matrices, per unit of learning rate.
    seed: int  # Of the first member; member k has seed + k.
    chunk: int = 64  # Most steps to run in one go.


class TrainingState(eqx.Module):
    """Everything that training changes; leading axis: members."""

    layers: Layers
    adam: optax.OptState
    best: Layers  # Weights at the lowest validation loss so far.
    best_loss: PerMember
    best_epoch: Int[Array, " members"]
    """Epochs trained when it was reached, counted from 1; 0: before any."""
    stopped: Bool[Array, " members"]
    epoch: Int[Array, ""]  # Whole epochs done.
    step: Int[Array, ""]  # Steps done in the present epoch.
    loss_sum: PerMember  # Of the present epoch's steps.
    fault_step: Int[Array, " members"]
    """Step of the present epoch at which the loss was first not finite; -1: none."""


class EnsembleTraining(eqx.Module):
    """The compiled program: loss, data and optimiser."""

    loss: Loss
    samples: Samples
    train_rows: Int[Array, "*members n"]
    """For all members, or for each its own (filled up by repeating where one has fewer)."""
    validation_rows: Int[Array, "*members v"]
    validation_count: Int[Array, " members"] | None
    """How many of its own validation rows count for each member; None: one list for all."""
    config: TrainingConfig = eqx.field(static=True)

    @property
    def batch_size(self) -> int:
        """Samples of each member's step; all there are, when they are fewer than asked for."""
        return min(self.config.batch_size, self.train_rows.shape[-1])

    @property
    def chunk(self) -> int:
        """Steps that are run in one go; a training can stop between two chunks."""
        steps = self.train_rows.shape[-1] // self.batch_size
        return steps // -(-steps // max(1, self.config.chunk))

    @property
    def steps(self) -> int:
        """Steps in an epoch; what does not fill a chunk waits for another epoch's order."""
        return self.train_rows.shape[-1] // self.batch_size // self.chunk * self.chunk

    def begin(
        self, initial: Callable[[PRNGKeyArray], Layers], members: int, base: Layer | None = None
    ) -> TrainingState:
        """The state before the first step; ``initial`` makes one member's weights from its key.

        ``base``, where given, takes the place of the last layer of all members: the base torque
        model.
        """
        one = lambda seed: initial(jax.random.fold_in(jax.random.key(seed), 0))  # noqa: E731

        def begun(seeds: Array, base: Layer | None) -> TrainingState:
            layers = jax.vmap(one)(seeds)
            return self._begin(layers if base is None else (*layers[:-1], base))

        return jax.jit(begun)(self.config.seed + np.arange(members), base)

    def begin_from(self, layers: Layers) -> TrainingState:
        """The state before the first step of members that have weights already."""
        return jax.jit(lambda layers: self._begin(layers))(layers)

    def _begin(self, layers: Layers) -> TrainingState:
        members = len(layers[0].bias)
        best_loss = jnp.full(members, jnp.inf)
        if isinstance(layers[-1], Skip):  # with a base, they are worth something from the start
            best_loss = _validation_losses(self, layers)
        return TrainingState(
            layers=layers,
            adam=jax.vmap(optax.scale_by_adam().init)(layers),
            best=jax.tree.map(jnp.copy, layers),
            best_loss=jnp.asarray(best_loss, jnp.result_type(float)),
            best_epoch=jnp.zeros(members, jnp.int32),
            stopped=jnp.zeros(members, bool),
            epoch=jnp.asarray(0, jnp.int32),
            step=jnp.asarray(0, jnp.int32),
            loss_sum=jnp.zeros(members, jnp.result_type(float)),
            fault_step=jnp.full(members, -1, jnp.int32),
        )

    def compiled(self, state: TrainingState) -> "TrainingPrograms":
        """The programs that train from states like ``state``, compiled at the same time."""
        lowered = _advance.lower(self, state), _close_epoch.lower(self, state)
        with ThreadPoolExecutor(len(lowered)) as threads:
            programs = threads.map(lambda program: program.compile(), lowered)
            return TrainingPrograms(*(partial(program, self) for program in programs))

    def _learning_rate(self, done: Array) -> Array:
        """Learning rate after ``done`` steps of all epochs."""
        if self.config.schedule == "constant":
            return jnp.asarray(self.config.learning_rate)
        share = done / (self.steps * self.config.epochs)
        return self.config.learning_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.minimum(share, 1.0)))

    def _mean_loss(
        self, layers: Layers, rows: Int[Array, " n"], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """Mean loss of one member over ``rows``, under noise on the history."""
        keys, loss, n = jax.random.split(key), self.loss, len(rows)
        q_noise = self._white(self.config.history_noise, (n, loss.window), keys[0])
        u_noise = self._white(self.config.control_noise, (n, loss.controls), keys[1])
        return jnp.mean(loss(layers, Batch(self.samples, rows, q_noise, u_noise)))

    def _white(
        self, std: tuple[float, ...], shape: tuple[int, int], key: PRNGKeyArray
    ) -> Array | None:
        if not any(std):
            return None
        dtype = self.samples.q.dtype
        return jnp.asarray(std, dtype) * jax.random.normal(key, (*shape, len(std)), dtype)


class TrainingPrograms(NamedTuple):
    """What a training runs; each call uses up the state that it is given."""

    advance: Callable[[TrainingState], TrainingState]  # One chunk further in the epoch.
    close_epoch: Callable[[TrainingState], tuple[TrainingState, PerMember]]
    """Validate, keep the better weights, go to the next epoch; also the validation losses."""


@partial(jax.jit, donate_argnums=1)
def _advance(training: EnsembleTraining, state: TrainingState) -> TrainingState:
    seeds = training.config.seed + jnp.arange(len(state.best_loss))
    members = jax.vmap(jax.random.key)(seeds)
    draw = jax.vmap(
        lambda key, use: jax.random.fold_in(jax.random.fold_in(key, use), state.epoch),
        in_axes=(0, None),
    )
    seeds, keys = jax.vmap(jax.random.key_data)(draw(members, 1)), draw(members, 2)
    places = jnp.arange(training.batch_size, dtype=jnp.int32)
    count = training.train_rows.shape[-1]
    own = 0 if training.train_rows.ndim == 2 else None
    value_and_grad = jax.value_and_grad(training._mean_loss)
    optimiser = optax.scale_by_adam()

    def member(
        layers: Layers, adam: optax.OptState, rows: Array, key: PRNGKeyArray, rate: Array
    ) -> Any:
        loss, gradient = value_and_grad(layers, rows, key)
        update, adam = optimiser.update(gradient, adam)
        step = partial(_updated, rate, training.config.weight_decay)
        return tuple(map(step, layers, update)), adam, loss

    def step(state: TrainingState, _: None) -> tuple[TrainingState, None]:
        i = state.step
        order = jax.vmap(lambda seed: shuffled(i * training.batch_size + places, count, seed))(
            seeds
        )
        rows = jax.vmap(lambda rows, order: rows[order], (own, 0))(training.train_rows, order)
        rate = training._learning_rate(state.epoch * training.steps + i)
        layers, adam, loss = jax.vmap(member, in_axes=(0, 0, 0, 0, None))(
            state.layers, state.adam, rows, jax.vmap(jax.random.fold_in, (0, None))(keys, i), rate
        )
        fault = (state.fault_step < 0) & ~jnp.isfinite(loss)
        return eqx.tree_at(
            lambda s: (s.layers, s.adam, s.loss_sum, s.fault_step, s.step),
            state,
            (layers, adam, state.loss_sum + loss, jnp.where(fault, i, state.fault_step), i + 1),
        ), None

    # A number of steps known to the compiler: a GPU then need not ask the host after each of them.
    return jax.lax.scan(step, state, None, length=training.chunk)[0]


@partial(jax.jit, donate_argnums=1)
def _close_epoch(
    training: EnsembleTraining, state: TrainingState
) -> tuple[TrainingState, PerMember]:
    loss = _validation_losses(training, state.layers)
    epoch, patience = state.epoch + 1, training.config.patience
    better = (loss < state.best_loss) & ~state.stopped
    best_epoch = jnp.where(better, epoch, state.best_epoch)
    stopped = state.stopped
    if patience is not None:
        stopped |= epoch - best_epoch >= patience

    return TrainingState(
        layers=state.layers,
        adam=state.adam,
        best=pick_rows(better, state.layers, state.best),
        best_loss=jnp.where(better, loss, state.best_loss),
        best_epoch=best_epoch,
        stopped=stopped,
        epoch=epoch,
        step=jnp.zeros_like(state.step),
        loss_sum=jnp.zeros_like(state.loss_sum),
        fault_step=jnp.full_like(state.fault_step, -1),
    ), loss


def _updated(rate: Array, decay: float, layer: Layer, update: Layer) -> Layer:
    """A layer after one step of the optimiser."""
    if decay == 0.0 or isinstance(layer, Skip):
        return jax.tree.map(lambda w, d: w - rate * d, layer, update)
    weight = layer.weight - rate * (update.weight + decay * layer.weight)
    return Layer(weight, layer.bias - rate * update.bias)


def _validation_losses(training: EnsembleTraining, layers: Layers) -> PerMember:
    rows, count = training.validation_rows, training.validation_count
    one = partial(_validation_loss, training)
    if count is None:
        return jax.vmap(one, (0, None))(layers, rows)
    return jax.vmap(one)(layers, rows, count)


def _validation_loss(
    training: EnsembleTraining,
    layers: Layers,
    rows: Int[Array, " v"],
    known: Int[Array, ""] | None = None,
) -> Float[Array, ""]:
    """Mean over all validation samples, batch by batch (the last one is filled up and masked)."""
    size, total_rows = (
        min(4 * training.batch_size, len(rows)),
        len(rows) if known is None else known,
    )
    count = -(-len(rows) // size)
    used = jnp.arange(count * size) < total_rows

    def block(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        some, mask = part
        losses = training.loss(layers, Batch(training.samples, some))
        return total + jnp.sum(jnp.where(mask, losses, 0.0)), None

    blocks = jnp.resize(rows, (count, size)), used.reshape(count, size)
    return jax.lax.scan(block, jnp.zeros(()), blocks)[0] / total_rows


def platform() -> str:
    """What JAX computes on: "cpu" or "gpu"."""
    found: str = jax.devices()[0].platform
    return found


def precision_for(asked: str) -> Precision:
    """The precision of training's matrix products that was asked for, or the device's own."""
    if asked == "auto":
        return "bfloat16" if platform() == "gpu" else "float32"
    found: Precision = asked  # type: ignore[assignment]  # FitSettings has checked it
    return found


def prepare_training(
    settings: FitSettings, dataset: Dataset, dynamics: Dynamics, precision: Precision
) -> EnsembleTraining:
    """The training that ``settings`` ask for, on ``dataset``."""
    samples, rows, scaling = dataset.samples, dataset.train_rows, dataset.scaling
    nq, nu, history = dataset.channels.nq, dataset.channels.nu, dataset.history
    model = TorqueModel(history, settings.activation, scaling, precision)
    loss: Loss
    if samples.response is not None:
        scale = balanced_scale if settings.balance else position_scale
        loss = PositionLoss(model, scale(samples, rows))
    elif settings.loss == "torque":
        loss = TorqueLoss(model)
    else:
        steps = multi_step_scale(samples, rows, dynamics, steps=settings.steps)
        loss = MultiStepLoss(model, dynamics, steps)
    train, held = rows, dataset.parts[1]
    counts = None
    if dataset.folded:
        train, held, counts = _own_rows(dataset, settings.members)
    batch_size = settings.batch_size_for(train.shape[-1])
    weights = sum(a * b for a, b in settings.architecture.sizes(history.inputs(nq, nu), nq))
    operations, device = 6.0 * weights * batch_size * settings.members * settings.steps, platform()
    chunk = max(1, round(CHUNK_OPERATIONS.get(device, 1e13) / operations))
    present = history.rows * nq  # the inputs of q come first, and of a control's the present one
    control_std = np.asarray(scaling.input_std[present : present + nu], np.float64)
    config = TrainingConfig(
        epochs=settings.epochs,
        batch_size=batch_size,
        learning_rate=settings.learning_rate_for(batch_size),
        schedule=settings.schedule,
        patience=settings.patience,
        history_noise=(settings.history_noise,) * nq,
        control_noise=tuple((settings.control_noise * control_std).tolist()),
        weight_decay=settings.weight_decay,
        seed=settings.seed,
        chunk=min(chunk, CHUNK_STEPS.get(device, 512)),
    )
    on_device = (
        jnp.asarray(train),
        jnp.asarray(held),
        None if counts is None else jnp.asarray(counts),
    )
    return EnsembleTraining(loss, samples, *on_device, config)


def _own_rows(dataset: Dataset, members: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to learn from [members, n], to select by [members, v], and how many of these count.

    Shorter lists are filled up by repeating.
    """
    parts = dataset.parts
    learnt = [np.concatenate([parts[p] for p in dataset.learnt(k)]) for k in range(members)]
    held = [parts[dataset.left_out(k)] for k in range(members)]
    filled = [
        np.stack([np.resize(r, max(map(len, rows))) for r in rows]) for rows in (learnt, held)
    ]
    return filled[0], filled[1], np.array([len(rows) for rows in held], np.int32)
