"""Actuators of a real robot from its logs, judged on runs they have not seen: one command per robot.

    python benchmarks/real_logs.py ../shared/data/real/pamy1.npz [--out runs/pamy1]

The log is an ``.npz`` with ``q`` [T, nq] (rad, or m for slides), ``u`` [T, nu], ``dt`` (s), ``traj_start``, ``traj_end``
and, if known, ``traj_name``, ``u_names``, ``traj_kind``, ``traj_meta`` with ``traj_meta_names``; beside it lies the robot's
MJCF model under the same name. ``docs/real-logs.md`` has the protocols, the settings and the results.

Decimation takes every k-th sample with the control of that very sample, which counts as held until the next one. A
training run gives all k phases, each a trajectory of its own; a test run gives phase 0 only.
"""

import argparse
import datetime
import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

import genan
from genan.actuator import Ensemble
from genan.actuator.baselines import Arx, Baseline, ConstantVelocity, one_step
from genan.actuator.baselines.arx import ORDERS
from genan.actuator.settings import FitSettings
from genan.data import Channels, Trajectories, inspect, load, split, write
from genan.dynamics import load_dynamics
from genan.errors import DataError, GenanError
from genan.evaluation import Evaluation, evaluate
from genan.evaluation.predictions import step_blocks
from genan.evaluation.trial import Trial, plan
from genan.robot import Robot
from genan.robot.model import compile_model, joint_names

TEST_SHARE = 0.2
"""Part of the runs that is kept for the test, unless the protocol says otherwise: the last ones."""

FEWEST_RUNS = 10
"""A log of fewer runs is cut into pieces until there are about as many, where the protocol does not name its runs."""

MOST_DECIMATION = 10


@dataclass(frozen=True, eq=False)
class Run:
    """One trajectory of a log."""

    name: str
    q: np.ndarray
    """[T, nq] [rad or m]"""
    u: np.ndarray
    """[T, nu]"""
    kind: str = ""
    meta: dict[str, float] = field(default_factory=dict)

    @property
    def time(self) -> datetime.datetime | None:
        """When it was recorded, where the name says so."""
        digits = re.search(r"(\d{4})-?(\d\d)-?(\d\d)[-_T ](\d\d)[h:-]?(\d\d)[m:-]?(\d\d)", self.name)
        try:
            return None if digits is None else datetime.datetime(*map(int, digits.groups()))
        except ValueError:
            return None


@dataclass(frozen=True, eq=False)
class Log:
    """A log file as it is, not decimated."""

    name: str
    model: Path
    """The MJCF file beside it."""
    dt: float
    """[s]"""
    joints: tuple[str, ...]
    controls: tuple[str, ...]
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Fold:
    """Which runs are learnt from and which are judged by."""

    name: str
    train: tuple[int, ...]
    test: tuple[int, ...]


@dataclass(frozen=True)
class Protocol:
    """What is done with a log."""

    folds: Callable[[Log], list[Fold]]
    words: str
    """The split, for the reader."""
    settings: dict[str, Any] | None = None
    """Fields of ``FitSettings``; None: by the amount of data."""
    every: int | None = None
    """Take every so many samples; None: all, unless the encoder is too coarse for that."""
    horizon: int = 50
    """Steps of the open-loop rollouts."""
    cut: bool = False
    """Whether runs may be cut into pieces when there are few."""
    floors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """One-step root-mean-square errors to beat, as ../shared/data/README.md gives them [rad]."""


# --------------------------------------------------------------------------- how a log is split


def last_runs(log: Log) -> list[Fold]:
    """Test on the last fifth of the runs in time (in the order of the file, where names carry no time)."""
    times = [run.time for run in log.runs]
    order = list(range(len(times)))
    if all(moment is not None for moment in times):
        order.sort(key=lambda k: (times[k], k))
    cut = min(max(round((1.0 - TEST_SHARE) * len(order)), 1), len(order) - 1)
    return [Fold("", tuple(order[:cut]), tuple(order[cut:]))]


def by_kind(train: str) -> Callable[[Log], list[Fold]]:
    """Learn from the runs of kind ``train``, test on all others."""

    def folds(log: Log) -> list[Fold]:
        mine = tuple(k for k, run in enumerate(log.runs) if run.kind == train)
        others = tuple(k for k, run in enumerate(log.runs) if run.kind != train)
        if not mine or not others:
            kinds = sorted({run.kind for run in log.runs})
            raise DataError(f"The split needs runs of the kind {train!r} and others; the log has the kinds {kinds}.")
        return [Fold("", mine, others)]

    return folds


