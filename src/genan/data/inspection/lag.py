"""How long after a command the joints accelerate: the delay between u and what it does, in whole
samples.

For every candidate delay a joint's second difference is predicted linearly from its own past and
from the commands of that age, and the delay at which least is left unexplained is the lag. Its past
represents what inertia, springs and friction do; whether a command is a position, a speed, a torque
or a pressure that becomes a torque slowly is found out by trying each (``STRUCTURES``): the
simplest that explains as much as the others counts.

Positions carry noise, so their past is not used as it is, but as far as commands explain it
(instrumental variables): everything is projected onto the commands of the last second. Noise has no
part in that; a fit to noisy positions would find the delay of its own errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from genan.data.inspection.measures import joint_quanta, measure_resolution
from genan.data.trajectories import Trajectories

ROWS, FEWEST = 4_000, 150  # Rows the regression looks at, and fewest that show a lag.
MEMORY, WIDEST = 1.0, 0.05  # Age of the oldest instruments, and the longest average of them [s].
INSTRUMENTS = 150  # This many, at most, resolve the delays looked for.
#: Part of the second difference that a linear model may miss without being called wrong.
MODEL_ERROR = 0.01
_SAMPLES = 40_000  # Rows of the trajectories that are looked at, about.
_CLEAR = 3.0  # Motion over the stride of the regression is at least this many quanta.
_STRIDES = 0.006, 0.02  # Shortest and longest stride of the regression [s].
_SHIFTS = 3  # Shifts of the joint against its commands that show what chance explains.
#: What commands explain must be this many times what shifted ones explain at best, and this much.
_ABOVE_CHANCE, _LEAST = 2.0, 0.05
#: A delay counts only where the model explains this part of what the joints' past leaves open.
_CERTAIN = 0.8
_RULED_OUT = 8.0  # What rules a delay out: so much worse than the best, in units of the noise.
_RANGE, _RANGE_SAMPLES = 0.015, 3  # Widest range of delays that may be left [s], and in samples.

Quanta = Sequence[float | None]  # Smallest step of each encoder, where it has one [rad or m].
Rows = Int[np.ndarray, " rows"]
Positions = Float[np.ndarray, "samples nq"]
Position = Float[np.ndarray, " samples"]
Columns = Float[np.ndarray, "rows columns"]
Delays = Float[np.ndarray, " delays"]  # A number for each delay.
Taps = Float[np.ndarray, "some instruments taps"]


@dataclass(frozen=True)
class JointLag:
    """What commands do to one joint, and when."""

    joint: str
    steps: int | None = None  # Samples from a command to its acceleration; None: unknown.
    lowest: int = 0
    highest: int = 0  # Range of delays that the data does not rule out [samples].
    control: str | None = None  # That with the strongest effect on this joint; None: none is seen.
    #: Part that commands explain of what the past leaves open, at the best delay.
    explained: float = 0.0
    chance: float = 0.0  # The same for commands of another time, at their best.
    delays: tuple[int, ...] = ()  # Delays that were tried [samples].
    curve: tuple[float, ...] = ()  # Part explained at each of them.


@dataclass(frozen=True)
class Lag:
    """The delay between commands and motion."""

    steps: int | None  # For ``genan fit --delay``: the shortest lag of the joints that show one.
    dt: float  # Sampling period [s].
    joints: tuple[JointLag, ...]


def find_lag(trajectories: Trajectories, *, longest: float = 0.25, quanta: Quanta = ()) -> Lag:
    """Find the delay between commands and accelerations, joint by joint, up to ``longest`` [s]. A
    lag of d means that row t of u acts on the acceleration of row t + d; 0: while q moves from row
    t to t + 1. ``quanta``: each encoder's smallest step [rad or m], where known already."""
    quanta = quanta or joint_quanta(trajectories)
    if (every := len(trajectories.q) // _SAMPLES) > 1:  # whole trajectories, spread over all
        trajectories = trajectories.select(np.arange(len(trajectories))[::every])
    shortest, widest = (max(1, round(stride / trajectories.dt)) for stride in _STRIDES)
    prepared, joints = cache(lambda stride: Commands(trajectories, stride, longest)), []
    for column, quantum in enumerate(quanta):
        resolution = measure_resolution(trajectories.q[:, column], trajectories.lengths, quantum)
        clear = resolution.clear_stride(quantum, _CLEAR) or resolution.strides[-1]
        stride = min(max(clear, shortest), widest)
        joints.append(_joint_lag(trajectories, column, prepared(stride), quantum))
    known = [joint.steps for joint in joints if joint.steps is not None]
    return Lag(steps=min(known, default=None), dt=trajectories.dt, joints=tuple(joints))


class Structure(NamedTuple):
    """How commands may act: how often they are integrated before they are a position."""

    degree: int  # 0: a command is a position; 1: a speed; 2: an acceleration; 3: through a lag.
    past: int  # Past positions that count, one stride apart.
    price: float  # By how much it must be better than others, in units of the noise's variance.
    factor: float = 1.0  # How many times better it must be.


#: What moves has mass, so a command that acts as a position or a speed must show it by more than
#: chance does. A lag explains a little of everything: where there is one, the model without it is
#: some 40 times worse, elsewhere hardly 2.
STRUCTURES = tuple(starmap(Structure, ((0, 2, 20.0), (1, 2, 20.0), (2, 2, 0.0), (3, 3, 0.0, 4.0))))
DIRECT = STRUCTURES[2]


def _joint_lag(
    t: Trajectories, column: int, commands: "Commands", quantum: float | None
) -> JointLag:
    q = weighted(t.q, commands.mean)
    response = Response(commands, q, column)
    if not response.bend.any():
        return JointLag(t.joints[column])
    delays = commands.delays
    judged = {one: response.judge(one) for one in STRUCTURES}
    structure = min(STRUCTURES, key=lambda one: one.factor * judged[one][0].min())
    costs, explained = judged[structure]
    direct_costs, direct = judged[DIRECT]
    best, peak, last = int(np.argmin(costs)), int(np.argmin(direct_costs)), len(delays) - 1
    chance = {DIRECT: 0.0, structure: 0.0}
    for part in np.linspace(0.2, 0.8, _SHIFTS):
        moved = Response(commands, q, column, round(len(commands.rows) * part))
        chance = {one: max(chance[one], float(moved.judge(one)[1].max())) for one in chance}
    misfit = max(1.0, float(costs[best]) / len(response.bend))
    left = np.maximum(0, delays[costs < costs[best] + _RULED_OUT * misfit])
    lowest, highest = int(left.min()), int(left.max())
    seen = direct.max() > max(_LEAST, _ABOVE_CHANCE * chance[DIRECT])
    certain = explained[best] > max(_CERTAIN, chance[structure]) and best < last
    narrow = highest - lowest <= max(_RANGE_SAMPLES, round(_RANGE / t.dt))
    known = bool(seen and certain and narrow)
    if (copied := _copied(commands, t.q[:, column], quantum)) is not None:
        known, best, lowest, highest = True, copied, *[int(max(0, delays[copied]))] * 2
    curve = explained if known else direct
    return JointLag(
        t.joints[column], max(0, int(delays[best])) if known else None, lowest, highest,
        control=t.controls[response.strongest(peak)] if seen and peak < last else None,
        explained=float(curve.max()), chance=chance[structure if known else DIRECT],
        delays=tuple(delays.tolist()), curve=tuple(curve.tolist()),
    )  # fmt: skip


class Commands:
    """The commands of a recording, prepared once for all joints looked at with one stride.
    ``rows``: samples whose position is predicted; none where there is too little to look at (short
    trajectories, no commands). ``moving``: columns of the controls that change, ``raw``: these
    controls, standardised [samples, moving]. ``instruments`` are orthonormal [rows, instruments].
    ``taps``: for every degree of integration the commands that act, at every delay [rows, taps],
    and their projection onto the instruments [instruments, taps]."""

    def __init__(self, trajectories: Trajectories, stride: int, longest: float) -> None:
        lengths, dt = trajectories.lengths, trajectories.dt
        self.stride, self.rows = stride, np.zeros(0, np.int64)
        self.mean = np.full(stride, 1.0 / stride)
        usable = int(np.quantile(lengths, 0.5))
        furthest = min(round(longest / dt), usable // 4)
        memory = min(round(MEMORY / dt) + furthest, usable // 2)
        reach = max(memory, furthest + 6 * stride) + 10 * stride
        enough = lengths > reach
        moving = np.flatnonzero(np.ptp(trajectories.u, axis=0) > 0.0)
        if int((lengths[enough] - reach).sum()) < FEWEST or not len(moving):
            return
        first, last = trajectories.offsets[:-1][enough] + reach, trajectories.offsets[1:][enough]
        rows = np.concatenate([np.arange(a, b, stride) for a, b in zip(first, last, strict=True)])
        rows = rows[:: max(1, len(rows) // ROWS)]
        u = trajectories.u[:, moving]
        deviation = u[rows].std(axis=0)
        keep = deviation > 1e-12 * np.abs(u).max(axis=0)
        if len(rows) < FEWEST or not keep.any():
            return
        self.rows, self.moving, self.delays = rows, moving[keep], np.arange(-1, furthest + 1)
        self.raw = (u[:, keep] - u[rows][:, keep].mean(axis=0)) / deviation[keep]
        # averaged over a stride once, twice, ...: what a degree of integration makes of commands
        splines = [weighted(self.raw, self.mean)]
        for _ in range(3):
            splines.append(weighted(splines[-1], self.mean))
        # a command is held for a whole sample
        for degree, weights in ((2, (0.5, 0.5)), (3, (1 / 6, 4 / 6, 1 / 6))):
            splines[degree] = weighted(splines[degree], weights)
        # instruments: averages of commands, the older the wider
        fine, sums, columns = furthest + 4 * stride, np.cumsum(splines[0], axis=0), []
        place, width = 0.0, float(max(1, fine * len(keep) // INSTRUMENTS))
        while place + width <= memory:
            youngest, wide = rows - 1 - round(place), max(1, round(width))
            columns.append((sums[youngest] - sums[youngest - wide]) / wide)
            place += width
            if place >= fine:
                width = min(1.3 * max(width, stride), max(stride, WIDEST / dt))
        self.instruments = orthonormal(np.column_stack([np.ones(len(rows)), *columns]))
        ages = (rows - 1)[:, None] - self.delays
        values = [spline[ages].reshape(len(rows), -1) for spline in splines]
        self.taps = [(acting, self.instruments.T @ acting) for acting in values]


class Response:
    """One joint's second difference at a stride and its past, projected onto the instruments.
    ``q``: averaged over a stride; ``shift``: rows away from the commands, to see chance. ``own``:
    further, orthogonal instruments, the joints' older past; ``noise``: variance of one sample that
    no model has to explain."""

    def __init__(self, commands: Commands, q: Positions, column: int, shift: int = 0) -> None:
        rows, s, joint = np.roll(commands.rows, shift), commands.stride, q[:, column]
        bend = joint[rows] - 2.0 * joint[rows - s] + joint[rows - 2 * s]
        speed = float(np.linalg.norm(joint[rows] - joint[rows - s]) / max(1, len(rows)) ** 0.5)
        self.commands, self.bend = commands, np.zeros(0)
        if not (speed > 0.0 and bend.any()):
            return
        motion = np.column_stack([features(q, column, rows - s, s, speed), bend])
        # noise of a sample has no part in samples that are older than those it is in
        own = np.hstack([features(q, column, rows - back * s, s, speed) for back in (4, 5)])
        shared = commands.instruments
        own = own / np.sqrt((own**2).sum(axis=0) + 1e-300)
        own = self.own = orthonormal(own - shared @ (shared.T @ own), rank=1e-9)
        rest = motion - shared @ (shared.T @ motion) - own @ (own.T @ motion)
        basis = orthonormal(rest[:, :-1], rank=1e-12)
        left = rest[:, -1] - basis @ (basis.T @ rest[:, -1])
        free = max(1, len(rows) - shared.shape[1] - own.shape[1] - basis.shape[1])
        self.noise = max(float((left**2).sum()) / free, MODEL_ERROR**2 * float(np.mean(bend**2)))
        both = np.vstack([shared.T @ motion, own.T @ motion])
        self.bend, self.past = both[:, -1], both[:, :-1]

    def taps(self, degree: int) -> Taps:
        """The commands that act, at every delay, projected."""
        values, shared = self.commands.taps[degree]
        both = np.vstack([shared, self.own.T @ values])
        both = both.reshape(len(both), len(self.commands.delays), -1)
        return np.ascontiguousarray(np.moveaxis(both, 1, 0))

    def left(self, structure: Structure, taps: Taps) -> Delays:
        """Sum of squares that past and taps leave, in units of the noise's variance."""
        past = orthonormal(self.past[:, : self.past.shape[1] - 3 + structure.past], rank=1e-10)
        bend = self.bend - past @ (past.T @ self.bend)
        taps = taps / np.sqrt((taps**2).sum(axis=1, keepdims=True) + 1e-300)
        return unexplained(bend, taps - past @ (past.T @ taps), 1e-10) / self.noise

    def judge(self, structure: Structure) -> tuple[Delays, Delays]:
        """At each delay what a structure leaves, its price added, in units of the noise's variance,
        and the part that commands explain of what the joints' past leaves open."""
        taps = self.taps(structure.degree)
        left, alone = self.left(structure, taps), self.left(structure, taps[:1, :, :0])
        parameters = structure.past + len(self.commands.moving)
        price = parameters * float(np.log(len(self.commands.rows))) + structure.price
        return left + price, (alone - left) / np.maximum(alone, 1e-300)

    def strongest(self, delay: int) -> int:
        """The control that explains most on its own, as a column of u; ``delay``: its index."""
        taps = self.taps(DIRECT.degree)[delay : delay + 1]
        left = [self.left(DIRECT, taps[:, :, [k]])[0] for k in range(taps.shape[2])]
        return int(self.commands.moving[int(np.argmin(left))])


def features(q: Positions, column: int, rows: Rows, stride: int, speed: float) -> Columns:
    """What a joint's acceleration may depend on: position, speed, gravity, friction, a lag."""
    joint, others, before = q[:, column], np.delete(q, column, axis=1), rows - stride
    here, step = joint[rows], joint[rows] - joint[before]
    smooth = np.ones(len(rows)), here - here.mean(), step, np.sin(here), np.cos(here)
    friction = np.abs(step) * step / speed, np.tanh(step / (0.2 * speed)) * speed
    coupling = others[rows] - others[rows].mean(axis=0), others[rows] - others[before]
    older = joint[before] - joint[before - stride]
    return np.column_stack([*smooth, *friction, *coupling, older])


def _copied(commands: Commands, q: Position, quantum: float | None) -> int | None:
    """Index of the delay at which the position is the command, scaled and shifted, if any."""
    rows = commands.rows[:: max(1, len(commands.rows) // 1000)]
    values = commands.raw[(rows - 1)[:, None] - commands.delays]
    joint = q[rows] - q[rows].mean()
    taps = np.moveaxis(values - values.mean(axis=0), 1, 0)
    left = np.sqrt(unexplained(joint, taps, 1e-9 * len(joint)) / len(joint))
    close = max(0.5 * (quantum or 0.0), 1e-3 * float(joint.std()))
    return int(np.argmin(left)) if left.min() < close else None


def weighted(values: Columns, weights: Delays | tuple[float, ...]) -> Columns:
    """Sum of each sample and some before it, by weights; trajectory boundaries are ignored."""
    from scipy.signal import lfilter  # slow to import

    return np.asarray(lfilter(weights, 1.0, values, axis=0))


def unexplained(target: Position, taps: Taps, ridge: float) -> Delays:
    """Sum of squares that the best combination of the taps leaves of the target, at each delay."""
    across = np.swapaxes(taps, 1, 2)
    along = across @ target
    normal = across @ taps + ridge * np.eye(taps.shape[2])
    gain = np.linalg.solve(normal, along[:, :, None])[:, :, 0]
    return np.asarray(np.maximum(0.0, target @ target - (along * gain).sum(axis=1)))


def orthonormal(columns: Columns, *, rank: float = 1e-6) -> Float[np.ndarray, "rows r"]:
    """An orthonormal basis of the columns' span, without directions that add nearly nothing."""
    sizes = np.sqrt((columns**2).sum(axis=0))
    scaled = columns[:, sizes > 0.0] / sizes[sizes > 0.0]
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    keep = values > rank * values[-1]
    return np.asarray(scaled @ (vectors[:, keep] / np.sqrt(values[keep])))
