"""The settings of a fit, with measured defaults (``docs/actuators.md`` has the numbers)."""

import math
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any

from genan.actuator.history import History, frozen
from genan.errors import SettingError, check_choices, check_numbers

ACTIVATIONS = ("tanh", "relu", "elu", "softsign")
"""What a hidden layer can end in; all of them are exported too."""

_CHOICES = {
    "loss": ("position", "torque", "multi-step"),
    "schedule": ("cosine", "constant"),
    "precision": ("auto", "float32", "tf32", "bfloat16"),
    "base": ("none", "linear", "parametric", "both"),
    "activation": ACTIVATIONS,
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
    skip: bool = False
    """Whether a linear function of the inputs is added to what the hidden layers give."""

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

    loss: str = "position"
    """What to minimise: position (the next one), torque (of inverse dynamics), or multi-step."""
    balance: bool = False
    """Let every joint count the same in the position loss, not joints that move more count more."""
    rollout: int | None = None  # Steps of the multi-step loss; left out: 10.
    history_length: int = 3  # Past samples that the network sees besides the present one.
    history_stride: int = 1  # Samples from one of them to the next.
    delta: bool = True  # Give the network past samples as differences to the present one.
    delay: int = 0
    """Whole samples between a command and the first thing it does, as 'genan inspect' finds it."""
    history_noise: float = 0.0
    """Standard deviation of white noise on the position history in training [rad, m for slides]."""
    control_noise: float = 0.0
    """The same on the control history, as a part of each control's own deviation. Recorded controls
    are smooth, a policy's are not: for actuators that policies are trained on, take 0.01."""
    hidden: tuple[int, ...] = (512, 512)  # Neurons of each hidden layer.
    activation: str = "tanh"  # What hidden layers end in: tanh, relu, elu or softsign.
    members: int = 5  # Networks in the ensemble.
    base: str = "none"
    """Torque model, fitted in closed form, that the networks add to: none, linear (in the history),
    parametric (gain, spring, friction, offset, gravity) or both; all there is without hidden
    layers."""
    weight_decay: float = 0.0  # How fast unused weights go to zero, per unit of learning rate.
    folds: int | None = None
    """Cut the recordings into this many parts and let each network leave out another one, to select
    by and to be judged on; left out: one part (--validation) is held out for all networks."""
    epochs: int = 150  # Passes over the data; each member keeps its best weights in validation.
    patience: int | None = None
    """Stop a member after this many epochs without a lower validation loss; left out: never."""
    batch_size: int | None = None
    """Samples of a step; left out: near 1/300 of the training samples, from 256 to 8192."""
    learning_rate: float | None = None
    """Adam's learning rate (at the start); left out: 1e-3 (2e-3 with batches of 8192 or
    more), or 2e-4 when continuing from an ensemble."""
    schedule: str = "cosine"
    """How the learning rate continues: cosine (down to zero at the last epoch) or constant."""
    validation: float = 0.2  # Part of the trajectories that is held out to select by.
    seed: int = 0  # Of the first member; the others count on from it.
    split_seed: int = 0  # Which trajectories are held out.
    precision: str = "auto"
    """Of matrix products in training: float32, tf32 or bfloat16; auto: bfloat16 on a GPU."""
    allow_constant: bool = False
    """Continue although a control never changes; the model is then for this value of it only."""

    def __post_init__(self) -> None:
        check_choices(self, **_CHOICES)
        check_numbers(self, _RULES)
        if not 0.0 < self.validation < 1.0:
            raise SettingError(f"validation must lie between 0 and 1, not at {self.validation:g}.")
        if self.balance and self.loss != "position":
            raise SettingError(f"Only the loss 'position' can be balanced, not {self.loss!r}.")
        if self.rollout is not None and self.loss != "multi-step":
            raise SettingError(f"A rollout needs the loss 'multi-step', not {self.loss!r}.")
        if self.folds is not None and not 2 <= self.folds <= self.members:
            found = f"{self.folds} folds for {self.members}"
            raise SettingError(f"There must be 2 folds or more, a network for each, not {found}.")
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
        if self.batch_size is not None:
            return self.batch_size
        return int(min(max(2 ** round(math.log2(max(samples / 300.0, 1.0))), 256), 8192))

    def shaped(self, history: History, shape: Architecture) -> "FitSettings":
        """These settings with this history and networks of this shape."""
        past = {"history_length": history.length, "history_stride": history.stride}
        network = {"hidden": shape.hidden, "activation": shape.activation}
        found: dict[str, Any] = {**past, **network, "delta": history.delta, "delay": history.delay}
        return replace(self, **found)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], *, strict: bool = True) -> "FitSettings":
        """From keywords or an artifact's record, of genan 0.1 too. Unknown ones are refused or,
        where not ``strict``, left out."""
        known = [field.name for field in fields(cls)]
        values = {_OLD_NAMES.get(name, name): frozen(value) for name, value in settings.items()}
        for name in values if strict else ():
            if name not in known:
                raise SettingError(f"There is no setting {name!r}; there are: {', '.join(known)}.")
        return cls(**{name: value for name, value in values.items() if name in known})
