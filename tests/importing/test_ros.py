"""Bags made by the rosbags and mcap libraries come back as they were written."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.ros import is_rosbag, open_rosbag
from genan.importing.source import LogSource, RawRecording

rosbags = pytest.importorskip("rosbags", reason="bags need the rosbags library")
from rosbags import rosbag1, rosbag2  # noqa: E402
from rosbags.typesys import Stores, get_types_from_msg, get_typestore  # noqa: E402

START = 1_700_000_000_123_456_789
STEP = 2_000_001  # not a whole number of anything [ns]
NAMES = ["shoulder", "elbow", "wrist"]
JOINT_STATE, ARRAY, TWIST = (
    "sensor_msgs/msg/JointState",
    "std_msgs/msg/Float64MultiArray",
    "geometry_msgs/msg/TwistStamped",
)


@pytest.fixture(scope="module")
def ros2() -> Any:
    return get_typestore(Stores.ROS2_HUMBLE)


@pytest.fixture(scope="module")
def ros1() -> Any:
    return get_typestore(Stores.ROS1_NOETIC)


def _header(store: Any, stamp: int, seq: int = 0) -> Any:
    time = store.types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9)
    kind = store.types["std_msgs/msg/Header"]
    return (
        kind(seq=seq, stamp=time, frame_id="base")
        if "seq" in kind.__annotations__
        else kind(time, "base")
    )


def _joint_state(store: Any, stamp: int, names: list[str], q: np.ndarray) -> Any:
    return store.types[JOINT_STATE](_header(store, stamp), names, q, 10.0 * q, np.zeros(0))


def _array(store: Any, u: np.ndarray) -> Any:
    return store.types[ARRAY](store.types["std_msgs/msg/MultiArrayLayout"]([], 0), u)


def _signals(n: int = 50) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 4))


def _write2(path: Path, store: Any, plugin: Any, **options: Any) -> None:
    """Joint states whose order changes, and commands without a header, received 1 ms later."""
    q, u = _signals()
    writer = rosbag2.Writer(path, version=9, storage_plugin=plugin)
    if options:
        writer.set_compression(**options)
    with writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        command = writer.add_connection("/cmd", ARRAY, typestore=store)
        for i in range(len(q)):
            stamp, order = START + i * STEP, ([0, 1, 2], [2, 0, 1])[i % 2]
            message = _joint_state(store, stamp, [NAMES[j] for j in order], q[i, order])
            writer.write(states, stamp + 500, store.serialize_cdr(message, JOINT_STATE))
            writer.write(
                command, stamp + 1_000_000, store.serialize_cdr(_array(store, u[i]), ARRAY)
            )


def _together(chunks: list[RawRecording]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Time and values of each column."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for chunk in chunks:
        for stream in chunk.streams:
            assert stream.time is not None
            for i, name in enumerate(stream.names):
                found.setdefault(name, []).append((stream.time, stream.values[:, i]))
    return {
        name: tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        for name, parts in found.items()
    }


WANTED = [f"/joint_states.position[{name}]" for name in NAMES] + [
    f"/cmd.data[{i}]" for i in range(4)
]


def _check(source: LogSource) -> None:
    q, u = _signals()
    chunks = list(source.read(WANTED))
    assert {chunk.name for chunk in chunks} == {source.recordings[0][0]}
    assert chunks[-1].done == source.size
    columns = _together(chunks)
    for i, name in enumerate(NAMES):
        time, values = columns[f"/joint_states.position[{name}]"]
        np.testing.assert_array_equal(values, q[:, i])
        np.testing.assert_allclose(
            time, np.arange(len(q)) * STEP / 1e9 - 500e-9, atol=1e-12
        )  # header, from receipt
    for i in range(4):
        time, values = columns[f"/cmd.data[{i}]"]
        np.testing.assert_array_equal(values, u[:, i])
        np.testing.assert_allclose(time, (np.arange(len(u)) * STEP + 999_500) / 1e9, atol=1e-12)


@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
def test_ros2_bags_of_the_rosbags_library_come_back(tmp_path: Path, ros2: Any, plugin: str) -> None:
    _write2(tmp_path / "run", ros2, rosbag2.StoragePlugin[plugin])
    assert is_rosbag(tmp_path / "run")
    source = open_rosbag(tmp_path / "run")
    _check(source)
    assert source.positions == [f"/joint_states.position[{name}]" for name in NAMES]
    words = source.columns
    assert (
        words["/joint_states.velocity[elbow]"]
        == f"float64, 50 messages of {JOINT_STATE}, time of header.stamp"
    )
    assert words["/cmd.data[3]"] == f"float64, 50 messages of {ARRAY}, time of its receipt"
    assert not any("effort" in name for name in words), "the efforts are empty"


@pytest.mark.parametrize("mode", ["FILE", "MESSAGE"])
def test_compressed_ros2_bags_come_back(tmp_path: Path, ros2: Any, mode: str) -> None:
    options = {"mode": rosbag2.CompressionMode[mode], "fmt": rosbag2.CompressionFormat.ZSTD}
    _write2(tmp_path / "run", ros2, rosbag2.StoragePlugin.SQLITE3, **options)
    _check(open_rosbag(tmp_path / "run"))


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "BZ2"])
def test_ros1_bags_come_back(tmp_path: Path, ros1: Any, compression: str) -> None:
    q, u = _signals()
    writer = rosbag1.Writer(tmp_path / "run.bag")
    if compression != "NONE":
        writer.set_compression(rosbag1.Writer.CompressionFormat[compression])
    with writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=ros1)
        command = writer.add_connection("/cmd", ARRAY, typestore=ros1)
        for i in range(len(q)):
            stamp = START + i * STEP
            writer.write(
                states,
                stamp + 500,
                ros1.serialize_ros1(_joint_state(ros1, stamp, NAMES, q[i]), JOINT_STATE),
            )
            writer.write(command, stamp + 1_000_000, ros1.serialize_ros1(_array(ros1, u[i]), ARRAY))
    assert is_rosbag(tmp_path / "run.bag")
    _check(open_rosbag(tmp_path / "run.bag"))


def _mcap(path: Path, store: Any, compression: Any, **options: Any) -> None:
    """By the mcap package's own writer."""
    writer_module = pytest.importorskip("mcap.writer", reason="an independent writer of MCAP")
    q, u = _signals()
    with path.open("wb") as file:
        writer = writer_module.Writer(file, chunk_size=2000, compression=compression, **options)
        writer.start("ros2")
        channels = {}
        for topic, kind in (("/joint_states", JOINT_STATE), ("/cmd", ARRAY)):
            text, _ = store.generate_msgdef(kind, ros_version=2)
            schema = writer.register_schema(kind, "ros2msg", text.encode())
            channels[topic] = writer.register_channel(topic, "cdr", schema)
        for i in range(len(q)):
            stamp, order = START + i * STEP, ([0, 1, 2], [2, 0, 1])[i % 2]
            state = store.serialize_cdr(
                _joint_state(store, stamp, [NAMES[j] for j in order], q[i, order]), JOINT_STATE
            )
            command = store.serialize_cdr(_array(store, u[i]), ARRAY)
            for topic, data, late in (("/joint_states", state, 500), ("/cmd", command, 1_000_000)):
                writer.add_message(channels[topic], stamp + late, bytes(data), stamp)
        writer.finish()


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD"])
def test_mcap_files_of_the_mcap_package_come_back(
    tmp_path: Path, ros2: Any, compression: str
) -> None:
    writer = pytest.importorskip("mcap.writer", reason="an independent writer of MCAP")
    _mcap(tmp_path / "run.mcap", ros2, writer.CompressionType[compression])
    _check(open_rosbag(tmp_path / "run.mcap"))


