"""Losses, and training the members of an ensemble together in one compiled program that keeps
everything on the device.

How wrong is the torque, the next position, the next R positions? All losses are in units in which a
model that knows nothing has one near one: the raw position loss is near 1e-8, where Adam's epsilon
would swallow the gradient.

Every step of training is the same program, whether it is run in one go or in chunks: a training
that is interrupted and resumed gives the same weights to the bit (on the CPU).

The random order of the samples needs no memory: which sample comes at place i is computed when it
is wanted. It is a permutation of n numbers as a cipher: each number is written with two digits, and
each digit in turn is shifted by a hash of the other (a Feistel network). Two digits to bases a and
b have a b >= n values, at most about sqrt(n) too many; a number that lands among those is sent
through again. Sorting random keys would need memory for all of them, once for each member.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from genan.actuator.dataset import Dataset, Samples, sum_over
from genan.actuator.history import History
from genan.actuator.network import Layer, Layers, Skip, TorqueModel, pick_rows
from genan.actuator.settings import FitSettings
from genan.dynamics import Dynamics

TorqueFunction = Callable[[Float[Array, "rows nq"], Float[Array, "rows nu"]], Float[Array, " nq"]]
"""From one history of positions and one of controls to torques."""

Rows = Int[np.ndarray, " n"]
State = tuple[Float[Array, " nq"], Float[Array, " nq"]]  # Position and velocity.
Errors = Float[Array, "batch nq"]
Scale = Float[Array, "..."]
PerMember = Float[Array, " members"]
Counts = Int[Array, " members"]
Numbers = Int[Array, " m"]

CHUNK_OPERATIONS = {"cpu": 2e11, "gpu": 1e13}
"""Operations to run in one go: on a CPU a second or two, as long as Ctrl-C may wait."""
CHUNK_STEPS = {"cpu": 64, "gpu": 512}
"""Steps to run in one go at most; a GPU loses milliseconds whenever the host looks."""
_SETTINGS = ("epochs", "schedule", "patience", "weight_decay", "seed")
"""What the program depends on; fits that differ in nothing else and in shapes share one."""
_ROUNDS = 6


def rollout(
    torque: TorqueFunction,
    dynamics: Dynamics,
    history: History,
    *,
    q: Float[Array, "samples nq"],
    u: Float[Array, "steps nu"],
    state: State | None = None,
) -> Float[Array, "R nq"]:
    """Positions of the R steps after now, along given controls [rad or m]: each step is the
    torque of the actuators, which see ``history``, and one step of the rigid body.

    ``q``: the last max(sH, 1) + 1 positions, of which the last is now; ``u``: controls from the
    oldest of the history to the last step [sH + d + R, nu]. ``state``: position and velocity to
    start from; left out, those that ``q`` ends with.
    """
    start = (q[-1], (q[-1] - q[-2]) / dynamics.dt) if state is None else state

    def step(carry: tuple[Array, State], r: Array) -> tuple[tuple[Array, State], Array]:
        window, state = carry
        controls = jax.lax.dynamic_slice_in_dim(u, r, history.span + 1)
        tau = torque(window[:: history.stride], controls[:: history.stride])
        state = _step(dynamics, *state, tau)
        return (jnp.concatenate([window[1:], state[0][None]]), state), state[0]

    window = q[len(q) - history.span - 1 :]
    return jax.lax.scan(step, (window, start), jnp.arange(len(u) - history.reach))[1]


@partial(jax.jit, static_argnums=0)
def _step(dynamics: Dynamics, q: Array, qd: Array, tau: Array) -> State:
    """One step of the rigid body, traced once for all programs that roll out."""
    return dynamics.step(q, qd, tau)


class Batch(eqx.Module):
    """Samples that a loss is computed at; the noise is on what the network sees, not on what it is
    judged by."""

    samples: Samples
    rows: Int[Array, " batch"]
    q_noise: Float[Array, "batch window nq"] | None = None  # On the positions [rad or m].
    u_noise: Float[Array, "batch controls nu"] | None = None  # On the controls.

    def seen(self, q: Array, u: Array) -> tuple[Array, Array]:
        """Positions and controls [batch, ...] as the network sees them."""
        q = q if self.q_noise is None else q + self.q_noise
        return q, u if self.u_noise is None else u + self.u_noise


class Loss(eqx.Module):
    """What each sample of a batch contributes to the loss."""

    model: TorqueModel
    scale: Scale  # What errors are divided by before they are squared.

    @abstractmethod
    def error(self, layers: Layers, batch: Batch) -> Float[Array, "batch *steps nq"]:
        """What the model says minus what was recorded, of one member."""

    @property
    def seen(self) -> tuple[int, int]:
        """How many positions and how many controls the network sees: all of them need noise."""
        return self.model.history.rows, self.model.history.rows

    def torque_error(self, layers: Layers, batch: Batch) -> Errors:
        """Error of one member's torque [N m or N]."""
        samples, rows = batch.samples, batch.rows
        histories = batch.seen(*self.model.history.at(samples.q, samples.u, rows))
        return self.model(layers, *histories) - samples.tau[rows]

    def __call__(self, layers: Layers, batch: Batch) -> Float[Array, " batch"]:
        """Losses of one member at each sample: sums over the joints, means over the steps."""
        squares = jnp.sum((self.error(layers, batch) / self.scale) ** 2, axis=-1)
        return squares if squares.ndim == 1 else jnp.mean(squares, axis=-1)


