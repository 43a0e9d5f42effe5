"""Every constant of the three tasks, one dataclass each; the values are the paper's unless a line
says otherwise.

Nothing here needs JAX: the command line reads it for its flags.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from genan.errors import SettingError, listing

_DEGREE = math.pi / 180.0


def _degrees(*values: float | int) -> tuple[float, ...]:
    return tuple(_DEGREE * value for value in values)


@dataclass(frozen=True)
class TaskSettings:
    """What all tasks have in common."""

    name: ClassVar[str]
    robot: ClassVar[str]
    """The bundled robot that the task is made for."""

    duration: float = 2.0
    """Length of an episode [s]."""
    repeat: int = 5
    """Periods of the robot to a step of the policy; the action is added to the control at each of
    them."""
    change: float = 0.01
    """Largest change of a control in one period."""
    u_lower: tuple[float, ...] = (-0.5, -0.6, -0.6, -0.5)
    """Lowest initial controls."""
    u_upper: tuple[float, ...] = (0.5, 0.0, 0.4, 0.5)
    """Highest initial controls."""
    q_drop: tuple[float, ...] = _degrees(0, 45, 45, 0)
    """Pose from which robots settle under the initial control [rad]."""
    ramped: float = 0.5
    """Part of the starts that are ramped from rest, as on the robot, instead of settled from
    q_drop, as in the paper's simulation (not the paper's: it settles all)."""
    torque_spread: float = 0.0
    """Robots that differ from the recorded one: half width of the range of a factor on each joint's
    torque, drawn for each episode (not in the paper: 0)."""
    control_spread: float = 0.0
    """The same, of an offset between what a control is called and what it does (not in the paper:
    0)."""
    pool: int = 4096
    """Settled robots kept to start from (not in the paper)."""
    action_weight: float = 1250.0
    """Of the penalty -|change of control|^2."""
    disagreement_weight: float = 0.025
    """Of the penalty -(standard deviation of the members' torques, summed over joints) [1/(N
    m)]."""
    limit_weight: float = 1.0
    """Of the penalty for being near joint limits."""
    limit_margin: float = 5.0 * _DEGREE
    """Where that penalty begins, before a limit [rad]; it grows linearly to 1 per joint at the
    limit (shape and margin are not in the paper)."""

    def __post_init__(self) -> None:
        if not 0.0 < self.duration < math.inf:
            raise SettingError(
                f"An episode's duration must be a positive number of seconds, not {self.duration:g}."
            )
        if self.repeat < 1:
            raise SettingError(
                f"An action must be repeated for at least 1 period, not {self.repeat}."
            )
        for name in ("change", "limit_margin"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise SettingError(
                    f"The task's {name} must be a positive number, not {getattr(self, name):g}."
                )
        if not 0.0 <= self.torque_spread < 1.0:
            raise SettingError(
                f"The task's torque_spread must lie from 0 to below 1, not at {self.torque_spread:g}."
            )
        for name in ("action_weight", "disagreement_weight", "limit_weight", "control_spread"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SettingError(
                    f"The task's {name} must be 0 or more, not {getattr(self, name):g}."
                )
        if self.pool < 1:
            raise SettingError(f"The pool needs at least one settled robot, not {self.pool}.")
        if not 0.0 <= self.ramped <= 1.0:
            raise SettingError(
                f"The ramped part of the starts must lie from 0 to 1, not at {self.ramped:g}."
            )
        if len(self.u_lower) != len(self.u_upper):
            raise SettingError(
                f"The initial controls have {len(self.u_lower)} lower and {len(self.u_upper)} upper bounds; give one "
                "of each for every control."
            )
        for low, high in zip(self.u_lower, self.u_upper, strict=True):
            if not low <= high:
                raise SettingError(
                    f"An initial control's lower bound {low:g} is above its upper bound {high:g}."
                )

    def horizon(self, dt: float) -> int:
        """Steps of the policy in an episode, for a robot of period ``dt`` [s]."""
        steps = round(self.duration / (dt * self.repeat))
        if steps < 1:
            raise SettingError(
                f"An episode of {self.duration:g} s is shorter than one step of the policy ({dt * self.repeat:g} s)."
            )
        return steps

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {key: _plain(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class ReacherSettings(TaskSettings):
    """Reach a joint position that is drawn at random."""

    name = "reacher"
    robot = "pamy2"

    goal_lower: tuple[float, ...] = _degrees(-50, 20, -50, -50)
    """Lowest goals [rad]."""
    goal_upper: tuple[float, ...] = _degrees(50, 60, 50, 50)
    """Highest goals [rad]."""
    tolerance: float = 2.0 * _DEGREE
    """An episode succeeds when the mean distance over the joints is below this at its end [rad]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.goal_lower) != len(self.goal_upper):
            raise SettingError(
                f"The goals have {len(self.goal_lower)} lower and {len(self.goal_upper)} upper bounds; give one of "
                "each for every joint."
            )
        for low, high in zip(self.goal_lower, self.goal_upper, strict=True):
            if not low <= high:
                raise SettingError(
                    f"A goal's lower bound {low:g} is above its upper bound {high:g}."
                )
        if not 0.0 < self.tolerance < math.inf:
            raise SettingError(f"The tolerance must be a positive angle, not {self.tolerance:g}.")


