"""The held-control test: with its control held, does the model come to rest, and where the robot
does? One-step errors do not show a limit cycle, and a policy trained in a simulator that swings by
itself learns nonsense. Moments from which a control is held are found in the recording, played on
the virtual robot that made it, or frozen by hand."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genan.actuator import Ensemble
from genan.actuator.errors import JobProgress, rollouts
from genan.data import Channels, Trajectories, load, write
from genan.data.inspection.measures import joint_quanta
from genan.dynamics import Dynamics
from genan.errors import GenanError
from genan.evaluation.accuracy import divergence_bound, quiet
from genan.evaluation.statistics import SENTENCES
from genan.files import sentences
from genan.jax_setup import cache_folder
from genan.robot.package import VIRTUAL, open_virtual, robot_folder, virtual_names
from genan.signals import Bounds, Controls, Rng, Spline

Joints = Float[np.ndarray, " nq"]

SHORTEST = 1.0  # A piece of a recording counts when its controls stay for this long [s].
MOST = 200  # Starts taken from a recording, at most.
MOVING, HELD, MADE = 1.0, 3.0, 64
"""Played on the virtual robot: a drawn control [s], then the last of it [s], this many times."""
_TOLERANCE = 1e-6  # A control that changes by less than this part of its span has not changed.

WHOLE, LAST = 5.0, 0.5  # The model is run for this long; its speed is read over the last of it [s].
LEFT, WINDOW = 1.0, 0.1  # Speed "left" is read at this moment, over the time before it [s].
PART, TIMES = 0.05, 3.0
"""A joint still moves when it is faster than this part of its usual speed, and than this many times
the robot's own."""
COUNTS = 2.0  # A swing of at most so many counts of the encoder is one that nobody can see.
STOP = 0.02  # This part of the range of a recording next to its ends is taken for a joint's stop.
TOLERATED = 0.02  # A model in which more than this part of the starts still move is unfit.


@dataclass(frozen=True, eq=False)
class Holds:
    """Starts of held control in a recording."""

    trajectories: Trajectories
    starts: Int[np.ndarray, " s"]  # Row from which on the control is held.
    held: Int[np.ndarray, " s"]  # Steps for which the robot really held it; all 0 when it did not.
    source: str  # Where they come from, for a reader.


def find_starts(trajectories: Trajectories, *, first: int, progress: JobProgress = quiet) -> Holds:
    """Where the control is held: in the recording, else on the virtual robot that made it, else
    frozen by hand. ``first``: samples of past that a model needs."""
    found = find_holds(trajectories, first=first)
    if found is None:
        progress("held controls on the virtual robot", 0, 1)
        found = make_holds(trajectories, first=first)
        progress("held controls on the virtual robot", 1, 1)
    return found or freeze(trajectories, first=first)


def find_holds(trajectories: Trajectories, *, first: int) -> Holds | None:
    """Pieces of a recording in which all controls stay for a second or longer, or None."""
    u, offsets = trajectories.u, trajectories.offsets
    changed = np.ones(len(u), dtype=bool)
    changed[1:] = (np.abs(np.diff(u, axis=0)) > _TOLERANCE * np.ptp(u, axis=0)).any(axis=1)
    changed[offsets[:-1]] = True
    begin = np.flatnonzero(changed)
    owner = np.searchsorted(offsets, begin, side="right") - 1
    # the position at the row where the control changes was still reached under the held one
    end = np.minimum(np.append(begin[1:], len(u)), offsets[owner + 1] - 1)
    start = np.maximum(begin, offsets[owner] + first)
    long = _evenly(np.flatnonzero(end - start >= max(1, round(SHORTEST / trajectories.dt))))
    stay = f"in which the controls stay for {SHORTEST:g} s or longer"
    source = f"{len(long)} pieces of the recording {stay}"
    found = Holds(trajectories, start[long], (end - start)[long], source)
    return found if len(long) else None


