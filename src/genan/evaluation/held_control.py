"""The held-control test: with its control held, does the model come to rest, and where the robot
does?

One-step errors do not show a limit cycle, and a policy trained in a simulator that swings by itself
learns nonsense. Moments from which a control is held are found in the recording, played on the
virtual robot that made it, or frozen by hand.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.actuator import Ensemble
from genan.actuator.errors import JobProgress, rollouts
from genan.data import Channels, Trajectories, load, write
from genan.dynamics import Dynamics
from genan.errors import GenanError
from genan.evaluation.accuracy import divergence_bound
from genan.jax_setup import cache_folder
from genan.robot.package import VIRTUAL, open_virtual, robot_folder, virtual_names
from genan.signals import Bounds, Controls, Spline

#: A piece of a recording counts when its controls stay for this long [s].
SHORTEST = 1.0

#: Starts taken from a recording, at most.
MOST = 200

#: What is played on the virtual robot: so long a drawn control, then so long the last of it [s], so
#: many times.
MOVING, HELD, MADE = 1.0, 3.0, 64

#: A control that changes by less than this part of its span in the recording has not changed.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Holds:
    """Starts of held control in a recording."""

    trajectories: Trajectories
    starts: Int[np.ndarray, " s"]  # Row from which on the control is held.
    held: Int[np.ndarray, " s"]  # Steps for which the robot really held it; all 0 when it did not.
    source: str  # Where they come from, for a reader.

    @property
    def compared(self) -> bool:
        """Whether the robot itself held the controls."""
        return bool((self.held > 0).any())


def find_holds(trajectories: Trajectories, *, first: int) -> Holds | None:
    """Pieces of a recording in which all controls stay for a second or longer; None when there is
    none.

    Args:
        trajectories: the recording.
        first: samples of past that a model needs.
    """
    u, offsets = trajectories.u, trajectories.offsets
    changed = np.ones(len(u), dtype=bool)
    changed[1:] = (np.abs(np.diff(u, axis=0)) > _TOLERANCE * np.ptp(u, axis=0)).any(axis=1)
    changed[offsets[:-1]] = True
    begin = np.flatnonzero(changed)
    owner = np.searchsorted(offsets, begin, side="right") - 1
    # the position at the row where the control changes was still reached under the held one
    end = np.minimum(np.append(begin[1:], len(u)), offsets[owner + 1] - 1)
    start = np.maximum(begin, offsets[owner] + first)
    long = end - start >= max(1, round(SHORTEST / trajectories.dt))
    if not long.any():
        return None
    start, held = start[long], (end - start)[long]
    chosen = np.unique(np.linspace(0, len(start) - 1, min(MOST, len(start))).round().astype(int))
    source = (
        f"{len(chosen)} pieces of the recording in which the controls stay for {SHORTEST:g} "
        "s or longer"
    )
    return Holds(trajectories, start[chosen], held[chosen], source)


def make_holds(recorded: Trajectories, *, first: int) -> Holds | None:
    """Held controls on the virtual robot that made a recording; None when it was made on another
    robot. They are played once and kept with the compiled programs."""
    origin = recorded.provenance
    name, known = str(origin.get("robot")), ("robot_seed", "hours", "drift")
    if name not in virtual_names() or any(key not in origin for key in known):
        return None
    about = {key: origin.get(key) for key in ("robot", *known, "signal_bounds")}
    digest = hashlib.sha256(json.dumps(about | recorded.channels.settings()).encode())
    for path in sorted(robot_folder(name.removeprefix(VIRTUAL)).rglob("*.py")):
        digest.update(path.read_bytes())  # another program is another robot
    kept = cache_folder().parent / f"held-controls-{digest.hexdigest()[:32]}.h5"
    try:
        played = load(kept)
    except GenanError:
        made = _play_holds(name, origin, recorded.channels)
        if made is None:
            return None
        played = made
        with suppress(GenanError, OSError):
            kept.unlink(missing_ok=True)
            write(kept, played)
    found = find_holds(played, first=first)
    if found is None:
        return None
    source = (
        f"{len(found.starts)} held controls recorded on the virtual robot that made the recording"
    )
    return replace(found, source=source)


def _play_holds(name: str, origin: Mapping[str, Any], channels: Channels) -> Trajectories | None:
    from genan.deployment.collection import Plan, collect

    seed, hours, drift = int(origin["robot_seed"]), float(origin["hours"]), float(origin["drift"])
    robot = open_virtual(name, seed=seed, hours=hours, drift=drift)
    if Channels.of_robot(robot.robot).settings() != channels.settings():
        return None
    bounds = origin.get("signal_bounds")
    plan = Plan(
        seed=0,
        signal=SplineThenHold(),
        bounds=None if bounds is None else np.asarray(bounds, dtype=float),
        duration=MOVING + HELD,
    )
    runs = collect(robot, plan, start=0, stop=MADE, workers=1)
    return Trajectories.from_list(channels, [(one.q, one.u) for one in runs])


def freeze(trajectories: Trajectories, *, first: int) -> Holds:
    """Evenly chosen states of a recording, from which the control shall be held as it was."""
    room = np.maximum(trajectories.lengths - first, 0)
    begins = np.cumsum(room) - room
    places = np.unique(np.linspace(0, int(room.sum()) - 1, MOST).round().astype(int))
    owner = np.searchsorted(begins + room, places, side="right")
    starts = trajectories.offsets[owner] + first + places - begins[owner]
    source = (
        f"{len(starts)} recorded states with the control frozen by hand; the robot was not compared"
    )
    return Holds(trajectories, starts, np.zeros(len(starts), dtype=np.int64), source)


@dataclass(frozen=True)
class SplineThenHold:
    """A drawn spline, then its last control for the rest of the time."""

    moving: float = MOVING  # Length of the spline [s].

    def draw(
        self, rng: np.random.Generator, *, bounds: Bounds, duration: float, dt: float
    ) -> Controls:
        """See ``genan.signals.Signal``."""
        u = Spline().draw(rng, bounds=bounds, duration=self.moving, dt=dt)
        return np.concatenate([u, np.repeat(u[-1:], round(duration / dt) - len(u), axis=0)])


# --- The test.

#: The model is run on for this long [s], and its speed read over the last of it [s].
WHOLE, LAST = 5.0, 0.5

#: Speed "left" is read at this moment, over the time before it [s].
LEFT, WINDOW = 1.0, 0.1

#: A joint still moves when it is faster than this part of its usual speed, and than so many times
#: the robot's own.
PART, TIMES = 0.05, 3.0

#: A model in which more than this part of the starts still move is unfit.
TOLERATED = 0.02


@dataclass(frozen=True, eq=False)
class HeldControl:
    """What a model does under held control, and what the robot did."""

    name: str
    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    source: str  # Where the starts come from.
    starts: int
    speed_left: Float[np.ndarray, " nq"]
    """Mean speed of the model after 1 s [rad/s or m/s], over the starts that did not diverge; NaN
    when all did."""
    robot_speed_left: Float[np.ndarray, " nq"] | None  # The robot's; None when it was not compared.
    pose_difference: Float[np.ndarray, " nq"] | None
    """Mean absolute difference of the poses at the end of the recorded hold [rad or m]; None as
    above."""
    hold: float
    """Median length of the recorded holds, as far as they were compared [s]; 0 when none was."""
    usual_speed: Float[np.ndarray, " nq"]  # Root mean square speed in the recording [rad/s or m/s].
    still_moving: int  # Starts in which some joint still moves at the end.
    diverged: int  # Starts from which the model ran away.
    dt: float
    speed: Float[np.ndarray, "3 T nq"]
    """Speed over time: 10, 50 and 90 % of the starts are below [rad/s or m/s]."""
    robot_speed: Float[np.ndarray, "3 T2 nq"] | None
    """The robot's, as far as half of the holds reach."""

    @property
    def limit_cycling(self) -> float:
        """Part of the starts in which some joint still moves at the end."""
        return self.still_moving / self.starts

    @property
    def fit_for_training(self) -> bool:
        """Whether policies may be trained with it."""
        return self.diverged == 0 and self.limit_cycling <= TOLERATED

    @property
    def compared(self) -> bool:
        """Whether the robot itself held these controls."""
        return self.robot_speed_left is not None

    @property
    def verdict(self) -> str:
        """In words."""
        if not (self.fit_for_training or self.compared):
            what = (
                f"ran away from {self.diverged}"
                if self.diverged
                else f"still moves after {self.still_moving}"
            )
            return (
                f"not known to be fit for training policies: it {what} of {self.starts} controls "
                "that the robot never held. A robot driven by torque may do that, one with "
                "springs or position control may not: record some seconds of held controls to "
                "tell."
            )
        if self.diverged:
            return (
                f"unfit for training policies: it ran away from {self.diverged} of "
                f"{self.starts} held controls."
            )
        moving = (
            f"after {WHOLE:g} s of held control it still moves in {self.still_moving} of "
            f"{self.starts} starts"
        )
        if not self.fit_for_training:
            return f"unfit for training policies: it limit-cycles; {moving}."
        return f"it settles; {moving}."


