"""What a study or a search found, one JSON file each: values with intervals, and words; and the
paper's figures as numbers, to compare ours with.

The experiments (``python -m experiments``) write these files; ``genan report`` shows them. Whatever
is said in words was computed from the numbers by the experiment and is stored here.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import stdev
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from genan.errors import DataError, listing, refuse
from genan.files import write_atomically

VERSION = 1
SUFFIX, SEARCH_SUFFIX = ".study.json", ".search.json"
"""Files are called ``<study>-<size>.study.json`` and ``search-<what>-<size>.search.json``."""
T = TypeVar("T")


@dataclass(frozen=True)
class Value:
    """One number with its 95 % interval."""

    mean: float
    low: float | None = None
    high: float | None = None
    count: int | None = None  # trajectories or trials behind it
    job: str | None = None  # that found it
    note: str | None = None  # what a reader must know: "3 of 800 rollouts diverged"
    trainings: tuple[float, ...] = ()  # of each of the policies whose mean it is

    @property
    def spread(self) -> float | None:
        """Standard deviation between the trainings; None where there is but one."""
        return stdev(self.trainings) if len(self.trainings) > 1 else None

    def times(self, factor: float) -> "Value":
        """The same in another unit."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return replace(self, mean=factor * self.mean, low=low, high=high)


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

    def __post_init__(self) -> None:
        rows = [row for one in self.series for row in (one.values, one.paper or one.values)]
        ends = [end for row in rows for v in row if v for end in (v.mean, v.low, v.high)]
        whole = all(len(row) == len(self.places) for row in rows)
        if self.kind not in ("bars", "lines", "stacked"):
            raise ValueError(f"figure {self.name!r} is of the unknown kind {self.kind!r}")
        if self.kind == "lines" and not all(isinstance(at, int | float) for at in self.places):
            raise ValueError(f"the axis of figure {self.name!r} must be numbers")
        if not whole or not all(math.isfinite(end) for end in ends if end is not None):
            raise ValueError(f"the values of figure {self.name!r} are not complete")


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
class StoredResult:
    """A result that is kept in one JSON file."""

    noun: ClassVar[str]  # What found it.
    file: ClassVar[str]  # What its file is called, by its fields.
    maker: ClassVar[str] = "python -m experiments"  # What makes the file.

    @property
    def filename(self) -> str:
        """What its file is called."""
        return self.file.format(**vars(self))

    def content(self) -> dict[str, Any]:
        """What is in the file."""
        return asdict(self)

    def save(self, folder: Path) -> Path:
        """Write it, whole or not at all; returns the file."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format": f"genan {self.noun}", "version": VERSION, **self.content()}
        text = json.dumps(content, indent=1, allow_nan=False)
        write_atomically(folder / self.filename, text.encode())
        return folder / self.filename

    @classmethod
    def load(cls: type[T], path: Path | str) -> T:
        """What ``save`` wrote to ``path``, or to the folder where the name never differs."""
        kind: Any = cls
        try:
            path = Path(path) / kind.file if Path(path).is_dir() else Path(path)
            content = json.loads(path.read_bytes())
            if (content["format"], content["version"]) != (f"genan {kind.noun}", VERSION):
                raise ValueError(f"format {content['format']!r}, version {content['version']}")
            return _made(cls, content)
        except FileNotFoundError:
            raise DataError(f"There is no {path}; '{kind.maker}' makes one.") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            other = f"{path} is not the result of a {kind.noun} ({error})"
            raise DataError(f"{other}; remove it and run the {kind.noun} again.") from None


def _made(kind: Any, content: Any) -> Any:
    """Part of a JSON file as ``kind``: a dataclass, a tuple, one of them or None, or as it is."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        given = [one.name for one in fields(kind) if one.init and one.name in content]
        return kind(**{name: _made(hints[name], content[name]) for name in given})
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], part) for part in content)
    if get_origin(kind) is UnionType and content is not None:
        return _made(next(filter(is_dataclass, get_args(kind)), object), content)
    if kind is str and not isinstance(content, str):
        raise ValueError(f"{content!r} must be a text")
    return content


@dataclass(frozen=True)
class StudyResult(StoredResult):
    """Everything a study found."""

    noun, file = "study", "{study}-{size}" + SUFFIX
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
class SearchResult(StoredResult):
    """Everything a search found."""

    noun, file = "search", "search-{what}-{size}" + SEARCH_SUFFIX
    what: str
    size: str  # smoke, small or full
    objective: str  # what is compared, for people
    unit: str
    lower_is_better: bool
    trials: tuple[SearchTrial, ...]  # in the order in which they were suggested
    command: str  # what repeats it, and goes on with it
    importance: Mapping[str, float] = field(default_factory=dict)  # Of each setting, 1 in all.
    notes: tuple[str, ...] = ()
    versions: tuple[Mapping[str, str], ...] = ()  # Of the packages, one or more.
    hardware: tuple[Mapping[str, str], ...] = ()  # The machines that they ran on.
    best: SearchTrial | None = field(init=False)  # The earliest of several; None without values.

    def __post_init__(self) -> None:
        object.__setattr__(self, "best", next(iter(self.ranked()), None))

    @property
    def defaults(self) -> SearchTrial | None:
        """The trial with the defaults, where it has a value."""
        return next((trial for trial in self.ranked() if trial.number == 0), None)

    @property
    def complete(self) -> bool:
        """Whether every trial has been tried."""
        return all(trial.state != "missing" for trial in self.trials)

    def ranked(self) -> tuple[SearchTrial, ...]:
        """The trials that have a value, best first."""
        sign = 1.0 if self.lower_is_better else -1.0
        valued = [(sign * t.value, t.number, t) for t in self.trials if t.value is not None]
        return tuple(trial for *_, trial in sorted(valued, key=lambda row: row[:2]))


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper, or a table, as numbers with their 95 % intervals."""

    source: str  # Where it is: the paper's arXiv number, and which figure.
    axis: str  # What is along the axis.
    places: tuple[str | float, ...]
    quantity: str  # What is up.
    unit: str
    interval: str  # What the intervals are: of which resampling, over how many.
    series: Mapping[str, tuple[Value, ...]]  # One value for each place.


def paper_figure(name: str) -> PaperFigure:
    """The paper's figure ``name``; one that is not there is refused."""
    there = f"there are: {listing(paper_figures())}"
    refuse((name not in paper_figures(), f"The paper has no figure {name!r}; {there}."))
    return paper_figures()[name]


@cache
def paper_figures() -> Mapping[str, PaperFigure]:
    """All figures of the paper, by their names."""
    path = resources.files(__package__) / "paper.json"
    content = json.loads(path.read_bytes(), parse_int=float)
    for figure in content["figures"].values():
        figure["source"] = f"{content['source']}, {figure['source']}"
        figure["places"] = tuple(figure["places"])
        rows = figure["series"].items()
        figure["series"] = {name: tuple(Value(*ends) for ends in row) for name, row in rows}
    return {name: PaperFigure(**figure) for name, figure in content["figures"].items()}
