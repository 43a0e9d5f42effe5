"""What PPO asks of an environment: many of them at once, stepped by one compiled program."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from genan.actuator.training import shuffled
from genan.jax_setup import QUICK
from genan.rl.config import PPOSettings
from genan.rl.networks import POLICY, Networks, Scaler
from genan.tasks.task import StepOutcome

__all__ = ["Environment", "StepOutcome"]


@runtime_checkable
class Environment(Protocol):
    """A batch of environments with episodes of fixed length that start anew by themselves."""

    envs: int
    """How many."""
    observation_size: int
    action_size: int
    horizon: int
    """Steps of an episode."""

    def reset(self, key: PRNGKeyArray) -> Any:
        """State of all environments at the start of an episode: a pytree of arrays."""

    def observe(self, state: Any) -> Float[Array, "envs observation"]:
        """What the policy sees of the state."""

    def step(
        self, state: Any, action: Float[Array, "envs action"], *, key: PRNGKeyArray
    ) -> tuple[Any, StepOutcome]:
        """One step of all environments; ``action`` is the policy's output before any squashing."""


# --- How much better than expected each step turned out: generalised advantage estimation (Schu

EPSILON = 1e-8
"""Added to the deviation that advantages are divided by."""
_UNROLL = 16  # steps that are computed in one kernel; more only make the program longer


def estimate(
    reward: Float[Array, "steps envs"],
    value: Float[Array, "steps envs"],
    last_value: Float[Array, " envs"],
    terminal: Bool[Array, "steps envs"],
    *,
    discount: float,
    trace: float,
) -> Float[Array, "steps envs"]:
    """Advantage of each step: A_t = r_t - V_t + discount (V_t+1 + trace A_t+1), 0 for the bracket
    at the end."""
    following = jnp.concatenate([value[1:], last_value[None]])

    def back(advantage: Array, step: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        reward, value, following, go_on = step
        advantage = reward - value + discount * go_on * (following + trace * advantage)
        return advantage, advantage

    steps = (reward, value, following, 1.0 - terminal)
    return jax.lax.scan(
        back, jnp.zeros_like(last_value), steps, reverse=True, unroll=min(_UNROLL, len(reward))
    )[1]


def normalise(advantage: Float[Array, "steps envs"]) -> Float[Array, "steps envs"]:
    """With mean 0 and (population) deviation 1 over all steps of all environments."""
    return (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + EPSILON)


# --- One update of PPO: advantages of what was experienced, then a few epochs of Adam on miniba

Order = Callable[[Int[Array, ""], Int[Array, ""]], Int[Array, " samples"]]
"""The samples (step times environments plus environment) of an epoch's minibatch, counted from
0."""


class Agent(eqx.Module):
    """Everything that an update changes."""

    networks: Networks
    adam: optax.OptState
    rate: Float[Array, ""]
    """Learning rate."""
    observation_scaler: Scaler
    value_scaler: Scaler

    @classmethod
    def begin(
        cls, observations: int, actions: int, settings: PPOSettings, *, key: PRNGKeyArray
    ) -> "Agent":
        """Before the first update."""
        networks = Networks.begin(observations, actions, settings, key=key)
        return cls(
            networks,
            optax.scale_by_adam().init(networks),
            settings.rate * jnp.ones(()),
            Scaler.begin(observations, active=settings.scale_observations),
            Scaler.begin(1, active=settings.scale_values),
        )


class Experience(eqx.Module):
    """What all environments went through between two updates."""

    observation: Float[Array, "steps envs observation"]
    action: Float[Array, "steps envs action"]
    log_prob: Float[Array, "steps envs"]
    value: Float[Array, "steps envs"]
    """As the value network had it, in units of the reward."""
    reward: Float[Array, "steps envs"]
    terminal: Bool[Array, "steps envs"]
    last_value: Float[Array, " envs"]
    """Of the observation after the last step."""


class MiniBatch(eqx.Module):
    """Samples of one step of the optimiser; observations, values and returns are standardised."""

    observation: Float[Array, "samples observation"]
    action: Float[Array, "samples action"]
    log_prob: Float[Array, " samples"]
    value: Float[Array, " samples"]
    returns: Float[Array, " samples"]
    advantage: Float[Array, " samples"]


class Losses(eqx.Module):
    """What an update had to do."""

    policy: Float[Array, ""]
    """Mean over the steps done, as the next two."""
    entropy: Float[Array, ""]
    value: Float[Array, ""]
    kl: Float[Array, ""]
    """Mean divergence from the old policy over the last epoch's minibatches [nat]."""
    steps: Int[Array, ""]
    """Steps of the optimiser that were done."""


def objective(
    networks: Networks, batch: MiniBatch, settings: PPOSettings
) -> tuple[Float[Array, ""], tuple[Float[Array, ""], ...]]:
    """What a step lowers, and its parts: policy loss, entropy loss, value loss, divergence from the
    old policy."""
    policy, value = networks(batch.observation, settings)
    log_ratio = policy.log_prob(batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    kl = jnp.mean((ratio - 1.0) - log_ratio)
    clipped = jnp.clip(ratio, 1.0 - settings.ratio_clip, 1.0 + settings.ratio_clip)
    policy_loss = -jnp.mean(jnp.minimum(batch.advantage * ratio, batch.advantage * clipped))
    entropy_loss = -settings.entropy_scale * policy.entropy()
    if settings.clip_values:
        value = batch.value + jnp.clip(
            value - batch.value, -settings.value_clip, settings.value_clip
        )
    value_loss = settings.value_scale * jnp.mean((batch.returns - value) ** 2)
    total = policy_loss + value_loss + (entropy_loss if settings.entropy_in_gradient else 0.0)
    return total, (policy_loss, entropy_loss, value_loss, kl)


def clip_gradient(gradient: Networks, longest: float) -> Networks:
    """Each network's part no longer than ``longest``; the deviation belongs to the policy's."""
    if not longest:
        return gradient
    squares = sum(
        jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim)))
        for g in jax.tree.leaves(gradient.layers)
    )
    length = jnp.sqrt(
        squares + jnp.stack([jnp.sum(jnp.square(gradient.log_deviation)), jnp.zeros(())])
    )
    factor = jnp.where(length < longest, 1.0, longest / length)
    layers = jax.tree.map(lambda g: g * factor.reshape(2, *[1] * (g.ndim - 1)), gradient.layers)
    return Networks(layers, gradient.log_deviation * factor[POLICY])


