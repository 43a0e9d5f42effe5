"""The page of a recording: the recorded arm, the simulated ones over it, and time to scrub."""

import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.report.style import COLOURS, reading_unit
from genan.report.viewer.curves import FAINT, RECORDED, SIMULATED, Chart, thinned
from genan.report.viewer.geometry import Body
from genan.report.viewer.ghost_view import PAST, GhostView, drawn_range
from genan.report.viewer.page import LATER, dress, in_words, key
from genan.report.viewer.replay import RESTART, Recording, Replayed
from genan.report.viewer.scene import Arm, furnish

if TYPE_CHECKING:
    from collections.abc import Callable

    from genan.report.viewer.ghosts import Ghosts

#: How often the simulation can begin anew, in words and in seconds.
EVERY = {"every 0.5 s": 0.5, "every 1 s": RESTART, "every 2 s": 2.0, "only at the start": math.inf}
SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0}
COMPUTING = "*Computing the simulated arm …*"
#: Pictures from one drawing of the curves to the next, and time between the moments of the cloud
#: [s].
CURVES_EVERY, MOMENT = 6, 0.03


class ReplayPage:
    """One recording, a trajectory of it at a time."""

    def __init__(
        self,
        server: Any,
        recording: Recording,
        body: Body,
        *,
        members: int,
        member: int | None,
        trajectory: int,
        load: "Callable[[], Ghosts]",
    ) -> None:
        """Build the page.

        Args:
            server: from ``genan.report.viewer.serve.serving``.
            recording: what to show.
            body: its robot.
            members: networks in the ensemble.
            member: which one drives the simulated arm at first, counted from 0; None: all of them.
            trajectory: which one first.
            load: gives the ghosts; called once, beside the page, because it compiles.
        """
        self._recording, self._body, self._robot = recording, body, body.robot
        self._replayed = recording.read(trajectory)
        self._load = load
        self._ghosts: Ghosts | None = None
        self._working = ThreadPoolExecutor(1, thread_name_prefix="genan-view-ghosts")
        self._wish = 0
        self._time, self._playing, self._count = 0.0, True, 0
        self._at: tuple[float, ...] = ()
        self._stale, self._watched = True, 0.0
        words = f"{recording.path.name}, robot **{self._robot.name}**"
        tab = dress(server, title="genan · replay", words=words)
        furnish(server, body)
        self._arm = Arm(server.scene, "/recorded", body)
        self._build_controls(server, members, member)
        with tab:
            self._build_curves(server.gui, members)

    def close(self) -> None:
        """End the work beside the page."""
        self._working.shutdown(wait=True, cancel_futures=True)

    def step(self, seconds: float, *, watched: bool) -> None:
        """Go on in time and show the moment."""
        self._watched += seconds * watched
        if self._wish == 0 and self._watched > LATER:
            self._simulate()
        replayed = self._replayed
        if self._playing:
            self._time += seconds * SPEEDS[self._speed.value]
            if self._time > replayed.duration:
                self._time = 0.0
        if not (watched and (self._playing or self._stale)):
            return
        self._stale = False
        self._place(replayed)
        self._count += 1
        if self._count % CURVES_EVERY == 0 or not self._playing:
            self._draw(replayed)
            self._slider.value = round(min(self._time, replayed.duration), 3)

    def _build_controls(self, server: Any, members: int, member: int | None) -> None:
        gui = server.gui
        gui.add_html(key({"recorded": "#777", "simulated": SIMULATED, "members alone": "#56B4E9"}))
        self._note = gui.add_markdown(COMPUTING)
        with gui.add_folder("Time"):
            self._play = gui.add_button("Pause", hint="Stop and go on.")
            self._slider = gui.add_slider(
                "Time [s]", 0.0, self._replayed.duration, self._replayed.dt, 0.0
            )
            self._speed = gui.add_dropdown(
                "Speed", list(SPEEDS), initial_value="1/2", hint="1 is real time."
            )
            last = len(self._recording) - 1
            self._number = gui.add_number(
                f"Trajectory (0 to {last})", self._replayed.number, min=0, max=last, step=1
            )
        with gui.add_folder("Simulated arm"):
            self._view = GhostView(server, self._body, members=members, member=member)
            self._every = gui.add_dropdown(
                "Starts anew",
                list(EVERY),
                initial_value="every 1 s",
                hint="From where the recorded arm is then.",
            )
            here = gui.add_button(
                "Start anew at this moment", hint="From here on it runs open loop."
            )
        with gui.add_folder("Curves"):
            self._joint = gui.add_dropdown("Joint", list(self._robot.joint_names))
        self._play.on_click(lambda _: self._set_playing(not self._playing))
        self._slider.on_update(lambda event: self._scrub(event))
        self._number.on_update(lambda event: self._choose(event))
        self._every.on_update(lambda _: self._simulate(at=()))
        here.on_click(lambda _: self._simulate(at=(self._time,)))
        self._joint.on_update(lambda _: self._rename())

    def _build_curves(self, gui: Any, members: int) -> None:
        faint = [(f"member {k}", FAINT, 1.0) for k in range(members)]
        self._position = Chart(
            gui,
            "",
            [("recorded", RECORDED, 1.6), ("simulated", SIMULATED, 1.4)],
            unit="",
            cursor=True,
        )
        self._torque = Chart(
            gui, "", [*faint, ("ensemble", SIMULATED, 1.6)], unit="", legend=False, cursor=True
        )
        names = self._robot.control_names
        lines = [(name, COLOURS[k % len(COLOURS)], 1.4) for k, name in enumerate(names)]
        self._control = Chart(
            gui, "Controls", lines, unit=self._robot.controls[0].unit, cursor=True
        )
        self._disagreement = Chart(
            gui,
            "Disagreement of the members",
            [("", COLOURS[1], 1.4)],
            unit="N m",
            legend=False,
            cursor=True,
        )
        self._rename()

    def _rename(self) -> None:
        joint = self._robot.joints[self._robot.joint_names.index(self._joint.value)]
        self._position.rename(f"Position of {joint.name}", reading_unit(joint.unit)[0])
        self._torque.rename(f"Torque on {joint.name}", "N m" if joint.unit == "rad" else "N")
        self._stale = True

    def _set_playing(self, playing: bool) -> None:
        self._playing, self._stale = playing, True
        self._play.label = "Pause" if playing else "Play"

    def _scrub(self, event: Any) -> None:
        if event.client is None:  # the page itself moved it
            return
        self._time = float(self._slider.value)
        if self._playing:
            self._set_playing(False)
        self._stale = True

    def _choose(self, event: Any) -> None:
        """Another trajectory."""
        if event.client is None:
            return
        self._replayed = self._recording.read(
            int(np.clip(self._number.value, 0, len(self._recording) - 1))
        )
        self._slider.max = self._replayed.duration
        self._time, self._stale = 0.0, True
        self._simulate(at=())

    def _simulate(self, *, at: tuple[float, ...] = ()) -> None:
        """Compute the ghosts of this trajectory beside the page; the last wish wins."""
        self._wish += 1
        self._view.ready(False)
        self._note.content = COMPUTING
        work = self._working.submit(
            self._compute, self._wish, self._replayed, EVERY[self._every.value], at
        )
        work.add_done_callback(self._failed)

    def _compute(self, wish: int, replayed: Replayed, every: float, at: tuple[float, ...]) -> None:
        if wish != self._wish:
            return
        if self._ghosts is None:
            self._ghosts = self._load()
        found = replayed.with_ghosts(self._ghosts, every=every, at=at)
        if wish != self._wish:
            return
        self._replayed, self._stale = found, True
        wild = not np.isfinite(found.simulated.q).all() if found.simulated is not None else False
        self._note.content = "*A simulated arm ran away here.*" if wild else ""
        self._view.ready(True)

    def _failed(self, work: "Future[None]") -> None:
        if not work.cancelled() and work.exception() is not None:
            self._note.content = (
                f"**No simulated arm:** {in_words(work.exception() or ValueError())}"
            )

    def _place(self, replayed: Replayed) -> None:
        row = replayed.row(self._time)
        self._arm.place(self._body.poses(replayed.q[row]))
        if replayed.simulated is not None:
            back = round(MOMENT / replayed.dt) * np.arange(PAST, -1, -1)
            self._view.place(replayed.simulated.q[np.maximum(row - back, 0)])

    def _draw(self, replayed: Replayed) -> None:
        some = thinned(len(replayed.q))
        times, joint = replayed.times[some], self._robot.joint_names.index(self._joint.value)
        _, factor = reading_unit(self._robot.joints[joint].unit)
        recorded = replayed.q[some, joint]
        found = replayed.simulated
        chosen = self._view.chosen
        low, high = drawn_range(self._robot)[:, joint]
        simulated = (
            recorded
            if found is None or chosen is None
            else np.clip(found.q[some, chosen, joint], low, high)
        )
        self._position.draw(times, factor * np.stack([recorded, simulated]), now=self._time)
        self._control.draw(times, replayed.u[some].T, now=self._time)
        if found is not None:
            torque = found.torque[some, :, joint].T
            self._torque.draw(
                times, np.concatenate([torque, torque.mean(axis=0, keepdims=True)]), now=self._time
            )
            self._disagreement.draw(times, found.disagreement[some][None], now=self._time)
