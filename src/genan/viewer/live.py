"""A policy on the virtual robot for as long as someone looks, and the page of it, on which whoever
looks may interfere.

Loop, guard and controllers are those of every other robot, tasks and trials those of a transfer.
The robot runs in a process of its own, so that neither it nor the page waits for the other.
"""

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float

from genan.deployment.controller import Controller, Goal, PolicyController
from genan.deployment.interface import Clock, Controls, Pacer, WrappedRobot
from genan.deployment.loop import ControlLoop, Hold
from genan.errors import GenanError, refuse
from genan.evaluation.transfer import load_policy, open_trials
from genan.jax_setup import prepare
from genan.rl.contract import PolicyContract
from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.tasks.registry import task_entry
from genan.viewer import page
from genan.viewer.page import PAST, ArmNodes, GhostActuators, GhostMotion, ViewerPage, serving, show
from genan.viewer.rendering import ArmKinematics, Joints, Limits, Point, Stage
from genan.words import reading_unit

REPORT = 16  # Ticks from one report to the next: 31 a second at 500 Hz.
LONGEST = 600.0  # A flight is kept in memory; after this the arm rests a second and flies on [s].
TIDY = 60.0  # A robot that waits is put in order this often: what its trackers remember grows [s].
PATIENCE = 1.0  # A process that compiles, perhaps, does not end by itself: it is ended then [s].
AHEAD = 0.004  # A sleep costs two switches between programs: not before it is this far ahead [s].
BEHIND = 0.1  # What is later than this is not made up for: the robot was in slow motion [s].
OLDEST, STILL = 500.0, 0.6  # Oldest robot [h]; how long the slider of its age must lie still [s].
SHOWN = 125  # What the curves show of the past, in reports: 4 s.
FIRST = 0.7  # The first goal, from the lowest (0) to the highest (1): not where the arm starts.


@dataclass(frozen=True)
class LiveSettings:
    """Which robot runs, and what drives it: the folder of a policy for ``task``, on specimen
    ``seed`` of the virtual robot with ``hours`` [h] of operation behind it."""

    task: str
    policy: Path
    seed: int = 0
    hours: float = 0.0


@dataclass(frozen=True)
class LiveOrder:
    """What the page asks of the robot; what is left out stays as it is."""

    goal: Joints | None = None  # Joint positions to reach from now on [rad or m].
    trial: bool = False  # Begin the next trial.
    push: Point | None = None  # Force at the tip, in the frame of the base [N], for ``seconds``.
    seconds: float = 0.2
    restart: bool = False  # Begin again, after a stop or at any time.
    hours: float | None = None  # Go on with the same robot at another age [h].


@dataclass(frozen=True)
class LiveReport:
    """What happened since the last one."""

    q: Float[np.ndarray, "ticks nq"]  # Read at the beginning of each tick [rad or m].
    u: Float[np.ndarray, "ticks nu"]  # Commanded in it.
    placed: bool  # Whether the arm was put somewhere else before these ticks.
    status: str  # What it is doing, for a person.
    speed: float  # Time of the robot over that of the wall.
    pushable: bool
    markers: Mapping[str, np.ndarray] = field(default_factory=dict)  # As in a ``Snapshot``.
    trials: int = 0  # Those that were judged so far, and the ``successes`` among them.
    successes: int = 0


Report, Orders = Callable[[LiveReport], None], Callable[[], Iterable[LiveOrder]]


class RealTime:
    """The time of a computed robot, held back to that of the wall: a loop that it paces is never
    late, so no guard stops a flight because the page, or another program, had the processor."""

    def __init__(self, steps: Clock) -> None:
        self.now = steps.now
        self._mark = (time.perf_counter(), steps.now())
        self._origin = self._mark[0] - self._mark[1]
        self.speed = 1.0  # Time of the robot over that of the wall, in the last second or so.

    def wait_until(self, moment: float) -> None:
        """Sleep when the robot is ahead of the wall's time at ``moment`` [s]."""
        wall = time.perf_counter()
        left = self._origin + moment - wall
        if left > AHEAD:
            time.sleep(left)
        elif left < -BEHIND:
            self._origin -= left
        since, then = self._mark
        if wall - since > 1.0:
            self.speed = (moment - then) / (wall - since)
            self._mark = (wall, moment)


