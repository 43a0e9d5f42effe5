"""Recordings for the tests of models: of no motion law, for any robot, and of a pendulum whose
drive is known; losses over them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genan.actuator.dataset import (
    Samples,
    on_device,
    responses,
    scale_samples,
    torque_labels,
    usable_rows,
)
from genan.actuator.ensemble import Layer, TorqueModel, initialise
from genan.actuator.settings import Architecture, History
from genan.data import Channels, Trajectories
from genan.dynamics import Dynamics, load_dynamics
from genan.robot import Robot


def waves(robot: Robot, lengths: tuple[int, ...] = (60, 45, 70, 52), seed: int = 0) -> Trajectories:
    """Smooth motion and controls within the robot's ranges, unrelated to each other."""
    rng = np.random.default_rng(seed)
    low, high = np.where(np.isfinite(robot.u_range), robot.u_range, [[-1.0], [1.0]])
    reach = np.array([0.5 if joint.kind == "hinge" else 0.05 for joint in robot.joints])
    recordings = []
    for length in lengths:
        t = np.arange(length)[:, None] * robot.dt
        swing = lambda n: np.sin(rng.uniform(5, 40, n) * t + rng.uniform(0, 6, n))  # noqa: B023
        recordings.append(
            (
                robot.q_rest + reach * swing(robot.nq),
                low + (high - low) * (0.5 + 0.4 * swing(robot.nu)),
            )
        )
    return Trajectories.from_list(Channels.of_robot(robot), recordings)


@cache
def driven(*, delay: int, runs: int = 12, samples: int = 250) -> Trajectories:
    """Runs under tau = 0.4 u - 0.05 qd - 0.1 tanh(qd / 0.2) - 0.2 q - 0.05, with commands ``delay``
    samples late."""
    robot = Robot.load("pendulum")
    dynamics = load_dynamics(robot)
    rng = np.random.default_rng(0)
    # Steps of seven samples: with smooth waves no delay could be told from a slightly different
    # drive.
    u = np.repeat(rng.uniform(-1.0, 1.0, (runs, -(-samples // 7), 1)), 7, axis=1)[:, :samples]

    def step(state: tuple, acting: jax.Array) -> tuple:
        q, qd = state
        tau = 0.4 * acting - 0.05 * qd - 0.1 * jnp.tanh(qd / 0.2) - 0.2 * q - 0.05
        return dynamics.step(q, qd, tau), q

    run = jax.vmap(lambda q, u: jax.lax.scan(step, (q, jnp.zeros(1)), u)[1])
    with jax.enable_x64(True):
        late = np.concatenate([np.zeros((runs, delay, 1)), u[:, : samples - delay]], axis=1)
        q = np.asarray(run(jnp.asarray(rng.uniform(-1, 1, (runs, 1))), jnp.asarray(late)))
    return Trajectories.from_list(Channels.of_robot(robot), list(zip(q, u, strict=True)))


def prepare(
    trajectories: Trajectories,
    dynamics: Dynamics,
    *,
    response: bool = True,
    dtype: type = np.float32,
) -> Samples:
    """A recording on the device, with its torque labels and, if asked for, responses."""
    tau = torque_labels(trajectories.q, trajectories.lengths, dynamics, dtype=dtype)
    q, u = on_device(trajectories.q, dtype), on_device(trajectories.u, dtype)
    return Samples(q, u, tau, responses(q, dynamics) if response else None)


class Setting:
    """One member of random weights, and samples, in float64 or float32 as JAX is set."""

    def __init__(
        self, robot: Robot, dynamics: Dynamics, history: History, *, rollout: int = 1
    ) -> None:
        dtype = np.float64 if jax.config.jax_enable_x64 else np.float32
        trajectories = waves(robot)
        self.samples = prepare(trajectories, dynamics, dtype=dtype)
        self.rows = np.concatenate(usable_rows(trajectories.lengths, history, rollout=rollout))
        scaling = scale_samples(self.samples, self.rows, history)
        self.model = TorqueModel(history, "tanh", scaling)
        inputs = history.inputs(robot.nq, robot.nu)
        key = jax.random.key(3)
        self.layers: tuple[Layer, ...] = jax.tree.map(
            lambda a: a.astype(dtype), initialise(Architecture((16, 8)), inputs, robot.nq, key=key)
        )

    def torque(self, rows: jax.Array) -> jax.Array:
        """The member's torques at ``rows``."""
        at = lambda rows: self.model.history.at(self.samples.q, self.samples.u, rows)
        return jax.jit(lambda rows: self.model(self.layers, *at(rows)))(rows)

    def directional(
        self, function: Callable[[tuple[Layer, ...]], jax.Array]
    ) -> tuple[float, float]:
        """Derivative of ``function`` by the weights along a random direction: by reverse mode and
        by differences."""
        leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, self.layers))
        rng = np.random.default_rng(9)
        way = [rng.standard_normal(a.shape).astype(a.dtype) for a in leaves]
        both = jax.jit(jax.value_and_grad(function))
        gradient = jax.tree.leaves(both(self.layers)[1])
        exact = sum(float(np.vdot(g, w)) for g, w in zip(gradient, way, strict=True))

        def moved(h: float) -> Any:
            steps = [a + h * w for a, w in zip(leaves, way, strict=True)]
            return jax.tree.unflatten(structure, steps)

        h = 1e-5
        return exact, float(both(moved(h))[0] - both(moved(-h))[0]) / (2 * h)
