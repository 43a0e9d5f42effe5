"""Films of transfer trials, made from what ``genan transfer`` kept of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from genan.errors import DataError
from genan.evaluation.transfer import BALLS, FLIGHTS, Trial, robot_folder
from genan.report.rendering import Renderer, load_renderer
from genan.report.scenes import Snapshot, Stage
from genan.report.video import FPS, HOLD, captioned
from genan.robot import Robot
from genan.tasks.ball import Court as Room
from genan.tasks.ball.flight import Air
from genan.tasks.ball.launcher import Balls
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.bundled import BallInACupSettings, ReacherSettings, TableTennisSettings
from genan.tasks.reacher import Reacher
from genan.tasks.table_tennis import RallyScene, TableTennis
from genan.tasks.task import Task

BEFORE = 0.5
"""A film shows this much of what was before the policy's turn [s]."""


@dataclass(frozen=True)
class StringSnapshot(Snapshot):
    """A moment of which the string's true shape is known."""

    points: Float[np.ndarray, "points 3"] | None = None
    """From where it is tied to the ball, in the picture's frame [m]."""


@dataclass(frozen=True)
class TrialStage(Stage):
    """A task's scene in which the string is drawn as it was."""

    def string(self, now: Snapshot, *, pieces: int = 16) -> Float[np.ndarray, "points 3"] | None:
        """Points of the string, if there is one."""
        return now.points if isinstance(now, StringSnapshot) else None


@dataclass(frozen=True)
class TrialPath:
    """How a trial went, as it was kept: what a film shows of it."""

    moments: tuple[Snapshot, ...]
    """``FPS`` of them to a second."""
    start: float
    """Time of the first one, from the beginning of the policy's turn [s]: a little of the ramp
    before it is shown."""
    end: float
    """When the policy's turn ended [s]."""

    @classmethod
    def load(cls, folder: Path, task: str, trial: Trial, *, after: float = 0.0) -> "TrialPath":
        """Trial ``trial`` of the transfer in ``folder``; the film goes on for ``after`` [s] past
        the policy's turn."""
        robot = robot_folder(folder, trial.robot_seed)
        ticks = (robot / FLIGHTS).with_suffix(".ticks") / f"{trial.number:04d}.npz"
        with np.load(ticks) as kept:
            about, time, q, phase = (
                json.loads(str(kept["about"])),
                kept["time"],
                kept["q"],
                kept["phase"],
            )
        sound = np.isfinite(time) & np.isfinite(q).all(axis=1)
        time, q, phase = time[sound], q[sound], phase[sound]
        if not len(time):
            raise DataError(
                f"There is nothing to film in {ticks}: no joint position was ever read."
            )
        acting = np.flatnonzero(phase == about["phases"].index("PolicyController"))
        begun, end = (time[acting[0]], time[acting[-1]]) if len(acting) else (time[0], time[-1])
        start = max(begun - BEFORE, time[0])
        rows = np.searchsorted(time, np.arange(start, min(end + after, time[-1]) + 1e-9, 1.0 / FPS))
        goal = None if trial.goal is None else np.array(trial.goal)
        moments: list[Snapshot] = [Snapshot(q[k], goal=goal) for k in rows]
        path = robot / BALLS / f"{trial.number:04d}.npz"
        if path.exists():
            ball = _Ball(path, task)
            moments = [
                ball.at(float(time[k]), moment) for k, moment in zip(rows, moments, strict=True)
            ]
        return cls(tuple(moments), float(start - begun), float(end - begun))


class _Ball:
    """The true way of a ball."""

    def __init__(self, path: Path, task: str) -> None:
        with np.load(path) as kept:
            self._time, self._ball = kept["time"], kept["ball"]
            self._string = kept.get("string")
        # The cup's ball is kept in the frame of the robot's base.
        self._base = np.array(Room().base) if task == BallInACupSettings.name else np.zeros(3)

    def at(self, time: float, moment: Snapshot) -> Snapshot:
        """The moment with the ball as it was at ``time`` [s]; before it was there, without one."""
        if not len(self._time) or time < self._time[0] - 1e-9:
            return moment
        row = min(int(np.searchsorted(self._time, time - 1e-9)), len(self._time) - 1)
        ball = self._ball[row] + self._base
        if self._string is None or not len(self._string):
            return replace(moment, ball=ball)
        points = (
            self._string[min(row * len(self._string) // len(self._ball), len(self._string) - 1)]
            + self._base
        )
        return StringSnapshot(moment.q, ball=ball, points=points)


def load_trial_renderer(task: str, robot: Robot) -> Renderer:
    """A renderer of the scene of ``task`` on ``robot``."""
    stage = Stage.build(_task(task, robot), robot)
    return load_renderer(TrialStage(stage.model, stage.camera, stage.dof))


def film_trial(
    path: TrialPath, renderer: Renderer, *, caption: str, result: str
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """The pictures of a trial, at real time; ``result`` is written into them once the policy's turn
    is over."""
    renderer.restart()
    for number, moment in enumerate(path.moments):
        time = path.start + number / FPS
        text = f"{caption}   {time:.2f} s" + (f"   {result}" if time > path.end else "")
        picture = renderer.frame(moment)
        yield captioned(picture, text)
    for _ in range(max(1, round(HOLD * FPS))):
        yield captioned(picture, f"{caption}   {time:.2f} s   {result}")


def _task(name: str, robot: Robot) -> Task:
    """The task, for its scene alone: no ball is drawn."""
    if name == ReacherSettings.name:
        return Reacher.load(robot, ReacherSettings().for_robot(robot.name))
    if name == BallInACupSettings.name:
        return BallInACup.load(robot, BallInACupSettings())
    nowhere: Any = jnp.zeros((1, 1, 3))
    balls = Balls(nowhere, nowhere, jnp.zeros((1, 1, 6)))
    return TableTennis(TableTennisSettings(), RallyScene.load(robot, balls, air=Air()))
