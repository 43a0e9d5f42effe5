"""A few numbers that all of genan stands on, to compare compilers: ``python users_numbers.py
OUT.npz``."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from genan.actuator import Ensemble
from genan.actuator import ensemble as artifact
from genan.dynamics import load_dynamics
from genan.jax_setup import check_sums
from genan.robot import Robot
from genan.robot.package import bundled_actuators

SAMPLES = 4000  # with a few hundred the wrong sums of jax-ml/jax#39103 do not show


def numbers() -> dict[str, np.ndarray]:
    """Torques and next positions by the bundled ensemble, each member's loss over all samples, and
    its gradient."""
    check_sums()
    dynamics = load_dynamics(Robot.load("pamy2"))
    ensemble = artifact.load(bundled_actuators("pamy2"))
    rng = np.random.default_rng(0)
    rows = ensemble.contract.history.rows
    q, u = (jnp.asarray(rng.uniform(-0.5, 0.5, (SAMPLES, rows, 4)), jnp.float32) for _ in range(2))

    def losses(ensemble: Ensemble) -> tuple[jax.Array, dict[str, jax.Array]]:
        torques = ensemble.torques(q, u)
        step = jax.vmap(jax.vmap(dynamics.step), in_axes=(None, None, 0))
        positions, speeds = step(q[:, -1], jnp.zeros_like(q[:, -1]), torques)
        loss = jnp.mean(jnp.sum((speeds / 10.0) ** 2, axis=-1), axis=-1)
        return jnp.sum(loss), {"torques": torques, "positions": positions, "loss": loss}

    gradient, found = jax.jit(jax.grad(losses, has_aux=True))(ensemble)
    return {
        name: np.asarray(x) for name, x in (found | {"gradient": gradient.layers[0].weight}).items()
    }


if __name__ == "__main__":
    np.savez(sys.argv[1], **numbers())
