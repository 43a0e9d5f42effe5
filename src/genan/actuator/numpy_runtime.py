"""Fitted actuators on a robot's computer: this one file, NumPy and the standard library, nothing
else of genan.

Next to it, in an export folder, are ``model.safetensors`` (weights and scaling) and
``actuator.json`` (the contract: rate, joint and control order, history). Both are checked when they
are loaded.

    import numpy_runtime

    actuators = numpy_runtime.load("folder")
    drive = actuators.drive(q, u, dt=0.002)  # a robot at rest at q under u; dt of your loop [s]
    while True:
        tau = drive(q, u)  # once per dt: q read now, u commanded now; torque now [nq] [N m or N]

Positions are in rad (m for slides), controls in the units of the contract, torques in N m (N for
slides). Everything is computed in float32, as genan does. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations  # this file is written for Python 3.8 and later

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable  # noqa: UP035

import numpy as np

from genan.sealed import check_arrays, floats, read_sealed

WEIGHTS, CONTRACT = "model.safetensors", "actuator.json"
FORMAT = "genan actuators"
VERSIONS = (1, 2, 3)
DT_TOLERANCE = 1e-6  # Two time steps are the same when they differ by less than this fraction.


class ActuatorsError(ValueError):
    """The actuators are missing, damaged or used wrongly; the message is for a person."""


KIND = SimpleNamespace(
    format=FORMAT, versions=VERSIONS, weights=WEIGHTS, contract=CONTRACT, error=ActuatorsError,
    none="There are no actuators", again="fit again", reader="this file",
)  # fmt: skip


def load(folder: Path | str) -> Actuators:
    """Read an export (or an artifact of 'genan fit'); check format, checksums and shapes."""
    settings, arrays = read_sealed(Path(folder), KIND)
    return Actuators(settings, arrays, where=str(Path(folder) / WEIGHTS))


class Actuators:
    """Networks that map histories of positions and controls to joint torques.

    Histories have shape [..., H + 1, nq] and [..., H + 1, nu], oldest sample first and the present
    one last, taken every s-th sample at the period ``dt``. Leading axes are batches.

    ``contract`` and ``record`` are those of ``actuator.json``, and from there come ``dt`` [s],
    ``nq``, ``nu``, ``members``, ``length`` (H), ``stride`` (s), ``delta`` (whether past samples are
    seen as differences to now) and ``delay`` (d): a ``u_history`` ends with the command of d
    samples ago; ``drive`` sees to it by itself.
    """

    def __init__(self, settings: Any, arrays: dict[str, np.ndarray], where: str = WEIGHTS) -> None:
        try:
            contract: dict[str, Any] = settings["contract"]
            self.contract, self.record = contract, settings["record"]
            past, network = contract["history"], contract["network"]
            self.dt, self.members = float(contract["dt"]), int(network["members"])
            self.nq, self.nu = len(contract["joints"]), len(contract["controls"])
            self.length, self.stride = int(past["length"]), int(past["stride"])
            self.delta, self.delay = bool(past["delta"]), int(past.get("delay", 0))
            none = dict.fromkeys(("friction", "turning", "products", "servos", "standing"), ())
            known = SimpleNamespace(**{**none, **past.get("terms", {})})
            known.servos = [SimpleNamespace(**one) for one in known.servos]
            self._history = SimpleNamespace(delta=self.delta, terms=known)
            hidden = [int(width) for width in network["hidden"]]
            activation, skip = str(network["activation"]), bool(network.get("skip", False))
            least = min(self.length, self.delay, self.stride - 1, self.members - 1)
            if least < 0 or not self.dt > 0.0:
                raise ValueError("history, members or dt out of range")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            missing = f"The actuators' contract is not complete ({type(error).__name__}: {error})"
            raise ActuatorsError(f"{missing}; export or fit them again.") from None
        if activation not in ACTIVATIONS:
            there = ", ".join(map(repr, ACTIVATIONS))
            raise ActuatorsError(f"There is no activation {activation!r}; there are: {there}.")
        self._squash = ACTIVATIONS[activation]
        zeros = (np.zeros((self.length + 1, n), np.float32) for n in (self.nq, self.nu))
        inputs = features(self._history, *zeros).shape[-1]

        def get(name: str, *shape: int) -> np.ndarray:
            check_arrays(KIND, arrays, {name: shape}, where=where)
            return arrays[name]

        def affine(name: str, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
            weight = get(f"{name}.weight", self.members, rows, columns)
            return weight, get(f"{name}.bias", self.members, columns)[:, None]

        sizes = enumerate(zip([inputs, *hidden], [*hidden, self.nq]))  # noqa: B905  (Python 3.8)
        self._layers = [affine(f"layers.{k}", *size) for k, size in sizes]
        self._skip: Any = None
        if skip:
            ends = (get(f"skip.{end}", self.members, inputs)[:, None] for end in ("low", "high"))
            self._skip = (*affine("skip", inputs, self.nq), *ends)
        both = ("mean", "std")
        self._input_mean, self._input_std = (get(f"scaling.input_{x}", inputs) for x in both)
        self._torque_mean, self._torque_std = (get(f"scaling.torque_{x}", self.nq) for x in both)

    def torque(self, q_history: Any, u_history: Any) -> np.ndarray:
        """Torque on the joints, the mean over the members [..., nq] [N m or N], of positions
        [..., H + 1, nq] [rad or m] and controls [..., H + 1, nu], oldest first."""
        return self.torques(q_history, u_history).mean(axis=0)

    def torques(self, q_history: Any, u_history: Any) -> np.ndarray:
        """Torque of each member [members, ..., nq] [N m or N]; arguments as for ``torque``."""
        q = floats("q_history", q_history, ActuatorsError)
        u = floats("u_history", u_history, ActuatorsError)
        count, batch = self.length + 1, q.shape[:-2]
        check_histories(q, u, (count, self.nq, self.nu))
        x = self._inputs(q.reshape(-1, count, self.nq), u.reshape(-1, count, self.nu))
        return self._forward(x).reshape(self.members, *batch, self.nq)

    def disagreement(self, q_history: Any, u_history: Any) -> np.ndarray:
        """Standard deviation over the members of the torque, summed over the joints [...] [N m]."""
        return np.asarray(self.torques(q_history, u_history).std(axis=0).sum(axis=-1))

    def drive(self, q: Any, u: Any, *, dt: float | None = None) -> ActuatorDrive:
        """A drive that remembers the samples, for a robot at rest at ``q`` [nq] [rad or m] under
        ``u`` [nu]. ``dt`` [s], the period at which you will call it, is compared with theirs."""
        if dt is not None:
            check_rates(self.dt, dt, "your loop")
        return ActuatorDrive(self, q, u)

    def _inputs(self, q: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Standardised inputs [batch, inputs] of histories [batch, H + 1, nq] and [..., nu]."""
        x = features(self._history, q, u)
        x -= self._input_mean
        x /= self._input_std
        return x

    def _forward(self, x: np.ndarray, members: slice = slice(None)) -> np.ndarray:
        """Torques [members, batch, nq] for standardised inputs [batch, inputs]."""
        x, straight = x[None], None
        if self._skip is not None:
            weight, bias, low, high = (part[members] for part in self._skip)
            straight = np.matmul(x, weight) + bias
            x = np.minimum(np.maximum(x, low), high)
        for k, (weight, bias) in enumerate(self._layers):
            x = np.matmul(x, weight[members])
            x += bias[members]
            if k < len(self._layers) - 1:
                self._squash(x)
        if straight is not None:
            x += straight
        x *= self._torque_std
        x += self._torque_mean
        return x


