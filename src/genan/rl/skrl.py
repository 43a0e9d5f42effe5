"""skrl's PPO (``genan train --trainer skrl``) in the same training. Importing this needs skrl: pip
install 'genan[skrl]'.

Task, settings, judging and the policy that comes out are those of genan's own PPO. What skrl cannot
do is go on after an interruption, since its checkpoints leave out the state of the episodes: a
training that is stopped ends with the policy as it is then.
"""

import logging
import math
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.actuator.network import Layer
from genan.errors import SettingError
from genan.files import CHECKPOINT
from genan.jax_setup import QUICK
from genan.rl.config import PPOSettings
from genan.rl.policy import Policy
from genan.rl.ppo import (
    ACTIVATION_FUNCTIONS,
    POLICY,
    PPO,
    PRECISION_NAMES,
    VALUE,
    AgentState,
    Environment,
    LearnerState,
    Losses,
    Networks,
    RolloutState,
    RunningScaler,
    StepResults,
    UpdateReport,
)
from genan.rl.train import PolicyTraining, ProgressFunction, TrainingResult
from genan.tasks.task import Judgement

try:
    import gymnasium
    from flax import linen
    from skrl import config
    from skrl.agents.jax.ppo import PPO as SKRL_PPO
    from skrl.agents.jax.ppo import PPO_CFG
    from skrl.envs.wrappers.jax import Wrapper
    from skrl.memories.jax import RandomMemory
    from skrl.models.jax import DeterministicMixin, GaussianMixin, Model
    from skrl.resources.preprocessors.jax import RunningStandardScaler
    from skrl.resources.schedulers.jax import KLAdaptiveLR
    from skrl.trainers.jax import SequentialTrainer
except ImportError as error:
    raise SettingError(
        f"The trainer skrl needs skrl 2 and flax, but {error.name or 'a part of them'} is missing; "
        "get them with: pip install 'genan[skrl]'."
    ) from None

VERSION = version("skrl")
UNROLLED = 256
"""Steps of each environment in an update beyond which skrl takes minutes to compile: it unrolls the
advantages step by step (512 steps: 389 s on 2 cores)."""

_log = logging.getLogger(__name__)

Flags = Bool[Array, "envs 1"]
Step = tuple[Float[Array, "envs observation"], Float[Array, "envs 1"], Flags, Flags, dict[str, Any]]
Parameters = dict[str, Any]  # A model's, as Flax keeps them.


class SkrlEnvironment(Wrapper):
    """All episodes of an environment, for any of skrl's trainers and agents on JAX.

    Episodes start again by themselves, so ``reset`` begins them once and from then on gives what is
    observed now. An episode's end is reported as its termination.
    """

    rollout: RolloutState | None  # the episodes; None before the first reset
    key: PRNGKeyArray  # what the next step draws from
    done: Bool[Array, " envs"]  # which episodes ended at the last step
    state_space = None  # What a value network could see beyond the observation: nothing.

    def __init__(self, env: Environment, *, key: PRNGKeyArray) -> None:
        """Wraps ``env``; ``key`` draws the starts and what happens by chance."""
        self._reset_key, self.key = jax.random.split(key)
        self.rollout, self.done = None, jnp.zeros(env.envs, bool)
        self._results: list[StepResults] = []
        self._arrays, static = eqx.partition(env, eqx.is_array)

        def step(
            arrays: Any, before: RolloutState, action: Array, key: PRNGKeyArray
        ) -> tuple[RolloutState, PRNGKeyArray, StepResults]:
            now, following = jax.random.split(key)
            after, results = before.stepped(eqx.combine(arrays, static), action, key=now)
            return after, following, results

        self._advanced = jax.jit(step, compiler_options=QUICK)
        super().__init__(env)

    @property
    def device(self) -> jax.Device:
        """Where everything lies: JAX's default, which a setting may have changed."""
        return next(iter(jnp.zeros(()).devices()))

    @property
    def num_envs(self) -> int:
        """Episodes that run side by side."""
        return self._env.envs

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Any observation."""
        return gymnasium.spaces.Box(-np.inf, np.inf, (self._env.observation_size,), np.float32)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Any action: the environment squashes it, so skrl need not clip it."""
        return gymnasium.spaces.Box(-np.inf, np.inf, (self._env.action_size,), np.float32)

    def reset(self) -> tuple[Float[Array, "envs observation"], dict[str, Any]]:
        """What is observed now."""
        if self.rollout is None:
            self.rollout = eqx.filter_jit(RolloutState.begin)(self._env, self._reset_key)
        return self.rollout.observation, {}

    def step(self, actions: Float[Array, "envs action"]) -> Step:
        """One step: observation, reward, whether it ended, was cut off (never), and more."""
        assert self.rollout is not None, "reset comes before the first step"
        self.rollout, self.key, now = self._advanced(self._arrays, self.rollout, actions, self.key)
        self._results.append(now)
        self.done, ended = now.done, now.done[:, None]
        cut_off, info = jnp.zeros_like(ended), {"success": now.success}
        return self.rollout.observation, now.reward[:, None], ended, cut_off, info

    def results(self) -> StepResults:
        """Rewards and results of the steps since this was last asked."""
        steps, self._results = jax.device_get(self._results), []
        return jax.tree.map(lambda *each: jnp.asarray(np.stack(each)), *steps)

    def state(self) -> None:
        """Nothing beyond the observation."""

    def render(self, *args: Any, **options: Any) -> None:
        """No pictures: see ``genan play``."""

    def close(self) -> None:
        """Nothing to give back."""


