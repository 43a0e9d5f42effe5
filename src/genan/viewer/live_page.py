"""The page of a running robot: a policy drives it, and whoever looks may interfere."""

import math
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float

from genan.errors import SettingError
from genan.robot import Robot
from genan.tasks.registry import task_entry
from genan.viewer.drawing import GOAL, THICKER, ArmKinematics, ArmNodes, Limits, MarkerNodes
from genan.viewer.live_robot import LiveOrder, LiveProcess, LiveReport, LiveSettings
from genan.viewer.page import (
    AIM,
    PAST,
    GhostActuators,
    GhostMotion,
    Opened,
    ViewerPage,
    check_port,
    load_viser,
    serving,
    show,
)
from genan.viewer.stage import Stage
from genan.words import reading_unit

#: Directions of a push, in the frame of the base.
DIRECTIONS = {
    "left": (0.0, 1.0, 0.0),
    "right": (0.0, -1.0, 0.0),
    "up": (0.0, 0.0, 1.0),
    "forward": (1.0, 0.0, 0.0),
    "back": (-1.0, 0.0, 0.0),
    "down": (0.0, 0.0, -1.0),
}
#: Oldest robot [h], and how long the slider must lie still before the robot is restarted [s].
OLDEST, STILL = 500.0, 0.6
#: Ticks that the simulated arms go along with in one compiled call: half a report.
BLOCK = 8
#: What the curves show of the past, in reports: 4 s.
SHOWN = 125
#: The first goal, from the lowest (0) to the highest (1) that the policy knows: not where the arm
#: starts.
FIRST = 0.7


class GoalHandle:
    """Where the arm should go: a handle to drag, sliders, and the arm as it should be. Goals stay
    within those that the policy was trained for."""

    def __init__(
        self, server: Any, stage: Stage, limits: Limits, send: Callable[[LiveOrder], None]
    ) -> None:
        """Add handle and goal arm to the scene, and the sliders where the page is adding; ``send``
        takes the orders."""
        self._robot, self._base, self._limits, self._send = stage.robot, stage.base, limits, send
        # One for the mouse's thread, one for the page's.
        self._dragging, self._drawing = ArmKinematics(stage.robot), ArmKinematics(stage.robot)
        self._lock = threading.Lock()
        self.q: Float[np.ndarray, " nq"] = limits[0] + FIRST * (limits[1] - limits[0])
        """The goal [rad or m]."""
        self._stale, self._dragged = True, False
        self._arm = ArmNodes(
            server.scene, "/goal", stage.robot, stage.base, colour=GOAL, thicker=2.0 * THICKER
        )
        self._arm.show(True)
        self._handle = server.scene.add_transform_controls(
            "/handle",
            scale=0.22,
            line_width=4.0,
            disable_rotations=True,
            depth_test=False,
            position=self._drawing.tip(self.q) + self._base,
        )
        self._handle.on_update(self._drag)
        self._units = [reading_unit(joint.unit) for joint in self._robot.joints]
        self._sliders: list[Any] = []
        chance = np.random.default_rng(0)
        with server.gui.add_folder("Goal"):
            for k, joint in enumerate(self._robot.joints):
                unit, factor = self._units[k]
                low, high = (float(np.round(factor * bound[k], 1)) for bound in limits)
                slider = server.gui.add_slider(f"{joint.name} [{unit}]", low, high, 0.1, low)
                slider.on_update(lambda event, k=k: self._slide(event, k))
                self._sliders.append(slider)
            server.gui.add_button("A random goal").on_click(
                lambda _: self.set(chance.uniform(*limits))
            )
        send(LiveOrder(goal=self.q))

    def set(self, q: Float[np.ndarray, " nq"]) -> None:
        """Reach ``q`` [rad or m], or what is nearest to it within the limits."""
        with self._lock:
            self.q, self._stale = np.clip(q, *self._limits), True
        self._send(LiveOrder(goal=self.q))

    def show(self) -> None:
        """Draw the goal where it is now, if it has moved."""
        with self._lock:
            if not self._stale:
                return
            self._stale, q = False, self.q
        poses = self._drawing.poses(q)
        self._arm.place(poses)
        if not self._dragged:
            self._handle.position = poses.tip + self._base
        for slider, (_, factor), value in zip(self._sliders, self._units, q, strict=True):
            slider.value = min(max(round(float(factor * value), 1), slider.min), slider.max)

    async def _drag(self, event: Any) -> None:
        """The mouse moved the handle: bring the tip there. Not in a thread, so that the end of it
        comes last."""
        with self._lock:
            # At the end the handle goes to where the goal's tip really is.
            self._dragged = event.phase != "end"
            target = np.asarray(self._handle.position, float) - self._base
            q = self._dragging.reach(target, near=self.q, limits=self._limits)
        self.set(q)

    def _slide(self, event: Any, joint: int) -> None:
        if event.client is not None:  # otherwise the page itself moved it
            q = self.q.copy()
            q[joint] = event.target.value / self._units[joint][1]
            self.set(q)