@final
class TorqueLoss(Loss):
    """Squared error of the torque; the scale is its deviation in the recording [N m or N]."""

    error = Loss.torque_error


@final
class PositionLoss(Loss):
    """Squared error of the next position in closed form, dt^2 A(q)^-1 (tau_hat - tau): there is no
    simulator in the loop.

    The scale is the error of a model without torque, root mean square over samples and joints
    [rad]: one number, so that the joints keep the weights that their positions have. Or one for
    each joint, when they shall count the same.
    """

    def error(self, layers: Layers, batch: Batch) -> Errors:  # noqa: D102
        return batch.samples.displacement(batch.rows, self.torque_error(layers, batch))


@final
class MultiStepLoss(Loss):
    """Squared errors of the next R positions; the scale is the paper's c_r, the mean absolute error
    of a model without torque after r steps [R, nq] [rad or m]."""

    dynamics: Dynamics = eqx.field(static=True)

    @property
    def seen(self) -> tuple[int, int]:  # noqa: D102
        history = self.model.history
        return max(history.span, 1) + 1, history.reach + len(self.scale)

    def error(self, layers: Layers, batch: Batch) -> Float[Array, "batch R nq"]:  # noqa: D102
        history, at, steps = self.model.history, batch.rows[:, None], len(self.scale)
        past = batch.samples.q[at + jnp.arange(1 - self.seen[0], 1)]
        u = batch.samples.u[at + jnp.arange(-history.reach, steps)]

        def one(past: Array, q: Array, u: Array) -> Array:
            start = past[-1], (past[-1] - past[-2]) / self.dynamics.dt
            torque = lambda q, u: self.model(layers, q, u)
            return rollout(torque, self.dynamics, history, q=q, u=u, state=start)

        positions = jax.vmap(one)(past, *batch.seen(past, u))
        return positions - batch.samples.q[at + jnp.arange(1, steps + 1)]


def position_scale(samples: Samples, rows: Rows, *, balance: bool = False) -> Scale:
    """Root mean square error of the next position without torque, over rows and joints [rad]; with
    ``balance``, of constant velocity, joint by joint [rad or m]."""
    if balance:
        change = lambda s, row: (s.q[row + 1] - s.q[row]) - (s.q[row] - s.q[row - 1])
        found = np.sqrt(sum_over(lambda s, row: change(s, row) ** 2, samples, rows) / len(rows))
        return jnp.asarray(np.where(found > 0.0, found, 1.0), samples.q.dtype)
    off = lambda s, row: s.displacement(row[None], s.tau[row][None])[0]
    total = float(np.sum(sum_over(lambda s, row: off(s, row) ** 2, samples, rows)))
    return jnp.asarray((total / (len(rows) * samples.nq)) ** 0.5, samples.q.dtype)


