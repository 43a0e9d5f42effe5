"""The scene against MuJoCo C, against laws that need no engine, and against what the task asks of
it."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.errors import RobotError, SettingError
from genan.robot import Robot
from genan.simulation import cup_scene
from genan.simulation.cup_scene import CupScene, CupSettings, CupState

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from cup_model import cup_model

pytestmark = pytest.mark.slow

REST = np.deg2rad([0.0, 45.0, 45.0, 0.0])
LYING = 0.004 + 0.025  # from the underside of the cup to the centre of a ball that lies in it
SOFT = CupSettings(restitution=0.0, friction=0.0)  # what MuJoCo's contacts can be


@pytest.fixture(scope="module")
def scene() -> CupScene:
    return CupScene.load("pamy2-cup")


def track(scene: CupScene, state: CupState, amplitude, frequency, steps: int):
    """Joints swing out of the rest pose and back by torque: the torques, and all states."""
    dtype = state.qpos.dtype
    q = jnp.asarray(REST, dtype)
    stiffness, damping = (
        jnp.asarray([20.0, 60.0, 25.0, 0.5], dtype),
        jnp.asarray([1.0, 3.0, 1.0, 0.02], dtype),
    )

    def step(state: CupState, time):
        aim = (
            q + amplitude * jnp.sin(frequency * time) ** 2
        )  # begins without a jerk, which would slacken the string
        tau = scene.dynamics.bias(scene.q(state), jnp.zeros(4, dtype))
        tau = tau + stiffness * (aim - scene.q(state)) - damping * scene.qd(state)
        state = scene.step(state, tau)
        return state, (tau, state)

    return jax.lax.scan(step, state, scene.dt * jnp.arange(steps, dtype=dtype))[1]


tracked = jax.jit(jax.vmap(track, in_axes=(None, 0, 0, 0, None)), static_argnums=(0, 4))


def in_c(model: mujoco.MjModel, state: CupState, tau: np.ndarray) -> np.ndarray:
    """Positions that MuJoCo C goes through under the same torques."""
    model.opt.tolerance, model.opt.iterations, model.opt.ls_iterations = 1e-14, 200, 100
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state.qpos, state.qvel
    positions = []
    for torque in tau:
        data.qfrc_applied[:4] = torque
        mujoco.mj_step(model, data)
        positions.append(data.qpos.copy())
    return np.array(positions)


def test_equals_mujoco_c() -> None:
    """A taut swing of all joints with one of them at its limit, and a ball that lies and slides in
    the moving cup."""
    scene = CupScene.load("pamy2-cup", settings=SOFT)
    with jax.enable_x64(True):
        q = jnp.asarray(REST)
        hanging = scene.attachment(q) + 0.2 * jnp.asarray(
            [0.6 * np.sin(1.0), 0.8 * np.sin(1.0), -np.cos(1.0)]
        )
        starts = jnp.stack([hanging, hanging, scene.attachment(q) + jnp.asarray([0.0, 0.0, LYING])])
        states = jax.vmap(lambda ball: scene.start(q, ball))(starts)
        amplitudes = jnp.asarray([[0.1, 0.2, 0.2, 0.1], [0.0, 0.0, 0.0, 2.0], [0.0, 0.1, 0.1, 0.0]])
        frequencies = jnp.asarray(
            [[5.0, 4.0, 6.0, 3.0], [1.0, 1.0, 1.0, 10.0], [1.0, 4.0, 6.0, 1.0]]
        )
        tau, path = tracked(scene, states, amplitudes, frequencies, 250)
        tau, path = np.asarray(tau), np.asarray(path.qpos)
        in_frame = jax.vmap(lambda qpos: scene.ball_in_cup_frame(CupState(qpos, qpos, None, None)))(
            path[2]
        )
    model = cup_model(Robot.load("pamy2-cup"), SOFT)
    for case, steps, tolerance in ((0, 250, 2e-5), (1, 200, 1e-2), (2, 150, 2e-4)):
        start = jax.tree.map(lambda x: np.asarray(x[case]), states)  # noqa: B023
        # MuJoCo's string and contacts begin a step later, once they are violated.
        error = np.abs(path[case] - in_c(model, start, tau[case]))[5:steps].max()
        assert error < tolerance, (case, error)
    assert np.ptp(path[0, :, 4:], axis=0).min() > 0.1
    assert abs(np.rad2deg(path[1, :, 3]).max() - 85.0) < 0.01
    assert np.ptp(np.asarray(in_frame)[:150, 0]) > 0.003  # it slid


def test_kinematics_equal_mujoco_c(scene: CupScene) -> None:
    model = cup_model(Robot.load("pamy2-cup"), scene.settings)
    data = mujoco.MjData(model)
    data.qpos[:] = [0.3, -0.5, 0.9, 0.7, 0.4, 0.1, 0.6]
    mujoco.mj_forward(model, data)
    state = CupState(jnp.asarray(data.qpos, jnp.float32), jnp.zeros(7), None, None)
    position, rotation = scene.cup_pose(scene.q(state))
    np.testing.assert_allclose(position, data.site("cup").xpos, atol=1e-6)
    np.testing.assert_allclose(rotation, data.site("cup").xmat.reshape(3, 3), atol=1e-6)
    np.testing.assert_allclose(scene.string_length(state), data.ten_length[0], atol=1e-6)
    np.testing.assert_allclose(
        scene.attachment(scene.q(state)), data.site("string").xpos, atol=1e-6
    )


SWINGS = 48


@pytest.fixture(scope="module")
def paths(scene: CupScene):
    """12 balls that fall or are thrown into and onto the cup of an arm that holds still, then
    swings, over 2.5 s."""
    q = jnp.asarray(REST, jnp.float32)
    angle = np.linspace(0.0, 2.0 * np.pi, 5)[:-1]
    cases = [(radius, a, 0.09, 0.0) for radius in (0.005, 0.030) for a in angle]
    cases += [(0.050, a, 0.08, -1.5) for a in angle]
    middle, _ = scene.cup_pose(q)
    falling = (
        jnp.asarray([[r * np.cos(a), r * np.sin(a), z] for r, a, z, _ in cases], jnp.float32)
        + middle
    )
    keys = jax.random.split(jax.random.key(0), 3)
    swinging = jax.vmap(lambda key: scene.on_sphere(q, key=key))(jax.random.split(keys[0], SWINGS))
    speeds = jnp.asarray([[0.0, 0.0, v] for *_, v in cases] + [[0.0] * 3] * SWINGS, jnp.float32)
    states = jax.vmap(lambda ball, speed: scene.start(q, ball, ball_velocity=speed))(
        jnp.concatenate([falling, swinging]), speeds
    )
    amplitudes = jax.random.uniform(keys[1], (SWINGS, 4), minval=-0.8, maxval=0.8)
    frequencies = jax.random.uniform(keys[2], (SWINGS, 4), minval=4.0, maxval=14.0)
    still = jnp.zeros((12, 4))
    return tracked(
        scene,
        states,
        jnp.concatenate([still, amplitudes]),
        jnp.concatenate([still, frequencies]),
        1250,
    )[1]


@pytest.fixture(scope="module")
def falls(paths: CupState):
    return jax.tree.map(lambda x: x[:12], paths)


def test_a_ball_dropped_into_the_cup_stays_and_one_on_the_rim_does_not(
    scene: CupScene, falls: CupState
) -> None:
    inside = np.asarray(jax.vmap(jax.vmap(scene.in_cup))(falls))
    assert inside[:8, 250:].all()  # in after half a second, and for the two that follow
    assert not inside[8:].any(axis=1).any()
    ball = np.asarray(jax.vmap(scene.ball_in_cup_frame)(jax.tree.map(lambda x: x[:8, -1], falls)))
    np.testing.assert_allclose(ball[:, 2], LYING - 0.040, atol=1e-4)
    assert np.abs(np.asarray(falls.qvel)[:8, -1, 4:]).max() < 1e-3


def test_rebound_is_the_restitution(scene: CupScene, falls: CupState) -> None:
    height = np.asarray(jax.vmap(scene.ball_in_cup_frame)(jax.tree.map(lambda x: x[0], falls)))[
        :, 2
    ]
    speed = np.diff(height) / scene.dt
    impact = int(np.argmax(speed > 0.0))
    assert speed[impact - 1] < -1.0
    assert abs(-speed[impact] / speed[impact - 1] - scene.settings.restitution) < 0.02


def test_nothing_overlaps(scene: CupScene, falls: CupState) -> None:
    x, y, z = np.moveaxis(np.asarray(jax.vmap(jax.vmap(scene.ball_in_cup_frame))(falls)), -1, 0)
    radius = np.hypot(x, y)
    wall = np.hypot(radius - 0.043, z - np.clip(z, -0.038, 0.038)) - 0.027
    bottom = np.hypot(radius - np.minimum(radius, 0.043), z + 0.038) - 0.027
    assert min(wall.min(), bottom.min()) > -0.5e-3


def test_friction_brakes_by_its_coefficient() -> None:
    """On a wide flat cup on a heavy ball's terms: the deceleration is friction times gravity."""
    scene = CupScene.load(
        "pamy2-cup", CupSettings(cup_radius=1.0, string_length=2.0, ball_mass=1e-4)
    )
    q = jnp.asarray(REST, jnp.float32)
    ball = scene.attachment(q) + jnp.asarray([0.0, 0.0, LYING])
    state = scene.start(q, ball, ball_velocity=jnp.asarray([0.0, 0.5, 0.0]))
    tau = scene.dynamics.bias(q, jnp.zeros(4))
    end = jax.jit(lambda s: jax.lax.fori_loop(0, 50, lambda _, s: scene.step(s, tau), s))(state)
    lost = 0.5 - float(end.qvel[5])
    assert abs(lost / (0.1 * scene.settings.friction * 9.81) - 1.0) < 0.05


