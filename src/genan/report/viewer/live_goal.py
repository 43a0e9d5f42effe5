"""The reacher's goal on the page: a handle to drag, sliders, and the arm as it should be."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.report.style import reading_unit
from genan.report.viewer.geometry import Body
from genan.report.viewer.goal import reach, starts
from genan.report.viewer.live_orders import Order, Reach
from genan.report.viewer.room import BASE
from genan.report.viewer.scene import GOAL, THICKER, Ghost
from genan.robot import Robot

#: The first goal, from the lowest (0) to the highest (1) that the policy knows: not where the arm
#: starts.
FIRST = 0.7


class GoalHandle:
    """Where the arm should go. Goals stay within those that the policy was trained for."""

    def __init__(
        self,
        server: Any,
        robot: Robot,
        limits: tuple[Float[np.ndarray, " nq"], Float[np.ndarray, " nq"]],
        send: Callable[[Order], None],
    ) -> None:
        """Add handle and goal arm to the scene; ``send`` takes the orders."""
        self._robot, self._limits, self._send = robot, limits, send
        self._body, self._drawn = Body(robot), Body(robot)
        self._lock = threading.Lock()
        self.q: Float[np.ndarray, " nq"] = limits[0] + FIRST * (limits[1] - limits[0])
        """The goal [rad or m]."""
        self._arm = Ghost(
            server.scene, "/goal", self._drawn, colour=GOAL, opacity=0.3, thicker=2.0 * THICKER
        )
        self._arm.show(True)
        self._handle = server.scene.add_transform_controls(
            "/handle",
            scale=0.22,
            line_width=4.0,
            disable_rotations=True,
            depth_test=False,
            position=self._tip(),
        )
        self._stale, self._dragged = True, False
        self._handle.on_update(self._drag)
        self._sliders: list[Any] = []
        self._chance = np.random.default_rng(0)
        send(Reach(self.q))

    def build(self, gui: Any) -> None:
        """The sliders."""
        with gui.add_folder("Goal"):
            for k, joint in enumerate(self._robot.joints):
                unit, factor = reading_unit(joint.unit)
                low, high = (float(np.round(factor * bound[k], 1)) for bound in self._limits)
                value = float(np.clip(round(factor * self.q[k], 1), low, high))
                slider = gui.add_slider(f"{joint.name} [{unit}]", low, high, 0.1, value)
                slider.on_update(lambda event, k=k, factor=factor: self._slide(event, k, factor))
                self._sliders.append(slider)
            gui.add_button("A random goal").on_click(
                lambda _: self.set(self._chance.uniform(*self._limits))
            )

    def set(self, q: Float[np.ndarray, " nq"]) -> None:
        """Reach ``q`` [rad or m], or what is nearest to it within the limits."""
        with self._lock:
            self.q = np.clip(q, *self._limits)
            self._stale = True
        self._send(Reach(self.q))

    def show(self) -> None:
        """Draw the goal where it is now, if it has moved."""
        with self._lock:
            if not self._stale:
                return
            self._stale = False
            q = self.q
        self._arm.place(self._drawn.poses(q))
        if not self._dragged:
            self._handle.position = self._tip()
        for slider, joint, value in zip(self._sliders, self._robot.joints, q, strict=True):
            reading = round(float(reading_unit(joint.unit)[1] * value), 1)
            slider.value = min(max(reading, slider.min), slider.max)

    def _tip(self) -> Float[np.ndarray, "3"]:
        return self._body.tip(self.q) + np.array(BASE)

    async def _drag(self, event: Any) -> None:
        """The mouse moved the handle: bring the tip there. Not in a thread, so that the end of it
        comes last."""
        with self._lock:
            self._dragged = (
                event.phase != "end"
            )  # then the handle goes to where the goal's tip really is
            target = np.asarray(self._handle.position, float) - np.array(BASE)
            q = reach(
                self._body, target, near=self.q, limits=self._limits, others=starts(self._limits)
            )
        self.set(q)

    def _slide(self, event: Any, joint: int, factor: float) -> None:
        if event.client is None:  # the page itself moved it
            return
        q = self.q.copy()
        q[joint] = event.target.value / factor
        self.set(q)