@pytest.mark.parametrize(
    "options",
    [
        {"use_chunking": False},
        {"use_statistics": False, "index_types": 0},
        {"repeat_channels": False, "repeat_schemas": False},
    ],
)
def test_mcap_files_without_chunks_or_summary_come_back(
    tmp_path: Path, ros2: Any, options: dict[str, Any]
) -> None:
    writer = pytest.importorskip("mcap.writer", reason="an independent writer of MCAP")
    if "index_types" in options:
        options = options | {
            "index_types": writer.IndexType.NONE,
            "repeat_channels": False,
            "repeat_schemas": False,
        }
    _mcap(tmp_path / "run.mcap", ros2, writer.CompressionType.ZSTD, **options)
    _check(open_rosbag(tmp_path / "run.mcap"))


def test_parts_of_a_split_bag_are_one_recording(tmp_path: Path, ros2: Any) -> None:
    _, u = _signals()
    _mcap(tmp_path / "a.mcap", ros2, pytest.importorskip("mcap.writer").CompressionType.LZ4)
    folder = tmp_path / "split"
    folder.mkdir()
    for part in ("split_0.mcap", "split_1.mcap"):
        (folder / part).write_bytes((tmp_path / "a.mcap").read_bytes())
    (folder / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  storage_identifier: mcap\n  compression_mode: ''\n"
        "  relative_file_paths: [split_0.mcap, split_1.mcap]\n"
    )
    chunks = list(open_rosbag(folder).read(WANTED))
    assert {chunk.name for chunk in chunks} == {"split"}
    np.testing.assert_array_equal(_together(chunks)["/cmd.data[2]"][1], np.tile(u[:, 2], 2))
    (folder / "split_1.mcap").unlink()
    with pytest.raises(DataError, match=r"lacks 'split_1.mcap'"):
        open_rosbag(folder)