def each_held_out(quantity: str) -> Callable[[Log], list[Fold]]:
    """One fold for each value of a run's ``quantity``: that value is not learnt from."""

    def folds(log: Log) -> list[Fold]:
        values = [run.meta.get(quantity) for run in log.runs]
        if None in values or len(set(values)) < 2:
            raise DataError(f"The split needs traj_meta {quantity!r} with at least two values; it has {set(values)}.")
        return [
            Fold(
                f"{quantity}-{value:g}",
                tuple(k for k, other in enumerate(values) if other != value),
                tuple(k for k, other in enumerate(values) if other == value),
            )
            for value in sorted(set(values))
        ]

    return folds


PROTOCOLS = {
    "pamy1": Protocol(
        last_runs,
        "test: the last 20 % of the episodes in time",
        dict(history_length=5),
        every=1,
        floors={"constant velocity": (0.0021, 0.0020, 0.0069, 0.0074), "ridge ARX": (0.0016, 0.0015, 0.0045, 0.0060)},
    ),
    "double_pendulum": Protocol(
        by_kind("sysid"),
        "learnt: identification runs; test: acrobot swing-ups",
        dict(history_length=5),
        every=5,
        floors={"constant velocity": (0.0033, 0.0057), "ridge ARX": (0.0033, 0.0060)},
    ),
    "xl330": Protocol(
        each_held_out("kp_firmware"),
        "each firmware gain in turn is not learnt from and tested on",
        dict(history_length=5),
        every=2,
        floors={"constant velocity": (0.0031,), "ridge ARX": (0.0018,)},
    ),
}
"""The documented robots, by the name of the log file."""

UNKNOWN = Protocol(last_runs, "test: the last 20 % of the runs", cut=True)
"""Any other robot."""


# --------------------------------------------------------------------------- reading and converting


def read(path: Path | str) -> Log:
    """Read a log and the names of the joints of the model beside it."""
    path = Path(path)
    model = path.with_suffix(".xml")
    for needed in (path, model):
        if not needed.is_file():
            raise DataError(
                f"There is no {needed}; a log is an .npz with the robot's MJCF beside it, of the same name."
            )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as an .npz without pickles: {error}") from None
    missing = [name for name in ("q", "u", "dt", "traj_start", "traj_end") if name not in arrays]
    if missing:
        raise DataError(f"{path} lacks the arrays {missing}; it has {sorted(arrays)}.")
    q, u = (np.asarray(arrays[name], np.float64) for name in ("q", "u"))
    q, u = (x[:, None] if x.ndim == 1 else x for x in (q, u))
    dt = float(arrays["dt"])
    joints = joint_names(compile_model(model, dt=dt))
    if len(joints) != q.shape[1] or len(u) != len(q):
        raise DataError(
            f"{path}: q is {list(q.shape)} and u {list(u.shape)}, but they need the same number of rows, and q one "
            f"column for each of the model's {len(joints)} joints ({', '.join(joints)})."
        )
    names = arrays.get("u_names", [f"u{k + 1}" for k in range(u.shape[1])])
    return Log(path.stem, model.resolve(), dt, joints, tuple(map(str, names)), tuple(_runs(path, arrays, q, u)))


def _runs(path: Path, arrays: dict[str, np.ndarray], q: np.ndarray, u: np.ndarray) -> list[Run]:
    starts, ends = (np.atleast_1d(arrays[name]).astype(int) for name in ("traj_start", "traj_end"))
    if (
        len(starts) != len(ends)
        or not len(starts)
        or (starts < 0).any()
        or (ends > len(q)).any()
        or (ends <= starts).any()
    ):
        raise DataError(f"{path}: traj_start and traj_end do not cut the {len(q)} rows into trajectories.")
    names = arrays.get("traj_name", np.arange(len(starts)))
    kinds = arrays.get("traj_kind", np.full(len(starts), ""))
    columns = [str(name) for name in arrays.get("traj_meta_names", [])]
    meta = arrays.get("traj_meta", np.zeros((len(starts), 0)))
    return [
        Run(str(name), q[start:end], u[start:end], str(kind), dict(zip(columns, map(float, row), strict=False)))
        for start, end, name, kind, row in zip(starts, ends, names, kinds, meta, strict=True)
    ]


