"""UAN, the unsupervised actuator net (Fey et al. 2025): actuators learnt by reinforcement instead
of regression.

The network is the policy; it is rewarded for torques that keep a simulated arm on the recorded
track. The original learns what is missing from a motor's known torque. Muscles have none, so that
here, as in the GenAN paper, the whole torque is learnt. A model to beat.
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator import artifact
from genan.actuator.dataset import Data, Dataset, gather, load_all
from genan.actuator.ensemble import Ensemble
from genan.actuator.network import Layer, apply
from genan.actuator.rollout import rollout
from genan.actuator.samples import usable_rows
from genan.actuator.scaling import Scaling
from genan.actuator.settings import FitSettings
from genan.compilation import compiling
from genan.compiler_fault import check_sums
from genan.dynamics import Dynamics, load_dynamics
from genan.errors import ActuatorError
from genan.provenance import versions
from genan.rl.networks import POLICY
from genan.rl.ppo import PPO
from genan.rl.uan_environment import UanEnvironment, find_starts
from genan.rl.uan_settings import UanSettings
from genan.robot import Robot

LOSS = "uan"
"""What the contract of such actuators calls the way they were trained."""

CHECK_STEPS = 500
"""Steps of the rollouts that the policy is selected by, fewer where the trajectories are
shorter."""


@dataclass(frozen=True)
class UanProgress:
    """Where training stands."""

    steps: int
    """Steps of all episodes together, so far."""
    total: int
    """Steps to do."""
    reward: float
    """Mean over the steps since the last update."""
    distance: float
    """Of the best policy so far from the held-out trajectories [standard deviations]."""


ProgressFunction = Callable[[UanProgress], None]


def fit_uan(
    data: Data,
    robot: Robot | Path | str,
    *,
    out: Path | str | None = None,
    settings: UanSettings | None = None,
    progress: ProgressFunction | None = None,
) -> Ensemble:
    """Learn what the actuators do, by PPO.

    Args:
        data: a recording: ``Trajectories``, or one or several files.
        robot: the robot it was made on: a ``Robot``, a bundled robot's name, or the path of a
            ``robot.toml``.
        out: folder for the artifact, replaced where there is one; left out, nothing is written.
        settings: left out, the measured defaults.
        progress: called after every update.

    Returns:
        An ensemble of one, the policy's mean: usable wherever fitted actuators are.
    """
    check_sums()
    settings = settings or UanSettings()
    robot = robot if isinstance(robot, Robot) else Robot.load(robot)
    trajectories, paths = load_all(data)
    dataset = gather(trajectories, robot, dynamics := load_dynamics(robot), _supervised(settings))
    if paths:
        dataset.origin["path"] = [str(path) for path in paths] if len(paths) > 1 else str(paths[0])
    selection = _prepare(trajectories.lengths, dataset, dynamics, settings)
    del trajectories, data
    layers, training = _train(selection, settings, progress)
    record = {
        "settings": settings.settings(),
        "data": dataset.origin,
        "training": {**training, "device": jax.devices()[0].platform},
        "versions": versions(),
    }
    contract = dataset.contract(robot, settings.architecture, members=1, loss=LOSS)
    ensemble = Ensemble(
        contract, layers, selection.environment.scaling, json.dumps(record, sort_keys=True)
    )
    if out is not None:
        artifact.save(ensemble, out)
    return ensemble


def kept_uan(folder: Path | str, fingerprint: str, settings: UanSettings) -> Ensemble | None:
    """The actuators in ``folder``, if they are what ``settings`` give on the recording with this
    fingerprint."""
    try:
        kept = artifact.load(folder)
    except ActuatorError:
        return None
    same = kept.record.get("settings") == settings.settings() and kept.contract.loss == LOSS
    return kept if same and kept.record.get("data", {}).get("fingerprint") == fingerprint else None


class Selection(eqx.Module):
    """Rollouts along held-out trajectories, from their first whole history on: what a policy is
    selected by."""

    environment: UanEnvironment
    starts: Int[Array, " k"]
    steps: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    @partial(eqx.filter_jit)
    def distance(self, layers: tuple[Layer, ...]) -> Float[Array, ""]:
        """Mean distance of the simulated from the recorded positions, cut at the bound [standard
        deviations]."""
        environment = self.environment
        history, samples, scaling = environment.history, environment.samples, environment.scaling
        past = max(history.span, 1)

        def torque(q: Float[Array, "rows nq"], u: Float[Array, "rows nu"]) -> Float[Array, " nq"]:
            x = (history.features(q, u) - scaling.input_mean) / scaling.input_std
            return (
                apply(layers, x, activation=self.activation) * scaling.torque_std
                + scaling.torque_mean
            )

        def one(start: Int[Array, ""]) -> Float[Array, ""]:
            q = jax.lax.dynamic_slice_in_dim(samples.q, start - past, past + 1 + self.steps)
            u = jax.lax.dynamic_slice_in_dim(
                samples.u, start - history.reach, history.reach + self.steps
            )
            simulated = rollout(torque, environment.dynamics, history, q=q[: past + 1], u=u)
            away = jnp.abs(simulated - q[past + 1 :]) / environment.deviation
            return jnp.mean(jnp.where(away <= environment.bound, away, environment.bound))

        return jnp.mean(jax.vmap(one)(self.starts))


def _supervised(settings: UanSettings) -> FitSettings:
    """The settings of a fit that sees, splits and labels a recording in the same way."""
    return FitSettings(
        loss="torque",
        history_length=settings.history_length,
        history_stride=settings.history_stride,
        delta=settings.delta,
        validation=settings.validation,
        split_seed=settings.split_seed,
        allow_constant=True,
    )


def _prepare(
    lengths: Int[np.ndarray, " N"], dataset: Dataset, dynamics: Dynamics, settings: UanSettings
) -> Selection:
    """Episodes along the trajectories to learn from, and rollouts along the others."""
    everything = np.arange(len(lengths))
    learnt = np.setdiff1d(
        everything[lengths > max(settings.history.reach, 1) + 1], dataset.validation_trajectories
    )
    starts, horizon = find_starts(lengths, learnt, settings.history, settings.horizon)
    environment = UanEnvironment(
        samples=dataset.samples,
        scaling=Scaling.of_samples(dataset.samples, dataset.train_rows, settings.history),
        dynamics=dynamics,
        deviation=jnp.std(dataset.samples.q[dataset.train_rows], axis=0),
        starts=jnp.asarray(starts),
        history=settings.history,
        envs=settings.envs,
        horizon=horizon,
        tracking_weight=settings.tracking_weight,
        smoothness_weight=settings.smoothness_weight,
        bound=settings.bound,
        discount=settings.ppo.discount,
    )
    rows = usable_rows(lengths, settings.history)
    held_out = [rows[k] for k in dataset.validation_trajectories]
    steps = min(CHECK_STEPS, *(len(part) for part in held_out))
    first = jnp.asarray([part[0] for part in held_out], jnp.int32)
    return Selection(environment, first, steps, settings.ppo.activation)


def _train(
    selection: Selection, settings: UanSettings, progress: ProgressFunction | None
) -> tuple[tuple[Layer, ...], dict[str, Any]]:
    """The layers of the best policy, stacked as those of an ensemble of one; and how training
    went."""
    ppo = PPO(selection.environment, settings.ppo)
    learner = ppo.begin(jax.random.key(settings.seed))
    updates = -(-settings.steps // ppo.steps_per_update)
    checks = {round((k + 1) * updates / settings.checks) for k in range(settings.checks)}
    best, least = learner.agent.networks.of(POLICY), float("inf")
    rewards, distances = [], []
    for update in range(1, updates + 1):
        with compiling("UAN's training program") if update == 1 else nullcontext():
            learner, report = ppo.advance(learner)
            rewards.append(float(report.reward))
        if update in checks:
            layers = learner.agent.networks.of(POLICY)
            distances.append([update * ppo.steps_per_update, float(selection.distance(layers))])
            if distances[-1][1] < least:
                # The next update uses the learner's arrays up.
                best, least = jax.tree.map(jnp.copy, layers), distances[-1][1]
        if progress is not None:
            progress(
                UanProgress(
                    update * ppo.steps_per_update,
                    updates * ppo.steps_per_update,
                    rewards[-1],
                    least,
                )
            )
    training = {
        "steps": updates * ppo.steps_per_update,
        "horizon": selection.environment.horizon,
        "reward": rewards,
        "held_out_distance": distances,
    }
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a))[None], best), training
