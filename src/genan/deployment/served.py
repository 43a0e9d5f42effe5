"""A virtual PAMY2 that is served by a process of its own for as long as a block lasts."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from genan.deployment.interface import ConnectionLostError

#: An orderly end takes the ramp to rest; after this the process is killed [s].
_PATIENCE = 10.0


@contextmanager
def served(*, seed: int = 0, hours: float = 0.0) -> Iterator[tuple[str, int]]:
    """Start ``genan serve`` on a free port of this computer; gives its host and port, and ends it
    after the block.

    Args:
        seed: which specimen.
        hours: operating hours behind it [h].
    """
    command = [
        sys.executable,
        "-m",
        "genan",
        "serve",
        "--port",
        "0",
        "--seed",
        str(seed),
        "--hours",
        str(hours),
    ]
    # In a session of its own: a Ctrl-C is for the client, which brings the arm to rest before the
    # server ends.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            host, _, port = line.rpartition(" ")[2].strip().partition(":")
            if not port.isdigit():
                words = process.stderr.read().strip().splitlines()
                raise ConnectionLostError(
                    f"The virtual PAMY2 could not be served: {words[-1] if words else 'no words'}"
                )
            yield host, int(port)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
