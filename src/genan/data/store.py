"""Recordings on disk: write a whole one, read all or some of its trajectories. ``Recorder`` appends
while recording."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float, Int

from genan.data.checks import check_indices, check_samples, rows_of
from genan.data.disk import Lock, make_folder, reason, refuse_existing
from genan.data.layout import TRUTH, Summary, open_to_read, read_summary, summarise, write_finished
from genan.data.trajectories import Trajectories
from genan.errors import DataError

#: Time stamps may deviate from dt by this fraction of it.
TIME_TOLERANCE = 0.01


def summary(path: Path | str) -> Summary:
    """What is in the file at ``path``, without reading its samples."""
    return read_summary(Path(path))


def write(
    path: Path | str, trajectories: Trajectories, *, truth: Mapping[str, np.ndarray] | None = None
) -> None:
    """Write a whole recording; an existing file is never touched.

    Args:
        path: file to make.
        trajectories: the recording.
        truth: what only a virtual robot knows (true torques "tau" [N m], pressures "pressure" [Pa],
            ...), each [rows, columns]; kept apart, for evaluation only.
    """
    path = Path(path)
    columns = {"q": trajectories.q, "u": trajectories.u}
    for name, values in sorted((truth or {}).items()):
        if np.ndim(values) != 2 or len(values) != len(trajectories.q):
            raise DataError(
                f"The truth {name!r} must be [{len(trajectories.q)}, columns], not {list(np.shape(values))}."
            )
        columns[f"{TRUTH}/{name}"] = values
    refuse_existing(path)
    make_folder(path.parent)
    lock = Lock(path)
    try:
        refuse_existing(path)
        write_finished(
            path,
            trajectories.channels,
            trajectories.provenance,
            trajectories.lengths,
            columns,
            trajectories.recordings,
        )
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{path} could not be written: {reason(error)}; nothing was left behind."
        ) from None
    finally:
        lock.release()


def load(path: Path | str, indices: Sequence[int] | np.ndarray | None = None) -> Trajectories:
    """Read a recording, finished or not, up to its last whole trajectory.

    Args:
        path: the file; ``<name>.partial`` works too, also while it is being written.
        indices: trajectories to read, counted from 0, in this order; all when left out. Only their
            rows are read.
    """
    path = Path(path)
    with open_to_read(path) as file:
        head = summarise(file, path)
        numbers = _numbers(head, indices)
        lengths = head.lengths[numbers]
        q = _read(file, "q", head, numbers)
        u = _read(file, "u", head, numbers)
        if "time" in file:
            _check_time(file, head, numbers)
    try:
        names = tuple(head.recordings[number] for number in numbers)
        return Trajectories(head.channels, q, u, lengths, head.provenance, names)
    except DataError as error:
        fault = error
    try:  # the same fault again, with the trajectory's number in the file
        check_samples(head.channels, q, u, lengths, numbers=numbers)
    except DataError as error:
        fault = error
    raise DataError(f"{path}: {fault}")


def read_truth_for_evaluation_only(
    path: Path | str, indices: Sequence[int] | np.ndarray | None = None
) -> dict[str, Float[np.ndarray, "rows _"]]:
    """What only a virtual robot knows, by name [rows, columns]; rows as in ``load``. Never to be
    learnt from.

    Args:
        path: the file.
        indices: trajectories to read, counted from 0, in this order; all when left out.
    """
    path = Path(path)
    with open_to_read(path) as file:
        head = summarise(file, path)
        if not head.truth:
            raise DataError(
                f"{path} holds no truth for evaluation; only recordings of a virtual robot may have it."
            )
        numbers = _numbers(head, indices)
        return {name: _read(file, f"{TRUTH}/{name}", head, numbers) for name in head.truth}


def _numbers(head: Summary, indices: Sequence[int] | np.ndarray | None) -> Int[np.ndarray, " M"]:
    if len(head) == 0:
        raise DataError(f"{head.path} holds zero trajectories; record some first.")
    try:
        return np.arange(len(head)) if indices is None else check_indices(indices, len(head))
    except DataError as error:
        raise DataError(f"{head.path}: {error}") from None


def _read(file: h5py.File, name: str, head: Summary, numbers: Int[np.ndarray, " M"]) -> np.ndarray:
    """Rows of the trajectories ``numbers``, in that order; neighbours in the file are read in one
    go."""
    dataset = file[name]
    chosen, position = np.unique(numbers, return_inverse=True)
    ends = np.cumsum(head.lengths)
    starts, lengths = ends[chosen] - head.lengths[chosen], head.lengths[chosen]
    try:
        values = np.empty((int(lengths.sum()), *dataset.shape[1:]))
    except (MemoryError, ValueError):
        raise DataError(
            f"{head.path} holds {head.samples} samples, more than memory can; read it in parts."
        ) from None
    filled = 0
    for run in np.split(np.arange(len(chosen)), np.flatnonzero(np.diff(chosen) > 1) + 1):
        first, last = int(starts[run[0]]), int(starts[run[-1]] + lengths[run[-1]])
        dataset.read_direct(values, np.s_[first:last], np.s_[filled : filled + last - first])
        filled += last - first
    if np.array_equal(chosen, numbers):
        return values
    rows = rows_of((np.cumsum(lengths) - lengths)[position], lengths[position])
    return np.asarray(values[rows])


def _check_time(file: h5py.File, head: Summary, numbers: Int[np.ndarray, " M"]) -> None:
    """Refuse time stamps [s] that do not follow each other at dt."""
    if file["time"].ndim != 1 or len(file["time"]) < head.samples:
        raise DataError(
            f"{head.path}: the dataset 'time' should be [{head.samples}] seconds and is {list(file['time'].shape)}."
        )
    time = _read(file, "time", head, numbers)
    dt, lengths = head.channels.dt, head.lengths[numbers]
    step = np.diff(time)
    inside = np.ones(len(step), dtype=bool)
    inside[np.cumsum(lengths)[:-1] - 1] = False
    wrong = np.flatnonzero(inside & ~(np.abs(step - dt) <= TIME_TOLERANCE * dt))
    if not len(wrong):
        return
    index = int(np.searchsorted(np.cumsum(lengths), wrong[0], side="right"))
    start = int(np.cumsum(lengths)[index] - lengths[index])
    usual = float(np.median(step[start : start + int(lengths[index]) - 1]))
    number, sample = int(numbers[index]), int(wrong[0]) - start
    if usual > 0.0 and not abs(usual - dt) <= TIME_TOLERANCE * dt:
        raise DataError(
            f"{head.path} has two rates in one file: trajectory {number} (counted from 0) is sampled at "
            f"{1 / usual:.6g} Hz by its time stamps and the file says {1 / dt:.6g} Hz; resample it."
        )
    raise DataError(
        f"{head.path}: trajectory {number} has a gap: {1e3 * step[wrong[0]]:.4g} ms pass between the samples {sample} "
        f"and {sample + 1} (counted from 0) where dt is {1e3 * dt:.4g} ms; cut it there or resample it."
    )
