"""The virtual ball-in-a-cup as a robot: what crosses its interface, and what it says became of a
trial."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from tests.docs.programs import run_block

from genan.errors import SettingError
from genan.robots.pamy2.pressures import bar_from_control
from genan.robots.pamy2.virtual.cup import cup_and_ball as toy
from genan.robots.pamy2.virtual.cup_bench import CupBench, CupOutcome
from genan.robots.pamy2.virtual.parameters import design
from genan.robots.pamy2.virtual.robot import VirtualPamy2Cup, on_the_bench

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """What the program in the documentation leaves; its bench serves all tests."""
    return run_block("virtual-pamy2.md", 0)


@pytest.fixture(scope="module")
def bench(documented: dict[str, Any]) -> CupBench:
    return documented["bench"]


def hold(bench: CupBench, ticks: int) -> None:
    for _ in range(ticks):
        bench.command(bench.robot.u_rest)


def put(
    bench: CupBench,
    way: list[tuple[float, float, float]],
    velocity: tuple[float, float, float] = (0, 0, 0),
) -> None:
    """Lay string and ball along ``way`` [m], given in the forearm's axes, the ball moving at
    ``velocity`` [m/s]."""
    model = bench.robot.mj_model
    data = mujoco.MjData(model)
    data.qpos[:] = bench.truth_for_evaluation_only()["q"]
    mujoco.mj_forward(model, data)
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "forearm")
    corners = (
        data.xpos[body] + np.array([(0.04, 0.0, 0.325), *way]) @ data.xmat[body].reshape(3, 3).T
    )
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1)))
    assert along[-1] < 0.2
    share = np.cumsum(toy(0).string.rest)
    points = np.stack(
        [np.interp(share / share[-1] * along[-1], along, column) for column in corners.T]
    )
    moving = np.zeros_like(points)
    moving[:, -1] = velocity
    with on_the_bench():
        state = dataclasses.replace(
            bench._toy_state,
            position=jnp.asarray(points),
            velocity=jnp.asarray(moving),
            spin=jnp.zeros(3),
        )
        bench._state = dataclasses.replace(bench._state, toy=state)


OVER_THE_RIM = [(0.041, 0.0, 0.372), (-0.042, 0.0, 0.372), (-0.042, 0.0, 0.368)]


def test_ball_hangs_still_below_the_cup(bench: CupBench) -> None:
    bench.reset()
    q = bench.read()
    position, velocity = bench.ball_for_evaluation_only()
    string = bench.string_for_evaluation_only()
    np.testing.assert_array_equal(string[-1], position)
    np.testing.assert_allclose(string[:, :2] - string[0, :2], 0.0, atol=1e-9)
    assert string[0, 2] - position[2] == pytest.approx(0.2, rel=0.02)
    np.testing.assert_array_equal(velocity, 0.0)
    hold(bench, 100)
    np.testing.assert_allclose(bench.ball_for_evaluation_only()[0], position, atol=1e-3)
    np.testing.assert_allclose(bench.read(), q, atol=np.radians(0.1))
    assert (
        bench.outcome() is CupOutcome.NEVER_IN and not bench.was_in_cup and bench.time_in_cup == 0.0
    )


def test_the_documented_program_reads_and_commands(
    documented: dict[str, Any], bench: CupBench
) -> None:
    np.testing.assert_array_equal(documented["pressures"], bar_from_control(bench.robot.u_rest))
    bench.reset(trial=3)
    np.testing.assert_array_equal(documented["q"], bench.read())


def test_trials_repeat_to_the_bit_and_differ_a_little(bench: CupBench) -> None:
    ends = []
    for trial in (1, 1, 2):
        bench.reset(trial)
        for tick in range(100):
            bench.command(0.3 * np.sin(0.04 * tick) * np.ones(4))
        ends.append(np.concatenate([bench.read(), *bench.ball_for_evaluation_only()]))
    np.testing.assert_array_equal(ends[0], ends[1])
    assert 1e-5 < np.abs(ends[0] - ends[2]).max() < 0.1


def test_ball_pulls_the_arm_down(bench: CupBench) -> None:
    """The arm without its ball hangs higher by about what the weight of the ball does to the
    joints' stiffness."""
    bench.reset()
    alone = VirtualPamy2Cup(seed=0)
    assert alone.robot.name == bench.robot.name == "pamy2-cup"
    lower = np.degrees(
        bench.truth_for_evaluation_only()["q"] - alone.truth_for_evaluation_only()["q"]
    )
    assert 0.2 < lower[1] + lower[2] < 10.0


def test_ball_that_falls_in_is_in_and_one_that_leaves_bounced_out(bench: CupBench) -> None:
    bench.reset()
    put(bench, [*OVER_THE_RIM, (-0.05, 0.0, 0.33)])
    hold(bench, 300)
    assert bench.outcome() is CupOutcome.IN_CUP and bench.was_in_cup
    assert 0.3 < bench.time_in_cup < 0.6
    put(bench, [*OVER_THE_RIM, (-0.03, 0.0, 0.33)], velocity=(1.0, 1.0, 3.0))
    hold(bench, 200)
    assert bench.outcome() is CupOutcome.BOUNCED_OUT
    bench.reset()
    assert (
        bench.outcome() is CupOutcome.NEVER_IN and not bench.was_in_cup and bench.time_in_cup == 0.0
    )


def test_string_over_the_forearm_is_wrapped(bench: CupBench) -> None:
    bench.reset()
    over = [(0.0, 0.02, 0.262), (-0.013, 0.0, 0.262), (0.0, -0.0135, 0.262), (0.06, -0.0135, 0.262)]
    put(bench, over)
    hold(bench, 50)
    assert bench.outcome() is CupOutcome.NEVER_IN  # not yet for long
    hold(bench, 250)
    assert bench.outcome() is CupOutcome.STRING_WRAPPED


def test_string_holds_when_the_arm_is_shaken(bench: CupBench) -> None:
    bench.reset(1)
    rest, speed, longest = toy(0).string.rest, 0.0, 0.0
    for tick in range(500):
        t = bench.dt * tick
        bench.command(
            np.array([0.4, 0.5, 0.5, 0.6]) * np.sin(2 * np.pi * np.array([1.3, 1.7, 2.1, 1.1]) * t)
        )
        string = bench.string_for_evaluation_only()
        longest = max(longest, float(np.linalg.norm(string[-1] - string[0])) / float(np.sum(rest)))
        speed = max(speed, float(np.linalg.norm(bench.ball_for_evaluation_only()[1])))
    assert speed > 3.0
    assert 0.99 < longest < 1.05


def test_refusals(bench: CupBench) -> None:
    with pytest.raises(SettingError, match="counted from 0, got trial -1"):
        bench.reset(-1)
    with pytest.raises(SettingError, match="Control 'u2' must lie in -1 to 1, got 1.5"):
        bench.command(np.array([0.0, 1.5, 0.0, 0.0]))
    with pytest.raises(SettingError, match="finite"):
        bench.command_pressures(np.full(8, np.nan))
    with pytest.raises(SettingError, match="no end effector 'spoon'; there are: 'racket', 'cup'"):
        design("spoon")
    with pytest.raises(SettingError, match="must not be negative"):
        CupBench(hours=-1.0)
