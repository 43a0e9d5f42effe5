"""How far a model is from a recording: one step ahead at every sample, and open loop from starts.

This is the kernel of every judgement: ``step_blocks`` and ``rollouts`` predict with networks,
``open_loop`` with baselines, and ``cut_errors`` turns differences into errors that one runaway
rollout cannot dominate. Models are chosen by it on the recordings that each network left out
(``HeldOutSamples``); ``genan.evaluation`` adds intervals over whole recordings.

Baselines are models to beat: what costs nothing (stay where you are, keep your speed), and what a
linear prediction gives, without torque or rigid body. Ridge ARX predicts q_{t+1} - (2 q_t -
q_{t-1}), dt^2 times the acceleration, from now and the past as differences to now, standardised.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.actuator.dataset import Dataset, Rows, SomeRows, padded_blocks
from genan.actuator.ensemble import Ensemble
from genan.actuator.training import rollout
from genan.data import Trajectories, split
from genan.dynamics import Dynamics
from genan.errors import DataError

Errors = Float[np.ndarray, "... nq"]
PerJoint = Float[np.ndarray, " nq"]
Positions = Float[np.ndarray, "n rows nq"]
Controls = Float[np.ndarray, "n rows nu"]
NextPositions = Float[np.ndarray, "n nq"]

JobProgress = Callable[[str, int, int], None]  # What is being done, how much of it, of how much.

SAMPLES, ROLLOUTS = 1024, 256  # At once on a CPU: what keeps two cores' caches warm.
HORIZON = 0.5  # Rollouts that models are chosen by [s], unless recordings are shorter.
MOST_ROWS, MOST_STARTS = 4000, 100  # Samples and rollouts of each fold that models are chosen by.
ORDERS = (1, 2, 3, 5, 10)  # Past samples that ridge ARX is tried with.
RIDGES = np.logspace(-12, 0, 13)  # Tried, relative to the variance of a standardised feature.
_BLOCK = 1 << 15


def at_once(count: int) -> int:
    """``count`` on a CPU, more on anything else."""
    return count if jax.default_backend() == "cpu" else 16 * count


StepBlock = tuple[slice, Float[np.ndarray, "models n nq"], Float[np.ndarray, "members n nq"]]
"""Which rows; predicted minus recorded next positions [rad or m] of the mean torque, then of each
member; and the torque of each member [N m or N]."""


def step_blocks(
    ensemble: Ensemble, dynamics: Dynamics, data: Trajectories, rows: Rows
) -> Iterator[StepBlock]:
    """One step ahead from each of ``rows``, block by block. The error is dt^2 (predicted minus
    recorded acceleration): the difference of the positions, without single precision's rounding."""
    history, q, u, dt = ensemble.contract.history, data.q, data.u, data.dt
    for part, places in padded_blocks(len(rows), at_once(SAMPLES)):
        now = rows[places].astype(np.int64)
        qd = (q[now] - q[now - 1]) / dt
        qdd = (q[now + 1] - 2.0 * q[now] + q[now - 1]) / dt**2
        inputs = (x.astype(np.float32) for x in (*history.at(q, u, now), qd, qdd))
        error, torque = (np.asarray(a) for a in _one_step(ensemble, dynamics, *inputs))
        yield part, error[:, : part.stop - part.start], torque[:, : part.stop - part.start]


@partial(jax.jit, static_argnums=1)
def _one_step(ensemble: Ensemble, dynamics: Dynamics, *motion: Array) -> tuple[Array, Array]:
    q, u, qd, qdd = motion
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
    """Positions along given controls [rad or m]; not finite where one ran away. ``q``: the last
    max(span, 1) + 1 positions of each start [rad or m]; ``u``: controls from the oldest of the
    history to the last step [s, reach + R, nu]. With ``members``, each alone is a model, instead of
    the mean torque. ``report`` is called with how many rollouts are done."""
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
    history, model = ensemble.contract.history, ensemble.model()
    run = lambda torque: jax.vmap(lambda q, u: rollout(torque, dynamics, history, q=q, u=u))(q, u)
    alone = lambda layers: run(partial(model, layers))
    return jax.vmap(alone)(ensemble.layers) if members else run(ensemble.torque)[None]


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


