"""Transfer trials: how often does a policy that was trained in simulation succeed on a robot?

    policy = load_policy(bundled_policy("reacher"), "reacher")
    setup = lambda seed: open_trials(policy, seed=seed)
    found = transfer(setup, robot_seeds=(0, 1, 2), trials=100, out="runs/transfer")
    found.succeeded, found.interval

How trials of a task go is a ``TrialSetup``, one class for each task. The protocol is the paper's:
initial controls are drawn from those that the policy was trained from and ramped to from rest over
2 s; then the policy acts at once, for as long as an episode. A task that needs props (a ball, a
cup) is tried on virtual robots that have them, ``RobotPackage.benches[task]``: what such a bench
must offer apart from being a ``genan.robot.virtual.VirtualRobot`` is the matter of the task's
set-up. What is in the folder of a transfer: docs/transfer.md.
"""

import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float, Shaped

from genan.data.hdf5 import make_folder
from genan.deployment import interface
from genan.deployment.ball_tracking import BallTracker, NumpyBallFilter, Rally, TrackedBall
from genan.deployment.controller import Controller, Goal, PolicyController, TaskObservation
from genan.deployment.interface import Reading, RobotInterface, VirtualInterface
from genan.deployment.loop import TO_REST, ControlLoop, Flight, FlightRecorder, Hold, RampTo
from genan.deployment.safety import SafetySettings, StopReason
from genan.errors import DataError, SettingError, refuse
from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import StoredResult
from genan.files import Place, write_atomically
from genan.provenance import versions
from genan.rl.contract import KIND, WEIGHTS, PolicyContract, PolicyError, read_policy
from genan.rl.numpy_policy import NumpyPolicy, NumpyPolicyError
from genan.robot.package import VIRTUAL
from genan.tasks.registry import task_entry, task_names
from genan.words import DEGREES, plural

Controls = Float[np.ndarray, " nu"]
Point = Float[np.ndarray, " 3"]
Controllers = tuple[Controller, ...]
Chance = np.random.Generator

RAMP = 2.0  # Time in which the initial controls are reached [s] (paper).
PAUSE = 1.0  # The robot stays at rest for this long before each trial [s].
STRING_EVERY = 10  # The string's shape is kept at every tenth tick: 50 Hz, the rate of a film.
PATIENCE = 0.5  # A ball that no camera has seen for this long after its launch is given up [s].
IN_CUP = 0.3  # A ball that has lain in the cup for this long is in, for someone who watches [s].
RESULT, FLIGHTS, BALLS = "transfer.json", "flights.h5", "balls"
"""Names in the folder of a transfer: the result, and in each robot's folder its flights and the
balls' true paths."""


@dataclass(frozen=True)
class TrialVerdict:
    """What a trial came to."""

    success: bool
    outcome: str  # One of the task's ``TaskEntry.outcomes``, or the reason why it was stopped.
    numbers: Mapping[str, Any] = field(default_factory=dict)  # What was measured, for JSON.


@dataclass(frozen=True)
class PreparedTrial:
    """A trial that is ready to begin."""

    u: Controls  # Initial controls.
    controllers: Controllers  # All that have a turn in it, in order.
    judge: Callable[[Flight], TrialVerdict]  # Says what a flight came to that was not stopped.
    goal: Float[np.ndarray, " nq"] | None = None  # Joint position to reach [rad or m].
    truth: Callable[[], Mapping[str, Shaped[np.ndarray, "..."]]] = dict
    """What no sensor says, for films: ``time`` [s], ``ball`` and ``string`` [m]. Empty where there
    is nothing to see."""


