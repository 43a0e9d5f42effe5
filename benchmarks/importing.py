"""How fast logs are imported: MB/s of each format from file to recording, and the memory.

Run ``python benchmarks/importing.py [MB]`` (default 100); it needs four times that on disk in the
temporary folder. Each import runs in a process of its own, so that its peak memory is known; CPU s
are those of all its threads: what an idle core would need, however busy this machine is. The logs
are of a 7-joint arm at 500 Hz: positions and commands, in bags also velocity and effort.
"""

import csv
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
from machine import machine

NQ, DT, LENGTH = 7, 0.002, 100_000
START = 1_700_000_000_000_000_000
JOINT_STATE, ARRAY = "sensor_msgs/msg/JointState", "std_msgs/msg/Float64MultiArray"

CHILD = """
import json, re, sys, time
from pathlib import Path
from genan.importing import ImportSettings, import_logs
from genan.robot import Robot
path, robot, out, joints, controls = sys.argv[1:]
robot = Robot.load(robot)
settings = ImportSettings(joints=json.loads(joints), controls=json.loads(controls), overwrite=True)
start, worked = time.perf_counter(), time.process_time()
made = import_logs([path], robot, out, settings=settings)
seconds, worked = time.perf_counter() - start, time.process_time() - worked
# not getrusage, which counts what the parent process had before this one began
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)
print(json.dumps({"s": seconds, "cpu": worked, "peak": 1024 * int(peak), "size": made.size}))
"""


def robot(folder: Path, dt: float) -> Path:
    """A chain of hinges."""
    folder.mkdir(exist_ok=True)
    bodies = "".join(
        f'<body><joint name="q{i}" axis="0 1 0"/><geom size="0.1" pos="0 0 1"/>' for i in range(NQ)
    )
    text = f"<mujoco><worldbody>{bodies}{'</body>' * NQ}</worldbody></mujoco>"
    (folder / "model.xml").write_text(text)
    joints = "".join(f'[[joints]]\nname = "q{i}"\n' for i in range(NQ))
    controls = "".join(f'[[controls]]\nname = "u{i}"\nrange = [-3, 3]\n' for i in range(NQ))
    (folder / "robot.toml").write_text(
        f'name = "chain"\nmodel = "model.xml"\ndt = {dt}\n{joints}{controls}'
    )
    return folder


