"""The lab's published driver in front of ``genan serve``: a test double of it.

Its source cannot be in this repository. What it puts on the wire was transcribed from the tables in
docs/pamy2-protocol.md with ``struct``, without genan's own ``wire``: the revision of 2024-03-27,
and older ones, which belong to cabinets that were wired in another way.
"""

import struct
import tomllib
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

import numpy as np
import pytest
from tests.deployment.checking import ROBOT, checked

from genan.deployment.controller import Goal, PolicyController
from genan.deployment.interface import (
    Clock,
    ConnectionLostError,
    Reading,
    RobotInterface,
    WallClock,
    served,
)
from genan.deployment.loop import TO_REST, ControlLoop, Flight, FlightRecorder, RampTo
from genan.deployment.safety import SafetySettings, StopReason
from genan.evaluation.directions import check_directions, is_checked
from genan.rl.numpy_policy import load
from genan.robot import Robot
from genan.robot.package import bundled_actuators, bundled_policy, open_virtual
from genan.robots.pamy2.pressures import bar_from_control
from genan.robots.pamy2.server import ServerLog, ServerSettings, UdpServer, listen

GOAL = np.radians([10.0, 30.0, 20.0, 15.0])
TO_ROBOT, FROM_ROBOT = struct.Struct("<4HI20f"), struct.Struct("<9I4H20f" + 4 * "Ii6f" + "50f2I")
#: Of the lab's PAMY2 in August 2024, joint by joint [counts].
AGONIST = np.array([[12500, 17500, 12000, 12000], [26500, 22000, 24500, 23000]])
ANTAGONIST = np.array([[12500, 17800, 12000, 12000], [26500, 22000, 25000, 23000]])


@dataclass(frozen=True)
class Revision:
    """A row of the table of revisions: angle = sign * rotate(wire, rotation)."""

    signs: tuple[int, int, int, int]
    rotations: tuple[float, float, float, float]  # [deg]
    swapped: bool  # Joint 4's muscles, in commands.
    observed_swapped: bool  # The same in observed pressures.


REVISIONS = {
    "2022-04-19": Revision((-1, -1, -1, 1), (-5.37, 2.5, -0.75, -44.5), True, True),
    "2022-04-28": Revision((1, 1, 1, -1), (0.0, 0.0, 0.0, 0.0), True, True),
    "2024-03-27": Revision((1, 1, 1, 1), (0.0, 0.0, 0.0, 0.0), False, False),
}


