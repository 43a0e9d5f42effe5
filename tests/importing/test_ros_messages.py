"""Numbers found by their places equal those of the rosbags library's deserialiser, for messages of
all shapes."""

import re
from typing import Any

import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.ros import MessageLayout

pytest.importorskip("rosbags", reason="bags need the rosbags library")
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

KINDS = [
    "sensor_msgs/msg/JointState",
    "sensor_msgs/msg/Imu",
    "nav_msgs/msg/Odometry",
    "trajectory_msgs/msg/JointTrajectory",
    "geometry_msgs/msg/PoseArray",
    "std_msgs/msg/Float32MultiArray",
    "sensor_msgs/msg/MultiDOFJointState",
    "sensor_msgs/msg/BatteryState",
    "diagnostic_msgs/msg/DiagnosticArray",
    "sensor_msgs/msg/PointCloud2",
    "std_msgs/msg/Empty",
    "sensor_msgs/msg/LaserScan",
]
_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4


def _random(store: Any, description: Any, rng: np.random.Generator) -> Any:
    """A random value of a field."""
    kind, what = description
    if kind == _NAME:
        return store.types[what](
            *(_random(store, field, rng) for _, field in store.fielddefs[what][1])
        )
    if kind == _BASE:
        if what[0] == "string":
            return "x" * int(rng.integers(0, 6))
        value = (
            rng.normal()
            if what[0].startswith("float")
            else rng.integers(0, 2 if what[0] == "bool" else 100)
        )
        return np.array(
            value, np.dtype(what[0].replace("byte", "int8").replace("char", "uint8"))
        ).item()
    element, size = what
    count = size if kind == _ARRAY else int(rng.integers(0, 4))
    values = [_random(store, element, rng) for _ in range(count)]
    if element[0] == _BASE and element[1][0] != "string":
        return np.array(
            values, np.dtype(element[1][0].replace("byte", "int8").replace("char", "uint8"))
        )
    return values


def _pick(message: Any, path: str) -> Any:
    for name, index in re.findall(r"([a-z_0-9]+)|\[(\d+)\]", path):
        message = getattr(message, name) if name else message[int(index)]
    return message


@pytest.mark.parametrize("wire", ["cdr", "cdr big endian", "ros1"])
def test_every_number_is_where_the_layout_says(wire: str) -> None:
    ros1 = wire == "ros1"
    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    rng = np.random.default_rng(1)
    checked = 0
    for kind in KINDS:
        for _ in range(6):
            message = _random(store, (_NAME, kind), rng)
            if ros1:
                data = bytes(store.serialize_ros1(message, kind))
                message = store.deserialize_ros1(data, kind)
            else:
                data = bytes(store.serialize_cdr(message, kind, little_endian=wire == "cdr"))
                message = store.deserialize_cdr(data, kind)
            found = MessageLayout(data, store.fielddefs, kind, "ros1" if ros1 else "cdr")
            assert (np.frombuffer(data, np.uint8)[found.places] == found.bytes).all()
            for path, field in found.fields.items():
                if re.search(r"\[(?!\d+\])", path):
                    continue  # by name; the same places are listed by number
                expected = np.atleast_1d(_pick(message, path))
                here = np.frombuffer(
                    data, field.dtype, 1 if field.count is None else field.count, field.offset
                )
                np.testing.assert_array_equal(here, expected, err_msg=f"{kind} {path}")
                checked += len(expected)
    assert checked > 900


def test_a_message_that_does_not_follow_its_definition_is_refused() -> None:
    store = get_typestore(Stores.ROS2_HUMBLE)
    kind = "sensor_msgs/msg/JointState"
    message = _random(store, (_NAME, kind), np.random.default_rng(0))
    data = bytes(store.serialize_cdr(message, kind))
    with pytest.raises(DataError, match="does not follow its definition in the file .it ends"):
        MessageLayout(data[:20], store.fielddefs, kind, "cdr")
    with pytest.raises(DataError, match="not in plain CDR .its first bytes are 00 07 00 00"):
        MessageLayout(b"\x00\x07\x00\x00" + data[4:], store.fielddefs, kind, "cdr")
    with pytest.raises(DataError, match="no definition of the message type 'lab/msg/Unknown'"):
        MessageLayout(data, store.fielddefs, "lab/msg/Unknown", "cdr")


def test_one_name_is_no_list_of_names() -> None:
    """A message's own name does not name its only number."""
    types = get_types_from_msg("string name\nfloat64[] values\n", "lab/msg/Named")
    store = get_typestore(Stores.EMPTY)
    store.register(types)
    made = store.types["lab/msg/Named"]("arm", np.array([2.0]))
    data = bytes(store.serialize_cdr(made, "lab/msg/Named"))
    found = MessageLayout(data, store.fielddefs, "lab/msg/Named", "cdr")
    assert [path for path, _ in found.paths()] == ["values[0]"]