def steer(rate: Float[Array, ""], kl: Float[Array, ""], settings: PPOSettings) -> Float[Array, ""]:
    """The KL-adaptive learning rate after an epoch of mean divergence ``kl``."""
    slower = jnp.maximum(rate / settings.rate_factor, settings.rate_min)
    faster = jnp.minimum(rate * settings.rate_factor, settings.rate_max)
    above = kl > settings.kl_threshold * settings.kl_factor
    below = kl < settings.kl_threshold / settings.kl_factor
    return jnp.where(above, slower, jnp.where(below, faster, rate))


def random_order(samples: int, settings: PPOSettings, *, key: PRNGKeyArray) -> Order:
    """Minibatches as the settings want them: a new permutation for each epoch, or as they were
    recorded."""
    size = samples // settings.mini_batches
    words = jax.random.bits(key, (settings.epochs, 2), jnp.uint32)

    def order(epoch: Int[Array, ""], mini: Int[Array, ""]) -> Int[Array, " samples"]:
        places = mini * size + jnp.arange(size, dtype=jnp.int32)
        return shuffled(places, samples, words[epoch]) if settings.shuffle else places

    return order


class _Progress(eqx.Module):
    """What changes from step to step."""

    networks: Networks
    adam: optax.OptState
    rate: Float[Array, ""]
    scaler: Scaler
    sums: Float[Array, "3"]
    """Of the three losses."""
    steps: Int[Array, ""]
    mini: Int[Array, ""]
    """Minibatches looked at in this epoch."""
    kl_sum: Float[Array, ""]
    """Of their divergences."""
    stopped: Bool[Array, ""]
    """This epoch went far enough."""


