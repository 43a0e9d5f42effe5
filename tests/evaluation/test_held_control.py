from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator.ensemble import Layer
from genan.actuator.settings import Architecture
from genan.data import Channels, Trajectories
from genan.dynamics import load_dynamics
from genan.evaluation import held_control
from genan.evaluation.held_control import (
    SplineThenHold,
    find_holds,
    find_starts,
    freeze,
    judge_held_control,
    make_holds,
    usual_speed,
)
from genan.robot import Robot


@pytest.fixture(scope="module")
def pendulum() -> Robot:
    return Robot.load("pendulum")


def test_the_robots_own_actuators_settle_where_it_does(pendulum, ensemble, recorded):
    data = recorded(pendulum, (1800, 2000, 1600), damping=0.1, gain=0.2, held=1300)
    holds = find_starts(data, first=1)
    assert holds.held.any() and len(holds.starts) == 3 and (holds.held == 1299).all()
    held = judge_held_control(
        "a", ensemble(pendulum, damping=0.1, gain=0.2), load_dynamics(pendulum), holds, data
    )
    assert (
        held.fit_for_training
        and held.still_moving == held.diverged == 0
        and "settles" in held.verdict
    )
    np.testing.assert_allclose(held.speed_left, held.robot_speed_left, rtol=0.05, atol=1e-3)
    assert held.pose_difference[0] < 1e-3 and held.hold == pytest.approx(2.6, abs=0.01)
    assert held.speed.shape == (3, 2500, 1) and held.robot_speed.shape == (3, 1299, 1)
    assert held.speed[1, -1, 0] < 0.01 * held.usual_speed[0]


def test_negative_damping_is_unfit(pendulum, ensemble, recorded):
    data = recorded(pendulum, (1500, 1500), held=1200)
    actuators = ensemble(pendulum, damping=-0.3, gain=0.2)
    held = judge_held_control(
        "a", actuators, load_dynamics(pendulum), find_starts(data, first=1), data
    )
    assert not held.fit_for_training and held.diverged == 2
    assert "unfit for training policies" in held.verdict and "2 of 2" in held.verdict
    assert (
        np.isnan(held.speed).all() and np.isnan(held.pose_difference).all()
    )  # nothing is left to take a mean of


def test_a_limit_cycle_is_unfit(pendulum, ensemble, recorded, monkeypatch):
    """A push of 0.04 N m along the motion, against the bearing's damping: the pendulum swings for
    ever, not far."""
    data = recorded(pendulum, (1500, 1500), held=1200)
    plain = ensemble(pendulum)
    contract = replace(plain.contract, architecture=Architecture((1,)))
    hidden = np.zeros((1, 4, 1), np.float32)
    hidden[0, 1, 0] = -10.0 / pendulum.dt  # the feature is minus the velocity times dt
    layers = (
        Layer(jnp.asarray(hidden), jnp.zeros((1, 1))),
        Layer(jnp.full((1, 1, 1), 0.04), jnp.zeros((1, 1))),
    )
    actuators = eqx.tree_at(lambda e: e.layers, replace(plain, contract=contract), layers)
    held = judge_held_control(
        "a", actuators, load_dynamics(pendulum), find_starts(data, first=1), data
    )
    assert held.diverged == 0 and held.still_moving == held.starts == 2
    assert not held.fit_for_training and "limit-cycles" in held.verdict
    # An encoder that cannot see the swing does not see it.
    for count, moving in ((10.0, 0), (0.01, 2)):
        monkeypatch.setattr(held_control, "joint_quanta", lambda _, count=count: (count,))
        again = judge_held_control(
            "a", actuators, load_dynamics(pendulum), find_starts(data, first=1), data
        )
        assert again.still_moving == moving


def test_a_robot_that_keeps_moving_excuses_the_model(pendulum, ensemble, recorded):
    data = recorded(
        pendulum, (1500, 1500), damping=-0.02, gain=0.2, held=1200
    )  # its bearing's damping taken away
    holds = find_starts(data, first=1)
    held = judge_held_control(
        "a", ensemble(pendulum, damping=-0.02, gain=0.2), load_dynamics(pendulum), holds, data
    )
    assert held.speed[1, -1, 0] > 0.05 * held.usual_speed[0] and held.still_moving == 0


