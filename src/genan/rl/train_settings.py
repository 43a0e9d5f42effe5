"""The settings of a training beside those of the task and of PPO. Nothing here needs JAX."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from genan.errors import SettingError, listing
from genan.rl.settings import FAST, PAPER, PPOSettings

PRECISIONS = ("auto", "float32", "tf32")
DEVICES = ("auto", "cpu", "gpu")
PRESETS = ("fast", "paper")

STEPS = {"reacher": 30_000_000, "table-tennis": 30_000_000, "ball-in-a-cup": 150_000_000}
"""Steps of the policy in a training, all environments together, unless told otherwise (not in the paper)."""

_FAST: dict[str, PPOSettings] = {
    "reacher": FAST,
    "table-tennis": replace(FAST, discount=0.99, rollouts=109, hidden=(128, 128, 128), activation="elu"),
    "ball-in-a-cup": replace(FAST, discount=0.99, rollouts=128, hidden=(128, 128, 128), activation="elu"),
}


def preset(task: str, name: str) -> PPOSettings:
    """PPO's settings for ``task``: the paper's, or those that learn faster here."""
    if name not in PRESETS:
        raise SettingError(f"There is no preset {name!r}; there are: {listing(PRESETS)}.")
    return (PAPER if name == "paper" else _FAST)[task]


@dataclass(frozen=True)
class TrainSettings:
    """How much to train, and on what."""

    envs: int = 1024
    """Episodes that run side by side."""
    steps: int | None = None
    """Steps of the policy, all episodes together; left out: 30 million (ball-in-a-cup: 150 million)."""
    seed: int = 0
    """Of everything random."""
    judge: int = 1000
    """Episodes by which the finished policy is judged."""
    refill: int = 2048
    """Steps of each episode's environment after which an eighth of the pool of starts is settled anew."""
    precision: Literal["auto", "float32", "tf32"] = "auto"
    """Of the actuators' matrix products: float32, or tf32, which lets a GPU round the factors to 10 bits; auto is tf32
    on a GPU and float32 elsewhere."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to train; auto takes a GPU if there is one."""

    def __post_init__(self) -> None:
        for name in ("envs", "judge", "refill"):
            if getattr(self, name) < 1:
                raise SettingError(f"The setting {name} must be at least 1, not {getattr(self, name)}.")
        if self.steps is not None and self.steps < 1:
            raise SettingError(f"A training needs at least 1 step, not {self.steps}.")
        if self.seed < 0:
            raise SettingError(f"The seed must not be negative, got {self.seed}.")

    def steps_for(self, task: str) -> int:
        """Steps of the policy for this task."""
        return STEPS[task] if self.steps is None else self.steps

    def settings(self) -> dict[str, Any]:
        """What a result depends on, as JSON can hold it."""
        return {key: value for key, value in asdict(self).items() if key not in ("steps", "judge", "device")}
