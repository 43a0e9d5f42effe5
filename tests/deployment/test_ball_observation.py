"""What a policy observes of the ball on a robot is what it observed in the simulator, for the same
motion."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.deployment.ball_tracking import (
    BallTracker,
    NumpyBallFilter,
    Rally,
    Sighting,
    TrackedBall,
)
from genan.deployment.controller import TaskObservation
from genan.errors import SettingError
from genan.robot import Robot
from genan.simulation.cup_scene import CupState
from genan.simulation.simulator import ArmScene, ArmState, Tip
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.bundled import BallInACupSettings, TableTennisSettings
from genan.tasks.table_tennis import RallyScene, TableTennis

pytestmark = pytest.mark.slow

CUP, RACKET = Robot.load("pamy2-cup"), Robot.load("pamy2")
DT, REPEAT, STEPS = 0.002, 5, 20
TIMES = DT * np.arange(STEPS * REPEAT + 1)
U = np.zeros(4)


def joints(time: float) -> np.ndarray:
    """An arm that swings."""
    return np.array([0.3, 0.6, 0.2, -0.1]) + 0.4 * np.sin(np.array([3.0, 4.0, 5.0, 6.0]) * time)


class Exact:
    """A tracker without error or delay, with a frame at each step of the policy; it may be blind
    for a while."""

    def __init__(self, ball, blind: tuple[float, float] = (9.0, 9.0)) -> None:
        self.ball, self.blind = ball, blind

    def measurements(self, now: float) -> list[Sighting]:
        hidden = round(now / DT) % REPEAT or self.blind[0] <= now < self.blind[1]
        return [] if hidden else [Sighting(now, self.ball(now))]


def observed(task: TaskObservation, start: float = 0.0) -> list[np.ndarray]:
    """What the policy sees at its steps, as a control loop asks."""
    found = []
    for k, time in enumerate(start + TIMES):
        if k == 0:
            task.watch(time, joints(time))
            task.begin(time, joints(time))
        else:
            task.update(time, joints(time), U)
        if k % REPEAT == 0:
            found.append(np.concatenate([np.atleast_1d(part) for part in task.parts().values()]))
    return found


@pytest.mark.parametrize("blind", [(9.0, 9.0), (0.075, 0.105)])
def test_the_cups_ball_is_observed_as_in_the_simulator(blind: tuple[float, float]) -> None:
    swing = lambda t: np.array([0.3 + 0.2 * np.sin(7.0 * t), 0.1 * np.cos(5.0 * t), 0.4 + 0.3 * t])
    task = BallInACup.load(CUP, replace(BallInACupSettings(), noise=0.0, dropout=0.0))
    update, key = (
        jax.jit(lambda scene, memory: task.update(scene, memory, key=key)),
        jax.random.key(0),
    )
    later = jax.jit(
        lambda memory: memory.buffer.later(
            task.period, memory.buffer.positions[:, -1], jnp.zeros(1, bool)
        )
    )
    row = lambda a: jnp.asarray(a[None], jnp.float32)
    expected, memory = [], task.begin(ArmState(row(joints(0.0)), row(U)), key=key)[1]
    for time in TIMES[::REPEAT].tolist():
        scene = CupState(
            row(np.concatenate([joints(time), swing(time)])), jnp.zeros((1, 7)), None, None
        )
        if not expected:  # the buffer begins with the first position
            first = jax.vmap(task.scene.ball_in_cup_frame)(scene)
            positions = jnp.repeat(first[:, None], task.settings.buffer, axis=1)
            memory = replace(memory, buffer=replace(memory.buffer, positions=positions))
        elif blind[0] <= time < blind[1]:
            memory = replace(memory, buffer=later(memory))
        else:
            memory = update(scene, memory)
        expected.append(np.asarray(task.observe(scene, memory))[0])
    found = observed(
        TrackedBall(Exact(swing, blind), CUP, buffer=task.settings.buffer, repeat=REPEAT)
    )
    for k, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        # While nothing is seen, the simulator's ball stays; on the robot its last position is taken
        # on.
        unseen = blind[0] <= TIMES[k * REPEAT] < blind[1]
        np.testing.assert_allclose(mine[3:], theirs[3:], atol=2e-3)
        np.testing.assert_allclose(
            mine[:3], theirs[:3], atol=0.02 * np.linalg.norm(mine[3:]) if unseen else 1e-5
        )


def test_the_rally_is_observed_as_in_the_simulator() -> None:
    launcher = replace(Launcher.load(), noise=0.0, camera_period=0.0)
    balls = launcher.sample_balls(1, key=jax.random.key(3))
    scene = RallyScene(ArmScene.load(RACKET), Tip.read(RACKET), balls, launcher.air)
    task = TableTennis(TableTennisSettings(), scene)
    path = np.asarray(balls.positions)[0]

    @jax.jit
    def observe(before, q, clock):
        rally = scene.start(ArmState(q, jnp.zeros(4)), jnp.zeros((), jnp.int32))
        moved = (
            rally.racket.position
            - scene.start(ArmState(before, jnp.zeros(4)), rally.flight).racket.position
        )
        rally = replace(rally, racket_velocity=moved / DT, clock=clock)
        memory = task.begin(ArmState(q[None], q[None]), key=jax.random.key(0))[1]
        return task.observe(jax.tree.map(lambda a: a[None], rally), memory)[0]

    start = 2.0  # the robot's clock does not begin with the ball
    ball = lambda now: path[round((now - start) / DT)]
    tracker = BallTracker(Exact(ball), NumpyBallFilter.load(), delay=0.0, period=0.01)
    rally = Rally(tracker, RACKET, repeat=REPEAT)
    with pytest.raises(SettingError, match="has not seen the ball"):
        rally.begin(0.0, joints(0.0))
    assert rally.ball is None
    found = observed(rally, start)
    assert rally.ball is not None
    for k, mine in enumerate(found):
        time = start + TIMES[k * REPEAT]
        theirs = np.array(
            observe(*(jnp.asarray(joints(t)) for t in (time - DT, time)), jnp.int32(k * REPEAT))
        )
        if k == 0:  # no step lies behind it
            theirs[9:12] = 0.0
        np.testing.assert_allclose(mine, theirs, atol=2e-3)


def test_a_ball_that_was_never_seen_is_no_start() -> None:
    task = TrackedBall(Exact(lambda now: np.zeros(3), blind=(0.0, 9.0)), CUP)
    task.watch(0.0, joints(0.0))
    with pytest.raises(SettingError, match="has not seen the ball"):
        task.begin(0.0, joints(0.0))
    with pytest.raises(SettingError, match="at least 2"):
        TrackedBall(Exact(lambda now: np.zeros(3)), CUP, buffer=1)
