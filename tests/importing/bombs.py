"""Small files that would take gigabytes: for every format, what a stranger could send.

``BOMBS[name].write(folder)`` writes one and returns its path. Each asks for about a gigabyte or
more (``PEAK``), in a file of a few megabytes at most.
"""

import bz2
import io
import json
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIZE = 1_000_000_000  # Bytes that most of them unpack to.
PERIOD = 0.01


class Bomb(NamedTuple):
    format: str
    write: Callable[[Path], Path]
    words: str  # A regular expression of the sentence that refuses it.
    columns: tuple[str, str] = ("q", "u")  # Of the one joint and the one control.
    flags: tuple[str, ...] = ()
    verb: str = "import"


BOMBS: dict[str, Bomb] = {}
TOO_MUCH = "would take .*more than the .* GB allowed; if you trust the file"


def bomb(format: str, words: str = TOO_MUCH, *columns: str, **more: Any) -> Any:
    def add(write: Callable[[Path], Path]) -> Callable[[Path], Path]:
        both = {"columns": columns} if columns else {}
        BOMBS[write.__name__] = Bomb(format, write, words, **both, **more)
        return write

    return add


def write_robot(folder: Path) -> Path:
    """A robot of one joint and one control, to import the bombs for."""
    model = '<mujoco><worldbody><body><joint name="q"/><geom size="0.1" pos="0 0 1"/></body>'
    (folder / "model.xml").write_text(model + "</worldbody></mujoco>")
    robot = f'name = "one"\nmodel = "model.xml"\ndt = {PERIOD}\n[[joints]]\nname = "q"\n'
    (folder / "robot.toml").write_text(robot + '[[controls]]\nname = "u"\nrange = [-1, 1]\n')
    return folder / "robot.toml"


# npz


def npy_header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    stream = io.BytesIO()
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def zip_of(path: Path, members: dict[str, tuple[bytes, int, int]]) -> Path:
    """An archive of members: what is stored, the method, and the size that is declared."""
    body, directory = b"", b""
    for name, (data, method, size) in members.items():
        crc = 0 if method else zlib.crc32(data)
        sizes = len(data), size, len(name), 0
        fixed = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0x21, crc, *sizes)
        entry = struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        directory += b"PK\1\2" + struct.pack("<H", 20) + fixed + entry + name.encode()
        body += b"PK\3\4" + fixed + name.encode() + data
    count = len(members)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)
    path.write_bytes(body + directory + b"PK\5\6" + end)
    return path


