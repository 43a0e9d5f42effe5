"""Proximal policy optimisation (Schulman et al. 2017), compiled as a whole: rollout and update are
one program.

The file reads in the order of an iteration, after the networks: the policy acts (``rollout``),
advantages are estimated (``estimate_advantages``), and a few epochs of Adam follow on minibatches
(``update``). Formulas, order and constants are those of skrl 2.1.1 on JAX: the value scaler sees
the values and then the returns; the observation scaler sees each minibatch of the first epoch just
before it is used; each network's gradient is clipped by its own length; a divergence above the
threshold leaves the epoch, not the update, before the step.

Policy and value network are perceptrons of the same shape, stacked so that one product serves both.
On a GPU that halves the number of kernels, and kernels are what a step of small networks costs.
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
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, UInt32

from genan.actuator.ensemble import Layer
from genan.actuator.training import shuffled
from genan.jax_setup import QUICK
from genan.rl.config import PPOSettings
from genan.tasks.task import Action, Observation, PerEnv, StepOutcome

POLICY, VALUE = 0, 1
ACTIVATION_FUNCTIONS = {"leaky_relu": jax.nn.leaky_relu, "elu": jax.nn.elu, "tanh": jnp.tanh}
PRECISION_NAMES = {"float32": "highest", "tf32": "default"}
CLIP = 5.0  # Standardised numbers are kept within this [standard deviations].
EPSILON = 1e-8  # Added to the standard deviation that is divided by.

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)

Scalar = Float[Array, ""]
Count = Int[Array, ""]
PerSample = Float[Array, " samples"]
Samples = Float[Array, "samples observation"]
PerStep = Float[Array, "steps envs"]
Sizes = tuple[int, int]  # Entries of an observation and of an action.
Features = Float[Array, "*any features"]
Order = Callable[[Count, Count], Int[Array, " samples"]]
"""From epoch and minibatch, from 0 on, to samples (step times environments plus environment)."""
Brought = tuple[StepOutcome, Float[Array, "*steps envs"]]
"""What steps brought but for the observation, and sums of the episodes' rewards up to them."""
Numbers = dict[str, Float[Array, ""] | Int[Array, ""]]
"""What an update showed, by the names of the learning curve; NaN where no episode ended."""


class Gaussian(eqx.Module):
    """Independent normal distributions of the action's components."""

    mean: Float[Array, "*any action"]
    log_std: Float[Array, " action"]

    def log_prob(self, action: Float[Array, "*any action"]) -> Float[Array, "*any"]:
        """Log density [nat]: sum of -(a - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2."""
        variance = jnp.square(jnp.exp(self.log_std))
        each = -jnp.square(action - self.mean) / (2.0 * variance) - self.log_std - _HALF_LOG_2_PI
        return jnp.sum(each, axis=-1)

    def entropy(self) -> Scalar:
        """Of all components together [nat]: sum of 1/2 + log(2 pi) / 2 + log(std)."""
        return jnp.sum(0.5 + _HALF_LOG_2_PI + self.log_std)


class RunningScaler(eqx.Module):
    """Standardises by all that came before, as skrl's RunningStandardScaler does."""

    mean: Float[Array, "*batches features"]
    variance: Float[Array, "*batches features"]
    count: Float[Array, "*batches"]  # samples seen, and one: the standard normal it starts from
    active: bool = eqx.field(static=True, default=True)  # where this is off, numbers pass unchanged

    @classmethod
    def begin(cls, features: int, *, active: bool = True) -> "RunningScaler":
        """Before the first sample."""
        return cls(jnp.zeros(features), jnp.ones(features), jnp.ones(()), active)

    def seen(self, x: Float[Array, "samples features"]) -> "RunningScaler":
        """After these samples too."""
        return self.seen_each(x[None]).at(0)

    def seen_each(self, x: Float[Array, "batches samples features"]) -> "RunningScaler":
        """After each of these batches, one after the other: all arrays get a leading axis. Chan's
        formula, with sums over the batches before in place of a loop; a batch's variance is the
        unbiased one although it is weighted by its number of samples, as in skrl."""
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

    def scale(self, x: Features) -> Features:
        """Standardised and clipped."""
        scaled = jnp.clip((x - self.mean) / (jnp.sqrt(self.variance) + EPSILON), -CLIP, CLIP)
        return scaled if self.active else x

    def restore(self, x: Features) -> Features:
        """Standardised numbers in their own unit again."""
        own = jnp.sqrt(self.variance) * jnp.clip(x, -CLIP, CLIP) + self.mean
        return own if self.active else x


