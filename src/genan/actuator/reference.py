"""Where a model is reliable: what it was trained on, in a form small enough to travel with it.

A new situation of a joint is compared with the training recordings in five respects: its position,
its velocity and the commands that matter to it against the range seen; all of them together, with
the commands' recent change, against the nearest of some representative samples; and the ensemble's
disagreement against the usual one. Each is divided by a level measured on recordings left out, and
the largest is the score: beyond 1 lies 1 % of such a recording.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as tensor_bytes

from genan.actuator.contract import KIND
from genan.actuator.dataset import Rows, padded_blocks, usable_rows
from genan.actuator.ensemble import Ensemble
from genan.data import Trajectories
from genan.errors import ActuatorError
from genan.files import write_atomically

Numbers = Int[np.ndarray, " k"] | None
Columns = Float[np.ndarray, "n F"]
Joints = Float[np.ndarray, "n nq"]
PerColumn = Float[np.ndarray, " F"]
Relevance = Float[np.ndarray, "nq nu"]

(NAME,) = KIND.more
FORMAT = "genan reference 1"
REASONS = ("position", "velocity", "command", "combination", "disagreement")
"""What makes a sample novel, in the order of their numbers."""

BYTES = 96_000  # Room for the representative samples, so that the file stays small.
MOST = 1000  # Representative samples at most.
PART, LEVEL = 0.995, 0.99  # Of held-out samples: below each level, and with a score below 1.
RELEVANT = 0.25  # Commands matter whose swapping changes a torque by this part of the largest.
BLOCK = 1 << 11  # Samples that the model is asked about at once.
_POOL, _CHECKED, _SCORED, _ASKED = 1 << 13, 1 << 15, 1 << 17, 1 << 15
_FOLDS = 5
_ARRAYS = ("points", "middle", "low", "high", "spread", "relevance", "levels")  # In the file.


@dataclass(frozen=True, eq=False)
class Scores:
    """How novel each sample of a recording is to a model."""

    score: Float[np.ndarray, "rows nq"]  # Beyond 1: not to be trusted; NaN: too early to say.
    reason: Int8[np.ndarray, "rows nq"]  # Which of ``REASONS`` the score is due to.


@dataclass(frozen=True, eq=False)
class Reference:
    """What a model was trained on. Columns: q, velocities, u, and its change over the history."""

    digest: str  # Of the model that it belongs to.
    points: Float[np.ndarray, "M F"]  # Representative samples, standardised.
    middle: PerColumn  # Median of each column [rad or m, per s, units of the controls].
    low: PerColumn  # What 0.5 % of the samples are below, in the same units.
    high: PerColumn  # What 0.5 % of the samples are above.
    spread: PerColumn  # Standard deviation of each column.
    relevance: Relevance  # How much each command matters to each joint, the most being 1.
    levels: Float[np.ndarray, "5 nq"]  # What makes each of ``REASONS`` 1.

    @classmethod
    def of(cls, ensemble: Ensemble, data: Trajectories, held_out: Numbers = None) -> "Reference":
        """Learn it from the recording that ``ensemble`` was fitted to. Disagreement is calibrated
        on the trajectories ``held_out``, that were not learnt from; left out: on all."""
        rows = evenly(usable(ensemble, data), _CHECKED)
        x = columns(ensemble, data, rows)
        numbers = np.repeat(data.recording_numbers, data.lengths)[rows]
        of = np.unique(numbers, return_inverse=True)[1]
        stretches = np.arange(len(rows)) * _FOLDS // len(rows)  # where there is one recording
        fold = of % min(_FOLDS, int(of.max()) + 1) if of.any() else stretches
        matters = relevance(ensemble, data, rows)
        levels = np.ones((len(REASONS), data.channels.nq))

        def known(some: Columns) -> "Reference":
            points, ranges = _summary(some, matters)
            return cls(digest_of(ensemble), points, *ranges, relevance=matters, levels=levels)

        apart, order = [], []
        for part in (fold == k for k in range(int(fold.max()) + 1)):
            without = known(x[~part])
            apart.append([*without._beyond(x[part]), without._nearest(x[part])])
            order.append(rows[part])
        situation, at = np.concatenate(apart, axis=1), np.concatenate(order)
        counted = np.ones(len(at), bool)
        if held_out is not None and len(held_out):
            of = np.searchsorted(data.offsets, at, side="right") - 1
            counted = np.isin(of, held_out)
        disagreed = disagreement(ensemble, data, at)
        levels[:4] = np.quantile(situation, PART, axis=1)
        levels[4] = np.quantile(disagreed[counted], PART, axis=0)
        levels[levels <= 0.0] = np.inf
        together = np.max([*(situation / levels[:4, None]), disagreed / levels[4]], axis=0)
        final = np.quantile(together[counted], LEVEL, axis=0)
        return replace(known(x), levels=levels * np.where(final > 0.0, final, 1.0))

    def save(self, folder: Path | str) -> Path:
        """Write ``reference.safetensors`` into the artifact's folder; returns its path."""
        arrays = {name: np.asarray(getattr(self, name), np.float64) for name in _ARRAYS}
        arrays["points"] = self.points.astype(np.float16)
        path = Path(folder) / NAME
        write_atomically(path, tensor_bytes(arrays, metadata={FORMAT: self.digest}))
        return path

    @classmethod
    def load(cls, folder: Path | str) -> "Reference":
        """Read it from the artifact's folder."""
        path = Path(folder) / NAME
        try:
            KIND.signed(path)
            with safe_open(path, framework="np") as file:
                digest = (file.metadata() or {})[FORMAT]
                arrays = {name: file.get_tensor(name).astype(np.float64) for name in _ARRAYS}
            nq, nu = arrays["relevance"].shape
            points = len(arrays["points"]), 2 * (nq + nu)
            expected = [points, *[points[1:]] * 4, (nq, nu), (len(REASONS), nq)]
            if not nq or [array.shape for array in arrays.values()] != expected:
                raise ValueError("its arrays do not fit each other")
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            reason = f"{path} cannot be read as a reference ({type(error).__name__}: {error})"
            again = "'genan evaluate' with the training recording makes it again"
            raise ActuatorError(f"{reason}; {again}.") from None
        return cls(digest, **arrays)

    def belongs_to(self, ensemble: Ensemble) -> bool:
        """Whether it was made for this very model."""
        return self.digest == digest_of(ensemble)

    def score(self, ensemble: Ensemble, trajectories: Trajectories) -> Float[np.ndarray, "rows nq"]:
        """How novel each sample is to each joint; of a known recording, 1 % lies beyond 1."""
        return self.assess(ensemble, trajectories).score

    def assess(self, ensemble: Ensemble, trajectories: Trajectories) -> Scores:
        """The score of each sample and what it is due to; of a long log, partly at some samples."""
        if not self.belongs_to(ensemble):
            raise ActuatorError("The reference is of another model; 'genan evaluate' makes one.")
        ensemble.contract.check_channels(trajectories.channels, whose="the recording")
        every, shape = usable(ensemble, trajectories), trajectories.q.shape
        score, reason = np.full(shape, np.nan), np.zeros(shape, np.int8)
        seen, asked = evenly(every, _SCORED), evenly(every, _ASKED)
        nearest = self._nearest(columns(ensemble, trajectories, seen)) / self.levels[3]
        disagreed = disagreement(ensemble, trajectories, asked) / self.levels[4]
        for k in range(0, len(every), _SCORED):
            rows = every[k : k + _SCORED]
            ranges = self._beyond(columns(ensemble, trajectories, rows)) / self.levels[:3, None]
            last = (np.searchsorted(some, rows, side="right") - 1 for some in (seen, asked))
            parts = np.stack([*ranges, nearest[next(last)], disagreed[next(last)]])
            score[rows] = parts.max(axis=0)
            # What is out of a range is in a new combination too, and the range says more.
            beyond = ranges.max(axis=0) > 1.0
            reason[rows] = np.where(beyond, ranges.argmax(axis=0), parts.argmax(axis=0))
        return Scores(score, reason)

    def _beyond(self, x: Columns) -> Float[np.ndarray, "3 n nq"]:
        """How far position, velocity and command are towards the ends of the range."""
        nq, nu = self.relevance.shape
        off = x - self.middle
        room = np.where(off > 0.0, self.high - self.middle, self.middle - self.low)
        size = np.abs(off) / np.maximum(room, 1e-6 * np.maximum(np.abs(self.middle), 1.0))
        commands, matters = size[:, 2 * nq : 2 * nq + nu], self.relevance >= RELEVANT
        command = np.stack([commands[:, own].max(axis=1) for own in matters], axis=1)
        return np.stack([size[:, :nq], size[:, nq : 2 * nq], command])

    def _nearest(self, x: Columns) -> Joints:
        """Distance to the nearest representative sample in what matters to each joint."""
        nq, nu = self.relevance.shape
        z = ((x - self.middle) / self.spread).astype(np.float32)
        found = np.empty((len(x), nq))
        for j in range(nq):
            controls = np.flatnonzero(self.relevance[j] >= 0.1 * RELEVANT)
            own = np.concatenate([[j, nq + j], 2 * nq + controls, 2 * nq + nu + controls])
            weights = np.concatenate([[1.0, 1.0], *[self.relevance[j, controls]] * 2])
            points = (self.points[:, own] * weights).astype(np.float32)
            mine = z[:, own] * weights.astype(np.float32)
            # |a - b|^2 = |a|^2 - 2 (a b - |b|^2 / 2): one product, a sixth of the time
            table = np.vstack([points.T, -0.5 * (points**2).sum(axis=1)])
            padded = np.column_stack([mine, np.ones(len(x), np.float32)])
            for k in range(0, len(x), BLOCK):
                found[k : k + BLOCK, j] = (padded[k : k + BLOCK] @ table).max(axis=1)
            apart = (mine**2).sum(axis=1) - 2.0 * found[:, j]
            found[:, j] = np.sqrt(np.maximum(apart, 0.0))
        return found


