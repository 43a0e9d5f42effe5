"""Cup, string and ball against pendulums, MuJoCo and what must happen."""

import dataclasses
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.robot import Robot
from genan.robots.pamy2.virtual.arm import Forearm
from genan.robots.pamy2.virtual.cup import CupAndBall, CupAndBallState, damping_for
from genan.robots.pamy2.virtual.cup import cup_and_ball as toy_of
from genan.robots.pamy2.virtual.parameters import design

pytestmark = pytest.mark.slow

SUBSTEP = 5e-4
UPRIGHT = np.radians([0.0, 45.0, 45.0, 0.0])
Play = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def toy() -> CupAndBall:
    toy = toy_of(0)
    return dataclasses.replace(
        toy, string=dataclasses.replace(toy.string, drag=0.0 * toy.string.drag)
    )


@pytest.fixture(scope="module")
def touching_nothing(toy: CupAndBall) -> CupAndBall:
    speck = jnp.asarray(1e-7)
    return dataclasses.replace(
        toy,
        cup=dataclasses.replace(toy.cup, radius=speck, height=speck, half_wall=0.1 * speck),
        ball=dataclasses.replace(toy.ball, stiffness=jnp.zeros(()), damping=jnp.zeros(())),
        contact=dataclasses.replace(toy.contact, stiffness=jnp.zeros(())),
    )


@pytest.fixture(scope="module")
def play() -> Play:
    """One second of a toy in the hand of an arm that is moved along q [rad] and too heavy to be
    pulled at."""
    arm = design("cup").arm
    heavy = dataclasses.replace(arm, mass=1e9 * arm.mass, inertia=1e9 * arm.inertia)

    @jax.jit
    def run(toy: CupAndBall, qd: jax.Array, state: CupAndBallState) -> CupAndBallState:
        def one(
            carry: tuple[jax.Array, CupAndBallState], rate: jax.Array
        ) -> tuple[tuple[jax.Array, CupAndBallState], CupAndBallState]:
            q, _, toy_state = toy.advanced(heavy, carry[0], rate, rate, carry[1], SUBSTEP)
            return (q, toy_state), toy_state

        return jax.lax.scan(one, (jnp.asarray(UPRIGHT), state), qd)[1]

    def played(
        toy: CupAndBall,
        position: np.ndarray,
        velocity: np.ndarray | float = 0.0,
        qd: np.ndarray | float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        state = toy.hanging(arm, jnp.asarray(UPRIGHT))
        state = dataclasses.replace(
            state,
            position=jnp.asarray(position),
            velocity=jnp.asarray(np.broadcast_to(velocity, position.shape)),
        )
        toy = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf)), toy
        )  # one type for all: one compilation
        states = run(toy, jnp.asarray(np.broadcast_to(qd, (2000, 4))), state)
        return np.asarray(states.position), np.asarray(states.velocity), np.asarray(states.tension)

    return played


def start(toy: CupAndBall) -> np.ndarray:
    return np.asarray(Forearm.at(design("cup").arm, jnp.asarray(UPRIGHT)).place(toy.start))


def swung(toy: CupAndBall, angle: float) -> np.ndarray:
    """The hanging string turned by ``angle`` [rad] towards +x."""
    hanging = np.asarray(toy.hanging(design("cup").arm, jnp.asarray(UPRIGHT)).position)
    length = start(toy)[2] - hanging[2]
    return start(toy)[:, None] + length * np.array([[np.sin(angle)], [0.0], [-np.cos(angle)]])


