"""skrl's PPO (``genan train --trainer skrl``) in the same training. Importing this needs skrl.

Task, settings, judging and the policy that comes out are those of genan's own PPO. What skrl cannot
do is go on after an interruption, since its checkpoints leave out the state of the episodes: a
training that is stopped ends with the policy as it is then.
"""

import logging
import math
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PRNGKeyArray

from genan.actuator.ensemble import Layer
from genan.errors import SettingError, refuse
from genan.files import CHECKPOINT
from genan.jax_setup import QUICK
from genan.rl import ppo
from genan.rl.config import PPOSettings
from genan.rl.policy import Policy
from genan.rl.train import PolicyTraining, TrainingResult
from genan.tasks.task import Action, Judgement, Observation

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
    missing = f"The trainer skrl needs skrl 2 and flax, but {error.name or 'a part'} is missing"
    raise SettingError(f"{missing}; get them with: pip install 'genan[skrl]'.") from None

VERSION = version("skrl")
UNROLLED = 256  # Steps in an update beyond which skrl takes minutes to compile (512: 389 s).

_log = logging.getLogger(__name__)
Parameters = dict[str, Any]  # A model's, as Flax keeps them.


class SkrlEnvironment(Wrapper):
    """All episodes of an environment, for any of skrl's trainers and agents on JAX. Episodes start
    again by themselves, so ``reset`` begins them once and from then on gives what is observed now.
    An episode's end is reported as its termination. The environment squashes actions."""

    device = num_envs = observation_space = action_space = state_space = None
    rollout: ppo.RolloutState | None = None  # the episodes; None before the first reset

    def __init__(self, env: ppo.Environment, *, key: PRNGKeyArray) -> None:
        super().__init__(env)
        self._reset_key, self.key = jax.random.split(key)
        self.truncated = jnp.zeros(env.envs, bool)  # whose time was up with the last step
        self.last: Any = None  # what was seen last of each episode
        self.device, self.num_envs = next(iter(self.truncated.devices())), env.envs
        self.observation_space, self.action_space = (
            gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
            for size in (env.observation_size, env.action_size)
        )
        self._brought: list[ppo.Brought] = []
        self._arrays, static = eqx.partition(env, eqx.is_array)

        def step(arrays: Any, before: ppo.RolloutState, action: Array, key: PRNGKeyArray) -> Any:
            now, following = jax.random.split(key)
            after, last, brought = before.stepped(eqx.combine(arrays, static), action, key=now)
            return after, following, last, brought

        self._advanced = jax.jit(step, compiler_options=QUICK)

    def reset(self) -> tuple[Observation, dict[str, Any]]:
        if self.rollout is None:
            self.rollout = eqx.filter_jit(ppo.RolloutState.begin)(self._env, self._reset_key)
        return self.rollout.observation, {}

    def step(self, actions: Action) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """Observation, reward, whether it ended, was cut off (never) [envs, 1]; success."""
        assert self.rollout is not None, "reset comes before the first step"
        here = self.rollout, actions, self.key
        self.rollout, self.key, self.last, brought = self._advanced(self._arrays, *here)
        self._brought.append(brought)
        now = brought[0]
        self.truncated, ended = now.truncated, now.done[:, None]
        cut_off, info = jnp.zeros_like(ended), {"success": now.success}
        return self.rollout.observation, now.reward[:, None], ended, cut_off, info

    def brought(self) -> ppo.Brought:
        """What the steps brought since this was last asked."""
        steps, self._brought = jax.device_get(self._brought), []
        return jax.tree.map(lambda *each: jnp.asarray(np.stack(each)), *steps)

    def state(self, *_: Any, **__: Any) -> None:
        """Nothing beyond the observation; nothing to draw or to give back."""

    render = close = state


def models(settings: PPOSettings, **spaces: Any) -> dict[str, Model]:
    """Policy and value network, as ``settings`` say; ``spaces`` are skrl's spaces and device."""
    # Classes in a function: Flax copies a model by its fields and would not know of the settings.
    activation = ppo.ACTIVATION_FUNCTIONS[settings.activation]
    precision = ppo.PRECISION_NAMES[settings.precision]

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


