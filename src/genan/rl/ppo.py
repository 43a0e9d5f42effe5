"""What PPO learns: a policy and a value network, and the scalers of what they see.

Both networks are perceptrons of the same shape, stacked so that one product serves both. On a GPU
that halves the number of kernels, and kernels are what a step of small networks costs.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from genan.actuator.network import Layer
from genan.actuator.training import shuffled
from genan.jax_setup import QUICK
from genan.rl.config import PPOSettings
from genan.tasks.task import StepOutcome

POLICY, VALUE = 0, 1
ACTIVATION_FUNCTIONS = {"leaky_relu": jax.nn.leaky_relu, "elu": jax.nn.elu, "tanh": jnp.tanh}
PRECISION_NAMES = {"float32": "highest", "tf32": "default"}
CLIP = 5.0  # Standardised numbers are kept within this [standard deviations].
EPSILON = 1e-8  # Added to the standard deviation that is divided by.

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian(eqx.Module):
    """Independent normal distributions of the action's components."""

    mean: Float[Array, "*any action"]
    log_std: Float[Array, " action"]

    def log_prob(self, action: Float[Array, "*any action"]) -> Float[Array, "*any"]:
        """Log density [nat]: sum of -(a - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2."""
        variance = jnp.square(jnp.exp(self.log_std))
        each = -jnp.square(action - self.mean) / (2.0 * variance) - self.log_std - _HALF_LOG_2_PI
        return jnp.sum(each, axis=-1)

    def entropy(self) -> Float[Array, ""]:
        """Of all components together [nat]: sum of 1/2 + log(2 pi) / 2 + log(std)."""
        return jnp.sum(0.5 + _HALF_LOG_2_PI + self.log_std)


class RunningScaler(eqx.Module):
    """Standardises by all that came before, as skrl's RunningStandardScaler does."""

    mean: Float[Array, "*batches features"]
    variance: Float[Array, "*batches features"]
    count: Float[Array, "*batches"]
    """Samples seen, and one: the standard normal that it starts from."""
    active: bool = eqx.field(static=True, default=True)  # where this is off, numbers pass unchanged

    @classmethod
    def begin(cls, features: int, *, active: bool = True) -> "RunningScaler":
        """Before the first sample."""
        return cls(jnp.zeros(features), jnp.ones(features), jnp.ones(()), active)

    def seen(self, x: Float[Array, "samples features"]) -> "RunningScaler":
        """After these samples too."""
        return self.seen_each(x[None]).at(0)

    def seen_each(self, x: Float[Array, "batches samples features"]) -> "RunningScaler":
        """After each of these batches, one after the other: all arrays get a leading axis.

        Chan's formula for adding a batch, with sums over the batches before in place of a loop. The
        batch's variance is the unbiased one although it is weighted by its number of samples, as in
        skrl.
        """
        batches, samples, _ = x.shape
        if not self.active:
            return jax.tree.map(lambda a: jnp.repeat(a[None], batches, 0), self)
        mean, variance = jnp.mean(x, axis=1), jnp.var(x, axis=1, ddof=1)
        after = self.count + samples * jnp.arange(1, batches + 1, dtype=self.count.dtype)
        means = self.mean + jnp.cumsum(mean - self.mean, axis=0) * samples / after[:, None]
        before = jnp.concatenate([self.mean[None], means[:-1]])
        between = (mean - before) ** 2 * ((after - samples) * samples / after)[:, None]
        squares = self.variance * self.count + jnp.cumsum(variance * samples + between, axis=0)
        return RunningScaler(means, squares / after[:, None], after, True)

    def at(self, batch: int | Array) -> "RunningScaler":
        """One of the scalers that ``seen_each`` gave."""
        return jax.tree.map(lambda a: a[batch], self)

    def scale(self, x: Float[Array, "*any features"]) -> Float[Array, "*any features"]:
        """Standardised and clipped."""
        if not self.active:
            return x
        return jnp.clip((x - self.mean) / (jnp.sqrt(self.variance) + EPSILON), -CLIP, CLIP)

    def restore(self, x: Float[Array, "*any features"]) -> Float[Array, "*any features"]:
        """Standardised numbers in their own unit again."""
        if not self.active:
            return x
        return jnp.sqrt(self.variance) * jnp.clip(x, -CLIP, CLIP) + self.mean