def test_a_folder_of_bags_is_several_recordings(tmp_path: Path, ros2: Any) -> None:
    for name in ("run10", "run2"):
        _write2(tmp_path / name, ros2, rosbag2.StoragePlugin.MCAP)
    source = open_rosbag(tmp_path)
    assert [name for name, _ in source.recordings] == ["run2", "run10"]
    assert list(dict.fromkeys(chunk.name for chunk in source.read(WANTED))) == ["run2", "run10"]


def test_nested_messages_unknown_types_and_big_endian_are_read_by_the_embedded_definition(
    tmp_path: Path,
) -> None:
    store = get_typestore(Stores.EMPTY)
    text = (
        "uint8 mode\nfloat64 gain\nstring note\nbool[3] flags\nlab_msgs/Motor[] motors\nstring[] "
        "joint_names\nint16[] ticks\nfloat32 last\n"
        + "=" * 80
        + "\nMSG: lab_msgs/Motor\nchar id\nfloat64[2] pair\nuint64 count\n"
    )
    store.register(get_types_from_msg(text, "lab_msgs/msg/Box"))
    motor, box = store.types["lab_msgs/msg/Motor"], store.types["lab_msgs/msg/Box"]
    rng = np.random.default_rng(0)
    messages = [
        box(
            i % 200, float(rng.normal()), "x" * (i % 3), rng.integers(0, 2, 3).astype(bool),
            [motor(k, rng.normal(size=2), 2**40 + i) for k in range(2)],
            ["a", "bcd"], rng.integers(-999, 999, 2).astype(np.int16),
            float(np.float32(rng.normal())),
        )
        for i in range(20)
    ]  # fmt: skip
    with rosbag2.Writer(
        tmp_path / "box", version=9, storage_plugin=rosbag2.StoragePlugin.MCAP
    ) as writer:
        topic = writer.add_connection("/box", "lab_msgs/msg/Box", typestore=store)
        for i, message in enumerate(messages):
            data = store.serialize_cdr(message, "lab_msgs/msg/Box", little_endian=i % 2 == 0)
            writer.write(topic, START + i, data)
    paths = {
        "mode": lambda m: m.mode, "gain": lambda m: m.gain, "flags[1]": lambda m: m.flags[1],
        "motors[1].pair[0]": lambda m: m.motors[1].pair[0],
        "motors[0].count": lambda m: m.motors[0].count, "last": lambda m: m.last,
        "ticks[bcd]": lambda m: m.ticks[1], "ticks[0]": lambda m: m.ticks[0],
    }  # fmt: skip
    columns = _together(
        list(open_rosbag(tmp_path / "box").read([f"/box.{path}" for path in paths]))
    )
    for path, pick in paths.items():
        np.testing.assert_array_equal(
            columns[f"/box.{path}"][1], [float(pick(m)) for m in messages], err_msg=path
        )


