"""What a network sees (histories of positions and controls, and terms that no linear function of
them can say), and how it is fitted, with measured defaults (``docs/actuators.md`` has the numbers).

A history of length H and stride s holds the samples t - sH, ..., t - s, t, in that order (the last
one is now). The network gets (x_t, x_{t-s} - x_t, ..., x_{t-sH} - x_t): consecutive samples are
nearly equal, and the differences keep what distinguishes them when everything is standardised. A
delay of d samples shifts the controls alone: x_t above is then u_{t-d}, because what is commanded
now does nothing before that.

With the terms among its inputs, a model that is linear in all of them can have Coulomb friction;
can correct the gravity of a rigid-body model whose masses are a little wrong (all that the gravity
of a planar pair of links is made of); can have a stiffness that is commanded (the pressure of a
muscle); can be a servo; and can have stiction.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from genan.actuator.numpy_runtime import features
from genan.errors import SettingError, check_choices, check_numbers, refuse


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
    turning: tuple[int, ...] = ()  # Joints, from 0, whose sines, cosines and products are inputs.
    products: tuple[int, int] | None = None
    """How many joints and controls: products of controls with positions and controls are inputs."""
    servos: tuple[Servo, ...] = ()  # Joints whose pull to a commanded position is an input.
    standing: tuple[tuple[int, float], ...] = ()
    """Joints with stiction, from 0, and the change of position over one stride above which one
    counts as moving [rad or m]. Inputs: what it then holds against, times exp(-(change / this)^2):
    its sine and cosine, if it turns, and the inputs of its servo, or else all controls."""

    def __post_init__(self) -> None:
        bends = [*sum(self.friction, ()), *(bend for _, bend in self.standing)]
        uneven = len(set(map(len, self.friction))) > 1 or any(not bend > 0.0 for bend in bends)
        no_servo = {joint for joint, _ in self.standing} - {servo.joint for servo in self.servos}
        countless = self.products is None and no_servo
        unordered = list(self.turning) != sorted({joint for joint in self.turning if joint >= 0})
        friction = "Friction and stiction need positive changes of position, every joint as many"
        refuse(
            (uneven, f"{friction}, not {self.friction} and {self.standing}."),
            (countless, "Stiction without a servo needs the number of controls: products."),
            (unordered, f"Name turning joints once, in rising order, not {self.turning}."),
        )

    def __bool__(self) -> bool:
        return self != NO_TERMS


NO_TERMS = Terms()


@dataclass(frozen=True)
class History:
    """Which past samples the network sees, and how."""

    length: int = 3  # Past samples besides the present one, H.
    stride: int = 1  # Samples from one of them to the next, s.
    delta: bool = True  # Past samples as differences to now (the paper's delta histories).
    delay: int = 0  # Samples before a command acts, d: controls are those of t - d, t - d - s, ...
    terms: Terms = NO_TERMS  # What the network sees besides the history.

    def __post_init__(self) -> None:
        check_numbers(self, {"be 0 or more": "length delay", "be at least 1": "stride"})
        moving = self.length < 1 and (self.terms.friction or self.terms.standing)
        refuse((moving, "Friction needs a velocity: a history of length 0 has none."))

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
        """Histories that end at ``rows`` [...] of positions [n, nq] and controls [n, nu]."""
        at = rows[..., None] - np.asarray(self.lags)
        return q[at], u[at - self.delay]

    def features(self, q_history: Any, u_history: Any, xp: Any = np) -> Any:
        """Network inputs [..., inputs] of histories [..., H + 1, nq] [rad or m] and [..., H + 1,
        nu], before standardising: those of q, now first and oldest last, of u, then the terms.
        ``xp`` computes: NumPy, ``jax.numpy``, or what else has their functions."""
        return features(self, q_history, u_history, xp)


# --- The settings of a fit, with measured defaults (``docs/actuators.md`` has the numbers).

ACTIVATIONS = ("tanh", "relu", "elu", "softsign")  # What a hidden layer can end in.

_CHOICES = {
    "loss": ("position", "torque", "multi-step"),
    "schedule": ("cosine", "constant"),
    "precision": ("auto", "float32", "tf32", "bfloat16"),
    "base": ("none", "linear", "parametric", "both"),
}

_RULES = {
    "be at least 1": "members epochs rollout batch_size patience history_stride",
    "be 0 or more": "weight_decay history_noise control_noise seed split_seed history_length delay",
    "be a positive number": "learning_rate",
}

_OLD_NAMES = {"batch": "batch_size", "rate": "learning_rate"}
"""Settings as genan 0.1 called them, in the records of its artifacts."""


@dataclass(frozen=True)
class Architecture:
    """Shape of the network."""

    hidden: tuple[int, ...] = (512, 512)  # Neurons of each hidden layer.
    activation: str = "tanh"  # What each hidden layer ends in.
    skip: bool = False  # Whether a linear function of the inputs bypasses the hidden layers.

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise SettingError(f"Hidden layers need at least one neuron, not {list(self.hidden)}.")
        check_choices(self, activation=ACTIVATIONS)

    def sizes(self, inputs: int, outputs: int) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        return list(pairwise([inputs, *self.hidden, outputs]))


@dataclass(frozen=True)
class FitSettings:
    """How actuators are fitted; every field is a flag of ``genan fit``."""

    loss: str = "position"  # What to minimise: position (the next one), torque or multi-step.
    balance: bool = False  # Let every joint count the same in the position loss.
    rollout: int | None = None  # Steps of the multi-step loss; left out: 10.
    history_length: int = 3  # Past samples that the network sees besides the present one.
    history_stride: int = 1  # Samples from one of them to the next.
    delta: bool = True  # Give the network past samples as differences to the present one.
    delay: int = 0  # Samples before a command does anything, as 'genan inspect' finds it.
    history_noise: float = 0.0  # Deviation of white noise on the position history [rad or m].
    control_noise: float = 0.0
    """The same on the control history, as a part of each control's own deviation. Recorded controls
    are smooth, a policy's are not: for actuators that policies are trained on, take 0.01."""
    hidden: tuple[int, ...] = (512, 512)  # Neurons of each hidden layer.
    activation: str = "tanh"  # What hidden layers end in: tanh, relu, elu or softsign.
    members: int = 5  # Networks in the ensemble.
    base: str = "none"
    """Closed-form torque model that the networks add to: none, linear (in the history), parametric
    (gain, spring, friction, offset, gravity) or both; all there is without hidden layers."""
    weight_decay: float = 0.0  # How fast unused weights go to zero, per unit of learning rate.
    folds: int | None = None
    """Cut the recordings into this many parts and let each network leave out another one, to select
    by and to be judged on; left out: one part (--validation) is held out for all networks."""
    epochs: int = 150  # Passes over the data; each member keeps its best weights in validation.
    patience: int | None = None  # Stop after this many epochs without progress; left out: never.
    batch_size: int | None = None  # Of a step; left out: near 1/300 of the samples, 256 to 8192.
    learning_rate: float | None = None
    """Adam's, at the start; left out: 1e-3 (batches of 8192 or more: 2e-3), with --from 2e-4."""
    schedule: str = "cosine"  # Learning rate: cosine (to zero at the last epoch) or constant.
    validation: float = 0.2  # Part of the trajectories that is held out to select by.
    seed: int = 0  # Of the first member; the others count on from it.
    split_seed: int = 0  # Which trajectories are held out.
    precision: str = "auto"  # Products in float32, tf32, bfloat16; auto: bfloat16 on a GPU.
    allow_constant: bool = False  # Continue although a control never changes, for its one value.

    def __post_init__(self) -> None:
        check_choices(self, **_CHOICES)
        check_numbers(self, _RULES)
        loss, part, folds, members = self.loss, self.validation, self.folds, self.members
        uneven, stray = self.balance and loss != "position", self.rollout and loss != "multi-step"
        few = f"There must be 2 folds or more, a network for each, not {folds} folds for {members}."
        refuse(
            (not 0.0 < part < 1.0, f"validation must lie between 0 and 1, not at {part:g}."),
            (uneven, f"Only the loss 'position' can be balanced, not {loss!r}."),
            (stray, f"A rollout needs the loss 'multi-step', not {loss!r}."),
            (folds is not None and not 2 <= folds <= members, few),
        )
        self.history, self.architecture  # noqa: B018  (they check themselves)

    @property
    def steps(self) -> int:
        """Steps that the loss looks ahead."""
        return (self.rollout or 10) if self.loss == "multi-step" else 1

    @property
    def history(self) -> History:
        """What the network sees of the past."""
        return History(self.history_length, self.history_stride, self.delta, self.delay)

    @property
    def architecture(self) -> Architecture:
        """Shape of each network."""
        skip = self.base != "none" and bool(self.hidden)
        return Architecture(tuple(self.hidden), self.activation, skip)

    def batch_size_for(self, samples: int) -> int:
        """Batch size for this many training samples."""
        usual = 2 ** round(math.log2(max(samples / 300.0, 1.0)))
        return self.batch_size or min(max(usual, 256), 8192)

    def shaped(self, history: History, shape: Architecture) -> "FitSettings":
        """These settings with this history and networks of this shape."""
        found: dict[str, Any] = {"history_length": history.length, "history_stride": history.stride}
        found |= {"delta": history.delta, "delay": history.delay, "hidden": shape.hidden}
        return replace(self, **found, activation=shape.activation)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], *, strict: bool = True) -> "FitSettings":
        """From keywords or a record, of genan 0.1 too; unknown ones are refused if ``strict``."""
        known = [field.name for field in fields(cls)]
        values = {_OLD_NAMES.get(name, name): frozen(value) for name, value in settings.items()}
        for name in values if strict else ():
            if name not in known:
                raise SettingError(f"There is no setting {name!r}; there are: {', '.join(known)}.")
        return cls(**{name: value for name, value in values.items() if name in known})
