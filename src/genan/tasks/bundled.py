"""The tasks that come with genan: constants, words, presets, and what pictures show next to the
arm. Nothing here needs JAX. The values are the paper's unless a line says otherwise."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from genan.actuator.settings import frozen
from genan.errors import refuse
from genan.files import render
from genan.robot import Robot
from genan.tasks.ball import Court
from genan.tasks.registry import TaskEntry, TaskSettings, TrainingPreset
from genan.tasks.smooth_motion import BLEND


@dataclass(frozen=True)
class ReacherSettings(TaskSettings):
    """Reach a joint position that is drawn at random."""

    name = "reacher"
    robot = "pamy2"
    rules: ClassVar = {"be a positive number": "tolerance"}

    goal_lower: tuple[float, ...] = ()  # Lowest goals [rad or m]; left out: the robot's own.
    goal_upper: tuple[float, ...] = ()  # Highest goals [rad or m]; left out: the robot's own.
    tolerance: float = math.radians(2.0)  # Of the mean distance over the joints at the end [rad].


@dataclass(frozen=True)
class FollowSettings(TaskSettings):
    """Follow a smooth motion that is drawn at random (not in the paper)."""

    name = "follow"
    robot = "pamy2"
    rules: ClassVar = {"be a positive number": "tolerance speed"}

    goal_lower: tuple[float, ...] = ()  # Lowest poses of motions [rad or m].
    goal_upper: tuple[float, ...] = ()  # Highest poses of motions [rad or m].
    speed: tuple[float, ...] = ()  # Fastest motions of each joint [rad/s or m/s].
    preview: tuple[int, ...] = (0, 1, 4, 10, 20)
    """How far ahead the motion is shown, in steps of the policy."""
    tolerance: float = math.radians(3.0)  # Of the mean distance over joints and time [rad or m].
    command: tuple[float, ...] = ()
    """What trials compare with: controls by (q, qd, 1) of the motion, nu rows of 2 nq + 1 numbers,
    as they went together in the recordings; left out: trials compare with nothing."""

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        """Of motions: lowest and highest poses, speeds."""
        return self.goal_lower, self.goal_upper, self.speed

    @property
    def blend(self) -> float:
        """How long a motion takes to depart from where the arm was [s]."""
        return BLEND * self.duration

    def period(self, dt: float) -> float:
        """Between two steps of the policy [s], on a robot of period ``dt`` [s]."""
        return self.action_repeat * dt

    def departed(self, dt: float) -> int:
        """The last step of the policy that does not count."""
        return round(self.blend / self.period(dt))

    def check_motions(self, robot: Robot) -> None:
        """Refuse motions of another number of joints, or outside the limits of ``robot``."""
        self.check_sizes(robot.name, goal_lower=robot.nq, speed=robot.nq)
        check_poses(robot, self.goal_lower, self.goal_upper)


@dataclass(frozen=True)
class BallInACupSettings(TaskSettings):
    """Swing a ball on a string into a cup."""

    name = "ball-in-a-cup"
    robot = "pamy2-cup"
    rules: ClassVar = {
        "be above 1": "buffer",
        "lie from 0 to below 1": "dropout mass_spread string_spread",
        "be 0 or more": "noise cup_reward velocity_weight shaping_weight",
    }

    ball_mass: float = 0.054  # [kg]
    string_length: float = 0.20  # [m]
    noise: float = 0.005  # Standard deviation of a measured ball position, each axis [m].
    dropout: float = 0.05  # Probability that a measurement is missing.
    buffer: int = 5  # Ball positions that the velocity is averaged over.
    cup_reward: float = 10.0  # For every step with the ball in the cup.
    velocity_weight: float = 0.0025  # Of the penalty -|joint velocity|^2 [s^2/rad^2].
    shaping_weight: float = 0.0
    """Of the distance that the ball has come nearer to the inside of the cup in a step, round the
    rim [1/m] (not in the paper: 0)."""
    mass_spread: float = 0.0  # Half width of the ball mass's range, as a part (paper: 0).
    string_spread: float = 0.0  # The same of the string's length.


@dataclass(frozen=True)
class TableTennisSettings(TaskSettings):
    """Return a ball from a launcher to the opponent's half of the table."""

    name = "table-tennis"
    robot = "pamy2"
    rules: ClassVar = {"be at least 1": "balls", "be 0 or more": "hit_weight landing_weight"}
    choices: ClassVar = {"landing": ("lab", "printed"), "landing_paid": ("once", "each-step")}

    duration: float = 1.09  # Length of an episode [s].
    balls: int = 1000  # Balls drawn from the launcher (the paper replays 100 recorded ones).
    launcher: str = "ballgun-2019"
    """Launcher that the balls are drawn from: a bundled one, or a JSON file."""
    recordings: Path | None = None  # File of recorded balls to replay instead.
    ball_seed: int = 0  # Of the balls that are drawn.
    hit_weight: float = 10.0  # For the first contact of ball and racket (not given in the paper).
    landing_weight: float = 50.0  # Of the landing reward, 0 to 1 (not given in the paper).
    landing: str = "lab"
    """The landing reward: lab, 1 - (d / 2.96)^(3/4), or printed, 1 - 2.96 d^(3/4), with the
    distance d from the target [m]."""
    landing_paid: str = "once"  # Once, at the hit, or each-step from then on (another reading).


