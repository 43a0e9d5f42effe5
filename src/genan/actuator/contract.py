"""Shape of the network, and what is known of it before there is one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genan.actuator.history import History, Servo, Terms
from genan.actuator.settings import Architecture
from genan.data import Channels
from genan.errors import ActuatorError, listing
from genan.files import Kind
from genan.robot import Robot

WEIGHTS, CONTRACT = "model.safetensors", "actuator.json"
KIND = Kind(
    format="genan actuators",
    version=3,
    oldest=1,
    weights=WEIGHTS,
    contract=CONTRACT,
    error=ActuatorError,
    none="There are no actuators",
    origin="the --out of 'genan fit'",
    again="fit again",
    unfinished="The fit in it is unfinished: run it to its end first.",
    others=(("policy.json", "a policy"),),
)

#: Two time steps are the same when they differ by less than this fraction.
DT_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Contract:
    """Rate, channels, history and shape of an ensemble. Hashable, so that it can be part of a
    compiled program."""

    robot: str
    """Name of the robot it was fitted for."""
    dt: float
    """Sampling period of the history and of the simulation step [s]."""
    joints: tuple[str, ...]
    """Joints, in the order of q and tau."""
    joint_units: tuple[str, ...]
    """"rad" (torque in N m) or "m" (force in N) for each joint."""
    controls: tuple[str, ...]
    """Controls, in the order of u."""
    control_units: tuple[str, ...]
    """Unit of each control."""
    history: History
    """What the network sees of the past."""
    architecture: Architecture
    """Shape of each member."""
    members: int
    """Networks in the ensemble."""
    loss: str
    """Loss it was trained with."""
    q_seen: tuple[tuple[float, float], ...]
    """Lowest and highest position of each joint in the training data [rad or m]."""
    u_seen: tuple[tuple[float, float], ...]
    """Lowest and highest value of each control in the training data."""

    def __post_init__(self) -> None:
        if not (self.dt > 0.0 and math.isfinite(self.dt)):
            raise ActuatorError(
                f"The actuators' period dt must be a positive number of seconds, not {self.dt:g}."
            )
        if self.members < 1:
            raise ActuatorError(f"An ensemble needs at least one member, not {self.members}.")

    @property
    def nq(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.controls)

    @property
    def version(self) -> int:
        """Version of the artifact's format that can hold this: older readers must refuse what they
        do not know."""
        if self.history.terms.servos or self.history.terms.standing:
            return 3
        return 2 if self.history.delay or self.history.terms or self.architecture.skip else 1

    @property
    def servos(self) -> list[str]:
        """The servos among the joints, each in words."""
        return servo_sentences(self.history.terms.servos, self.joints, self.controls)

    @property
    def inputs(self) -> int:
        """Number of network inputs."""
        return self.history.inputs(self.nq, self.nu)

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units or rate."""
        self.check_channels(Channels.of_robot(robot), whose=f"robot {robot.name!r}")

    def check_channels(self, channels: Channels, *, whose: str) -> None:
        """Refuse, by name, other joints, controls, units or another rate. ``whose``: for the
        message."""
        for kind, mine, theirs in (
            ("joints", self.joints, channels.joints),
            ("joint units", self.joint_units, channels.joint_units),
            ("controls", self.controls, channels.controls),
            ("control units", self.control_units, channels.control_units),
        ):
            if mine != theirs:
                raise ActuatorError(
                    f"The actuators were fitted for the {kind} {listing(mine)} in this order and {whose} has "
                    f"{listing(theirs)}; use actuators fitted for it."
                )
        self.check_rate(channels.dt, whose=whose)

    def check_rate(self, dt: float, *, whose: str) -> None:
        """Refuse another rate than the one the actuators were fitted at. ``dt`` [s]; ``whose``: for
        the message."""
        if not math.isclose(dt, self.dt, rel_tol=DT_TOLERANCE):
            raise ActuatorError(
                f"Two rates: the actuators were fitted at {1.0 / self.dt:.6g} Hz (dt {self.dt:.6g} s) and {whose} runs "
                f"at {1.0 / dt:.6g} Hz (dt {dt:.6g} s); what is learnt at one rate is wrong at another: fit them anew."
            )

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {
            "robot": self.robot,
            "dt": self.dt,
            "joints": list(self.joints),
            "joint_units": list(self.joint_units),
            "controls": list(self.controls),
            "control_units": list(self.control_units),
            "history": {
                "length": self.history.length,
                "stride": self.history.stride,
                "delta": self.history.delta,
                **({"delay": self.history.delay} if self.history.delay else {}),
                **({"terms": self.history.terms.settings()} if self.history.terms else {}),
                "order": "oldest first; the last row is now",
            },
            "network": {
                "hidden": list(self.architecture.hidden),
                "activation": self.architecture.activation,
                **({"skip": True} if self.architecture.skip else {}),
                "members": self.members,
            },
            "loss": self.loss,
            "q_seen": [list(pair) for pair in self.q_seen],
            "u_seen": [list(pair) for pair in self.u_seen],
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Contract":
        """The contract that ``settings`` describes; a missing or misplaced entry is refused by
        name."""
        try:
            past, network = settings["history"], settings["network"]
            return cls(
                robot=str(settings["robot"]),
                dt=float(settings["dt"]),
                joints=tuple(map(str, settings["joints"])),
                joint_units=tuple(map(str, settings["joint_units"])),
                controls=tuple(map(str, settings["controls"])),
                control_units=tuple(map(str, settings["control_units"])),
                history=History(
                    int(past["length"]),
                    int(past["stride"]),
                    bool(past["delta"]),
                    int(past.get("delay", 0)),
                    Terms.from_settings(past["terms"]) if "terms" in past else Terms(),
                ),
                architecture=Architecture(
                    tuple(map(int, network["hidden"])),
                    str(network["activation"]),
                    bool(network.get("skip", False)),
                ),
                members=int(network["members"]),
                loss=str(settings["loss"]),
                q_seen=_pairs(settings["q_seen"]),
                u_seen=_pairs(settings["u_seen"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ActuatorError(
                f"The actuators' contract is not complete ({type(error).__name__}: {error}); export or fit them anew."
            ) from None


def read_contract(folder: Path | str) -> tuple[Contract, dict[str, Any]]:
    """Contract and record of fitted actuators, checked against their seal; the weights are not
    read, and JAX is not imported.

    Args:
        folder: the --out of ``genan fit``; every version of the format is read.
    """
    settings = KIND.read_contract(Path(folder))
    return Contract.from_settings(settings["contract"]), settings["record"]


def _pairs(rows: Any) -> tuple[tuple[float, float], ...]:
    return tuple((float(low), float(high)) for low, high in rows)


def servo_sentences(
    servos: Sequence[Servo], joints: Sequence[str], controls: Sequence[str]
) -> list[str]:
    """Each servo in words."""
    found = []
    for servo in servos:
        gains, switches = ([controls[k] for k in part] for part in (servo.gains, servo.switches))
        gain = f" by the gain {listing(gains)}" if gains else ""
        switch = f" while {listing(switches)} is on" if switches else ""
        found.append(
            f"Joint {joints[servo.joint]!r} is a servo: pulled to {controls[servo.goal]!r}{gain}{switch}."
        )
    return found