def samples(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stamps, positions with an encoder's quantum and commands, as from a robot."""
    rng, time, quantum = np.random.default_rng(0), DT * np.arange(rows), np.deg2rad(0.018)
    q, u = (
        np.stack([np.sin(rng.uniform(1, 12) * time + rng.uniform(0, 6)) for _ in range(NQ)], axis=1)
        for _ in range(2)
    )
    return time, np.round((q + 1e-4 * rng.standard_normal(q.shape)) / quantum) * quantum, u


def write_npz(path: Path, rows: int, dtype: str, save: Callable[..., None]) -> Path:
    _, q, u = samples(rows)
    starts = np.arange(0, rows, LENGTH)
    ends = np.minimum(starts + LENGTH, rows)
    arrays = {"q": q.astype(dtype), "u": u.astype(dtype), "dt": DT}
    save(path / "a.npz", **arrays, traj_start=starts, traj_end=ends)
    return path / "a.npz"


def columns(rows: int, jitter: float = 0.0) -> dict[str, np.ndarray]:
    time, q, u = samples(rows)
    time = time + jitter * DT * np.random.default_rng(1).uniform(-1, 1, rows)
    named = {f"q{i}": q[:, i] for i in range(NQ)} | {f"u{i}": u[:, i] for i in range(NQ)}
    return {"time": time, **named}


def write_parquet(path: Path, rows: int, jitter: float) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(columns(rows, jitter))
    parquet.write_table(table, path / "a.parquet", row_group_size=1 << 18)
    return path / "a.parquet"


def write_csv(path: Path, rows: int) -> Path:
    table = columns(rows)
    with (path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(np.column_stack(list(table.values())).tolist())
    return path / "a.csv"


def messages(rows: int, wire: str) -> tuple[Any, list[tuple[int, bytes, bytes]]]:
    """Types, and stamp, joint state and command of each row; those of 2000 rows are repeated."""
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if wire == "ros1" else Stores.ROS2_HUMBLE)
    types, names = store.types, [f"arm_joint_{i}" for i in range(NQ)]
    _, q, u = samples(2000)
    encode = store.serialize_ros1 if wire == "ros1" else store.serialize_cdr
    layout = types["std_msgs/msg/MultiArrayLayout"]([], 0)
    stamp = types["builtin_interfaces/msg/Time"](0, 0)
    header = types["std_msgs/msg/Header"](*([0] if wire == "ros1" else []), stamp, "base")
    states = [types[JOINT_STATE](header, names, row, 0 * row, 0 * row) for row in q]
    states = [bytearray(encode(state, JOINT_STATE)) for state in states]
    commands = [bytes(encode(types[ARRAY](layout, row), ARRAY)) for row in u]
    made = []
    for i in range(rows):
        time, state = START + i * round(DT * 1e9), states[i % len(states)]
        struct.pack_into("<II", state, 4, time // 10**9, time % 10**9)
        made.append((time, bytes(state), commands[i % len(commands)]))
    return store, made


def write_bag(path: Path, rows: int, kind: str) -> Path:
    """ROS 1, or ROS 2 in SQLite, by the rosbags library."""
    from rosbags import rosbag1, rosbag2

    store, made = messages(rows, "ros1" if kind == "ros1" else "cdr")
    path = path / ("run.bag" if kind == "ros1" else "run")
    plugin = rosbag2.StoragePlugin.SQLITE3
    with (
        rosbag1.Writer(path)
        if kind == "ros1"
        else rosbag2.Writer(path, version=9, storage_plugin=plugin)
    ) as writer:
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
            text = store.generate_msgdef(kind, ros_version=2)[0].encode()
            schema = writer.register_schema(kind, "ros2msg", text)
            channels.append(writer.register_channel(topic, "cdr", schema))
        for stamp, *both in made:
            for channel, data in zip(channels, both, strict=True):
                writer.add_message(channel, stamp, data, stamp)
        writer.finish()
    return path / "run.mcap"


def write_tfrecord(path: Path, rows: int) -> Path:
    """RLDS: two episodes."""
    from google_crc32c import value as crc32c

    def field(number: int, data: bytes) -> bytes:
        """A field of bytes of protobuf."""
        length, size = len(data), b""
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + data

    def checksum(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    _, q, u = samples(rows // 2)
    lists = {"observation/state": q, "action": u}
    entries = {
        f"steps/{name}": field(2, field(1, x.astype("<f4").tobytes())) for name, x in lists.items()
    }
    entries["steps/is_first"] = field(3, field(1, bytes([1]) + bytes(len(q) - 1)))
    pairs = [field(1, field(1, name.encode()) + field(2, x)) for name, x in entries.items()]
    data = field(1, b"".join(pairs))
    head = struct.pack("<Q", len(data))
    record = head + checksum(head) + data + checksum(data)
    (path / "pamy2_dynamic_motions-train.tfrecord-00000-of-00001").write_bytes(record * 2)
    return path


def write_lerobot(path: Path, rows: int) -> Path:
    """LeRobot v3.0: one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (path / "meta").mkdir()
    (path / "data").mkdir()
    both = dict(zip(("observation.state", "action"), samples(rows)[1:], strict=True))
    features = {name: {"dtype": "float32", "shape": [NQ], "names": None} for name in both}
    info = {"codebase_version": "v3.0", "fps": 1 / DT, "features": features, "data_path": "data/"}
    (path / "meta" / "info.json").write_text(json.dumps(info))
    noise = 1e-3 * np.random.default_rng(0).normal(size=(rows, NQ))  # compresses to something
    frame = np.arange(rows) % 50_000
    table: dict[str, Any] = {
        name: pa.FixedSizeListArray.from_arrays((x + noise).astype(np.float32).ravel(), NQ)
        for name, x in both.items()
    }
    table["timestamp"] = (frame * DT).astype(np.float32)
    table |= {"frame_index": frame, "episode_index": np.arange(rows) // 50_000}
    pq.write_table(pa.table(table), path / "data" / "file-000.parquet", row_group_size=100_000)
    return path


def measure(
    folder: Path, name: str, write: Callable[[Path], Path], names: tuple[str, str], dt: float
) -> None:
    """Write a log, import it and print a line; ``names`` are those of joints and controls."""
    place = folder / "log"
    place.mkdir()
    path = write(place)
    mapping = [
        json.dumps({f"{key}{i}": text.format(i) for i in range(NQ)})
        for key, text in zip("qu", names, strict=True)
    ]
    chain, out = robot(folder / f"robot_{dt:g}", dt), folder / "out.h5"
    command = [sys.executable, "-c", CHILD, str(path), str(chain), str(out), *mapping]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{name}: {ended.stderr}")
    found = json.loads(ended.stdout.splitlines()[-1])
    size = found["size"] / 1e6
    print(
        f"{name:<34}{size:8.0f}{found['s']:8.2f}{size / found['s']:8.0f}{found['cpu']:8.2f}"
        f"{size / found['cpu']:10.0f}{found['peak'] / 1e6:9.0f}",
        flush=True,
    )
    shutil.rmtree(place)


def main() -> None:
    """All formats."""
    size = (float(sys.argv[1]) if len(sys.argv) > 1 else 100.0) * 1e6
    plain, rows = ("q{}", "u{}"), int(size / 8 / 2 / NQ)
    bag, bag_rows = ("/joint_states.position[arm_joint_{}]", "/cmd.data[{}]"), int(size / 530)
    arrays = ("q:{}", "u:{}")
    cases: list[tuple[str, Callable[[Path], Path], tuple[str, str], float]] = [
        ("npz", lambda p: write_npz(p, rows, "f8", np.savez), arrays, DT),
        ("npz, compressed", lambda p: write_npz(p, rows, "f4", np.savez_compressed), arrays, DT),
        ("npz, every 5th sample", lambda p: write_npz(p, rows, "f8", np.savez), arrays, 5 * DT),
        ("parquet", lambda p: write_parquet(p, rows, 0.0), plain, DT),
        ("parquet, jitter, interpolated", lambda p: write_parquet(p, rows, 0.05), plain, 5 * DT),
        ("csv", lambda p: write_csv(p, rows // 4), plain, DT),
        *(
            (f"MCAP {kind}", lambda p, kind=kind: write_mcap(p, bag_rows, kind), bag, DT)
            for kind in ("NONE", "LZ4", "ZSTD")
        ),
        ("ROS 2 bag, SQLite", lambda p: write_bag(p, bag_rows // 4, "sqlite3"), bag, DT),
        ("ROS 1 bag", lambda p: write_bag(p, bag_rows // 4, "ros1"), bag, DT),
        (
            "TFRecord",
            lambda p: write_tfrecord(p, int(size / 57)),
            ("observation/state:{}", "action:{}"),
            DT,
        ),
        (
            "LeRobot",
            lambda p: write_lerobot(p, int(size / 60)),
            ("observation.state:{}", "action:{}"),
            DT,
        ),
    ]
    print(machine())
    print(f"{'log':<34}{'MB':>8}{'s':>8}{'MB/s':>8}{'CPU s':>8}{'MB/CPU s':>10}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, write, names, dt in cases:
            measure(Path(folder), name, write, names, dt)


if __name__ == "__main__":
    main()
