"""What every importer is: a ``Source`` that names its columns and gives them in chunks, in the
order of recording.

A source knows files and formats and nothing of robots: which column is which joint, units, rates,
gaps and writing are the business of ``genan.data.importing`` as a whole, the same for all formats.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Column:
    """One number over time that a source has."""

    name: str
    """What the mapping calls it: ``elbow`` in a table, ``/joint_states.position[elbow]`` in a
    bag."""
    words: str = ""
    """What is known of it before reading: type, number of samples, rate."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Some samples of columns that were recorded together."""

    names: tuple[str, ...]
    """The columns."""
    time: Float[np.ndarray, " n"] | None
    """Time stamps [s], in the order of the file, as they are; None where the source has none (see
    ``period``)."""
    values: Float[np.ndarray, "n k"]
    """In the source's own units, one column for each name."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """A part of one recording. The chunks of a recording follow each other; together they are all
    of it."""

    recording: str
    """Name of the recording: of its file, episode or trajectory; each has its own."""
    streams: tuple[Stream, ...]
    """One for each clock: a table has one, a bag one for each topic. Every wanted column is in one
    of them; a stream may be empty or left out where a chunk has no samples of it."""
    facts: Mapping[str, str | float] = field(default_factory=dict)
    """What the source says of the recording (``kind``, ``kp_firmware``, ...), for choosing
    recordings by."""
    done: int = 0
    """Bytes of the source that are read up to here, for the progress bar."""


class Source(ABC):
    """A log or a folder of logs of one format. Reading is streamed: memory does not grow with the
    file."""

    format: ClassVar[str]
    """What the format is called: in flags, in messages and in the provenance."""
    path: Path
    """The file or folder."""

    @classmethod
    @abstractmethod
    def matches(cls, path: Path) -> bool:
        """Whether ``path`` looks like this format, by its name and its first bytes; never raises
        for a strange file."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes there are to read."""

    @property
    def period(self) -> float | None:
        """Sampling period [s] that the source declares, where its streams carry no time stamps;
        None: it does not."""
        return None

    @property
    def positions(self) -> tuple[str, ...]:
        """Columns that are the joint positions by the format's own rules, in order; none where it
        has no such rule. They are taken for the robot's joints where no mapping is given and no
        column has a joint's name.
        """
        return ()

    @property
    def commands(self) -> tuple[str, ...]:
        """As ``positions``, for the controls."""
        return ()

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...] | None:
        """Name and facts of every recording in the order of ``read``; None where only reading would
        tell."""
        return None

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """Every column that could be asked for, without reading the samples."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The columns ``names`` of every recording, chunk after chunk; a name that is not there is
        refused, and the message lists those that are. Chunks hold at most some 16 MB of numbers.
        """
