"""An evaluation as JSON can hold it: all of it for ``evaluation.json``, and the headline for the
artifact."""

from typing import Any

import numpy as np

from genan.actuator.reference import REASONS
from genan.evaluation.accuracy import ModelErrors
from genan.evaluation.actuators import Evaluation
from genan.evaluation.comparison import BaselineComparison, Comparison
from genan.evaluation.cross_validation import CrossValidation
from genan.evaluation.held_control import HeldControl
from genan.evaluation.novelty import Novelty
from genan.evaluation.statistics import Estimate
from genan.provenance import versions


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
            "recordings": evaluation.recordings,
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
        else {
            "correlation": _plain(torques.correlation),
            "mean_absolute_error": _plain(torques.error),
        },
        "disagreement": [
            {"against": one.words, "rank_correlation": _plain(one.rank_correlation)}
            for one in evaluation.calibration
        ],
        "certainty": None
        if evaluation.comparison is None
        else comparison_as_json(evaluation.comparison),
        "novelty": None if evaluation.novelty is None else _novelty(evaluation.novelty),
        "versions": versions(),
    }


def cross_validation_as_json(found: CrossValidation) -> dict[str, Any]:
    """Every number of a cross-validation, in the form of an evaluation and in SI units."""
    return {
        "actuators": found.name,
        "robot": found.robot,
        "dt": found.dt,
        "recording": {
            "fingerprint": found.fingerprint,
            "trajectories": found.trajectories,
            "recordings": found.recordings,
            "training_data": False,
        },
        "cross_validation": [
            {
                "recordings": list(fold.recordings),
                "one_step": _plain(fold.one_step),
                "rollout": _plain(fold.rollout),
            }
            for fold in found.folds
        ],
        "horizon": found.horizon,
        "divergence_bound": _plain(found.bound),
        "notes": list(found.notes),
        "columns": list(found.errors.columns),
        "units": list(found.errors.units),
        "models": {one.name: errors_as_json(one) for one in found.table},
        "held_control": {},
        "certainty": comparison_as_json(found.comparison),
        "versions": versions(),
    }


def headline(evaluation: Evaluation) -> dict[str, Any]:
    """What the artifact keeps: errors with intervals after one step and after the horizon, and the
    verdict."""
    held = evaluation.held[0]
    return {
        "recording": {
            "fingerprint": evaluation.fingerprint,
            "trajectories": evaluation.trajectories,
        },
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


def errors_as_json(errors: ModelErrors) -> dict[str, Any]:
    """One model's errors, in SI units (rad or m)."""
    return {
        "one_step": _estimate(errors.one_step),
        "one_step_rms": None if errors.one_step_rms is None else _estimate(errors.one_step_rms),
        "rollout_rms": None if errors.rollout_rms is None else _estimate(errors.rollout_rms),
        "curve": _estimate(errors.curve),
        "samples": errors.samples,
        "rollouts": errors.rollouts,
        "diverged": errors.diverged,
    }


def comparison_as_json(comparison: BaselineComparison) -> dict[str, Any]:
    """How much better than the baselines a model is, and how certain that is."""
    return {
        "recordings": comparison.recordings,
        "overall": list(comparison.overall),
        "better_than_all": dict(zip(comparison.units, comparison.spans, strict=True)),
        "comparisons": [_comparison(one) for one in comparison.comparisons],
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "baseline": one.baseline,
        "steps": one.steps,
        "seconds": _plain(one.seconds),
        "unit": one.unit,
        "ratio": {"mean": _plain(one.ratio), "low": _plain(one.low), "high": _plain(one.high)},
        "rms_ratio": _plain(one.rms_ratio),
        "joint_ratios": _plain(one.joint_ratios),
        "probability_better": _plain(one.better),
        "chance": _plain(one.chance),
        "better_in": one.wins,
        "recordings": one.recordings,
        "verdict": one.verdict,
        "certainty": one.certainty,
        "sentence": one.sentence,
    }


def _novelty(found: Novelty) -> dict[str, Any]:
    return {
        "samples": found.samples,
        "beyond": dict(zip(found.joints, _plain(found.beyond), strict=True)),
        "beyond_any_joint": _plain(found.anywhere),
        "reasons": {name: _plain(row) for name, row in zip(REASONS, found.reasons, strict=True)},
        "recordings": {name: _plain(part) for name, part in found.recordings},
        "stretches": [
            {
                "recording": one.recording,
                "trajectory": one.trajectory,
                "joint": one.joint,
                "from": _plain(one.begin),
                "to": _plain(one.end),
                "peak": _plain(one.peak),
                "reason": one.reason,
                "span": None if one.span is None else _plain(one.span),
                "trained": None if one.known is None else _plain(one.known),
            }
            for one in found.stretches
        ],
        "rank_correlation": {
            "one_step": dict(zip(found.joints, _plain(found.step_correlation), strict=True)),
            "rollout": dict(zip(found.joints, _plain(found.rollout_correlation), strict=True)),
            "rollout_all_joints": _plain(found.whole_correlation),
        },
        "error_beyond_over_within": dict(zip(found.joints, _plain(found.error_ratio), strict=True)),
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
        "robot_speed_left": None
        if held.robot_speed_left is None
        else _plain(held.robot_speed_left),
        "pose_difference": None if held.pose_difference is None else _plain(held.pose_difference),
        "hold": held.hold,
        "usual_speed": _plain(held.usual_speed),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "mean": _plain(estimate.mean),
        "low": _plain(estimate.low),
        "high": _plain(estimate.high),
    }


def _plain(array: Any) -> Any:
    """Nested lists of numbers with six digits; None for what is not a number."""
    if np.ndim(array):
        return [_plain(part) for part in array]
    return float(f"{float(array):.6g}") if np.isfinite(array) else None
