"""What both pages have in common: the server, the simulated arms over the real one, the curves, and
the loop that shows picture after picture."""

import contextlib
import io
import math
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.actuator.contract import Contract
from genan.errors import ActuatorError, GenanError, SettingError
from genan.report.style import COLOURS, GREY
from genan.robot import Robot, robot_names
from genan.viewer.drawing import (
    COARSE,
    GHOST,
    MEMBER,
    THICKER,
    ArmKinematics,
    ArmNodes,
    TipCloud,
    draw_stage,
)
from genan.viewer.stage import Stage
from genan.words import reading_unit, with_unit

if TYPE_CHECKING:
    import viser

    from genan.viewer.ghosts import GhostSimulation

#: Only this computer can reach the page.
HOST = "127.0.0.1"
#: Pictures a second, and from one drawing of the curves to the next.
FRAMES, CURVES_EVERY = 30, 6
#: What compiles begins this long after the first browser came, which draws its first picture
#: meanwhile [s].
LATER = 1.5
#: Width of the two panels and height of a chart [px].
CONTROLS, CURVES, HEIGHT = 300, 330, 150
#: Moments of the past whose tips are in the cloud, besides the present one.
PAST = 7
#: A simulated arm that runs away is drawn so far outside the joint limits at most [rad or m].
OUTSIDE = 0.5
#: How often the simulated arms start again from where the real one is, in words and in seconds.
EVERY = {f"every {seconds:g} s": seconds for seconds in (0.5, 1.0, 2.0, 5.0)}
EVERY |= {"only when asked": math.inf}
MEAN, NONE = "mean of the ensemble", "nobody (hidden)"
MEASURED, SIMULATED, AIM = "#222222", COLOURS[0], COLOURS[2]
FAINT = "rgba(86,180,233,0.45)"

Opened = Callable[[str], None]
"""Gets the page's address when it can be looked at."""


