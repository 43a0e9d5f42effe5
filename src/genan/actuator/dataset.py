"""What a fit learns from: a recording, checked for whether anything can be learnt from it, split by
whole recordings or cut into folds of equal activity that are left out in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genan.actuator.base import friction_terms
from genan.actuator.contract import Contract
from genan.actuator.history import History, Terms
from genan.actuator.network import Scaling
from genan.actuator.samples import Samples, on_device, responses, torque_labels, usable_rows
from genan.actuator.settings import Architecture, FitSettings
from genan.data import Channels, Trajectories, load, split
from genan.dynamics import Dynamics, load_dynamics
from genan.errors import DataError, listing
from genan.robot import Robot

Rows = Int[np.ndarray, " n"]
SomeRows = Int[np.ndarray, "_"]

FEWEST_WHOLE = 3  # Recordings (or kinds of commands) from which on whole ones are left out.

MOST_COMPARED, LOOKED_AT = 300, 200
"""Recordings up to which commands are compared, and samples of each that are."""

ALIKE = 0.1  # Commands that differ by less than this part of their deviation are the same.


@dataclass(eq=False)
class SharedData:
    """A recording in memory that several models are fitted to: read once and labelled once."""

    trajectories: Trajectories
    paths: list[Path]  # Files that it was read from.
    dynamics: Dynamics
    samples: dict[bool, Samples] = field(default_factory=dict)
    """On the device, with responses and without."""
    terms: dict[Any, Terms] = field(default_factory=dict)
    """Of each set of trajectories and each stride."""
    scalings: dict[Any, Scaling] = field(default_factory=dict)
    """Of each history and each set of rows."""

    @classmethod
    def read(cls, data: "Data", robot: Robot) -> "SharedData":
        """Read all files of ``data``, made on ``robot``."""
        trajectories, paths = load_all(data)
        trajectories.check_robot(robot)
        return cls(trajectories, paths, load_dynamics(robot))


Data = Path | str | Sequence[Path | str] | Trajectories | SharedData
"""A recording: one file, several files that are put together, or in memory."""


@dataclass(frozen=True, eq=False)
class FoldUnit:
    """What is never divided: a recording, or a stretch of one where there are too few."""

    name: str
    rows: tuple[SomeRows, ...]  # Rows to learn from or to be judged at, in runs without a gap.

    @property
    def all_rows(self) -> Rows:
        """All of them, one after the other."""
        return np.concatenate(self.rows)


def fold_units(
    trajectories: Trajectories, history: History, *, steps: int, fewest: int
) -> tuple[list[FoldUnit], bool]:
    """What is assigned to folds; and whether recordings had to be cut, being fewer than three.

    Recordings under the same commands, repeated or with another setting of the robot, are one unit:
    left out one by one, each would be judged by a model that has seen its like.

    Args:
        trajectories: the recording.
        history: what a sample needs before it.
        steps: rows that a sample needs after it.
        fewest: stretches that recordings are cut into where they must be, with a gap as long as a
            history between them.
    """
    runs: dict[str, list[np.ndarray]] = {}
    rows_of_each = usable_rows(trajectories.lengths, history, rollout=steps)
    for name, rows in zip(trajectories.recordings, rows_of_each, strict=True):
        if len(rows):
            runs.setdefault(name, []).append(rows)
    whole = [FoldUnit(name, tuple(rows)) for name, rows in runs.items()]
    alike = [
        FoldUnit(
            " and ".join(whole[k].name for k in some),
            tuple(rows for k in some for rows in whole[k].rows),
        )
        for some in same_commands(trajectories, [unit.rows[0] for unit in whole])
    ]
    for found in (alike, whole):
        if len(found) >= FEWEST_WHOLE:
            return found, False
    total = sum(len(rows) for parts in runs.values() for rows in parts)
    gap, found = max(history.reach, 1) + steps, []
    for name, parts in runs.items():
        # Phases and parts of one stretch of time must stay together, so every run is cut at the
        # same shares.
        count = max(1, round(2 * fewest * sum(map(len, parts)) / max(1, total)))
        for k, stretch in enumerate(
            zip(*(np.array_split(rows, count) for rows in parts), strict=True)
        ):
            kept = tuple(rows[gap if k else 0 :] for rows in stretch if len(rows) > gap)
            if kept:
                found.append(FoldUnit(f"{name}, part {k + 1}", kept))
    if len(found) < 2:
        raise DataError(
            f"Cross-validation needs at least 2 recordings, or one of more than {4 * gap} samples "
            "to cut in two; record more, or give --choose never."
        )
    return found, True


def same_commands(trajectories: Trajectories, runs: Sequence[SomeRows]) -> list[list[int]]:
    """Recordings under the same commands together, by number, each given by rows of one run.

    A control that is constant in every recording is a setting, no command.
    """
    u = trajectories.u
    spread = u.std(axis=0)
    looks = [
        u[rows[np.linspace(0, len(rows) - 1, LOOKED_AT).round().astype(int)].astype(np.int64)]
        for rows in runs
    ]
    commands = np.flatnonzero(np.max([look.std(axis=0) for look in looks], axis=0) > 1e-6 * spread)
    if not len(commands) or len(runs) > MOST_COMPARED:
        return [[number] for number in range(len(runs))]
    seen: list[tuple[np.ndarray, list[int]]] = []
    for number, (rows, look) in enumerate(zip(runs, looks, strict=True)):
        mine = look[:, commands] / spread[commands]
        for theirs, members in seen:
            same_length = abs(len(rows) - len(runs[members[0]])) <= 0.02 * len(rows)
            if same_length and float(np.sqrt(((mine - theirs) ** 2).mean())) < ALIKE:
                members.append(number)
                break
        else:
            seen.append((mine, [number]))
    return [members for _, members in seen]


def folds(
    trajectories: Trajectories, history: History, *, count: int, steps: int
) -> tuple[tuple[tuple[FoldUnit, ...], ...], bool]:
    """The units of each of ``count`` folds (or fewer); and whether recordings had to be cut."""
    units, cut = fold_units(trajectories, history, steps=steps, fewest=count)
    parts = assign_folds(activity(trajectories, units), min(count, len(units)))
    return tuple(tuple(units[k] for k in part) for part in parts), cut


def rows_of_fold(fold: Sequence[FoldUnit]) -> Rows:
    """All rows of a fold."""
    return np.concatenate([unit.all_rows for unit in fold])


def assign_folds(activities: Sequence[float], count: int) -> list[list[int]]:
    """Which units make up each of ``count`` folds: in order of activity, there and back."""
    order = np.argsort(-np.asarray(activities), kind="stable").tolist()
    places = [*range(count), *reversed(range(count))]
    parts: list[list[int]] = [[] for _ in range(count)]
    for k, unit in enumerate(order):
        parts[places[k % len(places)]].append(unit)
    return [sorted(part) for part in parts]


def activity(trajectories: Trajectories, units: Sequence[FoldUnit]) -> list[float]:
    """Mean square change of position per sample of each unit, relative to the usual one."""
    q = trajectories.q
    usual = np.diff(q, axis=0).std(axis=0)
    usual = np.where(usual > 0.0, usual, 1.0)
    rows = [unit.all_rows.astype(np.int64) for unit in units]
    return [float((((q[at] - q[at - 1]) / usual) ** 2).mean()) for at in rows]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples to learn from and samples to select by."""

    channels: Channels
    samples: Samples
    history: History  # What the networks see, with the terms that the data give.
    parts: tuple[SomeRows, ...]
    """Rows to learn from and rows to select by; or, with folds, the rows of each fold."""
    folded: bool  # Whether ``parts`` are folds, of which each network leaves out another.
    units: tuple[tuple[FoldUnit, ...], ...]  # With folds, the recordings of each; else nothing.
    cut: bool  # Whether the recordings were too few and had to be cut to be folds.
    validation_trajectories: Int[np.ndarray, " k"]
    """Which trajectories were held out, counted from 0; with folds: all, each by some network."""
    q_seen: Float[np.ndarray, "2 nq"]  # Lowest and highest positions to learn from [rad or m].
    u_seen: Float[np.ndarray, "2 nu"]  # Lowest and highest controls to learn from.
    scaling: Scaling  # Of the samples to learn from.
    origin: dict[str, Any]  # Where it comes from, for the record.

    @property
    def train_rows(self) -> Rows:
        """Rows that some network learns from."""
        return np.concatenate(self.parts) if self.folded else self.parts[0]

    def left_out(self, member: int) -> int:
        """The part that a member does not learn from."""
        return member % len(self.parts) if self.folded else 1

    def learnt(self, member: int) -> list[int]:
        """The parts that a member learns from."""
        return [part for part in range(len(self.parts)) if part != self.left_out(member)]

    def contract(
        self, robot: Robot, architecture: Architecture, *, members: int, loss: str
    ) -> Contract:
        """The contract of networks that learn from this."""
        names = ("dt", "joints", "joint_units", "controls", "control_units")
        return Contract(
            robot=robot.name,
            **{name: getattr(self.channels, name) for name in names},
            history=self.history,
            architecture=architecture,
            members=members,
            loss=loss,
            q_seen=tuple((float(low), float(high)) for low, high in self.q_seen.T),
            u_seen=tuple((float(low), float(high)) for low, high in self.u_seen.T),
        )