def models(settings: PPOSettings, **spaces: Any) -> dict[str, Model]:
    """Policy and value network of the shape that ``settings`` say; ``spaces`` are skrl's spaces and
    device.

    Classes in a function, since Flax copies a model by its fields and would not know of the
    settings.
    """
    activation = ACTIVATION_FUNCTIONS[settings.activation]
    precision = PRECISION_NAMES[settings.precision]

    def perceptron(x: Array, outputs: int) -> Array:
        for width in settings.hidden:
            x = activation(linen.Dense(width, precision=precision)(x))
        return linen.Dense(outputs, precision=precision)(x)

    class SkrlPolicy(GaussianMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            low, high = math.log(settings.min_std), math.log(settings.max_std)
            GaussianMixin.__init__(self, min_log_std=low, max_log_std=high)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            mean = perceptron(inputs["observations"], self.num_actions)
            start = jnp.full(self.num_actions, math.log(settings.init_std))
            return mean, {"log_std": self.param("log_std", lambda _: start)}

    class SkrlValue(DeterministicMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            DeterministicMixin.__init__(self)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            return perceptron(inputs["observations"], 1), {}

    both: dict[str, Any] = {"policy": SkrlPolicy(**spaces), "value": SkrlValue(**spaces)}
    for role, model in both.items():
        model.init_state_dict(role=role, key=jax.random.PRNGKey(0))
    return both


def to_flax(networks: Networks) -> tuple[Parameters, Parameters]:
    """Parameters of the policy and of the value network, as skrl's models have them."""
    policy, value = (
        {
            f"Dense_{k}": {"kernel": layer.weight, "bias": layer.bias}
            for k, layer in enumerate(networks.of(which))
        }
        for which in (POLICY, VALUE)
    )
    return {"params": {**policy, "log_std": networks.log_std}}, {"params": value}


def from_flax(policy: Parameters, value: Parameters) -> Networks:
    """The same, back again; the value network's outputs that nobody uses are 0."""
    ours, theirs = policy["params"], value["params"]
    layers = []
    for k in range(len(theirs)):
        (weight, bias), (value_weight, value_bias) = (
            (params[f"Dense_{k}"]["kernel"], params[f"Dense_{k}"]["bias"])
            for params in (ours, theirs)
        )
        unused = (0, bias.shape[0] - value_bias.shape[0])
        weights = jnp.stack([weight, jnp.pad(value_weight, ((0, 0), unused))])
        layers.append(Layer(weights, jnp.stack([bias, jnp.pad(value_bias, unused)])))
    return Networks(tuple(layers), ours["log_std"])


def configuration(settings: PPOSettings, *, observations: int, device: Any) -> PPO_CFG:
    """What ``settings`` are to skrl; its checkpoints (pickle) and TensorBoard files are off."""
    adaptive = settings.kl_mode == "adaptive"
    rates = {
        "kl_threshold": settings.kl_threshold,
        "kl_factor": settings.kl_factor,
        "lr_factor": settings.learning_rate_factor,
        "min_lr": settings.min_learning_rate,
        "max_lr": settings.max_learning_rate,
    }
    scaler = lambda size, on: {"size": size, "device": device} if on else {}  # noqa: E731
    cfg = PPO_CFG(
        rollouts=settings.num_steps_per_env,
        learning_epochs=settings.num_epochs,
        mini_batches=settings.num_minibatches,
        discount_factor=settings.gamma,
        gae_lambda=settings.gae_lambda,
        learning_rate=settings.learning_rate,
        learning_rate_scheduler=KLAdaptiveLR if adaptive else None,
        learning_rate_scheduler_kwargs=rates if adaptive else {},
        kl_threshold=settings.kl_threshold if settings.kl_mode == "stop" else 0.0,
        observation_preprocessor=RunningStandardScaler if settings.scale_observations else None,
        observation_preprocessor_kwargs=scaler(observations, settings.scale_observations),
        value_preprocessor=RunningStandardScaler if settings.scale_values else None,
        value_preprocessor_kwargs=scaler(1, settings.scale_values),
        grad_norm_clip=settings.max_grad_norm,
        ratio_clip=settings.clip_range,
        value_clip=settings.value_clip_range,
        value_loss_scale=settings.value_coef,
        # An entropy that is only reported moves nothing.
        entropy_loss_scale=settings.entropy_coef if settings.entropy_in_gradient else 0.0,
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    return cfg


class SkrlMemory(RandomMemory):
    """skrl's memory with minibatches from a generator of its own, or in the order of recording."""

    def __init__(self, settings: PPOSettings, envs: int, *, seed: np.ndarray, device: Any) -> None:
        """``seed`` draws the order, unless the settings want none drawn."""
        super().__init__(memory_size=settings.num_steps_per_env, num_envs=envs, device=device)
        self._order = np.random.default_rng(seed) if settings.shuffle else None

    def sample(
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> Any:
        """All samples once, in minibatches."""
        if self._order is None:
            return self.sample_all(names, mini_batches=mini_batches)
        order = self._order.permutation(batch_size)
        return self.sample_by_index(names, indexes=order, mini_batches=mini_batches)


class SkrlPPO:
    """A policy that learns in ``env`` by skrl's agent, memory and trainer; used as ``PPO`` is.

    ``LearnerState`` says what the agent has learnt; the agent itself keeps the state of its
    optimisers, so that a learner can only be followed by the next one.
    """

    def __init__(self, env: Environment, settings: PPOSettings) -> None:
        """Checks the settings; ``begin`` builds the agent."""
        self.env, self.settings = env, settings
        self._ours = PPO(env, settings)
        self.steps_per_update = self._ours.steps_per_update

    def begin(self, key: PRNGKeyArray) -> LearnerState:
        """The state before the first step: the one that genan's own PPO begins with."""
        learner = self._ours.begin(key)
        self.attach(learner, key=key)
        return learner

    def attach(self, learner: LearnerState, *, key: PRNGKeyArray) -> None:
        """Build skrl's agent with the networks of ``learner`` and fresh optimisers and scalers."""
        noise, order, chance = jax.random.split(jax.random.fold_in(key, 1), 3)
        self.environment = env = SkrlEnvironment(self.env, key=chance)
        env.rollout = learner.rollout
        device, settings = env.device, self.settings
        config.jax.device, config.jax.key = device, jax.random.key_data(noise)
        spaces = {
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "device": device,
        }
        cfg = configuration(settings, observations=self.env.observation_size, device=device)
        cfg.rewards_shaper = self._bootstrapped if settings.time_limit == "bootstrap" else None
        seed = np.asarray(jax.random.key_data(order))
        memory = SkrlMemory(settings, env.num_envs, seed=seed, device=device)
        self.agent = SKRL_PPO(models=models(settings, **spaces), memory=memory, cfg=cfg, **spaces)
        for model, parameters in zip(
            (self.agent.policy, self.agent.value), to_flax(learner.agent.networks), strict=True
        ):
            model.state_dict = model.state_dict.replace(params=parameters)
        quiet = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        self._trainer = SequentialTrainer(
            env=env, agents=self.agent, cfg={"timesteps": settings.num_steps_per_env, **quiet}
        )

    def advance(self, learner: LearnerState) -> tuple[LearnerState, UpdateReport]:
        """One rollout and one update further; skrl does not keep the divergence: NaN."""
        env, before = self.environment, self._optimiser_steps()
        env.rollout = learner.rollout
        self._trainer.train()
        agent = self._learnt(learner.agent)
        losses = self._losses(self._optimiser_steps() - before)
        report = UpdateReport.of(agent, env.results(), losses, self.settings)
        return LearnerState(agent, env.rollout, learner.key, learner.updates + 1), report

    def _learnt(self, before: AgentState) -> AgentState:
        """What skrl's agent has learnt; genan's optimiser has no part in it and stays as it was."""
        skrl = self.agent
        return AgentState(
            from_flax(skrl.policy.state_dict.params, skrl.value.state_dict.params),
            before.adam,
            jnp.asarray(skrl.policy_learning_rate, jnp.float32),
            _scaler(skrl._observation_preprocessor, before.observation_scaler),
            _scaler(skrl._value_preprocessor, before.value_scaler),
        )

    def _bootstrapped(self, rewards: Float[Array, "envs 1"], *_: int) -> Float[Array, "envs 1"]:
        """Adds the value before its last step to an episode that would have gone on."""
        values, done = self.agent._current_values, self.environment.done[:, None]
        return rewards + self.settings.gamma * values * done

    def _optimiser_steps(self) -> int:
        return int(optax.tree_utils.tree_get(self.agent.policy_optimizer.state, "count"))

    def _losses(self, steps: int) -> Losses:
        """Of skrl's last update, as means over the steps done; its own are over those planned."""
        kept, settings = self.agent.tracking_data, self.settings
        factor = settings.num_epochs * settings.num_minibatches / max(steps, 1)
        names = ("Loss / Policy loss", "Loss / Entropy loss", "Loss / Value loss")
        means = [factor * kept[name][-1] if name in kept else 0.0 for name in names]
        kept.clear()  # nothing else does while skrl's own TensorBoard files are off
        losses = (jnp.asarray(mean, jnp.float32) for mean in means)
        return Losses(*losses, jnp.asarray(jnp.nan), jnp.asarray(steps))


def _scaler(theirs: Any, before: RunningScaler) -> RunningScaler:
    if not before.active:
        return before
    return RunningScaler(theirs.running_mean, theirs.running_variance, theirs.current_count[0])


class SkrlTraining(PolicyTraining):
    """One training by skrl; arguments and attributes are those of ``PolicyTraining``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Check skrl's version, and everything else as ``PolicyTraining`` does."""
        if not VERSION.startswith("2."):
            raise SettingError(
                f"The trainer skrl needs skrl 2, not {VERSION}; get it with: pip install "
                "'genan[skrl]'."
            )
        super().__init__(*arguments, **options)

    def run(
        self, *, progress: ProgressFunction | None = None, stop: Callable[[], bool] = lambda: False
    ) -> TrainingResult:
        """As ``PolicyTraining.run``; a stopped training ends with its policy judged and saved."""
        found = super().run(progress=progress, stop=stop)
        if found.finished or not self.steps:
            return found
        _log.warning(
            "stopped after %s steps: a training by skrl cannot go on later, so the policy is kept "
            "and judged as it is",
            f"{self.steps:,}",
        )
        return self._finish()

    def policy(self, judgement: Judgement | None = None) -> Policy:
        """The policy as it is now."""
        made = super().policy(judgement)
        return made.with_record(trainer=f"skrl {VERSION}", steps_planned=self.total)

    def _begin(self) -> LearnerState:
        steps = self.ppo_settings.num_steps_per_env
        if steps > UNROLLED:
            _log.warning(
                "skrl unrolls the advantages of %d steps when it compiles, which takes minutes; "
                "lower --ppo.num-steps-per-env to %d or less, or take --trainer genan",
                steps,
                UNROLLED,
            )
        self.ppo = SkrlPPO(self.env, self.ppo_settings)  # type: ignore[assignment]  # used alike
        return super()._begin()

    def _resume(self, out: Path) -> None:
        """Nothing to take up; an unfinished training of genan's own is left alone."""
        if (out / CHECKPOINT).exists():
            raise SettingError(
                f"{out} holds an unfinished training that skrl cannot go on with; take --trainer "
                "genan, give another --out, or --overwrite to start again."
            )
        out.mkdir(parents=True, exist_ok=True)

    def _save(self) -> None:
        """The policy so far, in place of a checkpoint."""
        if self.out is not None and self.steps:
            self.policy().save(self.out)
        self._saved = time.perf_counter()
