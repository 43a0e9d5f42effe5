"""How quick the viewer is: the first picture, and pictures a second with five ghosts.

    python benchmarks/viewer.py [--seconds 10] [--starts 3] [--size 800x500] [--no-browser]

Starts: from the start of the command to the line with the address, and to the first picture in a
Chromium that runs already (the arm's triangles are drawn); next to it the time to import viser and
MuJoCo alone. Pictures: those that the page makes in a second, watched, without a browser; then
those that arrive in Chromium and those that it draws (WebGL in software), next to the same for a
page of viser with one small box that moves as often: what is missing there is the machine's. The
robot's speed is its time over the wall's. Needs genan[view], playwright and a Chromium.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from machine import machine

from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.viewer.live import REPORT, LivePage, LiveProcess, LiveSettings
from genan.viewer.page import FRAMES, GhostActuators, serving, show

LIMITS = np.deg2rad([-50.0, 20.0, -50.0, -50.0]), np.deg2rad([50.0, 60.0, 50.0, 50.0])
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
#: 3-D in software, 2-D without it: a computer without graphics draws flat things directly.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-accelerated-2d-canvas",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TRIANGLES = (
    "() => window.__viserTestpoints ? window.__viserTestpoints.rendererInfo.render.triangles : 0"
)
DRAWN = "() => window.__viserTestpoints.rendererInfo.render.frame"


class Counted:
    """A page whose pictures are counted, and that believes to be watched if asked to."""

    def __init__(self, page: Any, server: Any, *, watched: bool | None = None) -> None:
        self._page, self.server, self._watched, self.pictures = page, server, watched, 0

    def step(self, seconds: float, *, watched: bool) -> None:
        """Go on, and count."""
        self._page.step(seconds, watched=watched if self._watched is None else self._watched)
        self.pictures += 1

    def close(self) -> None:
        """Let go of the page's robot, if it has one."""
        if hasattr(self._page, "close"):
            self._page.close()


class Box:
    """The reference: one small box that moves."""

    def __init__(self, server: Any) -> None:
        self._box, self._time = server.scene.add_box("/box", dimensions=(0.1, 0.1, 0.1)), 0.0

    def step(self, seconds: float, *, watched: bool) -> None:
        """Move."""
        self._time += seconds
        self._box.position = (np.sin(self._time), 0.0, 0.0)


@contextmanager
def going(
    make: Callable[[Any], Any], *, watched: bool | None = None
) -> Iterator[tuple[Any, Counted]]:
    """A page of ``make`` at work in a thread."""
    with serving(0) as server:
        page = make(server)
        counted, stop = Counted(page, server, watched=watched), threading.Event()
        thread = threading.Thread(target=show, args=(counted, stop.is_set))
        thread.start()
        try:
            yield server, counted
        finally:
            stop.set()
            thread.join()


def live(pages: list[LivePage]) -> Callable[[Any], LivePage]:
    """Makes the page of the reacher with five ghosts; it is put into ``pages`` too."""

    def make(server: Any) -> LivePage:
        robot, driver = Robot.load("pamy2"), GhostActuators(None, "pamy2")
        settings = LiveSettings("reacher", bundled_policy("reacher"))
        page = LivePage(server, settings, robot, LiveProcess(settings), driver, goals=LIMITS)
        pages.append(page)
        return page

    return make


def ready(page: LivePage) -> None:
    """Wait until robot and ghosts run."""
    while not (page.reports > 30 and page.ghosts_ready):
        time.sleep(0.1)


def made(seconds: float) -> None:
    """Pictures that the page makes without a browser, and what they cost."""
    pages: list[LivePage] = []
    with going(live(pages), watched=True) as (_, counted):
        ready(pages[0])
        before, cpu, reports, begun = (
            counted.pictures,
            time.process_time(),
            pages[0].reports,
            time.perf_counter(),
        )
        time.sleep(seconds)
        passed = time.perf_counter() - begun
        rate, spent = (counted.pictures - before) / passed, (time.process_time() - cpu) / passed
        ticks = (pages[0].reports - reports) * REPORT / passed
    print(
        f"made by the page, 5 ghosts        {rate:5.1f} pictures/s (wanted: {FRAMES}), "
        f"{100 * spent:.0f} % of a core"
    )
    print(f"robot in its own process          {ticks:5.0f} ticks/s (real time: 500)")


