"""Transfer trials: how often does a policy that was trained in simulation succeed on a robot?

    policy = load_policy(bundled_policy("reacher"), "reacher")
    found = transfer(lambda seed: open_trials(policy, seed=seed), robot_seeds=(0, 1, 2), trials=100,
    out="runs/transfer") found.succeeded, found.interval

What is in the folder: docs/transfer.md.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genan.data.hdf5 import make_folder
from genan.deployment.flight import FlightRecorder
from genan.deployment.loop import ControlLoop
from genan.deployment.safety import StopReason
from genan.errors import DataError, SettingError
from genan.evaluation.statistics import wilson
from genan.evaluation.trials import PreparedTrial, TrialSetup, TrialVerdict
from genan.files import write_atomically
from genan.provenance import versions
from genan.tasks.registry import task_entry, task_names
from genan.words import plural

FORMAT, VERSION = "genan transfer", 1
RESULT, FLIGHTS, BALLS = "transfer.json", "flights.h5", "balls"
"""Names in the folder of a transfer: the result, and in each robot's folder its flights and the
balls' true ways."""


@dataclass(frozen=True)
class TransferTrial:
    """One trial, as JSON can hold it."""

    number: int
    robot_seed: int | None
    """Which specimen of the robot; None where there is but the one that there is."""
    success: bool
    outcome: str
    """What became of it: one of the task's ``TaskEntry.outcomes``, or why it was stopped."""
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
class TransferResult:
    """All trials there are."""

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
        stopped = "1 was stopped" if late == 1 else f"{late} were stopped"
        return f"{count}; {stopped} because a computer was late"

    @property
    def robot_seeds(self) -> tuple[int | None, ...]:
        """The robots, in the order in which they were tried."""
        return tuple(dict.fromkeys(trial.robot_seed for trial in self.trials))

    def on(self, robot_seed: int | None) -> "TransferResult":
        """The trials on one robot."""
        return TransferResult(
            self.task, tuple(t for t in self.trials if t.robot_seed == robot_seed), self.about
        )

    def outcomes(self) -> dict[str, int]:
        """How many trials came to what: everything that the task knows, and every reason that
        stopped one."""
        found = Counter(trial.outcome for trial in self.trials)
        known = task_entry(self.task).outcomes if self.task in task_names() else ()
        return {name: found[name] for name in dict.fromkeys((*known, *found))}

    def mean(self, name: str) -> float:
        """Mean of one of the trials' numbers, over those that have it; not a number where none
        has."""
        values = [
            trial.numbers[name] for trial in self.trials if trial.numbers.get(name) is not None
        ]
        return float(np.mean(values)) if values else float("nan")

    def save(self, folder: Path) -> None:
        """Write ``transfer.json``, whole or not at all."""
        low, high = self.interval
        content = {
            "format": FORMAT,
            "version": VERSION,
            "task": self.task,
            "succeeded": self.succeeded,
            "trials_done": len(self.trials),
            "completed": len(self.completed),
            "interval_95": [low, high],
            "outcomes": self.outcomes(),
            "about": dict(self.about),
            "trials": [asdict(trial) for trial in self.trials],
        }
        write_atomically(folder / RESULT, json.dumps(content, indent=1).encode())

    @classmethod
    def load(cls, folder: Path | str) -> "TransferResult":
        """What ``save`` wrote to ``folder``."""
        path = Path(folder) / RESULT
        try:
            content = json.loads(path.read_bytes())
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"format {content['format']!r}, version {content['version']}")
            return cls(
                content["task"],
                tuple(TransferTrial(**trial) for trial in content["trials"]),
                content["about"],
            )
        except FileNotFoundError:
            raise DataError(f"There is no {path}; 'genan transfer' makes one.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} is not the result of transfer trials ({error}); run them again."
            ) from None


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
    """Try a policy ``trials`` times on each robot; everything is written as it goes.

    Trial k is the same whatever the number of trials, and draws the same on all robots.

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
    if trials < 1 or not robot_seeds:
        raise SettingError(
            f"At least one trial on one robot is needed, not {trials} on {len(robot_seeds)}."
        )
    if len(set(robot_seeds)) < len(robot_seeds):
        raise SettingError(
            f"Each robot is tried once; the seeds {list(robot_seeds)} name one twice."
        )
    if seed < 0:
        raise SettingError(f"A seed must not be negative, got {seed}.")
    protocol = {
        "trials": trials,
        "seed": seed,
        "robot_seeds": list(robot_seeds),
        "versions": versions(),
    }
    done: TransferResult | None = None
    for robot_seed in robot_seeds:
        here = setup(robot_seed)
        if done is None:
            done = TransferResult(
                here.task, about={**(about or {}), **protocol, "contract": here.policy.contract}
            )
        with _Trials(
            here, done, seed=seed, out=None if out is None else Path(out), stopping=stopping
        ) as row:
            for number in range(trials):
                trial = None if stopping() else row.fly(number)
                if trial is None:
                    return done
                done = TransferResult(done.task, (*done.trials, trial), done.about)
                if out is not None:
                    done.save(Path(out))
                finished(done)
    assert done is not None
    return done


class _Trials:
    """The trials on one robot, while they are going on."""

    def __init__(
        self,
        setup: TrialSetup,
        so_far: TransferResult,
        *,
        seed: int,
        out: Path | None,
        stopping: Callable[[], bool],
    ) -> None:
        self._setup, self._seed, self._stopping = setup, seed, stopping
        self._robot_seed = setup.robot_seed
        self._kept, self._open = ExitStack(), ExitStack()
        self._loop: ControlLoop | None = None
        self._recorder: FlightRecorder | None = None
        self._balls: Path | None = None
        if out is not None:
            folder = robot_folder(out, self._robot_seed)
            make_folder(folder)
            so_far.save(out)
            provenance = {**so_far.about, "robot_seed": self._robot_seed}
            self._recorder = self._kept.enter_context(
                FlightRecorder(folder / FLIGHTS, setup.robot.robot, provenance=provenance)
            )
            self._balls = folder / BALLS

    def __enter__(self) -> "_Trials":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._open.close()
        finally:
            self._kept.close()

    def fly(self, number: int) -> TransferTrial | None:
        """One trial; None where the operator stopped it."""
        loop = self._connected()
        prepared = self._setup.prepare(number, seed=self._seed)
        flight = loop.run(*prepared.controllers)
        if not flight.stop.sound:
            self._open.close()  # after a stop a loop is over
            self._loop = None
        if flight.stop.reason is StopReason.OPERATOR:
            return None
        sound = flight.stop.sound
        verdict = prepared.judge(flight) if sound else TrialVerdict(False, flight.stop.reason.value)
        self._keep_truth(number, prepared)
        return TransferTrial(
            number=number,
            robot_seed=self._robot_seed,
            success=verdict.success,
            outcome=verdict.outcome,
            stop=str(flight.stop),
            reason=flight.stop.reason.name,
            u_init=prepared.u.tolist(),
            goal=None if prepared.goal is None else prepared.goal.tolist(),
            numbers=verdict.numbers,
        )

    def _connected(self) -> ControlLoop:
        if self._loop is None:
            setup = self._setup
            loop = ControlLoop(
                setup.robot, safety=setup.safety, recorder=self._recorder, stopping=self._stopping
            )
            self._loop = self._open.enter_context(loop)
        return self._loop

    def _keep_truth(self, number: int, prepared: PreparedTrial) -> None:
        truth = prepared.truth()
        if truth and self._balls is not None:
            make_folder(self._balls)
            content = io.BytesIO()
            np.savez_compressed(content, **dict[str, Any](truth))
            write_atomically(self._balls / f"{number:04d}.npz", content.getvalue())
