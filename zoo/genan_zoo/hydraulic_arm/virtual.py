"""What plays the real hydraulic arm? Three cylinders of an excavator, each behind its own valve, on
one pump. Nothing that learns or simulates may import it: what crosses is recorded q and u, and
commands.

From command to joint, at 1 kHz: the pilot stage (delay, hysteresis, lag), the spool (overlap, then
notches), the pump (which follows the heaviest load, and gives no more than it has), the orifices
into and out of each cylinder, the oil in its two chambers (compressible, with some air), the piston
(areas that differ, leaks, cushions before its ends), and the link, which it turns by a lever that
changes with the pose. In each step an orifice is a resistor, as the drop before makes it, and
pressures, speeds and end stops are implicit, so that no step gains energy. Friction is a bristle
that slips (Dahl): what sticks stands still.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.robot import Robot
from genan_zoo.bench import BenchRobot, Chance, read_design
from genan_zoo.rigid import RigidTree

DESIGN = read_design(__file__)
PARTS = DESIGN["valve"] | DESIGN["cylinder"] | DESIGN["supply"]
SUBSTEPS = 20  # In a tick.
_H, _ATMOSPHERE, _PRELOAD = 0.001, 1e5, 5e5  # Substep [s], pressures [Pa].
_SIGN = np.array([[1.0], [-1.0]])  # The bore's side extends a cylinder, the rod's retracts it.
_PINS = {name: np.array(point) for name, point in DESIGN["pins"].items()}
Scalar = Float[Array, ""]
Joints = Float[Array, "3"]  # A number for each joint.
JointLanes = Float[Array, "*lanes 3"]
Chambers = Float[Array, "2 3"]  # For each cylinder: the bore's side, then the rod's.


class HydraulicArm(eqx.Module):
    """One specimen at one age."""

    links: RigidTree
    ends: Float[Array, "2 3"]  # Shortest and longest that each cylinder can be [m].
    zero: Joints  # What the encoders read at zero [rad].
    parts: dict[str, Float[Array, "..."]]  # What design.toml has of valves, cylinders and supply.

    def seen(self, q: Joints) -> Joints:
        """What the encoders read at the angles ``q``, in whole counts [rad]."""
        return self.parts["quantum"] * jnp.floor((q + self.zero) / self.parts["quantum"] + 0.5)

    def aged(self, hours: Scalar, rate: Scalar) -> "HydraulicArm":
        """The arm after ``hours`` [h], warmed up and worn at ``rate`` times the usual."""
        about, parts = DESIGN["drift"], dict(self.parts)
        warm = 1.0 - jnp.exp(-hours / about["warm_hours"])
        worn = jnp.sqrt(hours / about["wear_hours"])
        for name, by in about["warm"].items():
            parts[name] = parts[name] * (1.0 + by) ** (rate * warm)
        for name, by in about["wear"].items():
            parts[name] = parts[name] * (1.0 + by) ** (rate * worn)
        return dataclasses.replace(self, parts=parts)


class HydraulicState(eqx.Module):
    """What the arm remembers from one substep to the next."""

    q: JointLanes  # True joint angles [rad].
    qd: JointLanes  # True joint velocities [rad/s].
    pressure: Float[Array, "*lanes 2 3"]  # [Pa] above the tank's.
    supply: Float[Array, "*lanes"]  # Pressure between pump and valves [Pa].
    sensed: Float[Array, "*lanes"]  # What the pump knows of the heaviest load [Pa].
    held: Float[Array, "*lanes 2 3"]  # The two commands before the newest.
    pilot: JointLanes  # Where the pilot stages want the spools.
    spool: JointLanes  # -1 to 1; positive: the cylinder extends.
    bristles: JointLanes  # Of the cylinders' friction, -1 to 1.
    seen: JointLanes  # What the encoders read [rad].
    tau: JointLanes
    """Torque of cylinders, friction and end stops [N m]: all but gravity, inertia and pushes."""


def cylinder_lengths(q: Joints) -> Joints:
    """From pin to pin, of boom, arm and bucket, in the pose ``q`` [m]."""
    (x, z), cosine, sine = _PINS["rod"].T, jnp.cos(q), jnp.sin(q)
    rods = _PINS["hinge"] + jnp.stack([cosine * x - sine * z, sine * x + cosine * z], axis=1)
    across = rods[2] - _PINS["rocker"]  # The bucket's rods join above the middle of this line.
    height = jnp.sqrt(_PINS["knee"] ** 2 / jnp.sum(jnp.square(across)) - 0.25)
    knee = _PINS["rocker"] + 0.5 * across + height * jnp.stack([-across[1], across[0]])
    ends = jnp.stack([rods[0], rods[1], knee])
    return jnp.sqrt(jnp.sum(jnp.square(ends - _PINS["cylinder"]), axis=1))


def with_levers(q: Joints) -> tuple[Joints, Joints]:
    """Lengths of the cylinders [m], and how they grow with their joints' angles [m/rad]."""
    return jax.jvp(cylinder_lengths, (q,), (jnp.ones_like(q),))