def find_starts(
    trajectories: Trajectories, *, first: int, progress: JobProgress | None = None
) -> Holds:
    """Where the control is held: in the recording, else on the virtual robot that made it, else
    frozen by hand."""
    found = find_holds(trajectories, first=first)
    if found is None:
        say = progress or (lambda what, done, total: None)
        say("held controls on the virtual robot", 0, 1)
        found = make_holds(trajectories, first=first)
        say("held controls on the virtual robot", 1, 1)
    return freeze(trajectories, first=first) if found is None else found


def judge_held_control(
    name: str, ensemble: Ensemble, dynamics: Dynamics, holds: Holds, recording: Trajectories
) -> HeldControl:
    """Run a model under held controls.

    Args:
        name: what to call it.
        ensemble: the actuators.
        dynamics: the rigid body.
        holds: where to start.
        recording: what the usual speeds are taken from.
    """
    data, history, dt = holds.trajectories, ensemble.contract.history, holds.trajectories.dt
    steps = max(1, round(WHOLE / dt))
    past = holds.starts[:, None] + np.arange(-max(history.span, 1), 1)
    before = data.u[holds.starts[:, None] + np.arange(-history.reach, 0)]
    held = np.repeat(data.u[holds.starts][:, None], steps, axis=1)
    positions = rollouts(ensemble, dynamics, data.q[past], np.concatenate([before, held], axis=1))[
        0
    ]
    start = data.q[holds.starts][:, None]
    with np.errstate(invalid="ignore"):
        ran_away = ~(np.abs(positions - start) <= divergence_bound(recording)).all(axis=(1, 2))
    positions = np.where(ran_away[:, None, None], start, positions)
    speed = _speed(np.concatenate([start, positions], axis=1), dt)
    usual = usual_speed(recording)
    limit = np.broadcast_to(PART * usual, speed[:, 0].shape)
    robot = _Robot.of(holds, steps) if holds.compared else None
    if robot is not None:
        limit = np.maximum(limit, TIMES * robot.last)
    moving = (_window(speed, steps, LAST, dt) > limit).any(axis=1) & ~ran_away
    speed = np.where(ran_away[:, None, None], np.nan, speed)
    return HeldControl(
        name=name,
        joints=data.joints,
        joint_units=data.joint_units,
        source=holds.source,
        starts=len(holds.starts),
        speed_left=_mean(_window(speed, round(LEFT / dt), WINDOW, dt), ~ran_away),
        robot_speed_left=None if robot is None else robot.left.mean(axis=0),
        pose_difference=None if robot is None else _mean(robot.difference(positions), ~ran_away),
        hold=0.0 if robot is None else float(dt * np.median(robot.held)),
        usual_speed=usual,
        still_moving=int(moving.sum()),
        diverged=int(ran_away.sum()),
        dt=dt,
        speed=_quantiles(speed[~ran_away], dt),
        robot_speed=None if robot is None else robot.speed,
    )


