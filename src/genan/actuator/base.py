"""Finding servos in a recording: a commanded position, a switch, a gain.

Position servos of hobby and research robots are commanded with more than a goal: torque is switched
on and off, and a gain is set from one recording to the next. The pull is the product of all three,
which no sum of theirs can say. What each control is, its values tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.actuator.history import History, Servo, Terms
from genan.actuator.network import Layer, Scaling, Skip
from genan.actuator.samples import Samples
from genan.data import Channels, Trajectories, Trajectory
from genan.data.inspection.measures import measure_sticking

LEAST_ALIKE = 0.2
"""Correlation with the position from which on a control can be where the joint is to go."""

BEHIND = (0.0, 0.05, 0.1, 0.2, 0.4)
"""How far a position may be behind its goal [s]."""

MOST_APART = 10.0
"""Ratio of the deviations of the two up to which it can."""

MOST_ROWS = 100_000
"""Samples that are looked at."""


def find_servos(trajectories: Trajectories, numbers: Int[np.ndarray, " m"]) -> tuple[Servo, ...]:
    """The servos of the joints, as the trajectories ``numbers`` show them; none where nothing is
    switched or set.

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
    for control in range(u.shape[1]):
        if lowest[control] == highest[control]:
            continue
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
        mine, my_gains = _own(switches, joint, joints), _own(gains, joint, joints)
        goal = _goal(chosen, joint, commands, mine)
        if goal is not None:
            found.append(Servo(joint, goal, mine, my_gains))
    return tuple(found)


def _own(controls: Sequence[int], joint: int, joints: int) -> tuple[int, ...]:
    return (controls[joint],) if len(controls) == joints else tuple(controls)


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


# --- The base torque model: linear in what a network sees, solved in closed form, chosen on rec

KINDS = ("linear", "parametric", "both")

RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties that are tried, relative to the mean curvature of the loss."""

OPERATIONS, FEWEST_SAMPLES = 2e10, 15_000
"""What setting up the equations may cost, and samples that are used all the same; the others are
passed over evenly."""

BENDS = (0.02, 0.2)
"""Speeds at which friction bends, as parts of each joint's root mean square speed: stiction and a
softer onset."""


def friction_terms(
    trajectories: Trajectories, numbers: Int[np.ndarray, " m"], channels: Channels, history: History
) -> Terms:
    """Terms for a robot that moves as in the trajectories ``numbers``."""
    squares, count = np.zeros(channels.nq), 0
    for number in numbers.tolist():
        change = np.diff(trajectories[number].q[:: history.stride], axis=0)
        squares, count = squares + (change**2).sum(axis=0), count + len(change)
    usual = np.sqrt(squares / max(1, count))
    usual = np.where(usual > 0.0, usual, 1.0)
    turning = tuple(k for k, unit in enumerate(channels.joint_units) if unit == "rad")
    friction = (
        tuple(tuple(float(f"{bend * one:.6g}") for bend in BENDS) for one in usual)
        if history.length
        else ()
    )
    servos = find_servos(trajectories, numbers)
    chosen = trajectories.select(numbers)
    sticking = [
        k for k in range(channels.nq) if history.length and measure_sticking(chosen, k).stiction
    ]
    standing = tuple((k, float(f"{BENDS[-1] * usual[k]:.6g}")) for k in sticking)
    return Terms(friction, turning, (channels.nq, channels.nu), servos, standing)


def uses(
    kind: str, history: History, nq: int, nu: int, *, length: int | None = None
) -> Bool[np.ndarray, " inputs"]:
    """Which inputs a base model of this ``kind`` uses; ``length``: past samples, at most those of
    the history."""
    length = history.length if length is None else length
    past = np.arange(history.rows)
    now = past <= 1 if kind == "parametric" else past <= length  # one past sample is the velocity
    q = np.repeat(now, nq)
    u = np.repeat(now if kind != "parametric" else past == 0, nu)
    if kind == "linear":
        return np.concatenate([q, u, np.zeros(history.terms.count, bool)])
    terms = history.terms
    of_servos = {control for servo in terms.servos for control in servo.controls}
    gains = [gain for servo in terms.servos for gain in servo.gains]
    u.reshape(-1, nu)[:, gains] = False
    _, crossed, one, other = terms.factors
    own = [control not in of_servos for control in crossed] + [
        not {a, b} & of_servos for a, b in zip(one, other, strict=True)
    ]
    products = np.array(own, bool) & (kind == "parametric")
    shapes = np.ones(
        sum(map(len, terms.friction)) + 2 * len(terms.turning) + 4 * len(terms.pairs[0]), bool
    )
    servos_and_standing = np.ones(terms.count - len(shapes) - len(products), bool)
    return np.concatenate([q, u, shapes, products, servos_and_standing])


@dataclass(frozen=True, eq=False)
class Group:
    """The samples of some recordings, as a linear model wants them."""

    x: Float[np.ndarray, "n inputs_and_one"]
    """Standardised inputs and, last, ones."""
    y: Float[np.ndarray, "n nq"]
    """Standardised torques."""
    hold: Float[np.ndarray, "n nq"]
    """Standardised torques that would keep the velocity."""
    response: Float[np.ndarray, "n nq nq"]
    """What standardised torques do to the next position, in units of the scale; or to
    themselves."""

    def sums(
        self,
        used: Bool[np.ndarray, " inputs_and_one"],
        origin: Float[np.ndarray, "inputs_and_one nq"],
    ) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, " k"]]:
        """Matrix and right-hand side of the normal equations of the weights of ``used`` inputs,
        joint after joint.

        The weights are counted from ``origin``.
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
        self.groups = [_group(samples, rows[::every], history, scaling, weight) for rows in groups]
        self._used = np.append(used, True)
        self.nq, self.inputs = samples.nq, len(scaling.input_mean)
        self._origin = self._holding()
        self._sums = [group.sums(self._used, self._origin) for group in self.groups]

    def _holding(self) -> Float[np.ndarray, "inputs_and_one nq"]:
        """The model, of the same inputs, of the torque that keeps the velocity."""
        width = int(self._used.sum())
        gram, cross = np.zeros((width, width)), np.zeros((width, self.nq))
        for group in self.groups:
            x = group.x[:, self._used]
            gram, cross = gram + x.T @ x, cross + x.T @ group.hold
        gram[np.diag_indices_from(gram)] += 1e-6 * np.diag(gram).mean()
        weights = np.zeros((self.inputs + 1, self.nq))
        weights[self._used] = np.linalg.solve(gram, cross)
        return weights

    def solve(self, ridge: float, groups: Sequence[int]) -> Float[np.ndarray, "inputs_and_one nq"]:
        """Weights of the standardised inputs and, last, the offsets, fitted to some of the
        groups."""
        gram, cross = (np.sum([self._sums[g][part] for g in groups], axis=0) for part in (0, 1))
        punished = np.tile(
            np.append(np.ones(int(self._used.sum()) - 1), 0.0), self.nq
        )  # offsets are free
        scale = float(np.diag(gram).mean())
        gram[np.diag_indices_from(gram)] += ridge * scale * punished + 1e-12 * scale
        weights = self._origin.copy()
        weights[self._used] += np.linalg.solve(gram, cross).reshape(self.nq, -1).T
        return weights

    @property
    def seen(self) -> Float[np.ndarray, "2 inputs"]:
        """Lowest and highest standardised inputs of all groups."""
        x = [group.x[:, :-1] for group in self.groups]
        return np.stack(
            [np.min([a.min(axis=0) for a in x], axis=0), np.max([a.max(axis=0) for a in x], axis=0)]
        )

    def errors(
        self, weights: Float[np.ndarray, "inputs_and_one nq"], group: int
    ) -> Float[np.ndarray, " nq"]:
        """Mean square error of each joint over one group, in units of the scale: of the next
        position, or torque."""
        one = self.groups[group]
        off = np.einsum("nij,nj->ni", one.response, one.x @ weights - one.y)
        return np.asarray((off**2).mean(axis=0))

    def best_ridge(self, folds: Sequence[tuple[Sequence[int], int]]) -> float:
        """The ridge with the lowest error, each joint relative to its best, over (groups to fit,
        group to judge)."""
        table = np.array(
            [
                np.sum(
                    [self.errors(self.solve(ridge, train), judged) for train, judged in folds],
                    axis=0,
                )
                for ridge in RIDGES
            ]
        )
        relative = table / np.maximum(table.min(axis=0), np.finfo(float).tiny)
        return RIDGES[int(np.argmin(relative.mean(axis=1)))]


