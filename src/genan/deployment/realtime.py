"""What a control loop asks of the computer so that no tick is late: memory that stays, a place
before all other processes, a core. What was not given is said, and the loop runs all the same."""

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

PRIORITY = 80  # Of SCHED_FIFO's 1 to 99: before other programs, behind the kernel's own threads.
_LOCK = 1 | 2 | 4  # mlockall: what is there, what comes, each page from its first use on.
_ISOLATED = Path("/sys/devices/system/cpu/isolated")  # Cores that the kernel gives to nobody else.


class Grant(NamedTuple):
    """One thing that was asked for."""

    what: str
    got: bool
    words: str  # What exactly was given, or why it was not and what to do.


@contextmanager
def realtime() -> Iterator[list[Grant]]:
    """Within this block the calling thread runs as a real-time one, as far as it may."""
    asked: tuple[tuple[str, Callable[[ExitStack], str], str], ...] = (
        ("memory locked", _lock_memory, "allow it: ulimit -l unlimited"),
        ("SCHED_FIFO", _schedule, "allow it: ulimit -r 99, or CAP_SYS_NICE"),
        ("a core of its own", _take_core, "run on a computer with two cores or more"),
        ("no garbage collection", _freeze, ""),
    )
    with ExitStack() as back:
        grants = []
        for what, ask, todo in asked:
            try:
                grants.append(Grant(what, True, ask(back)))
            except (OSError, AttributeError) as error:  # the latter where there is no such thing
                why = getattr(error, "strerror", None) or "not on this system"
                grants.append(Grant(what, False, f"{why}; {todo}"))
        yield grants


def _lock_memory(back: ExitStack) -> str:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlockall(_LOCK):
        raise OSError(number := ctypes.get_errno(), os.strerror(number))
    back.callback(library.munlockall)
    return "no page of it is swapped out"


def _schedule(back: ExitStack) -> str:
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    back.callback(os.sched_setscheduler, 0, *before)
    return f"priority {PRIORITY}"


def _take_core(back: ExitStack) -> str:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        raise OSError(0, "there is one core")
    text = _ISOLATED.read_text().strip() if _ISOLATED.exists() else ""
    spans = [list(map(int, span.split("-"))) for span in text.split(",") if span]
    alone = {core for span in spans for core in range(span[0], span[-1] + 1)}
    core = max(alone & before or before)
    os.sched_setaffinity(0, {core})
    back.callback(os.sched_setaffinity, 0, before)
    shared = "others may run on it too (isolcpus= of the kernel keeps them away)"
    return f"core {core}, {'isolated' if core in alone else shared}"


def _freeze(back: ExitStack) -> str:
    """What there is now is never looked through again; the loop itself stops the collector."""
    gc.collect()
    gc.freeze()
    back.callback(gc.unfreeze)
    return "during a flight"
