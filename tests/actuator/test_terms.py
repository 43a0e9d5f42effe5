import json
from dataclasses import replace

import numpy as np
import pytest
from tests.actuator.ensembles import make

from genan.actuator import Contract
from genan.actuator.settings import History, Servo, Terms
from genan.errors import SettingError


def kept(terms: Terms) -> Terms:
    """As they come back from a file."""
    contract = replace(make().contract, history=History(1, terms=terms))
    return Contract.from_settings(json.loads(json.dumps(contract.settings()))).history.terms


def of_terms(terms: Terms, q: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The inputs besides the history."""
    history = History(q.shape[-2] - 1, terms=terms)
    return history.features(q, u)[..., history.rows * (q.shape[-1] + u.shape[-1]) :]


def test_the_terms_are_what_they_say() -> None:
    terms = Terms(friction=((0.1,), (0.5,)), turning=(0, 1), products=(2, 1))
    q, u = np.array([[0.3, -0.2], [0.4, 0.1]]), np.array([[1.0], [3.0]])
    found = of_terms(terms, q, u)
    s, c = np.sin(q[1]), np.cos(q[1])
    expected = [
        np.tanh(1.0),
        np.tanh(0.6),
        *s,
        *c,
        s[0] * s[1],
        s[0] * c[1],
        c[0] * s[1],
        c[0] * c[1],
        1.2,
        0.3,
        9.0,
    ]
    np.testing.assert_allclose(found, expected)
    assert kept(terms) == terms


def test_a_planar_pairs_gravity_is_linear_in_them() -> None:
    """sin(q1 + q2), the weight of the second link of a pendulum of two, is made of the products."""
    q = np.random.default_rng(0).normal(size=(50, 1, 2))
    features = of_terms(Terms(turning=(0, 1)), q, q)
    weight = np.stack([np.sin(q[:, 0].sum(axis=-1)), np.cos(q[:, 0].sum(axis=-1))], axis=1)
    left = weight - features @ np.linalg.lstsq(features, weight, rcond=None)[0]
    assert np.abs(left).max() < 1e-10


def test_a_servo_pulls_to_its_goal_by_its_gains_if_it_is_on() -> None:
    terms = Terms(servos=(Servo(1, 0, (1,), (2, 3)), Servo(0, 0, (), (3,))))
    q, u = np.array([[9.0, 9.0], [0.5, 0.2]]), np.array([[9.0] * 4, [0.6, 1.0, 200.0, 3.0]])
    found = of_terms(terms, q, u)
    np.testing.assert_allclose(found, [0.4, 80.0, 1.2, 0.3])
    off = of_terms(terms, q, u * [1.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(off, [0.0, 0.0, 0.0, 0.3])
    assert History(0, terms=terms).inputs(2, 4) == 10 and kept(terms) == terms


def test_stiction_holds_against_weight_and_drive_while_a_joint_stands() -> None:
    servo = Servo(0, 0, (1,), ())
    terms = Terms(turning=(0,), products=(2, 2), servos=(servo,), standing=((0, 0.1), (1, 0.2)))
    q, u = np.array([[0.4, 0.3], [0.5, 0.3]]), np.array([[9.0, 9.0], [0.7, 1.0]])
    found = of_terms(terms, q, u)
    slow = np.exp(-1.0)
    np.testing.assert_allclose(
        found[-5:], [slow * np.sin(0.5), slow * np.cos(0.5), slow * 0.2, 0.7, 1.0]
    )
    assert kept(terms) == terms
    moving = of_terms(terms, q - [[1.0, 1.0], [0.0, 0.0]], u)
    np.testing.assert_allclose(moving[-5:], 0.0, atol=1e-10)
    np.testing.assert_allclose(moving[:-5], found[:-5])
    with pytest.raises(SettingError, match="needs the number of controls"):
        Terms(standing=((0, 0.1),))


def test_a_servo_without_switch_and_gain_is_refused() -> None:
    with pytest.raises(SettingError, match="linear in the history"):
        Servo(0, 0)


def test_no_terms_are_nothing() -> None:
    assert not Terms() and History(3).inputs(2, 3) == 20


@pytest.mark.parametrize(
    "wrong", [{"friction": ((0.1,), (0.1, 0.2))}, {"friction": ((0.0,),)}, {"turning": (1, 0)}]
)
def test_impossible_terms_are_refused(wrong: dict) -> None:
    with pytest.raises(SettingError):
        Terms(**wrong)


def test_friction_needs_a_velocity() -> None:
    with pytest.raises(SettingError, match="history of length 0 has none"):
        History(0, terms=Terms(friction=((0.1,),)))