def multi_step_scale(samples: Samples, rows: Rows, dynamics: Dynamics, *, steps: int) -> Scale:
    """The paper's c_r: mean absolute error after 1 to R steps without torque [R, nq] [rad or m]."""

    def errors(samples: Samples, row: Array) -> Array:
        q = samples.q[row + jnp.arange(-1, steps + 1)]

        def step(state: State, recorded: Array) -> tuple[State, Array]:
            state = dynamics.step(*state, jnp.zeros_like(recorded))
            return state, jnp.abs(state[0] - recorded)

        return jax.lax.scan(step, (q[1], (q[1] - q[0]) / dynamics.dt), q[2:])[1]

    return jnp.asarray(sum_over(errors, samples, rows) / len(rows), samples.q.dtype)


# --- Training.


def shuffled(places: Numbers, count: int, seed: UInt32[Array, "2"]) -> Numbers:
    """The numbers (0 to ``count`` - 1) at these places of the permutation that ``seed`` selects."""
    a = math.isqrt(count - 1) + 1
    b = -(-count // a)

    def hashed(x: Array, k: int) -> Array:
        """Murmur3's finalizer, keyed."""
        x = (x ^ seed[0]) + jnp.uint32((k + 1) * 0x9E3779B9 & 0xFFFFFFFF)
        x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
        x = (x ^ x >> 13 ^ seed[1]) * jnp.uint32(0xC2B2AE35)
        return x ^ x >> 16

    def permuted(x: Array) -> Array:
        left, right = x // b, x % b
        for k in range(0, _ROUNDS, 2):
            left = (left + hashed(right, k) % a) % a
            right = (right + hashed(left, k + 1) % b) % b
        return left * b + right

    x = permuted(places.astype(jnp.uint32))
    for _ in range(3 if count > 10_000 else 12):  # each leaves less than one in sqrt(n) outside
        x = jnp.where(x < count, x, permuted(x))
    return jnp.minimum(x, count - 1).astype(places.dtype)


class TrainingState(eqx.Module):
    """Everything that training changes; leading axis: members."""

    layers: Layers
    adam: optax.OptState
    best: Layers  # Weights at the lowest validation loss so far.
    best_loss: PerMember
    best_epoch: Counts  # Epochs trained when it was reached, counted from 1; 0: before any.
    stopped: Bool[Array, " members"]
    epoch: Int[Array, ""]  # Whole epochs done.
    step: Int[Array, ""]  # Steps done in the present epoch.
    loss_sum: PerMember  # Of the present epoch's steps.
    fault_step: Counts  # Step of the epoch at which the loss was first not finite; -1: none.


class EnsembleTraining(eqx.Module):
    """The compiled program: loss, data and optimiser."""

    loss: Loss
    samples: Samples
    train_rows: Int[Array, "*members n"]
    """For all members, or for each its own (filled up by repeating where one has fewer)."""
    validation_rows: Int[Array, "*members v"]
    validation_count: Counts | None
    """How many of its own validation rows count for each member; None: one list for all."""
    settings: FitSettings = eqx.field(static=True)  # Of these, those that ``_SETTINGS`` names.
    batch_size: int = eqx.field(static=True)
    """Samples of each member's step; all there are, when they are fewer than asked for."""
    learning_rate: float = eqx.field(static=True)  # At the start.
    noise: tuple[tuple[float, ...], tuple[float, ...]] = eqx.field(static=True)
    """Standard deviations of white noise on each joint's positions [rad or m] and each control."""
    chunk: int = eqx.field(static=True)
    """Steps that are run in one go; a training can stop between two chunks."""

    @property
    def steps(self) -> int:
        """Steps in an epoch; what does not fill a chunk waits for another epoch's order."""
        return self.train_rows.shape[-1] // self.batch_size // self.chunk * self.chunk

    def begin(self, layers: Layers) -> TrainingState:
        """The state of members with these weights before the first step."""
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

    def compiled(self, state: TrainingState) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The programs that train from states like ``state``, compiled at the same time.

        Each call uses up the state that it is given. The first goes one chunk further in the epoch;
        the second validates, keeps the better weights, goes to the next epoch, and also gives the
        validation losses.
        """
        lowered = _advance.lower(self, state), _close.lower(self, state)
        with ThreadPoolExecutor(len(lowered)) as threads:
            advance, close = threads.map(lambda program: program.compile(), lowered)
        return partial(advance, self), partial(close, self)


@partial(jax.jit, donate_argnums=1)
def _advance(training: EnsembleTraining, state: TrainingState) -> TrainingState:
    settings, optimiser = training.settings, optax.scale_by_adam()
    members = jax.vmap(jax.random.key)(settings.seed + jnp.arange(len(state.best_loss)))
    fold = jax.vmap(jax.random.fold_in, (0, None))
    draw = lambda use: fold(fold(members, use), state.epoch)
    seeds, keys = jax.vmap(jax.random.key_data)(draw(1)), draw(2)
    places = jnp.arange(training.batch_size, dtype=jnp.int32)
    count = training.train_rows.shape[-1]
    own = 0 if training.train_rows.ndim == 2 else None
    samples = training.samples

    def mean_loss(layers: Layers, rows: Array, key: PRNGKeyArray) -> Array:
        """Of one member over ``rows``, under noise on the history."""

        def noise(std: tuple[float, ...], seen: int, key: PRNGKeyArray) -> Array | None:
            shape, dtype = (len(rows), seen, len(std)), samples.q.dtype
            drawn = jax.random.normal(key, shape, dtype) if any(std) else None
            return None if drawn is None else jnp.asarray(std, dtype) * drawn

        drawn = map(noise, training.noise, training.loss.seen, jax.random.split(key))
        return jnp.mean(training.loss(layers, Batch(samples, rows, *drawn)))

    def member(layers: Layers, adam: Any, rows: Array, key: PRNGKeyArray, rate: Array) -> Any:
        loss, gradient = jax.value_and_grad(mean_loss)(layers, rows, key)
        update, adam = optimiser.update(gradient, adam)

        def moved(layer: Layer, update: Layer) -> Layer:
            decay = settings.weight_decay
            if decay == 0.0 or isinstance(layer, Skip):
                return jax.tree.map(lambda w, d: w - rate * d, layer, update)
            weight = layer.weight - rate * (update.weight + decay * layer.weight)
            return Layer(weight, layer.bias - rate * update.bias)

        return tuple(map(moved, layers, update)), adam, loss

    def step(state: TrainingState, _: None) -> tuple[TrainingState, None]:
        i = state.step
        at = i * training.batch_size + places
        order = jax.vmap(lambda seed: shuffled(at, count, seed))(seeds)
        rows = jax.vmap(lambda rows, order: rows[order], (own, 0))(training.train_rows, order)
        rate = jnp.asarray(training.learning_rate)
        if settings.schedule == "cosine":
            share = (state.epoch * training.steps + i) / (training.steps * settings.epochs)
            rate = training.learning_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.minimum(share, 1.0)))
        layers, adam, loss = jax.vmap(member, in_axes=(0, 0, 0, 0, None))(
            state.layers, state.adam, rows, fold(keys, i), rate
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
def _close(training: EnsembleTraining, state: TrainingState) -> tuple[TrainingState, PerMember]:
    loss = _validation_losses(training, state.layers)
    epoch, stopped, patience = state.epoch + 1, state.stopped, training.settings.patience
    better = (loss < state.best_loss) & ~stopped
    best_epoch = jnp.where(better, epoch, state.best_epoch)
    if patience is not None:
        stopped |= epoch - best_epoch >= patience
    return replace(
        state,
        best=pick_rows(better, state.layers, state.best),
        best_loss=jnp.where(better, loss, state.best_loss),
        best_epoch=best_epoch,
        stopped=stopped,
        epoch=epoch,
        step=jnp.zeros_like(state.step),
        loss_sum=jnp.zeros_like(state.loss_sum),
        fault_step=jnp.full_like(state.fault_step, -1),
    ), loss


def _validation_losses(training: EnsembleTraining, layers: Layers) -> PerMember:
    """Means over all validation samples, batch by batch (the last is filled up and masked)."""
    rows, counts = training.validation_rows, training.validation_count
    size = min(4 * training.batch_size, rows.shape[-1])
    blocks = -(-rows.shape[-1] // size)

    def one(layers: Layers, rows: Array, known: Array | int) -> Array:
        def block(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            some, mask = part
            each = training.loss(layers, Batch(training.samples, some))
            return total + jnp.sum(jnp.where(mask, each, 0.0)), None

        used = (jnp.arange(blocks * size) < known).reshape(blocks, size)
        parts = jnp.resize(rows, (blocks, size)), used
        return jax.lax.scan(block, jnp.zeros(()), parts)[0] / known

    if counts is None:
        return jax.vmap(lambda layers: one(layers, rows, len(rows)))(layers)
    return jax.vmap(one)(layers, rows, counts)


def prepare_training(settings: FitSettings, data: Dataset, dynamics: Dynamics) -> EnsembleTraining:
    """The training that ``settings`` ask for, on ``data``."""
    samples, rows, scaling = data.samples, data.train_rows, data.scaling
    nq, nu, history = data.channels.nq, data.channels.nu, data.history
    device, precision = jax.default_backend(), settings.precision
    if precision == "auto":
        precision = "bfloat16" if device == "gpu" else "float32"
    model = TorqueModel(history, settings.activation, scaling, precision)
    loss: Loss
    if samples.response is not None:
        loss = PositionLoss(model, position_scale(samples, rows, balance=settings.balance))
    elif settings.loss == "torque":
        loss = TorqueLoss(model, scaling.torque_std)
    else:
        errors = multi_step_scale(samples, rows, dynamics, steps=settings.steps)
        loss = MultiStepLoss(model, errors, dynamics)
    train, held, counts = rows, data.parts[1], None
    if data.runs:  # rows of each member, shorter lists filled up by repeating
        parts, members = data.parts, range(settings.members)
        learnt = [np.concatenate([parts[p] for p in data.learnt(k)]) for k in members]
        own = [parts[data.left_out(k)] for k in members]
        fill = lambda some: np.stack([np.resize(x, max(map(len, some))) for x in some])
        train, held = fill(learnt), fill(own)
        counts = jnp.asarray(np.array(list(map(len, own)), np.int32))
    count = train.shape[-1]
    size = settings.batch_size_for(count)
    weights = sum(a * b for a, b in settings.architecture.sizes(history.inputs(nq, nu), nq))
    operations = 6.0 * weights * size * settings.members * settings.steps
    longest = max(1, round(CHUNK_OPERATIONS.get(device, 1e13) / operations))
    longest = min(longest, CHUNK_STEPS.get(device, 512))
    steps = count // min(size, count)
    present = history.rows * nq  # the inputs of q come first, and of a control's the present one
    u_std = np.asarray(scaling.input_std[present : present + nu], np.float64)
    u_noise = tuple((settings.control_noise * u_std).tolist())
    return EnsembleTraining(
        loss,
        samples,
        jnp.asarray(train),
        jnp.asarray(held),
        counts,
        settings=FitSettings(**{name: getattr(settings, name) for name in _SETTINGS}),
        batch_size=min(size, count),
        learning_rate=settings.learning_rate or (2e-3 if size >= 8192 else 1e-3),
        noise=((settings.history_noise,) * nq, u_noise),
        chunk=steps // -(-steps // longest),
    )
