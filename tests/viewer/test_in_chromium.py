"""The live page in a real browser: it is drawn, the goal is dragged by the mouse, and the robot
follows."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

pytest.importorskip("viser", reason="The viewer needs viser: pip install genan[view].")

from tests.browser import Browser, Sheet

from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.viewer.live import LivePage, LiveProcess, LiveSettings
from genan.viewer.page import GhostActuators, serving, show
from genan.viewer.rendering import ArmKinematics

#: What viser's own page says to the console of a browser without graphics.
KNOWN = ("THREE.Clock", "GL Driver Message", "GPU stall")
LIMITS = np.deg2rad([-50.0, 20.0, -50.0, -50.0]), np.deg2rad([50.0, 60.0, 50.0, 50.0])
PATIENCE = 60.0


def wait(true: Callable[[], Any], *, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE:g} s"
        time.sleep(0.05)


@pytest.fixture
def live() -> Iterator[tuple[Any, LivePage, ArmKinematics]]:
    robot, driver = Robot.load("pamy2"), GhostActuators(None, "pamy2")
    settings = LiveSettings("reacher", bundled_policy("reacher"))
    process = LiveProcess(settings)
    with serving(0) as server:
        page = LivePage(server, settings, robot, process, driver, goals=LIMITS)
        stop = threading.Event()
        shown = threading.Thread(target=show, args=(page, stop.is_set))
        shown.start()
        try:
            yield server, page, ArmKinematics(robot)
        finally:
            stop.set()
            shown.join()
            page.close()
    assert not process._process.is_alive()


def pixel(server: Any, sheet: Sheet, point: np.ndarray) -> np.ndarray:
    """Where ``point`` [m] of the room is on the screen, by the camera that the browser says it
    has."""
    camera = next(iter(server.get_clients().values())).camera
    w, x, y, z = camera.wxyz
    axes = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    right, down, forward = axes.T @ (point - camera.position)
    box = sheet.page.locator("canvas[data-engine]").bounding_box()
    focal = 0.5 * box["height"] / math.tan(0.5 * camera.fov)
    middle = np.array([box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]])
    return middle + focal / forward * np.array([right, down])


def test_the_goal_is_dragged_and_the_arm_follows(
    browser: Browser, live: tuple[Any, LivePage, ArmKinematics]
) -> None:
    server, page, body = live
    assert page.goal is not None
    sheet = browser.open(
        f"http://127.0.0.1:{server.get_port()}", width=1000, height=520, webgl=True
    )
    sheet.page.wait_for_selector("canvas[data-engine]")
    drawn = "() => window.__viserTestpoints.rendererInfo.render.triangles"
    wait(
        lambda: server.get_clients() and sheet.page.evaluate(drawn) > 3000, what="the arm is drawn"
    )
    picture = pixels(sheet, sheet.screenshot("viewer-live", full=False))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50 and picture.std() > 5.0

    goal = page.goal.q.copy()
    wait(lambda: distance(page, body, goal) < 0.06, what="the arm reaches the first goal")
    handle = body.tip(goal) + page.stage.base
    arrow = pixel(
        server, sheet, handle + np.array([0.0, 0.0, 0.11])
    )  # the arrow along z, at its half
    aim = pixel(server, sheet, handle + np.array([0.0, 0.0, -0.14]))
    mouse = sheet.page.mouse
    mouse.move(*arrow)
    mouse.down()
    for part in np.linspace(0.0, 1.0, 6)[1:]:
        mouse.move(*(arrow + part * (aim - arrow)))
        sheet.page.wait_for_timeout(80)
    mouse.up()
    wait(lambda: not np.array_equal(page.goal.q, goal), what="the goal moves")
    sheet.page.wait_for_timeout(300)
    moved = body.tip(page.goal.q) - body.tip(goal)
    assert (
        moved[2] < -0.08 and abs(moved[0]) < 0.05 and abs(moved[1]) < 0.05
    )  # it went down, along its arrow
    assert (page.goal.q >= LIMITS[0]).all() and (page.goal.q <= LIMITS[1]).all()
    wait(lambda: distance(page, body, page.goal.q) < 0.05, what="the arm follows")
    sheet.screenshot("viewer-live-dragged", full=False)
    sheet.page.close()  # a browser that leaves stops nothing
    wait(lambda: not server.get_clients(), what="the browser is gone")
    before = page.reports
    wait(lambda: page.reports > before + 20, what="the robot goes on")
    sheet.errors[:] = [line for line in sheet.errors if not any(known in line for known in KNOWN)]
    sheet.check()


def distance(page: LivePage, body: ArmKinematics, goal: np.ndarray) -> float:
    """From the robot's tip to that of ``goal`` [m]."""
    return float(np.linalg.norm(body.tip(page.q) - body.tip(goal)))


def pixels(sheet: Sheet, path: Path) -> np.ndarray:
    """What is within the canvas, from 0 to 255."""
    box = sheet.page.locator("canvas[data-engine]").bounding_box()
    rows, columns = (
        slice(int(box[at]), int(box[at] + box[size]))
        for at, size in (("y", "height"), ("x", "width"))
    )
    return 255.0 * matplotlib.image.imread(path)[rows, columns, :3]