def test_programs_that_publish_their_own_joints_on_one_topic_are_streams_of_their_own(
    tmp_path: Path, ros2: Any
) -> None:
    rng = np.random.default_rng(0)
    arm, hand = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    with rosbag2.Writer(
        tmp_path / "two", version=9, storage_plugin=rosbag2.StoragePlugin.MCAP
    ) as writer:
        topic = writer.add_connection("/joint_states", JOINT_STATE, typestore=ros2)
        for i in range(6):
            for names, q in ((["s", "e"], arm[i]), (["hand"], hand[i])):
                message = _joint_state(ros2, START + i * STEP, names, q)
                writer.write(topic, START + i * STEP, ros2.serialize_cdr(message, JOINT_STATE))
    source = open_rosbag(tmp_path / "two")
    chunks = list(source.read([f"/joint_states.position[{name}]" for name in ("e", "hand", "s")]))
    assert {stream.names for chunk in chunks for stream in chunk.streams} == {
        ("/joint_states.position[e]", "/joint_states.position[s]"),
        ("/joint_states.position[hand]",),
    }
    np.testing.assert_array_equal(_together(chunks)["/joint_states.position[hand]"][1], hand[:, 0])
    with pytest.raises(DataError, match=r"has 'position\[thumb\]'; there is 'e', 'hand', 's'"):
        list(source.read(["/joint_states.position[thumb]"]))


@pytest.mark.parametrize("first", [7_000_000, START - 3 * 10**8, START + 10**9])
def test_stamps_of_another_clock_give_way_to_the_time_of_receipt(
    tmp_path: Path, ros2: Any, first: int
) -> None:
    """A simulated clock, one that is 0.3 s behind, and one that is ahead."""
    with rosbag2.Writer(
        tmp_path / "sim", version=9, storage_plugin=rosbag2.StoragePlugin.MCAP
    ) as writer:
        topic = writer.add_connection("/joint_states", JOINT_STATE, typestore=ros2)
        for i in range(5):
            message = _joint_state(ros2, first + i * 10**6, NAMES, np.zeros(3))
            writer.write(topic, START + i * STEP, ros2.serialize_cdr(message, JOINT_STATE))
    name = "/joint_states.position[elbow]"
    for stamps, step in (("auto", STEP), ("receipt", STEP), ("header", 10**6)):
        time, _ = _together(list(open_rosbag(tmp_path / "sim", stamps=stamps).read([name])))[name]  # type: ignore[arg-type]
        np.testing.assert_allclose(np.diff(time), step / 1e9, atol=1e-6)


def test_what_is_not_there_is_refused_with_what_is(tmp_path: Path, ros2: Any) -> None:
    _write2(tmp_path / "run", ros2, rosbag2.StoragePlugin.MCAP)
    source = open_rosbag(tmp_path / "run")
    with pytest.raises(
        DataError,
        match=r"no topic '/arm' .*; it has /cmd \(std_msgs/msg/Float64MultiArray, 50 .*, /joint",
    ):
        list(source.read(["/arm.position[elbow]"]))
    with pytest.raises(
        DataError,
        match=r"has 'positions\[elbow\]'; there is 'position\[shoulder\]', 'position\[elbow\]'",
    ):
        list(source.read(["/joint_states.positions[elbow]"]))
    with pytest.raises(DataError, match=r"No message of topic '/cmd' .* has 'data\[9\]'"):
        list(source.read(["/cmd.data[9]"]))


def test_empty_bags_are_refused(tmp_path: Path, ros2: Any) -> None:
    with rosbag2.Writer(
        tmp_path / "none", version=9, storage_plugin=rosbag2.StoragePlugin.MCAP
    ) as writer:
        writer.add_connection("/cmd", ARRAY, typestore=ros2)
    with pytest.raises(DataError, match="'none' is empty: it has .*not one message"):
        open_rosbag(tmp_path / "none")
    (tmp_path / "zero.bag").touch()
    with pytest.raises(DataError, match="empty \\(0 bytes\\)"):
        open_rosbag(tmp_path / "zero.bag")
    (tmp_path / "folder").mkdir()
    assert not is_rosbag(tmp_path / "folder")
    with pytest.raises(DataError, match="has no bag"):
        open_rosbag(tmp_path / "folder")


@pytest.mark.parametrize("plugin", ["MCAP", "SQLITE3"])
def test_cut_ros2_bags_are_refused(tmp_path: Path, ros2: Any, plugin: str) -> None:
    _write2(tmp_path / "run", ros2, rosbag2.StoragePlugin[plugin])
    (file,) = [path for path in (tmp_path / "run").iterdir() if path.name != "metadata.yaml"]
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 6 // 10])
    with pytest.raises(DataError, match="cut off"):
        list(open_rosbag(tmp_path / "run").read(WANTED))


