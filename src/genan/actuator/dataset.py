"""What a fit learns from: a recording, checked for whether anything can be learnt from it, split by
trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genan.actuator.architecture import Architecture
from genan.actuator.base_model import friction_terms
from genan.actuator.contract import Contract
from genan.actuator.folds import Unit, folds, rows_of_part
from genan.actuator.history import History
from genan.actuator.samples import Samples, on_device, responses, torque_labels, usable_rows
from genan.actuator.settings import FitSettings
from genan.data import Channels, Trajectories, load, split
from genan.dynamics import Dynamics
from genan.errors import DataError, listing
from genan.robot import Robot

Data = Path | str | Sequence[Path | str] | Trajectories


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples to learn from and samples to select by."""

    channels: Channels
    samples: Samples
    history: History
    """What the networks see, with the terms that the data give."""
    parts: tuple[Int[np.ndarray, "_"], ...]
    """Rows to learn from and rows to select by; or, with folds, the rows of each fold."""
    folded: bool
    """Whether ``parts`` are folds, of which each network leaves out another."""
    units: tuple[tuple[Unit, ...], ...]
    """With folds, the recordings of each; else nothing."""
    cut: bool
    """Whether there were so few recordings that they had to be cut to be folds."""
    validation_trajectories: Int[np.ndarray, " k"]
    """Which trajectories were held out, counted from 0; with folds: all, each by some network."""
    q_seen: Float[np.ndarray, "2 nq"]
    """Lowest and highest positions to learn from [rad or m]."""
    u_seen: Float[np.ndarray, "2 nu"]
    """Lowest and highest controls to learn from."""
    origin: dict[str, Any]
    """Where it comes from, for the record."""

    @property
    def train_rows(self) -> Int[np.ndarray, " n"]:
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
        channels = self.channels
        return Contract(
            robot=robot.name,
            dt=channels.dt,
            joints=channels.joints,
            joint_units=channels.joint_units,
            controls=channels.controls,
            control_units=channels.control_units,
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
) -> Dataset:
    """Load, check, split and prepare.

    Args:
        data: the recording.
        robot: the robot it was made on.
        dynamics: its rigid body.
        settings: of the fit.
        true_torque: instead of the torques of inverse dynamics [N m or N].
        history: what the networks see, where that is known from networks that there are already.
    """
    trajectories, paths = load_all(data)
    trajectories.check_robot(robot)
    channels, lengths = trajectories.channels, trajectories.lengths
    train, held_out = split_usable(trajectories, settings)
    if history is None:
        history = settings.history
        if settings.base in ("parametric", "both"):
            history = replace(history, terms=friction_terms(trajectories, train, channels, history))
    rows = usable_rows(lengths, history, rollout=settings.steps)
    members: tuple[tuple[Unit, ...], ...] = ()
    cut = False
    if settings.folds is None:
        parts = tuple(np.concatenate([rows[k] for k in part]) for part in (train, held_out))
    else:
        members, cut = folds(trajectories, history, count=settings.folds, steps=settings.steps)
        parts = tuple(map(rows_of_part, members))
    _check_amount(sum(map(len, parts[:1] if settings.folds is None else parts)), history, channels)
    q_seen, u_seen = (_seen(x, lengths, train) for x in (trajectories.q, trajectories.u))
    _check_motion(channels, q_seen, u_seen, allow_constant=settings.allow_constant)
    origin = {
        "path": [str(path) for path in paths]
        if len(paths) > 1
        else (str(paths[0]) if paths else None),
        "fingerprint": trajectories.fingerprint,
        "trajectories": len(lengths),
        "trajectories_too_short": int(sum(len(part) == 0 for part in rows)),
        "recordings": len(set(trajectories.recordings)),
        "train_samples": len(parts[0]) if settings.folds is None else sum(map(len, parts)),
        "validation_samples": len(parts[1]) if settings.folds is None else 0,
        "provenance": dict(trajectories.provenance),
    }
    # Double precision goes as soon as it is not needed: at no time there is more than twice the
    # recording in memory.
    u, positions = on_device(trajectories.u), trajectories.q
    del trajectories, data
    tau = (
        torque_labels(positions, lengths, dynamics)
        if true_torque is None
        else on_device(true_torque)
    )
    q = on_device(positions)
    del positions
    closed_form = settings.loss == "position" and true_torque is None
    samples = Samples(q, u, tau, responses(q, dynamics) if closed_form else None)
    folded = settings.folds is not None
    return Dataset(
        channels, samples, history, parts, folded, members, cut, held_out, q_seen, u_seen, origin
    )


def load_all(data: Data) -> tuple[Trajectories, list[Path]]:
    """One recording of all files, and their absolute paths."""
    if isinstance(data, Trajectories):
        return data, []
    paths = [Path(data)] if isinstance(data, Path | str) else [Path(path) for path in data]
    if not paths:
        raise DataError("There is no recording to learn from; give at least one.")
    parts = [load(path) for path in paths]
    return parts[0] if len(parts) == 1 else Trajectories.concatenate(parts), [
        path.resolve() for path in paths
    ]


def split_usable(
    trajectories: Trajectories, settings: FitSettings
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " v"]]:
    """Trajectories to learn from and to select by, of those that are long enough; with folds, all
    are both."""
    history, lengths = settings.history, trajectories.lengths
    shortest = max(history.reach, 1) + 1 + settings.steps
    usable = np.flatnonzero(lengths >= shortest)
    if len(usable) == 0:
        raise DataError(
            f"A history that reaches {history.reach} samples back (length {history.length}, stride {history.stride}, "
            f"delay {history.delay}) and {settings.steps} step(s) ahead need trajectories of at least {shortest} "
            f"samples, but the longest has {int(lengths.max())}; take a shorter history or longer recordings."
        )
    if settings.folds is not None:
        return usable, usable
    names = [trajectories.recordings[k] for k in usable]
    if len(set(names)) == 1:
        raise DataError(
            "There is one recording that is long enough, and validation needs another: record more, cut the "
            f"recording into several trajectories of at least {shortest} samples, or give --choose always."
        )
    train, held_out = split(names, fraction=1.0 - settings.validation, seed=settings.split_seed)
    return usable[train], usable[held_out]


def _check_amount(samples: int, history: History, channels: Channels) -> None:
    inputs = history.inputs(channels.nq, channels.nu)
    if samples < inputs:
        raise DataError(
            f"There are {samples} samples to learn from, fewer than the network's {inputs} inputs; record more, or "
            "take a shorter history."
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
    still = [name for name, low, high in zip(channels.joints, *q, strict=True) if not low < high]
    if still:
        raise DataError(
            f"Joint {listing(still)} never moves in the training data, so nothing can be learnt about it; record "
            "motion of every joint, or take the joint out of the robot's model."
        )
    constant = [
        name for name, low, high in zip(channels.controls, *u, strict=True) if not low < high
    ]
    if constant and not allow_constant:
        raise DataError(
            f"Control {listing(constant)} never changes in the training data, so nothing can be learnt about what it "
            "does; record data that varies it, or give --allow-constant and use the model at this value of it only."
        )
