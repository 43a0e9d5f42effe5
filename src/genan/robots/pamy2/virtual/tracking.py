"""What trackers say of the ball: Vicon of the cup's, four cameras of the table-tennis ball.

A tracker is fed the true position at each tick (``see``), exposes at its own rate between the
ticks, and hands a measurement out only once it has arrived (``measurements``). The same seed and
the same ball give the same measurements.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Sighting
from genan.errors import SettingError
from genan.robots.pamy2.virtual import DESIGN

Point = Float[np.ndarray, " 3"]


@dataclass(frozen=True)
class TrackerModel:
    """How a tracker sees. The numbers are in ``design.toml``."""

    rate: float  # Frames per second [Hz].
    delay: float  # From the exposure until the measurement can be read, on average [s].
    delay_jitter: float  # Standard deviation of the delay [s]; frames never overtake each other.
    noise: float  # Standard deviation of each axis, white [m].
    registration: float = 0.0  # Of each axis of a constant error of its frame, by seed [m].
    reflection_rate: float = 0.0  # Reflections that begin in a second [1/s]: it is off for a while.
    reflection_time: float = 0.02  # Mean length of one [s].
    reflection_size: float = 0.0  # Standard deviation of its error, each axis [m].
    outlier_rate: float = 0.0  # Share of the frames that show something else than the ball.
    outlier_size: float = 0.3  # How far away such a thing is, each axis, standard deviation [m].
    gap_rate: float = 0.0  # Gaps that begin in a second [1/s].
    gap_time: float = 0.02  # Mean length of one [s].
    hidden_gap_rate: float = 0.0  # Of a ball wholly hidden [1/s]; in between, in proportion.
    hidden_gap_time: float = 0.02  # [s]


class Tracker:
    """Sees one ball, with the errors of its seed. ``Vicon`` and ``Cameras`` have models."""

    model: TrackerModel

    def __init__(self, model: TrackerModel | None = None, *, seed: int = 0) -> None:
        self.model, self.seed = self.model if model is None else model, seed
        drawn = np.random.default_rng([seed, 0x0FF5E7]).standard_normal(3)
        self._offset = self.model.registration * drawn
        self.reset()

    def reset(self, trial: int = 0) -> None:
        """Forget the ball; ``trial`` says which of the seed's sequences of errors comes now."""
        self._chance = np.random.default_rng([self.seed, 0x7AC, trial])
        self._last: tuple[float, Point] | None = None
        self._next = self._blind_until = self._reflected_until = -np.inf
        self._reflection = np.zeros(3)
        self._arriving: deque[tuple[float, Sighting]] = deque()

    def see(self, time: float, position: Point, *, hidden: float = 0.0) -> None:
        """The ball is at ``position`` [m] at ``time`` [s], its view blocked by ``hidden`` (0 to 1).
        Between two calls the ball is taken to have moved straight."""
        here = np.asarray(position, float)
        if not (np.isfinite(time) and np.isfinite(here).all()):
            raise SettingError(f"A ball is somewhere at a time; got {here.tolist()} m at {time} s.")
        if self._last is None:
            self._next = time + self._chance.random() / self.model.rate
        else:
            before, there = self._last
            if time <= before:
                came = f"got {time:g} s after {before:g} s (reset the tracker for a new ball)"
                raise SettingError(f"Time must go on from one sighting to the next; {came}.")
            while self._next <= time:
                part = (self._next - before) / (time - before)
                self._expose(self._next, there + part * (here - there), hidden)
                self._next += 1.0 / self.model.rate
        self._last = (time, here)

    def measurements(self, now: float) -> list[Sighting]:
        """What has arrived until ``now`` [s] and was not handed out before, oldest first."""
        due = sum(arrival <= now for arrival, _ in self._arriving)  # none overtakes another
        return [self._arriving.popleft()[1] for _ in range(due)]

    def _expose(self, time: float, position: Point, hidden: float) -> None:
        model, chance = self.model, self._chance
        period, (start, late, lost) = 1.0 / model.rate, chance.random(3)
        # Drawn whatever happens, so that one gap does not change all that follows.
        white = chance.standard_normal(7)
        if time < self._blind_until:
            return
        if lost < period * (model.gap_rate + hidden * (model.hidden_gap_rate - model.gap_rate)):
            length = model.gap_time + hidden * (model.hidden_gap_time - model.gap_time)
            self._blind_until = time + chance.exponential(length)
            return
        if time >= self._reflected_until and start < period * model.reflection_rate:
            self._reflected_until = time + chance.exponential(model.reflection_time)
            self._reflection = model.reflection_size * white[3:6]
        seen = position + self._offset + model.noise * white[:3]
        if time < self._reflected_until:
            seen = seen + self._reflection
        if late < model.outlier_rate:
            seen = seen + model.outlier_size * white[3:6]
        arrival = time + max(0.5 * model.delay, model.delay + model.delay_jitter * white[6])
        if self._arriving:
            arrival = max(arrival, self._arriving[-1][0])
        self._arriving.append((arrival, Sighting(time, seen)))


class Vicon(Tracker):
    """Of markers on the cup's ball: 300 Hz, 6.9 ms late, below a millimetre but for reflections, at
    times blind. Rate and delay: the lab's recorded frames."""

    model = TrackerModel(**DESIGN["vicon"])


class Cameras(Tracker):
    """Four colour cameras over the table: 179 Hz, 5 ms late, 1.5 mm of noise, at times something
    else or nothing. Rate and noise: recorded balls."""

    model = TrackerModel(**DESIGN["cameras"])
