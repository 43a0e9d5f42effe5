"""TFRecord files, and the episodes (RLDS) that TensorFlow Datasets writes into them, without
TensorFlow.

A column is a number of the steps: ``observation/state:3``, ``action:0``, ``reward``. An episode is
a recording; where steps in its middle are marked as first or last, each stretch between the marks
is one: ``name#0``, ``name#1``, ...
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from genan.errors import DataError, listing
from genan.importing.source import Column, Facts, RawRecording, Source, Stream, needs

#: Names of the data sets recorded on PAMY2, and their sampling period [s], which is not written in
#: them.
PAMY2, PERIOD = ("mpi_muscular_proprioception", "pamy2_dynamic_motions"), 1 / 500

#: Features of RLDS that have one number for each step, to count the steps by.
_PER_STEP = ("is_first", "is_last", "is_terminal", "discount", "reward")
_STEPS = "steps/"

#: Definition of ``tf.train.Example``, as far as it is needed here.
_EXAMPLE = """
name: "genan/example.proto" package: "genan" syntax: "proto3"
message_type { name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature"
  field { name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: ".genan.BytesList" }
  field { name: "float_list" number: 2 type: TYPE_MESSAGE type_name: ".genan.FloatList" }
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".genan.Int64List" } }
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
    type_name: ".genan.Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
      type_name: ".genan.Feature" } } }
message_type { name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".genan.Features" } }
"""

ExampleFeatures = dict[str, np.ndarray | list[bytes]]
"""The lists of a ``tf.train.Example``: float32, int64 or bytes."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One record: the numbers of its steps."""

    name: str
    facts: Facts
    where: str
    """For messages."""
    done: int
    """Bytes of the data set up to its end."""
    count: int
    """Steps."""
    numbers: Mapping[str, np.ndarray]
    """[count, width] by name without ``steps/``."""
    uneven: Mapping[str, int]
    """Lists that do not have the same number for each step: their lengths."""

    @cached_property
    def pieces(self) -> list[tuple[str, int, int]]:
        """Name, first step and end of each stretch; one begins where a step is marked as first, and
        after one that is marked as last."""
        marks = np.zeros(self.count, bool)
        for name, shift in (("is_first", 0), ("is_last", 1)):
            if name in self.numbers:
                marks[shift:] |= self.numbers[name][: self.count - shift, 0] != 0
        edges = [0, *(np.flatnonzero(marks[1:]) + 1).tolist(), self.count]
        names = [self.name] if len(edges) == 2 else [f"{self.name}#{k}" for k in range(len(edges))]
        return [(name, a, b) for name, (a, b) in zip(names, pairwise(edges), strict=False)]

    def column(self, name: str) -> np.ndarray:
        """The steps of a column."""
        stem, colon, index = name.rpartition(":")
        if colon and index.isdecimal() and int(index) < self._width(stem):
            return self.numbers[stem][:, int(index)]
        if self._width(name) == 1:
            return self.numbers[name][:, 0]
        if (key := stem if colon else name) in self.uneven:
            raise DataError(
                f"{self.where} has {self.uneven[key]} numbers of {key!r} for {self.count} steps, not "
                "the same for each step."
            )
        have = [
            key if values.shape[1] == 1 else f"{key}:0 to {key}:{values.shape[1] - 1}"
            for key, values in self.numbers.items()
        ]
        raise DataError(f"{self.where} has no column {name!r}; it has {', '.join(have)}.")

    def _width(self, name: str) -> int:
        return self.numbers[name].shape[1] if name in self.numbers else 0


