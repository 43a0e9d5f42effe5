"""The simulated arms on a page: which are shown, and where they are."""

from typing import Any

import numpy as np
from jaxtyping import Float

from genan.report.viewer.geometry import Body
from genan.report.viewer.primitives import COARSE
from genan.report.viewer.scene import GHOST, MEMBER, THICKER, Cloud, Ghost
from genan.robot import Robot

MEAN, NONE = "mean of the ensemble", "nobody (hidden)"
#: Moments of the past whose tips are in the cloud, besides the present one.
PAST = 7
#: A ghost that runs away is drawn so far outside the joint limits at most [rad or m].
OUTSIDE = 0.5


class GhostView:
    """One ghost, the members as fainter ones, and the cloud of their tips."""

    def __init__(self, server: Any, body: Body, *, members: int, member: int | None = None) -> None:
        """Add them to the scene, hidden, and their controls where the page is adding.

        Args:
            server: the page's.
            body: the arm.
            members: how many networks there are.
            member: which one drives the blue arm at first, counted from 0; left out, all of them.
        """
        self._body, self._members, self._ready = body, members, False
        self._range = drawn_range(body.robot)
        scene, gui = server.scene, server.gui
        self._ghost = Ghost(scene, "/ghost", body, colour=GHOST, opacity=0.4)
        faint = Body(body.robot, facets=COARSE)
        self._alone = [
            Ghost(
                scene,
                f"/{member_name(k)}",
                faint,
                colour=MEMBER,
                opacity=0.2,
                thicker=0.5 * THICKER,
            )
            for k in range(members)
        ]
        self._cloud = Cloud(scene, "/cloud", points=members * (PAST + 1))
        names = [MEAN, *(member_name(k) for k in range(members)), NONE]
        self._driver = gui.add_dropdown(
            "Driven by",
            names,
            initial_value=MEAN if member is None else member_name(member),
            hint="Whose torque moves the blue arm.",
        )
        self._all = gui.add_checkbox(
            "All members", True, hint="Each network alone, as a faint arm."
        )
        self._tips = gui.add_checkbox(
            "Cloud of tips", True, hint="Where the members' tips are and just were."
        )
        for control in (self._driver, self._all, self._tips):
            control.on_update(lambda _: self._show())

    @property
    def chosen(self) -> int | None:
        """Which simulated arm is the blue one: 0 is the ensemble's, k member k - 1; None: none."""
        names = [MEAN, *(member_name(k) for k in range(self._members))]
        return names.index(self._driver.value) if self._driver.value in names else None

    def ready(self, ready: bool) -> None:
        """Whether there is anything to show."""
        if ready != self._ready:
            self._ready = ready
            self._show()

    def place(self, q: Float[np.ndarray, "past models nq"]) -> None:
        """Show the ghosts at ``q`` [rad or m], the last of the moments; the earlier ones are for
        the cloud."""
        q = np.clip(np.nan_to_num(q, nan=0.0), *self._range)
        if self.chosen is not None:
            self._ghost.place(self._body.poses(q[-1, self.chosen]))
        members = [self._body.poses(each) for each in q[-1, 1:]]
        if self._all.value:
            for ghost, poses in zip(self._alone, members, strict=True):
                ghost.place(poses)
        if self._tips.value:
            past = [self._body.tip(each) for moment in q[:-1] for each in moment[1:]]
            self._cloud.place(np.array([*past, *(each.tip for each in members)]))

    def _show(self) -> None:
        self._ghost.show(self._ready and self.chosen is not None)
        for ghost in self._alone:
            ghost.show(self._ready and bool(self._all.value))
        self._cloud.show(self._ready and bool(self._tips.value))


def member_name(number: int) -> str:
    """What member ``number``, counted from 0, is called."""
    return f"member {number}"


def drawn_range(robot: Robot) -> Float[np.ndarray, "2 nq"]:
    """Lowest and highest joint positions that are drawn [rad or m]."""
    return np.nan_to_num(robot.q_range, posinf=100.0, neginf=-100.0) + OUTSIDE * np.array(
        [[-1.0], [1.0]]
    )
