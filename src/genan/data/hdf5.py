"""Recordings on disk, in HDF5: what is where in the file, reading it with suspicion, writing it the
same every time (``docs/data-format.md``).

A finished file holds no time stamps and is written by one fixed sequence of operations: the same
content is the same bytes.
"""

import ctypes
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float

from genan import memory
from genan.data import trajectories
from genan.data.trajectories import Channels, Indices, Lengths, Table, Trajectories, counted
from genan.errors import DataError, listing, refuse
from genan.files import Place

FORMAT, VERSION = "genan-trajectories", 1
TRUTH = "truth_for_evaluation_only"  # What only a virtual robot knows. Nothing may learn from it.
#: Rows of one compressed chunk: few enough to read single trajectories, enough to compress well.
CHUNK_ROWS = 1024
BLOCK_ROWS = 64 * CHUNK_ROWS  # Rows copied at a time, so that memory stays small.
MOST_ENTRIES = 1000  # Of an attribute: a name each of them, however often the file says the same.
OBJECTS = 200  # Bytes that Python takes for the length and name of a trajectory.
READ_ATTEMPTS = 27  # Of an unfinished file: 0.1 s of waiting, where a writer needs microseconds.
PROVENANCE_BYTES = 60_000  # Longest provenance; HDF5 keeps an attribute under 64 KiB.
#: Time stamps may deviate from dt by this fraction of it; the median of an unsteady clock by this.
TIME_TOLERANCE, UNSTEADY_TOLERANCE = 0.01, 0.05


Arrays = Mapping[str, np.ndarray]  # By name, each [rows, columns].
Stamps = Float[np.ndarray, "_"]  # Of the samples of one trajectory [s].

#: Descriptors of the locks this process holds; a forked worker must not keep them alive.
_held: set[int] = set()


def _close_in_child() -> None:
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_close_in_child)


