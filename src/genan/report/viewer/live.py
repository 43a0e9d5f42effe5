"""``LiveRobot``: a policy on the virtual robot for as long as someone looks, with orders taken in
between.

Loop, guard and controllers are those of every other robot (``genan.deployment``); tasks and balls
those of the transfer trials (``genan.evaluation``). Here is only who has the next turn.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.deployment.controller import Controller, Goal, PolicyController
from genan.deployment.interface import Reading
from genan.deployment.loop import ControlLoop, RampTo
from genan.deployment.safety import Stop
from genan.report.viewer.live_orders import (
    Age,
    Launch,
    LiveSettings,
    Order,
    Push,
    Reach,
    Restart,
    Ticks,
)
from genan.report.viewer.live_stand import Stand
from genan.robot import Robot

#: A flight is kept in memory until it ends; after this long the arm goes to rest for a second and
#: flies on [s].
LONGEST = 600.0
#: A robot that waits is put back in order this often [s]: what its trackers remember would grow for
#: ever.
TIDY = 60.0
#: Initial controls are reached in this time [s], as in training.
RAMP = 2.0


class Left(BaseException):
    """Nobody looks any more. No ``Exception``: a control loop would bring the arm to rest first,
    for nobody."""


@runtime_checkable
class Link(Protocol):
    """The other end: where orders come from and reports go to."""

    def orders(self) -> list[Order]:
        """Those that came since the last call; ``EOFError`` when nobody is there any more."""
        ...

    def report(self, ticks: Ticks) -> None:
        """Say what happened."""
        ...


class MovingGoal:
    """The reacher's goal, which someone moves."""

    def __init__(self, q: Float[np.ndarray, " nq"], robot: Robot) -> None:
        """Begin with ``q`` [rad or m]."""
        self._robot = robot
        self.move(q)

    def move(self, q: Float[np.ndarray, " nq"]) -> None:
        """From now on reach ``q`` [rad or m]; outside the joint limits is refused."""
        self._goal, self.q = Goal(q, self._robot), np.array(q, float)

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """There is nothing to see."""

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Nothing begins."""

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        """The goal moves by orders alone."""

    def parts(self) -> Mapping[str, Any]:
        """The goal [nq] [rad or m]."""
        return self._goal.parts()


class Waiting:
    """A controller that leaves the controls alone until a ball is asked for."""

    repeat = 1

    def __init__(self, live: "LiveRobot", *, ticks: int) -> None:
        """For ``ticks`` at most."""
        self._live, self._left = live, ticks

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """Nothing begins."""

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """One tick less."""
        self._left -= 1

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """No change."""
        return np.zeros_like(u)

    def done(self) -> bool:
        """Whether a ball was asked for."""
        return self._live.launching or self._left <= 0


class LiveRobot:
    """One virtual robot, its policy, and who has the next turn."""

    def __init__(self, settings: LiveSettings, link: Link, *, realtime: bool = True) -> None:
        """Nothing moves yet, ``run`` does: in real time, or as fast as it can be computed."""
        self._settings, self._link, self._realtime = settings, link, realtime
        self._hours = settings.hours
        self._goal: MovingGoal | None = None
        self._wished: Float[np.ndarray, " nq"] | None = None
        self.launching = False
        """Whether a ball, or a try, was asked for."""
        self._anew = False
        self._trial = -1
        self._status, self._stopped = "starting", False
        self._tries = self._successes = 0
        self._judged, self._tidy = True, False

    def run(self) -> None:
        """Fly until nobody is at the other end (``EOFError`` or ``OSError`` from the link)."""
        try:
            while True:
                self._run_one(
                    Stand.build(self._settings, hours=self._hours, realtime=self._realtime)
                )
        except Left:
            return

    def _run_one(self, stand: Stand) -> None:
        """Fly until the robot is to be made anew."""
        stand.reporting = self._report
        self._anew, self._stopped, self._judged, self._tidy = False, False, True, False
        stop = self._fly(stand)
        if stop is not None and not self._anew:
            self._status, self._stopped = f"stopped: {stop}", True
            stand.rest(until=lambda: self._anew)

    def _fly(self, stand: Stand) -> Stop | None:
        """Flight after flight, until one is stopped; why it was."""
        with ControlLoop(stand, safety=stand.arena.safety, stopping=lambda: self._anew) as loop:
            while not self._anew:
                stop = loop.run(*self._next(stand)).stop
                if not stop.sound:
                    return stop
        return None

    def _next(self, stand: Stand) -> tuple[Controller, ...]:
        """Who flies next."""
        robot, arena = stand.robot, stand.arena
        if stand.task == "reacher":
            constants = arena.constants
            middle = {
                name: 0.5
                * (np.array(constants[f"{name}_lower"]) + np.array(constants[f"{name}_upper"]))
                for name in ("goal", "u")
            }
            self._goal = MovingGoal(middle["goal"] if self._wished is None else self._wished, robot)
            self._status = "follows the goal"
            ramp = RampTo(middle["u"], seconds=RAMP, robot=robot, change=arena.safety.change)
            return ramp, PolicyController(arena.policy, self._goal, robot=robot, seconds=LONGEST)
        if not self.launching:
            self._status = "waits for a ball" if stand.task == "table-tennis" else "waits for a try"
            if not self._tidy:
                stand.begin(max(self._trial, 0))
            self._tidy = False
            return (Waiting(self, ticks=round(TIDY / robot.dt)),)
        self._judge(stand, over=True)
        self.launching, self._judged, self._tidy = False, False, True
        self._trial += 1
        self._status = (
            f"ball {self._trial + 1}" if stand.task == "table-tennis" else f"try {self._trial + 1}"
        )
        return stand.begin(self._trial)

    def _report(self, stand: Stand) -> None:
        """Say what happened, and take orders; called by the stand every few ticks."""
        self._judge(stand)
        try:
            self._link.report(
                stand.ticks(self._status, self._stopped, self._tries, self._successes)
            )
            orders = self._link.orders()
        except (EOFError, OSError):
            raise Left from None
        for order in orders:
            self._obey(order, stand)

    def _judge(self, stand: Stand, *, over: bool = False) -> None:
        """Count the last ball once it is clear what became of it, or as a miss when the next one
        comes (``over``)."""
        verdict = stand.verdict()
        if self._judged or (verdict is None and not over):
            return
        self._judged = True
        self._tries += 1
        self._successes += bool(verdict)

    def _obey(self, order: Order, stand: Stand) -> None:
        match order:
            case Reach(q):
                self._wished = np.clip(q, *stand.robot.q_range)
                if self._goal is not None:
                    self._goal.move(self._wished)
            case Launch():
                self.launching = True
            case Push(force, seconds):
                stand.push(force, seconds)
            case Restart():
                self._anew = True
            case Age(hours):
                self._hours, self._anew = hours, True
