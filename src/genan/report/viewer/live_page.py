"""The page of a running robot: a policy drives it, and whoever looks may interfere."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.report.viewer import room
from genan.report.viewer.curves import SIMULATED
from genan.report.viewer.geometry import Body
from genan.report.viewer.ghost_view import GhostView
from genan.report.viewer.live_curves import LiveCurves
from genan.report.viewer.live_ghosts import EVERY, LiveGhosts
from genan.report.viewer.live_goal import GoalHandle
from genan.report.viewer.live_orders import (
    Age,
    Failed,
    Launch,
    LiveSettings,
    Order,
    Push,
    Restart,
    Ticks,
)
from genan.report.viewer.page import LATER, dress, key
from genan.report.viewer.scene import Arm, Ball, furnish

if TYPE_CHECKING:
    from genan.report.viewer.ghosts import Ghosts
    from genan.report.viewer.live_process import LiveProcess

#: Directions of a push, in the frame of the base.
DIRECTIONS = {
    "left": (0.0, 1.0, 0.0),
    "right": (0.0, -1.0, 0.0),
    "forward": (1.0, 0.0, 0.0),
    "back": (-1.0, 0.0, 0.0),
    "up": (0.0, 0.0, 1.0),
    "down": (0.0, 0.0, -1.0),
}
#: Oldest robot [h], and how long the slider must lie still before the robot is made anew [s].
OLDEST, STILL = 500.0, 0.6
#: Pictures from one drawing of the curves to the next.
CURVES_EVERY = 6
WORDS = {
    "reacher": "The virtual robot, driven by a policy. **Drag the arrows** at the tip: the arm follows.",
    "table-tennis": "The virtual robot, driven by a policy. **Launch a ball**: it plays it back.",
    "ball-in-a-cup": "The virtual robot, driven by a policy. **Try**: it swings the ball into the cup.",
}


class LivePage:
    """One running robot."""

    def __init__(
        self,
        server: Any,
        settings: LiveSettings,
        body: Body,
        process: "LiveProcess",
        *,
        members: int,
        member: int | None,
        goals: tuple[np.ndarray, np.ndarray] | None,
        load: "Callable[[], Ghosts]",
    ) -> None:
        """Build the page.

        Args:
            server: from ``genan.report.viewer.serve.serving``.
            settings: what runs.
            body: the robot's drawing.
            process: where it runs.
            members: networks in the ensemble.
            member: which one drives the simulated arm at first, counted from 0; None: all of them.
            goals: lowest and highest goals of the reacher [rad or m]; None for other tasks.
            load: gives the ghosts; called once, beside the page, because it compiles.
        """
        self._process, self._body, self._robot = process, body, body.robot
        self._ghosts = LiveGhosts(load, dt=self._robot.dt)
        self._q, self._count, self._said = self._robot.q_rest, 0, ""
        self._status, self._failed = "starting …", False
        self._hours, self._moved = settings.hours, 0.0
        self._ages, self._watched = False, 0.0
        self.reports = 0
        """How many came from the robot so far."""
        tab = dress(server, title=f"genan · live {settings.task}", words=WORDS[settings.task])
        furnish(server, body, table=settings.task == "table-tennis")
        self._arm = Arm(server.scene, "/robot", body)
        self._arm.place(body.poses(self._q))
        wooden = settings.task == "ball-in-a-cup"
        self._ball = Ball(
            server.scene, radius=room.WOODEN_BALL if wooden else room.ball_radius(), string=wooden
        )
        self._goal = None if goals is None else GoalHandle(server, self._robot, goals, self.send)
        self._build(server, settings, members, member)
        with tab:
            self._curves = LiveCurves(
                server.gui, self._robot, members=members, goal=goals is not None
            )

    @property
    def q(self) -> np.ndarray:
        """Where the robot was when it last reported [nq] [rad or m]."""
        return self._q

    @property
    def ghosts_ready(self) -> bool:
        """Whether the simulated arms run beside it."""
        return self._ghosts.ready

    @property
    def goal(self) -> GoalHandle | None:
        """The reacher's goal."""
        return self._goal

    def send(self, order: Order) -> None:
        """Give the robot an order."""
        self._process.send(order)

    def close(self) -> None:
        """End the work beside the page, and the robot."""
        self._ghosts.close()
        self._process.close()

    def step(self, seconds: float, *, watched: bool) -> None:
        """Take what the robot reports, and show it."""
        for report in self._process.reports():
            if isinstance(report, Failed):
                self._status, self._failed = report.words, True
            else:
                self._take(report)
        self._age(seconds)
        if not watched:
            return
        self._watched += seconds
        if self._watched > LATER:
            self._ghosts.start()
        self._say()
        self._arm.place(self._body.poses(self._q))
        if self._goal is not None:
            self._goal.show()
        past = self._ghosts.past
        if past is not None:
            self._view.place(past)
        self._view.ready(past is not None)
        self._count += 1
        if self._count % CURVES_EVERY == 0:
            self._curves.draw(self._view.chosen, None if self._goal is None else self._goal.q)

    def _take(self, ticks: Ticks) -> None:
        self._q = ticks.q[-1]
        self.reports += 1
        self._ghosts.take(ticks)
        self._curves.take(ticks, self._ghosts)
        self._ball.place(ticks.ball, ticks.string)
        slow = f", at {100.0 * ticks.speed:.0f} % of real time" if ticks.speed < 0.95 else ""
        score = f"; {ticks.successes} of {ticks.tries} succeeded" if ticks.tries else ""
        self._status = f"{ticks.status}{score}{slow}"

    def _say(self) -> None:
        """The line of words, when it has changed."""
        waiting = "" if self._ghosts.ready else f"*{self._ghosts.words}*"
        text = f"**{'Failed' if self._failed else 'Robot'}:** {self._status}\n\n{waiting}"
        if text != self._said:
            self._note.content = self._said = text

    def _age(self, seconds: float) -> None:
        """Make the robot anew once its slider lies still."""
        if not self._ages:
            return
        self._moved += seconds
        if self._moved > STILL:
            self._ages = False
            self.send(Age(float(self._older.value)))

    def _build(self, server: Any, settings: LiveSettings, members: int, member: int | None) -> None:
        gui = server.gui
        entries = {"robot": "#777", "simulated": SIMULATED, "members alone": "#56B4E9"}
        gui.add_html(key(entries | ({"goal": "#009E73"} if self._goal else {})))
        self._note = gui.add_markdown("")
        if self._goal is not None:
            self._goal.build(gui)
        elif settings.task == "table-tennis":
            gui.add_button("Launch a ball").on_click(lambda _: self.send(Launch()))
        else:
            gui.add_button("Try").on_click(lambda _: self.send(Launch()))
        if settings.task != "ball-in-a-cup":
            self._build_push(gui)
        with gui.add_folder("Simulated arm"):
            self._view = GhostView(server, self._body, members=members, member=member)
            every = gui.add_dropdown("Starts anew", list(EVERY), initial_value="every 1 s",
                                     hint="From where the robot is then.")  # fmt: skip
            now = gui.add_button("Start anew now")
        every.on_update(lambda _: self._ghosts.restart(every=EVERY[every.value]))
        now.on_click(lambda _: self._ghosts.restart())
        with gui.add_folder("Robot"):
            hours = min(settings.hours, OLDEST)
            self._older = gui.add_slider(
                "Age [h]", 0.0, OLDEST, 10.0, hours, hint="Operating hours: muscles wear."
            )
            again = gui.add_button("Restart the robot", hint="After a stop, or at any time.")
        self._older.on_update(lambda _: self._wish_age())
        again.on_click(lambda _: self.send(Restart()))

    def _wish_age(self) -> None:
        self._ages, self._moved = True, 0.0

    def _build_push(self, gui: Any) -> None:
        with gui.add_folder("Push the arm"):
            force = gui.add_slider("Force [N]", 2.0, 30.0, 1.0, 10.0, hint="At the tip.")
            lasting = gui.add_slider("For [s]", 0.1, 0.3, 0.05, 0.2)
            for names in (("left", "right", "up"), ("forward", "back", "down")):
                pushed = gui.add_button_group("", names)
                pushed.on_click(
                    lambda event: self.send(
                        Push(
                            force.value * np.array(DIRECTIONS[event.target.value]),
                            float(lasting.value),
                        )
                    )
                )
