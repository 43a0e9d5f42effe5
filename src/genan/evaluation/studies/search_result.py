"""What a search found: every trial, the best, and how it compares to the defaults. One JSON file
each."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from genan.errors import DataError
from genan.files import write_atomically

FORMAT, VERSION = "genan search", 1
SUFFIX = ".search.json"
"""A result's file is called ``search-<what>-<size>.search.json``."""


@dataclass(frozen=True)
class Trial:
    """One set of settings, and what came of it."""

    number: int
    """From 0, which has the defaults."""
    settings: Mapping[str, Any]
    """Those that are searched, by their names."""
    job: str
    """The job that found its value."""
    state: Literal["done", "failed", "missing"]
    value: float | None = None
    """The objective."""
    seconds: float | None = None
    """What it took [s], without what all trials share."""
    error: str | None = None
    """Why it failed."""


@dataclass(frozen=True)
class SearchResult:
    """Everything a search found."""

    what: str
    size: str
    """smoke, small or full."""
    objective: str
    """What is compared, for people."""
    unit: str
    lower_is_better: bool
    trials: tuple[Trial, ...]
    """In the order in which they were suggested."""
    command: str
    """What repeats it, and goes on with it."""
    importance: Mapping[str, float] = field(default_factory=dict)
    """How much each setting tells a good trial from a bad one, 1 in all; empty where there are too
    few trials."""
    notes: tuple[str, ...] = ()
    versions: tuple[Mapping[str, str], ...] = ()
    """Of the packages that the trials ran with; more than one where a search went on with
    others."""
    hardware: tuple[Mapping[str, str], ...] = ()
    """The machines that they ran on."""

    @property
    def defaults(self) -> Trial | None:
        """The trial with the defaults, where it has a value."""
        first = next((trial for trial in self.trials if trial.number == 0), None)
        return first if first is not None and first.value is not None else None

    @property
    def best(self) -> Trial | None:
        """The best trial, the earliest of several; None where none has a value."""
        return next(iter(self.ranked()), None)

    @property
    def complete(self) -> bool:
        """Whether every trial has been tried."""
        return all(trial.state != "missing" for trial in self.trials)

    def ranked(self) -> tuple[Trial, ...]:
        """The trials that have a value, best first."""
        sign = 1.0 if self.lower_is_better else -1.0
        valued = [
            (sign * trial.value, trial.number, trial)
            for trial in self.trials
            if trial.value is not None
        ]
        return tuple(trial for _, _, trial in sorted(valued, key=lambda row: row[:2]))

    @property
    def filename(self) -> str:
        """What its file is called."""
        return filename(self.what, self.size)

    def save(self, folder: Path) -> Path:
        """Write it, whole or not at all; returns the file."""
        path = folder / self.filename
        folder.mkdir(parents=True, exist_ok=True)
        best = self.best
        content = {
            "format": FORMAT,
            "version": VERSION,
            **asdict(self),
            "best": None if best is None else asdict(best),
        }
        write_atomically(path, json.dumps(content, indent=1, allow_nan=False).encode())
        return path

    @classmethod
    def load(cls, path: Path | str) -> "SearchResult":
        """What ``save`` wrote."""
        try:
            content = json.loads(Path(path).read_bytes())
            if (content.pop("format"), content.pop("version")) != (FORMAT, VERSION):
                raise ValueError("another format or version")
            content.pop("best")
            content["trials"] = tuple(Trial(**trial) for trial in content["trials"])
            for name in ("notes", "versions", "hardware"):
                content[name] = tuple(content[name])
            return cls(**content)
        except FileNotFoundError:
            raise DataError(f"There is no {path}; 'genan search' makes one.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} is not the result of a search ({error}); remove it and search anew: what is done is kept."
            ) from None


def filename(what: str, size: str) -> str:
    """What the file of such a search is called."""
    return f"search-{what}-{size}{SUFFIX}"