def usual_speed(trajectories: Trajectories) -> Float[np.ndarray, " nq"]:
    """Root mean square speed of each joint [rad/s or m/s]."""
    step = np.diff(trajectories.q, axis=0)
    inside = np.ones(len(step), dtype=bool)
    inside[trajectories.offsets[1:-1] - 1] = False
    return np.sqrt((step[inside] ** 2).mean(axis=0)) / trajectories.dt


@dataclass(frozen=True, eq=False)
class _Robot:
    """The robot's own motion under the held controls."""

    q: Float[np.ndarray, "s T nq"]  # From the start on; after the end of a hold its last position.
    held: np.ndarray  # Steps of each hold, as far as the model was run.
    left: Float[np.ndarray, "s nq"]  # Speed left after 1 s.
    last: Float[np.ndarray, "s nq"]  # Speed over the last 0.5 s of the hold.
    speed: Float[np.ndarray, "3 T2 nq"]

    @classmethod
    def of(cls, holds: Holds, steps: int) -> "_Robot":
        dt, held = holds.trajectories.dt, np.minimum(holds.held, steps)
        q = holds.trajectories.q[
            holds.starts[:, None] + np.minimum(np.arange(int(held.max()) + 1), held[:, None])
        ]
        speed = _speed(q, dt)
        last = np.stack(
            [
                _window(one[None], count, LAST, dt)[0]
                for one, count in zip(speed, held.tolist(), strict=True)
            ]
        )
        half = int(np.median(held))
        reached = np.where(np.arange(half)[:, None] < held[:, None, None], speed[:, :half], np.nan)
        return cls(
            q, held, _window(speed, round(LEFT / dt), WINDOW, dt), last, _quantiles(reached, dt)
        )

    def difference(self, positions: Float[np.ndarray, "s R nq"]) -> Float[np.ndarray, "s nq"]:
        """Absolute difference of the poses at the end of each hold."""
        each = np.arange(len(self.held))
        return np.abs(positions[each, self.held - 1] - self.q[each, self.held])