class MovingGoal(Goal):
    """The goal of a task that has one, which someone moves."""

    move = Goal.__init__  # From now on reach another.


class LiveRobot(WrappedRobot):
    """One virtual robot, its policy, and who has the next turn: the robot of a trial as the page
    sees it, which notes every tick and can be pushed."""

    def __init__(
        self, settings: LiveSettings, report: Report, orders: Orders, *, realtime: bool = True
    ) -> None:
        """Nothing moves yet, ``run`` does: in real time, or as fast as it can be computed.
        ``orders`` gives those since its last call, and then ``EOFError`` or ``OSError`` when nobody
        is there any more."""
        self._settings, self._send, self._orders = settings, report, orders
        self._realtime, self._hours = realtime, settings.hours
        self._policy = load_policy(settings.policy, settings.task)
        self._goal: MovingGoal | None = None
        self._wished: Joints | None = None
        self._asked, self._status, self._trial = False, "starting", -1
        self._trials = self._successes = 0

    def run(self) -> None:
        """Fly until nobody is at the other end; after a flight with a fault the arm rests."""
        with suppress(SystemExit):
            while True:
                self._open()
                stop, safety = None, self._setup.safety
                with ControlLoop(self, safety=safety, stopping=lambda: self._again) as loop:
                    while not self._again and (stop is None or stop.sound):
                        stop = loop.run(*self._next()).stop
                self._status = f"stopped: {stop}"
                self.connect()
                pacer = Pacer(self.clock, self.robot.dt, origin=self.clock.now())
                while not self._again:
                    pacer.wait()
                    self.command(self.robot.u_rest)

    def _open(self) -> None:
        """Make the robot, and compile all that runs: no tick should wait for it."""
        self._again = self._ready = False
        self._judged = self._placed = True
        self._setup = open_trials(self._policy, seed=self._settings.seed, hours=self._hours)
        self._inner, self.robot = self._setup.robot, self._setup.robot.robot
        self._pace = RealTime(self._inner.clock)
        self.clock = self._pace if self._realtime else self._inner.clock
        # Positions [rad or m] and controls of each since the last report.
        self._ticks: list[tuple[np.ndarray, np.ndarray]] = []
        self._force, self._left, self._kinematics = np.zeros(3), -1, ArmKinematics(self.robot)
        self.connect()
        self._virtual: Any = self._inner.virtual  # type: ignore[attr-defined]
        if self._virtual.pushable:
            self._virtual.push(np.zeros(self.robot.nq))
        self._virtual.command(self.robot.u_rest)
        self._virtual.reset()

    def command(self, u: Controls) -> Controls:
        """One period of the robot, pushed or not; now and then a report."""
        q = self.read().q
        if self._left >= 0:
            self._left -= 1
            force = self._force if self._left >= 0 else np.zeros(3)
            self._virtual.push(self._kinematics.jacobian(q).T @ force)
        sent = self._inner.command(u)
        self._ticks.append((q, sent))
        if len(self._ticks) >= REPORT:
            self._report()
        return sent

    def _next(self) -> tuple[Controller, ...]:
        setup, robot = self._setup, self.robot
        if "goal_lower" in setup.constants:
            ends = lambda name: [setup.constant(f"{name}_{end}") for end in ("lower", "upper")]
            goal, u = (np.mean(ends(name), axis=0) for name in ("goal", "u"))
            self._goal = MovingGoal(goal if self._wished is None else self._wished, robot)
            self._status = "follows the goal"
            follow = PolicyController(setup.policy, self._goal, robot=robot, seconds=LONGEST)
            return setup.ramp(u), follow
        if not self._asked:
            self._status = "waits to be asked"
            if not self._ready:
                self._placed = True
                setup.prepare(max(self._trial, 0))
            self._ready = False
            wait: Any = Hold(seconds=TIDY, robot=robot)
            wait.done = lambda: self._asked or Hold.done(wait)
            return (wait,)
        self._judge(over=True)
        self._asked = self._judged = False
        self._ready = self._placed = True
        self._trial += 1
        self._status = f"trial {self._trial + 1}"
        return setup.prepare(self._trial).controllers

    def _judge(self, *, over: bool = False) -> None:
        """Count the last trial once it is decided, or as a failure when it is ``over``."""
        success = self._setup.success_so_far()
        if not self._judged and (over or success is not None):
            self._judged = True
            self._trials += 1
            self._successes += bool(success)

    def _report(self) -> None:
        self._judge()
        q, u = (np.array(part) for part in zip(*self._ticks, strict=True))
        report = LiveReport(
            q, u, self._placed, self._status, self._pace.speed, self._virtual.pushable,
            self._setup.markers(), self._trials, self._successes,
        )  # fmt: skip
        self._ticks, self._placed = [], False
        try:
            self._send(report)
            for order in self._orders():
                self._obey(order)
        except (EOFError, OSError):  # no Exception: a loop would bring the arm to rest first
            raise SystemExit from None

    def _obey(self, order: LiveOrder) -> None:
        if order.goal is not None:
            self._wished = np.clip(order.goal, *self.robot.q_range)
            if self._goal is not None:
                self._goal.move(self._wished, self.robot)
        if order.push is not None and self._virtual.pushable:
            self._force = np.asarray(order.push, float)
            self._left = round(order.seconds / self.robot.dt)
        self._hours = self._hours if order.hours is None else order.hours
        self._asked |= order.trial
        self._again |= order.restart or order.hours is not None


