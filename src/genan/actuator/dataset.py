"""What a fit learns from: a recording, checked for whether anything can be learnt from it, split by
whole recordings or cut into folds of equal activity that are left out in turn; and the terms of
``genan.actuator.settings`` that it gives reason for.

``Samples`` are what training wants: on the device, in single precision, with torques and responses.
Histories are gathered from the rows as they are needed, so that a long one costs no memory.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.contract import Contract
from genan.actuator.ensemble import Ensemble, Scaling, pick_rows
from genan.actuator.settings import Architecture, FitSettings, History, Servo, Terms, frozen
from genan.data import Channels, Trajectories, finite_differences, load, split
from genan.data.inspection.measures import is_stiction, measure_sticking
from genan.data.motion import describe_motion
from genan.dynamics import Dynamics, load_dynamics
from genan.errors import DataError, listing, refuse
from genan.robot import Robot

Rows = Int[np.ndarray, " n"]
SomeRows = Int[np.ndarray, "_"]
Numbers = Int[np.ndarray, " _"]
Chosen = tuple[int, ...]
Recorded = Float[np.ndarray, "rows n"]
OnDevice = Float[Array, "rows n"]
Torques = Float[Array, "batch nq"]

FEWEST_WHOLE = 3  # Recordings (or kinds of commands) from which on whole ones are left out.
MOST_COMPARED, LOOKED_AT = 300, 200  # Recordings whose commands are compared, samples of each.
ALIKE = 0.1  # Commands that differ by less than this part of their deviation are the same.
BENDS = (0.02, 0.2)  # Speeds at which friction bends, as parts of each joint's root mean square.
LEAST_ALIKE = 0.2  # Correlation with the position above which a control can be a joint's goal.
BEHIND = (0.0, 0.05, 0.1, 0.2, 0.4)  # How far a position may be behind its goal [s].
MOST_APART = 10.0  # Ratio of the deviations of position and goal up to which it can be one.
MOST_ROWS = 100_000  # Samples that servos are looked for in.
BLOCK = 1 << 17  # Rows that are prepared at once.


class Samples(eqx.Module):
    """All rows of a recording; which of them are samples, ``usable_rows`` says."""

    q: Float[Array, "rows nq"]  # Positions [rad or m].
    u: Float[Array, "rows nu"]  # Controls.
    tau: Float[Array, "rows nq"]  # Torque that retraces the recording [N m or N]; 0 at its ends.
    response: Float[Array, "rows packed"] | None  # dt^2 A(q)^-1 [rad/(N m)], lower triangle.

    def displacement(self, rows: Int[Array | np.ndarray, " batch"], tau: Torques) -> Torques:
        """What torques ``tau`` [N m or N] at ``rows`` add to the next positions [rad or m]:
        dt^2 A^-1 tau, written out over the few joints, not as a batch of tiny matrix products."""
        packed = cast(Array, self.response)[rows]
        entry = lambda i, j: packed[:, max(i, j) * (max(i, j) + 1) // 2 + min(i, j)]
        joints = range(self.q.shape[1])
        return jnp.stack([sum(entry(i, j) * tau[:, j] for j in joints) for i in joints], axis=-1)


def usable_rows(lengths: Numbers, history: History, *, rollout: int = 1) -> list[np.ndarray]:
    """Rows of each trajectory with a whole history, a velocity, and ``rollout`` rows after them."""
    ends = np.cumsum(lengths)
    bounds = zip(ends - lengths + max(history.reach, 1), ends - rollout, strict=True)
    return [np.arange(start, end, dtype=np.int32) for start, end in bounds]


def torque_labels(
    q: Recorded, lengths: Numbers, dynamics: Dynamics, *, dtype: type = np.float32
) -> OnDevice:
    """Torques that retrace ``q`` [rad or m, in double precision] [N m or N]; 0 where none is."""
    tau, size = _aligned(q.shape, dtype), min(BLOCK, 1 << (len(q) - 1).bit_length())
    ends = np.cumsum(lengths)
    cuts = [0, *(np.flatnonzero(np.diff(ends // BLOCK)) + 1).tolist(), len(lengths)]
    for first, last in itertools.pairwise(cuts):  # whole trajectories, of about BLOCK rows
        start, some = int(ends[first] - lengths[first]), lengths[first:last]
        motion = finite_differences(q[start : ends[last - 1]], lengths=some, dt=dynamics.dt)
        for _, places in padded_blocks(len(motion.rows), size):
            at = motion.rows[places] + start
            state = (a.astype(dtype) for a in (q[at], motion.qd[places], motion.qdd[places]))
            tau[at] = np.asarray(_inverse(dynamics, *state))
    if len(wrong := np.flatnonzero(~np.isfinite(tau.sum(axis=1)))):
        raise DataError(
            f"The torque that retraces the recording is not finite in {len(wrong)} rows, first in "
            f"{int(wrong[0])}; check the robot's model, and the recording with 'genan inspect'."
        )
    return jax.device_put(tau)


def responses(q: Float[Array, "rows nq"], dynamics: Dynamics) -> Float[Array, "rows packed"]:
    """Lower triangles of dt^2 A(q)^-1 at every row [rad/(N m)]."""
    (rows, nq), known = q.shape, np.asarray(q)
    packed = _aligned((rows, nq * (nq + 1) // 2), known.dtype.type)
    for _, places in padded_blocks(rows, min(BLOCK, 1 << (rows - 1).bit_length())):
        packed[places] = np.asarray(_triangles(dynamics, known[places]))
    return jax.device_put(packed)


def on_device(array: Recorded, dtype: type = np.float32) -> OnDevice:
    """``array`` in the precision ``dtype`` on the device, without a second copy on the way."""
    copy = _aligned(array.shape, dtype)
    copy[...] = array
    return jax.device_put(copy)


def _aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Zeros at an address that JAX can take over as it is (on the CPU)."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def padded_blocks(count: int, size: int) -> Iterator[tuple[slice, Int[np.ndarray, " size"]]]:
    """0 to ``count`` in blocks: a slice, and places of one size, the last of them repeated."""
    for k in range(0, count, size):
        yield slice(k, min(k + size, count)), np.minimum(np.arange(k, k + size), count - 1)


@partial(jax.jit, static_argnums=0)
def _inverse(dynamics: Dynamics, *state: Array) -> Array:
    return jax.vmap(dynamics.inverse)(*state)


@partial(jax.jit, static_argnums=0)
def _triangles(dynamics: Dynamics, q: Array) -> Array:
    # The derivative of the acceleration by the torque, whatever velocity and torque are, is A^-1.
    inverse, still = jax.jacrev(dynamics.acceleration, argnums=2), jnp.zeros_like(q)
    i, j = np.tril_indices(dynamics.nq)
    return dynamics.dt**2 * jax.vmap(inverse)(q, still, still)[:, i, j]


def sum_over(function: Callable[..., Array], samples: Samples, rows: Rows) -> np.ndarray:
    """Sum of ``function(samples, row)`` over ``rows``, in double precision between blocks."""
    size = min(1 << 15, len(rows))

    @jax.jit
    def block(samples: Samples, rows: Array, count: Array) -> Array:
        values = jax.vmap(lambda row: function(samples, row))(rows)
        return jnp.sum(pick_rows(jnp.arange(size) < count, values, jnp.zeros_like(values)), axis=0)

    total: Any = np.zeros(())
    for part, places in padded_blocks(len(rows), size):
        count = jnp.asarray(part.stop - part.start)
        total = total + np.asarray(block(samples, jnp.asarray(rows[places]), count), np.float64)
    return total


def scale_samples(samples: Samples, rows: Rows, history: History) -> Scaling:
    """Scaling of the samples at ``rows``; what never changes gets the deviation 1."""
    inputs = lambda s, row: history.features(*history.at(s.q, s.u, row), jnp)
    everything = lambda s, row: jnp.concatenate([inputs(s, row), s.tau[row]])
    origin = jax.jit(everything)(samples, jnp.asarray(rows[0]))
    away = lambda s, row: everything(s, row) - origin
    moments = lambda s, row: jnp.stack([away(s, row), away(s, row) ** 2])
    first, second = sum_over(moments, samples, rows) / len(rows)
    std = np.sqrt(np.maximum(second - first**2, 0.0))
    mean, std = first + np.asarray(origin), np.where(std > 0, std, 1.0)
    (mean, middle), (std, size) = (np.split(x, [-samples.q.shape[1]]) for x in (mean, std))
    return Scaling(*(jnp.asarray(x, samples.q.dtype) for x in (mean, std, middle, size)))


@dataclass(eq=False)
class SharedData:
    """A recording in memory that several models are fitted to: read once and labelled once."""

    trajectories: Trajectories
    paths: list[Path]  # Files that it was read from.
    dynamics: Dynamics
    kept: dict[Any, Any] = field(default_factory=dict)  # What was made of it, by what it is of.

    @classmethod
    def read(cls, data: "Data", robot: Robot, dynamics: Dynamics | None = None) -> "SharedData":
        """Read all files of ``data``, made on ``robot``."""
        trajectories, paths = load_all(data)
        trajectories.check_robot(robot)
        return cls(trajectories, paths, load_dynamics(robot) if dynamics is None else dynamics)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made when it is first asked for under this key."""
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]


