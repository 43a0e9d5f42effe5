"""``import_logs``: logs of any format into recordings of a robot."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from genan.data.trajectories import LONGEST_NAME, Channels
from genan.errors import DataError, SettingError, listing
from genan.importing.mapping import ColumnMapping, map_columns
from genan.importing.output import ImportedFile, OutputFile, open_writer
from genan.importing.resample import Resampler
from genan.importing.settings import ImportSettings, RecordingSelection
from genan.importing.source import Facts, LogSource, open_source
from genan.provenance import versions
from genan.robot import Robot


@dataclass(frozen=True)
class Imported:
    """What an import made."""

    data: ImportedFile
    test: ImportedFile | None
    format: str
    size: int  # Bytes of the logs.


def import_logs(
    sources: Sequence[Path | str],
    robot: Robot,
    out: Path | str,
    *,
    test_out: Path | str | None = None,
    settings: ImportSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Bring logs to the robot's joints, controls, units and rate, and write one recording file.

    One recording at a time is in memory; a file that is not finished never has its name.

    Args:
        sources: log files or folders of logs.
        robot: whose they are.
        out: file to make (HDF5).
        test_out: file for the recordings that ``settings.test`` names.
        settings: mapping, rate, choice of recordings; left out: from robot.toml and the logs.
        progress: called after each recording with the bytes read and the bytes there are.
    """
    settings = settings or ImportSettings()
    settings = replace(settings, gap=settings.gap or robot.log.gap)
    paths = {"train": Path(out)} | ({} if test_out is None else {"test": Path(test_out)})
    _check(sources, paths, settings)
    format = settings.format or robot.log.format
    logs = [open_source(Path(path), format, stamps=settings.stamps) for path in sources]
    mappings = [map_columns(robot, log, settings) for log in logs]
    chosen = RecordingSelection(settings, _recordings(logs, mappings) if settings.patterns else ())
    channels = Channels.of_robot(robot)
    size, formats = sum(log.size for log in logs), ", ".join(dict.fromkeys(x.format for x in logs))
    with ExitStack() as stack:
        files = {}
        for kind, path in paths.items():
            writer = open_writer(path, channels, overwrite=settings.overwrite)
            # of a test, the first phase alone: to count the same motion k times proves no more
            phases = "first" if kind == "test" else settings.phases
            files[kind] = OutputFile(stack.enter_context(writer), robot, settings, phases)
        before = 0
        for number, (log, mapping) in enumerate(zip(logs, mappings, strict=True)):
            resampler = Resampler(log, mapping, robot.dt, settings)
            for recording in log.read(mapping.columns):
                recording = replace(recording, name=_name(logs, number, recording.name))
                file = files.get(chosen.file_for(recording.name, recording.facts))
                if file is not None:
                    found = resampler.resample(recording, file.phases)
                    file.add(recording.name, found, mapping)
                if progress is not None:
                    progress(min(before + recording.done, size), size)
            before += log.size
        for kind, file in files.items():
            _refuse_empty(file, kind, settings)
        patterns = {name: list(getattr(settings, name)) for name in ("only", "without", "test")}
        entry: dict[str, Any] = {
            "source": [str(log.path) for log in logs[:50]] if len(logs) > 1 else str(logs[0].path),
            "format": formats,
            "mapping": mappings[0].as_json(),
        }
        if settings.patterns:
            entry["chosen"] = {name: given for name, given in patterns.items() if given}
        about = {"robot": robot.name, "versions": versions()}
        made = {kind: file.finish(about, entry) for kind, file in files.items()}
    return Imported(made["train"], made.get("test"), formats, size)


def _check(sources: Sequence[Path | str], paths: dict[str, Path], settings: ImportSettings) -> None:
    out, test = paths["train"], paths.get("test")
    if not sources:
        raise SettingError("There is nothing to import; give one or more logs.")
    if (test is None) != (not settings.test):
        raise SettingError("Give --test (which recordings) and --test-out (their file) together.")
    if test is not None and test.absolute() == out.absolute():
        raise SettingError(f"--out and --test-out are both {out}; give two files.")
    for path in sources:
        if out.exists() and Path(path).exists() and out.samefile(path):
            raise SettingError(f"{out} is one of the logs to import; give another --out.")


def _recordings(
    logs: Sequence[LogSource], mappings: Sequence[ColumnMapping]
) -> list[tuple[str, Facts]]:
    """Name and facts of all recordings; where only reading tells, they are read."""
    found: list[tuple[str, Facts]] = []
    for number, (log, mapping) in enumerate(zip(logs, mappings, strict=True)):
        there = log.recordings
        if there is None:
            there = [(one.name, one.facts) for one in log.read(mapping.columns)]
        found += [(_name(logs, number, name), facts) for name, facts in there]
    return found


def _name(logs: Sequence[LogSource], number: int, recording: str) -> str:
    """A recording's name among those of several logs."""
    if len(logs) > 1:
        stems = [log.path.stem for log in logs]
        stem = stems[number] if stems.count(stems[number]) == 1 else f"{number}-{stems[number]}"
        recording = stem if recording == stems[number] else f"{stem}/{recording}"
    return recording.encode()[-LONGEST_NAME:].decode(errors="ignore")


def _refuse_empty(file: OutputFile, kind: str, settings: ImportSettings) -> None:
    if file.writer.lengths:
        return
    chosen = f" by the patterns {listing(settings.patterns)}" if settings.patterns else ""
    target = f"{'the test file ' if kind == 'test' else ''}{file.writer.path}{chosen}"
    why = " ".join((*file.resampling(), *file.left_out()))
    raise DataError(f"No trajectory is left for {target}, so nothing was written. {why}".strip())
