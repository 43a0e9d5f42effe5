"""Jobs that are killed at random moments, and started again until they are done."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.faults.commands import PATIENCE, start

KILLS = 10
IN_VAIN = 40
"""A job that is done before it is killed begins again, but not for ever."""
Content = dict[str, object]


def content(folder: Path) -> Content:
    """Everything in a folder that must be the same, by its path."""
    found: Content = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or "tensorboard" in path.parts:  # events have clock times
            continue
        found[name] = path.read_bytes()
        if path.suffix == ".npz":  # how long each tick worked is not the same twice
            with np.load(path) as arrays:
                found[name] = {k: arrays[k].tobytes() for k in arrays.files if k != "work"}
    return found


@dataclass(frozen=True)
class Job:
    """A command that makes everything in the folder it runs in."""

    words: tuple[object, ...]
    done: str = ""  # The file that says that all is there, where there is one.
    setup: str = ""  # Python to run before.
    again: tuple[object, ...] = ()  # Flags that start it again.
    check: Callable[[Path, Path], bool] = lambda there, whole: False
    """Look at what a kill left in a folder, next to that of the whole job; whether there was
    anything to go on from."""
    content: Callable[[Path], Content] = content

    def whole(self, folder: Path) -> float:
        """Do it undisturbed; how long it took [s]."""
        folder.mkdir()
        self._finish(folder)  # compiles
        shutil.rmtree(folder)
        folder.mkdir()
        began = time.monotonic()
        self._finish(folder)
        return time.monotonic() - began

    def _finish(self, folder: Path, *more: object) -> None:
        with start(*self.words, *more, cwd=folder, setup=self.setup) as process:
            _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and "Traceback" not in err, err

    def killed(self, folder: Path, seed: int) -> str:
        """Kill it, start it again, and so on; then let it finish. What held, in words."""
        chance, kills, went_on, more = random.Random(seed), 0, 0, tuple[object, ...]()
        whole, there = folder / "whole", folder / "killed"
        seconds, expected = self.whole(whole), self.content(whole)
        there.mkdir()
        for _ in range(IN_VAIN):
            if kills == KILLS:
                break
            with start(*self.words, *more, cwd=there, setup=self.setup) as process:
                wait(process, there, chance, seconds)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
            assert "Traceback" not in err, err
            kills += process.returncode != 0
            assert process.returncode in (0, -signal.SIGKILL), err
            if process.returncode == 0 or (self.done and (there / self.done).exists()):
                found = self.content(there)  # it was quicker, or was only about to end
                assert all(found[name] == data for name, data in expected.items())
                shutil.rmtree(there)
                there.mkdir()
            else:
                went_on += self.check(there, whole)
            more = self.again if any(there.iterdir()) else ()
        assert kills == KILLS
        self._finish(there, *more)
        found = self.content(there)
        assert found.keys() == expected.keys()
        assert [name for name in found if found[name] != expected[name]] == []
        went = f"; {went_on} times it went on from what was safe" if went_on else ""
        return f"half of it never has its name; the same bytes in the end{went}"


def wait(process: subprocess.Popen[str], folder: Path, chance: random.Random, whole: float) -> None:
    """Until a moment to kill: any, or just after some files have changed, or the end."""
    changes, delay = chance.choice((0, 0, 1, 2, 3, 5, 8, 13)), chance.uniform(0.0, 0.02)
    end = time.monotonic() + chance.uniform(0.2, 1.0) * whole if not changes else np.inf
    before = seen(folder)
    while process.poll() is None and time.monotonic() < end:
        now = seen(folder)
        if now != before:
            before, changes = now, changes - 1
            if changes == 0:
                time.sleep(delay)
                return
        time.sleep(0.005)


def seen(folder: Path) -> set[tuple[str, int, int]]:
    found = set()
    for path in folder.rglob("*"):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        found.add((str(path), stat.st_size, stat.st_mtime_ns))
    return found