def update(
    agent: Agent, experience: Experience, settings: PPOSettings, order: Order
) -> tuple[Agent, Losses]:
    """The agent after learning from ``experience``."""
    recorded, value_scaler = _recorded(agent, experience, settings)
    count = jnp.arange(settings.mini_batches)
    first = jax.vmap(lambda mini: recorded.observation[order(jnp.asarray(0), mini)])(count)
    scalers = agent.observation_scaler.seen_each(first)
    optimiser = optax.scale_by_adam()
    rows, unpack = _packed(recorded)

    def step(at: _Progress, epoch: Int[Array, ""]) -> _Progress:
        scaler = _pick(epoch == 0, scalers.at(at.mini), at.scaler)
        batch = unpack(rows[order(epoch, at.mini)])
        batch = eqx.tree_at(lambda b: b.observation, batch, scaler.scale(batch.observation))
        gradient, parts = jax.grad(objective, has_aux=True)(at.networks, batch, settings)
        *losses, kl = parts
        direction, adam = optimiser.update(
            clip_gradient(gradient, settings.grad_norm_clip), at.adam
        )
        networks = jax.tree.map(lambda w, d: w - at.rate * d, at.networks, direction)
        stopped = kl > settings.kl_threshold if settings.kl_mode == "stop" else jnp.asarray(False)
        done = (networks, adam, at.sums + jnp.stack(losses), at.steps + 1)
        if settings.kl_mode == "stop":
            done = _pick(stopped, (at.networks, at.adam, at.sums, at.steps), done)
        networks, adam, sums, steps = done
        return _Progress(
            networks, adam, at.rate, scaler, sums, steps, at.mini + 1, at.kl_sum + kl, stopped
        )

    def epoch(at: _Progress, number: Int[Array, ""]) -> tuple[_Progress, None]:
        at = eqx.tree_at(
            lambda p: (p.mini, p.kl_sum, p.stopped),
            at,
            (jnp.zeros_like(at.mini), jnp.zeros_like(at.kl_sum), jnp.zeros_like(at.stopped)),
        )
        if settings.kl_mode == "stop":
            going = lambda p: (p.mini < settings.mini_batches) & ~p.stopped  # noqa: E731
            at = jax.lax.while_loop(going, lambda p: step(p, number), at)
        else:
            # A number of steps known to the compiler: a GPU then need not ask the host after each
            # of them.
            at = jax.lax.scan(
                lambda p, _: (step(p, number), None), at, None, length=settings.mini_batches
            )[0]
        if settings.kl_mode == "adaptive":
            at = eqx.tree_at(
                lambda p: p.rate, at, steer(at.rate, at.kl_sum / settings.mini_batches, settings)
            )
        return at, None

    zero, none = jnp.zeros(()), jnp.zeros((), jnp.int32)
    start = _Progress(
        agent.networks, agent.adam, agent.rate, agent.observation_scaler, jnp.zeros(3), none, none, zero,
        jnp.asarray(False),
    )  # fmt: skip
    end, _ = jax.lax.scan(epoch, start, jnp.arange(settings.epochs))
    means = end.sums / jnp.maximum(end.steps, 1)
    losses = Losses(means[0], means[1], means[2], end.kl_sum / end.mini, end.steps)
    return Agent(end.networks, end.adam, end.rate, end.scaler, value_scaler), losses


def _recorded(
    agent: Agent, experience: Experience, settings: PPOSettings
) -> tuple[MiniBatch, Scaler]:
    """All samples in one (observations not standardised yet), and the value scaler that saw
    them."""
    flat = lambda a: a.reshape(-1, *a.shape[2:])  # noqa: E731
    value = experience.value
    advantage = estimate(
        experience.reward, value, experience.last_value, experience.terminal,
        discount=settings.discount, trace=settings.trace,
    )  # fmt: skip
    returns = flat(advantage + value)[:, None]
    value = flat(value)[:, None]
    scaler = agent.value_scaler.seen(value)
    after = scaler.seen(returns)
    recorded = MiniBatch(
        observation=flat(experience.observation),
        action=flat(experience.action),
        log_prob=flat(experience.log_prob),
        value=scaler.scale(value)[:, 0],
        returns=after.scale(returns)[:, 0],
        advantage=flat(normalise(advantage)),
    )
    return recorded, after


def _packed(
    recorded: MiniBatch,
) -> tuple[Float[Array, "samples width"], Callable[[Array], MiniBatch]]:
    """All that is known of a sample in one row, so that a minibatch is fetched in one go; and the
    way back."""
    n, a = recorded.observation.shape[1], recorded.action.shape[1]
    single = jnp.stack(
        [recorded.log_prob, recorded.value, recorded.returns, recorded.advantage], axis=1
    )

    def unpack(rows: Float[Array, "some width"]) -> MiniBatch:
        return MiniBatch(rows[:, :n], rows[:, n : n + a], *(rows[:, n + a + k] for k in range(4)))

    return jnp.concatenate([recorded.observation, recorded.action, single], axis=1), unpack


def _pick(condition: Bool[Array, ""], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


# --- Letting the policy act in all environments for a while, and keeping what happened.


class Scene(eqx.Module):
    """Where the environments stand between two rollouts."""

    state: Any
    """The environments' own."""
    observation: Float[Array, "envs observation"]
    returns: Float[Array, " envs"]
    """Sum of the running episodes' rewards."""


class Tally(eqx.Module):
    """Rewards and results of a rollout, step by step."""

    reward: Float[Array, "*steps envs"]
    terms: dict[str, Float[Array, "*steps envs"]]
    done: Bool[Array, "*steps envs"]
    success: Float[Array, "*steps envs"]
    metrics: dict[str, Float[Array, "*steps envs"]]
    returns: Float[Array, "*steps envs"]
    """Sum of the episode's rewards up to this step."""


def rollout(
    env: Environment, agent: Agent, scene: Scene, settings: PPOSettings, *, key: PRNGKeyArray
) -> tuple[Scene, Experience, Tally]:
    """Play ``settings.rollouts`` steps in all environments."""
    noise_key, env_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (settings.rollouts, env.envs, env.action_size))
    keys = jax.random.split(env_key, settings.rollouts)

    def step(scene: Scene, chance: tuple[Array, PRNGKeyArray]) -> tuple[Scene, Any]:
        noise, key = chance
        policy, value = agent.networks(agent.observation_scaler.scale(scene.observation), settings)
        action = noise * jnp.exp(policy.log_deviation) + policy.mean
        state, outcome = env.step(scene.state, action, key=key)
        returns = scene.returns + outcome.reward
        tally = Tally(
            outcome.reward, outcome.terms, outcome.done, outcome.success, outcome.metrics, returns
        )
        kept = (scene.observation, action, policy.log_prob(action), value, tally)
        return Scene(state, outcome.observation, jnp.where(outcome.done, 0.0, returns)), kept

    scene, (observation, action, log_prob, value, tally) = jax.lax.scan(step, scene, (noise, keys))
    _, last_value = agent.networks(agent.observation_scaler.scale(scene.observation), settings)
    restore = lambda v: agent.value_scaler.restore(v[..., None])[..., 0]  # noqa: E731
    value, reward = restore(value), tally.reward
    if settings.time_limit == "bootstrap":
        reward = reward + settings.discount * value * tally.done
    experience = Experience(
        observation, action, log_prob, value, reward, tally.done, restore(last_value)
    )
    return scene, experience, tally


