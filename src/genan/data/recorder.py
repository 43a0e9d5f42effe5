"""``Recorder``: append trajectories while recording, and finish with one clean file.

While recording, everything lies in ``<file>.partial``, an HDF5 file in
single-writer-multiple-reader mode: at any moment it can be read, and a killed process leaves it
readable. The rows of a trajectory are written first and its length last, so what the lengths do not
count was never there.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from genan.data.hdf5 import (
    BLOCK_ROWS,
    CHUNK_ROWS,
    TRUTH,
    Lock,
    Summary,
    abandon,
    describe,
    growing_dataset,
    make_folder,
    open_to_read,
    partial_path,
    reason,
    refuse_existing,
    summarise,
    summary,
    write_finished,
)
from genan.data.trajectories import (
    LONGEST_NAME,
    Channels,
    check_samples,
    checked_names,
    counted,
    differences,
    provenance_text,
)
from genan.errors import DataError, listing

#: How a name is kept while recording: texts of variable length cannot be read while the file is
#: written.
_NAME = h5py.string_dtype("utf-8", LONGEST_NAME)


class Recorder:
    """Writes one recording; use it in a ``with`` block, and call ``finish`` at its end.

    Leaving the block without ``finish`` (an error, Ctrl-C) keeps the partial file, to go on later.
    """

    def __init__(
        self,
        path: Path,
        channels: Channels,
        provenance: Mapping[str, Any],
        truth: Mapping[str, int],
        resume: bool,
    ) -> None:
        """Use ``create`` or ``resume_or_create``."""
        self.path, self.partial, self.channels = path, partial_path(path), channels
        self.provenance: dict[str, Any] = json.loads(provenance_text(provenance))
        self._truth = dict(sorted(truth.items()))
        refuse_existing(path)
        make_folder(path.parent)
        self._lock = Lock(path)
        self._file: h5py.File | None = None
        self._datasets: dict[str, Any] = {}
        self._lengths: list[int] = []
        self._names: list[str] = []
        self._rows = 0
        try:
            refuse_existing(path)
            self._start(self._previous(resume) if self.partial.exists() else None)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        path: Path | str,
        channels: Channels,
        *,
        provenance: Mapping[str, Any],
        truth: Mapping[str, int] | None = None,
    ) -> "Recorder":
        """Begin a new recording; an existing file or partial file is refused and left alone.

        Args:
            path: the file that ``finish`` will make.
            channels: what the columns mean.
            provenance: where the recording comes from; no clock times, or equal content will not be
                equal bytes.
            truth: name and number of columns of what is recorded for evaluation only.
        """
        return cls(Path(path), channels, provenance, truth or {}, resume=False)

    @classmethod
    def resume_or_create(
        cls,
        path: Path | str,
        channels: Channels,
        *,
        provenance: Mapping[str, Any],
        truth: Mapping[str, int] | None = None,
    ) -> "Recorder":
        """As ``create``, or go on after the ``len(recorder)`` whole trajectories of an interrupted
        recording with the same settings."""
        return cls(Path(path), channels, provenance, truth or {}, resume=True)

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
        truth: Mapping[str, np.ndarray] | None = None,
        dt: float | None = None,
        recording: str | None = None,
    ) -> None:
        """Add one trajectory; it is checked first, and a refused one changes nothing.

        Args:
            q: positions [T, nq] [rad or m].
            u: controls [T, nu], in their units.
            truth: for evaluation only, each [T, columns], with the names given at the start.
            dt: sampling period of this trajectory [s], checked against the recording's.
            recording: name of the longer recording that this is a piece of; left out: it is one of
                its own.
        """
        if self._file is None:
            raise DataError(f"The recording into {self.path} is closed; begin it again to add.")
        if dt is not None:
            self.channels.check_rate(dt, whose=f"trajectory {len(self)}")
        q, u = np.asarray(q, dtype=np.float64), np.asarray(u, dtype=np.float64)
        check_samples(self.channels, q, u, np.array([len(q)]), numbers=[len(self)])
        (label,) = checked_names([recording or str(len(self))], 1)
        rows = {"q": q, "u": u, **self._checked_truth(truth or {}, len(q))}
        start, stop = self._rows, self._rows + len(q)
        try:
            for name, values in rows.items():
                self._put(name, values, start, stop)
            name_row, length_row = np.array([label.encode()], dtype=_NAME), np.array([len(q)])
            self._put("recording", name_row, len(self), len(self) + 1)
            self._put("length", length_row, len(self), len(self) + 1)
        except (OSError, RuntimeError) as error:
            self._give_up()
            raise DataError(self._stopped(error)) from None
        self._lengths.append(len(q))
        self._names.append(label)
        self._rows = stop

    def finish(self) -> Path:
        """Make the finished file (same content, same bytes) and remove the partial one."""
        if self._file is None:
            raise DataError(f"The recording into {self.path} is closed; begin it again to finish.")
        if not self._lengths:
            raise DataError(f"Zero trajectories were recorded, so {self.path} is not made.")
        refuse_existing(self.path)
        columns = {n: d for n, d in self._datasets.items() if n not in ("length", "recording")}
        lengths = np.array(self._lengths)
        try:
            write_finished(self.path, self.channels, self.provenance, lengths, columns, self._names)
        except (OSError, RuntimeError) as error:
            self.close()
            raise DataError(self._stopped(error)) from None
        self.close(remove_partial=True)
        return self.path

    def close(self, *, remove_partial: bool = False) -> None:
        """Stop recording and let others have the file; a second call does nothing."""
        if self._file is not None:
            try:
                self._file.flush()
                self._file.close()
            except (OSError, RuntimeError):
                abandon(self._file)
            self._file, self._datasets = None, {}
            if remove_partial:
                self.partial.unlink(missing_ok=True)
        self._lock.close()

    def _give_up(self) -> None:
        if self._file is not None:
            abandon(self._file)
        self._file, self._datasets = None, {}
        self.close()

    def _stopped(self, error: Exception) -> str:
        return (
            f"Recording stopped because {self.path.parent} cannot be written ({reason(error)}), "
            f"with {counted(len(self))} safe in {self.partial}; make room and run the same "
            "command again to go on."
        )

    def _previous(self, resume: bool) -> Summary | None:
        """The interrupted recording to go on from, if it is the same recording."""
        there = summary(self.partial)
        if len(there) == 0:
            return None
        if not resume:
            raise DataError(
                f"{self.partial} holds {counted(len(there))} of an unfinished recording; resume "
                "it, choose another file name, or delete it."
            )
        old, new = {"provenance": there.provenance}, {"provenance": self.provenance}
        old |= there.channels.settings() | {"truth": dict(there.truth)}
        new |= self.channels.settings() | {"truth": self._truth}
        if differing := differences(old, new, "the partial has", "asked"):
            raise DataError(
                f"{self.partial} holds {counted(len(there))} of a recording with other settings: "
                f"{differing}; use another --out, or delete the partial file."
            )
        return there

    def _start(self, previous: Summary | None) -> None:
        """Open the partial file; a killed one cannot be written again, so it is copied."""
        fresh = self.partial.with_name(self.partial.name + ".new")
        try:
            self._file = h5py.File(fresh, "w", libver="latest")
            self._file.attrs["unfinished"] = 1
            describe(self._file, self.channels, self.provenance)
            widths = {"q": self.channels.nq, "u": self.channels.nu}
            widths |= {f"{TRUTH}/{name}": width for name, width in self._truth.items()}
            for name, width in widths.items():
                self._datasets[name] = growing_dataset(self._file, name, width)
            self._datasets["length"] = growing_dataset(self._file, "length", dtype="<i8")
            self._datasets["recording"] = growing_dataset(
                self._file, "recording", dtype=_NAME, rows=CHUNK_ROWS // 16
            )
            if previous is not None:
                self._copy(previous)
            self._file.flush()
            self._file.swmr_mode = True
            fresh.replace(self.partial)
        except (OSError, RuntimeError) as error:
            self._give_up()
            fresh.unlink(missing_ok=True)
            kept = f", with {counted(len(previous))} safe in it" if previous else ""
            raise DataError(f"{self.partial} cannot be written: {reason(error)}{kept}.") from None

    def _copy(self, previous: Summary) -> None:
        with open_to_read(previous.path) as source:
            there = summarise(source, previous.path)
            for name, target in self._datasets.items():
                count = len(there) if name in ("length", "recording") else there.samples
                target.resize(count, axis=0)
                if name == "recording":
                    target[:] = np.array([n.encode() for n in there.recordings], dtype=_NAME)
                    continue
                for start in range(0, count, BLOCK_ROWS):
                    stop = min(start + BLOCK_ROWS, count)
                    target[start:stop] = source[name][start:stop]
        self._lengths, self._rows = there.lengths.tolist(), there.samples
        self._names = list(there.recordings)

    def _put(self, name: str, values: np.ndarray, start: int, stop: int) -> None:
        """Write rows and hand them to the operating system."""
        dataset = self._datasets[name]
        if len(dataset) < stop:  # longer when the trajectory before was interrupted half-way
            dataset.resize(stop, axis=0)
        dataset[start:stop] = values
        dataset.flush()

    def _checked_truth(self, truth: Mapping[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
        if set(truth) != set(self._truth):
            raise DataError(
                f"The truth should be {listing(self._truth)}, not {listing(sorted(truth))}."
            )
        for name, width in self._truth.items():
            if np.shape(truth[name]) != (length, width) or not np.isfinite(truth[name]).all():
                raise DataError(
                    f"The truth {name!r} of trajectory {len(self)} must be finite numbers "
                    f"[{length}, {width}], not {list(np.shape(truth[name]))}."
                )
        return {f"{TRUTH}/{name}": truth[name] for name in self._truth}