def tick(arm: HydraulicArm, state: HydraulicState, command: Joints, push: Joints) -> HydraulicState:
    """The state 20 ms later, when ``command`` was given at the start of the tick and someone leans
    on the joints with ``push`` [N m]."""
    late, delay = jnp.concatenate([state.held, command[None]]), arm.parts["delay"]
    asked = lambda k: jnp.where(k < delay - 20.0, late[0], jnp.where(k < delay, late[1], late[2]))
    step = lambda k, now: _substep(arm, now, asked(k), push)
    return dataclasses.replace(jax.lax.fori_loop(0, SUBSTEPS, step, state), held=late[1:])


def _substep(arm: HydraulicArm, s: HydraulicState, asked: Joints, push: Joints) -> HydraulicState:
    p, (length, lever) = arm.parts, with_levers(s.q)
    # Valves: what an orifice lets through per pressure, by the root of the drop that it had.
    conductance = lambda drop: jnp.sqrt(jnp.sqrt(1.0 / (jnp.square(drop) + p["laminar"] ** 2)))
    play = 0.5 * p["hysteresis"]
    pilot = jnp.clip(s.pilot, asked - play, asked + play)
    spool = s.spool + _H * (pilot - s.spool) / p["spool_lag"]
    overlap = jnp.where(spool > 0.0, p["overlap_out"], p["overlap_in"])
    travel = jnp.maximum(jnp.abs(spool) - overlap, 0.0) / (1.0 - overlap)
    opened = travel * (p["fine"] + (1.0 - p["fine"]) * travel)
    filled = _SIGN * spool > 0.0  # The chambers on the pump's side; the others are the tank's.

    # Supply: behind every valve is the pressure of the heaviest load, so that all have its drop;
    # but that of a stalled one counts only so far that it does not stop the others.
    fed = jnp.where(spool > 0.0, s.pressure[0], s.pressure[1])
    heaviest = jnp.max(jnp.where(opened > 0.0, fed, 0.0), initial=0.0)
    heaviest = jnp.minimum(heaviest, p["most_pressure"] - p["margin"])
    spare, left = s.supply - heaviest, jnp.maximum(s.supply - fed, 0.0)
    drop = jnp.minimum(jnp.maximum(spare, 0.0), left)
    inlet = p["meter_in"] * opened * conductance(drop) * drop / jnp.maximum(left, 1.0)
    inlet /= 1.0 + p["droop"] * jnp.maximum(fed, 0.0)
    missing = jnp.minimum(s.sensed + p["margin"], p["most_pressure"]) - s.supply
    pump = jnp.minimum(p["regulator"], p["most_flow"] / jnp.maximum(missing, 1.0))
    line, excess = p["line_volume"] / p["bulk"] / _H, jnp.maximum(spare - p["unloading"], 0.0)
    unloaded = p["unloading_gain"] * excess / jnp.maximum(s.supply, 1.0)
    coming = line * s.supply + pump * (s.supply + missing) + jnp.sum(inlet * fed)
    supply = coming / (line + pump + unloaded + jnp.sum(inlet))

    # Chambers: their pressures if the pistons stood still, and how far speed changes them.
    stroke = jnp.stack([length - arm.ends[0], arm.ends[1] - length])  # To go until one is empty.
    volume = p["dead_volume"] + p["area"] * stroke
    absolute = _ATMOSPHERE + jnp.maximum(s.pressure, 0.0)
    softness = 1.0 / p["bulk"] + p["air"] * _ATMOSPHERE / jnp.square(absolute)
    outlet = jnp.where(filled, 0.0, p["meter_out"] * opened) * conductance(s.pressure)
    outlet += p["relief_gain"] * jnp.maximum(s.pressure - p["relief"], 0.0) / absolute
    drain = outlet * jnp.clip(stroke / p["cushion"], p["choked"], 1.0) + p["spool_leak"]
    drain += jnp.where(s.pressure < 0.0, p["makeup"], 0.0)
    leak = -_SIGN * p["piston_leak"] * (s.pressure[0] - s.pressure[1])
    capacity, source = volume * softness / _H, jnp.where(filled, inlet, 0.0)
    total = capacity + source + drain
    still = (capacity * s.pressure + source * supply + leak) / total
    yielding = _SIGN * p["area"] / total  # [Pa s/m]

    # Pistons: friction and ends.
    at_rest = jnp.exp(-jnp.square(lever * s.qd / p["stribeck_speed"]))
    dry = p["friction"] + p["pressure_friction"] * jnp.sum(jnp.abs(s.pressure), axis=0)
    beyond_end = length - jnp.clip(length, *arm.ends)
    stop = jnp.where(beyond_end != 0.0, p["stop_damping"] + _H * p["stop_stiffness"], 0.0)
    force = jnp.sum(_SIGN * p["area"] * still, axis=0) - p["stop_stiffness"] * beyond_end
    force -= dry * (1.0 + p["stiction"] * at_rest) * s.bristles
    damping = p["viscosity"] + p["presliding_damping"] * at_rest + stop
    damping += jnp.sum(_SIGN * p["area"] * yielding, axis=0)

    # Links: pressures and dampers act by the speeds after the step.
    mass, bias = arm.links.mass_and_bias(s.q, s.qd)
    implicit = jnp.square(lever) * damping + p["bearing_viscosity"]
    momenta = jnp.sum(mass * s.qd, axis=1) + _H * (lever * force + push - bias)
    qd = jax.scipy.linalg.solve(mass + _H * jnp.diag(implicit), momenta, assume_a="pos")
    q, speed = s.q + _H * qd, lever * qd
    return HydraulicState(
        q=q,
        qd=qd,
        pressure=jnp.maximum(still - yielding * speed, p["vapour"]),
        supply=supply,
        sensed=s.sensed + _H * (heaviest - s.sensed) / p["pump_lag"],
        held=s.held,
        pilot=pilot,
        spool=spool,
        bristles=jnp.clip(s.bristles + _H * speed / p["presliding"], -1.0, 1.0),
        seen=arm.seen(q),
        tau=lever * force - implicit * qd,
    )


