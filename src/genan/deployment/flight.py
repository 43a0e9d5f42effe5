"""``Flight``: what happened, tick by tick; ``FlightRecorder`` keeps flights.

``flights.h5`` is a recording as any other (docs/data-format.md), q as read and u as sent, without
what cannot be learnt from. ``flights.ticks/0000.npz`` and so on hold every tick of each flight.
Nothing is written while a flight is going on.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data import Channels, Recorder
from genan.data.hdf5 import make_folder
from genan.deployment.safety import Stop, StopReason
from genan.errors import DataError
from genan.files import write_atomically
from genan.robot import Robot


def spread(times: Float[np.ndarray, " n"]) -> str:
    """Median, 99th percentile and largest of some ``times`` [s], in words."""
    p50, p99, worst = 1e3 * np.quantile(times if len(times) else [0.0], (0.5, 0.99, 1.0))
    return f"median {p50:.3f}, 99 % below {p99:.3f}, worst {worst:.3f} ms"


Ticks = Float[np.ndarray, " ticks"]
#: What is kept of each tick.
COLUMNS = ("time", "loop_time", "lateness", "work", "q", "u", "delivered", "phase", "reason")
_TYPES = {"delivered": bool, "phase": np.int64, "reason": np.int64}


@dataclass(frozen=True, repr=False)
class Flight:
    """Everything that a control loop read and sent between its start and the rest at its end."""

    robot: Robot
    stop: Stop  # Why it ended.
    phases: tuple[str, ...]  # Names of its controllers in order, and at last the ramp to rest.
    dry: bool  # Whether nothing of this was really sent.
    change: float  # The rate limit it kept: largest change of a control in one period.
    u_start: Float[np.ndarray, " nu"]  # The controls before its first tick.
    missed: int  # Periods without a tick: the one before came too late or took too long.
    time: Ticks  # Of the reading, by the robot's clock [s]; NaN where there was none.
    loop_time: Ticks  # Of the tick, by the loop's clock, from the start [s].
    lateness: Ticks  # How much later it was than it should have been [s].
    work: Ticks  # From the beginning of the tick until its command was handed over [s].
    q: Float[np.ndarray, "ticks nq"]  # As read [rad or m]; NaN where there was no reading.
    u: Float[np.ndarray, "ticks nu"]  # Controls as they were sent, in their units.
    delivered: Bool[np.ndarray, " ticks"]  # Whether the robot took the command.
    phase: Int[np.ndarray, " ticks"]  # Whose turn it was, as an index of ``phases``.
    reason: Int[np.ndarray, " ticks"]  # ``StopReason.code`` at the tick that saw one, else 0.

    @staticmethod
    def columns(ticks: Sequence[tuple[object, ...]], robot: Robot) -> dict[str, Any]:
        """The arrays of ``ticks``, which have an entry for each of ``COLUMNS``."""
        sizes = {"q": (robot.nq,), "u": (robot.nu,)}
        kinds = [(name, _TYPES.get(name, float), sizes.get(name, ())) for name in COLUMNS]
        rows = np.array(list(ticks), kinds)
        return {name: rows[name].copy() for name in COLUMNS}

    def __len__(self) -> int:
        return len(self.time)

    def during(self, phase: str) -> slice:
        """The ticks of the phase of that name; empty where it never had its turn."""
        ticks = np.flatnonzero(self.phase == self.phases.index(phase))
        return slice(int(ticks[0]), int(ticks[-1]) + 1) if len(ticks) else slice(0, 0)

    @property
    def summary(self) -> str:
        """How it went: why it ended, and how punctual the loop was."""
        ticks, seconds = len(self), (len(self) + self.missed) * self.robot.dt
        return (
            f"ended because {self.stop}\n{ticks} ticks in {seconds:.2f} s, {self.missed} missed\n"
            f"work of a tick: {spread(self.work)}\nlateness of a tick: {spread(self.lateness)}"
        )

    def __repr__(self) -> str:
        return f"Flight({self.robot.name!r}, {len(self)} ticks, ended because {self.stop})"


SHORTEST = 0.1  # Shorter pieces between two gaps are not kept as trajectories [s].

BROKEN_SENSOR = frozenset(
    StopReason[name] for name in ("READING", "VELOCITY", "STALE", "FROZEN", "CLOCK", "LOST")
)
"""After these, readings are not believed: what follows is kept as ticks, not as a trajectory."""


class FlightRecorder(AbstractContextManager["FlightRecorder"]):
    """Keeps flights in one recording; use it in a ``with`` block, which finishes the file. A killed
    process leaves ``<file>.partial``, which can be read up to the last whole flight."""

    def __init__(self, path: Path | str, robot: Robot, *, provenance: Mapping[str, Any]) -> None:
        """Of flights from ``provenance`` (no clock times); existing files are refused."""
        self.path = Path(path)
        self.folder = self.path.with_name(self.path.stem + ".ticks")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise DataError(f"{self.folder} holds the ticks of other flights; move it away.")
        self._recorder = Recorder.create(self.path, Channels.of_robot(robot), provenance=provenance)
        self.flights = 0  # How many are kept.

    @property
    def trajectories(self) -> int:
        """How many there are in the recording."""
        return len(self._recorder)

    def keep(self, flight: Flight) -> None:
        """Add a flight: all its ticks, then what can be learnt from (nothing, of a dry run)."""
        robot, pieces = flight.robot, list(trainable(flight))
        about = {
            "robot": robot.name,
            "dt": robot.dt,
            "joints": robot.joint_names,
            "controls": robot.control_names,
            "u_range": robot.u_range.tolist(),
            "u_start": flight.u_start.tolist(),
            "u_rest": robot.u_rest.tolist(),
            "change": flight.change,
            "dry_run": flight.dry,
            "phases": flight.phases,
            "reason": flight.stop.reason.name,
            "detail": flight.stop.detail,
            "missed": flight.missed,
            "reasons": [reason.name for reason in StopReason],
            "trajectories": [[k, p.start, p.stop] for k, p in enumerate(pieces, self.trajectories)],
        }
        content = io.BytesIO()
        columns = {name: getattr(flight, name) for name in COLUMNS}
        np.savez_compressed(content, about=np.array(json.dumps(about)), **columns)
        make_folder(self.folder)
        write_atomically(self.folder / f"{self.flights:04d}.npz", content.getvalue())
        self.flights += 1
        for piece in pieces:
            self._recorder.append(flight.q[piece], flight.u[piece], dt=robot.dt)

    def close(self, *_: object) -> None:
        """Finish the recording; without a trajectory there is none. A second call does nothing."""
        if self.trajectories and not self.path.exists():
            self._recorder.finish()
        else:
            self._recorder.close(remove_partial=True)

    __exit__ = close


def trainable(flight: Flight) -> Iterator[slice]:
    """Parts without a gap: every reading new, a period after the last one, every command taken."""
    if flight.dry or not len(flight):
        return
    good = np.isfinite(flight.q).all(axis=1) & np.isfinite(flight.time) & flight.delivered
    if flight.stop.reason in BROKEN_SENSOR:  # no more from the tick of the stop on
        seen = np.flatnonzero(flight.reason == flight.stop.reason.code)
        tick = int(seen[0]) if len(seen) else len(flight)
        if flight.stop.reason is StopReason.FROZEN:  # nor from when they froze
            moved = (flight.q[1 : tick + 1] != flight.q[:tick]).any(axis=1)
            tick = int(np.flatnonzero(moved)[-1]) + 1 if moved.any() else 0
        good[tick:] = False
    dt = flight.robot.dt
    with np.errstate(invalid="ignore"):
        joined = np.abs(np.diff(flight.time) - dt) < 0.5 * dt
    cuts = np.flatnonzero(~(joined & good[1:] & good[:-1])) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(flight)]):
        if good[start] and (end - start) * dt >= SHORTEST:
            yield slice(start, end)
