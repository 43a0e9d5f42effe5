"""``Trajectories``: what was recorded, in memory; ``Channels``: what its columns mean."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.errors import DataError, SettingError, listing
from genan.robot import Control, Joint, Robot

# --- Names of recordings: pieces of one are kept together by a split.

#: Longest name of a recording [bytes of UTF-8].
LONGEST_NAME = 256


def own_names(count: int) -> tuple[str, ...]:
    """``"0", "1", ...``: every trajectory is a recording of its own."""
    return tuple(str(number) for number in range(count))


def checked_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    """One name for each of ``count`` trajectories, or a refusal; none at all: ``own_names``."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"The recordings must be a list of names, one each, not {names!r}.")
    if names and len(names) != count:
        raise DataError(
            f"There are {count} trajectories and {len(names)} recordings' names; give one for each."
        )
    if long := [name for name in names if len(name.encode()) > LONGEST_NAME]:
        raise DataError(f"A name has at most {LONGEST_NAME} bytes; {long[0][:40]!r}... has more.")
    return tuple(names) or own_names(count)


def recording_numbers(names: Sequence[str]) -> Int[np.ndarray, " N"]:
    """Number of each trajectory's recording, from 0 in the order in which they first appear."""
    first = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([first[name] for name in names], dtype=np.int64)


def joined_names(parts: Sequence[tuple[str, ...]], *, same_origin: bool) -> tuple[str, ...]:
    """The names of several lists of recordings as one list.

    The same name in two lists is the same recording where both come from the same origin, else
    another one, distinguished by the number of its list (``"0/run 1"``, ``"1/run 1"``).
    """
    if all(names == own_names(len(names)) for names in parts):
        return own_names(sum(map(len, parts)))
    names = [name for part in parts for name in part]
    if same_origin or sum(len(set(part)) for part in parts) == len(set(names)):
        return tuple(names)
    return tuple(f"{number}/{name}" for number, part in enumerate(parts) for name in part)


# --- What the columns of a recording mean: rate, joints, controls, units and ranges.

#: SI units a joint position may be in; degrees and millimetres are converted before they get here.
JOINT_UNITS = ("rad", "m")

