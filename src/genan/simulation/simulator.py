"""``Simulator``: actuator networks and a scene, many robots at once.

Pure functions of a batch of states. The networks replace the active drive only: what the robot's
model says about gravity, springs and dampers acts as it did when the networks were fitted.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from genan.actuator import Ensemble
from genan.actuator.network import Precision
from genan.robot import Robot
from genan.simulation.drive import Drive
from genan.simulation.scene import Scene


class Past(eqx.Module):
    """The recent past of many robots, as the networks want it: before the present step, oldest
    first."""

    q: Float[Array, "robots span nq"]
    """Positions [rad or m]."""
    u: Float[Array, "robots reach nu"]
    """Controls."""


class SimulatorState(eqx.Module):
    """Many robots between two steps."""

    scene: Any
    """The scene's own states."""
    past: Past
    u: Float[Array, "robots nu"]
    """Controls that were commanded last."""
    strange: "Strange | None" = None
    """How each robot differs from what the networks learnt; None where none does."""


class Strange(eqx.Module):
    """How robots differ from the one that was recorded: other wear, other specimens. For learning
    to cope with it."""

    gain: Float[Array, "robots nq"]
    """Factor on the torque."""
    offset: Float[Array, "robots nu"]
    """What a robot's controls are called, less what they do."""

    @classmethod
    def drawn(
        cls, robots: int, nq: int, nu: int, *, gain: float, offset: float, key: PRNGKeyArray
    ) -> "Strange":
        """Gains within 1 +- ``gain`` and offsets within +- ``offset``, uniform, each joint and
        control by itself."""
        gain_key, offset_key = jax.random.split(key)
        draw = lambda key, n: jax.random.uniform(key, (robots, n), minval=-1.0, maxval=1.0)  # noqa: E731
        return cls(1.0 + gain * draw(gain_key, nq), offset * draw(offset_key, nu))


@final
class Simulator(eqx.Module):
    """An ensemble of actuators that drives the arm of a scene.

    ``step`` takes absolute controls for one period of the robot, ``advance`` a change of control
    for several: the change is added at each of them.
    """

    drive: Drive
    scene: Scene
    u_lower: tuple[float, ...] = eqx.field(static=True)
    u_upper: tuple[float, ...] = eqx.field(static=True)
    """Range of the controls."""

    @classmethod
    def build(
        cls,
        ensemble: Ensemble,
        robot: Robot | str,
        scene: Scene,
        *,
        precision: Precision = "float32",
    ) -> "Simulator":
        """The simulator of ``robot``; actuators of other joints, controls or another rate are
        refused."""
        robot = Robot.load(robot) if isinstance(robot, str) else robot
        ensemble.contract.check_robot(robot)
        ensemble.contract.check_rate(scene.dt, whose="the scene")
        lower, upper = (tuple(float(bound) for bound in bounds) for bounds in robot.u_range)
        return cls(Drive(ensemble, precision), scene, lower, upper)

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.u_lower)

    def start(
        self,
        scene: Any,
        u: Float[Array, "robots nu"],
        *,
        past: Past | None = None,
        strange: Strange | None = None,
    ) -> SimulatorState:
        """Robots in the states ``scene`` under the controls ``u``; left out, the past is that they
        rested there."""
        if past is None:
            history = self.drive.ensemble.contract.history
            q = jax.vmap(self.scene.q)(scene)
            past = Past(
                jnp.repeat(q[:, None], history.span, axis=1),
                jnp.repeat(u[:, None], history.reach, axis=1),
            )
        return SimulatorState(scene, past, u, strange)

    def step(
        self, state: SimulatorState, u: Float[Array, "robots nu"], *, word: UInt32[Array, "2"]
    ) -> SimulatorState:
        """One period later, under the controls ``u``; ``word``, 64 random bits, draws each robot's
        member."""
        q, u_history = self._histories(state, u)
        return self._moved(state, u, self.drive.torque(q, u_history, word=word))

    def advance(
        self,
        state: SimulatorState,
        change: Float[Array, "robots nu"],
        *,
        repeat: int,
        key: PRNGKeyArray,
    ) -> tuple[SimulatorState, Float[Array, " robots"]]:
        """``repeat`` periods later, with ``change`` added to the controls (within their range) at
        each of them.

        Also the members' disagreement about the torque [N m], at the first of the periods: there
        alone all members are asked.
        """
        words = jax.random.bits(key, (repeat, 2))
        disagreement = self.drive.disagreement(
            *self._histories(state, self._within(state.u + change))
        )

        def further(state: SimulatorState, word: Array) -> tuple[SimulatorState, None]:
            return self.step(state, self._within(state.u + change), word=word), None

        return jax.lax.scan(further, state, words)[0], disagreement

    def _histories(self, state: SimulatorState, u: Array) -> tuple[Array, Array]:
        q = jax.vmap(self.scene.q)(state.scene)
        samples = (
            jnp.concatenate([a, b[:, None]], axis=1)
            for a, b in ((state.past.q, q), (state.past.u, u))
        )
        found: tuple[Array, Array] = self.drive.ensemble.contract.history.of_window(*samples)
        return found

    def _moved(self, state: SimulatorState, u: Array, tau: Array) -> SimulatorState:
        q = jax.vmap(self.scene.q)(state.scene)
        past = Past(
            *(
                jnp.concatenate([a, b[:, None]], axis=1)[:, 1:]
                for a, b in ((state.past.q, q), (state.past.u, u))
            )
        )
        if state.strange is not None:
            tau = tau * state.strange.gain
        return SimulatorState(jax.vmap(self.scene.step)(state.scene, tau), past, u, state.strange)

    def _within(self, u: Array) -> Array:
        return jnp.clip(u, np.asarray(self.u_lower, u.dtype), np.asarray(self.u_upper, u.dtype))