class LabDriver:
    """What it sends and takes: counts of pressure, and angles."""

    def __init__(self, revision: str, address: tuple[str, int]) -> None:
        self._revision, self._counter = REVISIONS[revision], 0
        self._socket = socket(AF_INET, SOCK_DGRAM)
        self._socket.connect(address)
        self._socket.setblocking(False)

    def send(self, agonist: np.ndarray, antagonist: np.ndarray, *, time_us: int) -> None:
        """Pressures of the four joints [counts], clipped to the muscles' limits."""
        pairs = [
            (int(np.clip(ago, *AGONIST[:, k])), int(np.clip(antago, *ANTAGONIST[:, k])))
            for k, (ago, antago) in enumerate(zip(agonist, antagonist, strict=True))
        ]
        if self._revision.swapped:
            pairs[3] = pairs[3][::-1]
        bar = [tuple(0.0002 * count - 1.7888 for count in pair) for pair in pairs]
        numbers = [x for ago, antago in bar for x in (0.0, 0.0, ago, 0.0, antago)]
        self._counter = (self._counter + 1) % 2**16
        self._socket.send(TO_ROBOT.pack(self._counter, 1, 1, 0, time_us % 2**32, *numbers))

    def latest(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """The newest datagram: time [s], angles [rad] and observed pressures [bar]."""
        data = b""
        while True:
            try:
                data = self._socket.recv(2048)
            except OSError:
                break
        if len(data) != FROM_ROBOT.size:
            return None
        fields = FROM_ROBOT.unpack(data)
        joints = [fields[33 + 8 * k : 41 + 8 * k] for k in range(4)]
        rotated = np.array([joint[2] for joint in joints]) + self._revision.rotations
        rotated = (rotated + 180.0) % 360.0 - 180.0
        observed = [(joint[4], joint[6]) for joint in joints]
        if self._revision.observed_swapped:
            observed[3] = observed[3][::-1]
        q = np.radians(rotated) * self._revision.signs
        return 1e-6 * fields[6], q, np.array(observed).ravel()

    def close(self) -> None:
        self._socket.close()


class DrivenRobot(RobotInterface):
    """genan on top of the driver, as it would be on top of the lab's software."""

    def __init__(self, revision: str, address: tuple[str, int], clock: Clock) -> None:
        self.robot, self.clock, self._revision = Robot.load("pamy2"), clock, revision
        self._address = address
        self._driver: LabDriver | None = None
        self._reading: Reading | None = None

    def connect(self) -> None:
        if self._driver is not None:
            return
        self._driver = LabDriver(self._revision, self._address)
        until = self.clock.now() + 5.0
        while self._look() is None:
            if self.clock.now() > until:
                raise ConnectionLostError("Nobody answers the driver.")
            self.command(self.robot.u_rest)
            self.clock.wait_until(self.clock.now() + self.robot.dt)

    def _look(self) -> Reading | None:
        assert self._driver is not None
        if (found := self._driver.latest()) is not None:
            time, q, pressure = found
            self._reading = Reading(time, q, {"pressure": pressure})
        return self._reading

    def read(self) -> Reading:
        reading = self._look()
        assert reading is not None
        return reading

    def command(self, u: np.ndarray) -> np.ndarray:
        """p = middle -/+ u (max - min) / 2, in whole counts."""
        assert self._driver is not None
        sent = np.clip(u, *self.robot.u_range)
        counts = [
            (low + (high - low) * (0.5 + 0.5 * sign * sent)).astype(int)
            for sign, (low, high) in ((-1.0, AGONIST), (1.0, ANTAGONIST))
        ]
        self._driver.send(*counts, time_us=round(1e6 * self.clock.now()))
        return sent

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = self._reading = None

    def identity(self) -> dict[str, str]:
        return {"address": str(self._address), "driver": self._revision}


class Cabinet:
    """The served virtual PAMY2 with the newest wiring, in step with its client, and its clock: it
    ticks where others would wait."""

    def __init__(self) -> None:
        self.plant = open_virtual("virtual-pamy2")
        self._rest = bar_from_control(self.plant.robot.u_rest)
        self._listening, self._time = listen(port=0), 0.0
        settings = ServerSettings(wiring="2024-03-27")
        log = ServerLog(None, self)
        self._server = UdpServer(self.plant, self._rest, self._listening, log, settings)
        self.q: list[np.ndarray] = []

    def driven(self, revision: str) -> "DrivenRobot":
        """The robot behind a driver: fresh, and alone for so long that it may have a client."""
        self.wait_until(self._time + 3.0)
        self.plant.reset()
        self.q.clear()
        return DrivenRobot(revision, self._server.address, self)

    def now(self) -> float:
        return self._time

    def wait_until(self, moment: float) -> None:
        while self._time < moment - 1e-9:
            self._server.tick()
            self.q.append(self.plant.read())
            self._time += self.plant.dt

    def close(self) -> None:
        self._listening.close()


@pytest.fixture(scope="module")
def cabinet() -> Cabinet:
    made = Cabinet()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def fly(robot: RobotInterface, path: Path, safety: SafetySettings | None = None) -> Flight:
    """The bundled reacher, recorded, and looked at by who knows only the file and robot.toml."""
    policy, arm = load(bundled_policy("reacher")), robot.robot
    ramp = RampTo(arm.u_rest, seconds=0.2, robot=arm, change=policy.action_scale)
    with (
        FlightRecorder(path / "flights.h5", arm, provenance={}) as recorder,
        ControlLoop(robot, safety=safety, recorder=recorder) as loop,
    ):
        flight = loop.run(ramp, PolicyController(policy, Goal(GOAL, arm), robot=arm))
    checked(path / "flights.h5")
    return flight


def error(q: np.ndarray) -> float:
    """Mean distance to the goal [deg]."""
    return float(np.degrees(np.abs(q - GOAL).mean()))


def at_the_end(flight: Flight) -> np.ndarray:
    """Joint positions that were read when the policy's time was up [rad]."""
    return flight.q[flight.during(TO_REST).start]


def check_truth(q: np.ndarray) -> None:
    """Where the arm truly was [ticks, 4], whatever the driver made of it: within its limits, but
    for the rubber of its stops, and within its speed."""
    told = tomllib.loads(ROBOT.read_text())["joints"]
    low, high = np.radians([joint["range"] for joint in told]).T
    assert (q > low - 0.07).all() and (q < high + 0.07).all()
    assert np.abs(np.diff(q, axis=0)).max() < 25.0 * 0.002


def test_the_newest_driver_moves_every_joint_the_right_way_and_reaches(
    cabinet: Cabinet, tmp_path: Path
) -> None:
    robot = cabinet.driven("2024-03-27")
    found = check_directions(robot, bundled_actuators("pamy2"))
    assert [one.words for one in found] == ["as the model"] * 4 and is_checked(robot)
    flight = fly(robot, tmp_path)
    assert flight.stop.reason is StopReason.FINISHED and flight.rested
    assert error(at_the_end(flight)) < 3.0
    check_truth(np.array(cabinet.q))


def test_an_older_driver_is_refused_and_else_stopped(cabinet: Cabinet, tmp_path: Path) -> None:
    robot = cabinet.driven("2022-04-19")
    found = check_directions(robot, bundled_actuators("pamy2"))
    assert [one.words for one in found] == ["INVERTED"] * 4 and not is_checked(robot)
    flight = fly(robot, tmp_path)  # nobody looked
    assert flight.stop.reason is StopReason.POSITION and flight.rested, flight.stop
    check_truth(np.array(cabinet.q))


def test_an_older_driver_may_mirror_a_joint(cabinet: Cabinet, tmp_path: Path) -> None:
    """That of 2022-04-28 turns joint 4's sense and changes its muscles: the loop is not inverted,
    no joint sensor can tell, and the arm flies, within its limits, as in a mirror."""
    robot = cabinet.driven("2022-04-28")
    found = check_directions(robot, bundled_actuators("pamy2"))
    assert [one.words for one in found] == ["as the model"] * 4
    flight = fly(robot, tmp_path)
    assert flight.stop.reason is StopReason.FINISHED and error(at_the_end(flight)) < 3.0
    truth = np.array(cabinet.q)
    check_truth(truth)
    ended = truth[len(truth) - len(flight) + flight.during(TO_REST).start]
    assert error(ended * [1, 1, 1, -1]) < 3.0 < error(ended)


@pytest.mark.slow
@pytest.mark.realtime
def test_both_through_genan_serve(tmp_path: Path) -> None:
    """Over a real socket, to a process of its own. Its machine may be busy, which ends nothing."""
    patient = SafetySettings(ramp=0.3, stale=0.5, late=1.0, late_ticks=10_000, leap=1.0)
    ends = []
    with served("virtual-pamy2") as address:
        for revision in ("2024-03-27", "2022-04-19"):  # one lets go before the other may come
            (tmp_path / revision).mkdir()
            robot = DrivenRobot(revision, address, WallClock())
            ends.append(fly(robot, tmp_path / revision, patient))
    newest, older = ends
    assert newest.stop.reason is StopReason.FINISHED and newest.rested, newest.stop
    assert error(at_the_end(newest)) < 5.0
    assert older.stop.reason in (StopReason.POSITION, StopReason.VELOCITY), older.stop
    assert older.rested and not older.u[-1].any()