def gather(
    data: Data,
    robot: Robot,
    dynamics: Dynamics,
    settings: FitSettings,
    *,
    true_torque: Float[np.ndarray, "rows nq"] | None = None,
    history: History | None = None,
    scaling: Scaling | None = None,
) -> Dataset:
    """Load, check, split and prepare.

    Args:
        data: the recording.
        robot: the robot it was made on.
        dynamics: its rigid body.
        settings: of the fit.
        true_torque: instead of the torques of inverse dynamics [N m or N].
        history: what the networks see, where that is known from networks that exist already.
        scaling: theirs, likewise.
    """
    trajectories, paths = load_all(data)
    trajectories.check_robot(robot)
    shared = data if isinstance(data, SharedData) else SharedData(trajectories, paths, dynamics)
    channels, lengths = trajectories.channels, trajectories.lengths
    train, held_out = split_usable(trajectories, settings)
    if history is None:
        history = settings.history
        if settings.base in ("parametric", "both"):
            key = train.tobytes(), history.stride, bool(history.length)
            if key not in shared.terms:
                shared.terms[key] = friction_terms(trajectories, train, channels, history)
            history = replace(history, terms=shared.terms[key])
    rows = usable_rows(lengths, history, rollout=settings.steps)
    units: tuple[tuple[FoldUnit, ...], ...] = ()
    cut, folded = False, settings.folds is not None
    if settings.folds is None:
        parts = tuple(np.concatenate([rows[k] for k in part]) for part in (train, held_out))
    else:
        units, cut = folds(trajectories, history, count=settings.folds, steps=settings.steps)
        parts = tuple(map(rows_of_fold, units))
    learnt = np.concatenate(parts) if folded else parts[0]
    _check_amount(len(learnt), history, channels)
    q_seen, u_seen = (_seen(x, lengths, train) for x in (trajectories.q, trajectories.u))
    _check_motion(channels, q_seen, u_seen, allow_constant=settings.allow_constant)
    names = [str(path) for path in paths]
    origin = {
        "path": names if len(names) > 1 else names[0] if names else None,
        "fingerprint": trajectories.fingerprint,
        "trajectories": len(lengths),
        "trajectories_too_short": int(sum(len(part) == 0 for part in rows)),
        "recordings": len(set(trajectories.recordings)),
        "train_samples": len(learnt),
        "validation_samples": 0 if folded else len(parts[1]),
        "provenance": dict(trajectories.provenance),
    }
    closed_form = settings.loss == "position" and true_torque is None
    samples = shared.samples.get(closed_form) if true_torque is None else None
    if samples is None:
        # Double precision goes as soon as it is not needed: at no time there is more than twice
        # the recording in memory.
        u, positions = on_device(trajectories.u), trajectories.q
        if data is not shared:
            del trajectories, data, shared.trajectories
        if true_torque is None:
            tau = torque_labels(positions, lengths, dynamics)
        else:
            tau = on_device(true_torque)
        q = on_device(positions)
        del positions
        samples = Samples(q, u, tau, responses(q, dynamics) if closed_form else None)
    if true_torque is None:
        shared.samples[closed_form] = samples
    if scaling is None:
        place = history, learnt.tobytes() if len(learnt) < 1 << 20 else None
        if place not in shared.scalings:
            shared.scalings[place] = Scaling.of_samples(samples, learnt, history)
        scaling = shared.scalings[place]
    return Dataset(
        channels,
        samples,
        history,
        parts,
        folded,
        units,
        cut,
        held_out,
        q_seen,
        u_seen,
        scaling,
        origin,
    )


