"""``Watched``: a virtual robot with a ball that a tracker sees, as a robot like any other."""

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Float

from genan.deployment.ball_filter import NumpyBallFilter
from genan.deployment.ball_tracking import BallTracker, Rally, TrackedBall
from genan.deployment.controller import PolicyController
from genan.deployment.flight import Flight
from genan.deployment.interface import Reading, RobotInterface, VirtualInterface
from genan.evaluation.trials import OUTCOMES, Arena, Attempt, Verdict, check_task
from genan.rl.numpy_policy import NumpyPolicy
from genan.robot.package import open_virtual

Seen = tuple[Float[np.ndarray, " 3"], float]


class Watched(RobotInterface):
    """Shows the tracker where the ball is after each command, and remembers the ball's way."""

    def __init__(
        self, inner: VirtualInterface, tracker: Any, look: Callable[[], Seen | None]
    ) -> None:
        """Put ``tracker`` beside the robot ``inner``.

        Args:
            inner: the robot on its bench.
            tracker: sees the ball at the robot's own time.
            look: where the ball is [m] and how much of it is hidden (0 to 1); None while there is
                no ball.
        """
        self._inner, self._tracker, self._look = inner, tracker, look
        self.robot, self.clock = inner.robot, inner.clock
        self.begin(0)

    def begin(self, trial: int) -> None:
        """Forget the last ball; the tracker makes the errors of ``trial`` now."""
        self._tracker.reset(trial)
        self._times: list[float] = []
        self._balls: list[np.ndarray] = []

    def see(self) -> None:
        """Show the tracker the ball, if there is one."""
        seen = self._look()
        if seen is None:
            return
        position, hidden = seen
        time = self._inner.read().time
        self._tracker.see(time, position, hidden=hidden)
        self._times.append(time)
        self._balls.append(position)

    @property
    def virtual(self) -> Any:
        """The robot itself; see ``VirtualInterface.virtual``."""
        return self._inner.virtual

    @property
    def sightings(self) -> int:
        """How many times the tracker was shown this ball."""
        return len(self._times)

    def ball_path(self) -> tuple[Float[np.ndarray, " ticks"], Float[np.ndarray, "ticks 3"]]:
        """Times by the robot's clock [s], and where the ball truly was [m]."""
        return np.array(self._times), np.array(self._balls).reshape(-1, 3)

    def connect(self) -> None:
        """Reach the robot."""
        self._inner.connect()

    def read(self) -> Reading:
        """What its encoders say."""
        return self._inner.read()

    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """One period of robot and ball."""
        sent = self._inner.command(u)
        self.see()
        return sent

    def stop(self) -> None:
        """Let go of the robot."""
        self._inner.stop()


# --- The arena of ball-in-a-cup: the virtual PAMY2 with cup, string and ball, and a Vicon syste

STRING_EVERY = 10
"""The string's shape is kept at every so-manieth tick: 50 Hz, the rate of a film."""
IN_CUP = 0.3
"""A ball that has lain in the cup for this long is in, for who watches [s]."""


