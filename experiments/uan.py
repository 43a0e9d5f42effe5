"""UAN, the unsupervised actuator net (Fey et al. 2025): actuators learnt by reinforcement instead
of regression.

The network is the policy; it is rewarded for torques that keep a simulated arm on the recorded
track. The original learns what is missing from a motor's known torque. Muscles have none, so that
here, as in the GenAN paper, the whole torque is learnt. A model to beat: what ``fit_uan`` writes is
taken by ``genan evaluate --compare``.
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from genan.actuator import save
from genan.actuator.dataset import Data, Dataset, Samples, gather, load_all, usable_rows
from genan.actuator.ensemble import Ensemble, Layers, Scaling, TorqueModel, pick_rows
from genan.actuator.settings import ACTIVATIONS, Architecture, FitSettings, History
from genan.actuator.training import rollout
from genan.data import Trajectories
from genan.dynamics import Dynamics, load_dynamics
from genan.errors import DataError, check_numbers, listing, refuse
from genan.jax_setup import check_sums, compiling
from genan.provenance import versions
from genan.rl.config import ACTIVATIONS as PPO_ACTIVATIONS
from genan.rl.config import PPOSettings
from genan.rl.ppo import POLICY, PPO
from genan.robot import Robot
from genan.tasks.task import Action, Observation, StepOutcome

LOSS = "uan"  # What the contract of such actuators names as their loss.
CHECK_STEPS = 500  # Of the rollouts to select by; fewer where the trajectories are shorter.
Indices = Int[np.ndarray, "..."]
PPO_SETTINGS = PPOSettings(
    learning_rate=1e-3, kl_mode="none", init_std=1.0, hidden=(64, 64), activation="tanh",
    scale_observations=False, time_limit="terminal",
)  # fmt: skip
"""How UAN learns unless asked otherwise. The torques that retrace rounded positions scatter several
times as much as those that move the arm, so that a standard deviation of 1 is a strong push; a
weaker one learns less."""


@dataclass(frozen=True)
class UanSettings:
    """How an unsupervised actuator network learns; ``docs/actuators.md`` has the measurements."""

    history_length: int = 3  # Past samples that the network sees besides the present one.
    history_stride: int = 1  # Samples from one of them to the next.
    delta: bool = True  # Give the network past samples as differences to the present one.
    num_envs: int = 256  # Episodes side by side.
    horizon: int | None = None  # Steps of an episode; left out: a whole trajectory (the median).
    steps: int = 4_000_000  # Steps of all episodes together, rounded up to whole updates.
    tracking_weight: float = 1.0  # Of the distance to the recording [std, mean over joints].
    smoothness_weight: float = 0.001  # Of the torque's squared change in a step [std, mean].
    bound: float = 5.0  # An episode ends where a joint is further off than this [std].
    validation: float = 0.2  # Part of the trajectories that is held out to select by.
    checks: int = 20  # How often the policy is tried on them; the best one is kept.
    seed: int = 0
    split_seed: int = 0  # Which trajectories are held out.
    ppo: PPOSettings = PPO_SETTINGS  # How the policy learns; its network is the actuators'.

    def __post_init__(self) -> None:
        rules = {
            "be at least 1": "num_envs steps checks horizon",
            "be a positive number": "tracking_weight bound",
            "be 0 or more": "smoothness_weight",
        }
        check_numbers(self, rules)
        scaled = "UAN standardises observations by the recording: scale_observations must be off"
        known, used = [name for name in ACTIVATIONS if name in PPO_ACTIVATIONS], self.ppo.activation
        other = f"An actuator network's activation cannot be {used!r}, but one of {listing(known)}"
        refuse(
            (self.ppo.scale_observations, f"{scaled} in the settings of PPO."),
            (used not in ACTIVATIONS, f"{other}: change the settings of PPO."),
        )
        self.history  # noqa: B018  (it checks itself)

    @property
    def history(self) -> History:
        """What the network sees of the past."""
        return History(self.history_length, self.history_stride, self.delta)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {**asdict(self), "ppo": self.ppo.settings()}


class UanState(eqx.Module):
    """All episodes between two steps."""

    row: Int[Array, " envs"]  # the recording's row that each episode has come to
    step: Int[Array, " envs"]  # steps that each episode has taken
    q: Float[Array, "envs samples nq"]  # last sH + 1 positions, oldest first [rad or m]
    qd: Float[Array, "envs nq"]  # its velocity [rad/s or m/s]
    action: Float[Array, "envs nq"]  # the last action


Stepped = tuple[UanState, StepOutcome]


@final
class UanEnvironment(eqx.Module):
    """Episodes along recorded controls; the policy is the actuators. An episode begins at a
    recorded state. The policy sees histories of the simulated positions and of the recorded
    controls, standardised as an actuator network's inputs are, and never the recorded positions
    after the start. Its action is the torque on the joints in standard deviations of the torques
    that retrace the recording, neither squashed nor cut."""

    samples: Samples
    scaling: Scaling
    dynamics: Dynamics
    std: Float[Array, " nq"]  # Of the recorded positions, the unit of distances [rad or m].
    starts: Int[Array, " starts"]  # rows that episodes begin at
    settings: UanSettings = eqx.field(static=True)
    horizon: int = eqx.field(static=True)  # steps of an episode

    @property
    def envs(self) -> int:
        return self.settings.num_envs

    @property
    def observation_size(self) -> int:
        return self.settings.history.inputs(self.action_size, self.samples.u.shape[1])

    @property
    def action_size(self) -> int:
        return self.samples.q.shape[1]

    def reset(self, key: PRNGKeyArray) -> UanState:
        """Begin all episodes, at different steps, so that they do not all end at once."""
        begin_key, step_key = jax.random.split(key)
        step = jax.random.randint(step_key, (self.envs,), 0, self.horizon, jnp.int32)
        return eqx.tree_at(lambda state: state.step, self._begin(begin_key), step)

    def observe(self, state: UanState) -> Observation:
        """What the network sees, standardised."""
        history = self.settings.history
        rows = state.row[:, None] - jnp.asarray(history.lags, jnp.int32) - history.delay
        q, u = state.q[:, :: history.stride], self.samples.u[rows]
        features = jax.vmap(lambda q, u: history.features(q, u, jnp))(q, u)
        return (features - self.scaling.input_mean) / self.scaling.input_std

    def step(self, state: UanState, action: Action, *, key: PRNGKeyArray) -> Stepped:
        tau = action * self.scaling.torque_std + self.scaling.torque_mean
        q, qd = jax.vmap(self.dynamics.step)(state.q[:, -1], state.qd, tau)
        window = jnp.concatenate([state.q[:, 1:], q[:, None]], axis=1)
        after = UanState(state.row + 1, state.step + 1, window, qd, action)

        distance = jnp.abs(q - self.samples.q[after.row]) / self.std
        settings, mean = self.settings, jnp.mean(distance, axis=-1)
        gamma, bound = settings.ppo.gamma, settings.bound
        lost = ~jnp.all(distance <= bound, axis=-1)  # so that what is not a number is lost too
        # An early end must not be the cheaper one: it costs the steps left, discounted.
        rest = (self.horizon - after.step + 1).astype(self.std.dtype)
        rest = rest if gamma == 1.0 else (1.0 - gamma**rest) / (1.0 - gamma)
        tracking = jnp.where(lost, -bound * rest, -mean)
        change = jnp.where(state.step[:, None] > 0, action - state.action, 0.0)
        smoothness = -jnp.mean(change**2, axis=-1)
        reward = settings.tracking_weight * tracking + settings.smoothness_weight * smoothness

        truncated = ~lost & (after.step >= self.horizon)
        done = lost | truncated
        following = pick_rows(done, self._begin(key), after)
        terms = {"tracking": tracking, "smoothness": smoothness}
        success, last = jnp.where(lost, 0.0, jnp.ones_like(reward)), jnp.where(lost, bound, mean)
        seen, metrics = (self.observe(following), self.observe(after)), {"distance": last}
        return following, StepOutcome(*seen, reward, terms, done, truncated, success, metrics)

    def _begin(self, key: PRNGKeyArray) -> UanState:
        row = self.starts[jax.random.randint(key, (self.envs,), 0, len(self.starts))]
        past = jnp.arange(self.settings.history.span, -1, -1, dtype=jnp.int32)
        q = self.samples.q[row[:, None] - past]
        qd = (q[:, -1] - self.samples.q[row - 1]) / self.dynamics.dt
        return UanState(row, jnp.zeros(self.envs, jnp.int32), q, qd, jnp.zeros_like(qd))


def find_starts(
    lengths: Indices, trajectories: Indices, history: History, horizon: int | None
) -> tuple[Indices, int]:
    """Rows of these trajectories with a whole history before them and an episode after them; and
    the episode's steps: without a ``horizon``, as many as half of the trajectories allow."""
    first = max(history.reach, 1) + 1
    room = lengths[trajectories] - first
    steps = int(np.median(room)) if horizon is None else horizon
    need = f"need trajectories of at least {first + steps} samples"
    has = f"the longest to learn from has {int(room.max()) + first}"
    short = f"Episodes of {steps} steps {need}, but {has}; take a shorter horizon"
    refuse((room.max() < steps, f"{short} or longer recordings."), error=DataError)
    rows = usable_rows(lengths, history, rollout=steps)
    return np.concatenate([rows[k] for k in trajectories]), steps


