"""Find, in files and folders, everything that genan's commands leave behind, and read it."""

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from genan.actuator.contract import read_contract as read_actuators
from genan.errors import DataError, GenanError
from genan.evaluation.study_result import SEARCH_SUFFIX, SUFFIX, SearchResult, StudyResult, Value
from genan.evaluation.transfer import RESULT, TransferResult
from genan.report.inspection import FILE as INSPECTION
from genan.report.inspection import load_inspection
from genan.rl.contract import read_contract as read_policy
from genan.words import plural

T = TypeVar("T")
Runs = Sequence[Path]  # Files and folders.

_KINDS: Any = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
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
    evaluations: tuple[Found[SimpleNamespace], ...] = ()
    transfers: tuple[Found[TransferResult], ...] = ()
    policies: tuple[Found[ArtifactRecord], ...] = ()
    actuators: tuple[Found[ArtifactRecord], ...] = ()
    inspections: tuple[Found[Mapping[str, Any]], ...] = ()
    pictures: tuple[Found[str], ...] = ()  # PNGs, and the section that each belongs to.
    films: tuple[Found[None], ...] = ()
    broken: tuple[Found[str], ...] = ()  # What could not be read, and why.

    def counted(self) -> str:
        """How much there is of what: "7 studies, 1 film"."""
        counts = ((len(getattr(self, kind)), words) for kind, words in _KINDS["counted"].items())
        return ", ".join(plural(count, *words) for count, words in counts if count) or "nothing"


def gather(runs: Runs, *, leave_out: Path | None = None) -> Material:
    """Read everything of genan in the files and folders ``runs``; what cannot be read is named in
    ``broken``. Folders are searched to the bottom, links to folders are not followed.
    ``leave_out``: a folder to pass by, that of the report itself."""
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
            path.stat()
            content = load(path)
        except (GenanError, OSError) as error:
            words = str(error).removeprefix(f"{path} ").rstrip(".")
            kind, content = "broken", getattr(error, "strerror", None) or words
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            kind = "broken"
            content = f"is not as genan writes it ({type(error).__name__}: {error}); make it again"
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
    return next(found, ("broken", lambda path: f"it is none of {_LOOKED_FOR}"))


def _load_evaluation(path: Path) -> SimpleNamespace:
    """``evaluation.json``: fitted actuators, the first of ``models``, compared with what they must
    beat. Errors are means over the joints of the first ``unit``, rad or m."""
    found = json.loads(path.read_bytes())
    column = len(found["columns"]) - len(set(found["units"]))  # the first mean over joints
    novelty, recording = found.get("novelty") or {}, found["recording"]
    held = found["held_control"].items()
    beyond, ratios = (novelty.get(k) or {} for k in ("beyond", "error_beyond_over_within"))

    def model(name: str, errors: dict[str, Any]) -> SimpleNamespace:
        """``curve``: after 1, 2, ... steps; None where all had diverged."""
        ends = ((errors["one_step"][end], *errors["curve"][end]) for end in ("mean", "low", "high"))
        values = []
        for mean, *interval in ([row[column] for row in rows] for rows in zip(*ends, strict=True)):
            known = () if None in interval else interval
            values.append(None if mean is None else Value(mean, *known))
        if len(values) < 2 or values[0] is None:
            raise ValueError(f"the errors of {name!r} are not complete")
        counts = {what: int(errors[what]) for what in ("rollouts", "diverged")}
        return SimpleNamespace(name=name, one_step=values[0], curve=tuple(values[1:]), **counts)

    if not found["models"]:
        raise ValueError("it has no models")
    return SimpleNamespace(
        dt=float(found["dt"]), unit=str(found["units"][column]),
        trajectories=int(recording["trajectories"]), notes=[*map(str, found["notes"])],
        training_data=bool(recording["training_data"]),  # whether they were fitted to it
        models=[model(name, errors) for name, errors in found["models"].items()],
        held={k: (str(v["verdict"]), bool(v["fit_for_training"])) for k, v in held},
        verdict=[*map(str, found.get("verdict") or ())], versions=found.get("versions") or {},
        comparisons=(found.get("certainty") or {}).get("comparisons", ()),
        beyond={joint: (float(part), ratios.get(joint)) for joint, part in beyond.items()},
        stretches=novelty.get("stretches", ()),
    )  # fmt: skip


_READERS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    f"*{SUFFIX}": ("studies", StudyResult.load),
    f"*{SEARCH_SUFFIX}": ("searches", SearchResult.load),
    "evaluation.json": ("evaluations", _load_evaluation),
    RESULT: ("transfers", TransferResult.load),
    "policy.json": ("policies", lambda path: ArtifactRecord(*read_policy(path.parent))),
    "actuator.json": ("actuators", lambda path: ArtifactRecord(*read_actuators(path.parent))),
    INSPECTION: ("inspections", load_inspection),
    "*.mp4": ("films", lambda path: None),
    "*.gif": ("films", lambda path: None),
} | {
    f"{name}.png": ("pictures", lambda path, section=section: section)
    for section, names in _KINDS["pictures"].items()
    for name in names
}
_LOOKED_FOR = ", ".join(name for name in _READERS if not name.endswith(".png"))
