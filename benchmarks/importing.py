"""How fast logs are imported: MB/s of each format, beside reading the same bytes and nothing else,
and the memory.

Run ``python benchmarks/importing.py [MB]`` (default 400); it needs four times that on disk in the
temporary folder. Each import runs in a process of its own, so that its peak memory can be told.
"""

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from machine import machine

NQ, NU, DT, LENGTH = 4, 4, 0.002, 100_000
#: Part of the bytes that a slow text format gets.
TEXT_SHARE = 4

MODEL = "<mujoco><worldbody>" + "".join(
    f'<body><joint name="q{i}" axis="0 1 0"/><geom size="0.1" pos="0 0 1"/>' for i in range(NQ)
)
MODEL += "</body>" * NQ + "</worldbody></mujoco>"

CHILD = """
import json, re, sys, time
from pathlib import Path
from genan.data.importing import ImportSettings, import_logs
from genan.robot import Robot
source, robot, out = sys.argv[1:]
robot = Robot.load(robot)
start, cpu = time.perf_counter(), time.process_time()
made = import_logs([source], robot, out, settings=ImportSettings(overwrite=True))
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
# not getrusage, which counts what the parent process had before this one began
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))
print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "samples": made.data.samples, "size": made.size}))
"""


def robot(folder: Path, dt: float) -> Path:
    """A chain of hinges."""
    folder.mkdir(exist_ok=True)
    (folder / "model.xml").write_text(MODEL)
    joints = "".join(f'[[joints]]\nname = "q{i}"\n' for i in range(NQ))
    controls = "".join(f'[[controls]]\nname = "u{i}"\nrange = [-3, 3]\n' for i in range(NU))
    (folder / "robot.toml").write_text(
        f'name = "chain"\nmodel = "model.xml"\ndt = {dt}\n{joints}{controls}'
    )
    return folder


def samples(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stamps, positions with an encoder's quantum and commands, as from a robot."""
    rng = np.random.default_rng(0)
    time = DT * np.arange(rows)
    quantum = np.deg2rad(0.018)
    q = np.stack([np.sin(rng.uniform(1, 12) * time + rng.uniform(0, 6)) for _ in range(NQ)], axis=1)
    u = np.stack([np.sin(rng.uniform(1, 12) * time + rng.uniform(0, 6)) for _ in range(NU)], axis=1)
    return time, np.round((q + 1e-4 * rng.standard_normal(q.shape)) / quantum) * quantum, u


def write_npz(path: Path, rows: int, dtype: str, save: Callable[..., None]) -> None:
    _, q, u = samples(rows)
    starts = np.arange(0, rows, LENGTH)
    save(
        path,
        q=q.astype(dtype),
        u=u.astype(dtype),
        dt=DT,
        traj_start=starts,
        traj_end=np.minimum(starts + LENGTH, rows),
    )


def write_parquet(path: Path, rows: int, jitter: float) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    time, q, u = samples(rows)
    time = time + jitter * DT * np.random.default_rng(1).uniform(-1, 1, rows)
    columns = {f"q{i}": q[:, i] for i in range(NQ)} | {f"u{i}": u[:, i] for i in range(NU)}
    parquet.write_table(pa.table({"time": time, **columns}), path, row_group_size=1 << 18)


def write_csv(path: Path, rows: int) -> None:
    time, q, u = samples(rows)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *(f"q{i}" for i in range(NQ)), *(f"u{i}" for i in range(NU))])
        writer.writerows(np.column_stack([time, q, u]).tolist())


def raw_reading(path: Path) -> float:
    """Seconds to read the bytes and nothing else."""
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
    return time.perf_counter() - start


def main() -> None:
    size = (float(sys.argv[1]) if len(sys.argv) > 1 else 400.0) * 1e6
    rows = int(size / 8 / (NQ + NU))
    print(machine())
    print(
        f"{NQ} joints and {NU} controls at {1 / DT:g} Hz, {rows / 1e6:.1f} million samples; MB are of the log file"
    )
    print(
        f"{'log':<34}{'MB':>8}{'s':>8}{'MB/s':>8}{'CPU s':>8}{'MB/CPU s':>10}{'of raw read':>13}{'peak MB':>9}"
    )
    print(
        "(CPU seconds of all threads: what an idle core would need, however busy this machine is)"
    )
    cases: list[tuple[str, str, float, Callable[[Path], None]]] = [
        ("npz, float64", "a.npz", DT, lambda p: write_npz(p, rows, "f8", np.savez)),
        ("npz, float32", "b.npz", DT, lambda p: write_npz(p, rows, "f4", np.savez)),
        (
            "npz, float32, compressed",
            "c.npz",
            DT,
            lambda p: write_npz(p, rows, "f4", np.savez_compressed),
        ),
        (
            "npz, float64, every 5th sample",
            "d.npz",
            5 * DT,
            lambda p: write_npz(p, rows, "f8", np.savez),
        ),
        ("parquet", "e.parquet", DT, lambda p: write_parquet(p, rows, 0.0)),
        (
            "parquet, 5 % jitter, interpolated",
            "f.parquet",
            5 * DT,
            lambda p: write_parquet(p, rows, 0.05),
        ),
        ("csv", "g.csv", DT, lambda p: write_csv(p, rows // TEXT_SHARE)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for words, name, dt, write in cases:
            source = Path(folder) / name
            write(source)
            raw_reading(source)
            raw = raw_reading(source)
            chain, out = robot(Path(folder) / f"robot_{dt:g}", dt), Path(folder) / "out.h5"
            child = [sys.executable, "-c", CHILD, str(source), str(chain), str(out)]
            found = json.loads(
                subprocess.run(child, capture_output=True, text=True, check=True).stdout
            )
            megabytes = source.stat().st_size / 1e6
            speed = megabytes / found["seconds"]
            print(
                f"{words:<34}{megabytes:8.0f}{found['seconds']:8.2f}{speed:8.0f}{found['cpu']:8.2f}"
                f"{megabytes / found['cpu']:10.0f}{raw / found['seconds']:12.1%} "
                f"{found['peak'] / 1e6:8.0f}"
            )
            source.unlink()


if __name__ == "__main__":
    main()