def laid(toy: CupAndBall, height: float, offset: float) -> np.ndarray:
    """The ball over the cup, ``height`` [m] above its underside and off its axis, the string
    outside and over the rim.

    The string goes up on the side away from the forearm; the ball is off the axis towards that side
    and to the left.
    """
    over = np.array([np.sqrt(0.5) * offset, np.sqrt(0.5) * offset, height])
    way = np.array(
        [[0.0, 0.0, 0.0], [0.047, 0.0, -0.001], [0.047, 0.0, 0.082], [0.043, 0.0, 0.082], over]
    )
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(way, axis=0), axis=1)))
    share = np.cumsum(np.asarray(toy.string.rest)) / float(jnp.sum(toy.string.rest))
    assert along[-1] < 0.205
    points = np.stack([np.interp(share * along[-1], along, column) for column in way.T])
    return start(toy)[:, None] + points  # held upright, the cup's axes are the world's


def energy(
    toy: CupAndBall, position: np.ndarray, velocity: np.ndarray, pivot: np.ndarray | None = None
) -> np.ndarray:
    mass, string = np.asarray(toy.string.mass), toy.string
    pivot = np.broadcast_to(start(toy), position.shape[:2]) if pivot is None else pivot
    stretch = np.linalg.norm(
        np.diff(position, axis=2, prepend=pivot[:, :, None]), axis=1
    ) - np.asarray(string.rest)
    elastic = 0.5 * np.asarray(string.stiffness) * np.maximum(stretch, 0.0) ** 2
    height = position[:, 2] - start(toy)[2] + np.cumsum(np.asarray(string.rest))
    return np.sum(0.5 * mass * np.sum(velocity**2, axis=1) + 9.81 * mass * height + elastic, axis=1)


def cup_coordinates(toy: CupAndBall, ball: np.ndarray) -> tuple[float, float]:
    away = ball - start(toy)
    return float(np.hypot(away[0], away[1])), float(away[2])


def test_forearm_is_where_mujoco_has_it_and_moves_so() -> None:
    model = Robot.load("pamy2-cup").mj_model
    data = mujoco.MjData(model)
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "forearm")
    arm = design("cup").arm
    rng = np.random.default_rng(0)
    for _ in range(5):
        data.qpos[:] = rng.uniform(-1.5, 1.5, 4)
        mujoco.mj_forward(model, data)
        forearm = Forearm.at(arm, jnp.asarray(data.qpos))
        moving, turning = np.zeros((3, 4)), np.zeros((3, 4))
        mujoco.mj_jacBody(model, data, moving, turning, body)
        axes = data.xmat[body].reshape(3, 3).T
        np.testing.assert_allclose(forearm.origin, data.xpos[body], atol=1e-12)
        np.testing.assert_allclose(forearm.axes, axes, atol=1e-12)
        np.testing.assert_allclose(
            forearm.jacobian, np.vstack([axes @ moving, axes @ turning]), atol=1e-12
        )


def test_arm_with_cup_as_drawn_moves_like_its_model_in_mujoco() -> None:
    model = Robot.load("pamy2-cup").mj_model
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    arm = design("cup").arm
    acceleration = jax.jit(lambda q, qd, tau: arm.acceleration(q, qd, tau))
    for _ in range(5):
        q, qd, tau = rng.uniform(-1.5, 1.5, 4), rng.normal(0, 4, 4), rng.normal(0, 3, 4)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(
            acceleration(q, qd, tau), data.qacc, atol=1e-10 * np.abs(data.qacc).max()
        )


def test_hanging_ball_pulls_at_the_joints_with_its_weight(toy: CupAndBall) -> None:
    model = Robot.load("pamy2-cup").mj_model
    data = mujoco.MjData(model)
    q = np.radians([10.0, 40.0, 50.0, 5.0])
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    arm, still = design("cup").arm, jnp.zeros(4)
    place = np.asarray(Forearm.at(arm, jnp.asarray(q)).place(toy.start))
    moving, torque = np.zeros((3, 4)), np.zeros(4)
    mujoco.mj_jac(
        model, data, moving, None, place, mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "cup")
    )
    weight = 9.81 * float(jnp.sum(toy.string.mass))
    hanging = toy.hanging(arm, jnp.asarray(q))
    factor = 1e6  # so heavy that it does not give way while it is weighed
    arm = dataclasses.replace(arm, mass=factor * arm.mass, inertia=factor * arm.inertia)
    _, qd, _ = toy.advanced(arm, jnp.asarray(q), still, still, hanging, SUBSTEP)
    mujoco.mj_mulM(model, data, torque, factor * np.asarray(qd) / SUBSTEP)
    np.testing.assert_allclose(
        torque, -weight * moving[2], atol=0.002 * weight * np.abs(moving[2]).max()
    )