class LiveProcess:
    """A ``LiveRobot`` elsewhere. It ends when this process does, however that ends."""

    def __init__(self, settings: LiveSettings) -> None:
        context = get_context("spawn")  # what was imported and started here is nothing to it
        self._here, there = context.Pipe()
        about: Any = {"daemon": True, "name": "genan-live-robot"}
        self._process = context.Process(target=_run, args=(settings, there), **about)
        self._process.start()
        there.close()  # only the process has it now: its end is seen here, and ours there
        self._sending, self._ended = threading.Lock(), False

    def send(self, order: LiveOrder) -> None:
        """Give an order; a robot that is gone does not hear it."""
        with self._sending:
            try:
                self._here.send(order)
            except OSError:
                self._ended = True

    def reports(self) -> Iterable[LiveReport | str]:
        """What came since the last call: reports, or why the robot cannot run."""
        try:
            for found in _received(self._here):
                self._ended |= isinstance(found, str)
                yield found
        except (EOFError, OSError):
            if not self._ended:
                self._ended = True
                yield "The virtual robot's process has ended; start 'genan view' again."

    def close(self) -> None:
        """End the process; a second call does nothing."""
        self._ended = True
        self._here.close()
        self._process.join(PATIENCE)
        for end in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                end()
                self._process.join(PATIENCE)


def _received(connection: Any) -> Iterator[Any]:
    """What has come through a pipe; then ``EOFError`` if its other end is gone."""
    while connection.poll():
        yield connection.recv()


