"""The settings of a training beside those of the task and of PPO. Nothing here needs JAX."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from genan.errors import SettingError, listing
from genan.rl.settings import FAST, PAPER, PPOSettings
from genan.tasks.settings import TASKS, TaskSettings

PRECISIONS = ("auto", "float32", "tf32")
DEVICES = ("auto", "cpu", "gpu")
PRESETS = ("fast", "paper")

STEPS = {"reacher": 30_000_000, "table-tennis": 30_000_000, "ball-in-a-cup": 150_000_000}
"""Steps of the policy in a training, all environments together, unless told otherwise (not in the
paper)."""

_FAST: dict[str, PPOSettings] = {
    "reacher": FAST,
    "table-tennis": replace(FAST, discount=0.99, rollouts=109, hidden=(128, 128, 128), activation="elu"),
    # The cup needs noise to be found at all: a wide start, and a bonus that keeps it wide.
    "ball-in-a-cup": replace(
        FAST, discount=0.99, mini_batches=32, initial_deviation=1.0, entropy_scale=0.003, time_limit="bootstrap",
        hidden=(128, 128, 128), activation="elu",
    ),
}  # fmt: skip

# Shaping finds the cup; the rest keeps to motions that the actuators know, with balls that are not
# all the same.
_FAST_TASK: dict[str, dict[str, Any]] = {
    "ball-in-a-cup": {
        "shaping_weight": 1000.0,
        "disagreement_weight": 0.25,
        "velocity_weight": 0.01,
        "mass_spread": 0.15,
        "string_spread": 0.05,
    }
}
_FAST_ENVS = {"ball-in-a-cup": 4096}


def preset(task: str, name: str) -> PPOSettings:
    """PPO's settings for ``task``: the paper's, or those that learn faster here."""
    _check(name)
    return (PAPER if name == "paper" else _FAST)[task]


def task_preset(task: str, name: str) -> TaskSettings:
    """The constants of ``task``: the paper's, or with what helps to learn it here."""
    _check(name)
    return replace(TASKS[task](), **({} if name == "paper" else _FAST_TASK.get(task, {})))


def envs_preset(task: str, name: str) -> int:
    """Episodes side by side: 1024, or more where the task is found sooner by that."""
    _check(name)
    return 1024 if name == "paper" else _FAST_ENVS.get(task, 1024)


def _check(name: str) -> None:
    if name not in PRESETS:
        raise SettingError(f"There is no preset {name!r}; there are: {listing(PRESETS)}.")


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
        return STEPS[task] if self.steps is None else self.steps

    def settings(self) -> dict[str, Any]:
        """What a result depends on, as JSON can hold it."""
        return {
            key: value
            for key, value in asdict(self).items()
            if key not in ("steps", "judge", "device")
        }