def test_small_swing_has_the_period_of_a_pendulum(touching_nothing: CupAndBall, play: Play) -> None:
    position, _, _ = play(touching_nothing, swung(touching_nothing, np.radians(4.0)))
    x = position[:, 0, -1] - start(touching_nothing)[0]
    crossing = np.flatnonzero(np.diff(np.sign(x)))
    assert len(crossing) == 2
    when = crossing + x[crossing] / (x[crossing] - x[crossing + 1])
    assert 2.0 * SUBSTEP * np.diff(when)[0] == pytest.approx(
        2.0 * np.pi * np.sqrt(0.2 / 9.81), rel=0.01
    )


@pytest.mark.parametrize("angle", [20.0, 80.0])
def test_swing_gains_no_energy_and_loses_little(
    touching_nothing: CupAndBall, play: Play, angle: float
) -> None:
    position, velocity, _ = play(touching_nothing, swung(touching_nothing, np.radians(angle)))
    level = energy(touching_nothing, position, velocity)
    assert level.max() < 1.003 * level[0]  # the string gives a little jolt when it is let go
    assert level[200:].max() < level[0]
    assert level[-1] > 0.95 * level[0]


def test_string_stretches_little_in_fast_swings(touching_nothing: CupAndBall, play: Play) -> None:
    still = swung(touching_nothing, 0.0)
    away = still - start(touching_nothing)[:, None]
    velocity = 5.0 / 0.2 * np.stack([-away[2], 0.0 * away[2], 0.0 * away[2]])
    position, moving, tension = play(touching_nothing, still, velocity)
    length = np.linalg.norm(position[:, :, -1] - start(touching_nothing), axis=1)
    assert length.max() < 1.02 * 0.2
    assert tension.max() > 6.0  # m v^2 / r
    level = energy(touching_nothing, position, moving)
    assert level.max() < 1.001 * level[0]


def test_swing_from_a_moving_hand_is_mujocos(touching_nothing: CupAndBall, play: Play) -> None:
    """A pendulum of a stiff rod under a cart so heavy that it goes where it is pushed: as the arm
    moves the cup."""
    toy = touching_nothing
    t = SUBSTEP * np.arange(2001)[:, None]
    amplitude, rate = (
        np.radians([12.0, 3.0, 4.0, 15.0]),
        2.0 * np.pi * np.array([0.9, 0.8, 0.7, 0.7]),
    )
    q = UPRIGHT + amplitude * (1.0 - np.cos(rate * t))
    position, _, _ = play(toy, swung(toy, 0.0), 0.0, np.diff(q, axis=0) / SUBSTEP)

    place = jax.vmap(lambda q: Forearm.at(design("cup").arm, q).place(toy.start))
    pivot = np.asarray(place(jnp.asarray(q)))
    acceleration = np.gradient(np.gradient(pivot, SUBSTEP, axis=0), SUBSTEP, axis=0)
    length, mass = float(jnp.sum(toy.string.rest)), 1e7
    slides = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="{SUBSTEP}" integrator="RK4"/>
        <worldbody><body gravcomp="1">{slides}
        <inertial mass="{mass}" pos="0 0 0" diaginertia="1 1 1"/>
        <body><joint type="ball"/>
          <inertial mass="0.054" pos="0 0 -{length}" diaginertia="1e-9 1e-9 1e-9"/></body></body>
        </worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    swing = []
    for a in acceleration[:-1]:
        data.qfrc_applied[:3] = mass * a
        mujoco.mj_step(model, data)
        swing.append(data.xipos[2] + pivot[0])
    assert (
        np.linalg.norm(position[:, :, -1] - pivot[1:], axis=1).min() > 0.999 * length
    )  # taut, as the rod
    reach = np.abs(position[:, :, -1] - position[0, :, -1]).max()
    assert reach > 0.15
    np.testing.assert_allclose(position[:, :, -1], swing, atol=0.005 * reach)


