"""Recordings on disk: how long it takes to record 2500 trajectories, and to open the file and read
100 of them.

Run ``python benchmarks/store.py``; it needs about 0.8 GB of disk in the temporary folder for a few
seconds.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from machine import machine

from genan.data import Channels, Recorder, load, summary

COUNT, LENGTH, NQ, NU, READ = 2500, 1000, 4, 4, 100
QUANTUM = np.deg2rad(0.018)


@contextmanager
def clock(seconds: dict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - start


def trajectory(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth controls, positions rounded to an encoder's quantum, as from a robot."""
    rng = np.random.default_rng(number)
    t = 0.002 * np.arange(LENGTH)[:, None]
    u = sum(
        rng.uniform(-0.3, 0.3, NU) * np.sin(rng.uniform(1, 12, NU) * t + rng.uniform(0, 6, NU))
        for _ in range(3)
    )
    q = sum(
        rng.uniform(-0.5, 0.5, NQ) * np.sin(rng.uniform(1, 12, NQ) * t + rng.uniform(0, 6, NQ))
        for _ in range(3)
    )
    return np.round(q / QUANTUM) * QUANTUM, u


def main() -> None:
    channels = Channels(
        dt=0.002,
        joints=tuple(f"q{i}" for i in range(NQ)),
        controls=tuple(f"u{i}" for i in range(NU)),
        control_range=np.array([[-1.0] * NU, [1.0] * NU]),
    )
    chosen = np.random.default_rng(0).choice(COUNT, READ, replace=False)
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path, plain = Path(folder) / "data.h5", Path(folder) / "plain.npy"
        recordings = [trajectory(number) for number in range(COUNT)]
        provenance = {"robot": "benchmark"}
        with (
            Recorder.create(path, channels, provenance=provenance) as recorder,
            clock(seconds, "append"),
        ):
            for q, u in recordings:
                recorder.append(q, u)
        with clock(seconds, "resume"):
            recorder = Recorder.resume_or_create(path, channels, provenance=provenance)
        partial = recorder.partial.stat().st_size
        with clock(seconds, "finish"):
            recorder.finish()
        np.save(plain, np.concatenate([np.hstack(pair) for pair in recordings]))
        with clock(seconds, "summary"):
            summary(path)
        with clock(seconds, "read some"):
            some = load(path, chosen)
        with clock(seconds, "npy"):
            rows = np.load(plain, mmap_mode="r").reshape(COUNT, LENGTH, NQ + NU)[chosen]
        with clock(seconds, "npy whole"):
            np.load(plain)
        with clock(seconds, "read all"):
            everything = load(path)
        with clock(seconds, "fingerprint"):
            everything.fingerprint  # noqa: B018
        assert np.array_equal(np.concatenate(rows)[:, :NQ], some.q)
        size = path.stat().st_size
    print(machine())
    print(f"{COUNT} trajectories of {LENGTH} samples, {NQ} joints and {NU} controls")
    print(
        f"file                       {size / 1e6:8.1f} MB ({partial / 1e6:.1f} MB while recording)"
    )
    print(
        f"append all                 {seconds['append']:8.2f} s "
        f"({1e3 * seconds['append'] / COUNT:.2f} ms each)"
    )
    print(f"resume after a kill        {seconds['resume']:8.2f} s")
    print(f"finish                     {seconds['finish']:8.2f} s")
    print(f"open, count                {1e3 * seconds['summary']:8.1f} ms")
    ratio = seconds["read some"] / seconds["npy"]
    print(
        f"open, read {READ}             {1e3 * seconds['read some']:8.1f} ms ({ratio:.1f} x the "
        "same rows from .npy)"
    )
    ratio = seconds["read all"] / seconds["npy whole"]
    print(
        f"open, read all             {seconds['read all']:8.2f} s ({ratio:.1f} x np.load of the "
        "whole .npy)"
    )
    print(f"fingerprint of all         {seconds['fingerprint']:8.2f} s")


if __name__ == "__main__":
    main()
