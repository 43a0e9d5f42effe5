"""What a policy was trained for, and what it must therefore not be used on.

A policy that sees its observation in another order, or is asked at another rate, moves the arm all
the same, only wrongly. The contract travels with the weights through every export and is checked
wherever a policy meets a robot.
"""

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from genan.data import Channels
from genan.errors import GenanError, listing
from genan.files import ArtifactFormat
from genan.rl.config import ACTIVATIONS
from genan.robot import Robot

#: Two periods, changes or bounds are the same when they differ by less than this fraction.
TOLERANCE = 1e-6


class PolicyError(GenanError):
    """A policy is missing, damaged, or does not belong to this task, robot or rate."""


WEIGHTS, CONTRACT = "policy.safetensors", "policy.json"
KIND = ArtifactFormat(
    format="genan policy",
    version=1,
    weights=WEIGHTS,
    contract=CONTRACT,
    error=PolicyError,
    none="There is no policy",
    origin="the --out of 'genan train'",
    again="train again",
    unfinished="The training in it is unfinished: run it to its end first.",
    others=(("actuator.json", "actuators"),),
)


@dataclass(frozen=True)
class Part:
    """Neighbouring entries of an observation that belong together."""

    name: str
    size: int
    """Number of entries."""
    words: str = ""
    """What they are, with their unit; for a person."""