def load_all(data: Data) -> tuple[Trajectories, list[Path]]:
    """One recording of all files, and their absolute paths."""
    if isinstance(data, SharedData):
        return data.trajectories, data.paths
    if isinstance(data, Trajectories):
        return data, []
    paths = [Path(data)] if isinstance(data, Path | str) else [Path(path) for path in data]
    if not paths:
        raise DataError("There is no recording to learn from; give at least one.")
    parts = [load(path) for path in paths]
    whole = parts[0] if len(parts) == 1 else Trajectories.concatenate(parts)
    return whole, [path.resolve() for path in paths]


def split_usable(
    trajectories: Trajectories, settings: FitSettings
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " v"]]:
    """Trajectories to learn from and to select by, of those that are long enough.

    With folds, all are both.
    """
    history, lengths = settings.history, trajectories.lengths
    shortest = max(history.reach, 1) + 1 + settings.steps
    usable = np.flatnonzero(lengths >= shortest)
    if len(usable) == 0:
        raise DataError(
            f"A history that reaches {history.reach} samples back (length {history.length}, stride "
            f"{history.stride}, delay {history.delay}) and {settings.steps} step(s) ahead need "
            f"trajectories of at least {shortest} samples, but the longest has "
            f"{int(lengths.max())}; take a shorter history or longer recordings."
        )
    if settings.folds is not None:
        return usable, usable
    names = [trajectories.recordings[k] for k in usable]
    if len(set(names)) == 1:
        raise DataError(
            "There is one recording that is long enough, and validation needs another: record "
            f"more, cut the recording into several trajectories of at least {shortest} samples, or "
            "give --choose always."
        )
    train, held_out = split(names, fraction=1.0 - settings.validation, seed=settings.split_seed)
    return usable[train], usable[held_out]


