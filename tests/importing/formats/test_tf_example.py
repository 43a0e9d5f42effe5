"""Examples written by the protobuf library, packed and not, come back piece by piece."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.importing.tf_example import Record, features
from genan.errors import DataError

pytest.importorskip("google.protobuf", reason="an independent writer of protobuf")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_lists_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, whole: bool
) -> None:
    if not whole:  # as for records that are too long to be read at once
        monkeypatch.setattr("genan.importing.tf_example._WHOLE", 0)
        monkeypatch.setattr("genan.importing.tf_example._BLOCK", 50)
    rng = np.random.default_rng(0)
    integers = np.concatenate(
        [[0, 1, -1, 127, 128, 2**62, -(2**63)], rng.integers(-(2**40), 2**40, 100)]
    )
    content = {
        "floats": rng.normal(size=1001).astype(np.float32),
        "integers": integers,
        "flags": rng.integers(0, 2, 333),
        "texts": [b"one", b"", b"three" * 50],
        "none": np.zeros(0, np.float32),
    }
    path = tmp_path / "example"
    path.write_bytes(example(content, packed=packed))
    with path.open("rb") as file:
        record = Record(file.fileno(), 0, path.stat().st_size)
        found = features(record)
        assert set(found) == set(content)
        for name in ("floats", "integers", "flags"):
            assert found[name].count(record) == len(content[name])
            for size in (1, 7, 5000) if name != "integers" else (7, 5000):
                parts = list(found[name].values(record, size))
                assert all(len(part) == size for part in parts[:-1])
                np.testing.assert_array_equal(np.concatenate(parts), content[name])
        assert found["texts"].texts(record) == content["texts"]
        assert found["none"].count(record) == 0


def test_what_is_no_example_is_refused(tmp_path: Path) -> None:
    good = example({"floats": np.ones(8, np.float32)})
    for bad in (good[:-3], b"\xff" * 20, b"\x0a\x05hello", good[:1] + b"\x7f" + good[2:]):
        path = tmp_path / "bad"
        path.write_bytes(bad)
        with (
            path.open("rb") as file,
            pytest.raises(DataError, match=r"no tf.train.Example: byte \d+"),
        ):
            features(Record(file.fileno(), 0, len(bad)))
