"""What a real-time loop asks of the computer: given, or said why not, and given back."""

import gc
import os
import threading

import pytest

from genan.deployment.realtime import realtime


def state() -> tuple[object, ...]:
    return os.sched_getscheduler(0), os.sched_getaffinity(0), gc.get_freeze_count() > 0


def test_what_was_got_is_true_and_is_given_back() -> None:
    before = state()
    with realtime() as grants:
        got = {one.what: one.got for one in grants}
        assert got["SCHED_FIFO"] is (os.sched_getscheduler(0) == os.SCHED_FIFO)
        if got["a core of its own"]:
            assert len(os.sched_getaffinity(0)) == 1
        assert got["no garbage collection"] and gc.get_freeze_count() > 0
        if got["memory locked"]:
            assert locked() > 0
        # Another thread that was there before is left alone; one made now is like this one.
        made = []
        thread = threading.Thread(target=lambda: made.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
        assert made == [os.sched_getscheduler(0)]
    assert state() == before and locked() == 0


def locked() -> int:
    """By the kernel's own account [kB]."""
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith("VmLck"))


def test_what_is_not_allowed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_setscheduler", denied)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    with realtime() as grants:
        found = {one.what: one for one in grants}
    assert not found["SCHED_FIFO"].got
    assert found["SCHED_FIFO"].words.startswith("Operation not permitted; allow it: ulimit -r")
    assert not found["a core of its own"].got and "one core" in found["a core of its own"].words
    monkeypatch.delattr("os.sched_setscheduler")
    with realtime() as grants:
        assert "not on this system" in {one.what: one for one in grants}["SCHED_FIFO"].words
