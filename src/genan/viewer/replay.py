"""A recording to look at: the recorded arm, the simulated ones over it, and time to scrub."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float

from genan.data import load, summary
from genan.errors import DataError, GenanError, SettingError
from genan.robot import Robot, robot_names
from genan.robot.package import bundled_actuators
from genan.viewer.page import PAST, GhostActuators, GhostMotion, Opened, ViewerPage, serving, show
from genan.viewer.stage import Stage

if TYPE_CHECKING:
    from genan.viewer.ghosts import GhostSimulation

#: Ticks of a trajectory that are simulated in one compiled call.
BLOCK = 250
SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0}
#: Time between the moments of the cloud [s].
MOMENT = 0.03
#: Points of a curve at most, about: more cannot be seen in a panel.
POINTS = 150


@dataclass(frozen=True)
class ReplayedTrajectory:
    """One trajectory, and what is simulated along it."""

    number: int  # In the recording, counted from 0.
    q: Float[np.ndarray, "T nq"]  # Recorded positions [rad or m].
    u: Float[np.ndarray, "T nu"]  # Recorded controls.
    dt: float  # [s]
    simulated: GhostMotion | None = None  # What the actuators make of it, once that is computed.

    @property
    def duration(self) -> float:
        """Time of the last sample [s]."""
        return (len(self.q) - 1) * self.dt

    def row(self, time: float) -> int:
        """The sample nearest to ``time`` [s]; the first or last one outside the recording."""
        return int(np.clip(round(time / self.dt), 0, len(self.q) - 1))

    def with_ghosts(
        self, ghosts: "GhostSimulation", *, every: float, at: Sequence[float] = ()
    ) -> "ReplayedTrajectory":
        """The same with the simulation along it, started again ``every`` so often [s] (inf: never)
        and ``at`` [s]."""
        ghosts.forget()
        marks = self.restarts(every=every, at=at)
        return replace(self, simulated=ghosts.advance(self.q, self.u, marks))

    def restarts(self, *, every: float, at: Sequence[float] = ()) -> Bool[np.ndarray, " T"]:
        """At which samples the simulation starts again; see ``with_ghosts``."""
        marks = np.zeros(len(self.q), bool)
        marks[[0, *(self.row(moment) for moment in at)]] = True
        if np.isfinite(every):
            marks[:: max(1, round(every / self.dt))] = True
        return marks


class RecordingFile:
    """A file of trajectories, of which one at a time is in memory."""

    def __init__(self, path: Path) -> None:
        """Refuses a file that is not there or no recording."""
        if not path.exists():
            raise DataError(f"There is no recording {path}; 'genan collect' makes one.")
        self.path, self._head = path, summary(path)
        self.channels = self._head.channels
        if len(self) == 0:
            raise DataError(f"{path} holds zero trajectories; record some first.")

    def __len__(self) -> int:
        """Trajectories."""
        return len(self._head)

    def robot(self) -> str | None:
        """Name of the installed robot that made the recording, if it says so, or else of the first
        one that it fits and that has actuators."""
        origin, contract = self._head.provenance, self._head.provenance.get("contract")
        # A transfer says which robot the policy was for, a collection which virtual robot it was.
        name = contract.get("robot") if isinstance(contract, dict) else origin.get("robot", "")
        if name:
            name = str(name).removeprefix("virtual-")
            return name if name in robot_names() else None
        for name in robot_names():
            try:
                self.channels.check_robot(Robot.load(name))
                bundled_actuators(name)
            except GenanError:
                continue
            return name
        return None

    def read(self, number: int) -> ReplayedTrajectory:
        """Trajectory ``number``, counted from 0."""
        if not 0 <= number < len(self):
            raise SettingError(
                f"There is no trajectory {number} in {self.path}: they are numbered from 0 to "
                f"{len(self) - 1}."
            )
        one = load(self.path, [number])
        return ReplayedTrajectory(number, one.q, one.u, one.dt)


@final
class ReplayPage(ViewerPage):
    """One recording, a trajectory of it at a time."""

    def __init__(
        self,
        server: Any,
        recording: RecordingFile,
        robot: Robot,
        actuators: GhostActuators,
        *,
        member: int | None = None,
        trajectory: int = 0,
    ) -> None:
        """Build the page of ``recording``; see ``view_recording``."""
        self._recording, self._replayed = recording, recording.read(trajectory)
        self._wish, self._time, self._playing, self._stale = 0, 0.0, True, True
        words = "replay", f"{recording.path.name}, robot **{robot.name}**"
        stage, key = Stage(robot, arms=False), {"recorded": "#777"}
        curves = {"measured": "recorded", "cursor": True}
        super().__init__(
            server, stage, actuators, member=member, words=words, key=key, block=BLOCK, **curves
        )

    def _build(self, gui: Any) -> None:
        first, last = self._replayed, len(self._recording) - 1
        with gui.add_folder("Time"):
            self._play = gui.add_button("Pause", hint="Stop and go on.")
            self._slider = gui.add_slider("Time [s]", 0.0, first.duration, first.dt, 0.0)
            hint = "1 is real time."
            self._speed = gui.add_dropdown("Speed", [*SPEEDS], initial_value="1/2", hint=hint)
            title = f"Trajectory (0 to {last})"
            self._number = gui.add_number(title, first.number, min=0, max=last, step=1)
        self._play.on_click(lambda _: self._set_playing(not self._playing))
        self._slider.on_update(self._scrub)
        self._number.on_update(self._choose)

    def _restart(self, *, asked: bool) -> None:
        """Simulate this trajectory in the background; the last wish wins."""
        self._wish += 1
        self._replayed, self._stale = replace(self._replayed, simulated=None), True
        self._ghost_words = "Computing the simulated arm …"
        at = (self._time,) if asked else ()
        self._in_background(self._simulate, self._wish, self._replayed, self._every(), at)

    def _simulate(
        self, wish: int, replayed: ReplayedTrajectory, every: float, at: Sequence[float]
    ) -> None:
        if wish != self._wish:
            return
        found = replayed.with_ghosts(self._simulation, every=every, at=at)
        if wish == self._wish and found.simulated is not None:
            self._replayed, self._stale = found, True
            sound = np.isfinite(found.simulated.q).all()
            self._ghost_words = "" if sound else "A simulated arm ran away here."

    def _advance(self, seconds: float) -> None:
        if self._playing:
            self._time += seconds * SPEEDS[self._speed.value]
            if self._time > self._replayed.duration:
                self._time = 0.0

    def _draw(self, *, with_curves: bool) -> None:
        if not (self._playing or self._stale or self._curves.changed):
            return
        one, found, self._stale = self._replayed, self._replayed.simulated, False
        row = one.row(self._time)
        self._arm.place(self._kinematics.poses(one.q[row]))
        back = np.maximum(row - round(MOMENT / one.dt) * np.arange(PAST, -1, -1), 0)
        self._view.place(None if found is None else found.q[back])
        if with_curves or not self._playing:
            some = slice(None, None, max(1, len(one.q) // POINTS))
            if found is not None:
                found = GhostMotion(found.q[some], found.torque[some])
            times, chosen = one.dt * np.arange(len(one.q))[some], self._view.chosen
            self._curves.draw(times, one.q[some], one.u[some], found, chosen=chosen, now=self._time)
            self._slider.value = round(min(self._time, one.duration), 3)

    def _set_playing(self, playing: bool) -> None:
        self._playing, self._stale = playing, True
        self._play.label = "Pause" if playing else "Play"

    def _scrub(self, event: Any) -> None:
        if event.client is not None:  # otherwise the page itself moved it
            self._time = float(self._slider.value)
            self._set_playing(False)

    def _choose(self, event: Any) -> None:
        """Another trajectory."""
        if event.client is not None:
            number = int(np.clip(self._number.value, 0, len(self._recording) - 1))
            self._replayed, self._time = self._recording.read(number), 0.0
            self._slider.max = self._replayed.duration
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
    opened: Opened,
) -> None:
    """Show a recording until ``stopping``.

    Args:
        path: the recording.
        actuators: folder of those that simulate along it; left out, those that come with the robot.
        robot: left out, the installed one that the actuators were fitted for.
        trajectory: which one first, counted from 0.
        member: of the ensemble that drives the simulated arm at first; left out, all of them.
        port: of this computer; 0 picks a free one.
        stopping: asked at every picture.
        opened: gets the address.
    """
    recording = RecordingFile(path)
    name = str(robot) if robot in robot_names() else recording.robot()
    driver = GhostActuators.find(actuators, robot=name, member=member)
    arm = driver.robot(robot)
    recording.channels.check_robot(arm)
    driver.contract.check_channels(recording.channels, whose="the recording")
    recording.read(trajectory)  # refused here, before anything starts
    with serving(port) as server:
        page = ReplayPage(server, recording, arm, driver, member=member, trajectory=trajectory)
        try:
            show(page, stopping, opened)
        finally:
            page.close()
