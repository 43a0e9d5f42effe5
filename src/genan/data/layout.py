"""The HDF5 layout of a recording: what is where in the file, reading it with suspicion, writing it
the same every time.

See ``docs/data-format.md``. A finished file holds no time stamps and is written by one fixed
sequence of operations: the same content is the same bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Int

from genan.data.channels import Channels
from genan.data.checks import counted, provenance_text
from genan.data.disk import new_file, publish, reason
from genan.data.names import checked_names, own_names
from genan.errors import DataError, listing

FORMAT = "genan-trajectories"
VERSION = 1

#: Group of what only a virtual robot knows. Nothing that learns may read it.
TRUTH = "truth_for_evaluation_only"

#: Rows of one compressed piece: small enough to read single trajectories, large enough to compress.
CHUNK_ROWS = 1024
#: Rows copied at a time, so that memory stays small.
BLOCK_ROWS = 64 * CHUNK_ROWS
#: Longest provenance [bytes]; HDF5 keeps an attribute under 64 KiB.
PROVENANCE_BYTES = 60_000


@dataclass(frozen=True, eq=False)
class Summary:
    """What a file says about itself, without reading its samples."""

    path: Path
    channels: Channels
    provenance: Mapping[str, Any]
    lengths: Int[np.ndarray, " N"]
    """Samples of each trajectory."""
    truth: Mapping[str, int]
    """Name and number of columns of each dataset that is for evaluation only."""
    unfinished: bool
    """Whether the recording is going on or was interrupted."""
    recordings: tuple[str, ...]
    """Name of the recording that each trajectory is a piece of [N]."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def samples(self) -> int:
        """Samples of all trajectories together."""
        return int(self.lengths.sum())


def partial_path(path: Path) -> Path:
    """Where a recording that will become ``path`` is kept while it is going on."""
    return path.with_name(path.name + ".partial")


