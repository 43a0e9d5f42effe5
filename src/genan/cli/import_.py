"""Bring logs of other programs into a recording: CSV, Parquet, NumPy, ROS bags, LeRobot, TFRecord
and o80.

Say once which column is which joint or control, with flags or in robot.toml (log = "COLUMN",
log_unit = "deg"); without that, columns with the joints' and controls' own names are taken. Without
--out, the columns that there are are listed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from genan.data.importing import Imported, ImportSettings
    from genan.robot import Robot


@dataclass(frozen=True)
class Import:
    """Flags of ``genan import``."""

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Logs: files, or folders of them."""
    robot: str
    """Whose logs they are: a bundled robot's name, or the path of a robot.toml."""
    out: Path | None = None
    """File to write (HDF5); left out: only list the columns of the logs."""
    joints: tuple[str, ...] = ()
    """Column of each joint, as elbow=COLUMN; or the columns alone, in the order of the robot's
    joints."""
    controls: tuple[str, ...] = ()
    """Column of each control, as u1=COLUMN; or the columns alone, in the order of the robot's
    controls."""
    units: tuple[str, ...] = ()
    """Units in the log, as elbow=deg u1=mV; one unit alone (deg) holds for all joints."""
    scale: tuple[str, ...] = ()
    """Factors, as elbow=0.0879: scale * logged + offset is the value in the log's unit."""
    offset: tuple[str, ...] = ()
    """Offsets in the log's unit, as elbow=-180."""
    time: str | None = None
    """Column of the time stamps, where it cannot be told by its name."""
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    """Unit of the time stamps."""
    rate: float | None = None
    """Rate of the log [Hz]: take its samples as equally spaced, whatever the time stamps say."""
    format: Literal["npz", "csv", "parquet", "rosbag", "lerobot", "tfrecord", "o80"] | None = None
    """Format of the logs, where it cannot be found out."""
    stamps: Literal["auto", "header", "receipt"] = "auto"
    """Time of a bag's samples: of its header (when measured) or of receipt (when recorded); auto:
    the header's where it is no more than 250 ms before that of receipt."""
    gap: float | None = None
    """A longer time without samples cuts a recording [s]; left out: 3 periods of the log."""
    positions: Literal["interpolate", "nearest"] = "interpolate"
    """How positions are brought to the robot's rate where the log is not at it, or at a multiple of
    it."""
    phases: Literal["all", "first"] = "all"
    """Where the log is k times as fast as the robot, every k-th sample is taken: in all k ways, or
    in one."""
    only: tuple[str, ...] = ()
    """Take these recordings alone: names with * and ?, facts as kind=sysid, or last:20% for the
    last fifth."""
    without: tuple[str, ...] = ()
    """Leave these recordings out (written as for --only)."""
    test: tuple[str, ...] = ()
    """Put these recordings (written as for --only) into --test-out, to judge models by."""
    test_out: Path | None = None
    """File for the recordings of --test."""
    accept_units: bool = False
    """Go on where the numbers look like another unit."""
    overwrite: bool = False
    """Replace --out and --test-out where they are there already."""

    def run(self) -> int:
        """Import, or list the columns."""
        from genan.robot import Robot

        robot = Robot.load(self.robot)
        settings = self._settings(robot)
        if self.out is None:
            return self._list(robot, settings)
        from genan.data.importing import import_logs

        with _bar() as moved:
            made = import_logs(
                self.sources,
                robot,
                self.out,
                test_out=self.test_out,
                settings=settings,
                progress=moved,
            )
        _say(made, self.robot)
        return 0

    def _settings(self, robot: "Robot") -> "ImportSettings":
        from genan.data.importing import ImportSettings

        return ImportSettings(
            joints=_named(self.joints, robot.joint_names, "joints"),
            controls=_named(self.controls, robot.control_names, "controls"),
            units=self._units(robot),
            scale=_numbers(self.scale, "scale"),
            offset=_numbers(self.offset, "offset"),
            **{
                name: getattr(self, name)
                for name in (
                    "time",
                    "time_unit",
                    "rate",
                    "format",
                    "stamps",
                    "gap",
                    "positions",
                    "phases",
                    "only",
                    "without",
                )
            },
            test=self.test,
            accept_units=self.accept_units,
            overwrite=self.overwrite,
        )

    def _units(self, robot: "Robot") -> dict[str, str]:
        if len(self.units) == 1 and "=" not in self.units[0]:
            return dict.fromkeys(robot.joint_names, self.units[0])
        return _pairs(self.units, "units")

    def _list(self, robot: "Robot", settings: "ImportSettings") -> int:
        from genan.data.importing import open_source

        for path in self.sources:
            source = open_source(path, settings.format or robot.log.format, stamps=settings.stamps)
            columns = source.columns()
            print(f"{path}: {source.format}, {source.size / 1e6:.1f} MB, {len(columns)} columns")
            for column in columns:
                print(f"  {column.name}" + (f"  ({column.words})" if column.words else ""))
        print(
            f"Next: the same with --out data.h5, and --joints {robot.joint_names[0]}=COLUMN ... where names differ"
        )
        return 0


def _pairs(entries: tuple[str, ...], flag: str) -> dict[str, str]:
    from genan.errors import SettingError

    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not (name and equals and value):
            raise SettingError(f"--{flag} takes entries such as elbow=..., not {entry!r}.")
        if name in found:
            raise SettingError(f"--{flag} names {name!r} twice.")
        found[name] = value
    return found


def _named(entries: tuple[str, ...], names: tuple[str, ...], flag: str) -> dict[str, str]:
    from genan.errors import SettingError, listing

    if any(entry.partition("=")[0] in names for entry in entries if "=" in entry) or not entries:
        return _pairs(entries, flag)
    if len(entries) != len(names):
        raise SettingError(
            f"--{flag} has {len(entries)} columns and the robot has {len(names)} {flag} ({listing(names)}); give one "
            "for each, or NAME=COLUMN."
        )
    return dict(zip(names, entries, strict=True))


def _numbers(entries: tuple[str, ...], flag: str) -> dict[str, float]:
    from genan.errors import SettingError

    found = {}
    for name, value in _pairs(entries, flag).items():
        try:
            found[name] = float(value)
        except ValueError:
            raise SettingError(
                f"--{flag} takes numbers, such as {name}=0.5, not {value!r}."
            ) from None
    return found


def _bar() -> Any:
    """A progress bar in bytes on the standard error; entering it gives what moves it."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    @contextmanager
    def bar() -> Any:
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("importing", total=None)
            yield lambda done, size: progress.update(task, completed=done, total=size)

    return bar()


def _say(made: "Imported", robot: str) -> None:
    for file in filter(None, (made.data, made.test)):
        print(f"{file.path}: {file.words}")
        for sentence in (*file.resampling, *file.left_out):
            print(f"  {sentence}")
    print(f"Next: genan inspect {made.data.path}")
    print(f"      genan fit --robot {robot} --data {made.data.path} --out actuators")
