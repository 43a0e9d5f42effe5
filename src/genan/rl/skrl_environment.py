"""A task behind skrl's interface for environments. Needs skrl: pip install 'genan[skrl]'."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from skrl.envs.wrappers.jax import Wrapper

from genan.compilation import QUICK
from genan.rl.environment import Environment
from genan.rl.rollout import Scene, Tally

Flags = Bool[Array, "envs 1"]
Step = tuple[Float[Array, "envs observation"], Float[Array, "envs 1"], Flags, Flags, dict[str, Any]]


class SkrlEnvironment(Wrapper):
    """All episodes of an environment, for any of skrl's trainers and agents on JAX.

    Episodes start anew by themselves, so ``reset`` begins them once and from then on gives what is
    observed now. An episode's end is reported as its termination.
    """

    scene: Scene | None
    """Where the episodes stand; None before the first reset."""
    key: PRNGKeyArray
    """What the next step draws from."""
    done: Bool[Array, " envs"]
    """Which episodes ended at the last step."""

    def __init__(self, env: Environment, *, key: PRNGKeyArray) -> None:
        """Wraps ``env``; ``key`` draws the starts and what happens by chance."""
        self._reset_key, self.key = jax.random.split(key)
        self.scene, self.done = None, jnp.zeros(env.envs, bool)
        self._tallies: list[Tally] = []
        self._box = lambda size: gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self._arrays, static = eqx.partition(env, eqx.is_array)

        def step(
            arrays: Any, scene: Scene, action: Array, key: PRNGKeyArray
        ) -> tuple[Scene, PRNGKeyArray, Tally]:
            now, following = jax.random.split(key)
            state, outcome = eqx.combine(arrays, static).step(scene.state, action, key=now)
            returns = scene.returns + outcome.reward
            tally = Tally(
                outcome.reward,
                outcome.terms,
                outcome.done,
                outcome.success,
                outcome.metrics,
                returns,
            )
            return (
                Scene(state, outcome.observation, jnp.where(outcome.done, 0.0, returns)),
                following,
                tally,
            )

        self._advanced = jax.jit(step, compiler_options=QUICK)
        super().__init__(env)

    @property
    def device(self) -> jax.Device:
        """Where everything lies."""
        return next(
            iter(jnp.zeros(()).devices())
        )  # JAX's default, which a setting may have changed

    @property
    def num_envs(self) -> int:
        """Episodes that run side by side."""
        return self._env.envs

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Any observation."""
        return self._box(self._env.observation_size)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Any action: the environment squashes it, so skrl need not clip it."""
        return self._box(self._env.action_size)

    @property
    def state_space(self) -> None:
        """What a value network could see beyond the observation: nothing."""
        return None

    def reset(self) -> tuple[Float[Array, "envs observation"], dict[str, Any]]:
        """What is observed now."""
        if self.scene is None:
            state = eqx.filter_jit(self._env.reset)(self._reset_key)
            self.scene = Scene(state, self._env.observe(state), jnp.zeros(self._env.envs))
        return self.scene.observation, {}

    def step(self, actions: Float[Array, "envs action"]) -> Step:
        """One step of all episodes: observation, reward, whether it ended, whether it was cut off
        (never), and more."""
        assert self.scene is not None, "reset comes before the first step"
        self.scene, self.key, tally = self._advanced(self._arrays, self.scene, actions, self.key)
        self._tallies.append(tally)
        self.done = tally.done
        ended = tally.done[:, None]
        return (
            self.scene.observation,
            tally.reward[:, None],
            ended,
            jnp.zeros_like(ended),
            {"success": tally.success},
        )

    def tally(self) -> Tally:
        """Rewards and results of the steps since this was last asked."""
        steps, self._tallies = jax.device_get(self._tallies), []
        return jax.tree.map(lambda *each: jnp.asarray(np.stack(each)), *steps)

    def state(self) -> None:
        """Nothing beyond the observation."""

    def render(self, *args: Any, **options: Any) -> None:
        """No pictures: see ``genan play``."""

    def close(self) -> None:
        """Nothing to give back."""


__all__ = ["SkrlEnvironment"]