def cut_up(log: Log) -> Log:
    """``log`` with its runs cut into equal pieces, in order, when there are too few to split."""
    if len(log.runs) >= FEWEST_RUNS // 2:
        return log
    total = sum(len(run.q) for run in log.runs)
    pieces = []
    for run in log.runs:
        count = max(1, round(FEWEST_RUNS * len(run.q) / total))
        parts = zip(np.array_split(run.q, count), np.array_split(run.u, count), strict=True)
        pieces += [Run(f"{run.name} part {k + 1}", q, u, run.kind, run.meta) for k, (q, u) in enumerate(parts)]
    return Log(log.name, log.model, log.dt, log.joints, log.controls, tuple(pieces))


def decimation(log: Log) -> int:
    """1, or the fewest samples in which every joint moves (in the root mean square) by a step of its encoder."""
    runs = [(run.q, run.u) for run in log.runs if len(run.q) >= 3]
    joints = inspect(Trajectories.from_list(_channels(log, 1), runs)).joints
    for every in range(1, MOST_DECIMATION + 1):
        motion = np.concatenate([run.q[every:] - run.q[:-every] for run in log.runs])
        size = np.sqrt(np.mean(motion**2, axis=0))
        if all(joint.quantum is None or moved >= joint.quantum for joint, moved in zip(joints, size, strict=True)):
            return every
    return 1


def robot_toml(log: Log, every: int) -> str:
    """The description of the robot; ranges are what the whole log covers and a little more."""
    q, u = (np.concatenate([getattr(run, name) for run in log.runs]) for name in ("q", "u"))
    lines = [
        f"name = {json.dumps(log.name)}",
        f"model = {json.dumps(str(log.model), ensure_ascii=False)}",
        f"dt = {log.dt * every!r}",
    ]
    for kind, names, values in (("joints", log.joints, q), ("controls", log.controls, u)):
        for name, column in zip(names, values.T, strict=True):
            low, high = _widened(column)
            lines += ["", f"[[{kind}]]", f"name = {json.dumps(name)}", f"range = [{low!r}, {high!r}]"]
    return "\n".join(lines) + "\n"


def _widened(values: np.ndarray) -> tuple[float, float]:
    """Lowest and highest value and 5 % of what lies between; a constant gets room on both sides."""
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or max(1e-3, 0.05 * abs(low))
    return low - margin, high + margin


def _channels(log: Log, every: int) -> Channels:
    bounds = np.array([_widened(column) for column in np.concatenate([run.u for run in log.runs]).T]).T
    return Channels(dt=log.dt * every, joints=log.joints, controls=log.controls, control_range=bounds)


def phases(run: Run, every: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(q, u) of every so many samples, beginning at the first, the second, ..."""
    return [(run.q[k::every], run.u[k::every]) for k in range(every)]


def training_recordings(
    runs: Sequence[Run], every: int, *, shortest: int, mirror: np.ndarray | None = None
) -> tuple[list[tuple[np.ndarray, np.ndarray]], float]:
    """All phases of all runs, in an order in which ``genan fit`` holds out whole runs; and its --validation.

    Phases of one run are nearly equal: validating on one of them while learning from another would say nothing. The
    trajectories that ``genan.data.split`` holds out are known beforehand, so the phases of the runs to hold out are put
    there. Of every five runs, ordered by how much they move, the second liveliest is held out.

    Args:
        runs: what to learn from.
        every: take every so many samples.
        shortest: samples that a trajectory must have.
        mirror: signs of the controls [nu] of a robot that is its own mirror image; each run then counts twice, the
            second time with -q and these signs.
    """
    kept = [run for run in runs if len(run.q) // every >= shortest]
    if len(kept) < 2:
        raise DataError(
            f"{len(kept)} of {len(runs)} training runs have the {shortest} samples (after taking every {every}.) that "
            "the history needs, and learning needs two; record longer runs, or more."
        )
    liveliness = [float(np.sqrt(np.mean(np.diff(run.q, axis=0) ** 2))) for run in kept]
    order = np.argsort(liveliness, kind="stable")
    count = max(1, round(len(kept) / 5))
    held = {int(order[max(0, (k + 1) * len(kept) // count - 2)]) for k in range(count)}
    parts: tuple[list, list] = ([], [])
    for k, run in enumerate(kept):
        pairs = phases(run, every)
        parts[k in held].extend(pairs + ([] if mirror is None else [(-q, mirror * u) for q, u in pairs]))
    total = len(parts[0]) + len(parts[1])
    share = len(parts[1]) / total
    recordings: list[Any] = [None] * total
    places = split(total, fraction=1.0 - share, seed=FitSettings().split_seed)
    for part, where in zip(parts, places, strict=True):
        for pair, place in zip(part, where, strict=True):
            recordings[place] = pair
    return recordings, share
