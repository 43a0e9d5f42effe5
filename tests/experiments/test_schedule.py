"""Which jobs are done, in which order, and what is kept of them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.experiments.fake_executor import FakeExecutor

from experiments.executors import LocalExecutor, run
from experiments.jobs import Job
from experiments.store import DONE, LOCK, PRODUCTS, JobResult, StoppedError, Store
from genan.errors import DataError, GenanError

DATA = Job("collect", {"seed": 0}, label="record")
GOOD = Job("fit", {"k": 1}, {"data": DATA}, label="a good fit")
BAD = Job("fit", {"k": 2}, {"data": DATA}, label="a bad fit")
JUDGED_GOOD, JUDGED_BAD = (
    Job("evaluate", {}, {"actuators": job, "data": DATA}) for job in (GOOD, BAD)
)
FOUND = JobResult({"trajectories": 8}, 1.25, {"genan": "0"}, {"cores": "2"})


def answer(job: Job) -> Mapping[str, Any]:
    if job is BAD:
        raise GenanError("it is bad")
    return {}


def test_each_job_once_none_before_its_needs_and_one_that_fails_costs_only_what_needs_it(
    store: Store,
) -> None:
    desk = FakeExecutor(store, answer)
    now = run([JUDGED_GOOD, JUDGED_BAD, JUDGED_GOOD], store, desk)
    begun = [job.fingerprint for job in desk.started]
    assert begun[0] == DATA.fingerprint and begun[-1] == JUDGED_GOOD.fingerprint
    assert sorted(begun) == sorted(j.fingerprint for j in (DATA, GOOD, BAD, JUDGED_GOOD))
    assert (now.total, now.known, now.done) == (5, 0, 3)
    assert now.failed == {
        BAD.fingerprint: "it is bad",
        JUDGED_BAD.fingerprint: "a bad fit failed, which it needs",
    }


def test_what_is_known_is_not_done_again(store: Store) -> None:
    run([JUDGED_GOOD], store, FakeExecutor(store, answer))
    desk = FakeExecutor(store, answer)
    now = run([JUDGED_GOOD], store, desk)
    assert desk.started == [] and (now.total, now.known, now.done) == (3, 3, 0)


def test_files_that_were_removed_are_made_again_only_where_something_new_needs_them(
    store: Store,
) -> None:
    desk = FakeExecutor(store, answer)
    run([JUDGED_GOOD], store, desk)
    for job in (DATA, GOOD):
        (store.folder(job) / PRODUCTS[job.kind]).unlink()
    desk.started.clear()
    run([JUDGED_GOOD], store, desk)
    assert desk.started == []
    other = Job("fit", {"k": 3}, {"data": DATA})
    run([JUDGED_GOOD, other], store, desk)
    assert desk.started == [DATA, other]


def test_asked_to_stop_it_begins_nothing_new(store: Store) -> None:
    desk = FakeExecutor(store, answer, room=1)
    now = run([JUDGED_GOOD], store, desk, stopping=lambda: len(desk.started) == 1)
    assert desk.stopped and desk.started == [DATA]
    assert now.stopping and now.done == 1 and not now.failed and not now.running
    assert store.find(GOOD) is None


def test_a_gpu_is_for_the_jobs_that_it_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hired: list[str] = []

    def hire(self: LocalExecutor, lane: str) -> Any:
        hired.append(lane)
        return Mock()

    monkeypatch.setattr(LocalExecutor, "_hire", hire)
    monkeypatch.setattr("experiments.executors.has_gpu", lambda: True)
    executor = LocalExecutor(tmp_path, cpu_workers=2)
    assert executor.words == "1 process on this machine with its GPU, 2 more on its cores"
    executor.start(GOOD)
    assert not executor.has_room(BAD) and executor.has_room(DATA)
    executor.start(DATA)
    executor.start(Job("collect", {"seed": 1}))
    assert hired == ["gpu", "cpu", "cpu"] and not executor.has_room(DATA)
    executor.close()


def test_what_was_kept_is_found(store: Store) -> None:
    assert store.find(DATA) is None
    with store.held(DATA) as folder:
        store.note_spent(DATA, 0.75)
        assert store.spent(DATA) == 0.75 and store.find(DATA) is None
        store.keep(DATA, FOUND)
        assert not store.usable(DATA)
        (folder / PRODUCTS["collect"]).touch()
    assert store.find(DATA) == FOUND and store.usable(DATA) and store.spent(DATA) == 0.0


@pytest.mark.parametrize("content", [b"", b'{"format": "genan job", "ver', b"[]", b"{}"])
def test_half_written_counts_as_not_done(store: Store, content: bytes) -> None:
    with store.held(DATA) as folder:
        (folder / DONE).write_bytes(content)
    assert store.find(DATA) is None


def test_another_jobs_result_is_refused_by_name(store: Store) -> None:
    with store.held(DATA) as folder:
        store.keep(DATA, FOUND)
        content = json.loads((folder / DONE).read_bytes())
        content["fingerprint"] = "0" * 64
        (folder / DONE).write_text(json.dumps(content))
    with pytest.raises(DataError, match="belongs to another job; remove"):
        store.find(DATA)


def test_one_process_at_a_time(store: Store, tmp_path: Path) -> None:
    with store.held(DATA) as folder:
        pass
    lock = f"f = open({str(folder / LOCK)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    hold = f"import fcntl, time; {lock}; print(1, flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdout.readline()
    answers = iter([False, False, True])
    with pytest.raises(StoppedError), store.held(DATA, stopping=lambda: next(answers)):
        pass
    other.kill()  # whatever ends a process ends its hold
    other.communicate()
    with store.held(DATA):
        pass
