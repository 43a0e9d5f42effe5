"""Actuators of a real robot from its logs, judged on runs they have not seen: one command per robot.

    python benchmarks/real_logs.py pamy1.npz [--out runs/pamy1]

The log is an ``.npz`` with ``q`` [T, nq] (rad, or m for slides), ``u`` [T, nu], ``dt`` (s), ``traj_start``,
``traj_end`` and, if known, ``traj_name``, ``u_names``, ``traj_kind``, ``traj_meta`` with ``traj_meta_names``; beside it
lies the robot's MJCF model under the same name. ``docs/real-logs.md`` has protocols, settings and results.

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from machine import machine

import genan
from genan.actuator import Ensemble
from genan.actuator.baselines import Arx, Baseline, ConstantVelocity, one_step
from genan.actuator.baselines.arx import ORDERS
from genan.actuator.settings import FitSettings
from genan.compilation import use_cache
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

FEW_RUNS = 20
"""With fewer training runs than this, none of them is given up for validation, where phases can be instead."""

MOST_DECIMATION = 10

NETWORK = "network"

Pair = tuple[np.ndarray, np.ndarray]
"""q [T, nq] and u [T, nu] of one trajectory."""


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
    slides: tuple[str, ...] = ()
    """Joints that are in m."""


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
    left_out: tuple[str, ...] = ()
    """Controls that the model does not get: those that take a value in the test that was never learnt from."""
    mirrored: tuple[str, ...] | None = None
    """Where the mirror image of a motion (-q, and minus these controls) is a motion of the robot too."""
    average: bool = False
    """Whether the mean over the folds says anything; it is then what the floors are for."""
    cut: bool = False
    """Whether runs may be cut into pieces when there are few."""
    floors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """One-step root-mean-square errors to beat, as they came with the data [rad]."""


# --------------------------------------------------------------------------- how a log is split


def last_runs(log: Log) -> list[Fold]:
    """Test on the last fifth of the runs in time (in the order of the file, where names carry no time)."""
    times = [run.time for run in log.runs]
    order = list(range(len(times)))
    if all(moment is not None for moment in times):
        order.sort(key=lambda k: (times[k], k))
    cut = min(max(round((1.0 - TEST_SHARE) * len(order)), 1), len(order) - 1)
    return [Fold("", tuple(order[:cut]), tuple(order[cut:]))]


def last_runs_and_last_hour(log: Log) -> list[Fold]:
    """``last_runs``; and the last hour, learnt from what came before it, where names carry times."""
    found = last_runs(log)
    times = [run.time for run in log.runs]
    if any(moment is None for moment in times):
        return found
    begins = max(times) - datetime.timedelta(hours=1)
    before = tuple(k for k, moment in enumerate(times) if moment < begins)
    after = tuple(k for k, moment in enumerate(times) if moment >= begins)
    return [replace(found[0], name="last-fifth"), Fold("last-hour", before, after)] if before else found


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
                f"without-{quantity}-{value:g}",
                tuple(k for k, other in enumerate(values) if other != value),
                tuple(k for k, other in enumerate(values) if other == value),
            )
            for value in sorted(set(values))
        ]

    return folds


PROTOCOLS = {
    "pamy1": Protocol(
        last_runs_and_last_hour,
        "test: the last 20 % of the episodes in time; then the last hour, learnt from the hour before it",
        {"history_length": 5, "hidden": (128, 128), "batch": 128, "epochs": 60},
        every=1,
        floors={"constant velocity": (0.0021, 0.0020, 0.0069, 0.0074), "ridge ARX": (0.0016, 0.0015, 0.0045, 0.0060)},
    ),
    "double_pendulum": Protocol(
        by_kind("sysid"),
        "learnt: identification runs; test: acrobot swing-ups",
        {"history_length": 7, "hidden": (64, 64), "batch": 64, "epochs": 30},
        every=5,
        floors={"constant velocity": (0.0033, 0.0057), "ridge ARX": (0.0033, 0.0060)},
    ),
    "xl330": Protocol(
        each_held_out("kp_firmware"),
        "each firmware gain in turn is not learnt from and tested on",
        {
            "history_length": 10,
            "hidden": (16,),
            "activation": "softsign",
            "batch": 64,
            "epochs": 80,
            "rate": 3e-3,
            "members": 8,
        },
        every=2,
        left_out=("kp_firmware",),
        mirrored=("goal_position_rad",),
        average=True,
        floors={"constant velocity": (0.0031,), "ridge ARX": (0.0018,)},
    ),
}
"""The documented robots, by the name of the log file; docs/real-logs.md says how the settings were chosen."""

UNKNOWN = Protocol(last_runs, "test: the last 20 % of the runs", cut=True)
"""Any other robot."""


def general_settings(samples: int) -> dict[str, Any]:
    """Settings for a robot that nobody has looked at, by the number of samples to learn from.

    Like those of the documented robots: networks that grow with the log, small batches, about as many steps for every
    log (15 to 80 epochs), and a higher rate where samples are few.
    """
    if samples < 20_000:
        found: dict[str, Any] = {"hidden": (32, 32), "batch": 64, "rate": 3e-3}
    elif samples < 80_000:
        found = {"hidden": (64, 64), "batch": 64}
    else:
        found = {"hidden": (128, 128), "batch": 128}
    epochs = min(max(round(50_000 * found["batch"] / samples), 15), 80)
    return {"history_length": 5, **found, "epochs": epochs}


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
    compiled = compile_model(model, dt=dt)
    joints = joint_names(compiled)
    if len(joints) != q.shape[1] or len(u) != len(q):
        raise DataError(
            f"{path}: q is {list(q.shape)} and u {list(u.shape)}, but they need the same number of rows, and q one "
            f"column for each of the model's {len(joints)} joints ({', '.join(joints)})."
        )
    names = arrays.get("u_names", [f"u{k + 1}" for k in range(u.shape[1])])
    return Log(
        path.stem,
        model.resolve(),
        dt,
        joints,
        tuple(map(str, names)),
        tuple(_runs(path, arrays, q, u)),
        tuple(name for name in joints if compiled.joint(name).type[0] == mujoco.mjtJoint.mjJNT_SLIDE),
    )


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
    return replace(log, runs=tuple(pieces))


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


def robot_toml(log: Log, every: int, *, mirrored: Sequence[str] | None = None) -> str:
    """The description of the robot; ranges are what the whole log covers and a little more."""
    q, u = (np.concatenate([getattr(run, name) for run in log.runs]) for name in ("q", "u"))
    if mirrored is not None:
        q = np.concatenate([q, -q])
        u = np.concatenate([u, u * [-1.0 if name in mirrored else 1.0 for name in log.controls]])
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


def phases(run: Run, every: int) -> list[Pair]:
    """(q, u) of every so many samples, beginning at the first, the second, ..."""
    return [(run.q[k::every], run.u[k::every]) for k in range(every)]


def training_recordings(
    runs: Sequence[Run], every: int, *, shortest: int, mirror: np.ndarray | None = None
) -> tuple[list[Pair], float]:
    """All phases of the runs, in an order in which ``genan fit`` holds out what it should; and its --validation.

    The trajectories that ``genan.data.split`` holds out are known beforehand, so what is to be held out is put there.
    It is whole runs, because phases of one run are nearly equal: of every five runs, ordered by how much they move, the
    second liveliest. Where runs are few, none is given up: it is a fifth of each run instead, of one phase and a
    different fifth in each. With several phases that does not say when to stop; the number of epochs does.

    Args:
        runs: what to learn from.
        every: take every so many samples.
        shortest: samples that a trajectory must have.
        mirror: signs of the controls [nu] of a robot that is its own mirror image; every phase then counts twice, the
            second time with -q and these signs.
    """
    kept = [run for run in runs if len(run.q) // every >= shortest]
    if len(kept) < 2:
        raise DataError(
            f"{len(kept)} of {len(runs)} training runs have the {shortest} samples (after taking every {every}.) that "
            "the history needs, and learning needs two; record longer runs, or more."
        )
    learnt: list[Pair] = []
    held: list[Pair] = []
    if len(kept) < FEW_RUNS and all(len(run.q) // every // 5 >= shortest for run in kept):
        for k, run in enumerate(kept):
            first, *others = phases(run, every)
            parts = _around(first, piece=k % 5)
            held.append(parts.pop(1))
            learnt += [pair for pair in parts if len(pair[0]) >= shortest] + others
    else:
        chosen = _second_liveliest(kept)
        for k, run in enumerate(kept):
            (held if k in chosen else learnt).extend(phases(run, every))
    if mirror is not None:
        held, learnt = (part + [(-q, mirror * u) for q, u in part] for part in (held, learnt))
    total = len(learnt) + len(held)
    share = len(held) / total
    recordings: list[Any] = [None] * total
    places = split(total, fraction=1.0 - share, seed=FitSettings().split_seed)
    for part, where in zip((learnt, held), places, strict=True):
        for pair, place in zip(part, where, strict=True):
            recordings[place] = pair
    return recordings, share


def _around(pair: Pair, *, piece: int) -> list[Pair]:
    """What comes before one fifth of a trajectory, this fifth, and what comes after."""
    count = len(pair[0])
    cuts = [piece * count // 5, (piece + 1) * count // 5]
    return list(zip(*(np.split(x, cuts) for x in pair), strict=True))


def _second_liveliest(runs: Sequence[Run]) -> set[int]:
    """Of every five runs, ordered by how much they move, the second liveliest."""
    liveliness = [float(np.sqrt(np.mean(np.diff(run.q, axis=0) ** 2))) for run in runs]
    order = np.argsort(liveliness, kind="stable")
    count = max(1, round(len(runs) / 5))
    return {int(order[max(0, (k + 1) * len(runs) // count - 2)]) for k in range(count)}


@dataclass(frozen=True, eq=False)
class Converted:
    """One fold on the disk, as a user of ``genan`` would have it."""

    folder: Path
    robot: Path
    train: Path
    test: Path
    settings: dict[str, Any]
    """Fields of ``FitSettings``."""

    @property
    def actuators(self) -> Path:
        """Where the fit goes."""
        return self.folder / "actuators"

    def commands(self, horizon: int) -> list[str]:
        """What to type to do the same by hand."""
        flags = []
        for name, value in self.settings.items():
            flag = "--" + name.replace("_", "-")
            values = value if isinstance(value, tuple) else (value,)
            flags += [flag] if value is True else [flag, *map(str, values)]
        fit = ["genan", "fit", "--data", self.train, "--robot", self.robot, "--out", self.actuators, *flags]
        judge = ["genan", "evaluate", "--actuators", self.actuators, "--data", self.test, "--robot", self.robot]
        return [shlex.join(map(str, command)) for command in (fit, [*judge, "--horizon", horizon])]


def convert(
    log: Log, protocol: Protocol, out: Path, *, overwrite: bool = False, **overrides: Any
) -> list[tuple[Fold, Converted]]:
    """Write robot.toml, train.h5 and test.h5 of every fold below ``out``; ``overrides``: fields of ``FitSettings``."""
    log = _without(cut_up(log) if protocol.cut else log, protocol.left_out)
    every = protocol.every or decimation(log)
    robot_file = out / "robot" / "robot.toml"
    if robot_file.exists() and not overwrite:
        raise DataError(f"{out} holds an earlier run; give another --out, or --overwrite.")
    robot_file.parent.mkdir(parents=True, exist_ok=True)
    robot_file.write_text(robot_toml(log, every, mirrored=protocol.mirrored), encoding="utf-8")
    channels = Channels.of_robot(Robot.load(robot_file))
    found = []
    for fold in protocol.folds(log):
        learnt, test = (tuple(log.runs[k] for k in numbers) for numbers in (fold.train, fold.test))
        samples = sum(len(run.q) for run in learnt)
        settings = {**(protocol.settings or general_settings(samples)), **overrides}
        known = FitSettings(**settings)
        shortest = max(known.history.span, 1) + 1 + known.steps
        mirror = None
        if protocol.mirrored is not None:
            mirror = np.array([-1.0 if name in protocol.mirrored else 1.0 for name in log.controls])
        recordings, share = training_recordings(learnt, every, shortest=shortest, mirror=mirror)
        settings["validation"] = round(share, 6)
        lows, highs = (np.stack([getattr(u, name)(axis=0) for _, u in recordings]) for name in ("min", "max"))
        if (lows.min(axis=0) == highs.max(axis=0)).any():
            settings["allow_constant"] = True
        test = tuple(run for run in test if len(run.q) // every >= shortest)
        if not test:
            raise DataError(f"No test run has the {shortest} samples that the history needs; record longer runs.")
        folder = out / fold.name
        paths = Converted(folder, robot_file, folder / "train.h5", folder / "test.h5", settings)
        origin = {"log": log.name, "every": every, "control": "that of the sample itself"}
        if overwrite:
            for path in (paths.train, paths.test):
                path.unlink(missing_ok=True)
        for path, pairs in ((paths.train, recordings), (paths.test, [phases(run, every)[0] for run in test])):
            write(path, Trajectories.from_list(channels, pairs, provenance={**origin, "part": path.stem}))
        found.append((fold, paths))
    return found


def _without(log: Log, controls: Sequence[str]) -> Log:
    """``log`` less some controls."""
    columns = [k for k, name in enumerate(log.controls) if name not in controls]
    runs = tuple(replace(run, u=run.u[:, columns]) for run in log.runs)
    return replace(log, controls=tuple(log.controls[k] for k in columns), runs=runs)


# --------------------------------------------------------------------------- fitting and judging


@dataclass(frozen=True, eq=False)
class Judged:
    """The errors of every model on the test runs of one fold."""

    fold: str
    one_step: dict[str, np.ndarray]
    """Root mean square [nq] [rad or m], by model."""
    rollout: dict[str, tuple[np.ndarray, int, int]]
    """Mean absolute error at the horizon [nq] [rad or m], diverged rollouts, rollouts; by model."""
    horizon: int
    seconds: tuple[float, float]
    """Fitting and judging [s]."""


def fit_and_judge(fold: Fold, paths: Converted, *, horizon: int, overwrite: bool = False) -> Judged:
    """What ``genan fit`` and ``genan evaluate`` do, and root mean squares of the one-step errors."""
    began = time.perf_counter()
    ensemble = genan.fit(
        paths.train, paths.robot, out=paths.actuators, overwrite=overwrite, progress=_show, **paths.settings
    )
    print(file=sys.stderr)
    fitted = time.perf_counter()
    robot = Robot.load(paths.robot)
    found = evaluate(ensemble, paths.test, robot, name=NETWORK, train=paths.train, horizon=horizon)
    train, test = load(paths.train), load(paths.test)
    trial = plan(test, [ensemble.contract.history.span], horizon=horizon)
    errors = _one_step_errors(ensemble, robot, train, trial)
    judged = time.perf_counter()
    one = {name: np.sqrt(np.mean(error**2, axis=0)) for name, error in errors.items()}
    return Judged(fold.name, one, _rollouts(found), found.horizon, (fitted - began, judged - fitted))


def _one_step_errors(ensemble: Ensemble, robot: Robot, train: Trajectories, trial: Trial) -> dict[str, np.ndarray]:
    """Errors at every row of the trial [n, nq] [rad or m], by model."""
    blocks = step_blocks(ensemble, load_dynamics(robot), trial.trajectories, trial.rows)
    errors = {NETWORK: np.concatenate([np.asarray(block.error[0], np.float64) for block in blocks])}
    orders = sorted({k for k in (*ORDERS, ensemble.contract.history.span) if 1 <= k <= trial.first})
    baselines: tuple[Baseline, ...] = (Arx.fit(train, orders=orders), ConstantVelocity())
    for baseline in baselines:
        predicted = one_step(baseline, trial.trajectories, trial.rows)
        errors[_short(baseline.name)] = predicted - trial.trajectories.q[trial.rows + 1]
    return errors


def _rollouts(found: Evaluation) -> dict[str, tuple[np.ndarray, int, int]]:
    joints = len(found.errors.joints)
    models = (found.errors, *found.baselines)
    return {_short(one.name): (np.asarray(one.curve.mean)[-1, :joints], one.diverged, one.rollouts) for one in models}


def _short(name: str) -> str:
    return name.split(",")[0]


def _show(now: Any) -> None:
    words = f"epoch {now.epoch}/{now.epochs}"
    if now.validation:
        words += f", validation loss {np.mean(now.validation):.4g}"
    if now.seconds_left != float("inf"):
        words += f", {now.seconds_left:.0f} s left"
    print(f"\r{words}        ", end="", file=sys.stderr, flush=True)


# --------------------------------------------------------------------------- telling


def print_tables(log: Log, protocol: Protocol, judged: Sequence[Judged]) -> None:
    """One-step and open-loop errors of each fold, and their means over the folds."""
    for one in judged:
        title = f", {one.fold}" if one.fold else ""
        print(f"\n{log.name}{title}: one step, root mean square [1e-3 rad, 1e-3 m for slides]")
        _print_rms(log.joints, one.one_step, {} if protocol.average else protocol.floors)
        print(f"open loop, mean absolute error after {one.horizon} steps [degrees, mm for slides]")
        for name, (error, diverged, rollouts) in one.rollout.items():
            _row(name, _readable(log, error), f"{diverged} of {rollouts} diverged")
        print("fitted in {:.0f} s, judged in {:.0f} s".format(*one.seconds))
    if protocol.average:
        print(f"\n{log.name}: mean over the {len(judged)} folds, one step, root mean square [1e-3 rad]")
        names = judged[0].one_step
        mean = {name: np.mean([one.one_step[name] for one in judged], axis=0) for name in names}
        _print_rms(log.joints, mean, protocol.floors)


def _print_rms(joints: Sequence[str], found: dict[str, np.ndarray], floors: dict[str, tuple[float, ...]]) -> None:
    print(f"  {'':28}" + "".join(f"{name[:9]:>10}" for name in joints) + f"{'mean':>10}")
    for name, values in found.items():
        _row(name, 1e3 * values, digits=3)
    for name, values in floors.items():
        _row(f"{name} (data/README)", 1e3 * np.asarray(values), digits=3)


def _row(name: str, values: np.ndarray, words: str = "", *, digits: int = 2) -> None:
    numbers = "".join(f"{value:10.{digits}f}" for value in (*values, np.mean(values)))
    print(f"  {name:28}{numbers}  {words}".rstrip())


def _readable(log: Log, error: np.ndarray) -> np.ndarray:
    """Degrees for hinges, millimetres for slides."""
    return error * np.array([1e3 if joint in log.slides else 180.0 / np.pi for joint in log.joints])


def main() -> int:
    """Run it; exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("log", type=Path, help="the .npz; the robot's MJCF lies beside it as .xml")
    parser.add_argument("--out", type=Path, help="folder for everything; left out: runs/ and the log's name")
    parser.add_argument("--overwrite", action="store_true", help="replace what an earlier run left in --out")
    settings = ("history_length", "epochs", "members", "seed")
    for name in settings:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help="instead of the documented one")
    arguments = parser.parse_args()
    overrides = {name: getattr(arguments, name) for name in settings if getattr(arguments, name) is not None}
    overwrite = arguments.overwrite
    use_cache()
    try:
        log = read(arguments.log)
        protocol = PROTOCOLS.get(log.name, UNKNOWN)
        folds = convert(log, protocol, arguments.out or Path("runs") / log.name, overwrite=overwrite, **overrides)
        describe(log, protocol, folds)
        judged = []
        for fold, paths in folds:
            print(f"\nThe same by hand{f', {fold.name}' if fold.name else ''}:")
            print("\n".join(f"  {command}" for command in paths.commands(protocol.horizon)), flush=True)
            judged.append(fit_and_judge(fold, paths, horizon=protocol.horizon, overwrite=overwrite))
    except GenanError as error:
        print(error, file=sys.stderr)
        return 2
    print_tables(log, protocol, judged)
    return 0


def describe(log: Log, protocol: Protocol, folds: Sequence[tuple[Fold, Converted]]) -> None:
    """What was read and how it is split."""
    test = load(folds[0][1].test)
    every = round(test.dt / log.dt)
    print(machine())
    print(
        f"{log.name}: {len(log.runs)} runs, joints {', '.join(test.joints)}, controls {', '.join(test.controls)}, "
        f"{1.0 / log.dt:.4g} Hz"
        + (f", every {every}. sample with its own control: {1.0 / test.dt:.4g} Hz" if every > 1 else "")
    )
    if protocol.mirrored is not None:
        print("learnt from the mirror image of every run too")
    if protocol.left_out:
        print(f"left out, because its value in the test is never learnt from: {', '.join(protocol.left_out)}")
    print(protocol.words)


if __name__ == "__main__":
    sys.exit(main())
