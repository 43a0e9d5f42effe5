"""Runs as genan's commands leave them, made up: a few numbers in the right places."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from genan.evaluation.study_result import (
    Figure,
    Finding,
    JobNote,
    Series,
    StudyResult,
    Value,
    paper_figure,
)
from genan.evaluation.transfer import TransferResult, TransferTrial
from genan.robot.package import bundled_policy
from genan.tasks.registry import task_entry

VERSIONS = {"genan": "0.1.0", "jax": "0.10.2", "python": "3.11.7"}
#: What a study's figures are called, and how they are drawn.
STUDIES = {
    "accuracy": (("accuracy-1-step", "bars"), ("accuracy-500-steps", "bars")),
    "history": (("history-1-step", "bars"), ("history-500-steps", "bars")),
    "stride": (("stride-1-step", "bars"), ("stride-500-steps", "bars")),
    "rollout": (("rollout-1-step", "lines"), ("rollout-500-steps", "lines")),
    "dataset-size": (
        ("dataset-size-1-step", "lines"),
        ("dataset-size-500-steps", "lines"),
        ("dataset-size-reacher", "lines"),
    ),
    "transfer": (
        ("transfer-reacher", "bars"),
        ("transfer-ball-in-a-cup", "bars"),
        ("transfer-table-tennis", "bars"),
    ),
    "table-tennis": (("table-tennis-outcomes", "stacked"),),
}


def study_result(study: str, *, size: str = "smoke", seed: int = 0) -> StudyResult:
    """A study whose numbers are the paper's, shaken."""
    rng = np.random.default_rng(seed)
    figures = []
    for name, kind in STUDIES[study]:
        paper = paper_figure(name)
        factor = float(rng.uniform(0.6, 1.0))
        series = tuple(
            Series(row, tuple(_shaken(value, factor, paper.unit) for value in values), values)
            for row, values in paper.series.items()
        )
        figures.append(
            Figure(
                name=name,
                title=name.replace("-", " ").capitalize(),
                kind=kind,
                axis=paper.axis,
                places=paper.places,
                quantity=paper.quantity,
                unit=paper.unit,
                series=series,
                logarithmic=name.startswith("dataset"),
                caption="Each bar or point is an ensemble of 5 networks.",
            )
        )
    jobs = tuple(
        JobNote(
            id=f"fit-{k:012x}",
            kind="fit",
            label=f"fit {k}",
            state="done",
            seconds=12.5 + k,
            settings={"seed": k, "loss": "position"},
            versions=VERSIONS,
            hardware={"cpu": "2 cores", "gpu": "none"},
        )
        for k in range(6)
    )
    findings = (
        Finding(
            "The first is better than the second.",
            "0.0061 deg (0.0058 to 0.0064) against 0.0071.",
            True,
        ),
        Finding(
            "The third is worst by far.",
            "It is second: 5.1 deg (4.9 to 5.3) against 6.2 deg.",
            False,
        ),
        Finding("More is better up to ten.", "The intervals overlap.", None),
    )
    return StudyResult(
        study=study,
        size=size,
        title=study.replace("-", " ").capitalize(),
        question="Which of them is better, and by how much?",
        figures=tuple(figures),
        findings=findings,
        jobs=jobs,
        command=f"genan study {study} --size {size}",
        notes=("Smoke is a test of the machinery: 8 trajectories, 2 epochs.",),
    )


def _shaken(value: Value, factor: float, unit: str) -> Value:
    if unit == "%":
        return replace(value, count=100, job="transfer-000")
    ends = [None if end is None else factor * end for end in (value.low, value.high)]
    return Value(factor * value.mean, *ends, 800, "evaluate-000", None)


def write_transfer(
    folder: Path,
    task: str,
    *,
    rate: float = 0.94,
    robots: int = 1,
    trials: int = 100,
    seed: int = 0,
) -> None:
    """``transfer.json`` with ``rate`` of the trials successful."""
    folder.mkdir(parents=True, exist_ok=True)
    good, *bad = task_entry(task).outcomes
    rng = np.random.default_rng(seed)
    made = [
        TransferTrial(
            number=k,
            robot_seed=robot,
            success=k < round(rate * trials),
            outcome=good if k < round(rate * trials) else str(rng.choice(bad)),
            stop="all was done",
            u_init=[0.0] * 4,
            goal=None,
        )
        for robot in range(robots)
        for k in range(trials)
    ]
    about = {"robot": "virtual-pamy2", "hours": 0.0, "versions": VERSIONS, "trials": trials}
    TransferResult(task, tuple(made), about).save(folder)


