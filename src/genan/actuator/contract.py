"""What an actuator network was made for, and what it must therefore not be used on.

The classic silent fault of this field is a network trained at one rate, joint order or history and
run at another: the contract travels with the weights and is checked wherever the two worlds meet.
Nothing here imports JAX.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from genan.actuator.numpy_runtime import FORMAT, VERSIONS, check_rates
from genan.actuator.settings import Architecture, History, Servo, Terms, frozen
from genan.data import Channels
from genan.errors import ActuatorError, SettingError, listing, refuse
from genan.files import ArtifactFormat, check_types
from genan.robot import Robot, robot_names
from genan.robot.package import is_bundled

WEIGHTS, CONTRACT = "model.safetensors", "actuator.json"
KIND = ArtifactFormat(
    format=FORMAT, versions=VERSIONS, weights=WEIGHTS, contract=CONTRACT,
    error=ActuatorError, noun="the actuators", none="There are no actuators",
    origin="the --out of 'genan fit'", again="fit again", others=(("policy.json", "a policy"),),
    unfinished="The fit in it is unfinished: run it to its end first.",
    finished="holds finished actuators; give another --out, --overwrite to fit them again, or "
    "--from {out} to continue from them.",
    more=("reference.safetensors",), trusted=is_bundled,
)  # fmt: skip

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
        dt, members = self.dt, self.members
        refuse(
            (not 0.0 < dt < math.inf, f"The actuators' period dt must be positive, not {dt:g} s."),
            (members < 1, f"An ensemble needs at least one member, not {members}."),
            error=ActuatorError,
        )

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
        named = lambda some: listing(self.controls[k] for k in some)
        return [
            f"Joint {self.joints[one.joint]!r} is a servo: pulled to {self.controls[one.goal]!r}"
            + (f" by the gain {named(one.gains)}" if one.gains else "")
            + (f" while {named(one.switches)} is on." if one.switches else ".")
            for one in self.history.terms.servos
        ]

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units or rate."""
        self.check_channels(Channels.of_robot(robot), whose=f"robot {robot.name!r}")

    def check_channels(self, channels: Channels, *, whose: str) -> None:
        """Refuse, by name, other joints, controls, units or rate. ``whose``: for the message."""
        for name in ("joints", "joint_units", "controls", "control_units"):
            mine, theirs = getattr(self, name), getattr(channels, name)
            if mine != theirs:
                fitted = f"fitted for the {name.replace('_', ' ')} {listing(mine)} in this order"
                other = f"{whose} has {listing(theirs)}; use actuators fitted for it"
                raise ActuatorError(f"The actuators were {fitted} and {other}.")
        self.check_rate(channels.dt, whose=whose)

    def check_rate(self, dt: float, *, whose: str) -> None:
        """Refuse another period ``dt`` [s] than the one fitted at. ``whose``: for the message."""
        check_rates(self.dt, dt, whose, ActuatorError)

    def find_robot(
        self,
        record: Mapping[str, Any],
        robot: Robot | Path | str | None = None,
        *,
        usual: str | None = None,
    ) -> Robot:
        """``robot``; left out, the ``usual`` one if these actuators drive it, else the one that
        they were fitted for: where its robot.toml was then (``record``), or the installed one."""
        if robot is not None:
            return Robot.load(robot)
        if usual is not None:
            with suppress(ActuatorError):
                self.check_robot(found := Robot.load(usual))
                return found
        known = record.get("robot")
        if known and Path(known).exists():
            return Robot.load(Path(known))
        absent = f"The actuators were fitted for robot {self.robot!r}, which is not installed"
        none = self.robot not in robot_names(), f"{absent}; give its robot.toml (--robot)."
        refuse(none, error=ActuatorError)
        return Robot.load(self.robot)

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it; older readers can read what uses nothing newer."""
        newer = ("delay", "terms", "skip", "servos", "standing")
        used = lambda part: {key: x for key, x in part.items() if x or key not in newer}
        found, past = asdict(self), asdict(self.history)
        past["terms"] = self.history.terms and used(past["terms"])
        found["history"] = {**used(past), "order": "oldest first; the last row is now"}
        network = {**used(found.pop("architecture")), "members": found.pop("members")}
        return {**found, "network": network}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Contract":
        """The contract that ``settings`` describes; a missing or wrong entry is refused by name."""
        try:
            found = frozen(settings)
            past, network = found.pop("history"), found.pop("network")
            terms, delay = past.get("terms", {}), past.get("delay", 0)
            terms = Terms(**terms | {"servos": tuple(Servo(**x) for x in terms.get("servos", ()))})
            history = History(past["length"], past["stride"], past["delta"], delay, terms)
            shape = network["hidden"], network["activation"], network.get("skip", False)
            own: Any = {"history": history, "architecture": Architecture(*shape)}
            made = cls(**found, **own, members=network["members"])
            check_types(made)
            return made
        except (KeyError, TypeError, ValueError, AttributeError, SettingError) as error:
            missing = f"The actuators' contract is not complete ({type(error).__name__}: {error})"
            raise ActuatorError(f"{missing}; export or fit them again.") from None


def read_contract(folder: Path | str) -> tuple[Contract, dict[str, Any]]:
    """Contract and record of the fitted actuators in ``folder``, checked, without their weights."""
    settings = KIND.read_contract(Path(folder))
    return Contract.from_settings(settings["contract"]), settings["record"]
