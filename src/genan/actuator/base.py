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
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from genan.actuator.dataset import Dataset
from genan.actuator.history import History
from genan.actuator.network import Layer, Skip
from genan.actuator.settings import FitSettings

Weights = Float[np.ndarray, "inputs_and_one nq"]
PerJoint = Float[np.ndarray, " nq"]
Rows = Int[np.ndarray, " n"]
Used = Bool[np.ndarray, " _"]
Scale = Float[np.ndarray, "*nq"] | float

KINDS = ("linear", "parametric", "both")

RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # Tried, relative to the loss's mean curvature.

OPERATIONS, FEWEST_SAMPLES = 2e10, 15_000
"""Cost of setting up the equations, and samples used all the same; others are passed over."""


def uses(kind: str, history: History, nq: int, nu: int) -> Used:
    """Which inputs a base model of this ``kind`` uses."""
    past, terms = np.arange(history.rows), history.terms
    used, samples = np.ones(history.inputs(nq, nu), bool), history.rows * (nq + nu)
    if kind == "linear":
        return np.arange(len(used)) < samples
    parametric = kind == "parametric"  # one past sample is the velocity
    q = np.repeat(past <= 1 if parametric else past >= 0, nq)
    u = np.repeat(past == 0 if parametric else past >= 0, nu)
    gains = {gain for servo in terms.servos for gain in servo.gains}
    u.reshape(-1, nu)[:, list(gains)] = False
    used[:samples] = np.concatenate([q, u])
    of_servos = gains | {k for servo in terms.servos for k in (servo.goal, *servo.switches)}
    joints, controls = terms.products or (0, 0)
    kept = [parametric and control not in of_servos for control in range(controls)]
    own = [*np.repeat(kept, joints), *np.outer(kept, kept)[np.triu_indices(controls)]]
    first = samples + sum(map(len, terms.friction)) + 2 * len(terms.turning) ** 2
    used[first : first + len(own)] = own
    return used


