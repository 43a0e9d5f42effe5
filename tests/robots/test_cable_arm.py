"""The virtual cable arm."""

import dataclasses
import itertools
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.deployment.collection import Plan, collect
from genan.errors import SettingError
from genan.robot import Robot
from genan.robot.package import open_virtual, virtual_names
from genan_zoo.bench import LANES, on_the_bench
from genan_zoo.cable_arm.virtual import DESIGN, VirtualCableArm
from genan_zoo.rigid import RigidTree

TICKS = 300  # All that is played here is as long, and four at a time: one program.
ARM, DRIVE = DESIGN["arm"], np.array(DESIGN["transmission"])
QUANTUM = ARM["quantum"]
GAIN, STIFFNESS, HARDENING, VISCOSITY, ROTORS, LARGEST = (
    np.array(ARM[name])
    for name in ("gain", "stiffness", "hardening", "viscosity", "rotor_inertia", "largest")
)
FREE = dict.fromkeys(("friction", "load_friction", "bearing_friction", "bearing_viscosity"), 0.0)
CLEAN = {**FREE, "cogging": 0.0, "ripple": 0.0, "quantum": 1e-12, "counts": 1e9, "delay": 0.0}
Played = tuple[np.ndarray, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def robot() -> VirtualCableArm:
    return VirtualCableArm(seed=0)


def played(robot: VirtualCableArm, *rows: np.ndarray, hours: float = 0.0) -> Played:
    """Up to four rows of commands, each for the first joints; the others are asked to rest."""
    u = np.tile(robot.robot.u_rest, (4, TICKS, 1))
    for k, row in enumerate(rows):
        u[k, :, : row.shape[-1]] = row
    q, truth = robot.play(u, hours=np.full(4, hours), keep=TICKS)
    return q[: len(rows)], {name: values[: len(rows)] for name, values in truth.items()}


def altered(
    robot: VirtualCableArm, *, weightless: bool = False, drive: Any = DRIVE, **values: Any
) -> VirtualCableArm:
    """The arm as designed, but for these values."""
    other = VirtualCableArm.__new__(VirtualCableArm)
    other.__dict__.update(robot.__dict__)
    other.__dict__.pop("_resting", None)
    with on_the_bench():
        design = {**ARM, **dict.fromkeys(("zero", "home", "creep", "phase"), 0.0), **values}
        parts = {x: jnp.broadcast_to(jnp.asarray(v, float), 7) for x, v in design.items()}
        links = RigidTree.of_model(robot.robot.mj_model)
        links = dataclasses.replace(links, gravity=links.gravity * (not weightless))
        both = {"drive": jnp.asarray(drive), "undo": jnp.asarray(np.linalg.inv(drive))}
        other._arm = dataclasses.replace(robot._arm, links=links, parts=parts, **both)
    other._rate, other._push = np.float64(0.0), np.zeros(7)
    other.reset()
    return other


def put(robot: VirtualCableArm, **values: Any) -> None:
    """Change the state of the arm."""
    with on_the_bench():
        lanes = {x: jnp.tile(jnp.asarray(value, float), (LANES, 1)) for x, value in values.items()}
        robot._state = dataclasses.replace(robot._state, **lanes)


def waves(scale: float = 0.3) -> np.ndarray:
    t = 0.01 * np.arange(TICKS)[:, None]
    return np.array([0.0, -0.4, 0.0, 1.6]) + scale * np.sin(np.array([2.0, 3.1, 2.6, 4.3]) * t)


def test_it_is_found_and_at_rest_it_stands_still(robot: VirtualCableArm) -> None:
    assert "virtual-cable-arm" in virtual_names()
    assert isinstance(open_virtual("virtual-cable-arm", seed=3), VirtualCableArm)
    q, truth = played(robot, robot.robot.u_rest[None])
    assert np.ptp(q[0], axis=0).max() < 1.5 * QUANTUM
    assert np.ptp(truth["q"][0, 100:], axis=0).max() < 0.1 * QUANTUM
    assert np.abs(q[0, 0] - robot.robot.q_rest).max() < np.radians(3.0)


def test_a_tick_at_a_time_and_in_a_batch_it_is_the_same_to_the_bit(robot: VirtualCableArm) -> None:
    q, truth = played(robot, waves(), waves(-0.2))
    again, _ = played(VirtualCableArm(seed=0), waves(), waves(-0.2))
    np.testing.assert_array_equal(q, again)
    robot.reset()
    for k, command in enumerate(waves(-0.2)):
        np.testing.assert_array_equal(robot.read(), q[1, k])
        for name, values in robot.truth_for_evaluation_only().items():
            np.testing.assert_array_equal(values, truth[name][1, k])
        robot.command(np.concatenate([command, robot.robot.u_rest[4:]]))


def test_specimens_differ_and_an_arm_ages(robot: VirtualCableArm) -> None:
    q, _ = played(robot, waves())
    other, _ = played(VirtualCableArm(seed=1), waves())
    warm, _ = played(robot, waves(), hours=0.5)
    worn, _ = played(robot, waves(), hours=50.0)
    steady, _ = played(VirtualCableArm(seed=0, drift=0.0), waves(), hours=50.0)
    new, _ = played(VirtualCableArm(seed=0, drift=0.0), waves())
    off = lambda a, b: np.degrees(np.abs(a - b).max())
    assert 0.3 < off(q, other) < 10.0 and 0.05 < off(q, warm) < off(q, worn) < 5.0
    np.testing.assert_array_equal(steady, new)


def test_it_sags_as_its_gains_in_series_with_its_cables_let_it(robot: VirtualCableArm) -> None:
    """At rest the motors ask for what MuJoCo says that gravity takes, and cables stretch by it."""
    model, rng, rest = robot.robot.mj_model, np.random.default_rng(0), robot.robot.u_rest
    hardening = 0.2 * HARDENING  # so that gravity makes a difference to it
    slow = {**CLEAN, "viscosity": 30.0 * VISCOSITY, "hardening": hardening}
    arm, data = altered(robot, **slow), mujoco.MjData(model)
    poses = rng.uniform(*robot.robot.u_explore, (4, 7))
    way = np.minimum(np.arange(TICKS) / 100, 1.0)[:, None]
    _, truth = played(arm, *(rest + way * (pose - rest) for pose in poses))
    for pose, q in zip(poses, truth["q"][:, -1], strict=True):
        expected = pose
        for _ in range(20):  # gravity in the pose that it sags to
            data.qpos[:], data.qvel[:], data.qacc[:] = expected, 0.0, 0.0
            mujoco.mj_inverse(model, data)
            pull, stretch = np.linalg.solve(DRIVE.T, data.qfrc_inverse), np.zeros(7)
            for _ in range(20):
                stretch = pull / STIFFNESS / (1.0 + (stretch / hardening) ** 2 / 3.0)
            expected = pose - data.qfrc_inverse / GAIN - np.linalg.solve(DRIVE, stretch)
        soft = np.abs(np.linalg.solve(DRIVE, stretch)).max()
        assert np.abs(expected - pose).max() > np.radians(0.5) and soft > 1e-3
        np.testing.assert_allclose(q, expected, atol=0.02 * soft)


@pytest.mark.parametrize("stiffness", [300.0, 1200.0])
def test_a_motor_and_a_link_swing_against_each_other_on_their_cable(
    robot: VirtualCableArm, stiffness: float
) -> None:
    """With the arm stretched out level no other joint takes part in a swing of the first."""
    limp = dict.fromkeys(("gain", "damping_gain", "viscosity", "cable_damping"), 0.0)
    soft = {**CLEAN, **limp, "stiffness": [stiffness, *STIFFNESS[1:]], "hardening": 1.0}
    arm, pose = altered(robot, weightless=True, **soft), np.array([0, np.pi / 2, 0, 0, 0, 0, 0])
    none, swing = np.zeros(7), []
    put(arm, q=pose, stretch=[1e-3, 0, 0, 0, 0, 0, 0], qd=none, rotor_speed=none)
    for _ in range(100):
        arm.command(arm.robot.u_rest)
        swing.append(float(arm._state.stretch[0, 0]))
    data, unit = mujoco.MjData(robot.robot.mj_model), np.eye(7)[0]
    data.qpos[:], data.qvel[:] = pose, unit
    mujoco.mj_forward(robot.robot.mj_model, data)
    mujoco.mj_energyVel(robot.robot.mj_model, data)
    link = 2.0 * data.energy[1] - robot.robot.mj_model.dof_armature[0]
    expected = np.sqrt(stiffness * (1.0 / ROTORS[0] + 1.0 / link))
    y, at = np.array(swing), np.flatnonzero(np.diff(np.sign(swing)))
    zeros = at + y[at] / (y[at] - y[at + 1])
    found = np.pi * (len(zeros) - 1) / (0.01 * (zeros[-1] - zeros[0]))
    assert len(zeros) > 8 and abs(found / expected - 1.0) < 0.02, (found, expected)


def test_motors_have_a_largest_torque_and_less_of_it_at_speed(robot: VirtualCableArm) -> None:
    step = np.tile([1.5, -0.4, 1.2], (TICKS, 1))
    eager = {**CLEAN, "gain": 50.0 * GAIN, "weightless": True, "viscosity": 0.0}
    _, truth = played(altered(robot, **eager, supply=500.0), step)
    motors = np.linalg.solve(DRIVE.T, truth["tau"][0, :50].T)
    np.testing.assert_allclose(np.abs(motors[:3]).max(axis=1), LARGEST[:3], rtol=1e-3)
    _, truth = played(altered(robot, **eager), step)
    no_load = ARM["supply"] / ARM["torque_constant"][0]
    assert 0.9 < truth["qd"][0, 5:20, 0].mean() / no_load < 1.0


def test_a_differential_lets_the_friction_of_one_motor_turn_both_joints(
    robot: VirtualCableArm,
) -> None:
    """The pitch moves steadily; the motor that rubs holds back, and by that pulls at the yaw."""
    ramp = np.tile([0.0, -0.4, 0.0], (TICKS, 1))
    ramp[:, 1] += 0.003 * np.arange(TICKS)
    rubs = np.array([0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    rough = {**CLEAN, "friction": rubs, "viscosity": 0.0, "weightless": True}
    turned = lambda arm: played(arm, ramp)[1]["q"][0, -100:, 2].mean()
    expected = (DRIVE.T @ -rubs)[2] / GAIN[2]
    assert turned(altered(robot, **rough)) == pytest.approx(expected, rel=0.1)
    assert abs(turned(altered(robot, drive=np.eye(7), **rough))) < 0.1 * expected


def test_a_limp_arm_falls_on_its_end_stops_and_gains_no_energy(robot: VirtualCableArm) -> None:
    limp = altered(robot, gain=0.0, damping_gain=0.0, cogging=0.0)
    model, energy, beyond = limp.robot.mj_model, [], []
    data = mujoco.MjData(model)
    put(limp, q=[0.3, 0.5, 0.4, 1.0, 0.3, 0.5, 0.8])
    for _ in range(250):
        limp.command(limp.robot.u_rest)
        s, names = limp._state, ("q", "qd", "stretch", "rotor_speed")
        q, qd, stretch, spin = (np.asarray(getattr(s, name)[0]) for name in names)
        data.qpos[:], data.qvel[:] = q, qd
        mujoco.mj_forward(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        past = q - np.clip(q, *limp.robot.q_range)
        parts = ROTORS @ spin**2 - model.dof_armature @ qd**2
        parts += STIFFNESS @ (stretch**2 * (1.0 + (stretch / HARDENING) ** 2 / 6.0))
        parts += np.array(ARM["stop_stiffness"]) @ past**2
        energy.append(0.5 * parts + data.energy.sum())
        beyond.append(np.abs(past).max())
    assert np.diff(energy).max() < 1e-3 and energy[0] - energy[-1] > 5.0
    assert 0.001 < max(beyond) < 0.15


def test_end_stops_hold_and_pushes_move_it(robot: VirtualCableArm) -> None:
    def flown(push: np.ndarray) -> np.ndarray:
        robot.reset()
        robot.push(push)
        for command in waves()[:100]:
            robot.command(np.concatenate([command, robot.robot.u_rest[4:]]))
        return robot.read()

    q = flown(np.zeros(7))
    assert flown(np.array([20.0, 0, 0, 0, 0, 0, 0]))[0] - q[0] > np.radians(0.5)
    assert flown(np.array([300.0, 0, 0, 0, 0, 0, 0]))[0] == pytest.approx(
        2.6 + 240 / 3000, abs=0.03
    )
    np.testing.assert_array_equal(flown(np.zeros(7)), q)
    with pytest.raises(SettingError, match="finite"):
        robot.push(np.full(7, np.nan))


def test_what_is_out_of_range_is_refused(robot: VirtualCableArm) -> None:
    robot.reset()
    before, u = robot.read(), robot.robot.u_rest
    with pytest.raises(SettingError, match="Control 'elbow_goal' must lie in 0.4 to 2.2, got 2.6"):
        robot.command(u + np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]))
    with pytest.raises(SettingError, match="'base_yaw_goal' must lie in -1.5 to 1.5, got nan"):
        robot.command(np.full(7, np.nan))
    np.testing.assert_array_equal(robot.read(), before)
    with pytest.raises(SettingError, match="must not be negative, got hours -1"):
        VirtualCableArm(hours=-1.0)


def test_no_pose_of_the_controls_reaches_the_floor_or_the_arm_itself() -> None:
    robot = Robot.load("cable-arm")
    spec = mujoco.MjSpec.from_file(str(robot.model_file))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[2, 2, 0.1], name="floor")
    model = spec.compile()
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    low, high = robot.u_range
    corners = np.array(list(itertools.product(*zip(low - 0.1, high + 0.1, strict=True))))
    for pose in [*corners, *rng.uniform(low, high, (2000, 7))]:  # the arm overshoots and sags
        data.qpos[:] = pose
        mujoco.mj_forward(model, data)
        touching = [{model.body(model.geom_bodyid[g]).name for g in c.geom} for c in data.contact]
        assert not [pair for pair in touching if len(pair) > 1], (pose, touching)
    data.qpos[:] = [0.0, 2.0, 0.0, 2.5, 0.0, 0.0, 0.0]
    mujoco.mj_forward(model, data)
    assert data.ncon  # beyond the controls' ranges it would


@pytest.mark.slow
def test_exploration_stays_within_the_limits_and_sticks_now_and_then() -> None:
    robot = VirtualCableArm(seed=2)
    recordings = list(collect(robot, Plan(), start=0, stop=32))
    q, qd = (np.array([r.truth[name] for r in recordings]) for name in ("q", "qd"))
    low, high = robot.robot.u_range
    assert np.isfinite(q).all() and (q > low - 0.1).all() and (q < high + 0.1).all()
    assert 1.0 < np.abs(qd).max() < 15.0
    assert (np.quantile(np.abs(qd[:, 0]), 0.9, axis=0) < 0.05).all()
    read, u = (np.array([getattr(r, name) for r in recordings]) for name in ("q", "u"))
    error = np.degrees(np.sqrt(np.mean((read - u) ** 2, axis=(0, 1))))
    assert (error > 0.5).all() and (error < 6.0).all(), error
    smooth = list(collect(altered(robot, **FREE), Plan(), start=0, stop=32))
    stuck = lambda qd: np.mean(np.abs(qd) < 0.004, axis=(0, 1))
    most, least = stuck(qd), stuck(np.array([r.truth["qd"] for r in smooth]))
    assert (most > 1.4 * least).all() and (most < 0.1).all(), (most, least)