class TFRecordSource(Source):
    """A TFRecord file, or a folder of the shards of a data set."""

    format = "tfrecord"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.files = _shards(self.path)
        if not self.files:
            raise DataError(
                f"{path} has no TFRecord file in it (*.tfrecord or *.tfrecord-00000-of-00008)."
            )
        self._widths = _step_widths(self.files[0].parent / "features.json")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the name, or by the checksum of the first length."""
        if path.is_dir() or not path.is_file() or ".tfrecord" in path.name:
            return bool(_shards(path))
        with path.open("rb") as file:
            head = file.read(12)
        try:
            return len(head) == 12 and not _is_wrong(head[:8], head[8:])
        except DataError:  # the library for checksums is not installed
            return False

    @cached_property
    def _pamy2(self) -> bool:
        """Whether these are recordings of PAMY2, by the name of the data set."""
        names = [self.files[0].name, *(folder.name for folder in self.files[0].parents)]
        info = self.files[0].parent / "dataset_info.json"
        names.append(str(_json(info).get("name", "")) if info.is_file() else "")
        return any(known in name for known in PAMY2 for name in names)

    @property
    def period(self) -> float | None:
        """Known for some data sets; RLDS does not write it down."""
        return PERIOD if self._pamy2 else None

    @property
    def positions(self) -> tuple[str, ...]:
        """Known for PAMY2's data sets: the first four numbers of the state."""
        return tuple(f"observation/state:{i}" for i in range(4)) if self._pamy2 else ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The numbers of ``action``."""
        return tuple(c.name for c in self.columns() if c.name.split(":")[0] == "action")

    def recordings(self) -> tuple[tuple[str, Facts], ...]:
        """The stretches of all episodes."""
        return tuple(
            (name, episode.facts) for episode in self._episodes() for name, _, _ in episode.pieces
        )

    def columns(self) -> tuple[Column, ...]:
        """Every number of the steps, from the first episode."""
        columns = []
        first = next(self._episodes())
        for name, values in first.numbers.items():
            words = f"{values.dtype}, {first.count} steps in the first episode"
            width = values.shape[1]
            names = [name] if width == 1 else [f"{name}:{i}" for i in range(width)]
            columns += [Column(each, words) for each in names]
        return tuple(columns)

    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        """The columns of episode after episode."""
        for episode in self._episodes():
            columns = [episode.column(name).astype(np.float64) for name in names]
            values = np.stack(columns, axis=1)
            for name, first, last in episode.pieces:
                stream = Stream(tuple(names), None, values[first:last])
                yield RawRecording(name, (stream,), episode.facts, episode.done)

    def _episodes(self) -> Iterator[Episode]:
        """The episodes, each after its checksum was found right."""
        done, taken = 0, set[str]()
        for path in self.files:
            for number, data, end in records(path):
                where, name = f"Record {number} of {path.name}", f"{path.name}:{number}"
                found = example_features(data, where)
                made_from, facts = found.get("episode_metadata/file_path"), dict[str, str | float]()
                if isinstance(made_from, list) and made_from and made_from[0]:
                    facts["file_path"] = made_from[0].decode("utf-8", "replace")
                    stem = PureWindowsPath(str(facts["file_path"])).stem
                    name = stem if stem not in taken else f"{stem}@{name}"
                taken.add(name)
                yield Episode(name, facts, where, done + end, *self._steps(found, where))
            done += path.stat().st_size
        if not taken:
            raise DataError(f"{self.path} has no records; nothing was recorded.")

    def _steps(
        self, found: ExampleFeatures, where: str
    ) -> tuple[int, dict[str, np.ndarray], dict[str, int]]:
        """How many steps there are, the numbers of each, and the lists that are uneven."""
        steps = {
            name.removeprefix(_STEPS): values
            for name, values in found.items()
            if name.startswith(_STEPS)
        }
        if not steps:
            raise DataError(
                f"{where} is no episode of RLDS: it has no features 'steps/...', only "
                f"{listing(sorted(found)[:20])}; write one Example for each episode, as TensorFlow "
                "Datasets does."
            )
        lists = {n: x for n, x in steps.items() if isinstance(x, np.ndarray) and len(x)}
        if not lists:
            raise DataError(f"{where} has no numbers in its steps, only {listing(sorted(steps))}.")
        known = {name: self._widths[name] for name in lists if name in self._widths}
        counted = [len(lists[n]) for n in _PER_STEP if n in lists and known.get(n, 1) == 1]
        counted += [len(lists[name]) // width for name, width in known.items()]
        if not counted or not counted[0]:
            raise DataError(
                f"{where} does not say how many steps it has (no {listing(_PER_STEP)}); put the data "
                "set's features.json next to it."
            )
        total = counted[0]
        uneven = {
            name: len(x)
            for name, x in lists.items()
            if known.get(name, len(x) // total) * total != len(x)
        }
        numbers = {n: x.reshape(total, -1) for n, x in lists.items() if n not in uneven}
        return total, numbers, uneven


def _is_wrong(data: bytes, checksum: bytes) -> bool:
    """Whether a checksum of TFRecords (CRC-32C, turned and shifted) does not fit."""
    try:
        from google_crc32c import value as crc32c
    except ModuleNotFoundError:
        raise needs("google-crc32c", "TFRecord files") from None
    crc = crc32c(data)
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked) != checksum


def records(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), data and end of each record, after its checksums were found right."""
    at, number, size = 0, 0, path.stat().st_size
    with path.open("rb") as file:
        while head := file.read(12):
            number += 1
            if number == 1 and head[:2] == b"\x1f\x8b":
                raise DataError(
                    f"{path} is compressed with gzip; unpack it first: gunzip {path.name}."
                )
            end = size + 1
            wrong, data = "length", b""
            if len(head) < 12 or not _is_wrong(head[:8], head[8:]):
                end = at + 16 + int.from_bytes(head[:8], "little") if len(head) == 12 else end
                if end > size:
                    raise DataError(
                        f"{path} is cut off: it ends at byte {size}, in the middle of record "
                        f"{number}, which begins at byte {at}; {number - 1} whole records are before "
                        f"it. Copy it again, or keep these alone: head -c {at} {path.name} > "
                        "whole.tfrecord"
                    )
                data = file.read(end - at - 16)
                wrong = "data" if _is_wrong(data, file.read(4)) else ""
            if wrong:
                raise DataError(
                    f"{path} is damaged: the checksum of the {wrong} of record {number} (from byte "
                    f"{at}) is wrong; copy it again."
                )
            at = end
            yield number, data, at


