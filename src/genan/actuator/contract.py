"""What an actuator network was made for, and what it must therefore not be used on.

The classic silent fault of this field is a network trained at one rate, joint order or history and
run at another. The contract travels with the weights through every export and is checked wherever
the two worlds meet. Nothing here imports JAX.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from genan.actuator.history import History, Terms, frozen
from genan.actuator.numpy_runtime import FORMAT, VERSIONS, check_rates
from genan.actuator.settings import Architecture
from genan.data import Channels
from genan.errors import ActuatorError, listing
from genan.files import ArtifactFormat
from genan.robot import Robot

WEIGHTS, CONTRACT = "model.safetensors", "actuator.json"
KIND = ArtifactFormat(
    format=FORMAT,
    version=VERSIONS[-1],
    oldest=VERSIONS[0],
    weights=WEIGHTS,
    contract=CONTRACT,
    error=ActuatorError,
    none="There are no actuators",
    origin="the --out of 'genan fit'",
    again="fit again",
    unfinished="The fit in it is unfinished: run it to its end first.",
    others=(("policy.json", "a policy"),),
)

Ranges = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Contract:
    """Rate, channels, history and shape of an ensemble. Hashable: part of a compiled program."""

    robot: str  # Name of the robot it was fitted for.
    dt: float  # Sampling period of the history and of the simulation step [s].
    joints: tuple[str, ...]  # Joints, in the order of q and tau.
    joint_units: tuple[str, ...]  # "rad" (torque in N m) or "m" (force in N) for each joint.
    controls: tuple[str, ...]  # Controls, in the order of u.
    control_units: tuple[str, ...]  # Unit of each control.
    history: History  # What the network sees of the past.
    architecture: Architecture  # Shape of each member.
    members: int  # Networks in the ensemble.
    loss: str  # Loss it was trained with.
    q_seen: Ranges  # Lowest and highest position of each joint in the training data [rad or m].
    u_seen: Ranges  # Lowest and highest value of each control in the training data.

    def __post_init__(self) -> None:
        if not (self.dt > 0.0 and math.isfinite(self.dt)):
            raise ActuatorError(f"The actuators' period dt must be positive, not {self.dt:g} s.")
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
    def inputs(self) -> int:
        """Number of network inputs."""
        return self.history.inputs(self.nq, self.nu)

    @property
    def version(self) -> int:
        """Version of the format that can hold this: older readers must refuse what is new."""
        if self.history.terms.servos or self.history.terms.standing:
            return 3
        return 2 if self.history.delay or self.history.terms or self.architecture.skip else 1

    @property
    def servos(self) -> list[str]:
        """The servos among the joints, each in words."""
        found = []
        for servo in self.history.terms.servos:
            gains = listing(self.controls[k] for k in servo.gains)
            switches = listing(self.controls[k] for k in servo.switches)
            gain = f" by the gain {gains}" if servo.gains else ""
            switch = f" while {switches} is on" if servo.switches else ""
            joint, goal = self.joints[servo.joint], self.controls[servo.goal]
            found.append(f"Joint {joint!r} is a servo: pulled to {goal!r}{gain}{switch}.")
        return found

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units or rate."""
        self.check_channels(Channels.of_robot(robot), whose=f"robot {robot.name!r}")

    def check_channels(self, channels: Channels, *, whose: str) -> None:
        """Refuse, by name, other joints, controls, units or rate. ``whose``: for the message."""
        for name in ("joints", "joint_units", "controls", "control_units"):
            mine, theirs = getattr(self, name), getattr(channels, name)
            if mine != theirs:
                raise ActuatorError(
                    f"The actuators were fitted for the {name.replace('_', ' ')} {listing(mine)} "
                    f"in this order and {whose} has {listing(theirs)}; use actuators fitted for it."
                )
        self.check_rate(channels.dt, whose=whose)

    def check_rate(self, dt: float, *, whose: str) -> None:
        """Refuse another period ``dt`` [s] than the one fitted at. ``whose``: for the message."""
        check_rates(self.dt, dt, whose, ActuatorError)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it; older readers can read what uses nothing newer."""
        found, terms = asdict(self), self.history.terms
        past = {**found["history"], "terms": terms and terms.settings()}
        network = {**found.pop("architecture"), "members": found.pop("members")}
        newer = ("delay", "terms", "skip")
        past, network = (
            {key: value for key, value in part.items() if value or key not in newer}
            for part in (past, network)
        )
        past["order"] = "oldest first; the last row is now"
        return {**found, "history": past, "network": network}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Contract":
        """The contract that ``settings`` describes; a missing or wrong entry is refused by name."""
        try:
            found = frozen(settings)
            past, network = found.pop("history"), found.pop("network")
            terms = Terms.from_settings(past["terms"]) if "terms" in past else Terms()
            delay, skip = past.get("delay", 0), network.get("skip", False)
            return cls(
                history=History(past["length"], past["stride"], past["delta"], delay, terms),
                architecture=Architecture(network["hidden"], network["activation"], skip),
                members=network["members"],
                **found,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ActuatorError(
                f"The actuators' contract is not complete ({type(error).__name__}: {error}); "
                "export or fit them again."
            ) from None


def read_contract(folder: Path | str) -> tuple[Contract, dict[str, Any]]:
    """Contract and record of the fitted actuators in ``folder``, without their weights. Format
    (versions 1 to 3) and seal are checked."""
    settings = KIND.read_contract(Path(folder))
    return Contract.from_settings(settings["contract"]), settings["record"]
