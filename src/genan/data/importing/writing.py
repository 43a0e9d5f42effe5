"""Writing trajectories as they are made, into a file that has its name only when it is whole.

Nothing is compressed: sensor noise does not shrink by more than a tenth, and gzip would take most
of the time of an import. Every chunk has a checksum.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float

from genan.data.hdf5 import (
    BLOCK_ROWS,
    CHUNK_ROWS,
    Lock,
    abandon,
    describe,
    make_folder,
    publish,
    reason,
    refuse_existing,
    write_lengths,
)
from genan.data.trajectories import Channels
from genan.errors import DataError


class TrajectoryWriter:
    """Writes one recording file of unknown length; ``finish`` gives it its name, ``discard`` leaves
    nothing."""

    def __init__(self, path: Path, channels: Channels, *, overwrite: bool) -> None:
        """Refuse a file that is there, unless it may be replaced; it is replaced by ``publish``
        only."""
        self.path, self.channels = path, channels
        self.lengths: list[int] = []
        self.names: list[str] = []
        if not overwrite:
            refuse_existing(path)
        make_folder(path.parent)
        self._lock: Lock | None = Lock(path)
        self._temporary = path.with_name(path.name + ".writing")
        self._waiting: dict[str, list[np.ndarray]] = {"q": [], "u": []}
        self._rows = 0
        self._file: h5py.File | None = None
        self._datasets: dict[str, h5py.Dataset] = {}
        try:
            self._file = h5py.File(self._temporary, "w", libver=("earliest", "v110"))
            for name, width in (("q", channels.nq), ("u", channels.nu)):
                self._datasets[name] = self._file.create_dataset(
                    name,
                    (0, width),
                    "<f8",
                    maxshape=(None, width),
                    chunks=(CHUNK_ROWS, width),
                    fletcher32=True,
                    track_times=False,
                )
        except BaseException as error:
            self.discard()
            raise self._failed(error) from None

    def append(
        self, q: Float[np.ndarray, "n nq"], u: Float[np.ndarray, "n nu"], recording: str
    ) -> None:
        """Add one trajectory; the caller has checked it."""
        self._waiting["q"].append(q)
        self._waiting["u"].append(u)
        self._rows += len(q)
        self.lengths.append(len(q))
        self.names.append(recording)
        if self._rows >= BLOCK_ROWS:
            self._flush()

    def finish(self, provenance: Mapping[str, Any]) -> None:
        """Write what says what the file is, and bring it onto the disk; ``publish`` gives it its
        name."""
        self._flush()
        assert self._file is not None
        try:
            describe(self._file, self.channels, provenance)
            self._datasets |= dict(
                enumerate(write_lengths(self._file, np.array(self.lengths), self.names))
            )  # type: ignore[arg-type]
            self._file.flush()
            self._file.close()
        except BaseException as error:
            self.discard()
            raise self._failed(error) from None
        self._file, self._datasets = None, {}

    def publish(self) -> None:
        """Give the finished file its name, in one step."""
        publish(self._temporary, self.path)
        self._release()

    def discard(self) -> None:
        """Leave nothing behind; after ``publish`` it does nothing."""
        if self._file is not None:
            abandon(self._file)
            self._file, self._datasets = None, {}
        if self._lock is not None:
            self._temporary.unlink(missing_ok=True)
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _flush(self) -> None:
        for name, parts in self._waiting.items():
            if not parts:
                continue
            values = parts[0] if len(parts) == 1 else np.concatenate(parts)
            dataset = self._datasets[name]
            start = len(dataset)
            try:
                dataset.resize(start + len(values), axis=0)
                dataset[start:] = values
            except (OSError, RuntimeError) as error:
                self.discard()
                raise self._failed(error) from None
            parts.clear()
        self._rows = 0

    def _failed(self, error: BaseException) -> BaseException:
        if isinstance(error, OSError | RuntimeError):
            return DataError(
                f"{self.path} could not be written: {reason(error)}; nothing was left behind."
            )
        return error
