"""skrl's PPO with genan's settings, used as ``genan.rl.PPO`` is. Needs skrl: pip install
'genan[skrl]'."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from skrl import config
from skrl.agents.jax.ppo import PPO as SKRL_PPO
from skrl.agents.jax.ppo import PPO_CFG
from skrl.memories.jax import RandomMemory
from skrl.resources.preprocessors.jax import RunningStandardScaler
from skrl.resources.schedulers.jax import KLAdaptiveLR
from skrl.trainers.jax import SequentialTrainer

from genan.rl.environment import Environment
from genan.rl.ppo import PPO, Learner, Report, _report
from genan.rl.scaler import Scaler
from genan.rl.settings import PPOSettings
from genan.rl.skrl_environment import SkrlEnvironment
from genan.rl.skrl_models import from_flax, models, to_flax
from genan.rl.update import Agent, Losses


def configuration(settings: PPOSettings, *, observations: int, device: Any) -> PPO_CFG:
    """What ``settings`` are to skrl, with its own checkpoints (pickle) and TensorBoard files
    switched off."""
    scaler = lambda size, on: {"size": size, "device": device} if on else {}  # noqa: E731
    cfg = PPO_CFG(
        rollouts=settings.rollouts,
        learning_epochs=settings.epochs,
        mini_batches=settings.mini_batches,
        discount_factor=settings.discount,
        gae_lambda=settings.trace,
        learning_rate=settings.rate,
        learning_rate_scheduler=KLAdaptiveLR if settings.kl_mode == "adaptive" else None,
        learning_rate_scheduler_kwargs={
            "kl_threshold": settings.kl_threshold,
            "kl_factor": settings.kl_factor,
            "lr_factor": settings.rate_factor,
            "min_lr": settings.rate_min,
            "max_lr": settings.rate_max,
        }
        if settings.kl_mode == "adaptive"
        else {},
        kl_threshold=settings.kl_threshold if settings.kl_mode == "stop" else 0.0,
        observation_preprocessor=RunningStandardScaler if settings.scale_observations else None,
        observation_preprocessor_kwargs=scaler(observations, settings.scale_observations),
        value_preprocessor=RunningStandardScaler if settings.scale_values else None,
        value_preprocessor_kwargs=scaler(1, settings.scale_values),
        grad_norm_clip=settings.grad_norm_clip,
        ratio_clip=settings.ratio_clip,
        value_clip=settings.value_clip if settings.clip_values else 0.0,
        value_loss_scale=settings.value_scale,
        # An entropy that is only reported moves nothing.
        entropy_loss_scale=settings.entropy_scale if settings.entropy_in_gradient else 0.0,
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    return cfg


class Memory(RandomMemory):
    """skrl's memory with minibatches from a generator of its own, or in the order of recording."""

    def __init__(self, settings: PPOSettings, envs: int, *, seed: np.ndarray, device: Any) -> None:
        """``seed`` draws the order, unless the settings want none drawn."""
        super().__init__(memory_size=settings.rollouts, num_envs=envs, device=device)
        self._order = np.random.default_rng(seed) if settings.shuffle else None

    def sample(
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> Any:
        """All samples once, in minibatches."""
        if self._order is None:
            return self.sample_all(names, mini_batches=mini_batches)
        return self.sample_by_index(
            names, indexes=self._order.permutation(batch_size), mini_batches=mini_batches
        )


class SkrlPPO:
    """A policy that learns in ``env`` by skrl's agent, memory and trainer.

    ``Learner`` says what the agent has learnt; the agent itself keeps the state of its optimisers,
    so that a learner can only be followed by the next one.
    """

    def __init__(self, env: Environment, settings: PPOSettings) -> None:
        """Checks the settings; ``begin`` builds the agent."""
        self.env, self.settings = env, settings
        self._ours = PPO(env, settings)

    @property
    def steps_per_update(self) -> int:
        """Policy steps of all environments together between two updates."""
        return self._ours.steps_per_update

    def begin(self, key: PRNGKeyArray) -> Learner:
        """The state before the first step: the one that genan's own PPO begins with."""
        learner = self._ours.begin(key)
        self.attach(learner, key=key)
        return learner

    def attach(self, learner: Learner, *, key: PRNGKeyArray) -> None:
        """Build skrl's agent with the networks of ``learner`` and fresh optimisers and scalers."""
        noise, order, chance = jax.random.split(jax.random.fold_in(key, 1), 3)
        self.environment = env = SkrlEnvironment(self.env, key=chance)
        env.scene = learner.scene
        device = env.device
        config.jax.device, config.jax.key = device, jax.random.key_data(noise)
        spaces = {
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "device": device,
        }
        cfg = configuration(self.settings, observations=self.env.observation_size, device=device)
        cfg.rewards_shaper = self._bootstrapped if self.settings.time_limit == "bootstrap" else None
        memory = Memory(
            self.settings, env.num_envs, seed=np.asarray(jax.random.key_data(order)), device=device
        )
        self.agent = SKRL_PPO(
            models=models(self.settings, **spaces), memory=memory, cfg=cfg, **spaces
        )
        for model, parameters in zip(
            (self.agent.policy, self.agent.value), to_flax(learner.agent.networks), strict=True
        ):
            model.state_dict = model.state_dict.replace(params=parameters)
        quiet = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        self._trainer = SequentialTrainer(
            env=env, agents=self.agent, cfg={"timesteps": self.settings.rollouts, **quiet}
        )

    def advance(self, learner: Learner) -> tuple[Learner, Report]:
        """One rollout and one update further; the divergence is reported as NaN, since skrl does
        not keep it."""
        env, before = self.environment, self._optimiser_steps()
        env.scene = learner.scene
        self._trainer.train()
        agent = self._learnt(learner.agent)
        report = _report(
            agent, env.tally(), self._losses(self._optimiser_steps() - before), self.settings
        )
        return Learner(agent, env.scene, learner.key, learner.updates + 1), report

    def _learnt(self, before: Agent) -> Agent:
        """What skrl's agent has learnt; genan's optimiser has no part in it and stays as it was."""
        skrl = self.agent
        return Agent(
            from_flax(skrl.policy.state_dict.params, skrl.value.state_dict.params),
            before.adam,
            jnp.asarray(skrl.policy_learning_rate, jnp.float32),
            _scaler(skrl._observation_preprocessor, before.observation_scaler),
            _scaler(skrl._value_preprocessor, before.value_scaler),
        )

    def _bootstrapped(self, rewards: Float[Array, "envs 1"], *_: int) -> Float[Array, "envs 1"]:
        """An episode that ended would have gone on: the value before its last step stands for the
        rest."""
        return (
            rewards
            + self.settings.discount * self.agent._current_values * self.environment.done[:, None]
        )

    def _optimiser_steps(self) -> int:
        return int(optax.tree_utils.tree_get(self.agent.policy_optimizer.state, "count"))

    def _losses(self, steps: int) -> Losses:
        """What skrl kept of its last update, as means over the steps done; its own are over the
        steps planned."""
        kept, factor = (
            self.agent.tracking_data,
            self.settings.epochs * self.settings.mini_batches / max(steps, 1),
        )
        read = lambda name: jnp.asarray(
            factor * kept[name][-1] if name in kept else 0.0, jnp.float32
        )  # noqa: E731
        names = ("Loss / Policy loss", "Loss / Entropy loss", "Loss / Value loss")
        losses = Losses(*map(read, names), jnp.asarray(jnp.nan), jnp.asarray(steps))
        kept.clear()  # nothing else does while skrl's own TensorBoard files are off
        return losses


def _scaler(theirs: Any, before: Scaler) -> Scaler:
    if not before.active:
        return before
    return Scaler(theirs.running_mean, theirs.running_variance, theirs.current_count[0])


__all__ = ["SkrlPPO", "configuration"]
