"""Files that are whole or absent."""

import os
import platform
import subprocess
from pathlib import Path

from genan.files import write_atomically


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as over:
        over.wait()
    here, kept = platform.node(), {"a.json"}
    for host, pid, stays in (
        (here, over.pid, False),
        (here, os.getppid(), True),  # still writes, perhaps
        ("another-computer", over.pid, True),
        (here, "no-number", True),
    ):
        left = tmp_path / f".a.json.{host}-{pid}.tmp"
        left.write_bytes(b"half")
        kept |= {left.name} if stays else set()
    write_atomically(tmp_path / "a.json", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert (tmp_path / "a.json").read_bytes() == b"whole"
