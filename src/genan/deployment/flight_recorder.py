"""``FlightRecorder``: flights as recordings that actuators can be fitted to, and every tick of them
beside that.

``flights.h5`` is a recording like any other (docs/data-format.md): q as read and u as sent, without
what cannot be learnt from. ``flights.ticks/0000.npz`` and so on hold every tick of each flight, the
last breath of a broken sensor included. Nothing is written while a flight is going on.
"""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from genan.data import Channels, Recorder
from genan.data.hdf5 import make_folder
from genan.deployment.flight import Flight
from genan.deployment.safety import StopReason
from genan.errors import DataError
from genan.files import write_atomically
from genan.robot import Robot

SHORTEST = 0.1
"""Shorter pieces between two gaps are not kept as trajectories [s]."""

BROKEN_SENSOR = frozenset({
    StopReason.READING, StopReason.VELOCITY, StopReason.STALE, StopReason.FROZEN, StopReason.CLOCK, StopReason.LOST,
})  # fmt: skip
"""After these, readings are not believed any more: what follows is kept tick by tick, but not as a
trajectory."""

_COLUMNS = ("time", "loop_time", "lateness", "work", "q", "u", "delivered", "phase", "reason")


class FlightRecorder:
    """Keeps flights in one recording; use it in a ``with`` block. However that is left, the file is
    finished.

    A killed process leaves ``<file>.partial``, which can be read up to the last whole flight.
    """

    def __init__(self, path: Path | str, robot: Robot, *, provenance: Mapping[str, Any]) -> None:
        """Begin; existing files are refused.

        Args:
            path: the recording to make.
            robot: whose flights.
            provenance: where they come from; no clock times.
        """
        self.path = Path(path)
        self.folder = self.path.with_name(self.path.stem + ".ticks")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise DataError(
                f"{self.folder} holds the ticks of other flights; choose another file name or move it away."
            )
        self._recorder = Recorder.create(self.path, Channels.of_robot(robot), provenance=provenance)
        self.flights = 0
        """How many are kept."""

    def __enter__(self) -> "FlightRecorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def trajectories(self) -> int:
        """How many there are in the recording."""
        return len(self._recorder)

    def keep(self, flight: Flight) -> None:
        """Add a flight: first all its ticks, then what of it can be learnt from (nothing, of a dry
        run)."""
        make_folder(self.folder)
        write_atomically(self.folder / f"{self.flights:04d}.npz", self._ticks(flight))
        self.flights += 1
        for piece in trainable(flight):
            self._recorder.append(flight.q[piece], flight.u[piece], dt=flight.robot.dt)

    def close(self) -> None:
        """Finish the recording; without a single trajectory in it there is none. A second call does
        nothing."""
        if self.trajectories and not self.path.exists():
            self._recorder.finish()
        else:
            self._recorder.close(remove_partial=True)

    def _ticks(self, flight: Flight) -> bytes:
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
            "trajectories": [
                [self.trajectories + k, p.start, p.stop] for k, p in enumerate(pieces)
            ],
        }
        content = io.BytesIO()
        columns = {name: getattr(flight, name) for name in _COLUMNS}
        np.savez_compressed(content, about=np.array(json.dumps(about)), **columns)
        return content.getvalue()


def trainable(flight: Flight) -> Iterator[slice]:
    """The pieces of a flight without a gap: every reading new, a period after the one before, every
    command taken."""
    if flight.dry:
        return
    good = np.isfinite(flight.q).all(axis=1) & np.isfinite(flight.time) & flight.delivered
    if flight.stop.reason in BROKEN_SENSOR:
        good[_last_believed(flight) :] = False
    dt = flight.robot.dt
    with np.errstate(invalid="ignore"):
        joined = np.abs(np.diff(flight.time) - dt) < 0.5 * dt
    start = 0
    for k in range(len(flight)):
        last = k + 1 == len(flight)
        if not good[k]:
            start = k + 1
        elif last or not (joined[k] and good[k + 1]):
            if (k + 1 - start) * dt >= SHORTEST:
                yield slice(start, k + 1)
            start = k + 1


def _last_believed(flight: Flight) -> int:
    """The tick from which on the sensors are not believed: that of the stop, or when they froze."""
    seen = np.flatnonzero(flight.reason == flight.stop.reason.code)
    tick = int(seen[0]) if len(seen) else len(flight)
    if flight.stop.reason is StopReason.FROZEN:
        while tick > 0 and (flight.q[tick - 1] == flight.q[tick]).all():
            tick -= 1
    return tick