def check_poses(robot: Robot, lower: Sequence[float], upper: Sequence[float]) -> None:
    """Refuse goals from ``lower`` to ``upper`` [rad or m] outside the joint limits of ``robot``."""
    for joint, low, high in zip(robot.joints, lower, upper, strict=True):
        goal = f"Goals of joint {joint.name!r} go from {low:.4g} to {high:.4g}"
        limits = f"beyond its limits {joint.lower:.4g} to {joint.upper:.4g}"
        refuse((low < joint.lower or high > joint.upper, f"{goal}, {limits}."))


def _tables(file: str) -> dict[str, Any]:
    """What a TOML file next to this one says, by task; its lists as tuples."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return dict(frozen(tomllib.loads(text)))


def _entry(settings: type[TaskSettings], **more: Any) -> TaskEntry:
    """The entry of a task, with its presets; the paper's tables have some settings for all."""
    tables, name = _tables("presets.toml"), settings.name
    for table in (row for key, row in tables[name].items() if key == "paper"):
        table["ppo"] |= tables["paper"]
    presets = {preset: TrainingPreset(**table) for preset, table in tables[name].items()}
    return TaskEntry(settings, presets=presets, **_tables("bundled.toml")[name], **more)


REACHER, FOLLOW = _entry(ReacherSettings), _entry(FollowSettings)
BALL_IN_A_CUP = _entry(BallInACupSettings)
TABLE_TENNIS = _entry(TableTennisSettings, base=Court().base)


def add_ball(spec: Any, radius: float, colour: tuple[float, ...]) -> None:
    """A ball of ``radius`` [m] that the marker "ball" moves."""
    import mujoco

    ball = spec.worldbody.add_body(name="ball", mocap=True)
    ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0.0, 0.0], rgba=colour)


def add_wooden_ball(spec: Any) -> None:
    """Of ball-in-a-cup: the ball. The cup is the robot's."""
    from genan.simulation.cup_scene import CupSettings

    add_ball(spec, CupSettings().ball_radius, (0.10, 0.38, 0.78, 1.0))


def add_table_and_ball(spec: Any) -> None:
    """Of table tennis: table, lines, net, target and ball."""
    import mujoco

    court = Court()
    text = render(Path(__file__).with_name("table.xml.j2"), court=court)
    spec.attach(mujoco.MjSpec.from_string(text), frame=spec.worldbody.add_frame())
    add_ball(spec, court.ball_radius, (1.0, 0.55, 0.08, 1.0))


def sagging(
    start: Float[np.ndarray, "n 3"], end: Float[np.ndarray, "n 3"], length: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n points 3"]:
    """Strings from ``start`` to ``end`` [m], parabolas that sag as far as ``length`` allows."""
    along = np.linspace(0.0, 1.0, 17)[:, None]
    chord = (1.0 - along) * start[:, None] + along * end[:, None]
    shape = np.array([0.0, 0.0, -4.0]) * along * (1.0 - along)
    low, high = np.zeros_like(length), np.array(length)
    for _ in range(20):  # halve the range of the sag
        sag = 0.5 * (low + high)
        steps = np.diff(chord + sag[:, None, None] * shape, axis=1)
        longer = np.linalg.norm(steps, axis=2).sum(axis=1) > length
        low, high = np.where(longer, low, sag), np.where(longer, sag, high)
    return chord + low[:, None, None] * shape
