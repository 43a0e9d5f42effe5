"""How fast bags and data sets are imported: MB/s from file to recording, the memory, and the
reading alone.

Run ``python benchmarks/import_bags.py [MB]`` (default 200); it needs twice that on disk in the
temporary folder. Each import runs in a process of its own, so that its peak memory can be told; CPU
s are those of all its threads. The bags are of a 7-joint arm: joint states (position, velocity,
effort) and commands at 500 Hz.
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from importing import DT
from machine import machine

from genan.data.importing.crc32c import crc32c, masked

NQ = 7
START = 1_700_000_000_000_000_000
JOINT_STATE, ARRAY = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"

CHILD = """
import json, re, sys, time
from pathlib import Path
from genan.data.importing import ImportSettings, import_logs
from genan.data.importing.sources import open_source
from genan.robot import Robot
path, robot, out, joints, controls = sys.argv[1:]
joints, controls = json.loads(joints), json.loads(controls)
start = time.perf_counter()
source = open_source(Path(path))
for chunk in source.read([*joints.values(), *controls.values()]):
    pass
read = time.perf_counter() - start
robot = Robot.load(robot)
start, worked = time.perf_counter(), time.process_time()
made = import_logs([path], robot, out, settings=ImportSettings(joints=joints, controls=controls, overwrite=True))
seconds, worked = time.perf_counter() - start, time.process_time() - worked
# not getrusage, which counts what the parent process had before this one began
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))
numbers = {"seconds": seconds, "worked": worked, "read": read, "peak": peak}
print(json.dumps(numbers | {"samples": made.data.samples, "size": made.size}))
"""


def robot(folder: Path) -> Path:
    """A chain of seven hinges."""
    folder.mkdir(exist_ok=True)
    bodies = "".join(
        f'<body><joint name="q{i}" axis="0 1 0"/><geom size="0.1" pos="0 0 1"/>' for i in range(NQ)
    )
    (folder / "model.xml").write_text(
        f"<mujoco><worldbody>{bodies}{'</body>' * NQ}</worldbody></mujoco>"
    )
    joints = "".join(f'[[joints]]\nname = "q{i}"\n' for i in range(NQ))
    controls = "".join(f'[[controls]]\nname = "u{i}"\nrange = [-3, 3]\n' for i in range(NQ))
    (folder / "robot.toml").write_text(
        f'name = "chain"\nmodel = "model.xml"\ndt = {DT}\n{joints}{controls}'
    )
    return folder


def samples(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions with an encoder's quantum [rows, NQ] and commands [rows, NQ]."""
    rng, time, quantum = np.random.default_rng(0), DT * np.arange(rows), np.deg2rad(0.018)
    q = np.stack([np.sin(rng.uniform(1, 12) * time + rng.uniform(0, 6)) for _ in range(NQ)], axis=1)
    u = np.stack([np.sin(rng.uniform(1, 12) * time + rng.uniform(0, 6)) for _ in range(NQ)], axis=1)
    return quantum * np.round(q / quantum), u


