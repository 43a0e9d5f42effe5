"""The virtual hydraulic arm, against what can be calculated by hand."""

import dataclasses

import jax
import mujoco
import numpy as np
import pytest

from genan.deployment.collection import Plan, collect
from genan.errors import SettingError
from genan.robot import Robot
from genan.robot.package import open_virtual, virtual_names
from genan_zoo.bench import LANES, on_the_bench
from genan_zoo.hydraulic_arm.virtual import DESIGN, PARTS, VirtualHydraulicArm, with_levers
from genan_zoo.rigid import RigidTree

TICKS = 250  # All that is played here is as long, and four at a time: one program.
OUT, IN = (np.array(PARTS[name]) for name in ("overlap_out", "overlap_in"))
PLAY, AREA = 0.5 * PARTS["hysteresis"], np.array(PARTS["area"])
SIDES = (1, OUT), (-1, IN)
Played = tuple[np.ndarray, dict[str, np.ndarray]]
_with_levers = jax.jit(jax.vmap(with_levers))


@pytest.fixture(scope="module")
def robot() -> VirtualHydraulicArm:
    return VirtualHydraulicArm(seed=0)


def played(robot: VirtualHydraulicArm, *rows: object, hours: float = 0.0) -> Played:
    """Up to four rows of commands, each of one or of many ticks."""
    u = np.zeros((4, TICKS, 3))
    for k, row in enumerate(rows):
        u[k] = row
    q, truth = robot.play(u, hours=np.full(4, hours), keep=TICKS)
    return q[: len(rows)], {name: values[: len(rows)] for name, values in truth.items()}


def altered(
    robot: VirtualHydraulicArm, *, weight: float = 1.0, **values: float
) -> VirtualHydraulicArm:
    """The arm as designed, but for these values; ``weight`` is a factor of gravity."""
    arm, other = robot._arm, VirtualHydraulicArm.__new__(VirtualHydraulicArm)
    other.__dict__.update(robot.__dict__)
    other.__dict__.pop("_resting", None)
    design = {name: np.array(value, float) for name, value in {**PARTS, **values}.items()}
    with on_the_bench():
        links = RigidTree.of_model(robot.robot.mj_model)
        links = dataclasses.replace(links, gravity=weight * links.gravity)
        parts = {x: jax.numpy.full(like.shape, design[x]) for x, like in arm.parts.items()}
        zero = jax.numpy.zeros(3)
        other._arm = dataclasses.replace(arm, links=links, parts=parts, zero=zero)
    other._rate = np.float64(0.0)
    other.reset()
    return other