@contextmanager
def open_to_read(path: Path) -> Iterator[h5py.File]:
    """Open a recording, finished or not; what HDF5 cannot read becomes a ``DataError``."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the recording's file.")
    if not path.exists():
        raise DataError(f"There is no file {path}{_partial_hint(path)}.")
    try:
        if not h5py.is_hdf5(path):
            with path.open(
                "rb"
            ):  # tells a file that may not be read from one that is something else
                pass
            raise DataError(
                f"{path} is not an HDF5 file, or its beginning is damaged; give a recording made by genan."
            )
        file = _open(path)
    except OSError as error:
        if "truncated" in str(error):
            raise DataError(
                f"{path} is cut short: its end is missing ({path.stat().st_size} bytes are left); copy it again from "
                "its source."
            ) from None
        raise DataError(f"{path} cannot be read: {reason(error)}.") from None
    try:
        yield file
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{path} is damaged: {reason(error)}; copy it again from its source."
        ) from None
    finally:
        file.close()


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError:
        try:  # a recording that is going on, or whose process was killed, opens in this mode only
            return h5py.File(path, "r", swmr=True)
        except (OSError, ValueError):
            pass
        raise


def _partial_hint(path: Path) -> str:
    partial = partial_path(path)
    if not partial.is_file():
        return ""
    try:
        held = counted(len(read_summary(partial)))
    except DataError:
        held = "some trajectories"
    return (
        f", but {partial} holds {held} of an unfinished recording: run the command that made it again "
        "to go on, or read that file as it is"
    )


def read_summary(path: Path) -> Summary:
    """Read and check everything but the samples."""
    with open_to_read(path) as file:
        return summarise(file, path)


def summarise(file: h5py.File, path: Path) -> Summary:
    """``Summary`` of an open file; every fault is named."""
    if _text(file.attrs.get("format")) != FORMAT:
        raise DataError(
            f"{path} is an HDF5 file but not a recording of genan: its attribute 'format' should be {FORMAT!r} and is "
            f"{_text(file.attrs.get('format'))!r} (it holds {listing(sorted(file))})."
        )
    version = _attribute(file, path, "version")
    if (
        not np.issubdtype(np.asarray(version).dtype, np.integer)
        or np.ndim(version)
        or version > VERSION
    ):
        raise DataError(
            f"{path} has format version {version} and this genan reads up to version {VERSION}; use a newer genan."
        )
    try:
        channels = Channels(
            dt=float(_attribute(file, path, "dt")),
            joints=_texts(_attribute(file, path, "joints")),
            controls=_texts(_attribute(file, path, "controls")),
            control_range=_attribute(file, path, "control_range"),
            joint_units=_texts(_attribute(file, path, "joint_units")),
            control_units=_texts(_attribute(file, path, "control_units")),
        )
        provenance = json.loads(_text(file.attrs.get("provenance", "{}")) or "")
        if not isinstance(provenance, dict):
            raise DataError("its provenance must be a JSON table.")
    except (DataError, ValueError, TypeError) as error:
        raise DataError(f"{path} describes itself wrongly: {error}") from None
    unfinished = bool(file.attrs.get("unfinished", False))
    cuts = _dataset(file, path, "length", 1, kinds="iu")
    if unfinished and len(cuts):
        _refuse_cut(cuts, len(cuts), path)
    lengths = cuts[:].astype(np.int64)
    rows = int(lengths.sum())
    truth = {
        name: _dataset(file, path, f"{TRUTH}/{name}", 2).shape[1] for name in file.get(TRUTH, ())
    }
    columns = {
        "q": channels.nq,
        "u": channels.nu,
        **{f"{TRUTH}/{name}": width for name, width in truth.items()},
    }
    for name, width in columns.items():
        dataset = _dataset(file, path, name, 2)
        there = dataset.shape
        # Rows beyond the last whole trajectory are one that was being written when the recording
        # stopped.
        if (
            there[1] != width
            or there[0] < rows
            or (there[0] > rows and not unfinished)
            or lengths.min(initial=1) < 1
        ):
            raise DataError(
                f"{path}: the dataset {name!r} should be [{rows}, {width}], the lengths of {counted(len(lengths))} "
                f"by the channels, and is {list(there)}."
            )
        if unfinished and rows:
            _refuse_cut(dataset, rows, path)
    names = _recordings(file, path, len(lengths), unfinished)
    return Summary(path, channels, provenance, lengths, truth, unfinished, names)


def describe(file: h5py.File, channels: Channels, provenance: Mapping[str, Any]) -> None:
    """Write the attributes that say what the file holds."""
    text = provenance_text(provenance)
    if len(text.encode()) > PROVENANCE_BYTES:
        raise DataError(
            f"The provenance is {len(text.encode())} bytes long and a file holds {PROVENANCE_BYTES}; keep large tables "
            "elsewhere."
        )
    file.attrs["format"] = np.bytes_(FORMAT)
    file.attrs["version"] = np.int64(VERSION)
    file.attrs["dt"] = np.float64(channels.dt)
    for name in ("joints", "joint_units", "controls", "control_units"):
        # Texts of fixed length: those of variable length lie in a heap whose bytes are not always
        # the same.
        encoded = [entry.encode() for entry in getattr(channels, name)]
        kind = h5py.string_dtype("utf-8", max(len(entry) for entry in encoded))
        file.attrs[name] = np.array(encoded, dtype=kind)
    file.attrs["control_range"] = channels.control_range.astype("<f8")
    file.attrs["provenance"] = np.array(
        text.encode(), dtype=h5py.string_dtype("utf-8", len(text.encode()))
    )


def write_finished(
    path: Path,
    channels: Channels,
    provenance: Mapping[str, Any],
    lengths: Int[np.ndarray, " N"],
    columns: Mapping[str, Any],
    recordings: Sequence[str] = (),
) -> None:
    """Write a whole finished file at once: under a temporary name, onto the disk, then to ``path``
    in one step.

    Args:
        path: the file's name.
        channels: what the columns mean.
        provenance: where the content comes from.
        lengths: samples of each trajectory [N].
        columns: by dataset name, anything [rows or more, columns] that can be sliced (an array or
            an HDF5 dataset).
        recordings: name of the recording of each trajectory [N]; left out: each is its own.
    """
    rows = int(lengths.sum())
    temporary = path.with_name(path.name + ".writing")
    # Kept to the end: a dataset that is let go while the disk is full takes the process down.
    written: list[h5py.Dataset] = []
    with new_file(temporary) as file:
        describe(file, channels, provenance)
        for name, source in columns.items():
            target = file.create_dataset(
                name,
                shape=(rows, source.shape[1]),
                dtype="<f8",
                chunks=(min(CHUNK_ROWS, rows), source.shape[1]),
                compression="gzip",
                compression_opts=1,
                shuffle=True,
                fletcher32=True,
                track_times=False,
            )
            written.append(target)
            for start in range(0, rows, BLOCK_ROWS):
                stop = min(start + BLOCK_ROWS, rows)
                target[start:stop] = source[start:stop]
        written += write_lengths(file, lengths, recordings)
    publish(temporary, path)


def write_lengths(
    file: h5py.File, lengths: Int[np.ndarray, " N"], recordings: Sequence[str]
) -> list[h5py.Dataset]:
    """Write what cuts the rows into trajectories, and which recording each is of where they are not
    all their own."""
    written = [file.create_dataset("length", data=lengths.astype("<i8"), track_times=False)]
    if tuple(recordings) not in ((), own_names(len(lengths))):
        encoded = [name.encode() for name in recordings]
        kind = h5py.string_dtype("utf-8", max(map(len, encoded)))  # fixed length: see ``describe``
        written += [
            file.create_dataset("recording", data=np.array(encoded, dtype=kind), track_times=False)
        ]
    return written


def _recordings(file: h5py.File, path: Path, count: int, unfinished: bool) -> tuple[str, ...]:
    if "recording" not in file:
        return own_names(count)
    dataset = file["recording"]
    if (
        not isinstance(dataset, h5py.Dataset)
        or h5py.check_string_dtype(dataset.dtype) is None
        or dataset.ndim != 1
    ):
        raise DataError(
            f"{path}: the dataset 'recording' should be a list of names, one for each trajectory."
        )
    names = _texts(dataset[:count] if unfinished else dataset[:]) if len(dataset) else ()
    if unfinished:  # names may be missing where the recorder was not given any
        names = tuple(name or str(number) for number, name in enumerate(names))
        names += own_names(count)[len(names) :]
    try:
        return checked_names(names, count)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _attribute(file: h5py.File, path: Path, name: str) -> Any:
    if name not in file.attrs:
        raise DataError(
            f"{path} lacks the attribute {name!r}; see docs/data-format.md for what a recording holds."
        )
    return file.attrs[name]


def _refuse_cut(dataset: h5py.Dataset, rows: int, path: Path) -> None:
    """HDF5 reads zeros beyond the end of an unfinished file; refuse one whose last counted rows are
    not there."""
    last = dataset.id.get_chunk_info_by_coord((rows - 1, 0)[: dataset.ndim])
    if last.byte_offset is None or last.byte_offset + last.size > path.stat().st_size:
        raise DataError(
            f"{path} is cut short: the end of {dataset.name!r} is missing; copy it again from its source."
        )


def _dataset(file: h5py.File, path: Path, name: str, ndim: int, *, kinds: str = "iuf") -> Any:
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        raise DataError(f"{path} lacks the dataset {name!r}; it holds {listing(sorted(file))}.")
    if dataset.ndim != ndim or dataset.dtype.kind not in kinds:
        raise DataError(
            f"{path}: the dataset {name!r} should be numbers with {ndim} dimensions and is {dataset.dtype} "
            f"{list(dataset.shape)}."
        )
    return dataset


def _text(value: Any) -> str | None:
    if isinstance(value, bytes | np.bytes_):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(value) or "" for value in np.atleast_1d(values))
