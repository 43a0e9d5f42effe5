"""Each part of the virtual PAMY2 against its equation, an independent engine, or a property that
must hold."""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.errors import SettingError
from genan.robot import Robot
from genan.robots.pamy2.pressures import bar_from_control, bar_from_counts, counts_from_control
from genan.robots.pamy2.virtual.parameters import Drift, Parameters, design, specimen


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def drawn() -> Parameters:
    return design()


def test_arm_as_drawn_moves_like_the_labs_model_in_mujoco(drawn: Parameters) -> None:
    model = Robot.load("pamy2").mj_model
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    acceleration = jax.jit(lambda q, qd, tau: drawn.arm.acceleration(q, qd, tau))
    for _ in range(50):
        q, qd, tau = rng.uniform(-1.5, 1.5, 4), rng.normal(0, 4, 4), rng.normal(0, 3, 4)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
        mujoco.mj_forward(model, data)
        ours = acceleration(jnp.asarray(q), jnp.asarray(qd), jnp.asarray(tau))
        np.testing.assert_allclose(ours, data.qacc, rtol=0, atol=1e-10 * np.abs(data.qacc).max())


def test_end_stops_push_back_and_only_beyond_them(drawn: Parameters) -> None:
    arm = dataclasses.replace(drawn.arm, hose_stiffness=jnp.zeros(4))
    still, none = jnp.zeros(4), jnp.zeros(4)
    inside = arm.passive_torque(jnp.radians(jnp.array([86.0, -71.0, 81.0, -81.0])), still, none)
    beyond = arm.passive_torque(jnp.radians(jnp.array([90.0, -75.0, 85.0, -85.0])), still, none)
    np.testing.assert_allclose(inside, 0.0, atol=1e-12)
    assert (np.sign(beyond) == [-1, 1, -1, 1]).all()


def test_muscle_force_grows_with_pressure_and_falls_with_contraction(drawn: Parameters) -> None:
    muscle = drawn.muscle
    y = 0.05 * muscle.length
    forces = np.array([muscle.static_force(jnp.full(8, p), y) for p in (1.0, 2.0, 3.0)])
    assert (np.diff(forces, axis=0) > 150.0).all()
    contracting = np.array(
        [muscle.static_force(jnp.full(8, 2.0), k * muscle.length) for k in (0.0, 0.05, 0.1, 0.15)]
    )
    assert (np.diff(contracting, axis=0) < 0.0).all()


def test_muscle_stiffness_is_the_slope_of_its_force(drawn: Parameters) -> None:
    pressure, y = jnp.full(8, 1.7), 0.04 * drawn.muscle.length
    step = 1e-6
    slope = (
        drawn.muscle.static_force(pressure, y + step)
        - drawn.muscle.static_force(pressure, y - step)
    ) / (2 * step)
    np.testing.assert_allclose(drawn.muscle.stiffness(pressure, y), -slope, rtol=1e-6)


def test_braid_friction_remembers_the_way_and_dissipates(drawn: Parameters) -> None:
    muscle, pressure = drawn.muscle, jnp.full(8, 2.0)
    slip = jnp.zeros((8, len(muscle.slip_distance)))
    way = np.concatenate(
        [np.linspace(0, 0.02, 200), np.linspace(0.02, 0, 200), np.linspace(0, 0.02, 200)]
    )
    forces = []
    for dy in np.diff(way):
        slip = muscle.slipped(slip, jnp.full(8, dy))
        forces.append(np.asarray(muscle.friction(pressure, slip)))
    force = np.array(forces)
    middle_up, middle_down = force[560], force[360]
    assert (middle_up > 0).all() and (middle_down < 0).all()
    np.testing.assert_allclose(middle_up, muscle.slip_force, rtol=1e-9)
    loop = np.sum(force[199:] * np.diff(way)[199:, None], axis=0)
    assert (loop > 0).all()


def test_tendon_torque_is_the_virtual_work_of_its_path(drawn: Parameters) -> None:
    tension = jnp.asarray(np.random.default_rng(0).uniform(50, 300, 8))
    q = jnp.array([0.3, 0.7, -0.4, 0.2])
    work = jax.grad(lambda q: jnp.sum(tension * drawn.tendon.path(q)))(q)
    np.testing.assert_allclose(drawn.tendon.torque(tension), work, rtol=1e-12)


