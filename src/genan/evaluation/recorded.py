"""``evaluation.json`` read back: what ``genan evaluate`` found, for whoever shows it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genan.errors import DataError
from genan.evaluation.study_result import Value

EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class ModelRecord:
    """ModelErrors of one model, mean over the joints, in ``EvaluationRecord.unit``."""

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
    dt: float
    """Between two samples [s]."""
    trajectories: int
    training_data: bool
    """Whether the actuators were judged on the recording they were fitted to."""
    unit: str
    """Of all errors: rad or m."""
    models: tuple[ModelRecord, ...]
    """The actuators first."""
    held: Mapping[str, tuple[str, bool]]
    """Of each model the held-control verdict, and whether policies may be trained with it."""
    notes: tuple[str, ...]
    verdict: tuple[str, ...]
    """What to do with it, one sentence each."""
    comparisons: tuple[Mapping[str, Any], ...]
    """With each baseline: ``verdict`` (better, level, worse), ``certainty`` and ``sentence``."""
    beyond: Mapping[str, tuple[float, float | None]]
    """Of each joint, the part of the samples that were new to the model, and how much larger the
    error is there."""
    stretches: tuple[Mapping[str, Any], ...]
    """Where they were most so: ``recording``, ``joint``, ``from`` and ``to`` [s], ``peak`` (None:
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
        novelty = content.get("novelty") or {}
        ratios = novelty.get("error_beyond_over_within") or {}
        return cls(
            robot=str(content["robot"]),
            dt=float(content["dt"]),
            trajectories=int(content["recording"]["trajectories"]),
            training_data=bool(content["recording"]["training_data"]),
            unit=str(content["units"][column]),
            models=models,
            held={
                name: (str(held["verdict"]), bool(held["fit_for_training"]))
                for name, held in content["held_control"].items()
            },
            notes=tuple(map(str, content["notes"])),
            verdict=tuple(map(str, content.get("verdict") or ())),
            comparisons=tuple((content.get("certainty") or {}).get("comparisons", ())),
            beyond={
                joint: (float(part), ratios.get(joint))
                for joint, part in (novelty.get("beyond") or {}).items()
            },
            stretches=tuple(novelty.get("stretches", ())),
            versions=dict(content.get("versions") or {}),
        )


def _model(name: str, content: dict[str, Any], column: int) -> ModelRecord:
    parts = [content["curve"][part] for part in ("mean", "low", "high")]
    rows = [[row[column] for row in rows] for rows in zip(*parts, strict=True)]
    one_step = _value(*(content["one_step"][part][column] for part in ("mean", "low", "high")))
    if not rows or one_step is None:
        raise ValueError(f"the errors of {name!r} are not complete")
    return ModelRecord(
        name=name,
        one_step=one_step,
        curve=tuple(_value(*row) for row in rows),
        rollouts=int(content["rollouts"]),
        diverged=int(content["diverged"]),
    )


def _value(mean: float | None, low: float | None, high: float | None) -> Value | None:
    if mean is None or not math.isfinite(mean):
        return None
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    return Value(mean, low, high) if known else Value(mean)
