"""A random order of the samples that needs no memory: which sample comes at place i is computed
when it is wanted.

A permutation of n numbers as a cipher: each number is written with two digits, and each digit in
turn is shifted by a hash of the other (a Feistel network). Two digits to bases a and b have a b >=
n values, at most about sqrt(n) too many; a number that lands among those is sent through again.
Sorting random keys would need memory for all of them, once for each member.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped, UInt32

from genan.actuator.dataset import Dataset
from genan.actuator.losses import (
    Loss,
    Member,
    MultiStepLoss,
    Noise,
    PositionLoss,
    TorqueLoss,
    balanced_scale,
    multi_step_scale,
    position_scale,
)
from genan.actuator.network import Layer, Precision, Scaling, Skip
from genan.actuator.samples import Samples
from genan.actuator.settings import FitSettings
from genan.dynamics import Dynamics

_ROUNDS = 6


def shuffled(places: Int[Array, " m"], count: int, word: UInt32[Array, "2"]) -> Int[Array, " m"]:
    """The numbers (0 to ``count`` - 1) at these places of the permutation that ``word``, 64 random
    bits, selects."""
    a = math.isqrt(count - 1) + 1
    b = -(-count // a)
    walks = (
        3 if count > 10_000 else 12
    )  # each leaves less than one in sqrt(n) where it must not stay
    x = places.astype(jnp.uint32)
    x = _once(x, a, b, word)
    for _ in range(walks):
        x = jnp.where(x < count, x, _once(x, a, b, word))
    return jnp.minimum(x, count - 1).astype(places.dtype)


def _once(x: UInt32[Array, " m"], a: int, b: int, word: UInt32[Array, "2"]) -> UInt32[Array, " m"]:
    left, right = x // b, x % b
    for k in range(_ROUNDS):
        if k % 2:
            right = (right + _hash(left, word, k) % b) % b
        else:
            left = (left + _hash(right, word, k) % a) % a
    return left * b + right


def _hash(x: UInt32[Array, " m"], word: UInt32[Array, "2"], k: int) -> Shaped[Array, " m"]:
    """Murmur3's finalizer, keyed."""
    x = (x ^ word[0]) + jnp.uint32((k + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
    x = (x ^ x >> 13 ^ word[1]) * jnp.uint32(0xC2B2AE35)
    return x ^ x >> 16


# --- Training the members of an ensemble together, in one compiled program that keeps everythin


@dataclass(frozen=True)
class Schooling:
    """How the members learn."""

    epochs: int
    batch: int
    rate: float
    schedule: str
    patience: int | None
    """Epochs without a better validation loss after which a member stops."""
    noise: tuple[float, ...]
    """Standard deviation of the white noise on each joint's position history [rad or m]."""
    control_noise: tuple[float, ...]
    """The same for each control, in its unit."""
    weight_decay: float
    """Of the matrices, per unit of learning rate."""
    seed: int
    """Of the first member; member k has seed + k."""
    piece: int = 64
    """Most steps to run in one go."""


class State(eqx.Module):
    """Everything that training changes; leading axis: members."""

    layers: tuple[Layer, ...]
    adam: optax.OptState
    best: tuple[Layer, ...]
    """Weights at the lowest validation loss so far."""
    best_loss: Float[Array, " members"]
    best_epoch: Int[Array, " members"]
    """Epochs trained when it was reached, counted from 1; 0: before any."""
    stopped: Bool[Array, " members"]
    epoch: Int[Array, ""]
    """Whole epochs done."""
    step: Int[Array, ""]
    """Steps done in the present epoch."""
    loss_sum: Float[Array, " members"]
    """Of the present epoch's steps."""
    fault_step: Int[Array, " members"]
    """Step of the present epoch at which the loss was first not finite; -1: none."""


class Training(eqx.Module):
    """The compiled program: loss, data and optimiser."""

    loss: Loss
    samples: Samples
    train_rows: Int[Array, "*members n"]
    """For all members, or for each its own (filled up by repeating where one has fewer)."""
    validation_rows: Int[Array, "*members v"]
    validation_count: Int[Array, " members"] | None
    """How many of its own validation rows count for each member; None: one list for all, and all of
    it."""
    schooling: Schooling = eqx.field(static=True)

    @property
    def batch(self) -> int:
        """Samples of each member's step; all there are, when they are fewer than asked for."""
        return min(self.schooling.batch, self.train_rows.shape[-1])

    @property
    def piece(self) -> int:
        """Steps that are run in one go, about a second's work for a CPU; a training can stop
        between two pieces."""
        steps = self.train_rows.shape[-1] // self.batch
        pieces = -(-steps // max(1, self.schooling.piece))
        return steps // pieces

    @property
    def steps(self) -> int:
        """Steps in an epoch; what does not fill a batch, or a piece, waits for another epoch's
        order."""
        return self.train_rows.shape[-1] // self.batch // self.piece * self.piece

    def begin(
        self,
        initial: Callable[[PRNGKeyArray], tuple[Layer, ...]],
        members: int,
        base: Layer | None = None,
    ) -> State:
        """The state before the first step; ``initial`` makes one member's weights from its key.

        ``base``, where given, takes the place of the last layer of all members: the base torque
        model.
        """
        one = lambda seed: initial(jax.random.fold_in(jax.random.key(seed), 0))  # noqa: E731

        def begun(seeds: Array, base: Layer | None) -> State:
            layers = jax.vmap(one)(seeds)
            return self._begin(layers if base is None else (*layers[:-1], base))

        return jax.jit(begun)(self.schooling.seed + np.arange(members), base)

    def begin_from(self, layers: tuple[Layer, ...]) -> State:
        """The state before the first step of members that have weights already."""
        return jax.jit(lambda layers: self._begin(layers))(layers)

    def _begin(self, layers: tuple[Layer, ...]) -> State:
        members = len(layers[0].bias)
        # With a base under them, the networks are worth something before they have learnt anything.
        worth = (
            _validation_losses(self, layers)
            if isinstance(layers[-1], Skip)
            else jnp.full(members, jnp.inf)
        )
        return State(
            layers=layers,
            adam=jax.vmap(self._optimiser().init)(layers),
            best=jax.tree.map(jnp.copy, layers),
            best_loss=jnp.asarray(worth, jnp.result_type(float)),
            best_epoch=jnp.zeros(members, jnp.int32),
            stopped=jnp.zeros(members, bool),
            epoch=jnp.asarray(0, jnp.int32),
            step=jnp.asarray(0, jnp.int32),
            loss_sum=jnp.zeros(members, jnp.result_type(float)),
            fault_step=jnp.full(members, -1, jnp.int32),
        )

    def compiled(self, state: State) -> "Programs":
        """The programs that train from states like ``state``, compiled side by side."""
        lowered = _advance.lower(self, state), _close_epoch.lower(self, state)
        with ThreadPoolExecutor(len(lowered)) as threads:
            return Programs(self, *threads.map(lambda program: program.compile(), lowered))

    def _keys(self, members: int) -> Key[Array, " members"]:
        return jax.vmap(jax.random.key)(self.schooling.seed + jnp.arange(members))

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.scale_by_adam()

    def _rate(self, done: Array) -> Array:
        """Learning rate after ``done`` steps of all epochs."""
        if self.schooling.schedule == "constant":
            return jnp.asarray(self.schooling.rate)
        share = done / (self.steps * self.schooling.epochs)
        return self.schooling.rate * 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.minimum(share, 1.0)))

    def _mean_loss(
        self, layers: tuple[Layer, ...], rows: Int[Array, " n"], key: PRNGKeyArray | None
    ) -> Float[Array, ""]:
        """Mean loss of one member over ``rows``; with a key, under noise on the history."""
        noise = None
        if key is not None:
            keys, loss, n = jax.random.split(key), self.loss, len(rows)
            noise = Noise(
                self._white(self.schooling.noise, (n, loss.window), keys[0]),
                self._white(self.schooling.control_noise, (n, loss.controls), keys[1]),
            )
        return jnp.mean(self.loss(layers, self.samples, rows, noise))

    def _white(
        self, deviation: tuple[float, ...], shape: tuple[int, int], key: PRNGKeyArray
    ) -> Array | None:
        if not any(deviation):
            return None
        dtype = self.samples.q.dtype
        return jnp.asarray(deviation, dtype) * jax.random.normal(
            key, (*shape, len(deviation)), dtype
        )


class Programs:
    """What a training runs."""

    def __init__(self, training: Training, advance: Any, close_epoch: Any) -> None:
        self._training, self._advance, self._close_epoch = training, advance, close_epoch

    def advance(self, state: State) -> State:
        """One piece further in the epoch. ``state`` is used up."""
        found: State = self._advance(self._training, state)
        return found

    def close_epoch(self, state: State) -> tuple[State, Float[Array, " members"]]:
        """Validate, keep the better weights, go to the next epoch; also the validation losses.
        ``state`` is used up."""
        found: tuple[State, Array] = self._close_epoch(self._training, state)
        return found


@partial(jax.jit, donate_argnums=1)
def _advance(training: Training, state: State) -> State:
    seeds = training._keys(len(state.best_loss))
    draw = jax.vmap(
        lambda key, use: jax.random.fold_in(jax.random.fold_in(key, use), state.epoch),
        in_axes=(0, None),
    )
    words, keys = jax.vmap(jax.random.key_data)(draw(seeds, 1)), draw(seeds, 2)
    places = jnp.arange(training.batch, dtype=jnp.int32)
    count = training.train_rows.shape[-1]
    value_and_grad = jax.value_and_grad(training._mean_loss)
    optimiser = training._optimiser()

    def member(
        layers: tuple[Layer, ...], adam: optax.OptState, rows: Array, key: PRNGKeyArray, rate: Array
    ) -> Any:
        loss, gradient = value_and_grad(layers, rows, key)
        update, adam = optimiser.update(gradient, adam)
        return (
            tuple(map(partial(_updated, rate, training.schooling.weight_decay), layers, update)),
            adam,
            loss,
        )

    def step(state: State, _: None) -> tuple[State, None]:
        i = state.step
        order = jax.vmap(lambda word: shuffled(i * training.batch + places, count, word))(words)
        own = training.train_rows.ndim == 2
        rows = jax.vmap(lambda rows, order: rows[order], (0 if own else None, 0))(
            training.train_rows, order
        )
        rate = training._rate(state.epoch * training.steps + i)
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
    return jax.lax.scan(step, state, None, length=training.piece)[0]


@partial(jax.jit, donate_argnums=1)
def _close_epoch(training: Training, state: State) -> tuple[State, Float[Array, " members"]]:
    loss = _validation_losses(training, state.layers)
    epoch = state.epoch + 1
    better = (loss < state.best_loss) & ~state.stopped
    best_epoch = jnp.where(better, epoch, state.best_epoch)
    patience = training.schooling.patience
    stopped = (
        state.stopped if patience is None else state.stopped | (epoch - best_epoch >= patience)
    )

    def pick(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return State(
        layers=state.layers,
        adam=state.adam,
        best=jax.tree.map(pick, state.layers, state.best),
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
    return Layer(
        layer.weight - rate * (update.weight + decay * layer.weight),
        layer.bias - rate * update.bias,
    )


def _validation_losses(training: Training, layers: tuple[Layer, ...]) -> Float[Array, " members"]:
    if training.validation_count is None:
        return jax.vmap(partial(_validation_loss, training), (0, None))(
            layers, training.validation_rows
        )
    return jax.vmap(partial(_validation_loss, training))(
        layers, training.validation_rows, training.validation_count
    )


def _validation_loss(
    training: Training,
    layers: tuple[Layer, ...],
    rows: Int[Array, " v"],
    known: Int[Array, ""] | None = None,
) -> Float[Array, ""]:
    """Mean over all validation samples, in batches of the training's size (the last one is filled
    up and masked)."""
    batch, total_rows = min(4 * training.batch, len(rows)), len(rows) if known is None else known
    count = -(-len(rows) // batch)
    used = jnp.arange(count * batch) < total_rows
    rows = jnp.resize(rows, (count, batch))

    def block(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        some, mask = part
        return total + jnp.sum(
            jnp.where(mask, training.loss(layers, training.samples, some, None), 0.0)
        ), None

    total, _ = jax.lax.scan(block, jnp.zeros(()), (rows, used.reshape(count, batch)))
    return total / total_rows


def host(state: State) -> State:
    """A copy of ``state`` in the computer's memory."""
    return jax.tree.map(np.asarray, state)


# --- From settings and data to a training: which loss, which rows for which member, how much wo

PIECE_OPERATIONS = {"cpu": 2e11, "gpu": 1e13}
"""Floating-point operations to run in one go: on a CPU a second or two, which is how long Ctrl-C
may wait."""

PIECE_STEPS = {"cpu": 64, "gpu": 512}
"""Steps to run in one go at most; a GPU loses milliseconds whenever the host looks."""


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
    settings: FitSettings,
    dataset: Dataset,
    scaling: Scaling,
    dynamics: Dynamics,
    precision: Precision,
) -> Training:
    """The training that ``settings`` ask for, on ``dataset``."""
    samples, rows = dataset.samples, dataset.train_rows
    member = Member(dataset.history, settings.activation, scaling, precision)
    loss: Loss
    if samples.response is not None:
        loss = PositionLoss(
            member, (balanced_scale if settings.balance else position_scale)(samples, rows)
        )
    elif settings.loss == "torque":
        loss = TorqueLoss(member)
    else:
        loss = MultiStepLoss(
            member, dynamics, multi_step_scale(samples, rows, dynamics, steps=settings.steps)
        )
    own = _own_rows(dataset, settings.members) if dataset.folded else None
    batch = settings.batch_for(len(rows) if own is None else own[0].shape[1])
    inputs, outputs = (
        dataset.history.inputs(dataset.channels.nq, dataset.channels.nu),
        dataset.channels.nq,
    )
    weights = sum(a * b for a, b in settings.architecture.sizes(inputs, outputs))
    schooling = Schooling(
        epochs=settings.epochs,
        batch=batch,
        rate=settings.rate_for(batch),
        schedule=settings.schedule,
        patience=settings.patience,
        noise=(settings.history_noise,) * outputs,
        control_noise=_control_noise(settings, scaling, dataset.channels.nq, dataset.channels.nu),
        weight_decay=settings.weight_decay,
        seed=settings.seed,
        piece=_piece(6.0 * weights * batch * settings.members * settings.steps),
    )
    if own is None:
        return Training(
            loss, samples, jnp.asarray(rows), jnp.asarray(dataset.parts[1]), None, schooling
        )
    return Training(loss, samples, *map(jnp.asarray, own), schooling)


def _own_rows(dataset: Dataset, members: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to learn from [members, n] and to select by [members, v], filled up by repeating, and
    how many count."""
    learnt = [
        np.concatenate([dataset.parts[part] for part in dataset.learnt(k)]) for k in range(members)
    ]
    held = [dataset.parts[dataset.left_out(k)] for k in range(members)]
    filled = (
        np.stack([np.resize(rows, max(map(len, lists))) for rows in lists])
        for lists in (learnt, held)
    )
    return *filled, np.array([len(rows) for rows in held], np.int32)  # type: ignore[return-value]


def _control_noise(settings: FitSettings, scaling: Scaling, nq: int, nu: int) -> tuple[float, ...]:
    """Standard deviation of the noise on each control, in its unit."""
    present = (
        settings.history.rows * nq
    )  # the inputs of q come first, and of a control's the present one
    deviation = np.asarray(scaling.input_std[present : present + nu], np.float64)
    return tuple((settings.control_noise * deviation).tolist())


def _piece(operations: float) -> int:
    """Steps to run in one go, of so many operations each."""
    device = platform()
    return min(
        max(1, round(PIECE_OPERATIONS.get(device, 1e13) / operations)), PIECE_STEPS.get(device, 512)
    )