class Lock:
    """Exclusive right to write ``path``, by a lock file; it ends with the process."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        """Make the folder and take the lock; refuse where a file is there, or another's lock."""
        refuse_existing(path, overwrite=overwrite)
        make_folder(path.parent)
        self._path = path.with_name(path.name + ".lock")
        while True:
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._descriptor)
                busy = f"Another process is recording into {path} at this moment"
                raise DataError(f"{busy}; wait for it or choose another file name.") from None
            except OSError:
                pass  # a file system without locks: going on is better than not recording at all
            with suppress(FileNotFoundError):
                if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                    break
            os.close(self._descriptor)  # its last holder removed the file in the meantime
        _held.add(self._descriptor)
        if path.exists() and not overwrite:  # its last holder finished in the meantime
            self.close()
            refuse_existing(path)

    def close(self) -> None:
        """Give the lock back and remove its file; a second call does nothing."""
        if self._descriptor in _held:
            self._path.unlink(missing_ok=True)
            _held.discard(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1  # its number may become that of another lock


def reason(error: Exception) -> str:
    """What went wrong with a file, in a few words taken from an operating-system or HDF5 error."""
    text = " ".join(str(error).split())
    if system := re.search(r"error message = '([^']+)'", text):
        text = system.group(1)
    elif isinstance(error, OSError) and error.strerror and not text.startswith("["):
        text = error.strerror
    if "No space left" in text:
        return "the disk is full"
    return "a checksum does not fit the samples" if "filter returned" in text else text


@contextmanager
def refuse_unwritable(path: Path) -> Iterator[None]:
    """A fault of the disk in this block becomes a ``DataError``."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        fault = f"{path} could not be written: {reason(error)}"
        raise DataError(f"{fault}; nothing was left behind.") from None


def abandon(file: h5py.File) -> None:
    """Close a file whose disk refuses to be written, leaving what is on the disk as it is. HDF5
    tries again to write what it holds when it closes, fails again, and takes the process down at
    exit. So its descriptor is pointed at a scratch file first, in memory where the system has such.
    Dataset objects of the file must still be alive at this moment."""
    memory = getattr(os, "memfd_create", None)
    with (
        suppress(OSError, RuntimeError, ValueError),
        os.fdopen(memory("genan")) if memory else tempfile.TemporaryFile() as scratch,
    ):
        os.dup2(scratch.fileno(), file.id.get_vfd_handle(), inheritable=False)
    with suppress(OSError, RuntimeError, ValueError):
        file.close()


@contextmanager
def new_file(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file to fill. It gets its name ``path`` in one step once it is whole and on the disk,
    never half of it; nothing is left when filling it fails."""
    temporary = path.with_name(path.name + ".writing")
    file = h5py.File(temporary, "w", libver=("earliest", "v110"))
    try:
        yield file
        file.flush()
    except BaseException:
        abandon(file)
        temporary.unlink(missing_ok=True)
        raise
    file.close()
    with temporary.open("rb") as whole:
        os.fsync(whole.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def make_folder(folder: Path) -> None:
    """Make sure that ``folder`` is there, with its parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be made: {error.strerror}.") from None


def refuse_existing(path: Path, *, overwrite: bool = False) -> None:
    """Refuse to write over a file."""
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists already; choose another file name or move it away.")


@dataclass(frozen=True, eq=False)
class Summary:
    """What a file says about itself, without reading its samples."""

    path: Path
    channels: Channels
    provenance: Table
    lengths: Lengths  # Samples of each trajectory.
    truth: Mapping[str, int]  # Columns of each dataset that is for evaluation only.
    unfinished: bool  # Whether the recording is going on or was interrupted.
    recordings: tuple[str, ...]  # Name of the recording that each trajectory is a piece of [N].

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def samples(self) -> int:
        """Samples of all trajectories together."""
        return int(self.lengths.sum())


def partial_path(path: Path) -> Path:
    """The unfinished file of a recording."""
    return path.with_name(path.name + ".partial")


@contextmanager
def open_to_read(path: Path) -> Iterator[tuple[h5py.File, Summary]]:
    """A recording, finished or not; refusals in the block, and faults of HDF5, name the file."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the recording's file.")
    partial, held = partial_path(path), "some trajectories"
    if not path.exists() and partial.is_file():
        with suppress(DataError):
            held = counted(len(summary(partial)))
        there = f"{partial} holds {held} of an unfinished recording"
        todo = "run its command again to go on, or read that file as it is"
        raise DataError(f"There is no file {path}, but {there}: {todo}.")
    if not path.exists():
        raise DataError(f"There is no file {path}.")
    again = "copy it again from its source"
    try:
        if not h5py.is_hdf5(path):
            path.open("rb").close()  # a file that may not be read is not one of another kind
            raise DataError(f"{path} is not an HDF5 file, or damaged; give a recording.")
        try:
            file = h5py.File(path, "r")
        except OSError:  # while it is recorded, or after its process was killed
            file = _open_unfinished(path)
    except (OSError, RuntimeError, ValueError) as error:
        if "truncated" in str(error):
            end = f"its end is missing ({path.stat().st_size} bytes are left)"
            raise DataError(f"{path} is cut short: {end}; {again}.") from None
        todo = "" if isinstance(error, PermissionError) else f"; {again}"
        raise DataError(f"{path} cannot be read: {reason(error)}{todo}.") from None
    try:
        try:
            head = _summarise(file, path)
        except (KeyError, TypeError, ValueError, MemoryError) as error:  # h5py on nonsense
            raise OSError(str(error)) from None
        yield file, head
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is damaged: {reason(error)}; {again}.") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    finally:
        file.close()


def _open_unfinished(path: Path) -> h5py.File:
    """A file that may grow while it is read. HDF5 looks again at what does not fit, waiting twice
    as long each time: a hundred times by itself, which for a damaged file has no end."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    # h5py has no such call of its own, and not every system finds it behind h5py
    with suppress(AttributeError), h5py._objects.phil:
        library = ctypes.CDLL(h5py.h5p.__file__)
        library.H5Pset_metadata_read_attempts(ctypes.c_int64(access.id), READ_ATTEMPTS)
    flags = h5py.h5f.ACC_RDONLY | h5py.h5f.ACC_SWMR_READ
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, access))


def summary(path: Path | str) -> Summary:
    """What is in the file at ``path``, checked, without reading its samples."""
    with open_to_read(Path(path)) as (_, head):
        return head


def _summarise(file: h5py.File, path: Path) -> Summary:
    many = [name for name in file.attrs if prod(file.attrs.get_id(name).shape) > MOST_ENTRIES]
    refuse((many, f"The attribute {listing(many)} is too long."), error=DataError)
    attributes = dict(file.attrs)
    found = _texts(attributes["format"])[0] if "format" in attributes else None
    held = listing(sorted(map(str, file)))
    other = f"its 'format' should be {FORMAT!r} and is {found!r}; it holds {held}"
    wanted = {"version", "dt", "control_range", *trajectories.NAMES}
    missing = sorted(wanted - attributes.keys())
    version = np.asarray(attributes.get("version", 0))
    readable = version.dtype.kind in "iu" and not version.ndim and version <= VERSION
    refuse(
        (found != FORMAT, f"This is not a recording of genan: {other}."),
        (missing, f"It lacks the attribute {listing(missing)}; see docs/data-format.md."),
        (not readable, f"It has format version {version}; this genan reads up to {VERSION}."),
        error=DataError,
    )
    try:
        names: dict[str, Any] = {name: _texts(attributes[name]) for name in trajectories.NAMES}
        names["control_range"] = attributes["control_range"]
        channels = Channels(float(attributes["dt"]), **names)
        provenance = json.loads(_texts(attributes.get("provenance", "{}"))[0])
    except (ValueError, TypeError) as error:
        raise DataError(f"It describes itself wrongly: {error}.") from None
    if not isinstance(provenance, dict):
        raise DataError("Its provenance must be a JSON table.")
    unfinished = bool(attributes.get("unfinished", False))
    cuts = _dataset(file, "length", 1, kinds="iu")
    count, place = len(cuts), cuts.id.get_chunk_info_by_coord
    if unfinished and count and place((count - 1,)).byte_offset is None:
        count -= 1  # it was counted, but a full disk took it no more
    if unfinished and count:
        _refuse_cut(cuts, count, path)
    lengths = cuts[:count].astype(np.int64)
    rows = int(lengths.sum())
    truth = {name: _dataset(file, f"{TRUTH}/{name}", 2).shape[1] for name in file.get(TRUTH, ())}
    for name, width in columns_of(channels, truth).items():
        dataset = _dataset(file, name, 2)
        # Rows beyond the last whole trajectory were being written when the recording stopped.
        there = min(len(dataset), rows) if unfinished else len(dataset)
        if (there, dataset.shape[1]) != (rows, width) or lengths.min(initial=1) < 1:
            expected = f"[{rows}, {width}], the lengths of {counted(count)} by the channels"
            came = list(dataset.shape)
            raise DataError(f"The dataset {name!r} should be {expected}, and is {came}.")
        if unfinished and rows:
            _refuse_cut(dataset, rows, path)
    recordings = trajectories.own_names(count)
    if "recording" in file:
        dataset = file["recording"]
        texts = isinstance(dataset, h5py.Dataset) and h5py.check_string_dtype(dataset.dtype)
        if not texts or dataset.ndim != 1:
            raise DataError("The dataset 'recording' should be a list of names.")
        blocks = range(0, min(len(dataset), count + 1), CHUNK_ROWS)
        _take(dataset, CHUNK_ROWS * dataset.dtype.itemsize)
        named = tuple(text for k in blocks for text in _texts(dataset[k : k + CHUNK_ROWS]))
        named = named[:count] if unfinished else named
        if unfinished:  # names may be missing where the recorder was not given any
            named = tuple(name or str(number) for number, name in enumerate(named))
            named += recordings[len(named) :]
        recordings = trajectories.checked_names(named, count)
    return Summary(path, channels, provenance, lengths, truth, unfinished, recordings)


def columns_of(channels: Channels, truth: Mapping[str, int]) -> dict[str, int]:
    """Number of columns of every dataset with a row for each sample."""
    widths = {f"{TRUTH}/{name}": width for name, width in truth.items()}
    return {"q": channels.nq, "u": channels.nu, **widths}


def _refuse_cut(dataset: h5py.Dataset, rows: int, path: Path) -> None:
    """Refuse an unfinished file whose last rows are not there: HDF5 would read zeros."""
    last = dataset.id.get_chunk_info_by_coord((rows - 1, 0)[: dataset.ndim])
    if last.byte_offset is None or last.byte_offset + last.size > path.stat().st_size:
        raise DataError(f"It is cut short: the end of {dataset.name!r} is missing; copy it again.")


def _dataset(file: h5py.File, name: str, ndim: int, *, kinds: str = "iuf") -> Any:
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        held = listing(sorted(map(str, file)))
        raise DataError(f"It lacks the dataset {name!r}; it holds {held}.")
    if dataset.ndim != ndim or dataset.dtype.kind not in kinds:
        expected, came = f"numbers with {ndim} dimensions", f"{dataset.dtype} {list(dataset.shape)}"
        raise DataError(f"The dataset {name!r} should be {expected} and is {came}.")
    if dataset.is_virtual or dataset.external:
        raise DataError(f"The dataset {name!r} takes its numbers from other files.")
    if ndim == 1:
        _take(dataset, OBJECTS * len(dataset))
    return dataset


def _take(dataset: h5py.Dataset, count: int | float) -> None:
    """Ask for the memory that reading takes, and one whole chunk with it."""
    count += prod(dataset.chunks or ()) * dataset.dtype.itemsize
    memory.take(count, f"Reading {dataset.name[1:]!r}", Path(dataset.file.filename))


def _texts(values: Any) -> tuple[str, ...]:
    """Texts as h5py gives them, of fixed length (bytes) or not."""
    texts = np.atleast_1d(values).tolist()
    return tuple(t.decode("utf-8", "replace") if isinstance(t, bytes) else str(t) for t in texts)


def describe(file: h5py.File, channels: Channels, provenance: Table) -> None:
    """Write the attributes that say what the file holds."""
    text = trajectories.provenance_text(provenance)
    if (size := len(text.encode())) > PROVENANCE_BYTES:
        raise DataError(f"The provenance is {size} bytes long, more than {PROVENANCE_BYTES}.")
    values: Any = {"format": np.bytes_(FORMAT), "version": np.int64(VERSION)}
    values |= {"dt": np.float64(channels.dt)}
    values |= {name: _fixed(getattr(channels, name)) for name in trajectories.NAMES}
    values |= {"control_range": channels.control_range.astype("<f8")}
    file.attrs.update(values | {"provenance": _fixed([text]).reshape(())})


def _fixed(texts: Sequence[str]) -> np.ndarray:
    """Texts of fixed length: others lie in a heap whose bytes are not always the same."""
    encoded = [text.encode() for text in texts]
    return np.array(encoded, dtype=h5py.string_dtype("utf-8", max(map(len, encoded))))


def growing_dataset(
    file: h5py.File, name: str, *width: int, dtype: Any = "<f8", rows: int = CHUNK_ROWS, **more: Any
) -> h5py.Dataset:
    """A dataset without rows yet, of ``width`` columns, kept in chunks of ``rows``."""
    more |= {"maxshape": (None, *width), "chunks": (rows, *width), "track_times": False}
    return file.create_dataset(name, (0, *width), dtype, **more)


def copy_rows(source: Any, target: h5py.Dataset, rows: int) -> None:
    """Copy the first rows of an array or dataset, a block at a time."""
    for start in range(0, rows, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, rows))
        target[block] = source[block]


def write_finished(head: Summary, columns: Table) -> None:
    """Write a whole finished file that says of itself what ``head`` says. ``columns``: by dataset
    name, an array or an HDF5 dataset [rows or more, columns]."""
    rows, packed = head.samples, {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    packed |= {"fletcher32": True, "track_times": False}
    # Kept to the end: a dataset that is let go while the disk is full takes the process down.
    written: list[h5py.Dataset] = []
    with new_file(head.path) as file:
        describe(file, head.channels, head.provenance)
        for name, source in columns.items():
            width, chunks = source.shape[1], (min(CHUNK_ROWS, rows), source.shape[1])
            written.append(file.create_dataset(name, (rows, width), "<f8", chunks=chunks, **packed))
            copy_rows(source, written[-1], rows)
        written += write_lengths(file, head.lengths, head.recordings)


def write_lengths(file: h5py.File, lengths: Lengths, names: Sequence[str]) -> list[h5py.Dataset]:
    """Write what cuts the rows into trajectories, and their recordings where these have names."""
    written = [file.create_dataset("length", data=lengths.astype("<i8"), track_times=False)]
    if tuple(names) not in ((), trajectories.own_names(len(lengths))):
        written += [file.create_dataset("recording", data=_fixed(names), track_times=False)]
    return written


def write(path: Place, trajectories: Trajectories, *, truth: Arrays | None = None) -> None:
    """Write a whole recording; an existing file is never touched. ``truth``: what only a virtual
    robot knows (torques "tau" [N m], "pressure" [Pa], ...), each [rows, columns]; kept apart, for
    evaluation only."""
    path, t = Path(path), trajectories
    columns = {"q": t.q, "u": t.u}
    for name, values in sorted((truth or {}).items()):
        if np.ndim(values) != 2 or len(values) != len(t.q):
            came = list(np.shape(values))
            raise DataError(f"The truth {name!r} must be [{len(t.q)}, columns], not {came}.")
        columns[f"{TRUTH}/{name}"] = values
    with closing(Lock(path)), refuse_unwritable(path):
        head = Summary(path, t.channels, t.provenance, t.lengths, {}, False, t.recordings)
        write_finished(head, columns)


def load(path: Path | str, indices: Indices | None = None) -> Trajectories:
    """Read a recording, finished or not, up to its last whole trajectory. ``<name>.partial`` works
    too, also while it is being written. ``indices``: trajectories to read, counted from 0, in this
    order, and no rows of others; left out: all."""
    return load_with_stamps(path, indices, steady=True)[0]


def load_with_stamps(
    path: Place, indices: Indices | None = None, *, steady: bool = False
) -> tuple[Trajectories, list[Stamps]]:
    """As ``load``, and the time stamps [s] of each trajectory where the file has some; gaps and
    jitter are refused if they must be ``steady``, two rates in one file always."""
    with open_to_read(Path(path)) as (file, head):
        numbers, dt = _numbers(head, indices), head.channels.dt
        lengths, stamps = head.lengths[numbers], []
        q, u = (_read(file, name, head, numbers) for name in ("q", "u"))
        if "time" in file:
            if file["time"].ndim != 1 or len(file["time"]) < head.samples:
                expected, came = f"[{head.samples}] seconds", list(file["time"].shape)
                raise DataError(f"The dataset 'time' should be {expected} and is {came}.")
            stamps = np.split(_read(file, "time", head, numbers), np.cumsum(lengths)[:-1])
        for number, time in zip(numbers, stamps, strict=bool(stamps)):
            _check_time(f"trajectory {number} (counted from 0)", time, dt, steady)
        names = tuple(head.recordings[number] for number in numbers)
        try:
            return Trajectories(head.channels, q, u, lengths, head.provenance, names), stamps
        except DataError:  # the same fault again, with the trajectory's number in the file
            trajectories.check_samples(head.channels, q, u, lengths, numbers=numbers)
            raise


def read_truth_for_evaluation_only(path: Place, indices: Indices | None = None) -> Arrays:
    """What only a virtual robot knows, by name [rows, columns]; never to be learnt from.
    ``indices``: trajectories to read, as in ``load``."""
    with open_to_read(Path(path)) as (file, head):
        if not head.truth:
            raise DataError("It holds no truth for evaluation; only virtual robots can record it.")
        numbers = _numbers(head, indices)
        return {name: _read(file, f"{TRUTH}/{name}", head, numbers) for name in head.truth}


def _numbers(head: Summary, indices: Indices | None) -> Lengths:
    if len(head) == 0:
        raise DataError("It holds zero trajectories; record some first.")
    every = np.arange(len(head))
    return trajectories.check_indices(every if indices is None else indices, len(head))


def _read(file: h5py.File, name: str, head: Summary, numbers: Lengths) -> np.ndarray:
    """Rows of the trajectories ``numbers``, in that order; neighbours are read in one go."""
    dataset, ends = file[name], np.cumsum(head.lengths)
    shape, filled = (int(head.lengths[numbers].sum()), *dataset.shape[1:]), 0
    _take(dataset, 8.0 * prod(shape))
    values = np.empty(shape)
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        first, last = int(ends[run[0]] - head.lengths[run[0]]), int(ends[run[-1]])
        dataset.read_direct(values, np.s_[first:last], np.s_[filled : filled + last - first])
        filled += last - first
    return values


def _check_time(whose: str, time: Stamps, dt: float, steady: bool) -> None:
    """Refuse time stamps [s] that do not follow each other at dt."""
    step = np.diff(time)
    usual, tolerance = float(np.median(step)), TIME_TOLERANCE if steady else UNSTEADY_TOLERANCE
    if usual > 0.0 and not abs(usual - dt) <= tolerance * dt:
        rates = f"sampled at {1 / usual:.6g} Hz by its stamps, and the file says {1 / dt:.6g} Hz"
        raise DataError(f"It has two rates in one file: {whose} is {rates}.")
    wrong = ~(np.abs(step - dt) <= TIME_TOLERANCE * dt)
    if steady and wrong.any():
        row = int(np.argmax(wrong))
        gap = f"{1e3 * step[row]:.4g} ms pass between the samples {row} and {row + 1}"
        raise DataError(f"In {whose} is a gap: {gap}, not dt, {1e3 * dt:.4g} ms; cut it there.")
