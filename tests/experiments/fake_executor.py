"""A place where jobs are not done but computed, at once, by a function of their settings."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from experiments.executors import Executor, RunningTask
from experiments.jobs import Job
from experiments.store import PRODUCTS, JobResult, Store
from genan.errors import GenanError

Answer = Callable[[Job], Mapping[str, Any]]


class FakeExecutor(Executor):
    words = "nowhere"

    def __init__(self, store: Store, answer: Answer, *, room: int = 2) -> None:
        super().__init__(store.root, orders=Path(tempfile.gettempdir()))
        self._store, self._answer, self._room = store, answer, room
        self.started: list[Job] = []
        self.stopped = False

    def _slots(self) -> Mapping[str, int]:
        return {"gpu": 0, "cpu": self._room}

    def _submit(self, task: RunningTask) -> object:
        self.started.append(task.job)
        return object()

    def _ended(self, seconds: float) -> Iterable[object]:
        return reversed(self._running)  # the last one is through first

    def _outcome(self, ref: object, task: RunningTask) -> Mapping[str, str]:
        job = task.job
        if self.stopped:
            return {"what": "stopped"}
        try:
            result = self._answer(job)
        except GenanError as error:
            return {"what": "failed", "error": str(error)}
        with self._store.held(job) as folder:
            if job.kind in PRODUCTS:
                (folder / PRODUCTS[job.kind]).touch()
            self._store.keep(job, JobResult(result, 1.5, {"genan": "0"}, {"processor": "none"}))
        return {"what": "done"}

    def _shut(self) -> None: ...

    def stop(self) -> None:
        self.stopped = True
