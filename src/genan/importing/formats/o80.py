"""Logs of o80 and o80_pam, as tables: the columns of ``o80_pam``'s data frames in Parquet or CSV.

Time stamps are nanoseconds, positions rad, velocities rad/s, pressures the robot's integer counts.
Samples before the encoders have found their reference are left out: their positions mean nothing.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genan.errors import DataError, listing
from genan.importing.formats.table import as_matrix, parquet_file, read_csv, read_parquet, sniff
from genan.importing.source import LogSource, RawRecording, Stream, no_column

_TIME = "time_stamp"
_REFERENCE = re.compile(r"reference_found_\d+")
_PRESSURE = re.compile(r"(desired|observed)_pressure_(\d+)_(ago|antago)")
_COLUMNS = re.compile(
    rf"iteration|frequency|(position|velocity)_\d+|{_PRESSURE.pattern}|{_REFERENCE.pattern}"
)
_UNITS = {"position": "rad", "velocity": "rad/s", "frequency": "Hz"}
_UNITS |= {"desired": "counts", "observed": "counts"}
_TABLES, _PICKLES = (".parquet", ".csv"), (".df", ".pkl", ".pickle")


def is_o80(path: Path) -> bool:
    """A table with the columns of o80, or a pickle (to say that it is refused)."""
    files = [file for file in _files(path) if file.suffix in (*_TABLES, *_PICKLES)]
    try:
        return bool(files) and (_is_pickle(files[0]) or bool(_names(files[0])))
    except (DataError, ImportError):
        return False


def open_o80(path: Path) -> LogSource:
    """A log, or a folder of logs: one recording each."""
    for file in filter(_is_pickle, _files(path)):
        raise DataError(
            f"{file} is a pickle of pandas, and opening one runs whatever code is in it, so it is "
            'not opened here; convert it where you trust it: python -c "import pandas; '
            f"pandas.read_pickle('{file.name}').to_parquet('{file.stem}.parquet')\""
        )
    files = [file for file in _files(path) if file.suffix in _TABLES]
    if not files:
        raise DataError(f"{path} has no log of o80 in it (.parquet or .csv).")
    names = [name for name in _names(files[0]) if _COLUMNS.fullmatch(name)]

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        done = 0
        for file in files:
            done += file.stat().st_size
            yield _read(file, names, done)

    def joint(name: str) -> tuple[int, str]:
        return int(re.findall(r"\d+", name)[0]), name

    return LogSource(
        "o80",
        path,
        files,
        columns={name: _UNITS.get(name.partition("_")[0], "") for name in names},
        read=read,
        recordings=[(file.stem, {}) for file in files],
        positions=sorted((name for name in names if name.startswith("position_")), key=joint),
        # agonist and antagonist of the first joint, of the second, ...
        commands=sorted((name for name in names if name.startswith("desired_")), key=joint),
    )


def _read(path: Path, names: Sequence[str], done: int) -> RawRecording:
    present = _names(path)
    if missing := [name for name in names if name not in present or name == _TIME]:
        raise no_column(path, missing, [name for name in present if _COLUMNS.fullmatch(name)])
    found = [name for name in present if _REFERENCE.fullmatch(name)]
    wanted = [_TIME, *dict.fromkeys((*names, *found))]
    if path.suffix == ".csv":
        kinds = {name: "bool" if name in found else "float64" for name in wanted}
        columns = read_csv(path, kinds | {_TIME: "int64"})
    else:
        columns = read_parquet(path, wanted)
    for name in (_TIME, *found):
        if columns[name].dtype.kind not in "iub":
            raise DataError(f"{path} has empty entries in {name!r}; it was not written whole.")
    keep = np.all([np.ones(len(columns[_TIME]), bool), *(columns[n] != 0 for n in found)], axis=0)
    left_out = int((~keep).sum())
    if not keep.any():
        lost = f"none of its {left_out} samples has its reference found"
        why = lost if left_out else "it has no samples"
        raise DataError(f"{path} has nothing to import: {why}; leave it out.")
    stamp = columns[_TIME][keep]
    values = as_matrix([columns[name][keep] for name in names])
    stream = Stream(tuple(names), (stamp - stamp[0]) / 1e9, values)
    facts: dict[str, Any] = {"start": int(stamp[0]) / 1e9}
    if left_out:
        facts["samples before the reference was found, left out"] = float(left_out)
    return RawRecording(path.stem, (stream,), facts, done)


def _files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _is_pickle(path: Path) -> bool:
    """Whether a file is a pickle, by its name and first bytes; it is never opened as one."""
    if path.suffix not in _PICKLES or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(2)
    return path.suffix == ".df" or (len(head) == 2 and head[0] == 0x80 and head[1] <= 5)


def _names(path: Path) -> list[str]:
    """Names of the columns of a log."""
    if path.suffix == ".csv":
        names = list(sniff(path).names)
    else:
        with parquet_file(path) as file:
            names = list(file.schema_arrow.names)
    if not (_TIME in names and "position_0" in names and any(map(_PRESSURE.fullmatch, names))):
        raise DataError(
            f"{path} is no log of o80: expected {_TIME!r}, 'position_0', 'desired_pressure_0_ago', "
            f"..., found {listing(names[:20])}."
        )
    return names
