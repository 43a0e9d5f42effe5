"""Where jobs keep what they found: one folder each, shared by all experiments.

A job is done when its ``job.json`` is there, which is written last, whole or not at all. A folder
without one is what an interruption left; the work in it goes on from its last checkpoint. One
process at a time works in a folder.
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.jobs import Job
from genan.errors import DataError, GenanError
from genan.files import write_atomically

FORMAT, VERSION = "genan job", 1
JOBS = "jobs"
"""Folder of the jobs within that of the experiments."""
DONE, SPENT, LOCK, LOG = "job.json", "seconds.json", ".lock", "log.txt"
"""Files of a job's folder: what it found, the time spent on it so far, what one process at a time
holds, and what it printed."""
PRODUCTS = {
    "collect": "data.h5",
    "fit": "actuator.json",
    "fit-uan": "actuator.json",
    "train": "policy.json",
}
"""What other jobs take from the folder of a job that is done, kind by kind."""
PATIENCE = 0.2
"""Between two looks whether another process is through [s]."""


@dataclass(frozen=True)
class JobResult:
    """What a job found."""

    result: Mapping[str, Any]  # its numbers, as JSON can hold them
    seconds: float  # what it took [s], over all its runs
    versions: Mapping[str, str]
    hardware: Mapping[str, str]


class StoppedError(GenanError):
    """The work was asked to stop; what is done of it is kept."""


@dataclass(frozen=True)
class Store:
    """The folder of all jobs."""

    root: Path

    def folder(self, job: Job) -> Path:
        """Where ``job`` works and keeps its files."""
        return self.root / job.id

    def find(self, job: Job) -> JobResult | None:
        """What ``job`` found, or None: not done yet, or not readable, which counts as not done."""
        path = self.folder(job) / DONE
        try:
            content = json.loads(path.read_bytes())
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                return None
            if content["fingerprint"] != job.fingerprint:
                raise DataError(
                    f"{path} belongs to another job; remove {path.parent} and run again."
                )
            return JobResult(**{name: content[name] for name in JobResult.__dataclass_fields__})
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def usable(self, job: Job) -> bool:
        """Whether ``job`` is done and what other jobs take from it is there: large files may have
        been removed."""
        product = self.folder(job) / PRODUCTS.get(job.kind, "")
        return self.find(job) is not None and product.exists()

    def keep(self, job: Job, found: JobResult) -> None:
        """Write down what ``job`` found; from now on it is done."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": job.fingerprint,
            "job": job.as_json(),
            **asdict(found),
            "seconds": round(found.seconds, 3),
        }
        folder = self.folder(job)
        write_atomically(folder / DONE, json.dumps(content, allow_nan=False).encode())
        (folder / SPENT).unlink(missing_ok=True)

    def spent(self, job: Job) -> float:
        try:
            return float(json.loads((self.folder(job) / SPENT).read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return 0.0

    def note_spent(self, job: Job, seconds: float) -> None:
        """Remember the time spent on ``job`` so far [s]."""
        write_atomically(self.folder(job) / SPENT, json.dumps(round(seconds, 3)).encode())

    @contextmanager
    def held(self, job: Job, *, stopping: Callable[[], bool] = lambda: False) -> Iterator[Path]:
        """The folder of ``job``, made where there is none; no other process works in it meanwhile.

        Waits for one that does. The lock is the system's and ends with the process, however that
        ends.
        """
        folder = self.folder(job)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if stopping():
                        raise StoppedError(f"Stopped: another process works at {job.id}.") from None
                    time.sleep(PATIENCE)
            yield folder
