"""The smallest step of an encoder, found in what it recorded."""

import numpy as np
from jaxtyping import Float, Int

from genan.data.trajectories import Trajectories

#: Fewest steps that a quantum can be told from.
_FEWEST = 100
#: Fewest changes from one standstill to the next that a quantum can be told from.
_FEWEST_LEVELS = 30
#: Steps looked at; more would only take longer.
_MOST = 20_000
#: Part of the steps that must be whole multiples of a quantum, and how near to whole (in quanta).
_AGREEING, _NEAR = 0.99, 0.1
#: Steps above this many quanta say little about the quantum.
_LARGEST = 1000


def find_quantum(steps: Float[np.ndarray, " M"], *, largest: float) -> float | None:
    """The quantum that all position changes are whole multiples of [rad or m]; None where there is
    none.

    Changes between neighbouring samples are used, not the positions themselves: an offset that
    differs from one trajectory to the next does not matter. Rounding to single precision is not
    taken for a quantum.

    Args:
        steps: changes of position between neighbouring samples [rad or m].
        largest: largest absolute position [rad or m]; it sets how finely the values can have been
            stored.
    """
    return _found(steps[:: max(1, len(steps) // _MOST)], largest, _FEWEST)


def find_resting_quantum(
    q: Float[np.ndarray, " rows"], lengths: Int[np.ndarray, " N"]
) -> float | None:
    """The quantum of an encoder whose log was interpolated to other times [rad or m]; None where
    there is none.

    Interpolated samples lie anywhere between two readings, but equal neighbours lie between equal
    readings: where the joint stands still its value is a reading. The changes from one standstill
    to the next are whole quanta.

    Args:
        q: positions of all trajectories, one after the other [rad or m].
        lengths: samples of each trajectory.
    """
    still = q[1:] == q[:-1]
    still[np.cumsum(lengths)[:-1] - 1] = False
    levels = q[:-1][still]
    changes = np.diff(levels[:: max(1, len(levels) // _MOST)]) if len(levels) else levels
    return _found(changes, float(np.abs(q).max()), _FEWEST_LEVELS)


def joint_quanta(trajectories: Trajectories) -> tuple[float | None, ...]:
    """Quantum of each joint [rad or m] as it was recorded: what an import wrote down, else what the
    samples show."""
    imported = trajectories.provenance.get("import")
    written = imported.get("quantum") if isinstance(imported, dict) else None
    quanta: list[float | None] = []
    for column, joint in enumerate(trajectories.joints):
        value = written.get(joint) if isinstance(written, dict) else None
        if isinstance(value, int | float) and 0.0 < value < np.inf:
            quanta.append(float(value))
            continue
        q = trajectories.q[:, column]
        steps = np.diff(q)
        steps[trajectories.offsets[1:-1] - 1] = 0.0
        found = find_quantum(steps, largest=float(np.abs(q).max()))
        quanta.append(found if found is not None else find_resting_quantum(q, trajectories.lengths))
    return tuple(quanta)


def _found(steps: Float[np.ndarray, " M"], largest: float, fewest: int) -> float | None:
    """The largest quantum that nearly all steps are whole multiples of."""
    stored = 4.0 * float(np.finfo(np.float32).eps) * largest
    sizes = np.abs(steps)
    sizes = np.sort(sizes[sizes > stored])
    if len(sizes) < fewest:
        return None
    smallest = np.quantile(sizes, [0.0, 0.001, 0.01, 0.1])
    candidates = sorted(
        {float(size) / divisor for size in smallest for divisor in (1, 2, 3)}, reverse=True
    )
    for candidate in candidates:
        quantum = _refined(candidate, sizes)
        multiples = sizes[sizes < _LARGEST * quantum] / quantum
        whole = np.round(multiples)
        agreeing = np.abs(multiples - whole) < _NEAR
        # A ramp has equal steps too; steps of several sizes make a quantum.
        if (
            len(multiples) >= fewest
            and agreeing.mean() >= _AGREEING
            and len(np.unique(whole[agreeing])) >= 3
        ):
            return quantum
    return None


def _refined(quantum: float, sizes: Float[np.ndarray, " M"]) -> float:
    """Least squares on ever larger multiples: each pass makes the next one's counting certain."""
    for reach in (3, 10, 30, 100, 300, _LARGEST):
        near = sizes[sizes < (reach + 0.5) * quantum]
        whole = np.round(near / quantum)
        fitting = (np.abs(near / quantum - whole) < 2 * _NEAR) & (whole > 0)
        if fitting.any():
            quantum = float(near[fitting] @ whole[fitting] / (whole[fitting] @ whole[fitting]))
    return quantum
