"""The arena of table tennis: the virtual PAMY2 with racket, table and ball gun, and cameras that
see the ball."""

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float

from genan.deployment.ball_filter import NumpyBallFilter
from genan.deployment.ball_observation import Rally
from genan.deployment.controller import PolicyController
from genan.deployment.flight import Flight
from genan.deployment.interface import Reading
from genan.deployment.tracking import BallTracker
from genan.deployment.virtual_robot import VirtualRobot
from genan.evaluation.arena import Arena, Attempt, Verdict, check_task
from genan.evaluation.watched import Watched
from genan.rl.numpy_policy import Policy
from genan.virtual.tennis_bench import Outcome, TennisBench
from genan.virtual.tracking import Cameras

PATIENCE = 0.5
"""A ball that no camera has seen for so long after its launch is given up [s]."""


@final
class TennisArena(Arena):
    """A trial succeeds when the ball, once hit, first comes down on the opponent's half of the
    table.

    The ball is launched when the initial controls are reached, and the policy begins when a camera
    has seen it. The ball flies on while the controls go to rest, and to its end after that.
    """

    task = "table-tennis"

    def __init__(
        self, policy: Policy, bench: TennisBench, cameras: Cameras, *, paced: bool = False
    ) -> None:
        """Try ``policy`` on ``bench``, with the ball seen by ``cameras``; ``paced``: in real
        time."""
        self._bench, self._cameras = bench, cameras
        self._launched = False
        self._watched = Watched(VirtualRobot(bench=bench, paced=paced), cameras, self._look)
        super().__init__(policy, self._watched, robot_seed=bench.seed)
        self._filter = NumpyBallFilter.load(self.constants["launcher"])

    @classmethod
    def build(
        cls,
        policy: Policy,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        paced: bool = False,
    ) -> "TennisArena":
        """Specimen ``seed`` of robot, racket and cameras, ``hours`` [h] old, ageing at ``drift``
        times the usual."""
        check_task(policy, cls.task)
        bench = TennisBench(seed=seed, hours=hours, drift=drift)
        bench.command(bench.robot.u_rest)  # compiles, which no tick should wait for
        return cls(policy, bench, Cameras(seed=seed), paced=paced)

    def launch(self, trial: int) -> None:
        """Shoot ball number ``trial``."""
        self._bench.launch(trial)
        self._launched = True
        self._watched.see()

    def _prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> Attempt:
        self._launched = False
        self._bench.reset()
        self._watched.begin(trial)
        arm = self.robot.robot
        rally = Rally(BallTracker(self._cameras, self._filter), arm, repeat=self.policy.repeat)
        launch = _Launch(self, trial, rally, ticks=round(PATIENCE / arm.dt))
        flown = (self._ramp(u), launch, PolicyController(self.policy, rally, robot=arm))
        return Attempt(u, flown, self._judged, truth=self._truth)

    def _look(self) -> tuple[np.ndarray, float] | None:
        return (self._bench.ball_for_evaluation_only()[0], 0.0) if self._launched else None

    def _truth(self) -> Mapping[str, np.ndarray]:
        """Time [s] and ball [m] in the world frame, from the launch on."""
        times, balls = self._watched.ball_path()
        return {"time": times, "ball": balls}

    def _judged(self, flight: Flight) -> Verdict:
        outcome = self._bench.outcome() or self._bench.finish()
        landing = self._bench.landing()
        numbers = {"landing": None if landing is None else landing.tolist()}
        return Verdict(outcome is Outcome.SUCCESS, outcome.value, numbers)


class _Launch:
    """A controller that shoots the ball as its turn begins, and holds the arm until the ball is
    seen."""

    repeat = 1

    def __init__(self, arena: TennisArena, trial: int, rally: Rally, *, ticks: int) -> None:
        self._arena, self._trial, self._rally, self._left = arena, trial, rally, ticks

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        self._arena.launch(self._trial)

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        pass

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        self._left -= 1
        return np.zeros_like(u)

    def done(self) -> bool:
        return self._rally.seen or self._left <= 0
