"""The base torque model: linear in what a network sees, solved in closed form, chosen on recordings
it has not seen.

Three kinds. ``linear``: the history alone. ``parametric``: gain, spring (of a stiffness that may be
commanded), viscous and Coulomb friction, offset and the gravity that a rigid-body model with
slightly wrong masses lacks; present samples, one velocity and the terms of
``genan.actuator.history``. ``both``: all of it but products of controls, with which a long history
is too free. Controls that make up a servo count as such: their products are its own, and a gain
adds nothing by itself. The error that is minimised is that of the next position where the loss of
the fit is, and of the torque where that is. What the data do not say is left at the torque that
keeps the velocity, not at none: the ridge draws the weights towards the model of that torque.

Servos are found in the recording. Position servos of hobby and research robots are commanded with
more than a goal: torque is switched on and off, and a gain is set from one recording to the next.
The pull is the product of all three, which no sum of theirs can say. The values of a control show
which of them it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from genan.actuator.history import History, Servo, Terms
from genan.actuator.network import Layer, Scaling, Skip
from genan.actuator.samples import Samples
from genan.data import Channels, Trajectories, Trajectory
from genan.data.inspection.measures import measure_sticking

Rows = Int[np.ndarray, " n"]
Numbers = Int[np.ndarray, " m"]
Weights = Float[np.ndarray, "inputs_and_one nq"]
PerJoint = Float[np.ndarray, " nq"]

KINDS = ("linear", "parametric", "both")

RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties that are tried, relative to the mean curvature of the loss."""

OPERATIONS, FEWEST_SAMPLES = 2e10, 15_000
"""Cost of setting up the equations, and samples used all the same; others are passed over."""

BENDS = (0.02, 0.2)
"""Speeds at which friction bends, as parts of each joint's root mean square speed."""

LEAST_ALIKE = 0.2
"""Correlation with the position above which a control can be where the joint is to go."""

BEHIND = (0.0, 0.05, 0.1, 0.2, 0.4)  # How far a position may be behind its goal [s].

MOST_APART = 10.0  # Ratio of the deviations of position and goal up to which it can be one.

MOST_ROWS = 100_000  # Samples that servos are looked for in.


def find_servos(trajectories: Trajectories, numbers: Numbers) -> tuple[Servo, ...]:
    """The servos of the joints in the trajectories ``numbers``; none where nothing is switched.

    A control of two values, one of them 0, is a switch. One that is positive and constant in each
    trajectory, and not the same in all, is a gain. Of the others, the one that a joint follows best
    is its goal. With as many switches or gains as joints, each joint has its own, in order; else
    every joint has all.
    """
    chosen = [trajectories[number] for number in numbers.tolist()]
    low, high = (np.stack([bound(one.u, axis=0) for one in chosen]) for bound in (np.min, np.max))
    u = _joined([one.u for one in chosen])
    lowest, highest = low.min(axis=0), high.max(axis=0)
    switches, gains, commands = [], [], []
    for control in np.flatnonzero(lowest < highest).tolist():
        if lowest[control] == 0.0 and np.isin(u[:, control], (0.0, highest[control])).all():
            switches.append(control)
        elif lowest[control] > 0.0 and (low[:, control] == high[:, control]).all():
            gains.append(control)
        else:
            commands.append(control)
    if not commands or not (switches or gains):
        return ()
    joints, found = chosen[0].q.shape[1], []
    for joint in range(joints):
        my_switches, my_gains = (
            (part[joint],) if len(part) == joints else tuple(part) for part in (switches, gains)
        )
        goal = _goal(chosen, joint, commands, my_switches)
        if goal is not None:
            found.append(Servo(joint, goal, my_switches, my_gains))
    return tuple(found)