def _run(settings: LiveSettings, connection: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page, whose end ends this
    prepare()
    try:
        LiveRobot(settings, connection.send, lambda: _received(connection)).run()
    except GenanError as error:
        connection.send(str(error))


class GoalHandle:
    """Where the arm should go, within what the policy was trained for: a handle, and sliders."""

    def __init__(
        self, server: Any, stage: Stage, limits: Limits, send: Callable[[LiveOrder], None]
    ) -> None:
        gui, scene, robot = server.gui, server.scene, stage.robot
        self._base, self._limits, self._send = stage.base, limits, send
        self._kinematics = ArmKinematics(robot)  # The mouse's thread has its own.
        self._stale, self._dragged = True, False
        self.q: Joints = limits[0] + FIRST * (limits[1] - limits[0])
        self._arm = ArmNodes(scene, "/goal", stage, "goal")
        self._arm.root.visible = True
        self._handle = scene.add_transform_controls("/handle", **page.STYLE["handle"])
        self._handle.on_update(self._drag)
        self._factors, self._sliders = [], []
        chance = np.random.default_rng(0)
        with gui.add_folder("Goal"):
            for k, joint in enumerate(robot.joints):
                unit, factor = reading_unit(joint.unit)
                low, high = (float(np.round(factor * bound[k], 1)) for bound in limits)
                slider = gui.add_slider(f"{joint.name} [{unit}]", low, high, 0.1, low)
                slider.on_update(lambda event, k=k: self._slide(event, k))
                self._sliders.append(slider)
                self._factors.append(factor)
            anywhere = gui.add_button("A random goal")
        anywhere.on_click(lambda _: self.set(chance.uniform(*limits)))
        send(LiveOrder(goal=self.q))

    def set(self, q: Joints) -> None:
        """Reach ``q`` [rad or m], or what is nearest to it within the limits."""
        self.q = np.clip(q, *self._limits)
        self._stale = True  # Only now, and reset before ``q`` is read: the newest is drawn.
        self._send(LiveOrder(goal=self.q))

    def show(self) -> None:
        """Draw the goal where it is now, if it has moved."""
        if not self._stale:
            return
        self._stale = False
        q = self.q
        self._arm.place(q)
        if not self._dragged:
            self._handle.position = self._arm.kinematics.tip(q) + self._base
        for slider, value in zip(self._sliders, self._factors * q, strict=True):
            slider.value = min(max(round(float(value), 1), slider.min), slider.max)

    async def _drag(self, event: Any) -> None:
        """Bring the tip to the dragged handle. In no thread, so that the end of it comes last."""
        # At the end the handle goes to where the goal's tip really is.
        self._dragged = event.phase != "end"
        target = np.asarray(self._handle.position, float) - self._base
        self.set(self._kinematics.reach(target, near=self.q, limits=self._limits))

    def _slide(self, event: Any, joint: int) -> None:
        if event.client is not None:  # otherwise the page itself moved it
            q = self.q.copy()
            q[joint] = event.target.value / self._factors[joint]
            self.set(q)


@final
class LivePage(ViewerPage):
    """One running robot."""

    block, measured = 8, "robot"  # Half a report goes into a compiled call.

    def __init__(
        self,
        server: Any,
        settings: LiveSettings,
        robot: Robot,
        process: LiveProcess,
        actuators: GhostActuators,
        *,
        goals: Limits | None = None,
    ) -> None:
        """Build the page of the robot that runs in ``process``; ``goals``: lowest and highest ones
        of its policy [rad or m], None where it has none."""
        entry, gui, send = task_entry(settings.task), server.gui, process.send
        do = f"Ask for the **next {entry.attempt}**, and watch it."
        do = "**Drag the arrows** at the tip: the arm follows." if goals else do
        words = f"live {settings.task}\nThe virtual robot, driven by a policy. {do}"
        stage = Stage(robot, entry, arms=False)
        super().__init__(server, stage, actuators, words, goal=goals is not None)
        self._process, self._status = process, "**Robot:** starting …"
        self._kept: deque[tuple[Any, ...]] = deque(maxlen=SHOWN)
        self._time, self._age_still, self._now = 0.0, -math.inf, True
        self.ghosts_ready = False  # Whether the simulated arms run along with the robot.
        self.q: Joints = robot.q_rest  # Where the robot was when it last reported [rad or m].
        self.reports = 0  # How many came from the robot so far.
        self.goal: GoalHandle | None = None  # Where it should go, for a policy with goals.
        if goals is not None:
            self.goal = GoalHandle(server, stage, goals, send)
        else:
            ask = gui.add_button(f"Next {entry.attempt}")
            ask.on_click(lambda _: send(LiveOrder(trial=True)))
        with gui.add_folder("Push the arm", visible=False) as self._pushes:
            force = gui.add_slider(**page.CONTROLS["force"])
            lasting = gui.add_slider(**page.CONTROLS["lasting"])

            def push(event: Any) -> None:
                along = np.array(page.STYLE["directions"][event.target.value])
                send(LiveOrder(push=force.value * along, seconds=float(lasting.value)))

            for row in (("left", "right", "up"), ("forward", "back", "down")):
                gui.add_button_group("", row).on_click(push)
        with gui.add_folder("Robot", order=2e6):  # The last one.
            ages = {"max": OLDEST, "initial_value": min(settings.hours, OLDEST)}
            self._age = gui.add_slider(**ages, **page.CONTROLS["age"])
            again = gui.add_button(**page.CONTROLS["restart"])
        self._age.on_update(lambda _: setattr(self, "_age_still", 0.0))
        again.on_click(lambda _: send(LiveOrder(restart=True)))

    def close(self) -> None:
        super().close()
        self._process.close()

    def _restart(self, *, asked: bool) -> None:
        self._now = True
        if not self._started:
            self._in_background(self._compile)

    def _compile(self) -> None:
        q, u = (np.zeros((self.block, size)) for size in (self.robot.nq, self.robot.nu))
        self._simulation.advance(q, u, every=1.0)
        self._simulation.forget()
        self.ghosts_ready, self._ghost_words = True, ""

    def _advance(self, seconds: float) -> None:
        for report in self._process.reports():
            if isinstance(report, str):
                self._status = f"**Failed:** {report}"
            else:
                self._take(report)
        # The robot is restarted once the slider of its age lies still.
        self._age_still += seconds
        if self._age_still > STILL:
            self._age_still = -math.inf
            self._process.send(LiveOrder(hours=float(self._age.value)))

    def _draw(self, *, with_curves: bool) -> None:
        self._arm.place(self.q)
        if self.goal is not None:
            self.goal.show()
        past = [ghosts for *_, ghosts, _ in self._kept][-PAST - 1 :] if self.ghosts_ready else []
        self._view.place(np.array(past[:1] * (PAST + 1 - len(past)) + past) if past else None)
        if (with_curves or self._curves.changed) and len(self._kept) > 1:
            times, q, u, *ghosts = (np.array(part) for part in zip(*self._kept, strict=True))
            goal = None if self.goal is None else self.goal.q
            self._curves.draw(times, q, u, GhostMotion(*ghosts), math.inf, goal)

    def _take(self, report: LiveReport) -> None:
        """Note what the robot did, and let the simulated arms go along with it."""
        self.q, ticks = report.q[-1], len(report.q)
        self.reports += 1
        self._pushes.visible = report.pushable
        self._markers.place(report.markers)
        slow = f", at {100.0 * report.speed:.0f} % of real time" if report.speed < 0.95 else ""
        score = f"; {report.successes} of {report.trials} succeeded" if report.trials else ""
        self._status = f"**Robot:** {report.status}{score}{slow}"
        if report.placed:
            self._kept.clear()
        self._time += ticks * self.robot.dt
        q, torque = np.tile(self.q, (1 + self.members, 1)), np.zeros((self.members, self.robot.nq))
        if self.ghosts_ready:
            if report.placed or self._simulation.wild:
                self._simulation.forget()
            again, self._now = [0] * self._now, False
            found = self._simulation.advance(report.q, report.u, every=self._every(), at=again)
            q, torque = found.q[-1], found.torque[-1]
        self._kept.append((self._time, self.q, report.u[-1], q, torque))


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
    opened: Callable[[str], None],
) -> None:
    """Show a policy on the virtual robot until ``stopping``: one for ``task``, from the folder
    ``policy``, left out the one that comes with genan; on specimen ``seed`` of the robot, with
    ``hours`` [h] of operation behind it. The rest is as for ``view_recording``."""
    task_entry(task)
    refuse((hours < 0.0, f"Operating hours must not be negative, got {hours:g}."))
    settings = LiveSettings(task, policy or bundled_policy(task), seed=seed, hours=hours)
    contract = PolicyContract.from_settings(load_policy(settings.policy, task).contract)
    robot = Robot.load(contract.robot)
    contract.check_robot(robot)
    driver = GhostActuators(actuators, robot.name, member)
    driver.contract.check_robot(robot)
    goals = None
    if "goal_lower" in contract.constants:
        low, high = (np.array(contract.constants[f"goal_{end}"]) for end in ("lower", "upper"))
        goals = np.clip(low, *robot.q_range), np.clip(high, *robot.q_range)
    with serving(port, opened) as server, closing(LiveProcess(settings)) as process:
        show(LivePage(server, settings, robot, process, driver, goals=goals), stopping)
