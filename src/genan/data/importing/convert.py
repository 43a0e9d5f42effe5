"""``import_logs``: logs of any format into recordings of a robot."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from genan.data.importing.assembly import Assembly, RawSteps
from genan.data.importing.choosing import Choice, Facts, choice, needs_list
from genan.data.importing.mapping import ColumnMapping, map_columns
from genan.data.importing.part import Part
from genan.data.importing.prefetch import prefetch
from genan.data.importing.resampling import HOLD_WORDS, POSITION_WORDS
from genan.data.importing.settings import ImportSettings
from genan.data.importing.source import Chunk, Source
from genan.data.importing.sources import open_source
from genan.data.inspection.timing import GAP_PERIODS, Timing
from genan.data.trajectories import LONGEST_NAME
from genan.errors import DataError, SettingError, listing
from genan.provenance import versions
from genan.robot import Robot

Progress = Callable[[int, int], None]
"""Called with the bytes read and the bytes there are."""


@dataclass(frozen=True)
class ImportedFile:
    """What one file got."""

    path: Path
    recordings: int
    trajectories: int
    samples: int
    duration: float
    """What was recorded [s]; phases of the same samples count once."""
    resampling: tuple[str, ...]
    """What was done with the time stamps, in sentences."""
    left_out: tuple[str, ...]
    """What is not in it, in sentences."""
    timing: Timing | None
    """What the raw stamps say; None where the log has none."""
    words: str
    """Recordings, minutes, trajectories and rate."""


@dataclass(frozen=True)
class Imported:
    """What an import made."""

    data: ImportedFile
    test: ImportedFile | None
    format: str
    size: int
    """Bytes of the logs."""


def import_logs(
    sources: Sequence[Path | str],
    robot: Robot,
    out: Path | str,
    *,
    test_out: Path | str | None = None,
    settings: ImportSettings | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Read logs, bring them to the robot's joints, controls, units and rate, and write them as one
    recording file.

    Memory does not grow with the logs. A file that is not finished never has its name.

    Args:
        sources: log files or folders of logs.
        robot: whose they are.
        out: file to make (HDF5).
        test_out: file for the recordings that ``settings.test`` names.
        settings: mapping, rate, choice of recordings; left out: everything from robot.toml and the
            logs.
        progress: called now and then with the bytes read and the bytes there are.
    """
    settings = settings or ImportSettings()
    settings = replace(
        settings, format=settings.format or robot.log.format, gap=settings.gap or robot.log.gap
    )
    out, test = Path(out), None if test_out is None else Path(test_out)
    _check(sources, out, test, settings)
    logs = [open_source(Path(path), settings.format, stamps=settings.stamps) for path in sources]
    mappings = [map_columns(robot, log, settings) for log in logs]
    known = _recordings(logs, mappings, needs_list(settings))
    chosen = choice(settings, known)
    with ExitStack() as stack:
        parts = {"train": Part(out, robot, settings.accept_units, settings.overwrite)}
        stack.callback(parts["train"].writer.discard)
        if test is not None:
            parts["test"] = Part(test, robot, settings.accept_units, settings.overwrite, first=True)
            stack.callback(parts["test"].writer.discard)
        _read(logs, mappings, robot, settings, chosen, parts, progress or (lambda done, size: None))
        _refuse_empty(parts, settings)
        words = {name: _resampling(part, robot, settings) for name, part in parts.items()}
        for name, part in parts.items():
            entry = _provenance(logs, mappings[0], settings, part, words[name], robot)
            part.writer.finish({"robot": robot.name, "import": entry, "versions": versions()})
        for part in parts.values():
            part.writer.publish()
    files = {name: _file(part, words[name]) for name, part in parts.items()}
    return Imported(
        files["train"], files.get("test"), _formats(logs), sum(log.size for log in logs)
    )


def _check(
    sources: Sequence[Path | str], out: Path, test: Path | None, settings: ImportSettings
) -> None:
    if not sources:
        raise SettingError("There is nothing to import; give one or more logs.")
    if (test is None) != (not settings.test):
        raise SettingError(
            "Give --test (which recordings) and --test-out (their file) together, or neither."
        )
    if test is not None and test.absolute() == out.absolute():
        raise SettingError(f"--out and --test-out are both {out}; give two files.")
    for path in sources:
        if out.exists() and Path(path).exists() and out.samefile(path):
            raise SettingError(f"{out} is one of the logs to import; give another --out.")


def _recordings(
    logs: Sequence[Source], mappings: Sequence[ColumnMapping], needed: bool
) -> list[tuple[str, Facts]] | None:
    """Name and facts of all recordings; where only reading would tell, they are read for it if they
    are needed."""
    found: list[tuple[str, Facts]] = []
    for number, (log, mapping) in enumerate(zip(logs, mappings, strict=True)):
        there = log.recordings()
        if there is None:
            if not needed:
                return None
            there = tuple(
                {
                    chunk.recording: (chunk.recording, chunk.facts)
                    for chunk in log.read(mapping.columns)
                }.values()
            )
        found += [(_name(logs, number, name), facts) for name, facts in there]
    return found


def _name(logs: Sequence[Source], number: int, recording: str) -> str:
    """A recording's name among those of several logs."""
    if len(logs) > 1:
        stems = [log.path.stem for log in logs]
        stem = stems[number] if stems.count(stems[number]) == 1 else f"{number}-{stems[number]}"
        recording = stem if recording == stems[number] else f"{stem}/{recording}"
    return recording.encode()[-LONGEST_NAME:].decode(errors="ignore")