def test_without_held_controls_the_states_are_frozen(pendulum, ensemble, recorded):
    data = recorded(pendulum, (300, 5, 260))
    holds = find_starts(data, first=8)
    assert (
        not holds.held.any()
        and len(holds.starts) == 200
        and "the robot was not compared" in holds.source
    )
    inside = [
        (holds.starts >= a + 8) & (holds.starts < b)
        for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]
    assert np.any(inside, axis=0).all() and inside[0].any() and inside[2].any()
    held = judge_held_control(
        "a", ensemble(pendulum, damping=0.1), load_dynamics(pendulum), holds, data
    )
    assert (
        held.robot_speed_left is None and held.pose_difference is None and held.robot_speed is None
    )
    assert held.fit_for_training and held.starts == 200


def test_pieces_are_found_within_trajectories(pendulum):
    steps = round(1.0 / pendulum.dt)
    u = np.concatenate([np.linspace(0, 1, 100), np.full(steps + 50, 2.0), np.full(steps - 1, 3.0)])[
        :, None
    ]
    v = np.concatenate([np.full(steps + 20, 5.0), np.linspace(5, 6, 10)])[:, None]
    zeros = [(np.zeros_like(x), x) for x in (u, v)]
    data = Trajectories.from_list(Channels.of_robot(pendulum), zeros)
    holds = find_holds(data, first=10)
    np.testing.assert_array_equal(holds.starts, [100, len(u) + 10])
    np.testing.assert_array_equal(
        holds.held, [steps + 50, steps + 11]
    )  # to the sample where the control changes
    assert len(freeze(data, first=10).starts) == 200


def test_usual_speed_does_not_jump_between_trajectories(pendulum):
    q = np.arange(10.0)[:, None] * pendulum.dt
    data = Trajectories.from_list(Channels.of_robot(pendulum), [(q, 0 * q), (q + 100.0, 0 * q)])
    np.testing.assert_allclose(usual_speed(data), [1.0])


@pytest.mark.slow
def test_a_virtual_robots_recording_gets_held_controls_from_it():
    robot = Robot.load("pamy2")
    rng = np.random.default_rng(0)
    origin = {"robot": "virtual-pamy2", "robot_seed": 0, "hours": 0.0, "drift": 1.0}
    pieces = [(np.tile(robot.q_rest, (50, 1)), rng.uniform(-0.3, 0.3, (50, 4)))]
    data = Trajectories.from_list(Channels.of_robot(robot), pieces, provenance=origin)
    assert make_holds(Trajectories.from_list(Channels.of_robot(robot), pieces), first=3) is None
    holds = find_starts(data, first=3)
    assert (
        holds.held.any()
        and "virtual robot" in holds.source
        and len(holds.starts) == held_control.MADE
    )
    assert (holds.held == 1500).all()  # 3 s
    u = holds.trajectories.u[holds.starts[:, None] + np.arange(1500)]
    assert (u == u[:, :1]).all()
    before = np.abs(
        np.diff(holds.trajectories.u[holds.starts[:, None] + np.arange(-50, 1)], axis=1)
    ).max(axis=(1, 2))
    assert (before > 0).all()
    q = holds.trajectories.q[holds.starts[:, None] + np.array([0, 1, 1490, 1500])]
    speed = np.abs([q[:, 1] - q[:, 0], (q[:, 3] - q[:, 2]) / 10]).mean(axis=1)
    assert (speed[1] < 0.1 * speed[0]).all()  # it comes to rest


def test_a_spline_and_then_its_last_control():
    bounds = np.array([[-1.0, 0.0], [1.0, 2.0]])
    u = SplineThenHold(0.5).draw(np.random.default_rng(0), bounds=bounds, duration=2.0, dt=0.01)
    assert (
        u.shape == (200, 2)
        and (u[49:] == u[49]).all()
        and (np.abs(np.diff(u[:50], axis=0)) > 0).any()
    )