class VirtualHydraulicArm(BenchRobot):
    """A hydraulic arm with physics that no simulator in genan knows."""

    name, tick = "hydraulic-arm", staticmethod(tick)
    truth_sizes: ClassVar[Mapping[str, int]] = {"tau": 3, "q": 3, "qd": 3}
    """Torque of cylinders, friction and end stops (all but gravity and inertia) [N m], true angles
    [rad] and velocities [rad/s]."""

    @classmethod
    def specimen(cls, robot: Robot, seed: int) -> HydraulicArm:
        chance = Chance(seed, 0x4A64, DESIGN["build"])
        parts = {name: jnp.asarray(value, float) for name, value in PARTS.items()}
        for name, by in DESIGN["spread"].items():
            parts[name] = parts[name] * (1.0 + by * chance.drawn(*parts[name].shape))
        links = chance.varied(RigidTree.of_model(robot.mj_model))
        zero = DESIGN["build"]["zero"] * chance.drawn(3)
        lengths = jnp.stack([cylinder_lengths(jnp.asarray(q)) for q in robot.q_range])
        return HydraulicArm(links, jnp.sort(lengths, axis=0), zero, parts)

    @classmethod
    def begin(cls, arm: HydraulicArm, robot: Robot) -> HydraulicState:
        """Its load on its closed valves."""
        q, none, off = jnp.asarray(robot.q_rest), jnp.zeros(3), jnp.zeros(())
        load = arm.links.mass_and_bias(q, none)[1] / with_levers(q)[1]
        bore, rod = arm.parts["area"]
        back = _PRELOAD + jnp.maximum(-load, 0.0) / rod
        pressure, twice = jnp.stack([(load + back * rod) / bore, back]), jnp.zeros((2, 3))
        valves = none, none, none
        return HydraulicState(q, none, pressure, off, off, twice, *valves, arm.seen(q), none)
