"""What plays the real cable arm? Seven motors that pull the links by cables. Nothing that learns or
simulates may import it: what crosses is recorded q and u, and commands.

From command to joint: the bus (delay, whole counts, held), the control (500 times per second: P and
D on the joint angles that the motors' encoders stand for, a largest torque, nothing against
gravity), the motors (cogging, ripple, a voltage that leaves less torque at speed), their rotors
(inertia, friction that grows with the pull of the cables), the cables (elastic, the stiffer the
harder they are pulled; they creep), two differentials by which two motors share two joints, and the
links with their bearings. Mechanics run at 1 kHz; cables, dampers, friction and end stops are
implicit there. Friction is a bristle that slips (Dahl): what sticks stands still.
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
SUBSTEPS = 10  # In a tick.
_H, _PERIOD = 0.001, 2  # Step of the mechanics [s]; steps from one control to the next.
Scalar = Float[Array, ""]  # A number; one for each joint; one for each motor.
Joints = Float[Array, "7"]
JointLanes = Float[Array, "*lanes 7"]
Motors = Float[Array, "7"]


class CableArm(eqx.Module):
    """One specimen at one age."""

    links: RigidTree
    stops: Float[Array, "2 7"]  # Lower and upper end stops [rad].
    drive: Float[Array, "7 7"]  # Angles of motors, behind their ratios, per angle of joints.
    undo: Float[Array, "7 7"]  # Its inverse.
    parts: dict[str, Joints]  # What design.toml has of motors, cables and joints, for each.

    def counted(self, angle: Joints) -> Joints:
        """An angle in whole counts of a joint's encoder [rad]."""
        return _whole(angle, self.parts["quantum"])

    def aged(self, hours: Scalar, rate: Scalar) -> "CableArm":
        """The arm after ``hours`` [h], warmed up and worn at ``rate`` times the usual."""
        about, parts = DESIGN["drift"], dict(self.parts)
        warm = 1.0 - jnp.exp(-hours / about["warm_hours"])
        worn = jnp.sqrt(hours / about["wear_hours"])
        for name, by in about["warm"].items():
            parts[name] = parts[name] * (1.0 + rate * by * warm)
        for name, by in about["wear"].items():
            parts[name] = parts[name] * (1.0 + rate * by * worn)
        parts["creep"] = parts["creep"] * rate * worn
        return dataclasses.replace(self, parts=parts)


class CableArmState(eqx.Module):
    """What the arm remembers from one substep to the next; outside ``tick`` with leading lanes."""

    q: JointLanes  # True joint angles [rad].
    qd: JointLanes  # True joint velocities [rad/s].
    stretch: JointLanes  # Of the cables: how far a motor is ahead of its joints [rad].
    rotor_speed: JointLanes  # [rad/s]
    bristles: Float[Array, "*lanes 2 7"]  # Of the friction of motors and of bearings, -1 to 1.
    held: JointLanes  # The command before the newest [rad].
    angle: JointLanes  # What the motors' encoders stand for [rad].
    speed: JointLanes  # What the control takes for its speed [rad/s].
    torque: JointLanes  # That the control asks for [N m].
    seen: JointLanes  # What the joints' encoders read [rad].
    tau: JointLanes
    """Torque of motors, friction and end stops [N m]: all but gravity, inertia (of the rotors too)
    and pushes."""


_whole = lambda angle, count: count * jnp.floor(angle / count + 0.5)
_times = lambda matrix, vector: jnp.sum(matrix * vector, axis=1)
_under = lambda matrix, vector: jnp.sum(matrix * vector[:, None], axis=0)


def tick(arm: CableArm, state: CableArmState, command: Joints, push: Joints) -> CableArmState:
    """The state 10 ms later, when ``command`` [rad] was given at the start of the tick and someone
    leans on the joints with ``push`` [N m]."""
    command, delay = arm.counted(command), arm.parts["delay"]
    asked = lambda k: jnp.where(k < delay, state.held, command)

    def step(k: Array, now: CableArmState) -> CableArmState:
        new, old = _control(arm, now, asked(k)), (now.angle, now.speed, now.torque)
        angle, speed, torque = (jnp.where(k % _PERIOD == 0, *x) for x in zip(new, old, strict=True))
        now = dataclasses.replace(now, angle=angle, speed=speed, torque=torque)
        return _substep(arm, now, push)

    return dataclasses.replace(jax.lax.fori_loop(0, SUBSTEPS, step, state), held=command)


def _control(arm: CableArm, s: CableArmState, goal: Joints) -> tuple[Joints, Joints, Motors]:
    """Angle and speed of the joints as far as motors can tell, and the torque to ask motors for."""
    p = arm.parts
    read = _whole(_rotor(arm, s) + p["home"], 2.0 * jnp.pi / (p["counts"] * p["ratio"]))
    angle, share = _times(arm.undo, read), _PERIOD * _H * p["bandwidth"]
    speed = s.speed + ((angle - s.angle) * p["bandwidth"] - share * s.speed) / (1.0 + share)
    torque = _under(arm.undo, p["gain"] * (goal - angle) - p["damping_gain"] * speed)
    return angle, speed, jnp.clip(torque, -p["largest"], p["largest"])