def open_loop(baseline: Baseline, data: Trajectories, rows: Rows, *, steps: int) -> Positions:
    """Positions of the ``steps`` samples after each of ``rows`` along the recorded controls [rad or
    m]; what runs away becomes infinite or not a number, which is the caller's to count."""
    past, found = baseline.past, np.empty((len(rows), steps, data.channels.nq))
    for k in range(0, len(rows), _BLOCK):
        at = rows[k : k + _BLOCK, None].astype(np.int64) + np.arange(-past, steps)
        u, q = data.u[at], np.empty((len(at), past + 1 + steps, data.channels.nq))
        q[:, : past + 1] = data.q[at[:, : past + 1]]
        with np.errstate(over="ignore", invalid="ignore"):
            for r in range(steps):
                seen = slice(r, r + past + 1)
                q[:, r + past + 1] = baseline.next_position(q[:, seen], u[:, seen])
        found[k : k + _BLOCK] = q[:, past + 1 :]
    return found


def fit_arx(data: Trajectories, *, orders: Sequence[int] = ORDERS, seed: int = 0) -> Baseline:
    """Ridge ARX: fitted on four fifths of the trajectories, order (of ``orders``, each at least 1,
    where trajectories are long enough) and ridge chosen on the others. ``seed``: of the split."""
    parts, q, u = split(data, seed=seed), data.q, data.u
    roomiest = min(int(data.lengths[part].max()) for part in parts) - 2
    tried = sorted({order for order in orders if 1 <= order <= roomiest})
    if not tried:
        need = f"order {min(orders)} needs trajectories of at least {min(orders) + 2} samples"
        raise DataError(f"An ARX model of {need}; the longest of one part has {roomiest + 2}.")
    first = max(tried)
    runs = [np.arange(a + first, b - 1) for a, b in itertools.pairwise(data.offsets)]
    learnt, judged = (np.concatenate([runs[k] for k in part]) for part in parts)

    def features(rows: Rows) -> np.ndarray:
        """[1, now, past as differences to now (nearest first), target], each of q, then of u."""
        now = np.hstack([q[rows], u[rows]])
        past = [np.hstack([q[rows - lag], u[rows - lag]]) - now for lag in range(1, first + 1)]
        target = q[rows + 1] - (2.0 * q[rows] - q[rows - 1])
        return np.hstack([np.ones((len(rows), 1)), now, *past, target])

    origin = features(learnt[:: max(1, len(learnt) // 1000)]).mean(axis=0)
    origin[0] = 0.0

    def products(rows: Rows) -> np.ndarray:
        blocks = (features(rows[k : k + _BLOCK]) - origin for k in range(0, len(rows), _BLOCK))
        return np.asarray(sum(block.T @ block for block in blocks))

    sums, nq, width = (products(learnt), products(judged)), q.shape[1], q.shape[1] + u.shape[1]
    x, y, past, least = slice(1, -nq), slice(-nq, None), 0, np.inf
    for order in tried:
        inputs = np.arange(1, 1 + width * (order + 1))
        columns = np.concatenate([[0], inputs, np.arange(-nq, 0)])
        some, other = (one[np.ix_(columns, columns)] for one in sums)
        mean = some[0] / some[0, 0]
        covariance = some / some[0, 0] - np.outer(mean, mean)
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
            if not past or error < least:
                least, past, add = error, order, offset + origin[y] - origin[inputs] @ weights
                of_samples = weights.reshape(order + 1, width, nq)
    # Of differences to now, which come first; as of samples, oldest first.
    of_samples[0] -= of_samples[1:].sum(axis=0)
    of_q, of_u = np.split(of_samples[::-1], [nq], axis=1)

    def next_position(q: Positions, u: Controls) -> NextPositions:
        change = np.tensordot(q, of_q) + np.tensordot(u, of_u)
        return np.asarray(2.0 * q[:, -1] - q[:, -2] + change + add)

    return Baseline(f"{ARX}, order {past}", past, next_position)


# --- Judging on what was left out.


HeldOutErrors = Float[np.ndarray, "2 nq"]
"""Root mean square errors on what was left out, over all folds together: of the next position, and
of the position at the end of a rollout, cut at the range of the joint [rad or m]."""


def relative_errors(errors: HeldOutErrors, baselines: Mapping[str, HeldOutErrors]) -> np.ndarray:
    """Means over the joints, relative to constant velocity and to standing still."""
    usual = [baselines[CONSTANT_VELOCITY.name][0], baselines[STANDING_STILL.name][1]]
    return np.asarray((errors / np.maximum(usual, np.finfo(float).tiny)).mean(axis=1))


@dataclass(frozen=True, eq=False)
class HeldOutSamples:
    """The samples and rollouts of each fold, the same for every model that is judged."""

    trajectories: Trajectories
    rows: tuple[SomeRows, ...]
    starts: tuple[SomeRows, ...]
    steps: int  # Of a rollout.
    bound: PerJoint  # Where an error is cut [rad or m].

    @classmethod
    def of(cls, dataset: Dataset, trajectories: Trajectories, *, reach: int) -> "HeldOutSamples":
        """Samples for models whose histories reach up to ``reach`` samples back."""
        lead = reach - max(dataset.history.reach, 1) + 1  # rows of their run before them
        runs = [len(run) for fold in dataset.runs for run in fold]
        steps = max(1, min(round(HORIZON / dataset.channels.dt), int(np.median(runs)) - lead - 1))

        def some(parts: list[SomeRows], most: int) -> SomeRows:
            whole = np.concatenate(parts or [np.zeros(0)]).astype(np.int64)
            return whole[:: max(1, -(-len(whole) // most))]

        inner = [[run[lead:] for run in fold if len(run) > lead] for fold in dataset.runs]
        rows = [some(fold, MOST_ROWS) for fold in inner]
        ends = ([run[: max(0, len(run) - steps + 1) : steps] for run in fold] for fold in inner)
        starts = [some(fold, MOST_STARTS) for fold in ends]
        if not all(map(len, rows)) or not sum(map(len, starts)):
            few = f"{sum(runs)} samples in {len(runs)} stretches, each with a history of {lead}"
            todo = "record more, or give --choose never"
            raise DataError(f"{few}, are too few to be cross-validated; {todo}.")
        bound = dataset.q_seen[1] - dataset.q_seen[0]
        return cls(trajectories, tuple(rows), tuple(starts), steps, bound)

    def judge(self, ensemble: Ensemble, dataset: Dataset, dynamics: Dynamics) -> HeldOutErrors:
        """Each member on the fold that it left out."""
        ahead, ends = [], []
        # NumPy takes the members apart: JAX would compile a program for each slice.
        whole = replace(ensemble, layers=jax.tree.map(np.asarray, ensemble.layers))
        for k in range(ensemble.members):
            member, fold = whole.member(k), dataset.left_out(k)
            rows, starts = self.rows[fold], self.starts[fold]
            blocks = step_blocks(member, dynamics, self.trajectories, rows)
            ahead += [error[0] for _, error, _ in blocks]
            if len(starts):
                # As many at once for every fold, so that nothing is compiled twice.
                filled = np.resize(starts, max(map(len, self.starts)))
                past = recorded_past(member, self.trajectories, filled, steps=self.steps)
                end = rollouts(member, dynamics, *past)[0, : len(starts), -1]
                ends.append(end - self.trajectories.q[starts + self.steps])
        return self._errors(ahead, ends)

    def judge_baselines(self, dataset: Dataset) -> dict[str, HeldOutErrors]:
        """Standing still, constant velocity, and ridge ARX fitted without the fold to judge on."""
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
                ahead.append(open_loop(model, data, rows, steps=1)[:, 0] - data.q[rows + 1])
                end = open_loop(model, data, starts, steps=self.steps)[:, -1]
                ends.append(end - data.q[starts + self.steps])
            found[name] = self._errors(ahead, ends)
        return found

    def _errors(self, *parts: Sequence[np.ndarray]) -> HeldOutErrors:
        cut = (cut_errors(np.concatenate(part), self.bound)[0] for part in parts)
        return np.stack([np.sqrt((size**2).mean(axis=0)) for size in cut])