Data = Path | str | Sequence[Path | str] | Trajectories | SharedData
"""A recording: one file, several files that are put together, or in memory."""


def load_all(data: Data) -> tuple[Trajectories, list[Path]]:
    """One recording of all files, and their absolute paths."""
    if isinstance(data, SharedData):
        return data.trajectories, data.paths
    if isinstance(data, Trajectories):
        return data, []
    paths = [Path(path).resolve() for path in ([data] if isinstance(data, Path | str) else data)]
    if not paths:
        raise DataError("There is no recording to learn from; give at least one.")
    parts = [load(path) for path in paths]
    return parts[0] if len(parts) == 1 else Trajectories.concatenate(parts), paths


Runs = tuple[SomeRows, ...]  # Rows to learn from or to be judged at, each without a gap.


def folds(
    data: Trajectories, history: History, *, count: int, steps: int
) -> tuple[tuple[Runs, ...], bool]:
    """The runs of each of ``count`` folds (or fewer), of equal activity (mean square change of
    position per sample, relative to the usual one); and whether recordings had to be cut.

    A sample needs a history before it and ``steps`` rows after it. A recording is never divided,
    and those under the same commands, repeated or with another setting of the robot, are one unit:
    left out one by one, each would be judged by a model that has seen its like. Fewer than three
    are cut into stretches, with a gap as long as a history between them.
    """
    runs: dict[str, list[np.ndarray]] = {}
    rows_of_each = usable_rows(data.lengths, history, rollout=steps)
    for name, rows in zip(data.recordings, rows_of_each, strict=True):
        if len(rows):
            runs.setdefault(name, []).append(rows)
    whole: list[Runs] = [tuple(rows) for rows in runs.values()]
    alike = same_commands(data, [parts[0] for parts in whole])
    units = [sum((whole[k] for k in some), ()) for some in alike]
    if len(units) < FEWEST_WHOLE:
        units = whole
    cut = len(units) < FEWEST_WHOLE
    if cut:
        units, gap = [], max(history.reach, 1) + steps
        total = sum(len(rows) for parts in runs.values() for rows in parts)
        for parts in whole:
            # Every run is cut at the same shares: what happened together stays together.
            pieces = max(1, round(2 * count * sum(map(len, parts)) / max(1, total)))
            stretches = zip(*(np.array_split(rows, pieces) for rows in parts), strict=True)
            for k, stretch in enumerate(stretches):
                kept = tuple(rows[gap if k else 0 :] for rows in stretch if len(rows) > gap)
                units += [kept] if kept else []
        if len(units) < 2:
            need = f"at least 2 recordings, or one of more than {4 * gap} samples to cut in two"
            raise DataError(f"Cross-validation needs {need}; record more, or give --choose never.")
    q = data.q
    usual = np.diff(q, axis=0).std(axis=0)
    usual = np.where(usual > 0.0, usual, 1.0)
    places = (np.concatenate(unit).astype(np.int64) for unit in units)
    activity = [float((((q[at] - q[at - 1]) / usual) ** 2).mean()) for at in places]
    parts_of_folds = assign_folds(activity, min(count, len(units)))
    return tuple(sum((units[k] for k in part), ()) for part in parts_of_folds), cut


