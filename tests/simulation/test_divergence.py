import jax.numpy as jnp
import numpy as np
import pytest

from genan.errors import DataError
from genan.simulation import ArmState, SimulatorState
from genan.simulation.simulator import Divergence, HistoryBuffer, read_divergence, write_divergence


def states(value):
    q = jnp.arange(6.0).reshape(3, 2) + value
    return SimulatorState(ArmState(q, 10 * q), HistoryBuffer(q[:, None], q[:, None]), -q)


def test_the_first_state_that_runs_away_is_kept():
    fault = Divergence.none(states(0.0), 2)
    action = jnp.arange(6.0).reshape(3, 2)
    fault = fault.updated(states(0.0), action, jnp.array([True, True, True]))
    assert int(fault.count) == 0
    fault = fault.updated(states(100.0), action, jnp.array([True, False, False]))
    fault = fault.updated(states(200.0), action, jnp.array([False, True, True]))
    assert int(fault.count) == 3
    np.testing.assert_array_equal(fault.state.scene.q, [[102.0, 103.0]])
    np.testing.assert_array_equal(fault.action, [[2.0, 3.0]])


def test_it_is_written_and_read(tmp_path):
    fault = Divergence.none(states(0.0), 2).updated(
        states(7.0), jnp.ones((3, 2)), jnp.array([False, True, True])
    )
    write_divergence(fault, tmp_path / "fault.safetensors", task="reacher", steps=12)
    arrays, about = read_divergence(tmp_path / "fault.safetensors")
    assert about == {"count": 1, "task": "reacher", "steps": 12}
    np.testing.assert_array_equal(arrays["scene.q"], [[7.0, 8.0]])
    np.testing.assert_array_equal(arrays["action"], [[1.0, 1.0]])


def test_refusals(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        read_divergence(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DataError, match="does not hold the state"):
        read_divergence(tmp_path / "text")