def make_holds(recorded: Trajectories, *, first: int) -> Holds | None:
    """Held controls on the virtual robot that made a recording; None when it was made on another
    robot. They are played once and kept with the compiled programs."""
    origin = recorded.provenance
    name, known = str(origin.get("robot")), ("robot_seed", "hours", "drift")
    if name not in virtual_names() or any(key not in origin for key in known):
        return None
    about: dict[str, Any] = {key: origin.get(key) for key in ("robot", *known, "signal_bounds")}
    digest = hashlib.sha256(json.dumps(about | recorded.channels.settings()).encode())
    files = robot_folder(name.removeprefix(VIRTUAL)).rglob("*.*")
    for path in sorted(path for path in files if path.suffix in (".py", ".toml")):
        digest.update(path.read_bytes())  # another program, or another design, is another robot
    kept = cache_folder().parent / f"held-controls-{digest.hexdigest()[:32]}.h5"
    try:
        played = load(kept)
    except GenanError:
        from genan.deployment.collection import Plan, collect

        seed, hours, drift = int(about["robot_seed"]), float(about["hours"]), float(about["drift"])
        robot = open_virtual(name, seed=seed, hours=hours, drift=drift)
        if Channels.of_robot(robot.robot).settings() != recorded.channels.settings():
            return None
        drawn = about["signal_bounds"]
        bounds = None if drawn is None else np.asarray(drawn, dtype=float)
        plan = Plan(seed=0, signal=SplineThenHold(), bounds=bounds, duration=MOVING + HELD)
        runs = collect(robot, plan, start=0, stop=MADE, workers=1)
        played = Trajectories.from_list(recorded.channels, [(one.q, one.u) for one in runs])
        with suppress(GenanError, OSError):
            kept.unlink(missing_ok=True)
            write(kept, played)
    if found := find_holds(played, first=first):
        where = "recorded on the virtual robot that made the recording"
        found = replace(found, source=f"{len(found.starts)} held controls {where}")
    return found


def freeze(trajectories: Trajectories, *, first: int) -> Holds:
    """Evenly chosen states of a recording, from which the control shall be held as it was."""
    begins = np.repeat(trajectories.offsets[:-1], trajectories.lengths)
    starts = _evenly(np.flatnonzero(np.arange(len(begins)) - begins >= first))
    frozen = "recorded states with the control frozen by hand; the robot was not compared"
    return Holds(trajectories, starts, np.zeros_like(starts), f"{len(starts)} {frozen}")


