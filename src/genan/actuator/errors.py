"""How wrong networks are on the recordings that each of them left out: one step ahead, and open
loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
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
from genan.actuator.dataset import Dataset
from genan.actuator.ensemble import Ensemble
from genan.actuator.losses import rollout
from genan.actuator.network import Layer, apply
from genan.data import Trajectories
from genan.dynamics import Dynamics
from genan.errors import DataError

HORIZON = 0.5
"""Length of the rollouts that models are chosen by [s]; less where the recordings are shorter."""

MOST_ROWS, MOST_STARTS = 4000, 100
"""Samples and rollouts of each part that are looked at."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Root mean square errors on what was left out, over all parts together."""

    name: str
    one_step: Float[np.ndarray, " nq"]
    """Of the next position [rad or m]."""
    rollout: Float[np.ndarray, " nq"]
    """Of the position at the end of a rollout, cut at the range of the joint [rad or m]."""


@dataclass(frozen=True, eq=False)
class Examination:
    """The samples and rollouts of each part, the same for every model that is judged."""

    rows: tuple[Int[np.ndarray, "_"], ...]
    starts: tuple[Int[np.ndarray, "_"], ...]
    steps: int
    """Of a rollout."""
    bound: Float[np.ndarray, " nq"]
    """Where an error is cut [rad or m]."""

    @classmethod
    def of(cls, dataset: Dataset, *, lead: int) -> "Examination":
        """Samples that have ``lead`` rows of their run before them, so that models of any history
        see them."""
        runs = [len(rows) for part in dataset.units for unit in part for rows in unit.rows]
        steps = max(1, min(round(HORIZON / dataset.channels.dt), int(np.median(runs)) - lead - 1))
        rows, starts = [], []
        for part in dataset.units:
            inner = [run[lead:] for unit in part for run in unit.rows if len(run) > lead]
            rows.append(_thinned(np.concatenate(inner or [np.zeros(0, np.int32)]), MOST_ROWS))
            found = [run[: max(0, len(run) - steps + 1) : steps] for run in inner]
            starts.append(_thinned(np.concatenate(found or [np.zeros(0, np.int32)]), MOST_STARTS))
        if not all(map(len, rows)) or not sum(map(len, starts)):
            raise DataError(
                f"The recordings are too few or too short to be cross-validated: {sum(runs)} samples in "
                f"{len(runs)} stretches, of which {lead} at the beginning of each are needed as history; record more, "
                "or give --choose never."
            )
        return cls(tuple(rows), tuple(starts), steps, dataset.q_seen[1] - dataset.q_seen[0])


def judge_ensemble(
    name: str, ensemble: Ensemble, dataset: Dataset, dynamics: Dynamics, examination: Examination
) -> Errors:
    """Each member on the part that it left out."""
    parts = [dataset.left_out(k) for k in range(ensemble.members)]
    rows, row_used = _stacked([examination.rows[part] for part in parts])
    starts, start_used = _stacked([examination.starts[part] for part in parts])
    samples = dataset.samples
    off = np.asarray(_one_step(ensemble, dynamics, samples.q, samples.u, rows), np.float64)
    end = np.asarray(
        _end(ensemble, dynamics, samples.q, samples.u, starts, examination.steps), np.float64
    )
    away = end - np.asarray(samples.q)[starts + examination.steps]
    return Errors(
        name, _rms(off[row_used], examination.bound), _rms(away[start_used], examination.bound)
    )


def judge_baselines(
    trajectories: Trajectories, dataset: Dataset, examination: Examination
) -> tuple[Errors, ...]:
    """Standing still, constant velocity and ridge ARX, the last fitted without the part that it is
    judged on."""
    found = [
        _judge_baseline([model] * len(dataset.parts), trajectories, examination)
        for model in (StandingStill(), ConstantVelocity())
    ]
    if not dataset.cut:
        known = np.asarray(trajectories.recordings)
        arx = []
        for part in range(len(dataset.parts)):
            rows = np.concatenate([unit.all_rows for unit in dataset.units[part]]).astype(np.int64)
            names = set(known[np.searchsorted(trajectories.offsets, rows, side="right") - 1])
            learnt = np.flatnonzero([name not in names for name in known])
            try:
                arx.append(Arx.fit(trajectories.select(learnt)))
            except DataError:  # too few or too short for it
                return tuple(found)
        found.append(_judge_baseline(arx, trajectories, examination))
    return tuple(found)


