"""Ctrl-C for long jobs: the first one asks the job to stop at the next safe point, the second stops
it at once.

An interrupt that Python raises anywhere can be lost (in a callback that swallows it) or land in the
middle of a write; a job that asks ``requested`` between its steps has neither problem.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether someone pressed Ctrl-C."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take the signal."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Within this block Ctrl-C sets ``requested`` instead of raising; after it, everything is as
    before."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
