"""Settings of PPO and of a training, and the presets of the tasks. Nothing here needs JAX."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from genan.errors import check_choices, check_numbers, refuse
from genan.tasks.registry import TrainingPreset, task_entry, task_settings

ACTIVATIONS = ("leaky_relu", "elu", "tanh")
_NAMES = tomllib.loads(Path(__file__).with_name("other_names.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class PPOSettings:
    """How a policy learns; what is not said otherwise means what it means in skrl 2.1.1. The
    defaults learn quickly: a higher, steered learning rate, fewer and larger minibatches, less
    initial noise and no entropy bonus, compared with the paper."""

    gamma: float = 0.98  # Discount: weight of a reward one step later.
    gae_lambda: float = 0.95  # Of the advantages: 0 trusts the value network, 1 the rewards.
    learning_rate: float = 3e-4  # Adam's learning rate, at the start.
    entropy_coef: float = 0.0  # Weight of the entropy bonus.
    entropy_in_gradient: bool = True  # Let it move the policy; skrl 1.4 on JAX only reported it.
    clip_range: float = 0.2  # How far the probability ratio may leave 1 before all is flat.
    value_clip_range: float = 0.2
    """How far a value may leave the old one in the value loss [standard deviations of the value
    scaler]; 0: any distance, as in skrl 1.4."""
    value_coef: float = 1.0  # Weight of the value loss; it only matters with a clipped gradient.
    num_steps_per_env: int = 64  # Steps of each environment between two updates.
    num_minibatches: int = 16  # Parts that an epoch splits the steps into.
    num_epochs: int = 5  # Passes over the steps in an update.
    shuffle: bool = True  # Draw minibatches in a new order each epoch; skrl 1.4 took them in time.
    max_grad_norm: float = 1.0  # Longest gradient of each network; 0: any.
    kl_mode: str = "adaptive"
    """What the KL divergence from the old policy does: stop (leave the epoch where it passes
    kl_threshold), adaptive (steer the learning rate after each epoch) or none."""
    kl_threshold: float = 0.008  # Divergence that stops an epoch, or that is steered to [nat].
    kl_factor: float = 2.0  # Adaptive: how many times above or below the threshold it changes.
    learning_rate_factor: float = 1.5  # Adaptive: by how much it changes.
    min_learning_rate: float = 1e-6  # Adaptive: lowest learning rate.
    max_learning_rate: float = 5e-4  # Adaptive: highest learning rate; skrl's own default is 1e-2.
    time_limit: str = "bootstrap"
    """What an episode means whose time is up: bootstrap (it would have gone on; the rest is the
    value of its last observation) or terminal (nothing comes after it, as in skrl)."""
    hidden: tuple[int, ...] = (64, 64, 64, 64)  # Neurons of each hidden layer, of both networks.
    activation: str = "leaky_relu"  # What hidden layers end in: leaky_relu, elu or tanh.
    output_gain: float = 0.01
    """Factor on the first weights of the policy's last layer: small ones hold the control."""
    init_std: float = 0.3  # Standard deviation of the actions before the squashing, at the start.
    min_std: float = math.exp(-20.0)  # Lowest standard deviation.
    max_std: float = math.exp(2.0)  # Highest standard deviation.
    scale_observations: bool = True  # Standardise by running mean and standard deviation.
    scale_values: bool = True  # The same for values.
    precision: str = "float32"
    """Of the updates' matrix products on a GPU: float32, or tf32 (factors rounded to 10 bits)."""

    def __post_init__(self) -> None:
        check_choices(
            self,
            activation=ACTIVATIONS,
            kl_mode=("stop", "adaptive", "none"),
            time_limit=("terminal", "bootstrap"),
            precision=("float32", "tf32"),
        )
        positive = "learning_rate clip_range value_coef kl_threshold init_std min_learning_rate"
        rules = {
            "lie from 0 to 1": "gamma gae_lambda",
            "be at least 1": "num_steps_per_env num_minibatches num_epochs",
            "be a positive number": positive,
            "be 0 or more": "entropy_coef max_grad_norm output_gain value_clip_range",
            "be above 1": "kl_factor learning_rate_factor",
        }
        check_numbers(self, rules)
        got = f"at least one neuron each, got {list(self.hidden)}; give sizes like 64 64"
        wrong = min(self.hidden, default=0) < 1
        refuse((wrong, f"The networks need hidden layers of {got}."))
        bounded = {"init_std": ("min_std", "max_std")}
        if self.kl_mode == "adaptive":
            bounded["learning_rate"] = ("min_learning_rate", "max_learning_rate")
        for name, bounds in bounded.items():
            value, low, high = (getattr(self, one) for one in (name, *bounds))
            lie = f"lie within its bounds {low:g} and {high:g}, not at {value:g}"
            within = 0.0 < low <= value <= high < math.inf
            refuse((not within, f"The setting {name} must {lie}; change it, or its bounds."))

    def minibatch_size(self, num_envs: int) -> int:
        """Samples of a minibatch with this many environments."""
        steps, parts = self.num_steps_per_env, self.num_minibatches
        size, rest = divmod(steps * num_envs, parts)
        split = f"{steps} steps of {num_envs} environments cannot be split into {parts} equal"
        more = "minibatches of two or more samples; change one of the three numbers"
        refuse((size < 2 or rest, f"{split} {more}."))
        return size

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {**asdict(self), "hidden": list(self.hidden)}

    def named_as_in(self, other: str) -> dict[str, Any]:
        """The settings that ``other``, a table of ``other_names.toml``, has, by its names."""
        return {theirs: getattr(self, ours) for theirs, ours in _NAMES[other].items()}


