"""``evaluation.json``: an evaluation as JSON can hold it, and read back for whoever shows it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genan.actuator.reference import REASONS
from genan.errors import DataError
from genan.evaluation.accuracy import ModelErrors
from genan.evaluation.actuators import Evaluation
from genan.evaluation.comparison import BaselineComparison, Comparison
from genan.evaluation.cross_validation import CrossValidation
from genan.evaluation.novelty import Novelty
from genan.evaluation.study_result import Value
from genan.provenance import versions

EVALUATION = "evaluation.json"
STRETCH_KEYS = {"begin": "from", "end": "to", "known": "trained"}  # Of ``Stretch``, in the file.


def as_json(found: Evaluation | CrossValidation) -> dict[str, Any]:
    """Every number, in SI units (rad or m, s, N m or N)."""
    recording: dict[str, Any] = {
        name: getattr(found, name) for name in ("fingerprint", "trajectories", "recordings")
    }
    content = {
        "actuators": found.name,
        "robot": found.robot,
        "dt": found.dt,
        "recording": {**recording, "training_data": getattr(found, "is_training_data", False)},
        "horizon": found.horizon,
        "divergence_bound": plain(found.bound),
        "notes": list(found.notes),
        "columns": list(found.errors.columns),
        "units": list(found.errors.units),
        "models": {one.name: errors_as_json(one) for one in found.table},
        "held_control": {},
        "certainty": None if found.comparison is None else comparison_as_json(found.comparison),
        "versions": versions(),
    }
    if isinstance(found, CrossValidation):
        return {**content, "cross_validation": plain(found.folds)}
    torques = found.torques
    return {
        **content,
        "first_sample": found.first,
        "members": {one.name: errors_as_json(one) for one in found.members},
        "held_control": {
            one.name: {
                "verdict": one.verdict,
                "fit_for_training": one.fit_for_training,
                **plain(one, without=("speed", "robot_speed", "joints", "joint_units", "name")),
            }
            for one in found.held
        },
        "torque": None
        if torques is None
        else {
            "correlation": plain(torques.correlation),
            "mean_absolute_error": plain(torques.error),
        },
        "disagreement": [
            {"against": one.words, "rank_correlation": plain(one.rank_correlation)}
            for one in found.calibration
        ],
        "novelty": None if found.novelty is None else _novelty(found.novelty),
    }


def headline(evaluation: Evaluation) -> dict[str, Any]:
    """What the artifact keeps: errors with intervals after one step and after the horizon, and the
    verdict."""
    held, errors = evaluation.held[0], evaluation.errors
    recording = {"fingerprint": evaluation.fingerprint, "trajectories": evaluation.trajectories}
    return {
        "recording": recording,
        "training_data": evaluation.is_training_data,
        "horizon": evaluation.horizon,
        "columns": list(errors.columns),
        "units": list(errors.units),
        "one_step": plain(errors.one_step),
        "rollout": plain(errors.curve[-1]),
        "rollouts": errors.rollouts,
        "diverged": errors.diverged,
        "held_control": {"fit_for_training": held.fit_for_training, "verdict": held.verdict},
    }


def errors_as_json(errors: ModelErrors) -> dict[str, Any]:
    """One model's errors, in SI units (rad or m)."""
    return dict(plain(errors, without=("name", "joints", "joint_units", "sums")))