def test_string_holds_in_fast_swings(scene: CupScene, paths: CupState) -> None:
    """Starts all over the sphere, arms that shake: balls well above 4 m/s, some at twice that."""
    path = jax.tree.map(lambda x: x[12:], paths)
    length = np.asarray(jax.vmap(jax.vmap(scene.string_length))(path))
    speed = np.linalg.norm(np.asarray(path.qvel)[..., 4:], axis=-1)
    assert np.median(speed.max(axis=1)) > 5.0
    assert length.max() < 0.203
    low, high = np.rad2deg(scene.lower), np.rad2deg(scene.upper)
    q_path = np.rad2deg(np.asarray(path.qpos)[..., :4])
    assert (q_path > low - 0.1).all()
    assert (q_path < high + 0.1).all()


def test_energy_does_not_grow(scene: CupScene) -> None:
    """The arm falls and throws the ball about, with no torque: what MuJoCo counts as energy goes
    down alone."""
    q = jnp.asarray(REST, jnp.float32)
    state = scene.start(q, scene.attachment(q) + jnp.asarray([0.2, 0.0, 0.0]))
    path = jax.jit(
        lambda s: jax.lax.scan(
            lambda s, _: (scene.step(s, jnp.zeros(4)),) * 2, s, None, length=1000
        )[1]
    )(state)
    model = cup_model(Robot.load("pamy2-cup"), scene.settings)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data, energy = mujoco.MjData(model), []
    for qpos, qvel in zip(np.asarray(path.qpos)[::10], np.asarray(path.qvel)[::10], strict=True):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
        energy.append(data.energy.sum())
    energy = np.array(energy)
    fallen = np.ptp(energy)
    assert (energy - np.minimum.accumulate(energy)).max() < 0.02 * fallen
    assert fallen > 1.0


