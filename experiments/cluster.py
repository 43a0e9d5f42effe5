"""Jobs on a Ray cluster: many machines, one folder that all of them see.

Nothing but this package and the jobs goes through Ray; everything else goes through the store's
folder, which is therefore looked at from every node first.
"""

import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.executors import GO, Executor, RunningTask, do
from genan.errors import SettingError
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


def do_here(content: Mapping[str, Any], root: str, orders: str) -> dict[str, str]:
    """On a node: do a job."""
    import ray

    return do(content, root, orders, ray.get_runtime_context().get_node_id())


class RayExecutor(Executor):
    """Ray tasks, one for each job."""

    def __init__(self, root: Path, *, address: str = AUTO) -> None:
        """Connect to the cluster at ``address`` (host:port)."""
        self._ray, self._ours = _connect(address)
        super().__init__(root, orders=root)
        self._counted, self._there = -COUNTING, {"gpu": 0, "cpu": 0}
        try:
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
            self._check_nodes(nodes)
        except BaseException:
            self.close()
            raise
        slots = self._slots()
        parts = [(len(nodes), "node"), (slots["cpu"], "core"), (slots["gpu"], "GPU")]
        counts = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in parts if count]
        self.words = f"Ray cluster of {', '.join(counts)}"

    def _slots(self) -> Mapping[str, int]:
        if time.monotonic() - self._counted > COUNTING:
            there = self._ray.cluster_resources()
            self._there = {lane: int(there.get(lane.upper(), 0)) for lane in ("gpu", "cpu")}
            self._counted = time.monotonic()
        return self._there

    def _submit(self, task: RunningTask) -> Any:
        variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if task.lane == "cpu":
            variables["JAX_PLATFORMS"] = "cpu"
        remote = self._ray.remote(do_here).options(
            num_cpus=1,
            num_gpus=int(task.lane == "gpu"),
            max_retries=0,  # Ray would not say so
            runtime_env={"env_vars": variables},
            name=task.job.id,
        )
        return remote.remote(task.job.as_json(), str(self._root), str(self._orders))

    def _ended(self, seconds: float) -> Iterable[Any]:
        refs = list(self._running)
        self._ray.wait(refs, num_returns=1, timeout=seconds)
        return self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]

    def _outcome(self, ref: Any, task: RunningTask) -> Mapping[str, str] | None:
        errors = self._ray.exceptions
        try:
            return dict(self._ray.get(ref))
        except errors.NodeDiedError:
            if task.beginnings < BEGINNINGS and self._orders.read_text() == GO:
                task.beginnings += 1
                self._running[self._submit(task)] = task
                return None
            why = "{node} went away"
        except errors.OutOfMemoryError:
            why = "{node} ran out of memory, and Ray ended the job"
        except errors.WorkerCrashedError:
            why = "its process on {node} ended; memory may have run out"
        except errors.RayError as error:  # a task that Ray could not begin, most of all
            why = "Ray could not do it: " + str(error).splitlines()[0]
            return {"what": "failed", "error": why}
        name = self._at_work(task.job).get("name")
        node = "a node" if name is None else f"the node {name}"
        return {"what": "failed", "error": why.format(node=node)}

    def _shut(self) -> None:
        """End the connection too; a cluster that was there before stays."""
        for ref in self._running:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)
        if self._ours:
            self._ray.shutdown()

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
        why = None
        try:
            seen, version = self._ray.get(answer, timeout=PATIENCE)
            if version != __version__:
                why = f"has genan {version}, and not {__version__} as here; install the same."
            elif seen != token:
                why = (
                    f"does not see {self._root}; choose an --out on a file system that all nodes "
                    "share, at the same path on each."
                )
        except errors.GetTimeoutError:
            why = "does not answer; take it off the cluster, or repair it."
        except errors.RayError as error:
            last = str(error).strip().splitlines()[-1]
            why = f"cannot work ({last}); install genan {__version__} there."
        if why is not None:
            raise SettingError(f"The node {name} {why}")


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