@dataclass(frozen=True, eq=False)
class LinearSamples:
    """The samples of some recordings, as a linear model wants them."""

    x: Float[np.ndarray, "n inputs_and_one"]  # Standardised inputs and, last, ones.
    y: Float[np.ndarray, "n nq"]  # Standardised torques.
    hold: Float[np.ndarray, "n nq"]  # Standardised torques that would keep the velocity.
    response: Float[np.ndarray, "n nq nq"]
    """What standardised torques do to the next position, scaled; or to themselves."""

    @classmethod
    def of(cls, dataset: Dataset, rows: Rows, weight: PerJoint) -> "LinearSamples":
        """Those of ``rows``, errors times ``weight``."""
        samples, scaling, history = dataset.samples, dataset.scaling, dataset.history
        at, nq = rows.astype(np.int64), samples.nq
        q, u = np.asarray(samples.q), np.asarray(samples.u)
        scales = (scaling.input_mean, scaling.input_std, scaling.torque_mean, scaling.torque_std)
        mean, std, middle, size = (np.asarray(a, np.float64) for a in scales)
        x = (history.features(*(a.astype(np.float64) for a in history.at(q, u, at))) - mean) / std
        hold = tau = np.asarray(samples.tau, np.float64)[at]
        moves = np.broadcast_to(np.eye(nq), (len(at), nq, nq))
        if samples.response is not None:  # else torques are judged by themselves
            i, j = np.tril_indices(nq)
            moves = np.empty(moves.shape)
            moves[:, i, j] = moves[:, j, i] = np.asarray(samples.response)[at]
            before, now, after = (q[at + k].astype(np.float64) for k in (-1, 0, 1))
            change = ((after - now) - (now - before))[:, :, None]
            hold = tau - np.linalg.solve(moves, change)[:, :, 0]
        whole = np.concatenate([x, np.ones((len(at), 1))], axis=1)
        response = weight[:, None] * moves * size
        return cls(whole, (tau - middle) / size, (hold - middle) / size, response)

    def sums(self, used: Used, origin: Weights) -> tuple[np.ndarray, np.ndarray]:
        """Matrix and right-hand side of the normal equations for the weights of ``used`` inputs,
        joint after joint; the weights are counted from ``origin``."""
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
    """Linear models of the torque from the parts of a dataset."""

    def __init__(self, dataset: Dataset, kind: str, *, scale: Scale = 1.0) -> None:
        """Over the rows of each part, thinned out where there are very many. ``scale``: what errors
        are divided by, joint by joint, before they are squared [rad or m]."""
        nq, parts = dataset.samples.nq, dataset.parts
        used = uses(kind, dataset.history, nq, dataset.channels.nu)
        cost = float(used.sum() + 1) ** 2 * nq * (nq + 1)
        every = max(1, -(-sum(map(len, parts)) // max(FEWEST_SAMPLES, int(OPERATIONS / cost))))
        weight = np.broadcast_to(1.0 / np.asarray(scale, np.float64), (nq,))
        self.groups = [LinearSamples.of(dataset, rows[::every], weight) for rows in parts]
        self._used, self._nq = np.append(used, True), nq
        # The model, of the same inputs, of the torque that keeps the velocity.
        known = [(group.x[:, self._used], group.hold) for group in self.groups]
        gram, cross = sum(x.T @ x for x, _ in known), sum(x.T @ hold for x, hold in known)
        gram[np.diag_indices_from(gram)] += 1e-6 * np.diag(gram).mean()
        self._origin = np.zeros((len(self._used), nq))
        self._origin[self._used] = np.linalg.solve(gram, cross)
        self._sums = [group.sums(self._used, self._origin) for group in self.groups]

    def solve(self, ridge: float, groups: Sequence[int]) -> Weights:
        """Weights of the standardised inputs and, last, offsets, fitted to some of the groups."""
        gram, cross = (np.sum([self._sums[g][part] for g in groups], axis=0) for part in (0, 1))
        punished = np.tile(np.append(np.ones(self._used.sum() - 1), 0.0), self._nq)  # not offsets
        scale = float(np.diag(gram).mean())
        gram[np.diag_indices_from(gram)] += ridge * scale * punished + 1e-12 * scale
        weights = self._origin.copy()
        weights[self._used] += np.linalg.solve(gram, cross).reshape(self._nq, -1).T
        return weights

    def errors(self, weights: Weights, group: int) -> PerJoint:
        """Mean square error of each joint over a group, of the next position or torque, scaled."""
        one = self.groups[group]
        off = np.einsum("nij,nj->ni", one.response, one.x @ weights - one.y)
        return np.asarray((off**2).mean(axis=0))

    def best_ridge(self, folds: Mapping[int, Sequence[int]]) -> float:
        """The ridge of the lowest error, each joint relative to its best. ``folds``: by the group
        to judge, the groups to fit."""
        errors = lambda ridge: sum(
            self.errors(self.solve(ridge, learnt), out) for out, learnt in folds.items()
        )
        table = np.array([errors(ridge) for ridge in RIDGES])
        relative = table / np.maximum(table.min(axis=0), np.finfo(float).tiny)
        return RIDGES[int(np.argmin(relative.mean(axis=1)))]


def base_layer(dataset: Dataset, settings: FitSettings, scale: Scale) -> tuple[Layer, float]:
    """The base torque models of all members as a layer, each fitted to what its member learns from;
    and the ridge. With hidden layers, these see inputs within the range of the data."""
    problem, members = BaseProblem(dataset, settings.base, scale=scale), range(settings.members)
    splits = {dataset.left_out(k): dataset.learnt(k) for k in members}
    ridge = problem.best_ridge(splits)
    solved = {out: problem.solve(ridge, learnt) for out, learnt in splits.items()}
    weights = np.stack([solved[dataset.left_out(k)] for k in members])
    straight = jnp.asarray(weights[:, :-1], jnp.float32), jnp.asarray(weights[:, -1], jnp.float32)
    if not settings.hidden:
        return Layer(*straight), ridge
    inputs = [group.x[:, :-1] for group in problem.groups]
    low = np.min([x.min(axis=0) for x in inputs], axis=0)
    high = np.max([x.max(axis=0) for x in inputs], axis=0)
    ends = (jnp.tile(jnp.asarray(end, jnp.float32), (len(members), 1)) for end in (low, high))
    return Skip(*straight, *ends), ridge