def _speed(q: Float[np.ndarray, "s T nq"], dt: float) -> Float[np.ndarray, "s R nq"]:
    return np.abs(np.diff(q, axis=1)) / dt


def _window(
    speed: Float[np.ndarray, "s R nq"], end: int, seconds: float, dt: float
) -> Float[np.ndarray, "s nq"]:
    """Mean speed over the ``seconds`` before step ``end``."""
    end = max(1, end)
    return speed[:, max(0, end - max(1, round(seconds / dt))) : end].mean(axis=1)


def _mean(
    values: Float[np.ndarray, "s nq"], some: Bool[np.ndarray, " s"]
) -> Float[np.ndarray, " nq"]:
    """Mean over some of the starts; not a number when there are none."""
    return np.asarray(values[some].mean(axis=0)) if some.any() else np.full(values.shape[1], np.nan)


def _quantiles(speed: Float[np.ndarray, "s R nq"], dt: float) -> Float[np.ndarray, "3 R nq"]:
    """10, 50 and 90 % over the starts of the speed, averaged over a short time so that a swing has
    no zeros."""
    if not len(speed):
        return np.full((3, *speed.shape[1:]), np.nan)
    width = min(max(1, round(WINDOW / dt)), speed.shape[1])
    sums = np.cumsum(np.concatenate([np.zeros_like(speed[:, :1]), speed], axis=1), axis=1)
    ends = np.arange(1, speed.shape[1] + 1)
    begins = np.maximum(ends - width, 0)
    smooth = (sums[:, ends] - sums[:, begins]) / (ends - begins)[:, None]
    # NumPy's nanquantile takes a hundred times as long: NaN is sorted last instead
    count = np.isfinite(smooth).sum(axis=0)
    place = np.array([0.1, 0.5, 0.9])[:, None, None] * np.maximum(count - 1, 0)
    ordered, low = np.sort(smooth, axis=0), np.floor(place).astype(np.int64)
    lower = np.take_along_axis(ordered, low, axis=0)
    upper = np.take_along_axis(ordered, np.ceil(place).astype(np.int64), axis=0)
    return np.asarray(lower + (place - low) * (upper - lower))
