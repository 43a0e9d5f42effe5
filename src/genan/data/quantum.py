"""The smallest step of an encoder, found in what it recorded."""

import numpy as np
from jaxtyping import Float

#: Fewest steps that a quantum can be told from.
_FEWEST = 100
#: Steps looked at; more would only take longer.
_MOST = 50_000
#: Part of the steps that must be whole multiples of a quantum, and how near to whole (in quanta).
_AGREEING, _NEAR = 0.99, 0.1
#: Steps above this many quanta say little about the quantum.
_LARGEST = 1000


def find_quantum(steps: Float[np.ndarray, " M"], *, largest: float) -> float | None:
    """The quantum that all position changes are whole multiples of [rad or m]; None where there is none.

    Changes between neighbouring samples are used, not the positions themselves: an offset that differs from one
    trajectory to the next does not matter. Rounding to single precision is not taken for a quantum.

    Args:
        steps: changes of position between neighbouring samples [rad or m].
        largest: largest absolute position [rad or m]; it sets how finely the values can have been stored.
    """
    stored = 4.0 * float(np.finfo(np.float32).eps) * largest
    sizes = np.abs(steps[:: max(1, len(steps) // _MOST)])
    sizes = np.sort(sizes[sizes > stored])
    if len(sizes) < _FEWEST:
        return None
    smallest = np.quantile(sizes, [0.0, 0.001, 0.01, 0.1])
    candidates = sorted({float(size) / divisor for size in smallest for divisor in (1, 2, 3)}, reverse=True)
    for candidate in candidates:
        quantum = _refined(candidate, sizes)
        multiples = sizes[sizes < _LARGEST * quantum] / quantum
        whole = np.round(multiples)
        agreeing = np.abs(multiples - whole) < _NEAR
        # A ramp has equal steps too; steps of several sizes make a quantum.
        if len(multiples) >= _FEWEST and agreeing.mean() >= _AGREEING and len(np.unique(whole[agreeing])) >= 3:
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