class TrialSetup(ABC):
    """A policy, a robot, and a judge. Subclasses are final, one for each task."""

    task: ClassVar[str]  # Name of the task.
    needs_props: ClassVar[bool] = False  # Whether the robot must be a virtual one with props.

    def __init__(
        self, policy: NumpyPolicy, robot: RobotInterface, *, robot_seed: int | None = None
    ) -> None:
        """Try ``policy`` on ``robot``, which is not connected yet; ``robot_seed``: which specimen
        it is, where that can be chosen. A policy for another task or robot is refused."""
        check_task(policy, self.task)
        contract = PolicyContract.from_settings(policy.contract)
        contract.check_robot(robot.robot)
        task_entry(self.task).settings.of_record(contract.constants)
        self.policy, self.robot, self.robot_seed = policy, robot, robot_seed
        self.constants: Mapping[str, Any] = policy.contract["constants"]
        self.safety = replace(SafetySettings(), change=policy.action_scale)
        self._bounds = self.constant("u_lower"), self.constant("u_upper")
        for bound in self._bounds:
            self.ramp(bound)  # refused here, before anything moves

    def prepare(self, trial: int, *, seed: int = 0) -> PreparedTrial:
        """Make everything ready for a trial; the robot must be connected. What is drawn depends on
        ``seed`` and the trial's number alone; a virtual robot goes on as the last trial left it,
        with its props put back."""
        if isinstance(self.robot, VirtualInterface):
            self.robot.virtual.next_trial(trial)
        chance = np.random.default_rng([seed, trial])
        return self.prepared(trial, chance.uniform(*self._bounds), chance)

    @abstractmethod
    def prepared(self, trial: int, u: Controls, chance: Chance) -> PreparedTrial:
        """The trial from initial controls ``u``; ``chance`` for what else is drawn."""

    def markers(self) -> Mapping[str, Float[np.ndarray, "..."]]:
        """Where things are now, as ``genan.tasks.task.Task.markers`` says it of a simulation: a
        position [m] for each moving body, points [m] for each line, in the task's frame."""
        return {}

    def success_so_far(self) -> bool | None:
        """Whether the trial that is going on has succeeded or failed; None while that is open."""
        return None

    def constant(self, name: str) -> Float[np.ndarray, " n"]:
        """The policy's constant ``name`` as numbers."""
        return np.array(self.constants[name], float)

    def verdict(self, success: bool, **numbers: Any) -> TrialVerdict:
        """Success, or the other outcome of a task that has but two."""
        return TrialVerdict(success, task_entry(self.task).outcomes[not success], numbers)

    def flown(self, u: Controls, observation: TaskObservation, *ready: Controller) -> Controllers:
        """Who flies a trial: at rest for a while, to ``u``, those ``ready``, then the policy."""
        rest = Hold(seconds=PAUSE, robot=self.robot.robot)
        return rest, self.ramp(u), *ready, self.policy_controller(observation)

    def ramp(self, u: Controls) -> RampTo:
        return RampTo(u, seconds=RAMP, robot=self.robot.robot, change=self.safety.change)

    def policy_controller(self, observation: TaskObservation) -> PolicyController:
        """The policy, for as long as an episode."""
        return PolicyController(self.policy, observation, robot=self.robot.robot)


@final
class ReacherTrials(TrialSetup):
    """Succeeds when the arm is near a drawn goal as the policy's time is up. Any robot will do."""

    task = "reacher"

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._goals = self.constant("goal_lower"), self.constant("goal_upper")
        for bound in self._goals:
            Goal(bound, self.robot.robot)  # refused here, before anything moves
        arm = self.robot.robot
        rest = {"q": arm.q_rest, "qd": np.zeros(arm.nq), "u": arm.u_rest, "goal": self._goals[0]}
        try:  # what it observes, too
            self.policy.act(**rest)
        except NumpyPolicyError as error:
            raise PolicyError(str(error)) from None

    def prepared(self, trial: int, u: Controls, chance: Chance) -> PreparedTrial:
        goal = chance.uniform(*self._goals)
        judged = lambda flight: self.judged(flight.q[flight.during(TO_REST).start], goal)
        flown = self.flown(u, Goal(goal, self.robot.robot))
        return PreparedTrial(u, flown, judged, goal=goal)

    def judged(self, q: Float[np.ndarray, " nq"], goal: Float[np.ndarray, " nq"]) -> TrialVerdict:
        """By the joint positions that were read when the policy's time was up; for a person in
        degrees, or m for slides."""
        error = np.abs(q - goal)
        factors = [DEGREES if joint.unit == "rad" else 1.0 for joint in self.robot.robot.joints]
        shown = np.array(factors) * error
        reached = bool(error.mean() < self.constants["tolerance"])
        return self.verdict(reached, error=shown.tolist(), mean_error=float(shown.mean()))


