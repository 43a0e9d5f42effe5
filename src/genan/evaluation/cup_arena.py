"""The arena of ball-in-a-cup: the virtual PAMY2 with cup, string and ball, and a Vicon system that
sees the ball."""

from collections.abc import Mapping
from typing import final

import numpy as np
from jaxtyping import Float

from genan.deployment.ball_observation import TrackedBall
from genan.deployment.controller import PolicyController
from genan.deployment.flight import Flight
from genan.deployment.interface import Reading
from genan.deployment.virtual_robot import VirtualRobot
from genan.evaluation.arena import Arena, Attempt, Verdict, check_task
from genan.evaluation.watched import Watched
from genan.rl.numpy_policy import Policy
from genan.virtual.cup_bench import CupBench, CupOutcome
from genan.virtual.tracking import Vicon

STRING_EVERY = 10
"""The string's shape is kept at every so-manieth tick: 50 Hz, the rate of a film."""


@final
class CupArena(Arena):
    """A trial succeeds when the ball is in the cup as the policy's time is up."""

    task = "ball-in-a-cup"

    def __init__(
        self, policy: Policy, bench: CupBench, vicon: Vicon, *, paced: bool = False
    ) -> None:
        """Try ``policy`` on ``bench``, with the ball seen by ``vicon``; ``paced``: in real time."""
        self._bench, self._vicon = bench, vicon
        self._watched = Watched(VirtualRobot(bench=bench, paced=paced), vicon, self._look)
        super().__init__(policy, self._watched, robot_seed=bench.seed)

    @classmethod
    def build(
        cls,
        policy: Policy,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        paced: bool = False,
    ) -> "CupArena":
        """Specimen ``seed`` of robot, cup and tracker, ``hours`` [h] old, ageing at ``drift`` times
        the usual."""
        check_task(policy, cls.task)
        bench = CupBench(seed=seed, hours=hours, drift=drift)
        bench.command(bench.robot.u_rest)  # compiles, which no tick should wait for
        return cls(policy, bench, Vicon(seed=seed), paced=paced)

    def _prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> Attempt:
        self._bench.reset(trial)
        self._watched.begin(trial)
        self._strings: list[np.ndarray] = []
        self._watched.see()
        arm, look = self.robot.robot, _Look(self._bench)
        ball = TrackedBall(
            self._vicon, arm, buffer=self.constants["buffer"], repeat=self.policy.repeat
        )
        flown = (self._ramp(u), PolicyController(self.policy, ball, robot=arm), look)
        return Attempt(u, flown, look.verdict, truth=self._truth)

    def _look(self) -> tuple[np.ndarray, float]:
        if self._watched.sightings % STRING_EVERY == 0:
            self._strings.append(self._bench.string_for_evaluation_only())
        return self._bench.ball_for_evaluation_only()[0], float(
            self._bench.outcome() is CupOutcome.IN_CUP
        )

    def _truth(self) -> Mapping[str, np.ndarray]:
        """Time [s], ball and string [m] in the frame of the robot's base; the string at every tenth
        of the times."""
        times, balls = self._watched.ball_path()
        return {"time": times, "ball": balls, "string": np.array(self._strings)}


class _Look:
    """A controller of one tick that looks where the ball is as its turn begins: the ramp to rest
    would shake it out."""

    repeat = 1

    def __init__(self, bench: CupBench) -> None:
        self._bench = bench
        self._outcome: CupOutcome | None = None
        self._numbers: dict[str, float] = {}

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        self._outcome = self._bench.outcome()
        self._numbers = {"seconds_in_cup": self._bench.time_in_cup}

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        pass

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        return np.zeros_like(u)

    def done(self) -> bool:
        return self._outcome is not None

    def verdict(self, flight: Flight) -> Verdict:
        assert self._outcome is not None
        return Verdict(self._outcome is CupOutcome.IN_CUP, self._outcome.value, self._numbers)