class UanProgress(NamedTuple):
    """How far training is."""

    steps: int  # of all episodes together
    total: int  # those to do
    reward: float  # mean over the steps since the last update
    distance: float  # Of the best policy so far from the held-out trajectories [std].


UanProgressFunction = Callable[[UanProgress], None]


def fit_uan(
    data: Data,
    robot: Robot | Path | str,
    *,
    out: Path | str | None = None,
    settings: UanSettings | None = None,
    progress: UanProgressFunction | None = None,
) -> Ensemble:
    """Learn what the actuators do, by PPO, from a recording (or its file or files) on ``robot`` (or
    its name, or the path of its ``robot.toml``); ``out``: folder for the artifact, replaced where
    there is one; ``progress`` is called after every update. The result is an ensemble of one, the
    policy's mean: usable wherever fitted actuators are."""
    check_sums()
    settings = settings or UanSettings()
    robot = Robot.load(robot)
    trajectories, paths = load_all(data)
    dataset, selection = prepare(trajectories, robot, settings)
    if paths:
        dataset.origin["path"] = [str(path) for path in paths] if len(paths) > 1 else str(paths[0])
    del trajectories, data
    layers, training = _train(selection, progress or (lambda now: None))
    record = {"settings": settings.settings(), "data": dataset.origin, "versions": versions()}
    record["training"] = {**training, "device": jax.devices()[0].platform}
    shape = Architecture(tuple(settings.ppo.hidden), settings.ppo.activation)
    contract = dataset.contract(robot, shape, members=1, loss=LOSS)
    text = json.dumps(record, sort_keys=True)
    ensemble = Ensemble(contract, layers, dataset.scaling, text)
    if out is not None:
        save(ensemble, out)
    return ensemble


