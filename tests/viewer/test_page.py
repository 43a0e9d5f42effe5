import socket
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("viser", reason="The viewer needs viser: pip install genan[view].")

from genan.data import Channels, Trajectories, summary, write
from genan.errors import SettingError
from genan.robot import Robot
from genan.viewer.live import REPORT, LiveOrder, LivePage, LiveProcess, LiveReport, LiveSettings
from genan.viewer.page import GhostActuators, serving
from genan.viewer.replay import ReplayPage


def test_a_port_in_use_is_refused_by_name_and_flag() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=rf"Port {port} .*--port"), serving(port):
            pass
    with serving(port) as server:  # and now it can be had
        assert server.get_port() == port
    with pytest.raises(SettingError, match="65535"), serving(70000):
        pass


def test_the_page_is_there_for_this_computer_alone_and_gone_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = set(threading.enumerate())
    with serving(0) as server:
        port = server.get_port()
        assert server.get_host() == "127.0.0.1" and server.request_share_url() is None
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10) as answer:
            assert answer.status == 200 and b"<html" in answer.read().lower()
    assert capsys.readouterr().out == ""
    with socket.socket() as free:
        assert free.connect_ex(("127.0.0.1", port)) != 0
    assert not [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]


class ScriptedProcess(LiveProcess):
    """A robot that reports what a test says, and keeps the orders."""

    def __init__(self, reports: list[LiveReport]) -> None:
        self._reports, self.orders = iter(reports), []

    def send(self, order: LiveOrder) -> None:
        self.orders.append(order)

    def reports(self) -> list[LiveReport]:
        return [report] if (report := next(self._reports, None)) is not None else []

    def close(self) -> None:
        pass


def test_pages_are_drawn_without_a_browser(tmp_path: Path) -> None:
    robot = Robot.load("pamy2")
    ticks = np.arange(REPORT)[:, None] * np.ones(4)
    driver = GhostActuators(None, "pamy2")
    still = (np.tile(robot.q_rest, (50, 1)), np.tile(robot.u_rest, (50, 1)))
    write(tmp_path / "r.h5", Trajectories.from_list(Channels.of_robot(robot), [still]))
    markers = {"ball": np.ones(3), "string": np.ones((5, 3))}
    reports = [
        LiveReport(0.01 * ticks, 0.0 * ticks, k == 0, "runs", 0.5, True, markers, 2, 1)
        for k in range(12)
    ]
    settings = LiveSettings("table-tennis", tmp_path)
    process = ScriptedProcess(reports)
    with serving(0) as server:
        limits = -np.ones(4), np.ones(4)
        page = LivePage(server, settings, robot, process, driver, goals=limits)
        for _ in range(13):
            page.step(0.01, watched=True)
        np.testing.assert_allclose(page.q, 0.15)
        assert page._note.content.startswith("**Robot:** runs; 1 of 2 succeeded, at 50 %")
        page.goal.set(np.full(4, 5.0))
        page.step(0.01, watched=True)
        np.testing.assert_allclose(process.orders[-1].goal, 1.0)  # within the limits
        page.close()
    with serving(0) as server:
        replay = ReplayPage(server, summary(tmp_path / "r.h5"), robot, driver)
        for _ in range(7):
            replay.step(0.01, watched=True)
        replay.close()
