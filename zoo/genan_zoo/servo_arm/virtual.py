"""What plays the real servo arm? Six hobby servos, each with its own firmware, motor and gears, on
one power supply. Nothing that learns or simulates may import it: what crosses is recorded q and u,
and commands.

From command to joint, at the 1 kHz of the servos' own loop: the bus (delay, whole counts, held),
the firmware (a goal that slews, P and D on the encoder, a dead zone, a largest duty), the motor
(torque falls with speed, and with a supply that sags under the load of all six), its rotor
(inertia, friction that grows with load and at rest), backlash, and the link with its bearing. Gears
and end stops are implicit; friction is a bristle that slips (Dahl): what sticks stands still.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.robot import Robot
from genan_zoo.bench import BenchRobot, Chance, read_design
from genan_zoo.rigid import RigidTree

DESIGN = read_design(__file__)
SUBSTEPS, _H = 20, 0.001  # Turns of the servos' loop in a tick, and its period [s].
Scalar = Float[Array, ""]
Joints = Float[Array, "6"]  # A number for each joint.
JointLanes = Float[Array, "*lanes 6"]


class ServoArm(eqx.Module):
    """One specimen at one age."""

    links: RigidTree
    stops: Float[Array, "2 6"]  # Lower and upper end stops [rad].
    servo: dict[str, Joints]  # What design.toml has of a servo, for each joint.

    def counted(self, angle: Joints) -> Joints:
        """An angle in whole counts [rad]."""
        return self.servo["quantum"] * jnp.floor(angle / self.servo["quantum"] + 0.5)

    def aged(self, hours: Scalar, rate: Scalar) -> "ServoArm":
        """The arm after ``hours`` [h], warmed up and worn at ``rate`` times the usual."""
        about, servo = DESIGN["drift"], dict(self.servo)
        warm, worn = (
            1.0 - jnp.exp(-hours / about["warm_hours"]),
            jnp.sqrt(hours / about["wear_hours"]),
        )
        for name, by in about["warm"].items():
            servo[name] = servo[name] * (1.0 + rate * by * warm)
        for name, by in about["wear"].items():
            servo[name] = servo[name] * (1.0 + rate * by * worn)
        return dataclasses.replace(self, servo=servo)


class ServoArmState(eqx.Module):
    """What the arm remembers from one substep to the next."""

    q: JointLanes  # True joint angles [rad].
    qd: JointLanes  # True joint velocities [rad/s].
    rotor: JointLanes  # Angles of the motors, as seen behind their gears [rad].
    rotor_speed: JointLanes  # [rad/s]
    bristles: Float[Array, "*lanes 2 6"]  # Of the friction of motors and of bearings, -1 to 1.
    held: JointLanes  # The command before the newest [rad].
    goal: JointLanes  # Where firmware has moved its goal to [rad].
    seen: JointLanes  # What the encoders read [rad].
    speed: JointLanes  # What firmware takes for the speed [rad/s].
    voltage: JointLanes  # Of the supply under load [V].
    tau: JointLanes
    """Torque of motors, friction and end stops [N m]: all but gravity, inertia (of the rotors too)
    and pushes."""


def tick(arm: ServoArm, state: ServoArmState, command: Joints, push: Joints) -> ServoArmState:
    """The state 20 ms later, when ``command`` [rad] was given at the start of the tick and someone
    leans on the joints with ``push`` [N m]."""
    command, delay = arm.counted(command), arm.servo["delay"]
    asked = lambda k: jnp.where(k < delay, state.held, command)
    step = lambda k, now: _substep(arm, now, asked(k), push)
    return dataclasses.replace(jax.lax.fori_loop(0, SUBSTEPS, step, state), held=command)


def _substep(arm: ServoArm, s: ServoArmState, asked: Joints, push: Joints) -> ServoArmState:
    p = arm.servo
    # Firmware: all that it knows is the encoder, on the joint's side of the gears.
    goal = s.goal + jnp.clip(asked - s.goal, -_H * p["slew"], _H * p["slew"])
    error = jnp.where(jnp.abs(goal - s.seen) > p["dead_zone"] * p["quantum"], goal - s.seen, 0.0)
    duty = p["gain"] * error - p["damping_gain"] * s.speed
    duty = jnp.clip(duty, -p["most_duty"], p["most_duty"])

    # Motors, and the supply that they share.
    current = (duty * s.voltage - p["torque_constant"] * s.rotor_speed) / p["resistance"]
    voltage = p["supply"] - p["supply_resistance"] * jnp.sum(jnp.maximum(duty * current, 0.0))
    motor = p["torque_constant"] * current

    # Gears: the torque where their flanks touch, and the friction of all that turns.
    gap = 0.5 * p["backlash"]
    stretch = s.rotor - s.q - jnp.clip(s.rotor - s.q, -gap, gap)
    load = p["gear_stiffness"] * stretch
    touching = jnp.where(stretch != 0.0, _H * p["gear_stiffness"] + p["gear_damping"], 0.0)
    at_rest = jnp.exp(-jnp.square(s.rotor_speed / p["stribeck_speed"]))
    dry = p["friction"] + (p["load_friction"] + p["load_stiction"] * at_rest) * jnp.abs(load)
    rubbing = dry * s.bristles[0] + p["viscosity"] * s.rotor_speed

    # Links. Gears, dampers and stops act by the speeds after the step; the rotors' speeds follow
    # from the joints'.
    beyond = s.q - jnp.clip(s.q, *arm.stops)
    stop = jnp.where(beyond != 0.0, p["stop_damping"] + _H * p["stop_stiffness"], 0.0)
    passive = -p["stop_stiffness"] * beyond - p["bearing_friction"] * s.bristles[1]
    damping = p["bearing_viscosity"] + stop
    momentum = p["rotor_inertia"] * s.rotor_speed + _H * (motor - rubbing - load)
    inertia = p["rotor_inertia"] + _H * touching
    mass, bias = arm.links.mass_and_bias(s.q, s.qd)
    force = load + touching * momentum / inertia + passive + push - bias
    implicit = _H * (damping + touching * p["rotor_inertia"] / inertia)
    momenta = jnp.sum(mass * s.qd, axis=1) + _H * force
    qd = jax.scipy.linalg.solve(mass + jnp.diag(implicit), momenta, assume_a="pos")
    rotor_speed = (momentum + _H * touching * qd) / inertia
    q, slid = s.q + _H * qd, _H * jnp.stack([rotor_speed, qd]) / p["presliding"]
    seen = arm.counted(q + p["zero"])
    return ServoArmState(
        q=q,
        qd=qd,
        rotor=s.rotor + _H * rotor_speed,
        rotor_speed=rotor_speed,
        bristles=jnp.clip(s.bristles + slid, -1.0, 1.0),
        held=s.held,
        goal=goal,
        seen=seen,
        speed=s.speed + (seen - s.seen - _H * s.speed) / p["smoothing"],
        voltage=voltage,
        tau=motor - rubbing + passive - damping * qd,
    )


class VirtualServoArm(BenchRobot):
    """A servo arm with physics that no simulator in genan knows."""

    name, tick = "servo-arm", staticmethod(tick)
    truth_sizes: ClassVar[Mapping[str, int]] = {"tau": 6, "q": 6, "qd": 6}
    """Torque of motors, friction and end stops (all but gravity and inertia, of the rotors too)
    [N m], true angles [rad] and velocities [rad/s]."""

    @classmethod
    def specimen(cls, robot: Robot, seed: int) -> ServoArm:
        chance = Chance(seed, 0x5E12, DESIGN["build"])
        servo = {name: jnp.full(6, float(value)) for name, value in DESIGN["servo"].items()}
        for name, by in DESIGN["spread"].items():
            servo[name] = servo[name] * (1.0 + by * chance.drawn(6))
        servo["zero"] = DESIGN["build"]["zero"] * chance.drawn(6)
        links = chance.varied(RigidTree.of_model(robot.mj_model))
        return ServoArm(links, jnp.asarray(robot.q_range), servo)

    @classmethod
    def begin(cls, arm: ServoArm, robot: Robot) -> ServoArmState:
        q, none, bristles = jnp.asarray(robot.q_rest), jnp.zeros(6), jnp.zeros((2, 6))
        seen = arm.counted(q + arm.servo["zero"])
        supply = arm.servo["supply"]
        return ServoArmState(q, none, q, none, bristles, seen, seen, seen, none, supply, none)
