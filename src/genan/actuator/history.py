"""What a torque depends on that no linear function of a history can say.

With these terms among its inputs, a model that is linear in all of them can have Coulomb friction
(a tanh of the velocity); can correct the gravity of a rigid-body model whose masses are a little
wrong (sines and cosines of the angles, and their products for every pair of joints: all that the
gravity of a planar pair of links is made of); can have a stiffness that is commanded (products of
controls with positions and with each other: the pressure of a muscle); can be a servo, which pulls
towards a commanded position with a gain and a switch that are commanded too; and can have stiction,
which holds against weight and drive for as long as a joint stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genan.errors import SettingError


@dataclass(frozen=True)
class Servo:
    """A joint that is pulled to a commanded position, with a gain or behind a switch that are
    controls themselves.

    Its inputs are the way to go (goal less position) times all switches, where there are any, and
    that times each gain. Joints and controls are counted from 0.
    """

    joint: int
    goal: int
    """The control that is the position to go to, in the joint's unit."""
    switches: tuple[int, ...] = ()
    """Controls without which there is no pull."""
    gains: tuple[int, ...] = ()
    """Controls that the pull is proportional to."""

    def __post_init__(self) -> None:
        if not self.count:
            raise SettingError(
                "A servo without switch and gain is linear in the history; leave it out of the terms."
            )

    @property
    def count(self) -> int:
        """Number of inputs."""
        return bool(self.switches) + len(self.gains)

    @property
    def controls(self) -> tuple[int, ...]:
        """All of its controls."""
        return self.goal, *self.switches, *self.gains

    def features(self, q: Any, u: Any) -> list[Any]:
        """The inputs [..., 1] of positions [..., nq] [rad or m] and controls [..., nu]."""
        pull = u[..., self.goal, None] - q[..., self.joint, None]
        for switch in self.switches:
            pull = pull * u[..., switch, None]
        return [pull] * bool(self.switches) + [pull * u[..., gain, None] for gain in self.gains]

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {
            "joint": self.joint,
            "goal": self.goal,
            "switches": list(self.switches),
            "gains": list(self.gains),
        }


