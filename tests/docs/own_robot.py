"""The robot of a reader of the documentation: a model file, and its logs in every format that genan
imports.

Each format is written by its own library, or by hand after its specification: none of genan's
readers takes part.
"""

import json
import struct
from functools import cache
from pathlib import Path

import numpy as np
from tests.any_robot import AnyRobot, Log

JOINTS = ("shoulder", "elbow")
RECORDINGS, SECONDS = 6, 3.0


@cache
def robot_and_logs() -> tuple[AnyRobot, tuple[Log, ...]]:
    """The same for every page."""
    robot = AnyRobot(2, names=JOINTS)
    return robot, tuple(robot.log(SECONDS, seed) for seed in range(RECORDINGS))


def prepare_logs(folder: Path) -> None:
    """``arm.xml``, and the recordings in folders named after their formats."""
    robot, logs = robot_and_logs()
    robot.write_model(folder / "arm.xml")
    for name in ("bags", "tables", "parquet", "rlds"):
        (folder / name).mkdir()
    for k, log in enumerate(logs):
        robot.write_bag(log, folder / "bags" / f"run_{k}")
        robot.write_csv(log, folder / "tables" / f"run_{k}.csv")
        write_parquet(robot, log, folder / "parquet" / f"run_{k}.parquet")
    write_ros1(robot, logs[0], folder / "run.bag")
    write_npz(logs, robot.dt, folder / "runs.npz")
    write_lerobot(robot, logs, folder / "lerobot")
    write_rlds(logs, folder / "rlds" / "arm-train.tfrecord-00000-of-00001")
    write_o80(logs[0], folder / "o80.parquet")


def prepare_table(folder: Path) -> None:
    """``log.csv`` with angles in degrees and millivolts, and a ``robot.toml`` that says nothing of
    its columns."""
    robot, logs = robot_and_logs()
    robot.write_model(folder / "arm.xml")
    entries = [f'name = "arm"\nmodel = "arm.xml"\ndt = {robot.dt}']
    entries += [f'[[joints]]\nname = "{joint}"' for joint in robot.joints]
    entries += [f'[[controls]]\nname = "u{k}"\nunit = "V"\nrange = [-2000, 2000]' for k in (1, 2)]
    (folder / "robot.toml").write_text("\n".join(entries))
    rows = np.column_stack([logs[0].time, np.degrees(logs[0].q), 1000.0 * logs[0].u])
    np.savetxt(folder / "log.csv", rows, delimiter=",", header="time,q1,q2,pwm1,pwm2", comments="")