class HeldOutRollouts(eqx.Module):
    """Rollouts along held-out trajectories: what a policy is selected by."""

    environment: UanEnvironment
    starts: Int[Array, " k"]
    steps: int = eqx.field(static=True)

    @eqx.filter_jit  # type: ignore[untyped-decorator]
    def distance(self, layers: Layers) -> Float[Array, ""]:
        """Mean distance from the recorded positions, cut at the bound [standard deviations]."""
        env, cut = self.environment, jax.lax.dynamic_slice_in_dim
        settings, samples, history = env.settings, env.samples, env.settings.history
        torque = partial(TorqueModel(history, settings.ppo.activation, env.scaling), layers)
        past, reach = max(history.span, 1), history.reach

        def one(start: Int[Array, ""]) -> Float[Array, ""]:
            q = cut(samples.q, start - past, past + 1 + self.steps)
            u = cut(samples.u, start - reach, reach + self.steps)
            simulated = rollout(torque, env.dynamics, history, q=q[: past + 1], u=u)
            away = jnp.abs(simulated - q[past + 1 :]) / env.std
            return jnp.mean(jnp.where(away <= settings.bound, away, settings.bound))

        return jnp.mean(jax.vmap(one)(self.starts))


def prepare(
    data: Trajectories, robot: Robot, settings: UanSettings
) -> tuple[Dataset, HeldOutRollouts]:
    """Episodes along the trajectories to learn from, and rollouts along the others."""
    # As a fit would see, split and label the recording.
    names = ("history_length", "history_stride", "delta", "validation", "split_seed")
    same = {name: getattr(settings, name) for name in names}
    dynamics, fit = load_dynamics(robot), FitSettings(loss="torque", allow_constant=True, **same)
    dataset, lengths = gather(data, robot, dynamics, fit), data.lengths
    usable = np.flatnonzero(lengths > max(settings.history.reach, 1) + 1)
    learnt = np.setdiff1d(usable, dataset.validation_trajectories)
    starts, horizon = find_starts(lengths, learnt, settings.history, settings.horizon)
    std = jnp.std(dataset.samples.q[dataset.train_rows], axis=0)
    world = dataset.samples, dataset.scaling, dynamics, std
    environment = UanEnvironment(*world, jnp.asarray(starts), settings, horizon)
    rows = usable_rows(lengths, settings.history)
    held_out = [rows[k] for k in dataset.validation_trajectories]
    steps = min(CHECK_STEPS, *(len(part) for part in held_out))
    first = jnp.asarray([part[0] for part in held_out], jnp.int32)
    return dataset, HeldOutRollouts(environment, first, steps)


def _train(selection: HeldOutRollouts, show: UanProgressFunction) -> tuple[Layers, dict[str, Any]]:
    """The best policy's layers, as those of an ensemble of one; and how training went."""
    settings = selection.environment.settings
    ppo = PPO(selection.environment, settings.ppo)
    learner, size = ppo.begin(jax.random.key(settings.seed)), ppo.steps_per_update
    updates = -(-settings.steps // size)
    checks = {round((k + 1) * updates / settings.checks) for k in range(settings.checks)}
    best, least = learner.agent.networks.of(POLICY), float("inf")
    rewards, distances = [], []
    for update in range(1, updates + 1):
        with compiling("UAN's training program") if update == 1 else nullcontext():
            learner, report = ppo.advance(learner)
            rewards.append(float(report["reward/mean"]))
        if update in checks:
            layers = learner.agent.networks.of(POLICY)
            distances.append([update * size, float(selection.distance(layers))])
            if distances[-1][1] < least:
                # The next update uses the learner's arrays up.
                best, least = jax.tree.map(jnp.copy, layers), distances[-1][1]
        show(UanProgress(update * size, updates * size, rewards[-1], least))
    training: dict[str, Any] = {"reward": rewards, "held_out_distance": distances}
    training |= {"steps": updates * size, "horizon": selection.environment.horizon}
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a))[None], best), training