def check_port(port: int) -> int:
    """The port to serve on, 0 made a free one; refuses one that is not to be had."""
    if not 0 <= port < 65536:
        raise SettingError(f"A port is a number from 1 to 65535, or 0 for a free one, not {port}.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        # As a server does it: a port whose last connections have just ended can be had again.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
            tried.listen(1)
        except OSError as error:
            raise SettingError(
                f"Port {port} of {HOST} cannot be had ({error.strerror or error}), perhaps another "
                "'genan view' has it; choose another with --port, or --port 0 for a free one."
            ) from None
        return int(tried.getsockname()[1])


def load_viser() -> Any:
    """The package that makes the page, or the sentence on how to get it."""
    try:
        import viser
    except ModuleNotFoundError as error:
        raise SettingError(
            f"The viewer needs the package {error.name or 'viser'!r}, which is not installed: "
            "pip install genan[view]."
        ) from None
    return viser


@contextlib.contextmanager
def serving(port: int) -> "Iterator[viser.ViserServer]":
    """An empty page at ``port`` (from ``check_port``) of this computer, for as long as the block
    lasts."""
    viser = load_viser()

    class LocalServer(viser.ViserServer):
        def request_share_url(self, verbose: bool = True) -> str | None:
            """Never: this page stays on this computer, whatever a browser asks for."""
            return None

    with contextlib.redirect_stdout(io.StringIO()):  # it greets at length
        server = LocalServer(host=HOST, port=port, label="genan view", verbose=False)
    try:
        if server.get_port() != port:  # someone was quicker
            raise SettingError(
                f"Port {port} of {HOST} was taken meanwhile; choose another with --port."
            )
        yield server
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()


@dataclass(frozen=True)
class GhostActuators:
    """The actuators that drive the simulated arms. Their contract is known at once, they themselves
    when needed."""

    folder: Path
    contract: Contract

    @classmethod
    def find(
        cls, folder: Path | None, *, robot: str, member: int | None = None
    ) -> "GhostActuators":
        """Those in ``folder``, or those that come with genan for ``robot``; refuses a ``member``
        that there is not."""
        from genan.actuator.numpy_runtime import ActuatorsError, load
        from genan.robot.package import bundled_actuators

        try:
            folder = folder or bundled_actuators(robot)
        except ActuatorError as error:
            raise ActuatorError(
                f"{str(error)[:-1]}; give those that were fitted for the robot (--actuators)."
            ) from None
        try:  # without JAX: the page should be there before that is
            contract = Contract.from_settings(load(folder).contract)
        except ActuatorsError as error:
            raise ActuatorError(str(error)) from None
        if member is not None and not 0 <= member < contract.members:
            raise SettingError(
                f"There is no member {member}; the ensemble has {contract.members}, counted from 0."
            )
        return cls(folder, contract)

    def robot(self, asked: str | Path | None) -> Robot:
        """The robot asked for, or the bundled one that they were fitted for."""
        if asked is None and self.contract.robot not in robot_names():
            raise ActuatorError(
                f"The actuators were fitted for robot {self.contract.robot!r}, which does not come "
                "with genan; give its robot.toml (--robot)."
            )
        robot = Robot.load(self.contract.robot if asked is None else asked)
        self.contract.check_robot(robot)
        return robot

    def simulation(self, robot: Robot, *, block: int) -> "GhostSimulation":
        """Simulated arms that advance ``block`` ticks in a compiled call; this takes seconds."""
        from genan.jax_setup import use_cache

        use_cache()
        from genan.actuator import load
        from genan.dynamics import load_dynamics
        from genan.viewer.ghosts import GhostSimulation

        return GhostSimulation(load(self.folder), load_dynamics(robot), block=block)


class ViewerPage(ABC):
    """A page with one arm, the simulated ones over it, and curves. Subclasses are final."""

    def __init__(
        self,
        server: Any,
        stage: Stage,
        actuators: GhostActuators,
        *,
        member: int | None,
        title: str,
        words: str,
        block: int,
        every: str = "every 1 s",
    ) -> None:
        """Build what both pages have.

        Args:
            server: from ``serving``.
            stage: the robot's surroundings, without arms.
            actuators: drive the simulated arms.
            member: which member drives the blue one at first, counted from 0; None: all of them.
            title: of the page.
            words: below the title.
            block: ticks of a compiled call.
            every: how often the simulated arms start again, one of ``EVERY``.
        """
        self.server, self.stage, self.robot = server, stage, stage.robot
        self.members = actuators.contract.members
        self.kinematics = ArmKinematics(self.robot)
        self._load = lambda: actuators.simulation(self.robot, block=block)
        self._simulation: GhostSimulation | None = None
        self._working = ThreadPoolExecutor(1, thread_name_prefix="genan-view")
        self._watched, self._started, self._pictures = 0.0, False, 0
        gui = server.gui
        red, green, blue = (int(SIMULATED[k : k + 2], 16) for k in (1, 3, 5))
        gui.configure_theme(
            brand_color=(red, green, blue), show_logo=False, show_share_button=False
        )
        gui.main_panel.dock_right()
        gui.main_panel.set_width(CONTROLS)
        gui.add_markdown(f"### genan · {title}\n{words}")
        panel = gui.add_panel()
        tab = panel.add_tab("Curves")
        panel.dock_left()
        panel.set_width(CURVES)
        draw_stage(server, stage)
        self.arm = ArmNodes(server.scene, "/robot", self.robot, stage.base)
        gui.add_html(self._key())
        self.note = gui.add_markdown("")
        self.build(gui)
        with gui.add_folder("Simulated arm"):
            self.view = GhostView(server, stage, members=self.members, member=member)
            self._every = gui.add_dropdown(
                "Starts again",
                list(EVERY),
                initial_value=every,
                hint="From where the real arm is then.",
            )
            again = gui.add_button("Start again now", hint="From here on it runs open loop.")
        self._every.on_update(lambda _: self.restart(asked=False))
        again.on_click(lambda _: self.restart(asked=True))
        self.build_below(gui)
        with tab:
            self.curves = Curves(gui, self.robot, members=self.members, **self.curve_options())

    @property
    def every(self) -> float:
        """How often the simulated arms start again [s]."""
        return EVERY[self._every.value]

    @property
    def simulation(self) -> "GhostSimulation":
        """The simulated arms; the first call loads them."""
        if self._simulation is None:
            self._simulation = self._load()
        return self._simulation

    def step(self, seconds: float, *, watched: bool) -> None:
        """Go on by ``seconds`` of the wall's time; nothing is drawn when it is not ``watched``."""
        self._watched += seconds * watched
        if self._watched > LATER and not self._started:
            self._started = True
            self.start_ghosts()
        self.advance(seconds)
        if watched:
            self._pictures += 1
            self.draw(with_curves=self._pictures % CURVES_EVERY == 0)

    def beside(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do ``work`` beside the page, one after the other; an error goes to ``ghosts_failed``."""
        self._working.submit(work, *arguments).add_done_callback(self._done)

    def close(self) -> None:
        """End the work beside the page."""
        self._working.shutdown(wait=True, cancel_futures=True)

    def build(self, gui: Any) -> None:
        """The page's own controls, above those of the simulated arms."""
        return

    def build_below(self, gui: Any) -> None:
        """More of them, below."""
        return

    def key(self) -> dict[str, str]:
        """What is drawn in which colour, besides the simulated arms: name to CSS colour."""
        return {"robot": "#777"}

    def curve_options(self) -> dict[str, Any]:
        """For ``Curves``."""
        return {}

    @abstractmethod
    def start_ghosts(self) -> None:
        """Someone has looked for a while: begin with what compiles."""

    @abstractmethod
    def restart(self, *, asked: bool) -> None:
        """Start the simulated arms again now, ``asked`` by the button, or ``every`` so often."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Go on in time."""

    @abstractmethod
    def draw(self, *, with_curves: bool) -> None:
        """Show the moment."""

    @abstractmethod
    def ghosts_failed(self, words: str) -> None:
        """There are no simulated arms, and why."""

    def _key(self) -> str:
        entries = self.key() | {"simulated": SIMULATED, "members alone": "#56B4E9"}
        spots = (
            f'<span style="white-space:nowrap;margin-right:0.9em"><span style="color:{colour}">'
            f"&#9632;</span> {name}</span>"
            for name, colour in entries.items()
        )
        style = "font-size:0.8em;padding:0 0.9em 0.3em 0.9em;color:#555"
        return f'<div style="{style}">{" ".join(spots)}</div>'

    def _done(self, work: "Future[None]") -> None:
        error = None if work.cancelled() else work.exception()
        if error is not None:
            name = "" if isinstance(error, GenanError) else f"{type(error).__name__}: "
            self.ghosts_failed(f"No simulated arm: {name}{error}")


def show(
    page: ViewerPage, stopping: Callable[[], bool], opened: Opened = lambda address: None
) -> None:
    """Picture after picture until ``stopping``. Browsers come and go; without one nothing is
    drawn."""
    opened(f"http://{HOST}:{page.server.get_port()}")
    before = due = time.perf_counter()
    while not stopping():
        now = time.perf_counter()
        with page.server.atomic():
            page.step(now - before, watched=bool(page.server.get_clients()))
        before = now
        due = max(due + 1.0 / FRAMES, now)  # a picture that came late is not made up for
        time.sleep(max(0.0, due - time.perf_counter()))


@dataclass(frozen=True)
class GhostMotion:
    """What the ghosts did in some ticks, and what the networks say about the robot in them."""

    q: Float[np.ndarray, "ticks models nq"]
    """Positions [rad or m]: of the ensemble's mean torque, then of each member alone."""
    torque: Float[np.ndarray, "ticks members nq"]
    """What each member makes of the robot's own past [N m or N]."""

    @property
    def disagreement(self) -> Float[np.ndarray, " ticks"]:
        """Standard deviation of the torque over the members, summed over the joints [N m]."""
        return self.torque.std(axis=1).sum(axis=-1)


class GhostView:
    """The simulated arms on a page: the chosen one, each member as a fainter one, and the cloud of
    their tips."""

    def __init__(self, server: Any, stage: Stage, *, members: int, member: int | None) -> None:
        """Add them to the scene, hidden, and their controls where the page is adding."""
        scene, gui, robot = server.scene, server.gui, stage.robot
        self._kinematics, self._range, self._ready = ArmKinematics(robot), drawn_range(robot), False
        self._ghost = ArmNodes(scene, "/ghost", robot, stage.base, colour=GHOST)
        self._alone = [
            ArmNodes(scene, f"/member {k}", robot, stage.base, colour=MEMBER,
                     thicker=0.5 * THICKER, facets=COARSE)
            for k in range(members)
        ]  # fmt: skip
        self._cloud = TipCloud(scene, stage.base, points=members * (PAST + 1))
        self._names = [MEAN, *(f"member {k}" for k in range(members)), NONE]
        self._driver = gui.add_dropdown(
            "Driven by",
            self._names,
            initial_value=self._names[0 if member is None else 1 + member],
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
        return None if self._driver.value == NONE else self._names.index(self._driver.value)

    def place(self, q: Float[np.ndarray, "past models nq"] | None) -> None:
        """Show the arms at ``q`` [rad or m], the last of the moments; the earlier ones are for the
        cloud. Without, there is nothing to show."""
        if (q is not None) != self._ready:
            self._ready = q is not None
            self._show()
        if q is None:
            return
        q = np.clip(np.nan_to_num(q, nan=0.0), *self._range)
        poses, tip = self._kinematics.poses, self._kinematics.tip
        if self.chosen is not None:
            self._ghost.place(poses(q[-1, self.chosen]))
        members = [poses(each) for each in q[-1, 1:]]
        if self._all.value:
            for ghost, where in zip(self._alone, members, strict=True):
                ghost.place(where)
        if self._tips.value:
            past = [tip(each) for moment in q[:-1] for each in moment[1:]]
            self._cloud.place(np.array([*past, *(each.tip for each in members)]))

    def _show(self) -> None:
        self._ghost.show(self._ready and self.chosen is not None)
        for ghost in self._alone:
            ghost.show(self._ready and bool(self._all.value))
        self._cloud.show(self._ready and bool(self._tips.value))


def drawn_range(robot: Robot) -> Float[np.ndarray, "2 nq"]:
    """Lowest and highest joint positions that are drawn [rad or m]."""
    outside = OUTSIDE * np.array([[-1.0], [1.0]])
    return np.nan_to_num(robot.q_range, posinf=100.0, neginf=-100.0) + outside


class Curves:
    """Position and torque of a joint, controls and disagreement over time."""

    def __init__(
        self,
        gui: Any,
        robot: Robot,
        *,
        members: int,
        measured: str = "robot",
        goal: bool = False,
        cursor: bool = False,
    ) -> None:
        """Add them where ``gui`` is adding: with a line for the ``goal`` or without, and with an
        upright line at the present moment or without."""
        self._robot, self._cursor = robot, cursor
        self._joint = gui.add_dropdown(
            "Joint", list(robot.joint_names), hint="Whose position and torque is shown."
        )
        aim = [("goal", AIM, 1.2)] if goal else []
        faint = [(f"member {k}", FAINT, 1.0) for k in range(members)]
        named = [
            (name, COLOURS[k % len(COLOURS)], 1.4) for k, name in enumerate(robot.control_names)
        ]
        unit = robot.controls[0].unit
        self._position = self._chart(
            gui, "", [(measured, MEASURED, 1.6), ("simulated", SIMULATED, 1.4), *aim]
        )
        self._torque = self._chart(gui, "", [*faint, ("ensemble", SIMULATED, 1.6)], legend=False)
        self._control = self._chart(gui, with_unit("Controls", unit), named)
        self._disagreement = self._chart(
            gui, "Disagreement of the members [N m]", [("", COLOURS[1], 1.4)], legend=False
        )
        self.changed = True
        """Whether another joint was chosen since the last drawing."""
        self._joint.on_update(lambda _: self._rename())
        self._rename()

    def draw(
        self,
        times: Float[np.ndarray, " n"],
        q: Float[np.ndarray, "n nq"],
        u: Float[np.ndarray, "n nu"],
        ghosts: GhostMotion | None,
        *,
        chosen: int | None,
        goal: Float[np.ndarray, " nq"] | None = None,
        now: float = math.inf,
    ) -> None:
        """Show positions [rad or m] and controls over ``times`` [s], with the simulated arm
        ``chosen`` of the ``ghosts`` and a cursor at ``now`` [s]."""
        self.changed = False
        joint = self._robot.joint_names.index(self._joint.value)
        factor = reading_unit(self._robot.joints[joint].unit)[1]
        low, high = drawn_range(self._robot)[:, joint]
        measured = simulated = q[:, joint]
        if ghosts is not None and chosen is not None:
            simulated = np.clip(np.nan_to_num(ghosts.q[:, chosen, joint]), low, high)
        aim = [] if goal is None else [np.full(len(times), goal[joint])]
        lines = factor * np.stack([measured, simulated, *aim])
        self._draw(self._position, times, lines, now)
        self._draw(self._control, times, u.T, now)
        if ghosts is not None:
            torque = ghosts.torque[:, :, joint].T
            mean = torque.mean(axis=0, keepdims=True)
            self._draw(self._torque, times, np.concatenate([torque, mean]), now)
            self._draw(self._disagreement, times, ghosts.disagreement[None], now)

    def _draw(self, plot: Any, times: np.ndarray, lines: np.ndarray, now: float) -> None:
        # A step from far below to far above the chart is an upright line in it.
        mark = [np.where(times < now, -2.0, 2.0)] if self._cursor else []
        plot.data = (times.astype(float), *(line.astype(float) for line in lines), *mark)

    def _rename(self) -> None:
        joint = self._robot.joints[self._robot.joint_names.index(self._joint.value)]
        self._position.title = with_unit(f"Position of {joint.name}", reading_unit(joint.unit)[0])
        self._torque.title = with_unit(
            f"Torque on {joint.name}", "N m" if joint.unit == "rad" else "N"
        )
        self.changed = True

    def _chart(
        self, gui: Any, title: str, lines: Sequence[tuple[str, str, float]], *, legend: bool = True
    ) -> Any:
        """A chart of lines, each with its name, colour and width [px]."""
        series: list[dict[str, Any]] = [{"label": "t [s]"}]
        for name, colour, width in [*lines, *([("now", GREY, 1.0)] if self._cursor else [])]:
            series.append(
                {"label": name, "stroke": colour, "width": width, "points": {"show": False}}
            )
        if self._cursor:
            series[-1]["scale"] = "now"
        axis = {"font": "10px sans-serif", "gap": 2}
        return gui.add_uplot(
            data=tuple(np.array([0.0, 1.0]) * (k == 0) for k in range(len(series))),
            series=tuple(series),
            title=title,
            scales={"x": {"time": False}, "now": {"range": (0.0, 1.0)}},
            axes=(axis | {"size": 26}, axis | {"size": 44}),
            legend={"show": legend, "live": False, "markers": {"width": 2}},
            cursor={"show": False},
            height=HEIGHT,
            padding=(4, 10, 0, 0),
        )