def write_evaluation(folder: Path, *, horizon: int = 500, **changed: Any) -> None:
    """``evaluation.json`` of three models."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = np.arange(1, horizon + 1)

    def model(scale: float, power: float) -> dict[str, Any]:
        mean = np.outer(scale * steps**power, [1.0, 2.0, 1.5])
        estimate = {
            "mean": mean.tolist(),
            "low": (0.9 * mean).tolist(),
            "high": (1.1 * mean).tolist(),
        }
        one = {name: rows[0] for name, rows in estimate.items()}
        return {"one_step": one, "curve": estimate, "samples": 1000, "rollouts": 64, "diverged": 0}

    content = {
        "actuators": "actuators",
        "robot": "pamy2",
        "dt": 0.002,
        "recording": {"fingerprint": "ab" * 32, "trajectories": 64, "training_data": False},
        "first_sample": 10,
        "horizon": horizon,
        "divergence_bound": [3.1, 3.1],
        "notes": ["2 trajectories were left out."],
        "columns": ["q1", "q2", "overall"],
        "units": ["rad", "rad", "rad"],
        "models": {
            "actuators": model(1.2e-4, 0.9),
            "ridge ARX, order 10": model(1.1e-4, 1.2),
            "constant velocity": model(1.5e-4, 1.5),
        },
        "members": {},
        "held_control": {
            "actuators": {
                "verdict": "it settles; after 5 s it still moves in 0 of 64 starts.",
                "fit_for_training": True,
            }
        },
        "torque": None,
        "disagreement": [],
        **changed,
    }
    (folder / "evaluation.json").write_text(json.dumps(content))


def write_inspection(
    folder: Path, *, suspicious: tuple[str, ...] = (), file: str = "data.h5"
) -> None:
    """``inspection.json`` of a recording."""
    folder.mkdir(parents=True, exist_ok=True)
    joint = {"unit": "rad", "lowest": -1.2, "highest": 1.3, "speed_p99": 4.2, "phase_covered": 0.62}
    content = {
        "format": "genan inspection",
        "version": 1,
        "file": file,
        "trajectories": 200,
        "duration": 400.0,
        "dt": 0.002,
        "joints": [{"name": f"q{k}", **joint} for k in (1, 2, 3, 4)],
        "controls": [],
        "suspicious": list(suspicious),
        "provenance": {"robot": "virtual-pamy2"},
        "versions": VERSIONS,
    }
    (folder / "inspection.json").write_text(json.dumps(content))


def write_policy(folder: Path, task: str = "reacher") -> None:
    """The record of the bundled policy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.json").write_bytes((bundled_policy(task) / "policy.json").read_bytes())


def write_actuators(folder: Path) -> None:
    """The record of the bundled actuators."""
    from genan.robot.package import bundled_actuators

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "actuator.json").write_bytes(
        (bundled_actuators("pamy2") / "actuator.json").read_bytes()
    )


def write_all(
    folder: Path, *, film: bytes = b"\0" * 1000, studies: Iterable[str] = STUDIES
) -> Path:
    """Everything there is: 7 studies, 3 transfers, 2 films, and one of each of the rest."""
    for k, study in enumerate(studies):
        study_result(study, seed=k).save(folder / "studies")
    write_transfer(folder / "transfer-reacher", "reacher")
    write_transfer(folder / "transfer-cup", "ball-in-a-cup", rate=0.81, robots=3)
    write_transfer(folder / "transfer-tennis", "table-tennis", rate=0.97, robots=3)
    write_evaluation(folder / "evaluate")
    write_inspection(
        folder / "inspect",
        suspicious=("Joint 'q2' never goes below 0.1 rad.", "Control 'u3' is at an end."),
    )
    write_actuators(folder / "actuators")
    for task in ("reacher", "table-tennis"):
        write_policy(folder / task, task)
    for name in ("reacher.mp4", "tennis.mp4"):
        (folder / name).write_bytes(film)
    return folder