# --- Trials with a ball: ball-in-a-cup and table tennis, on virtual robots that have one.


class _Pause(Controller):
    """Acts once, then leaves the controls alone until ``over`` says so of the number of ticks."""

    def __init__(self, first: Callable[[], None], over: Callable[[int], bool]) -> None:
        self._first, self._over, self._ticks = first, over, 0

    def begin(self, reading: Reading, u: Controls) -> None:
        self._first()

    def act(self, reading: Reading, u: Controls) -> Controls:
        self._ticks += 1
        return np.zeros_like(u)

    def done(self) -> bool:
        return self._over(self._ticks)


class _BallTrials(TrialSetup):
    """The tracker is shown the ball after each command; its path is remembered. The bench is a
    ``VirtualRobot`` that also has ``tracker()``, a ``BallSource`` that is shown the true ball:
    ``reset(trial)`` forgets the last and makes the errors of ``trial``, ``see(time, position,
    hidden=part)`` [s, m, 0 to 1]; ``ball_for_evaluation_only()``, the true position [m] of the ball
    and what else is known of it, in the frame of the robot's base (ball-in-a-cup) or of the court
    (table tennis, ``genan.tasks.ball``); and ``outcome()``, an ``Enum`` whose value is a word of
    the task, or None while that is open. Ball-in-a-cup: ``string_for_evaluation_only()`` [points,
    3] and ``time_in_cup`` [s]. Table tennis: ``launch(trial)``, ``time`` since then [s],
    ``finish()``, which lets the ball fly on until it is judged and returns the outcome, and
    ``landing()`` [3] or None."""

    needs_props = True

    def __init__(self, policy: NumpyPolicy, robot: VirtualInterface, **settings: Any) -> None:
        robot.connect()
        bench: Any = robot.virtual
        self.bench, self.tracker, robot.watch = bench, bench.tracker(), self.see
        super().__init__(policy, robot, **settings)

    def forget(self, trial: int) -> None:
        """Forget the last ball; the tracker makes the errors of ``trial`` now."""
        self.tracker.reset(trial)
        self._path: list[tuple[float, Point]] = []
        self._strings: list[np.ndarray] = []

    def see(self) -> None:
        """Show the tracker the ball, if there is one."""
        if (ball := self.ball()) is None:
            return
        if len(self._path) % STRING_EVERY == 0 and (string := self.string()) is not None:
            self._strings.append(string)
        time = self.robot.read().time
        self.tracker.see(time, ball, hidden=self.hidden())
        self._path.append((time, ball))

    def truth(self) -> Mapping[str, np.ndarray]:
        """Times [s], where the ball truly was [m], and at every tenth the string."""
        times, balls = ([one[k] for one in self._path] for k in (0, 1))
        found = {"time": np.array(times), "ball": np.array(balls).reshape(-1, 3)}
        return {**found, "string": np.array(self._strings)} if self._strings else found

    def ball(self) -> Point | None:
        """Where the ball truly is [m]; None while there is none."""
        return self.bench.ball_for_evaluation_only()[0]

    def string(self) -> Float[np.ndarray, "points 3"] | None:
        """The string from where it is tied to the ball's centre [m], if there is one."""
        return None

    def hidden(self) -> float:
        """How much of the ball the tracker cannot see, 0 to 1."""
        return 0.0

    def markers(self) -> Mapping[str, np.ndarray]:
        found = {"ball": self.ball(), "string": self.string()}
        return {name: value for name, value in found.items() if value is not None}

    def success_so_far(self) -> bool | None:
        outcome = self.bench.outcome()
        return None if outcome is None else outcome.value == task_entry(self.task).outcomes[0]


