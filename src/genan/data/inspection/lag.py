"""How long after a command the joints accelerate: the delay between u and what it does, in whole
samples.

For every candidate delay a joint's second difference is predicted linearly from its own past and
from the commands of that age, and the delay at which least is left unexplained is the lag. Its past
stands for what inertia, springs and friction do; whether a command is a position, a speed, a torque
or a pressure that becomes a torque slowly is found out by trying each (``STRUCTURES``): the
simplest that explains as much as the others counts.

Positions carry noise, so their past is not used as it is, but as far as commands explain it
(instrumental variables): everything is projected onto the commands of the last second. Noise has no
part in that; a fit to noisy positions would find the delay of its own errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from genan.data.inspection.measures import joint_quanta, measure_resolution
from genan.data.trajectories import Trajectories

#: Rows the regression looks at, and fewest that a lag can be told from.
ROWS, FEWEST = 4_000, 150
#: Commands so far back are instruments [s], and the longest average of them.
MEMORY, WIDEST = 1.0, 0.05
#: So many instruments, at most, resolve the delays looked for.
INSTRUMENTS = 150
#: Part of the second difference that a linear model may miss without being called wrong.
MODEL_ERROR = 0.01


@dataclass(frozen=True)
class Structure:
    """A way for commands to act: how often they are integrated before they are a position."""

    degree: int  # 0: a command is a position; 1: a speed; 2: an acceleration; 3: through a lag.
    past: int  # Past positions that count, one stride apart.
    price: float  # By how much it must be better than others, in units of the noise's variance.
    factor: float = 1.0  # How many times better it must be.


#: What moves has mass, so a command that acts as a position or a speed must show it by more than
#: chance does. A lag explains a little of everything: where there is one, the model without it is
#: some 40 times worse, elsewhere hardly 2.
STRUCTURES = (
    Structure(0, 2, 20.0),
    Structure(1, 2, 20.0),
    Structure(2, 2, 0.0),
    Structure(3, 3, 0.0, 4.0),
)
DIRECT = STRUCTURES[2]


@dataclass(frozen=True, eq=False)
class Commands:
    """The commands of a recording, prepared once for all joints looked at with one stride."""

    rows: Int[np.ndarray, " rows"]  # Samples whose position is predicted.
    stride: int
    moving: Int[np.ndarray, " moving"]  # Columns of the controls that change.
    delays: Int[np.ndarray, " delays"]
    instruments: Float[np.ndarray, "rows instruments"]  # Orthonormal.
    # commands averaged over a stride once, twice, ...: what a degree of integration makes of them
    splines: tuple[Float[np.ndarray, "samples moving"], ...]
    raw: Float[np.ndarray, "samples moving"]  # Standardised.
    _taps: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, trajectories: Trajectories, *, stride: int, longest: float) -> "Commands | None":
        """None where there is too little to look at: short trajectories, no commands."""
        lengths = trajectories.lengths
        usable = int(np.quantile(lengths, 0.5))
        furthest = min(round(longest / trajectories.dt), usable // 4)
        memory = min(round(MEMORY / trajectories.dt) + furthest, usable // 2)
        reach = max(memory, furthest + 6 * stride) + 10 * stride
        enough = lengths > reach
        moving = np.flatnonzero(np.ptp(trajectories.u, axis=0) > 0.0)
        count = int((lengths[enough] - reach).sum())
        if count < FEWEST or not len(moving):
            return None
        first, last = trajectories.offsets[:-1][enough] + reach, trajectories.offsets[1:][enough]
        rows = np.concatenate([np.arange(a, b, stride) for a, b in zip(first, last, strict=True)])
        rows = rows[:: max(1, len(rows) // ROWS)]
        u = trajectories.u[:, moving]
        deviation = u[rows].std(axis=0)
        keep = deviation > 1e-12 * np.abs(u).max(axis=0)
        if len(rows) < FEWEST or not keep.any():
            return None
        raw = (u[:, keep] - u[rows][:, keep].mean(axis=0)) / deviation[keep]
        splines = [averaged(raw, stride)]
        for _ in range(3):
            splines.append(averaged(splines[-1], stride))
        # a command is held for a whole sample
        for degree, weights in ((2, (0.5, 0.5)), (3, (1 / 6, 4 / 6, 1 / 6))):
            free, held = splines[degree], splines[degree].copy()
            held[2:] = sum(w * free[2 - k : len(held) - k] for k, w in enumerate(weights))
            splines[degree] = held
        sums = np.cumsum(splines[0], axis=0)
        columns = [
            (sums[rows - 1 - lag] - sums[rows - 1 - lag - wide]) / wide
            for lag, wide in _windows(
                furthest + 4 * stride, memory, stride, len(keep), WIDEST / trajectories.dt
            )
        ]
        instruments = orthonormal(np.column_stack([np.ones(len(rows)), *columns]))
        delays = np.arange(-1, furthest + 1)
        return cls(rows, stride, moving[keep], delays, instruments, tuple(splines), raw)

    def taps(
        self, degree: int
    ) -> tuple[Float[np.ndarray, "rows taps"], Float[np.ndarray, "instruments taps"]]:
        """The commands that act, at every delay, and their projection onto the instruments."""
        if degree not in self._taps:
            spline = self.splines[degree]
            values = spline[(self.rows - 1)[:, None] - self.delays].reshape(len(self.rows), -1)
            self._taps[degree] = values, self.instruments.T @ values
        return self._taps[degree]


@dataclass(frozen=True, eq=False)
class Response:
    """One joint's second difference at a stride and its past, projected onto the instruments."""

    commands: Commands
    own: Float[np.ndarray, "rows own"]  # Further, orthogonal instruments: the joints' older past.
    bend: Float[np.ndarray, " instruments"]
    past: Float[np.ndarray, "instruments past"]
    noise: float  # Variance of one sample that no model has to explain.
    _taps: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, commands: Commands, q: Float[np.ndarray, "samples nq"], column: int, shift: int = 0
    ) -> "Response | None":
        """``q``: averaged over a stride; ``shift``: rows away from the commands, to see chance."""
        rows, s = np.roll(commands.rows, shift), commands.stride
        joint = q[:, column]
        bend = joint[rows] - 2.0 * joint[rows - s] + joint[rows - 2 * s]
        speed = float(np.sqrt(np.mean((joint[rows] - joint[rows - s]) ** 2)))
        if not (speed > 0.0 and bend.any()):
            return None
        past = features(q, column, rows - s, s, speed)
        # noise of a sample has no part in samples that are older than those it is in
        own = np.hstack([features(q, column, rows - back * s, s, speed) for back in (4, 5)])
        shared = commands.instruments
        own = own / np.sqrt((own**2).sum(axis=0) + 1e-300)
        own = orthonormal(own - shared @ (shared.T @ own), rank=1e-9)
        rest = np.column_stack([past, bend])
        rest = rest - shared @ (shared.T @ rest) - own @ (own.T @ rest)
        basis = orthonormal(rest[:, :-1], rank=1e-12)
        left = rest[:, -1] - basis @ (basis.T @ rest[:, -1])
        free = max(1, len(rows) - shared.shape[1] - own.shape[1] - basis.shape[1])
        noise = max(float((left**2).sum()) / free, MODEL_ERROR**2 * float(np.mean(bend**2)))
        motion = np.column_stack([past, bend])
        both = np.vstack([shared.T @ motion, own.T @ motion])
        return cls(commands, own, both[:, -1], both[:, :-1], noise)

    def taps(self, degree: int) -> Float[np.ndarray, "delays instruments moving"]:
        """The commands that act, at every delay, projected."""
        if degree not in self._taps:
            values, shared = self.commands.taps(degree)
            both = np.vstack([shared, self.own.T @ values])
            both = both.reshape(len(both), len(self.commands.delays), -1)
            self._taps[degree] = np.ascontiguousarray(np.moveaxis(both, 1, 0))
        return self._taps[degree]

    def left(
        self, structure: Structure, taps: Float[np.ndarray, "delays instruments taps"]
    ) -> Float[np.ndarray, " delays"]:
        """Sum of squares that past and taps leave, in units of the noise's variance."""
        past = orthonormal(self.past[:, : self.past.shape[1] - 3 + structure.past], rank=1e-10)
        bend = self.bend - past @ (past.T @ self.bend)
        taps = taps / np.sqrt((taps**2).sum(axis=1, keepdims=True) + 1e-300)
        taps = taps - past @ (past.T @ taps)
        across = np.swapaxes(taps, 1, 2)
        along = across @ bend
        normal = across @ taps + 1e-10 * np.eye(taps.shape[2])
        gain = np.linalg.solve(normal, along[:, :, None])[:, :, 0]
        return np.asarray(np.maximum(0.0, bend @ bend - (along * gain).sum(axis=1)) / self.noise)


