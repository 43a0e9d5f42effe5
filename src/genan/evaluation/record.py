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
from genan.evaluation.actuators import CrossValidation, Evaluation
from genan.evaluation.novelty import Novelty
from genan.evaluation.statistics import BaselineComparison, ModelErrors
from genan.evaluation.study_result import Value
from genan.provenance import versions

EVALUATION = "evaluation.json"
STRETCH_KEYS = {"begin": "from", "end": "to", "known": "trained"}  # Of ``Stretch``, in the file.


def as_json(found: Evaluation | CrossValidation) -> dict[str, Any]:
    """Every number, in SI units (rad or m, s, N m or N)."""
    recording: dict[str, Any] = _of(found, "fingerprint", "trajectories", "recordings")
    recording["training_data"] = getattr(found, "is_training_data", False)
    content = {
        "actuators": found.name, "robot": found.robot, "dt": found.dt, "recording": recording,
        **_of(found, "horizon", "notes"), "divergence_bound": plain(found.bound),
        **_of(found.errors, "columns", "units"),
        "models": {one.name: errors_as_json(one) for one in found.table},
        "held_control": {}, "versions": versions(),
        "certainty": None if found.comparison is None else _certainty(found.comparison),
    }  # fmt: skip
    if isinstance(found, CrossValidation):
        return {**content, "cross_validation": plain(found.folds)}
    drawn, torques = ("speed", "robot_speed", "joints", "joint_units", "name"), found.torques
    return {
        **content,
        "first_sample": found.first,
        "members": {one.name: errors_as_json(one) for one in found.members},
        "held_control": {
            one.name: _of(one, "verdict", "fit_for_training") | plain(one, without=drawn)
            for one in found.held
        },
        "torque": None if torques is None else {
            "correlation": plain(torques.correlation), "mean_absolute_error": plain(torques.error)
        },
        "disagreement": [
            {"against": one.words, "rank_correlation": plain(one.rank_correlation)}
            for one in found.calibration
        ],
        "novelty": None if found.novelty is None else _novelty(found.novelty),
    }  # fmt: skip


def headline(found: Evaluation) -> dict[str, Any]:
    """What the artifact keeps: errors after one step and the horizon, and the verdict."""
    errors = found.errors
    return {
        "recording": _of(found, "fingerprint", "trajectories"),
        "training_data": found.is_training_data, "horizon": found.horizon,
        **_of(errors, "columns", "units", "rollouts", "diverged"),
        "one_step": plain(errors.one_step), "rollout": plain(errors.curve[-1]),
        "held_control": _of(found.held[0], "fit_for_training", "verdict"),
    }  # fmt: skip


def _of(found: Any, *names: str) -> dict[str, Any]:
    """Some attributes by their names."""
    return {name: plain(getattr(found, name)) for name in names}


def errors_as_json(errors: ModelErrors) -> dict[str, Any]:
    """One model's errors, in SI units (rad or m)."""
    return dict(plain(errors, without=("name", "joints", "joint_units", "sums")))


def _certainty(comparison: BaselineComparison) -> dict[str, Any]:
    """How much better than the baselines a model is, and how certain that is."""
    words = ("verdict", "certainty", "sentence")
    comparisons = [
        {
            **plain(one, without=("low", "high", "better", "wins")), **_of(one, *words),
            "ratio": {"mean": plain(one.ratio), **_of(one, "low", "high")},
            "probability_better": plain(one.better), "better_in": one.wins,
        }
        for one in comparison.comparisons
    ]  # fmt: skip
    spans = dict(zip(comparison.units, comparison.spans, strict=True))
    return _of(comparison, "recordings", "overall") | {
        "better_than_all": spans, "comparisons": comparisons
    }  # fmt: skip


def _novelty(found: Novelty) -> dict[str, Any]:
    of_joints = lambda values: dict(zip(found.joints, plain(values), strict=True))
    return {
        "samples": found.samples,
        "beyond": of_joints(found.beyond),
        "beyond_any_joint": plain(found.anywhere),
        "reasons": dict(zip(REASONS, plain(found.reasons), strict=True)),
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
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in without]
        return {name: plain(getattr(value, name)) for name in names}
    return value


@dataclass(frozen=True)
class ModelRecord:
    """Errors of one model, mean over the joints, in ``EvaluationRecord.unit``."""

    name: str
    one_step: Value
    curve: tuple[Value | None, ...]  # After 1, 2, ... steps; None where all had diverged.
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
    held: Mapping[str, tuple[str, bool]]  # Verdict, and whether policies may be trained with it.
    notes: tuple[str, ...]
    verdict: tuple[str, ...]  # What to do with it, one sentence each.
    comparisons: tuple[Mapping[str, Any], ...]  # ``verdict``, ``certainty`` and ``sentence``.
    beyond: Mapping[str, tuple[float, float | None]]  # New part of each joint, error ratio there.
    stretches: tuple[Mapping[str, Any], ...]  # Where they are most so, as in the file.
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
            robot=str(content["robot"]), dt=float(content["dt"]),
            trajectories=int(content["recording"]["trajectories"]),
            training_data=bool(content["recording"]["training_data"]),
            unit=str(content["units"][column]), models=models,
            held={k: (str(v["verdict"]), bool(v["fit_for_training"])) for k, v in held.items()},
            notes=tuple(map(str, content["notes"])),
            verdict=tuple(map(str, content.get("verdict") or ())),
            comparisons=tuple((content.get("certainty") or {}).get("comparisons", ())),
            beyond={joint: (float(part), ratios.get(joint)) for joint, part in beyond.items()},
            stretches=tuple(novelty.get("stretches", ())),
            versions=dict(content.get("versions") or {}),
        )  # fmt: skip


def _model(name: str, content: dict[str, Any], column: int) -> ModelRecord:
    def value(mean: float | None, low: float | None, high: float | None) -> Value | None:
        known = (low, high) if low is not None and high is not None else ()
        return None if mean is None else Value(mean, *known)

    rows = ((content["one_step"][end], *content["curve"][end]) for end in ("mean", "low", "high"))
    one_step, *curve = (value(*(row[column] for row in ends)) for ends in zip(*rows, strict=True))
    if not curve or one_step is None:
        raise ValueError(f"the errors of {name!r} are not complete")
    counts = int(content["rollouts"]), int(content["diverged"])
    return ModelRecord(name, one_step, tuple(curve), *counts)
