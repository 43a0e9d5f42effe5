"""What a study found: figures with intervals, ours beside the paper's, and in words. One JSON file
each."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from genan.errors import DataError
from genan.files import write_atomically

FORMAT, VERSION = "genan study", 1
SUFFIX = ".study.json"
"""A result's file is called ``<study>-<size>.study.json``."""


@dataclass(frozen=True)
class Value:
    """One number with its 95 % interval."""

    mean: float
    low: float | None = None
    high: float | None = None
    """Ends of the interval; None where nobody has said."""
    count: int | None = None
    """Trajectories or trials behind it."""
    job: str | None = None
    """The job that found it."""
    note: str | None = None
    """What a reader must know: "3 of 800 rollouts diverged"."""


@dataclass(frozen=True)
class Series:
    """One row of values along a figure's axis."""

    name: str
    values: tuple[Value | None, ...]
    """Ours, one for each place on the axis; None where there is none (yet)."""
    paper: tuple[Value | None, ...] = ()
    """The paper's, the same; empty where it has none."""


@dataclass(frozen=True)
class Figure:
    """One picture: some rows of values over one axis. Its table has a row for each place and
    series."""

    name: str
    """Short, for files: "history-500-steps"."""
    title: str
    kind: Literal["bars", "lines", "stacked"]
    """Bars for names and few numbers, lines where the axis is a quantity, stacked for parts of a
    whole."""
    axis: str
    """What is along the axis: "history length H"."""
    places: tuple[str | float | int, ...]
    """Where on it: names, or numbers."""
    quantity: str
    """What is up: "mean absolute joint position error"."""
    unit: str
    """Its unit: "deg", "%"."""
    series: tuple[Series, ...]
    logarithmic: bool = False
    """Whether the axis along is."""
    caption: str = ""
    """What was done to get it, in a sentence or two."""


@dataclass(frozen=True)
class Finding:
    """What the paper says, and what we see."""

    paper: str
    """The paper's finding, in a sentence."""
    ours: str
    """What came out here, in a sentence with its numbers and intervals."""
    agrees: bool | None
    """None where ours cannot tell."""


@dataclass(frozen=True)
class JobNote:
    """One job behind the result."""

    id: str
    kind: str
    label: str
    state: Literal["done", "failed", "missing"]
    seconds: float | None = None
    """What it took [s], over all its runs."""
    error: str | None = None
    """Why it failed."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """Everything a study found."""

    study: str
    size: str
    """smoke, small or full."""
    title: str
    question: str
    """What it asks, in a sentence."""
    figures: tuple[Figure, ...]
    findings: tuple[Finding, ...]
    jobs: tuple[JobNote, ...]
    command: str
    """What repeats it."""
    notes: tuple[str, ...] = ()
    """What a reader must know about this size: how it falls short of the paper's."""
    headline: str = ""
    """What came out, in a sentence with its numbers; empty while something is missing."""

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
        path = folder / self.filename
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        write_atomically(path, json.dumps(content, indent=1).encode())
        return path

    @classmethod
    def load(cls, path: Path | str) -> "StudyResult":
        """What ``save`` wrote."""
        try:
            content = json.loads(Path(path).read_bytes())
            if (content.pop("format"), content.pop("version")) != (FORMAT, VERSION):
                raise ValueError("another format or version")
            content["figures"] = tuple(_figure(figure) for figure in content["figures"])
            content["findings"] = tuple(Finding(**finding) for finding in content["findings"])
            content["jobs"] = tuple(JobNote(**job) for job in content["jobs"])
            content["notes"] = tuple(content["notes"])
            return cls(**content)
        except FileNotFoundError:
            raise DataError(f"There is no {path}; 'genan study' makes one.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} is not the result of a study ({error}); run the study anew."
            ) from None


def _figure(content: dict[str, Any]) -> Figure:
    series = tuple(
        Series(row["name"], _values(row["values"]), _values(row["paper"]))
        for row in content.pop("series")
    )
    return Figure(**{**content, "places": tuple(content["places"]), "series": series})


def _values(content: list[dict[str, Any] | None]) -> tuple[Value | None, ...]:
    return tuple(None if value is None else Value(**value) for value in content)