def _group(
    samples: Samples,
    rows: Int[np.ndarray, " n"],
    history: History,
    scaling: Scaling,
    weight: Float[np.ndarray, " nq"],
) -> Group:
    at = rows.astype(np.int64)
    q, u = np.asarray(samples.q), np.asarray(samples.u)
    past = (
        q[at[:, None] - np.asarray(history.lags)],
        u[at[:, None] - np.asarray(history.control_lags)],
    )
    mean, std, torque_mean, torque_std = (
        np.asarray(a, np.float64)
        for a in (scaling.input_mean, scaling.input_std, scaling.torque_mean, scaling.torque_std)
    )
    x = (history.features_of_many(*(a.astype(np.float64) for a in past)) - mean) / std
    tau, moves = np.asarray(samples.tau, np.float64)[at], _responses(samples, at)
    hold = tau
    if samples.response is not None:
        before, now, after = (q[at + k].astype(np.float64) for k in (-1, 0, 1))
        hold = tau - np.linalg.solve(moves, ((after - now) - (now - before))[:, :, None])[:, :, 0]
    y, held = (tau - torque_mean) / torque_std, (hold - torque_mean) / torque_std
    response = weight[:, None] * moves * torque_std
    return Group(np.concatenate([x, np.ones((len(at), 1))], axis=1), y, held, response)


def as_layer(
    weights: Float[np.ndarray, "members inputs_and_one nq"],
    seen: Float[np.ndarray, "2 inputs"] | None,
) -> Layer:
    """Base models, one for each member, as a layer; past hidden layers that see inputs in the range
    ``seen``."""
    import jax.numpy as jnp

    straight = jnp.asarray(weights[:, :-1], jnp.float32), jnp.asarray(weights[:, -1], jnp.float32)
    if seen is None:
        return Layer(*straight)
    low, high = (jnp.tile(jnp.asarray(bound, jnp.float32), (len(weights), 1)) for bound in seen)
    return Skip(*straight, low, high)


def _responses(samples: Samples, at: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n nq nq"]:
    """What a torque does: to the next position, or (torque loss) to itself."""
    nq = samples.nq
    if samples.response is None:
        return np.broadcast_to(np.eye(nq), (len(at), nq, nq))
    whole = np.empty((len(at), nq, nq))
    i, j = np.tril_indices(nq)
    whole[:, i, j] = whole[:, j, i] = np.asarray(samples.response)[at]
    return whole