@cache
def _example_class() -> Any:
    """``tf.train.Example`` as a class of the protobuf library."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
    except ModuleNotFoundError:
        raise needs("protobuf", "TFRecord files") from None
    file = text_format.Parse(_EXAMPLE, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("genan.Example"))


def example_features(record: bytes, where: str) -> ExampleFeatures:
    """The lists of a ``tf.train.Example``, by name; ``where`` is for the refusal."""
    example, found = _example_class(), dict[str, np.ndarray | list[bytes]]()
    from google.protobuf.message import DecodeError

    try:
        features = example.FromString(record).features.feature
    except DecodeError as error:
        raise DataError(f"{where} cannot be read: it is no tf.train.Example ({error}).") from None
    for name, feature in features.items():
        if feature.HasField("bytes_list"):
            found[name] = list(feature.bytes_list.value)
        elif feature.HasField("int64_list"):
            found[name] = np.array(feature.int64_list.value, np.int64)
        else:
            found[name] = np.array(feature.float_list.value, np.float32)
    return found


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
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError, OSError) as error:
        raise DataError(f"{path} cannot be read ({error}); copy it again, or remove it.") from None


def _step_widths(path: Path) -> dict[str, int]:
    """Numbers of each step, by feature, from the ``features.json`` of the data set, if there."""
    found: dict[str, int] = {}

    def walk(node: Any, name: str) -> None:
        inner = (node.get("featuresDict") or {}).get("features")
        if inner:
            for key, value in inner.items():
                walk(value, f"{name}/{key}" if name else key)
        elif "sequence" in node:
            walk(node["sequence"].get("feature") or {}, name)
        elif "tensor" in node and name.startswith(_STEPS):
            shape = (node["tensor"].get("shape") or {}).get("dimensions") or [1]
            found[name.removeprefix(_STEPS)] = int(np.prod([int(size) for size in shape]))

    if path.is_file():
        try:
            walk(_json(path), "")
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is not as TensorFlow Datasets writes it ({error}).") from None
    return {name: width for name, width in found.items() if width > 0}
