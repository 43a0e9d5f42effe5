"""Both engines against MuJoCo C on 1000 random states of each robot."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.dynamics.conftest import TREES, robot_params

from genan.dynamics import Dynamics, load_dynamics
from genan.robot import Robot, robot_names

#: What "agrees" means in each precision.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}

#: MJX takes 3 to 9 s to compile, so it is asked on the smallest robot, on PAMY2 and on one tree
#: that has every feature, and in float32 on one robot with a hinge and a slide.
MJX_ROBOTS = {"float64": ("pamy2", "pendulum", "tree-7"), "float32": ("carriage",)}

#: The equations are shown right in float64, on every robot; the precision makes a difference of
#: rounding, which the bundled robots and the largest tree show.
CHAIN_ROBOTS = {"float64": [*robot_names(), *TREES], "float32": [*robot_names(), "tree-7"]}


def evaluate(dynamics: Dynamics) -> Callable[..., dict[str, jax.Array]]:
    """All of the engine's answers in one compiled function."""

    def answers(q: jax.Array, qd: jax.Array, tau: jax.Array) -> dict[str, jax.Array]:
        return {
            "mass": dynamics.mass_matrix(q),
            "bias": dynamics.bias(q, qd),
            "passive": dynamics.passive(q, qd),
            "acceleration": dynamics.acceleration(q, qd, tau),
            "inverse": dynamics.inverse(q, qd, tau),
        }

    return jax.jit(jax.vmap(answers))


def relative_error(name: str, got: np.ndarray, expected: np.ndarray, mass: np.ndarray) -> float:
    """Largest error over the states, relative to the reference at the same state.

    For a vector, the largest error over the joints beside the largest entry. For the mass matrix
    every entry is held to its own scale, the geometric mean of its two diagonal entries: a wrist's
    inertia is 1e-4 of the shoulder's and must be right too.
    """
    error = np.abs(got - expected)
    if name == "mass":
        diagonal = np.sqrt(np.einsum("kii->ki", mass))
        return float(np.max(error / diagonal[:, :, None] / diagonal[:, None, :]))
    scale = np.max(np.abs(expected), axis=1)
    # Without springs and dampers the passive force is 0, and must be exactly that.
    return float(
        np.max(
            np.divide(
                error.max(axis=1),
                scale,
                out=np.where(error.max(axis=1) > 0, np.inf, 0.0),
                where=scale > 0,
            )
        )
    )


def assert_agrees(robot: Robot, reference: Any, engine: str, dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        states = [jnp.asarray(x, dtype) for x in (reference.q, reference.qd, reference.tau)]
        answers = evaluate(load_dynamics(robot, engine=engine))(*states)
    for name, got in answers.items():
        assert got.dtype == dtype
        error = relative_error(
            name, np.asarray(got, np.float64), getattr(reference, name), reference.mass
        )
        assert error < TOLERANCE[dtype], (
            f"{name} of {robot.name} by {engine} in {dtype}: {error:.1e}"
        )


@pytest.mark.parametrize(
    ("robot", "dtype"),
    [
        pytest.param(*param.values, dtype, marks=param.marks)
        for dtype, names in CHAIN_ROBOTS.items()
        for param in robot_params(names)
    ],
    indirect=["robot"],
)
def test_the_chain_agrees_with_mujoco_c(robot: Robot, reference: Any, dtype: str) -> None:
    assert_agrees(robot, reference, "chain", dtype)


@pytest.mark.parametrize(
    ("robot", "dtype"),
    [
        pytest.param(name, dtype, marks=pytest.mark.slow if name != "pendulum" else [])
        for dtype, names in MJX_ROBOTS.items()
        for name in names
    ],
    indirect=["robot"],
)
def test_mjx_agrees_with_mujoco_c(robot: Robot, reference: Any, dtype: str) -> None:
    assert_agrees(robot, reference, "mjx", dtype)