def same_commands(data: Trajectories, runs: Sequence[SomeRows]) -> list[list[int]]:
    """Recordings under the same commands together, by number, each given by rows of one run. A
    control that is constant in every recording is a setting, no command."""
    u = data.u
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


def assign_folds(activities: Sequence[float], count: int) -> list[list[int]]:
    """Which units make up each of ``count`` folds: in order of activity, there and back."""
    order = np.argsort(-np.asarray(activities), kind="stable")
    places = np.resize([*range(count), *reversed(range(count))], len(order))
    return [np.sort(order[places == fold]).tolist() for fold in range(count)]


def find_servos(data: Trajectories) -> tuple[Servo, ...]:
    """The servos among the joints; none where nothing is switched. Their pull is the product of a
    goal, a switch and a gain, which no sum of theirs can say.

    A control of two values, one of them 0, is a switch. One that is positive and constant in each
    trajectory, and not the same in all, is a gain. Of the others, the one that a joint follows best
    is its goal. With as many switches or gains as joints, each joint has its own, in order; else
    every joint has all.
    """
    low, high = (np.stack([bound(one.u, axis=0) for one in data]) for bound in (np.min, np.max))
    u, lowest, highest = _joined([one.u for one in data]), low.min(axis=0), high.max(axis=0)
    moving = lowest < highest
    switch = moving & (lowest == 0.0) & ((u == 0.0) | (u == highest)).all(axis=0)
    gain = moving & (lowest > 0.0) & (low == high).all(axis=0)
    kinds = switch, gain, moving & ~switch & ~gain
    switches, gains, commands = (np.flatnonzero(kind).tolist() for kind in kinds)
    if not commands or not (switches or gains):
        return ()
    joints, found = data.channels.nq, []
    for joint in range(joints):
        own = [(part[joint],) if len(part) == joints else tuple(part) for part in (switches, gains)]
        goal = _goal(data, joint, commands, own[0])
        found += [] if goal is None else [Servo(joint, goal, *own)]
    return tuple(found)


