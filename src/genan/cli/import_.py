"""``genan import``."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from genan import memory
from genan.cli.terminal import Bars
from genan.errors import SettingError, listing, refuse
from genan.importing.mapping import ImportSettings
from genan.robot import Robot


@dataclass(frozen=True, kw_only=True)
class Import(ImportSettings):
    """Bring logs of other programs into a recording: CSV, Parquet, NumPy, ROS bags, LeRobot,
    TFRecord and o80.

    Say once which column is which joint or control, with flags or in robot.toml (log = "COLUMN",
    log_unit = "deg"); without that, columns with the joints' and controls' own names are taken.
    Without --out, the columns that there are are listed.
    """

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional]  # Logs: files, or folders of them.
    robot: str  # Whose logs they are: a bundled robot's name, or the path of a robot.toml.
    out: Path | None = None  # File to write (HDF5); left out: only list the columns of the logs.
    joints: tuple[str, ...] = ()  # type: ignore[assignment]
    """Column of each joint, as elbow=COLUMN; or the columns alone, in the robot's order."""
    controls: tuple[str, ...] = ()  # type: ignore[assignment]
    """Column of each control, as u1=COLUMN; or the columns alone, in the robot's order."""
    units: tuple[str, ...] = ()  # type: ignore[assignment]
    """Units in the log, as elbow=deg u1=mV; one unit alone (deg) holds for all joints."""
    scale: tuple[str, ...] = ()  # type: ignore[assignment]
    """Factors, as elbow=0.0879: scale * logged + offset is the value in the log's unit."""
    offset: tuple[str, ...] = ()  # type: ignore[assignment]
    """Offsets in the log's unit, as elbow=-180."""
    test_out: Path | None = None  # File for the recordings of --test.

    def __post_init__(self) -> None:
        """``_settings`` checks."""

    def run(self) -> None:
        from genan.importing import import_logs, open_source

        robot = Robot.load(self.robot)
        settings = self._settings(robot)
        if self.out is None:
            for path in self.sources:
                with memory.allow(self.max_memory, [path]):
                    source = open_source(path, self.format or robot.log.format, stamps=self.stamps)
                size = f"{source.size / 1e6:.1f} MB"
                print(f"{path}: {source.format}, {size}, {len(source.columns)} columns")
                for name, words in source.columns.items():
                    print(f"  {name}" + (f"  ({words})" if words else ""))
            example = f"--joints {robot.joint_names[0]}=COLUMN"
            print(f"Next: the same with --out data.h5, and {example} ... where names differ")
            return
        with Bars() as bars:
            made = import_logs(
                self.sources, robot, self.out, test_out=self.test_out, settings=settings,
                progress=lambda done, size: bars("importing [kB]", done // 1000, size // 1000),
            )  # fmt: skip
        for file in filter(None, (made.data, made.test)):
            print(f"{file.path}: {file.words}")
            for sentence in (*file.resampling, *file.left_out):
                print(f"  {sentence}")
        print(f"Next: genan inspect {made.data.path}")
        print(f"      genan fit --robot {self.robot} --data {made.data.path} --out actuators")

    def _settings(self, robot: Robot) -> ImportSettings:
        """The flags with names for what they are about."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(ImportSettings)}
        if len(self.units) == 1 and "=" not in self.units[0]:
            values["units"] = [f"{name}={self.units[0]}" for name in robot.joint_names]
        for flag, names in (("joints", robot.joint_names), ("controls", robot.control_names)):
            entries = values[flag]
            named = (entry.partition("=")[0] for entry in entries if "=" in entry)
            if entries and not any(name in names for name in named):
                count = f"--{flag} has {len(entries)} columns and the robot has {len(names)} {flag}"
                hint = f"({listing(names)}); give one for each, or NAME=COLUMN."
                refuse((len(entries) != len(names), f"{count} {hint}"))
                values[flag] = map("=".join, zip(names, entries, strict=True))
        for flag in ("joints", "controls", "units", "scale", "offset"):
            found: dict[str, Any] = {}
            for entry in values[flag]:
                name, _, value = entry.partition("=")
                wrong = f"--{flag} takes entries such as elbow=..., not {entry!r}."
                twice = f"--{flag} names {name!r} twice."
                refuse((not (name and value), wrong), (name in found, twice))
                found[name] = value
                if flag in ("scale", "offset"):
                    try:
                        found[name] = float(value)
                    except ValueError:
                        wrong = f"--{flag} takes numbers, such as {name}=0.5, not {value!r}."
                        raise SettingError(wrong) from None
            values[flag] = found
        return ImportSettings(**values)
