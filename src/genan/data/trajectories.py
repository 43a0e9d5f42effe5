"""What was recorded, in memory (``Trajectories``), and what its columns mean (``Channels``);
velocities and accelerations by finite differences; splits by whole recordings."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.errors import DataError, SettingError, listing, refuse
from genan.files import flattened
from genan.robot import Robot
from genan.words import plural

LONGEST_NAME = 256  # Of a recording [bytes of UTF-8].
JOINT_UNITS = ("rad", "m")  # Degrees and millimetres are converted before they get here.
DT_TOLERANCE = 1e-6  # Two time steps are the same when they differ by less than this fraction.
SHORTEST = 3  # Samples of the shortest trajectory that has an acceleration.
RANGE_TOLERANCE = 1e-9  # A control may pass its range by this part of it: rounding, not a fault.
NAMES = ("joints", "joint_units", "controls", "control_units")  # Fields of Channels that are texts.

Lengths = Int[np.ndarray, " N"]  # Samples of each trajectory.
Indices = Sequence[int] | np.ndarray  # Trajectories, counted from 0.
Positions = Float[np.ndarray, "rows nq"]
Table = Mapping[str, Any]
Field = TypeVar("Field")


def _of_channels(read: Callable[["Channels"], Field]) -> Field:
    """What can be read of channels, or of trajectories with channels, of its own type."""
    return cast(Field, property(lambda one: read(getattr(one, "channels", one))))


def _are_names(names: Sequence[str]) -> bool:
    return not isinstance(names, str) and all(isinstance(name, str) and name for name in names)


@dataclass(frozen=True, eq=False)
class Channels:
    """The columns of q and u: their order, names and units, and the period they were sampled at."""

    dt: float  # Sampling period [s].
    joints: tuple[str, ...]  # Name of each column of q.
    controls: tuple[str, ...]  # Name of each column of u.
    control_range: np.ndarray  # [2, nu]: lowest and highest value of each control, or infinite.
    joint_units: tuple[str, ...] = ()  # "rad" or "m" for each joint; left out: "rad" for all.
    control_units: tuple[str, ...] = ()  # Of each control, any text; left out: "1" for all.

    nq = _of_channels(lambda channels: len(channels.joints))  # Number of joints.
    nu = _of_channels(lambda channels: len(channels.controls))  # Number of controls.

    def __post_init__(self) -> None:
        dt, bounds = self.dt, np.array(self.control_range, dtype=np.float64)
        if np.ndim(dt) or not np.isreal(dt) or not 0.0 < dt < math.inf:
            raise DataError(f"The period dt must be a positive number of seconds, not {dt!r}.")
        checked: dict[str, Any] = {"dt": float(dt), "control_range": bounds}
        for kind, default in (("joint", "rad"), ("control", "1")):
            names = getattr(self, f"{kind}s")
            units = tuple(getattr(self, f"{kind}_units")) or (default,) * len(names)
            twice = listing(sorted({str(name) for name in names if list(names).count(name) > 1}))
            count = f"{len(names)} {kind}s and {len(units)} {kind} units"
            refuse(
                (not _are_names(names), f"The {kind}s must be a list of names, not {names!r}."),
                (not names, f"There are no {kind}s; a recording needs at least one."),
                (len(set(names)) < len(names), f"The {kind} {twice} is listed twice; rename one."),
                (len(units) != len(names), f"There are {count}; give one each."),
                error=DataError,
            )
            checked |= {f"{kind}s": tuple(names), f"{kind}_units": units}
        if bounds.shape != (2, len(self.controls)):
            expected = f"[2, {len(self.controls)}], lowest then highest of each control"
            raise DataError(f"control_range must be {expected}, not {list(bounds.shape)}.")
        for name, unit in zip(self.joints, checked["joint_units"], strict=True):
            if unit not in JOINT_UNITS:
                raise DataError(f"Joint {name!r} is in {unit!r}; convert it to one of 'rad', 'm'.")
        for name, low, high in zip(self.controls, *bounds, strict=True):
            if not low < high:
                raise DataError(f"Control {name!r} has the range {low:g} to {high:g}: it is empty.")
        bounds.flags.writeable = False
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_robot(cls, robot: Robot) -> "Channels":
        """The channels of a recording of ``robot``."""
        units = [tuple(part.unit for part in parts) for parts in (robot.joints, robot.controls)]
        return cls(robot.dt, robot.joint_names, robot.control_names, robot.u_range, *units)

    def settings(self) -> dict[str, Any]:
        """Everything here as plain lists, texts and numbers, for comparing and hashing."""
        names = {name: list(getattr(self, name)) for name in NAMES}
        return {"dt": self.dt, **names, "control_range": self.control_range.tolist()}

    def check_rate(self, dt: float, *, whose: str) -> None:
        """Refuse another sampling period ``dt`` [s] than this one; ``whose``: for the message."""
        if not math.isclose(dt, self.dt, rel_tol=DT_TOLERANCE):
            mine, theirs = (f"{1.0 / each:.6g} Hz (dt {each:.6g} s)" for each in (self.dt, dt))
            rates = f"the recording is sampled at {mine}, {whose} at {theirs}"
            raise DataError(f"Two rates: {rates}; resample one of the two.")

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units, or another rate."""
        of, theirs = f"robot {robot.name!r}", Channels.of_robot(robot)
        for kind in ("joint", "control"):
            own = [(getattr(x, f"{kind}s"), getattr(x, f"{kind}_units")) for x in (self, theirs)]
            here, there = (dict(zip(*both, strict=True)) for both in own)
            faults = [f"lacks the {kind} {name!r}" for name in there if name not in here]
            faults += [f"has the {kind} {n!r} in addition" for n in here if n not in there]
            if not faults and list(here) != list(there):
                faults = [f"has the {kind}s in the order {listing(here)}"]
            if not faults:
                other = [name for name in there if here[name] != there[name]]
                faults = [f"has {n!r} in {here[n]!r}, not {there[n]!r}" for n in other]
            if faults:
                todo = f"{of} has the {kind}s {listing(there)}: rename, reorder or convert"
                raise DataError(f"The recording {' and '.join(faults)}; {todo} its columns.")
        self.check_rate(robot.dt, whose=of)


