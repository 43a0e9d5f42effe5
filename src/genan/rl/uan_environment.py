"""``UanEnvironment``: recorded controls are replayed, and a policy's torques must keep the
simulated arm on track."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from genan.actuator.history import History
from genan.actuator.samples import Samples, usable_rows
from genan.actuator.scaling import Scaling
from genan.dynamics import Dynamics
from genan.errors import DataError
from genan.rl.environment import Outcome


class UanState(eqx.Module):
    """All episodes between two steps."""

    row: Int[Array, " envs"]
    """The recording's row that each episode has come to."""
    step: Int[Array, " envs"]
    """Steps that each episode has taken."""
    q: Float[Array, "envs samples nq"]
    """The last sH + 1 positions of the simulated arm, those before the start recorded [rad or m],
    oldest first."""
    qd: Float[Array, "envs nq"]
    """Its velocity [rad/s or m/s]."""
    action: Float[Array, "envs nq"]
    """The last action."""


@final
class UanEnvironment(eqx.Module):
    """Episodes along recorded controls; the policy is the actuators.

    An episode begins at a recorded state. The policy sees histories of the simulated positions and
    of the recorded controls, standardised as an actuator network's inputs are, and never the
    recorded positions after the start. Its action is the torque on the joints in standard
    deviations of the torques that retrace the recording, neither squashed nor cut.
    """

    samples: Samples
    scaling: Scaling
    dynamics: Dynamics
    deviation: Float[Array, " nq"]
    """Standard deviation of the recorded positions, the unit of distances [rad or m]."""
    starts: Int[Array, " starts"]
    """Rows that episodes begin at."""
    history: History = eqx.field(static=True)
    envs: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    """Steps of an episode."""
    tracking_weight: float = eqx.field(static=True, default=1.0)
    smoothness_weight: float = eqx.field(static=True, default=0.0)
    bound: float = eqx.field(static=True, default=5.0)
    """An episode ends where a joint is further than this from the recording [its deviations]."""
    discount: float = eqx.field(static=True, default=1.0)
    """Of the cost of the steps that such an episode does not take."""

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        return self.history.inputs(self.samples.nq, self.samples.u.shape[1])

    @property
    def action_size(self) -> int:
        """Entries of an action: one per joint."""
        return self.samples.nq

    def reset(self, key: PRNGKeyArray) -> UanState:
        """Begin all episodes, at different steps, so that not all of them end at once from then
        on."""
        begin_key, step_key = jax.random.split(key)
        step = jax.random.randint(step_key, (self.envs,), 0, self.horizon, jnp.int32)
        return eqx.tree_at(lambda state: state.step, self._begin(begin_key), step)

    def observe(self, state: UanState) -> Float[Array, "envs observation"]:
        """What the network sees, standardised."""
        rows = state.row[:, None] - jnp.asarray(self.history.control_lags, jnp.int32)
        features = jax.vmap(self.history.features)(
            state.q[:, :: self.history.stride], self.samples.u[rows]
        )
        return (features - self.scaling.input_mean) / self.scaling.input_std

    def step(
        self, state: UanState, action: Float[Array, "envs action"], *, key: PRNGKeyArray
    ) -> tuple[UanState, Outcome]:
        """One sample further in all episodes; those that end begin anew."""
        tau = action * self.scaling.torque_std + self.scaling.torque_mean
        q, qd = jax.vmap(self.dynamics.step)(state.q[:, -1], state.qd, tau)
        window = jnp.concatenate([state.q[:, 1:], q[:, None]], axis=1)
        after = UanState(state.row + 1, state.step + 1, window, qd, action)

        distance = jnp.abs(q - self.samples.q[after.row]) / self.deviation
        lost = ~jnp.all(distance <= self.bound, axis=-1)  # so that what is not a number is lost too
        tracking = jnp.where(
            lost, -self.bound * self._rest(after.step), -jnp.mean(distance, axis=-1)
        )
        change = jnp.where(state.step[:, None] > 0, action - state.action, 0.0)
        smoothness = -jnp.mean(change**2, axis=-1)
        reward = self.tracking_weight * tracking + self.smoothness_weight * smoothness

        done = lost | (after.step >= self.horizon)
        pick = lambda new, old: jnp.where(done.reshape(-1, *[1] * (new.ndim - 1)), new, old)  # noqa: E731
        following = jax.tree.map(pick, self._begin(key), after)
        last = jnp.where(lost, self.bound, jnp.mean(distance, axis=-1))
        terms = {"tracking": tracking, "smoothness": smoothness}
        success = jnp.where(lost, 0.0, jnp.ones_like(reward))
        return following, Outcome(
            self.observe(following), reward, terms, done, success, {"distance": last}
        )

    def _rest(self, step: Int[Array, " envs"]) -> Float[Array, " envs"]:
        """This step and those that are left of an episode, discounted: an early end must not be the
        cheaper one."""
        left = (self.horizon - step + 1).astype(self.samples.q.dtype)
        return left if self.discount == 1.0 else (1.0 - self.discount**left) / (1.0 - self.discount)

    def _begin(self, key: PRNGKeyArray) -> UanState:
        row = self.starts[jax.random.randint(key, (self.envs,), 0, len(self.starts))]
        q = self.samples.q[row[:, None] - jnp.arange(self.history.span, -1, -1, dtype=jnp.int32)]
        qd = (q[:, -1] - self.samples.q[row - 1]) / self.dynamics.dt
        return UanState(row, jnp.zeros(self.envs, jnp.int32), q, qd, jnp.zeros_like(qd))


def find_starts(
    lengths: Int[np.ndarray, " N"],
    trajectories: Int[np.ndarray, " k"],
    history: History,
    horizon: int | None,
) -> tuple[Int[np.ndarray, " starts"], int]:
    """Rows of these trajectories with a whole history before them and an episode after them; and
    the episode's steps.

    Without a ``horizon``, an episode is as long as half of the trajectories allow (all, where they
    are equally long).
    """
    first = max(history.reach, 1)
    room = lengths[trajectories] - 1 - first
    steps = int(np.median(room)) if horizon is None else horizon
    if int(room.max()) < steps:
        raise DataError(
            f"Episodes of {steps} steps after a history that reaches {first} samples back need trajectories of at "
            f"least {first + 1 + steps} samples, but the longest to learn from has {int(room.max()) + first + 1}; take "
            "a shorter horizon or longer recordings."
        )
    rows = usable_rows(lengths, history, rollout=steps)
    return np.concatenate([rows[k] for k in trajectories]), steps
