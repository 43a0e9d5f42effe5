"""How far a model is from a recording: one step ahead at every sample, and open loop from starts.

This is the kernel of every judgement: ``step_blocks`` and ``rollouts`` predict with networks,
``one_step`` and ``open_loop`` (``genan.actuator.baselines``) with baselines, and ``cut_errors``
turns differences into errors that one runaway rollout cannot dominate. Here, models are chosen by
it on the recordings that each network left out (``judge_ensemble``); ``genan.evaluation`` adds
intervals over whole recordings.

Blocks of fixed size go through one compiled program; the ensemble and the data are its arguments.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.baselines import (
    Arx,
    Baseline,
    ConstantVelocity,
    StandingStill,
    one_step,
    open_loop,
)
from genan.actuator.dataset import Dataset, rows_of_fold
from genan.actuator.ensemble import Ensemble
from genan.actuator.losses import rollout
from genan.data import Trajectories
from genan.dynamics import Dynamics
from genan.errors import DataError

Rows = Int[np.ndarray, " n"]
Bound = Float[np.ndarray, " nq"]

JobProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

SAMPLES, ROLLOUTS = 1024, 256
"""Samples and rollouts at once at most: what keeps two cores' caches warm. A GPU wants more."""
_GPU_TIMES = 16

HORIZON = 0.5
"""Length of the rollouts that models are chosen by [s]; less where the recordings are shorter."""