def to_flax(networks: ppo.Networks) -> tuple[Parameters, Parameters]:
    """Parameters of the policy and of the value network, as skrl's models have them."""
    dense = lambda layer: {"kernel": layer.weight, "bias": layer.bias}
    policy, value = (
        {f"Dense_{k}": dense(layer) for k, layer in enumerate(networks.of(which))}
        for which in (ppo.POLICY, ppo.VALUE)
    )
    return {"params": {**policy, "log_std": networks.log_std}}, {"params": value}


def from_flax(policy: Parameters, value: Parameters) -> ppo.Networks:
    """The same, back again; the value network's outputs that nobody uses are 0."""
    ours, theirs = policy["params"], value["params"]
    padded = lambda one, other: jnp.zeros_like(one).at[..., : other.shape[-1]].set(other)
    both = lambda one, other: jnp.stack([one, padded(one, other)])
    pairs = ((ours[name], theirs[name]) for name in (f"Dense_{k}" for k in range(len(theirs))))
    layers = (Layer(*(both(a[part], b[part]) for part in ("kernel", "bias"))) for a, b in pairs)
    return ppo.Networks(tuple(layers), ours["log_std"])


def configuration(settings: PPOSettings, *, observations: int, device: Any) -> PPO_CFG:
    """What ``settings`` are to skrl; its checkpoints (pickle) and TensorBoard files are off."""
    options = settings.named_as_in("skrl")
    for part, size in (("observation", observations), ("value", 1)):
        if getattr(settings, f"scale_{part}s"):
            options[f"{part}_preprocessor"] = RunningStandardScaler
            options[f"{part}_preprocessor_kwargs"] = {"size": size, "device": device}
    if settings.kl_mode == "adaptive":
        options["learning_rate_scheduler"] = KLAdaptiveLR
        options["learning_rate_scheduler_kwargs"] = settings.named_as_in("skrl-adaptive")
    # An entropy that is only reported moves nothing.
    entropy = settings.entropy_coef if settings.entropy_in_gradient else 0.0
    stop = settings.kl_threshold if settings.kl_mode == "stop" else 0.0
    cfg = PPO_CFG(kl_threshold=stop, entropy_loss_scale=entropy, **options)
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    return cfg


