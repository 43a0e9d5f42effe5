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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.dataset import Dataset, rows_of_fold
from genan.actuator.ensemble import Ensemble
from genan.actuator.training import rollout
from genan.data import Trajectories, split
from genan.dynamics import Dynamics
from genan.errors import DataError

Rows = Int[np.ndarray, " n"]
SomeRows = Int[np.ndarray, "_"]
PerJoint = Float[np.ndarray, " nq"]
Positions = Float[np.ndarray, "n rows nq"]
Controls = Float[np.ndarray, "n rows nu"]
NextPositions = Float[np.ndarray, "n nq"]
Products = Float[np.ndarray, "k k"]
Origin = Float[np.ndarray, " k"]

JobProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

SAMPLES, ROLLOUTS = 1024, 256
"""Samples and rollouts at once at most: what keeps two cores' caches warm. A GPU wants more."""
_GPU_TIMES = 16
HORIZON = (
    0.5  # Length of the rollouts that models are chosen by [s], unless recordings are shorter.
)
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
    ensemble: Ensemble, dynamics: Dynamics, trajectories: Trajectories, rows: Rows
) -> Iterator[StepBlock]:
    """One step ahead from each of ``rows``, block by block.

    The error is dt^2 (predicted minus recorded acceleration): the same number as the difference of
    the positions, without the rounding of single precision in it.
    """
    history = ensemble.contract.history
    q, u, dt, size = trajectories.q, trajectories.u, trajectories.dt, at_once(SAMPLES)
    for k in range(0, len(rows), size):
        now = rows[k : k + size].astype(np.int64)
        count = len(now)
        now = np.concatenate([now, np.repeat(now[-1:], size - count)])
        qd = (q[now] - q[now - 1]) / dt
        qdd = (q[now + 1] - 2.0 * q[now] + q[now - 1]) / dt**2
        inputs = (x.astype(np.float32) for x in (*history.at(q, u, now), qd, qdd))
        error, torque = (np.asarray(a)[:, :count] for a in _one_step(ensemble, dynamics, *inputs))
        yield StepBlock(slice(k, k + count), error, torque)


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

    Args:
        ensemble: the actuators.
        dynamics: the rigid body.
        q: the last max(span, 1) + 1 positions of each start, oldest first [rad or m].
        u: controls from the oldest of the history to the last step [s, reach + R, nu].
        members: each member alone, as a model of its own, instead of the mean torque.
        report: called after each block with how many rollouts are done.
    """
    total = len(q)
    block = -(-total // -(-total // at_once(ROLLOUTS)))
    models, steps = ensemble.members if members else 1, u.shape[1] - ensemble.contract.history.reach
    positions = np.empty((models, total, steps, q.shape[2]), np.float32)
    for k in range(0, total, block):
        some, count = np.minimum(np.arange(k, k + block), total - 1), min(block, total - k)
        parts = (x[some].astype(np.float32) for x in (q, u))
        found = _rollouts(ensemble, dynamics, members, *parts)
        positions[:, k : k + count] = np.asarray(found)[:, :count]
        if report is not None:
            report(k + count)
    return positions


@partial(jax.jit, static_argnums=(1, 2))
def _rollouts(
    ensemble: Ensemble, dynamics: Dynamics, members: bool, q: Array, u: Array
) -> Float[Array, "models s R nq"]:
    history = ensemble.contract.history

    def run(model: Ensemble) -> Array:
        return jax.vmap(lambda q, u: rollout(model.torque, dynamics, history, q=q, u=u))(q, u)

    def alone(layers: object) -> Array:
        one = jax.tree.map(lambda array: array[None], layers)
        return run(eqx.tree_at(lambda whole: whole.layers, ensemble, one))

    return jax.vmap(alone)(ensemble.layers) if members else run(ensemble)[None]


def recorded_past(
    ensemble: Ensemble, trajectories: Trajectories, starts: Int[np.ndarray, " s"], *, steps: int
) -> tuple[Float[np.ndarray, "s past nq"], Float[np.ndarray, "s controls nu"]]:
    """What ``rollouts`` needs to run ``steps`` steps along the recorded controls."""
    history = ensemble.contract.history
    past = starts[:, None] + np.arange(-max(history.span, 1), 1)
    return trajectories.q[past], trajectories.u[starts[:, None] + np.arange(-history.reach, steps)]


def cut_errors(
    difference: Float[np.ndarray, "... nq"], bound: PerJoint
) -> tuple[Float[np.ndarray, "... nq"], np.ndarray]:
    """Absolute errors cut at ``bound`` [rad or m], and which of [...] passed it or are NaN."""
    size = np.abs(np.asarray(difference, np.float64))
    size[~np.isfinite(size)] = np.inf
    return np.minimum(size, bound), np.asarray((size > bound).any(axis=-1))


# --- Baselines.


class Baseline(ABC):
    """A fitted model that predicts positions directly, with no torque and no rigid body in it."""

    name: str  # What to call it in a table.
    past: int  # Samples before the present one that it needs, at least 1.

    @abstractmethod
    def next_position(self, q: Positions, u: Controls) -> NextPositions:
        """The position one sample after the last of ``q`` [rad or m].

        Args:
            q: the last ``past`` + 1 positions, oldest first [n, past + 1, nq] [rad or m].
            u: the controls at the same samples [n, past + 1, nu].
        """


class StandingStill(Baseline):
    """The robot does not move any more."""

    name, past = "standing still", 1

    def next_position(self, q: Positions, u: Controls) -> NextPositions:  # noqa: D102
        return np.asarray(q[:, -1])


class ConstantVelocity(Baseline):
    """The robot continues at the speed of its last two positions."""

    name, past = "constant velocity", 1

    def next_position(self, q: Positions, u: Controls) -> NextPositions:  # noqa: D102
        return np.asarray(2.0 * q[:, -1] - q[:, -2])


def one_step(baseline: Baseline, trajectories: Trajectories, rows: Rows) -> NextPositions:
    """Predicted positions one sample after each of ``rows`` [n, nq] [rad or m]."""
    predicted = np.empty((len(rows), trajectories.channels.nq))
    for k in range(0, len(rows), _BLOCK):
        at = rows[k : k + _BLOCK, None].astype(np.int64) + np.arange(-baseline.past, 1)
        predicted[k : k + _BLOCK] = baseline.next_position(trajectories.q[at], trajectories.u[at])
    return predicted


def open_loop(
    baseline: Baseline, trajectories: Trajectories, rows: Rows, *, steps: int
) -> Float[np.ndarray, "n R nq"]:
    """Positions of the ``steps`` samples after each of ``rows`` along the recorded controls [rad or
    m]; what runs away becomes infinite or not a number, which is the caller's to count."""
    past = baseline.past
    at = rows[:, None].astype(np.int64) + np.arange(-past, steps)
    u = trajectories.u[at]
    q = np.empty((len(rows), past + 1 + steps, trajectories.channels.nq))
    q[:, : past + 1] = trajectories.q[at[:, : past + 1]]
    with np.errstate(over="ignore", invalid="ignore"):
        for r in range(steps):
            seen = slice(r, r + past + 1)
            q[:, r + past + 1] = baseline.next_position(q[:, seen], u[:, seen])
    return q[:, past + 1 :]


