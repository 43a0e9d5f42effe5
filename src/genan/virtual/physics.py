"""One tick of the virtual PAMY2: the state of everything that remembers, and how it moves on.

The integrator is the robot's own: four substeps of 0.5 ms per 2 ms tick, leapfrog for the arm,
implicit for the muscles on their stiff strings. Pure functions of one robot; batches come from
``vmap``.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.virtual.parameters import Parameters
from genan.virtual.toy import ToyState

TICK = 0.002
"""Period of the robot's interface [s]: 500 Hz."""
SUBSTEPS = 4
_H = TICK / SUBSTEPS


class State(eqx.Module):
    """What the robot remembers from one tick to the next."""

    q: Float[Array, "4"]
    """True joint angles [rad]."""
    qd: Float[Array, "4"]
    """True joint velocities [rad/s]."""
    y: Float[Array, "8"]
    """Muscle contractions [m]."""
    y_creep: Float[Array, "8"]
    """Relaxed contractions of the rubber [m]."""
    slip: Float[Array, "8 elements"]
    """Maxwell elements of the braid friction [m]."""
    slide: Float[Array, "8"]
    """Sliding direction of the tendons, -1 to 1."""
    bearing: Float[Array, "4"]
    """Build-up of the bearing friction, -1 to 1."""
    pressure: Float[Array, "8"]
    """Muscle pressures [bar]."""
    opening: Float[Array, "8"]
    """Valve openings, -1 (venting) to 1 (filling)."""
    tau: Float[Array, "4"]
    """Torque on the links by all but gravity, inertia and a toy [N m]: what an ideal joint sensor
    would read."""
    commands: Float[Array, "delay 8"]
    """Pressure commands on their way [bar], oldest first."""
    toy: ToyState | None = None
    """String and ball, where the robot holds a cup with them."""


def state_at(parameters: Parameters, q: Float[Array, "4"], pressure: Float[Array, "8"]) -> State:
    """The robot at rest in pose q [rad] with the muscles at ``pressure`` [bar], unhindered by
    friction."""
    y = parameters.tendon.path(q)
    elements = parameters.muscle.slip_distance.shape[0]
    return State(
        q=q,
        qd=jnp.zeros(4),
        y=y,
        y_creep=y,
        slip=jnp.zeros((8, elements)),
        slide=jnp.zeros(8),
        bearing=jnp.zeros(4),
        pressure=pressure,
        opening=jnp.zeros(8),
        tau=jnp.zeros(4),
        commands=jnp.tile(pressure, (parameters.delay, 1)),
    )


def tick(
    parameters: Parameters,
    state: State,
    command: Float[Array, "8"],
    push: Float[Array, "4"] | None = None,
) -> State:
    """The state 2 ms later, when ``command`` [bar] was given at the start of the tick.

    ``push`` [N m] is a torque on the joints by someone who leans on the arm; no muscle knows of it,
    nor ``State.tau``.
    """
    queue = jnp.concatenate([state.commands, command[None]])
    arriving = queue[0]
    state = eqx.tree_at(lambda s: s.commands, state, queue[1:])
    return jax.lax.fori_loop(
        0, SUBSTEPS, lambda _, s: _substep(parameters, s, arriving, push), state
    )


def _substep(
    parameters: Parameters, state: State, command: Float[Array, "8"], push: Float[Array, "4"] | None
) -> State:
    muscle, tendon, arm = parameters.muscle, parameters.tendon, parameters.arm
    q_half = state.q + 0.5 * _H * state.qd

    to_percent = 100.0 / muscle.length
    kappa_rate = tendon.path_rate(state.qd) * to_percent
    opening = parameters.air.opened(state.opening, state.pressure, command, _H)
    rate = parameters.air.rate(state.pressure, opening, state.y * to_percent, kappa_rate)
    pressure = jnp.maximum(state.pressure + _H * rate, 0.0)

    force = (
        jnp.maximum(muscle.static_force(pressure, state.y), 0.0)
        - muscle.friction(pressure, state.slip)
        - muscle.creep_stiffness * (state.y - state.y_creep)
    )
    stretch = state.y - tendon.path(q_half)
    string = jnp.where(stretch > 0.0, tendon.stiffness, 0.0)
    spring = muscle.stiffness(pressure, state.y) + muscle.creep_stiffness + string
    dy = _H * (force - string * stretch) / (muscle.viscosity(pressure) + _H * spring)
    y = state.y + dy
    slide = tendon.slid(state.slide, dy)

    tension = tendon.stiffness * jnp.maximum(y - tendon.path(q_half), 0.0)
    tau = tendon.torque(tendon.joint_tension(tension, q_half, slide))
    tau = tau + arm.passive_torque(q_half, state.qd, state.bearing)
    qd = state.qd + _H * arm.acceleration(q_half, state.qd, tau if push is None else tau + push)
    if parameters.toy is None or state.toy is None:
        q, toy = q_half + 0.5 * _H * qd, state.toy
    else:
        q, qd, toy = parameters.toy.advanced(arm, state.q, state.qd, qd, state.toy, _H)

    return State(
        q=q,
        qd=qd,
        y=y,
        y_creep=muscle.crept(state.y_creep, y, _H),
        slip=muscle.slipped(state.slip, dy),
        slide=slide,
        bearing=arm.slid(state.bearing, _H * qd),
        pressure=pressure,
        opening=opening,
        tau=tau,
        commands=state.commands,
        toy=toy,
    )
