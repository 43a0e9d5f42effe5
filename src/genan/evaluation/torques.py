"""Torques: predicted against true ones where they are known, and whether the ensemble knows where
it is wrong."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import spearmanr

from genan.actuator import Ensemble
from genan.actuator.errors import SAMPLES, StepBlock, at_once
from genan.evaluation.trial import Trial

#: Samples that torques are kept of, at most.
KEPT = 200_000

#: Steps after which the position error is compared with the disagreement along the way, where no
#: torque is known.
STEPS = 50

#: Bins of equal size that the disagreement is sorted into.
BINS = 12


@dataclass(frozen=True, eq=False)
class TorqueSamples:
    """Torques that an ensemble predicts, at evenly chosen samples."""

    stride: int
    """Every stride-th of the trial's rows is kept."""
    rows: Int[np.ndarray, " k"]
    """Row of the recording of each."""
    mean: Float[np.ndarray, "k nq"]
    """Mean over the members [N m or N]."""
    deviation: Float[np.ndarray, "k nq"]
    """Standard deviation over the members [N m or N]."""

    @classmethod
    def empty(cls, trial: Trial) -> "TorqueSamples":
        """Room for the torques at some of the trial's rows."""
        stride = max(1, -(-len(trial.rows) // KEPT))
        rows = trial.rows[::stride]
        shape = (len(rows), trial.trajectories.channels.nq)
        return cls(stride, rows, np.zeros(shape), np.zeros(shape))

    def take(self, block: StepBlock) -> None:
        """Keep what is wanted of a block."""
        first = -(-block.part.start // self.stride)
        some = block.torque[:, first * self.stride - block.part.start :: self.stride]
        part = slice(first, first + some.shape[1])
        self.mean[part], self.deviation[part] = some.mean(axis=0), some.std(axis=0)


@dataclass(frozen=True, eq=False)
class TorqueComparison:
    """Predicted beside true torques."""

    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    predicted: Float[np.ndarray, "k nq"]
    """[N m or N]"""
    true: Float[np.ndarray, "k nq"]
    """[N m or N]"""

    @property
    def correlation(self) -> Float[np.ndarray, " nq"]:
        """Correlation r of each joint; not a number where a torque never changes."""
        a, b = (x - x.mean(axis=0) for x in (self.predicted, self.true))
        size = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
        return np.divide(
            (a * b).sum(axis=0), size, out=np.full(a.shape[1], np.nan), where=size > 0.0
        )

    @property
    def error(self) -> Float[np.ndarray, " nq"]:
        """Mean absolute difference of each joint [N m or N]."""
        return np.abs(self.predicted - self.true).mean(axis=0)


@dataclass(frozen=True, eq=False)
class Honesty:
    """Disagreement of the members beside the error of their mean: is it large where the error is
    large?"""

    disagreement: Float[np.ndarray, " k"]
    """Standard deviation over the members, summed over the joints [N m]; along ``steps`` steps,
    their mean."""
    error: Float[np.ndarray, " k"]
    """Absolute torque error summed over the joints [N m], or mean absolute position error over the
    joints."""
    steps: int | None
    """None: errors are of the torque. Else: of the position after so many steps open loop."""
    unit: str
    """Unit of ``error``."""

    @property
    def words(self) -> str:
        """What the disagreement is compared with."""
        return (
            "torque error, one step"
            if self.steps is None
            else f"position error after {self.steps} steps"
        )

    @property
    def rank_correlation(self) -> float:
        """Spearman's: 1 when more disagreement always means more error, 0 when it says nothing."""
        if len(self.error) < 3 or np.ptp(self.disagreement) == 0.0 or np.ptp(self.error) == 0.0:
            return float("nan")
        return float(spearmanr(self.disagreement, self.error).statistic)

    def bins(self) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, "3 b"]]:
        """Median disagreement of each bin, and quartiles (25, 50, 75 %) of the error in it; bins of
        equal count."""
        order = np.argsort(self.disagreement, kind="stable")
        parts = [
            part for part in np.array_split(order, min(BINS, max(1, len(order) // 5))) if len(part)
        ]
        middle = np.array([np.median(self.disagreement[part]) for part in parts])
        return middle, np.array(
            [np.quantile(self.error[part], [0.25, 0.5, 0.75]) for part in parts]
        ).T


def compare_torques(
    samples: TorqueSamples, trial: Trial, true: Float[np.ndarray, "rows nq"]
) -> TorqueComparison:
    """Predicted beside true torques; ``true``: of every row of the recording [N m or N]."""
    data = trial.trajectories
    return TorqueComparison(data.joints, data.joint_units, samples.mean, true[samples.rows])


def honesty_of_torques(samples: TorqueSamples, comparison: TorqueComparison) -> Honesty:
    """Disagreement against the error of the torque."""
    error = np.abs(comparison.predicted - comparison.true).sum(axis=1)
    return Honesty(samples.deviation.sum(axis=1), error, None, "N m")


def honesty_of_positions(
    ensemble: Ensemble, trial: Trial, positions: Float[np.ndarray, "s R nq"]
) -> Honesty:
    """Disagreement along the first steps of each rollout against the position error after them.

    Args:
        ensemble: the actuators.
        trial: where they were judged.
        positions: rollouts of the ensemble [s, R, nq] [rad or m].
    """
    data, history = trial.trajectories, ensemble.contract.history
    steps = min(STEPS, trial.horizon)
    past = trial.starts[:, None] + np.arange(-history.span, 1)
    q = np.concatenate([data.q[past], positions[:, : steps - 1]], axis=1)
    u = data.u[trial.starts[:, None] + np.arange(-history.reach, steps)]
    # In both, the oldest that is seen at the first step comes first; so the same places hold what
    # later steps see.
    lags = history.span - np.asarray(history.lags) + np.arange(steps)[:, None]  # [steps, H + 1]
    found = _disagreement(
        ensemble, *(x[:, lags].reshape(-1, history.rows, x.shape[-1]) for x in (q, u))
    )
    along = found.reshape(len(q), steps).mean(axis=1)
    off = np.abs(positions[:, steps - 1] - data.q[trial.starts + steps])
    mixed = len(set(data.joint_units)) > 1
    error = (off / trial.bound if mixed else off).mean(axis=1)
    known = np.isfinite(along) & np.isfinite(error)
    return Honesty(along[known], error[known], steps, "1" if mixed else data.joint_units[0])


def _disagreement(
    ensemble: Ensemble, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
) -> Float[np.ndarray, " n"]:
    found, size = np.empty(len(q)), at_once(SAMPLES)
    for k in range(0, len(q), size):
        some = np.minimum(np.arange(k, k + size), len(q) - 1)
        block = _deviation(ensemble, q[some].astype(np.float32), u[some].astype(np.float32))
        found[k : k + size] = np.asarray(block)[: len(q) - k]
    return found


@jax.jit
def _deviation(ensemble: Ensemble, q: Array, u: Array) -> Array:
    return ensemble.disagreement(q, u)