def _goal(data: Trajectories, joint: int, commands: list[int], switches: Chosen) -> int | None:
    """The command that the joint follows best while all switches are on, if it follows any."""
    alike = dict.fromkeys(commands, LEAST_ALIKE)
    for behind in {round(seconds / data.dt) for seconds in BEHIND}:
        q = _joined([one.q[behind:, joint] for one in data])
        u = _joined([one.u[: max(0, len(one.u) - behind)] for one in data])
        on = (u[:, list(switches)] != 0.0).all(axis=1)
        q, u = q[on], u[on]
        for control in commands if len(q) else ():
            spread = q.std(), u[:, control].std()
            if min(spread) > 0.0 and max(spread) < MOST_APART * min(spread):
                correlation = float(np.corrcoef(q, u[:, control])[0, 1])
                alike[control] = max(correlation, alike[control])
    best = max(commands, key=lambda control: alike[control])
    return best if alike[best] > LEAST_ALIKE else None


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of all parts, thinned out evenly where there are very many."""
    every = max(1, -(-sum(map(len, parts)) // MOST_ROWS))
    return np.concatenate([part[::every] for part in parts])


def friction_terms(chosen: Trajectories, history: History) -> Terms:
    """Terms for a robot that moves as in the trajectories ``chosen``."""
    channels = chosen.channels
    friction: tuple[tuple[float, ...], ...] = ()
    sticking: tuple[tuple[int, float], ...] = ()
    if history.length:
        changes = [np.diff(one.q[:: history.stride], axis=0) for one in chosen]
        squares = sum((change**2).sum(axis=0) for change in changes)
        usual = np.sqrt(squares / max(1, sum(map(len, changes))))
        usual = np.where(usual > 0.0, usual, 1.0)
        friction = tuple(tuple(float(f"{bend * one:.6g}") for bend in BENDS) for one in usual)
        sticks = [k for k in range(channels.nq) if is_stiction(*measure_sticking(chosen, k)[:2])]
        sticking = tuple((k, friction[k][-1]) for k in sticks)
    turning = tuple(k for k, unit in enumerate(channels.joint_units) if unit == "rad")
    products = channels.nq, channels.nu
    return Terms(friction, turning, products, find_servos(chosen), sticking)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples to learn from and samples to select by."""

    channels: Channels
    samples: Samples
    history: History  # What the networks see, with the terms that the data give.
    parts: tuple[SomeRows, ...]  # Rows to learn from and to select by; or those of each fold.
    runs: tuple[Runs, ...]  # Of each fold; without folds, nothing.
    cut: bool  # Whether the recordings were too few and had to be cut to be folds.
    validation_trajectories: Numbers  # Which were held out, from 0; with folds, all in turn.
    q_seen: Float[np.ndarray, "2 nq"]  # Lowest and highest positions to learn from [rad or m].
    u_seen: Float[np.ndarray, "2 nu"]  # Lowest and highest controls to learn from.
    scaling: Scaling  # Of the samples to learn from.
    origin: dict[str, Any]  # Where it comes from, for the record.

    @property
    def train_rows(self) -> Rows:
        """Rows that some network learns from."""
        return np.concatenate(self.parts) if self.runs else self.parts[0]

    def left_out(self, member: int) -> int:
        """The part that a member does not learn from."""
        return member % len(self.parts) if self.runs else 1

    def learnt(self, member: int) -> list[int]:
        """The parts that a member learns from."""
        return [part for part in range(len(self.parts)) if part != self.left_out(member)]

    def contract(self, robot: Robot, shape: Architecture, *, members: int, loss: str) -> Contract:
        """The contract of networks that learn from this."""
        names = ("dt", "joints", "joint_units", "controls", "control_units")
        return Contract(
            robot=robot.name,
            **{name: getattr(self.channels, name) for name in names},
            history=self.history,
            architecture=shape,
            members=members,
            loss=loss,
            q_seen=frozen(self.q_seen.T.tolist()),
            u_seen=frozen(self.u_seen.T.tolist()),
        )


