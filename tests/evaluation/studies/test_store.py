import json
import subprocess
import sys
from pathlib import Path

import pytest

from genan.errors import DataError
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.store import DONE, LOCK, Done, StoppedError, Store

JOB = Job("collect", {"seed": 3}, label="record")
FOUND = Done({"trajectories": 8}, 1.25, {"genan": "0"}, {"cores": "2"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs")


def test_what_was_kept_is_found(store: Store) -> None:
    assert store.find(JOB) is None
    with store.held(JOB):
        store.note_spent(JOB, 0.75)
        assert store.spent(JOB) == 0.75 and store.find(JOB) is None
        store.keep(JOB, FOUND)
    assert store.find(JOB) == FOUND
    assert store.spent(JOB) == 0.0


@pytest.mark.parametrize("content", [b"", b'{"format": "genan job", "ver', b"[]", b"{}"])
def test_half_written_counts_as_not_done(store: Store, content: bytes) -> None:
    with store.held(JOB) as folder:
        (folder / DONE).write_bytes(content)
    assert store.find(JOB) is None


def test_another_jobs_result_is_refused_by_name(store: Store) -> None:
    with store.held(JOB) as folder:
        store.keep(JOB, FOUND)
        content = json.loads((folder / DONE).read_bytes())
        content["fingerprint"] = "0" * 64
        (folder / DONE).write_text(json.dumps(content))
    with pytest.raises(DataError, match="belongs to another job; remove"):
        store.find(JOB)


def test_a_job_whose_file_is_gone_is_done_but_of_no_use_to_others(store: Store) -> None:
    with store.held(JOB) as folder:
        store.keep(JOB, FOUND)
        assert store.find(JOB) is not None and not store.usable(JOB)
        (folder / "data.h5").touch()
        assert store.usable(JOB)


def test_one_process_at_a_time(store: Store) -> None:
    with store.held(JOB) as folder:
        pass
    lock = f"f = open({str(folder / LOCK)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True)"
    hold = f"import fcntl, time; {lock}; time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdout.readline()
    asked = []

    def stopping() -> bool:
        asked.append(True)
        return len(asked) > 2

    with pytest.raises(StoppedError), store.held(JOB, stopping=stopping):
        pass
    assert len(asked) == 3
    other.kill()  # whatever ends a process ends its hold
    other.communicate()
    with store.held(JOB):
        pass
