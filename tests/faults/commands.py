"""Commands in processes of their own, as users run them; and small disks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""What nothing here may take longer than; a busy machine is slow [s]."""


def start(*words: object, cwd: Path = ROOT, setup: str = "", **more: Any) -> subprocess.Popen[str]:
    """``genan WORDS``, or ``python -m experiments WORDS``, in a process group of its own; what it
    prints goes to pipes. ``setup``: Python to run before."""
    main = "experiments.__main__" if words[0] == "experiments" else "genan.cli"
    arguments = [str(word) for word in (words[1:] if words[0] == "experiments" else words)]
    code = f"{setup}\nfrom {main} import main; raise SystemExit(main())"
    places = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", code, *arguments]
    settings = {**pipes, "cwd": cwd, "env": environment, "start_new_session": True, **more}
    return subprocess.Popen(command, **settings)


def run(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    with start(*words, **more) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def until(holds: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait for it."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@dataclass
class Serving:
    process: subprocess.Popen[str]
    port: int
    log: Path

    def events(self) -> list[dict[str, Any]]:
        """What it has logged so far, in whole lines."""
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def count(self, event: str) -> int:
        return sum(entry["event"] == event for entry in self.events())


@contextmanager
def serving(folder: Path, *flags: object) -> Iterator[Serving]:
    """``genan serve --robot virtual-pamy2``, which must end well when it is asked to."""
    log = folder / "serve.jsonl"
    words = ("serve", "--robot", "virtual-pamy2", "--port", 0, "--log", log, *flags)
    with start(*words) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "serves on 127.0.0.1:" in line, line
            yield Serving(process, int(line.strip().rpartition(":")[2]), log)
            process.terminate()
            out, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0 and "is at rest, and closed" in out, err
            assert "Traceback" not in err, err
        finally:
            process.kill()


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of that size in ``folder``; needs root."""
    import pytest

    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def resize(disk: Path, kilobytes: int) -> None:
    """Make room on a small disk."""
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(disk)], check=True)
