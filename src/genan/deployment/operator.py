"""An operator's stop, in every control loop: the space bar, SIGUSR1 or a file; Ctrl-C as well."""

import os
import select
import signal
import sys
import threading
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from types import FrameType

from genan.errors import refuse

STOP_FILE = Path("genan-stop")  # In the folder that a loop was started from.
LOOK = 0.02  # How often the keyboard and the file are looked at [s].


class OperatorStop(AbstractContextManager["OperatorStop"]):
    """Within its block it says, once and for all, whether the operator wants the robot at rest.

    A thread looks, so that no tick waits for a keyboard or for a folder on a network.
    """

    def __init__(self, file: Path | None = STOP_FILE) -> None:
        """``file`` stops by being there; one that is there already is refused."""
        self._file, self._asked, self._over = file, threading.Event(), threading.Event()
        self._left = ExitStack()

    def __call__(self) -> bool:
        return self._asked.is_set()

    def __enter__(self) -> "OperatorStop":
        there = self._file is not None and self._file.exists()
        refuse((there, f"{self._file} is there, which stops every flight; remove it to fly."))
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGUSR1, self._take)
            self._left.callback(signal.signal, signal.SIGUSR1, before)
        watcher = threading.Thread(target=self._watch, args=(self._keyboard(),), daemon=True)
        watcher.start()
        self._left.callback(watcher.join)
        self._left.callback(self._over.set)
        return self

    def __exit__(self, *_: object) -> None:
        self._left.close()

    @property
    def words(self) -> str:
        """How to stop it, for who sits in front of it."""
        file = "" if self._file is None else f", make the file {self._file.resolve()}"
        return f"To stop: the space bar or Ctrl-C, kill -USR1 {os.getpid()}{file}."

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()

    def _keyboard(self) -> int | None:
        """The terminal, set to give single keys until the end; None where this has none."""
        with suppress(ImportError, OSError, ValueError):
            import termios
            import tty

            terminal = sys.stdin.fileno()
            if os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp():
                before = termios.tcgetattr(terminal)
                self._left.callback(termios.tcsetattr, terminal, termios.TCSADRAIN, before)
                tty.setcbreak(terminal)
                return terminal
        return None

    def _watch(self, terminal: int | None) -> None:
        while not self._over.wait(LOOK):
            if self._file is not None and self._file.exists():
                self._asked.set()
            if terminal is not None and select.select([terminal], [], [], 0.0)[0]:
                keys = os.read(terminal, 1024)
                if b" " in keys:
                    self._asked.set()
                terminal = terminal if keys else None  # the terminal was closed
