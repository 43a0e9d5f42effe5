"""The curves of a running robot: the last few seconds."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.report.style import COLOURS, reading_unit
from genan.report.viewer.curves import FAINT, GOAL, RECORDED, SIMULATED, Chart, Rolling
from genan.report.viewer.ghost_view import drawn_range
from genan.report.viewer.live_orders import Ticks
from genan.robot import Robot

if TYPE_CHECKING:
    from genan.report.viewer.live_ghosts import LiveGhosts

#: What is seen of the past, and the time from one point of a curve to the next [s].
SECONDS, PERIOD = 4.0, 0.032


class LiveCurves:
    """Position, torque, controls and disagreement as they come."""

    def __init__(self, gui: Any, robot: Robot, *, members: int, goal: bool) -> None:
        """Add them where ``gui`` is adding; with a line for the ``goal`` or without."""
        self._robot, self._members, self._with_goal = robot, members, goal
        self._time = 0.0
        nq, nu = robot.nq, robot.nu
        self._sizes = {
            "q": nq,
            "u": nu,
            "ghosts": (1 + members) * nq,
            "torque": members * nq,
            "disagreement": 1,
        }
        self._kept = Rolling(sum(self._sizes.values()), seconds=SECONDS, period=PERIOD)
        self._joint = gui.add_dropdown(
            "Joint", list(robot.joint_names), hint="Whose position and torque is shown."
        )
        lines = [
            ("robot", RECORDED, 1.6),
            ("simulated", SIMULATED, 1.4),
            *([("goal", GOAL, 1.2)] if goal else []),
        ]
        self._position = Chart(gui, "", lines, unit="")
        faint = [(f"member {k}", FAINT, 1.0) for k in range(members)]
        self._torque = Chart(gui, "", [*faint, ("ensemble", SIMULATED, 1.6)], unit="", legend=False)
        named = [
            (name, COLOURS[k % len(COLOURS)], 1.4) for k, name in enumerate(robot.control_names)
        ]
        self._control = Chart(gui, "Controls", named, unit=robot.controls[0].unit)
        self._disagreement = Chart(gui, "Disagreement of the members", [("", COLOURS[1], 1.4)], unit="N m",
                                   legend=False)  # fmt: skip
        self._joint.on_update(lambda _: self._rename())
        self._rename()

    def take(self, ticks: Ticks, ghosts: "LiveGhosts") -> None:
        """Keep the last moment of a report."""
        if ticks.placed:
            self._kept.clear()
        self._time += len(ticks.q) * self._robot.dt
        q, found = ticks.q[-1], ghosts.last if ghosts.ready else None
        if found is None:
            rest = np.concatenate(
                [np.tile(q, 1 + self._members), np.zeros(self._members * self._robot.nq + 1)]
            )
        else:
            shown = np.clip(np.nan_to_num(found.q[-1]), *drawn_range(self._robot))
            rest = np.concatenate(
                [shown.ravel(), found.torque[-1].ravel(), found.disagreement[-1:]]
            )
        self._kept.add(self._time, np.concatenate([q, ticks.u[-1], rest]))

    def draw(self, chosen: int | None, goal: Float[np.ndarray, " nq"] | None) -> None:
        """Draw them; ``chosen`` is the simulated arm to show, ``goal`` where the robot should go
        [rad or m]."""
        times, lines = self._kept.lines()
        if len(times) < 2:
            return
        cuts = np.cumsum(list(self._sizes.values()))[:-1]
        q, u, ghosts, torque, disagreement = np.split(lines, cuts)
        joint = self._robot.joint_names.index(self._joint.value)
        _, factor = reading_unit(self._robot.joints[joint].unit)
        ghost = (
            ghosts.reshape(1 + self._members, self._robot.nq, -1)[chosen, joint]
            if chosen is not None
            else q[joint]
        )
        aims = [np.full(len(times), goal[joint])] if goal is not None and self._with_goal else []
        self._position.draw(times, factor * np.stack([q[joint], ghost, *aims]))
        torques = torque.reshape(self._members, self._robot.nq, -1)[:, joint]
        self._torque.draw(times, np.concatenate([torques, torques.mean(axis=0, keepdims=True)]))
        self._control.draw(times, u)
        self._disagreement.draw(times, disagreement)

    def _rename(self) -> None:
        joint = self._robot.joints[self._robot.joint_names.index(self._joint.value)]
        self._position.rename(f"Position of {joint.name}", reading_unit(joint.unit)[0])
        self._torque.rename(f"Torque on {joint.name}", "N m" if joint.unit == "rad" else "N")
