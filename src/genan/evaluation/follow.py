"""Trials of the task follow: the same motion by the policy, then by the controls that went with its
positions and velocities in the recordings, which is what one would command without a model."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Float

from genan.deployment.controller import Controller, TaskObservation
from genan.deployment.interface import Controls, Positions, Reading
from genan.deployment.loop import Flight, Hold
from genan.evaluation.transfer import PAUSE, PreparedTrial, TrialSetup, TrialVerdict
from genan.robot import Robot
from genan.tasks.bundled import FollowSettings
from genan.tasks.smooth_motion import DRAWN, SmoothMotion
from genan.words import DEGREES

Chances = Float[np.ndarray, "nq drawn"]


class MotionAhead(TaskObservation):
    """A reference that begins where the arm is when its turn comes."""

    def __init__(self, chance: Chances, settings: FollowSettings, robot: Robot) -> None:
        """Drawn by the random numbers ``chance``, from 0 to 1."""
        bounds = (np.asarray(bound) for bound in settings.bounds)
        self._reference = SmoothMotion.drawn(chance, robot.q_rest, *bounds)
        self._settings, self._dt, self._began, self._ticks = settings, robot.dt, 0.0, 0

    def begin(self, time: float, q: Positions) -> None:
        self._reference = self._reference._replace(start=np.array(q))
        self._began, self._ticks = time, 0

    def update(self, time: float, q: Positions, u: Controls) -> None:
        self._ticks = round((time - self._began) / self._dt)

    def parts(self) -> Mapping[str, Any]:
        ahead = np.array(self._settings.preview) * self._settings.action_repeat
        return {"reference": self.at(self._ticks + ahead).astype(np.float32).ravel()}

    def at(self, ticks: Any) -> Float[np.ndarray, "times nq"]:
        """Positions so many periods of the robot after it began [rad or m]."""
        time = np.asarray(self._dt * ticks)[:, None]
        return np.asarray(self._reference.at(time, self._settings.blend, np))

    def now(self) -> tuple[Positions, Positions]:
        """Position and velocity [rad or m, per second] at this tick and the next."""
        here, there = self.at(self._ticks + np.arange(2))
        return here, (there - here) / self._dt

    def error(self, flight: Flight, phase: str) -> Float[np.ndarray, " nq"]:
        """Mean distance of each joint in that phase, once the motion had departed [rad or m]."""
        ticks = flight.during(phase)
        since = np.round((flight.time[ticks] - flight.time[ticks][0]) / self._dt)
        away = np.abs(flight.q[ticks] - self.at(since))
        return np.asarray(away[since * self._dt > self._settings.blend].mean(axis=0))


class Commanded(Controller):
    """Commands a motion directly, by a row of numbers for each control (``FollowSettings``)."""

    def __init__(self, motion: MotionAhead, settings: FollowSettings, robot: Robot) -> None:
        self._motion, self._robot = motion, robot
        self._rows = np.reshape(settings.command, (robot.nu, 2 * robot.nq + 1))
        self._left, self._begun = round(settings.duration / robot.dt), False

    def begin(self, reading: Reading, u: Controls) -> None:
        self._begun = True
        self._motion.begin(reading.time, reading.q)

    def observe(self, reading: Reading, u: Controls) -> None:
        if self._begun:
            self._left -= 1
            self._motion.update(reading.time, reading.q, u)

    def act(self, reading: Reading, u: Controls) -> Controls:
        wanted = self._rows @ np.concatenate([*self._motion.now(), [1.0]])
        change = np.clip(wanted, *self._robot.u_range) - u
        return np.clip(change, -self._robot.u_change, self._robot.u_change)

    def done(self) -> bool:
        return self._left <= 0


@final
class FollowTrials(TrialSetup):
    """Succeeds when the mean distance is within the tolerance. Any robot will do."""

    task = "follow"

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        made: Any = FollowSettings.of_record(self.constants)
        self._settings: FollowSettings = made
        self._settings.check_motions(self.robot.robot)  # refused here, before anything moves

    def prepared(self, trial: int, u: Controls, chance: np.random.Generator) -> PreparedTrial:
        robot, settings = self.robot.robot, self._settings
        drawn = chance.uniform(size=(robot.nq, DRAWN))
        motion, plain = (MotionAhead(drawn, settings, robot) for _ in range(2))
        flown = self.flown(u, motion)
        if settings.command:
            rest = Hold(seconds=PAUSE, robot=robot)
            flown = (*flown, self.ramp(u), rest, Commanded(plain, settings, robot))

        def judged(flight: Flight) -> TrialVerdict:
            shown = np.array([DEGREES if one.unit == "rad" else 1.0 for one in robot.joints])
            error = motion.error(flight, "PolicyController")
            numbers = {
                "error": (shown * error).tolist(),
                "mean_error": float(np.mean(shown * error)),
            }
            if settings.command:
                other = plain.error(flight, Commanded.__name__)
                numbers["commanded_error"] = float(np.mean(shown * other))
            return self.verdict(bool(error.mean() < settings.tolerance), **numbers)

        return PreparedTrial(u, flown, judged)