def usable(ensemble: Ensemble, data: Trajectories) -> Rows:
    """Rows that have a whole history behind them."""
    return np.concatenate(usable_rows(data.lengths, ensemble.contract.history, rollout=0))


def digest_of(ensemble: Ensemble) -> str:
    """SHA-256 of contract and arrays of a model."""
    digest = hashlib.sha256(json.dumps(ensemble.contract.settings(), sort_keys=True).encode())
    for array in jax.tree.leaves(ensemble):
        digest.update(np.ascontiguousarray(array, np.float32).data)
    return digest.hexdigest()


def columns(ensemble: Ensemble, data: Trajectories, rows: Rows) -> Columns:
    """Positions, velocities, commands and their change over the history."""
    history = ensemble.contract.history
    now, before = data.u[rows - history.delay], data.u[rows - history.reach]
    return np.hstack([data.q[rows], (data.q[rows] - data.q[rows - 1]) / data.dt, now, now - before])


def evenly(rows: Rows, most: int) -> Int[np.ndarray, " m"]:
    """Every k-th of the rows, so that there are at most ``most``."""
    if not len(rows):
        raise ActuatorError("No trajectory is long enough for the actuators' history.")
    return rows[:: max(1, -(-len(rows) // most))]


def _torques(
    ensemble: Ensemble, data: Trajectories, rows: Rows, u: np.ndarray | None = None
) -> Float[np.ndarray, "2 n nq"]:
    """Mean and deviation of the torque over the members; ``u``: histories instead of recorded."""
    found = np.empty((2, len(rows), data.channels.nq))
    for part, some in padded_blocks(len(rows), BLOCK):
        q, own = ensemble.contract.history.at(data.q, data.u, rows[some])
        parts = (x.astype(np.float32) for x in (q, own if u is None else u[some]))
        block = np.asarray(_mean_and_deviation(ensemble, *parts))
        found[:, part] = block[:, : part.stop - part.start]
    return found


@jax.jit
def _mean_and_deviation(ensemble: Ensemble, q: Array, u: Array) -> Float[Array, "2 n nq"]:
    return jnp.stack([of(ensemble.torques(q, u), axis=0) for of in (jnp.mean, jnp.std)])


def disagreement(ensemble: Ensemble, data: Trajectories, rows: Rows) -> Joints:
    """Standard deviation of each joint's torque over the members [N m or N]."""
    if ensemble.members == 1:
        return np.zeros((len(rows), data.channels.nq))
    return np.nan_to_num(_torques(ensemble, data, rows)[1], nan=np.inf)


def relevance(ensemble: Ensemble, data: Trajectories, rows: Rows) -> Relevance:
    """How much each joint's torque changes when a command's history is swapped."""
    some = evenly(rows, BLOCK)
    u = ensemble.contract.history.at(data.q, data.u, some)[1]
    other = np.random.default_rng(0).permutation(len(some))
    usual = _torques(ensemble, data, some)[0]
    change = np.empty((data.channels.nq, data.channels.nu))
    for control in range(data.channels.nu):
        swapped = u.copy()
        swapped[..., control] = u[other][..., control]
        off = _torques(ensemble, data, some, swapped)[0] - usual
        change[:, control] = np.sqrt(np.mean(off**2, axis=0))
    most = change.max(axis=1, keepdims=True)
    return np.divide(change, most, out=np.ones_like(change), where=most > 0.0)


def _summary(x: Columns, matters: Relevance) -> tuple[np.ndarray, np.ndarray]:
    """Representative samples, medians, both ends of the ranges, and deviations."""
    low, middle, high = np.quantile(x, [1.0 - PART, 0.5, PART], axis=0)
    spread = x.std(axis=0)
    spread = np.where(spread > 1e-9 * np.maximum(np.abs(middle), 1.0), spread, 1.0)
    pool = ((x - middle) / spread)[:: max(1, -(-len(x) // _POOL))].astype(np.float32)
    weight = np.concatenate([np.ones(2 * len(matters)), *[matters.max(axis=0)] * 2])
    most = int(np.clip(BYTES // (2 * x.shape[1]), 50, MOST))
    if len(pool) > most:  # half of them evenly chosen, the others each the farthest from all so far
        weighted = pool * weight.astype(np.float32)
        chosen = np.linspace(0, len(pool) - 1, most // 2).astype(np.int64).tolist()
        apart, squares = np.full(len(pool), np.inf, np.float32), (weighted**2).sum(axis=1)
        for place in range(most):
            if place == len(chosen):
                chosen.append(int(apart.argmax()))
            k = chosen[place]
            apart = np.minimum(apart, squares - 2.0 * (weighted @ weighted[k]) + squares[k])
        pool = pool[np.sort(chosen)]
    return pool.astype(np.float64), np.stack([middle, low, high, spread])