class ActuatorDrive:
    """Actuators of one robot with the samples that they remember: call it once per ``dt``."""

    def __init__(self, actuators: Actuators, q: Any, u: Any) -> None:
        self.actuators, self._span = actuators, actuators.length * actuators.stride + 1
        self._samples, self._next = self._span + actuators.delay, 0
        # Every sample is written twice, this many rows apart: the window is then always one piece.
        widths = (actuators.nq, actuators.nu)
        self._q, self._u = (np.empty((2 * self._samples, n), np.float32) for n in widths)
        self.reset(q, u)

    def reset(self, q: Any, u: Any) -> None:
        """Start again, with a robot that has been at ``q`` [nq] under ``u`` [nu] for long."""
        q, u = self._sample("q", q, self.actuators.nq), self._sample("u", u, self.actuators.nu)
        self._q[:], self._u[:] = q, u

    def __call__(self, q: Any, u: Any, *, member: int | None = None) -> np.ndarray:
        """Torque now [nq] [N m or N], after taking in the sample of now: positions ``q`` read [nq]
        [rad or m] and controls ``u`` commanded [nu]. ``member``: the torque of this network alone,
        counted from 0; left out, the mean over all."""
        a = self.actuators
        if member is not None and not 0 <= member < a.members:
            raise ActuatorsError(f"There is no member {member}; there are {a.members}, from 0 on.")
        q, u = self._sample("q", q, a.nq), self._sample("u", u, a.nu)
        k, samples = self._next, self._samples
        self._q[k] = self._q[k + samples] = q
        self._u[k] = self._u[k + samples] = u
        self._next = (k + 1) % samples
        x = a._inputs(self._window(self._q, a.delay)[None], self._window(self._u, 0)[None])
        if member is None:
            return a._forward(x).mean(axis=0)[0]
        return a._forward(x, slice(member, member + 1))[0, 0]

    @property
    def q_history(self) -> np.ndarray:
        """Positions that the networks see now, oldest first [H + 1, nq] [rad or m]."""
        return self._window(self._q, self.actuators.delay).copy()

    @property
    def u_history(self) -> np.ndarray:
        """Controls that the networks see now, oldest first [H + 1, nu]."""
        return self._window(self._u, 0).copy()

    def _window(self, ring: np.ndarray, first: int) -> np.ndarray:
        first += self._next
        return ring[first : first + self._span : self.actuators.stride]

    def _sample(self, name: str, value: Any, channels: int) -> np.ndarray:
        x = floats(name, value, ActuatorsError)
        if x.shape != (channels,):
            raise ActuatorsError(f"{name} must have the shape [{channels}], not {list(x.shape)}.")
        if not np.isfinite(x).all():
            raise ActuatorsError(f"{name} is not finite: {x.tolist()}; do not drive on.")
        return x