def test_free_arm_and_ball_exchange_energy_and_gain_none(touching_nothing: CupAndBall) -> None:
    """An arm that hangs without drive or friction, as MuJoCo counts its energy, and a string
    without damping."""
    string = touching_nothing.string
    string = dataclasses.replace(string, damping=0.0 * string.damping, bending=0.0 * string.bending)
    toy, arm = dataclasses.replace(touching_nothing, string=string), design("cup").arm
    Carry = tuple[jax.Array, jax.Array, CupAndBallState]

    def one(carry: Carry, _: None) -> tuple[Carry, Carry]:
        q, qd, state = carry
        qd_next = qd + SUBSTEP * arm.acceleration(q + 0.5 * SUBSTEP * qd, qd, jnp.zeros(4))
        carry = toy.advanced(arm, q, qd, qd_next, state, SUBSTEP)
        return carry, carry

    start_q = jnp.array([0.0, 2.5, 0.3, 0.0])
    begin = start_q, jnp.array([1.0, 0.0, 2.0, 0.0]), toy.hanging(arm, start_q)
    q, qd, state = jax.jit(lambda carry: jax.lax.scan(one, carry, None, length=1600)[1])(begin)

    model = Robot.load("pamy2-cup").mj_model
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    of_arm = []
    for data.qpos[:], data.qvel[:] in zip(np.asarray(q), np.asarray(qd), strict=True):
        mujoco.mj_forward(model, data)
        of_arm.append(data.energy.sum())
    pivot = np.asarray(jax.vmap(lambda q: Forearm.at(arm, q).place(toy.start))(q))
    of_toy = energy(toy, np.asarray(state.position), np.asarray(state.velocity), pivot)
    whole = of_arm + of_toy
    assert np.ptp(of_toy) > 0.3
    assert whole.max() < whole[0] + 1e-4
    assert whole.min() > whole[0] - 0.02


def test_ball_dropped_into_the_cup_stays(toy: CupAndBall, play: Play) -> None:
    position, velocity, _ = play(toy, laid(toy, 0.115, 0.02))
    radius, height = cup_coordinates(toy, position[-1, :, -1])
    assert radius < 0.02 and 0.028 < height < 0.034
    assert np.linalg.norm(velocity[-200:, :, -1], axis=1).max() < 0.1


@pytest.mark.parametrize("offset", [0.047, 0.055])
def test_ball_at_the_rim_falls_off(toy: CupAndBall, play: Play, offset: float) -> None:
    position, _, _ = play(toy, laid(toy, 0.107, offset))
    assert cup_coordinates(toy, position[-1, :, -1])[1] < 0.0


def test_ball_rebounds_at_the_restitution_of_its_specimen(toy: CupAndBall, play: Play) -> None:
    contact = toy.ball
    for wanted in (0.35, 0.5):
        bouncing = dataclasses.replace(
            toy,
            ball=dataclasses.replace(
                contact, damping=damping_for(jnp.asarray(wanted), contact.stiffness, contact.mass)
            ),
        )
        position = laid(toy, 0.06, 0.0)
        velocity = np.zeros_like(position)
        velocity[2, -1] = -1.5
        _, moving, _ = play(bouncing, position, velocity)
        down = moving[:, 2, -1]
        hit = int(np.argmax(down > 0.0))
        before, after = down[: hit + 1].min(), down[hit : hit + 20].max()
        assert -after / before == pytest.approx(wanted, abs=0.06)