def comparison_as_json(comparison: BaselineComparison) -> dict[str, Any]:
    """How much better than the baselines a model is, and how certain that is."""
    return {
        "recordings": comparison.recordings,
        "overall": list(comparison.overall),
        "better_than_all": dict(zip(comparison.units, comparison.spans, strict=True)),
        "comparisons": [_comparison(one) for one in comparison.comparisons],
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    content = plain(one, without=("ratio", "low", "high", "better", "wins"))
    return {
        **content,
        "ratio": {"mean": plain(one.ratio), "low": plain(one.low), "high": plain(one.high)},
        "probability_better": plain(one.better),
        "better_in": one.wins,
        "verdict": one.verdict,
        "certainty": one.certainty,
        "sentence": one.sentence,
    }


def _novelty(found: Novelty) -> dict[str, Any]:
    of_joints = lambda values: dict(zip(found.joints, plain(values), strict=True))  # noqa: E731
    return {
        "samples": found.samples,
        "beyond": of_joints(found.beyond),
        "beyond_any_joint": plain(found.anywhere),
        "reasons": {name: plain(row) for name, row in zip(REASONS, found.reasons, strict=True)},
        "recordings": {name: plain(part) for name, part in found.recordings},
        "stretches": [
            {STRETCH_KEYS.get(key, key): value for key, value in plain(one).items()}
            for one in found.stretches
        ],
        "rank_correlation": {
            "one_step": of_joints(found.step_correlation),
            "rollout": of_joints(found.rollout_correlation),
            "rollout_all_joints": plain(found.whole_correlation),
        },
        "error_beyond_over_within": of_joints(found.error_ratio),
    }


def plain(value: Any, *, without: tuple[str, ...] = ()) -> Any:
    """Dataclasses and arrays as nested tables and lists, numbers with six digits; None for what is
    not a number. ``without``: fields to leave out."""
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in without]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple | list) or np.ndim(value):
        return [plain(part) for part in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    return float(f"{float(value):.6g}") if np.isfinite(value) else None


@dataclass(frozen=True)
class ModelRecord:
    """Errors of one model, mean over the joints, in ``EvaluationRecord.unit``."""

    name: str
    one_step: Value
    curve: tuple[Value | None, ...]
    """After 1, 2, ... steps open loop; None where every rollout had diverged."""
    rollouts: int
    diverged: int


@dataclass(frozen=True)
class EvaluationRecord:
    """Fitted actuators compared with what they must beat. SI units."""

    robot: str
    dt: float  # Between two samples [s].
    trajectories: int
    training_data: bool  # Whether the actuators were judged on the recording they were fitted to.
    unit: str  # Of all errors: rad or m.
    models: tuple[ModelRecord, ...]  # The actuators first.
    held: Mapping[str, tuple[str, bool]]
    """Of each model the held-control verdict, and whether policies may be trained with it."""
    notes: tuple[str, ...]
    verdict: tuple[str, ...]  # What to do with it, one sentence each.
    comparisons: tuple[Mapping[str, Any], ...]
    """With each baseline: ``verdict`` (better, level, worse), ``certainty`` and ``sentence``."""
    beyond: Mapping[str, tuple[float, float | None]]
    """Of each joint, the part of the samples that were new to the model, and how much larger the
    error is there."""
    stretches: tuple[Mapping[str, Any], ...]
    """Where they were most so: ``recording``, ``joint``, ``begin`` and ``end`` [s], ``peak`` (None:
    no number), ``reason``."""
    versions: Mapping[str, str]

    @classmethod
    def load(cls, path: Path) -> "EvaluationRecord":
        """Read ``evaluation.json``."""
        try:
            return cls._read(json.loads(path.read_bytes()))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise DataError(
                f"{path} is not the result of an evaluation, or is not finished "
                f"({type(error).__name__}: {error}); run 'genan evaluate' again."
            ) from None

    @classmethod
    def _read(cls, content: dict[str, Any]) -> "EvaluationRecord":
        column = len(content["columns"]) - len(set(content["units"]))  # the first mean over joints
        models = tuple(_model(name, one, column) for name, one in content["models"].items())
        if not models:
            raise ValueError("it has no models")
        held, novelty = content["held_control"], content.get("novelty") or {}
        ratios = novelty.get("error_beyond_over_within") or {}
        beyond = novelty.get("beyond") or {}
        return cls(
            robot=str(content["robot"]),
            dt=float(content["dt"]),
            trajectories=int(content["recording"]["trajectories"]),
            training_data=bool(content["recording"]["training_data"]),
            unit=str(content["units"][column]),
            models=models,
            held={k: (str(v["verdict"]), bool(v["fit_for_training"])) for k, v in held.items()},
            notes=tuple(map(str, content["notes"])),
            verdict=tuple(map(str, content.get("verdict") or ())),
            comparisons=tuple((content.get("certainty") or {}).get("comparisons", ())),
            beyond={joint: (float(part), ratios.get(joint)) for joint, part in beyond.items()},
            stretches=tuple(map(_stretch, novelty.get("stretches", ()))),
            versions=dict(content.get("versions") or {}),
        )


def _stretch(content: Mapping[str, Any]) -> dict[str, Any]:
    names = {key: name for name, key in STRETCH_KEYS.items()}
    return {names.get(key, key): value for key, value in content.items()}


def _model(name: str, content: dict[str, Any], column: int) -> ModelRecord:
    ends = ("mean", "low", "high")
    curves = zip(*(content["curve"][end] for end in ends), strict=True)
    curve = tuple(_value(*(row[column] for row in rows)) for rows in curves)
    one_step = _value(*(content["one_step"][end][column] for end in ends))
    if not curve or one_step is None:
        raise ValueError(f"the errors of {name!r} are not complete")
    return ModelRecord(name, one_step, curve, int(content["rollouts"]), int(content["diverged"]))


def _value(mean: float | None, low: float | None, high: float | None) -> Value | None:
    if mean is None or not math.isfinite(mean):
        return None
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    return Value(mean, low, high) if known else Value(mean)