def test_capstan_friction_follows_euler_eytelwein(drawn: Parameters) -> None:
    tension, q = jnp.full(8, 200.0), jnp.array([0.5, 0.8, 0.4, 0.0])
    pulling = drawn.tendon.joint_tension(tension, q, jnp.ones(8))
    yielding = drawn.tendon.joint_tension(tension, q, -jnp.ones(8))
    bend = drawn.tendon.wrap + drawn.tendon.route @ jnp.abs(q)
    np.testing.assert_allclose(
        yielding / pulling, jnp.exp(2 * drawn.tendon.friction * bend), rtol=1e-12
    )
    bent = drawn.tendon.joint_tension(tension, 2 * q, jnp.ones(8))
    assert (bent[2:] < pulling[2:]).all()  # every route but joint 1's passes other joints


def test_filling_is_quicker_than_venting_and_flow_is_limited(drawn: Parameters) -> None:
    air = drawn.air

    def time_to(start: float, target: float) -> np.ndarray:
        """Time until nine tenths of the step are done [s]."""

        def substep(state: tuple, _: None) -> tuple:
            pressure, opening = state
            opening = air.opened(opening, pressure, jnp.full(8, target), 5e-4)
            pressure = pressure + 5e-4 * air.flow(pressure, opening, air.supply, jnp.zeros(8))
            return (pressure, opening), pressure

        _, pressures = jax.lax.scan(substep, (jnp.full(8, start), jnp.zeros(8)), None, length=4000)
        return 5e-4 * np.argmax(
            np.abs(np.asarray(pressures) - target) < 0.1 * abs(target - start), axis=0
        )

    up, down = time_to(1.5, 2.0), time_to(2.0, 1.5)
    assert (down > 1.1 * up).all()
    assert (up < 0.3).all()
    assert (
        time_to(0.5, 3.5) > 1.5 * up
    ).all()  # a step six times as large runs into the flow limit


def test_contraction_compresses_the_air(drawn: Parameters) -> None:
    rate = drawn.air.compression(jnp.full(8, 2.0), jnp.full(8, 5.0), jnp.full(8, 10.0))
    assert (rate < 0).all()  # the muscle swells, so the pressure falls


def test_creep_relaxes_as_its_prony_series_says(drawn: Parameters) -> None:
    """A contraction that is held: each branch's force falls with its own time constant."""
    muscle, y, h = drawn.muscle, jnp.full(8, 0.01), 5e-4
    relaxed = jnp.zeros((8, len(muscle.creep_time)))

    def held(relaxed: jnp.ndarray, _: None) -> tuple:
        return muscle.crept(relaxed, y, h), muscle.creep(y, relaxed)

    _, force = jax.lax.scan(held, relaxed, None, length=4000)
    t = h * np.arange(4000)[:, None, None]
    series = np.asarray(muscle.creep_stiffness) * np.exp(-t / np.asarray(muscle.creep_time))
    np.testing.assert_allclose(force, 0.01 * series.sum(axis=-1), rtol=5e-3)


def test_a_valve_follows_with_play_and_wanders_only_while_it_moves(drawn: Parameters) -> None:
    air, play = drawn.air, float(drawn.air.play)
    np.testing.assert_allclose(air.held(jnp.full(8, 2.0), jnp.full(8, 2.0 + 0.5 * play)), 2.0)
    np.testing.assert_allclose(air.held(jnp.full(8, 2.0), jnp.full(8, 2.5)), 2.5 - play)
    n = jax.random.normal(jax.random.key(0), (20_000, 8))

    def after(moved: float) -> np.ndarray:
        def tick(d: jnp.ndarray, n: jnp.ndarray) -> tuple:
            d = air.disturbed(d, jnp.full(8, moved), n, 0.002)
            return d, d

        return np.asarray(jax.lax.scan(tick, jnp.zeros(8), n)[1])

    standing, moving = after(0.0), after(0.005)
    assert np.std(moving) == pytest.approx(float(air.disturbance), rel=0.1)
    way = 0.005 * np.arange(1, 400)
    lagged = [np.mean(moving[k:] * moving[:-k]) for k in range(1, 400)] / np.var(moving)
    assert np.interp(np.exp(-1.0), lagged[::-1], way[::-1]) == pytest.approx(0.5, rel=0.2)
    second = np.sqrt(np.mean((standing[500:] - standing[:-500]) ** 2))  # change within a second
    assert second < 0.3 * float(air.disturbance)


