"""LeRobot data sets laid out as v3.0 and v2.1 say, their tables written by pyarrow, come back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.lerobot import is_lerobot, open_lerobot
from genan.importing.source import LogSource

pa = pytest.importorskip("pyarrow", reason="LeRobot data sets need pyarrow")
import pyarrow.parquet as pq  # noqa: E402

FPS = 30
LENGTHS = (40, 25, 60)
MOTORS = ["shoulder_pan.pos", "elbow.pos", "gripper.pos"]
COUNTERS = {
    name: {"dtype": "int64", "shape": [1], "names": None}
    for name in ("frame_index", "episode_index", "index")
}
FEATURES: dict[str, Any] = {
    "observation.state": {"dtype": "float32", "shape": [3], "names": MOTORS},
    "action": {"dtype": "float32", "shape": [3], "names": {"motors": MOTORS}},
    "observation.matrix": {"dtype": "float64", "shape": [2, 2], "names": None},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "observation.images.top": {
        "dtype": "video",
        "shape": [480, 640, 3],
        "names": ["height", "width", "channel"],
    },
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    **COUNTERS,
}


def _frames(episode: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(episode)
    n = LENGTHS[episode]
    return {
        "observation.state": rng.normal(size=(n, 3)).astype(np.float32),
        "action": rng.normal(size=(n, 3)).astype(np.float32),
        "observation.matrix": rng.normal(size=(n, 2, 2)),
        "next.reward": rng.normal(size=n).astype(np.float32),
        "timestamp": (np.arange(n) / FPS).astype(np.float32),
        "frame_index": np.arange(n),
        "episode_index": np.full(n, episode),
    }


def _table(episodes: list[int], *, fixed: bool = True) -> Any:
    """Lists of a fixed length, as LeRobot writes them, or of any length."""
    frames = [_frames(episode) for episode in episodes]
    columns: dict[str, Any] = {}
    for name in frames[0]:
        values = np.concatenate([frame[name] for frame in frames])
        if values.ndim == 2 and fixed:
            columns[name] = pa.FixedSizeListArray.from_arrays(
                pa.array(values.ravel()), values.shape[1]
            )
        else:
            columns[name] = pa.array(values.tolist() if values.ndim > 1 else values)
    return pa.table(columns)


def _info(version: str, features: dict[str, Any]) -> str:
    path = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    if version != "v3.0":
        path = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
    facts = {
        "codebase_version": version,
        "fps": FPS,
        "total_frames": sum(LENGTHS),
        "data_path": path,
    }
    return json.dumps(facts | {"total_episodes": len(LENGTHS), "features": features})


def _v3(
    root: Path, *, version: str = "v3.0", features: dict[str, Any] = FEATURES, fixed: bool = True
) -> Path:
    episodes = [
        {
            "episode_index": i,
            "length": n,
            "tasks": [f"task {i}"],
            "stats/action/max": [1.0],
            "data/file_index": i // 2,
        }
        for i, n in enumerate(LENGTHS)
    ]
    for folder in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / folder).mkdir(parents=True)
    (root / "meta/info.json").write_text(_info(version, features))
    pq.write_table(
        pa.Table.from_pylist(episodes), root / "meta/episodes/chunk-000/file-000.parquet"
    )
    pq.write_table(
        _table([0, 1], fixed=fixed), root / "data/chunk-000/file-000.parquet", row_group_size=30
    )
    pq.write_table(_table([2], fixed=fixed), root / "data/chunk-000/file-001.parquet")
    return root


WANTED = [f"observation.state[{name}]" for name in MOTORS] + [
    "action:2",
    "observation.matrix:3",
    "next.reward",
]


def _check(source: LogSource) -> None:
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for chunk in source.read(WANTED):
        (stream,) = chunk.streams
        assert stream.time is not None
        assert stream.names == tuple(WANTED)
        assert chunk.facts["task"] == f"task {chunk.facts['episode']:.0f}"
        found.setdefault(chunk.name, []).append((stream.time, stream.values))
    assert list(found) == ["episode_000000", "episode_000001", "episode_000002"]
    assert [name for name, _ in source.recordings or ()] == list(found)
    for episode, parts in enumerate(found.values()):
        time, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        frame = _frames(episode)
        np.testing.assert_allclose(
            time, np.arange(LENGTHS[episode]) / FPS, rtol=1e-15
        )  # not those of single precision
        expected = [
            *frame["observation.state"].T,
            frame["action"][:, 2],
            frame["observation.matrix"][:, 1, 1],
        ]
        np.testing.assert_array_equal(
            values, np.stack([*expected, frame["next.reward"]], axis=1).astype(np.float64)
        )


@pytest.mark.parametrize("fixed", [True, False])
def test_version_3_comes_back(tmp_path: Path, fixed: bool) -> None:
    source = open_lerobot(_v3(tmp_path / "set", fixed=fixed))
    assert is_lerobot(source.path)
    _check(source)
    assert source.period == 1 / FPS
    assert source.positions == WANTED[:3]
    assert source.commands == [f"action[{name}]" for name in MOTORS]
    names = list(source.columns)
    assert names == [
        *source.positions,
        *source.commands,
        *(f"observation.matrix:{i}" for i in range(4)),
        "next.reward",
    ]


def test_version_2_comes_back(tmp_path: Path) -> None:
    for folder in ("meta", "data/chunk-000"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "meta/info.json").write_text(_info("v2.1", FEATURES))
    lines = [
        {"episode_index": i, "length": n, "tasks": [f"task {i}"]} for i, n in enumerate(LENGTHS)
    ]
    (tmp_path / "meta/episodes.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for i in range(3):
        pq.write_table(_table([i]), tmp_path / f"data/chunk-000/episode_{i:06d}.parquet")
    _check(open_lerobot(tmp_path))


def test_names_may_be_places(tmp_path: Path) -> None:
    features = FEATURES | {
        "action": {"dtype": "float32", "shape": [3], "names": {"dy": 1, "dx": 0, "dz": 2}}
    }
    source = open_lerobot(_v3(tmp_path / "set", features=features))
    assert source.commands == ["action[dx]", "action[dy]", "action[dz]"]


def test_cameras_alone_are_refused_by_name(tmp_path: Path) -> None:
    features = {name: FEATURES[name] for name in ("observation.images.top", "timestamp", *COUNTERS)}
    with pytest.raises(
        DataError,
        match=r"no numbers of a robot, only observation.images.top \(video\); positions and",
    ):
        open_lerobot(_v3(tmp_path / "set", features=features))


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    source = open_lerobot(_v3(tmp_path / "set"))
    with pytest.raises(
        DataError,
        match=r"no column 'action\[knee\]'; the columns there are: 'observation.state\[should",
    ):
        list(source.read(["action[knee]"]))
    with pytest.raises(DataError, match="of version 'v1.6'; 'v2.0', 'v2.1', 'v3.0' can be read"):
        open_lerobot(_v3(tmp_path / "old", version="v1.6"))
    assert not is_lerobot(tmp_path / "absent")


def test_a_set_that_was_not_copied_whole_is_refused(tmp_path: Path) -> None:
    lost = _v3(tmp_path / "lost")
    (lost / "data/chunk-000/file-001.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of its 3 episodes .the first is 2."):
        list(open_lerobot(lost).read(WANTED))
    short = _v3(tmp_path / "short")
    pq.write_table(_table([2]).slice(0, 11), short / "data/chunk-000/file-001.parquet")
    with pytest.raises(DataError, match="Episode 2 of .* has 11 frames, its meta says 60"):
        list(open_lerobot(short).read(WANTED))
    cut = _v3(tmp_path / "cut")
    file = cut / "data/chunk-000/file-000.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(DataError, match="file-000.parquet cannot be read"):
        list(open_lerobot(cut).read(WANTED))
    (cut / "meta/info.json").write_text("{")
    with pytest.raises(DataError, match="info.json cannot be read"):
        open_lerobot(cut)
