"""Servos are found in recordings, and a gain that was never seen is extrapolated to."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator import FitSettings, Fitting
from genan.actuator.dataset import find_servos
from genan.actuator.settings import Servo
from genan.data import Channels, Trajectories
from genan.dynamics import load_dynamics
from genan.robot import Control, Robot

RNG = np.random.default_rng(0)


def recording(q: list[np.ndarray], u: list[np.ndarray]) -> Trajectories:
    names = [
        tuple(f"{letter}{k}" for k in range(x[0].shape[1])) for letter, x in (("q", q), ("u", u))
    ]
    bounds = np.array([[-np.inf], [np.inf]]) * np.ones(u[0].shape[1])
    return Trajectories.from_list(Channels(0.01, *names, bounds), list(zip(q, u, strict=True)))


def wandering(*shape: int) -> np.ndarray:
    return np.cumsum(RNG.normal(size=shape), axis=0) / 10.0


def found(q: list[np.ndarray], u: list[np.ndarray]) -> tuple[Servo, ...]:
    return find_servos(recording(q, u))


def servo_arm(
    gains: list[list[float]], *, joints: int, switches: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Joints that follow goals in the order of the last controls backwards; switches and gains come
    before them."""
    qs, us = [], []
    for values in gains:
        goal = wandering(400, joints)
        on = (RNG.random((400, switches)) > 0.3).astype(float)
        qs.append(0.6 * goal[:, ::-1] + 0.02 * RNG.normal(size=goal.shape))
        us.append(np.concatenate([on, np.tile(values, (400, 1)), goal], axis=1))
    return qs, us


def test_one_switch_and_one_gain_are_those_of_all_joints() -> None:
    q, u = servo_arm([[100.0], [200.0], [100.0]], joints=2, switches=1)
    assert found(q, u) == (Servo(0, 3, (0,), (1,)), Servo(1, 2, (0,), (1,)))


def test_as_many_gains_as_joints_are_one_for_each() -> None:
    q, u = servo_arm([[1.0, 7.0], [2.0, 5.0]], joints=2, switches=0)
    assert found(q, u) == (Servo(0, 3, (), (0,)), Servo(1, 2, (), (1,)))


def test_a_switch_alone_makes_a_servo() -> None:
    q, u = servo_arm([[], []], joints=1, switches=1)
    assert found(q, u) == (Servo(0, 1, (0,), ()),)


@pytest.mark.parametrize(
    "what", ["nothing set", "nothing followed", "another unit", "one gain only", "gain changes"]
)
def test_what_is_no_servo(what: str) -> None:
    q, u = servo_arm([[100.0], [200.0]], joints=1, switches=0)
    if what == "nothing set":
        u = [x[:, 1:] for x in u]
    elif what == "nothing followed":
        q = [-x for x in q]
    elif what == "another unit":
        u = [x * [1.0, 651.9] for x in u]  # counts of an encoder
    elif what == "one gain only":
        u = [np.concatenate([np.full((400, 1), 3.0), x[:, 1:]], axis=1) for x in u]
    else:
        u = [np.concatenate([np.linspace(1.0, 2.0, 400)[:, None], x[:, 1:]], axis=1) for x in u]
    assert found(q, u) == ()


@pytest.mark.slow
def test_a_gain_that_was_never_seen_is_extrapolated_to() -> None:
    """tau = 3 on gain (goal - q) - 0.3 qd, learnt at the gains 1 and 2, asked at 5."""
    robot = Robot.load("pendulum")
    names = {"on": (0.0, 1.0), "gain": (0.0, 10.0), "goal": (-3.0, 3.0)}
    controls = tuple(
        Control(name, "1", low, high, 0.0, low, high, 1.0) for name, (low, high) in names.items()
    )
    robot = replace(robot, controls=controls)
    dynamics = load_dynamics(robot)

    def torque(q: jax.Array, qd: jax.Array, u: jax.Array) -> jax.Array:
        return 3.0 * u[0] * u[1] * (u[2] - q) - 0.3 * qd

    def step(state: tuple, u: jax.Array) -> tuple:
        return dynamics.step(*state, torque(*state, u)), state[0]

    gains, samples = np.array([1.0, 2.0] * 4 + [5.0]), 400
    switched = np.repeat(RNG.random((len(gains), samples // 40)) > 0.25, 40, axis=1).astype(float)
    goals = np.repeat(RNG.uniform(-1.5, 1.5, (len(gains), samples // 50)), 50, axis=1)
    u = np.stack([switched, np.tile(gains[:, None], (1, samples)), goals], axis=-1)
    with jax.enable_x64(True):
        q = np.asarray(
            jax.vmap(lambda u: jax.lax.scan(step, (jnp.zeros(1), jnp.zeros(1)), u)[1])(
                jnp.asarray(u)
            )
        )
    runs = Trajectories.from_list(Channels.of_robot(robot), list(zip(q[:-1], u[:-1], strict=True)))
    off = {}
    for base in ("linear", "parametric"):
        settings = FitSettings(base=base, hidden=(), folds=4, members=4, history_length=1)
        made = Fitting(runs, robot, settings).run()
        past = np.lib.stride_tricks.sliding_window_view
        of_q, of_u = (np.moveaxis(past(x[-1], 2, axis=0), -1, 1) for x in (q, u))
        speed = (of_q[:, 1] - of_q[:, 0]) / robot.dt
        truth = np.stack([torque(*one) for one in zip(of_q[:, 1], speed, of_u[:, 1], strict=True)])
        off[base] = float(
            np.sqrt(np.mean((np.asarray(made.torque(of_q, of_u)) - truth) ** 2)) / truth.std()
        )
    assert (
        made.contract.history.terms.servos == (Servo(0, 2, (0,), (1,)),)
        and made.contract.version == 3
    )
    assert off["parametric"] < 0.03 and off["linear"] > 0.3
