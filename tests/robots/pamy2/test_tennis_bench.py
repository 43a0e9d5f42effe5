import dataclasses
import math
from typing import Any

import mujoco
import numpy as np
import pytest
from tests.docs.programs import run_block

from genan.errors import SettingError
from genan.robot import Robot
from genan.robots.pamy2.virtual.parameters import design
from genan.robots.pamy2.virtual.tennis import (
    STEP,
    BallGun,
    BallPhysics,
    BallState,
    Hand,
    Hit,
    Obstacle,
    Racket,
    RacketModel,
    RallyOutcome,
    Room,
    TennisBench,
    rebound,
)

pytestmark = pytest.mark.slow

BALL, ROOM = BallPhysics(), Room()
STILL = (0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """What the program in the documentation leaves; its bench serves all tests."""
    left = run_block("virtual-table-tennis.md", 0)
    return left | {"outcome": left["bench"].outcome(), "landing": left["bench"].landing()}


@pytest.fixture(scope="module")
def bench(documented: dict[str, Any]) -> TennisBench:
    return documented["bench"]


def flown(physics: BallPhysics, ball: BallState, seconds: float, h: float = STEP) -> BallState:
    for _ in range(round(seconds / h)):
        ball = physics.flown(ball, h)
    return ball


# The air


def test_a_ball_falls_to_its_terminal_speed_as_the_closed_form_says():
    c = 0.5 * BALL.density * math.pi * BALL.radius**2 / BALL.mass * BALL.drag
    terminal = math.sqrt(BALL.gravity / c)
    ball = flown(BALL, BallState((0.0, 0.0, 9.0), STILL, STILL), 1.2)
    assert ball.velocity[2] == pytest.approx(
        -terminal * math.tanh(BALL.gravity * 1.2 / terminal), rel=1e-9
    )
    fallen = math.log(math.cosh(BALL.gravity * 1.2 / terminal)) / c
    assert ball.position[2] == pytest.approx(9.0 - fallen, rel=1e-9)


def test_without_drag_and_weight_a_spinning_ball_flies_in_a_circle():
    physics = dataclasses.replace(BALL, drag=0.0, gravity=0.0, lift_saturation=0.0, spin_decay=0.0)
    rate = (
        0.5
        * BALL.density
        * math.pi
        * BALL.radius**2
        / BALL.mass
        * BALL.lift_slope
        * BALL.radius
        * 60.0
    )
    ball = flown(physics, BallState(STILL, (3.0, 0.0, 0.0), (0.0, 0.0, 60.0)), 1.0)
    expected = np.array([math.sin(rate), 1.0 - math.cos(rate), 0.0]) * 3.0 / rate
    np.testing.assert_allclose(ball.position, expected, atol=1e-9)
    assert np.linalg.norm(ball.velocity) == pytest.approx(3.0)


def test_quick_spin_lifts_less_than_in_proportion_and_dies_slowly():
    slow, quick = (
        BALL.acceleration((0.0, -4.0, 0.0), (w, 0.0, 0.0), BALL.radius * w)[2]
        for w in (10.0, 100.0)
    )
    assert (
        -BALL.gravity > slow > quick > -BALL.gravity + 10.0 * (slow + BALL.gravity)
    )  # topspin pulls down
    ball = flown(BALL, BallState((0.0, 0.0, 5.0), STILL, (50.0, 0.0, 0.0)), 1.0)
    assert ball.spin[0] == pytest.approx(50.0 * math.exp(-BALL.spin_decay), rel=1e-4)


def test_steps_are_fine_enough():
    coarse, fine = (flown(BALL, BallGun().shot(0), 0.5, h) for h in (STEP, STEP / 16))
    np.testing.assert_allclose(coarse.position, fine.position, atol=1e-6)


# Bounces


def random_bounce(rng: np.random.Generator) -> tuple[BallState, tuple[float, ...]]:
    normal = rng.standard_normal(3)
    normal /= np.linalg.norm(normal)
    velocity = rng.normal(0, 4, 3)
    if velocity @ normal > 0:
        velocity = -velocity
    return BallState(STILL, tuple(velocity.tolist()), tuple(rng.normal(0, 80, 3).tolist())), tuple(
        normal.tolist()
    )


def energy(ball: BallState) -> float:
    """Of flight, spin and height above the floor [J]; the ball is a thin shell."""
    turning = BALL.radius**2 * np.dot(ball.spin, ball.spin) / 1.5
    moving = 0.5 * (np.dot(ball.velocity, ball.velocity) + turning)
    return BALL.mass * (moving + BALL.gravity * ball.position[2])


@pytest.mark.parametrize("grip", [0.0, 0.1, 0.4, 0.5, 0.8])
@pytest.mark.parametrize("friction", [0.25, math.inf])
def test_a_bounce_gains_no_energy_and_keeps_what_it_must(grip, friction):
    rng = np.random.default_rng(0)
    r = BALL.radius
    for _ in range(100):
        ball, normal = random_bounce(rng)
        after = rebound(ball, normal, STILL, r, (0.9, grip, friction))
        assert energy(after) <= energy(ball) * (1 + 1e-12)
        n, dv, dw = (
            np.array(normal),
            np.subtract(after.velocity, ball.velocity),
            np.subtract(after.spin, ball.spin),
        )
        # Angular momentum about the touching point, which the surface cannot change: m (r n) x v +
        # 2/3 m r^2 spin.
        np.testing.assert_allclose(r * np.cross(n, dv) + 2.0 / 3.0 * r**2 * dw, 0.0, atol=1e-10)
        assert np.dot(after.velocity, n) == pytest.approx(-0.9 * np.dot(ball.velocity, n))
        assert np.dot(after.spin, n) == pytest.approx(np.dot(ball.spin, n))


def test_a_ball_that_grips_leaves_rolling_and_one_that_slides_does_not():
    roll = (0.0, 0.0, 1.0), STILL, 0.02, (0.9, 0.4, 0.25)
    after = rebound(BallState(STILL, (0.5, 0.0, -4.0), STILL), *roll)
    assert after.velocity[0] == pytest.approx(0.02 * after.spin[1])
    assert after.velocity[0] == pytest.approx(0.3)
    sliding = rebound(BallState(STILL, (9.0, 0.0, -1.0), STILL), *roll)
    assert sliding.velocity[0] == pytest.approx(9.0 - 0.25 * 1.9)  # Coulomb


def test_table_net_and_floor():
    over = BallState((0.4, 1.0, 0.8), (0.0, -2.0, -4.0), STILL)
    ball, touch = ROOM.step(BALL, over, 0.005)
    assert touch is Obstacle.TABLE
    assert ball.velocity[2] == pytest.approx(
        (ROOM.restitution + ROOM.restitution_slope * 0.1) * 4.0, rel=0.02
    )
    assert ball.position[2] > 0.795
    beside, touch = ROOM.step(BALL, over._replace(position=(1.3, 1.0, 0.8)), 0.005)
    assert touch is Obstacle.NOTHING
    assert beside.velocity[2] < -4.0
    netted, touch = ROOM.step(BALL, BallState((0.4, 1.569, 0.85), (0.0, 5.0, 0.0), STILL), STEP)
    assert touch is Obstacle.NET
    assert -0.5 < netted.velocity[1] < 0.0
    clipped, touch = ROOM.step(BALL, BallState((0.4, 1.56, 0.94), (0.0, 5.0, -1.0), STILL), STEP)
    assert touch is Obstacle.NET
    assert clipped.velocity[2] > 0.0
    _, touch = ROOM.step(BALL, BallState((0.4, 1.56, 0.96), (0.0, 5.0, 0.0), STILL), STEP)
    assert touch is Obstacle.NOTHING
    _, touch = ROOM.step(BALL, BallState((0.4, -1.0, 0.0201), (0.0, 0.0, -3.0), STILL), STEP)
    assert touch is Obstacle.FLOOR


# The racket

FACE = Racket((0.6, 0.0, 1.3), ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
MODEL = RacketModel()
PLAIN = Hit(0.7, 0.8, (0.0, 0.0))


def test_a_still_racket_reflects_with_its_restitution():
    touching = BallState((0.61, MODEL.half_thickness + 0.0195, 1.28), (0.5, -3.0, 0.2), STILL)
    after = MODEL.struck(touching, FACE, FACE, PLAIN, BALL.radius)
    assert after is not None
    np.testing.assert_allclose(after.velocity, [0.8 * 0.5, 0.7 * 3.0, 0.8 * 0.2])
    assert after.position[1] == pytest.approx(MODEL.half_thickness + 0.02)
    assert MODEL.struck(after, FACE, FACE, PLAIN, BALL.radius) is None  # it leaves
    behind = MODEL.struck(
        touching._replace(position=(0.61, -0.02, 1.28), velocity=(0.0, 2.0, 0.0)),
        FACE,
        FACE,
        PLAIN,
        BALL.radius,
    )
    assert behind is not None
    assert behind.velocity[1] == pytest.approx(-1.4)


def test_a_moving_racket_adds_its_speed_and_a_turning_one_that_of_the_point():
    ball = BallState((0.6, 0.02, 1.35), (0.0, -2.0, 0.0), STILL)
    before = FACE._replace(position=(0.6, -0.001, 1.3))
    moved = MODEL.struck(ball, before, FACE, PLAIN, BALL.radius)
    assert moved is not None
    assert moved.velocity[1] == pytest.approx(2.0 + 0.7 * 4.0)
    angle = 2.0 * STEP  # 2 rad/s about x: the point 5 cm above the middle moves towards -y
    c, s = math.cos(angle), math.sin(angle)
    turning = Racket(FACE.position, ((1.0, 0.0, 0.0), (0.0, c, -s), (0.0, s, c)))
    turned = MODEL.struck(ball, turning, FACE, PLAIN, BALL.radius)
    assert turned is not None
    assert turned.velocity[1] == pytest.approx(-0.1 + 0.7 * 1.9, abs=2e-3)


def test_the_rim_pushes_aside_and_beyond_it_there_is_nothing():
    apart, normal = MODEL.gap((0.6, 0.1, 1.3), FACE, 0.02)
    assert apart == pytest.approx(0.1 - 0.02 - MODEL.half_thickness)
    assert normal == pytest.approx((0.0, 1.0, 0.0))
    apart, normal = MODEL.gap((0.6 + MODEL.half_width + 0.01, 0.01, 1.3), FACE, 0.02)
    assert apart < 0.0
    assert normal == pytest.approx((math.sqrt(0.5), math.sqrt(0.5), 0.0))
    assert MODEL.gap((0.6 + MODEL.half_width + 0.03, 0.0, 1.3), FACE, 0.02)[0] > 0.0


def test_nothing_passes_through():
    rng = np.random.default_rng(0)
    for _ in range(300):
        speed, phase = rng.uniform(0.5, 40.0), rng.uniform()
        racket_speed = rng.uniform(-5.0, 5.0)
        ball = BallState((0.6, 0.1 + phase * speed * STEP, 1.3), (0.0, -speed - 5.0, 0.0), STILL)
        place, hit = -0.03, False
        for _ in range(200):
            ball = ball._replace(position=(0.6, ball.position[1] + STEP * ball.velocity[1], 1.3))
            before = FACE._replace(position=(0.6, place, 1.3))
            place += racket_speed * STEP
            now = FACE._replace(position=(0.6, place, 1.3))
            if MODEL.struck(ball, before, now, PLAIN, BALL.radius) is not None:
                hit = True
                break
        assert hit


def test_the_hand_is_where_the_drawing_says_up_to_its_assembly():
    robot = Robot.load("pamy2")
    data = mujoco.MjData(robot.mj_model)
    exact = RacketModel(reach_spread=0.0, mount_spread=0.0)
    straight, crooked = (
        Hand(np.asarray(design().arm.offset), ROOM.base, m, seed=4) for m in (exact, MODEL)
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(-1.4, 1.4, 4)
        data.qpos[:] = q
        mujoco.mj_kinematics(robot.mj_model, data)
        site = data.site("racket")
        racket = straight.racket(q)
        np.testing.assert_allclose(racket.position, site.xpos + ROOM.base, atol=1e-9)
        np.testing.assert_allclose(np.array(racket.axes).T, site.xmat.reshape(3, 3), atol=1e-9)
        real = crooked.racket(q)
        assert 1e-5 < np.linalg.norm(np.subtract(real.position, racket.position)) < 0.01
        np.testing.assert_allclose(
            np.array(real.axes) @ np.array(real.axes).T, np.eye(3), atol=1e-9
        )
        assert 0.0 < math.acos(np.dot(real.axes[1], racket.axes[1])) < math.radians(2.0)
    half = FACE.towards(FACE._replace(position=(0.6, 0.1, 1.3)), 0.5)
    assert half.position[1] == pytest.approx(0.05)


# The gun


def test_a_trial_is_a_ball_and_balls_come_to_the_arm():
    gun = BallGun()
    assert gun.shot(3) == gun.shot(3) != gun.shot(4)
    arrivals = []
    for trial in range(25):
        ball, t = gun.shot(trial), 0.0
        while ball.position[1] > 0.0:
            ball, _ = ROOM.step(BALL, ball, STEP)
            t += STEP
        arrivals.append((t, ball.position[0], ball.position[2]))
    # Of the recorded balls: 0.970 +- 0.030 s, x 0.629 +- 0.069 m, z 1.350 +- 0.044 m.
    mean, spread = np.mean(arrivals, axis=0), np.std(arrivals, axis=0)
    assert (np.abs(mean - [0.970, 0.629, 1.350]) < [0.015, 0.04, 0.02]).all()
    assert (spread > [0.015, 0.03, 0.02]).all()
    assert (spread < [0.05, 0.12, 0.08]).all()


# The bench


def test_a_ball_that_nobody_hits_is_missed(bench):
    bench.reset()
    bench.launch(0)
    while bench.playing:
        bench.command(np.array([0.3, 0.0, 0.0, 0.0]))
    assert bench.outcome() is RallyOutcome.MISSED
    assert bench.landing() is None
    assert not bench.hit
    assert 1.2 < bench.time < 2.0


def test_the_documented_program_follows_a_ball_to_its_end(documented):
    assert documented["outcome"] is RallyOutcome.MISSED and documented["landing"] is None
    assert (
        documented["ball"].position[1] < 0.5 and not documented["ball"].hit
    )  # it came to the arm, and past it


def test_finish_flies_the_same_ball_and_the_arm_does_not_tick(bench):
    bench.reset()
    bench.launch(1)
    before = bench.read()
    assert bench.finish() is RallyOutcome.MISSED
    np.testing.assert_array_equal(bench.read(), before)
    end, time = bench._ball, bench.time
    bench.reset()
    bench.launch(1)
    while bench.playing:
        bench.command(np.array([-0.4, 0.0, 0.0, 0.0]))
    while time < bench.time:  # to the end of the tick
        end, time = ROOM.step(BALL, end, STEP, bench._luck)[0], time + STEP
    np.testing.assert_allclose(bench.ball_for_evaluation_only()[0], end.position, atol=1e-12)


def hit(
    bench: TennisBench,
    velocity: tuple[float, float, float],
    spin: tuple[float, float, float] = STILL,
) -> RallyOutcome:
    """Judge a ball that leaves the racket like this."""
    bench.reset()
    bench.launch(0)
    bench._ball, bench.hit = BallState((0.6, 0.0, 1.3), velocity, spin), True
    return bench.finish()


@pytest.mark.parametrize(
    ("velocity", "outcome"),
    [
        ((-0.2, 4.5, 1.0), RallyOutcome.SUCCESS),
        ((-0.2, 8.5, 2.0), RallyOutcome.TOO_LONG),
        ((-0.2, 2.0, 0.5), RallyOutcome.TOO_SHORT),
        ((-0.2, 5.0, -0.9), RallyOutcome.TOO_SHORT),  # into the net
        ((-0.2, -2.0, 0.5), RallyOutcome.TOO_SHORT),  # backwards
        ((2.5, 4.5, 1.5), RallyOutcome.SIDE),
    ],
)
def test_returns_are_judged_by_where_they_come_down_first(bench, velocity, outcome):
    assert hit(bench, velocity) is outcome
    landing = bench.landing()
    assert landing is not None
    assert landing[2] == pytest.approx(0.795)
    on_far_half = abs(landing[0] - 0.4) <= 0.7625 and 1.57 < landing[1] < 2.94
    assert on_far_half == (outcome is RallyOutcome.SUCCESS)


def test_spin_bends_the_return(bench):
    hit(bench, (0.0, 4.5, 1.5))
    plain = bench.landing()
    hit(bench, (0.0, 4.5, 1.5), (-150.0, 0.0, 0.0))  # topspin of a ball that flies along +y
    assert bench.landing()[1] < plain[1] - 0.1


def test_the_arm_hits_and_hits_vary_between_robots_alone(bench):
    """A ball is put right in front of the hanging racket."""
    ends = []
    for seed in (0, 0, 1):
        one = bench if seed == 0 else TennisBench(seed=seed)
        one.reset()
        one.launch(2)
        place, axes = np.array(one._racket.position), np.array(one._racket.axes).T
        one._ball = BallState(
            tuple((place + 0.1 * axes[:, 1]).tolist()), tuple((-5.0 * axes[:, 1]).tolist()), STILL
        )
        for _ in range(40):
            one.command(one.robot.u_rest)
        assert one.hit
        ends.append(np.dot(one.ball_for_evaluation_only()[1], axes[:, 1]))
    assert ends[0] == ends[1] != ends[2]
    assert 2.0 < min(ends) < max(ends) < 5.0


def test_refusals(bench):
    bench.reset()
    assert not bench.playing
    assert bench.outcome() is None
    with pytest.raises(SettingError, match="There is no ball: launch"):
        bench.ball_for_evaluation_only()
    with pytest.raises(SettingError, match="numbered from 0 on; got trial -1"):
        bench.launch(-1)
