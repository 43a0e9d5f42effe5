"""Episodes of RLDS in TFRecords, written by the protobuf library and tensorboard's record writer,
come back."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.source import RawRecording
from genan.importing.tfrecord import example_features, is_tfrecord, open_tfrecord

pytest.importorskip("google.protobuf", reason="an independent writer of protobuf")
writers = pytest.importorskip(
    "tensorboard.summary.writer.record_writer", reason="an independent writer of TFRecords"
)

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

REPEATED = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
OPTIONAL = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL


def example_class(*, packed: bool = True) -> Any:
    """``tf.train.Example`` as its definition says, made by the protobuf library."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"example_{packed}.proto", package=f"tf{packed}", syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, Any, str]) -> Any:
        made = file.message_type.add(name=name)
        for key, number, label, kind, type_name in fields:
            new = made.field.add(name=key, number=number, label=label, type=kind)
            if type_name:
                new.type_name = f".tf{packed}.{type_name}"
            elif label == REPEATED and kind != field.TYPE_BYTES:
                new.options.packed = packed
        return made

    message("BytesList", ("value", 1, REPEATED, field.TYPE_BYTES, ""))
    message("FloatList", ("value", 1, REPEATED, field.TYPE_FLOAT, ""))
    message("Int64List", ("value", 1, REPEATED, field.TYPE_INT64, ""))
    lists = ("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")
    message(
        "Feature",
        *((key, i + 1, OPTIONAL, field.TYPE_MESSAGE, kind) for i, (key, kind) in enumerate(lists)),
    )
    outer = message(
        "Features", ("feature", 1, REPEATED, field.TYPE_MESSAGE, "Features.FeatureEntry")
    )
    entry = outer.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=OPTIONAL, type=field.TYPE_STRING)
    entry.field.add(
        name="value",
        number=2,
        label=OPTIONAL,
        type=field.TYPE_MESSAGE,
        type_name=f".tf{packed}.Feature",
    )
    message("Example", ("features", 1, OPTIONAL, field.TYPE_MESSAGE, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tf{packed}.Example"))


def example(content: dict[str, Any], *, packed: bool = True) -> bytes:
    """An Example of lists of floats (arrays), integers (arrays) and bytes."""
    made = example_class(packed=packed)()
    for name, value in content.items():
        feature = made.features.feature[name]
        if isinstance(value, list):
            feature.bytes_list.value.extend(value)
        elif np.asarray(value).dtype.kind == "f":
            feature.float_list.value.extend(np.asarray(value, np.float32).ravel().tolist())
        else:
            feature.int64_list.value.extend(np.asarray(value).astype(np.int64).ravel().tolist())
    return bytes(made.SerializeToString())


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
            writer.write(example(episode))


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


def test_episodes_come_back(tmp_path: Path) -> None:
    episodes = [
        _episode(0, name="/data/run_a.df", marks=(0, 20, 41)),
        _episode(1, name="C:\\data\\run_b.df"),
    ]
    folder = tmp_path / "pamy2_dynamic_motions" / "1.0.0"
    for i, episode in enumerate(episodes):
        _write(folder / f"pamy2_dynamic_motions-train.tfrecord-0000{i}-of-00002", [episode])
    source = open_tfrecord(tmp_path / "pamy2_dynamic_motions")
    assert is_tfrecord(source.path)
    assert source.period == 1 / 500
    assert source.positions == [f"observation/state:{i}" for i in range(4)]
    assert source.commands == [f"action:{i}" for i in range(8)]
    chunks = list(source.read(WANTED))
    assert chunks[-1].done == source.size
    assert chunks[0].facts == {"file_path": "/data/run_a.df"}
    found = _together(chunks)
    assert list(found) == ["run_a#0", "run_a#1", "run_a#2", "run_b"]
    for name, piece in (
        ("run_a#0", slice(0, 20)),
        ("run_a#1", slice(20, 41)),
        ("run_a#2", slice(41, T)),
    ):
        np.testing.assert_array_equal(found[name], _expected(episodes[0])[piece])
    np.testing.assert_array_equal(found["run_b"], _expected(episodes[1]))


def test_without_a_known_name_there_is_no_period_and_records_are_counted(tmp_path: Path) -> None:
    _write(tmp_path / "log.tfrecord", [_episode(0), _episode(1)])
    source = open_tfrecord(tmp_path / "log.tfrecord")
    assert source.period is None
    assert list(_together(list(source.read(["action:0"])))) == ["log.tfrecord:1", "log.tfrecord:2"]
    names = list(source.columns)
    assert {"observation/state:15", "action:0", "reward", "is_first", "counter:1"} <= set(names)
    assert not any("language" in name for name in names)


def test_shapes_come_from_features_json_where_steps_do_not_count_themselves(tmp_path: Path) -> None:
    state = np.arange(30, dtype=np.float32).reshape(10, 3)
    _write(tmp_path / "x-train.tfrecord-00000-of-00001", [{"steps/observation/state": state}])
    with pytest.raises(DataError, match="does not say how many steps it has .*features.json"):
        open_tfrecord(tmp_path)
    tensor = {"tensor": {"shape": {"dimensions": ["3"]}, "dtype": "float32"}}
    observation = {"featuresDict": {"features": {"state": tensor}}}
    steps = {"sequence": {"feature": {"featuresDict": {"features": {"observation": observation}}}}}
    (tmp_path / "features.json").write_text(
        json.dumps({"featuresDict": {"features": {"steps": steps}}})
    )
    (found,) = _together(list(open_tfrecord(tmp_path).read(["observation/state:2"]))).values()
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
            list(open_tfrecord(path).read(["action:0"]))


def test_a_file_that_is_cut_is_refused_and_says_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    _write(path, [_episode(0), _episode(1)])
    whole = path.read_bytes()
    (first,) = struct.unpack_from("<Q", whole)
    second = 12 + first + 4
    for end in (second + 5, second + 100, len(whole) - 2):
        path.write_bytes(whole[:end])
        with pytest.raises(
            DataError, match=(f"ends at byte {end}, in record 2, .* keep the 1 records before it")
        ):
            list(open_tfrecord(path).read(["action:0"]))
    path.write_bytes(whole[:second])  # as the message says
    assert len(_together(list(open_tfrecord(path).read(["action:0"])))) == 1


def test_what_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    _write(path, [_episode(0)])
    with pytest.raises(
        DataError, match="no column 'action:8'; the columns there are: .*'action:7'"
    ):
        list(open_tfrecord(path).read(["action:8"]))
    _write(path, [{"image": [b"png"]}])
    with pytest.raises(DataError, match="no numbers in features 'steps/...', only 'image'"):
        open_tfrecord(path)
    _write(path, [_episode(0) | {"steps/odd": np.zeros(T + 1, np.float32)}])
    with pytest.raises(
        DataError, match="61 numbers of 'odd' for 60 steps, not the same for each step"
    ):
        list(open_tfrecord(path).read(["odd:0"]))
    path.write_bytes(b"\x1f\x8b\x08" + bytes(20))
    with pytest.raises(DataError, match="compressed with gzip"):
        list(open_tfrecord(path).read(["action:0"]))
    path.write_bytes(b"")
    with pytest.raises(DataError, match="no records"):
        list(open_tfrecord(path).read(["action:0"]))
    (tmp_path / "text.txt").write_text("hello, this is no record")
    assert not is_tfrecord(tmp_path / "text.txt")


@pytest.mark.parametrize("packed", [True, False])
def test_lists_of_an_example_come_back(packed: bool) -> None:
    rng = np.random.default_rng(0)
    special = [0, 1, -1, 127, 128, 2**62, -(2**63)]
    content = {
        "floats": rng.normal(size=1001).astype(np.float32),
        "integers": np.concatenate([special, rng.integers(-(2**40), 2**40, 100)]),
        "texts": [b"one", b"", b"three" * 50],
        "none": np.zeros(0, np.float32),
    }
    found = example_features(example(content, packed=packed), "it")
    assert set(found) == set(content)
    for name, values in content.items():
        np.testing.assert_array_equal(found[name], values)


def test_what_is_no_example_is_refused() -> None:
    good = example({"floats": np.ones(8, np.float32)})
    for bad in (good[:-3], b"\xff" * 20, b"\x0a\x05hello", good[:1] + b"\x7f" + good[2:]):
        with pytest.raises(DataError, match="Record 1 cannot be read: it is no tf.train.Example"):
            example_features(bad, "Record 1")