def cylinders(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths [m] and levers [m/rad] in poses of any shape."""
    with on_the_bench():
        length, lever = map(np.array, _with_levers(np.reshape(q, (-1, 3))))
    return length.reshape(q.shape), lever.reshape(q.shape)


def speeds(truth: dict[str, np.ndarray], first: int, last: int) -> np.ndarray:
    """Mean speeds of the cylinders [m/s] between two ticks, by row."""
    length, _ = cylinders(truth["q"][:, [first, last]])
    return (length[:, 1] - length[:, 0]) / (0.02 * (last - first))


def waves(scale: float = 0.5) -> np.ndarray:
    return scale * np.sin(0.02 * np.arange(TICKS)[:, None] * np.array([2.0, 3.1, 2.6]))


def test_it_is_found_and_at_rest_it_stands_still(robot: VirtualHydraulicArm) -> None:
    assert "virtual-hydraulic-arm" in virtual_names()
    assert isinstance(open_virtual("virtual-hydraulic-arm", seed=3), VirtualHydraulicArm)
    q, truth = played(robot, np.zeros(3))
    assert np.ptp(q[0], axis=0).max() <= 1.01 * PARTS["quantum"]
    assert np.abs(truth["qd"]).max() < 1e-3
    assert np.abs(q[0, 0] - robot.robot.q_rest).max() < np.radians(2.0)


def test_valves_that_close_hold_the_pose(robot: VirtualHydraulicArm) -> None:
    stop = np.arange(TICKS)[:, None] < 100
    q, _ = played(robot, np.where(stop, waves(), 0.0), np.where(stop, waves(-0.7), 0.0))
    assert np.abs(q[:, 100] - q[:, 0]).max() > np.radians(10.0)
    assert np.degrees(np.ptp(q[:, 175:], axis=1)).max() < 0.1


def test_a_tick_at_a_time_and_in_a_batch_it_is_the_same_to_the_bit(
    robot: VirtualHydraulicArm,
) -> None:
    q, truth = played(robot, waves(), waves(-0.7))
    again, _ = played(VirtualHydraulicArm(seed=0), waves(), waves(-0.7))
    np.testing.assert_array_equal(q, again)
    robot.reset()
    for k, command in enumerate(waves(-0.7)):
        np.testing.assert_array_equal(robot.read(), q[1, k])
        for name, values in robot.truth_for_evaluation_only().items():
            np.testing.assert_allclose(values, truth[name][1, k], rtol=1e-9, atol=1e-6)
        robot.command(command)
    robot.next_trial(1)
    assert (robot.read() != q[1, 0]).any()
    robot.reset()
    np.testing.assert_array_equal(robot.read(), q[1, 0])


def test_specimens_differ_and_an_arm_ages(robot: VirtualHydraulicArm) -> None:
    q, _ = played(robot, waves())
    other, _ = played(VirtualHydraulicArm(seed=1), waves())
    warm, _ = played(robot, waves(), hours=1.0)
    worn, _ = played(robot, waves(), hours=500.0)
    steady, _ = played(VirtualHydraulicArm(seed=0, drift=0.0), waves(), hours=1.0)
    new, _ = played(VirtualHydraulicArm(seed=0, drift=0.0), waves())
    off = lambda a, b: np.degrees(np.abs(a - b).max())
    assert 1.0 < off(q, other) < 20.0 and 0.2 < off(q, warm) < 10.0 and off(warm, worn) > 0.5
    np.testing.assert_array_equal(steady, new)


@pytest.mark.parametrize("coming_from", [0.0, 0.6])
def test_a_valve_opens_where_its_overlap_ends(
    robot: VirtualHydraulicArm, coming_from: float
) -> None:
    """Half the hysteresis later where the command has grown, earlier where it has fallen."""
    play, first = PLAY if coming_from == 0.0 else -PLAY, np.arange(TICKS)[:, None] < 40
    rows = [
        side * np.where(first, coming_from, lap + play + by)
        for side, lap in SIDES
        for by in (-0.003, 0.02)
    ]
    _, truth = played(altered(robot), *rows)
    moved = speeds(truth, 100, TICKS - 1) * [[1], [1], [-1], [-1]]
    assert np.abs(moved[[0, 2]]).max() < 3e-5 and moved[[1, 3]].min() > 1e-3, moved


@pytest.mark.parametrize("joint", [0, 1, 2])
def test_speeds_are_those_of_orifices_and_areas(robot: VirtualHydraulicArm, joint: int) -> None:
    """Weightless, almost without friction: what the pump's margin drives through the valve, over
    the area that it pushes on; onto the smaller area it retracts faster, in proportion."""
    free = altered(robot, weight=0.0, friction=1.0, pressure_friction=0.0, viscosity=1.0, droop=0.0)
    travel = 0.5
    rows = [side * (lap + PLAY + travel * (1 - lap)) * np.eye(3)[joint] for side, lap in SIDES]
    out, back = speeds(played(free, *rows)[1], 50, 80)[:, joint]
    # Q = c sqrt(margin - Q / regulator), as the regulator needs some of the margin
    c = PARTS["meter_in"][joint] * travel * (PARTS["fine"] + (1.0 - PARTS["fine"]) * travel)
    lost = 0.5 * c / PARTS["regulator"]
    flow = c * (np.sqrt(lost**2 + PARTS["margin"]) - lost)
    np.testing.assert_allclose([out, -back], flow / AREA[:, joint], rtol=0.02)


def test_levers_are_how_cylinders_grow_and_strokes_are_the_published_ones(
    robot: VirtualHydraulicArm,
) -> None:
    q, step = np.random.default_rng(0).uniform(*robot.robot.q_range, (50, 3)), 1e-6
    growth = (cylinders(q + step)[0] - cylinders(q - step)[0]) / (2.0 * step)
    np.testing.assert_allclose(cylinders(q)[1], growth, atol=1e-8)
    ends, _ = cylinders(np.array([[-0.4737, -0.5103, 0.7839], [1.0923, -2.5848, -2.8659]]))
    np.testing.assert_allclose(ends, [[0.905, 1.046, 0.840], [1.305, 1.556, 1.260]], atol=1e-4)
    pins = [robot.robot.mj_model.body(name).pos[[0, 2]] for name in ("arm", "bucket")]
    np.testing.assert_array_equal(DESIGN["pins"]["hinge"][1:], pins)


def test_who_shares_the_pump_is_slower_than_alone(robot: VirtualHydraulicArm) -> None:
    boom, arm = np.eye(3)[:2]
    speed = speeds(played(altered(robot), boom, arm, boom + arm, np.ones(3))[1], 25, 45)
    alone, both = np.array([speed[0, 0], speed[1, 1]]), speed[2, :2]
    assert (both < 0.9 * alone).all() and (both > 0.4 * alone).all(), (alone, both)
    assert (speed[3, :2] < both).all()
    flows = np.sum(speed[2:] * AREA[0], axis=1) / PARTS["most_flow"]
    assert (flows > 0.9).all() and (flows < 1.01).all(), flows


def test_on_closed_valves_it_sags_and_gains_no_energy(robot: VirtualHydraulicArm) -> None:
    """It falls onto its oil, which had been let down to 1 MPa, swings, and loses."""
    still = altered(robot, friction=1.0, pressure_friction=0.0, piston_leak=0.0, spool_leak=0.0)
    model, states = still.robot.mj_model, []
    with on_the_bench():
        pressure = jax.numpy.full((LANES, 2, 3), 1e6)
        still._state = dataclasses.replace(still._state, pressure=pressure)
        for _ in range(100):
            still.command(np.zeros(3))
            states.append([np.array(getattr(still._state, x)[0]) for x in ("q", "qd", "pressure")])
    data, moving = mujoco.MjData(model), []
    q, qd, p = map(np.array, zip(*states, strict=True))
    for data.qpos[:], data.qvel[:] in zip(q, qd, strict=True):
        mujoco.mj_forward(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        moving.append(np.sum(data.energy))
    (length, _), (short, long) = cylinders(q), np.array(still._arm.ends)
    volume = PARTS["dead_volume"] + AREA * np.stack([length - short, long - length], axis=1)
    whole = np.maximum(p, 0.0) / 1e5 + 1.0
    oil = volume * (
        p**2 / (2.0 * PARTS["bulk"]) + PARTS["air"] * 1e5 * (np.log(whole) + 1.0 / whole - 1.0)
    )
    energy, swing = moving + np.sum(oil, axis=(1, 2)), np.ptp(moving)
    assert swing > 30.0 and np.diff(energy).max() < 1e-4 * swing, np.diff(energy).max()
    assert energy[-1] < energy[0] - 0.05 * swing


def test_end_stops_hold_and_cushions_come_before_them(robot: VirtualHydraulicArm) -> None:
    q = played(robot, [1, -1, -1], [-1, 1, 1], [1, 1, 1], [-1, -1, -1])[1]["q"]
    low, high = robot.robot.q_range
    assert (q > low - 0.02).all() and (q < high + 0.02).all()
    at_ends = [high, low, [high[0], *low[1:]], [low[0], *high[1:]]]
    np.testing.assert_allclose(q[:, -1], at_ends, atol=0.02)

    def jolt(arm: VirtualHydraulicArm) -> np.ndarray:
        """Hardest stop at one end or the other of boom, boom, arm and bucket, each alone."""
        qd = played(arm, [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, -1])[1]["qd"]
        return np.abs(np.diff(qd, axis=1)).max(axis=(1, 2)) / 0.02

    assert (jolt(altered(robot)) < jolt(altered(robot, choked=1.0)) / 2.0).all()


def test_pushes_move_it_and_a_push_of_nothing_does_not(robot: VirtualHydraulicArm) -> None:
    def flown(push: float) -> np.ndarray:
        robot.push(np.array([0.0, 0.0, push]))
        robot.reset()
        for command in waves()[:60]:
            robot.command(command)
        return robot.read()

    q = flown(0.0)
    assert flown(500.0)[2] - q[2] > np.radians(0.1) and q[2] - flown(-500.0)[2] > np.radians(0.1)
    np.testing.assert_array_equal(flown(0.0), q)
    with pytest.raises(SettingError, match="finite"):
        robot.push(np.full(3, np.nan))


def test_what_is_out_of_range_is_refused(robot: VirtualHydraulicArm) -> None:
    robot.reset()
    before = robot.read()
    with pytest.raises(SettingError, match="Control 'arm_valve' must lie in -1 to 1, got 1.2"):
        robot.command(np.array([0.0, 1.2, 0.0]))
    with pytest.raises(SettingError, match="Control 'boom_valve' must lie in -1 to 1, got nan"):
        robot.command(np.full(3, np.nan))
    np.testing.assert_array_equal(robot.read(), before)
    for settings in ({"hours": -1.0}, {"drift": float("nan")}):
        with pytest.raises(SettingError, match="must not be negative, got hours"):
            VirtualHydraulicArm(**settings)


def test_no_pose_reaches_the_floor_the_post_or_the_arm_itself() -> None:
    robot = Robot.load("hydraulic-arm")
    spec = mujoco.MjSpec.from_file(str(robot.model_file))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1], name="floor")
    model = spec.compile()
    data = mujoco.MjData(model)
    grid = np.meshgrid(*(np.linspace(low, high, 15) for low, high in robot.q_range.T))
    for data.qpos[:] in np.reshape(grid, (3, -1)).T:
        mujoco.mj_forward(model, data)
        assert not data.ncon, (data.qpos, [c.geom for c in data.contact])
    data.qpos[:] = [-0.9, -1.2, 0.0]
    mujoco.mj_forward(model, data)
    assert data.ncon  # beyond the joints' ranges it would


@pytest.mark.slow
def test_exploration_stays_within_the_limits_covers_them_and_sticks_now_and_then() -> None:
    robot = VirtualHydraulicArm(seed=2)
    recordings = list(collect(robot, Plan(), start=0, stop=VirtualHydraulicArm.group))
    q, qd = (np.concatenate([r.truth[name] for r in recordings]) for name in ("q", "qd"))
    low, high = robot.robot.q_range
    assert np.isfinite(q).all() and (q > low - 0.02).all() and (q < high + 0.02).all()
    assert 0.3 < np.abs(qd).max() < 3.0
    visited = np.ptp(np.quantile(q, [0.02, 0.98], axis=0), axis=0) / (high - low)
    assert (visited > 0.8).all(), visited
    read = np.array([r.q for r in recordings])
    still = np.mean(np.abs(read[:, 5:] - read[:, :-5]) == 0.0, axis=(0, 1))  # over 0.1 s
    assert (still > 0.05).all() and (still < 0.4).all(), still
    at_ends = np.mean((q < low + 0.02) | (q > high - 0.02), axis=0)
    assert (at_ends < 0.15).all(), at_ends
