"""How long after a command the joints accelerate: the delay between u and what it does, in whole
samples.

For every candidate delay a joint's second difference is predicted linearly from its own past and
from the commands of that age, and the delay at which least is left unexplained is the lag. Its past
stands for what inertia, springs and friction do; whether a command is a position, a speed, a torque
or a pressure that becomes a torque slowly is found out by trying each
(``lag_regression.STRUCTURES``): the simplest that explains as much as the others counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from genan.data.lag_regression import DIRECT, STRUCTURES, Commands, Response, Structure, averaged
from genan.data.quantum import joint_quanta
from genan.data.resolution import measure_resolution
from genan.data.trajectories import Trajectories

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
    steps: int | None
    """Samples from a command to the acceleration it makes; None where it cannot be told."""
    lowest: int
    highest: int
    """Range of delays that the data does not rule out [samples]."""
    control: str | None
    """The control with the strongest effect on this joint; None where no effect is seen."""
    explained: float
    """Part of what the joint's own past leaves open that commands explain, at the best delay."""
    chance: float
    """The same for commands of another time, at their best: what chance explains."""
    delays: tuple[int, ...]
    """Delays that were tried [samples]."""
    curve: tuple[float, ...]
    """Part explained at each of them."""


@dataclass(frozen=True)
class Lag:
    """The delay between commands and motion."""

    steps: int | None
    """Samples for ``genan fit --delay``: the shortest lag of the joints that tell one; None where
    none does."""
    dt: float
    """Sampling period [s]."""
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
    """What a structure leaves at each delay, and a price for its parameters, in units of the
    noise's variance."""
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
    left = [
        response.left(DIRECT, taps[:, :, control : control + 1])[0]
        for control in range(taps.shape[2])
    ]
    return int(response.commands.moving[int(np.argmin(left))])


def _copied(commands: Commands, q: Float[np.ndarray, " rows"], quantum: float | None) -> int | None:
    """Index of the delay at which the position is the command itself, scaled and shifted; None
    where it is not."""
    rows = commands.rows[:: max(1, len(commands.rows) // 1000)]
    values = commands.raw[(rows - 1)[:, None] - commands.delays]
    joint = q[rows] - q[rows].mean()
    taps = np.moveaxis(values - values.mean(axis=0), 1, 0)
    across = np.swapaxes(taps, 1, 2)
    gains = np.linalg.solve(
        across @ taps + 1e-9 * len(joint) * np.eye(taps.shape[2]), (across @ joint)[:, :, None]
    )
    left = np.sqrt(np.mean((joint - (taps @ gains)[:, :, 0]) ** 2, axis=1))
    close = max(0.5 * (quantum or 0.0), 1e-3 * float(joint.std()))
    return int(np.argmin(left)) if left.min() < close else None


def _thinned(trajectories: Trajectories) -> Trajectories:
    """Whole trajectories, spread over the recording, of some ``_SAMPLES`` rows together."""
    every = max(1, len(trajectories.q) // _SAMPLES)
    return (
        trajectories if every == 1 else trajectories.select(np.arange(len(trajectories))[::every])
    )
