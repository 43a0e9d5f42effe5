"""Situations of a recording, as a model meets them: what its joints do and are told, and what the
model answers.
"""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as tensor_bytes

from genan.actuator.ensemble import Ensemble
from genan.data import Trajectories
from genan.errors import ActuatorError
from genan.files import write_atomically

BLOCK = 1 << 11
"""Samples that the model is asked about at once."""
_ROOM = 1 << 17


def usable(ensemble: Ensemble, trajectories: Trajectories) -> Int[np.ndarray, " n"]:
    """Rows that have a whole history behind them."""
    first = max(ensemble.contract.history.reach, 1)
    age = np.arange(len(trajectories.q)) - np.repeat(
        trajectories.offsets[:-1], trajectories.lengths
    )
    return np.flatnonzero(age >= first)


def digest_of(ensemble: Ensemble) -> str:
    """SHA-256 of contract and arrays of a model."""
    digest = hashlib.sha256(json.dumps(ensemble.contract.settings(), sort_keys=True).encode())
    for array in jax.tree.leaves(ensemble):
        digest.update(np.ascontiguousarray(array, np.float32).data)
    return digest.hexdigest()


def columns(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n F"]:
    """Positions, velocities, commands and their change over the history."""
    history = ensemble.contract.history
    now, before = data.u[rows - history.delay], data.u[rows - history.reach]
    return np.hstack([data.q[rows], (data.q[rows] - data.q[rows - 1]) / data.dt, now, now - before])


def evenly(rows: Int[np.ndarray, " n"], most: int) -> Int[np.ndarray, " m"]:
    """Every k-th of the rows, so that there are at most ``most``."""
    if not len(rows):
        raise ActuatorError(
            "No trajectory is long enough for the actuators' history, so nothing can be compared."
        )
    return rows[:: max(1, -(-len(rows) // most))]


def histories(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n rows nq"], Float[np.ndarray, "n rows nu"]]:
    """What the model sees at each of the rows."""
    history = ensemble.contract.history
    q, u = (rows[:, None] - np.asarray(lags) for lags in (history.lags, history.control_lags))
    return data.q[q].astype(np.float32), data.u[u].astype(np.float32)


def torques(
    ensemble: Ensemble, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
) -> Float[np.ndarray, "2 n nq"]:
    """Mean and standard deviation of the torque over the members, in blocks of one size."""
    found = np.empty((2, len(q), q.shape[-1]))
    for k in range(0, len(q), BLOCK):
        some = np.minimum(np.arange(k, k + BLOCK), len(q) - 1)
        found[:, k : k + BLOCK] = np.asarray(_mean_and_deviation(ensemble, q[some], u[some]))[
            :, : len(q) - k
        ]
    return found


@jax.jit
def _mean_and_deviation(
    ensemble: Ensemble, q: Shaped[Array, "..."], u: Shaped[Array, "..."]
) -> Float[Array, "2 n nq"]:
    each = ensemble.torques(q, u)
    return jnp.stack([jnp.mean(each, axis=0), jnp.std(each, axis=0)])


def disagreement(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n nq"]:
    """Standard deviation of each joint's torque over the members [N m or N]; zero for one
    network."""
    if ensemble.members == 1:
        return np.zeros((len(rows), data.channels.nq))
    found = [
        torques(ensemble, *histories(ensemble, data, rows[k : k + _ROOM]))[1]
        for k in range(0, len(rows), _ROOM)
    ]
    return np.nan_to_num(np.concatenate(found), nan=np.inf)


def relevance(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "nq nu"]:
    """How much the torque of each joint changes when a command's history is swapped for another
    sample's."""
    q, u = histories(ensemble, data, evenly(rows, BLOCK))
    other = np.random.default_rng(0).permutation(len(q))
    usual = torques(ensemble, q, u)[0]
    change = np.empty((data.channels.nq, data.channels.nu))
    for control in range(data.channels.nu):
        swapped = u.copy()
        swapped[..., control] = u[other][..., control]
        change[:, control] = np.sqrt(
            np.mean((torques(ensemble, q, swapped)[0] - usual) ** 2, axis=0)
        )
    most = change.max(axis=1, keepdims=True)
    return np.divide(change, most, out=np.ones_like(change), where=most > 0.0)


# --- Where a model knows its way: what it was trained on, in a form small enough to travel with

NAME = "reference.safetensors"
FORMAT = "genan reference 1"
REASONS = ("position", "velocity", "command", "combination", "disagreement")
"""What makes a sample novel, in the order of their numbers."""

BYTES = 96_000
"""Room for the representative samples, so that the file stays small."""
MOST = 1000
"""Representative samples at most."""
PART, LEVEL = 0.995, 0.99
"""Part of the held-out samples below each level, and of those with a score below 1."""
RELEVANT = 0.25
"""A command matters to a joint when swapping it changes the torque by this part of what the most
important one does."""
_POOL, _CHECKED, _SCORED, _ASKED = 1 << 13, 1 << 15, 1 << 17, 1 << 15
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Scores:
    """How novel each sample of a recording is to a model."""

    score: Float[np.ndarray, "rows nq"]
    """Beyond 1 the model should not be trusted; not a number where a trajectory is too young to
    tell."""
    reason: Int8[np.ndarray, "rows nq"]
    """Which of ``REASONS`` the score is due to."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What a model was trained on. The columns are q, their velocities, u, and the change of u over
    the history."""

    digest: str
    """Of the model that it belongs to."""
    points: Float[np.ndarray, "M F"]
    """Representative samples, standardised."""
    middle: Float[np.ndarray, " F"]
    """Median of each column [rad or m, per s, units of the controls]."""
    low: Float[np.ndarray, " F"]
    """What 0.5 % of the samples are below, in the same units."""
    high: Float[np.ndarray, " F"]
    """What 0.5 % of the samples are above."""
    spread: Float[np.ndarray, " F"]
    """Standard deviation of each column."""
    relevance: Float[np.ndarray, "nq nu"]
    """How much each command matters to each joint, relative to the one that matters most."""
    levels: Float[np.ndarray, "5 nq"]
    """What makes each of ``REASONS`` 1."""

    @classmethod
    def of(
        cls,
        ensemble: Ensemble,
        trajectories: Trajectories,
        *,
        held_out: Int[np.ndarray, " k"] | None = None,
    ) -> "Reference":
        """Learn it from the recording that ``ensemble`` was fitted to.

        Args:
            ensemble: the actuators.
            trajectories: their training recording.
            held_out: trajectories in it that were not learnt from; disagreement is calibrated on
                these. Left out: all.
        """
        rows = evenly(usable(ensemble, trajectories), _CHECKED)
        x, owner = columns(ensemble, trajectories, rows), _parts(trajectories, rows)
        matters = relevance(ensemble, trajectories, rows)
        most = int(np.clip(BYTES // (2 * x.shape[1]), 50, MOST))
        levels = np.ones((len(REASONS), trajectories.channels.nq))

        def known(some: Float[np.ndarray, "n F"]) -> "Reference":
            return cls(digest_of(ensemble), *_summary(some, matters, most), matters, levels)

        whole, parts = known(x), [owner == part for part in range(int(owner.max()) + 1)]
        apart = np.concatenate([known(x[~part])._situation(x[part]) for part in parts], axis=1)
        order = np.concatenate([rows[part] for part in parts])
        counted = np.ones(len(order), bool)
        if held_out is not None and len(held_out):
            counted = np.isin(
                np.searchsorted(trajectories.offsets, order, side="right") - 1, held_out
            )
        disagreed = disagreement(ensemble, trajectories, order)
        levels[:4] = np.quantile(apart, PART, axis=1)
        levels[4] = np.quantile(disagreed[counted], PART, axis=0)
        levels[levels <= 0.0] = np.inf
        together = np.max([*(apart / levels[:4, None]), disagreed / levels[4]], axis=0)
        final = np.quantile(together[counted], LEVEL, axis=0)
        return replace(whole, levels=levels * np.where(final > 0.0, final, 1.0))

    def save(self, folder: Path | str) -> Path:
        """Write ``reference.safetensors`` into the artifact's folder; returns its path."""
        arrays = {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)[1:]}
        arrays = {
            name: array.astype(np.float16 if name == "points" else np.float64)
            for name, array in arrays.items()
        }
        path = Path(folder) / NAME
        write_atomically(path, tensor_bytes(arrays, metadata={FORMAT: self.digest}))
        return path

    @classmethod
    def load(cls, folder: Path | str) -> "Reference":
        """Read it from the artifact's folder."""
        path = Path(folder) / NAME
        again = "'genan evaluate' with the training recording makes it anew"
        if not path.exists():
            raise ActuatorError(f"{path} is not there; {again}.")
        try:
            with safe_open(path, framework="np") as file:
                about = file.metadata() or {}
                arrays = {name: file.get_tensor(name).astype(np.float64) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise ActuatorError(f"{path} cannot be read ({error}); {again}.") from None
        named = [field.name for field in fields(cls)[1:]]
        if FORMAT not in about or any(name not in arrays for name in named):
            raise ActuatorError(f"{path} is not a reference that this genan reads; {again}.")
        nq, nu = arrays["relevance"].shape if arrays["relevance"].ndim == 2 else (0, 0)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("middle", "low", "high", "spread"), (2 * (nq + nu),)
        )
        shapes |= {"levels": (len(REASONS), nq), "points": (len(arrays["points"]), 2 * (nq + nu))}
        if any(arrays[name].shape != shape for name, shape in shapes.items()) or nq == 0:
            raise ActuatorError(f"{path} holds arrays that do not fit each other; {again}.")
        return cls(about[FORMAT], **{name: arrays[name] for name in named})

    def belongs_to(self, ensemble: Ensemble) -> bool:
        """Whether it was made for this very model."""
        return self.digest == digest_of(ensemble)

    def score(self, ensemble: Ensemble, trajectories: Trajectories) -> Float[np.ndarray, "rows nq"]:
        """How novel each sample is to each joint; beyond 1 lies 1 % of a recording like those
        trained on."""
        return self.assess(ensemble, trajectories).score

    def assess(self, ensemble: Ensemble, trajectories: Trajectories) -> Scores:
        """The score of each sample and what it is due to; the costlier parts at evenly chosen
        samples of a long log."""
        if not self.belongs_to(ensemble):
            raise ActuatorError(
                "The reference belongs to another model; 'genan evaluate' makes it anew."
            )
        ensemble.contract.check_channels(trajectories.channels, whose="the recording")
        nq, every = trajectories.channels.nq, usable(ensemble, trajectories)
        score = np.full((len(trajectories.q), nq), np.nan)
        reason = np.zeros((len(trajectories.q), nq), np.int8)
        seen, asked = evenly(every, _SCORED), evenly(every, _ASKED)
        nearest = self._nearest(columns(ensemble, trajectories, seen)) / self.levels[3]
        disagreed = disagreement(ensemble, trajectories, asked) / self.levels[4]
        for k in range(0, len(every), _SCORED):
            rows = every[k : k + _SCORED]
            ranges = self._beyond(columns(ensemble, trajectories, rows)) / self.levels[:3, None]
            held = nearest[_last(seen, rows)], disagreed[_last(asked, rows)]
            parts = np.stack([*ranges, *held])
            score[rows] = parts.max(axis=0)
            # What is out of a range is in a new combination too, and the range says more.
            reason[rows] = np.where(
                ranges.max(axis=0) > 1.0, ranges.argmax(axis=0), parts.argmax(axis=0)
            )
        return Scores(score, reason)

    def _situation(self, x: Float[np.ndarray, "n F"]) -> Float[np.ndarray, "4 n nq"]:
        """Position, velocity, command and combination of samples, before their levels."""
        return np.concatenate([self._beyond(x), self._nearest(x)[None]])

    def _beyond(self, x: Float[np.ndarray, "n F"]) -> Float[np.ndarray, "3 n nq"]:
        """How far towards the ends of the range seen (and beyond: over 1) position, velocity and
        command are."""
        nq, nu = self.relevance.shape
        off = x - self.middle
        room = np.where(off > 0.0, self.high - self.middle, self.middle - self.low)
        size = np.abs(off) / np.maximum(room, 1e-6 * np.maximum(np.abs(self.middle), 1.0))
        command = np.stack(
            [size[:, 2 * nq : 2 * nq + nu][:, matters].max(axis=1) for matters in self._matters],
            axis=1,
        )
        return np.stack([size[:, :nq], size[:, nq : 2 * nq], command])

    @property
    def _matters(self) -> Bool[np.ndarray, "nq nu"]:
        return self.relevance >= RELEVANT

    def _nearest(self, x: Float[np.ndarray, "n F"]) -> Float[np.ndarray, "n nq"]:
        """Distance to the nearest representative sample in what matters to each joint."""
        nq = len(self.relevance)
        z = ((x - self.middle) / self.spread).astype(np.float32)
        found = np.empty((len(x), nq))
        for j in range(nq):
            own, weights = _own(j, self.relevance)
            points = (self.points[:, own] * weights).astype(np.float32)
            mine, squares = z[:, own] * weights.astype(np.float32), (points**2).sum(axis=1)
            for k in range(0, len(x), BLOCK):
                block = mine[k : k + BLOCK]
                apart = (squares - 2.0 * (block @ points.T)).min(axis=1) + (block**2).sum(axis=1)
                found[k : k + BLOCK, j] = np.sqrt(np.maximum(apart, 0.0))
        return found


def _own(
    joint: int, relevance: Float[np.ndarray, "nq nu"]
) -> tuple[Int[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """Columns that make up a joint's situation, and the weight of each."""
    nq, nu = relevance.shape
    controls = np.flatnonzero(relevance[joint] >= 0.1 * RELEVANT)
    own = np.concatenate([[joint, nq + joint], 2 * nq + controls, 2 * nq + nu + controls])
    return own, np.concatenate([[1.0, 1.0], *[relevance[joint, controls]] * 2])


def _last(some: Int[np.ndarray, " m"], rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Place in ``some`` of the last one up to each of ``rows``."""
    return np.searchsorted(some, rows, side="right") - 1


def _parts(data: Trajectories, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Which part of the data each row belongs to: whole recordings, or pieces of the only one."""
    of = np.repeat(data.recording_numbers, data.lengths)[rows]
    if of.max() == of.min():
        return np.arange(len(rows)) * _FOLDS // len(rows)
    present = np.unique(of)
    return np.searchsorted(present, of) % min(_FOLDS, len(present))


_Row = Float[np.ndarray, " F"]


def _summary(
    x: Float[np.ndarray, "n F"], matters: Float[np.ndarray, "nq nu"], most: int
) -> tuple[Float[np.ndarray, "M F"], _Row, _Row, _Row, _Row]:
    """Representative samples, medians, both ends of the ranges, and deviations."""
    low, middle, high = np.quantile(x, [1.0 - PART, 0.5, PART], axis=0)
    spread = x.std(axis=0)
    spread = np.where(spread > 1e-9 * np.maximum(np.abs(middle), 1.0), spread, 1.0)
    pool = ((x - middle) / spread)[:: max(1, -(-len(x) // _POOL))].astype(np.float32)
    nq, weight = len(matters), matters.max(axis=0)
    weighted = pool * np.concatenate([np.ones(2 * nq), weight, weight]).astype(np.float32)
    return _representative(pool, weighted, most).astype(np.float64), middle, low, high, spread


def _representative(
    pool: Float[np.ndarray, "n F"], weighted: Float[np.ndarray, "n F"], most: int
) -> Float[np.ndarray, "M F"]:
    """Half of them evenly chosen, the others each the farthest from all so far, so that the rare is
    there too."""
    if len(pool) <= most:
        return pool
    chosen = np.linspace(0, len(pool) - 1, most // 2).astype(np.int64).tolist()
    apart = np.full(len(pool), np.inf, np.float32)
    squares = (weighted**2).sum(axis=1)
    for k in chosen:
        apart = np.minimum(apart, squares - 2.0 * (weighted @ weighted[k]) + squares[k])
    while len(chosen) < most:
        k = int(apart.argmax())
        chosen.append(k)
        apart = np.minimum(apart, squares - 2.0 * (weighted @ weighted[k]) + squares[k])
    return pool[np.sort(chosen)]
