"""LeRobot data sets (v3.0, and v2.0 and v2.1, whose tables have the same columns), without LeRobot.

A column is a number of a feature: ``observation.state[shoulder_pan.pos]`` by the names in
``meta/info.json``, or ``observation.state:0``. An episode is a recording; its time is the column
``timestamp``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from genan.data.importing.source import Chunk, Column, Source, Stream
from genan.errors import DataError, listing

#: Versions of the layout that are read.
VERSIONS = ("v2.0", "v2.1", "v3.0")

#: Numbers of a chunk [bytes].
CHUNK = 8 << 20

#: Columns that count and stamp the frames; they are no signals of the robot.
_BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class _Feature:
    """A numeric feature of the frames."""

    dtype: str
    width: int
    names: tuple[str, ...]


class LeRobotSource(Source):
    """A folder with ``meta/info.json`` and ``data/``."""

    format: ClassVar[str] = "lerobot"

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ModuleNotFoundError as error:
            raise DataError(
                "LeRobot data sets are read with pyarrow; run: pip install 'genan[logs]'."
            ) from error
        self.path = Path(path)
        self._info = _json(self.path / "meta" / "info.json")
        version = str(self._info.get("codebase_version", "none"))
        if version not in VERSIONS:
            raise DataError(
                f"{self.path} is a LeRobot data set of version {version!r}; {listing(VERSIONS)} "
                "can be read: convert it to v3.0 with LeRobot's own scripts "
                "(lerobot.datasets.v30.convert_dataset_v21_to_v30)."
            )
        declared = self._info.get("features")
        if not isinstance(declared, dict):
            raise DataError(
                f"{self.path / 'meta' / 'info.json'} lists no features; copy the data set again."
            )
        signals = {name: spec for name, spec in declared.items() if name not in _BOOKKEEPING}
        self._features = {
            name: feature for name, spec in signals.items() if (feature := _feature(spec))
        }
        if not self._features:
            kinds = [
                f"{name} ({spec.get('dtype') if isinstance(spec, dict) else spec})"
                for name, spec in signals.items()
            ]
            raise DataError(
                f"{self.path} has no numbers of a robot, only "
                f"{', '.join(kinds) or 'frames without features'}; positions and commands are "
                "needed (observation.state and action), cameras alone do not do."
            )
        folder = Path(str(self._info.get("data_path") or "data/")).parts[0]
        self._files = sorted((self.path / folder).rglob("*.parquet"))
        if not self._files:
            raise DataError(
                f"{self.path / folder} has no .parquet file; the data set was not copied whole."
            )

    @classmethod
    def matches(cls, path: Path) -> bool:
        """A folder with ``meta/info.json``."""
        try:
            return (path / "meta" / "info.json").is_file()
        except OSError:
            return False

    @property
    def size(self) -> int:
        """Bytes of the tables; videos are not read."""
        return sum(file.stat().st_size for file in self._files)

    @property
    def period(self) -> float | None:
        """One over the frames per second."""
        fps = self._info.get("fps")
        return 1 / fps if isinstance(fps, int | float) and fps > 0 else None

    @property
    def positions(self) -> tuple[str, ...]:
        """The numbers of ``observation.state``."""
        feature = self._features.get("observation.state")
        return tuple(_called("observation.state", feature)) if feature else ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The numbers of ``action``."""
        return (
            tuple(_called("action", feature)) if (feature := self._features.get("action")) else ()
        )

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...] | None:
        """The episodes that ``meta`` lists."""
        known = self._episodes()
        return (
            tuple(
                (_recording(i), {"episode": float(i), **facts})
                for i, (_, facts) in sorted(known.items())
            )
            or None
        )

    def columns(self) -> tuple[Column, ...]:
        """Every number of the frames."""
        frames = self._info.get("total_frames", "an unknown number of")
        columns = []
        for name, feature in self._features.items():
            words = f"{feature.dtype}, {frames} frames"
            columns += [Column(each, words) for each in _called(name, feature)]
        return tuple(columns)

    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The columns of episode after episode."""
        wanted = [self._wanted(name) for name in names]
        known = self._episodes()
        seen: dict[int, int] = {}
        now: int | None = None
        done = 0
        for path in self._files:
            for columns in self._tables(
                path, list(dict.fromkeys(feature for feature, _ in wanted))
            ):
                values = np.empty((len(columns["episode_index"]), len(names)))
                for i, (feature, index) in enumerate(wanted):
                    values[:, i] = columns[feature][:, index]
                time, episodes = (
                    _time(columns, self.period),
                    columns["episode_index"][:, 0].astype(np.int64),
                )
                edges = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(episodes))), len(episodes)]
                for first, last in pairwise(edges):
                    episode = int(episodes[first])
                    if episode != now and episode in seen:
                        raise DataError(
                            f"{path} goes back to episode {episode}, which had ended; copy the "
                            "set again."
                        )
                    self._check_length(known, seen, now, episode)
                    now = episode
                    seen[episode] = seen.get(episode, 0) + last - first
                    stream = Stream(
                        tuple(names), None if time is None else time[first:last], values[first:last]
                    )
                    facts = {"episode": float(episode), **known.get(episode, (0, {}))[1]}
                    yield Chunk(_recording(episode), (stream,), facts, done)
            done += path.stat().st_size
        self._check_length(known, seen, now, None)
        if missing := sorted(set(known) - set(seen)):
            raise DataError(
                f"{self.path} lacks {len(missing)} of its {len(known)} episodes (the first is "
                f"{missing[0]}): its files were not copied whole; copy them again."
            )

    def _wanted(self, name: str) -> tuple[str, int]:
        """The feature and the place in it of a column."""
        for feature, spec in self._features.items():
            if name == feature and spec.width == 1:
                return feature, 0
            if (
                name.startswith(f"{feature}[")
                and name.endswith("]")
                and name[len(feature) + 1 : -1] in spec.names
            ):
                return feature, spec.names.index(name[len(feature) + 1 : -1])
            index = name[len(feature) + 1 :]
            if name.startswith(f"{feature}:") and index.isdecimal() and int(index) < spec.width:
                return feature, int(index)
        have = [each for feature, spec in self._features.items() for each in _called(feature, spec)]
        raise DataError(f"{self.path} has no column {name!r}; it has {listing(have)}.")

    def _tables(
        self, path: Path, features: Sequence[str]
    ) -> Iterator[dict[str, Float[np.ndarray, "n _"]]]:
        """The columns of a file, some thousand frames at a time."""
        import pyarrow
        import pyarrow.parquet

        width = sum(self._features[name].width for name in features) + 3
        try:
            # without pre_buffer=False, what was read stays in memory until the file is closed
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
                present = set(file.schema_arrow.names)
                if missing := [
                    name for name in (*features, "episode_index") if name not in present
                ]:
                    raise DataError(
                        f"{path} lacks the columns {listing(missing)}; it has "
                        f"{listing(sorted(present))}."
                    )
                columns = [
                    *features,
                    *(c for c in ("timestamp", "frame_index", "episode_index") if c in present),
                ]
                for batch in file.iter_batches(
                    batch_size=max(1, CHUNK // 8 // width), columns=columns
                ):
                    yield {
                        name: _numbers(batch.column(name), self._width(name), f"{name!r} of {path}")
                        for name in columns
                    }
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(
                f"{path} cannot be read ({str(error).splitlines()[0]}); copy it again."
            ) from error

    def _width(self, name: str) -> int:
        return self._features[name].width if name in self._features else 1

    def _episodes(self) -> dict[int, tuple[int, dict[str, str | float]]]:
        """Frames and facts of each episode, as ``meta`` lists them; nothing where it does not."""
        rows: list[Mapping[str, Any]] = []
        try:
            for path in sorted((self.path / "meta" / "episodes").rglob("*.parquet")):
                import pyarrow.parquet

                names = pyarrow.parquet.read_schema(path).names
                have = [name for name in ("episode_index", "length", "tasks") if name in names]
                rows += pyarrow.parquet.read_table(path, columns=have).to_pylist()
            listed = self.path / "meta" / "episodes.jsonl"
            if listed.is_file():
                rows += [
                    json.loads(line) for line in listed.read_text().splitlines() if line.strip()
                ]
            return {int(row["episode_index"]): (int(row["length"]), _task(row)) for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"The episodes in {self.path / 'meta'} cannot be read ({error}); copy it again."
            ) from error

    def _check_length(
        self,
        known: Mapping[int, tuple[int, Mapping[str, str | float]]],
        seen: Mapping[int, int],
        before: int | None,
        now: int | None,
    ) -> None:
        """Refuses an episode that ended with another number of frames than ``meta`` says."""
        if (
            before is None
            or before == now
            or before not in known
            or known[before][0] == seen[before]
        ):
            return
        raise DataError(
            f"Episode {before} of {self.path} has {seen[before]} frames, its meta says "
            f"{known[before][0]}: the files were not copied whole; copy them again."
        )


def _feature(spec: Any) -> _Feature | None:
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
    fits = (
        isinstance(names, list) and len(names) == len(set(map(str, names))) == width and width > 1
    )
    return _Feature(dtype.name, width, tuple(map(str, names)) if fits and names else ())


def _recording(episode: int) -> str:
    return f"episode_{episode:06d}"


def _called(name: str, feature: _Feature) -> list[str]:
    if feature.width == 1:
        return [name]
    return [f"{name}[{each}]" for each in feature.names] or [
        f"{name}:{i}" for i in range(feature.width)
    ]


def _numbers(column: Any, width: int, where: str) -> Float[np.ndarray, "n w"]:
    """A column of numbers or of lists of numbers [frames, width]."""
    import pyarrow

    frames = len(column)
    if column.null_count:
        raise DataError(f"{where} has {column.null_count} empty entries; leave these episodes out.")
    while hasattr(column, "storage"):  # an extension type of the datasets library around lists
        column = column.storage
    while pyarrow.types.is_nested(column.type):
        column = column.flatten()
    if len(column) != frames * width or column.null_count:
        raise DataError(
            f"{where} has {len(column)} numbers in {frames} frames; {frames * width} were expected."
        )
    return column.to_numpy(zero_copy_only=False).astype(np.float64).reshape(frames, width)


def _time(
    columns: Mapping[str, Float[np.ndarray, "n _"]], period: float | None
) -> Float[np.ndarray, " n"] | None:
    """Time stamps [s].

    They are kept in single precision: where they are the frame's number times the period to that
    precision, that is what they mean.
    """
    if "timestamp" not in columns:
        return None
    time = columns["timestamp"][:, 0]
    if period is not None and "frame_index" in columns:
        exact = columns["frame_index"][:, 0] * period
        if np.all(np.abs(time - exact) <= 2.0**-23 * np.abs(exact)):
            return exact
    return time


def _task(row: Mapping[str, Any]) -> dict[str, str | float]:
    tasks = row.get("tasks")
    return {"task": "; ".join(map(str, tasks))} if isinstance(tasks, list) and tasks else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read ({error}); a LeRobot data set has its description there."
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no description of a LeRobot data set; copy it again.")
    return content
