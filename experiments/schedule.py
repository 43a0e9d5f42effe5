"""Getting jobs done: each once, none before what it needs, what is known already not at all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from experiments.jobs import Job, in_order
from experiments.store import Store

GLANCE = 0.25
"""Between two looks at whether someone wants to stop [s]."""


@dataclass(frozen=True)
class JobEvent:
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
    def wait(self, seconds: float) -> Sequence[JobEvent]:
        """What has happened; waits so long for something to happen [s]."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all jobs to stop where that is safe; each then ends with an event."""

    @abstractmethod
    def close(self) -> None:
        """End everything that is still there."""


@dataclass
class JobsProgress:
    """How far the jobs are."""

    total: int
    known: int = 0
    """Jobs that were done before."""
    done: int = 0
    """Jobs done now."""
    running: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """Jobs that are being done, and what part of each is."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why jobs failed, by their fingerprints."""
    stopping: bool = False


def run(
    jobs: Sequence[Job],
    store: Store,
    executor: Executor,
    *,
    progress: Callable[[JobsProgress], None] = lambda now: None,
    stopping: Callable[[], bool] = lambda: False,
) -> JobsProgress:
    """Do ``jobs`` and all that they need.

    A job that fails costs those that need it, and no other. Asked to stop, what is running is
    brought to where it can go on from, and nothing new is begun.
    """
    waiting = _wanted(jobs, store)
    finished = {job.fingerprint for job in in_order(jobs)} - {job.fingerprint for job in waiting}
    now = JobsProgress(total=len(waiting) + len(finished), known=len(finished))
    progress(now)
    while waiting or now.running:
        if stopping() and not now.stopping:
            now.stopping, waiting = True, []
            executor.stop()
        for job in list(waiting):
            needs = job.needs.values()
            broken = next((need for need in needs if need.fingerprint in now.failed), None)
            if broken is not None:
                waiting.remove(job)
                now.failed[job.fingerprint] = f"{broken.label or broken.id} failed, which it needs"
            elif finished.issuperset(need.fingerprint for need in needs) and executor.has_room(job):
                waiting.remove(job)
                now.running[job.fingerprint] = (job, 0.0)
                executor.start(job)
        for event in executor.wait(GLANCE):
            key = event.job.fingerprint
            if event.what == "progress":
                now.running[key] = (event.job, event.share)
                continue
            now.running.pop(key, None)
            if event.what == "done":
                finished.add(key)
                now.done += 1
            elif event.what == "failed":
                now.failed[key] = event.error
        progress(now)
    return now


def _wanted(jobs: Sequence[Job], store: Store) -> list[Job]:
    """What must be done for ``jobs`` to be, in order: what a job needs is not needed once the job
    is done."""
    found: dict[str, Job] = {}

    def visit(job: Job, *, known: bool) -> None:
        if not known and job.fingerprint not in found:
            for need in job.needs.values():
                visit(need, known=store.usable(need))
            found[job.fingerprint] = job

    for job in jobs:
        visit(job, known=store.find(job) is not None)
    return list(found.values())