# --- Proximal policy optimisation (Schulman et al. 2017), compiled as a whole: rollout and upda


class Learner(eqx.Module):
    """The complete state of learning: kept and given back, it goes on to the same result (to the
    bit on a CPU)."""

    agent: Agent
    scene: Scene
    key: UInt32[Array, "2"]
    """Data of the random key that the next update starts from."""
    updates: Int[Array, ""]
    """Updates done."""


class Report(eqx.Module):
    """What a rollout and the update after it showed; a mean over episodes is NaN where none
    ended."""

    reward: Float[Array, ""]
    """Mean over steps and environments, as the terms."""
    terms: dict[str, Float[Array, ""]]
    episodes: Int[Array, ""]
    """Episodes that ended; the next three are their means."""
    returns: Float[Array, ""]
    """Sum of rewards."""
    success: Float[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    losses: Losses
    rate: Float[Array, ""]
    """Learning rate after the update."""
    deviation: Float[Array, ""]
    """Mean over actions of the policy's standard deviation after the update."""


class PPO(eqx.Module):
    """A policy that learns in ``env``."""

    env: Environment
    settings: PPOSettings = eqx.field(static=True)

    def __check_init__(self) -> None:
        self.settings.mini_batch(self.env.envs)

    @property
    def steps_per_update(self) -> int:
        """Policy steps of all environments together between two updates."""
        return self.settings.rollouts * self.env.envs

    def begin(self, key: PRNGKeyArray) -> Learner:
        """The state before the first step."""
        return _begin(self, key)

    def advance(self, learner: Learner) -> tuple[Learner, Report]:
        """One rollout and one update further. ``learner`` is used up."""
        return _advance(self, learner)


@partial(eqx.filter_jit, compiler_options=QUICK)
def _begin(ppo: PPO, key: PRNGKeyArray) -> Learner:
    agent_key, env_key, key = jax.random.split(key, 3)
    env, settings = ppo.env, ppo.settings
    state = env.reset(env_key)
    return Learner(
        agent=Agent.begin(env.observation_size, env.action_size, settings, key=agent_key),
        scene=Scene(state, env.observe(state), jnp.zeros(env.envs)),
        key=jax.random.key_data(key),
        updates=jnp.zeros((), jnp.int32),
    )


@partial(eqx.filter_jit, donate="all-except-first", compiler_options=QUICK)
def _advance(ppo: PPO, learner: Learner) -> tuple[Learner, Report]:
    env, settings = ppo.env, ppo.settings
    rollout_key, order_key, key = jax.random.split(jax.random.wrap_key_data(learner.key), 3)
    scene, experience, tally = rollout(env, learner.agent, learner.scene, settings, key=rollout_key)
    order = random_order(ppo.steps_per_update, settings, key=order_key)
    agent, losses = update(learner.agent, experience, settings, order)
    return Learner(agent, scene, jax.random.key_data(key), learner.updates + 1), _report(
        agent, tally, losses, settings
    )


def _report(agent: Agent, tally: Tally, losses: Losses, settings: PPOSettings) -> Report:
    episodes = jnp.sum(tally.done)
    ended = lambda a: jnp.sum(jnp.where(tally.done, a, 0.0)) / episodes  # noqa: E731
    return Report(
        reward=jnp.mean(tally.reward),
        terms={name: jnp.mean(term) for name, term in tally.terms.items()},
        episodes=episodes,
        returns=ended(tally.returns),
        success=ended(tally.success),
        metrics={name: ended(metric) for name, metric in tally.metrics.items()},
        losses=losses,
        rate=agent.rate,
        deviation=jnp.mean(jnp.exp(agent.networks.bounded(settings))),
    )
