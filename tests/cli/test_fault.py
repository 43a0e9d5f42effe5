from pathlib import Path

import jax.numpy as jnp
import pytest

from genan.simulation import ArmState, SimulatorState
from genan.simulation.cup_scene import CupState
from genan.simulation.simulator import Divergence, HistoryBuffer, write_divergence


def fault(scene: object) -> Divergence:
    q = jnp.array([[0.5, 1.0]])
    past = HistoryBuffer(jnp.stack([q - 0.2, q - 0.1], axis=1), jnp.full((1, 2, 3), 0.25))
    state = SimulatorState(scene, past, jnp.full((1, 3), 0.75))
    return Divergence(jnp.array(2, jnp.int32), state, jnp.array([[0.1, -0.2, 0.3]]))


ARM = ArmState(jnp.array([[0.5, 1.0]]), jnp.array([[0.0, -7.0]]))


def test_a_fault_is_shown(genan, tmp_path: Path) -> None:
    path = tmp_path / "fault.safetensors"
    write_divergence(fault(ARM), path, task="reacher", steps=1000)
    out = genan("fault", path).out
    assert "2 episodes ran away" in out and "task: reacher" in out and "steps: 1000" in out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith(("-2", "-1", "0"))]
    assert rows == [
        ["-2", "17.19", "45.84", "0.25", "0.25", "0.25"],
        ["-1", "22.92", "51.57", "0.25", "0.25", "0.25"],
        ["0", "28.65", "57.3", "0.75", "0.75", "0.75"],
    ]
    assert (
        "velocities [deg/s]: 0  -401.1" in out
        and "action (before squashing): 0.1  -0.2  0.3" in out
    )
    assert "All numbers are finite before the step; the largest is scene.qd[1] is -7." in out


def test_what_is_not_finite_is_named(genan, tmp_path: Path) -> None:
    path = tmp_path / "fault.safetensors"
    ball = jnp.array([[0.5, 1.0, 0.1, jnp.nan, 0.3]])
    write_divergence(fault(CupState(ball, 0.0 * ball[:, :5])), path)
    out = genan("fault", path).out
    assert "Not finite: scene.qpos[3] is nan." in out and "ball position [m]: 0.1  nan  0.3" in out


def test_other_files_are_refused(refused, tmp_path: Path) -> None:
    assert "There is no file" in refused("fault", tmp_path / "nothing")
    (tmp_path / "text").write_text("no fault")
    assert "does not hold the state" in refused("fault", tmp_path / "text")
    write_divergence(fault(jnp.ones((1, 2))), tmp_path / "odd")
    assert "holds no joint positions" in refused("fault", tmp_path / "odd")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