def test_cut_ros1_bags_are_refused(tmp_path: Path, ros1: Any) -> None:
    with rosbag1.Writer(tmp_path / "run.bag") as writer:
        topic = writer.add_connection("/cmd", ARRAY, typestore=ros1)
        for i in range(20):
            writer.write(topic, START + i, ros1.serialize_ros1(_array(ros1, np.zeros(4)), ARRAY))
    whole = (tmp_path / "run.bag").read_bytes()
    (tmp_path / "run.bag").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cut off or damaged"):
        list(open_rosbag(tmp_path / "run.bag").read(["/cmd.data[0]"]))


def test_a_damaged_chunk_is_noticed(tmp_path: Path, ros2: Any) -> None:
    writer = pytest.importorskip("mcap.writer", reason="an independent writer of MCAP")
    _mcap(tmp_path / "run.mcap", ros2, writer.CompressionType.NONE)
    data = bytearray((tmp_path / "run.mcap").read_bytes())
    place = data.find(np.float64(_signals()[1][20, 1]).tobytes())
    data[place] ^= 1
    (tmp_path / "run.mcap").write_bytes(data)
    with pytest.raises(DataError, match="CRC.*damaged"):
        list(open_rosbag(tmp_path / "run.mcap").read(WANTED))


def test_topics_in_other_encodings_are_refused_by_name(tmp_path: Path) -> None:
    writer_module = pytest.importorskip("mcap.writer", reason="an independent writer of MCAP")
    file = io.BytesIO()
    writer = writer_module.Writer(file)
    writer.start()
    schema = writer.register_schema("Pose", "jsonschema", b"{}")
    channel = writer.register_channel("/pose", "json", schema)
    writer.add_message(channel, START, b'{"x": 1}', START)
    writer.finish()
    (tmp_path / "pose.mcap").write_bytes(file.getvalue())
    source = open_rosbag(tmp_path / "pose.mcap")
    assert source.columns == {}
    with pytest.raises(DataError, match="its messages are in 'json', not CDR or ROS 1"):
        list(source.read(["/pose.x"]))


def _one_topic(
    path: Path, kind: str, language: str, text: str, encoding: str, messages: list[bytes]
) -> LogSource:
    """An MCAP file of one topic by the mcap package."""
    writer_module = pytest.importorskip("mcap.writer", reason="an independent writer of MCAP")
    with path.open("wb") as file:
        writer = writer_module.Writer(file)
        writer.start()
        schema = writer.register_schema(kind, language, text.encode())
        channel = writer.register_channel("/topic", encoding, schema)
        for i, message in enumerate(messages):
            writer.add_message(channel, START + i * STEP, message, START)
        writer.finish()
    return open_rosbag(path)


def test_ros1_messages_in_mcap_and_definitions_in_idl_are_read(tmp_path: Path, ros1: Any) -> None:
    q, _ = _signals()
    text, _ = ros1.generate_msgdef(JOINT_STATE, ros_version=1)
    data = [
        bytes(ros1.serialize_ros1(_joint_state(ros1, START + i * STEP, NAMES, q[i]), JOINT_STATE))
        for i in range(5)
    ]
    source = _one_topic(
        tmp_path / "old.mcap", "sensor_msgs/JointState", "ros1msg", text, "ros1", data
    )
    (found,) = _together(list(source.read(["/topic.velocity[wrist]"]))).values()
    np.testing.assert_array_equal(found[1], 10.0 * q[:5, 2])
    idl = (
        "module lab { module msg { struct Pair { octet id; double left; sequence<float> rest; "
        "}; }; };"
    )
    framed = f"{'=' * 80}\nIDL: lab/msg/Pair\n{idl}\n"
    message = (
        b"\0\1\0\0"
        + b"\7"
        + bytes(7)
        + np.array([2.5]).tobytes()
        + b"\2\0\0\0"
        + np.float32([3, 4]).tobytes()
    )
    source = _one_topic(tmp_path / "idl.mcap", "lab/msg/Pair", "ros2idl", framed, "cdr", [message])
    columns = _together(list(source.read(["/topic.id", "/topic.left", "/topic.rest[1]"])))
    assert [float(values[0]) for _, values in columns.values()] == [7.0, 2.5, 4.0]


def test_bags_without_definitions_are_read_by_those_of_ros(tmp_path: Path, ros2: Any) -> None:
    import sqlite3

    _write2(tmp_path / "run", ros2, rosbag2.StoragePlugin.SQLITE3)
    with sqlite3.connect(tmp_path / "run" / "run.db3") as database:
        database.execute("DELETE FROM message_definitions")
    database.close()
    _check(open_rosbag(tmp_path / "run"))