class Networks(eqx.Module):
    """Policy and value network; every array of ``layers`` has a leading axis of the two.

    The last layer has as many outputs as there are actions in both, of which the value network uses
    the first.
    """

    layers: tuple[Layer, ...]
    log_std: Float[Array, " action"]  # of the policy's actions, before it is held within its bounds

    @classmethod
    def begin(
        cls, observations: int, actions: int, settings: PPOSettings, *, key: PRNGKeyArray
    ) -> "Networks":
        """Flax's start, as in skrl's examples: weights of variance 1 / fan-in, no bias."""
        sizes = list(pairwise((observations, *settings.hidden, actions)))
        normal = jax.nn.initializers.lecun_normal(batch_axis=0)
        layers = [
            Layer(normal(k, (2, rows, columns)), jnp.zeros((2, columns)))
            for (rows, columns), k in zip(sizes, jax.random.split(key, len(sizes)), strict=True)
        ]
        last = layers[-1].weight.at[POLICY].multiply(settings.output_gain).at[VALUE, :, 1:].set(0.0)
        layers[-1] = Layer(last, layers[-1].bias)
        return cls(tuple(layers), math.log(settings.init_std) * jnp.ones(actions))

    def __call__(
        self, x: Float[Array, "samples observation"], settings: PPOSettings
    ) -> tuple[Gaussian, Float[Array, " samples"]]:
        """Distribution of the actions and value [standardised], for standardised observations."""
        activation = ACTIVATION_FUNCTIONS[settings.activation]
        precision = PRECISION_NAMES[settings.precision]
        y = jnp.broadcast_to(x, (2, *x.shape))
        for k, layer in enumerate(self.layers):
            y = _product(activation(y) if k else y, layer.weight, precision) + layer.bias[:, None]
        return Gaussian(y[POLICY], self.bounded(settings)), y[VALUE, :, 0]

    def bounded(self, settings: PPOSettings) -> Float[Array, " action"]:
        """Logarithm of the standard deviation within its bounds."""
        return jnp.clip(self.log_std, math.log(settings.min_std), math.log(settings.max_std))

    def of(self, which: int) -> tuple[Layer, ...]:
        """The layers of one network, ``POLICY`` or ``VALUE``, with as many outputs as it has."""
        layers = jax.tree.map(lambda a: a[which], self.layers)
        if which == VALUE:
            layers = (*layers[:-1], Layer(layers[-1].weight[:, :1], layers[-1].bias[:1]))
        return layers


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(x: Array, weight: Array, precision: str) -> Array:
    """Product x W of two networks, whose derivative by W is summed over parts of the samples.

    That derivative is a small matrix summed over thousands of samples: in one product a GPU would
    leave nearly all of its processors idle, and a CPU its caches cold.
    """
    return jnp.matmul(x, weight, precision=precision)


def _forward(x: Array, weight: Array, precision: str) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, weight, precision), (x, weight)