@dataclass(frozen=True)
class BallInACupSettings(TaskSettings):
    """Swing a ball on a string into a cup."""

    name = "ball-in-a-cup"
    robot = "pamy2-cup"

    ball_mass: float = 0.054
    """[kg]"""
    string_length: float = 0.20
    """[m]"""
    noise: float = 0.005
    """Standard deviation of a measured ball position, each axis [m]."""
    dropout: float = 0.05
    """Probability that a measurement is missing."""
    buffer: int = 5
    """Ball positions that the velocity is averaged over."""
    cup_reward: float = 10.0
    """For every step with the ball in the cup."""
    velocity_weight: float = 0.0025
    """Of the penalty -|joint velocity|^2 [s^2/rad^2]."""
    shaping_weight: float = 0.0
    """Of the way that the ball has come nearer to the inside of the cup in a step, round the rim
    [1/m] (not in the paper: 0)."""
    mass_spread: float = 0.0
    """Randomised ball: half width of the range of its mass, as a part of it (not in the paper:
    0)."""
    string_spread: float = 0.0
    """The same of the string's length."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer < 2:
            raise SettingError(
                f"A velocity needs a buffer of at least 2 ball positions, not {self.buffer}."
            )
        for name in ("dropout", "mass_spread", "string_spread"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise SettingError(
                    f"The task's {name} must lie from 0 to below 1, not at {getattr(self, name):g}."
                )
        for name in ("noise", "cup_reward", "velocity_weight", "shaping_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SettingError(
                    f"The task's {name} must be 0 or more, not {getattr(self, name):g}."
                )


LANDINGS = ("lab", "printed")
PAID = ("once", "each-step")


@dataclass(frozen=True)
class TableTennisSettings(TaskSettings):
    """Return a ball from a launcher to the opponent's half of the table."""

    name = "table-tennis"
    robot = "pamy2"

    duration: float = 1.09
    """Length of an episode [s]."""
    u_lower: tuple[float, ...] = (-0.2, -0.5, 0.0, -0.2)
    """Lowest initial controls."""
    u_upper: tuple[float, ...] = (0.2, 0.0, 0.5, 0.2)
    """Highest initial controls."""
    balls: int = 1000
    """Balls drawn from the launcher (the paper replays 100 recorded ones)."""
    launcher: str = "ballgun-2019"
    """Launcher that the balls are drawn from: a bundled one, or a JSON file."""
    recordings: Path | None = None
    """File of recorded balls to replay instead."""
    ball_seed: int = 0
    """Of the balls that are drawn."""
    hit_weight: float = 10.0
    """For the first contact of ball and racket (not given in the paper)."""
    landing_weight: float = 50.0
    """Of the landing reward, 0 to 1 (not given in the paper)."""
    landing: str = "lab"
    """The landing reward: lab, 1 - (d / 2.96)^(3/4), or printed, 1 - 2.96 d^(3/4), with the
    distance d from the target [m]."""
    landing_paid: str = "once"
    """When it is paid: once, at the hit, or each-step from the hit on, as the paper's formula can
    be read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _among("landing reward", self.landing, LANDINGS)
        _among("way to pay the landing reward", self.landing_paid, PAID)
        if self.balls < 1:
            raise SettingError(f"At least one ball must be drawn, not {self.balls}.")
        for name in ("hit_weight", "landing_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SettingError(
                    f"The task's {name} must be 0 or more, not {getattr(self, name):g}."
                )


TASKS: dict[str, type[TaskSettings]] = {
    settings.name: settings
    for settings in (ReacherSettings, BallInACupSettings, TableTennisSettings)
}


def _among(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SettingError(f"There is no {name} {value!r}; there are: {listing(known)}.")


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
