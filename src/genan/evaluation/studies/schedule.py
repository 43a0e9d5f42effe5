"""Getting jobs done: each once, none before what it needs, what is known already not at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from genan.evaluation.studies.executor import Executor
from genan.evaluation.studies.job import Job, in_order
from genan.evaluation.studies.store import Store

GLANCE = 0.25
"""Between two looks at whether someone wants to stop [s]."""


@dataclass
class Progress:
    """Where the work stands."""

    total: int
    """Jobs in all."""
    known: int = 0
    """Jobs that were done before."""
    done: int = 0
    """Jobs done now."""
    running: dict[str, tuple[Job, float]] = field(default_factory=dict)
    """Jobs that are being done, and what part of each is."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why jobs failed, by their fingerprints."""
    stopping: bool = False


ProgressFunction = Callable[[Progress], None]


def run(
    jobs: Sequence[Job],
    store: Store,
    executor: Executor,
    *,
    progress: ProgressFunction = lambda now: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Progress:
    """Do ``jobs`` and all that they need.

    A job that fails costs those that need it, and no other. Asked to stop, what is running is
    brought to where it can go on from, and nothing new is begun.
    """
    waiting = _wanted(jobs, store)
    missing = {job.fingerprint for job in waiting}
    finished = {job.fingerprint for job in in_order(jobs)} - missing
    now = Progress(total=len(waiting) + len(finished), known=len(finished))
    progress(now)
    while waiting or now.running:
        if stopping() and not now.stopping:
            now.stopping = True
            waiting = []
            executor.stop()
        for job in [
            job
            for job in waiting
            if all(need.fingerprint in finished for need in job.needs.values())
        ]:
            if executor.has_room(job):
                waiting.remove(job)
                now.running[job.fingerprint] = (job, 0.0)
                executor.start(job)
        waiting = _spare(waiting, now)
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
    is done.
    """
    found: dict[str, Job] = {}

    def visit(job: Job, *, known: bool) -> None:
        if known or job.fingerprint in found:
            return
        for need in job.needs.values():
            visit(need, known=store.usable(need))
        found[job.fingerprint] = job

    for job in jobs:
        visit(job, known=store.find(job) is not None)
    return list(found.values())


def _spare(waiting: list[Job], now: Progress) -> list[Job]:
    """Those of ``waiting`` that can still be done; the others fail with what they need."""
    kept = []
    for job in waiting:
        broken = [need for need in job.needs.values() if need.fingerprint in now.failed]
        if broken:
            now.failed[job.fingerprint] = (
                f"{broken[0].label or broken[0].id} failed, which it needs"
            )
        else:
            kept.append(job)
    return kept
