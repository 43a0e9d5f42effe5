"""Getting jobs done in several processes: each once, none before what it needs, what is known
already not at all.

What jobs find, how far they are and whether they shall stop goes through the store's folder, so
that the processes may be on other machines (``experiments.cluster``).
"""

import contextlib
import importlib.metadata
import json
import math
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe, connection
from pathlib import Path
from typing import Any, Literal

from experiments.jobs import ON_CPU, Job, in_order
from experiments.store import LOG, Store
from genan.errors import SettingError
from genan.files import write_atomically

GO, STOP = "go", "stop"
"""What the file of orders says."""
SHARE = "at-work.json"
"""In a job's folder while it is being done: by which machine, and how far it is."""
GLANCE = 0.25
"""Between two looks at what someone wants, and between two notes of how far a job is [s]."""


@dataclass(frozen=True)
class JobEvent:
    """What became of a job."""

    job: Job
    what: Literal["progress", "done", "stopped", "failed"]
    share: float = 0.0  # of a job in progress, 0 to 1
    error: str = ""  # why it failed, in a sentence


@dataclass
class JobsProgress:
    """How far the jobs are."""

    total: int
    known: int = 0  # jobs that were done before
    done: int = 0  # jobs done now
    running: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """Jobs that are being done, and what part of each is."""
    failed: dict[str, str] = field(default_factory=dict)  # why jobs failed, by their fingerprints
    stopping: bool = False


@dataclass
class RunningTask:
    """A job that was handed out."""

    job: Job
    lane: str  # ``gpu`` or ``cpu``
    shown: float = 0.0  # the part that was reported to be done
    beginnings: int = 1


class Executor(ABC):
    """A place where jobs are done, several at a time."""

    words: str  # where that is, for people: "2 processes on this machine"

    def __init__(self, root: Path, *, orders: Path) -> None:
        """``orders``: a folder that all processes see, for what they are asked to do."""
        self._root = root.resolve()
        self._root.mkdir(parents=True, exist_ok=True)
        self._orders = orders.resolve() / f".orders-{secrets.token_hex(8)}"
        self._orders.write_text(GO)
        self._running: dict[Any, RunningTask] = {}

    @abstractmethod
    def _slots(self) -> Mapping[str, int]:
        """How many jobs may run at once: on GPUs, and on processors."""

    @abstractmethod
    def _submit(self, task: RunningTask) -> Any:
        """Begin; returns what ``_ended`` and ``_outcome`` know the task by."""

    @abstractmethod
    def _ended(self, seconds: float) -> Iterable[Any]:
        """Those that have ended; waits so long for one to end [s]."""

    @abstractmethod
    def _outcome(self, ref: Any, task: RunningTask) -> Mapping[str, str] | None:
        """What became of a task that has ended; None where it was begun again."""

    @abstractmethod
    def _shut(self) -> None:
        """End everything that is still there."""

    def _lane(self, job: Job) -> str:
        return "gpu" if self._slots()["gpu"] and job.kind not in ON_CPU else "cpu"

    def has_room(self, job: Job) -> bool:
        lane = self._lane(job)
        return sum(task.lane == lane for task in self._running.values()) < self._slots()[lane]

    def start(self, job: Job) -> None:
        """Begin with ``job``, whose needs are done."""
        task = RunningTask(job, self._lane(job))
        self._running[self._submit(task)] = task

    def wait(self, seconds: float) -> Sequence[JobEvent]:
        """What has happened; waits so long for something to happen [s]."""
        if not self._running:
            time.sleep(seconds)
        events = []
        for ref in list(self._ended(seconds)) if self._running else ():
            task = self._running.pop(ref)
            said: Any = self._outcome(ref, task)
            if said is not None:
                events.append(JobEvent(task.job, **said))
        for task in self._running.values():
            share = self._at_work(task.job).get("share", 0.0)
            if share > task.shown:
                task.shown = share
                events.append(JobEvent(task.job, "progress", share=share))
        return events

    def stop(self) -> None:
        """Ask all jobs to stop where that is safe; each then ends with an event."""
        # In place: a file that is replaced is seen later where the folder comes over a network.
        self._orders.write_text(STOP)

    def close(self) -> None:
        """End everything that is still there, at once."""
        self._orders.unlink(missing_ok=True)
        self._shut()
        self._running = {}

    def _at_work(self, job: Job) -> dict[str, Any]:
        """What a job at work says of itself; nothing where none is."""
        try:
            return dict(json.loads((self._root / job.id / SHARE).read_bytes()))
        except (OSError, ValueError):
            return {}


