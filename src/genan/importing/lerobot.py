"""LeRobot data sets (v3.0, and v2.0 and v2.1, whose tables have the same columns).

A column is a number of a feature, ``observation.state[shoulder_pan.pos]`` by the names in
``meta/info.json``, or ``observation.state:0``. An episode is a recording; its time is the column
``timestamp``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from genan import memory
from genan.errors import DataError, listing, refuse
from genan.importing.source import LogSource, RawRecording, check_names, damage, read_json
from genan.importing.table import Columns, check_parquet, parquet_file, parquet_names, read_parquet

VERSIONS = ("v2.0", "v2.1", "v3.0")  # Of the layout, that are read.
_PARTLY = "the files were not copied whole; copy them again"
#: Columns that count and stamp the frames; they are no signals of the robot.
_BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")


def is_lerobot(path: Path) -> bool:
    """A folder with ``meta/info.json``."""
    return (path / "meta" / "info.json").is_file()


def open_lerobot(path: Path) -> LogSource:
    """A folder with ``meta/info.json`` and ``data/``."""
    about = path / "meta" / "info.json"
    info = read_json(about)
    declared = info.get("features")
    declared = declared if isinstance(declared, dict) else {}
    version = str(info.get("codebase_version", "none"))
    if version not in VERSIONS:
        read_here = f"version {version!r}; {listing(VERSIONS)} can be read"
        todo = "convert it with LeRobot's lerobot.datasets.v30.convert_dataset_v21_to_v30"
        raise DataError(f"{path} is a LeRobot data set of {read_here}: {todo}.")
    signals = {name: spec for name, spec in declared.items() if name not in _BOOKKEEPING}
    found = {name: _feature_columns(name, spec) for name, spec in signals.items()}
    features = {name: own for name, own in found.items() if own}
    if not features:
        dtypes = {n: s.get("dtype") if isinstance(s, dict) else s for n, s in signals.items()}
        only = ", ".join(f"{name} ({kind})" for name, kind in dtypes.items()) or "no features"
        needed = "positions and commands are needed (observation.state and action)"
        raise DataError(f"{path} has no numbers of a robot, only {only}; {needed}.")
    folder = path / Path(str(info.get("data_path") or "data/")).parts[0]
    files = sorted(folder.rglob("*.parquet"))
    if not files:
        raise DataError(f"{folder} has no .parquet file; the data set was not copied whole.")
    fps, frames = info.get("fps"), info.get("total_frames", "an unknown number of")
    period = 1 / fps if isinstance(fps, int | float) and fps > 0 else None
    known = _episodes(path / "meta")
    # a column may be called by its number as well, which the tables have it by
    named = {name: f"{key}:{i}" for key, own in features.items() for i, name in enumerate(own)}
    numbered = named | {number: number for number in named.values()}

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        check_names(path, names, list(numbered))
        seen = set[int]()
        frames = _frames(files, [numbered[name] for name in names], period)
        for episode, group in groupby(frames, lambda part: part[0]):
            _, parts, done = zip(*group, strict=True)
            whole = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
            columns = {name: whole[numbered[name]] for name in names}
            count, time = len(whole["episode_index"]), whole.get("timestamp")
            expected, facts = known.get(episode, (count, {"episode": float(episode)}))
            has = f"Episode {episode} of {path} has {count} frames, its meta says {expected}"
            refuse(
                (episode in seen, f"{path} goes back to episode {episode}; copy it again."),
                (expected != count, f"{has}: {_PARTLY}."),
                error=DataError,
            )
            seen.add(episode)
            yield RawRecording.of(f"episode_{episode:06d}", time, columns, facts, done[-1])
        if lost := sorted(set(known) - seen):
            of = f"{len(lost)} of its {len(known)} episodes (the first is {lost[0]})"
            raise DataError(f"{path} lacks {of}: {_PARTLY}.")

    kinds = {name: signals[key]["dtype"] for key, own in features.items() for name in own}
    columns = {name: f"{kind}, {frames} frames" for name, kind in kinds.items()}
    recordings = [(f"episode_{i:06d}", facts) for i, (_, facts) in sorted(known.items())] or None
    more = (period, features.get("observation.state", ()), features.get("action", ()))
    return LogSource("lerobot", path, files, columns, read, recordings, *more)


def _feature_columns(feature: str, spec: Any) -> list[str]:
    """The columns of a feature of numbers; none: images, videos, texts."""
    try:
        numeric = np.dtype(spec["dtype"]).kind in "fiub"
        width = int(np.prod([int(size) for size in spec.get("shape") or [1]])) if numeric else 0
    except (TypeError, KeyError, ValueError):
        return []
    if not 2 <= width <= memory.MOST_COLUMNS:
        return [feature] * (width == 1)
    names = spec.get("names")
    while isinstance(names, dict):
        places = list(names.values())
        if all(isinstance(place, int) for place in places):  # {"x": 0, "y": 1}
            names = sorted(names, key=names.__getitem__)
        else:  # {"motors": ["x", "y"]}
            names = places[0] if len(places) == 1 else None
    if isinstance(names, list) and len(names) == len(set(map(str, names))) == width:
        return [f"{feature}[{name}]" for name in names]
    return [f"{feature}:{i}" for i in range(width)]


def _frames(
    files: Sequence[Path], names: Sequence[str], period: float | None
) -> Iterator[tuple[int, Columns, int]]:
    """Episode and columns of each episode's frames in each file, and bytes read."""
    done = 0
    for path in files:
        stamps = {"timestamp", "frame_index"} & set(parquet_names(path))
        columns = read_parquet(path, [*names, "episode_index", *stamps])
        if period is not None and len(stamps) == 2:
            # kept in single precision: where they are the frame's number times the period to that
            # precision, that is what they mean
            time, exact = columns["timestamp"], columns["frame_index"] * period
            if np.all(np.abs(time - exact) <= 2.0**-23 * np.abs(exact)):
                columns["timestamp"] = exact
        done += path.stat().st_size
        episodes = columns["episode_index"].astype(np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(episodes)) + 1).tolist(), len(episodes)]
        for a, b in pairwise(cuts if len(episodes) else []):
            yield int(episodes[a]), {name: x[a:b] for name, x in columns.items()}, done


def _episodes(meta: Path) -> dict[int, tuple[int, dict[str, Any]]]:
    """Frames and facts of each episode, as ``meta`` lists them; nothing where it does not."""
    rows, taken = list[Mapping[str, Any]](), 0
    for path in sorted((meta / "episodes").rglob("*.parquet")):
        with parquet_file(path) as file:
            have = {"episode_index", "length", "tasks"} & set(file.schema_arrow.names)
            check_parquet(path, file, sorted(have), text=True)
            memory.take(memory.RECORDING * file.metadata.num_rows, f"{path}: its episodes", path)
            for batch in file.iter_batches(16, columns=sorted(have)):  # each text may be long
                rows += batch.to_pylist()
                taken += batch.nbytes
                memory.take(taken, f"{path}, unpacked,", path)
    with damage(f"The episodes in {meta} cannot be read", "; copy again"):
        if (meta / "episodes.jsonl").is_file():
            lines = (meta / "episodes.jsonl").read_text().splitlines()
            rows += [json.loads(line) for line in lines if line.strip()]
        found: dict[int, tuple[int, dict[str, Any]]] = {}
        for row in rows:
            tasks = "; ".join(map(str, row.get("tasks") or ()))
            facts = {"episode": float(row["episode_index"])} | ({"task": tasks} if tasks else {})
            found[int(row["episode_index"])] = (int(row["length"]), facts)
    return found