def test_muscles_that_fill_together_pull_the_supply_down_and_it_recovers(drawn: Parameters) -> None:
    air, buffer = drawn.air, drawn.air.supply
    for _ in range(200):
        buffer = air.supplied(buffer, jnp.full(8, 5.0), 5e-4)
    one = air.supply
    for _ in range(200):
        one = air.supplied(one, jnp.zeros(8).at[0].set(5.0), 5e-4)
    assert buffer < one - 0.2 < air.supply
    slower = air.flow(jnp.full(8, 2.0), jnp.ones(8), buffer, jnp.zeros(8))
    assert (slower < air.flow(jnp.full(8, 2.0), jnp.ones(8), air.supply, jnp.zeros(8))).all()
    for _ in range(4000):
        buffer = air.supplied(buffer, jnp.full(8, -5.0), 5e-4)  # venting takes nothing
    assert buffer == pytest.approx(float(air.supply), abs=0.01)


def test_the_clock_jitters_as_the_lab_measured(drawn: Parameters) -> None:
    n = jax.random.normal(jax.random.key(0), (200_000,))
    late = np.asarray(jax.vmap(drawn.encoder.lateness)(n)) / 0.002
    assert np.std(late) == pytest.approx(7.3 / 500.0, rel=0.1)
    assert np.mean(np.abs(late) > 0.05) == pytest.approx(0.009, rel=0.15)


def test_encoder_reads_whole_counts(drawn: Parameters) -> None:
    q = jnp.asarray(np.random.default_rng(0).uniform(-1.5, 1.5, (100, 4)))
    read = np.asarray(jax.vmap(drawn.encoder.read)(q))
    counts = read / np.asarray(drawn.encoder.quantum)
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert (np.abs(read - q) <= 0.5 * drawn.encoder.quantum + 1e-15).all()
    exact = drawn.without("quantisation").encoder
    np.testing.assert_array_equal(jax.vmap(exact.read)(q), q)


def test_pressures_follow_the_labs_rule() -> None:
    # 0.0002 bar per count, 0 bar at 8944 counts; u = 0 is the middle of the limits, u = +1 agonist
    # lowest.
    assert bar_from_counts(np.array([8944.0, 13944.0])) == pytest.approx([0.0, 1.0])
    np.testing.assert_array_equal(
        counts_from_control(np.zeros(4))[:4], [19500, 19500, 19750, 19900]
    )
    np.testing.assert_array_equal(
        counts_from_control(np.ones(4)), [12500, 26500, 17500, 22000, 12000, 25000, 12000, 23000]
    )
    np.testing.assert_array_equal(
        counts_from_control(-5 * np.ones(4))[0::2], [26500, 22000, 24500, 23000]
    )
    assert bar_from_control(np.zeros((3, 2, 4))).shape == (3, 2, 8)


def test_specimens_differ_from_the_drawing_and_from_each_other(drawn: Parameters) -> None:
    one, again, other = specimen(drawn, 1), specimen(drawn, 1), specimen(drawn, 2)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    for part in (drawn, other):
        ratio = np.asarray(one.arm.mass / part.arm.mass)
        assert (np.abs(ratio - 1) > 1e-4).any() and (np.abs(ratio - 1) < 0.15).all()


def test_drift_starts_at_nothing_grows_with_the_hours_and_can_be_off(drawn: Parameters) -> None:
    def leaves(parameters: Parameters) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(parameters)]

    usual, never = Drift.drawn(0, rate=1.0), Drift.drawn(0, rate=0.0)
    new = usual.aged(drawn, jnp.array(0.0))  # at once only the pressures of this session are off
    assert 0.0 < np.abs(new.air.offset).max() <= 0.01
    for a, b, c in zip(
        leaves(drawn),
        leaves(dataclasses.replace(new, air=drawn.air)),
        leaves(never.aged(drawn, jnp.array(50.0))),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-12)
        np.testing.assert_array_equal(a, c)
    slack = [usual.aged(drawn, jnp.array(h)).tendon.slack for h in (1.0, 10.0, 100.0)]
    assert (slack[0] > 0).all() and (slack[1] > slack[0]).all() and (slack[2] > slack[1]).all()
    other = Drift.drawn(1, rate=1.0).aged(drawn, jnp.array(10.0))
    assert not np.array_equal(slack[1], other.tendon.slack)


def test_unknown_effect_lists_those_there_are(drawn: Parameters) -> None:
    with pytest.raises(SettingError, match="no effect 'gravity'.*'hysteresis', 'creep'"):
        drawn.without("gravity")
