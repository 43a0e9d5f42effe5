"""The running robot in a process of its own, so that neither it nor the page waits for the
other."""

import signal
import threading
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from genan.errors import GenanError
from genan.report.viewer.live_orders import Failed, LiveSettings, Order, Ticks

#: An orderly end takes as long as a report; after this the process, which compiles perhaps, is
#: ended by force [s].
PATIENCE = 1.0


class Pipe:
    """One end of a pipe as a ``Link``."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        """Use ``connection``."""
        self._connection = connection

    def orders(self) -> list[Order]:
        """Those that came since the last call; ``EOFError`` when nobody is there any more."""
        found = []
        while self._connection.poll():
            found.append(self._connection.recv())
        return found

    def report(self, ticks: Ticks | Failed) -> None:
        """Send it."""
        self._connection.send(ticks)


class LiveProcess:
    """A ``LiveRobot`` elsewhere. It ends when this process does, however that ends."""

    def __init__(self, settings: LiveSettings) -> None:
        """Start it."""
        context = get_context("spawn")  # what was imported and started here is nothing to it
        self._here, there = context.Pipe()
        self._process = context.Process(
            target=_run, args=(settings, there), daemon=True, name="genan-live-robot"
        )
        self._process.start()
        there.close()  # only the process has it now: its end is seen here, and ours there
        self._sending = threading.Lock()
        self._ended = False

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._process.is_alive())

    def send(self, order: Order) -> None:
        """Give an order; a robot that is gone does not hear it."""
        with self._sending:
            try:
                self._here.send(order)
            except OSError:
                self._ended = True

    def reports(self, *, wait: float = 0.0) -> list[Ticks | Failed]:
        """What came since the last call; waits so long [s] for the first."""
        found: list[Ticks | Failed] = []
        try:
            while self._here.poll(0.0 if found else wait):
                found.append(self._here.recv())
        except (EOFError, OSError):
            if not self._ended and not any(isinstance(report, Failed) for report in found):
                found.append(
                    Failed("The virtual robot's process has ended; start 'genan view' again.")
                )
            self._ended = True
        return found

    def close(self) -> None:
        """End the process; a second call does nothing."""
        self._ended = True
        self._here.close()
        self._process.join(PATIENCE)
        for end in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                end()
                self._process.join(PATIENCE)


def _run(settings: LiveSettings, connection: "Connection[Any, Any]") -> None:
    """The process: fly until the page is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page, whose end ends this
    from genan.jax_setup import use_cache

    use_cache()
    from genan.report.viewer.live import LiveRobot

    link = Pipe(connection)
    try:
        LiveRobot(settings, link).run()
    except GenanError as error:
        link.report(Failed(str(error)))