#: Two time steps are the same when they differ by less than this fraction.
DT_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Channels:
    """The columns of q and u: their order, names and units, and the period they were sampled at."""

    dt: float  # Sampling period [s].
    joints: tuple[str, ...]  # Name of each column of q.
    controls: tuple[str, ...]  # Name of each column of u.
    control_range: np.ndarray  # [2, nu]: lowest and highest value of each control, or infinite.
    joint_units: tuple[str, ...] = ()  # "rad" or "m" for each joint; left out: "rad" for all.
    control_units: tuple[str, ...] = ()  # Of each control, any text; left out: "1" for all.

    def __post_init__(self) -> None:
        joints, controls = _names(self.joints, "joint"), _names(self.controls, "control")
        checked = {
            "dt": _period(self.dt),
            "joints": joints,
            "controls": controls,
            "joint_units": _units(self.joint_units, "rad", len(joints), "joint"),
            "control_units": _units(self.control_units, "1", len(controls), "control"),
            "control_range": _bounds(self.control_range, controls),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, unit in zip(joints, self.joint_units, strict=True):
            if unit not in JOINT_UNITS:
                raise DataError(
                    f"Joint {name!r} is in {unit!r}; convert it to one of {listing(JOINT_UNITS)}."
                )

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
        """Refuse another sampling period ``dt`` [s] than this one; ``whose``: for the message."""
        if not math.isclose(dt, self.dt, rel_tol=DT_TOLERANCE):
            raise DataError(
                f"Two rates: the recording is sampled at {_rate(self.dt)}, {whose} at {_rate(dt)}; "
                "resample one, because what is learnt at one rate is wrong at another."
            )

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units, or another rate."""
        _same_names(self.joints, robot.joint_names, "joint", robot.name)
        _same_names(self.controls, robot.control_names, "control", robot.name)
        theirs: list[Joint | Control] = [*robot.joints, *robot.controls]
        for unit, other in zip((*self.joint_units, *self.control_units), theirs, strict=True):
            if unit != other.unit:
                raise DataError(
                    f"{type(other).__name__} {other.name!r} is in {unit!r} in the recording and in "
                    f"{other.unit!r} on robot {robot.name!r}; convert the recording."
                )
        self.check_rate(robot.dt, whose=f"robot {robot.name!r}")


def _rate(dt: float) -> str:
    return f"{1.0 / dt:.6g} Hz (dt {dt:.6g} s)"


def _period(dt: float) -> float:
    if np.ndim(dt) or not np.isreal(dt) or not 0.0 < dt < math.inf:
        raise DataError(f"The sampling period dt must be a positive number of seconds, not {dt!r}.")
    return float(dt)


def _names(names: Sequence[str], kind: str) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"The {kind}s must be a list of names, not {names!r}.")
    if not names:
        raise DataError(f"There are no {kind}s; a recording needs at least one.")
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise DataError(f"The {kind} {listing(twice)} is listed twice; each needs its own name.")
    return tuple(names)


def _units(units: Sequence[str], default: str, count: int, kind: str) -> tuple[str, ...]:
    units = tuple(units) or (default,) * count
    if len(units) != count:
        raise DataError(f"There are {count} {kind}s and {len(units)} {kind} units; give one each.")
    return units


def _bounds(bounds: Any, controls: tuple[str, ...]) -> Float[np.ndarray, "2 nu"]:
    array = np.array(bounds, dtype=np.float64)
    if array.shape != (2, len(controls)):
        raise DataError(
            f"control_range must be [2, {len(controls)}], lowest then highest of each control, "
            f"not {list(array.shape)}."
        )
    for name, low, high in zip(controls, *array, strict=True):
        if not low < high:
            raise DataError(
                f"Control {name!r} has the range {low:g} to {high:g}; the second must be higher."
            )
    array.flags.writeable = False
    return array


def _same_names(mine: tuple[str, ...], theirs: tuple[str, ...], kind: str, robot: str) -> None:
    if mine == theirs:
        return
    faults = []
    if missing := [name for name in theirs if name not in mine]:
        faults.append(f"lacks the {kind} {listing(missing)}")
    if extra := [name for name in mine if name not in theirs]:
        faults.append(f"has the {kind} {listing(extra)}, which the robot does not have")
    if faults:
        raise DataError(
            f"The recording {' and '.join(faults)}; robot {robot!r} has the {kind}s "
            f"{listing(theirs)}."
        )
    raise DataError(
        f"The recording has the {kind}s in the order {listing(mine)} and robot {robot!r} in the "
        f"order {listing(theirs)}; reorder the columns."
    )


#: Samples of the shortest trajectory that has an acceleration.
SHORTEST = 3

#: A control may pass its range by this fraction of it: rounding, not a fault.
RANGE_TOLERANCE = 1e-9


def check_samples(
    channels: Channels,
    q: np.ndarray,
    u: np.ndarray,
    lengths: np.ndarray,
    *,
    numbers: Sequence[int] | np.ndarray | None = None,
) -> None:
    """Refuse what cannot be learnt from, naming trajectory, sample and channel.

    Args:
        channels: what the columns mean.
        q: joint positions [rows, nq] [rad or m].
        u: controls [rows, nu], in their units.
        lengths: samples of each trajectory [N].
        numbers: what to call the trajectories in a message [N]; counted from 0 when left out.
    """
    both = (("q", q, "joint", channels.joints), ("u", u, "control", channels.controls))
    for name, array, kind, names in both:
        if np.ndim(array) != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{name} must be [samples, {len(names)}], one column for each {kind} "
                f"({', '.join(names)}), not {list(np.shape(array))}."
            )
    if np.ndim(lengths) != 1:
        shape = list(np.shape(lengths))
        raise DataError(f"The lengths must be one number per trajectory, not of shape {shape}.")
    if len(lengths) == 0:
        raise DataError("There are zero trajectories; a recording needs at least one.")
    if not len(q) == len(u) == int(np.sum(lengths)):
        sizes = f"q has {len(q)} samples, u has {len(u)}"
        raise DataError(f"{sizes} and the lengths add up to {int(np.sum(lengths))}.")
    if int(np.min(lengths)) < SHORTEST:
        number = int(np.argmin(lengths))
        raise DataError(
            f"Trajectory {number if numbers is None else int(numbers[number])} (counted from 0) "
            f"has {int(lengths[number])} samples; the shortest that has an acceleration has "
            f"{SHORTEST}."
        )
    for _, array, kind, names in both:
        finite = np.isfinite(array)
        if not finite.all():
            name, place, where = _place(~finite, names, lengths, numbers)
            raise DataError(
                f"{kind.title()} {name} is {array[place]} {where}; cut the trajectory there or "
                "leave it out."
            )
    lower, upper = channels.control_range
    span = np.where(np.isfinite(upper - lower), upper - lower, 0.0) * RANGE_TOLERANCE
    if (u.min(axis=0) < lower - span).any() or (u.max(axis=0) > upper + span).any():
        outside = (u < lower - span) | (u > upper + span)
        name, (row, column), where = _place(outside, channels.controls, lengths, numbers)
        raise DataError(
            f"Control {name} is {u[row, column]:.9g} {where}, outside its range {lower[column]:g} "
            f"to {upper[column]:g}; correct the command or the range."
        )


def check_indices(indices: Sequence[int] | np.ndarray, count: int) -> Int[np.ndarray, " M"]:
    """``indices`` as an array, each between 0 and ``count`` - 1, or a refusal."""
    chosen = np.asarray(indices)
    if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
        raise DataError(f"Trajectories are chosen by a list of whole numbers, not {indices!r}.")
    if not chosen.size:
        raise DataError("Zero trajectories were chosen; choose at least one.")
    if chosen.min() < 0 or chosen.max() >= count:
        wrong = int(chosen[(chosen < 0) | (chosen >= count)][0])
        raise DataError(f"There is no trajectory {wrong}; the recording has 0 to {count - 1}.")
    return chosen.astype(np.int64)


def counted(number: int) -> str:
    """``1 trajectory``, ``2 trajectories``."""
    return f"{number} {'trajectory' if number == 1 else 'trajectories'}"


def rows_of(
    starts: Int[np.ndarray, " M"], lengths: Int[np.ndarray, " M"]
) -> Int[np.ndarray, " rows"]:
    """Row numbers ``start, start + 1, ...`` of each trajectory, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def provenance_text(provenance: Mapping[str, Any]) -> str:
    """The provenance as canonical JSON text: keys sorted, so that equal content is equal text."""
    try:
        return json.dumps(dict(provenance), sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The provenance must be plain texts, numbers, lists and tables: {error}."
        ) from None


def differences(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], my_words: str, their_words: str
) -> str:
    """The settings in which two tables differ: ``seed (partial has 1, asked 2)``; or nothing."""
    mine, theirs = _flat(mine), _flat(theirs)
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    return ", ".join(
        f"{key} ({my_words} {mine.get(key)!r}, {their_words} {theirs.get(key)!r})" for key in keys
    )


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"versions": {"numpy": "2"}}`` as ``{"versions.numpy": "2"}``."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat


def _place(
    fault: np.ndarray,
    names: Sequence[str],
    lengths: np.ndarray,
    numbers: Sequence[int] | np.ndarray | None,
) -> tuple[str, tuple[int, int], str]:
    """Name of the first faulty channel, its (row, column), and where that is, in words."""
    row, column = (int(axis[0]) for axis in np.nonzero(fault))
    ends = np.cumsum(lengths)
    index = int(np.searchsorted(ends, row, side="right"))
    sample = row - int(ends[index] - lengths[index])
    number = index if numbers is None else int(numbers[index])
    where = f"in trajectory {number} at sample {sample} (counted from 0)"
    return repr(names[column]), (row, column), where


# --- What was recorded.


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One uninterrupted recording."""

    q: Float[np.ndarray, "T nq"]  # Joint positions [rad or m].
    u: Float[np.ndarray, "T nu"]  # Controls, in their units; row t moves q from t to t + 1.
    dt: float  # Sampling period [s].

    def __len__(self) -> int:
        return len(self.q)

    @property
    def duration(self) -> float:
        """Number of samples times dt [s]."""
        return len(self.q) * self.dt


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Recorded joint positions and controls, checked: finite, within range, long enough.

    The rows of all trajectories follow each other in ``q`` and ``u``; ``lengths`` cuts them.
    Nothing may be differentiated or split across a cut.
    """

    channels: Channels
    """What the columns mean; its fields can be read here too, as ``trajectories.dt`` and so on."""
    q: np.ndarray  # [rows, nq]: joint positions [rad or m].
    u: np.ndarray  # [rows, nu]: controls, in their units.
    lengths: np.ndarray  # [N]: samples of each trajectory.
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where this comes from (robot, seed, versions, ...); anything JSON can hold."""
    recordings: tuple[str, ...] = ()
    """[N]: name of the recording that each trajectory is a piece of; left out: "0", "1", ..., each
    its own. Pieces of one recording (cut at a gap, or read at several phases) are alike, so nothing
    may learn from one and be tested on another."""

    def __post_init__(self) -> None:
        for name, dtype in (("q", np.float64), ("u", np.float64), ("lengths", np.int64)):
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "provenance", json.loads(provenance_text(self.provenance)))
        check_samples(self.channels, self.q, self.u, self.lengths)
        object.__setattr__(self, "recordings", checked_names(self.recordings, len(self.lengths)))

    @classmethod
    def load(cls, path: Path | str) -> "Trajectories":
        """Read a recording (see ``genan.data.load``); its time stamps, where it has some, are
        checked against dt.

        Args:
            path: an HDF5 file made by ``genan collect``, ``genan import`` or ``Recorder``.
        """
        from genan.data.hdf5 import load

        return load(path)

    @classmethod
    def from_list(
        cls,
        channels: Channels,
        pairs: Sequence[tuple[np.ndarray, np.ndarray]],
        *,
        provenance: Mapping[str, Any] | None = None,
        recordings: Sequence[str] = (),
    ) -> "Trajectories":
        """From one pair (q [T, nq], u [T, nu]) per trajectory; T may differ between them.

        Args:
            channels: what the columns mean.
            pairs: positions [rad or m] and controls of each trajectory.
            provenance: where this comes from.
            recordings: name of the recording of each trajectory [N]; left out: each is its own.
        """
        for number, (q, u) in enumerate(pairs):
            check_samples(channels, q, u, np.array([len(q)]), numbers=[number])
        return cls(
            channels=channels,
            q=np.concatenate([q for q, _ in pairs]) if pairs else np.zeros((0, channels.nq)),
            u=np.concatenate([u for _, u in pairs]) if pairs else np.zeros((0, channels.nu)),
            lengths=np.array([len(q) for q, _ in pairs], dtype=np.int64),
            provenance=provenance or {},
            recordings=tuple(recordings),
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Trajectories"]) -> "Trajectories":
        """All trajectories of several recordings with the same channels, in order."""
        if not parts:
            raise DataError("There is nothing to concatenate; give at least one recording.")
        first = parts[0].channels.settings()
        for number, part in enumerate(parts):
            mine = part.channels.settings()
            if differing := differences(first, mine, "the first has", "this one"):
                raise DataError(f"Recording {number} (from 0) does not fit the first: {differing}.")
        origins = [part.provenance for part in parts]
        same = all(origin == origins[0] for origin in origins)
        return cls(
            channels=parts[0].channels,
            q=np.concatenate([part.q for part in parts]),
            u=np.concatenate([part.u for part in parts]),
            lengths=np.concatenate([part.lengths for part in parts]),
            provenance=origins[0] if same else {"concatenated": origins},
            recordings=joined_names(
                [part.recordings for part in parts], same_origin=same and bool(origins[0])
            ),
        )

    def __repr__(self) -> str:
        return (
            f"Trajectories({len(self)} trajectories, {len(self.q)} samples at {1 / self.dt:.6g} Hz "
            f"({len(self.q) * self.dt:.4g} s); joints {', '.join(self.joints)}; controls "
            f"{', '.join(self.controls)})"
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: SupportsIndex) -> Trajectory:
        """Trajectory ``index`` as a view, counted from 0 (or from the end when negative)."""
        number = range(len(self))[index]
        rows = slice(self.offsets[number], self.offsets[number + 1])
        return Trajectory(self.q[rows], self.u[rows], self.dt)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[index] for index in range(len(self)))

    @property
    def dt(self) -> float:
        """Sampling period [s]."""
        return self.channels.dt

    @property
    def joints(self) -> tuple[str, ...]:
        """Name of each column of q."""
        return self.channels.joints

    @property
    def joint_units(self) -> tuple[str, ...]:
        """Unit of each column of q, "rad" or "m"."""
        return self.channels.joint_units

    @property
    def controls(self) -> tuple[str, ...]:
        """Name of each column of u."""
        return self.channels.controls

    @property
    def control_units(self) -> tuple[str, ...]:
        """Unit of each column of u."""
        return self.channels.control_units

    @property
    def control_range(self) -> Float[np.ndarray, "2 nu"]:
        """Lowest and highest value each control may take, in its unit."""
        return self.channels.control_range

    @cached_property
    def offsets(self) -> Int[np.ndarray, " cuts"]:
        """Trajectory i occupies the rows ``offsets[i]`` to ``offsets[i + 1] - 1``."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def recording_numbers(self) -> Int[np.ndarray, " N"]:
        """Number of each trajectory's recording, from 0 in the order of first appearance."""
        return recording_numbers(self.recordings)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names, units, dt, lengths, q and u: the same however they are stored."""
        settings = self.channels.settings()
        del settings["control_range"]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for array, dtype in ((self.lengths, "<i8"), (self.q, "<f8"), (self.u, "<f8")):
            digest.update(np.ascontiguousarray(array, dtype=dtype).data)
        return digest.hexdigest()

    def select(self, indices: Sequence[int] | np.ndarray) -> "Trajectories":
        """The trajectories at ``indices`` (counted from 0), in that order, as a copy."""
        chosen = check_indices(indices, len(self))
        rows = rows_of(self.offsets[chosen], self.lengths[chosen])
        names = tuple(self.recordings[index] for index in chosen)
        return Trajectories(
            self.channels, self.q[rows], self.u[rows], self.lengths[chosen], self.provenance, names
        )

    def padded(
        self,
    ) -> tuple[Float[np.ndarray, "N T nq"], Float[np.ndarray, "N T nu"], Bool[np.ndarray, "N T"]]:
        """(q [N, T, nq], u [N, T, nu], mask [N, T]), padded with zeros where the mask is False."""
        mask = np.arange(self.lengths.max()) < self.lengths[:, None]
        q = np.zeros((*mask.shape, self.channels.nq))
        u = np.zeros((*mask.shape, self.channels.nu))
        q[mask], u[mask] = self.q, self.u
        return q, u, mask

    def check_robot(self, robot: Robot) -> None:
        """Refuse a robot with other joints, controls, units or rate, or narrower ranges."""
        self.channels.check_robot(robot)
        try:
            check_samples(Channels.of_robot(robot), self.q, self.u, self.lengths)
        except DataError as error:
            raise DataError(f"Robot {robot.name!r} cannot have recorded this: {error}") from None


# --- Velocities and accelerations from positions, by the differences that a symplectic step ret


@dataclass(frozen=True, eq=False)
class Differences:
    """Motion at every sample that has both neighbours in its trajectory."""

    rows: Int[np.ndarray, " M"]
    """Row of q that each sample here belongs to; M = rows of q minus two for each trajectory."""
    qd: Float[np.ndarray, "M nq"]  # Velocities (q_t - q_{t-1}) / dt [rad/s or m/s].
    qdd: Float[np.ndarray, "M nq"]
    """Accelerations (q_{t+1} - 2 q_t + q_{t-1}) / dt^2 [rad/s^2 or m/s^2]."""


def finite_differences(
    q: Float[np.ndarray, "rows nq"], *, lengths: Int[np.ndarray, " N"], dt: float
) -> Differences:
    """Differentiate positions, never across the boundary of two trajectories.

    With these two definitions the step qd' = qd + dt qdd, q' = q + dt qd' gives back q_{t+1} from
    q_t: the labels retrace the data.

    Args:
        q: positions of all trajectories, one after the other [rows, nq] [rad or m].
        lengths: samples of each trajectory [N], each at least 3.
        dt: sampling period [s].
    """
    shortest = int(lengths.min()) if len(lengths) else 0
    if len(q) != int(lengths.sum()) or shortest < SHORTEST:
        raise DataError(
            f"The lengths of the trajectories must each be at least {SHORTEST} and add up to the "
            f"{len(q)} rows of q; the shortest is {shortest} and they add up to "
            f"{int(lengths.sum())}."
        )
    starts = np.cumsum(lengths) - lengths
    rows = rows_of(starts + 1, lengths - 2)
    step = q[1:] - q[:-1]
    arriving, leaving = step[rows - 1], step[rows]
    return Differences(rows=rows, qd=arriving / dt, qdd=(leaving - arriving) / dt**2)


# --- Training and validation: split by whole recordings, never by sample.


def split(
    trajectories: Trajectories | Sequence[str] | int, *, fraction: float = 0.8, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " held_out"]]:
    """Two lists of trajectory numbers, disjoint and together complete, each in rising order and
    never empty.

    Neighbouring samples of one trajectory are nearly equal, and so are pieces of one recording: a
    split through either would test on what was learnt. All trajectories of a recording are in the
    same list.

    Args:
        trajectories: trajectories, or the name of each one's recording [N], or the number of
            trajectories where each is a recording of its own; at least 2 recordings.
        fraction: part of the recordings in the first list, between 0 and 1 (rounded to whole
            recordings).
        seed: the same seed gives the same split.
    """
    if isinstance(trajectories, int):
        of = np.arange(trajectories)
    else:
        of = recording_numbers(
            trajectories.recordings if isinstance(trajectories, Trajectories) else trajectories
        )
    count = int(of.max(initial=-1)) + 1
    if not 0.0 < fraction < 1.0:
        raise SettingError(f"The fraction to train on must lie between 0 and 1, not {fraction:g}.")
    if count < 2:
        pieces = f" of {len(of)} trajectories" if len(of) > count else ""
        kind = "recordings" if pieces else "trajectories"
        raise DataError(
            f"A split needs at least 2 {kind}, one for each part; there is {count}{pieces}."
        )
    cut = min(max(round(fraction * count), 1), count - 1)
    order = np.random.default_rng(seed).permutation(count)
    first = np.isin(of, order[:cut])
    return np.flatnonzero(first), np.flatnonzero(~first)