def own_names(count: int) -> tuple[str, ...]:
    """``"0", "1", ...``: every trajectory is a recording of its own."""
    return tuple(map(str, range(count)))


def checked_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    """One name for each of ``count`` trajectories, or a refusal; none at all: ``own_names``."""
    counts, are_names = f"{count} trajectories and {len(names)} names", _are_names(names)
    long = [name for name in names if are_names and len(name.encode()) > LONGEST_NAME]
    refuse(
        (not are_names, f"The recordings must be a list of names, not {names!r}."),
        (names and len(names) != count, f"There are {counts} of recordings; give one for each."),
        (long, f"A name has at most {LONGEST_NAME} bytes; {''.join(long)[:40]!r}... has more."),
        error=DataError,
    )
    return tuple(names) or own_names(count)


def check_samples(
    channels: Channels, q: Any, u: Any, lengths: Any, *, numbers: Indices | None = None
) -> None:
    """Refuse what cannot be learnt from, naming trajectory (by its number), sample and channel."""
    both = (("q", q, "joint", channels.joints), ("u", u, "control", channels.controls))
    for name, array, kind, names in both:
        if np.ndim(array) != 2 or array.shape[1] != len(names):
            expected = f"[samples, {len(names)}], one column for each {kind} ({', '.join(names)})"
            raise DataError(f"{name} must be {expected}, not {list(np.shape(array))}.")
    rows, shape = int(np.sum(lengths)), list(np.shape(lengths))
    sizes = f"q has {len(q)} samples, u has {len(u)} and the lengths add up to {rows}."
    refuse(
        (len(shape) != 1, f"The lengths must be one number per trajectory, not of shape {shape}."),
        (shape == [0], "There are zero trajectories; a recording needs at least one."),
        (not len(q) == len(u) == rows, sizes),
        error=DataError,
    )
    called = np.arange(len(lengths)) if numbers is None else np.asarray(numbers)
    shortest = int(np.argmin(lengths))
    if lengths[shortest] < SHORTEST:
        has = f"Trajectory {called[shortest]} (counted from 0) has {lengths[shortest]} samples"
        raise DataError(f"{has}; the shortest that has an acceleration has {SHORTEST}.")

    def first(fault: Bool[np.ndarray, "rows _"]) -> tuple[int, int, str]:
        row, column = (int(axis[0]) for axis in np.nonzero(fault))
        index, sample = place(lengths, row)
        return row, column, f"in trajectory {called[index]} at sample {sample} (counted from 0)"

    for _, array, kind, names in both:
        if not np.isfinite(array).all():
            row, column, where = first(~np.isfinite(array))
            fault = f"{kind.title()} {names[column]!r} is {array[row, column]} {where}"
            raise DataError(f"{fault}; cut the trajectory there or leave it out.")
    lower, upper = channels.control_range
    span = np.where(np.isfinite(upper - lower), upper - lower, 0.0) * RANGE_TOLERANCE
    if (u.min(axis=0) < lower - span).any() or (u.max(axis=0) > upper + span).any():
        row, column, where = first((u < lower - span) | (u > upper + span))
        fault = f"Control {channels.controls[column]!r} is {u[row, column]:.9g} {where}"
        limits = f"outside its range {lower[column]:g} to {upper[column]:g}"
        raise DataError(f"{fault}, {limits}; correct the command or the range.")


