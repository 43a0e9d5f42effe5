"""A trained policy on a robot's computer: this one file, NumPy and the standard library.

Next to it, in an export folder, lie ``policy.safetensors`` (weights and scale) and ``policy.json``
(the contract: task, robot, rate, what an observation is made of), both checked when loaded.

    import numpy_policy

    policy = numpy_policy.load("folder")
    policy.check_rate(0.002)  # period of your loop [s]
    while True:
        if tick % policy.action_repeat == 0:
            action = policy.act(q, qd, u, goal=goal)  # the parts that policy.layout names
        u = policy.following(u, action)  # at each period of the robot

How long a call takes on this computer: python numpy_policy.py folder

Positions are in rad (m for slides), controls in the units of the contract. Everything is computed
in float32, as genan does. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations  # this file is written for Python 3.8 and later

import math
import sys
import timeit
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable  # noqa: UP035

import numpy as np

from genan.sealed import check_arrays, floats, read_sealed

WEIGHTS, CONTRACT = "policy.safetensors", "policy.json"
FORMAT, VERSIONS = "genan policy", (1, 2)
NAMES_0_1 = {
    "repeat": "action_repeat", "change": "action_scale", "scale.deviation": "scale.std",
    "log_deviation": "log_std",
}  # fmt: skip
"""What version 1 of the format called entries of the contract and arrays."""
DT_TOLERANCE = 1e-6  # Two time steps are the same when they differ by less than this fraction.
LEAK = np.float32(0.01)  # Slope of leaky_relu below zero.


class NumpyPolicyError(ValueError):
    """The policy is missing, damaged or used wrongly; the message is one sentence for a person."""


KIND = SimpleNamespace(
    format=FORMAT, versions=VERSIONS, weights=WEIGHTS, contract=CONTRACT, error=NumpyPolicyError,
    none="There is no policy", again="train again", reader="this file",
)  # fmt: skip


def load(folder: Path | str) -> NumpyPolicy:
    """Read an export folder, or the --out of 'genan train', and check everything in it."""
    settings, arrays = read_sealed(Path(folder), KIND)
    return NumpyPolicy(settings, arrays, where=str(Path(folder) / WEIGHTS))


class NumpyPolicy:
    """From what is observed to what is added to the controls.

    ``contract`` and ``record`` are those of ``policy.json``, and from there come ``layout`` (names
    and numbers of entries of the observation's parts, in order), ``nq``, ``nu``, ``dt`` (period of
    the robot [s]), ``action_repeat`` (its periods to a step of the policy), ``action_scale`` (the
    largest action: change of a control in one period, one number, or one for each
    control), ``u_lower`` and ``u_upper`` [nu].
    """

    def __init__(
        self, settings: dict[str, Any], arrays: dict[str, np.ndarray], *, where: str = WEIGHTS
    ) -> None:
        try:
            contract = {NAMES_0_1.get(k, k): entry for k, entry in settings["contract"].items()}
            self.contract: dict[str, Any] = contract
            self.record: dict[str, Any] = settings["record"]
            self.layout = [(str(p["name"]), int(p["size"])) for p in contract["observation"]]
            self.nq, self.nu = len(contract["joints"]), len(contract["controls"])
            self.dt, self.action_repeat = float(contract["dt"]), int(contract["action_repeat"])
            scale, clip = contract["action_scale"], contract["scale"]["clip"]
            several = isinstance(scale, (list, tuple))
            self.action_scale = tuple(map(float, scale)) if several else float(scale)
            self._clip = np.float32(np.inf if clip is None else clip)
            ranges = np.array(contract["u_range"], np.float64)
            self.u_lower, self.u_upper = ranges.reshape(self.nu, 2).T
            hidden = [int(n) for n in contract["network"]["hidden"]]
            activation = str(contract["network"]["activation"])
            sized, positive = np.size(self.action_scale), np.min(self.action_scale) > 0.0
            positive = positive and self.dt > 0.0 and self.action_repeat > 0
            if not positive or sized not in (1, self.nu):
                raise ValueError("dt, action_repeat or action_scale out of range")
            rate, own = float(contract["rate"]), 1.0 / (self.dt * self.action_repeat)
            if not math.isclose(rate, own, rel_tol=DT_TOLERANCE):
                raise ValueError(f"a rate of {rate:g} Hz, and {own:g} Hz by dt and action_repeat")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            lacks = f"The policy's contract is not complete ({type(error).__name__}: {error})"
            raise NumpyPolicyError(f"{lacks}; export it again or train again.") from None
        there = f"there are: {', '.join(map(repr, ACTIVATIONS))}"
        _refuse(activation not in ACTIVATIONS, f"There is no activation {activation!r}; {there}.")
        self._activate = ACTIVATIONS[activation]
        self._largest = np.asarray(self.action_scale, np.float32)
        self._inputs, self._sizes = sum(size for _, size in self.layout), dict(self.layout)
        widths = [self._inputs, *hidden, self.nu]
        arrays = {NAMES_0_1.get(name, name): array for name, array in arrays.items()}

        def get(name: str, *shape: int) -> np.ndarray:
            check_arrays(KIND, arrays, {name: shape}, where=where)
            return arrays[name]

        self._layers = [
            (get(f"layers.{k}.weight", rows, columns), get(f"layers.{k}.bias", columns))
            for k, (rows, columns) in enumerate(zip(widths, widths[1:]))  # noqa: B905, RUF007
        ]
        self._mean, self._std = get("scale.mean", self._inputs), get("scale.std", self._inputs)
        _refuse(not (self._std > 0.0).all(), f"{where} has a std of 0 or less; train again.")
        get("log_std", self.nu)

    def __call__(self, observation: Any) -> np.ndarray:
        """What is added to the controls in each period of the robot [..., nu], in their units.

        Args:
            observation: the parts of ``layout``, one after the other [..., n], not standardised.
        """
        x = floats("observation", observation, NumpyPolicyError)
        if x.shape[-1:] != (self._inputs,):
            parts = ", ".join(f"{name} {size}" for name, size in self.layout)
            shape = f"[..., {self._inputs}] ({parts}), not {list(x.shape)}"
            raise NumpyPolicyError(f"An observation must have the shape {shape}.")
        _refuse(not np.isfinite(x).all(), "The observation is not finite; do not drive on.")
        return self._forward(x)

    def act(self, q: Any, qd: Any, u: Any, **task_parts: Any) -> np.ndarray:
        """What is added to the controls in each period of the robot until the next call [nu]: one
        call every ``action_repeat`` periods.

        Args:
            q: joint positions [nq] [rad or m].
            qd: joint velocities [nq] [rad/s or m/s].
            u: controls that were commanded last [nu].
            task_parts: the other parts of ``layout`` by name.
        """
        parts: dict[str, Any] = {"q": q, "qd": qd, "u": u, **task_parts}
        if parts.keys() != self._sizes.keys():
            wanted, came = (", ".join(map(repr, names)) for names in (self._sizes, parts))
            raise NumpyPolicyError(f"The policy's observation is made of {wanted}, not of {came}.")
        for name, size in self._sizes.items():
            value = floats(name, parts[name], NumpyPolicyError)
            if value.shape != (size,) and not (value.ndim == 0 and size == 1):
                came = str(list(value.shape))
                raise NumpyPolicyError(f"{name} must have the shape [{size}], not {came}.")
            parts[name] = value.ravel()
        x = np.concatenate([parts[name] for name in self._sizes])
        if not np.isfinite(x).all():
            name = next(n for n in self._sizes if not np.isfinite(parts[n]).all())
            came = str(parts[name].tolist())
            raise NumpyPolicyError(f"{name} is not finite: {came}; do not drive on.")
        return self._forward(x)

    def _forward(self, x: np.ndarray) -> np.ndarray:
        x = np.minimum(np.maximum((x - self._mean) / self._std, -self._clip), self._clip)
        for k, (weight, bias) in enumerate(self._layers):
            x = np.dot(self._activate(x) if k else x, weight) + bias
        return np.tanh(x) * self._largest

    def following(self, u: Any, action: Any) -> np.ndarray:
        """The controls one period after ``u`` [nu]: ``action`` [nu] added, within their range."""
        return np.minimum(np.maximum(np.add(u, action), self.u_lower), self.u_upper)

    def check_rate(self, dt: float) -> None:
        """Refuse another period ``dt`` [s] of the robot than the policy was trained at."""
        if not math.isclose(dt, self.dt, rel_tol=DT_TOLERANCE):
            rate = f"{1.0 / dt:.6g} Hz (dt {dt:.6g} s)" if dt > 0.0 else f"dt {dt:.6g} s"
            own = f"the policy was trained for {1.0 / self.dt:.6g} Hz (dt {self.dt:.6g} s)"
            both = f"Two rates: {own} and your loop runs at {rate}"
            raise NumpyPolicyError(f"{both}; what is learnt at one is wrong at another.")


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "leaky_relu": lambda x: np.maximum(x, LEAK * x),
    "elu": lambda x: np.maximum(x, np.expm1(np.minimum(x, np.float32(0.0)))),
    "tanh": np.tanh,
}
"""What a hidden layer can end in."""


def _refuse(wrong: Any, sentence: str) -> None:
    if wrong:
        raise NumpyPolicyError(sentence)


def _time(folder: str, calls: int = 5000) -> str:
    """How long ``act`` takes, in words."""
    policy = load(folder)
    parts = {name: np.zeros(size) for name, size in policy.layout}
    taken = timeit.repeat(lambda: policy.act(**parts), number=1, repeat=calls)
    middle, most = 1e3 * np.quantile(taken, (0.5, 0.99))
    return f"act: median {middle:.4f} ms, 99 % below {most:.4f} ms ({calls} calls)"


if __name__ == "__main__":
    print(_time(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent)))
