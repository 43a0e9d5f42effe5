"""A recording to look at: the recorded arm, the simulated ones over it, and time to scrub."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import numpy as np

from genan.data import Summary, Trajectory, load, summary
from genan.errors import ActuatorError, GenanError, refuse
from genan.robot import Robot, robot_names
from genan.robot.package import VIRTUAL, bundled_actuators
from genan.viewer.page import CONTROLS, PAST, GhostActuators, GhostMotion, ViewerPage, serving, show
from genan.viewer.rendering import Stage

SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0}
MOMENT = 0.03  # Time between the moments of the cloud [s].
POINTS = 150  # Points of a curve at most, about: more cannot be seen in a panel.


def nearest(one: Trajectory, time: float) -> int:
    """The sample nearest to ``time`` [s]; the first or last one outside the recording."""
    return int(np.clip(round(time / one.dt), 0, len(one) - 1))


def recorded_robot(recording: Summary) -> str | None:
    """The installed robot that made it, if it says so, else the first that fits with actuators."""
    origin, contract = recording.provenance, recording.provenance.get("contract")
    # A transfer says which robot the policy was for, a collection which virtual robot it was.
    name = contract.get("robot") if isinstance(contract, dict) else origin.get("robot", "")
    if name:
        name = str(name).removeprefix(VIRTUAL)
        return name if name in robot_names() else None
    for name in robot_names():
        with suppress(GenanError):
            recording.channels.check_robot(Robot.load(name))
            bundled_actuators(name)
            return name
    return None


def read_trajectory(recording: Summary, number: int) -> Trajectory:
    """Trajectory ``number``, counted from 0; one that is not there is refused."""
    numbers = f"they are numbered from 0 to {len(recording) - 1}"
    missing = f"There is no trajectory {number} in {recording.path}: {numbers}."
    refuse((not 0 <= number < len(recording), missing))
    return load(recording.path, [number])[0]


@final
class ReplayPage(ViewerPage):
    """One recording, a trajectory of it at a time; see ``view_recording``."""

    block, measured, cursor = 250, "recorded", True

    def __init__(
        self, server: Any, recording: Summary, robot: Robot, ghosts: GhostActuators, first: int = 0
    ) -> None:
        words = f"replay\n{recording.path.name}, robot **{robot.name}**"
        super().__init__(server, Stage(robot, arms=False), ghosts, words)
        self._recording, self._one = recording, read_trajectory(recording, first)
        self._found: GhostMotion | None = None
        self._wish, self._time, self._playing, self._stale = 0, 0.0, True, True
        gui, last = server.gui, len(recording) - 1
        with gui.add_folder("Time"):
            self._play = gui.add_button(**CONTROLS["play"])
            self._slider = gui.add_slider("Time [s]", 0.0, self._end, self._one.dt, 0.0)
            self._speed = gui.add_dropdown(options=[*SPEEDS], **CONTROLS["speed"])
            title = f"Trajectory (0 to {last})"
            self._number = gui.add_number(title, first, min=0, max=last, step=1)
        self._play.on_click(lambda _: self._set_playing(not self._playing))
        self._slider.on_update(self._scrub)
        self._number.on_update(self._choose)

    @property
    def _end(self) -> float:
        """Time of the last sample [s]."""
        return (len(self._one) - 1) * self._one.dt

    def _restart(self, *, asked: bool) -> None:
        """Simulate this trajectory in the background; the last wish wins."""
        self._wish, self._found, self._stale = self._wish + 1, None, True
        again = [nearest(self._one, self._time)] if asked else []
        self._in_background(self._simulate, self._wish, self._one, self._every(), again)

    def _simulate(self, wish: int, one: Trajectory, every: float, again: list[int]) -> None:
        if wish != self._wish:
            return
        self._simulation.forget()
        found = self._simulation.advance(one.q, one.u, every=every, at=again)
        if wish == self._wish:
            self._found, self._stale = found, True
            sound = np.isfinite(found.q).all()
            self._ghost_words = "" if sound else "A simulated arm ran away here."

    def _advance(self, seconds: float) -> None:
        if self._playing:
            self._time += seconds * SPEEDS[self._speed.value]
            if self._time > self._end:
                self._time = 0.0

    def _draw(self, *, with_curves: bool) -> None:
        if not (self._playing or self._stale or self._curves.changed):
            return
        one, found, self._stale = self._one, self._found, False
        row = nearest(one, self._time)
        self._arm.place(one.q[row])
        back = np.maximum(row - round(MOMENT / one.dt) * np.arange(PAST, -1, -1), 0)
        self._view.place(None if found is None else found.q[back])
        if with_curves or not self._playing:
            some = slice(None, None, max(1, len(one) // POINTS))
            if found is not None:
                found = GhostMotion(found.q[some], found.torque[some])
            times = one.dt * np.arange(len(one))[some]
            self._curves.draw(times, one.q[some], one.u[some], found, self._time, None)
            self._slider.value = round(min(self._time, self._end), 3)

    def _set_playing(self, playing: bool) -> None:
        self._playing, self._stale = playing, True
        self._play.label = "Pause" if playing else "Play"

    def _scrub(self, event: Any) -> None:
        if event.client is not None:  # otherwise the page itself moved it
            self._time = float(self._slider.value)
            self._set_playing(False)

    def _choose(self, event: Any) -> None:
        if event.client is not None:
            number = int(np.clip(self._number.value, 0, len(self._recording) - 1))
            self._one, self._time = read_trajectory(self._recording, number), 0.0
            self._slider.max = self._end
            self._restart(asked=False)


def view_recording(
    path: Path,
    *,
    actuators: Path | None = None,
    robot: str | Path | None = None,
    trajectory: int = 0,
    member: int | None = None,
    port: int = 8080,
    stopping: Callable[[], bool],
    opened: Callable[[str], None],
) -> None:
    """Show the recording ``path`` until ``stopping``, which is asked at every picture. The
    ``actuators`` in a folder, left out those that come with the robot, simulate along it; at first
    ``member`` of the ensemble drives the arm, left out all of them. ``robot``: left out, the
    installed one that the actuators were fitted for. ``trajectory`` comes first, counted from 0.
    ``opened`` gets the page's address, at ``port`` of this computer; 0 picks a free one."""
    recording = summary(path)
    name = str(robot) if robot in robot_names() else recorded_robot(recording)
    driver = GhostActuators(actuators, name, member)
    contract = driver.contract
    gone = robot is None and contract.robot not in robot_names()
    missing = f"The actuators were fitted for robot {contract.robot!r}, which is not installed"
    refuse((gone, f"{missing}; give its robot.toml (--robot)."), error=ActuatorError)
    arm = Robot.load(contract.robot if robot is None else robot)
    contract.check_robot(arm)
    recording.channels.check_robot(arm)
    contract.check_channels(recording.channels, whose="the recording")
    read_trajectory(recording, trajectory)  # refused here, before anything starts
    with serving(port, opened) as server:
        show(ReplayPage(server, recording, arm, driver, trajectory), stopping)