def check_histories(q: Any, u: Any, sizes: tuple[int, ...], error: type = ActuatorsError) -> None:
    """Refuse histories of other sizes than H + 1, nq and nu."""
    (rows, nq, nu), mine, other = sizes, list(q.shape[:-2]), list(u.shape[:-2])
    for name, x, columns in (("q_history", q, nq), ("u_history", u, nu)):
        if x.shape[-2:] != (rows, columns):
            of = f"(H + 1 = {rows} samples, oldest first, {columns} channels), not {[*x.shape]}"
            raise error(f"{name} must have the shape [..., {rows}, {columns}] {of}.")
    if mine != other:
        raise error(f"q_history and u_history need the same leading axes, not {mine} and {other}.")


def check_rates(own: float, dt: float, whose: str, error: type = ActuatorsError) -> None:
    """Refuse another period ``dt`` [s] than ``own``, the one that actuators were fitted at."""
    if not math.isclose(dt, own, rel_tol=DT_TOLERANCE):
        rate = f"{1.0 / dt:.6g} Hz (dt {dt:.6g} s)" if dt > 0.0 else f"dt {dt:.6g} s"
        fitted = f"the actuators were fitted at {1.0 / own:.6g} Hz (dt {own:.6g} s)"
        both = f"Two rates: {fitted} and {whose} runs at {rate}"
        raise error(f"{both}; what is learnt at one rate is wrong at another: fit again.")


def features(history: Any, q_history: Any, u_history: Any, xp: Any = np) -> Any:
    """Network inputs [..., inputs] before standardising: those of q [..., H + 1, nq], now first and
    oldest last, then of u [..., H + 1, nu], then the terms (see ``genan.actuator.settings``).

    genan itself computes them here, with JAX or a graph of ONNX as ``xp``.
    """
    parts, terms = [], history.terms
    for x in (q_history, u_history):
        now, past = x[..., -1, :], x[..., -2::-1, :] if x.shape[-2] > 1 else x[..., :0, :]
        past = past - now[..., None, :] if history.delta else past
        parts += [now, past.reshape(*x.shape[:-2], past.shape[-2] * past.shape[-1])]
    q, u = q_history[..., -1, :], u_history[..., -1, :]
    if terms.friction:
        change = q - q_history[..., -2, :]
        parts += [xp.tanh(change / bends) for bends in np.array(terms.friction, q.dtype).T]
    if terms.turning:
        angle = q[..., list(terms.turning)]
        waves = xp.sin(angle), xp.cos(angle)
        first, second = np.triu_indices(len(terms.turning), 1)
        parts += [*waves, *(a[..., first] * b[..., second] for a in waves for b in waves)]
    if terms.products:
        crossed = u[..., :, None] * q[..., None, :]
        one, other = np.triu_indices(u.shape[-1])
        parts += [crossed.reshape(*q.shape[:-1], u.shape[-1] * q.shape[-1])]
        parts += [u[..., one] * u[..., other]]
    pulls: dict[int, list[Any]] = {}
    for servo in terms.servos:
        pull = u[..., servo.goal, None] - q[..., servo.joint, None]
        for switch in servo.switches:
            pull = pull * u[..., switch, None]
        own = [pull] * bool(servo.switches) + [pull * u[..., gain, None] for gain in servo.gains]
        pulls.setdefault(servo.joint, []).extend(own)
        parts += own
    for joint, bend in terms.standing:
        angle = q[..., joint, None]
        sticks = xp.exp(-(((angle - q_history[..., -2, joint, None]) / bend) ** 2))
        held = [xp.sin(angle), xp.cos(angle)] if joint in terms.turning else []
        parts += [sticks * one for one in held + pulls.get(joint, [u])]
    return xp.concatenate(parts, axis=-1)


ACTIVATIONS: dict[str, Callable[[np.ndarray], Any]] = {  # of hidden layers, computed in place
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, np.float32(0.0), out=x),
    "elu": lambda x: np.expm1(x, out=x, where=x < 0.0),
    "softsign": lambda x: np.divide(x, np.abs(x) + np.float32(1.0), out=x),
}