@final
class CupTrials(_BallTrials):
    """A trial succeeds when the ball is in the cup as the policy's time is up."""

    task = "ball-in-a-cup"

    def prepared(self, trial: int, u: Controls, chance: Chance) -> PreparedTrial:
        self.forget(trial)
        self.see()
        arm, repeat = self.robot.robot, self.policy.action_repeat
        ball = TrackedBall(self.tracker, arm, buffer=self.constants["buffer"], repeat=repeat)
        found: list[TrialVerdict] = []

        def look() -> None:
            numbers = {"seconds_in_cup": self.bench.time_in_cup}
            word = self.bench.outcome().value
            found.append(TrialVerdict(bool(self.hidden()), word, numbers))

        # One tick, for the ramp to rest would shake the ball out.
        pause = _Pause(look, lambda ticks: bool(found))
        flown = (*self.flown(u, ball), pause)
        return PreparedTrial(u, flown, lambda flight: found[0], truth=self.truth)

    def string(self) -> Float[np.ndarray, "points 3"]:
        return self.bench.string_for_evaluation_only()

    def hidden(self) -> float:
        return float(bool(super().success_so_far()))  # by the cup

    def success_so_far(self) -> bool | None:
        """True once the ball has lain in the cup for a while; until then it may still come."""
        return True if self.bench.time_in_cup > IN_CUP else None


@final
class TennisTrials(_BallTrials):
    """A trial succeeds when the ball, once hit, first comes down on the opponent's half of the
    table. It is launched when the initial controls are reached, and the policy begins when a camera
    has seen it. It flies on while the controls go to rest, and to its end after that."""

    task = "table-tennis"
    _launched = False

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._filter = NumpyBallFilter.load(self.constants["launcher"])

    def prepared(self, trial: int, u: Controls, chance: Chance) -> PreparedTrial:
        self._launched = False
        self.forget(trial)
        arm, tracker = self.robot.robot, BallTracker(self.tracker, self._filter)
        rally = Rally(tracker, arm, repeat=self.policy.action_repeat)

        def launch() -> None:
            self.bench.launch(trial)
            self._launched = True
            self.see()

        def judged(flight: Flight) -> TrialVerdict:
            outcome, landing = self.bench.outcome() or self.bench.finish(), self.bench.landing()
            numbers = {"landing": None if landing is None else landing.tolist()}
            return TrialVerdict(bool(self.success_so_far()), outcome.value, numbers)

        over = lambda ticks: rally.ball is not None or ticks >= round(PATIENCE / arm.dt)
        flown = self.flown(u, rally, _Pause(launch, over))
        return PreparedTrial(u, flown, judged, truth=self.truth)

    def ball(self) -> Point | None:
        return super().ball() if self._launched else None


def open_trials(policy: NumpyPolicy, *, robot: str | None = None, **settings: Any) -> TrialSetup:
    """The trials of the task that ``policy`` was trained for, on ``robot`` (a name that
    ``open_robot`` knows; left out: the virtual one that the policy was trained for), with the
    ``settings`` of that robot: ``seed``, ``hours``, ``drift``, ``paced``, or ``host``, ``port``."""
    task, own = policy.contract["task"], VIRTUAL + policy.contract["robot"]
    kind, robot = task_entry(task).load("trial"), own if robot is None else robot
    if kind.needs_props and not robot.startswith(VIRTUAL):
        if robot not in interface.interface_names():
            interface.open_robot(robot)  # says which there are
        needs = f"Trials of {task!r} need a ball tracker, and none is connected to {robot!r}"
        give = "give your tracker as a BallSource to genan.deployment.ball_tracking in Python"
        raise SettingError(f"{needs}: use {own!r}, or {give} (docs/transfer.md).")
    seed = settings.get("seed", 0) if robot.startswith(VIRTUAL) else None
    props = {"task": task} if kind.needs_props else {}
    return kind(policy, interface.open_robot(robot, **props, **settings), robot_seed=seed)


