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
from genan.viewer.drawing import GOAL, THICKER, ArmNodes, MarkerNodes
from genan.viewer.live_robot import LiveOrder, LiveProcess, LiveReport, LiveSettings
from genan.viewer.page import (
    AIM,
    PAST,
    GhostActuators,
    GhostMotion,
    Opened,
    ViewerPage,
    serving,
    show,
)
from genan.viewer.stage import ArmKinematics, Limits, Stage
from genan.words import reading_unit

#: Directions of a push, in the frame of the base.
DIRECTIONS = {"left": (0, 1, 0), "right": (0, -1, 0), "up": (0, 0, 1)}
DIRECTIONS |= {"forward": (1, 0, 0), "back": (-1, 0, 0), "down": (0, 0, -1)}
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
        gui, scene, robot = server.gui, server.scene, stage.robot
        self._base, self._limits, self._send = stage.base, limits, send
        # One for the mouse's thread, one for the page's.
        self._dragging, self._drawing = ArmKinematics(robot), ArmKinematics(robot)
        self._lock, self._stale, self._dragged = threading.Lock(), True, False
        self.q: Float[np.ndarray, " nq"] = limits[0] + FIRST * (limits[1] - limits[0])
        """The goal [rad or m]."""
        self._arm = ArmNodes(scene, "/goal", stage, colour=GOAL, thicker=2.0 * THICKER)
        self._arm.show(True)
        self._handle = scene.add_transform_controls(
            "/handle", scale=0.22, line_width=4.0, disable_rotations=True, depth_test=False
        )
        self._handle.on_update(self._drag)
        self._units = [reading_unit(joint.unit) for joint in robot.joints]
        self._sliders: list[Any] = []
        chance = np.random.default_rng(0)
        with gui.add_folder("Goal"):
            for k, (joint, (unit, factor)) in enumerate(
                zip(robot.joints, self._units, strict=True)
            ):
                low, high = (float(np.round(factor * bound[k], 1)) for bound in limits)
                slider = gui.add_slider(f"{joint.name} [{unit}]", low, high, 0.1, low)
                slider.on_update(lambda event, k=k: self._slide(event, k))
                self._sliders.append(slider)
            anywhere = gui.add_button("A random goal")
        anywhere.on_click(lambda _: self.set(chance.uniform(*limits)))
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
        self._arm.place(self._drawing.poses(q))
        if not self._dragged:
            self._handle.position = self._drawing.tip(q) + self._base
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
        """Build the page of the robot that runs in ``process``; ``goals``: lowest and highest ones
        of its policy [rad or m], None where it has none; the rest as for ``ViewerPage``."""
        entry = task_entry(settings.task)
        self._process, self._goals, self._attempt = process, goals, entry.attempt
        self._period, self._now, self._tick = 1.0, True, 0
        self._past: deque[np.ndarray] = deque(maxlen=PAST + 1)
        self._kept: deque[tuple[Any, ...]] = deque(maxlen=SHOWN)
        self._time, self._age_still = 0.0, math.inf
        self.ghosts_ready = False
        """Whether the simulated arms run along with the robot."""
        self.q: Float[np.ndarray, " nq"] = robot.q_rest
        """Where the robot was when it last reported [rad or m]."""
        self.reports = 0
        """How many came from the robot so far."""
        self.goal: GoalHandle | None = None
        """Where it should go, for a policy with goals."""
        ask = f"Ask for the **next {entry.attempt}**, and watch it."
        do = "**Drag the arrows** at the tip: the arm follows." if goals else ask
        words = f"live {settings.task}", f"The virtual robot, driven by a policy. {do}"
        key = {"robot": "#777"} | ({"goal": AIM} if goals else {})
        stage = Stage(robot, entry, arms=False)
        super().__init__(
            server, stage, actuators, member=member, words=words, key=key, block=BLOCK,
            goal=goals is not None,
        )  # fmt: skip
        self._status = "**Robot:** starting …"
        self._markers = MarkerNodes(server.scene, stage)
        with server.gui.add_folder("Robot"):
            hint, hours = "Operating hours: robots wear.", min(settings.hours, OLDEST)
            self._age = server.gui.add_slider("Age [h]", 0.0, OLDEST, 10.0, hours, hint=hint)
            hint = "After a stop, or at any time."
            again = server.gui.add_button("Restart the robot", hint=hint)
        self._age.on_update(lambda _: setattr(self, "_age_still", 0.0))
        again.on_click(lambda _: self.send(LiveOrder(restart=True)))

    def send(self, order: LiveOrder) -> None:
        """Give the robot an order."""
        self._process.send(order)

    def close(self) -> None:
        """End the work in the background, and the robot."""
        super().close()
        self._process.close()

    def _build(self, gui: Any) -> None:
        if self._goals is not None:
            self.goal = GoalHandle(self.server, self.stage, self._goals, self.send)
        else:
            ask = gui.add_button(f"Next {self._attempt}")
            ask.on_click(lambda _: self.send(LiveOrder(trial=True)))
        with gui.add_folder("Push the arm", visible=False) as self._pushes:
            force = gui.add_slider("Force [N]", 2.0, 30.0, 1.0, 10.0, hint="At the tip.")
            lasting = gui.add_slider("For [s]", 0.1, 0.3, 0.05, 0.2)

            def push(event: Any) -> None:
                along = np.array(DIRECTIONS[event.target.value])
                self.send(LiveOrder(push=force.value * along, seconds=float(lasting.value)))

            for row in ([*DIRECTIONS][:3], [*DIRECTIONS][3:]):
                gui.add_button_group("", row).on_click(push)

    def _restart(self, *, asked: bool) -> None:
        self._now, self._period = True, self._every()
        if not self._started:
            self._in_background(self._compile)

    def _compile(self) -> None:
        nothing = np.zeros((BLOCK, self.robot.nq)), np.zeros((BLOCK, self.robot.nu))
        self._simulation.advance(*nothing, np.zeros(BLOCK, bool))
        self._simulation.forget()
        self.ghosts_ready, self._ghost_words = True, ""

    def _advance(self, seconds: float) -> None:
        for report in self._process.reports():
            if isinstance(report, str):
                self._status = f"**Failed:** {report}"
            else:
                self._take(report)
        # The robot is restarted once the slider of its age lies still.
        if math.isfinite(self._age_still):
            self._age_still += seconds
            if self._age_still > STILL:
                self._age_still = math.inf
                self.send(LiveOrder(hours=float(self._age.value)))

    def _draw(self, *, with_curves: bool) -> None:
        self._arm.place(self._kinematics.poses(self.q))
        if self.goal is not None:
            self.goal.show()
        past = [*self._past]
        filled = np.array([past[0]] * (PAST + 1 - len(past)) + past) if past else None
        self._view.place(filled)
        if (with_curves or self._curves.changed) and len(self._kept) > 1:
            times, q, u, *ghosts = (np.array(part) for part in zip(*self._kept, strict=True))
            goal = None if self.goal is None else self.goal.q
            motion, chosen = GhostMotion(*ghosts), self._view.chosen
            self._curves.draw(times, q, u, motion, chosen=chosen, goal=goal)

    def _take(self, report: LiveReport) -> None:
        self.q = report.q[-1]
        self.reports += 1
        self._pushes.visible = report.pushable
        self._markers.place(report.markers)
        slow = f", at {100.0 * report.speed:.0f} % of real time" if report.speed < 0.95 else ""
        score = f"; {report.successes} of {report.trials} succeeded" if report.trials else ""
        self._status = f"**Robot:** {report.status}{score}{slow}"
        if report.placed:
            self._kept.clear()
        self._time += len(report.q) * self.robot.dt
        q, torque = np.tile(self.q, (1 + self.members, 1)), np.zeros((self.members, self.robot.nq))
        if self.ghosts_ready:
            found = self._go_along(report)
            q, torque = found.q[-1], found.torque[-1]
        self._kept.append((self._time, self.q, report.u[-1], q, torque))

    def _go_along(self, report: LiveReport) -> GhostMotion:
        """What the simulated arms do in the ticks of a report."""
        ghosts, count = self._simulation, len(report.q)
        if report.placed or ghosts.wild:
            ghosts.forget()
            self._tick = 0
            self._past.clear()
        marks = np.zeros(count, bool)
        if math.isfinite(self._period):
            ticks = np.arange(self._tick, self._tick + count)
            marks = ticks % round(self._period / self.robot.dt) == 0
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
    with ExitStack() as stack:
        server = stack.enter_context(serving(port))
        process = LiveProcess(settings)
        stack.callback(process.close)
        page = LivePage(server, settings, robot, process, driver, member=member, goals=goals)
        stack.callback(page.close)
        show(page, stopping, opened)