def _goal(
    chosen: Sequence[Trajectory], joint: int, commands: Sequence[int], switches: Sequence[int]
) -> int | None:
    """The command that the joint follows best while all switches are on, if it follows any."""
    alike: dict[int, float] = {}
    for behind in {round(seconds / chosen[0].dt) for seconds in BEHIND}:
        q = _joined([one.q[behind:, joint] for one in chosen])
        u = _joined([one.u[: max(0, len(one.u) - behind)] for one in chosen])
        on = (u[:, list(switches)] != 0.0).all(axis=1)
        q, u = q[on], u[on]
        for control in commands:
            spread = (q.std(), u[:, control].std()) if len(q) else (0.0, 0.0)
            if min(spread) > 0.0 and max(spread) < MOST_APART * min(spread):
                correlation = float(np.corrcoef(q, u[:, control])[0, 1])
                alike[control] = max(correlation, alike.get(control, 0.0))
    best = max(alike, key=lambda control: alike[control], default=None)
    return best if best is not None and alike[best] > LEAST_ALIKE else None


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of all parts, thinned out evenly where there are very many."""
    every = max(1, -(-sum(map(len, parts)) // MOST_ROWS))
    return np.concatenate([part[::every] for part in parts])


def friction_terms(
    trajectories: Trajectories, numbers: Numbers, channels: Channels, history: History
) -> Terms:
    """Terms for a robot that moves as in the trajectories ``numbers``."""
    changes = [np.diff(trajectories[k].q[:: history.stride], axis=0) for k in numbers.tolist()]
    squares = sum((change**2).sum(axis=0) for change in changes)
    usual = np.sqrt(squares / max(1, sum(map(len, changes))))
    usual = np.where(usual > 0.0, usual, 1.0)
    friction: tuple[tuple[float, ...], ...] = ()
    sticking: tuple[tuple[int, float], ...] = ()
    if history.length:
        chosen = trajectories.select(numbers)
        friction = tuple(tuple(float(f"{bend * one:.6g}") for bend in BENDS) for one in usual)
        sticking = tuple(
            (k, friction[k][-1]) for k in range(channels.nq) if measure_sticking(chosen, k).stiction
        )
    turning = tuple(k for k, unit in enumerate(channels.joint_units) if unit == "rad")
    servos = find_servos(trajectories, numbers)
    return Terms(friction, turning, (channels.nq, channels.nu), servos, sticking)


def uses(kind: str, history: History, nq: int, nu: int) -> Bool[np.ndarray, " inputs"]:
    """Which inputs a base model of this ``kind`` uses."""
    past, terms = np.arange(history.rows), history.terms
    if kind == "linear":
        return np.arange(history.inputs(nq, nu)) < history.rows * (nq + nu)
    parametric = kind == "parametric"  # one past sample is the velocity
    q = np.repeat(past <= 1 if parametric else past >= 0, nq)
    u = np.repeat(past == 0 if parametric else past >= 0, nu)
    of_servos = {control for servo in terms.servos for control in servo.controls}
    u.reshape(-1, nu)[:, [gain for servo in terms.servos for gain in servo.gains]] = False
    _, crossed, one, other = terms.factors
    own = [control not in of_servos for control in crossed]
    own += [not {a, b} & of_servos for a, b in zip(one, other, strict=True)]
    shapes = sum(map(len, terms.friction)) + 2 * len(terms.turning) + 4 * len(terms.pairs[0])
    rest = terms.count - shapes - len(own)  # servos and stiction
    products = np.array(own, bool) & parametric
    return np.concatenate([q, u, np.ones(shapes, bool), products, np.ones(rest, bool)])


@dataclass(frozen=True, eq=False)
class LinearSamples:
    """The samples of some recordings, as a linear model wants them."""

    x: Float[np.ndarray, "n inputs_and_one"]  # Standardised inputs and, last, ones.
    y: Float[np.ndarray, "n nq"]  # Standardised torques.
    hold: Float[np.ndarray, "n nq"]  # Standardised torques that would keep the velocity.
    response: Float[np.ndarray, "n nq nq"]
    """What standardised torques do to the next position, scaled; or to themselves."""

    def sums(
        self, used: Bool[np.ndarray, " inputs_and_one"], origin: Weights
    ) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, " k"]]:
        """Matrix and right-hand side of the normal equations for the weights of ``used`` inputs.

        Joint after joint; the weights are counted from ``origin``.
        """
        x = self.x[:, used]
        nq, width = self.y.shape[1], x.shape[1]
        weight = np.einsum("nij,nik->njk", self.response, self.response)
        pull = np.einsum("njk,nk->nj", weight, self.y - self.x @ origin)
        gram = np.empty((nq, width, nq, width))
        for j in range(nq):
            for k in range(j + 1):
                gram[j, :, k] = (x * weight[:, j, k, None]).T @ x
                gram[k, :, j] = gram[j, :, k].T
        return gram.reshape(nq * width, nq * width), (pull.T @ x).reshape(-1)


class BaseProblem:
    """Linear models of the torque from groups of recordings."""

    def __init__(
        self,
        samples: Samples,
        groups: Sequence[Int[np.ndarray, "_"]],
        history: History,
        scaling: Scaling,
        used: Bool[np.ndarray, " inputs"],
        *,
        scale: Float[np.ndarray, "*nq"] | float = 1.0,
    ) -> None:
        """Over the rows of each of ``groups``, thinned out where there are very many.

        Args:
            samples: the recording on the device.
            groups: rows of each group.
            history: what a network sees.
            scaling: how that is standardised.
            used: the inputs that the model uses.
            scale: what errors are divided by, joint by joint, before they are squared [rad or m].
        """
        cost = float(used.sum() + 1) ** 2 * samples.nq * (samples.nq + 1)
        every = max(1, -(-sum(map(len, groups)) // max(FEWEST_SAMPLES, int(OPERATIONS / cost))))
        weight = np.broadcast_to(1.0 / np.asarray(scale, np.float64), (samples.nq,))
        self.groups = [_linear(samples, rows[::every], history, scaling, weight) for rows in groups]
        self._used = np.append(used, True)
        self.nq, self.inputs = samples.nq, len(scaling.input_mean)
        self._origin = self._holding()
        self._sums = [group.sums(self._used, self._origin) for group in self.groups]

    def _holding(self) -> Weights:
        """The model, of the same inputs, of the torque that keeps the velocity."""
        used = [(group.x[:, self._used], group.hold) for group in self.groups]
        gram, cross = sum(x.T @ x for x, _ in used), sum(x.T @ hold for x, hold in used)
        gram[np.diag_indices_from(gram)] += 1e-6 * np.diag(gram).mean()
        weights = np.zeros((self.inputs + 1, self.nq))
        weights[self._used] = np.linalg.solve(gram, cross)
        return weights

    def solve(self, ridge: float, groups: Sequence[int]) -> Weights:
        """Weights of the standardised inputs and, last, offsets, fitted to some of the groups."""
        gram, cross = (np.sum([self._sums[g][part] for g in groups], axis=0) for part in (0, 1))
        punished = np.tile(np.append(np.ones(self._used.sum() - 1), 0.0), self.nq)  # not offsets
        scale = float(np.diag(gram).mean())
        gram[np.diag_indices_from(gram)] += ridge * scale * punished + 1e-12 * scale
        weights = self._origin.copy()
        weights[self._used] += np.linalg.solve(gram, cross).reshape(self.nq, -1).T
        return weights

    @property
    def seen(self) -> Float[np.ndarray, "2 inputs"]:
        """Lowest and highest standardised inputs of all groups."""
        low, high = (
            [bound(g.x[:, :-1], axis=0) for g in self.groups] for bound in (np.min, np.max)
        )
        return np.stack([np.min(low, axis=0), np.max(high, axis=0)])

    def errors(self, weights: Weights, group: int) -> PerJoint:
        """Mean square error of each joint over a group, of the next position or torque, scaled."""
        one = self.groups[group]
        off = np.einsum("nij,nj->ni", one.response, one.x @ weights - one.y)
        return np.asarray((off**2).mean(axis=0))

    def best_ridge(self, folds: Sequence[tuple[Sequence[int], int]]) -> float:
        """The ridge of the lowest error, each joint relative to its best.

        ``folds``: (groups to fit, group to judge) of each.
        """
        table = np.array(
            [
                sum(self.errors(self.solve(ridge, train), judged) for train, judged in folds)
                for ridge in RIDGES
            ]
        )
        relative = table / np.maximum(table.min(axis=0), np.finfo(float).tiny)
        return RIDGES[int(np.argmin(relative.mean(axis=1)))]


def _linear(
    samples: Samples, rows: Rows, history: History, scaling: Scaling, weight: PerJoint
) -> LinearSamples:
    at = rows.astype(np.int64)
    q, u = np.asarray(samples.q), np.asarray(samples.u)
    mean, std, torque_mean, torque_std = (
        np.asarray(a, np.float64)
        for a in (scaling.input_mean, scaling.input_std, scaling.torque_mean, scaling.torque_std)
    )
    x = (history.features(*(a.astype(np.float64) for a in history.at(q, u, at))) - mean) / std
    hold = tau = np.asarray(samples.tau, np.float64)[at]
    moves = np.broadcast_to(np.eye(samples.nq), (len(at), samples.nq, samples.nq))
    if samples.response is not None:  # else torques are judged by themselves
        i, j = np.tril_indices(samples.nq)
        moves = np.empty(moves.shape)
        moves[:, i, j] = moves[:, j, i] = np.asarray(samples.response)[at]
        before, now, after = (q[at + k].astype(np.float64) for k in (-1, 0, 1))
        hold = tau - np.linalg.solve(moves, ((after - now) - (now - before))[:, :, None])[:, :, 0]
    y, held = (tau - torque_mean) / torque_std, (hold - torque_mean) / torque_std
    response = weight[:, None] * moves * torque_std
    return LinearSamples(np.concatenate([x, np.ones((len(at), 1))], axis=1), y, held, response)


def as_layer(
    weights: Float[np.ndarray, "members inputs_and_one nq"],
    seen: Float[np.ndarray, "2 inputs"] | None,
) -> Layer:
    """Base models of all members as a layer, past hidden layers that see inputs within ``seen``."""
    straight = jnp.asarray(weights[:, :-1], jnp.float32), jnp.asarray(weights[:, -1], jnp.float32)
    if seen is None:
        return Layer(*straight)
    low, high = (jnp.tile(jnp.asarray(bound, jnp.float32), (len(weights), 1)) for bound in seen)
    return Skip(*straight, low, high)
