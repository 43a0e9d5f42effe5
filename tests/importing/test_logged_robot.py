"""A draft completed by a log; the log is a source made up here."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genan.importing.logged_robot import complete, rounded_range
from genan.importing.source import RawRecording, Column, Source, Stream
from genan.importing.survey import round_period, survey
from genan.errors import DataError
from genan.robot import Robot
from genan.robot.draft import RobotDraft, draft, robot_toml

MODEL = """<mujoco><worldbody><body name="a"><joint name="shoulder"/><geom size=".1"/>
<body name="b"><joint name="rail" type="slide"/><geom size=".1"/></body></body></worldbody>
<actuator><motor name="drive_cmd" joint="shoulder" ctrlrange="-9 9"/></actuator></mujoco>"""


class Table(Source):
    """Columns of one recording, in two chunks."""

    format = "table"

    def __init__(
        self,
        columns: dict[str, np.ndarray],
        *,
        time: np.ndarray | None,
        period: float | None = None,
    ) -> None:
        self.path, self._columns, self._time, self._period = Path("log.csv"), columns, time, period

    @classmethod
    def matches(cls, path: Path) -> bool:
        return False

    @property
    def size(self) -> int:
        return 100

    @property
    def period(self) -> float | None:
        return self._period

    def columns(self) -> tuple[Column, ...]:
        return tuple(map(Column, self._columns))

    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        values = np.stack([self._columns[name] for name in names], axis=1)
        half = len(values) // 2
        for part in (slice(0, half), slice(half, None)):
            time = None if self._time is None else self._time[part]
            yield Chunk(
                "a", (Stream(tuple(names), time, values[part]),), done=50 if part.stop else 100
            )


@pytest.fixture
def new(tmp_path: Path) -> RobotDraft:
    (tmp_path / "arm.xml").write_text(MODEL)
    return draft(tmp_path / "arm.xml", model="arm.xml")


def columns(rng: np.random.Generator, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "shoulder": np.linspace(-1, 1, 50),
        "rail": np.linspace(0, 0.3, 50),
        "drive_cmd": np.sin(np.arange(50.0)) * 5.0,
        "valve_target": rng.uniform(1.0, 3.0, 50),
        "enable_cmd": np.ones(50),
    } | more


def test_a_log_gives_columns_ranges_and_rate(new: RobotDraft, tmp_path: Path) -> None:
    table = Table(columns(np.random.default_rng(0)), time=1e9 + 0.01 * np.arange(50))
    done = complete(new, table)
    assert [joint.log for joint in done.joints] == ["shoulder", "rail"]
    assert [control.log for control in done.controls] == ["drive_cmd", "valve_target"]
    drive, valve = done.controls
    assert (drive.lower, drive.upper, drive.unit) == (
        -9.0,
        9.0,
        "N m",
    )  # the model's actuator of that name
    assert (
        0.8 <= valve.lower < 1.0 <= valve.rest < 1.2
        and 3.0 < valve.upper <= 3.2
        and valve.unit == "rad"
    )
    assert done.dt == pytest.approx(0.01, rel=1e-6)
    said = " ".join(done.guesses)
    assert (
        "never change were left out of the controls: 'enable_cmd'" in said
        and "'valve_target' in rad" in said
    )
    assert "period" not in said
    text = robot_toml(done)
    assert 'log = "valve_target"' in text and "5 % of that on either side" in text
    (tmp_path / "robot.toml").write_text(text)
    assert Robot.load(tmp_path).control_names == ("drive_cmd", "valve_target")


def test_degrees_and_millimetres_are_noticed(new: RobotDraft) -> None:
    rng = np.random.default_rng(0)
    table = Table(
        columns(rng, shoulder=np.linspace(-90, 90, 50), rail=np.linspace(0, 300, 50)),
        time=np.arange(50.0),
    )
    done = complete(new, table)
    assert [joint.log_unit for joint in done.joints] == ["deg", "mm"]
    assert sum("was taken for" in guess for guess in done.guesses) == 2


def test_what_is_not_recognised_is_said(new: RobotDraft) -> None:
    done = complete(new, Table({"a": np.zeros(9), "b": np.arange(9.0)}, time=None, period=0.02))
    assert [joint.log for joint in done.joints] == [None, None] and done.controls == new.controls
    said = " ".join(done.guesses)
    assert (
        "position of 'shoulder', 'rail'" in said
        and "recognised as a command" in said
        and "'a', 'b'" in said
    )
    assert done.dt == 0.02
    assert replace(done, guesses=()).joints == done.joints
    with pytest.raises(DataError, match="no column"):
        complete(new, Table({}, time=None))


def test_a_log_without_stamps_leaves_the_model_s_period(new: RobotDraft) -> None:
    done = complete(new, Table(columns(np.random.default_rng(0)), time=None))
    assert done.dt == new.dt and any("no time stamps" in guess for guess in done.guesses)


def test_coarse_encoders_ask_for_a_longer_period(new: RobotDraft) -> None:
    time = 0.002 * np.arange(4000)
    angle = 0.4 * np.sin(2 * np.pi * 0.7 * time) + 0.2 * np.sin(2 * np.pi * 1.9 * time)
    rng = np.random.default_rng(0)
    moved = {
        "shoulder": np.round(angle / 2e-3) * 2e-3,
        "rail": angle,
        "drive_cmd": rng.uniform(-5, 5, len(time)),
    }
    coarse, fine = (
        complete(new, Table(moved | {"shoulder": q}, time=time)) for q in (moved["shoulder"], angle)
    )
    assert fine.dt == pytest.approx(0.002) and "GUESS" not in fine.dt_note
    stride = round(coarse.dt / 0.002)
    bend = (
        0.002**2 * stride**2 * np.std(np.gradient(np.gradient(angle, 0.002), 0.002))
    )  # of the motion alone [rad]
    assert stride > 1 and bend == pytest.approx(2e-3, rel=0.6) and "every" in coarse.dt_note
    assert any(f"every {stride}. sample" in guess for guess in coarse.guesses)


def test_a_long_log_is_surveyed_in_part() -> None:
    table = Table({"a": np.arange(10.0), "b": np.full(10, np.nan)}, time=np.arange(10.0))
    seen = survey(table, ["a", "b"], most=40)
    assert not seen.whole and seen.highest == {"a": 4.0} and seen.period == 1.0
    assert survey(table, ["a"]).highest == {"a": 9.0}


@pytest.mark.parametrize(
    ("measured", "meant"),
    [
        (0.0100015, 0.01),
        (0.00200001, 0.002),
        (1 / 29.99, 1 / 30),
        (0.0150003, 0.015),
        (0.010469, 0.010469),
    ],
)
def test_round_period(measured: float, meant: float) -> None:
    assert round_period(measured) == pytest.approx(meant, rel=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-3.02, 2.9, (-3.4, 3.2)), (0.0, 1.0, (0.0, 1.1)), (12500.0, 26500.0, (11000.0, 28000.0))],
)
def test_rounded_range(low: float, high: float, expected: tuple[float, float]) -> None:
    assert rounded_range(low, high) == expected