class Networks(eqx.Module):
    """Policy and value network; every array of ``layers`` has a leading axis of the two. The value
    network, too, has as many outputs as there are actions, and uses the first."""

    layers: tuple[Layer, ...]
    log_std: Float[Array, " action"]  # of the policy's actions, before it is held within its bounds

    @classmethod
    def begin(cls, sizes: Sizes, settings: PPOSettings, *, key: PRNGKeyArray) -> "Networks":
        """Flax's start, as in skrl's examples: weights of variance 1 / fan-in, no bias."""
        inputs, actions = sizes
        shapes = list(pairwise((inputs, *settings.hidden, actions)))
        keys = jax.random.split(key, len(shapes))
        normal = jax.nn.initializers.lecun_normal(batch_axis=0)
        weights = [normal(k, (2, *shape)) for k, shape in zip(keys, shapes, strict=True)]
        last = weights[-1].at[POLICY].multiply(settings.output_gain).at[VALUE, :, 1:].set(0.0)
        layers = (Layer(w, jnp.zeros((2, w.shape[-1]))) for w in (*weights[:-1], last))
        return cls(tuple(layers), math.log(settings.init_std) * jnp.ones(actions))

    def __call__(self, x: Samples, settings: PPOSettings) -> tuple[Gaussian, PerSample]:
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
    """Product x W of two networks, whose derivative by W, a small matrix summed over thousands of
    samples, is summed over parts: in one product a GPU would leave nearly all of its processors
    idle, and a CPU its caches cold."""
    return jnp.matmul(x, weight, precision=precision)


