"""The viewer from end to end: check what was asked for, serve the page, show it until someone ends
it."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from genan.actuator.contract import Contract
from genan.errors import ActuatorError, SettingError, listing
from genan.report.viewer.live_orders import LiveSettings
from genan.robot import Robot, robot_names

if TYPE_CHECKING:
    from genan.report.viewer.ghosts import Ghosts
    from genan.rl.contract import PolicyContract

TASKS = ("reacher", "table-tennis", "ball-in-a-cup")
"""What can be watched live."""
Opened = Callable[[str], None]
"""Told the page's address when it can be looked at."""


@dataclass(frozen=True)
class Driver:
    """The actuators that drive the simulated arms. Their contract is known at once, they themselves
    when needed."""

    folder: Path
    contract: Contract

    @classmethod
    def find(cls, folder: Path | None, *, robot: str | None) -> "Driver":
        """Those in ``folder``; left out, those that come with genan for ``robot``."""
        from genan.actuator.numpy_runtime import ActuatorsError, load
        from genan.robot.package import bundled_actuators

        if folder is None:
            if robot is None:
                raise ActuatorError(
                    "The recording does not say which robot it is of; give it (--robot), or the "
                    "actuators that were fitted for it (--actuators)."
                )
            try:
                folder = bundled_actuators(robot)
            except ActuatorError as error:
                raise ActuatorError(
                    f"{str(error)[:-1]}; give those that were fitted for the robot (--actuators)."
                ) from None
        try:  # without JAX: the page should be there before that is
            return cls(folder, Contract.from_settings(load(folder).contract))
        except ActuatorsError as error:
            raise ActuatorError(str(error)) from None

    def robot(self, asked: str | Path | None) -> Robot:
        """The robot asked for, or the bundled one that they were fitted for."""
        if asked is None and self.contract.robot not in robot_names():
            raise ActuatorError(
                f"The actuators were fitted for robot {self.contract.robot!r}, which does not come with genan; give "
                "its robot.toml (--robot)."
            )
        robot = Robot.load(self.contract.robot if asked is None else asked)
        self.contract.check_robot(robot)
        return robot

    def check_member(self, member: int | None) -> None:
        """Refuse a member that there is not."""
        if member is not None and not 0 <= member < self.contract.members:
            raise SettingError(
                f"There is no member {member}; the ensemble has {self.contract.members}, counted from 0."
            )

    def load(self, robot: Robot, *, block: int) -> "Ghosts":
        """Simulated arms; this takes seconds."""
        from genan.jax_setup import use_cache

        use_cache()
        from genan.actuator import load
        from genan.dynamics import load_dynamics
        from genan.report.viewer.ghosts import Ghosts

        return Ghosts(load(self.folder), load_dynamics(robot), block=block)


def view_recording(
    path: Path,
    *,
    actuators: Path | None = None,
    robot: str | Path | None = None,
    trajectory: int = 0,
    member: int | None = None,
    port: int = 8080,
    stopping: Callable[[], bool],
    opened: Opened,
) -> None:
    """Show a recording until ``stopping``.

    Args:
        path: the recording.
        actuators: folder of those that simulate along it; left out, the bundled ones.
        robot: left out, the bundled one that the actuators were fitted for.
        trajectory: which one first, counted from 0.
        member: of the ensemble that drives the simulated arm at first; left out, all of them.
        port: of this computer; 0 picks a free one.
        stopping: asked at every picture.
        opened: told the address.
    """
    from genan.report.viewer.geometry import Body
    from genan.report.viewer.replay import BLOCK, Recording, recorded_robot
    from genan.report.viewer.replay_page import ReplayPage
    from genan.report.viewer.serve import check_port, serving

    driver = Driver.find(
        actuators, robot=str(robot) if robot in robot_names() else recorded_robot(path)
    )
    driver.check_member(member)
    arm = driver.robot(robot)
    recording = Recording(path, arm)
    driver.contract.check_channels(recording.channels, whose="the recording")
    recording.check(trajectory)
    with ExitStack() as stack:
        server = stack.enter_context(serving(check_port(port), title="genan view"))
        page = ReplayPage(
            server,
            recording,
            Body(arm),
            members=driver.contract.members,
            member=member,
            trajectory=trajectory,
            load=lambda: driver.load(arm, block=BLOCK),
        )
        stack.callback(page.close)
        _show(server, page, stopping, opened)


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
        task: one of ``TASKS``.
        policy: its folder; left out, the one that comes with genan.
        actuators: as for ``view_recording``.
        seed: which specimen of the virtual robot.
        hours: operating hours behind it [h].
        member: as for ``view_recording``.
        port: as for ``view_recording``.
        stopping: asked at every picture.
        opened: told the address.
    """
    from genan.evaluation.trials import load_policy
    from genan.report.viewer.geometry import Body
    from genan.report.viewer.live_page import LivePage
    from genan.report.viewer.live_process import LiveProcess
    from genan.report.viewer.serve import check_port, load_viser, serving
    from genan.rl.contract import PolicyContract
    from genan.robot.package import bundled_policy

    if task not in TASKS:
        raise SettingError(f"There is no task {task!r} to watch; there are: {listing(TASKS)}.")
    if hours < 0.0:
        raise SettingError(f"Operating hours must not be negative, got {hours:g}.")
    folder = bundled_policy(task) if policy is None else policy
    contract = PolicyContract.from_settings(load_policy(folder, task).contract)
    arm = Robot.load(contract.robot)
    contract.check_robot(arm)
    driver = Driver.find(actuators, robot=arm.name)
    driver.contract.check_robot(arm)
    driver.check_member(member)
    settings = LiveSettings(task, folder, seed=seed, hours=hours)
    goals = _goals(contract, arm) if task == "reacher" else None
    load_viser()
    free = check_port(port)
    with ExitStack() as stack:
        process = LiveProcess(settings)  # it needs seconds: begin with it
        stack.callback(process.close)
        server = stack.enter_context(serving(free, title="genan view"))
        page = LivePage(
            server,
            settings,
            Body(arm),
            process,
            members=driver.contract.members,
            member=member,
            goals=goals,
            load=lambda: driver.load(arm, block=LIVE_BLOCK),
        )
        stack.callback(page.close)
        _show(server, page, stopping, opened)


#: Ticks of a running robot that its ghosts go along with in one compiled call: half a report.
LIVE_BLOCK = 8


def _goals(contract: "PolicyContract", robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest goals that the policy was trained for [rad or m]."""
    low, high = (np.array(contract.constants[f"goal_{name}"], float) for name in ("lower", "upper"))
    return np.clip(low, *robot.q_range), np.clip(high, *robot.q_range)


def _show(server: object, page: object, stopping: Callable[[], bool], opened: Opened) -> None:
    from genan.report.viewer.page import show

    opened(f"http://127.0.0.1:{server.get_port()}")  # type: ignore[attr-defined]
    show(server, page, stopping)  # type: ignore[arg-type]