@dataclass(frozen=True, eq=False)
class Arx(Baseline):
    """A fitted ARX model; one matrix for each of the last samples."""

    past: int  # Its order: past samples besides the present one, n.
    ridge: float  # Weight of the penalty, relative to the variance of a standardised feature.
    q_weights: Float[np.ndarray, "rows nq nq"]
    """What each position adds to the target, oldest first [n + 1, nq, nq]."""
    u_weights: Float[np.ndarray, "rows nu nq"]
    """What each control adds to the target, oldest first [n + 1, nu, nq]."""
    offset: PerJoint  # [rad or m]
    name: str = "ridge ARX"

    @classmethod
    def fit(
        cls, trajectories: Trajectories, *, orders: Sequence[int] = ORDERS, seed: int = 0
    ) -> "Arx":
        """Fit on four fifths of the trajectories, choose order and ridge on the others.

        ``orders``: past samples to try, each at least 1, where trajectories are long enough.
        ``seed``: of the split.
        """
        parts = split(trajectories, seed=seed)
        roomiest = min(int(trajectories.lengths[part].max()) for part in parts) - 2
        tried = sorted({order for order in orders if 1 <= order <= roomiest})
        if not tried:
            raise DataError(
                f"An ARX model of order {min(orders)} needs trajectories of at least "
                f"{min(orders) + 2} samples; the longest of one part has {roomiest + 2}."
            )
        longest, offsets = tried[-1], trajectories.offsets
        rows = [
            np.concatenate([np.arange(offsets[k] + longest, offsets[k + 1] - 1) for k in part])
            for part in parts
        ]
        some = rows[0][:: max(1, len(rows[0]) // 1000)]
        origin = _features(trajectories, some, longest).mean(axis=0)
        origin[0] = 0.0
        fitted, judged = (_products(trajectories, each, longest, origin) for each in rows)
        nq, nu = trajectories.channels.nq, trajectories.channels.nu
        found = (_best(fitted, judged, origin, order, nq, nu) for order in tried)
        return min(found, key=lambda one: one[0])[1]

    def next_position(self, q: Positions, u: Controls) -> NextPositions:  # noqa: D102
        change = np.tensordot(q, self.q_weights) + np.tensordot(u, self.u_weights)
        return np.asarray(2.0 * q[:, -1] - q[:, -2] + change + self.offset)


def _features(trajectories: Trajectories, rows: Rows, order: int) -> Float[np.ndarray, "n k"]:
    """[1, now, past as differences to now (nearest first), target], each of q and then of u."""
    q, u = trajectories.q, trajectories.u
    now = np.hstack([q[rows], u[rows]])
    past = [np.hstack([q[rows - lag], u[rows - lag]]) - now for lag in range(1, order + 1)]
    target = q[rows + 1] - (2.0 * q[rows] - q[rows - 1])
    return np.hstack([np.ones((len(rows), 1)), now, *past, target])


def _products(trajectories: Trajectories, rows: Rows, order: int, origin: Origin) -> Products:
    """Sums over ``rows`` of products of the features, less ``origin``."""
    products = np.zeros((len(origin), len(origin)))
    for k in range(0, len(rows), _BLOCK):
        block = _features(trajectories, rows[k : k + _BLOCK], order) - origin
        products += block.T @ block
    return products


def _best(
    fitted: Products, judged: Products, origin: Origin, order: int, nq: int, nu: int
) -> tuple[float, Arx]:
    """The best ridge for one order: its mean squared error where it is judged, and the model."""
    inputs = np.arange(1, 1 + (nq + nu) * (order + 1))
    targets = np.arange(len(origin) - nq, len(origin))
    columns = np.concatenate([[0], inputs, targets])
    some, other = (products[np.ix_(columns, columns)] for products in (fitted, judged))
    mean = some[0] / some[0, 0]
    covariance = some / some[0, 0] - np.outer(mean, mean)
    x, y = slice(1, 1 + len(inputs)), slice(1 + len(inputs), None)
    spread = np.sqrt(np.maximum(np.diag(covariance)[x], 0.0))
    size = np.abs(origin[inputs] + mean[x])
    spread = np.where(spread > 1e-12 * size, spread, np.inf)  # what never changes says nothing
    values, vectors = np.linalg.eigh(covariance[x, x] / np.outer(spread, spread))
    projected = vectors.T @ (covariance[x, y] / spread[:, None])

    def solved(ridge: float) -> tuple[float, float, np.ndarray, np.ndarray]:
        scaled = vectors @ (projected / (np.maximum(values, 0.0) + ridge)[:, None])
        weights = scaled / spread[:, None]
        offset = mean[y] - mean[x] @ weights
        whole = np.vstack([-offset, -weights, np.eye(nq)])  # target minus prediction
        error = float(np.einsum("ij,ik,kj->", whole, other, whole) / (other[0, 0] * nq))
        return error, ridge, weights, offset

    error, ridge, weights, offset = min(map(solved, RIDGES.tolist()), key=lambda one: one[0])
    offset = offset + origin[targets] - origin[inputs] @ weights
    of_samples = weights.reshape(order + 1, nq + nu, nq)  # of differences, now first
    of_samples[0] -= of_samples[1:].sum(axis=0)
    of_samples = of_samples[::-1]
    q_weights, u_weights = of_samples[:, :nq].copy(), of_samples[:, nq:].copy()
    return error, Arx(order, ridge, q_weights, u_weights, offset, f"ridge ARX, order {order}")


# --- Judging on what was left out.


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Root mean square errors on what was left out, over all folds together."""

    name: str
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
        runs = [len(rows) for fold in dataset.units for unit in fold for rows in unit.rows]
        steps = max(1, min(round(HORIZON / dataset.channels.dt), int(np.median(runs)) - lead - 1))
        rows: list[SomeRows] = []
        starts: list[SomeRows] = []
        for fold in dataset.units:
            inner = [run[lead:] for unit in fold for run in unit.rows if len(run) > lead]
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

    def judge(
        self, name: str, ensemble: Ensemble, dataset: Dataset, dynamics: Dynamics
    ) -> HeldOutErrors:
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
        return self._errors(name, ahead, ends)

    def judge_baselines(self, dataset: Dataset) -> tuple[HeldOutErrors, ...]:
        """Standing still, constant velocity, and ridge ARX fitted without the fold it is judged
        on."""
        data, count = self.trajectories, len(dataset.parts)
        models: list[Sequence[Baseline]] = [[StandingStill()] * count, [ConstantVelocity()] * count]
        if not dataset.cut:
            known = np.asarray(data.recordings)
            try:
                arx = []
                for fold in dataset.units:
                    rows = rows_of_fold(fold).astype(np.int64)
                    of = np.searchsorted(data.offsets, rows, side="right") - 1
                    arx.append(Arx.fit(data.select(np.flatnonzero(~np.isin(known, known[of])))))
                models.append(arx)
            except DataError:  # too few or too short for it
                pass
        found = []
        for each in models:
            ahead, ends = [], []
            for model, rows, starts in zip(each, self.rows, self.starts, strict=True):
                ahead.append(one_step(model, data, rows) - data.q[rows + 1])
                end = open_loop(model, data, starts, steps=self.steps)[:, -1]
                ends.append(end - data.q[starts + self.steps])
            found.append(self._errors(type(each[0]).name, ahead, ends))
        return tuple(found)

    def _errors(self, name: str, *parts: Sequence[np.ndarray]) -> HeldOutErrors:
        cut = (cut_errors(np.concatenate(part), self.bound)[0] for part in parts)
        return HeldOutErrors(name, *(np.sqrt((size**2).mean(axis=0)) for size in cut))