def deflated(head: bytes, zeros: int) -> bytes:
    """``head`` and so many bytes of zeros, deflated: the same block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * (zeros // 1_000_000) + b"\3\0"


def npz_member(shape: tuple[int, ...], dtype: str = "<f8") -> tuple[bytes, int, int]:
    head, size = npy_header(shape, dtype), int(np.prod(shape)) * np.dtype(dtype).itemsize
    return deflated(head, size), 8, len(head) + size


@bomb("npz")
def npz_zeros(folder: Path) -> Path:
    """1 MB that is 1 GB."""
    return zip_of(folder / "a.npz", {"q.npy": npz_member((SIZE // 8,))})


@bomb("npz", "cannot be read .* declares float64 .* and 24 bytes are there")
def npz_header_lies(folder: Path) -> Path:
    data = npy_header((10_000_000, 100)) + bytes(24)
    return zip_of(folder / "a.npz", {"q.npy": (data, 0, len(data))})


@bomb("npz", "has no column|no column")
def npz_columns_without_rows(folder: Path) -> Path:
    """509 bytes with ten million columns to name."""
    np.savez(folder / "a.npz", q=np.zeros((0, 10_000_000)), u=np.zeros((0, 1)), dt=PERIOD)
    return folder / "a.npz"


@bomb("npz")
def npz_recordings(folder: Path) -> Path:
    """Three million recordings without a sample."""
    cuts = {f"traj_{end}": np.zeros(3_000_000, np.int8) for end in ("start", "end")}
    np.savez_compressed(folder / "a.npz", q=np.zeros(9), u=np.zeros(9), dt=PERIOD, **cuts)
    return folder / "a.npz"


@bomb("npz")
def npz_texts(folder: Path) -> Path:
    """Names of joints, a byte each."""
    names = npz_member((20_000_000,), "|S1")
    return zip_of(
        folder / "a.npz", {"q_names.npy": names, "q.npy": npz_member((1_000_000, 1), "|i1")}
    )


@bomb("npz")
def npz_many_members(folder: Path) -> Path:
    """A hundred arrays of 10 MB."""
    members = {f"a{k}.npy": npz_member((10_000_000,), "|i1") for k in range(100)}
    return zip_of(folder / "a.npz", members)


@bomb("npz", "packed in a way that numpy.savez has not")
def npz_bz2(folder: Path) -> Path:
    """A method whose steps zipfile does not bound."""
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_BZIP2, compresslevel=9) as archive:
        archive.writestr("q.npy", npy_header((12_500_000,)) + bytes(100_000_000))
    return folder / "a.npz"


# ROS 1


def record(head: dict[str, bytes], data: bytes = b"") -> bytes:
    fields = b"".join(
        struct.pack("<I", len(name) + 1 + len(value)) + name.encode() + b"=" + value
        for name, value in head.items()
    )
    return struct.pack("<I", len(fields)) + fields + struct.pack("<I", len(data)) + data


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little")


def ros1_bag(
    path: Path,
    pack: Callable[[bytes], bytes],
    kind: str,
    size: int | None = None,
    *,
    message: bytes = bytes(16),
    entries: int = 1,
    chunks: int = 1,
) -> Path:
    """A bag with one chunk; ``entries`` of its index are of its one message, ``chunks`` of the
    file's index are of its one chunk."""
    definition = {
        "topic": b"/q", "type": b"a/A", "md5sum": b"0" * 32,
        "message_definition": b"float64 data\nfloat64 more",
    }  # fmt: skip
    about = b"".join(
        struct.pack("<I", len(name) + 1 + len(value)) + name.encode() + b"=" + value
        for name, value in definition.items()
    )
    connection = record({"op": b"\7", "conn": number(0), "topic": b"/q"}, about)
    stamp = {"op": b"\2", "conn": number(0), "time": number(1, 8)}
    inside = connection + record(stamp, message)
    packed = pack(inside)
    head = {"op": b"\5", "compression": kind.encode(), "size": number(size or len(inside))}
    chunk = record(head, packed)
    entry = number(1, 8) + number(len(connection))
    index_head = {"op": b"\4", "ver": number(1), "conn": number(0), "count": number(entries)}
    index = record(index_head, entry * entries)
    magic = b"#ROSBAG V2.0\n"
    start = len(magic) + 4096
    info = {
        "op": b"\6", "ver": number(1), "chunk_pos": number(start, 8), "count": number(1),
        "start_time": number(1, 8), "end_time": number(1, 8),
    }  # fmt: skip
    infos = record(info, number(0) + number(entries)) * chunks
    about_bag = {
        "op": b"\3", "index_pos": number(start + len(chunk) + len(index), 8),
        "conn_count": number(1), "chunk_count": number(chunks),
    }  # fmt: skip
    head_size = len(record(about_bag))
    whole = record(about_bag, b" " * (4096 - head_size))
    path.write_bytes(magic + whole + chunk + index + connection + infos)
    return path


ONE = ("/q.data", "/q.more")  # Columns of a bag.


