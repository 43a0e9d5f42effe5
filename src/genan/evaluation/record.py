"""An evaluation as JSON can hold it: all of it for ``evaluation.json``, and the headline for the artifact."""

from typing import Any

import numpy as np

from genan.evaluation.accuracy import Errors
from genan.evaluation.actuators import Evaluation
from genan.evaluation.held_control import HeldControl
from genan.evaluation.statistics import Estimate


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Every number, in SI units (rad or m, s, N m or N)."""
    errors, torques = evaluation.errors, evaluation.torques
    return {
        "actuators": evaluation.name,
        "robot": evaluation.robot,
        "dt": evaluation.dt,
        "recording": {
            "fingerprint": evaluation.fingerprint,
            "trajectories": evaluation.trajectories,
            "training_data": evaluation.is_training_data,
        },
        "first_sample": evaluation.first,
        "horizon": evaluation.horizon,
        "divergence_bound": _plain(evaluation.bound),
        "notes": list(evaluation.notes),
        "columns": list(errors.columns),
        "units": list(errors.units),
        "models": {one.name: errors_as_json(one) for one in evaluation.table},
        "members": {one.name: errors_as_json(one) for one in evaluation.members},
        "held_control": {one.name: _held(one) for one in evaluation.held},
        "torque": None
        if torques is None
        else {"correlation": _plain(torques.correlation), "mean_absolute_error": _plain(torques.error)},
        "disagreement": [
            {"against": one.words, "rank_correlation": _plain(one.rank_correlation)} for one in evaluation.honesty
        ],
    }


def headline(evaluation: Evaluation) -> dict[str, Any]:
    """What the artifact keeps: errors with intervals after one step and after the horizon, and the verdict."""
    held = evaluation.held[0]
    return {
        "recording": {"fingerprint": evaluation.fingerprint, "trajectories": evaluation.trajectories},
        "training_data": evaluation.is_training_data,
        "horizon": evaluation.horizon,
        "columns": list(evaluation.errors.columns),
        "units": list(evaluation.errors.units),
        "one_step": _estimate(evaluation.errors.one_step),
        "rollout": _estimate(evaluation.errors.curve[-1]),
        "rollouts": evaluation.errors.rollouts,
        "diverged": evaluation.errors.diverged,
        "held_control": {"fit_for_training": held.fit_for_training, "verdict": held.verdict},
    }


def errors_as_json(errors: Errors) -> dict[str, Any]:
    """One model's errors, in SI units (rad or m)."""
    return {
        "one_step": _estimate(errors.one_step),
        "curve": _estimate(errors.curve),
        "samples": errors.samples,
        "rollouts": errors.rollouts,
        "diverged": errors.diverged,
    }


def _held(held: HeldControl) -> dict[str, Any]:
    return {
        "verdict": held.verdict,
        "fit_for_training": held.fit_for_training,
        "source": held.source,
        "starts": held.starts,
        "still_moving": held.still_moving,
        "diverged": held.diverged,
        "speed_left": _plain(held.speed_left),
        "robot_speed_left": None if held.robot_speed_left is None else _plain(held.robot_speed_left),
        "pose_difference": None if held.pose_difference is None else _plain(held.pose_difference),
        "hold": held.hold,
        "usual_speed": _plain(held.usual_speed),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"mean": _plain(estimate.mean), "low": _plain(estimate.low), "high": _plain(estimate.high)}


def _plain(array: Any) -> Any:
    """Nested lists of numbers with six digits; None for what is not a number."""
    if np.ndim(array):
        return [_plain(part) for part in array]
    return float(f"{float(array):.6g}") if np.isfinite(array) else None
