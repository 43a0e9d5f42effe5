"""The virtual servo arm, and the rigid bodies that virtual robots share."""

import dataclasses
import itertools
from pathlib import Path

import jax
import mujoco
import numpy as np
import pytest
from tests.dynamics.conftest import TREES, random_tree, write_robot

from genan.deployment.collection import Plan, collect
from genan.errors import SettingError
from genan.robot import Robot
from genan.robot.package import open_virtual, virtual_names
from genan_zoo.bench import LANES, on_the_bench
from genan_zoo.rigid import RigidTree
from genan_zoo.servo_arm.virtual import DESIGN, VirtualServoArm

TICKS = 250  # All that is played here is as long, and four at a time: one program.
SERVO = DESIGN["servo"]
QUANTUM = SERVO["quantum"]
Played = tuple[np.ndarray, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def robot() -> VirtualServoArm:
    return VirtualServoArm(seed=0)


def played(robot: VirtualServoArm, *rows: np.ndarray, hours: float = 0.0) -> Played:
    """Up to four rows of commands, each as far from rest as it says for the first joints."""
    u = np.tile(robot.robot.u_rest, (4, TICKS, 1))
    for k, row in enumerate(rows):
        u[k, :, : row.shape[1]] = row
    q, truth = robot.play(u, hours=np.full(4, hours), keep=TICKS)
    return q[: len(rows)], {name: values[: len(rows)] for name, values in truth.items()}


def altered(robot: VirtualServoArm, **values: float) -> VirtualServoArm:
    """The arm as designed, every servo like the others, but for these values."""
    arm, other = robot._arm, VirtualServoArm.__new__(VirtualServoArm)
    other.__dict__.update(robot.__dict__)
    other.__dict__.pop("_resting", None)
    with on_the_bench():
        design = {**SERVO, "zero": 0.0, **values}
        servo = {name: jax.numpy.full(6, float(design[name])) for name in arm.servo}
        other._arm = dataclasses.replace(arm, servo=servo)
    other._rate = np.float64(0.0)
    other.reset()
    return other


def waves(scale: float = 0.3) -> np.ndarray:
    t = 0.02 * np.arange(TICKS)[:, None]
    return np.array([0.0, -0.3, -0.1, 0.0]) + scale * np.sin(np.array([2.0, 3.1, 2.6, 4.3]) * t)


@pytest.mark.parametrize("name", ["servo-arm", "tree-3-one-body", "tree-4-branching", "tree-6"])
def test_rigid_bodies_are_mujocos(name: str, tmp_path: Path) -> None:
    made = write_robot(tmp_path, name, *random_tree(TREES[name])) if name in TREES else None
    model = (made or Robot.load(name)).mj_model
    data, n, rng = mujoco.MjData(model), model.nv, np.random.default_rng(0)
    states = rng.uniform(-2.0, 2.0, (20, 4, n)) * np.array([1.0, 3.0, 1.0, 5.0])[:, None]
    with on_the_bench():
        tree = RigidTree.of_model(model)
        mass, bias = jax.jit(jax.vmap(tree.mass_and_bias))(states[:, 0], states[:, 1])
    for (q, qd, tau, qdd), m, h in zip(states, np.asarray(mass), np.asarray(bias), strict=True):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
        mujoco.mj_forward(model, data)
        full = m + np.diag(model.dof_armature)
        forward = np.linalg.solve(full, tau + data.qfrc_passive - h)
        np.testing.assert_allclose(data.qacc, forward, rtol=1e-8, atol=1e-8)
        data.qacc[:] = qdd
        mujoco.mj_inverse(model, data)
        inverse = full @ qdd + h - data.qfrc_passive
        np.testing.assert_allclose(data.qfrc_inverse, inverse, rtol=1e-8, atol=1e-8)


def test_it_is_found_and_at_rest_it_stands_still_but_for_a_count(robot: VirtualServoArm) -> None:
    assert "virtual-servo-arm" in virtual_names()
    assert isinstance(open_virtual("virtual-servo-arm", seed=3), VirtualServoArm)
    q, truth = played(robot, robot.robot.u_rest[None])
    assert np.ptp(q[0], axis=0).max() < 1.5 * QUANTUM and np.abs(truth["qd"][0]).max() < 0.05
    assert np.abs(q[0, 0] - robot.robot.q_rest).max() < np.radians(3.0)


def test_a_tick_at_a_time_and_in_a_batch_it_is_the_same_to_the_bit(robot: VirtualServoArm) -> None:
    q, truth = played(robot, waves(), waves(-0.2))
    again, _ = played(VirtualServoArm(seed=0), waves(), waves(-0.2))
    np.testing.assert_array_equal(q, again)
    robot.reset()
    for k, command in enumerate(waves(-0.2)):
        np.testing.assert_array_equal(robot.read(), q[1, k])
        for name, values in robot.truth_for_evaluation_only().items():
            np.testing.assert_allclose(values, truth[name][1, k], atol=1e-9)
        robot.command(np.concatenate([command, robot.robot.u_rest[4:]]))


def test_specimens_differ_and_an_arm_ages(robot: VirtualServoArm) -> None:
    q, _ = played(robot, waves())
    other, _ = played(VirtualServoArm(seed=1), waves())
    warm, _ = played(robot, waves(), hours=1.0)
    steady, _ = played(VirtualServoArm(seed=0, drift=0.0), waves(), hours=1.0)
    new, _ = played(VirtualServoArm(seed=0, drift=0.0), waves())
    off = lambda a, b: np.degrees(np.abs(a - b).max())
    assert 0.3 < off(q, other) < 10.0 and 0.1 < off(q, warm) < 5.0
    np.testing.assert_array_equal(steady, new)


def test_commands_are_followed_within_a_few_degrees(robot: VirtualServoArm) -> None:
    rng, (low, high) = np.random.default_rng(0), robot.robot.u_explore
    poses = rng.uniform(low, high, (4, 1, 6))
    q, _ = played(robot, *np.tile(poses, (1, TICKS, 1)))
    assert np.degrees(np.abs(q[:, -1] - poses[:, 0])).max() < 4.0
    q, _ = played(robot, waves())
    # They begin with a step of a tenth of a radian.
    assert np.degrees(np.abs(q[0, 20:, :4] - waves()[20:])).max() < 6.0


def test_a_command_that_turns_round_leaves_the_dead_band_of_the_design(
    robot: VirtualServoArm,
) -> None:
    """On the pan, which no gravity loads: friction holds until the error pulls as hard the other
    way; and the rotor crosses the gap, which the joint does not see."""
    ramp = 0.06 * 0.02 * np.minimum(np.arange(TICKS), 240 - np.arange(TICKS))[:, None]
    stiffness = SERVO["gain"] * SERVO["supply"] * SERVO["torque_constant"] / SERVO["resistance"]
    loaded = 1.0 + SERVO["load_friction"] + SERVO["load_stiction"]
    band = 2.0 * (SERVO["friction"] + loaded * SERVO["bearing_friction"]) / stiffness

    def dead(arm: VirtualServoArm) -> float:
        """How far the command goes back before the joint follows."""
        _, truth = played(arm, ramp)
        top = int(np.argmax(ramp[:, 0]))
        highest = truth["q"][0, top:, 0].max()
        left = int(np.argmax(truth["q"][0, top:, 0] < highest - 2.0 * QUANTUM))
        assert left > 0
        return float(ramp[top, 0] - ramp[top + left, 0])

    tight = altered(robot, backlash=0.0)
    slack = altered(robot)
    smooth = altered(robot, friction=1e-6, bearing_friction=1e-6, backlash=0.0)
    assert band + QUANTUM < dead(tight) < band + 6.0 * QUANTUM
    assert dead(smooth) < dead(tight) - 0.5 * band
    assert dead(slack) > dead(tight) + QUANTUM

    slack.reset()
    between = []
    for command in ramp:
        slack.command(np.concatenate([command, robot.robot.u_rest[1:]]))
        between.append(float((slack._state.rotor - slack._state.q)[0, 0]))
    assert 1.0 < np.ptp(between) / SERVO["backlash"] < 1.1


def test_motors_are_slow_under_load_and_share_a_supply(robot: VirtualServoArm) -> None:
    step = np.tile([1.5], (TICKS, 1))
    every = np.tile([1.5, -0.8, -0.9, -1.0, 2.0, 1.5], (TICKS, 1))
    quick = {"slew": 100.0, "gain": 100.0}
    fastest = lambda arm, u: np.abs(played(arm, u)[1]["qd"][0, :, 0]).max()
    no_load = SERVO["most_duty"] * SERVO["supply"] / SERVO["torque_constant"]
    assert 0.6 * no_load < fastest(altered(robot, **quick), step) < no_load
    assert fastest(altered(robot), step) < SERVO["slew"] + 0.8
    weak = altered(robot, **quick, supply_resistance=1.0)
    assert fastest(weak, every) < 0.98 * fastest(weak, step)


def test_a_limp_arm_falls_and_gains_no_energy(robot: VirtualServoArm) -> None:
    limp = altered(robot, gain=0.0, damping_gain=0.0, backlash=0.03)
    model = limp.robot.mj_model
    data, state, energy = mujoco.MjData(model), limp._state, []
    tree, q = limp._arm.links, np.array([0.3, 0.9, -0.4, 0.5, 0.8, 0.6])
    model.body_mass[1:], model.body_ipos[1:] = tree.mass, tree.centre
    with on_the_bench():
        lanes = jax.numpy.tile(q, (LANES, 1))
        limp._state = dataclasses.replace(state, q=lanes, rotor=lanes)
        mass = jax.jit(lambda q: tree.mass_and_bias(q, 0.0 * q)[0])
        for _ in range(100):
            limp.command(limp.robot.u_rest)
            now = {name: np.asarray(getattr(limp._state, name)[0]) for name in ("q", "qd", "rotor")}
            data.qpos[:] = now["q"]
            mujoco.mj_forward(model, data)
            mujoco.mj_energyPos(model, data)
            twist = now["rotor"] - now["q"]
            stretch = twist - np.clip(twist, -0.015, 0.015)
            spin = np.asarray(limp._state.rotor_speed[0])
            parts = now["qd"] @ np.asarray(mass(now["q"])) @ now["qd"]
            parts += (
                SERVO["rotor_inertia"] * spin @ spin + SERVO["gear_stiffness"] * stretch @ stretch
            )
            energy.append(0.5 * float(parts) + data.energy[0])
    assert np.diff(energy).max() < 1e-4
    assert energy[0] - energy[-1] > 0.01 and now["q"][1] > 0.95


def test_pushes_move_it_and_a_push_of_nothing_does_not(robot: VirtualServoArm) -> None:
    def flown() -> np.ndarray:
        robot.reset()
        for command in waves()[:60]:
            robot.command(np.concatenate([command, robot.robot.u_rest[4:]]))
        return robot.read()

    q = flown()
    robot.push(np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0]))
    assert flown()[0] - q[0] > np.radians(0.5)
    robot.push(np.zeros(6))
    np.testing.assert_array_equal(flown(), q)
    with pytest.raises(SettingError, match="finite"):
        robot.push(np.full(6, np.nan))


