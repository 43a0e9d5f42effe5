"""The policy is the agent that it was made of, and fits nothing but its own task, robot and
rate."""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rl.policies import SETTINGS, TASK, agent, ensemble, environment, policy, robot

from genan.actuator import save as save_actuators
from genan.actuator.contract import KIND as ACTUATORS
from genan.data import Channels
from genan.rl.config import ACTIVATIONS
from genan.rl.contract import ObservationPart, PolicyContract, PolicyError
from genan.rl.policy import Policy, _words, actuator_fingerprint
from genan.robot import Robot
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.table_tennis import TableTennis


def observations(count: int = 7, reach: float = 3.0) -> np.ndarray:
    return np.random.default_rng(0).uniform(-reach, reach, (count, 8)).astype(np.float32)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scaled", [True, False])
def test_it_does_what_the_agent_does(activation: str, scaled: bool) -> None:
    settings = replace(SETTINGS, activation=activation, scale_observations=scaled)
    made, of = policy(settings), agent(settings)
    for reach in (3.0, 1000.0):
        x = observations(reach=reach)
        expected, _ = of.networks(of.observation_scaler.scale(jnp.asarray(x)), settings)
        np.testing.assert_allclose(made.mean(x), expected.mean, rtol=1e-5, atol=1e-5 * reach)
        np.testing.assert_allclose(made(x), 0.01 * np.tanh(made.mean(x)), rtol=1e-6)
    assert made.contract.clip == (5.0 if scaled else None)
    np.testing.assert_array_equal(made.log_std, of.networks.bounded(settings))


def test_leading_axes_are_batches_and_it_passes_through_jit() -> None:
    made, x = policy(), observations(6)
    whole = made(x)
    assert whole.shape == (6, 2) and made(x[0]).shape == (2,)
    np.testing.assert_allclose(made(x.reshape(2, 3, 8)).reshape(6, 2), whole, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(
        eqx.filter_jit(lambda p, o: p(o))(made, x), whole, rtol=1e-5, atol=1e-9
    )


def test_samples_spread_by_the_learnt_deviation() -> None:
    made = policy()
    x = np.repeat(observations(1), 20000, axis=0)
    drawn = np.arctanh(np.asarray(made.sample(x, key=jax.random.key(0)), np.float64) / 0.01)
    np.testing.assert_allclose(drawn.mean(axis=0), made.mean(x[0]), atol=0.01)
    np.testing.assert_allclose(drawn.std(axis=0), np.exp([-3.0, -1.0]), rtol=0.02)


def test_the_contract_says_what_it_was_trained_for() -> None:
    contract = policy().contract
    assert (contract.task, contract.robot, contract.dt, contract.action_repeat) == (
        "reacher",
        "two-link",
        0.002,
        5,
    )
    assert contract.rate == pytest.approx(100.0) and contract.action_scale == 0.01
    assert contract.joints == ("shoulder", "elbow") and contract.control_units == ("V", "V")
    assert contract.u_range == ((-12.0, 12.0), (-12.0, 12.0))
    assert contract.layout == (
        ObservationPart("q", 2, "joint positions [rad]"),
        ObservationPart("qd", 2, "joint velocities [rad/s]"),
        ObservationPart("u", 2, "controls that were commanded last [V]"),
        ObservationPart("goal", 2, "joint positions to reach [rad]"),
    )
    assert contract.constants == TASK.settings() and hash(contract)
    assert PolicyContract.from_settings(contract.settings()) == contract


def test_the_record_is_kept_and_added_to() -> None:
    made = policy().with_record(
        success={"learning_rate": np.float32(0.5), "error": float("nan")}, seeds=(1, 2)
    )
    record = made.record
    assert (
        record["success"] == {"learning_rate": 0.5, "error": None}
        and record["seeds"] == [1, 2]
        and record["steps"] == 1000
    )
    assert record["ppo"]["hidden"] == [16, 12] and "genan" in record["versions"]


def test_the_fingerprint_is_that_of_the_actuators_artifact(tmp_path: Path) -> None:
    sha = ACTUATORS.read_contract(save_actuators(ensemble(), tmp_path / "fit"))["weights_sha256"]
    assert actuator_fingerprint(ensemble()) == sha == policy().contract.actuators_sha256
    assert policy().was_trained_on(ensemble()) and not policy().was_trained_on(ensemble("pamy2"))


def test_the_shape_of_an_observation() -> None:
    words = r"^An observation must have the shape \[..., 8\] \(q 2, qd 2, u 2, goal 2\), not \[3, 7"
    with pytest.raises(PolicyError, match=words):
        policy()(np.zeros((3, 7), np.float32))


def contract_with(**changes: object) -> Policy:
    made = policy()
    return Policy(
        replace(made.contract, **changes),
        made.layers,
        made.scale_mean,
        made.scale_std,
        made.log_std,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "table-tennis"}, r"trained for the task 'table-tennis', not for 'reacher'\.$"),
        (
            {
                "layout": (
                    ObservationPart("qd", 2),
                    ObservationPart("q", 2),
                    ObservationPart("u", 2),
                    ObservationPart("goal", 2),
                )
            },
            r"of qd 2, q 2, u 2, goal 2 in this order and the environment gives q 2, qd",
        ),
        (
            {"action_scale": 0.02},
            r"by up to 0\.02 in a period .* has 0\.01; give --task\.action-scale 0\.02\.$",
        ),
        (
            {"dt": 0.004},
            r"^Two rates: .* at 50 Hz \(5 periods of 0\.004 s\) and the environment runs at 100 Hz",
        ),
        (
            {"action_repeat": 1},
            r"^Two rates: .* at 500 Hz \(1 periods? of 0\.002 s\) and .* runs at 100 Hz",
        ),
        (
            {"controls": ("a", "b")},
            r"for the controls 'a', 'b' in this order and the environment has 'shoulder_comm",
        ),
        (
            {"control_units": ("V", "bar")},
            r"for the control units 'V', 'bar' in this order and the environment has",
        ),
        (
            {"joints": ("elbow", "shoulder")},
            r"for the joints 'elbow', 'shoulder' in this order and the environment",
        ),
        (
            {"u_range": ((-12.0, 12.0), (0.0, 5.0))},
            r"control 'elbow_command' from 0 to 5 and the environment has it from -12 to 12; use",
        ),
    ],
)
def test_another_environment_is_refused_by_name(changes: dict, words: str) -> None:
    policy().check_environment(environment())
    with pytest.raises(PolicyError, match=words):
        contract_with(**changes).check_environment(environment())