@final
class LivePage(ViewerPage):
    """One running robot."""

    def __init__(
        self,
        server: Any,
        settings: LiveSettings,
        robot: Robot,
        process: LiveProcess,
        actuators: GhostActuators,
        *,
        member: int | None = None,
        goals: Limits | None = None,
    ) -> None:
        """Build the page.

        Args:
            server: from ``genan.viewer.page.serving``.
            settings: what runs.
            robot: its description.
            process: where it runs.
            actuators: drive the simulated arms.
            member: which of them at first, counted from 0; None: all.
            goals: lowest and highest goals of the policy [rad or m]; None where it has none.
        """
        self._settings, self._process, self._goals = settings, process, goals
        self._every_seconds, self._now, self._tick, self._ready = 1.0, True, 0, False
        self._past: deque[np.ndarray] = deque(maxlen=PAST + 1)
        self._kept: deque[tuple[Any, ...]] = deque(maxlen=SHOWN)
        self._time, self._said, self._status = 0.0, "", "starting …"
        self._ghost_words, self._wished_age = "Compiling the simulated arm …", math.inf
        self.q: Float[np.ndarray, " nq"] = robot.q_rest
        """Where the robot was when it last reported [rad or m]."""
        self.reports = 0
        """How many came from the robot so far."""
        self.goal: GoalHandle | None = None
        """Where it should go, for a policy with goals."""
        self._attempt = task_entry(settings.task).attempt
        stage = Stage(robot, task_entry(settings.task), arms=False)
        do = (
            "**Drag the arrows** at the tip: the arm follows."
            if goals
            else f"Ask for the **next {self._attempt}**, and watch it."
        )
        super().__init__(
            server,
            stage,
            actuators,
            member=member,
            title=f"live {settings.task}",
            words=f"The virtual robot, driven by a policy. {do}",
            block=BLOCK,
        )
        self._markers = MarkerNodes(server.scene, stage)

    @property
    def ghosts_ready(self) -> bool:
        """Whether the simulated arms run along with it."""
        return self._ready

    def send(self, order: LiveOrder) -> None:
        """Give the robot an order."""
        self._process.send(order)

    def close(self) -> None:
        """End the work beside the page, and the robot."""
        super().close()
        self._process.close()

    def build(self, gui: Any) -> None:
        """Goal or trial, and pushes."""
        if self._goals is not None:
            self.goal = GoalHandle(self.server, self.stage, self._goals, self.send)
        else:
            gui.add_button(f"Next {self._attempt}").on_click(
                lambda _: self.send(LiveOrder(trial=True))
            )
        with gui.add_folder("Push the arm", visible=False) as self._pushes:
            force = gui.add_slider("Force [N]", 2.0, 30.0, 1.0, 10.0, hint="At the tip.")
            lasting = gui.add_slider("For [s]", 0.1, 0.3, 0.05, 0.2)

            def push(event: Any) -> None:
                along = np.array(DIRECTIONS[event.target.value])
                self.send(LiveOrder(push=force.value * along, seconds=float(lasting.value)))

            names = list(DIRECTIONS)
            for row in (names[:3], names[3:]):
                gui.add_button_group("", row).on_click(push)

    def build_below(self, gui: Any) -> None:
        """Age and restart."""
        with gui.add_folder("Robot"):
            hours = min(self._settings.hours, OLDEST)
            self._age = gui.add_slider(
                "Age [h]", 0.0, OLDEST, 10.0, hours, hint="Operating hours: robots wear."
            )
            again = gui.add_button("Restart the robot", hint="After a stop, or at any time.")
        self._age.on_update(lambda _: setattr(self, "_wished_age", 0.0))
        again.on_click(lambda _: self.send(LiveOrder(restart=True)))

    def key(self) -> dict[str, str]:
        """The robot and its goal."""
        return super().key() | ({"goal": AIM} if self._goals is not None else {})

    def curve_options(self) -> dict[str, Any]:
        """With the goal, where there is one."""
        return {"goal": self._goals is not None}

    def start_ghosts(self) -> None:
        """Load and compile them beside the page."""
        self.beside(self._compile)

    def restart(self, *, asked: bool) -> None:
        """Start the simulated arms again at the next report."""
        self._now, self._every_seconds = True, self.every

    def advance(self, seconds: float) -> None:
        """Take what the robot reports."""
        for report in self._process.reports():
            if isinstance(report, str):
                self._status = f"failed: {report}"
            else:
                self._take(report)
        # The robot is restarted once the slider of its age lies still.
        if math.isfinite(self._wished_age):
            self._wished_age += seconds
            if self._wished_age > STILL:
                self._wished_age = math.inf
                self.send(LiveOrder(hours=float(self._age.value)))

    def draw(self, *, with_curves: bool) -> None:
        """Show it."""
        text = f"**Robot:** {self._status}\n\n" + ("" if self._ready else f"*{self._ghost_words}*")
        if text != self._said:
            self.note.content = self._said = text
        self.arm.place(self.kinematics.poses(self.q))
        if self.goal is not None:
            self.goal.show()
        past = (
            [self._past[0]] * (PAST + 1 - len(self._past)) + [*self._past] if self._past else None
        )
        self.view.place(None if past is None else np.array(past))
        if (with_curves or self.curves.changed) and len(self._kept) > 1:
            times, q, u, ghosts, torque = (np.array(part) for part in zip(*self._kept, strict=True))
            goal = None if self.goal is None else self.goal.q
            found = GhostMotion(ghosts, torque)
            self.curves.draw(times, q, u, found, chosen=self.view.chosen, goal=goal)

    def ghosts_failed(self, words: str) -> None:
        """Say why."""
        self._ghost_words = words

    def _compile(self) -> None:
        nothing = np.zeros((BLOCK, self.robot.nq)), np.zeros((BLOCK, self.robot.nu))
        self.simulation.advance(*nothing, np.zeros(BLOCK, bool))
        self.simulation.forget()
        self._ready = True

    def _take(self, report: LiveReport) -> None:
        self.q = report.q[-1]
        self.reports += 1
        self._pushes.visible = report.pushable
        self._markers.place(report.markers)
        slow = f", at {100.0 * report.speed:.0f} % of real time" if report.speed < 0.95 else ""
        score = f"; {report.successes} of {report.trials} succeeded" if report.trials else ""
        self._status = f"{report.status}{score}{slow}"
        if report.placed:
            self._kept.clear()
        self._time += len(report.q) * self.robot.dt
        found = self._go_along(report) if self._ready else None
        if found is None:
            models, nq = 1 + self.members, self.robot.nq
            row = np.tile(self.q, (models, 1)), np.zeros((self.members, nq))
        else:
            row = found.q[-1], found.torque[-1]
        self._kept.append((self._time, self.q, report.u[-1], *row))

    def _go_along(self, report: LiveReport) -> GhostMotion:
        """What the simulated arms do in the ticks of a report."""
        ghosts, count = self.simulation, len(report.q)
        if report.placed or ghosts.wild:
            ghosts.forget()
            self._tick = 0
            self._past.clear()
        marks = np.zeros(count, bool)
        if math.isfinite(self._every_seconds):
            numbers = np.arange(self._tick, self._tick + count)
            marks = numbers % round(self._every_seconds / self.robot.dt) == 0
        marks[0] |= self._now
        self._now, self._tick = False, self._tick + count
        found = ghosts.advance(report.q, report.u, marks)
        self._past.append(found.q[-1])
        return found


