"""What a study or a search found, one JSON file each: values with intervals, and words.

The experiments (``python -m experiments``) write these files; ``genan report`` shows them. Whatever
is said in words was computed from the numbers by the experiment and is stored here.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from genan.errors import DataError
from genan.files import write_atomically

VERSION = 1
SUFFIX, SEARCH_SUFFIX = ".study.json", ".search.json"
"""Files are called ``<study>-<size>.study.json`` and ``search-<what>-<size>.search.json``."""


@dataclass(frozen=True)
class Value:
    """One number with its 95 % interval."""

    mean: float
    low: float | None = None
    high: float | None = None
    count: int | None = None  # trajectories or trials behind it
    job: str | None = None  # that found it
    note: str | None = None  # what a reader must know: "3 of 800 rollouts diverged"


@dataclass(frozen=True)
class Series:
    """One row of values along a figure's axis."""

    name: str
    values: tuple[Value | None, ...]  # ours, one for each place; None where there is none (yet)
    paper: tuple[Value | None, ...] = ()  # the paper's; empty where it has none


@dataclass(frozen=True)
class Figure:
    """Some rows of values over one axis. Its table has a row for each place and series."""

    name: str  # short, for files: "history-500-steps"
    title: str
    kind: Literal["bars", "lines", "stacked"]  # lines where the axis is a quantity, stacked: parts
    axis: str  # what is along the axis: "history length H"
    places: tuple[str | float | int, ...]  # where on it: names, or numbers
    quantity: str  # what is up: "mean absolute joint position error"
    unit: str  # "deg", "%"
    series: tuple[Series, ...]
    logarithmic: bool = False  # the axis along
    caption: str = ""  # what was done to get it, in a sentence or two


@dataclass(frozen=True)
class Finding:
    """What the paper says, and what we see."""

    paper: str  # a sentence
    ours: str  # a sentence with numbers and intervals
    agrees: bool | None  # None where ours cannot tell


@dataclass(frozen=True)
class JobNote:
    """One job behind the result."""

    id: str
    kind: str
    label: str
    state: Literal["done", "failed", "missing"]
    seconds: float | None = None  # what it took, over all its runs
    error: str | None = None  # why it failed
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """Everything a study found."""

    study: str
    size: str  # smoke, small or full
    title: str
    question: str  # what it asks, in a sentence
    figures: tuple[Figure, ...]
    findings: tuple[Finding, ...]
    jobs: tuple[JobNote, ...]
    command: str  # what repeats it
    notes: tuple[str, ...] = ()  # how this size falls short of the paper's
    headline: str = ""  # what came out, in a sentence; empty while something is missing

    @property
    def complete(self) -> bool:
        """Whether every job is done."""
        return all(job.state == "done" for job in self.jobs)

    @property
    def filename(self) -> str:
        """What its file is called."""
        return f"{self.study}-{self.size}{SUFFIX}"

    def save(self, folder: Path) -> Path:
        """Write it, whole or not at all; returns the file."""
        return _save(folder / self.filename, "study", asdict(self))

    @classmethod
    def load(cls, path: Path | str) -> "StudyResult":
        """What ``save`` wrote."""
        return _load(path, "study", cls._read)

    @classmethod
    def _read(cls, content: dict[str, Any]) -> "StudyResult":
        texts = [content[name] for name in ("study", "size", "title", "question", "command")]
        if not all(isinstance(text, str) for text in (*texts, *content["notes"])):
            raise ValueError("its title, question, command and notes must be texts")
        return cls(
            **content
            | {
                "figures": tuple(map(_figure, content["figures"])),
                "findings": tuple(Finding(**finding) for finding in content["findings"]),
                "jobs": tuple(JobNote(**job) for job in content["jobs"]),
                "notes": tuple(content["notes"]),
            }
        )


@dataclass(frozen=True)
class SearchTrial:
    """One set of settings, and what came of it."""

    number: int  # from 0, which has the defaults
    settings: Mapping[str, Any]  # those that are searched, by their names
    job: str  # that found its value
    state: Literal["done", "failed", "missing"]
    value: float | None = None  # the objective
    seconds: float | None = None  # what it took, without what all trials share
    error: str | None = None  # why it failed


