"""A small environment and policies with random weights, for the tests of the policy artifact."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import optax
from tests.actuator.ensembles import make as make_ensemble

from genan.actuator import Ensemble, History
from genan.actuator.ensemble import Layer
from genan.rl.config import PPOSettings
from genan.rl.policy import Policy
from genan.rl.ppo import AgentState, Networks, RunningScaler
from genan.robot import Robot
from genan.tasks.bundled import ReacherSettings
from genan.tasks.task import TaskEnvironment, load_environment

TASK = ReacherSettings(
    u_lower=(-1.0, -1.0),
    u_upper=(1.0, 1.0),
    q_drop=(0.0, 0.5),
    goal_lower=(-0.5, -0.4),
    goal_upper=(0.5, 0.4),
)
SETTINGS = PPOSettings(hidden=(16, 12), num_steps_per_env=4, num_minibatches=2)


@cache
def robot(name: str = "two-link") -> Robot:
    return Robot.load(name)


@cache
def ensemble(name: str = "two-link") -> Ensemble:
    """Tiny random actuators of a robot."""
    of = robot(name)
    made = make_ensemble(nq=of.nq, nu=of.nu, history=History(1), hidden=(4,), members=1)
    contract = replace(
        made.contract,
        robot=of.name,
        dt=of.dt,
        joints=of.joint_names,
        controls=of.control_names,
        control_units=tuple(control.unit for control in of.controls),
    )
    return Ensemble(contract, made.layers, made.scaling, made.record_json)


@cache
def environment(task: ReacherSettings = TASK, name: str = "two-link") -> TaskEnvironment:
    return load_environment(task, ensemble(name), envs=2, robot=robot(name))


@cache
def agent(
    settings: PPOSettings = SETTINGS, *, size: int = 8, actions: int = 2, gain: float = 1.0
) -> AgentState:
    """An agent as after some training; drawn by NumPy, since ``AgentState.begin`` would compile."""
    rng = np.random.default_rng(1)
    array = lambda a: jnp.asarray(a, jnp.float32)
    layers = tuple(
        Layer(
            array(gain * rng.normal(size=(2, rows, columns)) / np.sqrt(rows)),
            array(0.1 * rng.normal(size=(2, columns))),
        )
        for rows, columns in pairwise((size, *settings.hidden, actions))
    )
    networks = Networks(layers, array(np.linspace(-3.0, -1.0, actions)))
    mean, variance, active = np.zeros(size), np.ones(size), settings.scale_observations
    if active:
        mean, variance = np.linspace(-2.0, 3.0, size), np.linspace(0.05, 4.0, size) ** 2
    scaler = RunningScaler(array(mean), array(variance), array(500.0), active)
    adam = optax.scale_by_adam().init(networks)
    return AgentState(networks, adam, array(settings.learning_rate), scaler, RunningScaler.begin(1))


@cache
def policy(settings: PPOSettings = SETTINGS, *, gain: float = 1.0) -> Policy:
    record = {"steps": 1000, "seed": 3, "success": {"learning_rate": 0.5, "episodes": 20}}
    return Policy.of(agent(settings, gain=gain), environment(), robot(), settings, record=record)
