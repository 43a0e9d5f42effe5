"""What the columns of a recording mean: rate, joints, controls, units and ranges."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, listing
from genan.robot import Robot

#: SI units a joint position may be in; degrees and millimetres are converted before they get here.
JOINT_UNITS = ("rad", "m")

#: Two time steps are the same when they differ by less than this fraction.
DT_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Channels:
    """The columns of q and u: their order, names and units, and the period they were sampled at."""

    dt: float
    """Sampling period [s]."""
    joints: tuple[str, ...]
    """Name of each column of q."""
    controls: tuple[str, ...]
    """Name of each column of u."""
    control_range: np.ndarray
    """[2, nu]: lowest and highest value each control may take, in its unit; infinite where there is
    no bound."""
    joint_units: tuple[str, ...] = ()
    """"rad" or "m" for each joint; left out: "rad" for all."""
    control_units: tuple[str, ...] = ()
    """Unit of each control, any text; left out: "1" (no unit) for all."""

    def __post_init__(self) -> None:
        _set(self, "dt", _period(self.dt))
        _set(self, "joints", _names(self.joints, "joint"))
        _set(self, "controls", _names(self.controls, "control"))
        _set(self, "joint_units", _units(self.joint_units, "rad", len(self.joints), "joint"))
        _set(self, "control_units", _units(self.control_units, "1", len(self.controls), "control"))
        for name, unit in zip(self.joints, self.joint_units, strict=True):
            if unit not in JOINT_UNITS:
                raise DataError(
                    f"Joint {name!r} is in {unit!r}; convert it to one of {listing(JOINT_UNITS)}."
                )
        _set(self, "control_range", _bounds(self.control_range, self.controls))

    @classmethod
    def of_robot(cls, robot: Robot) -> "Channels":
        """The channels of a recording of ``robot``."""
        return cls(
            dt=robot.dt,
            joints=robot.joint_names,
            controls=robot.control_names,
            control_range=robot.u_range,
            joint_units=tuple(joint.unit for joint in robot.joints),
            control_units=tuple(control.unit for control in robot.controls),
        )

    @property
    def nq(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.controls)

    def settings(self) -> dict[str, Any]:
        """Everything here as plain lists, texts and numbers, for comparing and hashing."""
        return {
            "dt": self.dt,
            "joints": list(self.joints),
            "joint_units": list(self.joint_units),
            "controls": list(self.controls),
            "control_units": list(self.control_units),
            "control_range": self.control_range.tolist(),
        }

    def check_rate(self, dt: float, *, whose: str) -> None:
        """Refuse another sampling period than this one. ``dt``: the other period [s]; ``whose``:
        for the message."""
        if not math.isclose(dt, self.dt, rel_tol=DT_TOLERANCE):
            raise DataError(
                f"Two rates: the recording is sampled at {_rate(self.dt)}, {whose} at {_rate(dt)}; resample one, "
                "because what is learnt at one rate is wrong at another."
            )

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, other controls, other units or another
        rate."""
        _same_names(self.joints, robot.joint_names, "joint", robot.name)
        _same_names(self.controls, robot.control_names, "control", robot.name)
        for kind, mine, theirs in (
            ("Joint", (self.joints, self.joint_units), [joint.unit for joint in robot.joints]),
            (
                "Control",
                (self.controls, self.control_units),
                [control.unit for control in robot.controls],
            ),
        ):
            for name, unit, other in zip(*mine, theirs, strict=True):
                if unit != other:
                    raise DataError(
                        f"{kind} {name!r} is in {unit!r} in the recording and in {other!r} on robot {robot.name!r}; "
                        "convert the recording."
                    )
        self.check_rate(robot.dt, whose=f"robot {robot.name!r}")


def _set(channels: Channels, name: str, value: object) -> None:
    object.__setattr__(channels, name, value)


def _rate(dt: float) -> str:
    return f"{1.0 / dt:.6g} Hz (dt {dt:.6g} s)"


def _period(dt: float) -> float:
    if (
        not (np.isscalar(dt) or np.ndim(dt) == 0)
        or not np.isreal(dt)
        or not math.isfinite(dt)
        or not dt > 0.0
    ):
        raise DataError(f"The sampling period dt must be a positive number of seconds, not {dt!r}.")
    return float(dt)


def _names(names: Sequence[str], kind: str) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"The {kind}s must be a list of names, not {names!r}.")
    if not names:
        raise DataError(f"There are no {kind}s; a recording needs at least one.")
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise DataError(
            f"The {kind} {listing(twice)} is listed twice; every {kind} needs its own name."
        )
    return tuple(names)


def _units(units: Sequence[str], default: str, count: int, kind: str) -> tuple[str, ...]:
    units = tuple(units) or (default,) * count
    if len(units) != count:
        raise DataError(
            f"There are {count} {kind}s and {len(units)} {kind} units; give one unit for each."
        )
    return units


def _bounds(bounds: Any, controls: tuple[str, ...]) -> Float[np.ndarray, "2 nu"]:
    array = np.array(bounds, dtype=np.float64)
    if array.shape != (2, len(controls)):
        raise DataError(
            f"control_range must be [2, {len(controls)}], lowest then highest of each control, not {list(array.shape)}."
        )
    for name, lower, upper in zip(controls, *array, strict=True):
        if not lower < upper:
            raise DataError(
                f"Control {name!r} has the range {lower:g} to {upper:g}; the first must be below the second."
            )
    array.flags.writeable = False
    return array


def _same_names(mine: tuple[str, ...], theirs: tuple[str, ...], kind: str, robot: str) -> None:
    if mine == theirs:
        return
    missing = [name for name in theirs if name not in mine]
    extra = [name for name in mine if name not in theirs]
    if missing or extra:
        faults = [f"lacks the {kind} {listing(missing)}"] if missing else []
        faults += (
            [f"has the {kind} {listing(extra)}, which the robot does not have"] if extra else []
        )
        raise DataError(
            f"The recording {' and '.join(faults)}; robot {robot!r} has the {kind}s {listing(theirs)}."
        )
    raise DataError(
        f"The recording has the {kind}s in the order {listing(mine)} and robot {robot!r} in the order "
        f"{listing(theirs)}; reorder the columns."
    )