def test_sweeps_are_enough(monkeypatch: pytest.MonkeyPatch, scene: CupScene) -> None:
    """One step from states of a fast swing equals that with many sweeps."""
    q = jnp.asarray(REST, jnp.float32) + 0.5 * jax.random.normal(jax.random.key(3), (200, 4))
    keys = jax.random.split(jax.random.key(4), 200)
    balls = jax.vmap(lambda q, key: scene.on_sphere(q, key=key))(q, keys)
    speeds = 3.0 * jax.random.normal(jax.random.key(5), (200, 3))
    states = jax.vmap(lambda q, b, v: scene.start(q, b, ball_velocity=v))(q, balls, speeds)
    few = jax.vmap(scene.step, in_axes=(0, None))(states, jnp.zeros(4))
    monkeypatch.setattr(cup_scene, "_SWEEPS", 12)
    many = jax.vmap(scene.step, in_axes=(0, None))(states, jnp.zeros(4))
    assert np.quantile(np.abs(few.qpos - many.qpos), 0.99) < 1e-4


def test_starts_lie_on_the_sphere_all_round_it(scene: CupScene) -> None:
    q = jnp.asarray([0.2, 0.6, 0.5, -0.4])
    balls = jax.vmap(lambda key: scene.on_sphere(q, key=key))(
        jax.random.split(jax.random.key(1), 4000)
    )
    away = np.asarray(balls - scene.attachment(q))
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), 0.2, rtol=1e-5)
    # The mean of n unit vectors has components of variance 1 / 3n; the thirds of the sphere's
    # height have equal shares.
    assert np.abs(away.mean(axis=0) / 0.2).max() < 4.0 / np.sqrt(3 * 4000) + 0.02
    assert np.abs(np.mean(away[:, 2] > 0.2 / 3.0) - 1.0 / 3.0) < 0.03
    start, end = (np.asarray(p) for p in (scene.links[0].start, scene.links[0].end))
    states = jax.vmap(lambda ball: scene.start(q, ball))(balls)
    from_start = np.asarray(jax.vmap(scene.ball_in_cup_frame)(states)) - start
    part = np.clip(from_start @ (end - start) / ((end - start) @ (end - start)), 0.0, 1.0)
    assert (
        np.linalg.norm(from_start - part[:, None] * (end - start), axis=1).min()
        > 0.025 + 0.011 - 1e-5
    )


