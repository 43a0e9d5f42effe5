"""A cluster of two nodes on this machine, and what becomes of jobs there; run by a test, in a
process of its own.

python -m tests.experiments.two_nodes FOLDER: prints one line of JSON.
"""

import contextlib
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.docs.typed import typed

from experiments.__main__ import main as experiments
from experiments.cluster import QUIET, RayExecutor
from experiments.executors import JobEvent, run
from experiments.jobs import Job, plain_fit
from experiments.sizes import SIZES, SMOKE, Size
from experiments.store import JOBS, LOG, Store
from experiments.studies import STUDIES

TINY = replace(
    SMOKE,
    trajectories=6,
    test=6,  # one program records both
    horizon=20,
    histories=(1,),
    fit={"members": 1, "hidden": [8], "epochs": 1, "batch_size": 256},
)
LONG = 10**6
"""Epochs of a fit that takes longer than anybody waits here."""


def tiny_jobs(size: Size = TINY) -> list[Job]:
    """A study of one cell, and a job that is refused."""
    study = STUDIES["history"]
    refused = replace(plain_fit(size), settings={**plain_fit(size).settings, "members": 0})
    return [*study.jobs(size), refused]


def where(store: Store, job: Job) -> list[tuple[str, int]]:
    """The nodes and processes that have worked at a job."""
    log = store.folder(job) / LOG
    words = log.read_text() if log.exists() else ""
    return [(node, int(pid)) for pid, node in re.findall(r"process (\d+) on \S+ (\w+)", words)]


def until(
    executor: RayExecutor, enough: Callable[[list[JobEvent]], bool], seconds: float = 180.0
) -> list[JobEvent]:
    events: list[JobEvent] = []
    end = time.monotonic() + seconds
    while not enough(events):
        assert time.monotonic() < end, events
        events += executor.wait(0.1)
    return events


def study_by_command(address: str, root: Path) -> str:
    """What the command says of the tiny study, which it does on the cluster; the other studies
    take minutes."""
    SIZES["full"] = TINY
    command = typed(
        "python -m experiments all --size full --ray head:6379 --out /shared/studies",
        instead={"all": "history"},
        ray=address,
        out=root.parent,
    )[2:]
    assert root.parent / JOBS == root
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        assert experiments(command) == 0, said.getvalue()
    return said.getvalue()


def main(root: Path) -> dict[str, Any]:
    # Ray runs its workers at low priority, where they would wait for the other tests.
    os.environ.update({**QUIET, "RAY_worker_niceness": "0"})
    import ray
    from ray.cluster_utils import Cluster

    # A node that is gone is noticed within seconds, not within half a minute.
    noticed = {"health_check_period_ms": 500, "health_check_timeout_ms": 2000}
    settings = {**noticed, "health_check_initial_delay_ms": 0, "health_check_failure_threshold": 3}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": settings}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    second = cluster.add_node(num_cpus=1)
    store, found = Store(root), {}
    try:
        found["said"] = study_by_command(cluster.address, root)
        found["left"] = [path.name for path in root.iterdir() if path.name.startswith(".")]
        found["connected"] = ray.is_initialized()

        executor = RayExecutor(root, address=cluster.address)  # the cluster is still there
        found["words"] = executor.words
        now = run(tiny_jobs(), store, executor)
        found["failed"], found["done"], found["known"] = (
            list(now.failed.values()),
            now.done,
            now.known,
        )
        long = [plain_fit(TINY, epochs=LONG + k) for k in range(2)]
        for job in long:
            executor.start(job)
        found["room"] = executor.has_room(long[0])
        shown = until(
            executor, lambda events: {event.job.id for event in events} == {job.id for job in long}
        )
        found["shown"] = sorted({event.what for event in shown})
        there, here = sorted(long, key=lambda job: where(store, job)[0][0] != second.node_id)
        cluster.remove_node(second, allow_graceful=False)
        time.sleep(1.0)
        os.kill(where(store, here)[0][1], signal.SIGKILL)
        (died,) = [
            e
            for e in until(executor, lambda events: any(e.what == "failed" for e in events))
            if e.error
        ]
        found["died"] = [died.job.id == here.id, died.error]
        until(executor, lambda events: len(where(store, there)) == 2)
        found["moved"] = where(store, there)[0][0] == second.node_id != where(store, there)[1][0]
        executor.stop()
        last = until(executor, lambda events: any(e.what != "progress" for e in events))[-1]
        found["stopped"] = [last.job.id == there.id, last.what]
        executor.close()
    finally:
        cluster.shutdown()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
