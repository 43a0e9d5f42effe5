"""A toy task: push a point to a goal in the plane."""

import equinox as eqx
import jax
import jax.numpy as jnp

from genan.tasks.task import StepOutcome

SPEED, NEAR = 0.2, 0.15


class Point(eqx.Module):
    envs: int = eqx.field(static=True, default=64)
    observation_size: int = eqx.field(static=True, default=4)
    action_size: int = eqx.field(static=True, default=2)
    horizon: int = eqx.field(static=True, default=16)

    def reset(self, key):
        places = jax.random.uniform(key, (self.envs, 4), minval=-1.0)
        return places, jnp.zeros(self.envs, jnp.int32)

    def observe(self, state):
        places, _ = state
        return jnp.concatenate([places[:, :2], places[:, 2:] - places[:, :2]], axis=-1)

    def step(self, state, action, *, key):
        places, time = state
        places = places.at[:, :2].add(SPEED * jnp.tanh(action))
        distance = jnp.linalg.norm(places[:, :2] - places[:, 2:], axis=-1)
        done = time + 1 >= self.horizon
        fresh, _ = self.reset(key)
        last = self.observe((places, time))
        state = jnp.where(done[:, None], fresh, places), jnp.where(done, 0, time + 1)
        success = (distance < NEAR).astype(float)
        outcome = StepOutcome(
            self.observe(state),
            last,
            -distance,
            {"distance": distance},
            done,
            done,
            success,
            {"error": distance},
        )
        return state, outcome
