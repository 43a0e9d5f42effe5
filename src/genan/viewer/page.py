"""What both pages have in common: the server, the arms in 3-D, the simulated ones over the real
one, the curves, and the loop that shows picture after picture.

One node of the scene for a body: a picture is one pose for each, and viser sends what has moved.
"""

import contextlib
import io
import math
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
from jaxtyping import Float

from genan.actuator.contract import read_contract
from genan.actuator.settings import frozen
from genan.errors import ActuatorError, GenanError, SettingError, refuse
from genan.jax_setup import prepare
from genan.plotting import COLOURS, GREY
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.viewer.rendering import ArmKinematics, Joints, Snapshot, Stage, Trails, geom_mesh
from genan.words import reading_unit, with_unit

if TYPE_CHECKING:
    import trimesh
    import viser

    from genan.viewer.ghosts import GhostSimulation

RGBA = tuple[float, float, float, float]  # Red, green, blue and opacity, from 0 to 1.

Rows = Float[np.ndarray, "n ..."]

HOST = "127.0.0.1"  # Only this computer can reach the page.
FRAMES, CURVES_EVERY = 30, 6  # Pictures a second, and from one drawing of the curves to the next.
LATER = 1.5  # Compiling begins so long after the first browser came, which draws meanwhile [s].
STYLE: Any = frozen(tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")))
LOOKS: dict[str, tuple[RGBA, float]] = STYLE["arms"]
CONTROLS = STYLE["controls"]
FACETS, COARSE = 20, 10  # Corners of a circle, and of a faint one: graphics may be slow.
STILL = 1e-6  # What moves or turns by less than this has not [m, or of a quaternion].
_PIECES = 64  # Pieces that all lines have together, at most.
PAST = 7  # Moments of the past whose tips are in the cloud, before the present one.
OUTSIDE = 0.5  # A simulated arm that runs away is drawn so far outside its limits [rad or m].
EVERY: dict[str, float] = STYLE["every"]
COMPUTING = "Computing the simulated arm …"
MEAN, NONE = "mean of the ensemble", "nobody (hidden)"
MEASURED, SIMULATED, AIM, FAINT = "#222222", COLOURS[0], COLOURS[2], "rgba(86,180,233,0.45)"


def shapes(
    model: mujoco.MjModel, body: int, look: str | None = None
) -> "list[tuple[trimesh.Trimesh, RGBA]]":
    """What is drawn of a body, in its own frame, with colours; no planes: the page has a floor.
    With a ``look`` of ``LOOKS`` all in one, and thicker: two arms in one place would flicker."""
    from trimesh import util

    found, turn = [], np.zeros(9)
    for geom in np.flatnonzero(model.geom_bodyid == body).tolist():
        mesh = geom_mesh(model, geom, facets=COARSE if look == "member" else FACETS)
        material = model.geom_matid[geom]
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
        if mesh is None or rgba[3] == 0.0:
            continue
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        mesh.vertices = mesh.vertices @ turn.reshape(3, 3).T + model.geom_pos[geom]
        red, green, blue, alpha = map(float, rgba)
        found.append((mesh, (red, green, blue, alpha)))
    if look is None or not found:
        return found
    colour, thicker = LOOKS[look]
    whole: Any = util.concatenate([mesh for mesh, _ in found])
    whole.vertices = whole.vertices + thicker * whole.vertex_normals
    return [(whole, colour)]


def add_body(
    scene: Any, name: str, model: mujoco.MjModel, body: int, look: str | None = None, **frame: Any
) -> Any:
    """Add the frame ``name`` with the shapes of a body in it; None where there are none."""
    node = None
    for k, (mesh, colour) in enumerate(shapes(model, body, look)):
        node = node or scene.add_frame(name, show_axes=False, **frame)
        scene.add_mesh_simple(
            f"{name}/{k}", mesh.vertices, mesh.faces, color=colour[:3],
            opacity=None if colour[3] >= 1.0 else colour[3], **STYLE["mesh"],
        )  # fmt: skip
    return node


class ArmNodes:
    """One arm: a frame for each body, with its shapes in it."""

    def __init__(self, scene: Any, name: str, stage: Stage, look: str | None = None) -> None:
        """Add the robot as the node ``name``; with a ``look`` of ``LOOKS``, hidden at first."""
        model, self.kinematics = stage.robot.mj_model, ArmKinematics(stage.robot)
        seen = look is None
        self.root = scene.add_frame(name, show_axes=False, position=stage.base, visible=seen)
        links = (model.body(k).name or f"body{k}" for k in range(model.nbody))
        nodes = [add_body(scene, f"{name}/{link}", model, k, look) for k, link in enumerate(links)]
        self._nodes = {body: node for body, node in enumerate(nodes) if node is not None}
        self._poses = np.full((model.nbody, 7), np.nan)  # Of all bodies, as they were last sent.

    def place(self, q: Joints) -> None:
        """Put the bodies where they are at the joint positions ``q`` [rad or m]. What has not moved
        is not sent: half of it, in most arms."""
        poses = np.hstack(self.kinematics.poses(q))
        still = np.abs(poses - self._poses) < STILL  # false at first, when they are nowhere
        stays, faces = still[:, :3].all(axis=1), still[:, 3:].all(axis=1)
        for body, node in self._nodes.items():
            if not stays[body]:
                node.position = self._poses[body, :3] = poses[body, :3]
            if not faces[body]:
                node.wxyz = self._poses[body, 3:] = poses[body, 3:]


class MarkerNodes:
    """What moves besides the arm, with the path it came, and the lines of a moment."""

    def __init__(self, scene: Any, stage: Stage) -> None:
        self._trails, model = Trails(stage), stage.model
        bodies = stage.moving.items()
        nodes = {name: add_body(scene, f"/{name}", model, k, visible=False) for name, k in bodies}
        self._bodies = {name: node for name, node in nodes.items() if node is not None}
        # Lines keep their number of pieces: those that are not needed have no length.
        none = np.zeros((_PIECES, 2, 3))
        self._lines = scene.add_line_segments("/lines", none, none, **STYLE["lines"])

    def place(self, markers: Mapping[str, np.ndarray]) -> None:
        """Show what ``markers`` has [m], and hide what it has not."""
        for name, node in self._bodies.items():
            node.visible = name in markers
            if node.visible:
                node.position = markers[name]
        points, colours = np.zeros((_PIECES, 2, 3), np.float32), np.zeros((_PIECES, 2, 3), np.uint8)
        lines = self._trails.at(Snapshot(np.empty(0), markers=markers))
        pieces = [(ends, colour) for line, colour, _ in lines for ends in pairwise(line)]
        for k, (ends, colour) in enumerate(pieces[:_PIECES]):
            points[k], colours[k] = ends, np.round(255.0 * np.array(colour[:3]))
        self._lines.points, self._lines.colors = points, colours


def draw_stage(server: Any, stage: Stage) -> None:
    """Floor, light, the scenery that does not move, and where one looks from at first."""
    scene, (x, y, _), size = server.scene, stage.base.tolist(), 4.0 * stage.camera.distance
    # No shadows and no reflections: computers without graphics look too.
    scene.configure_default_lights(cast_shadow=False)
    scene.configure_environment_map(None)
    scene.add_light_hemisphere("/room/sky", **STYLE["sky"])
    scene.world_axes.visible = False
    scene.add_grid("/room/floor", size, size, position=(x, y, stage.floor), **STYLE["floor"])
    add_body(scene, "/room", stage.model, 0)
    camera, (eye, _) = server.initial_camera, stage.eye()
    camera.look_at = np.array(stage.camera.lookat)
    # From further away than a film: the panels hide the sides.
    camera.position = camera.look_at + 1.4 * (eye - camera.look_at)
    camera.up = np.array([0.0, 0.0, 1.0])
    camera.fov = math.radians(stage.model.vis.global_.fovy)


@contextlib.contextmanager
def serving(
    port: int, opened: Callable[[str], None] = lambda _: None
) -> "Iterator[viser.ViserServer]":
    """An empty page at ``port`` of this computer, 0 for a free one, while the block lasts.
    ``opened`` gets its address at once: a browser can load while the page is made."""
    try:
        import viser
    except ModuleNotFoundError as error:
        needs = f"The viewer needs the package {error.name or 'viser'!r}, which is not installed"
        raise SettingError(f"{needs}: pip install genan[view].") from None
    wrong = f"A port is a number from 1 to 65535, or 0 for a free one, not {port}."
    refuse((not 0 <= port < 65536, wrong))

    class LocalServer(viser.ViserServer):
        def request_share_url(self, verbose: bool = True) -> str | None:
            """Never: this page stays on this computer, whatever a browser asks for."""
            return None

    with contextlib.redirect_stdout(io.StringIO()):  # it greets at length
        server = LocalServer(host=HOST, port=port, label="genan view", verbose=False)
    try:
        taken = f"Port {port} of {HOST} cannot be had, perhaps another 'genan view' has it"
        hint = "choose another with --port, or --port 0 for a free one"
        # It takes the next one that is free.
        refuse((port not in (0, server.get_port()), f"{taken}; {hint}."))
        opened(f"http://{HOST}:{server.get_port()}")
        yield server
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()


class GhostActuators:
    """The actuators of the simulated arms: the contract at once, they themselves when needed."""

    def __init__(self, folder: Path | None, robot: str | None, member: int | None = None) -> None:
        """Those in ``folder``, or those that come with ``robot``; ``member`` drives the blue arm at
        first (None: all of them), and is refused where there is none."""
        try:
            self.folder = folder or bundled_actuators(str(robot))
        except ActuatorError:
            none = f"No actuators come with the robot {robot or 'of this recording'}"
            raise ActuatorError(f"{none}; give those fitted for it (--actuators).") from None
        # Without JAX: the page should be there before that is.
        self.member, (self.contract, _) = member, read_contract(self.folder)
        unknown = f"There is no member {member}; the ensemble has {self.contract.members}"
        wrong = member is not None and not 0 <= member < self.contract.members
        refuse((wrong, f"{unknown}, counted from 0."))


@dataclass(frozen=True)
class GhostMotion:
    """What the simulated arms did in some ticks, and what the networks say about the robot."""

    q: Float[np.ndarray, "ticks models nq"]  # Of the mean torque, then of each member [rad or m].
    torque: Float[np.ndarray, "ticks members nq"]  # Of each, of the robot's own past [N m or N].

    @property
    def disagreement(self) -> Float[np.ndarray, " ticks"]:
        """Standard deviation of the torque over the members, summed over the joints [N m]."""
        return self.torque.std(axis=1).sum(axis=-1)


class ViewerPage(ABC):
    """A page with one arm, the simulated ones over it, and curves. Subclasses are final."""

    block: ClassVar[int]  # Ticks that the simulated arms go along with in one compiled call.
    measured: ClassVar[str]  # What the real arm is called.
    cursor: ClassVar[bool] = False  # Whether the curves have one.

    def __init__(
        self, server: Any, stage: Stage, actuators: GhostActuators, words: str, goal: bool = False
    ) -> None:
        """Build what both pages have: ``words`` at the top, the surroundings of ``stage``, which is
        without arms, the arms that ``actuators`` drive, and ``Curves``, with a ``goal`` or not."""
        self.server, self.stage, self.robot = server, stage, stage.robot
        self.members, self._actuators = actuators.contract.members, actuators.folder
        self._working = ThreadPoolExecutor(1, thread_name_prefix="genan-view")
        self._watched, self._started, self._pictures = 0.0, False, 0
        self._status, self._ghost_words, self._said = "", COMPUTING, ""
        gui = server.gui
        gui.configure_theme(**STYLE["theme"])
        gui.main_panel.dock_right()
        gui.main_panel.set_width(300)
        gui.add_markdown(f"### genan · {words}")
        panel = gui.add_panel()
        tab = panel.add_tab("Curves")
        panel.dock_left()
        panel.set_width(330)
        draw_stage(server, stage)
        self._arm = ArmNodes(server.scene, "/robot", stage)
        self._markers = MarkerNodes(server.scene, stage)
        spots = {self.measured: "#777"} | ({"goal": AIM} if goal else {})
        spots |= {"simulated": SIMULATED, "members alone": "#56B4E9"}
        spot = '<span style="white-space:nowrap"><span style="color:{}">&#9632;</span> {}</span>'
        listed = " &ensp; ".join(spot.format(colour, name) for name, colour in spots.items())
        gui.add_html(f'<div style="font-size:0.8em;padding:0 0.9em;color:#555">{listed}</div>')
        self._note = gui.add_markdown("")
        with gui.add_folder("Simulated arm", order=1e6):  # Below the page's own.
            self._view = GhostView(server, stage, self.members, actuators.member)
            every = gui.add_dropdown(options=[*EVERY], **CONTROLS["every"])
            again = gui.add_button(**CONTROLS["again"])
        self._every = lambda: EVERY[every.value]
        every.on_update(lambda _: self._restart(asked=False))
        again.on_click(lambda _: self._restart(asked=True))
        with tab:
            self._curves = Curves(gui, self.robot, self._view, self.measured, goal, self.cursor)

    def step(self, seconds: float, *, watched: bool) -> None:
        """Go on by ``seconds`` of the wall's time; nothing is drawn when it is not ``watched``."""
        self._watched += seconds * watched
        if self._watched > LATER and not self._started:
            self._restart(asked=False)
        self._advance(seconds)
        if watched:
            words = f"{self._status}\n\n{self._ghost_words and f'*{self._ghost_words}*'}"
            if words != self._said:
                self._note.content = self._said = words
            self._pictures += 1
            self._draw(with_curves=self._pictures % CURVES_EVERY == 0)

    def close(self) -> None:
        self._working.shutdown(wait=True, cancel_futures=True)

    @cached_property
    def _simulation(self) -> "GhostSimulation":
        """Made when it is first needed; this takes seconds."""
        prepare()
        from genan.actuator import load
        from genan.dynamics import load_dynamics
        from genan.viewer.ghosts import GhostSimulation

        return GhostSimulation(load(self._actuators), load_dynamics(self.robot), block=self.block)

    def _in_background(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do ``work`` one after the other in another thread; an error is said on the page."""
        self._started, self._ghost_words = True, COMPUTING

        def run() -> None:
            try:
                work(*arguments)
            except Exception as error:
                name = "" if isinstance(error, GenanError) else f"{type(error).__name__}: "
                self._ghost_words = f"No simulated arm: {name}{error}"

        self._working.submit(run)

    @abstractmethod
    def _restart(self, *, asked: bool) -> None:
        """Start the simulated arms (again): now, as ``asked``, or every so often."""

    @abstractmethod
    def _advance(self, seconds: float) -> None: ...

    @abstractmethod
    def _draw(self, *, with_curves: bool) -> None: ...


def show(page: ViewerPage, stopping: Callable[[], bool]) -> None:
    """Picture after picture until ``stopping``, when the page is closed; without a browser nothing
    is drawn."""
    before = due = time.perf_counter()
    with contextlib.closing(page):
        while not stopping():
            now = time.perf_counter()
            with page.server.atomic():
                page.step(now - before, watched=bool(page.server.get_clients()))
            before = now
            due = max(due + 1.0 / FRAMES, now)  # a picture that came late is not made up for
            time.sleep(max(0.0, due - time.perf_counter()))


class GhostView:
    """The simulated arms: the chosen one, each member, fainter, and a cloud of their tips."""

    def __init__(self, server: Any, stage: Stage, members: int, member: int | None) -> None:
        """Add them to the scene, hidden, and their controls where the page is adding."""
        scene, gui = server.scene, server.gui
        self.members, self._ready = members, False
        outside = OUTSIDE * np.array([[-1.0], [1.0]])
        self.range = np.nan_to_num(stage.robot.q_range, posinf=100.0, neginf=-100.0) + outside
        self._ghost = ArmNodes(scene, "/ghost", stage, "ghost")
        names = [f"member {k}" for k in range(members)]
        self._alone = [ArmNodes(scene, f"/{name}", stage, "member") for name in names]
        self._cloud = scene.add_point_cloud(
            "/cloud", np.zeros((members * (PAST + 1), 3), np.float32), LOOKS["ghost"][0][:3],
            position=stage.base, visible=False, **STYLE["cloud"],
        )  # fmt: skip
        self._names = [MEAN, *names, NONE]
        first = self._names[0 if member is None else 1 + member]
        driven = {"options": self._names, "initial_value": first}
        self._driver = gui.add_dropdown(**driven, **CONTROLS["driver"])
        self._all = gui.add_checkbox(**CONTROLS["members"])
        self._tips = gui.add_checkbox(**CONTROLS["tips"])
        for control in (self._driver, self._all, self._tips):
            control.on_update(lambda _: self._show())

    @property
    def chosen(self) -> int | None:
        """Which simulated arm is the blue one: 0 is the ensemble's, k member k - 1; None: none."""
        return None if self._driver.value == NONE else self._names.index(self._driver.value)

    def place(self, q: Float[np.ndarray, "past models nq"] | None) -> None:
        """Show the arms at the last of ``q`` [rad or m], the cloud at all of it; None: hide."""
        if (q is not None) != self._ready:
            self._ready = q is not None
            self._show()
        if q is None:
            return
        q = np.clip(np.nan_to_num(q, nan=0.0), *self.range)
        if self.chosen is not None:
            self._ghost.place(q[-1, self.chosen])
        if self._all.value:
            for ghost, each in zip(self._alone, q[-1, 1:], strict=True):
                ghost.place(each)
        if self._tips.value:
            tips = [self._ghost.kinematics.tip(each) for moment in q for each in moment[1:]]
            self._cloud.points = np.array(tips, np.float32)

    def _show(self) -> None:
        self._ghost.root.visible = self._ready and self.chosen is not None
        for ghost in self._alone:
            ghost.root.visible = self._ready and bool(self._all.value)
        self._cloud.visible = self._ready and bool(self._tips.value)


class Curves:
    """Position and torque of a joint, controls and disagreement over time."""

    def __init__(
        self, gui: Any, robot: Robot, view: GhostView, measured: str, goal: bool, cursor: bool
    ) -> None:
        """Add them; with lines for the ``goal`` and the present (``cursor``), or without."""
        self._robot, self._view, self._cursor = robot, view, cursor
        self._joint = gui.add_dropdown(options=[*robot.joint_names], **CONTROLS["joint"])
        lines = {measured: (MEASURED, 1.6), "simulated": (SIMULATED, 1.4)}
        self._position = self._chart(gui, "", lines | ({"goal": (AIM, 1.2)} if goal else {}))
        lines = {f"member {k}": (FAINT, 1.0) for k in range(view.members)}
        self._torque = self._chart(gui, "", lines | {"ensemble": (SIMULATED, 1.6)}, legend=False)
        lines = {n: (ink, 1.4) for n, ink in zip(robot.control_names, cycle(COLOURS), strict=False)}
        self._control = self._chart(gui, with_unit("Controls", robot.controls[0].unit), lines)
        title = "Disagreement of the members [N m]"
        self._disagreement = self._chart(gui, title, {"": (COLOURS[1], 1.4)}, legend=False)
        self._joint.on_update(lambda _: self._rename())
        self._rename()

    def draw(
        self, t: Rows, q: Rows, u: Rows, ghosts: GhostMotion | None, now: float, goal: Joints | None
    ) -> None:
        """Show positions [rad or m] and controls over ``t`` [s], with the chosen one of the
        ``ghosts`` and a cursor at ``now`` [s]."""
        self.changed, chosen = False, self._view.chosen
        joint = self._robot.joint_names.index(self._joint.value)
        factor = reading_unit(self._robot.joints[joint].unit)[1]
        measured = simulated = q[:, joint]
        if ghosts is not None and chosen is not None:
            bounds = self._view.range[:, joint]
            simulated = np.clip(np.nan_to_num(ghosts.q[:, chosen, joint]), *bounds)
        aim = [] if goal is None else [np.full(len(t), goal[joint])]
        drawn = [(self._position, [factor * line for line in (measured, simulated, *aim)])]
        drawn += [(self._control, [*u.T])]
        if ghosts is not None:
            torque = ghosts.torque[:, :, joint]
            drawn += [(self._torque, [*torque.T, torque.mean(axis=1)])]
            drawn += [(self._disagreement, [ghosts.disagreement])]
        # A step from far below to far above the chart is an upright line in it.
        mark = [np.where(t < now, -2.0, 2.0)] if self._cursor else []
        for plot, lines in drawn:
            plot.data = tuple(np.asarray(line, float) for line in (t, *lines, *mark))

    def _rename(self) -> None:
        joint = self._robot.joints[self._robot.joint_names.index(self._joint.value)]
        self._position.title = with_unit(f"Position of {joint.name}", reading_unit(joint.unit)[0])
        unit = "N m" if joint.unit == "rad" else "N"
        self._torque.title = with_unit(f"Torque on {joint.name}", unit)
        self.changed = True  # Whether another joint was chosen since the last drawing.

    def _chart(
        self, gui: Any, title: str, lines: dict[str, tuple[str, float]], *, legend: bool = True
    ) -> Any:
        """A chart of lines by name, each with its colour and width [px]."""
        line: dict[str, Any] = {"points": {"show": False}}
        series = [line | {"label": n, "stroke": ink, "width": w} for n, (ink, w) in lines.items()]
        if self._cursor:
            series.append(line | {"label": "now", "stroke": GREY, "width": 1.0, "scale": "now"})
        return gui.add_uplot(
            data=tuple(np.array([0.0, 1.0]) * (k == 0) for k in range(1 + len(series))),
            series=({"label": "t [s]"}, *series), title=title, **STYLE["chart"],
            legend={"show": legend, "live": False, "markers": {"width": 2}},
        )  # fmt: skip