def _read(
    logs: Sequence[Source],
    mappings: Sequence[ColumnMapping],
    robot: Robot,
    settings: ImportSettings,
    chosen: Choice,
    parts: dict[str, Part],
    progress: Progress,
) -> None:
    size, before = sum(log.size for log in logs), 0
    for number, (log, mapping) in enumerate(zip(logs, mappings, strict=True)):
        open_: tuple[str, Part | None, Assembly] | None = None
        for chunk in _closing(prefetch(log.read(tuple(dict.fromkeys(mapping.columns))))):
            if open_ is None or open_[0] != chunk.recording:
                _end(open_, mapping)
                name = _name(logs, number, chunk.recording)
                kind = chosen.of(name, chunk.facts)
                assembly = Assembly(name, log, mapping, robot.dt, settings, first=kind == "test")
                open_ = (chunk.recording, parts.get(kind), assembly)
            _take(open_, chunk, mapping)
            progress(min(before + chunk.done, size), size)
        _end(open_, mapping)
        before += log.size
        progress(before, size)


def _closing(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks; whatever happens, the thread that reads them is stopped."""
    try:
        yield from chunks
    finally:
        chunks.close()  # type: ignore[attr-defined]


def _take(open_: tuple[str, Part | None, Assembly], chunk: Chunk, mapping: ColumnMapping) -> None:
    _, part, assembly = open_
    if part is None:
        return
    part.add_stamps(assembly.recording, assembly.stamps(chunk))
    for piece in assembly.add(chunk):
        _put(part, piece, mapping, assembly)


def _end(open_: tuple[str, Part | None, Assembly] | None, mapping: ColumnMapping) -> None:
    if open_ is None or open_[1] is None:
        return
    _, part, assembly = open_
    assert part is not None
    for piece in assembly.finish():
        _put(part, piece, mapping, assembly)
    part.end(assembly.recording, assembly.dropped, assembly.period)


def _put(part: Part, piece: Any, mapping: ColumnMapping, assembly: Assembly) -> None:
    if isinstance(piece, RawSteps):
        part.add_raw(piece.q, mapping)
    else:
        part.add(piece, mapping, assembly.recording)


def _refuse_empty(parts: dict[str, Part], settings: ImportSettings) -> None:
    for name, part in parts.items():
        if not part.writer.lengths:
            reasons = " ".join([*part.cuts(), *part.left_out()])
            patterns = [*settings.only, *settings.without, *settings.test]
            chosen = f" by the patterns {listing(patterns)}" if patterns else ""
            raise DataError(
                "No trajectory is left for "
                f"{'the test file ' if name == 'test' else ''}{part.path}{chosen}, so nothing was "
                f"written. {reasons}".strip()
            )


def _resampling(part: Part, robot: Robot, settings: ImportSettings) -> tuple[str, ...]:
    sentences = []
    rate = f"{1.0 / robot.dt:.6g} Hz"
    for every, count in sorted(part.how.items()):
        pieces = f"{count} trajector{'y' if count == 1 else 'ies'}"
        if every == 1:
            sentences.append(
                f"{pieces} taken sample by sample: the log is at the robot's {rate} already."
            )
        elif every:
            nth = f"{every}{'nd' if every == 2 else 'rd' if every == 3 else 'th'}"
            all_phases = settings.phases == "all" and not part.first
            which = (
                f"all {every} phases, each a trajectory of its own"
                if all_phases
                else "the first phase"
            )
            sentences.append(
                f"{pieces} by taking every {nth} sample with its own command, to {rate} ({which})."
            )
        else:
            sentences.append(
                f"{pieces} resampled to {rate}: {POSITION_WORDS[settings.positions]}; {HOLD_WORDS}."
            )
    periods = part.periods
    if periods and max(periods) > 1.05 * min(periods):
        sentences.append(
            f"The recordings have several rates, {1 / max(periods):.4g} to {1 / min(periods):.4g} "
            f"Hz; each was brought to {rate} by itself."
        )
    return (*sentences, *part.cuts())


def _provenance(
    logs: Sequence[Source],
    mapping: ColumnMapping,
    settings: ImportSettings,
    part: Part,
    words: Sequence[str],
    robot: Robot,
) -> dict[str, Any]:
    patterns = {
        name: list(getattr(settings, name))
        for name in ("only", "without", "test")
        if getattr(settings, name)
    }
    return {
        "source": [str(log.path) for log in logs[:50]] if len(logs) > 1 else str(logs[0].path),
        "format": _formats(logs),
        "mapping": mapping.as_json(),
        "resampling": {
            "words": list(words),
            "rate": 1.0 / robot.dt,
            "positions": settings.positions,
            "commands": "hold",
            "gap": settings.gap if settings.gap else f"{GAP_PERIODS:g} periods",
            "phases": settings.phases,
            "declared_rate": settings.rate,
            "every": {str(every): count for every, count in sorted(part.how.items())},
        },
        **({"chosen": patterns} if patterns else {}),
        **part.summary(),
    }


def _formats(logs: Sequence[Source]) -> str:
    return ", ".join(dict.fromkeys(log.format for log in logs))


def _file(part: Part, words: tuple[str, ...]) -> ImportedFile:
    return ImportedFile(
        path=part.path,
        recordings=len(part.recordings),
        trajectories=len(part.writer.lengths),
        samples=part.samples,
        duration=part.recorded * part.robot.dt,
        resampling=words,
        left_out=tuple(part.left_out()),
        timing=part.timing(),
        words=part.words(),
    )
