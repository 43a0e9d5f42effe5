"""Episodes of RLDS in TFRecords, written by the protobuf library and tensorboard's record writer,
come back."""

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.importing.source import RawRecording
from genan.importing.formats.tfrecord import TFRecordSource
from genan.errors import DataError

pytest.importorskip("google.protobuf", reason="an independent writer of protobuf")
writers = pytest.importorskip(
    "tensorboard.summary.writer.record_writer", reason="an independent writer of TFRecords"
)

_beside = importlib.util.spec_from_file_location(
    "importing_tf_example", Path(__file__).with_name("test_tf_example.py")
)
assert _beside is not None and _beside.loader is not None
_examples = importlib.util.module_from_spec(_beside)
_beside.loader.exec_module(_examples)

T = 60


def _episode(seed: int, *, name: str = "", marks: tuple[int, ...] = (0,)) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    first = np.zeros(T, np.int64)
    first[list(marks)] = 1
    content = {
        "steps/observation/state": rng.normal(size=(T, 16)).astype(np.float32),
        "steps/action": rng.integers(12000, 25000, (T, 8)).astype(np.float32),
        "steps/reward": np.zeros(T, np.float32),
        "steps/is_first": first,
        "steps/is_last": np.roll(first, -1),
        "steps/counter": rng.integers(-1000, 10**9, (T, 2)),
        "steps/language_instruction": [b"move"] * T,
    }
    return content | ({"episode_metadata/file_path": [name.encode()]} if name else {})


def _write(path: Path, episodes: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = writers.RecordWriter(file)
        for episode in episodes:
            writer.write(_examples.example(episode))


def _together(chunks: list[RawRecording]) -> dict[str, np.ndarray]:
    found: dict[str, list[np.ndarray]] = {}
    for chunk in chunks:
        (stream,) = chunk.streams
        assert stream.time is None
        found.setdefault(chunk.name, []).append(stream.values)
    return {name: np.concatenate(parts) for name, parts in found.items()}


WANTED = ["observation/state:0", "observation/state:15", "action:7", "counter:1", "reward"]


def _expected(episode: dict[str, Any]) -> np.ndarray:
    state, action = episode["steps/observation/state"], episode["steps/action"]
    counter, reward = episode["steps/counter"], episode["steps/reward"]
    return np.stack(
        [state[:, 0], state[:, 15], action[:, 7], counter[:, 1], reward], axis=1
    ).astype(np.float64)


@pytest.mark.parametrize("rows", [7, 10**6])
def test_episodes_come_back_in_pieces_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr("genan.importing.tfrecord.CHUNK", rows * 8 * 27)
    episodes = [
        _episode(0, name="/data/run_a.df", marks=(0, 20, 41)),
        _episode(1, name="C:\\data\\run_b.df"),
    ]
    folder = tmp_path / "pamy2_dynamic_motions" / "1.0.0"
    for i, episode in enumerate(episodes):
        _write(folder / f"pamy2_dynamic_motions-train.tfrecord-0000{i}-of-00002", [episode])
    source = TFRecordSource(tmp_path / "pamy2_dynamic_motions")
    assert TFRecordSource.matches(source.path)
    assert source.period == 1 / 500
    assert source.positions == tuple(f"observation/state:{i}" for i in range(4))
    assert source.commands == tuple(f"action:{i}" for i in range(8))
    chunks = list(source.read(WANTED))
    assert chunks[-1].done == source.size
    assert chunks[0].facts == {"file_path": "/data/run_a.df"}
    found = _together(chunks)
    assert (
        [name for name, _ in source.recordings() or ()]
        == list(found)
        == ["run_a#0", "run_a#1", "run_a#2", "run_b"]
    )
    for name, piece in (
        ("run_a#0", slice(0, 20)),
        ("run_a#1", slice(20, 41)),
        ("run_a#2", slice(41, T)),
    ):
        np.testing.assert_array_equal(found[name], _expected(episodes[0])[piece])
    np.testing.assert_array_equal(found["run_b"], _expected(episodes[1]))


def test_without_a_known_name_there_is_no_period_and_records_are_counted(tmp_path: Path) -> None:
    _write(tmp_path / "log.tfrecord", [_episode(0), _episode(1)])
    source = TFRecordSource(tmp_path / "log.tfrecord")
    assert source.period is None
    assert list(_together(list(source.read(["action:0"])))) == ["log.tfrecord:1", "log.tfrecord:2"]
    names = [column.name for column in source.columns()]
    assert {"observation/state:15", "action:0", "reward", "is_first", "counter:1"} <= set(names)
    assert not any("language" in name for name in names)


def test_shapes_come_from_features_json_where_steps_do_not_count_themselves(tmp_path: Path) -> None:
    state = np.arange(30, dtype=np.float32).reshape(10, 3)
    _write(tmp_path / "x-train.tfrecord-00000-of-00001", [{"steps/observation/state": state}])
    with pytest.raises(DataError, match="does not say how many steps it has .*features.json"):
        TFRecordSource(tmp_path).columns()
    tensor = {"tensor": {"shape": {"dimensions": ["3"]}, "dtype": "float32"}}
    observation = {"featuresDict": {"features": {"state": tensor}}}
    steps = {"sequence": {"feature": {"featuresDict": {"features": {"observation": observation}}}}}
    (tmp_path / "features.json").write_text(
        json.dumps({"featuresDict": {"features": {"steps": steps}}})
    )
    (found,) = _together(list(TFRecordSource(tmp_path).read(["observation/state:2"]))).values()
    np.testing.assert_array_equal(found[:, 0], state[:, 2])


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    _write(path, [_episode(0), _episode(1)])
    whole = path.read_bytes()
    (first,) = struct.unpack_from("<Q", whole)
    second = 12 + first + 4
    for place, words in (
        (second + 500, f"checksum of the data of record 2 .from byte {second}. is wrong"),
        (second + 2, f"checksum of the length of record 2 .from byte {second}. is wrong"),
        (len(whole) - 1, "checksum of the data of record 2"),
    ):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=words):
            list(TFRecordSource(path).read(["action:0"]))


