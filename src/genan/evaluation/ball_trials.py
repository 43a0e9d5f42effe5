"""Trials with a ball: ball-in-a-cup and table tennis, on virtual robots that have one."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol, cast, final, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.deployment.ball_tracking import (
    BallSource,
    BallTracker,
    NumpyBallFilter,
    Rally,
    TrackedBall,
)
from genan.deployment.flight import Flight
from genan.deployment.interface import Reading, RobotInterface, VirtualInterface
from genan.evaluation.trials import PreparedTrial, TrialSetup, TrialVerdict
from genan.rl.numpy_policy import NumpyPolicy
from genan.tasks.registry import task_entry

STRING_EVERY = 10  # The string's shape is kept at every tenth tick: 50 Hz, the rate of a film.
PATIENCE = 0.5  # A ball that no camera has seen for this long after its launch is given up [s].
IN_CUP = 0.3  # A ball that has lain in the cup for this long is in, for someone who watches [s].

Point = Float[np.ndarray, " 3"]


@runtime_checkable
class VirtualTracker(BallSource, Protocol):
    """A tracker that is shown the true ball."""

    def reset(self, trial: int) -> None:
        """Forget the ball; the errors of ``trial`` come now."""

    def see(self, time: float, position: Point, *, hidden: float) -> None:
        """The ball is at ``position`` [m] at ``time`` [s], ``hidden`` to this part (0 to 1)."""


@runtime_checkable
class BallBench(Protocol):
    """What a ``VirtualRobot`` with a ball offers in addition. Positions are in the frame of the
    robot's base (ball-in-a-cup) or of the court (table tennis, ``genan.tasks.ball``).

    Ball-in-a-cup: ``reset(trial)``, ``string_for_evaluation_only()`` [points, 3] and
    ``time_in_cup`` [s]. Table tennis: ``launch(trial)``, ``time`` since then [s], ``finish()``,
    which lets the ball fly on until it is judged and returns the outcome, and ``landing()`` [3] or
    None.
    """

    seed: int

    def tracker(self) -> VirtualTracker:
        """What sees the ball."""

    def ball_for_evaluation_only(self) -> tuple[Point, ...]:
        """True position [m] of the ball, then what else is known of it."""

    def outcome(self) -> Enum | None:
        """What has become of the trial, its value a word of the task; None while that is open."""


class _Watched(RobotInterface):
    """A virtual robot whose tracker is shown the ball after each command; remembers its path."""

    def __init__(self, inner: VirtualInterface, setup: "_BallTrials") -> None:
        self._inner, self._setup = inner, setup
        self.robot, self.clock = inner.robot, inner.clock
        self.virtual = inner.virtual

    def begin(self, trial: int) -> None:
        """Forget the last ball; the tracker makes the errors of ``trial`` now."""
        self._setup.tracker.reset(trial)
        self.times: list[float] = []
        self.balls: list[np.ndarray] = []
        self.strings: list[np.ndarray] = []

    def see(self) -> None:
        """Show the tracker the ball, if there is one."""
        ball = self._setup.ball()
        if ball is None:
            return
        if len(self.times) % STRING_EVERY == 0 and (string := self._setup.string()) is not None:
            self.strings.append(string)
        time = self._inner.read().time
        self._setup.tracker.see(time, ball, hidden=self._setup.hidden())
        self.times.append(time)
        self.balls.append(ball)

    def truth(self) -> Mapping[str, np.ndarray]:
        """Times by the robot's clock [s] and where the ball truly was [m]; the string at every
        tenth of them, if there is one."""
        found = {"time": np.array(self.times), "ball": np.array(self.balls).reshape(-1, 3)}
        return {**found, "string": np.array(self.strings)} if self.strings else found

    def connect(self) -> None:
        self._inner.connect()

    def read(self) -> Reading:
        return self._inner.read()

    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        sent = self._inner.command(u)
        self.see()
        return sent

    def stop(self) -> None:
        self._inner.stop()


class _BallTrials(TrialSetup):
    """What both tasks have in common."""

    needs_props = True

    def __init__(
        self, policy: NumpyPolicy, robot: VirtualInterface, *, robot_seed: int | None = None
    ) -> None:
        """Try ``policy`` on ``robot``, which has the task's ``BallBench`` behind it."""
        robot.connect()
        self.bench = cast(Any, robot.virtual)
        self.tracker: VirtualTracker = self.bench.tracker()
        self._watched = _Watched(robot, self)
        super().__init__(policy, self._watched, robot_seed=robot_seed)

    def ball(self) -> Point | None:
        """Where the ball truly is [m]; None while there is none."""
        found: Point = self.bench.ball_for_evaluation_only()[0]
        return found

    def string(self) -> Float[np.ndarray, "points 3"] | None:
        """The string that it hangs on [m], if there is one."""
        return None

    def hidden(self) -> float:
        """How much of the ball the tracker cannot see, 0 to 1."""
        return 0.0

    def markers(self) -> Mapping[str, np.ndarray]:
        """Ball and string, where there are any."""
        found = {"ball": self.ball(), "string": self.string()}
        return {name: value for name, value in found.items() if value is not None}

    def success_so_far(self) -> bool | None:
        """Whether the outcome is the one that counts."""
        outcome = self.bench.outcome()
        return None if outcome is None else outcome.value == task_entry(self.task).outcomes[0]


