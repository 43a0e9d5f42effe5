"""Find, in files and folders, everything that genan's commands leave behind, and read it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from genan.actuator.contract import read_contract as read_actuators
from genan.errors import DataError, GenanError
from genan.evaluation.study_result import SEARCH_SUFFIX, SUFFIX, SearchResult, StudyResult
from genan.evaluation.transfer import RESULT, TransferResult
from genan.report.inspection import FILE as INSPECTION
from genan.report.inspection import InspectionRecord
from genan.rl.contract import read_contract as read_policy
from genan.words import plural

T = TypeVar("T")

FILMS = (".mp4", ".gif")
PICTURES = {
    "data": ("trajectories", "coverage", "signals", "frequency-response", "hysteresis"),
    "actuators": ("rollouts", "held-control", "trust"),
}
"""PNG pictures of ``inspect``, ``identify`` and ``evaluate``, by the section they belong to."""
JOBS = ("job.json", "seconds.json", "folds.json")
"""A folder with one of these is a job of a study, or holds the fits of a cross-validation. What
they found is in the result of the whole."""
LOOKED_FOR = (
    f"*{SUFFIX}, *{SEARCH_SUFFIX}, evaluation.json, {RESULT}, policy.json, actuator.json, "
    f"{INSPECTION}, .mp4 and .gif"
)


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
    inspections: tuple[Found[InspectionRecord], ...] = ()
    pictures: tuple[Found[None], ...] = ()  # Pictures of recordings, of the robot and of models.
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
        kind, load = _kind(path)
        label = path.relative_to(top)
        try:
            found.setdefault(kind, []).append(Found(_short(label), path, load(path)))
        except (GenanError, OSError, ValueError, KeyError, TypeError) as error:
            words = str(error).removeprefix(f"{path} ").rstrip(".")
            if isinstance(error, OSError):
                words = str(error.strerror or error)
            found.setdefault("broken", []).append(Found(str(label), path, words))
    material = Material(**{kind: tuple(each) for kind, each in found.items() if each})
    if not any(each for kind, each in found.items() if kind != "broken"):
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
        hidden = {name for name in (*below, *names) if name.startswith(".")}
        below[:] = sorted(
            name for name in set(below) - hidden if (here / name).absolute() != leave_out
        )
        if here != run and any(name in names for name in JOBS):
            below.clear()
            continue
        known = (name for name in names if name not in hidden and _kind(Path(name))[0] != "broken")
        yield from (here / name for name in known)


def _kind(path: Path) -> tuple[str, Callable[[Path], Any]]:
    """What sort of file it is by its name, and what reads it."""
    for suffix, kind in _SUFFIXES:
        if path.name.lower().endswith(suffix):
            return kind
    return _KINDS.get(path.name, ("broken", _unknown))


def _short(label: Path) -> str:
    """A run is called by its folder; files of which a folder may hold many, by their own names."""
    for suffix in (SUFFIX, SEARCH_SUFFIX):
        if label.name.endswith(suffix):
            return str(label).removesuffix(suffix)
    return str(label.parent) if label.name in _KINDS and label.parent != Path() else str(label)


def _unknown(path: Path) -> None:
    raise DataError(f"it is none of {LOOKED_FOR}")


def _exists(path: Path) -> None:
    path.stat()


def _load_evaluation(path: Path) -> Any:
    from genan.evaluation.record import EvaluationRecord  # needs JAX, which most reports do not

    return EvaluationRecord.load(path)


def _load_transfer(path: Path) -> TransferResult:
    found = TransferResult.load(path.parent)
    found.outcomes()
    return found


_SUFFIXES: tuple[tuple[str | tuple[str, ...], tuple[str, Callable[[Path], Any]]], ...] = (
    (SUFFIX, ("studies", StudyResult.load)),
    (SEARCH_SUFFIX, ("searches", SearchResult.load)),
    (FILMS, ("films", _exists)),
)
_KINDS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    "evaluation.json": ("evaluations", _load_evaluation),
    RESULT: ("transfers", _load_transfer),
    "policy.json": ("policies", lambda path: ArtifactRecord(*read_policy(path.parent))),
    "actuator.json": ("actuators", lambda path: ArtifactRecord(*read_actuators(path.parent))),
    INSPECTION: ("inspections", InspectionRecord.load),
    **{f"{name}.png": ("pictures", _exists) for names in PICTURES.values() for name in names},
}
