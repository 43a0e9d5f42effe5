"""LeRobot data sets (v3.0, and v2.0 and v2.1, whose tables have the same columns), without LeRobot.

A column is a number of a feature: ``observation.state[shoulder_pan.pos]`` by the names in
``meta/info.json``, or ``observation.state:0``. An episode is a recording; its time is the column
``timestamp``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, listing
from genan.importing.formats.table import parquet_file
from genan.importing.source import Column, Facts, RawRecording, Source, Stream, needs

#: Versions of the layout that are read.
VERSIONS = ("v2.0", "v2.1", "v3.0")

#: Columns that count and stamp the frames; they are no signals of the robot.
_BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")

_Frames = tuple[int, np.ndarray | None, np.ndarray]
"""Episode, stamps [s] and values of some frames."""


@dataclass(frozen=True)
class FrameFeature:
    """A numeric feature of the frames."""

    dtype: str
    columns: tuple[str, ...]
    """What each of its numbers is called."""


class LeRobotSource(Source):
    """A folder with ``meta/info.json`` and ``data/``."""

    format = "lerobot"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            raise needs("pyarrow", "LeRobot data sets") from None
        about = self.path / "meta" / "info.json"
        try:
            self._info: dict[str, Any] = dict(json.loads(about.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"{about} cannot be read ({error}); a LeRobot data set has its description there."
            ) from None
        version = str(self._info.get("codebase_version", "none"))
        if version not in VERSIONS:
            raise DataError(
                f"{self.path} is a LeRobot data set of version {version!r}; {listing(VERSIONS)} can "
                "be read: convert it to v3.0 with LeRobot's own scripts "
                "(lerobot.datasets.v30.convert_dataset_v21_to_v30)."
            )
        declared = self._info.get("features")
        if not isinstance(declared, dict):
            raise DataError(f"{about} lists no features; copy the data set again.")
        signals = {name: spec for name, spec in declared.items() if name not in _BOOKKEEPING}
        features = {name: _feature(name, spec) for name, spec in signals.items()}
        self._features = {name: feature for name, feature in features.items() if feature}
        if not self._features:
            kinds = [
                f"{name} ({spec.get('dtype') if isinstance(spec, dict) else spec})"
                for name, spec in signals.items()
            ]
            raise DataError(
                f"{self.path} has no numbers of a robot, only "
                f"{', '.join(kinds) or 'frames without features'}; positions and commands are needed "
                "(observation.state and action), cameras alone do not do."
            )
        folder = self.path / Path(str(self._info.get("data_path") or "data/")).parts[0]
        self.files = sorted(folder.rglob("*.parquet"))
        if not self.files:
            raise DataError(f"{folder} has no .parquet file; the data set was not copied whole.")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """A folder with ``meta/info.json``."""
        return (path / "meta" / "info.json").is_file()

    @property
    def period(self) -> float | None:
        """One over the frames per second."""
        fps = self._info.get("fps")
        return 1 / fps if isinstance(fps, int | float) and fps > 0 else None

    @property
    def positions(self) -> tuple[str, ...]:
        """The numbers of ``observation.state``."""
        feature = self._features.get("observation.state")
        return feature.columns if feature else ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The numbers of ``action``."""
        feature = self._features.get("action")
        return feature.columns if feature else ()

    def recordings(self) -> tuple[tuple[str, Facts], ...] | None:
        """The episodes that ``meta`` lists."""
        known = sorted(self._episodes().items())
        return tuple((_recording(i), facts) for i, (_, facts) in known) or None

    def columns(self) -> tuple[Column, ...]:
        """Every number of the frames."""
        frames = self._info.get("total_frames", "an unknown number of")
        return tuple(
            Column(name, f"{feature.dtype}, {frames} frames")
            for feature in self._features.values()
            for name in feature.columns
        )

    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        """The columns of episode after episode."""
        places = [self._place(name) for name in names]
        known, seen = self._episodes(), set[int]()
        done, size = 0, self.size
        for episode, parts in groupby(self._frames(places), key=lambda frames: frames[0]):
            _, times, values = zip(*parts, strict=True)
            frames, stamps = np.concatenate(values), [time for time in times if time is not None]
            if episode in seen:
                raise DataError(
                    f"{self.path} goes back to episode {episode}, which had ended; copy the set again."
                )
            expected, facts = known.get(episode, (len(frames), {"episode": float(episode)}))
            if expected != len(frames):
                raise DataError(
                    f"Episode {episode} of {self.path} has {len(frames)} frames, its meta says "
                    f"{expected}: the files were not copied whole; copy them again."
                )
            seen.add(episode)
            done = min(size, done + 1 + size * len(frames) // self._info.get("total_frames", 10**9))
            stream = Stream(tuple(names), np.concatenate(stamps) if stamps else None, frames)
            yield RawRecording(_recording(episode), (stream,), facts, done)
        if missing := sorted(set(known) - seen):
            raise DataError(
                f"{self.path} lacks {len(missing)} of its {len(known)} episodes (the first is "
                f"{missing[0]}): its files were not copied whole; copy them again."
            )

    def _place(self, name: str) -> tuple[str, int]:
        """The feature and the place in it of a column."""
        for key, feature in self._features.items():
            if name in feature.columns:
                return key, feature.columns.index(name)
            index = name.removeprefix(f"{key}:")
            if index != name and index.isdecimal() and int(index) < len(feature.columns):
                return key, int(index)
        have = [column.name for column in self.columns()]
        raise DataError(f"{self.path} has no column {name!r}; it has {listing(have)}.")

    def _frames(self, places: Sequence[tuple[str, int]]) -> Iterator[_Frames]:
        """The frames of each episode in each file."""
        features = list(dict.fromkeys(feature for feature, _ in places))
        for path in self.files:
            with parquet_file(path) as file:
                present = file.schema_arrow.names
                if missing := [n for n in (*features, "episode_index") if n not in present]:
                    raise DataError(f"{path} has no column {listing(missing)}; copy it again.")
                stamps = [name for name in ("timestamp", "frame_index") if name in present]
                table = file.read(columns=[*features, "episode_index", *stamps])
            columns = {name: self._numbers(table, name, path) for name in table.column_names}
            values = np.stack([columns[feature][:, k] for feature, k in places], axis=1)
            time = _time(columns, self.period)
            episodes = columns["episode_index"][:, 0].astype(np.int64)
            cuts = np.flatnonzero(np.diff(episodes)) + 1
            for a, b in pairwise([0, *cuts.tolist(), len(episodes)]):
                if b > a:
                    yield int(episodes[a]), None if time is None else time[a:b], values[a:b]

    def _numbers(self, table: Any, name: str, path: Path) -> Float[np.ndarray, "n w"]:
        """A column of numbers or of lists of numbers [frames, width]."""
        import pyarrow

        width = len(self._features[name].columns) if name in self._features else 1
        column, frames = table.column(name).combine_chunks(), len(table)
        where = f"{name!r} of {path}"
        if column.null_count:
            raise DataError(
                f"{where} has {column.null_count} empty entries; leave these episodes out."
            )
        while hasattr(column, "storage"):  # an extension type of the datasets library around lists
            column = column.storage
        while pyarrow.types.is_nested(column.type):
            column = column.flatten()
        if len(column) != frames * width or column.null_count:
            raise DataError(
                f"{where} has {len(column)} numbers in {frames} frames; {frames * width} were "
                "expected."
            )
        return column.to_numpy(zero_copy_only=False).astype(np.float64).reshape(frames, width)

    def _episodes(self) -> dict[int, tuple[int, Facts]]:
        """Frames and facts of each episode, as ``meta`` lists them; nothing where it does not."""
        meta, rows = self.path / "meta", list[Mapping[str, Any]]()
        for path in sorted((meta / "episodes").rglob("*.parquet")):
            with parquet_file(path) as file:
                have = {"episode_index", "length", "tasks"} & set(file.schema_arrow.names)
                rows += file.read(columns=sorted(have)).to_pylist()
        try:
            if (meta / "episodes.jsonl").is_file():
                lines = (meta / "episodes.jsonl").read_text().splitlines()
                rows += [json.loads(line) for line in lines if line.strip()]
            return {int(row["episode_index"]): (int(row["length"]), _facts(row)) for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"The episodes in {meta} cannot be read ({error}); copy it again."
            ) from None


def _recording(episode: int) -> str:
    return f"episode_{episode:06d}"


def _facts(row: Mapping[str, Any]) -> Facts:
    tasks = "; ".join(map(str, row.get("tasks") or ()))
    return {"episode": float(row["episode_index"])} | ({"task": tasks} if tasks else {})


def _feature(name: str, spec: Any) -> FrameFeature | None:
    """A feature of numbers; None: images, videos, texts."""
    try:
        dtype = np.dtype(spec["dtype"])
        width = int(np.prod([int(size) for size in spec.get("shape") or [1]]))
    except (TypeError, KeyError, ValueError):
        return None
    if dtype.kind not in "fiub" or width < 1:
        return None
    names = spec.get("names")
    while isinstance(names, dict):
        places = list(names.values())
        if all(isinstance(place, int) for place in places):  # {"x": 0, "y": 1}
            names = sorted(names, key=names.__getitem__)
        else:  # {"motors": ["x", "y"]}
            names = places[0] if len(places) == 1 else None
    columns = [f"{name}:{i}" for i in range(width)] if width > 1 else [name]
    if isinstance(names, list) and len(names) == len(set(map(str, names))) == width > 1:
        columns = [f"{name}[{each}]" for each in names]
    return FrameFeature(dtype.name, tuple(columns))


def _time(
    columns: Mapping[str, Float[np.ndarray, "n _"]], period: float | None
) -> Float[np.ndarray, " n"] | None:
    """Time stamps [s]. They are kept in single precision: where they are the frame's number times
    the period to that precision, that is what they mean."""
    if "timestamp" not in columns:
        return None
    time = columns["timestamp"][:, 0]
    if period is not None and "frame_index" in columns:
        exact = columns["frame_index"][:, 0] * period
        if np.all(np.abs(time - exact) <= 2.0**-23 * np.abs(exact)):
            return exact
    return time
