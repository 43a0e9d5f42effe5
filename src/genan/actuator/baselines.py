"""Models to beat: what costs nothing (stay where you are, keep your speed), and what a linear
prediction gives. Each predicts the next position from the last ones, without torque or rigid body.

Ridge ARX predicts q_{t+1} - (2 q_t - q_{t-1}), dt^2 times the acceleration. Its features are those
of the network: now, and the past as differences to now, all standardised. Order (past samples) and
ridge are chosen by the one-step error on trajectories that were not fitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from genan.data import Trajectories, split
from genan.errors import DataError

Rows = Int[np.ndarray, " n"]
Products = Float[np.ndarray, "k k"]
Origin = Float[np.ndarray, " k"]
NextPositions = Float[np.ndarray, "n nq"]

ORDERS = (1, 2, 3, 5, 10)  # Past samples that are tried.

RIDGES = np.logspace(-12, 0, 13)
"""Ridges that are tried, relative to the variance of a standardised feature."""

_BLOCK = 1 << 15

Positions = Float[np.ndarray, "n rows nq"]
Controls = Float[np.ndarray, "n rows nu"]


@runtime_checkable
class Baseline(Protocol):
    """A fitted model that predicts positions directly, with no torque and no rigid body in it."""

    @property
    def name(self) -> str:
        """What to call it in a table."""
        ...

    @property
    def past(self) -> int:
        """Samples before the present one that it needs, at least 1."""
        ...

    def next_position(self, q: Positions, u: Controls) -> NextPositions:
        """The position one sample after the last of ``q`` [rad or m].

        Args:
            q: the last ``past`` + 1 positions, oldest first [n, past + 1, nq] [rad or m].
            u: the controls at the same samples [n, past + 1, nu].
        """
        ...


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
    """Positions of the ``steps`` samples after each of ``rows`` along the recorded controls [n, R,
    nq] [rad or m].

    What runs away becomes infinite or not a number; it is the caller's to count.
    """
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


@dataclass(frozen=True)
class StandingStill:
    """The robot does not move any more."""

    name: str = "standing still"
    past: int = 1

    def next_position(self, q: Positions, u: Controls) -> NextPositions:  # noqa: D102
        return np.asarray(q[:, -1])


@dataclass(frozen=True)
class ConstantVelocity:
    """The robot continues at the speed of its last two positions."""

    name: str = "constant velocity"
    past: int = 1

    def next_position(self, q: Positions, u: Controls) -> NextPositions:  # noqa: D102
        return np.asarray(2.0 * q[:, -1] - q[:, -2])


@dataclass(frozen=True, eq=False)
class Arx:
    """A fitted ARX model; one matrix for each of the last samples."""

    order: int  # Past samples besides the present one, n.
    ridge: float  # Weight of the penalty, relative to the variance of a standardised feature.
    q_weights: Float[np.ndarray, "rows nq nq"]
    """What each position adds to the target, oldest first [n + 1, nq, nq]."""
    u_weights: Float[np.ndarray, "rows nu nq"]
    """What each control adds to the target, oldest first [n + 1, nu, nq]."""
    offset: Float[np.ndarray, " nq"]  # [rad or m]
    name: str = "ridge ARX"

    @property
    def past(self) -> int:
        """Samples before the present one that it needs."""
        return self.order

    @classmethod
    def fit(
        cls, trajectories: Trajectories, *, orders: Sequence[int] = ORDERS, seed: int = 0
    ) -> "Arx":
        """Fit on four fifths of the trajectories, choose order and ridge on the others.

        Args:
            trajectories: the training recording, at least two trajectories.
            orders: past samples to try, each at least 1; those that no trajectory is long enough
                for are left out.
            seed: of the split.
        """
        parts = split(trajectories, seed=seed)
        roomiest = min(int(trajectories.lengths[part].max()) for part in parts) - 2
        tried = sorted({order for order in orders if 1 <= order <= roomiest})
        if not tried:
            raise DataError(
                f"An ARX model of order {min(orders)} needs trajectories of at least "
                f"{min(orders) + 2} samples to fit and to choose by; the longest of one part has "
                f"{roomiest + 2}."
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
        count = len(q)
        change = q.reshape(count, -1) @ self.q_weights.reshape(-1, q.shape[-1])
        change += u.reshape(count, -1) @ self.u_weights.reshape(-1, q.shape[-1])
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