@final
class CupArena(Arena):
    """A trial succeeds when the ball is in the cup as the policy's time is up."""

    task = "ball-in-a-cup"

    def __init__(self, policy: NumpyPolicy, bench: Any, vicon: Any, *, paced: bool = False) -> None:
        """Try ``policy`` on ``bench``, with the ball seen by ``vicon``; ``paced``: in real time."""
        self._bench, self._vicon = bench, vicon
        self._watched = Watched(VirtualInterface(bench, paced=paced), vicon, self._look)
        super().__init__(policy, self._watched, robot_seed=bench.seed)

    @classmethod
    def build(
        cls,
        policy: NumpyPolicy,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        paced: bool = False,
    ) -> "CupArena":
        """Specimen ``seed`` of robot, cup and tracker, ``hours`` [h] old, ageing at ``drift`` times
        the usual."""
        check_task(policy, cls.task)
        bench = open_virtual(
            policy.contract["robot"], task=cls.task, seed=seed, hours=hours, drift=drift
        )
        bench.command(bench.robot.u_rest)  # compiles, which no tick should wait for
        return cls(policy, bench, bench.tracker(), paced=paced)

    def markers(self) -> Mapping[str, np.ndarray]:
        """Ball and string."""
        string = self._bench.string_for_evaluation_only()
        return {"ball": self._bench.ball_for_evaluation_only()[0], "string": string}

    def success_so_far(self) -> bool | None:
        """A ball that has lain in the cup for a while is in."""
        return True if self._bench.time_in_cup > IN_CUP else None

    def _prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> Attempt:
        self._bench.reset(trial)
        self._watched.begin(trial)
        self._strings: list[np.ndarray] = []
        self._watched.see()
        arm, look = self.robot.robot, _Look(self._bench)
        ball = TrackedBall(
            self._vicon, arm, buffer=self.constants["buffer"], repeat=self.policy.action_repeat
        )
        flown = (self._ramp(u), PolicyController(self.policy, ball, robot=arm), look)
        return Attempt(u, flown, look.verdict, truth=self._truth)

    def _look(self) -> tuple[np.ndarray, float]:
        if self._watched.sightings % STRING_EVERY == 0:
            self._strings.append(self._bench.string_for_evaluation_only())
        return self._bench.ball_for_evaluation_only()[0], float(
            self._bench.outcome().value == OUTCOMES[self.task][0]
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

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._outcome: str | None = None
        self._numbers: dict[str, float] = {}

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        self._outcome = self._bench.outcome().value
        self._numbers = {"seconds_in_cup": self._bench.time_in_cup}

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        pass

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        return np.zeros_like(u)

    def done(self) -> bool:
        return self._outcome is not None

    def verdict(self, flight: Flight) -> Verdict:
        assert self._outcome is not None
        return Verdict(self._outcome == OUTCOMES[CupArena.task][0], self._outcome, self._numbers)


# --- The arena of table tennis: the virtual PAMY2 with racket, table and ball gun, and cameras

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

    def __init__(self, policy: NumpyPolicy, bench: Any, cameras: Any, *, paced: bool = False) -> None:
        """Try ``policy`` on ``bench``, with the ball seen by ``cameras``; ``paced``: in real
        time."""
        self._bench, self._cameras = bench, cameras
        self._launched = False
        self._watched = Watched(VirtualInterface(bench, paced=paced), cameras, self._look)
        super().__init__(policy, self._watched, robot_seed=bench.seed)
        self._filter = NumpyBallFilter.load(self.constants["launcher"])

    @classmethod
    def build(
        cls,
        policy: NumpyPolicy,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        paced: bool = False,
    ) -> "TennisArena":
        """Specimen ``seed`` of robot, racket and cameras, ``hours`` [h] old, ageing at ``drift``
        times the usual."""
        check_task(policy, cls.task)
        bench = open_virtual(
            policy.contract["robot"], task=cls.task, seed=seed, hours=hours, drift=drift
        )
        bench.command(bench.robot.u_rest)  # compiles, which no tick should wait for
        return cls(policy, bench, bench.tracker(), paced=paced)

    def launch(self, trial: int) -> None:
        """Shoot ball number ``trial``."""
        self._bench.launch(trial)
        self._launched = True
        self._watched.see()

    def markers(self) -> Mapping[str, np.ndarray]:
        """The ball, once it is launched."""
        return {"ball": self._bench.ball_for_evaluation_only()[0]} if self._launched else {}

    def success_so_far(self) -> bool | None:
        """Known as soon as the ball has come down."""
        outcome = self._bench.outcome()
        return None if outcome is None else outcome.value == OUTCOMES[self.task][0]

    def _prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> Attempt:
        self._launched = False
        self._bench.reset()
        self._watched.begin(trial)
        arm = self.robot.robot
        rally = Rally(BallTracker(self._cameras, self._filter), arm, repeat=self.policy.action_repeat)
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
        outcome = (self._bench.outcome() or self._bench.finish()).value
        landing = self._bench.landing()
        numbers = {"landing": None if landing is None else landing.tolist()}
        return Verdict(outcome == OUTCOMES[self.task][0], outcome, numbers)


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
