import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from genan.tasks.ball import Court
from genan.tasks.ball.flight import FlyingBall, RacketPose, Rubber, contact, strike

SCENE, DT = Court(), 0.002
REACH = 0.0256  # ball's radius and half the blade
struck = jax.jit(lambda start, end, *swing: strike(start, end, swing, DT, Rubber(), SCENE))


def pose(position=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)):
    return RacketPose(_32(position), _32(Rotation.from_rotvec(turn).as_matrix()))


def ball(position, velocity):
    return FlyingBall.without_spin(_32(position), _32(velocity))


def straight(start, velocity):
    """A ball at the start and at the end of a step, without gravity."""
    return ball(start, velocity), ball(np.asarray(start) + DT * np.asarray(velocity), velocity)


def _32(x):
    return jnp.asarray(x, jnp.float32)


def test_an_example_by_hand():
    # 5 mm above the face, 5 m/s towards a racket that comes with 2.5 m/s: they meet at 1/3 of the
    # step.
    start = np.array([0.01, REACH + 0.005, 0.02])
    hit, end = struck(*straight(start, (0.5, -5.0, -1.0)), pose(), pose((0, 2.5 * DT, 0)))
    leaving = np.array([0.39, 0.78 * 5.0 + 1.78 * 2.5, -0.78])
    at = start + DT / 3 * np.array([0.5, -5.0, -1.0])
    assert hit
    np.testing.assert_allclose(end.velocity, leaving, rtol=1e-4)
    np.testing.assert_allclose(end.position, at + 2 * DT / 3 * leaving, atol=1e-6)
    np.testing.assert_array_equal(end.spin, 0.0)


def test_a_ball_that_is_not_hit_is_left_alone():
    for start, velocity in [
        ((0, 0.1, 0), (0, -5, 0)),
        ((0, 0.03, 0), (0, 5, 0)),
        ((0.2, 0.03, 0), (0, -5, 0)),
    ]:
        first, free = straight(start, velocity)
        hit, end = struck(first, free, pose(), pose())
        assert not hit
        np.testing.assert_array_equal(end.position, free.position)
        np.testing.assert_array_equal(end.velocity, free.velocity)


@pytest.mark.parametrize(
    ("x", "z", "meets"),
    [
        (0.083, 0.0, True),
        (0.085, 0.0, False),
        (0.0, 0.103, True),
        (0.0, 0.105, False),
        (0.07, 0.09, False),
    ],
)
def test_the_blade_is_an_ellipse(x, z, meets):
    assert bool(struck(*straight((x, 0.03, z), (0, -5, 0)), pose(), pose())[0]) is meets


def test_both_faces_are_equal():
    up = struck(*straight((0.02, 0.03, 0.01), (1, -4, 2)), pose(), pose((0, 0.002, 0)))[1]
    down = struck(*straight((0.02, -0.03, 0.01), (1, 4, 2)), pose(), pose((0, -0.002, 0)))[1]
    mirror = np.array([1, -1, 1])
    np.testing.assert_allclose(up.velocity, mirror * down.velocity, rtol=1e-6)
    np.testing.assert_allclose(up.position, mirror * down.position, atol=1e-7)


def test_turning_everything_turns_the_result():
    turn = Rotation.from_rotvec([0.4, -1.1, 0.7])
    start, velocity, move = (
        np.array([0.02, 0.03, 0.01]),
        np.array([1.0, -4.0, 2.0]),
        np.array([0.0005, 0.002, 0.001]),
    )
    plain = struck(*straight(start, velocity), pose(), pose(move))[1]
    turned = struck(
        *straight(turn.apply(start), turn.apply(velocity)),
        pose(turn=turn.as_rotvec()),
        pose(turn.apply(move), turn.as_rotvec()),
    )[1]
    np.testing.assert_allclose(turned.velocity, turn.apply(plain.velocity), atol=1e-4)
    np.testing.assert_allclose(turned.position, turn.apply(plain.position), atol=1e-6)


@pytest.mark.parametrize(
    ("drags_along", "frame"), [(False, (0.0, 3.0, 0.0)), (True, (1.0, 3.0, -2.0))]
)
def test_a_moving_observer_sees_the_same_hit(drags_along, frame):
    # The lab's model leaves the racket's tangential velocity out, so only observers that move along
    # the normal agree.
    rubber, frame = Rubber(drags_along=drags_along), np.array(frame)
    swing = pose(), pose((0, 0.002, 0))
    rest = strike(*straight((0, 0.03, 0), (1, -4, 2)), swing, DT, rubber, SCENE)[1]
    moving = strike(
        *straight((0, 0.03, 0), np.array([1, -4, 2]) + frame),
        (pose(), pose(np.array([0, 0.002, 0]) + DT * frame)),
        DT,
        rubber,
        SCENE,
    )[1]
    np.testing.assert_allclose(moving.velocity, rest.velocity + frame, atol=1e-4)


def test_a_turning_racket_hits_with_the_velocity_of_the_point():
    rate = (
        20.0  # about the racket's long axis: the rim at x = 0.05 moves against the ball with 1 m/s
    )
    hit, end = struck(
        *straight((0.05, REACH + 1e-4, 0), (0, -1.0, 0)), pose(), pose(turn=(0, 0, rate * DT))
    )
    assert hit
    assert float(end.velocity[1]) == pytest.approx(0.78 * 1.0 + 1.78 * rate * 0.05, rel=0.02)


def test_nothing_passes_through_the_blade():
    rng = np.random.default_rng(0)
    n = 4000
    speed = rng.uniform(0.5, 30.0, n)
    tilt = rng.uniform(-0.9, 0.9, (n, 2)) * speed[:, None]
    aim = rng.uniform(-0.05, 0.05, (n, 2))
    velocity = np.stack([tilt[:, 0], -speed, tilt[:, 1]], axis=1) * rng.choice([-1, 1], (n, 1))
    arrival = rng.uniform(
        0.006, 0.012, n
    )  # when the centre would cross the middle plane at ``aim``
    start = np.stack([aim[:, 0], np.zeros(n), aim[:, 1]], axis=1) - velocity * arrival[:, None]
    racket = rng.uniform(-3, 3, (n, 3))

    def fly(start, velocity, racket):
        def one(hit, k):
            before, after = (RacketPose(racket * DT * (k + j), jnp.eye(3)) for j in (0, 1))
            position = start + (velocity + racket) * DT * k
            now, _ = contact(position, position + (velocity + racket) * DT, (before, after), SCENE)
            return hit | now, None

        return jax.lax.scan(one, jnp.zeros((), bool), jnp.arange(10))[0]

    assert np.asarray(jax.jit(jax.vmap(fly))(_32(start), _32(velocity), _32(racket))).all()


def test_a_ball_is_hit_once():
    now, racket_speed, hits = ball((0, 0.05, 0), (0, -4, 0)), 3.0, 0
    for k in range(60):
        free = ball(now.position + DT * now.velocity, now.velocity)
        hit, now = struck(
            now,
            free,
            pose((0, racket_speed * DT * k, 0)),
            pose((0, racket_speed * DT * (k + 1), 0)),
        )
        hits += int(hit)
    assert hits == 1
    assert float(now.velocity[1]) == pytest.approx(0.78 * 4 + 1.78 * 3, rel=1e-3)
