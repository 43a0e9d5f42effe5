"""Jobs in processes on this machine.

A process that does jobs, ``python -m experiments.local FOLDER``, takes them as lines of JSON and
answers with events as lines of JSON. It ends when its input ends, whatever it is doing: an
experiment that is gone, killed even, leaves no process behind.
"""

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

from experiments.jobs import ON_CPU, Job
from experiments.schedule import Executor, JobEvent
from genan.errors import SettingError

STOP = {"stop": True}
"""What a process is sent to end the present job as soon as that is safe."""
ROOT = Path(__file__).parents[1]
"""Where this package is imported from."""


class LocalExecutor(Executor):
    """Processes that stay, so that what they have imported and compiled serves the next job too."""

    def __init__(
        self, root: Path, *, workers: int | None = None, cpu_workers: int | None = None
    ) -> None:
        """``workers`` at once: two, or one where there is a GPU, and then ``cpu_workers`` more for
        jobs of the kinds ``ON_CPU``."""
        gpu, cores = has_gpu(), os.cpu_count() or 1
        if any(count is not None and count < 1 for count in (workers, cpu_workers)):
            raise SettingError("At least one process is needed to work.")
        self._root = root
        self._limits = {"work": workers or (1 if gpu else min(2, cores))}
        if gpu:
            self._limits["cpu"] = cpu_workers or max(1, cores - 2)
        self._workers: list[_Worker] = []
        # The simple kind, which a second Ctrl-C may interrupt anywhere.
        self._events: queue.SimpleQueue[tuple[_Worker, dict[str, Any]]] = queue.SimpleQueue()
        count = self._limits["work"]
        self.words = f"{count} process{'es' if count > 1 else ''} on this machine"
        if gpu:
            self.words += f" with its GPU, {self._limits['cpu']} more on its cores"

    def has_room(self, job: Job) -> bool:
        """Whether a process is free, or one more may be started."""
        lane = self._lane(job)
        busy = sum(worker.lane == lane and worker.job is not None for worker in self._workers)
        return busy < self._limits[lane]

    def start(self, job: Job) -> None:
        """Give ``job`` to a free process."""
        lane = self._lane(job)
        free = (worker for worker in self._workers if worker.lane == lane and worker.job is None)
        worker = next(free, None)
        if worker is None:
            worker = _Worker(self._root, self._events, lane)
            self._workers.append(worker)
        worker.job = job
        worker.send({"job": job.as_json()})

    def wait(self, seconds: float) -> Sequence[JobEvent]:
        """What the processes have said."""
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._events.get(timeout=seconds))
            while True:
                found.append(self._events.get_nowait())
        events = (self._event(worker, said) for worker, said in found)
        return [event for event in events if event is not None]

    def stop(self) -> None:
        """Ask every process to stop."""
        for worker in self._workers:
            worker.send(STOP)

    def close(self) -> None:
        """End all processes, at once."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _lane(self, job: Job) -> str:
        return "cpu" if job.kind in ON_CPU and "cpu" in self._limits else "work"

    def _event(self, worker: "_Worker", said: Mapping[str, Any]) -> JobEvent | None:
        job = worker.job
        if said["what"] == "gone":
            self._workers.remove(worker)
            code = worker.end()
            how = f"{'killed' if code < 0 else 'exit code'} {abs(code)}"
            said = {
                "what": "failed",
                "error": f"its process ended ({how}); memory may have run out",
            }
        if job is None:
            return None
        if said["what"] != "progress":
            worker.job = None
        return JobEvent(job, **said)


class _Worker:
    """One process, and what it works at."""

    def __init__(self, root: Path, events: "queue.SimpleQueue[Any]", lane: str) -> None:
        self.lane = lane
        self.job: Job | None = None
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if lane == "cpu":
            environment["JAX_PLATFORMS"] = "cpu"
        # In a group of its own: Ctrl-C is for the experiment, which asks its processes to stop.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.local", str(root)],
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
        events.put((self, {"what": "gone"}))

    def send(self, order: Mapping[str, Any]) -> None:
        """Send one order; a process that is gone has said so already."""
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
    workers."""
    wanted = os.environ.get("JAX_PLATFORMS", "")
    if wanted and not any(name in wanted for name in ("cuda", "gpu", "rocm")):
        return False
    device = Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists()
    names = (found.metadata["Name"] or "" for found in importlib.metadata.distributions())
    plugins = ("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm")
    return device and any(name.startswith(plugins) for name in names)


def serve(root: Path) -> None:
    """Do the jobs that come in, for ever."""
    from experiments.store import Store
    from experiments.work import attempt

    # Libraries print; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    store, stop = Store(root), threading.Event()
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if order == STOP:
                stop.set()
            else:
                stop.clear()
                jobs.put(Job.from_json(order["job"]))
        os._exit(0)  # nobody is there any more

    def answer(**said: Any) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        job, shown = jobs.get(), [0.0]

        def show(share: float, shown: list[float] = shown) -> None:
            if share - shown[0] >= 0.01:
                shown[0] = share
                answer(what="progress", share=share)

        answer(**attempt(job, store, stopping=stop.is_set, progress=show))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
