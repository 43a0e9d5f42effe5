"""Jobs on a Ray cluster: many machines, one folder that all of them see.

Nothing but this package and the jobs goes through Ray. What they find, how far they are and whether
they shall stop goes through the store's folder, which is therefore looked at from every node first.
"""

import contextlib
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.jobs import ON_CPU, Job
from experiments.schedule import Executor, JobEvent
from genan.errors import SettingError
from genan.files import write_atomically
from genan.version import __version__

AUTO = "auto"
"""In place of an address: what RAY_ADDRESS names, what runs here, or else a new cluster."""
PATIENCE = 60.0
"""How long a node may take to answer whether it sees the folder [s]."""
KNOCK = 5.0
"""How long the cluster may take to open its door [s]."""
COUNTING = 2.0
"""Between two counts of the cluster's cores and GPUs, which come and go [s]."""
BEGINNINGS = 3
"""How often a job is begun at most, where its node went away each time."""
GLANCE = 0.5
"""Between two looks into the file of orders, and between two notes of how far a job is [s]."""
SHARE = "at-work.json"
"""In a job's folder while it is being done: by which node, and how far it is."""
GO, STOP = "go", "stop"
"""What the file of orders says."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}
"""Environment of Ray: it reports to nobody, and leaves what it has to say in its own logs."""


def introduce(proof: str) -> tuple[str | None, str]:
    """On a node: what it reads in the file ``proof``, None where there is none, and its genan."""
    try:
        return Path(proof).read_text(), __version__
    except OSError:
        return None, __version__


def work(content: Mapping[str, Any], root: str, orders: str) -> dict[str, str]:
    """On a node: do the job that ``content`` is, in the store at ``root``, until ``orders`` say
    otherwise; what became of it."""
    import ray

    from experiments.store import LOG, Store
    from experiments.work import attempt

    job, store = Job.from_json(content), Store(Path(root))
    share = store.folder(job) / SHARE
    share.parent.mkdir(parents=True, exist_ok=True)
    node, name = ray.get_runtime_context().get_node_id(), socket.gethostname()
    looked = noted = 0.0
    stop = False

    def stopping() -> bool:
        nonlocal looked, stop
        if not stop and time.monotonic() - looked > GLANCE:
            looked = time.monotonic()
            try:
                stop = Path(orders).read_text() != GO
            except FileNotFoundError:  # whoever gave them is gone
                stop = True
        return stop

    def note(part: float) -> None:
        nonlocal noted
        if time.monotonic() - noted > GLANCE:
            noted = time.monotonic()
            said = {"node": node, "name": name, "share": round(part, 4)}
            with contextlib.suppress(OSError):
                write_atomically(share, json.dumps(said).encode())

    note(0.0)
    with (share.parent / LOG).open("a") as log:
        log.write(f"on the node {node} ({name}), process {os.getpid()}\n")
    try:
        return attempt(job, store, stopping=stopping, progress=note)
    finally:
        share.unlink(missing_ok=True)


@dataclass
class _Running:
    """A job that was given to Ray."""

    job: Job
    lane: str
    shown: float = 0.0
    beginnings: int = 1


class RayExecutor(Executor):
    """Ray tasks, one for each job."""

    def __init__(self, root: Path, *, address: str = AUTO) -> None:
        """Connect to the cluster at ``address`` (host:port)."""
        self._ray, self._ours = _connect(address)
        self._root = root.resolve()
        self._root.mkdir(parents=True, exist_ok=True)
        self._orders = self._root / f".orders-{secrets.token_hex(8)}"
        self._orders.write_text(GO)
        self._running: dict[Any, _Running] = {}
        self._counted, self._slots = -COUNTING, {"cpu": 0, "gpu": 0}
        try:
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
            self._check_nodes(nodes)
            self._count()
        except BaseException:
            self.close()
            raise
        parts = [(len(nodes), "node"), (self._slots["cpu"], "core"), (self._slots["gpu"], "GPU")]
        counts = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in parts if count]
        self.words = f"Ray cluster of {', '.join(counts)}"

    def has_room(self, job: Job) -> bool:
        """Whether the cluster has a core, or a GPU, for one more."""
        self._count()
        lane = self._lane(job)
        return sum(running.lane == lane for running in self._running.values()) < self._slots[lane]

    def start(self, job: Job) -> None:
        """Give ``job`` to Ray."""
        self._begin(_Running(job, self._lane(job)))

    def wait(self, seconds: float) -> Sequence[JobEvent]:
        """What has become of the jobs."""
        if not self._running:
            time.sleep(seconds)
            return []
        self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        through, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        ended = [self._ended(ref, self._running.pop(ref)) for ref in through]
        events = (*ended, *map(self._progress, self._running.values()))
        return [event for event in events if event is not None]

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
            num_gpus=int(running.lane == "gpu"),
            max_retries=0,  # Ray would not say so
            runtime_env={"env_vars": variables},
            name=running.job.id,
        )
        ref = task.remote(running.job.as_json(), str(self._root), str(self._orders))
        self._running[ref] = running

    def _ended(self, ref: Any, running: _Running) -> JobEvent | None:
        """The event of a job that is through; None where it is begun again."""
        errors = self._ray.exceptions
        try:
            return JobEvent(running.job, **self._ray.get(ref))
        except errors.NodeDiedError:
            if running.beginnings < BEGINNINGS and self._orders.read_text() == GO:
                running.beginnings += 1
                self._begin(running)
                return None
            why = "{node} went away"
        except errors.OutOfMemoryError:
            why = "{node} ran out of memory, and Ray ended the job"
        except errors.WorkerCrashedError:
            why = "its process on {node} ended; memory may have run out"
        except errors.RayError as error:  # a task that Ray could not begin, most of all
            why = f"Ray could not do it: {str(error).splitlines()[0]}"
            return JobEvent(running.job, "failed", error=why)
        name = self._at_work(running.job).get("name")
        node = "a node" if name is None else f"the node {name}"
        return JobEvent(running.job, "failed", error=why.format(node=node))

    def _progress(self, running: _Running) -> JobEvent | None:
        """The event of a job that is further than it was."""
        share = self._at_work(running.job).get("share", 0.0)
        if share <= running.shown:
            return None
        running.shown = share
        return JobEvent(running.job, "progress", share=share)

    def _at_work(self, job: Job) -> dict[str, Any]:
        """What a job at work says of itself; nothing where none is."""
        try:
            return dict(json.loads((self._root / job.id / SHARE).read_bytes()))
        except (OSError, ValueError):
            return {}

    def _check_nodes(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a cluster that has a node which does not see the folder, or has another genan."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        token = secrets.token_hex(16)
        proof = self._root / f".seen-{token}"
        proof.write_text(token)

        def ask(node: Mapping[str, Any]) -> Any:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": there}
            return self._ray.remote(introduce).options(**options).remote(str(proof))

        try:
            for name, answer in [(node["NodeManagerHostname"], ask(node)) for node in nodes]:
                self._check_node(name, answer, token)
        finally:
            proof.unlink(missing_ok=True)

    def _check_node(self, name: str, answer: Any, token: str) -> None:
        errors = self._ray.exceptions
        try:
            seen, version = self._ray.get(answer, timeout=PATIENCE)
        except errors.GetTimeoutError:
            raise SettingError(
                f"The node {name} does not answer; take it off the cluster, or repair it."
            ) from None
        except errors.RayError as error:
            why = str(error).strip().splitlines()[-1]
            raise SettingError(
                f"The node {name} cannot work ({why}); install genan {__version__} there."
            ) from None
        if version != __version__:
            raise SettingError(
                f"The node {name} has genan {version}, and not {__version__} as here; install the "
                "same."
            )
        if seen != token:
            raise SettingError(
                f"The node {name} does not see {self._root}; choose an --out on a file system that "
                "all nodes share, at the same path on each."
            )


def _connect(address: str) -> tuple[Any, bool]:
    """Ray, connected, and whether the connection is ours to end."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise SettingError("A Ray cluster needs Ray: pip install genan[ray].") from None
    if ray.is_initialized():
        return ray, False
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "runtime_env": {"py_modules": [str(Path(__file__).parent)]},  # this package, to every node
    }
    named = os.environ.get("RAY_ADDRESS") if address == AUTO else address
    if named:
        _knock(named)
    log = logging.getLogger("ray")
    before = log.level
    log.setLevel(logging.CRITICAL)  # it says on the screen that it connects
    try:
        ray.init(address=named or "auto", **options)
    except ConnectionError:
        if named:
            raise SettingError(_nobody(named)) from None
        ray.init(address="local", include_dashboard=False, **options)
    finally:
        log.setLevel(before)
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
        f"There is no Ray cluster at {address} that lets us in; start one with 'ray start --head', "
        "or, where it asks for a token, give that as Ray's documentation says "
        "(RAY_AUTH_MODE=token), or take --ray auto."
    )
