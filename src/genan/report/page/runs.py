"""What runs left behind, read and checked: whatever is in here can be drawn and put into words."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genan.errors import DataError
from genan.evaluation.study_result import Value
from genan.report.inspection_record import FORMAT as INSPECTION


@dataclass(frozen=True)
class Accuracy:
    """What ``genan evaluate`` said of one model."""

    name: str
    one_step: Value
    """Error one step ahead, mean over the joints, in ``Evaluated.unit``."""
    curve: tuple[Value | None, ...]
    """Error after 1, 2, ... steps open loop; None where every rollout had diverged."""
    rollouts: int
    diverged: int


@dataclass(frozen=True)
class Compared:
    """How a model stands beside one baseline, so far ahead."""

    verdict: str
    """better, level or worse."""
    certainty: str
    """certain, likely or open."""
    sentence: str


@dataclass(frozen=True)
class Stretch:
    """A while in which a joint was where the model had not been."""

    recording: str
    joint: str
    begin: float
    """[s]"""
    end: float
    """[s]"""
    peak: float
    """Highest score; infinite where the model's answer is no number."""
    reason: str


@dataclass(frozen=True)
class Evaluated:
    """``evaluation.json``: fitted actuators beside what they must beat."""

    robot: str
    dt: float
    """Between two samples [s]."""
    trajectories: int
    training_data: bool
    """Whether it was judged on the recording it was fitted to."""
    si_unit: str
    """Unit of all errors as the file has them: rad or m."""
    models: tuple[Accuracy, ...]
    """The actuators first."""
    held: Mapping[str, tuple[str, bool]]
    """The held-control verdict of each model in words, and whether it is fit for training."""
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    verdict: tuple[str, ...] = ()
    """What to do with it, one sentence each."""
    comparisons: tuple[Compared, ...] = ()
    """How it stands beside the baselines."""
    beyond: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """Of each joint, the part of the samples that were new to the model, and how much larger the
    error is there."""
    stretches: tuple[Stretch, ...] = ()
    """Where they were most so."""