class SkrlPPO:
    """A policy that learns in ``env`` by skrl's agent, memory and trainer; used as ``PPO`` is. The
    agent keeps the state of its optimisers: a learner can only be followed by the next one."""

    agent: Any  # skrl's

    def __init__(self, env: ppo.Environment, settings: PPOSettings) -> None:
        steps = settings.num_steps_per_env
        other = f"The trainer needs skrl 2, not {VERSION}; install 'genan[skrl]'."
        refuse((not VERSION.startswith("2."), other))
        if steps > UNROLLED:
            lower = f"lower --ppo.num-steps-per-env to {UNROLLED}, or take --trainer genan"
            words = f"skrl unrolls the advantages of {steps} steps, which takes minutes to compile"
            _log.warning(f"{words}; {lower}")
        self.env, self.settings = env, settings
        self._ours = ppo.PPO(env, settings)
        self.steps_per_update = self._ours.steps_per_update

    def begin(self, key: PRNGKeyArray) -> ppo.LearnerState:
        """The state before the first step: the one that genan's own PPO begins with."""
        learner = self._ours.begin(key)
        self.attach(learner, key=key)
        return learner

    def attach(self, learner: ppo.LearnerState, *, key: PRNGKeyArray) -> None:
        """Build skrl's agent with the networks of ``learner`` and fresh optimisers and scalers."""
        noise, order, chance = jax.random.split(jax.random.fold_in(key, 1), 3)
        self.environment = env = SkrlEnvironment(self.env, key=chance)
        env.rollout = learner.rollout
        device, settings, steps = env.device, self.settings, self.settings.num_steps_per_env
        config.jax.device, config.jax.key = device, jax.random.key_data(noise)
        names = ("observation_space", "action_space", "device")
        spaces = {name: getattr(env, name) for name in names}
        cfg = configuration(settings, observations=self.env.observation_size, device=device)
        if settings.time_limit == "bootstrap":
            # skrl's own would take the value of the next episode's first observation.
            cfg.rewards_shaper = lambda rewards, *_: rewards + self._rest()
        memory = RandomMemory(memory_size=steps, num_envs=env.num_envs, device=device)
        # All samples once: drawn by a generator of its own, or in the order of recording.
        generator = np.random.default_rng(np.asarray(jax.random.key_data(order)))
        drawn = generator.permutation if settings.shuffle else np.arange
        memory.sample = lambda names, *, batch_size, mini_batches=1, **_: memory.sample_by_index(
            names, indexes=drawn(batch_size), mini_batches=mini_batches
        )
        self.agent = SKRL_PPO(models=models(settings, **spaces), memory=memory, cfg=cfg, **spaces)
        both = self.agent.policy, self.agent.value
        for model, parameters in zip(both, to_flax(learner.agent.networks), strict=True):
            model.state_dict = model.state_dict.replace(params=parameters)
        quiet = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        run = {"timesteps": steps, **quiet}
        self._trainer = SequentialTrainer(env=env, agents=self.agent, cfg=run)

    def _rest(self) -> Array:
        """What episodes whose time was up would still have brought, by the value network."""
        env, skrl = self.environment, self.agent
        seen = {"observations": skrl._observation_preprocessor(env.last)}
        value, _ = skrl.value.act(seen, role="value")
        rest = self.settings.gamma * skrl._value_preprocessor(value, inverse=True)
        return jnp.where(env.truncated[:, None], rest, 0.0)

    def advance(self, learner: ppo.LearnerState) -> tuple[ppo.LearnerState, ppo.Numbers]:
        """One rollout and one update further; genan's own optimiser stays as it was."""
        env, skrl, before = self.environment, self.agent, learner.agent
        count = lambda: optax.tree_utils.tree_get(skrl.policy_optimizer.state, "count")
        env.rollout, steps = learner.rollout, int(count())
        self._trainer.train()
        agent = ppo.AgentState(
            from_flax(skrl.policy.state_dict.params, skrl.value.state_dict.params),
            before.adam,
            jnp.asarray(skrl.policy_learning_rate, jnp.float32),
            _scaler(skrl._observation_preprocessor, before.observation_scaler),
            _scaler(skrl._value_preprocessor, before.value_scaler),
        )
        kept, settings, steps = skrl.tracking_data, self.settings, int(count()) - steps
        # Means over the steps done; skrl's are over those planned, and the divergence is not kept.
        factor = settings.num_epochs * settings.num_minibatches / max(steps, 1)
        losses = {"learning/kl": jnp.asarray(jnp.nan), "learning/steps": jnp.asarray(steps)}
        for name in ("policy", "entropy", "value"):
            mean = kept.get(f"Loss / {name.capitalize()} loss", [0.0])[-1]
            losses[f"loss/{name}"] = jnp.asarray(factor * mean, jnp.float32)
        kept.clear()  # nothing else does while skrl's own TensorBoard files are off
        report = ppo.report(agent, env.brought(), losses, settings)
        return ppo.LearnerState(agent, env.rollout, learner.key, learner.updates + 1), report


def _scaler(theirs: Any, before: ppo.RunningScaler) -> ppo.RunningScaler:
    seen = lambda it: (it.running_mean, it.running_variance, it.current_count[0])
    return ppo.RunningScaler(*seen(theirs)) if before.active else before


class SkrlTraining(PolicyTraining):
    """One training by skrl; arguments and attributes are those of ``PolicyTraining``."""

    algorithm = SkrlPPO

    def _stopped(self) -> TrainingResult:
        """A stopped training ends with its policy judged and saved."""
        if not self.steps:
            return super()._stopped()
        words = "a training by skrl cannot go on later, so the policy is kept and judged as it is"
        _log.warning(f"stopped after {self.steps:,} steps: {words}")
        return self._finish()

    def policy(self, judgement: Judgement | None = None, *, which: int = 0) -> Policy:
        made = super().policy(judgement, which=which)
        return made.with_record(trainer=f"skrl {VERSION}", steps_planned=self.total)

    def _resume(self, out: Path) -> None:
        """Nothing to take up; an unfinished training of genan's own is left alone."""
        other = "take --trainer genan, give another --out, or --overwrite to start again"
        words = f"{out} holds an unfinished training that skrl cannot go on with; {other}."
        refuse(((out / CHECKPOINT).exists(), words))
        out.mkdir(parents=True, exist_ok=True)

    def _save(self) -> None:
        if self.out is not None and self.steps:
            self.policy().save(self.out)
        self._saved = time.perf_counter()