def _judge_baseline(
    models: Sequence[Baseline], trajectories: Trajectories, examination: Examination
) -> Errors:
    off, away = [], []
    for model, rows, starts in zip(models, examination.rows, examination.starts, strict=True):
        off.append(one_step(model, trajectories, rows) - trajectories.q[rows.astype(np.int64) + 1])
        if len(starts):
            end = open_loop(model, trajectories, starts, steps=examination.steps)[:, -1]
            away.append(end - trajectories.q[starts.astype(np.int64) + examination.steps])
    bound = examination.bound
    name = models[0].name.split(",")[0]
    return Errors(name, _rms(np.concatenate(off), bound), _rms(np.concatenate(away), bound))


def _rms(
    off: Float[np.ndarray, "n nq"], bound: Float[np.ndarray, " nq"]
) -> Float[np.ndarray, " nq"]:
    size = np.abs(off)
    size = np.where(np.isfinite(size), np.minimum(size, bound), bound)
    return np.asarray(np.sqrt((size**2).mean(axis=0)))


def _thinned(rows: Int[np.ndarray, " n"], most: int) -> Int[np.ndarray, " m"]:
    return rows[:: max(1, -(-len(rows) // most))]


def _stacked(lists: Sequence[np.ndarray]) -> tuple[Int[np.ndarray, "k n"], np.ndarray]:
    """Lists of unequal length as one array, and which of its entries are real."""
    longest = max(1, *map(len, lists))
    filled = np.stack(
        [
            np.resize(rows, longest) if len(rows) else np.full(longest, 64, np.int32)
            for rows in lists
        ]
    )
    return filled, np.arange(longest) < np.array([len(rows) for rows in lists])[:, None]


def _member(ensemble: Ensemble, layers: tuple[Layer, ...]) -> Callable[[Array, Array], Array]:
    contract, scaling = ensemble.contract, ensemble.scaling

    def torque(q: Float[Array, "rows nq"], u: Float[Array, "rows nu"]) -> Float[Array, " nq"]:
        x = (contract.history.features(q, u) - scaling.input_mean) / scaling.input_std
        return (
            apply(layers, x, activation=contract.architecture.activation) * scaling.torque_std
            + scaling.torque_mean
        )

    return torque


@partial(jax.jit, static_argnums=1)
def _one_step(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array, rows: Int[Array, "members n"]
) -> Float[Array, "members n nq"]:
    """Predicted minus recorded next position [rad or m]."""
    history, dt = ensemble.contract.history, dynamics.dt

    def one(layers: tuple[Layer, ...], row: Array) -> Array:
        tau = _member(ensemble, layers)(
            q[row - np.asarray(history.lags)], u[row - np.asarray(history.control_lags)]
        )
        now, before, after = q[row], q[row - 1], q[row + 1]
        # By accelerations: the same number without the rounding of positions in single precision.
        return dt**2 * dynamics.acceleration(now, (now - before) / dt, tau) - (
            (after - now) - (now - before)
        )

    return jax.vmap(lambda layers, rows: jax.vmap(lambda row: one(layers, row))(rows))(
        ensemble.layers, rows
    )


@partial(jax.jit, static_argnums=(1, 5))
def _end(
    ensemble: Ensemble,
    dynamics: Dynamics,
    q: Array,
    u: Array,
    starts: Int[Array, "members s"],
    steps: int,
) -> Float[Array, "members s nq"]:
    """Position after ``steps`` steps along the recorded controls [rad or m]."""
    history = ensemble.contract.history

    def one(layers: tuple[Layer, ...], row: Array) -> Array:
        past = q[row + np.arange(-max(history.span, 1), 1)]
        controls = u[row + np.arange(-history.reach, steps)]
        return rollout(_member(ensemble, layers), dynamics, history, q=past, u=controls)[-1]

    return jax.vmap(lambda layers, rows: jax.vmap(lambda row: one(layers, row))(rows))(
        ensemble.layers, starts
    )
