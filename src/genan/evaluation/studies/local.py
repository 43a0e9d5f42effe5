"""Jobs in processes on this machine."""

import contextlib
import importlib.metadata
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genan.errors import SettingError
from genan.evaluation.studies.executor import Event, Executor
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.worker import STOP

ON_CPU = ("collect", "transfer")
"""Kinds of jobs that a GPU does not help: they get processes of their own that leave it alone."""


class LocalExecutor(Executor):
    """Processes that stay, so that what they have imported and compiled serves the next job too."""

    def __init__(
        self, root: Path, *, workers: int | None = None, cpu_workers: int | None = None
    ) -> None:
        """``workers`` at once: two, or one where there is a GPU and beside it ``cpu_workers`` for
        ``ON_CPU``.
        """
        gpu = has_gpu()
        cores = os.cpu_count() or 1
        if any(count is not None and count < 1 for count in (workers, cpu_workers)):
            raise SettingError("At least one process is needed to work.")
        self._root = root
        self._limits = {"work": workers or (1 if gpu else min(2, cores))}
        if gpu:
            self._limits["cpu"] = cpu_workers or max(1, cores - 2)
        self._workers: dict[str, list[_Worker]] = {lane: [] for lane in self._limits}
        # The simple kind, which a second Ctrl-C may interrupt anywhere.
        self._events: queue.SimpleQueue[tuple[_Worker, dict[str, Any]]] = queue.SimpleQueue()
        count = self._limits["work"]
        self.words = f"{count} process{'es' if count > 1 else ''} on this machine"
        if gpu:
            self.words += f" with its GPU, {self._limits['cpu']} beside it on its cores"

    def has_room(self, job: Job) -> bool:
        """Whether a process is free, or one more may be started."""
        lane = self._lane(job)
        return any(worker.job is None for worker in self._workers[lane]) or (
            len(self._workers[lane]) < self._limits[lane]
        )

    def start(self, job: Job) -> None:
        """Give ``job`` to a free process."""
        lane = self._lane(job)
        free = next((worker for worker in self._workers[lane] if worker.job is None), None)
        if free is None:
            free = _Worker(self._root, self._events, lane)
            self._workers[lane].append(free)
        free.give(job)

    def wait(self, seconds: float) -> Sequence[Event]:
        """What the processes have said."""
        found = []
        try:
            found.append(self._events.get(timeout=seconds))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            pass
        return [
            event for worker, said in found if (event := self._understood(worker, said)) is not None
        ]

    def stop(self) -> None:
        """Ask every process to stop."""
        for worker in self._all():
            worker.tell(STOP)

    def close(self) -> None:
        """End all processes, at once."""
        for worker in self._all():
            worker.end()
        self._workers = {lane: [] for lane in self._limits}

    def _all(self) -> list["_Worker"]:
        return [worker for lane in self._workers.values() for worker in lane]

    def _lane(self, job: Job) -> str:
        return "cpu" if job.kind in ON_CPU and "cpu" in self._limits else "work"

    def _understood(self, worker: "_Worker", said: Mapping[str, Any]) -> Event | None:
        job, what = worker.job, said["event"]
        if what == "gone":
            self._workers[worker.lane].remove(worker)
            code = worker.end()
            why = f"its process ended ({'killed' if code < 0 else 'exit code'} {abs(code)}); memory may have run out"
            return None if job is None else Event(job, "failed", error=why)
        if job is None or what == "ready":
            return None
        if what == "progress":
            return Event(job, "progress", share=said["share"])
        worker.job = None
        return Event(job, what, error=said.get("error", ""))


class _Worker:
    """One process, and what it works at."""

    def __init__(self, root: Path, events: "queue.SimpleQueue[Any]", lane: str) -> None:
        self.lane = lane
        self.job: Job | None = None
        environment = dict(os.environ)
        if lane == "cpu":
            environment["JAX_PLATFORMS"] = "cpu"
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        # In a group of its own: Ctrl-C is for the study, which tells its workers.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "genan.evaluation.studies.worker", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,
            env=environment,
        )
        self._listener = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._listener.start()

    def _listen(self, events: "queue.SimpleQueue[Any]") -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                events.put((self, json.loads(line)))
        events.put((self, {"event": "gone"}))

    def give(self, job: Job) -> None:
        """Work at ``job`` from now on."""
        self.job = job
        self.tell({"job": job.as_json()})

    def tell(self, order: Mapping[str, Any]) -> None:
        """Send one order; to a process that is gone, none, which it has told already."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()

    def end(self) -> int:
        """Kill the process and wait for its end; its exit code."""
        self._process.kill()
        code = self._process.wait()
        self._listener.join()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # an order that could not be sent
            self._process.stdin.close()
        return code


def has_gpu() -> bool:
    """Whether JAX would find a GPU, without starting JAX here: the memory of one is for the
    workers.
    """
    wanted = os.environ.get("JAX_PLATFORMS", "")
    if wanted and not any(name in wanted for name in ("cuda", "gpu", "rocm")):
        return False
    device = Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists()
    names = (found.metadata["Name"] or "" for found in importlib.metadata.distributions())
    return device and any(
        name.startswith(("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm")) for name in names
    )