def messages(rows: int, wire: str) -> tuple[Any, list[tuple[int, bytes, bytes]]]:
    """Types, and stamp, joint state and command of each row; the messages of 2000 rows are
    repeated."""
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if wire == "ros1" else Stores.ROS2_HUMBLE)
    types, names = store.types, [f"arm_joint_{i}" for i in range(NQ)]
    q, u = samples(2000)
    encode = store.serialize_ros1 if wire == "ros1" else store.serialize_cdr
    layout = types["std_msgs/msg/MultiArrayLayout"]([], 0)
    states, commands = [], []
    for i in range(len(q)):
        time = types["builtin_interfaces/msg/Time"](0, 0)
        header = types["std_msgs/msg/Header"](
            *([0, time, "base"] if wire == "ros1" else [time, "base"])
        )
        states.append(
            bytearray(
                encode(types[JOINT_STATE](header, names, q[i], 0 * q[i], 0 * q[i]), JOINT_STATE)
            )
        )
        commands.append(bytes(encode(types[ARRAY](layout, u[i]), ARRAY)))
    made = []
    for i in range(rows):
        stamp = START + i * round(DT * 1e9)
        state = states[i % len(states)]
        struct.pack_into("<II", state, 4, stamp // 10**9, stamp % 10**9)
        made.append((stamp, bytes(state), commands[i % len(commands)]))
    return store, made


def write_bag(path: Path, rows: int, kind: str) -> Path:
    """ROS 1, or ROS 2 in MCAP or SQLite, by the rosbags library."""
    from rosbags import rosbag1, rosbag2

    store, made = messages(rows, "ros1" if kind == "ros1" else "cdr")
    path = path / ("run.bag" if kind == "ros1" else "run")
    options = (
        {}
        if kind == "ros1"
        else {"version": 9, "storage_plugin": rosbag2.StoragePlugin[kind.upper()]}
    )
    with rosbag1.Writer(path) if kind == "ros1" else rosbag2.Writer(path, **options) as writer:
        state = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        command = writer.add_connection("/cmd", ARRAY, typestore=store)
        for stamp, one, other in made:
            writer.write(state, stamp, one)
            writer.write(command, stamp, other)
    return path


def write_mcap(path: Path, rows: int, compression: str) -> Path:
    """MCAP by the mcap package."""
    from mcap.writer import CompressionType, Writer

    store, made = messages(rows, "cdr")
    with (path / "run.mcap").open("wb") as file:
        writer = Writer(file, compression=CompressionType[compression])
        writer.start("ros2")
        channels = []
        for topic, kind in (("/joint_states", JOINT_STATE), ("/cmd", ARRAY)):
            schema = writer.register_schema(
                kind, "ros2msg", store.generate_msgdef(kind, ros_version=2)[0].encode()
            )
            channels.append(writer.register_channel(topic, "cdr", schema))
        for stamp, *both in made:
            for channel, data in zip(channels, both, strict=True):
                writer.add_message(channel, stamp, data, stamp)
        writer.finish()
    return path / "run.mcap"


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes of protobuf."""
    length, size = len(data), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data


def write_tfrecord(path: Path, rows: int) -> Path:
    """RLDS: two episodes."""
    lists = {
        name: np.tile(x, (rows // 4000, 1))
        for name, x in zip(("observation/state", "action"), samples(2000), strict=True)
    }
    count = len(lists["action"])
    entries = [
        (f"steps/{name}", _field(2, _field(1, x.astype("<f4").tobytes())))
        for name, x in lists.items()
    ]
    entries.append(("steps/is_first", _field(3, _field(1, bytes([1]) + bytes(count - 1)))))
    data = _field(
        1,
        b"".join(_field(1, _field(1, name.encode()) + _field(2, value)) for name, value in entries),
    )
    head = struct.pack("<Q", len(data))
    record = (
        head
        + struct.pack("<I", masked(crc32c(head)))
        + data
        + struct.pack("<I", masked(crc32c(data)))
    )
    (path / "pamy2_dynamic_motions-train.tfrecord-00000-of-00001").write_bytes(record * 2)
    return path


def write_lerobot(path: Path, rows: int) -> Path:
    """LeRobot v3.0: one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (path / "meta").mkdir()
    (path / "data" / "chunk-000").mkdir(parents=True)
    rng = np.random.default_rng(0)
    features = {
        name: {"dtype": "float32", "shape": [NQ], "names": None}
        for name in ("observation.state", "action")
    }
    info = {"codebase_version": "v3.0", "fps": 1 / DT, "features": features, "data_path": "data/"}
    (path / "meta" / "info.json").write_text(json.dumps(info))
    noise = 1e-3 * rng.normal(size=(rows, NQ))  # so that it does not compress to nothing
    both = [np.tile(x, (rows // 2000, 1)) + noise[: rows // 2000 * 2000] for x in samples(2000)]
    n = len(both[0])
    columns = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(x.astype(np.float32).ravel()), NQ)
        for name, x in zip(features, both, strict=True)
    }
    frame, episode = np.arange(n) % 50_000, np.arange(n) // 50_000
    columns |= {
        "timestamp": (frame * DT).astype(np.float32),
        "frame_index": frame,
        "episode_index": episode,
    }
    pq.write_table(
        pa.table(columns), path / "data" / "chunk-000" / "file-000.parquet", row_group_size=100_000
    )
    return path


def measure(
    name: str, write: Callable[[Path], Path], joints: str, controls: str, folder: Path
) -> None:
    """Writes a log, imports it and prints a line; ``joints`` and ``controls`` name the columns by
    number."""
    place = folder / name.replace(" ", "_").replace(",", "")
    place.mkdir()
    path = write(place)
    columns = [
        json.dumps({f"{key}{i}": text.format(i) for i in range(NQ)})
        for key, text in (("q", joints), ("u", controls))
    ]
    command = [
        sys.executable,
        "-c",
        CHILD,
        str(path),
        str(folder / "robot"),
        str(folder / "out.h5"),
        *columns,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{name}: {ended.stderr}")
    result = json.loads(ended.stdout.splitlines()[-1])
    size = result["size"] / 1e6
    print(
        f"{name:<16}{size:8.0f}{result['seconds']:8.2f}{size / result['seconds']:8.0f}{result['worked']:10.2f}"
        f"{size / result['read']:14.0f}{result['peak'] / 1e6:9.0f}",
        flush=True,
    )
    shutil.rmtree(place)


def main() -> None:
    """All formats."""
    size = float(sys.argv[1]) * 1e6 if len(sys.argv) > 1 else 200e6
    rows = int(size / 530)  # a joint state and a command
    print(machine())
    print(f"{'log':<16}{'MB':>8}{'s':>8}{'MB/s':>8}{'CPU s':>10}{'reading MB/s':>14}{'peak MB':>9}")
    bag = ("/joint_states.position[arm_joint_{}]", "/cmd.data[{}]")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        robot(folder / "robot")
        for kind in ("NONE", "LZ4", "ZSTD"):
            measure(
                f"MCAP {kind.lower()}",
                lambda path, kind=kind: write_mcap(path, rows, kind),
                *bag,
                folder,
            )
        for kind in ("mcap", "sqlite3", "ros1"):
            share = rows if kind == "mcap" else rows // 4
            measure(
                f"bag {kind}",
                lambda path, kind=kind, n=share: write_bag(path, n, kind),
                *bag,
                folder,
            )
        n = int(size / 57)
        measure(
            "TFRecord",
            lambda path: write_tfrecord(path, n),
            "observation/state:{}",
            "action:{}",
            folder,
        )
        n = int(size / 60)
        measure(
            "LeRobot",
            lambda path: write_lerobot(path, n),
            "observation.state:{}",
            "action:{}",
            folder,
        )


if __name__ == "__main__":
    main()