@dataclass(frozen=True)
class SearchResult:
    """Everything a search found."""

    what: str
    size: str  # smoke, small or full
    objective: str  # what is compared, for people
    unit: str
    lower_is_better: bool
    trials: tuple[SearchTrial, ...]  # in the order in which they were suggested
    command: str  # what repeats it, and goes on with it
    importance: Mapping[str, float] = field(default_factory=dict)
    """How much each setting tells a good trial from a bad one, 1 in all; empty after few trials."""
    notes: tuple[str, ...] = ()
    versions: tuple[Mapping[str, str], ...] = ()
    """Of the packages; more than one where a search went on with others."""
    hardware: tuple[Mapping[str, str], ...] = ()  # The machines that they ran on.

    @property
    def defaults(self) -> SearchTrial | None:
        """The trial with the defaults, where it has a value."""
        return next((trial for trial in self.ranked() if trial.number == 0), None)

    @property
    def best(self) -> SearchTrial | None:
        """The best trial, the earliest of several; None where none has a value."""
        return next(iter(self.ranked()), None)

    @property
    def complete(self) -> bool:
        """Whether every trial has been tried."""
        return all(trial.state != "missing" for trial in self.trials)

    def ranked(self) -> tuple[SearchTrial, ...]:
        """The trials that have a value, best first."""
        sign = 1.0 if self.lower_is_better else -1.0
        valued = [(sign * t.value, t.number, t) for t in self.trials if t.value is not None]
        return tuple(trial for _, _, trial in sorted(valued, key=lambda row: row[:2]))

    @property
    def filename(self) -> str:
        """What its file is called."""
        return search_filename(self.what, self.size)

    def save(self, folder: Path) -> Path:
        """Write it, whole or not at all; returns the file."""
        best = None if self.best is None else asdict(self.best)
        return _save(folder / self.filename, "search", asdict(self) | {"best": best})

    @classmethod
    def load(cls, path: Path | str) -> "SearchResult":
        """What ``save`` wrote."""
        return _load(path, "search", cls._read)

    @classmethod
    def _read(cls, content: dict[str, Any]) -> "SearchResult":
        content.pop("best")
        trials = tuple(SearchTrial(**trial) for trial in content["trials"])
        rows = {name: tuple(content[name]) for name in ("notes", "versions", "hardware")}
        return cls(**content | rows | {"trials": trials})


def search_filename(what: str, size: str) -> str:
    """What the file of such a search is called."""
    return f"search-{what}-{size}{SEARCH_SUFFIX}"


def _save(path: Path, kind: str, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"format": f"genan {kind}", "version": VERSION, **content}
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False).encode())
    return path


def _load(path: Path | str, kind: str, read: Any) -> Any:
    try:
        content = json.loads(Path(path).read_bytes())
        if (content.pop("format"), content.pop("version")) != (f"genan {kind}", VERSION):
            raise ValueError("another format or version")
        return read(content)
    except FileNotFoundError:
        raise DataError(f"There is no {path}; 'python -m experiments' makes one.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is not the result of a {kind} ({error}); remove it and run the {kind} again: "
            "finished jobs are kept."
        ) from None


def _figure(content: dict[str, Any]) -> Figure:
    """The figure, refused where it could not be drawn."""
    series = tuple(
        Series(row["name"], _values(row["values"]), _values(row["paper"]))
        for row in content["series"]
    )
    found = Figure(**content | {"places": tuple(content["places"]), "series": series})
    rows = [row for one in series for row in (one.values, one.paper) if row or row is one.values]
    numbers = [end or 0.0 for row in rows for v in row if v for end in (v.mean, v.low, v.high)]
    if found.kind not in ("bars", "lines", "stacked"):
        raise ValueError(f"figure {found.name!r} is of the unknown kind {found.kind!r}")
    if found.kind == "lines" and not all(isinstance(at, int | float) for at in found.places):
        raise ValueError(f"the axis of figure {found.name!r} must be numbers")
    if any(len(row) != len(found.places) for row in rows) or not all(map(math.isfinite, numbers)):
        raise ValueError(f"the values of figure {found.name!r} are not complete")
    return found


def _values(content: list[dict[str, Any] | None]) -> tuple[Value | None, ...]:
    return tuple(None if value is None else Value(**value) for value in content)
