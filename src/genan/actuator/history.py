"""What the network sees: histories of positions and controls, and terms that no linear function of
them can say.

A history of length H and stride s holds the samples t - sH, ..., t - s, t, in that order (the last
one is now). The network gets (x_t, x_{t-s} - x_t, ..., x_{t-sH} - x_t): consecutive samples are
nearly equal, and the differences keep what distinguishes them when everything is standardised. A
delay of d samples shifts the controls alone: x_t above is then u_{t-d}, because what is commanded
now does nothing before that.

With the terms among its inputs, a model that is linear in all of them can have Coulomb friction (a
tanh of the velocity); can correct the gravity of a rigid-body model whose masses are a little wrong
(sines and cosines of the angles, and their products for every pair of joints: all that the gravity
of a planar pair of links is made of); can have a stiffness that is commanded (products of controls
with positions and with each other: the pressure of a muscle); can be a servo, which pulls towards a
commanded position with a gain and a switch that are commanded too; and can have stiction, which
holds against weight and drive for as long as a joint does not move.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from genan.actuator.numpy_runtime import features
from genan.errors import SettingError, check_numbers


def frozen(value: Any) -> Any:
    """What JSON holds, its lists as tuples."""
    if isinstance(value, dict):
        return {key: frozen(one) for key, one in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Servo:
    """A joint pulled to a commanded position, with a gain or behind a switch that are controls too.
    Its inputs are the distance to go (goal less position) times all switches, where there are any,
    and that times each gain. Joints and controls are counted from 0."""

    joint: int
    goal: int  # The control that is the position to go to, in the joint's unit.
    switches: tuple[int, ...] = ()  # Controls without which there is no pull.
    gains: tuple[int, ...] = ()  # Controls that the pull is proportional to.

    def __post_init__(self) -> None:
        if not self.switches and not self.gains:
            raise SettingError("A servo without switch and gain is linear in the history: no term.")


@dataclass(frozen=True)
class Terms:
    """Inputs besides the history. Hashable: part of a compiled program."""

    friction: tuple[tuple[float, ...], ...] = ()
    """For each joint, changes of position over one stride of the history at which tanh(change /
    this) bends [rad or m]; every joint has the same number of them. Empty: no such inputs."""
    turning: tuple[int, ...] = ()
    """Joints, counted from 0, whose sines and cosines, and these of all pairs, are inputs."""
    products: tuple[int, int] | None = None
    """Number of joints and of controls, where the products of each control with each position, and
    of every two controls, are inputs."""
    servos: tuple[Servo, ...] = ()  # Joints whose pull to a commanded position is an input.
    standing: tuple[tuple[int, float], ...] = ()
    """Joints with stiction, counted from 0, and the change of position over one stride of the
    history above which one counts as moving [rad or m]. Inputs: what it then holds against, times
    exp(-(change / this)^2): its sine and cosine, if it turns, and the inputs of its servo, or all
    controls where it has none."""

    def __post_init__(self) -> None:
        bends = [*sum(self.friction, ()), *(bend for _, bend in self.standing)]
        if len(set(map(len, self.friction))) > 1 or any(not bend > 0.0 for bend in bends):
            raise SettingError(
                "Friction and stiction need positive changes of position, friction equally many "
                f"for every joint, not {self.friction} and {self.standing}."
            )
        no_servo = {joint for joint, _ in self.standing} - {servo.joint for servo in self.servos}
        if self.products is None and no_servo:
            raise SettingError("Stiction without a servo needs the number of controls: products.")
        if list(self.turning) != sorted({joint for joint in self.turning if joint >= 0}):
            raise SettingError(f"Name turning joints once, in rising order, not {self.turning}.")

    def __bool__(self) -> bool:
        return bool(self.friction or self.turning or self.products or self.servos or self.standing)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it; what format 3 brought, where it is used."""
        newer = ("servos", "standing")
        return {key: value for key, value in asdict(self).items() if value or key not in newer}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Terms":
        """The terms that ``settings`` describe."""
        found = frozen(settings)
        servos = tuple(Servo(**one) for one in found.get("servos", ()))
        standing = found.get("standing", ())
        return cls(found["friction"], found["turning"], found["products"], servos, standing)


NO_TERMS = Terms()


@dataclass(frozen=True)
class History:
    """Which past samples the network sees, and how."""

    length: int = 3  # Past samples besides the present one, H.
    stride: int = 1  # Samples from one of them to the next, s.
    delta: bool = True
    """Past samples as differences to the present one (the paper's delta histories)."""
    delay: int = 0
    """Samples before a command does anything, d: controls are those of t - d, t - d - s, ..."""
    terms: Terms = NO_TERMS  # What the network sees besides the history.

    def __post_init__(self) -> None:
        check_numbers(self, {"be 0 or more": "length delay", "be at least 1": "stride"})
        if (self.terms.friction or self.terms.standing) and self.length < 1:
            raise SettingError("Friction needs a velocity: a history of length 0 has none.")

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

    def inputs(self, nq: int, nu: int) -> int:
        """Number of network inputs: (H + 1)(nq + nu), and those of the terms."""
        return int(self.features(*(np.zeros((self.rows, n)) for n in (nq, nu))).shape[-1])

    def of_window(self, q: Any, u: Any) -> tuple[Any, Any]:
        """Histories out of every recent sample, oldest first, the last one now: the last sH + 1
        positions [..., samples, nq] and sH + d + 1 controls [..., samples, nu], or more of them."""
        q, u = q[..., q.shape[-2] - self.span - 1 :, :], u[..., u.shape[-2] - self.reach - 1 :, :]
        return q[..., :: self.stride, :], u[..., : self.span + 1 : self.stride, :]

    def at(self, q: Any, u: Any, rows: Any) -> tuple[Any, Any]:
        """Histories [..., H + 1, nq] and [..., H + 1, nu] that end at ``rows`` [...] (``reach`` or
        later) of positions [n, nq] and controls [n, nu], of NumPy or JAX."""
        at = rows[..., None] - np.asarray(self.lags)
        return q[at], u[at - self.delay]

    def features(self, q_history: Any, u_history: Any, xp: Any = None) -> Any:
        """Network inputs [..., inputs] before standardising: those of q, now first and oldest last,
        then of u, then the terms.

        Positions are [..., H + 1, nq] [rad or m], controls [..., H + 1, nu], oldest first. ``xp``
        computes; left out: NumPy for its own arrays, else ``jax.numpy``.
        """
        if xp is None and isinstance(q_history, np.ndarray):
            xp = np
        elif xp is None:
            import jax.numpy as xp  # late: settings are read where JAX is not wanted yet
        return features(self, q_history, u_history, xp)