def _rotor(arm: CableArm, s: CableArmState) -> Motors:
    """Angles of the motors [rad]; cables that have crept let them run ahead."""
    return _times(arm.drive, s.q) + s.stretch + arm.parts["creep"]


def _substep(arm: CableArm, s: CableArmState, push: Joints) -> CableArmState:
    p, drive = arm.parts, arm.drive
    # Motors: the supply leaves less torque the faster they turn.
    wave = jnp.sin(p["cycles"] * p["ratio"] * _rotor(arm, s) + p["phase"])
    volts = p["supply"] * jnp.array([[-1.0], [1.0]]) - p["torque_constant"] * s.rotor_speed
    motor = p["strength"] * s.torque * (1.0 + p["ripple"] * wave)
    motor = jnp.clip(motor, *(p["torque_constant"] / p["resistance"] * volts)) + p["cogging"] * wave

    # Cables, and the friction of all that turns. What sticks is held by its bristle as by a spring.
    strain = jnp.square(s.stretch / p["hardening"])
    load = p["stiffness"] * s.stretch * (1.0 + strain / 3.0)
    tie = p["cable_damping"] + _H * p["stiffness"] * (1.0 + strain)
    dry = jnp.stack([p["friction"] + p["load_friction"] * jnp.abs(load), p["bearing_friction"]])
    bent = s.bristles + _H * jnp.stack([s.rotor_speed, s.qd]) / p["presliding"]
    grip = jnp.where(jnp.abs(bent) < 1.0, _H * dry / p["presliding"], 0.0)
    viscous = grip + jnp.stack([p["viscosity"], p["bearing_viscosity"]])

    # All acts by the speeds after the step; the rotors' speeds follow from the joints'.
    beyond = s.q - jnp.clip(s.q, *arm.stops)
    stop = jnp.where(beyond != 0.0, p["stop_damping"] + _H * p["stop_stiffness"], 0.0)
    passive = -p["stop_stiffness"] * beyond - dry[1] * s.bristles[1]
    damping = viscous[1] + stop
    pull = motor - dry[0] * s.bristles[0]
    momentum = p["rotor_inertia"] * s.rotor_speed + _H * (pull - load)
    inertia = p["rotor_inertia"] + _H * (viscous[0] + tie)
    firm = _H * tie * (1.0 - _H * tie / inertia)
    mass, bias = arm.links.mass_and_bias(s.q, s.qd)
    mass_after = mass + jnp.diag(_H * damping)
    mass_after += jnp.sum(firm[:, None, None] * drive[:, :, None] * drive[:, None, :], axis=0)
    force = _under(drive, load + tie * momentum / inertia) + passive + push - bias
    qd = jax.scipy.linalg.solve(mass_after, _times(mass, s.qd) + _H * force, assume_a="pos")
    driven = _times(drive, qd)
    rotor_speed = (momentum + _H * tie * driven) / inertia
    q, slid = s.q + _H * qd, _H * jnp.stack([rotor_speed, qd]) / p["presliding"]
    return dataclasses.replace(
        s,
        q=q,
        qd=qd,
        stretch=s.stretch + _H * (rotor_speed - driven),
        rotor_speed=rotor_speed,
        bristles=jnp.clip(s.bristles + slid, -1.0, 1.0),
        seen=arm.counted(q + p["zero"]),
        tau=_under(drive, pull - viscous[0] * rotor_speed) + passive - damping * qd,
    )


class VirtualCableArm(BenchRobot):
    """A cable-driven arm with physics that no simulator in genan knows."""

    name, settle, tick = "cable-arm", 300, staticmethod(tick)
    truth_sizes: ClassVar[Mapping[str, int]] = {"tau": 7, "q": 7, "qd": 7}
    """Torque of motors, friction and end stops (all but gravity and inertia, of the rotors too)
    [N m], true angles [rad] and velocities [rad/s]."""

    @classmethod
    def specimen(cls, robot: Robot, seed: int) -> CableArm:
        chance, drive = Chance(seed, 0xCAB1E, DESIGN["build"]), np.array(DESIGN["transmission"])
        parts = {x: jnp.broadcast_to(jnp.asarray(v, float), 7) for x, v in DESIGN["arm"].items()}
        for name, by in DESIGN["spread"].items():
            parts[name] = parts[name] * (1.0 + by * chance.drawn(7))
        for name in ("zero", "home", "creep"):
            parts[name] = DESIGN["build"][name] * chance.drawn(7)
        parts["phase"] = jnp.asarray(chance.random.uniform(0.0, 2.0 * np.pi, 7))
        links, undo = chance.varied(RigidTree.of_model(robot.mj_model)), np.linalg.inv(drive)
        turned = jnp.asarray(drive), jnp.asarray(undo)
        return CableArm(links, jnp.asarray(robot.q_range), *turned, parts)

    @classmethod
    def begin(cls, arm: CableArm, robot: Robot) -> CableArmState:
        q, none, bristles = jnp.asarray(robot.q_rest), jnp.zeros(7), jnp.zeros((2, 7))
        seen = arm.counted(q + arm.parts["zero"])
        return CableArmState(q, none, none, none, bristles, q, q, none, none, seen, none)
