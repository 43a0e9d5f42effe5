"""A task behind skrl's interface for environments. Needs skrl: pip install 'genan[skrl]'."""

import importlib
import logging
import math
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from skrl import config
from skrl.agents.jax.ppo import PPO as SKRL_PPO
from skrl.agents.jax.ppo import PPO_CFG
from skrl.envs.wrappers.jax import Wrapper
from skrl.memories.jax import RandomMemory
from skrl.models.jax import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.jax import RunningStandardScaler
from skrl.resources.schedulers.jax import KLAdaptiveLR
from skrl.trainers.jax import SequentialTrainer

from genan.actuator.network import Layer
from genan.errors import SettingError
from genan.files import CHECKPOINT
from genan.jax_setup import QUICK
from genan.rl import policy as artifact
from genan.rl.config import PPOSettings
from genan.rl.episodes import Verdict
from genan.rl.networks import ACTIVATION_FUNCTIONS, POLICY, PRECISION_NAMES, VALUE, Networks, Scaler
from genan.rl.policy import Policy
from genan.rl.ppo import PPO, Agent, Environment, Learner, Losses, Report, Scene, Tally, _report
from genan.rl.train import ProgressFunction, Training

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


# --- The policy and the value network as skrl wants them, and the way between its parameters an

Parameters = dict[str, Any]
"""A model's, as Flax keeps them."""


def models(settings: PPOSettings, **spaces: Any) -> dict[str, Model]:
    """Policy and value network of the shape that ``settings`` say; ``spaces`` are skrl's spaces and
    device.

    Classes in a function, since Flax copies a model by its fields and would not know of the
    settings.
    """
    activation, precision = (
        ACTIVATION_FUNCTIONS[settings.activation],
        PRECISION_NAMES[settings.precision],
    )
    lowest, highest = math.log(settings.deviation_min), math.log(settings.deviation_max)

    def perceptron(x: Array, outputs: int) -> Array:
        for width in settings.hidden:
            x = activation(linen.Dense(width, precision=precision)(x))
        return linen.Dense(outputs, precision=precision)(x)

    class Policy(GaussianMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            GaussianMixin.__init__(self, min_log_std=lowest, max_log_std=highest)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            mean = perceptron(inputs["observations"], self.num_actions)
            start = jnp.full(self.num_actions, math.log(settings.initial_deviation))
            return mean, {"log_std": self.param("log_std", lambda _: start)}

    class Value(DeterministicMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            DeterministicMixin.__init__(self)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            return perceptron(inputs["observations"], 1), {}

    both: dict[str, Any] = {"policy": Policy(**spaces), "value": Value(**spaces)}
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
    return {"params": {**policy, "log_std": networks.log_deviation}}, {"params": value}


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
        layers.append(
            Layer(
                jnp.stack([weight, jnp.pad(value_weight, ((0, 0), unused))]),
                jnp.stack([bias, jnp.pad(value_bias, unused)]),
            )
        )
    return Networks(tuple(layers), ours["log_std"])


# --- skrl's PPO with genan's settings, used as ``genan.rl.PPO`` is. Needs skrl: pip install 'ge


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


# --- ``SkrlTraining``: the same training with skrl's PPO in place of genan's (``genan train --t

_log = logging.getLogger(__name__)

UNROLLED = 256
"""Rollouts beyond which skrl takes minutes to compile: it unrolls the advantages step by step (512
steps: 389 s on 2 cores)."""


class SkrlTraining(Training):
    """One training by skrl; arguments and attributes are those of ``Training``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Check that skrl is there, and everything else as ``Training`` does."""
        self.version = require_skrl()
        super().__init__(*arguments, **options)

    def run(
        self,
        *,
        progress: ProgressFunction | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Policy | None:
        """Train to the end or until ``stopping`` says so, judge and save the policy; None if
        nothing was learnt yet."""
        found = super().run(progress=progress, stopping=stopping)
        if found is not None or not self.steps:
            return found
        _log.warning(
            "stopped after %s steps: a training by skrl cannot go on later, so the policy is kept and judged as it is",
            f"{self.steps:,}",
        )
        return self._finish()

    def policy(self, verdict: Verdict | None = None) -> Policy:
        """The policy as it is now."""
        planned = self.updates * self.ppo.steps_per_update
        return (
            super()
            .policy(verdict)
            .with_record(trainer=f"skrl {self.version}", steps_planned=planned)
        )

    def _begin(self) -> Learner:

        if self.ppo_settings.rollouts > UNROLLED:
            _log.warning(
                "skrl unrolls the advantages of %d steps when it compiles, which takes minutes; lower --ppo.rollouts "
                "to %d or less, or take --trainer genan",
                self.ppo_settings.rollouts,
                UNROLLED,
            )
        self.ppo = SkrlPPO(self.env, self.ppo_settings)  # type: ignore[assignment]  # used in the same way
        return super()._begin()

    def _resume(self) -> None:
        """Nothing to take up; an unfinished training of genan's own is left alone."""
        self._saved = time.perf_counter()
        self.resumed = 0
        if self.out is None:
            return
        if (self.out / CHECKPOINT).exists():
            raise SettingError(
                f"{self.out} holds an unfinished training that skrl cannot go on with; take --trainer genan, give "
                "another --out, or --overwrite to begin anew."
            )
        self.out.mkdir(parents=True, exist_ok=True)

    def _save(self) -> None:
        """The policy so far, in place of a checkpoint."""
        if self.out is not None and self.steps:
            artifact.save(self.policy(), self.out)
        self._saved = time.perf_counter()


def require_skrl() -> str:
    """The version of skrl that is installed; refuses where it is missing or has another
    interface."""
    try:
        importlib.import_module("skrl")
        importlib.import_module("flax")
    except ImportError as error:
        raise SettingError(
            f"The trainer skrl needs the package {error.name or 'skrl'}, which is not installed; get it with: "
            "pip install 'genan[skrl]'."
        ) from None
    found = version("skrl")
    if not found.startswith("2."):
        raise SettingError(
            f"The trainer skrl needs skrl 2, not {found}; get it with: pip install 'genan[skrl]'."
        )
    return found


__all__ = ["SkrlTraining", "require_skrl"]
