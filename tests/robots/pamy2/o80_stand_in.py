"""Stands in for the lab's o80 and o80_pam, which are not installed where tests run: their
documented calls, no robot.

A back-end iterates when ``iterate`` is called. As in o80, commands are buffered until ``pulse``,
each moves the desired counts linearly from where they are within its duration, and OVERWRITE drops
what was running.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any

PERIOD_US = 2000


class Mode(Enum):
    QUEUE = 0
    OVERWRITE = 1


@dataclass(frozen=True)
class Duration_us:  # noqa: N801  o80's name
    value: int

    @staticmethod
    def milliseconds(value: int) -> "Duration_us":
        return Duration_us(1000 * value)

    @staticmethod
    def microseconds(value: int) -> "Duration_us":
        return Duration_us(value)


@dataclass(frozen=True)
class Observation:
    iteration: int
    positions: list[float]
    desired: list[int]
    observed: list[int]

    def get_iteration(self) -> int:
        return self.iteration

    def get_time_stamp(self) -> int:
        return self.iteration * PERIOD_US * 1000

    def get_positions(self) -> list[float]:
        return list(self.positions)

    def get_velocities(self) -> list[float]:
        return [0.0] * 4

    def get_observed_pressures(self) -> list[tuple[int, int]]:
        return list(zip(self.observed[0::2], self.observed[1::2], strict=True))

    def get_desired_pressures(self) -> list[tuple[int, int]]:
        return list(zip(self.desired[0::2], self.desired[1::2], strict=True))


@dataclass
class Backend:
    """The robot's side: set ``positions``, call ``iterate``, look at ``desired`` [counts]."""

    active: bool = True
    iteration: int = 0
    positions: list[float] = field(default_factory=lambda: [0.0] * 4)
    desired: list[int] = field(
        default_factory=lambda: [19500, 19500, 19750, 19900, 18250, 18500, 17500, 17500]
    )
    running: dict[int, tuple[int, int]] = field(default_factory=dict)

    def iterate(self) -> None:
        self.iteration += 1
        for actuator, (target, left) in list(self.running.items()):
            now = self.desired[actuator]
            part = min(1.0, PERIOD_US / left) if left > 0 else 1.0
            self.desired[actuator] = int(now + part * (target - now))
            self.running[actuator] = (target, left - PERIOD_US)
            if part >= 1.0:
                del self.running[actuator]


BACKENDS: dict[str, Backend] = {}


class FrontEnd:
    def __init__(self, segment_id: str) -> None:
        if segment_id not in BACKENDS:
            raise RuntimeError(f"no shared memory {segment_id}")
        self._backend = BACKENDS[segment_id]
        self._buffer: list[tuple[int, int, int]] = []

    def is_backend_active(self) -> bool:
        return self._backend.active

    def add_command(self, *arguments: Any) -> None:
        """(actuator, pressure, ...), (dof, ago, antago, ...) or (ago[4], antago[4], ...), with
        [duration,] mode."""
        *arguments, mode = arguments
        assert mode is Mode.OVERWRITE, "the stand-in only overwrites"
        duration = arguments.pop().value if isinstance(arguments[-1], Duration_us) else 0
        if isinstance(arguments[0], list):
            ago, antago = arguments
            wanted = [
                (2 * dof + k, side[dof]) for dof in range(4) for k, side in enumerate((ago, antago))
            ]
        elif len(arguments) == 3:
            dof, ago, antago = arguments
            wanted = [(2 * dof, ago), (2 * dof + 1, antago)]
        else:
            wanted = [(arguments[0], arguments[1])]
        for actuator, counts in wanted:
            assert type(counts) is int, "o80's pressures are whole numbers"
            self._buffer.append((actuator, counts, duration))

    def pulse(self) -> Observation:
        for actuator, counts, duration in self._buffer:
            self._backend.running[actuator] = (counts, duration)
        self._buffer.clear()
        return self.latest()

    def latest(self) -> Observation:
        backend = self._backend
        return Observation(
            backend.iteration, list(backend.positions), list(backend.desired), list(backend.desired)
        )


@contextmanager
def installed() -> Iterator[Backend]:
    """Within this block ``import o80`` and ``import o80_pam`` find the stand-in, with one running
    back-end."""
    o80, o80_pam = ModuleType("o80"), ModuleType("o80_pam")
    o80.Mode, o80.Duration_us = Mode, Duration_us  # type: ignore[attr-defined]
    o80_pam.FrontEnd = FrontEnd  # type: ignore[attr-defined]
    BACKENDS["real_robot"] = Backend()
    sys.modules.update({"o80": o80, "o80_pam": o80_pam})
    try:
        yield BACKENDS["real_robot"]
    finally:
        BACKENDS.clear()
        del sys.modules["o80"], sys.modules["o80_pam"]
