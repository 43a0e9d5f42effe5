"""Where jobs are done: what every place offers to the one who hands them out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from genan.evaluation.studies.job import Job


@dataclass(frozen=True)
class Event:
    """What became of a job."""

    job: Job
    what: Literal["progress", "done", "stopped", "failed"]
    share: float = 0.0
    """Of a job in progress, 0 to 1."""
    error: str = ""
    """Why it failed, in a sentence."""


class Executor(ABC):
    """A place where jobs are done, several at a time."""

    words: str
    """Where that is, for people: "2 processes on this machine"."""

    @abstractmethod
    def has_room(self, job: Job) -> bool:
        """Whether ``job`` could start now."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Begin with ``job``, whose needs are done."""

    @abstractmethod
    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened; waits so long for something to happen [s]."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all jobs to stop where that is safe; each then ends with an event."""

    @abstractmethod
    def close(self) -> None:
        """End everything that is still there."""
