"""From a point that was dragged to joint positions: inverse kinematics within limits."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from genan.report.viewer.geometry import Body

#: Damping of the least squares at first, and when no step comes nearer any more [m].
DAMPING, HIGHEST = 0.05, 100.0
#: Steps at most, and the distance at which the tip is there [m].
STEPS, CLOSE = 60, 1e-4


def reach(
    body: Body,
    target: Float[np.ndarray, " 3"],
    *,
    near: Float[np.ndarray, " nq"],
    limits: tuple[Float[np.ndarray, " nq"], Float[np.ndarray, " nq"]],
    others: Sequence[Float[np.ndarray, " nq"]] = (),
) -> Float[np.ndarray, " nq"]:
    """Joint positions [rad or m] within ``limits`` that bring the tip to ``target``, or as near as
    they let it.

    A joint that runs into its limit leaves the work to the others.

    Args:
        body: whose tip.
        target: in the frame of the base [m].
        near: where to begin: of all solutions the one about here is found.
        limits: lowest and highest joint positions.
        others: where else to begin when that one does not get there.
    """
    best = near
    for start in (near, *others):
        found = _descend(body, target, np.clip(start, *limits), limits)
        if distance(body, found, target) < distance(body, best, target) or best is near:
            best = found
        if distance(body, best, target) < 100.0 * CLOSE:
            break
    return best


def starts(
    limits: tuple[Float[np.ndarray, " nq"], Float[np.ndarray, " nq"]],
) -> tuple[Float[np.ndarray, " nq"], ...]:
    """Where else to begin: the middle of ``limits``, and two bent arms, one this way and one
    that."""
    middle, span = 0.5 * (limits[0] + limits[1]), limits[1] - limits[0]
    bent = 0.25 * span * (-1.0) ** np.arange(len(span))
    return middle, middle + bent, middle - bent


def distance(body: Body, q: Float[np.ndarray, " nq"], target: Float[np.ndarray, " 3"]) -> float:
    """From the tip at ``q`` [rad or m] to ``target`` [m]."""
    return float(np.linalg.norm(body.tip(q) - target))


def _descend(
    body: Body,
    target: Float[np.ndarray, " 3"],
    q: Float[np.ndarray, " nq"],
    limits: tuple[Float[np.ndarray, " nq"], Float[np.ndarray, " nq"]],
) -> Float[np.ndarray, " nq"]:
    """Levenberg and Marquardt's way down from ``q``: a step that does not come nearer is tried
    again, shorter."""
    lower, upper = limits
    damping, error = DAMPING, target - body.tip(q)
    for _ in range(STEPS):
        if np.linalg.norm(error) < CLOSE or damping > HIGHEST:
            break
        jacobian = body.jacobian(q)
        wanted = jacobian.T @ error
        blocked = ((q <= lower) & (wanted < 0.0)) | ((q >= upper) & (wanted > 0.0))
        jacobian = np.where(blocked, 0.0, jacobian)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping**2 * np.eye(3), error)
        tried = np.clip(q + step, lower, upper)
        left = target - body.tip(tried)
        nearer = np.linalg.norm(left) < np.linalg.norm(error) - 1e-9
        damping *= 0.5 if nearer else 4.0
        if nearer:
            q, error = tried, left
    return q