def view_live(
    task: str = "reacher",
    *,
    policy: Path | None = None,
    actuators: Path | None = None,
    seed: int = 0,
    hours: float = 0.0,
    member: int | None = None,
    port: int = 8080,
    stopping: Callable[[], bool],
    opened: Opened,
) -> None:
    """Show a policy on the virtual robot until ``stopping``.

    Args:
        task: one of ``genan.tasks.registry.task_names()``.
        policy: its folder; left out, the one that comes with genan.
        actuators: as for ``view_recording``.
        seed: which specimen of the virtual robot.
        hours: operating hours behind it [h].
        member: as for ``view_recording``.
        port: as for ``view_recording``.
        stopping: asked at every picture.
        opened: gets the address.
    """
    from genan.evaluation.trials import load_policy
    from genan.rl.contract import PolicyContract
    from genan.robot.package import bundled_policy

    task_entry(task)
    if hours < 0.0:
        raise SettingError(f"Operating hours must not be negative, got {hours:g}.")
    settings = LiveSettings(task, policy or bundled_policy(task), seed=seed, hours=hours)
    contract = PolicyContract.from_settings(load_policy(settings.policy, task).contract)
    robot = Robot.load(contract.robot)
    contract.check_robot(robot)
    driver = GhostActuators.find(actuators, robot=robot.name, member=member)
    driver.contract.check_robot(robot)
    goals = None
    if "goal_lower" in contract.constants:
        low, high = (np.array(contract.constants[f"goal_{end}"]) for end in ("lower", "upper"))
        goals = np.clip(low, *robot.q_range), np.clip(high, *robot.q_range)
    load_viser()
    free = check_port(port)
    with ExitStack() as stack:
        process = LiveProcess(settings)  # it needs seconds: begin with it
        stack.callback(process.close)
        server = stack.enter_context(serving(free))
        page = LivePage(server, settings, robot, process, driver, member=member, goals=goals)
        stack.callback(page.close)
        show(page, stopping, opened)
