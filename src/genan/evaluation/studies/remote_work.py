"""What is done on the nodes of a cluster: these functions travel there, by their names."""

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from genan.errors import GenanError
from genan.files import write_atomically
from genan.version import __version__

SHARE = "at-work.json"
"""In a job's folder while it is being done: by which node, and how far it is."""
GO, STOP = "go", "stop"
"""What the file of orders says."""
GLANCE = 0.5
"""Between two looks into it, and between two notes of how far a job is [s]."""


def introduce(proof: str) -> tuple[str | None, str]:
    """What this node reads in the file ``proof``, None where there is no such file; and its version
    of genan.
    """
    try:
        return Path(proof).read_text(), __version__
    except OSError:
        return None, __version__


def work(content: Mapping[str, Any], root: str, orders: str) -> dict[str, Any]:
    """Do the job that ``content`` is, in the store at ``root``, until ``orders`` say otherwise; the
    event.
    """
    from genan.evaluation.studies.job import Job
    from genan.evaluation.studies.store import StoppedError, Store
    from genan.evaluation.studies.work import perform
    from genan.evaluation.studies.worker import LOG
    from genan.jax_setup import use_cache

    job, store = Job.from_json(content), Store(Path(root))
    folder = store.folder(job)
    folder.mkdir(parents=True, exist_ok=True)
    watch = _Watch(folder / SHARE, Path(orders))
    with _printing_to(folder / LOG):
        print(f"on the node {watch.node} ({watch.name}), process {os.getpid()}")
        use_cache()
        try:
            perform(job, store, stopping=watch.stopping, progress=watch.note)
            return {"event": "done"}
        except StoppedError:
            return {"event": "stopped"}
        except GenanError as error:
            return {"event": "failed", "error": str(error)}
        except Exception as error:
            traceback.print_exc()
            return {"event": "failed", "error": f"{type(error).__name__}: {error}".splitlines()[0]}
        finally:
            (folder / SHARE).unlink(missing_ok=True)


class _Watch:
    """What the one who handed out the job wants, and what is told to them."""

    def __init__(self, share: Path, orders: Path) -> None:
        import ray

        self.node, self.name = ray.get_runtime_context().get_node_id(), socket.gethostname()
        self._share, self._orders = share, orders
        self._stop, self._looked, self._noted = False, 0.0, 0.0
        self.note(0.0)

    def stopping(self) -> bool:
        """Whether to stop."""
        if not self._stop and time.monotonic() - self._looked > GLANCE:
            self._looked = time.monotonic()
            try:
                self._stop = self._orders.read_text() != GO
            except FileNotFoundError:  # they are gone
                self._stop = True
        return self._stop

    def note(self, share: float) -> None:
        """Say how far the job is."""
        if time.monotonic() - self._noted > GLANCE:
            self._noted = time.monotonic()
            said = {"node": self.node, "name": self.name, "share": round(share, 4)}
            with contextlib.suppress(OSError):
                write_atomically(self._share, json.dumps(said).encode())


def look(path: Path) -> dict[str, Any]:
    """What a job at work says of itself; nothing where none is."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


@contextlib.contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """What is printed within goes to the end of this file; then it goes where it went before."""
    from genan.evaluation.studies.worker import log_to

    before = [os.dup(1), os.dup(2)]
    log_to(path)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for kept, place in zip(before, (1, 2), strict=True):
            os.dup2(kept, place)
            os.close(kept)
