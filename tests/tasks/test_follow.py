"""Follow: motions that are smooth, the same for NumPy and JAX, and within what they may be; the
task in the simulator; and trials, where the same motion is commanded directly too."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble
from tests.docs.typed import typed
from tests.rl.policies import ensemble, robot

from genan import actuator
from genan.cli import main
from genan.deployment.interface import Reading
from genan.errors import SettingError
from genan.evaluation.follow import Commanded, MotionAhead
from genan.evaluation.transfer import TransferResult
from genan.robot import Robot
from genan.tasks.bundled import FollowSettings
from genan.tasks.registry import task_settings
from genan.tasks.smooth_motion import BLEND, DRAWN, SmoothMotion
from genan.tasks.task import load_environment, unsquashed

LOWER, UPPER, SPEED = np.array([-1.0, 0.2]), np.array([0.5, 0.6]), np.array([2.0, 0.5])
TASK = FollowSettings(
    duration=1.0, action_repeat=5, u_lower=(-1.0, -1.0), u_upper=(1.0, 1.0), q_drop=(0.0, 0.4),
    goal_lower=tuple(LOWER), goal_upper=tuple(UPPER), speed=tuple(SPEED), pool=4,
)  # fmt: skip


def test_motions_are_smooth_and_within_what_they_may_be() -> None:
    chance, start = np.random.default_rng(0).random((500, 2, DRAWN)), np.array([0.3, -0.5])
    made = SmoothMotion.drawn(chance, start, LOWER, UPPER, SPEED)
    time, blend = np.linspace(0.0, 4.0, 4001), 0.5
    each = lambda t: made.at(np.full((500, 1), t), blend, np)
    q = np.stack([each(t) for t in time])
    np.testing.assert_allclose(q[0], np.tile(start, (500, 1)), atol=1e-12)
    speed = np.abs(np.diff(q, axis=0)) / 1e-3
    assert speed[0].max() < 0.02  # it departs gently
    late = q[time >= blend]
    assert (late >= LOWER - 1e-9).all() and (late <= UPPER + 1e-9).all()
    fastest = speed[time[1:] > blend].max(axis=(0, 1))
    assert (fastest <= SPEED + 1e-6).all() and (fastest > 0.7 * SPEED).all()
    # Sizes differ: the widest goes through most of the range, and some stay small.
    width = np.ptp(late, axis=0) / (UPPER - LOWER)
    assert width.max() > 0.9 and width.min() < 0.35
    again = SmoothMotion.drawn(*(jnp.asarray(x) for x in (chance, start, LOWER, UPPER, SPEED)))
    np.testing.assert_allclose(again.at(jnp.full((500, 1), 1.3), blend, jnp), each(1.3), atol=1e-5)


def test_what_a_policy_sees_and_earns() -> None:
    env = load_environment(TASK, ensemble(), envs=3, robot=robot(), stagger=False)
    assert env.layout[-1] == ("reference", 2 * len(TASK.preview))
    key = jax.random.key(0)
    state = env.reset(key)
    first = np.asarray(env.observe(state))[:, -10:].reshape(3, 5, 2)
    np.testing.assert_allclose(first[:, 0], state.simulator.scene.q, atol=1e-6)
    for _ in range(40):
        ahead = np.asarray(env.observe(state))[:, -10:].reshape(3, 5, 2)
        state, outcome = env.step(state, unsquashed(jnp.zeros((3, 2))), key=key)
        now = np.asarray(env.observe(state))[:, -10:].reshape(3, 5, 2)
        np.testing.assert_allclose(now[:, 0], ahead[:, 1], atol=1e-6)  # shown a step before
        away = np.asarray(state.simulator.scene.q) - now[:, 0]
        np.testing.assert_allclose(
            outcome.terms["distance"], -np.linalg.norm(away, axis=1), atol=1e-6
        )
    memory, count = state.memory, 40 - TASK.departed(robot().dt)
    assert TASK.departed(robot().dt) == BLEND * TASK.duration / TASK.period(robot().dt)
    degrees = env.task.metrics(state.simulator.scene, memory)["error"]
    np.testing.assert_allclose(degrees, np.rad2deg(memory.error / count), rtol=1e-5)
    near = replace(TASK, tolerance=float(np.median(np.asarray(memory.error) / count)) + 1e-6)
    task = replace(env.task, settings=near)
    success = np.asarray(task.success(state.simulator.scene, memory))
    np.testing.assert_array_equal(success, np.asarray(memory.error) / count < near.tolerance)
    assert 0.0 < success.mean() < 1.0


def test_motions_outside_the_limits_are_refused() -> None:
    for change, words in (
        ({"goal_upper": (9.0, 0.6)}, "go from -1 to 9, beyond its limits"),
        ({"speed": (1.0,)}, r"speed needs 2 entries .* and has 1; give --task.speed"),
    ):
        with pytest.raises(SettingError, match=words):
            load_environment(replace(TASK, **change), ensemble(), envs=1, robot=robot())
    with pytest.raises(SettingError, match="speed must be a positive number, not 0"):
        replace(TASK, speed=(1.0, 0.0))


def test_on_a_robot_the_motion_begins_where_the_arm_is() -> None:
    arm, chance = robot(), np.random.default_rng(3).random((2, DRAWN))
    motion = MotionAhead(chance, TASK, arm)
    motion.begin(7.0, np.array([0.1, 0.3]))
    np.testing.assert_allclose(motion.parts()["reference"][:2], [0.1, 0.3], atol=1e-6)
    motion.update(7.0 + 100.2 * arm.dt, np.zeros(2), np.zeros(2))  # stamps jitter
    shown = motion.parts()["reference"].reshape(-1, 2)
    for k, steps in enumerate(TASK.preview):
        np.testing.assert_allclose(shown[k], motion.at(np.array([100 + 5 * steps]))[0], atol=1e-6)
    # Commanding it: u = 2 q + 0.1 qd + 0.5 for each control, within range and rate.
    rows = np.hstack([2.0 * np.eye(2), 0.1 * np.eye(2), np.full((2, 1), 0.5)])
    settings = replace(TASK, command=tuple(rows.ravel()))
    commanded = Commanded(motion, settings, arm)
    q, qd = motion.now()
    np.testing.assert_allclose(qd, np.diff(motion.at(np.array([100, 101])), axis=0)[0] / arm.dt)
    now = Reading(0.0, q)
    change = commanded.act(now, 2.0 * q + 0.1 * qd + 0.5 - 1e-3)
    np.testing.assert_allclose(change, 1e-3, rtol=1e-6)
    assert (np.abs(commanded.act(now, np.full(2, 12.0))) <= arm.u_change).all()


def test_pamy2_has_it() -> None:
    settings = task_settings("follow", robot="pamy2")
    assert settings.goal_upper == task_settings("reacher", robot="pamy2").goal_upper
    assert len(settings.speed) == 4 and settings.command == ()


@pytest.mark.slow
def test_it_is_trained_and_tried_next_to_commanding_it(tmp_path: Path, capsys) -> None:
    arm = Robot.load("pamy2")
    made = make_ensemble(arm, damping=0.5, gain=5.0, members=2, scatter=0.01)
    actuator.save(made, tmp_path / "actuators")
    command = ["0.5", *["0"] * 8, "0", "0.5", *["0"] * 7, *["0"] * 18]
    few = "--steps 128 --num-envs 8 --judge 4 --task.pool 8 --task.ramped 0 --task.duration 0.5"
    few += " --ppo.hidden 8 --ppo.num-steps-per-env 8 --ppo.num-minibatches 4 --task.command"
    policy, transfer = tmp_path / "policy", tmp_path / "transfer"
    train = typed(
        "genan train follow --actuators actuators --out runs/follow",
        *few.split(),
        *command,
        out=policy,
        actuators=tmp_path / "actuators",
    )
    assert main(train) == 0
    flown = typed("genan transfer follow --policy runs/follow", policy=policy)
    assert main([*flown, "--out", str(transfer), "--trials", "2"]) == 0
    assert "commanding it [deg]" in capsys.readouterr().out
    for trial in TransferResult.load(tmp_path / "transfer").trials:
        error, commanded = (trial.numbers[name] for name in ("mean_error", "commanded_error"))
        assert trial.success == (error < 3.0) and error > 0.0 and commanded > 0.0
        assert np.mean(trial.numbers["error"]) == pytest.approx(error)