def test_another_robot_is_refused_by_name() -> None:
    policy().contract.check_robot(robot())
    with pytest.raises(
        PolicyError, match=r"for the joints 'shoulder', 'elbow' .* robot 'pamy2' has 'q1', 'q2'"
    ):
        policy().contract.check_robot(Robot.load("pamy2"))
    with pytest.raises(PolicyError, match="use a policy trained for it"):
        Policy.of(agent(), environment(), robot("pamy2"), SETTINGS, record={})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dt": 0.0}, r"contract: The setting dt must be a positive number, not 0\.$"),
        ({"action_scale": float("inf")}, "action_scale must be a positive number, not inf"),
        ({"clip": -1.0}, "clip must be a positive number"),
        ({"action_repeat": 0}, "action_repeat must be at least 1, not 0"),
        ({"activation": "gelu"}, "no activation 'gelu'; there are: 'leaky_relu', 'elu', 'tanh'"),
        ({"hidden": (0,)}, r"1 or more entries, not \[0, "),
        (
            {"layout": (ObservationPart("q", 4), ObservationPart("q", 4))},
            "different names, not 'q', 'q'",
        ),
        ({"u_range": ()}, "needs a unit and a range for every control"),
    ],
)
def test_a_contract_that_cannot_be(changes: dict, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        contract_with(**changes)


def test_every_part_of_the_tasks_has_words() -> None:
    channels = Channels.of_robot(robot())
    for task in (BallInACup, TableTennis):
        names = {name for name, _ in task.layout}
        assert (
            names
            <= _words(
                {BallInACup: "ball-in-a-cup", TableTennis: "table-tennis"}[task], channels
            ).keys()
        )
