"""What a policy was trained for, and what it must therefore not be used on.

A policy that sees its observation in another order, or is asked at another rate, moves the arm all
the same, only wrongly. The contract travels with the weights through every export and is checked
wherever a policy meets a robot. Nothing here needs JAX.
"""

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from genan.actuator.settings import frozen
from genan.data import Channels
from genan.errors import GenanError, SettingError, check_choices, check_numbers, listing, refuse
from genan.files import ArtifactFormat, check_types
from genan.rl import numpy_policy
from genan.rl.config import ACTIVATIONS, convert_ppo_settings
from genan.rl.numpy_policy import FORMAT, NAMES_0_1, VERSIONS
from genan.robot import Robot
from genan.robot.package import bundled_policy, is_bundled
from genan.tasks.registry import TaskSettings

TOLERANCE = 1e-6  # Part by which two periods, scales or bounds may differ and be the same.


class PolicyError(GenanError):
    """A policy is missing, damaged, or does not belong to this task, robot or rate."""


WEIGHTS, CONTRACT = numpy_policy.WEIGHTS, numpy_policy.CONTRACT
KIND = ArtifactFormat(
    format=FORMAT, versions=VERSIONS, weights=WEIGHTS, contract=CONTRACT,
    error=PolicyError, noun="the policy", none="There is no policy",
    origin="the --out of 'genan train'",
    again="train again", others=(("actuator.json", "actuators"),),
    unfinished="The training in it is unfinished: run it to its end first.",
    finished="holds a finished policy; give another --out, or --overwrite.",
    trusted=is_bundled,
)  # fmt: skip
_NAMES_0_1 = {**NAMES_0_1, "envs": "num_envs", "learning/deviation": "learning/std"}
"""What genan 0.1 (version 1 of the format) called entries of contract and record, and arrays."""


@dataclass(frozen=True)
class ObservationPart:
    """Neighbouring entries of an observation that belong together."""

    name: str
    size: int  # Number of entries.
    words: str = ""  # What they are, with their unit; for a person.