def features(
    q: Float[np.ndarray, "samples nq"],
    column: int,
    rows: Int[np.ndarray, " rows"],
    stride: int,
    speed: float,
) -> Float[np.ndarray, "rows features"]:
    """What a joint's acceleration may depend on: position, speed, gravity, friction, a lag."""
    joint = q[:, column]
    level = float(joint[rows].mean())
    step = joint[rows] - joint[rows - stride]
    others = np.delete(np.arange(q.shape[1]), column)
    return np.column_stack(
        [
            np.ones(len(rows)),
            joint[rows] - level,
            step,
            np.sin(joint[rows]),
            np.cos(joint[rows]),
            np.abs(step) * step / speed,
            np.tanh(step / (0.2 * speed)) * speed,
            q[rows][:, others] - q[rows][:, others].mean(axis=0),
            q[rows][:, others] - q[rows - stride][:, others],
            joint[rows - stride] - joint[rows - 2 * stride],
        ]
    )


def _windows(
    fine: int, memory: int, stride: int, controls: int, widest: float
) -> list[tuple[int, int]]:
    """Age of the youngest, and number, of the commands that each instrument averages."""
    width = float(max(1, fine * controls // INSTRUMENTS))
    place, windows = 0.0, []
    while place + width <= memory:
        windows.append((round(place), max(1, round(width))))
        place += width
        if place >= fine:
            width = min(1.3 * max(width, stride), max(stride, widest))
    return windows


def averaged(
    values: Float[np.ndarray, "rows columns"], stride: int
) -> Float[np.ndarray, "rows columns"]:
    """Mean of each sample and the ``stride`` - 1 before it, trajectory boundaries ignored."""
    if stride == 1:
        return values
    total = np.cumsum(values, axis=0)
    mean = values.copy()
    mean[stride:] = (total[stride:] - total[:-stride]) / stride
    return mean


def orthonormal(
    columns: Float[np.ndarray, "rows k"], *, rank: float = 1e-6
) -> Float[np.ndarray, "rows r"]:
    """An orthonormal basis of the columns' span, without directions that add nearly nothing."""
    sizes = np.sqrt((columns**2).sum(axis=0))
    scaled = columns[:, sizes > 0.0] / sizes[sizes > 0.0]
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    keep = values > rank * values[-1]
    return np.asarray(scaled @ (vectors[:, keep] / np.sqrt(values[keep])))


# --- The delay of each joint.

#: Rows looked at, about.
_SAMPLES = 40_000
#: Motion over the stride of the regression is at least this many quanta.
_CLEAR = 3.0
#: Shortest and longest stride of the regression [s].
_STRIDES = 0.006, 0.02
#: Shifts of the joint against its commands that show what chance explains.
_SHIFTS = 3
#: What commands explain must be so many times what shifted ones explain at best, and at least so
#: much in all.
_ABOVE_CHANCE, _LEAST = 2.0, 0.05
#: A delay is told only where the model explains so much of what the joints' past leaves open.
_TOLD = 0.8
#: What a further parameter must explain to be believed, in units of the noise, and what rules a
#: delay out.
_RULED_OUT = 8.0
#: Widest range of delays left that is still told [s], and in samples.
_WIDEST, _WIDEST_SAMPLES = 0.015, 3


@dataclass(frozen=True)
class JointLag:
    """What commands do to one joint, and when."""

    joint: str
    steps: int | None  # Samples from a command to the acceleration it makes; None: unknown.
    lowest: int
    highest: int  # Range of delays that the data does not rule out [samples].
    control: str | None  # That with the strongest effect on this joint; None: none is seen.
    explained: float  # Part that commands explain of what the past leaves open, at the best delay.
    chance: float  # The same for commands of another time, at their best: what chance explains.
    delays: tuple[int, ...]  # Delays that were tried [samples].
    curve: tuple[float, ...]  # Part explained at each of them.


@dataclass(frozen=True)
class Lag:
    """The delay between commands and motion."""

    steps: int | None  # For ``genan fit --delay``: the shortest lag of the joints that tell one.
    dt: float  # Sampling period [s].
    joints: tuple[JointLag, ...]

    @property
    def seconds(self) -> float | None:
        """The same in seconds."""
        return None if self.steps is None else self.steps * self.dt


def find_lag(
    trajectories: Trajectories,
    *,
    longest: float = 0.25,
    quanta: Sequence[float | None] | None = None,
) -> Lag:
    """Find the delay between commands and accelerations, joint by joint.

    A lag of d means that row t of u acts on the acceleration of row t + d; 0: while q moves from
    row t to t + 1.

    Args:
        trajectories: the recording.
        longest: longest delay looked for [s].
        quanta: each encoder's smallest step [rad or m], where they are known already.
    """
    quanta = joint_quanta(trajectories) if quanta is None else quanta
    trajectories = _thinned(trajectories)
    prepared: dict[int, Commands | None] = {}
    joints = []
    for column, quantum in enumerate(quanta):
        resolution = measure_resolution(trajectories.q[:, column], trajectories.lengths, quantum)
        clear = resolution.clear_stride(quantum, _CLEAR) or resolution.strides[-1]
        shortest, widest = (max(1, round(stride / trajectories.dt)) for stride in _STRIDES)
        stride = min(max(clear, shortest), widest)
        if stride not in prepared:
            prepared[stride] = Commands.of(trajectories, stride=stride, longest=longest)
        joints.append(_joint_lag(trajectories, column, prepared[stride], quantum))
    told = [joint.steps for joint in joints if joint.steps is not None]
    return Lag(steps=min(told, default=None), dt=trajectories.dt, joints=tuple(joints))


def _joint_lag(
    trajectories: Trajectories, column: int, commands: Commands | None, quantum: float | None
) -> JointLag:
    unknown = JointLag(trajectories.joints[column], None, 0, 0, None, 0.0, 0.0, (), ())
    if commands is None:
        return unknown
    q = averaged(trajectories.q, commands.stride)
    response = Response.of(commands, q, column)
    if response is None:
        return unknown
    costs = np.stack([_costs(response, kind) for kind in STRUCTURES])
    priced = costs * np.array([[kind.factor] for kind in STRUCTURES])
    kind, best = divmod(int(np.argmin(priced)), costs.shape[1])
    structure, plain = STRUCTURES[kind], STRUCTURES.index(DIRECT)
    explained, direct = (_explained(response, STRUCTURES[one], costs[one]) for one in (kind, plain))
    chance = chance_direct = 0.0
    for part in np.linspace(0.2, 0.8, _SHIFTS):
        moved = Response.of(commands, q, column, round(len(commands.rows) * part))
        if moved is not None:
            by_chance = float(_explained(moved, DIRECT, _costs(moved, DIRECT)).max())
            chance_direct = max(chance_direct, by_chance)
            if structure is not DIRECT:
                by_chance = float(_explained(moved, structure, _costs(moved, structure)).max())
            chance = max(chance, by_chance)
    misfit = max(1.0, float(costs[kind, best]) / len(response.bend))
    left = commands.delays[costs[kind] < costs[kind, best] + _RULED_OUT * misfit]
    lowest, highest = max(0, int(left.min())), max(0, int(left.max()))
    widest = max(_WIDEST_SAMPLES, round(_WIDEST / trajectories.dt))
    seen = bool(direct.max() > max(_LEAST, _ABOVE_CHANCE * chance_direct))
    told = bool(
        seen
        and explained[best] > max(_TOLD, chance)
        and best < len(costs[0]) - 1
        and highest - lowest <= widest
    )
    copied = _copied(commands, trajectories.q[:, column], quantum)
    if copied is not None:
        told, best, lowest, highest = True, copied, *[int(max(0, commands.delays[copied]))] * 2
    curve = explained if told else direct
    peak = int(np.argmin(costs[plain]))
    seen = seen and peak < len(costs[0]) - 1
    return JointLag(
        joint=unknown.joint,
        steps=max(0, int(commands.delays[best])) if told else None,
        lowest=lowest,
        highest=highest,
        control=trajectories.controls[_strongest(response, peak)] if seen else None,
        explained=float(curve.max()),
        chance=chance if told else chance_direct,
        delays=tuple(commands.delays.tolist()),
        curve=tuple(curve.tolist()),
    )


def _costs(response: Response, structure: Structure) -> Float[np.ndarray, " delays"]:
    """What a structure leaves at each delay, and its price, in units of the noise's variance."""
    return response.left(structure, response.taps(structure.degree)) + _price(response, structure)


def _price(response: Response, structure: Structure) -> float:
    parameters = structure.past + len(response.commands.moving)
    return parameters * float(np.log(len(response.commands.rows))) + structure.price


def _explained(
    response: Response, structure: Structure, costs: Float[np.ndarray, " delays"]
) -> Float[np.ndarray, " delays"]:
    """Part of what the joints' past leaves open that commands explain, at each delay."""
    alone = response.left(structure, response.taps(structure.degree)[:1, :, :0])
    return np.asarray((alone - (costs - _price(response, structure))) / np.maximum(alone, 1e-300))


def _strongest(response: Response, delay: int) -> int:
    """The control that explains most on its own, as a column of u; ``delay``: its index."""
    taps = response.taps(DIRECT.degree)[delay : delay + 1]
    left = [response.left(DIRECT, taps[:, :, [k]])[0] for k in range(taps.shape[2])]
    return int(response.commands.moving[int(np.argmin(left))])


def _copied(commands: Commands, q: Float[np.ndarray, " rows"], quantum: float | None) -> int | None:
    """Index of the delay at which the position is the command, scaled and shifted, if any."""
    rows = commands.rows[:: max(1, len(commands.rows) // 1000)]
    values = commands.raw[(rows - 1)[:, None] - commands.delays]
    joint = q[rows] - q[rows].mean()
    taps = np.moveaxis(values - values.mean(axis=0), 1, 0)
    across = np.swapaxes(taps, 1, 2)
    normal = across @ taps + 1e-9 * len(joint) * np.eye(taps.shape[2])
    gains = np.linalg.solve(normal, (across @ joint)[:, :, None])
    left = np.sqrt(np.mean((joint - (taps @ gains)[:, :, 0]) ** 2, axis=1))
    close = max(0.5 * (quantum or 0.0), 1e-3 * float(joint.std()))
    return int(np.argmin(left)) if left.min() < close else None


def _thinned(trajectories: Trajectories) -> Trajectories:
    """Whole trajectories, spread over the recording, of some ``_SAMPLES`` rows together."""
    every = max(1, len(trajectories.q) // _SAMPLES)
    numbers = np.arange(len(trajectories))[::every]
    return trajectories if every == 1 else trajectories.select(numbers)