def _check_amount(samples: int, history: History, channels: Channels) -> None:
    inputs = history.inputs(channels.nq, channels.nu)
    if samples < inputs:
        raise DataError(
            f"There are {samples} samples to learn from, fewer than the network's {inputs} inputs; "
            "record more, or take a shorter history."
        )


def _seen(
    x: Float[np.ndarray, "rows n"],
    lengths: Int[np.ndarray, " N"],
    trajectories: Int[np.ndarray, " k"],
) -> Float[np.ndarray, "2 n"]:
    """Lowest and highest value of each column in these trajectories."""
    starts = np.cumsum(lengths) - lengths
    low = np.minimum.reduceat(x, starts, axis=0)[trajectories].min(axis=0)
    high = np.maximum.reduceat(x, starts, axis=0)[trajectories].max(axis=0)
    return np.stack([low, high])


def _check_motion(
    channels: Channels,
    q: Float[np.ndarray, "2 nq"],
    u: Float[np.ndarray, "2 nu"],
    *,
    allow_constant: bool,
) -> None:
    still, constant = (
        [name for name, low, high in zip(names, *seen, strict=True) if not low < high]
        for names, seen in ((channels.joints, q), (channels.controls, u))
    )
    if still:
        raise DataError(
            f"Joint {listing(still)} never moves in the training data, so nothing can be learnt "
            "about it; record motion of every joint, or take the joint out of the robot's model."
        )
    if constant and not allow_constant:
        raise DataError(
            f"Control {listing(constant)} never changes in the training data, so nothing can be "
            "learnt about what it does; record data that varies it, or give --allow-constant and "
            "use the model at this value of it only."
        )
