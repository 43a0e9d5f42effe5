"""The ghosts of a running robot: they get its commands as it does, a moment later."""

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from genan.report.viewer.ghost_view import PAST
from genan.report.viewer.live_orders import Ticks
from genan.report.viewer.page import in_words

if TYPE_CHECKING:
    from genan.report.viewer.ghosts import Ghosts, Simulated

#: How often they begin anew, in words and in seconds.
EVERY = {
    "every 0.5 s": 0.5,
    "every 1 s": 1.0,
    "every 2 s": 2.0,
    "every 5 s": 5.0,
    "only when asked": math.inf,
}
#: Ticks of a compiled call.
BLOCK = 8


class LiveGhosts:
    """Simulated arms beside a running robot."""

    def __init__(self, load: "Callable[[], Ghosts]", *, dt: float) -> None:
        """``load`` gives them and is called by ``start``; ``dt`` is the robot's period [s]."""
        self._every, self._dt = 1.0, dt
        self._now, self._tick = True, 0
        self._ghosts: Ghosts | None = None
        self._past: deque[np.ndarray] = deque(maxlen=PAST + 1)
        self.words = "Compiling the simulated arm …"
        """Why there are none yet."""
        self.last: Simulated | None = None
        """What they did in the last ticks."""
        self._working = ThreadPoolExecutor(1, thread_name_prefix="genan-view-ghosts")
        self._first: Callable[[], Ghosts] | None = load

    def start(self) -> None:
        """Load and compile them beside the page; a second call does nothing."""
        load, self._first = self._first, None
        if load is not None:
            self._working.submit(self._load, load).add_done_callback(self._loaded)

    @property
    def ready(self) -> bool:
        """Whether there are any."""
        return self._ghosts is not None

    @property
    def past(self) -> Float[np.ndarray, "past models nq"] | None:
        """Their positions at the last reports, the newest one last [rad or m]; None before the
        first."""
        if not self._past:
            return None
        return np.array([*([self._past[0]] * (PAST + 1 - len(self._past))), *self._past])

    def take(self, ticks: Ticks) -> None:
        """Go along with what the robot did."""
        ghosts = self._ghosts
        if ghosts is None:
            return
        if ticks.placed or ghosts.wild:
            ghosts.forget()
            self._tick = 0
            self._past.clear()
        restart = self._restarts(len(ticks.q))
        self.last = ghosts.advance(ticks.q, ticks.u, restart)
        self._past.append(self.last.q[-1])

    def restart(self, *, every: float | None = None) -> None:
        """Begin anew at the next report and, if given, ``every`` so often [s] from then on."""
        self._now = True
        self._every = self._every if every is None else every

    def close(self) -> None:
        """End the work beside the page."""
        self._working.shutdown(wait=True, cancel_futures=True)

    def _restarts(self, count: int) -> np.ndarray:
        numbers = np.arange(self._tick, self._tick + count)
        marks = (
            np.zeros(count, bool)
            if math.isinf(self._every)
            else numbers % round(self._every / self._dt) == 0
        )
        marks[0] |= self._now
        self._now, self._tick = False, self._tick + count
        return marks

    def _load(self, load: "Callable[[], Ghosts]") -> "Ghosts":
        ghosts = load()
        nq, nu = ghosts.ensemble.contract.nq, ghosts.ensemble.contract.nu
        ghosts.advance(
            np.zeros((BLOCK, nq)), np.zeros((BLOCK, nu)), np.zeros(BLOCK, bool)
        )  # compiles
        ghosts.forget()
        return ghosts

    def _loaded(self, work: "Future[Ghosts]") -> None:
        if work.cancelled():
            return
        error = work.exception()
        if error is None:
            self._ghosts = work.result()
        else:
            self.words = f"No simulated arm: {in_words(error)}"
