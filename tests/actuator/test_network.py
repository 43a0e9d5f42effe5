import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator.ensemble import apply, initialise
from genan.actuator.settings import Architecture

LAYERS = initialise(Architecture((64, 64), "tanh"), 6, 3, key=jax.random.key(0))


def squares(layers, x, precision):
    return jnp.mean(apply(layers, x, activation="tanh", precision=precision) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [(), (40,), (5, 8)])
def test_bfloat16_gives_the_output_and_the_gradient_of_float32_within_its_rounding(batch):
    x = jax.random.normal(jax.random.key(1), (*batch, 6))
    exact, short = (
        jax.value_and_grad(squares, argnums=(0, 1))(LAYERS, x, p) for p in ("float32", "bfloat16")
    )
    for a, b in zip(jax.tree.leaves(exact), jax.tree.leaves(short), strict=True):
        assert a.dtype == b.dtype == jnp.float32
        assert np.linalg.norm(a - b) <= 0.02 * np.linalg.norm(a)


@pytest.mark.slow
def test_the_gradient_of_float32_equals_finite_differences():
    x = jax.random.normal(jax.random.key(1), (40, 6))
    with jax.enable_x64(True):
        layers = jax.tree.map(lambda a: a.astype(jnp.float64), LAYERS)
        gradient = jax.grad(squares)(layers, x.astype(jnp.float64), "float32")
        direction = jax.tree.map(
            lambda a: jax.random.normal(jax.random.key(2), a.shape, jnp.float64), layers
        )

        def at(h):
            moved = jax.tree.map(lambda a, d: a + h * d, layers, direction)
            return squares(moved, x.astype(jnp.float64), "float32")

        slope = sum(
            jnp.vdot(a, d)
            for a, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True)
        )
        assert float((at(1e-5) - at(-1e-5)) / 2e-5) == pytest.approx(float(slope), rel=1e-6)
