"""``Stand``: the virtual robot as the page sees it. Every tick is noted, and someone may push."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.deployment.controller import Controller
from genan.deployment.interface import Pacer, Reading, RobotInterface
from genan.evaluation.trials import Arena, load_policy
from genan.report.viewer.geometry import Body
from genan.report.viewer.live_orders import LiveSettings, Ticks
from genan.report.viewer.real_time import RealTime
from genan.report.viewer.room import BASE

#: Ticks from one report to the next: 31 a second at 500 Hz.
REPORT = 16
#: A ball that has lain in the cup for this long is in [s].
IN_CUP = 0.3


class Stand(RobotInterface):
    """The robot of an arena, in real time."""

    def __init__(self, task: str, arena: Arena, bench: Any, *, realtime: bool = True) -> None:
        """``bench`` is the ``VirtualRobot`` behind the robot of ``arena``; see ``build``."""
        self.task, self.arena, self.bench = task, arena, bench
        self._inner = arena.robot
        self.robot = self._inner.robot
        self._pace = RealTime(self._inner.clock)
        self.clock = self._pace if realtime else self._inner.clock
        self.reporting: Callable[[Stand], None] = lambda stand: None
        """Called every few ticks; takes them by ``ticks``."""
        self.placed = True
        """Whether the arm was put somewhere since the last report."""
        self._body = Body(self.robot)
        self._q: list[np.ndarray] = []
        self._u: list[np.ndarray] = []
        self._force, self._push_left = np.zeros(3), -1

    @classmethod
    def build(cls, settings: LiveSettings, *, hours: float, realtime: bool = True) -> "Stand":
        """The stand of a task: specimen ``settings.seed`` at ``hours`` [h], with its policy,
        compiled."""
        policy = load_policy(settings.policy, settings.task)
        bench, arena = _arena(settings, policy, hours)
        if bench.pushable:
            bench.push(
                np.zeros(bench.robot.nq)
            )  # the program that can be pushed is the one that runs from now on
        bench.command(bench.robot.u_rest)  # compiles, which no tick should wait for
        bench.reset()
        return cls(settings.task, arena, bench, realtime=realtime)

    def connect(self) -> None:
        """Reach the robot."""
        self._inner.connect()

    def read(self) -> Reading:
        """What its encoders say."""
        return self._inner.read()

    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """One period of the robot, pushed or not."""
        q = self.bench.read()
        self._lean(q)
        sent = self._inner.command(u)
        self._q.append(q)
        self._u.append(sent)
        if len(self._q) >= REPORT:
            self.reporting(self)
        return sent

    def stop(self) -> None:
        """Let go of the robot."""
        self._inner.stop()

    def push(self, force: Float[np.ndarray, " 3"], seconds: float) -> None:
        """Push at the tip with ``force`` [N], in the frame of the base, for so many ``seconds``."""
        if self.bench.pushable:
            self._force, self._push_left = np.asarray(force, float), round(seconds / self.robot.dt)

    def rest(self, *, until: Callable[[], bool]) -> None:
        """Stand at the controls of rest, in real time."""
        self.connect()
        pacer = Pacer(self.clock, self.robot.dt, origin=self.clock.now())
        while not until():
            pacer.wait()
            self.command(self.robot.u_rest)

    def begin(self, trial: int) -> tuple[Controller, ...]:
        """Make ready for a ball, or a try; those who fly it."""
        self.placed = True
        return self.arena.attempt(trial).controllers

    def verdict(self) -> bool | None:
        """Whether the last ball or try succeeded; None while that is open."""
        if self.task == "table-tennis":
            outcome = self.bench.outcome()
            return None if outcome is None else bool(outcome.value == "success")
        if self.task == "ball-in-a-cup":
            return True if self.bench.time_in_cup > IN_CUP else None
        return None

    def ticks(self, status: str, stopped: bool, tries: int, successes: int) -> Ticks:
        """What happened since the last call."""
        ball, string = self._toy()
        found = Ticks(
            q=np.array(self._q),
            u=np.array(self._u),
            placed=self.placed,
            status=status,
            stopped=stopped,
            hours=self.bench.hours,
            speed=self._pace.speed,
            ball=ball,
            string=string,
            tries=tries,
            successes=successes,
        )
        self._q, self._u, self.placed = [], [], False
        return found

    def _toy(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Ball and string in the frame of the room [m], where there are."""
        if self.task == "table-tennis":
            return (
                self.bench.ball_for_evaluation_only()[0] if self.bench.time > 0.0 else None
            ), None
        if self.task == "ball-in-a-cup":
            base = np.array(BASE)
            return self.bench.ball_for_evaluation_only()[
                0
            ] + base, self.bench.string_for_evaluation_only() + base
        return None, None

    def _lean(self, q: Float[np.ndarray, " nq"]) -> None:
        """The push of this tick as torques on the joints."""
        if self._push_left < 0:
            return
        self._push_left -= 1
        pushing = self._push_left >= 0
        self.bench.push(
            self._body.jacobian(q).T @ self._force if pushing else np.zeros(self.robot.nq)
        )


def _arena(settings: LiveSettings, policy: Any, hours: float) -> tuple[Any, Arena]:
    """The bench of a task, and its arena."""
    from genan.deployment.interface import VirtualInterface
    from genan.robot.package import open_virtual

    seed = settings.seed
    bench = open_virtual(policy.contract["robot"], task=settings.task, seed=seed, hours=hours)
    if settings.task == "table-tennis":
        from genan.evaluation.ball_trials import TennisArena

        return bench, TennisArena(policy, bench, bench.tracker())
    if settings.task == "ball-in-a-cup":
        from genan.evaluation.ball_trials import CupArena

        return bench, CupArena(policy, bench, bench.tracker())
    from genan.evaluation.trials import ReacherArena

    return bench, ReacherArena(policy, VirtualInterface(bench), robot_seed=seed)