def check_task(policy: NumpyPolicy, task: str) -> None:
    """Refuse a policy for another task."""
    if (mine := policy.contract.get("task")) != task:
        raise SettingError(f"The policy was trained for the task {mine!r}, not for {task!r}.")


def load_policy(folder: Place, task: str) -> NumpyPolicy:
    """The policy in ``folder`` (of 'genan train' or an export), which must be one for ``task``."""
    read_policy(folder)
    settings, arrays = KIND.read(folder)
    try:
        policy = NumpyPolicy(settings, arrays, where=str(Path(folder) / WEIGHTS))
    except NumpyPolicyError as error:
        raise PolicyError(str(error)) from None
    check_task(policy, task)
    return policy


# --- Trying, and counting.


@dataclass(frozen=True)
class TransferTrial:
    """One trial, as JSON can hold it."""

    number: int
    robot_seed: int | None  # Which specimen of the robot; None where there is but one.
    success: bool
    outcome: str  # One of the task's ``TaskEntry.outcomes``, or why it was stopped.
    stop: str  # How the flight ended, in words.
    u_init: Sequence[float]  # Initial controls.
    goal: Sequence[float] | None  # Joint position to reach [rad or m].
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What was measured. Reacher: ``error`` of each joint and ``mean_error`` [degrees, m for
    slides]; ball-in-a-cup: ``seconds_in_cup`` [s]; table tennis: ``landing`` in the court [m]."""
    reason: str = StopReason.FINISHED.name  # Why the flight ended: name of a ``StopReason``.


@dataclass(frozen=True)
class TransferResult(StoredResult):
    """All trials there are."""

    noun, maker, file = "transfer", "genan transfer", RESULT
    task: str
    trials: tuple[TransferTrial, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)  # Policy, robot, protocol and versions.

    @property
    def completed(self) -> tuple[TransferTrial, ...]:
        """The trials that count: a computer that was too busy says nothing about the policy."""
        return tuple(one for one in self.trials if not StopReason[one.reason].is_lateness)

    @property
    def succeeded(self) -> int:
        return sum(trial.success for trial in self.trials)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the success rate."""
        return wilson(self.succeeded, len(self.completed))

    def __repr__(self) -> str:
        low, high = self.interval
        return f"TransferResult({self.task}: {self.words}, 95 % interval {low:.3f} to {high:.3f})"

    @property
    def words(self) -> str:
        """What came out: "13 of 13 completed trials succeeded; 7 were stopped because ..."."""
        late = len(self.trials) - len(self.completed)
        trials = plural(len(self.completed), "completed trial" if late else "trial")
        stopped = f"; {plural(late, 'was', 'were')} stopped because a computer was late"
        return f"{self.succeeded} of {trials} succeeded{stopped if late else ''}"

    @property
    def robot_seeds(self) -> tuple[int | None, ...]:
        """The robots, in the order in which they were tried."""
        return tuple(dict.fromkeys(trial.robot_seed for trial in self.trials))

    def on(self, robot_seed: int | None) -> "TransferResult":
        return replace(self, trials=tuple(t for t in self.trials if t.robot_seed == robot_seed))

    def outcomes(self) -> dict[str, int]:
        """How many trials came to what the task knows, and to each reason to stop one."""
        found = Counter(trial.outcome for trial in self.trials)
        known = task_entry(self.task).outcomes if self.task in task_names() else ()
        return {name: found[name] for name in dict.fromkeys((*known, *found))}

    def mean(self, name: str) -> float:
        """Mean of one of the trials' numbers, over those that have it, or not a number."""
        values = [value for trial in self.trials if (value := trial.numbers.get(name)) is not None]
        return float(np.mean(values)) if values else float("nan")

    def content(self) -> dict[str, Any]:
        return {
            "task": self.task, "succeeded": self.succeeded, "trials_done": len(self.trials),
            "completed": len(self.completed), "interval_95": list(self.interval),
            "outcomes": self.outcomes(), **super().content(),
        }  # fmt: skip


