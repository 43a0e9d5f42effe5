"""What a forger does: flip, cut, swap, and edit with a seal that fits."""

import hashlib
import json
import random
import resource
import shutil
import signal
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tests.deployment.checking import ROBOT

from genan.files import ArtifactFormat
from genan.sealed import seal

LONGEST, MEMORY = 20.0, 3 * 2**30
"""What looking at one forgery may take [s, bytes]."""
ABSURD = (
    None, True, -1, 0, 1, 2, 7, 1e-300, 1e308, float("nan"), float("inf"), 10**9, 10**30, "", "q1",
    "x" * 500, "\x1b[2J", [], {}, [[[]]], [1.0], ["a", "b", "c", "d"], {"a": 1}, [0] * 500,
)  # fmt: skip
"""In the place of any entry of a contract."""


class HangError(BaseException):
    """Nobody catches this on the way."""


@contextmanager
def within(seconds: float = LONGEST, more: float = MEMORY) -> Iterator[None]:
    """A block that must not take longer, nor more memory."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError(f"it took longer than {seconds:g} s")

    before, limits = signal.signal(signal.SIGALRM, ring), resource.getrlimit(resource.RLIMIT_DATA)
    taken = next(k for k in Path("/proc/self/status").read_text().splitlines() if "VmData" in k)
    most = int(1024 * float(taken.split()[1]) + more)
    resource.setrlimit(resource.RLIMIT_DATA, (most, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_DATA, limits)


def beyond_limits(sent: np.ndarray) -> str:
    """What is wrong with controls [ticks, 4] that a PAMY2 was sent, by its robot.toml alone."""
    told = tomllib.loads(ROBOT.read_text())
    low, high = np.array([control["range"] for control in told["controls"]]).T
    change = told["dt"] * np.array([control["rate"] for control in told["controls"]])
    steps = np.abs(np.diff(np.concatenate([np.zeros((1, 4)), sent]), axis=0)).max(axis=0)
    if not np.isfinite(sent).all() or (sent < low).any() or (sent > high).any():
        return f"{np.abs(sent).max()}, out of range"
    return f"{steps} in a period" if (steps > change + 1e-9).any() else ""


def damaged(path: Path, chance: random.Random) -> str:
    """Spoil a file in place: one byte, a few, or its end; what was done, in words."""
    content = bytearray(path.read_bytes())
    if chance.random() < 0.2:
        end = chance.choice((0, 1, chance.randrange(len(content)), len(content) - 1))
        path.write_bytes(content[:end])
        return f"cut at {end}"
    if chance.random() < 0.05:
        path.write_bytes(content + chance.randbytes(100))
        return "something after its end"
    places = [chance.randrange(len(content)) for _ in range(chance.choice((1, 1, 1, 4, 100)))]
    for place in places:
        content[place] ^= chance.randrange(1, 256)
    path.write_bytes(content)
    return f"bytes {places[:4]}"


def copied(source: Path, there: Path) -> Path:
    shutil.rmtree(there, ignore_errors=True)
    return Path(shutil.copytree(source, there))


def reseal(folder: Path, kind: ArtifactFormat, settings: dict[str, Any]) -> None:
    """Write a contract with checksums that fit."""
    settings = {key: value for key, value in settings.items() if key != "seal"}
    settings["weights_sha256"] = hashlib.sha256((folder / kind.weights).read_bytes()).hexdigest()
    (folder / kind.contract).write_text(json.dumps({**settings, "seal": seal(settings)}))


def contract(folder: Path, kind: ArtifactFormat) -> dict[str, Any]:
    return dict(json.loads((folder / kind.contract).read_text()))


def edit(folder: Path, kind: ArtifactFormat, place: tuple[Any, ...], value: Any) -> None:
    """Put ``value`` in a place of the contract, with a seal that fits."""
    settings = contract(folder, kind)
    inner: Any = settings
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    reseal(folder, kind, settings)


def change(folder: Path, kind: ArtifactFormat, name: str, value: Any) -> None:
    """Change an array, with a checksum and a seal that fit; None takes it out."""
    arrays = load_file(folder / kind.weights)
    if value is None:
        del arrays[name]
    else:
        arrays[name] = np.array(value(arrays[name]) if callable(value) else value)
    save_file(arrays, folder / kind.weights)
    reseal(folder, kind, contract(folder, kind))


def places(value: Any, deep: int, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a JSON value down to a depth."""
    if at:
        yield at
    if deep:
        entries = value.items() if isinstance(value, dict) else ()
        if isinstance(value, list):
            entries = list(enumerate(value))[:3]
        for key, inner in entries:
            yield from places(inner, deep - 1, (*at, key))
