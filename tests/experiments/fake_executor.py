"""A place where jobs are not done but computed, at once, by a function of their settings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.jobs import Job
from experiments.schedule import Executor, JobEvent
from experiments.store import PRODUCTS, JobResult, Store

from genan.errors import GenanError

Answer = Callable[[Job], Mapping[str, Any]]


class FakeExecutor(Executor):
    words = "nowhere"

    def __init__(self, store: Store, answer: Answer, *, room: int = 2) -> None:
        self._store, self._answer, self._room = store, answer, room
        self._begun: list[Job] = []
        self.started: list[Job] = []
        self.stopped = False

    def has_room(self, job: Job) -> bool:
        return len(self._begun) < self._room

    def start(self, job: Job) -> None:
        self.started.append(job)
        self._begun.append(job)

    def wait(self, seconds: float) -> Sequence[JobEvent]:
        events = []
        for job in reversed(self._begun):  # the last one is through first
            if self.stopped:
                events.append(JobEvent(job, "stopped"))
                continue
            try:
                result = self._answer(job)
            except GenanError as error:
                events.append(JobEvent(job, "failed", error=str(error)))
                continue
            with self._store.held(job) as folder:
                if job.kind in PRODUCTS:
                    (folder / PRODUCTS[job.kind]).touch()
                self._store.keep(job, JobResult(result, 1.5, {"genan": "0"}, {"processor": "none"}))
            events.append(JobEvent(job, "done"))
        self._begun = []
        return events

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        pass
