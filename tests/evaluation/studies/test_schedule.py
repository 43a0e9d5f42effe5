from collections.abc import Sequence
from pathlib import Path

import pytest

from genan.evaluation.studies.executor import Event, Executor
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.schedule import run
from genan.evaluation.studies.store import PRODUCTS, Done, Store

DATA = Job("collect", {"seed": 0})
GOOD = Job("fit", {"k": 1}, {"data": DATA}, label="a good fit")
BAD = Job("fit", {"k": 2}, {"data": DATA}, label="a bad fit")
JUDGED_GOOD, JUDGED_BAD = (
    Job("evaluate", {}, {"actuators": job, "data": DATA}) for job in (GOOD, BAD)
)


class Desk(Executor):
    """Does two jobs at once, in no time, and keeps a list."""

    words = "a desk"

    def __init__(self, store: Store, *, room: int = 2) -> None:
        self.begun: list[Job] = []
        self.stopped = False
        self._store, self._room, self._open = store, room, []

    def has_room(self, job: Job) -> bool:
        return len(self._open) < self._room

    def start(self, job: Job) -> None:
        assert all(self._store.usable(need) for need in job.needs.values())
        self.begun.append(job)
        self._open.append(job)

    def wait(self, seconds: float) -> Sequence[Event]:
        if not self._open:
            return []
        job = self._open.pop(0)
        if self.stopped:
            return [Event(job, "stopped")]
        if job is BAD:
            return [Event(job, "failed", error="it is bad")]
        with self._store.held(job) as folder:
            if job.kind in PRODUCTS:
                (folder / PRODUCTS[job.kind]).touch()
            self._store.keep(job, Done({}, 0.0, {}, {}))
        return [Event(job, "progress", share=0.5), Event(job, "done")]

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None: ...


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_each_job_once_none_before_its_needs_and_one_that_fails_costs_only_what_needs_it(
    store: Store,
) -> None:
    desk = Desk(store)
    now = run([JUDGED_GOOD, JUDGED_BAD, JUDGED_GOOD], store, desk)
    assert desk.begun[0] is DATA and sorted(desk.begun, key=id) == sorted(
        [DATA, GOOD, BAD, JUDGED_GOOD], key=id
    )
    assert (now.total, now.known, now.done) == (5, 0, 3)
    assert now.failed == {
        BAD.fingerprint: "it is bad",
        JUDGED_BAD.fingerprint: "a bad fit failed, which it needs",
    }


def test_what_is_known_is_not_done_again(store: Store) -> None:
    run([JUDGED_GOOD], store, Desk(store))
    desk = Desk(store)
    now = run([JUDGED_GOOD], store, desk)
    assert desk.begun == [] and (now.total, now.known, now.done) == (3, 3, 0)


def test_files_that_were_removed_are_made_again_only_where_something_new_needs_them(
    store: Store,
) -> None:
    run([JUDGED_GOOD], store, Desk(store))
    for job in (DATA, GOOD):
        (store.folder(job) / PRODUCTS[job.kind]).unlink()
    desk = Desk(store)
    run([JUDGED_GOOD], store, desk)
    assert desk.begun == []
    other = Job("fit", {"k": 3}, {"data": DATA})
    run([JUDGED_GOOD, other], store, desk)
    assert desk.begun == [DATA, other]


def test_asked_to_stop_it_begins_nothing_new(store: Store) -> None:
    desk = Desk(store, room=1)
    seen: list[int] = []
    now = run(
        [JUDGED_GOOD],
        store,
        desk,
        progress=lambda now: seen.append(now.done),
        stopping=lambda: len(desk.begun) == 1,
    )
    assert desk.stopped and desk.begun == [DATA]
    assert now.stopping and now.done == 1 and not now.failed and not now.running
    assert store.find(GOOD) is None and seen[0] == 0 and seen[-1] == 1