def _evenly(rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """At most ``MOST`` of them."""
    places = np.linspace(0, len(rows) - 1, min(MOST, len(rows)))
    return rows[np.unique(places.round().astype(np.int64))]


@dataclass(frozen=True)
class SplineThenHold:
    """A drawn spline, then its last control for the rest of the time."""

    moving: float = MOVING  # Length of the spline [s].

    def draw(self, rng: Rng, *, bounds: Bounds, duration: float, dt: float) -> Controls:
        """See ``genan.signals.Signal``."""
        u = Spline().draw(rng, bounds=bounds, duration=self.moving, dt=dt)
        return np.concatenate([u, np.repeat(u[-1:], round(duration / dt) - len(u), axis=0)])


@dataclass(frozen=True, eq=False)
class HeldControl:
    """What a model does under held control, and what the robot did."""

    name: str
    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    source: str  # Where the starts come from.
    starts: int
    speed_left: Joints  # Mean of the model after 1 s [rad/s or m/s]; NaN when all starts diverged.
    robot_speed_left: Joints | None  # The robot's; None when it was not compared.
    pose_difference: Joints | None  # Mean, at the end of the holds [rad or m]; None as above.
    hold: float  # Median length of the recorded holds, as far as they were compared [s]; or 0.
    usual_speed: Joints  # Root mean square speed in the recording [rad/s or m/s].
    still_moving: int  # Starts in which some joint still moves at the end.
    diverged: int  # Starts from which the model ran away.
    dt: float
    speed: Float[np.ndarray, "3 T nq"]  # 10, 50 and 90 % of the starts, over time [rad/s or m/s].
    robot_speed: Float[np.ndarray, "3 T2 nq"] | None  # As far as half of the holds reach.

    @property
    def fit_for_training(self) -> bool:
        """Whether policies may be trained with it."""
        return self.diverged == 0 and self.still_moving <= TOLERATED * self.starts

    @property
    def compared(self) -> bool:
        """Whether the robot itself held these controls."""
        return self.robot_speed_left is not None

    @property
    def verdict(self) -> str:
        """In words."""
        return " ".join(sentences(SENTENCES, "held", self, WHOLE))


def judge_held_control(
    name: str, ensemble: Ensemble, dynamics: Dynamics, holds: Holds, recording: Trajectories
) -> HeldControl:
    """Run a model called ``name`` under held controls; usual speeds are those of ``recording``."""
    data, starts, dt = holds.trajectories, holds.starts, holds.trajectories.dt
    history, steps = ensemble.contract.history, max(1, round(WHOLE / dt))
    past = starts[:, None] + np.arange(-max(history.span, 1), 1)
    controls = starts[:, None] + np.minimum(np.arange(-history.reach, steps), 0)
    positions = rollouts(ensemble, dynamics, data.q[past], data.u[controls])[0]
    start = data.q[starts][:, None]
    with np.errstate(invalid="ignore"):
        stayed = (np.abs(positions - start) <= divergence_bound(recording)).all(axis=(1, 2))
    positions = np.where(stayed[:, None, None], positions, start)
    speed = np.abs(np.diff(positions, axis=1, prepend=start)) / dt
    usual = usual_speed(recording)
    limit = np.broadcast_to(PART * usual, speed[:, 0].shape)

    def window(speed: np.ndarray, end: int, seconds: float) -> np.ndarray:
        """Mean speed over the ``seconds`` before step ``end``."""
        end = max(1, end)
        return speed[..., max(0, end - max(1, round(seconds / dt))) : end, :].mean(axis=-2)

    # Over the starts that did not run away; not a number when there are none.
    mean = lambda x: x[stayed].mean(axis=0) if stayed.any() else np.full_like(usual, np.nan)
    robot: dict[str, Any] = dict.fromkeys(("robot_speed_left", "pose_difference", "robot_speed"))
    robot["hold"] = 0.0
    if holds.held.any():
        held, each = np.minimum(holds.held, steps), np.arange(len(starts))
        # From the start on; after the end of a hold its last position.
        q = data.q[starts[:, None] + np.minimum(np.arange(int(held.max()) + 1), held[:, None])]
        own, half = np.abs(np.diff(q, axis=1)) / dt, int(np.median(held))
        slow = [window(one, int(end), LAST) for one, end in zip(own, held, strict=True)]
        limit = np.maximum(limit, TIMES * np.stack(slow))
        # Where a stop holds the robot, or would hold the model, which knows of none, it may go on.
        low, high = recording.q.min(axis=0), recording.q.max(axis=0)
        for last in (q[each, held], positions[:, -1]):
            near = np.minimum(last - low, high - last) < STOP * (high - low)
            limit = np.where(near, np.inf, limit)
        reached = np.where(np.arange(half)[:, None] < held[:, None, None], own[:, :half], np.nan)
        robot = {
            "robot_speed_left": window(own, round(LEFT / dt), WINDOW).mean(axis=0),
            "pose_difference": mean(np.abs(positions[each, held - 1] - q[each, held])),
            "robot_speed": _quantiles(reached, dt),
            "hold": float(dt * np.median(held)),
        }
        # A limit cycle moves then as well; a model that only comes later to a stop does not.
        early = [window(one, int(end), LAST) for one, end in zip(speed, held, strict=True)]
        limit = np.where(np.stack(early) > limit, limit, np.inf)
    swing = np.ptp(positions[:, -max(1, round(LAST / dt)) :], axis=1)
    seen = swing > COUNTS * np.array([quantum or 0.0 for quantum in joint_quanta(recording)])
    moving = (seen & (window(speed, steps, LAST) > limit)).any(axis=1) & stayed
    return HeldControl(
        name=name, joints=data.joints, joint_units=data.joint_units, source=holds.source,
        starts=len(starts), speed_left=mean(window(speed, round(LEFT / dt), WINDOW)),
        usual_speed=usual, still_moving=int(moving.sum()), diverged=int((~stayed).sum()), dt=dt,
        speed=_quantiles(speed[stayed], dt), **robot,
    )  # fmt: skip


def usual_speed(trajectories: Trajectories) -> Joints:
    """Root mean square speed of each joint [rad/s or m/s]."""
    inside = np.ones(len(trajectories.q) - 1, dtype=bool)
    inside[trajectories.offsets[1:-1] - 1] = False
    step = np.diff(trajectories.q, axis=0)[inside]
    return np.sqrt((step**2).mean(axis=0)) / trajectories.dt


def _quantiles(speed: Float[np.ndarray, "s R nq"], dt: float) -> Float[np.ndarray, "3 R nq"]:
    """10, 50 and 90 % over the starts; speeds are averaged over a while: a swing has zeros."""
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