def test_trials_follow_one_another_and_a_reset_begins_again(robot: VirtualServoArm) -> None:
    robot.reset()
    start = robot.read()
    for command in waves()[:100]:
        robot.command(np.concatenate([command, robot.robot.u_rest[4:]]))
    robot.next_trial(1)
    assert (robot.read() != start).any()
    robot.reset()
    np.testing.assert_array_equal(robot.read(), start)


def test_what_is_out_of_range_is_refused(robot: VirtualServoArm) -> None:
    robot.reset()
    before, u = robot.read(), robot.robot.u_rest
    with pytest.raises(SettingError, match="Control 'lift_goal' must lie in -0.8 to 0.5, got 0.9"):
        robot.command(u + np.array([0.0, 1.2, 0.0, 0.0, 0.0, 0.0]))
    with pytest.raises(SettingError, match="Control 'pan_goal' must lie in -1.6 to 1.6, got nan"):
        robot.command(np.full(6, np.nan))
    np.testing.assert_array_equal(robot.read(), before)
    with pytest.raises(SettingError, match="must not be negative, got hours -1"):
        VirtualServoArm(hours=-1.0)


def test_no_pose_of_the_controls_reaches_the_table_or_the_arm_itself() -> None:
    robot = Robot.load("servo-arm")
    spec = mujoco.MjSpec.from_file(str(robot.model_file))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1], name="table")
    model = spec.compile()
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    corners = np.array(list(itertools.product(*robot.u_range.T)))
    slack = 0.1  # The arm overshoots and sags.
    for pose in [*corners * (1.0 + slack), *rng.uniform(*robot.u_range, (2000, 6))]:
        data.qpos[:] = np.clip(pose, *robot.q_range)
        mujoco.mj_forward(model, data)
        touching = [{model.geom(g).name or model.body(model.geom_bodyid[g]).name for g in c.geom}
                    for c in data.contact]  # fmt: skip
        assert not touching, (pose, touching)
    data.qpos[:] = [0.0, 1.5, 1.0, 1.0, 0.0, 0.5]
    mujoco.mj_forward(model, data)
    assert data.ncon  # beyond the controls' ranges it would


@pytest.mark.slow
def test_exploration_stays_within_the_limits_and_sticks_now_and_then() -> None:
    robot = VirtualServoArm(seed=2)
    recordings = list(collect(robot, Plan(), start=0, stop=VirtualServoArm.group))
    q, qd = (np.concatenate([r.truth[name] for r in recordings]) for name in ("q", "qd"))
    low, high = robot.robot.u_range
    assert np.isfinite(q).all() and (q > low - 0.1).all() and (q < high + 0.1).all()
    assert 1.0 < np.abs(qd).max() < 8.0
    assert (np.quantile(np.abs([r.truth["qd"][0] for r in recordings]), 0.9, axis=0) < 0.05).all()
    read, u = (np.array([getattr(r, name) for r in recordings]) for name in ("q", "u"))
    error = np.degrees(np.sqrt(np.mean((read - u) ** 2, axis=(0, 1))))
    assert (error < 8.0).all(), error
    still = np.mean(np.abs(read[:, 5:] - read[:, :-5]) == 0.0, axis=(0, 1))  # over 0.1 s
    assert (still > 0.002).all() and (still < 0.4).all(), still