def test_a_file_that_is_cut_is_refused_and_says_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    _write(path, [_episode(0), _episode(1)])
    whole = path.read_bytes()
    (first,) = struct.unpack_from("<Q", whole)
    second = 12 + first + 4
    for end in (second + 5, second + 100, len(whole) - 2):
        path.write_bytes(whole[:end])
        with pytest.raises(
            DataError,
            match=f"ends at byte {end}, in the middle of record 2, .*; 1 whole records stand",
        ):
            list(TFRecordSource(path).read(["action:0"]))
    path.write_bytes(whole[:second])  # as the message says
    assert len(_together(list(TFRecordSource(path).read(["action:0"])))) == 1


def test_what_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    _write(path, [_episode(0)])
    with pytest.raises(DataError, match="no column 'action:8'; it has .*action:0 to action:7"):
        list(TFRecordSource(path).read(["action:8"]))
    _write(path, [{"image": [b"png"]}])
    with pytest.raises(DataError, match="no features 'steps/...', only 'image'"):
        TFRecordSource(path).columns()
    _write(path, [_episode(0) | {"steps/odd": np.zeros(T + 1, np.float32)}])
    with pytest.raises(
        DataError, match="61 numbers of 'odd' for 60 steps, not the same for each step"
    ):
        list(TFRecordSource(path).read(["odd:0"]))
    path.write_bytes(b"\x1f\x8b\x08" + bytes(20))
    with pytest.raises(DataError, match="compressed with gzip"):
        list(TFRecordSource(path).read(["action:0"]))
    path.write_bytes(b"")
    with pytest.raises(DataError, match="no records"):
        list(TFRecordSource(path).read(["action:0"]))
    (tmp_path / "text.txt").write_text("hello, this is no record")
    assert not TFRecordSource.matches(tmp_path / "text.txt")
    assert not TFRecordSource.matches(tmp_path / "absent")
