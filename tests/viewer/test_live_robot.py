from collections.abc import Callable, Iterator

import numpy as np
import pytest

from genan.evaluation import transfer as arena
from genan.jax_setup import prepare
from genan.robot.package import bundled_policy
from genan.viewer.live import LiveOrder, LiveReport, LiveRobot, LiveSettings

Story = Iterator[list[LiveOrder]]


class Desk:
    """The other end of a robot: a story that looks at each report and gives orders, and leaves at
    its end."""

    def __init__(self, story: Callable[["Desk"], Story]) -> None:
        self.seen: list[LiveReport] = []
        self._story = story(self)

    @property
    def last(self) -> LiveReport:
        return self.seen[-1]

    def report(self, report: LiveReport) -> None:
        self.seen.append(report)

    def orders(self) -> list[LiveOrder]:
        try:
            return next(self._story)
        except StopIteration:
            raise EOFError from None


def watch(task: str, story: Callable[[Desk], Story]) -> Desk:
    prepare()
    desk = Desk(story)
    settings = LiveSettings(task, bundled_policy(task))
    LiveRobot(
        settings, desk.report, desk.orders, realtime=False
    ).run()  # returns when the desk has left
    return desk


def passing(desk: Desk, seconds: float) -> Story:
    ticks = 0
    while ticks < seconds / 0.002:
        yield []
        ticks += len(desk.last.q)


@pytest.mark.slow
def test_the_arm_follows_the_goal_is_pushed_stopped_restarted_and_aged() -> None:
    goal, far = np.array([0.5, 0.6, 0.3, -0.2]), {}

    def error(desk: Desk) -> float:
        return float(np.rad2deg(np.abs(desk.last.q[-1] - goal).mean()))

    def story(desk: Desk) -> Story:
        yield from passing(desk, 2.5)  # the ramp, and a little of the first goal
        far["before"] = error(desk)
        yield [LiveOrder(goal=goal)]
        yield from passing(desk, 2.0)
        far["after"] = error(desk)
        yield [LiveOrder(push=np.array([0.0, 10.0, 0.0]), seconds=0.2)]
        yield from passing(desk, 0.2)
        far["pushed"] = error(desk)
        yield from passing(desk, 1.5)
        far["recovered"] = error(desk)
        yield [LiveOrder(push=np.array([0.0, 400.0, 0.0]), seconds=0.3)]
        yield from passing(desk, 2.0)
        far["words"] = desk.last.status
        yield [LiveOrder(restart=True)]
        yield from passing(desk, 2.5)  # the ramp to rest, and on
        far["again"] = desk.last.status
        yield [LiveOrder(hours=200.0)]
        yield from passing(desk, 1.2)
        far["placed"] = [report.placed for report in desk.seen].count(True)

    desk = watch("reacher", story)
    assert far["before"] > 10.0 and far["after"] < 3.0
    assert far["pushed"] > far["after"] + 2.0 and far["recovered"] < 3.0
    assert far["words"].startswith("stopped: a joint") and far["again"] == "follows the goal"
    assert far["placed"] == 3  # started, restarted, aged
    assert desk.seen[0].placed and not any(ticks.placed for ticks in desk.seen[1:20])


@pytest.mark.slow
def test_a_ball_is_played_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "RAMP", 0.3)  # not to wait for it

    def story(desk: Desk) -> Story:
        yield from passing(desk, 0.2)
        assert "ball" not in desk.last.markers
        yield [LiveOrder(trial=True)]
        while desk.last.trials == 0 and len(desk.seen) < 300:
            yield []

    desk = watch("table-tennis", story)
    assert desk.last.trials == 1
    balls = np.array([report.markers["ball"] for report in desk.seen if report.markers])
    assert balls[:, 1].max() > 1.5 and balls[:, 1].min() < 1.0  # it came from the other side
