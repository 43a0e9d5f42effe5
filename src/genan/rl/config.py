"""The settings of PPO, the paper's three tables among them. Nothing here needs JAX."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from genan.errors import SettingError, listing
from genan.tasks.registry import BUNDLED, TaskSettings, task_entry, task_settings

ACTIVATIONS = ("leaky_relu", "elu", "tanh")
KL_MODES = ("stop", "adaptive", "none")
TIME_LIMITS = ("terminal", "bootstrap")
PRECISIONS = ("float32", "tf32")


@dataclass(frozen=True)
class PPOSettings:
    """How a policy learns; what is not said otherwise means what it means in skrl 2.1.1."""

    discount: float = 0.98
    """Weight of a reward one step later."""
    trace: float = 0.95
    """Lambda of generalised advantage estimation: 0 trusts the value network, 1 the rewards."""
    rate: float = 3e-4
    """Adam's learning rate, at the start."""
    entropy_scale: float = 0.0
    """Weight of the entropy bonus."""
    entropy_in_gradient: bool = True
    """Let the entropy bonus move the policy, as skrl 2 does; skrl 1.4 on JAX only reported it."""
    ratio_clip: float = 0.2
    """How far the probability ratio may leave 1 before the objective is flat."""
    value_clip: float = 0.2
    """How far a value may leave the old one in the value loss [standard deviations of the value
    scaler]."""
    clip_values: bool = True
    """Apply value_clip; skrl 2 does whenever it is above 0, skrl 1.4 left it off."""
    value_scale: float = 1.0
    """Weight of the value loss; it only matters where the gradient is clipped."""
    rollouts: int = 64
    """Steps of each environment between two updates."""
    mini_batches: int = 16
    """Parts that an epoch splits the steps into."""
    epochs: int = 5
    """Passes over the steps in an update."""
    shuffle: bool = True
    """Draw the minibatches in a new random order each epoch, as skrl 2 does; skrl 1.4 took them as
    recorded."""
    grad_norm_clip: float = 1.0
    """Longest gradient of each network; 0: any."""
    kl_mode: str = "adaptive"
    """What the KL divergence from the old policy does: stop (leave the epoch where it passes
    kl_threshold), adaptive (steer the learning rate after each epoch) or none."""
    kl_threshold: float = 0.008
    """The divergence at which an epoch stops, or that the learning rate steers to [nat]."""
    kl_factor: float = 2.0
    """Adaptive: the rate changes where the divergence is this many times above or below
    kl_threshold."""
    rate_factor: float = 1.5
    """Adaptive: by how much it changes."""
    rate_min: float = 1e-6
    """Adaptive: lowest learning rate."""
    rate_max: float = 5e-4
    """Adaptive: highest learning rate; skrl's own default is 1e-2."""
    time_limit: str = "terminal"
    """What the end of an episode means: terminal (nothing comes after it) or bootstrap (it would
    have gone on; the value before the last step stands for the rest, since the observation after it
    is the next episode's)."""
    hidden: tuple[int, ...] = (64, 64, 64, 64)
    """Neurons of each hidden layer, of the policy and of the value network."""
    activation: str = "leaky_relu"
    """What hidden layers end in: leaky_relu, elu or tanh."""
    output_gain: float = 0.01
    """Factor on the initial weights of the policy's last layer: a small one starts with the control
    held; 1 is Flax's own start."""
    initial_deviation: float = 0.3
    """Standard deviation of the actions before the squashing, at the start."""
    deviation_min: float = math.exp(-20.0)
    """Lowest standard deviation."""
    deviation_max: float = math.exp(2.0)
    """Highest standard deviation."""
    scale_observations: bool = True
    """Standardise observations by their running mean and deviation."""
    scale_values: bool = True
    """The same for values."""
    precision: str = "float32"
    """Of the updates' matrix products on a GPU: float32, or tf32 (factors rounded to 10 bits)."""

    def __post_init__(self) -> None:
        _among("activation", self.activation, ACTIVATIONS)
        _among("KL mode", self.kl_mode, KL_MODES)
        _among("time limit", self.time_limit, TIME_LIMITS)
        _among("precision", self.precision, PRECISIONS)
        for name in ("discount", "trace"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingError(
                    f"The setting {name} must lie from 0 to 1, not at {getattr(self, name):g}."
                )
        for name in ("rollouts", "mini_batches", "epochs"):
            if getattr(self, name) < 1:
                raise SettingError(
                    f"The setting {name} must be at least 1, not {getattr(self, name)}."
                )
        for name in (
            "rate",
            "ratio_clip",
            "value_clip",
            "value_scale",
            "kl_threshold",
            "initial_deviation",
            "rate_min",
        ):
            if not 0.0 < getattr(self, name) < math.inf:
                raise SettingError(
                    f"The setting {name} must be a positive number, not {getattr(self, name):g}."
                )
        for name in ("entropy_scale", "grad_norm_clip", "output_gain"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SettingError(
                    f"The setting {name} must be 0 or more, not {getattr(self, name):g}."
                )
        for name in ("kl_factor", "rate_factor"):
            if not 1.0 < getattr(self, name) < math.inf:
                raise SettingError(
                    f"The setting {name} must be above 1, not {getattr(self, name):g}."
                )
        if not self.hidden or any(width < 1 for width in self.hidden):
            raise SettingError(
                f"The networks need hidden layers of at least one neuron each, got {list(self.hidden)}; give sizes "
                "like 64 64."
            )
        if not 0.0 < self.deviation_min <= self.initial_deviation <= self.deviation_max < math.inf:
            raise SettingError(
                f"The initial deviation must lie within its bounds {self.deviation_min:g} and {self.deviation_max:g}, "
                f"not at {self.initial_deviation:g}."
            )
        if self.kl_mode == "adaptive" and not self.rate_min <= self.rate <= self.rate_max:
            raise SettingError(
                f"The learning rate must start within its bounds {self.rate_min:g} and {self.rate_max:g}, not at "
                f"{self.rate:g}; change the bounds, or take another KL mode than 'adaptive'."
            )

    def mini_batch(self, envs: int) -> int:
        """Samples of a minibatch with this many environments."""
        samples = self.rollouts * envs
        if samples < 2 * self.mini_batches or samples % self.mini_batches:
            raise SettingError(
                f"{self.rollouts} rollouts of {envs} environments are {samples} samples, which cannot be split into "
                f"{self.mini_batches} equal minibatches of two or more; change one of the three numbers."
            )
        return samples // self.mini_batches

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }


def _among(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SettingError(f"There is no {name} {value!r}; there are: {listing(known)}.")


FAST = PPOSettings()
"""A setting for quick learning: a higher, steered learning rate, fewer and larger minibatches, less
initial noise, no entropy bonus. It is the default of every field."""

# --- The settings of a training beside those of the task and of PPO. Nothing here needs JAX.

PRECISIONS_TRAIN_SETTINGS = ("auto", "float32", "tf32")
DEVICES = ("auto", "cpu", "gpu")
PRESETS = ("fast", "paper")


def preset(task: str, name: str) -> PPOSettings:
    """PPO's settings for ``task``: the paper's, or those that learn faster here."""
    return PPOSettings(**task_entry(task).preset(name).ppo)


def task_preset(task: str, name: str) -> TaskSettings:
    """The constants of ``task``: the paper's, or with what helps to learn it here."""
    found: TaskSettings = task_settings(task, preset=name)
    return found


def envs_preset(task: str, name: str) -> int:
    """Episodes side by side: 1024, or more where the task is found sooner by that."""
    return task_entry(task).preset(name).envs


PAPER = {task: preset(task, "paper") for task in BUNDLED}
"""The paper's tables of hyperparameters, by task."""


@dataclass(frozen=True)
class TrainSettings:
    """How much to train, and on what."""

    envs: int = 1024
    """Episodes that run side by side (the fast preset of ball-in-a-cup: 4096)."""
    steps: int | None = None
    """Steps of the policy, all episodes together; left out: 30 million (ball-in-a-cup: 150
    million)."""
    seed: int = 0
    """Of everything random."""
    member: int | None = None
    """Train on this network of the ensemble alone (counted from 0): without an ensemble, as in the
    paper's ablation."""
    judge: int = 1000
    """Episodes by which the finished policy is judged."""
    refill: int = 2048
    """Steps of each episode's environment after which an eighth of the pool of starts is settled
    anew."""
    precision: Literal["auto", "float32", "tf32"] = "auto"
    """Of the actuators' matrix products: float32, or tf32, which lets a GPU round the factors to 10
    bits; auto is tf32 on a GPU and float32 elsewhere."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to train; auto takes a GPU if there is one."""

    def __post_init__(self) -> None:
        for name in ("envs", "judge", "refill"):
            if getattr(self, name) < 1:
                raise SettingError(
                    f"The setting {name} must be at least 1, not {getattr(self, name)}."
                )
        if self.steps is not None and self.steps < 1:
            raise SettingError(f"A training needs at least 1 step, not {self.steps}.")
        if self.seed < 0:
            raise SettingError(f"The seed must not be negative, got {self.seed}.")

    def steps_for(self, task: str) -> int:
        """Steps of the policy for this task."""
        return task_entry(task).preset().steps if self.steps is None else self.steps

    def settings(self) -> dict[str, Any]:
        """What a result depends on, as JSON can hold it."""
        return {
            key: value
            for key, value in asdict(self).items()
            if key not in ("steps", "judge", "device")
        }
