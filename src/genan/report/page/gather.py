"""Find, in files and folders, everything that genan's commands leave behind, and read it."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from genan.errors import DataError
from genan.evaluation.study_result import SUFFIX, Figure, StudyResult
from genan.evaluation.transfer import RESULT, Transfer
from genan.report.page.runs import (
    Evaluated,
    Fitted,
    Inspected,
    Trained,
    finite,
    load_evaluated,
    load_fitted,
    load_inspected,
    load_trained,
)

T = TypeVar("T")

FILMS = (".mp4", ".gif")
PICTURES = {
    "trajectories.png": (
        "data",
        "A few of the recorded trajectories: joint positions left, controls right.",
    ),
    "coverage.png": ("data", "Where the recording has been."),
    "frequency-response.png": (
        "data",
        "How the joints answer to slow and fast controls: dots measured, lines a model.",
    ),
    "hysteresis.png": (
        "data",
        "Joint angle over a control swept slowly up and down: the loop is the hysteresis.",
    ),
    "rollouts.png": (
        "actuators",
        "Simulated motion over the recorded one: the best, the median and the worst case.",
    ),
    "held-control.png": ("actuators", "What happens when the controls are held."),
    "novelty.png": (
        "actuators",
        "Where a log is new to the model, by time and joint: the worst of it.",
    ),
}
"""Pictures of ``genan inspect``, ``identify`` and ``evaluate``: the section they belong to, and
what they show."""
JOBS = ("job.json", "seconds.json", "folds.json")
"""A folder with one of these is a job of a study, or holds the fits of a cross-validation. What
they found is in the result of the whole."""
LOOKED_FOR = f"*{SUFFIX}, evaluation.json, {RESULT}, policy.json, actuator.json, inspection.json, .mp4 and .gif"

_STUDIES = ("accuracy", "history", "stride", "rollout", "dataset-size", "transfer", "table-tennis")
_TASKS = ("reacher", "ball-in-a-cup", "table-tennis")
_SIZES = ("full", "small", "smoke")


@dataclass(frozen=True)
class Found(Generic[T]):
    """Something that was found."""

    label: str
    """Its place, from the folder that everything is in."""
    path: Path
    content: T


@dataclass(frozen=True)
class Material:
    """Everything that a report is about."""

    studies: tuple[Found[StudyResult], ...] = ()
    evaluations: tuple[Found[Evaluated], ...] = ()
    transfers: tuple[Found[Transfer], ...] = ()
    policies: tuple[Found[Trained], ...] = ()
    actuators: tuple[Found[Fitted], ...] = ()
    inspections: tuple[Found[Inspected], ...] = ()
    pictures: tuple[Found[str], ...] = ()
    """Pictures of recordings and of the robot; the content says what is seen."""
    films: tuple[Found[None], ...] = ()
    broken: tuple[Found[str], ...] = ()
    """What could not be read, and why."""

    def counted(self) -> str:
        """How much there is of what: "7 studies, 1 film"."""
        parts = (
            (self.inspections, "inspected recording", "inspected recordings"),
            (self.actuators, "fitted actuators", "fitted actuators"),
            (self.evaluations, "evaluation", "evaluations"),
            (self.policies, "policy", "policies"),
            (self.transfers, "series of transfer trials", "series of transfer trials"),
            (self.studies, "study", "studies"),
            (self.films, "film", "films"),
        )
        words = [
            f"{len(part)} {one if len(part) == 1 else many}" for part, one, many in parts if part
        ]
        return ", ".join(words) or "nothing"


def gather(runs: Sequence[Path], *, leave_out: Path | None = None) -> Material:
    """Read everything of genan that is in ``runs``, files or folders; what cannot be read is named
    in ``broken``.

    Args:
        runs: where to look; folders are searched to the bottom, links to folders are not followed.
        leave_out: a folder to pass by: that of the report itself.
    """
    gone = [run for run in runs if not run.exists()]
    if gone:
        raise DataError(
            f"There is no {gone[0]}; give files or folders that genan's commands wrote."
        )
    paths = sorted({path.absolute() for run in runs for path in _files(run, leave_out)})
    if not paths:
        where = ", ".join(str(run) for run in runs)
        raise DataError(f"There is nothing of genan in {where}: looked for {LOOKED_FOR}.")
    top = Path(os.path.commonpath([path.parent for path in paths]))
    found: dict[str, list[Found[Any]]] = {}
    for path in paths:
        label = str(path.relative_to(top))
        kind, load = _kind(path)
        try:
            content = load(path)
            found.setdefault(kind, []).append(Found(_short(label), path, content))
        except DataError as error:
            reason = str(error).removeprefix(f"{path} ").rstrip(".")
            found.setdefault("broken", []).append(Found(label, path, reason))
        except OSError as error:
            found.setdefault("broken", []).append(Found(label, path, str(error.strerror or error)))
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            AttributeError,
            ArithmeticError,
        ) as error:
            words = f"{type(error).__name__}: {error}"
            found.setdefault("broken", []).append(
                Found(label, path, f"it is damaged or not finished ({words})")
            )
    found.get("studies", []).sort(key=_study_order)
    found.get("transfers", []).sort(key=lambda one: (_place(one.content.task, _TASKS), one.label))
    material = Material(**{kind: tuple(each) for kind, each in found.items()})
    if set(found) == {"broken"}:
        names = "; ".join(f"{each.path}: {each.content}" for each in material.broken)
        raise DataError(f"Nothing of what was found can be read: {names}.")
    return material


def _files(run: Path, leave_out: Path | None) -> Iterator[Path]:
    """The files of ``run`` that are of a kind we know."""
    if not run.is_dir():
        yield run
        return
    for folder, below, names in os.walk(run):
        here = Path(folder)
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".") and (here / name).absolute() != leave_out
        )
        if here != run and any(name in names for name in JOBS):
            below.clear()
            continue
        yield from (
            here / name
            for name in names
            if _kind(Path(name))[0] != "broken" and not name.startswith(".")
        )


def _kind(path: Path) -> tuple[str, Callable[[Path], Any]]:
    """What sort of file it is by its name, and what reads it."""
    if path.name.endswith(SUFFIX):
        return "studies", _load_study
    if path.suffix.lower() in FILMS:
        return "films", lambda film: film.stat() and None
    return _KINDS.get(path.name, ("broken", _unknown))


def _unknown(path: Path) -> None:
    raise DataError(f"it is none of {LOOKED_FOR}")


def _load_transfer(path: Path) -> Transfer:
    found = Transfer.load(path.parent)
    found.outcomes()
    for trial in found.trials:
        if not isinstance(trial.robot_seed, int | None) or not isinstance(trial.outcome, str):
            raise ValueError(f"trial {trial.number} is not whole")
    return Transfer(str(found.task), found.trials, dict(found.about))


def _load_study(path: Path) -> StudyResult:
    found = StudyResult.load(path)
    _strings(found.study, found.size, found.title, found.question, found.command, *found.notes)
    for finding in found.findings:
        _strings(finding.paper, finding.ours)
        if finding.agrees not in (True, False, None):
            raise ValueError(
                f"a finding agrees, differs or cannot be told, and is not {finding.agrees!r}"
            )
    for job in found.jobs:
        _strings(job.id, job.kind, job.label, job.state)
        if not math.isfinite(job.seconds or 0.0):
            raise ValueError(f"job {job.id} took {job.seconds!r} s")
    for figure in found.figures:
        _check(figure)
    return found


def _strings(*texts: object) -> None:
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise ValueError(f"there should be a text in place of {wrong[0]!r}")


def _check(figure: Figure) -> None:
    """Refuse what could not be drawn."""
    _strings(figure.name, figure.title, figure.axis, figure.quantity, figure.unit, figure.caption)
    if figure.kind not in ("bars", "lines", "stacked"):
        raise ValueError(f"figure {figure.name!r} is of the unknown kind {figure.kind!r}")
    if figure.kind == "lines" and not all(
        isinstance(place, int | float) for place in figure.places
    ):
        raise ValueError(f"the axis of figure {figure.name!r} must be numbers")
    for series in figure.series:
        _strings(series.name)
        for row in (series.values, series.paper or (None,) * len(figure.places)):
            if len(row) != len(figure.places) or not all(finite(value) for value in row):
                raise ValueError(f"series {series.name!r} of figure {figure.name!r} is not whole")


def _study_order(found: Found[StudyResult]) -> tuple[int, str, int, str]:
    result = found.content
    return _place(result.study, _STUDIES), result.study, _place(result.size, _SIZES), found.label


def _place(name: str, order: tuple[str, ...]) -> int:
    return order.index(name) if name in order else len(order)


def _short(label: str) -> str:
    """A run is called by its folder; files of which a folder may hold many, by their own names."""
    path = Path(label)
    if label.endswith(SUFFIX):
        return label.removesuffix(SUFFIX)
    return str(path.parent) if path.name in _KINDS and path.parent != Path() else label


_KINDS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    "evaluation.json": ("evaluations", load_evaluated),
    RESULT: ("transfers", _load_transfer),
    "policy.json": ("policies", load_trained),
    "actuator.json": ("actuators", load_fitted),
    "inspection.json": ("inspections", load_inspected),
    **{
        name: ("pictures", lambda path: path.stat() and PICTURES[path.name][1]) for name in PICTURES
    },
}
