"""Losses, the base torque model, and training the members of an ensemble together in one compiled
program that keeps everything on the device.

Losses are in units in which a model that knows nothing has one near one: the raw position loss is
near 1e-8, where Adam's epsilon would swallow the gradient. Every step is the same program, in one
go or in chunks: a training that is interrupted and resumed gives the same weights to the bit (on
the CPU).

The random order of the samples needs no memory: which sample comes at place i is computed when it
is wanted, by a permutation of n numbers as a cipher. Each number is written with two digits, and
each digit in turn is shifted by a hash of the other (a Feistel network). Two digits to bases a and
b have a b >= n values, at most about sqrt(n) too many; a number that lands among those is sent
through again. Sorting random keys would need memory for all of them, once for each member.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from genan.actuator.dataset import Dataset, Rows, Samples, sum_over
from genan.actuator.ensemble import Layer, Layers, Skip, TorqueModel, pick_rows
from genan.actuator.settings import FitSettings, History
from genan.dynamics import Dynamics

TorqueFunction = Callable[[Float[Array, "rows nq"], Float[Array, "rows nu"]], Float[Array, " nq"]]
"""From one history of positions and one of controls to torques."""

SomeRows = Int[Array | np.ndarray, " n"]
State = tuple[Float[Array, " nq"], Float[Array, " nq"]]  # Position and velocity.
Scale = Float[Array, "..."]
Noise = tuple[Float[Array, "n past nq"] | None, Float[Array, "n _ nu"] | None]  # On q and u.
PerMember = Float[Array, " members"]
Counts = Int[Array, " members"]
Numbers = Int[Array, " m"]

CHUNK_OPERATIONS = {"cpu": 2e11, "gpu": 1e13}  # At once: 1 or 2 s, as long as Ctrl-C may wait.
CHUNK_STEPS = {"cpu": 64, "gpu": 512}  # At once at most; a GPU loses milliseconds at every look.
_SETTINGS = ("epochs", "schedule", "patience", "weight_decay", "seed")
"""What the program depends on; fits that differ in nothing else and in shapes share one."""


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


class Loss(eqx.Module):
    """What each sample contributes to the loss: squares of errors over ``scale``, summed over the
    joints and averaged over the steps.

    The error is that of the torque; of the next position in closed form, dt^2 A(q)^-1 (tau_hat -
    tau), without a simulator in the loop; or of the next R positions.
    """

    model: TorqueModel
    scale: Scale  # Deviation of the torque, ``position_scale`` or ``multi_step_scale``.
    kind: str = eqx.field(static=True)  # "torque", "position" or "multi-step".
    dynamics: Dynamics | None = eqx.field(static=True, default=None)  # For several steps.

    @property
    def seen(self) -> tuple[int, int]:
        """How many positions and how many controls the network sees: all of them need noise."""
        history = self.model.history
        if self.kind == "multi-step":
            return max(history.span, 1) + 1, history.reach + len(self.scale)
        return history.rows, history.rows

    def error(
        self, layers: Layers, samples: Samples, rows: SomeRows, noise: Noise = (None, None)
    ) -> Float[Array, "batch *steps nq"]:
        """What one member says minus what was recorded, under ``noise`` on what it sees."""
        history, noisy = self.model.history, lambda x, some: x if some is None else x + some
        if self.dynamics is None:
            histories = map(noisy, history.at(samples.q, samples.u, rows), noise)
            error = self.model(layers, *histories) - samples.tau[rows]
            return samples.displacement(rows, error) if self.kind == "position" else error
        dynamics, at, steps = self.dynamics, rows[:, None], len(self.scale)
        past = samples.q[at + jnp.arange(1 - self.seen[0], 1)]
        u = samples.u[at + jnp.arange(-history.reach, steps)]
        start = past[:, -1], (past[:, -1] - past[:, -2]) / dynamics.dt
        torque = partial(self.model, layers)
        run = lambda start, q, u: rollout(torque, dynamics, history, q=q, u=u, state=start)
        positions = jax.vmap(run)(start, *map(noisy, (past, u), noise))
        return positions - samples.q[at + jnp.arange(1, steps + 1)]

    def __call__(self, layers: Layers, *where: Any) -> Float[Array, " batch"]:
        """Losses of one member at each sample; arguments as for ``error``."""
        squares = jnp.sum((self.error(layers, *where) / self.scale) ** 2, axis=-1)
        return squares if squares.ndim == 1 else jnp.mean(squares, axis=-1)


def position_scale(samples: Samples, rows: Rows, *, balance: bool = False) -> Scale:
    """Root mean square error of the next position without torque, over rows and joints [rad]: one
    number, so that the joints keep the weights that their positions have. With ``balance``, of
    constant velocity, joint by joint [rad or m], so that they count the same."""
    if balance:
        change = lambda s, row: (s.q[row + 1] - s.q[row]) - (s.q[row] - s.q[row - 1])
        found = np.sqrt(sum_over(lambda s, row: change(s, row) ** 2, samples, rows) / len(rows))
        return jnp.asarray(np.where(found > 0.0, found, 1.0), samples.q.dtype)
    off = lambda s, row: s.displacement(row[None], s.tau[row][None])[0]
    total = float(np.sum(sum_over(lambda s, row: off(s, row) ** 2, samples, rows)))
    return jnp.asarray((total / (len(rows) * samples.q.shape[1])) ** 0.5, samples.q.dtype)


def multi_step_scale(samples: Samples, rows: Rows, dynamics: Dynamics, *, steps: int) -> Scale:
    """The paper's c_r: mean absolute error after 1 to R steps without torque [R, nq] [rad or m]."""
    silent, ahead = lambda q, u: jnp.zeros_like(q[-1]), jnp.arange(steps)

    def errors(s: Samples, row: Array) -> Array:
        past, u = s.q[row + jnp.arange(-1, 1)], s.u[row + ahead]
        return jnp.abs(rollout(silent, dynamics, History(0), q=past, u=u) - s.q[row + 1 + ahead])

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
        for k in range(0, 6, 2):  # six rounds
            left = (left + hashed(right, k) % a) % a
            right = (right + hashed(left, k + 1) % b) % b
        return left * b + right

    x = permuted(places.astype(jnp.uint32))
    again = lambda _, x: jnp.where(x < count, x, permuted(x))
    # Each leaves less than one in sqrt(n) outside.
    x = jax.lax.fori_loop(0, 3 if count > 10_000 else 12, again, x, unroll=count > 10_000)
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
    train_rows: Int[Array, "*members n"]  # For all, or each its own (filled up by repeating).
    validation_rows: Int[Array, "*members v"]
    validation_count: Int[Array, "*members"]  # How many of these count.
    settings: FitSettings = eqx.field(static=True)  # Of these, those that ``_SETTINGS`` names.
    batch_size: int = eqx.field(static=True)  # Samples of each member's step, or all there are.
    learning_rate: float = eqx.field(static=True)  # At the start.
    noise: tuple[tuple[float, ...], tuple[float, ...]] = eqx.field(static=True)
    """Standard deviations of white noise on each joint's positions [rad or m] and each control."""
    chunk: int = eqx.field(static=True)  # Steps in one go; a training can stop after them.

    @property
    def steps(self) -> int:
        """Steps in an epoch; what does not fill a chunk waits for another epoch's order."""
        return self.train_rows.shape[-1] // self.batch_size // self.chunk * self.chunk

    def begin(self, layers: Layers) -> TrainingState:
        """The state of members with these weights before the first step."""
        counts = jnp.zeros(len(layers[0].bias), jnp.int32)
        sums = counts.astype(float)
        base = isinstance(layers[-1], Skip)  # with it, they are worth something from the start
        return TrainingState(
            layers=layers,
            adam=jax.vmap(optax.scale_by_adam().init)(layers),
            best=jax.tree.map(jnp.copy, layers),
            best_loss=_validation_losses(self, layers).astype(float) if base else sums + jnp.inf,
            best_epoch=counts,
            stopped=counts > 0,
            epoch=jnp.asarray(0, jnp.int32),
            step=jnp.asarray(0, jnp.int32),
            loss_sum=sums,
            fault_step=counts - 1,
        )

    def compiled(self, state: TrainingState) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The programs, which use up their states: one goes a chunk further in the epoch, one
        validates, keeps the better weights, and goes to the next epoch; gives losses too."""
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
            deviation = jnp.asarray(std, dtype)
            return deviation * jax.random.normal(key, shape, dtype) if any(std) else None

        drawn = map(noise, training.noise, training.loss.seen, jax.random.split(key))
        return jnp.mean(training.loss(layers, samples, rows, tuple(drawn)))

    def member(rate: Array, layers: Layers, adam: Any, rows: Array, key: PRNGKeyArray) -> Any:
        loss, gradient = jax.value_and_grad(mean_loss)(layers, rows, key)
        update, adam = optimiser.update(gradient, adam)

        def moved(layer: Layer, update: Layer) -> Layer:
            if settings.weight_decay and not isinstance(layer, Skip):
                decay = settings.weight_decay * layer.weight
                update = Layer(update.weight + decay, update.bias)
            return jax.tree.map(lambda w, d: w - rate * d, layer, update)

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
        train = jax.vmap(partial(member, rate))
        layers, adam, loss = train(state.layers, state.adam, rows, fold(keys, i))
        found = (state.fault_step < 0) & ~jnp.isfinite(loss)
        sums, fault = state.loss_sum + loss, jnp.where(found, i, state.fault_step)
        learnt = {"layers": layers, "adam": adam, "loss_sum": sums, "fault_step": fault}
        return replace(state, **learnt, step=i + 1), None

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
    rows, own = training.validation_rows, 0 if training.validation_rows.ndim == 2 else None
    size = min(4 * training.batch_size, rows.shape[-1])
    blocks = -(-rows.shape[-1] // size)

    def one(layers: Layers, rows: Array, known: Array) -> Array:
        def block(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            some, mask = part
            each = training.loss(layers, training.samples, some)
            return total + jnp.sum(jnp.where(mask, each, 0.0)), None

        used = (jnp.arange(blocks * size) < known).reshape(blocks, size)
        parts = jnp.resize(rows, (blocks, size)), used
        return jax.lax.scan(block, jnp.zeros(()), parts)[0] / known

    return jax.vmap(one, (0, own, own))(layers, rows, training.validation_count)


def prepare_training(settings: FitSettings, data: Dataset, dynamics: Dynamics) -> EnsembleTraining:
    """The training that ``settings`` ask for, on ``data``."""
    samples, rows, scaling = data.samples, data.train_rows, data.scaling
    nq, nu, history = data.channels.nq, data.channels.nu, data.history
    device, precision = jax.default_backend(), settings.precision
    if precision == "auto":
        precision = "bfloat16" if device == "gpu" else "float32"
    model = TorqueModel(history, settings.activation, scaling, precision)
    if samples.response is not None:
        loss = Loss(model, position_scale(samples, rows, balance=settings.balance), "position")
    elif settings.loss == "torque":
        loss = Loss(model, scaling.torque_std, "torque")
    else:
        scale = multi_step_scale(samples, rows, dynamics, steps=settings.steps)
        loss = Loss(model, scale, "multi-step", dynamics)
    train, held = rows, data.parts[1]
    counts = np.asarray(len(held), np.int32)
    if data.runs:  # rows of each member, shorter lists filled up by repeating
        parts, members = data.parts, range(settings.members)
        learnt = [np.concatenate([parts[p] for p in data.learnt(k)]) for k in members]
        own = [parts[data.left_out(k)] for k in members]
        fill = lambda some: np.stack([np.resize(x, max(map(len, some))) for x in some])
        train, held = fill(learnt), fill(own)
        counts = np.array(list(map(len, own)), np.int32)
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
        *map(jnp.asarray, (train, held, counts)),
        settings=FitSettings(**{name: getattr(settings, name) for name in _SETTINGS}),
        batch_size=min(size, count),
        learning_rate=settings.learning_rate or (2e-3 if size >= 8192 else 1e-3),
        noise=((settings.history_noise,) * nq, u_noise),
        chunk=steps // -(-steps // longest),
    )


# --- The base torque model: linear in what a network sees, solved in closed form, chosen on
# recordings that it has not seen.

Weights = Float[np.ndarray, "inputs_and_one nq"]
PerJoint = Float[np.ndarray, " nq"]
Divisor = Float[np.ndarray, "*nq"] | float

KINDS = ("linear", "parametric", "both")

RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # Tried, relative to the loss's mean curvature.

OPERATIONS, FEWEST_SAMPLES = 2e10, 15_000  # Cost of the equations; samples used all the same.


def uses(kind: str, history: History, nq: int, nu: int) -> Bool[np.ndarray, " _"]:
    """Which inputs a base model of this ``kind`` uses."""
    past, terms = np.arange(history.rows), history.terms
    used, samples = np.ones(history.inputs(nq, nu), bool), history.rows * (nq + nu)
    if kind == "linear":
        return np.arange(len(used)) < samples
    parametric = kind == "parametric"  # one past sample is the velocity
    q = np.repeat(past <= 1 if parametric else past >= 0, nq)
    u = np.repeat(past == 0 if parametric else past >= 0, nu)
    gains = {gain for servo in terms.servos for gain in servo.gains}
    u.reshape(-1, nu)[:, list(gains)] = False
    used[:samples] = np.concatenate([q, u])
    of_servos = gains | {k for servo in terms.servos for k in (servo.goal, *servo.switches)}
    joints, controls = terms.products or (0, 0)
    kept = [parametric and control not in of_servos for control in range(controls)]
    own = [*np.repeat(kept, joints), *np.outer(kept, kept)[np.triu_indices(controls)]]
    first = samples + sum(map(len, terms.friction)) + 2 * len(terms.turning) ** 2
    used[first : first + len(own)] = own
    return used


class LinearSamples(NamedTuple):
    """The samples of some recordings, as a linear model wants them."""

    x: Float[np.ndarray, "n inputs_and_one"]  # Standardised inputs and, last, ones.
    y: Float[np.ndarray, "n nq"]  # Standardised torques.
    hold: Float[np.ndarray, "n nq"]  # Standardised torques that would keep the velocity.
    response: Float[np.ndarray, "n nq nq"]  # Of the next position (or torque) to them, scaled.

    @classmethod
    def of(cls, dataset: Dataset, rows: Rows, weight: PerJoint) -> "LinearSamples":
        """Those of ``rows``, errors times ``weight``."""
        samples, scaling, history = dataset.samples, dataset.scaling, dataset.history
        at, nq = rows.astype(np.int64), samples.q.shape[1]
        q, u = np.asarray(samples.q), np.asarray(samples.u)
        scales = (scaling.input_mean, scaling.input_std, scaling.torque_mean, scaling.torque_std)
        mean, std, middle, size = (np.asarray(a, np.float64) for a in scales)
        x = (history.features(*(a.astype(np.float64) for a in history.at(q, u, at))) - mean) / std
        hold = tau = np.asarray(samples.tau, np.float64)[at]
        moves = np.broadcast_to(np.eye(nq), (len(at), nq, nq))
        if samples.response is not None:  # else torques are judged by themselves
            i, j = np.tril_indices(nq)
            moves = np.empty(moves.shape)
            moves[:, i, j] = moves[:, j, i] = np.asarray(samples.response)[at]
            before, now, after = (q[at + k].astype(np.float64) for k in (-1, 0, 1))
            change = ((after - now) - (now - before))[:, :, None]
            hold = tau - np.linalg.solve(moves, change)[:, :, 0]
        whole = np.concatenate([x, np.ones((len(at), 1))], axis=1)
        response = weight[:, None] * moves * size
        return cls(whole, (tau - middle) / size, (hold - middle) / size, response)


class BaseProblem:
    """Linear models of the torque from the parts of a dataset, of one of three kinds.

    ``linear``: the history alone. ``parametric``: gain, spring (of a stiffness that may be
    commanded), viscous and Coulomb friction, offset and the gravity that a rigid-body model with
    slightly wrong masses lacks; present samples, one velocity and the ``Terms``. ``both``: all of
    it but products of controls, with which a long history is too free. Controls that make up a
    servo count as such: their products are its own, and a gain adds nothing by itself. Minimised is
    the error of the next position or of the torque, as the loss of the fit is. What the data do not
    say is left at the torque that keeps the velocity, not at none: the ridge draws the weights
    towards the model of that torque.
    """

    def __init__(self, dataset: Dataset, kind: str, *, scale: Divisor = 1.0) -> None:
        """Over the rows of each part, thinned out where there are very many. ``scale``: what errors
        are divided by, joint by joint, before they are squared [rad or m]."""
        nq, parts = dataset.channels.nq, dataset.parts
        used = uses(kind, dataset.history, nq, dataset.channels.nu)
        cost = float(used.sum() + 1) ** 2 * nq * (nq + 1)
        every = max(1, -(-sum(map(len, parts)) // max(FEWEST_SAMPLES, int(OPERATIONS / cost))))
        weight = np.broadcast_to(1.0 / np.asarray(scale, np.float64), (nq,))
        self.groups = [LinearSamples.of(dataset, rows[::every], weight) for rows in parts]
        self._used, self._nq = np.append(used, True), nq
        # The model, of the same inputs, of the torque that keeps the velocity.
        known = [(group.x[:, self._used], group.hold) for group in self.groups]
        gram, cross = sum(x.T @ x for x, _ in known), sum(x.T @ hold for x, hold in known)
        gram[np.diag_indices_from(gram)] += 1e-6 * np.diag(gram).mean()
        self._origin = np.zeros((len(self._used), nq))
        self._origin[self._used] = np.linalg.solve(gram, cross)
        self._sums = [self._equations(group) for group in self.groups]

    def _equations(self, group: LinearSamples) -> tuple[np.ndarray, np.ndarray]:
        """Matrix and right-hand side of the normal equations for the weights of used inputs, joint
        after joint; the weights are counted from the origin."""
        x, nq = group.x[:, self._used], self._nq
        weight = np.einsum("nij,nik->njk", group.response, group.response)
        pull = np.einsum("njk,nk->nj", weight, group.y - group.x @ self._origin)
        gram = np.empty((nq, x.shape[1], nq, x.shape[1]))
        for j in range(nq):
            for k in range(j + 1):
                gram[j, :, k] = (x * weight[:, j, k, None]).T @ x
                gram[k, :, j] = gram[j, :, k].T
        return gram.reshape(nq * x.shape[1], -1), (pull.T @ x).reshape(-1)

    def solve(self, ridge: float, groups: Sequence[int]) -> Weights:
        """Weights of the standardised inputs and, last, offsets, fitted to some of the groups."""
        gram, cross = (np.sum([self._sums[g][part] for g in groups], axis=0) for part in (0, 1))
        punished = np.tile(np.append(np.ones(self._used.sum() - 1), 0.0), self._nq)  # not offsets
        scale = float(np.diag(gram).mean())
        gram[np.diag_indices_from(gram)] += ridge * scale * punished + 1e-12 * scale
        weights = self._origin.copy()
        weights[self._used] += np.linalg.solve(gram, cross).reshape(self._nq, -1).T
        return weights

    def errors(self, weights: Weights, group: int) -> PerJoint:
        """Mean square error of each joint over a group, of the next position or torque, scaled."""
        one = self.groups[group]
        off = np.einsum("nij,nj->ni", one.response, one.x @ weights - one.y)
        return np.asarray((off**2).mean(axis=0))


def base_layer(dataset: Dataset, settings: FitSettings, scale: Divisor) -> tuple[Layer, float]:
    """The base torque models of all members as a layer, each fitted to what its member learns from;
    and the ridge, that of the lowest error on what they do not, each joint relative to its best.
    With hidden layers, these see inputs within the range of the data."""
    problem, members = BaseProblem(dataset, settings.base, scale=scale), range(settings.members)
    splits = {dataset.left_out(k): dataset.learnt(k) for k in members}
    solved = [{out: problem.solve(r, learnt) for out, learnt in splits.items()} for r in RIDGES]
    errors = np.array([sum(problem.errors(w, k) for k, w in some.items()) for some in solved])
    relative = errors / np.maximum(errors.min(axis=0), np.finfo(float).tiny)
    best = int(np.argmin(relative.mean(axis=1)))
    weights = np.stack([solved[best][dataset.left_out(k)] for k in members])
    straight = jnp.asarray(weights[:, :-1], jnp.float32), jnp.asarray(weights[:, -1], jnp.float32)
    if not settings.hidden:
        return Layer(*straight), RIDGES[best]
    inputs = [group.x[:, :-1] for group in problem.groups]
    low = np.min([x.min(axis=0) for x in inputs], axis=0)
    high = np.max([x.max(axis=0) for x in inputs], axis=0)
    ends = (jnp.tile(jnp.asarray(end, jnp.float32), (len(members), 1)) for end in (low, high))
    return Skip(*straight, *ends), RIDGES[best]