def robot_folder(folder: Path, robot_seed: int | None) -> Path:
    """Where the flights of one robot are kept."""
    return folder / ("robot" if robot_seed is None else f"robot-{robot_seed}")


def transfer(
    setup: Callable[[int | None], TrialSetup],
    *,
    robot_seeds: Sequence[int | None] = (0,),
    trials: int = 100,
    first: int = 0,
    seed: int = 0,
    out: Place | None = None,
    about: Mapping[str, Any] | None = None,
    stopping: Callable[[], bool] = lambda: False,
    finished: Callable[[TransferResult], None] = lambda so_far: None,
) -> TransferResult:
    """Try a policy ``trials`` times on each robot; everything is written as it goes. Trial k is the
    same whatever the number of trials, and draws the same on all robots.

    Args:
        setup: opens the trials on the robot of a seed.
        robot_seeds: the robots.
        trials: how many on each.
        first: number of the first of them.
        seed: of what is drawn: initial controls, goals.
        out: folder for the result and all flights; left out, nothing is kept.
        about: what else the result should say about itself.
        stopping: asked at every tick; true brings the robot to rest and ends the trials. The one
            that was going on does not count.
        finished: called after each trial with all that there are so far.
    """
    count = len(robot_seeds)
    refuse(
        (trials < 1 or not count, f"At least one trial on one robot, not {trials} on {count}."),
        (len(set(robot_seeds)) < count, f"The seeds {list(robot_seeds)} name one robot twice."),
        (seed < 0, f"A seed must not be negative, got {seed}."),
    )
    protocol = {"trials": trials, "seed": seed, "robot_seeds": list(robot_seeds)}
    folder, done = None if out is None else Path(out), TransferResult("")
    for robot_seed in robot_seeds:
        here, loop, recorder, flights = setup(robot_seed), None, None, None
        if not done.task:
            made = {"versions": versions(), "contract": here.policy.contract}
            done = TransferResult(here.task, about={**(about or {}), **protocol, **made})
        with ExitStack() as kept, ExitStack() as connected:
            if folder is not None:
                flights = robot_folder(folder, here.robot_seed)
                make_folder(flights)
                done.save(folder)
                origin = {**done.about, "robot_seed": here.robot_seed}
                recorder = FlightRecorder(flights / FLIGHTS, here.robot.robot, provenance=origin)
                kept.enter_context(recorder)
            for number in range(first, first + trials):
                if stopping():
                    return done
                if loop is None:
                    flying: Any = {"safety": here.safety, "recorder": recorder}
                    loop = ControlLoop(here.robot, stopping=stopping, **flying)
                    connected.enter_context(loop)
                prepared = here.prepare(number, seed=seed)
                flight = loop.run(*prepared.controllers)
                stop, verdict = flight.stop, TrialVerdict(False, flight.stop.reason.value)
                if stop.sound:
                    verdict = prepared.judge(flight)
                else:
                    connected.close()  # after a stop a loop is over
                    loop = None
                if stop.reason is StopReason.OPERATOR:
                    return done
                refuse((flight.unrecorded, flight.unrecorded), error=DataError)
                truth, goal, reason = prepared.truth(), prepared.goal, stop.reason.name
                if truth and flights is not None:
                    make_folder(flights / BALLS)
                    content = io.BytesIO()
                    np.savez_compressed(content, **dict[str, Any](truth))
                    write_atomically(flights / BALLS / f"{number:04d}.npz", content.getvalue())
                trial = TransferTrial(
                    number, here.robot_seed, **vars(verdict), stop=str(stop), reason=reason,
                    u_init=prepared.u.tolist(), goal=None if goal is None else goal.tolist(),
                )  # fmt: skip
                done = replace(done, trials=(*done.trials, trial))
                if folder is not None:
                    done.save(folder)
                finished(done)
    return done
