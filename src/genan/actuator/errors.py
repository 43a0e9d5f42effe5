"""How far a model is from a recording: one step ahead at every sample, and open loop from starts.

This is the kernel of every judgement: ``step_blocks`` and ``rollouts`` predict with networks,
``one_step`` and ``open_loop`` with baselines, and ``cut_errors`` turns differences into errors that
one runaway rollout cannot dominate. Here, models are chosen by it on the recordings that each
network left out (``HeldOutSamples``); ``genan.evaluation`` adds intervals over whole recordings.
Blocks of fixed size go through one compiled program; the ensemble and the data are its arguments.

Baselines are models to beat: what costs nothing (stay where you are, keep your speed), and what a
linear prediction gives. Each predicts the next position from the last ones, without torque or rigid
body. Ridge ARX predicts q_{t+1} - (2 q_t - q_{t-1}), dt^2 times the acceleration. Its features are
those of the network: now, and the past as differences to now, all standardised. Order (past
samples) and ridge are chosen by the one-step error on trajectories that were not fitted.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.dataset import Dataset, padded_blocks
from genan.actuator.ensemble import Ensemble
from genan.actuator.training import rollout
from genan.data import Trajectories, split
from genan.dynamics import Dynamics
from genan.errors import DataError

Rows = Int[np.ndarray, " n"]
SomeRows = Int[np.ndarray, "_"]
Errors = Float[np.ndarray, "... nq"]
PerJoint = Float[np.ndarray, " nq"]
Positions = Float[np.ndarray, "n rows nq"]
Controls = Float[np.ndarray, "n rows nu"]
NextPositions = Float[np.ndarray, "n nq"]

JobProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

SAMPLES, ROLLOUTS = 1024, 256
"""Samples and rollouts at once at most: what keeps two cores' caches warm. A GPU wants more."""
_GPU_TIMES = 16
HORIZON = 0.5  # Rollouts that models are chosen by [s], unless recordings are shorter.
MOST_ROWS, MOST_STARTS = 4000, 100  # Samples and rollouts of each fold that models are chosen by.
ORDERS = (1, 2, 3, 5, 10)  # Past samples that ridge ARX is tried with.
RIDGES = np.logspace(-12, 0, 13)  # Tried, relative to the variance of a standardised feature.
_BLOCK = 1 << 15


def at_once(count: int) -> int:
    """``count`` on a CPU, more on anything else."""
    return count if jax.default_backend() == "cpu" else _GPU_TIMES * count


@dataclass(frozen=True, eq=False)
class StepBlock:
    """One-step predictions for some of the rows."""

    part: slice  # Which of the rows.
    error: Float[np.ndarray, "models n nq"]
    """Predicted minus recorded next position [rad or m]: of the mean torque, then each member."""
    torque: Float[np.ndarray, "members n nq"]  # Torque of each member [N m or N].


def step_blocks(
    ensemble: Ensemble, dynamics: Dynamics, data: Trajectories, rows: Rows
) -> Iterator[StepBlock]:
    """One step ahead from each of ``rows``, block by block. The error is dt^2 (predicted minus
    recorded acceleration): the same number as the difference of the positions, without the rounding
    of single precision in it."""
    history = ensemble.contract.history
    q, u, dt = data.q, data.u, data.dt
    for part, places in padded_blocks(len(rows), at_once(SAMPLES)):
        now = rows[places].astype(np.int64)
        qd = (q[now] - q[now - 1]) / dt
        qdd = (q[now + 1] - 2.0 * q[now] + q[now - 1]) / dt**2
        inputs = (x.astype(np.float32) for x in (*history.at(q, u, now), qd, qdd))
        found = (np.asarray(a) for a in _one_step(ensemble, dynamics, *inputs))
        yield StepBlock(part, *(a[:, : part.stop - part.start] for a in found))


@partial(jax.jit, static_argnums=1)
def _one_step(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array, qd: Array, qdd: Array
) -> tuple[Float[Array, "models n nq"], Float[Array, "members n nq"]]:
    torques = ensemble.torques(q, u)
    models = jnp.concatenate([jnp.mean(torques, axis=0, keepdims=True), torques])
    acceleration = jax.vmap(jax.vmap(dynamics.acceleration), (None, None, 0))(q[:, -1], qd, models)
    return dynamics.dt**2 * (acceleration - qdd), torques