@dataclass(frozen=True)
class Terms:
    """Inputs beside the history. Hashable: part of a compiled program."""

    friction: tuple[tuple[float, ...], ...] = ()
    """For each joint, changes of position over one stride of the history at which tanh(change /
    this) bends [rad or m]; every joint has as many. Empty: no such inputs."""
    turning: tuple[int, ...] = ()
    """Joints, counted from 0, whose sine and cosine are inputs, and the products of these for every
    pair of them."""
    products: tuple[int, int] | None = None
    """Number of joints and of controls, where the products of each control with each position, and
    of every two controls, are inputs."""
    servos: tuple[Servo, ...] = ()
    """Joints whose pull to a commanded position is an input."""
    standing: tuple[tuple[int, float], ...] = ()
    """Joints with stiction, counted from 0, and the change of position over one stride of the
    history with which one no longer stands [rad or m]. Inputs: what it then holds against, times
    exp(-(change / this)^2): its sine and cosine, if it turns, and the inputs of its servo, or all
    controls where it has none."""

    def __post_init__(self) -> None:
        if len({len(bends) for bends in self.friction}) > 1 or any(
            not w > 0.0 for b in self.friction for w in b
        ):
            raise SettingError(
                f"Every joint needs equally many positive bends of its friction, not {self.friction}."
            )
        if any(not bend > 0.0 for _, bend in self.standing):
            raise SettingError(
                f"A joint stands up to a positive change of its position, not as in {self.standing}."
            )
        if self.products is None and not {joint for joint, _ in self.standing} <= {
            one.joint for one in self.servos
        }:
            raise SettingError(
                "Stiction of a joint that is no servo needs the number of controls; give the products."
            )
        if list(self.turning) != sorted(set(self.turning)) or any(
            joint < 0 for joint in self.turning
        ):
            raise SettingError(
                f"The turning joints must be named once, in rising order, not as {self.turning}."
            )

    def __bool__(self) -> bool:
        return bool(self.friction or self.turning or self.products or self.servos or self.standing)

    @property
    def count(self) -> int:
        """Number of inputs."""
        k = len(self.turning)
        nq, nu = self.products or (0, 0)
        products = nu * nq + nu * (nu + 1) // 2
        servos = sum(servo.count for servo in self.servos)
        held = sum(
            2 * (joint in self.turning) + self._drives(joint, nu) for joint, _ in self.standing
        )
        return (
            sum(map(len, self.friction)) + 2 * k + 4 * (k * (k - 1) // 2) + products + servos + held
        )

    def _drives(self, joint: int, nu: int) -> int:
        """Inputs by which a joint is driven."""
        return sum(servo.count for servo in self.servos if servo.joint == joint) or nu

    def features(self, q_history: Any, u_history: Any, xp: Any) -> list[Any]:
        """The inputs, as arrays [..., k] to be put one behind the other.

        Args:
            q_history: positions [..., H + 1, nq] [rad or m], oldest first.
            u_history: controls [..., H + 1, nu], oldest first.
            xp: the module that computes, ``numpy`` or ``jax.numpy``.
        """
        q, u, parts = q_history[..., -1, :], u_history[..., -1, :], []
        if self.friction:
            change = q - q_history[..., -2, :]
            for bends in zip(*self.friction, strict=True):
                parts.append(xp.tanh(change / xp.asarray(bends, dtype=q.dtype)))
        if self.turning:
            angle = q[..., list(self.turning)]
            sine, cosine = xp.sin(angle), xp.cos(angle)
            first, second = self.pairs
            parts += [sine, cosine]
            for a in (sine, cosine):
                for b in (sine, cosine):
                    parts.append(a[..., first] * b[..., second])
        if self.products:
            joints, controls, one, other = self.factors
            parts += [u[..., controls] * q[..., joints], u[..., one] * u[..., other]]
        pulls = [servo.features(q, u) for servo in self.servos]
        parts += [pull for each in pulls for pull in each]
        for joint, bend in self.standing:
            change = q[..., joint, None] - q_history[..., -2, joint, None]
            stands = xp.exp(-((change / bend) ** 2))
            angle = q[..., joint, None]
            held = [xp.sin(angle), xp.cos(angle)] if joint in self.turning else []
            own = [
                pull
                for servo, each in zip(self.servos, pulls, strict=True)
                if servo.joint == joint
                for pull in each
            ]
            parts += [stands * one for one in [*held, *(own or [u])]]
        return parts

    @property
    def factors(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Joint and control of each product of the two, and both controls of each product of
        controls."""
        nq, nu = self.products or (0, 0)
        crossed = [(j, c) for c in range(nu) for j in range(nq)]
        among = [(c, d) for c in range(nu) for d in range(c, nu)]
        return (
            [j for j, _ in crossed],
            [c for _, c in crossed],
            [c for c, _ in among],
            [d for _, d in among],
        )

    @property
    def pairs(self) -> tuple[list[int], list[int]]:
        """The first and the second of every pair of turning joints, counted among them."""
        k = len(self.turning)
        pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
        return [i for i, _ in pairs], [j for _, j in pairs]

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        products = None if self.products is None else list(self.products)
        return {
            "friction": [list(bends) for bends in self.friction],
            "turning": list(self.turning),
            "products": products,
            **({"servos": [servo.settings() for servo in self.servos]} if self.servos else {}),
            **(
                {"standing": [[joint, bend] for joint, bend in self.standing]}
                if self.standing
                else {}
            ),
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Terms":
        """The terms that ``settings`` describe."""
        friction = tuple(tuple(float(w) for w in bends) for bends in settings["friction"])
        nq_nu = settings["products"]
        products = None if nq_nu is None else (int(nq_nu[0]), int(nq_nu[1]))
        servos = tuple(
            Servo(
                int(one["joint"]),
                int(one["goal"]),
                tuple(map(int, one["switches"])),
                tuple(map(int, one["gains"])),
            )
            for one in settings.get("servos", ())
        )
        standing = tuple((int(joint), float(bend)) for joint, bend in settings.get("standing", ()))
        return cls(
            friction, tuple(int(joint) for joint in settings["turning"]), products, servos, standing
        )


# --- What the network sees of the past: histories of positions and controls, as differences to

NO_TERMS = Terms()


@dataclass(frozen=True)
class History:
    """Which past samples the network sees, and how."""

    length: int = 3
    """Past samples besides the present one, H."""
    stride: int = 1
    """Samples from one of them to the next, s."""
    delta: bool = True
    """Past samples as differences to the present one (the paper's delta histories); False gives
    them as they are."""
    delay: int = 0
    """Samples that pass before a command does anything, d: the controls are those of t - d, t - d -
    s, and so on."""
    terms: Terms = NO_TERMS
    """What the network sees beside the history."""

    def __post_init__(self) -> None:
        if self.length < 0:
            raise SettingError(
                f"The history's length must be 0 or more past samples, not {self.length}."
            )
        if self.stride < 1:
            raise SettingError(
                f"The history's stride must be 1 or more samples, not {self.stride}."
            )
        if self.delay < 0:
            raise SettingError(f"The delay must be 0 or more samples, not {self.delay}.")
        if (self.terms.friction or self.terms.standing) and self.length < 1:
            raise SettingError(
                "Friction needs a velocity, and a history of length 0 has none; take 1 or more."
            )

    @property
    def rows(self) -> int:
        """Samples in a history, the present one included: H + 1."""
        return self.length + 1

    @property
    def span(self) -> int:
        """Samples from the oldest position to the present one: s H."""
        return self.length * self.stride

    @property
    def reach(self) -> int:
        """Samples from the oldest control to the present one: s H + d."""
        return self.span + self.delay

    @property
    def lags(self) -> Sequence[int]:
        """How many samples each row of a history lies in the past, oldest first: s H, ..., s, 0."""
        return range(self.span, -1, -self.stride)

    @property
    def control_lags(self) -> Sequence[int]:
        """The same for the controls: s H + d, ..., s + d, d."""
        return range(self.reach, self.delay - 1, -self.stride)

    def inputs(self, nq: int, nu: int) -> int:
        """Number of network inputs: (H + 1)(nq + nu), and those of the terms."""
        return self.rows * (nq + nu) + self.terms.count

    def of_window(self, q: Any, u: Any) -> tuple[Any, Any]:
        """Histories [..., H + 1, nq] and [..., H + 1, nu] out of every sample of the recent past,
        oldest first.

        Args:
            q: the last sH + 1 positions, or more [..., samples, nq]; the last is now.
            u: the last sH + d + 1 controls, or more [..., samples, nu]; the last is now.
        """
        q, u = q[..., q.shape[-2] - self.span - 1 :, :], u[..., u.shape[-2] - self.reach - 1 :, :]
        return q[..., :: self.stride, :], u[..., : self.span + 1 : self.stride, :]

    def features(self, q_history: Any, u_history: Any) -> Any:
        """Network inputs before standardising, for one sample: those of q, now first and oldest
        last, then those of u.

        Args:
            q_history: positions [H + 1, nq] [rad or m], oldest first.
            u_history: controls [H + 1, nu], oldest first.

        Returns:
            Inputs [(H + 1)(nq + nu) + terms].
        """
        import jax.numpy as jnp  # late: settings are read where JAX is not wanted yet

        return jnp.concatenate(self._parts(q_history, u_history, jnp))

    def features_of_many(self, q_history: np.ndarray, u_history: np.ndarray) -> np.ndarray:
        """``features`` of many samples [n, H + 1, nq] and [n, H + 1, nu], by NumPy in their
        precision [n, inputs]."""
        parts = self._parts(q_history, u_history, np)
        return np.concatenate(parts, axis=-1)

    def _parts(self, q_history: Any, u_history: Any, xp: Any) -> list[Any]:
        parts = []
        for x in (q_history, u_history):
            now, past = x[..., -1, :], x[..., -2::-1, :] if self.length else x[..., :0, :]
            past = past - now[..., None, :] if self.delta else past
            parts += [now, past.reshape(*x.shape[:-2], -1)]
        return parts + self.terms.features(q_history, u_history, xp)