@bomb("rosbag", TOO_MUCH, *ONE)
def bag_bz2(folder: Path) -> Path:
    """Streams of bz2, one after the other: 11 kB."""
    zeros = bz2.compress(bytes(10_000_000))
    pack = lambda data: bz2.compress(data) + zeros * (SIZE // 10_000_000)
    return ros1_bag(folder / "a.bag", pack, "bz2", SIZE)


@bomb("rosbag", TOO_MUCH, *ONE)
def bag_lz4(folder: Path) -> Path:
    return ros1_bag(folder / "a.bag", lz4_of, "lz4", SIZE)


@bomb("rosbag", "bytes were declared", *ONE)
def bag_lz4_lies(folder: Path) -> Path:
    """The chunk says that it has 200 bytes."""
    return ros1_bag(folder / "a.bag", lz4_of, "lz4", 200)


def lz4_of(data: bytes) -> bytes:
    """``data`` and a gigabyte of zeros."""
    from lz4.frame import LZ4FrameCompressor

    packer = LZ4FrameCompressor(block_size=7)
    parts = [packer.begin(), packer.compress(data)]
    parts += [packer.compress(bytes(4_000_000)) for _ in range(SIZE // 4_000_000)]
    return b"".join([*parts, packer.flush()])


@bomb("rosbag", TOO_MUCH, *ONE)
def bag_index_again(folder: Path) -> Path:
    """A chunk with an index of 20,000 messages, listed 500 times."""
    return ros1_bag(folder / "a.bag", bytes, "none", entries=20_000, chunks=500)


@bomb("rosbag", TOO_MUCH, *ONE)
def bag_message_again(folder: Path) -> Path:
    """20,000 entries of the index are the same message."""
    return ros1_bag(folder / "a.bag", bytes, "none", message=bytes(100_000), entries=20_000)


# ROS 2

STRUCTURE = """
CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT,
  offered_qos_profiles TEXT);
INSERT INTO topics VALUES (1, '/q', 'std_msgs/msg/Float64', 'cdr', '');
"""


def database(path: Path, messages: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(STRUCTURE + messages)
    connection.close()
    return path


PLAIN = "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INT, timestamp INT, data BLOB"


@bomb("rosbag", "no tables that are computed", *ONE)
def db3_computed_messages(folder: Path) -> Path:
    """Messages of 100 MB, of which nothing is in the file."""
    columns = PLAIN.replace("data BLOB", "data BLOB AS (zeroblob(100000000))")
    rows = ", ".join(f"({k}, 1, {k})" for k in range(10))
    fill = f"INSERT INTO messages(id, topic_id, timestamp) VALUES {rows};"
    return database(folder / "a.db3", f"{columns}); {fill}")


@bomb("rosbag", "no tables that are computed", *ONE)
def db3_endless_definitions(folder: Path) -> Path:
    view = (
        "CREATE TABLE schema(schema_version INT); INSERT INTO schema VALUES (4);"
        "CREATE VIEW message_definitions AS WITH RECURSIVE n(id) AS (VALUES(1) UNION ALL "
        "SELECT id + 1 FROM n LIMIT 4000000) SELECT id, 'a' || id AS topic_type, 'ros2msg' AS "
        "encoding, 'x' AS encoded_message_definition, '' AS type_description_hash FROM n;"
    )
    return database(folder / "a.db3", f"{view} {PLAIN});")


def ros2_folder(folder: Path, mode: str, storage: str, name: str, more: str = "") -> Path:
    topic = (
        "{topic_metadata: {name: /q, type: std_msgs/msg/Float64, serialization_format: cdr, "
        "offered_qos_profiles: ''}, message_count: 1}"
    )
    (folder / "bag").mkdir()
    (folder / "bag" / "metadata.yaml").write_text(
        f"{more}\nrosbag2_bagfile_information:\n  version: 4\n  storage_identifier: {storage}\n"
        f"  relative_file_paths: [{name}]\n  duration: {{nanoseconds: 1}}\n"
        "  starting_time: {nanoseconds_since_epoch: 0}\n  message_count: 1\n"
        f"  topics_with_message_count: [{topic}]\n"
        f"  compression_format: {'zstd' if mode else ''}\n  compression_mode: {mode}\n"
    )
    return folder / "bag"


def zstd_of(zeros: int, head: bytes = b"") -> bytes:
    from zstandard import ZstdCompressor

    packer = ZstdCompressor(level=1).compressobj(size=len(head) + zeros)
    parts = [packer.compress(head)]
    parts += [packer.compress(bytes(4_000_000)) for _ in range(zeros // 4_000_000)]
    return b"".join([*parts, packer.flush()])


@bomb("rosbag", TOO_MUCH, *ONE)
def db3_zstd_file(folder: Path) -> Path:
    """A database of 1 GB, mostly of nothing."""
    plain = database(folder / "plain.db3", f"{PLAIN});").read_bytes()
    path = ros2_folder(folder, "FILE", "sqlite3", "a.db3.zstd")
    (path / "a.db3.zstd").write_bytes(zstd_of(SIZE, plain))
    return path


@bomb("rosbag", TOO_MUCH, *ONE)
def db3_zstd_message(folder: Path) -> Path:
    path = ros2_folder(folder, "MESSAGE", "sqlite3", "a.db3")
    data = zstd_of(SIZE).hex()
    database(path / "a.db3", f"{PLAIN}); INSERT INTO messages VALUES (1, 1, 0, x'{data}');")
    return path


@bomb("rosbag", "no tags and no merged entries", *ONE)
def yaml_that_doubles(folder: Path) -> Path:
    again = [f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}], k{k}: 1}}" for k in range(1, 22)]
    more = "\n".join(["a0: &a0 {k: 1}", *again])
    return ros2_folder(folder, "", "sqlite3", "a.db3", more)


# MCAP


def text(value: bytes | str) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return number(len(value)) + value


def mcap_record(code: int, data: bytes, length: int | None = None) -> bytes:
    return bytes([code]) + number(len(data) if length is None else length, 8) + data


def mcap_file(
    path: Path,
    kind: str,
    pack: Callable[[bytes], bytes],
    size: int | None = None,
    *,
    indexed: bool = True,
    definition: str = "float64 data",
    message: bytes = b"\0\1\0\0" + bytes(8),
) -> Path:
    """A file with one chunk, with or without a summary."""
    schema = mcap_record(3, number(1, 2) + text("a/msg/A") + text("ros2msg") + text(definition))
    channel = number(0, 2) + number(1, 2) + text("/q") + text("cdr") + number(0)
    channel = mcap_record(4, channel)
    inside = schema + channel
    inside += mcap_record(5, number(0, 2) + number(0) + number(1, 8) + number(1, 8) + message)
    packed = pack(inside)
    size = len(inside) if size is None else size
    about = number(1, 8) + number(1, 8) + number(size, 8) + number(0) + text(kind)
    chunk = mcap_record(6, about + number(len(packed), 8) + packed)
    magic, start = b"\x89MCAP0\r\n", mcap_record(1, text("ros2") + text(""))
    at = len(magic) + len(start)
    body = magic + start + chunk + mcap_record(15, number(0))
    index = number(1, 8) + number(1, 8) + number(at, 8) + number(len(chunk), 8) + number(0)
    index += number(0, 8) + text(kind) + number(len(packed), 8) + number(size, 8)
    counts = number(1, 8) + number(1, 2) + 4 * number(1) + number(1, 8) + number(1, 8)
    counts += number(10) + number(0, 2) + number(1, 8)
    summary = schema + channel + mcap_record(8, index) + mcap_record(11, counts)
    footer = number(len(body) if indexed else 0, 8) + number(0, 8) + number(0)
    path.write_bytes(body + (summary if indexed else b"") + mcap_record(2, footer) + magic)
    return path


@bomb("mcap", TOO_MUCH, *ONE)
def mcap_zstd(folder: Path) -> Path:
    return mcap_file(folder / "a.mcap", "zstd", lambda data: zstd_of(SIZE, data), SIZE)


@bomb("mcap", "bytes were declared", *ONE)
def mcap_zstd_lies(folder: Path) -> Path:
    return mcap_file(folder / "a.mcap", "zstd", lambda data: zstd_of(SIZE, data), 300)


@bomb("mcap", "bytes were declared", *ONE)
def mcap_lz4_lies(folder: Path) -> Path:
    return mcap_file(folder / "a.mcap", "lz4", lz4_of, 300)


@bomb("mcap", TOO_MUCH, *ONE)
def mcap_without_index(folder: Path) -> Path:
    pack = lambda data: zstd_of(SIZE, data)
    return mcap_file(folder / "a.mcap", "zstd", pack, SIZE, indexed=False)


@bomb("mcap", "No such column|has no column", *ONE)
def mcap_definition_that_doubles(folder: Path) -> Path:
    """A message of 2^22 fields, of which each takes no byte."""
    parts = ["B0 a\nB0 b"]
    line = "=" * 80
    for k in range(20):
        parts.append(f"MSG: a/B{k}\nB{k + 1} a\nB{k + 1} b")
    parts.append("MSG: a/B20\nfloat64[0] x")
    definition = f"\n{line}\n".join(parts)
    message = b"\0\1\0\0" + bytes(8)
    return mcap_file(folder / "a.mcap", "", bytes, definition=definition, message=message)


@bomb("mcap", "No such column|has no column", *ONE)
def mcap_texts(folder: Path) -> Path:
    """A message of ten million texts without a letter."""
    message = b"\0\1\0\0" + number(10_000_000) + bytes(40_000_000)
    pack = lambda data: zstd_of(0, data)
    return mcap_file(folder / "a.mcap", "zstd", pack, definition="string[] x", message=message)


# TFRecord


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def proto(tag: int, data: bytes) -> bytes:
    return bytes([tag << 3 | 2]) + varint(len(data)) + data


def masked(data: bytes) -> bytes:
    from google_crc32c import value as crc32c

    crc = crc32c(data)
    return number((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def example(lists: dict[str, bytes]) -> bytes:
    pairs = [proto(1, proto(1, name.encode()) + proto(2, data)) for name, data in lists.items()]
    return proto(1, b"".join(pairs))


STEPS = ("q", "u")


@bomb("tfrecord", "is cut off", *STEPS)
def tfrecord_length(folder: Path) -> Path:
    """A length beyond the file, with the right checksum."""
    head = number(SIZE, 8)
    (folder / "a.tfrecord").write_bytes(head + masked(head) + bytes(100))
    return folder / "a.tfrecord"


@bomb("tfrecord", "has no column|no column", *STEPS)
def tfrecord_columns(folder: Path) -> Path:
    """One step with four million numbers of a byte."""
    wide = proto(3, proto(1, bytes(4_000_000)))
    data = example({"steps/is_first": proto(3, proto(1, b"\1")), "steps/x": wide})
    head = number(len(data), 8)
    (folder / "a.tfrecord").write_bytes(head + masked(head) + data + masked(data))
    return folder / "a.tfrecord"


@bomb("tfrecord", "features.json cannot be read|features.json is not", *STEPS)
def tfrecord_nested(folder: Path) -> Path:
    tfrecord_columns(folder)
    (folder / "features.json").write_text("[" * 100_000)
    return folder


# Parquet, o80, LeRobot


def zeros_table(path: Path, names: Iterable[str], rows: int, dtype: Any = np.float64) -> Path:
    """Columns of zeros: a number that is repeated."""
    import pyarrow as pa
    from pyarrow import parquet

    part = 5_000_000
    table = pa.table({name: np.zeros(part, dtype) for name in names})
    with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(rows // part):
            writer.write_table(table)
    return path


@bomb("parquet")
def parquet_repeated(folder: Path) -> Path:
    return zeros_table(folder / "a.parquet", ("q", "u"), 75_000_000, np.int8)


@bomb("parquet", f"has no column|{TOO_MUCH}", "x:0", "x:1")
def parquet_list(folder: Path) -> Path:
    """A row with a list of twenty million."""
    import pyarrow as pa
    from pyarrow import parquet

    values = pa.array(np.zeros(20_000_000, np.int8))
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    parquet.write_table(pa.table({"x": lists}), folder / "a.parquet")
    return folder / "a.parquet"


O80 = ("position_0", "desired_pressure_0_ago")


def long_texts(rows: int) -> Any:
    """One text of 1 MB, again and again."""
    import pyarrow as pa

    indices = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 1_000_000]))


@bomb("o80", "is text; numbers were expected", *O80)
def o80_texts(folder: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(
        {"time_stamp": np.arange(1000), O80[0]: long_texts(1000), O80[1]: np.ones(1000)}
    )
    parquet.write_table(table, folder / "a.parquet", store_schema=False)
    return folder / "a.parquet"


@bomb("parquet")
def parquet_footer_lies(folder: Path) -> Path:
    """A page of 0.5 GB, of which the footer says that it has eight numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = SIZE // 16
    table = pa.table({"q": np.zeros(rows), "u": np.zeros(rows)})
    path = folder / "a.parquet"
    whole = {"data_page_size": 2**31 - 1, "max_rows_per_page": rows, "write_batch_size": rows}
    plain = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    parquet.write_table(table, path, compression="zstd", row_group_size=rows, **whole, **plain)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8]
    chunk = parquet.read_metadata(path).row_group(0).column(0)
    for value, less in ((rows, 8), (chunk.total_uncompressed_size, 100)):
        known, padded = varint(2 * value), varint(2 * less)
        padded = padded[:-1] + bytes([padded[-1] | 128])
        padded += b"\x80" * (len(known) - len(padded) - 1) + b"\0"
        assert known in footer and len(known) == len(padded)
        footer = footer.replace(known, padded)
    path.write_bytes(content[: -8 - size] + footer + content[-8:])
    return path


@bomb("o80", TOO_MUCH, *O80)
def o80_repeated(folder: Path) -> Path:
    names = ("time_stamp", *O80, "reference_found_0")
    return zeros_table(folder / "a.parquet", names, 50_000_000, np.int64)


def lerobot(folder: Path, info: dict[str, Any] | str) -> Path:
    (folder / "set" / "meta").mkdir(parents=True)
    (folder / "set" / "data").mkdir()
    content = info if isinstance(info, str) else json.dumps({"codebase_version": "v3.0", **info})
    (folder / "set" / "meta" / "info.json").write_text(content)
    return folder / "set"


FEATURE = {"dtype": "float32", "shape": [1]}
BOTH = {"fps": 100, "features": {"q": FEATURE, "u": FEATURE}}


@bomb("lerobot")
def lerobot_repeated(folder: Path) -> Path:
    path = lerobot(folder, BOTH)
    names = ("q", "u", "episode_index")
    zeros_table(path / "data" / "a.parquet", names, 50_000_000, np.int64)
    return path


@bomb("lerobot", "has no numbers of a robot|no column")
def lerobot_shape_lies(folder: Path) -> Path:
    path = lerobot(folder, {"features": {"q": {"dtype": "float32", "shape": [10_000_000]}}})
    zeros_table(path / "data" / "a.parquet", ("q", "episode_index"), 0)
    return path


@bomb("lerobot", "info.json cannot be read")
def lerobot_nested(folder: Path) -> Path:
    return lerobot(folder, '{"features": ' + "[" * 100_000)


@bomb("lerobot")
def lerobot_long_tasks(folder: Path) -> Path:
    """A thousand episodes with a task of 1 MB, which is in the file once."""
    import pyarrow as pa
    from pyarrow import parquet

    path, count = lerobot(folder, BOTH), 1000
    numbers = {"episode_index": np.arange(count), "length": np.ones(count, np.int64)}
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32)), long_texts(count).dictionary_decode()
    )
    (path / "meta" / "episodes").mkdir()
    file = path / "meta" / "episodes" / "a.parquet"
    parquet.write_table(pa.table({**numbers, "tasks": lists}), file, compression="zstd")
    zeros_table(path / "data" / "a.parquet", ("q", "u", "episode_index"), 0)
    return path


# CSV


@bomb("csv", "brought to 100 Hz, would take", flags=("--gap", "1e12"))
def csv_far_apart(folder: Path) -> Path:
    """Two days without a sample, to be filled at 100 Hz."""
    lines = [f"{time},0,0" for time in (*np.arange(0, 1, 0.01), 5e5, 5e5 + 0.005)]
    (folder / "a.csv").write_text("\n".join(["time,q,u", *lines]))
    return folder / "a.csv"


@bomb("csv", "has the column '0a' twice")
def csv_wide(folder: Path) -> Path:
    """A header of 120,000 names."""
    (folder / "a.csv").write_text(",".join(f"{k}a" for k in [*range(120_000), 0]) + "\n1\n")
    return folder / "a.csv"


# Recordings of genan


def recording(path: Path, rows: int, **more: Any) -> Path:
    """A recording whose samples are nothing but a fill value."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "genan-trajectories", "version": 1, "dt": PERIOD})
        file.attrs.update({"joints": ["q"], "joint_units": ["rad"], "controls": ["u"]})
        file.attrs.update({"control_units": ["1"], "control_range": [[-1.0], [1.0]]})
        file.create_dataset("length", data=[rows])
        for name in "qu":
            file.create_dataset(name, (rows, 1), "<f8", **{"chunks": (100, 1), **more})
    return path


@bomb("hdf5", verb="inspect")
def h5_fill_value(folder: Path) -> Path:
    return recording(folder / "a.h5", SIZE // 8)


@bomb("hdf5", verb="inspect")
def h5_chunk(folder: Path) -> Path:
    """A hundred samples, in a chunk that unpacks to 0.8 GB."""
    import h5py

    chunk, packed = SIZE // 10, zlib.compressobj(9)
    shape = {"maxshape": (None, 1), "chunks": (chunk, 1), "compression": "gzip"}
    path = recording(folder / "a.h5", 100, **shape)
    block = packed.compress(bytes(8_000_000)) + packed.flush(zlib.Z_FULL_FLUSH)
    again = packed.compress(bytes(8_000_000)) + packed.flush(zlib.Z_FULL_FLUSH)
    data = block + again * (8 * chunk // 8_000_000 - 1) + b"\3\0"  # no checksum at the end
    with h5py.File(path, "a") as file:
        for name in "qu":
            file[name].id.write_direct_chunk((0, 0), data)
    return path


@bomb("hdf5", verb="inspect")
def h5_lengths(folder: Path) -> Path:
    """Ten million trajectories of a sample."""
    import h5py

    path = recording(folder / "a.h5", 10_000_000)
    with h5py.File(path, "a") as file:
        del file["length"]
        file.create_dataset("length", (10_000_000,), "<i8", fillvalue=1, chunks=(100_000,))
    return path


@bomb("hdf5", "is too long", verb="inspect")
def h5_attribute(folder: Path) -> Path:
    """An attribute that says the same text 4000 times; HDF5 keeps it once."""
    import h5py

    path = recording(folder / "a.h5", 100)
    with h5py.File(path, "a") as file:
        file.attrs.create("controls", ["x" * 50] * 4000, dtype=h5py.string_dtype())
    return path


@bomb("hdf5", "takes its numbers from other files", verb="inspect")
def h5_elsewhere(folder: Path) -> Path:
    """Samples that are another file's bytes."""
    import h5py

    path = recording(folder / "a.h5", 100)
    with h5py.File(path, "a") as file:
        del file["q"]
        other = [(str(folder / "robot.toml"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("q", (100, 1), "<f8", external=other)
    return path


def write(name: str, folder: Path) -> Path:
    """The bomb of that name, in a folder of its own."""
    (folder / name).mkdir(parents=True)
    return BOMBS[name].write(folder / name)