def rollouts(
    ensemble: Ensemble,
    dynamics: Dynamics,
    q: Float[np.ndarray, "s past nq"],
    u: Float[np.ndarray, "s controls nu"],
    *,
    members: bool = False,
    report: Callable[[int], None] | None = None,
) -> Float[np.ndarray, "models s R nq"]:
    """Positions along given controls [models, s, R, nq] [rad or m]; not finite where one ran away.

    ``q``: the last max(span, 1) + 1 positions of each start [rad or m]; ``u``: controls from the
    oldest of the history to the last step [s, reach + R, nu]. With ``members``, each alone is a
    model, instead of the mean torque. ``report`` is called with how many rollouts are done.
    """
    total = len(q)
    block = -(-total // -(-total // at_once(ROLLOUTS)))
    models, steps = ensemble.members if members else 1, u.shape[1] - ensemble.contract.history.reach
    positions = np.empty((models, total, steps, q.shape[2]), np.float32)
    for part, places in padded_blocks(total, block):
        parts = (x[places].astype(np.float32) for x in (q, u))
        found = np.asarray(_rollouts(ensemble, dynamics, members, *parts))
        positions[:, part] = found[:, : part.stop - part.start]
        if report is not None:
            report(part.stop)
    return positions


@partial(jax.jit, static_argnums=(1, 2))
def _rollouts(ensemble: Ensemble, dynamics: Dynamics, members: bool, q: Array, u: Array) -> Array:
    history = ensemble.contract.history

    def run(model: Ensemble) -> Array:
        return jax.vmap(lambda q, u: rollout(model.torque, dynamics, history, q=q, u=u))(q, u)

    def alone(layers: object) -> Array:
        one = jax.tree.map(lambda array: array[None], layers)
        return run(eqx.tree_at(lambda whole: whole.layers, ensemble, one))

    return jax.vmap(alone)(ensemble.layers) if members else run(ensemble)[None]


def recorded_past(
    ensemble: Ensemble, data: Trajectories, starts: Rows, *, steps: int
) -> tuple[Positions, Float[np.ndarray, "n controls nu"]]:
    """What ``rollouts`` needs to run ``steps`` steps along the recorded controls."""
    history = ensemble.contract.history
    past = starts[:, None] + np.arange(-max(history.span, 1), 1)
    return data.q[past], data.u[starts[:, None] + np.arange(-history.reach, steps)]


def cut_errors(difference: Errors, bound: PerJoint) -> tuple[Errors, np.ndarray]:
    """Absolute errors cut at ``bound`` [rad or m], and which of [...] passed it or are NaN."""
    size = np.abs(np.asarray(difference, np.float64))
    size[~np.isfinite(size)] = np.inf
    return np.minimum(size, bound), np.asarray((size > bound).any(axis=-1))


# --- Baselines.


@dataclass(frozen=True, eq=False)
class Baseline:
    """A model that predicts positions directly, with no torque and no rigid body in it."""

    name: str  # What to call it in a table.
    past: int  # Samples before the present one that it needs, at least 1.
    next_position: Callable[[Positions, Controls], NextPositions]
    """The position one sample later [n, nq] [rad or m], from the last ``past`` + 1 positions
    [n, past + 1, nq] [rad or m] and controls [n, past + 1, nu], oldest first."""


STANDING_STILL = Baseline("standing still", 1, lambda q, u: q[:, -1])
CONSTANT_VELOCITY = Baseline("constant velocity", 1, lambda q, u: 2.0 * q[:, -1] - q[:, -2])
ARX = "ridge ARX"


def one_step(baseline: Baseline, data: Trajectories, rows: Rows) -> NextPositions:
    """Predicted positions one sample after each of ``rows`` [n, nq] [rad or m]."""
    predicted = np.empty((len(rows), data.channels.nq))
    for k in range(0, len(rows), _BLOCK):
        at = rows[k : k + _BLOCK, None].astype(np.int64) + np.arange(-baseline.past, 1)
        predicted[k : k + _BLOCK] = baseline.next_position(data.q[at], data.u[at])
    return predicted


def open_loop(baseline: Baseline, data: Trajectories, rows: Rows, *, steps: int) -> Positions:
    """Positions of the ``steps`` samples after each of ``rows`` along the recorded controls [rad or
    m]; what runs away becomes infinite or not a number, which is the caller's to count."""
    past = baseline.past
    at = rows[:, None].astype(np.int64) + np.arange(-past, steps)
    u = data.u[at]
    q = np.empty((len(rows), past + 1 + steps, data.channels.nq))
    q[:, : past + 1] = data.q[at[:, : past + 1]]
    with np.errstate(over="ignore", invalid="ignore"):
        for r in range(steps):
            seen = slice(r, r + past + 1)
            q[:, r + past + 1] = baseline.next_position(q[:, seen], u[:, seen])
    return q[:, past + 1 :]


def fit_arx(data: Trajectories, *, orders: Sequence[int] = ORDERS, seed: int = 0) -> Baseline:
    """Ridge ARX: fitted on four fifths of the trajectories, order and ridge chosen on the others.
    ``orders``: past samples to try, each at least 1, where trajectories are long enough. ``seed``:
    of the split."""
    parts, q, u = split(data, seed=seed), data.q, data.u
    roomiest = min(int(data.lengths[part].max()) for part in parts) - 2
    tried = sorted({order for order in orders if 1 <= order <= roomiest})
    if not tried:
        raise DataError(
            f"An ARX model of order {min(orders)} needs trajectories of at least "
            f"{min(orders) + 2} samples; the longest of one part has {roomiest + 2}."
        )
    first = max(tried)
    runs = [np.arange(a + first, b - 1) for a, b in itertools.pairwise(data.offsets)]
    learnt, judged = (np.concatenate([runs[k] for k in part]) for part in parts)

    def features(rows: Rows) -> Float[np.ndarray, "n k"]:
        """[1, now, past as differences to now (nearest first), target], each of q, then of u."""
        now = np.hstack([q[rows], u[rows]])
        past = [np.hstack([q[rows - lag], u[rows - lag]]) - now for lag in range(1, first + 1)]
        target = q[rows + 1] - (2.0 * q[rows] - q[rows - 1])
        return np.hstack([np.ones((len(rows), 1)), now, *past, target])

    origin = features(learnt[:: max(1, len(learnt) // 1000)]).mean(axis=0)
    origin[0] = 0.0

    def products(rows: Rows) -> Float[np.ndarray, "k k"]:
        """Sums over ``rows`` of products of the features, less ``origin``."""
        blocks = (features(rows[k : k + _BLOCK]) - origin for k in range(0, len(rows), _BLOCK))
        return np.asarray(sum(block.T @ block for block in blocks))

    sums, nq, width = (products(learnt), products(judged)), q.shape[1], q.shape[1] + u.shape[1]
    tries = (_solve_arx(sums, origin, order, nq, width) for order in tried)
    _, order, weights, offset = min((one for some in tries for one in some), key=lambda one: one[0])
    # Of differences to now, which come first; as of samples, oldest first.
    of_samples = weights.reshape(order + 1, width, nq)
    of_samples[0] -= of_samples[1:].sum(axis=0)
    of_q, of_u = np.split(of_samples[::-1], [nq], axis=1)

    def next_position(q: Positions, u: Controls) -> NextPositions:
        change = np.tensordot(q, of_q) + np.tensordot(u, of_u)
        return np.asarray(2.0 * q[:, -1] - q[:, -2] + change + offset)

    return Baseline(f"{ARX}, order {order}", order, next_position)


def _solve_arx(
    sums: Sequence[np.ndarray], origin: np.ndarray, order: int, nq: int, width: int
) -> Iterator[tuple[float, int, np.ndarray, np.ndarray]]:
    """For each ridge: mean squared error where it is judged, order, weights and offset."""
    inputs, targets = np.arange(1, 1 + width * (order + 1)), np.arange(-nq, 0)
    columns = np.concatenate([[0], inputs, targets])
    some, other = (products[np.ix_(columns, columns)] for products in sums)
    mean = some[0] / some[0, 0]
    covariance = some / some[0, 0] - np.outer(mean, mean)
    x, y = slice(1, -nq), slice(-nq, None)
    spread = np.sqrt(np.maximum(np.diag(covariance)[x], 0.0))
    size = np.abs(origin[inputs] + mean[x])
    spread = np.where(spread > 1e-12 * size, spread, np.inf)  # what never changes says nothing
    values, vectors = np.linalg.eigh(covariance[x, x] / np.outer(spread, spread))
    projected = vectors.T @ (covariance[x, y] / spread[:, None])
    for ridge in RIDGES:
        scaled = vectors @ (projected / (np.maximum(values, 0.0) + ridge)[:, None])
        weights = scaled / spread[:, None]
        offset = mean[y] - mean[x] @ weights
        whole = np.vstack([-offset, -weights, np.eye(nq)])  # target minus prediction
        error = float(np.einsum("ij,ik,kj->", whole, other, whole) / (other[0, 0] * nq))
        yield error, order, weights, offset + origin[targets] - origin[inputs] @ weights


# --- Judging on what was left out.


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Root mean square errors on what was left out, over all folds together."""

    one_step: PerJoint  # Of the next position [rad or m].
    rollout: PerJoint
    """Of the position at the end of a rollout, cut at the range of the joint [rad or m]."""


@dataclass(frozen=True, eq=False)
class HeldOutSamples:
    """The samples and rollouts of each fold, the same for every model that is judged."""

    trajectories: Trajectories
    rows: tuple[SomeRows, ...]
    starts: tuple[SomeRows, ...]
    steps: int  # Of a rollout.
    bound: PerJoint  # Where an error is cut [rad or m].

    @classmethod
    def of(cls, dataset: Dataset, trajectories: Trajectories, *, lead: int) -> "HeldOutSamples":
        """Samples with ``lead`` rows of their run before them, for models of any history."""
        runs = [len(run) for fold in dataset.runs for run in fold]
        steps = max(1, min(round(HORIZON / dataset.channels.dt), int(np.median(runs)) - lead - 1))
        rows: list[SomeRows] = []
        starts: list[SomeRows] = []
        for fold in dataset.runs:
            inner = [run[lead:] for run in fold if len(run) > lead]
            found = [run[: max(0, len(run) - steps + 1) : steps] for run in inner]
            for kept, some, most in ((rows, inner, MOST_ROWS), (starts, found, MOST_STARTS)):
                whole = np.concatenate(some or [np.zeros(0)]).astype(np.int64)
                kept.append(whole[:: max(1, -(-len(whole) // most))])
        if not all(map(len, rows)) or not sum(map(len, starts)):
            raise DataError(
                f"{sum(runs)} samples in {len(runs)} stretches, each with a history of {lead}, are "
                "too few to be cross-validated; record more, or give --choose never."
            )
        bound = dataset.q_seen[1] - dataset.q_seen[0]
        return cls(trajectories, tuple(rows), tuple(starts), steps, bound)

    def judge(self, ensemble: Ensemble, dataset: Dataset, dynamics: Dynamics) -> HeldOutErrors:
        """Each member on the fold that it left out."""
        ahead, ends = [], []
        # NumPy takes the members apart: JAX would compile a program for each slice.
        layers = jax.tree.map(np.asarray, ensemble.layers)
        whole = eqx.tree_at(lambda one: one.layers, ensemble, layers)
        for k in range(ensemble.members):
            member, fold = whole.member(k), dataset.left_out(k)
            rows, starts = self.rows[fold], self.starts[fold]
            blocks = step_blocks(member, dynamics, self.trajectories, rows)
            ahead += [block.error[0] for block in blocks]
            if len(starts):
                # As many at once for every fold, so that nothing is compiled twice.
                filled = np.resize(starts, max(map(len, self.starts)))
                past = recorded_past(member, self.trajectories, filled, steps=self.steps)
                end = rollouts(member, dynamics, *past)[0, : len(starts), -1]
                ends.append(end - self.trajectories.q[starts + self.steps])
        return self._errors(ahead, ends)

    def judge_baselines(self, dataset: Dataset) -> dict[str, HeldOutErrors]:
        """Standing still, constant velocity, and ridge ARX fitted without the fold it is judged
        on."""
        data, count, known = self.trajectories, len(dataset.parts), self.trajectories.recordings
        models = {one.name: [one] * count for one in (STANDING_STILL, CONSTANT_VELOCITY)}
        try:
            for fold in () if dataset.cut else dataset.runs:
                rows = np.concatenate(fold).astype(np.int64)
                seen = {known[k] for k in np.searchsorted(data.offsets, rows, side="right") - 1}
                others = [k for k, name in enumerate(known) if name not in seen]
                models.setdefault(ARX, []).append(fit_arx(data.select(others)))
        except DataError:  # too few or too short for it
            models.pop(ARX, None)
        found = {}
        for name, each in models.items():
            ahead, ends = [], []
            for model, rows, starts in zip(each, self.rows, self.starts, strict=True):
                ahead.append(one_step(model, data, rows) - data.q[rows + 1])
                end = open_loop(model, data, starts, steps=self.steps)[:, -1]
                ends.append(end - data.q[starts + self.steps])
            found[name] = self._errors(ahead, ends)
        return found

    def _errors(self, *parts: Sequence[np.ndarray]) -> HeldOutErrors:
        cut = (cut_errors(np.concatenate(part), self.bound)[0] for part in parts)
        return HeldOutErrors(*(np.sqrt((size**2).mean(axis=0)) for size in cut))
