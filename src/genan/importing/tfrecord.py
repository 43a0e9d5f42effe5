"""TFRecord files with episodes (RLDS) of TensorFlow Datasets, without TensorFlow.

A column is a number of the steps: ``observation/state:3``, ``action:0``, ``reward``. An episode is
a recording; where steps in its middle are marked as first or last, each stretch between the marks
is one: ``name#0``, ``name#1``, ...
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from genan import memory
from genan.errors import DataError, listing
from genan.importing.source import LogSource, RawRecording, check_names, damage, read_json

#: The lists of a ``tf.train.Example``, by name.
Features = dict[str, np.ndarray | list[bytes]]

#: Names of the data sets recorded on PAMY2, and their sampling period [s], which is not written in
#: them; the first four numbers of their state are the positions.
PAMY2, PERIOD = ("mpi_muscular_proprioception", "pamy2_dynamic_motions"), 1 / 500

#: Lists of numbers of a ``tf.train.Example``, and what these are; the other list is of bytes.
_NUMBERS = {"int64_list": np.int64, "float_list": np.float32}
#: Features of RLDS that have one number for each step, to count the steps by.
_PER_STEP = ("is_first", "is_last", "is_terminal", "discount", "reward")


def is_tfrecord(path: Path) -> bool:
    """By the name, or by the checksum of the first length."""
    if path.is_dir() or ".tfrecord" in path.name:
        return bool(_shards(path))
    with path.open("rb") as file:
        head = file.read(12)
    try:
        return len(head) == 12 and not _is_wrong(head[:8], head[8:])
    except ImportError:  # the library for checksums
        return False


def open_tfrecord(path: Path) -> LogSource:
    """A TFRecord file, or a folder of the shards of a data set."""
    files = _shards(path)
    if not files:
        raise DataError(f"{path} has no TFRecord file (*.tfrecord or *.tfrecord-00000-of-00008).")
    folder = files[0].parent
    widths = _step_widths(folder / "features.json")
    info = folder / "dataset_info.json"
    about = read_json(info).get("name", "") if info.is_file() else ""
    pamy2 = any(known in f"{files[0].absolute()} {about}" for known in PAMY2)
    start = next(chain.from_iterable(map(records, files)), None)
    if start is None:
        raise DataError(f"{path} has no records; nothing was recorded.")
    count, first = _columns(example_features(start[1], "Record 1"), widths, "Record 1")
    columns = {n: f"{x.dtype}, {count} steps in the first episode" for n, x in first.items()}

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        done, taken = 0, set[str]()
        for file in files:
            for number, data, end in records(file):
                where, name = f"Record {number} of {file.name}", f"{file.name}:{number}"
                found, facts = example_features(data, where), dict[str, str | float]()
                source = found.get("episode_metadata/file_path")
                if isinstance(source, list) and source and source[0]:
                    facts["file_path"] = source[0].decode("utf-8", "replace")
                    stem = PureWindowsPath(str(facts["file_path"])).stem
                    name = stem if stem not in taken else f"{stem}@{name}"
                taken.add(name)
                steps, known = _columns(found, widths, where, names)
                first, last = (known.get(x, np.zeros(steps)) != 0 for x in ("is_first", "is_last"))
                known |= {f"{key}:0": x for key, x in known.items() if ":" not in key}
                check_names(where, names, list(known))
                edges = [0, *(np.flatnonzero(first[1:] | last[:-1]) + 1).tolist(), steps]
                for k, (a, b) in enumerate(pairwise(edges)):
                    stretch = name if len(edges) == 2 else f"{name}#{k}"
                    own = {column: known[column][a:b] for column in names}
                    yield RawRecording.of(stretch, None, own, facts, done + end)
            done += file.stat().st_size

    commands = [name for name in columns if name.split(":")[0] == "action"]
    positions = [f"observation/state:{i}" for i in range(4)] if pamy2 else ()
    own = None, PERIOD if pamy2 else None, positions, commands
    return LogSource("tfrecord", path, files, columns, read, *own)


def _shards(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.is_file() else []
    found = (file for file in path.rglob("*.tfrecord*") if file.is_file())
    return sorted(file for file in found if re.search(r"\.tfrecord(-|$)", file.name))


def _columns(
    found: Features, widths: Mapping[str, int], where: str, names: Sequence[str] = ()
) -> tuple[int, dict[str, np.ndarray]]:
    """Number of steps, and columns [steps] (``reward``, ``action:0``); ``names``: wanted ones."""
    steps = {key[6:]: values for key, values in found.items() if key.startswith("steps/")}
    lists = {key: x for key, x in steps.items() if isinstance(x, np.ndarray) and len(x)}
    if not lists:
        only = f"it has no numbers in features 'steps/...', only {listing(sorted(found)[:20])}"
        raise DataError(f"{where} is no episode of RLDS: {only}.")
    counts = [len(lists[key]) for key in _PER_STEP if key in lists and widths.get(key, 1) == 1]
    counts += [len(lists[key]) // widths[key] for key in lists if key in widths]
    if not counts or not counts[0]:
        unknown = f"{where} does not say how many steps it has (no {listing(_PER_STEP)})"
        raise DataError(f"{unknown}; put the data set's features.json next to it.")
    columns, wanted = dict[str, np.ndarray](), {re.sub(r":\d+$", "", name) for name in names}
    for key, values in lists.items():
        width = widths.get(key, len(values) // counts[0])
        if width * counts[0] == len(values) and width <= memory.MOST_COLUMNS:
            own = [key] if width == 1 else [f"{key}:{k}" for k in range(width)]
            columns |= {name: values[k::width] for k, name in enumerate(own)}
        elif key in wanted and width <= memory.MOST_COLUMNS:
            has = f"{where} has {len(values)} numbers of {key!r} for {counts[0]} steps"
            raise DataError(f"{has}, not the same for each step.")
    return counts[0], columns


def records(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), data and end of each record, after its checksums were found right."""
    at, number, size = 0, 0, path.stat().st_size
    with path.open("rb") as file:
        while head := file.read(12):
            number += 1
            if number == 1 and head[:2] == b"\x1f\x8b":
                raise DataError(f"{path} is compressed with gzip; run: gunzip {path.name}.")
            wrong = "length" if len(head) == 12 and _is_wrong(head[:8], head[8:]) else ""
            length = int.from_bytes(head[:8], "little") if len(head) == 12 else size
            if not wrong and at + 16 + length > size:
                end = f"it ends at byte {size}, in record {number}, which begins at byte {at}"
                todo = f"copy it again, or keep the {number - 1} records before it"
                keep = f"head -c {at} {path.name} > whole.tfrecord"
                raise DataError(f"{path} is cut off: {end}; {todo}: {keep}")
            memory.take(3 * length, f"Record {number} of {path}", path)  # bytes, message, arrays
            data = b"" if wrong else file.read(length)
            if wrong or _is_wrong(data, file.read(4)):
                of = f"the {wrong or 'data'} of record {number} (from byte {at})"
                raise DataError(f"{path} is damaged: the checksum of {of} is wrong; copy it again.")
            at += 16 + length
            yield number, data, at