def _backward(precision: str, kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, weight = kept
    two, samples, _ = x.shape
    parts = math.gcd(samples, 32)
    split = lambda a: a.reshape(two, parts, samples // parts, a.shape[-1])  # noqa: E731
    by_part = jnp.matmul(split(x).mT, split(cotangent), precision=precision)
    return jnp.matmul(cotangent, weight.mT, precision=precision), jnp.sum(by_part, axis=1)


_product.defvjp(_forward, _backward)


# --- Proximal policy optimisation (Schulman et al. 2017), compiled as a whole: rollout and upda

_UNROLL = 16  # steps of the advantages in one kernel; more only make the program longer

Order = Callable[[Int[Array, ""], Int[Array, ""]], Int[Array, " samples"]]
"""From epoch and minibatch, counted from 0, to its samples (step times environments plus
environment)."""


@runtime_checkable
class Environment(Protocol):
    """Many episodes at once in one compiled program; one that ends starts again by itself."""

    envs: int  # How many.
    observation_size: int
    action_size: int
    horizon: int  # Steps of an episode.

    def reset(self, key: PRNGKeyArray) -> Any:
        """State of all environments at the start of an episode: a pytree of arrays."""

    def observe(self, state: Any) -> Float[Array, "envs observation"]:
        """What the policy sees of the state."""

    def step(
        self, state: Any, action: Float[Array, "envs action"], *, key: PRNGKeyArray
    ) -> tuple[Any, StepOutcome]:
        """One step of all environments; ``action`` is the policy's output before any squashing."""


class AgentState(eqx.Module):
    """Everything that an update changes."""

    networks: Networks
    adam: optax.OptState
    learning_rate: Float[Array, ""]
    observation_scaler: RunningScaler
    value_scaler: RunningScaler

    @classmethod
    def begin(
        cls, observations: int, actions: int, settings: PPOSettings, *, key: PRNGKeyArray
    ) -> "AgentState":
        """Before the first update."""
        networks = Networks.begin(observations, actions, settings, key=key)
        return cls(
            networks,
            optax.scale_by_adam().init(networks),
            settings.learning_rate * jnp.ones(()),
            RunningScaler.begin(observations, active=settings.scale_observations),
            RunningScaler.begin(1, active=settings.scale_values),
        )


class RolloutState(eqx.Module):
    """The environments between two rollouts."""

    state: Any  # the environments' own
    observation: Float[Array, "envs observation"]
    returns: Float[Array, " envs"]  # sum of the running episodes' rewards

    @classmethod
    def begin(cls, env: Environment, key: PRNGKeyArray) -> "RolloutState":
        """At the start of all episodes."""
        state = env.reset(key)
        return cls(state, env.observe(state), jnp.zeros(env.envs))

    def stepped(
        self, env: Environment, action: Float[Array, "envs action"], *, key: PRNGKeyArray
    ) -> "tuple[RolloutState, StepResults]":
        """One step of all environments later."""
        state, outcome = env.step(self.state, action, key=key)
        returns = self.returns + outcome.reward
        results = StepResults(
            outcome.reward, outcome.terms, outcome.done, outcome.success, outcome.metrics, returns
        )
        returns = jnp.where(outcome.done, 0.0, returns)
        return RolloutState(state, outcome.observation, returns), results


class StepResults(eqx.Module):
    """Rewards and results of a rollout, step by step."""

    reward: Float[Array, "*steps envs"]
    terms: dict[str, Float[Array, "*steps envs"]]
    done: Bool[Array, "*steps envs"]
    success: Float[Array, "*steps envs"]
    metrics: dict[str, Float[Array, "*steps envs"]]
    returns: Float[Array, "*steps envs"]  # sum of the episode's rewards up to this step


class Experience(eqx.Module):
    """What all environments went through between two updates."""

    observation: Float[Array, "steps envs observation"]
    action: Float[Array, "steps envs action"]
    log_prob: Float[Array, "steps envs"]
    value: Float[Array, "steps envs"]  # as the value network had it, in units of the reward
    reward: Float[Array, "steps envs"]
    terminal: Bool[Array, "steps envs"]
    last_value: Float[Array, " envs"]  # of the observation after the last step


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

    policy: Float[Array, ""]  # mean over the steps done, as the next two
    entropy: Float[Array, ""]
    value: Float[Array, ""]
    kl: Float[Array, ""]
    """Mean divergence from the old policy over the last epoch's minibatches [nat]."""
    steps: Int[Array, ""]  # steps of the optimiser that were done


class LearnerState(eqx.Module):
    """The complete state of learning: given back, it goes on to the same bits (on a CPU)."""

    agent: AgentState
    rollout: RolloutState
    key: UInt32[Array, "2"]  # data of the random key that the next update starts from
    updates: Int[Array, ""]  # updates done


class UpdateReport(eqx.Module):
    """What a rollout and its update showed; a mean over episodes is NaN where none ended."""

    reward: Float[Array, ""]  # mean over steps and environments, as the terms
    terms: dict[str, Float[Array, ""]]
    episodes: Int[Array, ""]  # episodes that ended; the next three are their means
    returns: Float[Array, ""]  # sum of rewards
    success: Float[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    losses: Losses
    learning_rate: Float[Array, ""]  # after the update
    std: Float[Array, ""]  # mean over actions of the policy's standard deviation after the update

    @classmethod
    def of(
        cls, agent: AgentState, results: StepResults, losses: Losses, settings: PPOSettings
    ) -> "UpdateReport":
        """Of a rollout's results and the agent after the update."""
        episodes = jnp.sum(results.done)
        ended = lambda a: jnp.sum(jnp.where(results.done, a, 0.0)) / episodes  # noqa: E731
        return cls(
            reward=jnp.mean(results.reward),
            terms={name: jnp.mean(term) for name, term in results.terms.items()},
            episodes=episodes,
            returns=ended(results.returns),
            success=ended(results.success),
            metrics={name: ended(metric) for name, metric in results.metrics.items()},
            losses=losses,
            learning_rate=agent.learning_rate,
            std=jnp.mean(jnp.exp(agent.networks.bounded(settings))),
        )


class PPO(eqx.Module):
    """A policy that learns in ``env``."""

    env: Environment
    settings: PPOSettings = eqx.field(static=True)

    def __check_init__(self) -> None:
        self.settings.minibatch_size(self.env.envs)

    @property
    def steps_per_update(self) -> int:
        """Policy steps of all environments together between two updates."""
        return self.settings.num_steps_per_env * self.env.envs

    @partial(eqx.filter_jit, compiler_options=QUICK)
    def begin(self, key: PRNGKeyArray) -> LearnerState:
        """The state before the first step."""
        agent_key, env_key, key = jax.random.split(key, 3)
        sizes = self.env.observation_size, self.env.action_size
        return LearnerState(
            AgentState.begin(*sizes, self.settings, key=agent_key),
            RolloutState.begin(self.env, env_key),
            jax.random.key_data(key),
            jnp.zeros((), jnp.int32),
        )

    @partial(eqx.filter_jit, donate="all-except-first", compiler_options=QUICK)
    def advance(self, learner: LearnerState) -> tuple[LearnerState, UpdateReport]:
        """One rollout and one update further. ``learner`` is used up."""
        agent, settings = learner.agent, self.settings
        rollout_key, order_key, key = jax.random.split(jax.random.wrap_key_data(learner.key), 3)
        after, experience, results = rollout(
            self.env, agent, learner.rollout, settings, key=rollout_key
        )
        order = random_order(self.steps_per_update, settings, key=order_key)
        agent, losses = update(agent, experience, settings, order)
        report = UpdateReport.of(agent, results, losses, settings)
        return LearnerState(agent, after, jax.random.key_data(key), learner.updates + 1), report


def rollout(
    env: Environment,
    agent: AgentState,
    before: RolloutState,
    settings: PPOSettings,
    *,
    key: PRNGKeyArray,
) -> tuple[RolloutState, Experience, StepResults]:
    """Let the policy act for ``settings.num_steps_per_env`` steps in all environments."""
    noise_key, env_key = jax.random.split(key)
    steps = settings.num_steps_per_env
    noise = jax.random.normal(noise_key, (steps, env.envs, env.action_size))

    def step(now: RolloutState, chance: tuple[Array, PRNGKeyArray]) -> tuple[RolloutState, Any]:
        noise, key = chance
        policy, value = agent.networks(agent.observation_scaler.scale(now.observation), settings)
        action = noise * jnp.exp(policy.log_std) + policy.mean  # a = mean + std * epsilon
        after, results = now.stepped(env, action, key=key)
        return after, (now.observation, action, policy.log_prob(action), value, results)

    keys = jax.random.split(env_key, steps)
    after, kept = jax.lax.scan(step, before, (noise, keys))
    observation, action, log_prob, value, results = kept
    _, last_value = agent.networks(agent.observation_scaler.scale(after.observation), settings)
    restore = lambda v: agent.value_scaler.restore(v[..., None])[..., 0]  # noqa: E731
    value, reward = restore(value), results.reward
    if settings.time_limit == "bootstrap":  # r_t + gamma V_t where the episode was cut off
        reward = reward + settings.gamma * value * results.done
    experience = Experience(
        observation, action, log_prob, value, reward, results.done, restore(last_value)
    )
    return after, experience, results


def estimate_advantages(
    reward: Float[Array, "steps envs"],
    value: Float[Array, "steps envs"],
    last_value: Float[Array, " envs"],
    terminal: Bool[Array, "steps envs"],
    *,
    gamma: float,
    gae_lambda: float,
) -> Float[Array, "steps envs"]:
    """How much better than expected each step turned out (Schulman et al. 2016).

    A_t = r_t - V_t + gamma (V_t+1 + lambda A_t+1), 0 for the bracket at the end of an episode.
    """
    following = jnp.concatenate([value[1:], last_value[None]])

    def back(advantage: Array, step: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        reward, value, following, go_on = step
        advantage = reward - value + gamma * go_on * (following + gae_lambda * advantage)
        return advantage, advantage

    steps = (reward, value, following, 1.0 - terminal)
    start, unroll = jnp.zeros_like(last_value), min(_UNROLL, len(reward))
    return jax.lax.scan(back, start, steps, reverse=True, unroll=unroll)[1]


def normalise(advantage: Float[Array, "steps envs"]) -> Float[Array, "steps envs"]:
    """With mean 0 and (population) standard deviation 1 over all steps of all environments."""
    return (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + EPSILON)


def random_order(samples: int, settings: PPOSettings, *, key: PRNGKeyArray) -> Order:
    """Minibatches as the settings want them: a new permutation for each epoch, or as recorded."""
    size = samples // settings.num_minibatches
    seeds = jax.random.bits(key, (settings.num_epochs, 2), jnp.uint32)

    def order(epoch: Int[Array, ""], mini: Int[Array, ""]) -> Int[Array, " samples"]:
        places = mini * size + jnp.arange(size, dtype=jnp.int32)
        return shuffled(places, samples, seeds[epoch]) if settings.shuffle else places

    return order


class _UpdateState(eqx.Module):
    """What changes from step to step of the optimiser."""

    networks: Networks
    adam: optax.OptState
    learning_rate: Float[Array, ""]
    scaler: RunningScaler
    sums: Float[Array, "3"]  # of the three losses
    steps: Int[Array, ""]
    mini: Int[Array, ""]  # minibatches looked at in this epoch
    kl_sum: Float[Array, ""]  # of their divergences
    stopped: Bool[Array, ""]  # this epoch went far enough


def update(
    agent: AgentState, experience: Experience, settings: PPOSettings, order: Order
) -> tuple[AgentState, Losses]:
    """The agent after learning from ``experience``."""
    samples, value_scaler = _samples(agent, experience, settings)
    count = jnp.arange(settings.num_minibatches)
    first = jax.vmap(lambda mini: samples.observation[order(jnp.asarray(0), mini)])(count)
    scalers = agent.observation_scaler.seen_each(first)
    optimiser = optax.scale_by_adam()
    rows, unpack = _packed(samples)

    def step(at: _UpdateState, epoch: Int[Array, ""]) -> _UpdateState:
        scaler = _pick(epoch == 0, scalers.at(at.mini), at.scaler)
        batch = unpack(rows[order(epoch, at.mini)])
        batch = eqx.tree_at(lambda b: b.observation, batch, scaler.scale(batch.observation))
        gradient, (*losses, kl) = jax.grad(objective, has_aux=True)(at.networks, batch, settings)
        direction, adam = optimiser.update(clip_gradient(gradient, settings.max_grad_norm), at.adam)
        networks = jax.tree.map(lambda w, d: w - at.learning_rate * d, at.networks, direction)
        done = (networks, adam, at.sums + jnp.stack(losses), at.steps + 1)
        stopped = jnp.asarray(False)
        if settings.kl_mode == "stop":
            stopped = kl > settings.kl_threshold
            done = _pick(stopped, (at.networks, at.adam, at.sums, at.steps), done)
        networks, adam, sums, steps = done
        mini, kl_sum = at.mini + 1, at.kl_sum + kl
        return _UpdateState(
            networks, adam, at.learning_rate, scaler, sums, steps, mini, kl_sum, stopped
        )

    def epoch(at: _UpdateState, number: Int[Array, ""]) -> tuple[_UpdateState, None]:
        fresh = lambda p: (p.mini, p.kl_sum, p.stopped)  # noqa: E731
        at = eqx.tree_at(fresh, at, jax.tree.map(jnp.zeros_like, fresh(at)))
        if settings.kl_mode == "stop":
            going = lambda p: (p.mini < settings.num_minibatches) & ~p.stopped  # noqa: E731
            at = jax.lax.while_loop(going, lambda p: step(p, number), at)
        else:
            # A number of steps known to the compiler: a GPU then need not ask the host after each
            # of them.
            one = lambda p, _: (step(p, number), None)  # noqa: E731
            at = jax.lax.scan(one, at, None, length=settings.num_minibatches)[0]
        if settings.kl_mode == "adaptive":
            kl = at.kl_sum / settings.num_minibatches
            steered = adapt_learning_rate(at.learning_rate, kl, settings)
            at = eqx.tree_at(lambda p: p.learning_rate, at, steered)
        return at, None

    zero, none = jnp.zeros(()), jnp.zeros((), jnp.int32)
    start = _UpdateState(
        agent.networks, agent.adam, agent.learning_rate, agent.observation_scaler,
        jnp.zeros(3), none, none, zero, jnp.asarray(False),
    )  # fmt: skip
    end, _ = jax.lax.scan(epoch, start, jnp.arange(settings.num_epochs))
    means = end.sums / jnp.maximum(end.steps, 1)
    losses = Losses(means[0], means[1], means[2], end.kl_sum / end.mini, end.steps)
    return AgentState(end.networks, end.adam, end.learning_rate, end.scaler, value_scaler), losses


def objective(
    networks: Networks, batch: MiniBatch, settings: PPOSettings
) -> tuple[Float[Array, ""], tuple[Float[Array, ""], ...]]:
    """What a step lowers; its parts: policy, entropy and value loss, and the divergence."""
    policy, value = networks(batch.observation, settings)
    # ratio = pi(a) / pi_old(a); KL(pi_old | pi) is estimated by mean(ratio - 1 - log ratio)
    log_ratio = policy.log_prob(batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    kl = jnp.mean((ratio - 1.0) - log_ratio)
    # L_policy = -mean(min(A ratio, A clip(ratio, 1 - c, 1 + c)))
    clipped = jnp.clip(ratio, 1.0 - settings.clip_range, 1.0 + settings.clip_range)
    policy_loss = -jnp.mean(jnp.minimum(batch.advantage * ratio, batch.advantage * clipped))
    entropy_loss = -settings.entropy_coef * policy.entropy()
    if settings.value_clip_range:  # V = V_old + clip(V - V_old, -c, c)
        limit = settings.value_clip_range
        value = batch.value + jnp.clip(value - batch.value, -limit, limit)
    # L_value = mean((R - V)^2) with the return R = A + V_old
    value_loss = settings.value_coef * jnp.mean((batch.returns - value) ** 2)
    total = policy_loss + value_loss + (entropy_loss if settings.entropy_in_gradient else 0.0)
    return total, (policy_loss, entropy_loss, value_loss, kl)


def clip_gradient(gradient: Networks, longest: float) -> Networks:
    """Each network's part no longer than ``longest``; ``log_std`` belongs to the policy's."""
    if not longest:
        return gradient
    squares = sum(
        jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim)))
        for g in jax.tree.leaves(gradient.layers)
    )
    length = jnp.sqrt(squares + jnp.stack([jnp.sum(jnp.square(gradient.log_std)), jnp.zeros(())]))
    factor = jnp.where(length < longest, 1.0, longest / length)
    layers = jax.tree.map(lambda g: g * factor.reshape(2, *[1] * (g.ndim - 1)), gradient.layers)
    return Networks(layers, gradient.log_std * factor[POLICY])


def adapt_learning_rate(
    rate: Float[Array, ""], kl: Float[Array, ""], settings: PPOSettings
) -> Float[Array, ""]:
    """After an epoch of divergence ``kl``: lower where far above the threshold, or higher."""
    slower = jnp.maximum(rate / settings.learning_rate_factor, settings.min_learning_rate)
    faster = jnp.minimum(rate * settings.learning_rate_factor, settings.max_learning_rate)
    above = kl > settings.kl_threshold * settings.kl_factor
    below = kl < settings.kl_threshold / settings.kl_factor
    return jnp.where(above, slower, jnp.where(below, faster, rate))


def _samples(
    agent: AgentState, experience: Experience, settings: PPOSettings
) -> tuple[MiniBatch, RunningScaler]:
    """All samples (observations not standardised yet), and the value scaler that saw them."""
    flat = lambda a: a.reshape(-1, *a.shape[2:])  # noqa: E731
    value = experience.value
    advantage = estimate_advantages(
        experience.reward, value, experience.last_value, experience.terminal,
        gamma=settings.gamma, gae_lambda=settings.gae_lambda,
    )  # fmt: skip
    returns = flat(advantage + value)[:, None]
    value = flat(value)[:, None]
    scaler = agent.value_scaler.seen(value)
    after = scaler.seen(returns)
    samples = MiniBatch(
        observation=flat(experience.observation),
        action=flat(experience.action),
        log_prob=flat(experience.log_prob),
        value=scaler.scale(value)[:, 0],
        returns=after.scale(returns)[:, 0],
        advantage=flat(normalise(advantage)),
    )
    return samples, after


def _packed(
    samples: MiniBatch,
) -> tuple[Float[Array, "samples width"], Callable[[Array], MiniBatch]]:
    """Each sample in one row, so that a minibatch is fetched in one go; and the inverse."""
    n, a = samples.observation.shape[1], samples.action.shape[1]
    single = jnp.stack(
        [samples.log_prob, samples.value, samples.returns, samples.advantage], axis=1
    )

    def unpack(rows: Float[Array, "some width"]) -> MiniBatch:
        return MiniBatch(rows[:, :n], rows[:, n : n + a], *(rows[:, n + a + k] for k in range(4)))

    return jnp.concatenate([samples.observation, samples.action, single], axis=1), unpack


def _pick(condition: Bool[Array, ""], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
