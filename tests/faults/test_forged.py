"""Forged and damaged artifacts: refused in one sentence, and nothing has moved."""

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.deployment.faulty import MemoryRobot
from tests.faults.forging import (
    ABSURD,
    beyond_limits,
    change,
    contract,
    copied,
    damaged,
    edit,
    places,
    within,
)

from genan import actuator
from genan.actuator import numpy_runtime
from genan.actuator.contract import KIND as ACTUATORS
from genan.errors import ActuatorError
from genan.rl.contract import KIND as POLICY
from genan.robot.package import bundled_actuators, bundled_policy
from genan.robots.pamy2 import PACKAGE

pytestmark = pytest.mark.faults
GOAL = ("--goal", 10, 30, 20, 0, "--max-seconds", 2.5)
LONGEST = 4000
"""Of a sentence, with what was forged in it."""


@pytest.fixture
def robots(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MemoryRobot]]:
    """Every robot that a command has opened as ``--robot memory``."""
    made: list[MemoryRobot] = []

    def connected() -> MemoryRobot:
        made.append(MemoryRobot())
        return made[-1]

    monkeypatch.setattr(sys.modules[__name__], "Memory", connected, raising=False)
    monkeypatch.setitem(PACKAGE.interfaces, "memory", f"{__name__}:Memory")
    yield made


class Forger:
    """Gives what it was handed to a command, and looks at what becomes of it."""

    def __init__(self, genan: Callable, robots: list[MemoryRobot]) -> None:
        self._genan, self._robots = genan, robots
        self.tried = self.refused = 0
        self.faults: list[str] = []

    def flies(self, words: str, *command: object) -> bool:
        """Whether the command flew; refused, nothing may have moved."""
        self.tried += 1
        del self._robots[:]
        try:
            with within():
                answer = self._genan(*command)
        except BaseException as error:
            self.faults.append(f"{words}: {type(error).__name__}: {error}"[:300])
            return False
        commands = [u for robot in self._robots for u in robot.commands]
        if answer.code == 2:
            self.refused += 1
            lines = [line for line in answer.err.splitlines() if line.startswith("genan: ")]
            odd = "Traceback" in answer.err or "\x1b" in answer.err or len(answer.err) > LONGEST
            if len(lines) != 1 or odd:
                self.faults.append(f"{words}: it said {answer.err[:300]!r}")
            if commands:
                self.faults.append(f"{words}: the robot moved before: {answer.err[:200]!r}")
            return False
        if answer.code not in (0, 1):
            self.faults.append(f"{words}: exit code {answer.code}: {answer.err[:200]!r}")
        if commands and (fault := beyond_limits(np.array(commands))):
            self.faults.append(f"{words}: flown at {fault}")
        return bool(commands)

    def done(self) -> None:
        shown = "\n".join(self.faults)
        assert not self.faults, f"{len(self.faults)} of {self.tried}:\n{shown}"


@pytest.fixture
def forger(genan: Callable, robots: list[MemoryRobot]) -> Forger:
    return Forger(genan, robots)


def deploy(policy: Path) -> tuple[object, ...]:
    on = ("--robot", "memory", "--skip-direction-check")
    return ("deploy", "reacher", "--policy", policy, *on, *GOAL)


def check(actuators: Path) -> tuple[object, ...]:
    return ("check", "--robot", "memory", "--actuators", actuators)


def test_damaged_policies(forger: Forger, tmp_path: Path, tried: Callable) -> None:
    source, chance, harmless = bundled_policy("reacher"), random.Random(0), 0
    whole = contract(source, POLICY)
    for number in range(300):
        folder = copied(source, tmp_path / "policy")
        name = chance.choice((POLICY.weights, POLICY.contract))
        words = f"{name} {number}: {damaged(folder / name, chance)}"
        if forger.flies(words, *deploy(folder)):
            harmless += 1  # a space, a digit that no number can hold
            assert contract(folder, POLICY) == whole and name == POLICY.contract, words
    forger.done()
    words = f"{forger.refused} refused in a sentence, nothing moved"
    words += f"; {harmless} the same but for a space" if harmless else ""
    tried("damaged policies flown by 'deploy'", forger.tried, words)


#: What must be refused by what it says: place in the contract, and value.
WRONG = {
    ("contract", "action_scale"): 10.0,
    ("contract", "dt"): 0.004,
    ("contract", "action_repeat"): 1,
    ("contract", "rate"): 50.0,
    ("contract", "robot"): "pamy2-cup",
    ("contract", "task"): "table-tennis",
    ("contract", "joints"): ["q2", "q1", "q3", "q4"],
    ("contract", "controls"): ["u1", "u2", "u3"],
    ("contract", "u_range"): [[-2.0, 2.0]] * 4,
    ("contract", "observation"): [{"name": "q", "size": 16, "words": ""}],
    ("contract", "network", "hidden"): [64, 64, 64],
    ("contract", "network", "activation"): "relu6",
    ("contract", "scale", "clip"): -5.0,
    ("version",): 99,
    ("format",): "genan actuators",
    ("contract", "constants", "u_upper"): [2.0] * 4,
}
#: Names of arrays, and what they become.
ARRAYS: dict[str, list[Any]] = {
    "layers.0.weight": [lambda a: a * np.nan, lambda a: a.T, lambda a: a[:-1], None],
    "layers.4.bias": [lambda a: a + np.inf, lambda a: a.astype(np.float64), lambda a: a[None]],
    "layers.4.weight": [lambda a: np.zeros((2**20, 8), np.float32)],
    "scale.std": [lambda a: 0.0 * a, lambda a: -a, lambda a: a * np.nan],
    "scale.mean": [lambda a: a * np.inf, lambda a: np.int32(a)],
}
JSON = (
    b"", b"null", b"[]", b"{}", b"[" * 200_000, b'{"a":' * 200_000, b"\xff\xfe\x00", b"1e999",
    b'{"format": "genan policy", "version": 2, "seal": ' + b"9" * 10_000 + b"}",
    b'{"seal": "", "format": ["genan policy"], "version": {}}', b"\x00" * 1000,
)  # fmt: skip


