import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.ensembles import TERMS

from genan.actuator.dataset import usable_rows
from genan.actuator.ensemble import Window
from genan.actuator.settings import History
from genan.errors import SettingError


def test_delta_history_is_the_papers() -> None:
    """(x_t, x_{t-s} - x_t, ..., x_{t-sH} - x_t), first those of q, then those of u."""
    q, u = np.arange(8.0).reshape(4, 2) ** 2, np.arange(4.0)[:, None] * 10
    found = np.asarray(History(3).features(jnp.asarray(q), jnp.asarray(u), jnp))
    expected = [*q[3], *(q[2] - q[3]), *(q[1] - q[3]), *(q[0] - q[3]), 30, -10, -20, -30]
    np.testing.assert_allclose(found, expected)


def test_plain_history_and_no_history() -> None:
    q, u = jnp.asarray([[1.0], [2.0]]), jnp.asarray([[5.0], [7.0]])
    assert History(1, delta=False).features(q, u).tolist() == [2, 1, 7, 5]
    assert History(0).features(q[-1:], u[-1:]).tolist() == [2, 7]


@pytest.mark.parametrize(("length", "stride"), [(0, 1), (1, 1), (3, 1), (3, 4), (10, 2)])
def test_sizes_and_lags(length: int, stride: int) -> None:
    history = History(length, stride)
    assert list(history.lags) == [stride * k for k in range(length, -1, -1)]
    assert history.inputs(4, 8) == (length + 1) * 12
    assert history.span == length * stride and history.rows == length + 1


def test_window_holds_every_stride_th_sample() -> None:
    window = Window(History(2, 3), *jnp.zeros((2, 7, 1)))
    for k in range(1, 11):
        window = window.push(jnp.asarray([1.0 * k]), jnp.asarray([-1.0 * k]))
    assert window.q_history.ravel().tolist() == [4, 7, 10]
    assert window.u_history.ravel().tolist() == [-4, -7, -10]


def test_a_delay_shifts_the_controls_alone() -> None:
    history = History(2, 3, delay=2)
    assert list(history.lags) == [6, 3, 0]
    window = Window(history, jnp.zeros((7, 1)), jnp.zeros((9, 1)))
    for k in range(1, 13):
        window = window.push(jnp.asarray([1.0 * k]), jnp.asarray([-1.0 * k]))
    assert window.q_history.ravel().tolist() == [6, 9, 12]
    assert window.u_history.ravel().tolist() == [-4, -7, -10]
    assert usable_rows(np.array([12]), history)[0].tolist() == [8, 9, 10]


@pytest.mark.parametrize(
    "history", [History(3), History(2, delta=False), History(0), History(2, terms=TERMS)]
)
def test_many_at_once_are_the_same_as_one_by_one(history: History) -> None:
    rng = np.random.default_rng(1)
    q, u = rng.normal(size=(7, history.rows, 3)), rng.normal(size=(7, history.rows, 5))
    many = history.features(q, u)
    assert many.shape == (7, history.inputs(3, 5))
    for k in range(7):
        one = history.features(jnp.asarray(q[k]), jnp.asarray(u[k]), jnp)
        np.testing.assert_allclose(many[k], np.asarray(one), atol=1e-6)


def test_usable_rows_never_cross_a_boundary() -> None:
    rows = usable_rows(np.array([10, 4, 12]), History(2, 2), rollout=3)
    assert [part.tolist() for part in rows] == [[4, 5, 6], [], [18, 19, 20, 21, 22]]
    assert usable_rows(np.array([5]), History(0))[0].tolist() == [
        1,
        2,
        3,
    ]  # a velocity needs the row before


@pytest.mark.parametrize(("length", "stride"), [(-1, 1), (3, 0)])
def test_impossible_histories_are_refused(length: int, stride: int) -> None:
    with pytest.raises(SettingError, match="must be"):
        History(length, stride)