@dataclass(frozen=True)
class Fitted:
    """``actuator.json``: an ensemble of actuator networks."""

    robot: str
    loss: str
    members: int
    hidden: tuple[int, ...]
    history: tuple[int, int]
    """Length and stride."""
    trajectories: int | None
    """Recorded trajectories behind it."""
    validation_loss: tuple[float, ...]
    """Of each epoch, mean over the members; empty where the record has none, or one that is no
    number."""
    settings: Mapping[str, Any]
    device: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Trained:
    """``policy.json``: a trained policy."""

    task: str
    robot: str
    steps: int | None
    """Steps of the simulator behind it, all environments together."""
    curve: tuple[tuple[float, float], ...]
    """Steps so far, and the success rate [%] of the episodes that ended lately."""
    judged: tuple[float, float, float, int] | None
    """Success rate in simulation and its interval [%], over how many episodes."""
    settings: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Inspected:
    """``inspection.json``: what is in a recording."""

    file: str
    trajectories: int
    duration: float
    """All trajectories together [s]."""
    dt: float
    """Between two samples [s]."""
    joints: tuple[Mapping[str, Any], ...]
    suspicious: tuple[str, ...]
    provenance: Mapping[str, Any]
    versions: Mapping[str, str] = field(default_factory=dict)


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file ``path``."""
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content


def load_evaluated(path: Path) -> Evaluated:
    """``evaluation.json`` of ``genan evaluate``."""
    content = read_json(path)
    columns, units = content["columns"], content["units"]
    overall = [k for k, name in enumerate(columns) if name.startswith("overall")]
    column = overall[0] if overall else 0
    models = tuple(_accuracy(name, one, column) for name, one in content["models"].items())
    if not models:
        raise ValueError("it has no models")
    return Evaluated(
        robot=str(content["robot"]),
        dt=float(content["dt"]),
        trajectories=int(content["recording"]["trajectories"]),
        training_data=bool(content["recording"]["training_data"]),
        si_unit=str(units[column]),
        models=models,
        held={
            name: (str(held["verdict"]), bool(held["fit_for_training"]))
            for name, held in content["held_control"].items()
        },
        notes=tuple(str(note) for note in content["notes"]),
        versions=_versions(content),
        verdict=tuple(str(sentence) for sentence in content.get("verdict") or ()),
        comparisons=tuple(
            Compared(str(one["verdict"]), str(one["certainty"]), str(one["sentence"]))
            for one in (content.get("certainty") or {}).get("comparisons", ())
        ),
        beyond=_beyond(content.get("novelty") or {}),
        stretches=tuple(
            Stretch(
                recording=str(one["recording"]),
                joint=str(one["joint"]),
                begin=float(one["from"]),
                end=float(one["to"]),
                peak=math.inf if one["peak"] is None else float(one["peak"]),
                reason=str(one["reason"]),
            )
            for one in (content.get("novelty") or {}).get("stretches", ())
        ),
    )


def _beyond(novelty: Mapping[str, Any]) -> Mapping[str, tuple[float, float | None]]:
    ratios = novelty.get("error_beyond_over_within") or {}
    return {
        str(joint): (float(part), None if ratios.get(joint) is None else float(ratios[joint]))
        for joint, part in (novelty.get("beyond") or {}).items()
    }


def _accuracy(name: str, content: dict[str, Any], column: int) -> Accuracy:
    parts = [content["curve"][part] for part in ("mean", "low", "high")]
    if len({len(part) for part in parts}) > 1 or not parts[0]:
        raise ValueError(f"the curve of {name!r} is not whole")
    one_step = _value(*(content["one_step"][part][column] for part in ("mean", "low", "high")))
    if one_step is None:
        raise ValueError(f"{name!r} has no error one step ahead")
    return Accuracy(
        name=name,
        one_step=one_step,
        curve=tuple(_value(*(row[column] for row in rows)) for rows in zip(*parts, strict=True)),
        rollouts=int(content["rollouts"]),
        diverged=int(content["diverged"]),
    )


def _value(mean: Any, low: Any, high: Any) -> Value | None:
    if mean is None or not math.isfinite(mean):
        return None
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    return Value(float(mean), float(low) if known else None, float(high) if known else None)


def load_fitted(path: Path) -> Fitted:
    """``actuator.json`` of ``genan fit``."""
    content = _formatted(path, "genan actuators", newest=2)
    contract, record = content["contract"], content["record"]
    training = record.get("training") or {}
    losses = [[float(loss) for loss in epoch] for epoch in training.get("validation_loss") or ()]
    means = tuple(sum(epoch) / len(epoch) for epoch in losses)
    trajectories = (record.get("data") or {}).get("trajectories")
    return Fitted(
        robot=str(contract["robot"]),
        loss=str(contract["loss"]),
        members=int(contract["network"]["members"]),
        hidden=tuple(int(size) for size in contract["network"]["hidden"]),
        history=(int(contract["history"]["length"]), int(contract["history"]["stride"])),
        trajectories=None if trajectories is None else int(trajectories),
        validation_loss=means if all(math.isfinite(mean) for mean in means) else (),
        settings=dict(record.get("settings") or {}),
        device=str(training.get("device", "")),
        versions=_versions(record),
    )


def load_trained(path: Path) -> Trained:
    """``policy.json`` of ``genan train``."""
    content = _formatted(path, "genan policy")
    contract, record = content["contract"], content["record"]
    judged = record.get("judged")
    each = float(record.get("envs") or 0) * float((record.get("ppo") or {}).get("rollouts") or 0)
    curve = [
        ((float(point["update"]) + 1.0) * (each or 1.0), 100.0 * float(point["episode/success"]))
        for point in record.get("curve") or ()
        if point.get("episode/success") is not None and math.isfinite(point["episode/success"])
    ]
    return Trained(
        task=str(contract["task"]),
        robot=str(contract["robot"]),
        steps=None if record.get("steps") is None else int(record["steps"]),
        curve=tuple(curve),
        judged=None
        if not judged or judged.get("success") is None
        else (
            100.0 * float(judged["success"]),
            100.0 * float(judged["interval"][0]),
            100.0 * float(judged["interval"][1]),
            int(judged["episodes"]),
        ),
        settings=dict(record.get("settings") or {}),
        versions=_versions(record),
    )


def load_inspected(path: Path) -> Inspected:
    """``inspection.json`` of ``genan inspect``."""
    content = _formatted(path, INSPECTION)
    joints = tuple(dict(joint) for joint in content["joints"])
    for joint in joints:
        for name in ("lowest", "highest", "speed_p99", "phase_covered"):
            joint[name] = float(joint[name])
    provenance = dict(content["provenance"] or {})
    return Inspected(
        file=str(content["file"]),
        trajectories=int(content["trajectories"]),
        duration=float(content["duration"]),
        dt=float(content["dt"]),
        joints=joints,
        suspicious=tuple(str(sentence) for sentence in content["suspicious"]),
        provenance=provenance,
        versions=_versions(content) or _versions(provenance),
    )


def _formatted(path: Path, kind: str, *, newest: int = 1) -> dict[str, Any]:
    content = read_json(path)
    if content.get("format") != kind or content.get("version") not in range(1, newest + 1):
        came = f"{content.get('format')!r}, version {content.get('version')!r}"
        raise DataError(f"its format is {came}, not {kind!r}, {newest}")
    return content


def _versions(content: Mapping[str, Any]) -> Mapping[str, str]:
    found = content.get("versions") or {}
    return {str(name): str(version) for name, version in found.items()}


def finite(value: Value | None) -> bool:
    """Whether all of the value are numbers that can be drawn; None can always be left out."""
    if value is None:
        return True
    ends = (value.low, value.high)
    return math.isfinite(value.mean) and all(end is None or math.isfinite(end) for end in ends)