def test_forged_policies(forger: Forger, tmp_path: Path, tried: Callable) -> None:
    source, folder = bundled_policy("reacher"), tmp_path / "policy"
    for place, value in WRONG.items():
        edit(copied(source, folder), POLICY, place, value)
        if forger.flies(f"{place}", *deploy(folder)):
            forger.faults.append(f"{place} = {value!r} was flown")
    for name, changes in ARRAYS.items():
        for k, one in enumerate(changes):
            change(copied(source, folder), POLICY, name, one)
            if forger.flies(f"{name} {k}", *deploy(folder)):
                forger.faults.append(f"array {name}, change {k}, was flown")
    other = bundled_policy("table-tennis")
    for name in (POLICY.weights, POLICY.contract):
        (copied(source, folder) / name).write_bytes((other / name).read_bytes())
        if forger.flies(f"the {name} of another", *deploy(folder)):
            forger.faults.append(f"the {name} of another was flown")
    for content in JSON:
        (copied(source, folder) / POLICY.contract).write_bytes(content)
        if forger.flies(f"JSON {content[:30]!r}", *deploy(folder)):
            forger.faults.append(f"JSON {content[:30]!r} was flown")
    forger.done()
    assert forger.refused == forger.tried
    tried("forged policies with a seal that fits", forger.tried, "refused by name, nothing moved")


def test_absurd_entries_of_policies(forger: Forger, tmp_path: Path, tried: Callable) -> None:
    source, folder, chance = bundled_policy("reacher"), tmp_path / "policy", random.Random(1)
    whole, flown = contract(source, POLICY), 0
    spots = [p for p in places(whole, 4) if p[0] not in ("record", "seal", "weights_sha256")]
    for place in [*spots, *places({"record": whole["record"]}, 3)]:
        for value in chance.sample(ABSURD, 5):
            edit(copied(source, folder), POLICY, place, value)
            flown += forger.flies(f"{place} = {str(value)[:30]!r}", *deploy(folder))
    forger.done()
    words = f"{forger.refused} refused in a sentence; {flown} that do not matter flown in limits"
    tried("absurd entries in sealed policies", forger.tried, words)


def test_damaged_and_forged_actuators(forger: Forger, tmp_path: Path, tried: Callable) -> None:
    source, folder, chance = bundled_actuators("pamy2"), tmp_path / "actuators", random.Random(2)
    readers: tuple[Callable, ...] = (actuator.load, numpy_runtime.load)
    refusals, harmless, cases = (ActuatorError, numpy_runtime.ActuatorsError), 0, 0

    def refused(words: str, *, certain: bool = True) -> int:
        """Both readers say a sentence; 1 if they did not, and need not."""
        taken = 0
        for reader in readers:
            try:
                with within():
                    reader(folder)
                taken += 1
            except refusals as error:
                if "\n" in str(error) or not str(error).endswith(".") or len(str(error)) > LONGEST:
                    forger.faults.append(f"{words}: {error!r}"[:300])
            except BaseException as error:
                name = reader.__module__
                forger.faults.append(f"{words}: {name}: {type(error).__name__}: {error}"[:300])
        if taken and certain:
            forger.faults.append(f"{words}: taken by {taken} of {len(readers)}")
        return int(taken > 0)

    for number in range(200):
        copied(source, folder)
        name = chance.choice((ACTUATORS.weights, ACTUATORS.contract))
        what = damaged(folder / name, chance)
        if refused(f"{name} {number}: {what}", certain=name == ACTUATORS.weights):
            harmless += 1
            assert contract(folder, ACTUATORS) == contract(source, ACTUATORS), what
        if number % 20 == 0 and name == ACTUATORS.weights:
            assert not forger.flies(f"check with {name}: {what}", *check(folder))
        cases += 1
    whole = contract(source, ACTUATORS)
    for place in [p for p in places(whole, 4) if p[0] == "contract"]:
        for value in chance.sample(ABSURD, 4):
            edit(copied(source, folder), ACTUATORS, place, value)
            harmless += refused(f"{place} = {str(value)[:30]!r}", certain=False)
            cases += 1
    for name, one in (
        ("layers.0.weight", lambda a: a * np.nan),
        ("layers.0.weight", lambda a: a[:, ::2]),
        ("layers.1.bias", lambda a: a.astype(np.float64)[0]),
        ("scaling.torque_std", lambda a: a * np.inf),
        ("scaling.input_std", None),
    ):
        change(copied(source, folder), ACTUATORS, name, one)
        refused(f"array {name}")
        assert not forger.flies(f"check with another {name}", *check(folder))
        cases += 1
    for content in JSON:
        (copied(source, folder) / ACTUATORS.contract).write_bytes(content)
        refused(f"JSON {content[:30]!r}")
        cases += 1
    forger.done()
    words = f"{cases - harmless} refused by all readers; {harmless} say nothing that matters"
    tried("damaged and forged actuators", cases, words)