@dataclass(frozen=True)
class PolicyContract:
    """Task, robot, rate, observation and shape of a policy. Hashable, so that it can be part of a
    compiled program."""

    task: str
    """Name of the task it was trained in."""
    constants_json: str
    """The task's constants, as JSON text (see ``constants``)."""
    robot: str
    """Name of the robot it was trained for."""
    dt: float
    """Period of the robot [s]."""
    joints: tuple[str, ...]
    """Joints, in the order of q."""
    joint_units: tuple[str, ...]
    """"rad" or "m" for each joint."""
    controls: tuple[str, ...]
    """Controls, in the order of u."""
    control_units: tuple[str, ...]
    """Unit of each control."""
    u_range: tuple[tuple[float, float], ...]
    """Lowest and highest value of each control."""
    repeat: int
    """Periods of the robot to a step of the policy; the change is added to the controls at each of
    them."""
    change: float
    """Largest change of a control in one period of the robot."""
    layout: tuple[Part, ...]
    """What an observation is made of, in order."""
    clip: float | None
    """Standardised observations are kept within this [standard deviations]; None: they are used as
    they come."""
    hidden: tuple[int, ...]
    """Neurons of each hidden layer."""
    activation: str
    """What hidden layers end in: leaky_relu, elu or tanh."""
    actuators_sha256: str
    """Fingerprint of the actuators that it was trained on (see
    ``genan.rl.policy.actuator_fingerprint``)."""

    def __post_init__(self) -> None:
        for name, value in (
            ("period dt", self.dt),
            ("largest change", self.change),
            ("clip", self.clip),
        ):
            if value is not None and not 0.0 < value < math.inf:
                raise PolicyError(f"A policy's {name} must be a positive number, not {value:g}.")
        if self.repeat < 1:
            raise PolicyError(
                f"A policy's step must last at least 1 period of the robot, not {self.repeat}."
            )
        if self.activation not in ACTIVATIONS:
            raise PolicyError(
                f"There is no activation {self.activation!r}; there are: {listing(ACTIVATIONS)}."
            )
        if min((*self.hidden, *(part.size for part in self.layout)), default=0) < 1:
            raise PolicyError(
                "Every hidden layer and every part of a policy's observation needs at least one entry."
            )
        if len(set(self.parts)) != len(self.parts):
            raise PolicyError(
                f"The parts of a policy's observation need different names, not {listing(self.parts)}."
            )
        if not len(self.controls) == len(self.control_units) == len(self.u_range):
            raise PolicyError("Every control of a policy needs a unit and a range.")

    @property
    def constants(self) -> dict[str, Any]:
        """The task's constants."""
        found: dict[str, Any] = json.loads(self.constants_json)
        return found

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.controls)

    @property
    def observations(self) -> int:
        """Entries of an observation."""
        return sum(part.size for part in self.layout)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the observation's parts, in order."""
        return tuple(part.name for part in self.layout)

    @property
    def period(self) -> float:
        """Between two steps of the policy [s]."""
        return self.repeat * self.dt

    @property
    def rate(self) -> float:
        """Steps of the policy per second [Hz]."""
        return 1.0 / self.period

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every array of the policy by name; ``layers.0.weight`` is [inputs, outputs]."""
        found: dict[str, tuple[int, ...]] = {}
        for k, (rows, columns) in enumerate(pairwise((self.observations, *self.hidden, self.nu))):
            found[f"layers.{k}.weight"], found[f"layers.{k}.bias"] = (rows, columns), (columns,)
        found |= {f"scale.{name}": (self.observations,) for name in ("mean", "deviation")}
        return found | {"log_deviation": (self.nu,)}

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units, ranges or rate."""
        self.check_channels(Channels.of_robot(robot), whose=f"robot {robot.name!r}")

    def check_channels(self, channels: Channels, *, whose: str, repeat: int | None = None) -> None:
        """Refuse, by name, other joints, controls, units or ranges, or another rate.

        ``repeat`` is the number of periods to a step of the policy, where it is known; ``whose`` is
        for the message.
        """
        for kind, mine, theirs in (
            ("joints", self.joints, channels.joints),
            ("joint units", self.joint_units, channels.joint_units),
            ("controls", self.controls, channels.controls),
            ("control units", self.control_units, channels.control_units),
        ):
            if mine != theirs:
                raise PolicyError(
                    f"The policy was trained for the {kind} {listing(mine)} in this order and {whose} has "
                    f"{listing(theirs)}; use a policy trained for it."
                )
        for name, (low, high), bounds in zip(
            self.controls, self.u_range, channels.control_range.T, strict=True
        ):
            if not (_same(low, bounds[0]) and _same(high, bounds[1])):
                raise PolicyError(
                    f"The policy was trained with the control {name!r} from {low:g} to {high:g} and {whose} has it "
                    f"from {bounds[0]:g} to {bounds[1]:g}; use a policy trained for it."
                )
        repeat = self.repeat if repeat is None else repeat
        if repeat != self.repeat or not _same(self.dt, channels.dt):
            raise PolicyError(
                f"Two rates: the policy was trained at {self.rate:.6g} Hz ({self.repeat} periods of {self.dt:.6g} s) "
                f"and {whose} runs at {1.0 / (repeat * channels.dt):.6g} Hz ({repeat} of {channels.dt:.6g} s); use a "
                "policy trained for it."
            )

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {
            "task": self.task,
            "constants": self.constants,
            "robot": self.robot,
            "dt": self.dt,
            "joints": list(self.joints),
            "joint_units": list(self.joint_units),
            "controls": list(self.controls),
            "control_units": list(self.control_units),
            "u_range": [list(pair) for pair in self.u_range],
            "repeat": self.repeat,
            "rate": self.rate,
            "change": self.change,
            "observation": [
                {"name": p.name, "size": p.size, "words": p.words} for p in self.layout
            ],
            "scale": {
                "clip": self.clip,
                "formula": "clip((observation - mean) / deviation, -clip, clip)",
            },
            "network": {"hidden": list(self.hidden), "activation": self.activation},
            "action": "change * tanh(output), added to u at each of the repeat periods, within u_range",
            "actuators_sha256": self.actuators_sha256,
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "PolicyContract":
        """The contract that ``settings`` describes; a missing or misplaced entry is refused by
        name."""
        try:
            network, clip = settings["network"], settings["scale"]["clip"]
            return cls(
                task=str(settings["task"]),
                constants_json=json.dumps(settings["constants"], sort_keys=True),
                robot=str(settings["robot"]),
                dt=float(settings["dt"]),
                joints=tuple(map(str, settings["joints"])),
                joint_units=tuple(map(str, settings["joint_units"])),
                controls=tuple(map(str, settings["controls"])),
                control_units=tuple(map(str, settings["control_units"])),
                u_range=tuple((float(low), float(high)) for low, high in settings["u_range"]),
                repeat=int(settings["repeat"]),
                change=float(settings["change"]),
                layout=tuple(
                    Part(str(p["name"]), int(p["size"]), str(p["words"]))
                    for p in settings["observation"]
                ),
                clip=None if clip is None else float(clip),
                hidden=tuple(map(int, network["hidden"])),
                activation=str(network["activation"]),
                actuators_sha256=str(settings["actuators_sha256"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PolicyError(
                f"The policy's contract is not complete ({type(error).__name__}: {error}); export or train it anew."
            ) from None


def read_contract(folder: Path | str) -> tuple[PolicyContract, dict[str, Any]]:
    """Contract and record of the policy in ``folder``, without its weights and without JAX.

    The record says how the policy was trained (``steps``, ``seed``, ``ppo``, ``curve``) and how
    good it is (``judged``).
    """
    settings = KIND.read_contract(Path(folder))
    return PolicyContract.from_settings(settings["contract"]), settings["record"]


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE)
