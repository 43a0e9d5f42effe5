"""Find, in files and folders, everything that genan's commands leave behind, and read it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from genan.actuator.contract import read_contract as read_actuators
from genan.errors import DataError, GenanError
from genan.evaluation.study_result import SEARCH_SUFFIX, SUFFIX, SearchResult, StudyResult
from genan.evaluation.transfer import RESULT, TransferResult
from genan.report.inspection import FILE as INSPECTION
from genan.report.inspection import load_inspection
from genan.rl.contract import read_contract as read_policy
from genan.words import plural

T = TypeVar("T")

JOBS = {"job.json", "seconds.json", "folds.json"}
"""A folder with one of these is a job of a study, or holds the fits of a cross-validation. What
they found is in the result of the whole."""


@dataclass(frozen=True)
class Found(Generic[T]):
    """Something that was found."""

    label: str  # Its place, from the folder that everything is in.
    path: Path
    content: T


@dataclass(frozen=True)
class ArtifactRecord:
    """Fitted actuators or a policy, without the weights."""

    contract: Any  # ``genan.actuator.Contract`` or ``genan.rl.contract.PolicyContract``.
    record: Mapping[str, Any]  # How it was made.


@dataclass(frozen=True)
class Material:
    """Everything that a report is about."""

    studies: tuple[Found[StudyResult], ...] = ()
    searches: tuple[Found[SearchResult], ...] = ()
    evaluations: tuple[Found[Any], ...] = ()  # ``genan.evaluation.record.EvaluationRecord``.
    transfers: tuple[Found[TransferResult], ...] = ()
    policies: tuple[Found[ArtifactRecord], ...] = ()
    actuators: tuple[Found[ArtifactRecord], ...] = ()
    inspections: tuple[Found[Mapping[str, Any]], ...] = ()
    pictures: tuple[Found[str], ...] = ()  # PNGs, and the section that each belongs to.
    films: tuple[Found[None], ...] = ()
    broken: tuple[Found[str], ...] = ()  # What could not be read, and why.

    def counted(self) -> str:
        """How much there is of what: "7 studies, 1 film"."""
        parts = (
            (self.inspections, "inspected recording", None),
            (self.actuators, "fitted actuators", "fitted actuators"),
            (self.evaluations, "evaluation", None),
            (self.policies, "policy", "policies"),
            (self.transfers, "series of transfer trials", "series of transfer trials"),
            (self.studies, "study", "studies"),
            (self.searches, "search", "searches"),
            (self.films, "film", None),
        )
        words = [plural(len(part), one, many) for part, one, many in parts if part]
        return ", ".join(words) or "nothing"


def gather(runs: Sequence[Path], *, leave_out: Path | None = None) -> Material:
    """Read everything of genan that is in ``runs``; what cannot be read is named in ``broken``.

    Args:
        runs: files and folders; folders are searched to the bottom, links to folders are not
            followed.
        leave_out: a folder to pass by: that of the report itself.
    """
    gone = [run for run in runs if not run.exists()]
    if gone:
        raise DataError(f"There is no {gone[0]}; give files or folders of genan's commands.")
    paths = sorted({path.absolute() for run in runs for path in _files(run, leave_out)})
    if not paths:
        where = ", ".join(map(str, runs))
        raise DataError(f"There is nothing of genan in {where}: looked for {_LOOKED_FOR}.")
    top = Path(os.path.commonpath([path.parent for path in paths]))
    found: dict[str, list[Found[Any]]] = {}
    for path in paths:
        kind, load = _reader(path.name)
        label, name = path.relative_to(top), str(path.relative_to(top))
        try:
            content = load(path)
        except (GenanError, OSError, ValueError, KeyError, TypeError) as error:
            words = str(error).removeprefix(f"{path} ").rstrip(".")
            kind, content = "broken", (isinstance(error, OSError) and error.strerror) or words
        else:  # A run is called by its folder; what a folder may hold many of, by its own name.
            name = name.removesuffix(SUFFIX).removesuffix(SEARCH_SUFFIX)
            name = str(label.parent) if path.name in _READERS and label.parent != Path() else name
        found.setdefault(kind, []).append(Found(name, path, content))
    material = Material(**{kind: tuple(each) for kind, each in found.items()})
    if found.keys() == {"broken"}:
        names = "; ".join(f"{each.path}: {each.content}" for each in material.broken)
        raise DataError(f"Nothing of what was found can be read: {names}.")
    return material


def _files(run: Path, leave_out: Path | None) -> Iterator[Path]:
    """The files of ``run`` that are of a kind we know; a file given by name in any case."""
    if not run.is_dir():
        yield run
        return
    for folder, below, names in os.walk(run):
        here = Path(folder)
        seen = sorted(name for name in below if not name.startswith("."))
        below[:] = [name for name in seen if (here / name).absolute() != leave_out]
        if here != run and JOBS.intersection(names):
            below.clear()
            continue
        known = (name for name in names if _reader(name)[0] != "broken")
        yield from (here / name for name in known if not name.startswith("."))


def _reader(name: str) -> tuple[str, Callable[[Path], Any]]:
    """Of a file by its name: what of ``Material`` it belongs to, and what reads it."""
    found = (one for pattern, one in _READERS.items() if fnmatchcase(name.lower(), pattern))
    return next(found, ("broken", _refuse))


def _refuse(path: Path) -> None:
    raise DataError(f"it is none of {_LOOKED_FOR}")


def _exists(path: Path, *, section: str | None = None) -> str | None:
    path.stat()
    return section


def _load_evaluation(path: Path) -> Any:
    from genan.evaluation.record import EvaluationRecord  # needs JAX, which most reports do not

    return EvaluationRecord.load(path)


def _load_transfer(path: Path) -> TransferResult:
    found = TransferResult.load(path.parent)
    found.outcomes()
    return found


_PICTURES = {
    "data": ("trajectories", "coverage", "signals", "frequency-response", "hysteresis"),
    "actuators": ("rollouts", "held-control", "trust"),
}
"""Pictures of ``inspect``, ``identify`` and ``evaluate``, by the section they belong to."""
_READERS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    f"*{SUFFIX}": ("studies", StudyResult.load),
    f"*{SEARCH_SUFFIX}": ("searches", SearchResult.load),
    "evaluation.json": ("evaluations", _load_evaluation),
    RESULT: ("transfers", _load_transfer),
    "policy.json": ("policies", lambda path: ArtifactRecord(*read_policy(path.parent))),
    "actuator.json": ("actuators", lambda path: ArtifactRecord(*read_actuators(path.parent))),
    INSPECTION: ("inspections", load_inspection),
    "*.mp4": ("films", _exists),
    "*.gif": ("films", _exists),
} | {
    f"{name}.png": ("pictures", partial(_exists, section=section))
    for section, names in _PICTURES.items()
    for name in names
}
_LOOKED_FOR = ", ".join(name for name in _READERS if not name.endswith(".png"))
