"""TFRecord files, and the episodes (RLDS) that TensorFlow Datasets writes into them, without
TensorFlow.

A column is a number of the steps: ``observation/state:3``, ``action:0``, ``reward``. An episode is
a recording; where steps in its middle are marked as first or last, each stretch between the marks
is one: ``name#0``, ``name#1``, ...
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool

from genan.data.importing.source import Chunk, Column, Source, Stream
from genan.data.importing.tf_example import Feature, Record, features
from genan.data.importing.tfrecord_file import record_length, records
from genan.errors import DataError, listing

#: Names of the data sets recorded on PAMY2, and their sampling period [s], which is not written in
#: them.
PAMY2, PERIOD = ("mpi_muscular_proprioception", "pamy2_dynamic_motions"), 1 / 500

#: Numbers of a chunk [bytes], and marks of steps that are looked at together.
CHUNK, _BLOCK = 8 << 20, 1 << 20

#: Features of RLDS that have one number for each step, to count the steps by.
_PER_STEP = ("is_first", "is_last", "is_terminal", "discount", "reward")

_STEPS = "steps/"


@dataclass(frozen=True, eq=False)
class _Steps:
    """The numeric features of the steps of one episode."""

    count: int
    lists: dict[str, tuple[Feature, int]]
    """By name without ``steps/``: the list, and how many numbers each step has of it."""
    uneven: dict[str, int]
    """Lists that do not have the same number for each step: their lengths."""


class TFRecordSource(Source):
    """A TFRecord file, or a folder of the shards of a data set."""

    format: ClassVar[str] = "tfrecord"

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._files = _shards(self.path)
        if not self._files:
            raise DataError(
                f"{self.path} has no TFRecord file in it (*.tfrecord or *.tfrecord-00000-of-00008)."
            )
        self._shapes = _shapes(self._files[0].parent / "features.json")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the name, or by the checksum of the first length."""
        try:
            if path.is_dir():
                return bool(_shards(path))
            if ".tfrecord" in path.name:
                return path.is_file()
            with path.open("rb") as file:
                head = file.read(12)
            return len(head) == 12 and record_length(head) is not None
        except OSError:
            return False

    @property
    def size(self) -> int:
        """Bytes of all shards."""
        return sum(file.stat().st_size for file in self._files)

    @property
    def period(self) -> float | None:
        """Known for some data sets; RLDS does not write it down."""
        return PERIOD if self._pamy2 else None

    @property
    def _pamy2(self) -> bool:
        """Whether these are recordings of PAMY2, by the name of the data set."""
        names = [self._files[0].name, *(folder.name for folder in self._files[0].parents)]
        info = self._files[0].parent / "dataset_info.json"
        names.append(str(_json(info).get("name", "")) if info.is_file() else "")
        return any(known in name for known in PAMY2 for name in names)

    @property
    def positions(self) -> tuple[str, ...]:
        """Known for PAMY2's data sets: the first four numbers of the state."""
        return tuple(f"observation/state:{i}" for i in range(4)) if self._pamy2 else ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The numbers of ``action``."""
        return tuple(
            column.name for column in self.columns() if column.name.split(":")[0] == "action"
        )

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...] | None:
        """The stretches of all episodes."""
        found: list[tuple[str, Mapping[str, str | float]]] = []
        for _, record, where, recording, facts in self._episodes(check=False):
            pieces = int(_marks(record, self._steps(record, where)).sum())
            found += [(_piece(recording, k, pieces), facts) for k in range(pieces)]
        return tuple(found)

    def columns(self) -> tuple[Column, ...]:
        """Every number of the steps, from the first episode."""
        for path in self._files:
            for _, record in records(path, check=False):
                steps = self._steps(record, f"The first record of {path.name}")
                columns = []
                for name, (feature, width) in steps.lists.items():
                    words = f"{feature.kind}, {steps.count} steps in the first episode"
                    names = [name] if width == 1 else [f"{name}:{i}" for i in range(width)]
                    columns += [Column(each, words) for each in names]
                return tuple(columns)
        raise DataError(f"{self.path} has no records; nothing was recorded.")

    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The columns of episode after episode, each after its checksum was found right."""
        for done, record, where, recording, facts in self._episodes(check=True):
            yield from _episode(
                record, self._steps(record, where), names, recording, facts, where, done
            )

    def _episodes(
        self, *, check: bool
    ) -> Iterator[tuple[int, Record, str, str, dict[str, str | float]]]:
        """Bytes read, record, what to call it in a message, and the name and facts of each
        episode."""
        done, taken = 0, set[str]()
        for path in self._files:
            for number, record in records(path, check=check):
                where = f"Record {number} of {path.name}"
                recording, facts = _name(record, f"{path.name}:{number}", where)
                recording = (
                    recording if recording not in taken else f"{recording}@{path.name}:{number}"
                )
                taken.add(recording)
                yield done + record.end, record, where, recording, facts
            done += path.stat().st_size
        if not taken:
            raise DataError(f"{self.path} has no records; nothing was recorded.")

    def _steps(self, record: Record, where: str) -> _Steps:
        """The lists of an episode, and how many numbers of each belong to a step."""
        found = _features(record, where)
        steps = {
            name[len(_STEPS) :]: feature
            for name, feature in found.items()
            if name.startswith(_STEPS)
        }
        if not steps:
            raise DataError(
                f"{where} is no episode of RLDS: it has no features 'steps/...', only "
                f"{listing(sorted(found)[:20])}; write one Example for each episode, as "
                "TensorFlow Datasets does."
            )
        counts = {name: f.count(record) for name, f in steps.items() if f.kind in ("float", "int")}
        counts = {name: count for name, count in counts.items() if count}
        if not counts:
            raise DataError(f"{where} has no numbers in its steps, only {listing(sorted(steps))}.")
        known = {name: self._shapes[name] for name in counts if self._shapes.get(name)}
        total = next(
            (counts[name] for name in _PER_STEP if name in counts and known.get(name, 1) == 1), None
        )
        if total is None and known:
            name = next(iter(known))
            total = counts[name] // known[name]
        if not total:
            raise DataError(
                f"{where} does not say how many steps it has (no {listing(_PER_STEP)}); put the "
                "data set's features.json beside it."
            )
        widths = {name: known.get(name, count // total) for name, count in counts.items()}
        uneven = {name: count for name, count in counts.items() if widths[name] * total != count}
        return _Steps(
            total,
            {name: (steps[name], widths[name]) for name in counts if name not in uneven},
            uneven,
        )


def _episode(
    record: Record,
    steps: _Steps,
    names: Sequence[str],
    recording: str,
    facts: dict[str, str | float],
    where: str,
    done: int,
) -> Iterator[Chunk]:
    """The columns of one episode."""
    wanted = [_wanted(name, steps, where) for name in names]
    lists = {name: steps.lists[name] for name, _ in wanted}
    rows = max(1, CHUNK // 8 // max(1, sum(width for _, width in lists.values()), len(names)))
    marks = _marks(record, steps)
    starts = np.flatnonzero(marks)
    columns = {
        name: feature.values(record, rows * width) for name, (feature, width) in lists.items()
    }
    for first in range(0, steps.count, rows):
        last = min(first + rows, steps.count)
        data = {
            name: next(values).reshape(last - first, lists[name][1])
            for name, values in columns.items()
        }
        block = np.empty((last - first, len(names)))
        for i, (name, index) in enumerate(wanted):
            block[:, i] = data[name][:, index]
        piece = int(np.searchsorted(starts, first, side="right")) - 1
        edges = [first, *(int(s) for s in starts if first < s < last), last]
        for k, (begin, end) in enumerate(pairwise(edges)):
            name = _piece(recording, piece + k, len(starts))
            yield Chunk(
                name, (Stream(tuple(names), None, block[begin - first : end - first]),), facts, done
            )


def _marks(record: Record, steps: _Steps) -> Bool[np.ndarray, " steps"]:
    """The steps at which a stretch begins: those marked as first, and those after one marked as
    last."""
    marks = np.zeros(steps.count, bool)
    marks[0] = True
    for name, shift in (("is_first", 0), ("is_last", 1)):
        if name in steps.lists and steps.lists[name][1] == 1:
            flags = np.concatenate(list(steps.lists[name][0].values(record, _BLOCK))) != 0
            marks[shift:] |= flags[: steps.count - shift]
    return marks


def _wanted(name: str, steps: _Steps, where: str) -> tuple[str, int]:
    """The list and the place in it of a column."""
    stem, colon, index = name.rpartition(":")
    if colon and index.isdecimal() and stem in steps.lists and int(index) < steps.lists[stem][1]:
        return stem, int(index)
    if name in steps.lists and steps.lists[name][1] == 1:
        return name, 0
    if (key := stem if colon else name) in steps.uneven:
        raise DataError(
            f"{where} has {steps.uneven[key]} numbers of {key!r} for {steps.count} steps, not the "
            "same for each step."
        )
    have = [
        key if width == 1 else f"{key}:0 to {key}:{width - 1}"
        for key, (_, width) in steps.lists.items()
    ]
    raise DataError(f"{where} has no column {name!r}; it has {', '.join(have)}.")


def _features(record: Record, where: str) -> dict[str, Feature]:
    try:
        return features(record)
    except DataError as error:
        raise DataError(f"{where} cannot be read: {error}.") from error


def _piece(recording: str, k: int, pieces: int) -> str:
    """Name of the k-th stretch of an episode."""
    return recording if pieces == 1 else f"{recording}#{k}"


def _name(record: Record, default: str, where: str) -> tuple[str, dict[str, str | float]]:
    """What to call an episode: as the file it was made from, where it says."""
    feature = _features(record, where).get("episode_metadata/file_path")
    texts = feature.texts(record) if feature else []
    text = texts[0].decode("utf-8", "replace") if texts else ""
    return (PureWindowsPath(text).stem, {"file_path": text}) if text else (default, {})


def _shards(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.is_file() else []
    return sorted(
        file
        for file in path.rglob("*.tfrecord*")
        if file.is_file() and re.search(r"\.tfrecord(-|$)", file.name)
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise DataError(
            f"{path} cannot be read ({error}); copy it again, or take it away."
        ) from error
    return content if isinstance(content, dict) else {}


def _shapes(path: Path) -> dict[str, int]:
    """Numbers of each step, by feature, as the data set's ``features.json`` says; nothing where
    there is none."""
    found: dict[str, int] = {}

    def walk(node: Any, name: str) -> None:
        if not isinstance(node, dict):
            return
        inner = (node.get("featuresDict") or {}).get("features")
        if isinstance(inner, dict):
            for key, value in inner.items():
                walk(value, f"{name}/{key}" if name else key)
        elif isinstance(node.get("sequence"), dict):
            walk(node["sequence"].get("feature"), name)
        elif isinstance(node.get("tensor"), dict):
            dimensions = (node["tensor"].get("shape") or {}).get("dimensions") or []
            width = int(np.prod([int(d) for d in dimensions])) if dimensions else 1
            if name.startswith(_STEPS) and width > 0:
                found[name[len(_STEPS) :]] = width

    if path.is_file():
        try:
            walk(_json(path), "")
        except (TypeError, ValueError) as error:
            raise DataError(f"{path} is not as TensorFlow Datasets writes it ({error}).") from error
    return found