def used(name: str) -> float:
    """Processor time of all processes below this one whose name has ``name`` in it [s]."""
    import psutil

    times = [
        child.cpu_times()
        for child in psutil.Process().children(recursive=True)
        if name in child.name()
    ]
    return sum(time.user + time.system for time in times)


def drawn(
    chromium: Any, make: Callable[[Any], Any], size: tuple[int, int], seconds: float
) -> tuple[float, float, float]:
    """Messages that arrive and pictures that are drawn in a second, and Chromium's processor time
    for a picture [s]."""
    with going(make) as (server, _):
        page = chromium.new_page(viewport={"width": size[0], "height": size[1]})
        arrived = [0]

        def count(_: Any) -> None:
            arrived[0] += 1

        page.on("websocket", lambda socket: socket.on("framereceived", count))
        page.goto(f"http://127.0.0.1:{server.get_port()}")
        page.wait_for_function(f"({TRIANGLES})() > 0", timeout=60_000)
        page.wait_for_timeout(8_000)  # the robot starts, the ghosts compile
        first, before, begun, cpu = (
            page.evaluate(DRAWN),
            arrived[0],
            time.perf_counter(),
            used("chrom"),
        )
        page.wait_for_timeout(1e3 * seconds)
        passed, spent = time.perf_counter() - begun, used("chrom") - cpu
        pictures = page.evaluate(DRAWN) - first
        found = (arrived[0] - before) / passed, pictures / passed, spent / max(pictures, 1)
        page.close()
    return found


def started(chromium: Any, size: tuple[int, int]) -> tuple[float, float]:
    """Seconds to the address, and to the first picture."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "genan", "view", "--live", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            address = next(
                word for word in viewer.stdout.readline().split() if word.startswith("http")
            )
            listening = time.perf_counter() - begun
            page = chromium.new_page(viewport={"width": size[0], "height": size[1]})
            page.goto(address)
            page.wait_for_function(f"({TRIANGLES})() > 3000", timeout=60_000, polling=20)
            first = time.perf_counter() - begun
            page.close()
        finally:
            viewer.terminate()
            viewer.wait(30)
    return listening, first


def imported() -> float:
    """Seconds to import what cannot be done without."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import viser, mujoco"], check=True)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--size", default="800x500")
    parser.add_argument("--no-browser", action="store_true")
    asked = parser.parse_args()
    width, height = (int(part) for part in asked.size.split("x"))
    size = (width, height)
    print(machine())
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    made(asked.seconds)
    if asked.no_browser:
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        times = [(*started(chromium, size), imported()) for _ in range(asked.starts)]
        address, first, bare = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"address printed after             {address:5.2f} s ({address / bare:.1f} times "
            "importing viser, MuJoCo)"
        )
        print(f"first picture after               {first:5.2f} s (median of {asked.starts}, worst "
              f"{max(row[1] for row in times):.2f} s)")  # fmt: skip
        arrives, shows, cost = drawn(chromium, live([]), size, asked.seconds)
        box_arrives, box_shows, box_cost = drawn(chromium, Box, size, asked.seconds)
        print(
            f"arrive in Chromium, {asked.size:<13} {arrives:5.1f} messages/s (one box alone: "
            f"{box_arrives:.1f})"
        )
        print(f"drawn by Chromium in software     {shows:5.1f} pictures/s (one box alone: "
              f"{box_shows:.1f}; {shows / max(box_shows, 1e-9):.2f} times that)")  # fmt: skip
        print(
            f"processor time for a picture      {1e3 * cost:5.1f} ms in Chromium (one box alone: "
            f"{1e3 * box_cost:.1f})"
        )
        chromium.close()
    print(f"load of the machine after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