def gather(
    data: Data,
    robot: Robot,
    dynamics: Dynamics,
    settings: FitSettings,
    true_torque: Float[np.ndarray, "rows nq"] | None = None,
    start: Ensemble | None = None,
) -> Dataset:
    """Load, check, split and prepare. ``true_torque`` [N m or N] takes the place of inverse
    dynamics; ``start`` are networks that are there already, whose history and scaling are kept."""
    shared = data if isinstance(data, SharedData) else SharedData.read(data, robot, dynamics)
    trajectories = shared.trajectories
    channels, lengths = trajectories.channels, trajectories.lengths
    train, held_out = split_usable(trajectories, settings)
    history = settings.history if start is None else start.contract.history
    if start is None and settings.base in ("parametric", "both"):
        given = "terms", train.tobytes(), history.stride, bool(history.length)
        terms = shared.once(given, lambda: friction_terms(trajectories.select(train), history))
        history = replace(history, terms=terms)
    rows = usable_rows(lengths, history, rollout=settings.steps)
    runs: tuple[Runs, ...] = ()
    cut, parts = False, tuple(np.concatenate([rows[k] for k in part]) for part in (train, held_out))
    if settings.folds is not None:
        runs, cut = folds(trajectories, history, count=settings.folds, steps=settings.steps)
        parts = tuple(map(np.concatenate, runs))
    learnt = np.concatenate(parts) if runs else parts[0]
    bounds, starts = ((np.minimum, np.min), (np.maximum, np.max)), trajectories.offsets[:-1]
    q_seen, u_seen = (
        np.stack([of_all(of_each.reduceat(x, starts)[train], axis=0) for of_each, of_all in bounds])
        for x in (trajectories.q, trajectories.u)
    )
    still, constant = (
        [name for name, low, high in zip(names, *seen, strict=True) if not low < high]
        for names, seen in ((channels.joints, q_seen), (channels.controls, u_seen))
    )
    inputs = history.inputs(channels.nq, channels.nu)
    few = f"There are {len(learnt)} samples to learn from, fewer than the network's {inputs} inputs"
    unmoved = f"Joint {listing(still)} never moves in the training data; record motion of each"
    fixed = f"Control {listing(constant)} never changes in the training data; record it varied"
    only = "or give --allow-constant and use the model at this value of it only."
    refuse(
        (len(learnt) < inputs, f"{few}; record more, or take a shorter history."),
        (still, f"{unmoved}, or take the joint out of the robot's model."),
        (constant and not settings.allow_constant, f"{fixed}, {only}"),
        error=DataError,
    )
    files = [str(path) for path in shared.paths]
    origin = {
        "path": files if len(files) > 1 else next(iter(files), None),
        "fingerprint": trajectories.fingerprint,
        "trajectories": len(lengths),
        "trajectories_too_short": int(sum(len(part) == 0 for part in rows)),
        "recordings": len(set(trajectories.recordings)),
        "train_samples": len(learnt),
        "validation_samples": 0 if runs else len(parts[1]),
        "provenance": dict(trajectories.provenance),
        "motion": shared.once("motion", lambda: describe_motion(trajectories)),
    }
    closed_form = settings.loss == "position" and true_torque is None
    kind = "samples", closed_form, true_torque is None
    samples = shared.kept.get(kind) if true_torque is None else None
    if samples is None:
        # Double precision goes early: at no time more than twice the recording is in memory.
        u, positions = on_device(trajectories.u), trajectories.q
        if data is not shared:
            del trajectories, data, shared.trajectories
        measured = None if true_torque is None else on_device(true_torque)
        tau = torque_labels(positions, lengths, dynamics) if measured is None else measured
        q = on_device(positions)
        del positions
        samples = Samples(q, u, tau, responses(q, dynamics) if closed_form else None)
    shared.kept[kind] = samples
    if start is None:
        key = "scaling", history, learnt.tobytes() if len(learnt) < 1 << 20 else None
        scaling = shared.once(key, lambda: scale_samples(samples, learnt, history))
    else:
        scaling = start.scaling
    split_up = parts, runs, cut, held_out
    return Dataset(channels, samples, history, *split_up, q_seen, u_seen, scaling, origin)


def split_usable(data: Trajectories, settings: FitSettings) -> tuple[Numbers, Numbers]:
    """Long enough trajectories to learn from and to select by; with folds, all are both."""
    history, lengths = settings.history, data.lengths
    shortest = max(history.reach, 1) + 1 + settings.steps
    usable = np.flatnonzero(lengths >= shortest)
    if len(usable) == 0:
        need = f"A history that reaches {history.reach} samples back, {settings.steps} ahead, needs"
        came = f"trajectories of at least {shortest} samples, but the longest has {lengths.max()}"
        raise DataError(f"{need} {came}; take a shorter history or longer recordings.")
    if settings.folds is not None:
        return usable, usable
    names = [data.recordings[k] for k in usable]
    if len(set(names)) == 1:
        one = "There is one recording of enough length, and validation needs another: record more"
        cut = f"cut it into trajectories of at least {shortest} samples"
        raise DataError(f"{one}, {cut}, or give --choose always.")
    train, held_out = split(names, fraction=1.0 - settings.validation, seed=settings.split_seed)
    return usable[train], usable[held_out]
