"""Transfer trials: how often does a policy that was trained in simulation succeed on a robot?

    policy = load_policy(bundled_policy("reacher"), "reacher")
    setup = lambda seed: open_trials(policy, seed=seed)
    found = transfer(setup, robot_seeds=(0, 1, 2), trials=100, out="runs/transfer")
    found.succeeded, found.interval

What is in the folder: docs/transfer.md.
"""

import io
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from genan.data.hdf5 import make_folder
from genan.deployment.flight import FlightRecorder
from genan.deployment.loop import ControlLoop
from genan.deployment.safety import StopReason
from genan.errors import SettingError
from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import StoredResult
from genan.evaluation.trials import TrialSetup, TrialVerdict
from genan.files import write_atomically
from genan.provenance import versions
from genan.tasks.registry import task_entry, task_names
from genan.words import plural

RESULT, FLIGHTS, BALLS = "transfer.json", "flights.h5", "balls"
"""Names in the folder of a transfer: the result, and in each robot's folder its flights and the
balls' true paths."""


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
    slides]; ball-in-a-cup: ``seconds_in_cup`` [s]; table tennis: ``landing`` point in the world
    frame [m]."""
    reason: str = StopReason.FINISHED.name  # Why the flight ended: name of a ``StopReason``.

    @property
    def late(self) -> bool:
        """Whether a computer was too busy for it: that says nothing about the policy."""
        return StopReason[self.reason].is_lateness


@dataclass(frozen=True)
class TransferResult(StoredResult):
    """All trials there are."""

    noun, maker, filename = "transfer", "genan transfer", RESULT
    task: str
    trials: tuple[TransferTrial, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)  # Policy, robot, protocol and versions.

    @property
    def completed(self) -> tuple[TransferTrial, ...]:
        """The trials that count: those that no computer was too late for."""
        return tuple(trial for trial in self.trials if not trial.late)

    @property
    def succeeded(self) -> int:
        """How many trials succeeded."""
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
        if not late:
            return f"{self.succeeded} of {plural(len(self.trials), 'trial')} succeeded"
        count = f"{self.succeeded} of {plural(len(self.completed), 'completed trial')} succeeded"
        return (
            f"{count}; {late} {'was' if late == 1 else 'were'} stopped because a computer was late"
        )

    @property
    def robot_seeds(self) -> tuple[int | None, ...]:
        """The robots, in the order in which they were tried."""
        return tuple(dict.fromkeys(trial.robot_seed for trial in self.trials))

    def on(self, robot_seed: int | None) -> "TransferResult":
        """The trials on one robot."""
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
        """What ``transfer.json`` holds."""
        trials = [asdict(trial) for trial in self.trials]
        return {
            "task": self.task, "succeeded": self.succeeded, "trials_done": len(trials),
            "completed": len(self.completed), "interval_95": list(self.interval),
            "outcomes": self.outcomes(), "about": dict(self.about), "trials": trials,
        }  # fmt: skip


def robot_folder(folder: Path, robot_seed: int | None) -> Path:
    """Where the flights of one robot are kept."""
    return folder / ("robot" if robot_seed is None else f"robot-{robot_seed}")


def transfer(
    setup: Callable[[int | None], TrialSetup],
    *,
    robot_seeds: Sequence[int | None] = (0,),
    trials: int = 100,
    seed: int = 0,
    out: Path | str | None = None,
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
        seed: of what is drawn: initial controls, goals.
        out: folder for the result and all flights; left out, nothing is kept.
        about: what else the result should say about itself.
        stopping: asked at every tick; true brings the robot to rest and ends the trials. The one
            that was going on does not count.
        finished: called after each trial with all that there are so far.
    """
    count = len(robot_seeds)
    refusals = (
        (trials < 1 or not count, f"At least one trial on one robot, not {trials} on {count}."),
        (len(set(robot_seeds)) < count, f"The seeds {list(robot_seeds)} name one robot twice."),
        (seed < 0, f"A seed must not be negative, got {seed}."),
    )
    for refused, words in refusals:
        if refused:
            raise SettingError(words)
    protocol = {"trials": trials, "seed": seed, "robot_seeds": list(robot_seeds)}
    folder, done = None if out is None else Path(out), TransferResult("")
    for robot_seed in robot_seeds:
        here, before = setup(robot_seed), len(done.trials)
        if not done.task:
            made = {"versions": versions(), "contract": here.policy.contract}
            done = TransferResult(here.task, about={**(about or {}), **protocol, **made})
        with closing(_flown(here, done, folder, stopping)) as flown:
            for trial in flown:
                done = replace(done, trials=(*done.trials, trial))
                if folder is not None:
                    done.save(folder)
                finished(done)
        if len(done.trials) < before + trials:
            break
    return done


def _flown(
    setup: TrialSetup, so_far: TransferResult, out: Path | None, stopping: Callable[[], bool]
) -> Generator[TransferTrial, None, None]:
    """The trials on one robot; fewer where the operator stops them."""
    loop = recorder = folder = None
    with ExitStack() as kept, ExitStack() as connected:
        if out is not None:
            folder = robot_folder(out, setup.robot_seed)
            make_folder(folder)
            so_far.save(out)
            provenance = {**so_far.about, "robot_seed": setup.robot_seed}
            recorder = FlightRecorder(folder / FLIGHTS, setup.robot.robot, provenance=provenance)
            kept.enter_context(recorder)
        for number in range(so_far.about["trials"]):
            if stopping():
                return
            if loop is None:
                loop = ControlLoop(
                    setup.robot, safety=setup.safety, recorder=recorder, stopping=stopping
                )
                connected.enter_context(loop)
            prepared = setup.prepare(number, seed=so_far.about["seed"])
            flight = loop.run(*prepared.controllers)
            stop, verdict = flight.stop, TrialVerdict(False, flight.stop.reason.value)
            if stop.sound:
                verdict = prepared.judge(flight)
            else:
                connected.close()  # after a stop a loop is over
                loop = None
            if stop.reason is StopReason.OPERATOR:
                return
            truth = prepared.truth()
            if truth and folder is not None:
                make_folder(folder / BALLS)
                content = io.BytesIO()
                np.savez_compressed(content, **dict[str, Any](truth))
                write_atomically(folder / BALLS / f"{number:04d}.npz", content.getvalue())
            u, goal = prepared.u.tolist(), prepared.goal
            yield TransferTrial(
                number, setup.robot_seed, verdict.success, verdict.outcome, str(stop), u,
                None if goal is None else goal.tolist(), verdict.numbers, stop.reason.name,
            )  # fmt: skip