def do(content: Mapping[str, Any], root: str, orders: str, node: str = "") -> dict[str, str]:
    """In another process: do the job that ``content`` is, in the store at ``root``, until
    ``orders`` say otherwise; what became of it."""
    from experiments.work import attempt

    job, store = Job.from_json(content), Store(Path(root))
    share, name = store.folder(job) / SHARE, socket.gethostname()
    share.parent.mkdir(parents=True, exist_ok=True)
    looked = noted = 0.0

    def stopping() -> bool:
        nonlocal looked
        if looked != math.inf and time.monotonic() - looked > GLANCE:
            looked = time.monotonic()
            with contextlib.suppress(FileNotFoundError):  # whoever gave them is gone
                if Path(orders).read_text() == GO:
                    return False
            looked = math.inf
        return looked == math.inf

    def note(part: float) -> None:
        nonlocal noted
        if time.monotonic() - noted > GLANCE:
            noted = time.monotonic()
            with contextlib.suppress(OSError):
                write_atomically(share, json.dumps({"name": name, "share": part}).encode())

    note(0.0)
    with (share.parent / LOG).open("a") as log:
        log.write(f"process {os.getpid()} on {name} {node}\n")
    try:
        return attempt(job, store, stopping=stopping, progress=note)
    finally:
        share.unlink(missing_ok=True)


class LocalExecutor(Executor):
    """Processes that stay, so that what they have imported and compiled serves the next job too."""

    def __init__(
        self, root: Path, *, workers: int | None = None, cpu_workers: int | None = None
    ) -> None:
        """``workers`` at once: two, or one where there is a GPU, and then ``cpu_workers`` more for
        jobs of the kinds ``ON_CPU``."""
        if any(count is not None and count < 1 for count in (workers, cpu_workers)):
            raise SettingError("At least one process is needed to work.")
        super().__init__(root, orders=Path(tempfile.gettempdir()))
        cores = os.cpu_count() or 1
        if has_gpu():
            self._limits = {"gpu": workers or 1, "cpu": cpu_workers or max(1, cores - 2)}
            more = f" with its GPU, {self._limits['cpu']} more on its cores"
        else:
            self._limits, more = {"gpu": 0, "cpu": workers or min(2, cores)}, ""
        count = self._limits["gpu"] or self._limits["cpu"]
        self.words = f"{count} process{'es' if count > 1 else ''} on this machine{more}"
        self._workers: dict[Any, tuple[str, Any]] = {}
        """Lane and process, by our end of the pipe to it."""

    def _slots(self) -> Mapping[str, int]:
        return self._limits

    def _submit(self, task: RunningTask) -> Any:
        lanes = ((pipe, lane) for pipe, (lane, _) in self._workers.items())
        free = (pipe for pipe, lane in lanes if lane == task.lane and pipe not in self._running)
        pipe = next(free, None) or self._hire(task.lane)
        with contextlib.suppress(BrokenPipeError):  # it is gone, which its pipe says too
            pipe.send((task.job.as_json(), str(self._root), str(self._orders)))
        return pipe

    def _hire(self, lane: str) -> Any:
        ours, theirs = Pipe()
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        if lane == "cpu":
            environment["JAX_PLATFORMS"] = "cpu"
        # In a group of its own: Ctrl-C is for the experiment, which asks its processes to stop.
        process = subprocess.Popen(
            [sys.executable, "-m", "experiments.executors", str(theirs.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            process_group=0,
            env=environment,
        )
        theirs.close()
        self._workers[ours] = (lane, process)
        return ours

    def _ended(self, seconds: float) -> Iterable[Any]:
        return connection.wait(list(self._running), seconds)

    def _outcome(self, ref: Any, task: RunningTask) -> Mapping[str, str]:
        try:
            return dict(ref.recv())
        except (EOFError, ConnectionError):
            _, process = self._workers.pop(ref)
            code = _end(process)
            how = f"{'killed' if code < 0 else 'exit code'} {abs(code)}"
            why = f"its process ended ({how}); memory may have run out"
            return {"what": "failed", "error": why}

    def _shut(self) -> None:
        for pipe, (_, process) in self._workers.items():
            process.kill()
            _end(process)
            pipe.close()
        self._workers = {}


def _end(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdin is not None
    process.stdin.close()
    return process.wait()


def _serve(pipe: Any) -> None:
    """In a process of its own: do the jobs that come in, until whoever sends them is gone."""

    def watch() -> None:
        sys.stdin.read()  # to its end
        os._exit(0)  # killed, even in the middle of a job, an experiment leaves no process behind

    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(do(*pipe.recv()))


def has_gpu() -> bool:
    """Whether JAX would find a GPU, without starting JAX here: its memory is for the workers."""
    wanted = os.environ.get("JAX_PLATFORMS", "")
    if wanted and not any(name in wanted for name in ("cuda", "gpu", "rocm")):
        return False
    device = Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists()
    names = (found.metadata["Name"] or "" for found in importlib.metadata.distributions())
    plugins = ("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm")
    return device and any(name.startswith(plugins) for name in names)


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


if __name__ == "__main__":
    _serve(connection.Connection(int(sys.argv[1])))