def _is_wrong(data: bytes, checksum: bytes) -> bool:
    """Whether a checksum of TFRecords (CRC-32C, turned and shifted) does not fit."""
    from google_crc32c import value as crc32c

    crc = crc32c(data)
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked) != checksum


@cache
def _example_class() -> Any:
    """``tf.train.Example`` as a class of the protobuf library."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    text = Path(__file__).with_name("example.textproto").read_text(encoding="utf-8")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tf.Example"))


def example_features(record: bytes, where: str) -> Features:
    """The lists of a ``tf.train.Example``, by name; ``where`` is for the refusal."""
    from google.protobuf.message import DecodeError

    with damage(f"{where} cannot be read: it is no tf.train.Example", "", DecodeError):
        entries = _example_class().FromString(record).features.feature
    found: Features = {}
    for entry in entries:
        kind = next(filter(entry.value.HasField, ("bytes_list", *_NUMBERS)), "float_list")
        values = getattr(entry.value, kind).value
        numbers = kind in _NUMBERS
        found[entry.key] = np.array(values, _NUMBERS[kind]) if numbers else list(values)
    return found


def _step_widths(path: Path) -> dict[str, int]:
    """Numbers of each step, by feature, from the ``features.json`` of the data set, if there."""
    found: dict[str, int] = {}

    def walk(node: Any, name: str) -> None:
        if inner := (node.get("featuresDict") or {}).get("features"):
            for key, value in inner.items():
                walk(value, f"{name}/{key}" if name else key)
        elif "sequence" in node:
            walk(node["sequence"].get("feature") or {}, name)
        elif "tensor" in node and name.startswith("steps/"):
            shape = (node["tensor"].get("shape") or {}).get("dimensions") or [1]
            found[name[6:]] = int(np.prod([int(size) for size in shape]))

    with damage(f"{path} is not as TensorFlow Datasets writes it"):
        walk(read_json(path) if path.is_file() else {}, "")
    return {name: width for name, width in found.items() if width > 0}