def check_indices(indices: Indices, count: int) -> Int[np.ndarray, " M"]:
    """``indices`` as an array, each between 0 and ``count`` - 1, or a refusal."""
    chosen = np.asarray(indices)
    whole = chosen.ndim == 1 and (not chosen.size or np.issubdtype(chosen.dtype, np.integer))
    refuse(
        (not whole, f"Trajectories are chosen by a list of whole numbers, not {indices!r}."),
        (not chosen.size, "Zero trajectories were chosen; choose at least one."),
        error=DataError,
    )
    if len(wrong := chosen[(chosen < 0) | (chosen >= count)]):
        raise DataError(f"There is no trajectory {wrong[0]}; the recording has 0 to {count - 1}.")
    return chosen.astype(np.int64)


def counted(number: int) -> str:
    """``1 trajectory``, ``2 trajectories``."""
    return plural(number, "trajectory", "trajectories")


def place(lengths: np.ndarray, row: int) -> tuple[int, int]:
    """The trajectory that a row belongs to, and the sample there, both counted from 0."""
    number = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
    return number, row - int(np.sum(lengths[:number]))


def rows_of(starts: Int[np.ndarray, " M"], lengths: Int[np.ndarray, " M"]) -> Int[np.ndarray, "_"]:
    """Row numbers ``start, start + 1, ...`` of each trajectory, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def provenance_text(provenance: Table) -> str:
    """The provenance as canonical JSON text: keys sorted, so that equal content is equal text."""
    try:
        return json.dumps(dict(provenance), sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"The provenance must be plain texts, numbers, lists: {error}.") from None


def differences(first: Table, second: Table, words: str) -> str:
    """The settings in which two tables differ, or nothing; ``words`` say the two values."""
    one, other = flattened(dict(first)), flattened(dict(second))
    pairs = {key: (one.get(key), other.get(key)) for key in {**one, **other}}
    differing = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    return ", ".join(f"{key} ({words.format(*map(repr, p))})" for key, p in differing.items())


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One uninterrupted recording."""

    q: Float[np.ndarray, "T nq"]  # Joint positions [rad or m].
    u: Float[np.ndarray, "T nu"]  # Controls, in their units; row t moves q from t to t + 1.
    dt: float  # Sampling period [s].

    def __len__(self) -> int:
        return len(self.q)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Recorded joint positions and controls, checked: finite, within range, long enough. The rows
    of all trajectories follow each other in ``q`` and ``u``; ``lengths`` cuts them. Nothing may be
    differentiated or split across a cut."""

    channels: Channels  # What the columns mean; its fields can be read here too.
    q: np.ndarray  # [rows, nq]: joint positions [rad or m].
    u: np.ndarray  # [rows, nu]: controls, in their units.
    lengths: np.ndarray  # [N]: samples of each trajectory.
    provenance: Table = field(default_factory=dict)
    """Where this comes from (robot, seed, versions, ...); anything JSON can hold."""
    recordings: tuple[str, ...] = ()
    """[N]: name of the recording that each trajectory is a piece of; left out: "0", "1", ..., each
    its own. Pieces of one recording (cut at a gap, or read at several phases) are alike, so nothing
    may learn from one and be tested on another."""

    dt = _of_channels(lambda channels: channels.dt)  # Sampling period [s].
    joints = _of_channels(lambda channels: channels.joints)  # Name of each column of q.
    joint_units = _of_channels(lambda channels: channels.joint_units)  # "rad" or "m".
    controls = _of_channels(lambda channels: channels.controls)  # Name of each column of u.
    control_units = _of_channels(lambda channels: channels.control_units)
    control_range = _of_channels(lambda channels: channels.control_range)  # [2, nu]

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
        """Read a recording (see ``genan.data.load``); time stamps in it are checked against dt.

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
        provenance: Table | None = None,
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
        if not pairs:
            raise DataError("There are zero trajectories; a recording needs at least one.")
        q, u = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        lengths = np.array([len(q) for q, _ in pairs])
        return cls(channels, q, u, lengths, provenance or {}, tuple(recordings))

    @classmethod
    def concatenate(cls, parts: Sequence["Trajectories"]) -> "Trajectories":
        """All trajectories of several recordings with the same channels, in order. The same name in
        two of them is the same recording where both come from the same origin, else another one,
        distinguished by its number in ``parts`` ("0/run 1", "1/run 1")."""
        if not parts:
            raise DataError("There is nothing to concatenate; give at least one recording.")
        first, origin = parts[0].channels.settings(), parts[0].provenance
        for number, part in enumerate(parts):
            mine = part.channels.settings()
            if differing := differences(first, mine, "the first has {}, this one {}"):
                raise DataError(f"Recording {number} (from 0) does not fit the first: {differing}.")
        same = all(part.provenance == origin for part in parts)
        columns = zip(*((part.q, part.u, part.lengths) for part in parts), strict=True)
        q, u, lengths = map(np.concatenate, columns)
        provenance = origin if same else {"concatenated": [part.provenance for part in parts]}
        names = [name for part in parts for name in part.recordings]
        distinct = sum(len(set(part.recordings)) for part in parts) == len(set(names))
        if all(part.recordings == own_names(len(part)) for part in parts):
            names = []
        elif not distinct and not (same and origin):
            names = [f"{k}/{name}" for k, part in enumerate(parts) for name in part.recordings]
        return cls(parts[0].channels, q, u, lengths, provenance, tuple(names))

    def __repr__(self) -> str:
        joints, controls = ", ".join(self.joints), ", ".join(self.controls)
        sampled = f"{len(self.q)} samples at {1 / self.dt:.6g} Hz ({len(self.q) * self.dt:.4g} s)"
        what = f"{len(self)} trajectories, {sampled}; joints {joints}; controls {controls}"
        return f"Trajectories({what})"

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: SupportsIndex) -> Trajectory:
        """Trajectory ``index`` as a view, counted from 0 (or from the end when negative)."""
        number = range(len(self))[index]
        rows = slice(self.offsets[number], self.offsets[number + 1])
        return Trajectory(self.q[rows], self.u[rows], self.dt)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[index] for index in range(len(self)))

    @cached_property
    def offsets(self) -> Int[np.ndarray, " cuts"]:
        """Trajectory i occupies the rows ``offsets[i]`` to ``offsets[i + 1] - 1``."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def recording_numbers(self) -> Int[np.ndarray, " N"]:
        """Number of each trajectory's recording, from 0 in the order of first appearance."""
        first = {name: number for number, name in enumerate(dict.fromkeys(self.recordings))}
        return np.array([first[name] for name in self.recordings], dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names, units, dt, lengths, q and u: the same however they are stored."""
        settings = self.channels.settings()
        del settings["control_range"]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for array, dtype in ((self.lengths, "<i8"), (self.q, "<f8"), (self.u, "<f8")):
            digest.update(np.ascontiguousarray(array, dtype=dtype).data)
        return digest.hexdigest()

    def select(self, indices: Indices) -> "Trajectories":
        """The trajectories at ``indices`` (counted from 0), in that order, as a copy."""
        chosen = check_indices(indices, len(self))
        lengths, names = self.lengths[chosen], tuple(self.recordings[index] for index in chosen)
        rows = rows_of(self.offsets[chosen], lengths)
        own = lengths, self.provenance, names
        return Trajectories(self.channels, self.q[rows], self.u[rows], *own)

    def check_robot(self, robot: Robot) -> None:
        """Refuse a robot with other joints, controls, units or rate, or narrower ranges."""
        self.channels.check_robot(robot)
        try:
            check_samples(Channels.of_robot(robot), self.q, self.u, self.lengths)
        except DataError as error:
            raise DataError(f"Robot {robot.name!r} cannot have recorded this: {error}") from None


@dataclass(frozen=True, eq=False)
class Differences:
    """Motion at every sample that has both neighbours in its trajectory."""

    rows: Int[np.ndarray, " M"]  # Row of q of each; M: rows of q minus two for each trajectory.
    qd: Float[np.ndarray, "M nq"]  # Velocities (q_t - q_{t-1}) / dt [rad/s or m/s].
    qdd: Float[np.ndarray, "M nq"]  # (q_{t+1} - 2 q_t + q_{t-1}) / dt^2 [rad/s^2 or m/s^2].


def finite_differences(q: Positions, *, lengths: Lengths, dt: float) -> Differences:
    """Differentiate positions, never across the boundary of two trajectories. With these two
    definitions the step qd' = qd + dt qdd, q' = q + dt qd' gives back q_{t+1} from q_t: the labels
    retrace the data. ``q``: positions of all trajectories, one after the other [rad or m];
    ``lengths``: samples of each, at least 3; ``dt``: sampling period [s]."""
    shortest, total = int(lengths.min()) if len(lengths) else 0, int(lengths.sum())
    if len(q) != total or shortest < SHORTEST:
        must = f"each be at least {SHORTEST} and add up to the {len(q)} rows of q"
        came = f"the shortest is {shortest} and they add up to {total}"
        raise DataError(f"The lengths of the trajectories must {must}; {came}.")
    rows = rows_of(np.cumsum(lengths) - lengths + 1, lengths - 2)
    step = q[1:] - q[:-1]
    arriving, leaving = step[rows - 1], step[rows]
    return Differences(rows=rows, qd=arriving / dt, qdd=(leaving - arriving) / dt**2)


def split(
    trajectories: Trajectories | Sequence[str] | int, *, fraction: float = 0.8, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " held_out"]]:
    """Two lists of trajectory numbers, disjoint and together complete, each in rising order and
    never empty. Neighbouring samples of one trajectory are nearly equal, and so are pieces of one
    recording: a split through either would test on what was learnt. All trajectories of a recording
    are in the same list. ``trajectories`` may also be the name of each one's recording [N], or a
    number of trajectories where each is a recording of its own. ``fraction``: part of the
    recordings, at least 2, in the first list, rounded to whole ones; ``seed``: of the choice."""
    names = own_names(trajectories) if isinstance(trajectories, int) else trajectories
    names = names.recordings if isinstance(names, Trajectories) else names
    recordings = list(dict.fromkeys(names))
    count = len(recordings)
    if not 0.0 < fraction < 1.0:
        raise SettingError(f"The fraction to train on must lie between 0 and 1, not {fraction:g}.")
    if count < 2:
        pieces = f" of {len(names)} trajectories" if len(names) > count else ""
        raise DataError(f"A split needs at least 2 recordings; there is {count}{pieces}.")
    cut = min(max(round(fraction * count), 1), count - 1)
    order = np.random.default_rng(seed).permutation(count)
    chosen = {recordings[number] for number in order[:cut]}
    first = np.array([name in chosen for name in names])
    return np.flatnonzero(first), np.flatnonzero(~first)
