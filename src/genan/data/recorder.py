"""Recording: a file that grows, trajectory by trajectory, and survives whatever ends it.

While a ``Recorder`` works, everything lies in ``<file>.partial``, in HDF5's single-writer-multiple-
reader mode: at any moment it can be read, and a killed process leaves it readable. The rows of a
trajectory are written first and its length last, so what the lengths do not count was never there.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from genan.data import hdf5, trajectories
from genan.data.hdf5 import TRUTH, Arrays, Lock, Summary, summary
from genan.data.trajectories import Channels, Table, counted
from genan.errors import DataError, listing
from genan.files import Place

#: How a name is kept while recording: texts of variable length cannot be read meanwhile.
_NAME = h5py.string_dtype("utf-8", trajectories.LONGEST_NAME)
Widths = Mapping[str, int] | None  # Columns of each dataset that is for evaluation only.


class Recorder:
    """Writes one recording; use it in a ``with`` block, and call ``finish`` at its end. Leaving the
    block without ``finish`` (an error, Ctrl-C) keeps the partial file, to go on later."""

    def __init__(
        self, path: Place, channels: Channels, provenance: Table, truth: Widths, resume: bool
    ) -> None:
        self.path, self.partial = Path(path), hdf5.partial_path(Path(path))
        self.channels, self.truth = channels, dict(sorted((truth or {}).items()))
        self.provenance: dict[str, Any] = json.loads(trajectories.provenance_text(provenance))
        self._lock = Lock(self.path)
        self._file: h5py.File | None = None
        self._datasets: dict[str, Any] = {}
        self._lengths, self._names, self._rows = list[int](), list[str](), 0
        self.todo = "make room and run the same command again to go on"  # Where the disk is full.
        try:
            self._start(self._previous(resume) if self.partial.exists() else None)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls, path: Place, channels: Channels, *, provenance: Table, truth: Widths = None
    ) -> "Recorder":
        """Begin a new recording, a file ``path`` once it is finished; what exists is left alone.
        ``provenance``: where it comes from, without clock times, or equal content will not be equal
        bytes. ``truth``: name and number of columns of what is for evaluation only."""
        return cls(path, channels, provenance, truth, resume=False)

    @classmethod
    def resume_or_create(
        cls, path: Place, channels: Channels, *, provenance: Table, truth: Widths = None
    ) -> "Recorder":
        """As ``create``, or go on after the ``len(recorder)`` whole trajectories of an interrupted
        recording with the same settings."""
        return cls(path, channels, provenance, truth, resume=True)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Whole trajectories that are safe in the file."""
        return len(self._lengths)

    def append(
        self,
        q: np.ndarray,
        u: np.ndarray,
        *,
        truth: Arrays | None = None,
        dt: float | None = None,
        recording: str | None = None,
    ) -> None:
        """Add one trajectory, q [T, nq] [rad or m] and u [T, nu]; a refused one changes nothing.
        ``truth``: for evaluation only, each [T, columns], with the names given at the start;
        ``dt``: its sampling period [s], checked against the recording's; ``recording``: name of the
        longer one that this is a piece of, left out: one of its own."""
        number, truth = len(self), truth or {}
        q, u = np.asarray(q, dtype=np.float64), np.asarray(u, dtype=np.float64)
        with self._writing("add"):
            if dt is not None:
                self.channels.check_rate(dt, whose=f"trajectory {number}")
            trajectories.check_samples(self.channels, q, u, np.array([len(q)]), numbers=[number])
            names = trajectories.checked_names([recording or str(number)], 1)
            if set(truth) != set(self.truth):
                expected, came = listing(self.truth), listing(sorted(truth))
                raise DataError(f"The truth should be {expected}, not {came}.")
            for name, width in self.truth.items():
                size, shape = np.shape(truth[name]), (len(q), width)
                if size != shape or not np.isfinite(truth[name]).all():
                    what = f"The truth {name!r} of trajectory {number}"
                    raise DataError(f"{what} must be finite numbers {shape}, not {size}.")
            truths = {f"{TRUTH}/{name}": truth[name] for name in self.truth}
            for name, values in {"q": q, "u": u, **truths}.items():
                self._put(name, self._rows, values)
            self._put("recording", number, np.array([names[0].encode()], dtype=_NAME))
            self._put("length", number, np.array([len(q)]))
        self._lengths.append(len(q))
        self._names += names
        self._rows += len(q)

    def finish(self) -> Path:
        """Make the finished file (same content, same bytes) and remove the partial one."""
        with self._writing("finish"):
            if not self._lengths:
                raise DataError(f"Zero trajectories were recorded, so {self.path} is not made.")
            hdf5.refuse_existing(self.path)
            about = self.channels, self.provenance, np.array(self._lengths), self.truth
            head = Summary(self.path, *about, unfinished=False, recordings=tuple(self._names))
            columns = hdf5.columns_of(self.channels, self.truth)
            hdf5.write_finished(head, {name: self._datasets[name] for name in columns})
        self.close(remove_partial=True)
        return self.path

    def close(self, *, remove_partial: bool = False) -> None:
        """Stop recording and let others have the file; a second call does nothing."""
        if self._file is not None:
            try:
                self._file.flush()
                self._file.close()
            except (OSError, RuntimeError):
                hdf5.abandon(self._file)
            self._file, self._datasets = None, {}
            if remove_partial:
                self.partial.unlink(missing_ok=True)
        self._lock.close()

    @contextmanager
    def _writing(self, purpose: str) -> Iterator[None]:
        """Refuse a closed recorder; a fault of the disk closes it, and what is safe stays."""
        if self._file is None:
            raise DataError(f"The file {self.path} is closed; begin it again to {purpose}.")
        try:
            yield
        except (OSError, RuntimeError) as error:
            self.close()
            why = f"{self.path.parent} cannot be written ({hdf5.reason(error)})"
            safe = f"{counted(len(self))} safe in {self.partial}"
            words = f"Recording stopped because {why}, with {safe}; {self.todo}"
            raise DataError(f"{words}.") from None

    def _previous(self, resume: bool) -> Summary | None:
        """The interrupted recording to go on from, if it is the same recording."""
        there = summary(self.partial)
        if len(there) == 0:
            return None
        held = f"{self.partial} holds {counted(len(there))} of"
        if not resume:
            raise DataError(f"{held} an unfinished recording; resume it, move it or delete it.")
        old, new = (
            {"provenance": one.provenance, **one.channels.settings(), "truth": dict(one.truth)}
            for one in (there, self)
        )
        if differing := trajectories.differences(old, new, "the partial has {}, asked {}"):
            other = f"{held} a recording with other settings: {differing}"
            raise DataError(f"{other}; use another --out, or delete the partial file.")
        return there

    def _start(self, previous: Summary | None) -> None:
        """Open the partial file; a killed one cannot be written again, so it is copied."""
        fresh = self.partial.with_name(self.partial.name + ".new")
        try:
            file = self._file = h5py.File(fresh, "w", libver="latest")
            file.attrs["unfinished"] = 1
            hdf5.describe(file, self.channels, self.provenance)
            for name, width in hdf5.columns_of(self.channels, self.truth).items():
                self._datasets[name] = hdf5.growing_dataset(file, name, width)
            for name, kind, rows in (("length", "<i8", 1024), ("recording", _NAME, 64)):
                self._datasets[name] = hdf5.growing_dataset(file, name, dtype=kind, rows=rows)
            if previous is not None:
                self._lengths, self._names = previous.lengths.tolist(), list(previous.recordings)
                self._rows = previous.samples
                names = np.array([name.encode() for name in self._names], dtype=_NAME)
                with hdf5.open_to_read(previous.path) as (source, _):
                    for name, target in self._datasets.items():
                        rows = len(self) if name in ("length", "recording") else self._rows
                        target.resize(rows, axis=0)
                        hdf5.copy_rows(names if name == "recording" else source[name], target, rows)
            file.flush()
            file.swmr_mode = True
            fresh.replace(self.partial)
        except (OSError, RuntimeError) as error:
            self.close()
            fresh.unlink(missing_ok=True)
            kept = f", with {counted(len(previous))} safe in it" if previous else ""
            cannot = f"{self.partial} cannot be written: {hdf5.reason(error)}"
            raise DataError(f"{cannot}{kept}.") from None

    def _put(self, name: str, start: int, values: np.ndarray) -> None:
        """Write rows and hand them to the operating system."""
        dataset, stop = self._datasets[name], start + len(values)
        if len(dataset) < stop:  # longer when the trajectory before was interrupted half-way
            dataset.resize(stop, axis=0)
        dataset[start:stop] = values
        dataset.flush()
