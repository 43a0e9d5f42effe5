"""What a baseline is: the next position from the last ones. One step ahead, or open loop for
many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from genan.data import Trajectories, split
from genan.errors import DataError

#: Rows that are predicted at once.
_BLOCK = 1 << 15


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

    def next_position(
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        """The position one sample after the last of ``q`` [rad or m].

        Args:
            q: the last ``past`` + 1 positions, oldest first [n, past + 1, nq] [rad or m].
            u: the controls at the same samples [n, past + 1, nu].
        """
        ...


def one_step(
    baseline: Baseline, trajectories: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n nq"]:
    """Predicted positions one sample after each of ``rows`` [n, nq] [rad or m]; each has ``past``
    rows before it."""
    lags = np.arange(-baseline.past, 1)
    predicted = np.empty((len(rows), trajectories.channels.nq))
    for k in range(0, len(rows), _BLOCK):
        at = rows[k : k + _BLOCK, None].astype(np.int64) + lags
        predicted[k : k + _BLOCK] = baseline.next_position(trajectories.q[at], trajectories.u[at])
    return predicted


def open_loop(
    baseline: Baseline, trajectories: Trajectories, rows: Int[np.ndarray, " n"], *, steps: int
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


# --- Predictions that need no model: stay where you are, or keep your speed.


@dataclass(frozen=True)
class StandingStill:
    """The robot does not move any more."""

    name: str = "standing still"
    past: int = 1

    def next_position(  # noqa: D102
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        return np.asarray(q[:, -1])


@dataclass(frozen=True)
class ConstantVelocity:
    """The robot goes on at the speed of its last two positions."""

    name: str = "constant velocity"
    past: int = 1

    def next_position(  # noqa: D102
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        return np.asarray(2.0 * q[:, -1] - q[:, -2])


# --- Ridge ARX: a linear prediction of the next change of velocity from the last positions and

#: Past samples that are tried.
ORDERS = (1, 2, 3, 5, 10)

#: Ridges that are tried, relative to the variance of a standardised feature.
RIDGES = np.logspace(-12, 0, 13)

_BLOCK = 1 << 15


@dataclass(frozen=True, eq=False)
class Arx:
    """A fitted ARX model; one matrix for each of the last samples."""

    order: int
    """Past samples besides the present one, n."""
    ridge: float
    """Weight of the penalty, relative to the variance of a standardised feature."""
    q_weights: Float[np.ndarray, "rows nq nq"]
    """What each position adds to the target, oldest first [n + 1, nq, nq]."""
    u_weights: Float[np.ndarray, "rows nu nq"]
    """What each control adds to the target, oldest first [n + 1, nu, nq]."""
    offset: Float[np.ndarray, " nq"]
    """[rad or m]"""
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
                f"An ARX model of order {min(orders)} needs trajectories of at least {min(orders) + 2} samples to fit "
                f"and to choose by; the longest of one part has {roomiest + 2}."
            )
        fitted, chosen_by = (_Moments.of(trajectories, part, tried[-1]) for part in parts)
        return min(
            (_best(fitted, chosen_by, order) for order in tried), key=lambda found: found[0]
        )[1]

    def next_position(  # noqa: D102
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        count = len(q)
        change = q.reshape(count, -1) @ self.q_weights.reshape(-1, q.shape[-1])
        change += u.reshape(count, -1) @ self.u_weights.reshape(-1, q.shape[-1])
        return np.asarray(2.0 * q[:, -1] - q[:, -2] + change + self.offset)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums of products over samples, of [1, features, targets] less an origin; features as in
    ``_features``."""

    products: Float[np.ndarray, "k k"]
    origin: Float[np.ndarray, " k"]
    nq: int
    nu: int

    @classmethod
    def of(
        cls, trajectories: Trajectories, numbers: Int[np.ndarray, " m"], order: int
    ) -> "_Moments":
        """Over the samples of the trajectories ``numbers`` that have ``order`` rows before and one
        after them."""
        starts, ends = trajectories.offsets[numbers] + order, trajectories.offsets[numbers + 1] - 1
        rows = np.concatenate(
            [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        )
        nq, nu = trajectories.channels.nq, trajectories.channels.nu
        origin = _features(trajectories, rows[:: max(1, len(rows) // 1000)], order).mean(axis=0)
        origin[0] = 0.0
        products = np.zeros((len(origin), len(origin)))
        for k in range(0, len(rows), _BLOCK):
            block = _features(trajectories, rows[k : k + _BLOCK], order) - origin
            products += block.T @ block
        return cls(products, origin, nq, nu)

    def select(
        self, columns: Int[np.ndarray, " c"], origin: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, "c c"]:
        """Products of some columns, about ``origin`` instead of the own one."""
        shift = np.eye(len(self.origin))
        shift[0] += self.origin - origin
        return (shift.T @ self.products @ shift)[np.ix_(columns, columns)]


def _features(
    trajectories: Trajectories, rows: Int[np.ndarray, " n"], order: int
) -> Float[np.ndarray, "n k"]:
    """[1, now, past as differences to now (nearest first), target]; now and past are q and u side
    by side."""
    q, u = trajectories.q, trajectories.u
    now = np.hstack([q[rows], u[rows]])
    past = [np.hstack([q[rows - lag], u[rows - lag]]) - now for lag in range(1, order + 1)]
    target = q[rows + 1] - (2.0 * q[rows] - q[rows - 1])
    return np.hstack([np.ones((len(rows), 1)), now, *past, target])


def _best(fitted: _Moments, chosen_by: _Moments, order: int) -> tuple[float, Arx]:
    """The best ridge for one order: its mean squared error where it is chosen by, and the model."""
    nq, width = fitted.nq, fitted.nq + fitted.nu
    inputs = np.arange(1, 1 + width * (order + 1))
    columns = np.concatenate([[0], inputs, np.arange(len(fitted.origin) - nq, len(fitted.origin))])
    some, other = fitted.select(columns, fitted.origin), chosen_by.select(columns, fitted.origin)
    count = some[0, 0]
    mean = some[0] / count
    covariance = some / count - np.outer(mean, mean)
    x, y = slice(1, 1 + len(inputs)), slice(1 + len(inputs), None)
    spread = np.sqrt(np.maximum(np.diag(covariance)[x], 0.0))
    size = np.abs(fitted.origin[inputs] + mean[x])
    spread = np.where(spread > 1e-12 * size, spread, np.inf)  # what never changes says nothing
    values, vectors = np.linalg.eigh(covariance[x, x] / np.outer(spread, spread))
    projected = vectors.T @ (covariance[x, y] / spread[:, None])
    best: tuple[float, float, np.ndarray, np.ndarray] | None = None
    for ridge in RIDGES:
        weights = (vectors @ (projected / (np.maximum(values, 0.0) + ridge)[:, None])) / spread[
            :, None
        ]
        offset = mean[y] - mean[x] @ weights
        whole = np.vstack([-offset, -weights, np.eye(nq)])  # target minus prediction
        error = float(np.einsum("ij,ik,kj->", whole, other, whole) / (other[0, 0] * nq))
        if best is None or error < best[0]:
            best = error, float(ridge), weights, offset
    assert best is not None
    error, ridge, weights, offset = best
    offset = offset + fitted.origin[columns[y]] - fitted.origin[inputs] @ weights
    return error, _model(weights.reshape(order + 1, width, nq), offset, nq, order, ridge)


def _model(
    weights: Float[np.ndarray, "rows width nq"],
    offset: np.ndarray,
    nq: int,
    order: int,
    ridge: float,
) -> Arx:
    """From weights of differences (now first) to weights of samples (oldest first)."""
    weights = weights.copy()
    weights[0] -= weights[1:].sum(axis=0)
    weights = weights[::-1]
    return Arx(
        order,
        ridge,
        weights[:, :nq].copy(),
        weights[:, nq:].copy(),
        offset,
        f"ridge ARX, order {order}",
    )
