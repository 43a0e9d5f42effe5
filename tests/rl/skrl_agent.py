"""skrl's own PPO with its own networks, wrapped so that everything it does can be read."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from skrl.agents.jax.ppo import PPO, PPO_CFG
from skrl.agents.jax.ppo import ppo as skrl_ppo
from skrl.memories.jax import RandomMemory
from skrl.models.jax import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.jax import RunningStandardScaler
from skrl.resources.schedulers.jax import KLAdaptiveLR

from genan.actuator.ensemble import Layer
from genan.rl.config import PPOSettings
from genan.rl.ppo import Experience, Networks

_ACTIVATIONS = {"leaky_relu": linen.leaky_relu, "elu": linen.elu, "tanh": linen.tanh}


def models(settings: PPOSettings, **spaces: Any) -> dict[str, Model]:
    """Policy and value network as skrl's examples write them; a closure, since Flax copies them by
    their fields."""
    activation = _ACTIVATIONS[settings.activation]
    bounds = {"min_log_std": np.log(settings.min_std), "max_log_std": np.log(settings.max_std)}

    class Policy(GaussianMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            GaussianMixin.__init__(self, **bounds)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            x = inputs["observations"]
            for width in settings.hidden:
                x = activation(linen.Dense(width)(x))
            start = jnp.full(self.num_actions, jnp.log(settings.init_std))
            return linen.Dense(self.num_actions)(x), {
                "log_std": self.param("log_std", lambda _: start)
            }

    class Value(DeterministicMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            DeterministicMixin.__init__(self)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            x = inputs["observations"]
            for width in settings.hidden:
                x = activation(linen.Dense(width)(x))
            return linen.Dense(1)(x), {}

    both = {"policy": Policy(**spaces), "value": Value(**spaces)}
    for key, (role, model) in enumerate(both.items()):
        model.init_state_dict(role=role, key=jax.random.PRNGKey(key))
    return both


class ReadableMemory(RandomMemory):
    """Keeps the order in which samples were drawn."""

    orders: list[np.ndarray]

    def sample(self, *args: Any, **options: Any) -> Any:
        batches = super().sample(*args, **options)
        self.orders.append(np.array(self.sampling_indexes))
        return batches


class SkrlAgent:
    """skrl's agent, what it drew, and the gradients, losses and divergences that it computed."""

    def __init__(
        self, settings: PPOSettings, envs: int, observations: int, actions: int, monkeypatch: Any
    ) -> None:
        box = lambda size: gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        spaces = {
            "observation_space": box(observations),
            "action_space": box(actions),
            "device": "cpu",
        }
        self.envs, self.observations = envs, observations
        self.memory = ReadableMemory(
            memory_size=settings.num_steps_per_env, num_envs=envs, device="cpu"
        )
        self.memory.orders = []
        adaptive = settings.kl_mode == "adaptive"
        rates = {"kl_factor": settings.kl_factor, "lr_factor": settings.learning_rate_factor}
        rates |= {
            "kl_threshold": settings.kl_threshold,
            "min_lr": settings.min_learning_rate,
            "max_lr": settings.max_learning_rate,
        }
        scaler = RunningStandardScaler
        cfg = PPO_CFG(
            rollouts=settings.num_steps_per_env,
            learning_epochs=settings.num_epochs,
            mini_batches=settings.num_minibatches,
            discount_factor=settings.gamma,
            gae_lambda=settings.gae_lambda,
            learning_rate=settings.learning_rate,
            learning_rate_scheduler=KLAdaptiveLR if adaptive else None,
            learning_rate_scheduler_kwargs=rates if adaptive else {},
            observation_preprocessor=scaler if settings.scale_observations else None,
            observation_preprocessor_kwargs={"size": observations}
            if settings.scale_observations
            else {},
            value_preprocessor=scaler if settings.scale_values else None,
            value_preprocessor_kwargs={"size": 1} if settings.scale_values else {},
            grad_norm_clip=settings.max_grad_norm,
            ratio_clip=settings.clip_range,
            value_clip=settings.value_clip_range,
            entropy_loss_scale=settings.entropy_coef,
            value_loss_scale=settings.value_coef,
            kl_threshold=settings.kl_threshold if settings.kl_mode == "stop" else 0.0,
        )
        cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
        self.agent = PPO(models=models(settings, **spaces), memory=self.memory, cfg=cfg, **spaces)
        self.agent.init()
        self.agent.enable_training_mode(True)

        self.policy_steps: list[Any] = []
        self.value_steps: list[Any] = []
        for name, seen in (
            ("_update_policy", self.policy_steps),
            ("_update_value", self.value_steps),
        ):
            inner = getattr(skrl_ppo, name)
            monkeypatch.setattr(
                skrl_ppo,
                name,
                lambda *a, inner=inner, seen=seen: seen.append(inner(*a)) or seen[-1],
            )

    def play(self, rng: np.random.Generator, steps: int) -> tuple[Experience, np.ndarray]:
        """Let skrl act on random observations; what it recorded, and the observation after the last
        step."""

        def draw():
            return jnp.asarray(rng.normal(2.0, 3.0, (self.envs, self.observations)), jnp.float32)

        observation, last = draw(), None
        for t in range(steps):
            action, _ = self.agent.act(observation, None, timestep=t, timesteps=steps)
            reward = jnp.asarray(
                np.cos(observation).sum(-1, keepdims=True)
                - np.square(action).sum(-1, keepdims=True)
            )
            terminated = jnp.asarray(rng.random((self.envs, 1)) < 0.1)
            last = draw()
            self.agent.record_transition(
                observations=observation,
                states=None,
                actions=action,
                rewards=reward,
                next_observations=last,
                next_states=None,
                terminated=terminated,
                truncated=jnp.zeros_like(terminated),
                infos={},
                timestep=t,
                timesteps=steps,
            )
            observation = last
        read = {
            name: jnp.array(self.memory.get_tensor_by_name(name))
            for name in self.memory.get_tensor_names()
        }
        experience = Experience(
            observation=read["observations"],
            action=read["actions"],
            log_prob=read["log_prob"][..., 0],
            value=read["values"][..., 0],
            reward=read["rewards"][..., 0],
            terminal=read["terminated"][..., 0].astype(bool),
            last_value=jnp.zeros(self.envs),
        )
        return experience, np.array(last)

    def networks(self) -> Networks:
        """skrl's parameters in genan's form."""
        return stacked(self.agent.policy.state_dict.params, self.agent.value.state_dict.params)


def stacked(policy: Any, value: Any) -> Networks:
    """Two trees of Flax's (parameters or gradients) as one; the value network's spare outputs are
    0."""
    policy, value = policy["params"], value["params"]
    layers = []
    for k in range(len(value)):
        ours, theirs = policy[f"Dense_{k}"], value[f"Dense_{k}"]
        spare = ours["bias"].shape[0] - theirs["bias"].shape[0]
        kernel = np.stack([ours["kernel"], np.pad(theirs["kernel"], ((0, 0), (0, spare)))])
        bias = np.stack([ours["bias"], np.pad(theirs["bias"], (0, spare))])
        layers.append(Layer(jnp.asarray(kernel), jnp.asarray(bias)))
    return Networks(tuple(layers), jnp.array(policy["log_std"]))
