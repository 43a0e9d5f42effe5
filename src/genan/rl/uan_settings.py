"""The settings of UAN, with measured defaults (``docs/actuators.md`` has the numbers). Nothing here
needs JAX."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from genan.actuator.architecture import ACTIVATIONS, Architecture
from genan.actuator.history import History
from genan.errors import SettingError, listing
from genan.rl.settings import PPOSettings

PPO_SETTINGS = replace(
    PPOSettings(), rate=1e-3, kl_mode="none", initial_deviation=1.0, hidden=(64, 64), activation="tanh",
    scale_observations=False,
)  # fmt: skip
"""How UAN learns unless asked otherwise. The torques that retrace rounded positions scatter several
times as much as those that move the arm, so that a deviation of 1 is a strong push; a weaker one
learns less."""


@dataclass(frozen=True)
class UanSettings:
    """How an unsupervised actuator network learns."""

    history_length: int = 3
    """Past samples that the network sees besides the present one."""
    history_stride: int = 1
    """Samples from one of them to the next."""
    delta: bool = True
    """Give the network past samples as differences to the present one."""
    envs: int = 256
    """Episodes side by side."""
    horizon: int | None = None
    """Steps of an episode, from a random sample of a trajectory on; left out: a whole trajectory
    (of the median length, where they differ)."""
    steps: int = 4_000_000
    """Steps of all episodes together, rounded up to whole updates."""
    tracking_weight: float = 1.0
    """Of the distance to the recorded positions, the mean over the joints in standard deviations of
    each."""
    smoothness_weight: float = 0.001
    """Of the squared change of torque from step to step, the mean over the joints in standard
    deviations of each."""
    bound: float = 5.0
    """An episode ends where a joint is further than this from the recording [standard deviations of
    the joint]."""
    validation: float = 0.2
    """Part of the trajectories that is held out to select by."""
    checks: int = 20
    """How often the policy is tried on them; the best one is kept."""
    seed: int = 0
    split_seed: int = 0
    """Which trajectories are held out."""
    ppo: PPOSettings = PPO_SETTINGS
    """How the policy learns; its network is the actuators'."""

    def __post_init__(self) -> None:
        for name in ("envs", "steps", "checks", "horizon"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"The setting {name} must be at least 1, not {value}.")
        for name in ("tracking_weight", "bound"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise SettingError(
                    f"The setting {name} must be a positive number, not {getattr(self, name):g}."
                )
        if not 0.0 <= self.smoothness_weight < math.inf:
            raise SettingError(
                f"The setting smoothness_weight must be 0 or more, not {self.smoothness_weight:g}."
            )
        if self.ppo.scale_observations:
            raise SettingError(
                "UAN's observations are standardised by the recording; give PPO settings with scale_observations off."
            )
        if self.ppo.activation not in ACTIVATIONS:
            known = [name for name in ACTIVATIONS if name in ("elu", "tanh")]
            raise SettingError(
                f"An actuator network cannot have the activation {self.ppo.activation!r}; give PPO settings with "
                f"one of {listing(known)}."
            )
        self.history  # noqa: B018  (it checks itself)

    @property
    def history(self) -> History:
        """What the network sees of the past."""
        return History(self.history_length, self.history_stride, self.delta)

    @property
    def architecture(self) -> Architecture:
        """Shape of the network."""
        return Architecture(tuple(self.ppo.hidden), self.ppo.activation)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {**asdict(self), "ppo": self.ppo.settings()}