@dataclass(frozen=True)
class PolicyContract:
    """What a policy was trained for; hashable, so that it can be part of a compiled program."""

    task: str
    constants_json: str  # The task's settings, as JSON text (see ``constants``).
    robot: str
    dt: float  # Period of the robot [s].
    joints: tuple[str, ...]  # Joints, in the order of q.
    joint_units: tuple[str, ...]  # "rad" or "m" for each joint.
    controls: tuple[str, ...]  # Controls, in the order of u.
    control_units: tuple[str, ...]
    u_range: tuple[tuple[float, float], ...]  # Lowest and highest value of each control.
    action_repeat: int  # Periods of the robot to a step; the action is added at each of them.
    action_scale: float | tuple[float, ...]
    """Largest action: change of a control in one period of the robot; one for all, or one each."""
    layout: tuple[ObservationPart, ...]  # What an observation is made of, in order.
    clip: float | None  # Bound of standardised observations [std]; None: they have none.
    hidden: tuple[int, ...]  # Neurons of each hidden layer.
    activation: str  # What hidden layers end in: leaky_relu, elu or tanh.
    actuators_sha256: str  # Fingerprint of the actuators (``actuator_fingerprint``).

    def __post_init__(self) -> None:
        rules = {"be a positive number": "dt action_scale clip", "be at least 1": "action_repeat"}
        names = [part.name for part in self.layout]
        sizes = [*self.hidden, *(part.size for part in self.layout)]
        described = len(self.controls) == len(self.control_units) == len(self.u_range)
        scaled = np.size(self.action_scale) in (1, len(self.controls))
        try:
            check_numbers(self, rules)
            check_choices(self, activation=ACTIVATIONS)
            refuse(
                (min(sizes, default=0) < 1, f"It needs sizes of 1 or more entries, not {sizes}."),
                (len({*names}) < len(names), f"Parts need different names, not {listing(names)}."),
                (not described, "It needs a unit and a range for every control."),
                (not scaled, "It needs one action_scale, or one for every control."),
            )
        except SettingError as error:
            raise PolicyError(f"This cannot be a policy's contract: {error}") from None

    @property
    def constants(self) -> Any:
        """The task's settings, by name."""
        return json.loads(self.constants_json)

    @property
    def observations(self) -> int:
        """Entries of an observation."""
        return sum(part.size for part in self.layout)

    @property
    def words(self) -> str:
        """The observation's parts with their sizes, for a person."""
        return ", ".join(f"{part.name} {part.size}" for part in self.layout)

    @property
    def rate(self) -> float:
        """Steps of the policy per second [Hz]."""
        return 1.0 / (self.action_repeat * self.dt)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every array of the policy by name; ``layers.0.weight`` is [inputs, outputs]."""
        found: dict[str, tuple[int, ...]] = {}
        seen, actions = self.observations, len(self.controls)
        for k, (rows, columns) in enumerate(pairwise((seen, *self.hidden, actions))):
            found[f"layers.{k}.weight"], found[f"layers.{k}.bias"] = (rows, columns), (columns,)
        return {**found, "scale.mean": (seen,), "scale.std": (seen,), "log_std": (actions,)}

    def check_task(self, task: TaskSettings, given: str) -> None:
        """Refuse, by name, another task, action scale or observation than ``words`` says."""
        trained, largest, has = "The policy was trained", self.action_scale, task.action_scale
        say = lambda scale: " ".join(f"{x:g}" for x in np.atleast_1d(scale))
        flag = f"--task.action-scale {say(largest)}"
        other = f"{trained} for the task {self.task!r}"
        order = f"{self.words} in this order and the environment gives {given}"
        seen = f"{trained} on observations of {order}"
        scale = f"up to {say(largest)} in a period and the environment has {say(has)}"
        same_size = np.shape(largest) == np.shape(has)
        scaled = same_size and np.allclose(largest, has, rtol=TOLERANCE, atol=0.0)
        refuse(
            (self.task != task.name, f"{other}, not for {task.name!r}."),
            (self.words != given, f"{seen}; use a policy trained in it."),
            (not scaled, f"{trained} to change a control by {scale}; give {flag}."),
            error=PolicyError,
        )

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units, ranges or rate, or whose
        controls may not change as fast as the policy's."""
        self.check_channels(Channels.of_robot(robot), whose=f"robot {robot.name!r}")
        other = f"The policy was trained for the robot {self.robot!r}, not for {robot.name!r}"
        refuse((self.robot != robot.name, f"{other}; use one trained for it."), error=PolicyError)
        fastest, slowest = robot.fastest(self.action_scale)
        asks = f"The policy changes controls by up to {fastest:g} in a period"
        limit = f"the robot {robot.name!r} allows {slowest:g} (rate in its robot.toml)"
        faster = fastest > slowest * (1.0 + TOLERANCE)
        refuse((faster, f"{asks}, and {limit}; train a slower one."), error=PolicyError)

    def check_channels(self, channels: Channels, *, whose: str, repeat: int | None = None) -> None:
        """Refuse, by name, other joints, controls, units or ranges, or another rate; ``repeat``:
        periods to a step of the policy, where they are known."""

        def check(same: bool, mine: str, theirs: str, start: str = "The") -> None:
            both = f"{start} policy was trained {mine} and {whose} {theirs}"
            refuse((not same, f"{both}; use a policy trained for it."), error=PolicyError)

        for kind in ("joints", "joint_units", "controls", "control_units"):
            mine, theirs = getattr(self, kind), getattr(channels, kind)
            trained = f"for the {kind.replace('_', ' ')} {listing(mine)} in this order"
            check(mine == theirs, trained, f"has {listing(theirs)}")
        for name, *both in zip(self.controls, self.u_range, channels.control_range.T, strict=True):
            mine, theirs = (f"from {low:g} to {high:g}" for low, high in both)
            same = np.allclose(*both, rtol=TOLERANCE, atol=0.0)
            check(same, f"with the control {name!r} {mine}", f"has it {theirs}")
        repeat = self.action_repeat if repeat is None else repeat
        same = math.isclose(self.dt, channels.dt, rel_tol=TOLERANCE)
        trained = f"at {self.rate:.6g} Hz ({self.action_repeat} periods of {self.dt:.6g} s)"
        runs = f"runs at {1.0 / (repeat * channels.dt):.6g} Hz ({repeat} of {channels.dt:.6g} s)"
        check(same and repeat == self.action_repeat, trained, runs, start="Two rates: the")

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        plain = json.loads(json.dumps(asdict(self)))
        network = {name: plain.pop(name) for name in ("hidden", "activation")}
        formula = "clip((observation - mean) / std, -clip, clip)"
        del plain["constants_json"]
        return {
            "constants": self.constants,
            "rate": self.rate,
            "observation": plain.pop("layout"),
            "scale": {"clip": plain.pop("clip"), "formula": formula},
            "network": network,
            "action": "action_scale * tanh(output), added to u at each of the action_repeat "
            "periods, within u_range",
            **plain,
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "PolicyContract":
        """The contract that ``settings`` describes, in the names of any version of the format; a
        missing or misplaced entry is refused by name."""
        try:
            found = frozen({**_renamed(settings), **settings["network"], **settings["scale"]})
            found["layout"] = tuple(ObservationPart(**part) for part in found["observation"])
            found["constants_json"] = json.dumps(_renamed(found["constants"]), sort_keys=True)
            made = cls(**{field.name: found[field.name] for field in fields(cls)})
            two = f"a rate of {found['rate']:g} Hz, and {made.rate:g} Hz by dt and action_repeat"
            check_types(made)
            same = math.isclose(found["rate"], made.rate, rel_tol=TOLERANCE)
            refuse((not same, f"The policy has {two}; train again."), error=PolicyError)
            return made
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            lacks = f"The policy's contract is not complete ({type(error).__name__}: {error})"
            raise PolicyError(f"{lacks}; export it again or train again.") from None


def read_policy(folder: Path | str) -> tuple[PolicyContract, Any, dict[str, np.ndarray]]:
    """Contract, record and arrays of the policy in ``folder`` (or the bundled one of that name,
    TASK or ROBOT/TASK), everything checked."""
    folder = _find(folder)
    settings, arrays = KIND.read(folder)
    (contract, record), arrays = _parse(settings), _renamed(arrays)
    KIND.check_arrays(arrays, contract.shapes, where=str(folder / WEIGHTS))
    return contract, record, arrays


def read_contract(folder: Path | str) -> tuple[PolicyContract, dict[str, Any]]:
    """Contract and record of the policy in ``folder`` (or the bundled one of that name), checked
    against their seal, without the weights. The record says how the policy was trained (``steps``,
    ``seed``, ``num_envs``, ``ppo``, ``versions``, and ``curve``: numbers of up to 100 updates, each
    with ``steps``) and how good it is (``judged``: ``success``, ``interval``, ``episodes``)."""
    return _parse(KIND.read_contract(_find(folder)))


def _find(folder: Path | str) -> Path:
    if not Path(folder).exists():
        with contextlib.suppress(GenanError):
            return bundled_policy(str(folder))
    return Path(folder)


def _parse(settings: Mapping[str, Any]) -> tuple[PolicyContract, dict[str, Any]]:
    """Contract and record in a ``policy.json`` of any version, under present names."""
    contract, record = PolicyContract.from_settings(settings["contract"]), settings["record"]
    if settings["version"] == 1:
        record = _renamed(record)
        old = record.pop("settings", {})
        record["ppo"] = convert_ppo_settings(record.get("ppo") or old)
        size, curve = record.get("num_envs", 0), record.get("curve", ())
        size *= record["ppo"].get("num_steps_per_env", 0)
        record["curve"] = [_renamed(point) | {"steps": point["update"] * size} for point in curve]
    return contract, record


def _renamed(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES_0_1.get(name, name): value for name, value in entries.items()}