def _backward(precision: str, kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, weight = kept
    two, samples, _ = x.shape
    parts = math.gcd(samples, 32)
    split = lambda a: a.reshape(two, parts, samples // parts, a.shape[-1])
    by_part = jnp.matmul(split(x).mT, split(cotangent), precision=precision)
    return jnp.matmul(cotangent, weight.mT, precision=precision), jnp.sum(by_part, axis=1)


_product.defvjp(lambda x, weight, p: (_product(x, weight, p), (x, weight)), _backward)


@runtime_checkable
class Environment(Protocol):
    """Many episodes at once in one compiled program; one that ends starts again by itself."""

    envs: int  # How many.
    observation_size: int
    action_size: int
    horizon: int  # Steps of an episode.

    def reset(self, key: PRNGKeyArray) -> Any:
        """State of all environments at the start of an episode: a pytree of arrays."""

    def observe(self, state: Any) -> Observation:
        """What the policy sees of the state."""

    def step(self, state: Any, action: Action, *, key: PRNGKeyArray) -> tuple[Any, StepOutcome]:
        """One step of all environments; ``action`` is the policy's output before any squashing."""


class AgentState(eqx.Module):
    """Everything that an update changes."""

    networks: Networks
    adam: optax.OptState
    learning_rate: Scalar
    observation_scaler: RunningScaler
    value_scaler: RunningScaler

    @classmethod
    def begin(cls, sizes: Sizes, settings: PPOSettings, *, key: PRNGKeyArray) -> "AgentState":
        """Before the first update."""
        networks = Networks.begin(sizes, settings, key=key)
        adam, rate = optax.scale_by_adam().init(networks), settings.learning_rate * jnp.ones(())
        seen = RunningScaler.begin(sizes[0], active=settings.scale_observations)
        return cls(networks, adam, rate, seen, RunningScaler.begin(1, active=settings.scale_values))


class RolloutState(eqx.Module):
    """The environments between two rollouts."""

    state: Any  # the environments' own
    observation: Observation
    returns: PerEnv  # sum of the running episodes' rewards

    @classmethod
    def begin(cls, env: Environment, key: PRNGKeyArray) -> "RolloutState":
        """At the start of all episodes."""
        state = env.reset(key)
        return cls(state, env.observe(state), jnp.zeros(env.envs))

    def stepped(
        self, env: Environment, action: Action, *, key: PRNGKeyArray
    ) -> tuple["RolloutState", Observation, Brought]:
        """One step of all environments later, and what was seen last of each episode."""
        state, now = env.step(self.state, action, key=key)
        returns = self.returns + now.reward
        after = RolloutState(state, now.observation, jnp.where(now.done, 0.0, returns))
        unseen = eqx.tree_at(lambda now: (now.observation, now.last), now, (None, None))
        return after, now.last, (unseen, returns)


class Experience(eqx.Module):
    """What all environments went through between two updates."""

    observation: Float[Array, "steps envs observation"]
    action: Float[Array, "steps envs action"]
    log_prob: PerStep
    value: PerStep  # as the value network had it, in units of the reward
    reward: PerStep
    terminal: Bool[Array, "steps envs"]
    last_value: PerEnv  # of the observation after the last step


class MiniBatch(eqx.Module):
    """Samples of one step of the optimiser; observations, values and returns are standardised."""

    observation: Samples
    action: Float[Array, "samples action"]
    log_prob: PerSample
    value: PerSample
    returns: PerSample
    advantage: PerSample


class LearnerState(eqx.Module):
    """The complete state of learning: given back, it goes on to the same bits (on a CPU)."""

    agent: AgentState
    rollout: RolloutState
    key: UInt32[Array, "2"]  # data of the random key that the next update starts from
    updates: Count  # updates done


def report(agent: AgentState, brought: Brought, losses: Numbers, settings: PPOSettings) -> Numbers:
    """What a rollout ``brought``, step by step, and the agent after its update: means over steps
    and environments of the rewards, over the ``episodes`` that ended of what came of them."""
    now, returns = brought
    episodes = jnp.sum(now.done)
    mean = lambda a: jnp.sum(jnp.where(now.done, a, 0.0)) / episodes
    ended = {"return": returns, "success": now.success, **now.metrics}
    return {
        "episodes": episodes,
        **{f"episode/{name}": mean(a) for name, a in ended.items()},
        **{f"reward/{name}": jnp.mean(a) for name, a in ({"mean": now.reward} | now.terms).items()},
        **losses,
        "learning/rate": agent.learning_rate,
        "learning/std": jnp.mean(jnp.exp(agent.networks.bounded(settings))),
    }


class PPO(eqx.Module):
    """A policy that learns in ``env``; or several, side by side in one program, each from a key of
    its own: then everything has a leading axis. A GPU that one leaves idle takes them all."""

    env: Environment
    settings: PPOSettings = eqx.field(static=True)

    def __check_init__(self) -> None:
        self.settings.minibatch_size(self.env.envs)

    @property
    def steps_per_update(self) -> int:
        """Policy steps of all environments together between two updates."""
        return self.settings.num_steps_per_env * self.env.envs

    @partial(eqx.filter_jit, compiler_options=QUICK)
    def begin(self, key: Key[Array, "*seeds"]) -> LearnerState:
        """The state before the first step."""
        if key.ndim:
            return jax.vmap(partial(type(self).begin.__wrapped__, self))(key)
        agent_key, env_key, key = jax.random.split(key, 3)
        sizes = self.env.observation_size, self.env.action_size
        agent = AgentState.begin(sizes, self.settings, key=agent_key)
        start, none = RolloutState.begin(self.env, env_key), jnp.zeros((), jnp.int32)
        return LearnerState(agent, start, jax.random.key_data(key), none)

    @partial(eqx.filter_jit, donate="all-except-first", compiler_options=QUICK)
    def advance(self, learner: LearnerState) -> tuple[LearnerState, dict[str, Array]]:
        """One rollout and one update further. ``learner`` is used up."""
        if learner.updates.ndim:
            return jax.vmap(partial(type(self).advance.__wrapped__, self))(learner)
        agent, settings = learner.agent, self.settings
        rollout_key, order_key, key = jax.random.split(jax.random.wrap_key_data(learner.key), 3)
        after, experience, brought = self.rollout(agent, learner.rollout, key=rollout_key)
        order = random_order(self.steps_per_update, settings, key=order_key)
        agent, losses = update(agent, experience, settings, order)
        following = LearnerState(agent, after, jax.random.key_data(key), learner.updates + 1)
        return following, report(agent, brought, losses, settings)

    def rollout(
        self, agent: AgentState, before: RolloutState, *, key: PRNGKeyArray
    ) -> tuple[RolloutState, Experience, Brought]:
        """Let the policy act for ``settings.num_steps_per_env`` steps in all environments."""
        noise_key, env_key = jax.random.split(key)
        env, settings, steps = self.env, self.settings, self.settings.num_steps_per_env
        noise = jax.random.normal(noise_key, (steps, env.envs, env.action_size))
        networks = lambda x: agent.networks(agent.observation_scaler.scale(x), settings)

        def step(now: RolloutState, chance: tuple[Array, PRNGKeyArray]) -> tuple[RolloutState, Any]:
            noise, key = chance
            policy, value = networks(now.observation)
            action = noise * jnp.exp(policy.log_std) + policy.mean  # a = mean + std * epsilon
            after, last, brought = now.stepped(env, action, key=key)
            rest = networks(last)[1] if settings.time_limit == "bootstrap" else None
            kept = now.observation, action, policy.log_prob(action), value
            return after, (*kept, rest, brought)

        after, kept = jax.lax.scan(step, before, (noise, jax.random.split(env_key, steps)))
        *seen, value, rest, brought = kept
        restore = lambda v: agent.value_scaler.restore(v[..., None])[..., 0]
        last_value, value = restore(networks(after.observation)[1]), restore(value)
        reward, done = brought[0].reward, brought[0].done
        if rest is not None:  # r_t + gamma V of what was seen last, where the time was up
            reward += jnp.where(brought[0].truncated, settings.gamma * restore(rest), 0.0)
        return after, Experience(*seen, value, reward, done, last_value), brought


def estimate_advantages(experience: Experience, gamma: float, gae_lambda: float) -> PerStep:
    """How much better than expected each step turned out (Schulman et al. 2016).

    A_t = r_t - V_t + gamma (V_t+1 + lambda A_t+1), 0 for the bracket at the end of an episode.
    """
    it = experience

    def back(advantage: Array, step: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, value, following, go_on = step
        advantage = reward - value + gamma * go_on * (following + gae_lambda * advantage)
        return advantage, advantage

    following = jnp.concatenate([it.value[1:], it.last_value[None]])
    steps = (it.reward, it.value, following, 1.0 - it.terminal)
    # More than 16 steps in one kernel only make the program longer.
    start, unroll = jnp.zeros_like(it.last_value), min(16, len(it.reward))
    return jax.lax.scan(back, start, steps, reverse=True, unroll=unroll)[1]


def normalise(advantage: PerStep) -> PerStep:
    """With mean 0 and (population) standard deviation 1 over all steps of all environments."""
    return (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + EPSILON)


def random_order(samples: int, settings: PPOSettings, *, key: PRNGKeyArray) -> Order:
    """Minibatches as the settings want them: a new permutation for each epoch, or as recorded."""
    size = samples // settings.num_minibatches
    seeds = jax.random.bits(key, (settings.num_epochs, 2), jnp.uint32)

    def order(epoch: Count, mini: Count) -> Int[Array, " samples"]:
        places = mini * size + jnp.arange(size, dtype=jnp.int32)
        return shuffled(places, samples, seeds[epoch]) if settings.shuffle else places

    return order


class _UpdateState(eqx.Module):
    """What changes from step to step of the optimiser."""

    agent: AgentState
    sums: Float[Array, "3"]  # of the three losses
    steps: Count
    mini: Count  # minibatches looked at in this epoch
    kl_sum: Scalar  # of their divergences
    stopped: Bool[Array, ""]  # this epoch went far enough


def update(
    agent: AgentState, experience: Experience, settings: PPOSettings, order: Order
) -> tuple[AgentState, Numbers]:
    """The agent after learning from ``experience``, and what it had to do: losses as means over the
    optimiser's steps, and the mean divergence over the last epoch's minibatches [nat]."""
    samples, value_scaler = _samples(agent, experience, settings)
    count = jnp.arange(settings.num_minibatches)
    first = jax.vmap(lambda mini: samples.observation[order(jnp.asarray(0), mini)])(count)
    scalers = agent.observation_scaler.seen_each(first)
    optimiser = optax.scale_by_adam()
    # Each sample in one row, so that a minibatch is fetched in one go.
    rows = jax.vmap(lambda sample: ravel_pytree(sample)[0])(samples)
    unpack = jax.vmap(ravel_pytree(jax.tree.map(lambda a: a[0], samples))[1])
    pick = lambda which, new, old: jax.tree.map(lambda a, b: jnp.where(which, a, b), new, old)

    def step(at: _UpdateState, epoch: Count) -> _UpdateState:
        now, batch = at.agent, unpack(rows[order(epoch, at.mini)])
        scaler = pick(epoch == 0, scalers.at(at.mini), now.observation_scaler)
        batch = eqx.tree_at(lambda b: b.observation, batch, scaler.scale(batch.observation))
        gradient, (*losses, kl) = jax.grad(objective, has_aux=True)(now.networks, batch, settings)
        gradient = clip_gradient(gradient, settings.max_grad_norm)
        direction, adam = optimiser.update(gradient, now.adam)
        networks = jax.tree.map(lambda w, d: w - now.learning_rate * d, now.networks, direction)
        done = (networks, adam, at.sums + jnp.stack(losses), at.steps + 1)
        stopped = jnp.asarray(False)
        if settings.kl_mode == "stop":
            stopped = kl > settings.kl_threshold
            done = pick(stopped, (now.networks, now.adam, at.sums, at.steps), done)
        networks, adam, sums, steps = done
        now = AgentState(networks, adam, now.learning_rate, scaler, value_scaler)
        return _UpdateState(now, sums, steps, at.mini + 1, at.kl_sum + kl, stopped)

    def epoch(at: _UpdateState, number: Count) -> tuple[_UpdateState, None]:
        fresh = lambda p: (p.mini, p.kl_sum, p.stopped)
        at = eqx.tree_at(fresh, at, jax.tree.map(jnp.zeros_like, fresh(at)))
        if settings.kl_mode == "stop":
            going = lambda p: (p.mini < settings.num_minibatches) & ~p.stopped
            at = jax.lax.while_loop(going, lambda p: step(p, number), at)
        else:
            # A number of steps known to the compiler: a GPU need not ask the host after each.
            one = lambda p, _: (step(p, number), None)
            at = jax.lax.scan(one, at, None, length=settings.num_minibatches)[0]
        if settings.kl_mode == "adaptive":
            kl, rate = at.kl_sum / settings.num_minibatches, at.agent.learning_rate
            steered = adapt_learning_rate(rate, kl, settings)
            at = eqx.tree_at(lambda p: p.agent.learning_rate, at, steered)
        return at, None

    zero, none = jnp.zeros(()), jnp.zeros((), jnp.int32)
    agent = eqx.tree_at(lambda a: a.value_scaler, agent, value_scaler)
    start = _UpdateState(agent, jnp.zeros(3), none, none, zero, jnp.asarray(False))
    end, _ = jax.lax.scan(epoch, start, jnp.arange(settings.num_epochs))
    means = zip(("policy", "entropy", "value"), end.sums / jnp.maximum(end.steps, 1), strict=True)
    losses = {f"loss/{name}": mean for name, mean in means}
    return end.agent, losses | {"learning/kl": end.kl_sum / end.mini, "learning/steps": end.steps}


def objective(
    networks: Networks, batch: MiniBatch, settings: PPOSettings
) -> tuple[Scalar, tuple[Scalar, ...]]:
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
    if limit := settings.value_clip_range:  # V = V_old + clip(V - V_old, -c, c)
        value = batch.value + jnp.clip(value - batch.value, -limit, limit)
    # L_value = mean((R - V)^2) with the return R = A + V_old
    value_loss = settings.value_coef * jnp.mean((batch.returns - value) ** 2)
    total = policy_loss + value_loss + (entropy_loss if settings.entropy_in_gradient else 0.0)
    return total, (policy_loss, entropy_loss, value_loss, kl)


def clip_gradient(gradient: Networks, longest: float) -> Networks:
    """Each network's part no longer than ``longest``; ``log_std`` belongs to the policy's."""
    if not longest:
        return gradient
    leaves = jax.tree.leaves(gradient.layers)
    squares = sum(jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) for g in leaves)
    length = jnp.sqrt(squares + jnp.stack([jnp.sum(jnp.square(gradient.log_std)), jnp.zeros(())]))
    factor = jnp.where(length < longest, 1.0, longest / length)
    layers = jax.tree.map(lambda g: g * factor.reshape(2, *[1] * (g.ndim - 1)), gradient.layers)
    return Networks(layers, gradient.log_std * factor[POLICY])


def adapt_learning_rate(rate: Scalar, kl: Scalar, settings: PPOSettings) -> Scalar:
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
    flat, it = lambda a: a.reshape(-1, *a.shape[2:]), experience
    advantage = estimate_advantages(it, settings.gamma, settings.gae_lambda)
    value, returns = flat(it.value)[:, None], flat(advantage + it.value)[:, None]
    scaler = agent.value_scaler.seen(value)
    after = scaler.seen(returns)
    value, returns = scaler.scale(value)[:, 0], after.scale(returns)[:, 0]
    recorded = map(flat, (it.observation, it.action, it.log_prob))
    return MiniBatch(*recorded, value, returns, flat(normalise(advantage))), after
