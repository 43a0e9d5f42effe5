"""One update of PPO: advantages of what was experienced, then a few epochs of Adam on minibatches
of it.

The formulas, their order and their constants are those of skrl 2.1.1 on JAX: the value scaler sees
the values and then the returns; the observation scaler sees each minibatch of the first epoch just
before it is used; each network's gradient is clipped by its own length; a divergence above the
threshold leaves the epoch, not the update, before the step.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from genan.actuator.shuffle import shuffled
from genan.rl.advantages import estimate, normalise
from genan.rl.networks import POLICY, Networks
from genan.rl.scaler import Scaler
from genan.rl.settings import PPOSettings

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