def convert_ppo_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of PPO as genan 0.1 wrote them, under their present names."""
    names = _NAMES["genan-0-1"]
    found = {names.get(name, name): value for name, value in settings.items()}
    if not found.pop("clip_values", True):
        found["value_clip_range"] = 0.0
    return found


@dataclass(frozen=True)
class TrainSettings:
    """How much to train, and on what."""

    num_envs: int = 1024  # Episodes that run side by side.
    steps: int | None = None  # Policy steps, all episodes together; left out: what the preset says.
    seed: int = 0  # Of everything random.
    seeds: int = 1
    """Policies trained side by side in one program, with this seed and the following ones; the best
    in simulation is kept, and each in a folder of its own."""
    member: int | None = None  # Train on this network alone (from 0), as in the paper's ablation.
    judge: int = 1000  # Episodes by which the finished policy is judged.
    refill: int = 2048
    """Steps of each environment after which an eighth of the pool of starts is settled again."""
    precision: Literal["auto", "float32", "tf32"] = "auto"
    """Of the actuators' matrix products: float32, or tf32, which lets a GPU round the factors to 10
    bits; auto is tf32 on a GPU and float32 elsewhere."""
    device: Literal["auto", "cpu", "gpu"] = "auto"  # Where to train; auto: a GPU if there is one.

    def __post_init__(self) -> None:
        rules = {"be at least 1": "num_envs judge refill steps seeds", "be 0 or more": "seed"}
        check_numbers(self, rules)

    def settings(self) -> dict[str, Any]:
        """What a result depends on, as JSON can hold it."""
        left_out = ("steps", "judge", "device", *(["seeds"] if self.seeds == 1 else []))
        return {k: v for k, v in asdict(self).items() if k not in left_out}


def preset(task: str, name: str | None = None, **about: Any) -> TrainingPreset:
    """A task's preset (left out: its first), with ``PPOSettings`` and the ``TaskSettings`` of the
    robot that ``about`` tells of (see ``task_settings``)."""
    name = name or next(iter(task_entry(task).presets))
    found, settings = task_entry(task).preset(name), task_settings(task, preset=name, **about)
    return found._replace(task=settings, ppo=PPOSettings(**found.ppo))