def test_in_cup_is_inside_the_opening_and_below_the_rim(scene: CupScene) -> None:
    q = jnp.asarray([0.1, 0.4, 0.7, 0.3])
    position, rotation = scene.cup_pose(q)
    places = jnp.asarray(
        [[0, 0, -0.011], [0.016, 0, 0.039], [0, 0, 0.041], [0.0, 0.045, 0.0], [0, 0, -0.07]]
    )
    balls = position + places @ rotation.T
    found = [bool(scene.in_cup(scene.start(q, ball))) for ball in balls]
    assert found == [True, True, False, False, False]


def test_a_ball_beyond_the_string_is_put_on_its_sphere(scene: CupScene) -> None:
    q = jnp.asarray(REST, jnp.float32)
    state = scene.start(q, scene.attachment(q) + jnp.asarray([0.0, 0.0, -0.5]))
    np.testing.assert_allclose(scene.string_length(state), 0.2, rtol=1e-6)


def test_balls_and_strings_of_their_own_are_those_of_the_settings(scene: CupScene) -> None:
    q = jnp.asarray(REST, jnp.float32)
    masses, lengths = jnp.asarray([0.04, 0.08]), jnp.asarray([0.15, 0.25])
    balls = jax.vmap(
        lambda length: scene.on_sphere(q, key=jax.random.key(2), string_length=length)
    )(lengths)
    speed = (
        2.0 * (balls - scene.attachment(q)) / lengths[:, None]
    )  # along the string, which stops it
    states = jax.vmap(
        lambda b, v, m, n: scene.start(q, b, ball_velocity=v, ball_mass=m, string_length=n)
    )(balls, speed, masses, lengths)
    tau = jnp.asarray([0.1, -3.0, -1.0, 0.0])
    together = jax.vmap(scene.step, in_axes=(0, None))(states, tau)
    alone = CupScene.load("pamy2-cup", settings=CupSettings(ball_mass=0.08, string_length=0.25))
    one = alone.step(alone.start(q, balls[1], ball_velocity=speed[1]), tau)
    np.testing.assert_allclose(together.qvel[1], one.qvel, atol=1e-3)
    assert np.abs(together.qvel[0] - together.qvel[1]).max() > 0.1
    np.testing.assert_allclose(jax.vmap(scene.string_length)(together), lengths, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"string_length": 0.0}, "string_length must be a positive number"),
        ({"ball_mass": -0.1}, "ball_mass must be a positive number"),
        ({"ball_radius": 0.045}, "does not fit into an opening of radius 41 mm"),
        ({"restitution": 1.2}, "restitution must lie from 0 to 1"),
        ({"friction": -1.0}, "friction must be 0 or more"),
        ({"string_length": 0.02}, "does not reach the ball's place in the cup"),
    ],
)
def test_refuses_settings_that_cannot_be(settings: dict[str, float], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        CupSettings(**settings)


def test_refuses_a_robot_without_a_cup() -> None:
    with pytest.raises(RobotError, match="needs a robot whose end_effector is the site 'cup'"):
        CupScene.load("pendulum")
