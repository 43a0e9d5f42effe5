"""Where episodes start: robots that have come to rest under a random control, kept in a pool.

Settling a robot takes as long as half an episode, so it is not done for every episode: the pool
holds settled robots, episodes start from one of them at random, and now and then some are replaced.

A robot with hysteresis rests where its past left it, so there are two kinds. *Dropped*: put at the
intermediate pose of the paper and held under the initial control for a second, as the paper does in
simulation. *Ramped*: at rest under the rest control, which then goes linearly to the initial one
over two seconds, as the paper does on the robot.
"""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from genan.actuator.network import pick_rows
from genan.errors import SettingError
from genan.simulation.simulator import ArmScene, ArmState, HistoryBuffer, Simulator, SimulatorState


class Starts(eqx.Module):
    """Settled robots."""

    arm: ArmState  # Positions and velocities.
    past: HistoryBuffer
    u: Float[Array, "pool nu"]  # Controls that they rest under.
    oldest: Int[Array, ""]  # The robot to replace next.

    def __len__(self) -> int:
        """Number of robots."""
        return self.u.shape[0]

    def draw(self, count: int, *, key: PRNGKeyArray) -> tuple[ArmState, HistoryBuffer, Array]:
        """``count`` of them at random: arms, their past, and controls [count, nu]."""
        picked = jax.random.randint(key, (count,), 0, len(self))
        arm, past, u = jax.tree.map(lambda a: a[picked], (self.arm, self.past, self.u))
        return arm, past, u

    def replaced(self, fresh: "Starts") -> "Starts":
        """With ``fresh`` in the place of the oldest ones."""
        at, oldest = self.oldest + jnp.arange(len(fresh)), self.oldest + len(fresh)
        moved = eqx.tree_at(lambda starts: starts.oldest, fresh, oldest % len(self))
        put = lambda old, new: old.at[at % len(self)].set(new) if old.ndim else new
        return jax.tree.map(put, self, moved)


@dataclass(frozen=True)
class Settling:
    """How robots are brought to rest before an episode."""

    u_lower: tuple[float, ...]
    u_upper: tuple[
        float, ...
    ]  # The initial controls are drawn from here, uniformly (paper: u_init).
    q: tuple[float, ...]  # A robot is dropped from here [rad or m] (paper: 0, 45, 45, 0 degrees).
    u_rest: tuple[float, ...]  # Control that a ramp starts from.
    hold: int = 500  # Steps a dropped robot is held, and one at rest before its ramp (paper: 500).
    ramp: int = 1000  # Steps of a ramp (paper: 2 s at 500 Hz).
    ramped: float = 0.5  # Part of the robots that are ramped instead of dropped.

    def __post_init__(self) -> None:
        if not len(self.u_lower) == len(self.u_upper) == len(self.u_rest):
            raise SettingError("u_lower, u_upper and u_rest must have one entry per control.")
        if not all(low <= high for low, high in zip(self.u_lower, self.u_upper, strict=True)):
            raise SettingError(f"u_lower {self.u_lower} must not be above u_upper {self.u_upper}.")
        if self.hold < 1 or self.ramp < 1 or not 0.0 <= self.ramped <= 1.0:
            raise SettingError(
                "Holding and ramping take at least one step and the ramped part lies from 0 to 1, "
                f"not {self.hold}, {self.ramp} and {self.ramped:g}."
            )


@final
class Settler(eqx.Module):
    """Brings robots to rest: the arm alone, whatever else the scene will hold."""

    simulator: Simulator
    settling: Settling = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.simulator.scene, ArmScene):
            raise SettingError("Robots are settled in the scene of the bare arm.")

    def settle(self, count: int, *, key: PRNGKeyArray) -> Starts:
        """``count`` robots at rest; the first ones are dropped, the others ramped."""
        draw, key = jax.random.split(key)
        settling = self.settling
        lower, upper = np.asarray(settling.u_lower), np.asarray(settling.u_upper)
        u = jax.random.uniform(draw, (count, len(lower)), minval=lower, maxval=upper)
        rest = jnp.broadcast_to(jnp.asarray(settling.u_rest, u.dtype), u.shape)
        ramped = (jnp.arange(count) >= count - round(settling.ramped * count))[:, None]
        steps = settling.hold + (settling.ramp if settling.ramped else 0)
        seeds = jax.random.bits(key, (steps, 2))
        dropped, start = self._at_pose(u), self._at_pose(jnp.where(ramped, rest, u))

        def step(state: SimulatorState, at: tuple[Array, Array]) -> tuple[SimulatorState, None]:
            index, seed = at
            # All share one program: a dropped robot is dropped when ``hold`` steps are left.
            state = pick_rows(~ramped & (index == steps - settling.hold), dropped, state)
            share = jnp.clip((index + 1 - settling.hold) / settling.ramp, 0.0, 1.0).astype(u.dtype)
            control = jnp.where(ramped, rest + share * (u - rest), u)
            return self.simulator.step(state, control, seed=seed), None

        end, _ = jax.lax.scan(step, start, (jnp.arange(steps), seeds))
        return Starts(end.scene, end.past, end.u, jnp.zeros((), jnp.int32))

    def _at_pose(self, u: Float[Array, "count nu"]) -> SimulatorState:
        q = jnp.asarray(self.settling.q, u.dtype)
        q = jnp.broadcast_to(q, (len(u), len(q)))
        return self.simulator.start(ArmState(q, jnp.zeros_like(q)), u)