def write_parquet(robot: AnyRobot, log: Log, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    names = (*robot.joints, *robot.controls)
    columns = {"time": log.time} | dict(zip(names, np.hstack([log.q, log.u]).T, strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def write_npz(logs: tuple[Log, ...], dt: float, path: Path) -> None:
    ends = np.cumsum([len(log.q) for log in logs])
    np.savez(
        path,
        q=np.concatenate([log.q for log in logs]),
        u=np.concatenate([log.u for log in logs]),
        dt=dt,
        traj_start=ends - [len(log.q) for log in logs],
        traj_end=ends,
        traj_name=np.array([f"run_{k}" for k in range(len(logs))]),
    )


def write_ros1(robot: AnyRobot, log: Log, path: Path) -> None:
    from rosbags.rosbag1 import Writer
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS1_NOETIC)
    kind = types.types
    with Writer(path) as bag:
        states = bag.add_connection("/joint_states", "sensor_msgs/msg/JointState", typestore=types)
        commands = bag.add_connection(
            "/valves/commands", "std_msgs/msg/Float64MultiArray", typestore=types
        )
        for k, stamp in enumerate(log.time):
            now = 1_700_000_000_000_000_000 + round(1e9 * stamp)
            header = kind["std_msgs/msg/Header"](
                seq=k,
                stamp=kind["builtin_interfaces/msg/Time"](sec=now // 10**9, nanosec=now % 10**9),
                frame_id="",
            )
            state = kind["sensor_msgs/msg/JointState"](
                header, list(robot.joints), log.q[k], np.empty(0), np.empty(0)
            )
            bag.write(states, now, types.serialize_ros1(state, state.__msgtype__))
            layout = kind["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
            command = kind["std_msgs/msg/Float64MultiArray"](layout, log.u[k])
            bag.write(commands, now, types.serialize_ros1(command, command.__msgtype__))


def write_lerobot(robot: AnyRobot, logs: tuple[Log, ...], folder: Path) -> None:
    """Layout v3.0: all episodes in one table, described by ``meta/info.json``."""
    import pyarrow
    import pyarrow.parquet

    lengths = [len(log.q) for log in logs]
    motor = {
        "dtype": "float32",
        "shape": [len(robot.joints)],
        "names": [f"{joint}.pos" for joint in robot.joints],
    }
    number = {"dtype": "int64", "shape": [1], "names": None}
    info = {
        "codebase_version": "v3.0",
        "fps": round(1.0 / robot.dt),
        "total_episodes": len(logs),
        "total_frames": sum(lengths),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "features": {
            "observation.state": motor,
            "action": motor,
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), number),
        },
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    rows = pyarrow.list_(pyarrow.float32(), len(robot.joints))
    q, u = (
        np.concatenate([getattr(log, name) for log in logs]).astype(np.float32) for name in "qu"
    )
    frames = np.concatenate([np.arange(length) for length in lengths])
    columns = {
        "observation.state": pyarrow.array(list(q), rows),
        "action": pyarrow.array(list(u), rows),
        "timestamp": pyarrow.array((frames * robot.dt).astype(np.float32)),
        "frame_index": frames,
        "episode_index": np.repeat(np.arange(len(logs)), lengths),
        "index": np.arange(sum(lengths)),
        "task_index": np.zeros(sum(lengths), np.int64),
    }
    pyarrow.parquet.write_table(
        pyarrow.table(columns), folder / "data" / "chunk-000" / "file-000.parquet"
    )


def write_o80(log: Log, path: Path) -> None:
    """The columns of o80_pam's data frames, with the pressures in its counts."""
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, np.ndarray] = {
        "time_stamp": (1.7e18 + 1e9 * log.time).astype(np.int64),
        "iteration": np.arange(len(log.q)),
        "frequency": np.full(len(log.q), 100.0),
    }
    for joint, (q, u) in enumerate(zip(log.q.T, log.u.T, strict=True)):
        columns |= {f"position_{joint}": q, f"velocity_{joint}": np.gradient(q, log.time)}
        columns[f"reference_found_{joint}"] = np.ones(len(q), bool)
        for name, sign in (("ago", -1.0), ("antago", 1.0)):
            counts = np.round(18000 + sign * 4000 * u).astype(np.int64)
            columns |= {
                f"desired_pressure_{joint}_{name}": counts,
                f"observed_pressure_{joint}_{name}": counts,
            }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def write_rlds(logs: tuple[Log, ...], path: Path) -> None:
    """One Example for each episode, as TensorFlow Datasets writes RLDS, framed as TFRecord is."""
    with path.open("wb") as file:
        for log in logs:
            last = np.arange(len(log.q)) == len(log.q) - 1
            example = _example(
                {
                    "steps/observation/state": log.q.astype("<f4"),
                    "steps/action": log.u.astype("<f4"),
                    "steps/is_first": np.roll(last, 1),
                    "steps/is_last": last,
                }
            )
            head = struct.pack("<Q", len(example))
            file.write(head + _masked(head) + example + _masked(example))


def _example(features: dict[str, np.ndarray]) -> bytes:
    """``tf.train.Example`` in the wire format of protocol buffers."""
    entries = b""
    for name, values in features.items():
        if values.dtype == bool:
            content = _field(
                3, _field(1, b"".join(_varint(int(value)) for value in values.ravel()))
            )
        else:
            content = _field(2, _field(1, values.tobytes()))
        entries += _field(1, _field(1, name.encode()) + _field(2, content))
    return _field(1, entries)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _masked(content: bytes) -> bytes:
    """TFRecord's checksum: CRC-32C, rotated and shifted."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def prepare_recordings(folder: Path) -> None:
    """What imports of the same robot's logs make: ``new.h5``, recorded later."""
    import contextlib
    import tempfile

    from genan.cli import main

    with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):
        prepare_logs(Path(elsewhere))
        assert main(["new-robot", "arm.xml", "--logs", "bags"]) == 0
        assert (
            main(["import", "bags", "--robot", "robot.toml", "--out", str(folder / "new.h5")]) == 0
        )