MOST_ROWS, MOST_STARTS = 4000, 100  # Samples and rollouts of each fold that models are chosen by.


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
        inputs = map(_single, (*history.at(q, u, now), qd, qdd))
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
    """Positions along given controls [models, s, R, nq] [rad or m]; not finite where a rollout ran
    away.

    Args:
        ensemble: the actuators.
        dynamics: the rigid body.
        q: the last max(span, 1) + 1 positions of each start, oldest first [rad or m].
        u: controls from the oldest of the history to the last step [s, reach + R, nu].
        members: each member alone instead of the mean torque (then ``models`` is their number, else
            1).
        report: called after each block with how many rollouts are done.
    """
    total = len(q)
    block = -(-total // -(-total // at_once(ROLLOUTS)))
    run = _member_rollouts if members else _mean_rollouts
    models, steps = ensemble.members if members else 1, u.shape[1] - ensemble.contract.history.reach
    positions = np.empty((models, total, steps, q.shape[2]), np.float32)
    for k in range(0, total, block):
        some, count = np.minimum(np.arange(k, k + block), total - 1), min(block, total - k)
        found = run(ensemble, dynamics, _single(q[some]), _single(u[some]))
        positions[:, k : k + count] = np.asarray(found)[:, :count]
        if report is not None:
            report(k + count)
    return positions


def recorded_past(
    ensemble: Ensemble, trajectories: Trajectories, starts: Int[np.ndarray, " s"], *, steps: int
) -> tuple[Float[np.ndarray, "s past nq"], Float[np.ndarray, "s controls nu"]]:
    """What ``rollouts`` needs to run ``steps`` steps along the recorded controls."""
    history = ensemble.contract.history
    past = starts[:, None] + np.arange(-max(history.span, 1), 1)
    return trajectories.q[past], trajectories.u[starts[:, None] + np.arange(-history.reach, steps)]


@partial(jax.jit, static_argnums=1)
def _mean_rollouts(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array
) -> Float[Array, "1 s R nq"]:
    return _run(ensemble, dynamics, q, u)[None]


@partial(jax.jit, static_argnums=1)
def _member_rollouts(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array
) -> Float[Array, "members s R nq"]:
    def one(layers: object) -> Array:
        alone = jax.tree.map(lambda array: array[None], layers)
        return _run(eqx.tree_at(lambda whole: whole.layers, ensemble, alone), dynamics, q, u)

    return jax.vmap(one)(ensemble.layers)


def _run(ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array) -> Float[Array, "s R nq"]:
    history = ensemble.contract.history
    return jax.vmap(lambda q, u: rollout(ensemble.torque, dynamics, history, q=q, u=u))(q, u)


def _single(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float32)


def cut_errors(
    difference: Float[np.ndarray, "... nq"], bound: Bound
) -> tuple[Float[np.ndarray, "... nq"], np.ndarray]:
    """Absolute errors cut at ``bound`` [rad or m], and which of [...] passed it or are NaN."""
    size = np.abs(np.asarray(difference, np.float64))
    size[~np.isfinite(size)] = np.inf
    return np.minimum(size, bound), np.asarray((size > bound).any(axis=-1))


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Root mean square errors on what was left out, over all folds together."""

    name: str
    one_step: Bound  # Of the next position [rad or m].
    rollout: Bound
    """Of the position at the end of a rollout, cut at the range of the joint [rad or m]."""

    @classmethod
    def of(
        cls,
        name: str,
        ahead: Sequence[Float[np.ndarray, "_ nq"]],
        ends: Sequence[Float[np.ndarray, "_ nq"]],
        bound: Bound,
    ) -> "HeldOutErrors":
        """From the differences in each fold."""
        cut = (cut_errors(np.concatenate(parts), bound)[0] for parts in (ahead, ends))
        return cls(name, *(np.sqrt((size**2).mean(axis=0)) for size in cut))


@dataclass(frozen=True, eq=False)
class HeldOutSamples:
    """The samples and rollouts of each fold, the same for every model that is judged."""

    rows: tuple[Int[np.ndarray, "_"], ...]
    starts: tuple[Int[np.ndarray, "_"], ...]
    steps: int  # Of a rollout.
    bound: Bound  # Where an error is cut [rad or m].

    @classmethod
    def of(cls, dataset: Dataset, *, lead: int) -> "HeldOutSamples":
        """Samples with ``lead`` rows of their run before them, for models of any history."""
        runs = [len(rows) for fold in dataset.units for unit in fold for rows in unit.rows]
        steps = max(1, min(round(HORIZON / dataset.channels.dt), int(np.median(runs)) - lead - 1))
        rows, starts = [], []
        for fold in dataset.units:
            inner = [run[lead:] for unit in fold for run in unit.rows if len(run) > lead]
            rows.append(_thinned(inner, MOST_ROWS))
            found = [run[: max(0, len(run) - steps + 1) : steps] for run in inner]
            starts.append(_thinned(found, MOST_STARTS))
        if not all(map(len, rows)) or not sum(map(len, starts)):
            raise DataError(
                f"The recordings are too few or too short to be cross-validated: {sum(runs)} "
                f"samples in {len(runs)} stretches, of which {lead} at the beginning of each are "
                "needed as history; record more, or give --choose never."
            )
        return cls(tuple(rows), tuple(starts), steps, dataset.q_seen[1] - dataset.q_seen[0])


def _thinned(runs: Sequence[Int[np.ndarray, "_"]], most: int) -> Int[np.ndarray, " m"]:
    rows = np.concatenate(runs or [np.zeros(0)]).astype(np.int64)
    return rows[:: max(1, -(-len(rows) // most))]


def judge_ensemble(
    name: str,
    ensemble: Ensemble,
    dataset: Dataset,
    dynamics: Dynamics,
    trajectories: Trajectories,
    held_out: HeldOutSamples,
) -> HeldOutErrors:
    """Each member on the fold that it left out."""
    ahead, ends = [], []
    # NumPy takes the members apart: JAX would compile a program for each slice.
    layers = jax.tree.map(np.asarray, ensemble.layers)
    whole = eqx.tree_at(lambda one: one.layers, ensemble, layers)
    for k in range(ensemble.members):
        member, fold = whole.member(k), dataset.left_out(k)
        rows, starts = held_out.rows[fold], held_out.starts[fold]
        ahead += [block.error[0] for block in step_blocks(member, dynamics, trajectories, rows)]
        if len(starts):
            # As many at once for every fold, so that nothing is compiled twice.
            filled = np.resize(starts, max(map(len, held_out.starts)))
            past = recorded_past(member, trajectories, filled, steps=held_out.steps)
            end = rollouts(member, dynamics, *past)[0, : len(starts), -1]
            ends.append(end - trajectories.q[starts + held_out.steps])
    return HeldOutErrors.of(name, ahead, ends, held_out.bound)


def judge_baselines(
    trajectories: Trajectories, dataset: Dataset, held_out: HeldOutSamples
) -> tuple[HeldOutErrors, ...]:
    """Standing still, constant velocity and ridge ARX, fitted without the fold it is judged on."""
    count = len(dataset.parts)
    models: list[Sequence[Baseline]] = [[StandingStill()] * count, [ConstantVelocity()] * count]
    if not dataset.cut:
        known = np.asarray(trajectories.recordings)
        try:
            arx = []
            for fold in dataset.units:
                rows = rows_of_fold(fold).astype(np.int64)
                of = np.searchsorted(trajectories.offsets, rows, side="right") - 1
                arx.append(Arx.fit(trajectories.select(np.flatnonzero(~np.isin(known, known[of])))))
            models.append(arx)
        except DataError:  # too few or too short for it
            pass
    return tuple(_judge_baseline(each, trajectories, held_out) for each in models)


def _judge_baseline(
    models: Sequence[Baseline], trajectories: Trajectories, held_out: HeldOutSamples
) -> HeldOutErrors:
    ahead, ends = [], []
    for model, rows, starts in zip(models, held_out.rows, held_out.starts, strict=True):
        ahead.append(one_step(model, trajectories, rows) - trajectories.q[rows + 1])
        if len(starts):
            end = open_loop(model, trajectories, starts, steps=held_out.steps)[:, -1]
            ends.append(end - trajectories.q[starts + held_out.steps])
    return HeldOutErrors.of(models[0].name.split(",")[0], ahead, ends, held_out.bound)