@final
class CupTrials(_BallTrials):
    """A trial succeeds when the ball is in the cup as the policy's time is up."""

    task = "ball-in-a-cup"

    def prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> PreparedTrial:
        """Let the ball hang."""
        self.bench.reset(trial)
        self._watched.begin(trial)
        self._watched.see()
        arm, repeat = self.robot.robot, self.policy.action_repeat
        ball = TrackedBall(self.tracker, arm, buffer=self.constants["buffer"], repeat=repeat)
        look = _Look(self)
        flown = (self.ramp(u), self.policy_controller(ball), look)
        return PreparedTrial(u, flown, look.judge, truth=self._watched.truth)

    def string(self) -> Float[np.ndarray, "points 3"] | None:
        """From where it is tied to the ball's centre [m]."""
        found: np.ndarray = self.bench.string_for_evaluation_only()
        return found

    def hidden(self) -> float:
        """The cup hides it."""
        return float(bool(super().success_so_far()))

    def success_so_far(self) -> bool | None:
        """True once the ball has lain in the cup for a while; until then it may still come."""
        return True if self.bench.time_in_cup > IN_CUP else None


@final
class TennisTrials(_BallTrials):
    """A trial succeeds when the ball, once hit, first comes down on the opponent's half of the
    table.

    The ball is launched when the initial controls are reached, and the policy begins when a camera
    has seen it. The ball flies on while the controls go to rest, and to its end after that.
    """

    task = "table-tennis"

    def __init__(
        self, policy: NumpyPolicy, robot: VirtualInterface, *, robot_seed: int | None = None
    ) -> None:
        """Try ``policy`` on ``robot``, with the filter of the launcher it was trained with."""
        self._launched = False
        super().__init__(policy, robot, robot_seed=robot_seed)
        self._filter = NumpyBallFilter.load(self.constants["launcher"])

    def launch(self, trial: int) -> None:
        """Shoot ball number ``trial``."""
        self.bench.launch(trial)
        self._launched = True
        self._watched.see()

    def prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> PreparedTrial:
        """Take the last ball away."""
        self._launched = False
        self.bench.reset()
        self._watched.begin(trial)
        arm, tracker = self.robot.robot, BallTracker(self.tracker, self._filter)
        rally = Rally(tracker, arm, repeat=self.policy.action_repeat)
        launch = _Launch(self, trial, rally, ticks=round(PATIENCE / arm.dt))
        flown = (self.ramp(u), launch, self.policy_controller(rally))
        return PreparedTrial(u, flown, self._judged, truth=self._watched.truth)

    def ball(self) -> Point | None:
        """In the world frame, once it is launched."""
        return super().ball() if self._launched else None

    def _judged(self, flight: Flight) -> TrialVerdict:
        outcome = self.bench.outcome() or self.bench.finish()
        landing = self.bench.landing()
        numbers = {"landing": None if landing is None else landing.tolist()}
        return TrialVerdict(bool(self.success_so_far()), outcome.value, numbers)


class _Idle:
    """A controller that leaves the controls alone."""

    repeat = 1

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        pass

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        pass

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        return np.zeros_like(u)


class _Look(_Idle):
    """Looks for one tick where the ball is: the ramp to rest would shake it out."""

    def __init__(self, setup: CupTrials) -> None:
        self._setup = setup
        self._found: TrialVerdict | None = None

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        bench, word = self._setup.bench, self._setup.bench.outcome().value
        numbers = {"seconds_in_cup": bench.time_in_cup}
        self._found = TrialVerdict(bool(self._setup.hidden()), word, numbers)

    def done(self) -> bool:
        return self._found is not None

    def judge(self, flight: Flight) -> TrialVerdict:
        assert self._found is not None
        return self._found


class _Launch(_Idle):
    """Shoots the ball as its turn begins, and holds the arm until the ball is seen."""

    def __init__(self, setup: TennisTrials, trial: int, rally: Rally, *, ticks: int) -> None:
        self._setup, self._trial, self._rally, self._left = setup, trial, rally, ticks

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        self._setup.launch(self._trial)

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        self._left -= 1
        return super().act(reading, u)

    def done(self) -> bool:
        return self._rally.seen or self._left <= 0
