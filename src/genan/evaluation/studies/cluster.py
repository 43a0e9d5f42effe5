"""Jobs on a Ray cluster: many machines, one folder that all of them see.

Nothing but the jobs goes through Ray. What they find, how far they are and whether they shall stop
goes through the store's folder, which is therefore looked at from every node first.
"""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genan.errors import SettingError
from genan.evaluation.studies.executor import Event, Executor
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.local import ON_CPU
from genan.evaluation.studies.remote_work import GO, SHARE, STOP, look, work
from genan.version import __version__

PATIENCE = 60.0
"""How long a node may take to answer whether it sees the folder [s]."""
KNOCK = 5.0
"""How long the cluster may take to open its door [s]."""
COUNTING = 2.0
"""Between two counts of the cluster's cores and GPUs, which come and go [s]."""
NEW_BEGINNINGS = 3
"""How often a job is begun again elsewhere because its node is gone."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}
"""Environment of Ray: it reports to nobody, and leaves what it has to say in its own logs."""


@dataclass
class _Running:
    """A job that is being done."""

    job: Job
    lane: str
    shown: float = 0.0
    beginnings: int = 1


class RayExecutor(Executor):
    """Ray tasks, one for each job."""

    def __init__(self, root: Path, *, address: str | None) -> None:
        """Connect to the cluster at ``address``; None: what RAY_ADDRESS names, what runs here, or
        else a new one.
        """
        self._ray, self._ours = _connect(address)
        self._root = root.resolve()
        self._root.mkdir(parents=True, exist_ok=True)
        self._orders = self._root / f".orders-{secrets.token_hex(8)}"
        self._orders.write_text(GO)
        self._running: dict[Any, _Running] = {}
        self._counted, self._slots = -COUNTING, {"cpu": 0, "gpu": 0}
        try:
            self._check_nodes()
            self._count()
        except BaseException:
            self.close()
            raise
        nodes = sum(node["Alive"] for node in self._ray.nodes())
        self.words = (
            f"Ray cluster of {_counted(nodes, 'node')}, {_counted(self._slots['cpu'], 'core')}"
        )
        if self._slots["gpu"]:
            self.words += f", {_counted(self._slots['gpu'], 'GPU')}"

    def has_room(self, job: Job) -> bool:
        """Whether the cluster has a core, or a GPU, for one more."""
        self._count()
        lane = self._lane(job)
        return sum(running.lane == lane for running in self._running.values()) < self._slots[lane]

    def start(self, job: Job) -> None:
        """Give ``job`` to Ray."""
        self._begin(_Running(job, self._lane(job)))

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has become of the jobs."""
        if not self._running:
            time.sleep(seconds)
            return []
        self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        through, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        ended = [self._ended(ref, self._running.pop(ref)) for ref in through]
        return [
            event
            for event in (*ended, *map(self._progress, self._running.values()))
            if event is not None
        ]

    def stop(self) -> None:
        """Ask every job to stop: they look into the file again and again."""
        # In place: a file that is replaced is seen later where the folder comes over a network.
        self._orders.write_text(STOP)

    def close(self) -> None:
        """End all jobs, and the connection; a cluster that was there before stays."""
        for ref in self._running:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)
        self._running = {}
        self._orders.unlink(missing_ok=True)
        if self._ours:
            self._ray.shutdown()

    def _lane(self, job: Job) -> str:
        return "gpu" if self._slots["gpu"] and job.kind not in ON_CPU else "cpu"

    def _count(self) -> None:
        if time.monotonic() - self._counted > COUNTING:
            there = self._ray.cluster_resources()
            self._slots = {"cpu": int(there.get("CPU", 0)), "gpu": int(there.get("GPU", 0))}
            self._counted = time.monotonic()

    def _begin(self, running: _Running) -> None:
        variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if running.lane == "cpu":
            variables["JAX_PLATFORMS"] = "cpu"
        task = self._ray.remote(work).options(
            num_cpus=1,
            num_gpus=1 if running.lane == "gpu" else 0,
            max_retries=0,  # Ray would not tell
            runtime_env={"env_vars": variables},
            name=running.job.id,
        )
        self._running[task.remote(running.job.as_json(), str(self._root), str(self._orders))] = (
            running
        )

    def _ended(self, ref: Any, running: _Running) -> Event | None:
        """The event of a job that is through; None where it is begun again."""
        errors = self._ray.exceptions
        try:
            said: Mapping[str, Any] = self._ray.get(ref)
        except errors.NodeDiedError:
            if running.beginnings < NEW_BEGINNINGS and self._orders.read_text() == GO:
                running.beginnings += 1
                self._begin(running)
                return None
            return Event(running.job, "failed", error=f"{self._where(running.job)} went away")
        except errors.OutOfMemoryError:
            why = f"{self._where(running.job)} ran out of memory, and Ray ended the job"
            return Event(running.job, "failed", error=why)
        except errors.WorkerCrashedError:
            why = f"its process on {self._where(running.job)} ended; memory may have run out"
            return Event(running.job, "failed", error=why)
        except errors.RayError as error:  # a task that Ray could not begin, most of all
            return Event(
                running.job, "failed", error=f"Ray could not do it: {str(error).splitlines()[0]}"
            )
        return Event(running.job, said["event"], error=said.get("error", ""))

    def _progress(self, running: _Running) -> Event | None:
        """The event of a job that is further than it was."""
        share = look(self._root / running.job.id / SHARE).get("share", 0.0)
        if share <= running.shown:
            return None
        running.shown = share
        return Event(running.job, "progress", share=share)

    def _where(self, job: Job) -> str:
        """The node that was last at work at ``job``, in words."""
        name = look(self._root / job.id / SHARE).get("name")
        return "a node" if name is None else f"the node {name}"

    def _check_nodes(self) -> None:
        """Refuse a cluster that has a node which does not see the folder, or has another genan."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from genan.evaluation.studies.remote_work import introduce

        token = secrets.token_hex(16)
        proof = self._root / f".seen-{token}"
        proof.write_text(token)
        try:
            asked = [
                (
                    node["NodeManagerHostname"],
                    self._ray.remote(introduce)
                    .options(
                        num_cpus=0,
                        max_retries=0,
                        scheduling_strategy=NodeAffinitySchedulingStrategy(
                            node["NodeID"], soft=False
                        ),
                    )
                    .remote(str(proof)),
                )
                for node in self._ray.nodes()
                if node["Alive"]
            ]
            for name, answer in asked:
                self._check_node(name, answer, token)
        finally:
            proof.unlink(missing_ok=True)

    def _check_node(self, name: str, answer: Any, token: str) -> None:
        errors = self._ray.exceptions
        try:
            seen, version = self._ray.get(answer, timeout=PATIENCE)
        except errors.GetTimeoutError:
            raise SettingError(
                f"The node {name} does not answer; take it off the cluster, or mend it."
            ) from None
        except errors.RayError as error:
            why = str(error).strip().splitlines()[-1]
            raise SettingError(
                f"The node {name} cannot work ({why}); install genan {__version__} there, as it is here."
            ) from None
        if version != __version__:
            raise SettingError(
                f"The node {name} has genan {version}, and not {__version__} as here; install the same."
            )
        if seen != token:
            raise SettingError(
                f"The node {name} does not see {self._root}; choose an --out on a file system that all nodes share, at "
                "the same path on each."
            )


def _connect(address: str | None) -> tuple[Any, bool]:
    """Ray, connected, and whether the connection is ours to end."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise SettingError("A Ray cluster needs Ray: pip install genan[ray].") from None
    if ray.is_initialized():
        return ray, False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    named = address or os.environ.get("RAY_ADDRESS")
    if named:
        _knock(named)
    try:
        with _silence():
            ray.init(address=named or "auto", **quiet)
    except ConnectionError:
        if named:
            raise SettingError(_nobody(named)) from None
        ray.init(address="local", include_dashboard=False, **quiet)
    return ray, True


def _knock(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself would try for ever."""
    host, _, port = address.rpartition(":")
    if "/" in host or not host or not port.isdecimal():
        raise SettingError(f"Give the address of the cluster's head as host:port, not {address}.")
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()
    except (OSError, OverflowError):
        raise SettingError(_nobody(address)) from None


def _nobody(address: str) -> str:
    return (
        f"There is no Ray cluster at {address} that lets us in; start one with 'ray start --head', or, where it asks "
        "for a token, give that as Ray's documentation says (RAY_AUTH_MODE=token), or leave the address out."
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Ray says on the screen that it connects; that is for its log."""
    import logging

    log = logging.getLogger("ray")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
