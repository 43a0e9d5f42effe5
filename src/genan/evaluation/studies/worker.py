"""A process that does jobs, one after the other, and tells what becomes of them.

    python -m genan.evaluation.studies.worker FOLDER

Jobs come in as lines of JSON, events go out as lines of JSON. It ends when its input ends, whatever
it is doing: a study that is gone, killed even, leaves no worker behind.
"""

import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, TextIO

from genan.errors import GenanError

LOG = "log.txt"
"""What a job printed, in its folder."""
STOP = {"stop": True}
"""What a worker is told to end the present job as soon as that is safe."""


class _Orders:
    """What comes in, read beside the work."""

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._jobs: list[dict[str, Any]] = []
        self._some = threading.Condition()
        self.stop = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._source:
            order = json.loads(line)
            with self._some:
                if order == STOP:
                    self.stop = True
                else:
                    self.stop = False
                    self._jobs.append(order)
                self._some.notify()
        os._exit(0)  # nobody listens any more

    def next(self) -> dict[str, Any]:
        """The next job; waits for it."""
        with self._some:
            while not self._jobs:
                self._some.wait()
            return self._jobs.pop(0)


def serve(root: Path, orders: TextIO, answers: TextIO) -> None:
    """Do the jobs that ``orders`` names, for ever."""
    from genan.evaluation.studies.job import Job
    from genan.evaluation.studies.store import StoppedError, Store
    from genan.evaluation.studies.work import perform
    from genan.jax_setup import use_cache

    use_cache()
    store, incoming = Store(root), _Orders(orders)

    def tell(event: str, **more: Any) -> None:
        answers.write(json.dumps({"event": event, **more}) + "\n")
        answers.flush()

    tell("ready")
    while True:
        job = Job.from_json(incoming.next()["job"])
        shown = [0.0]

        def show(share: float, shown: list[float] = shown) -> None:
            if share - shown[0] >= 0.01:
                shown[0] = share
                tell("progress", share=share)

        log_to(store.folder(job) / LOG)
        try:
            done = perform(job, store, stopping=lambda: incoming.stop, progress=show)
            tell("done", result=dict(done.result), seconds=done.seconds)
        except StoppedError:
            tell("stopped")
        except GenanError as error:
            tell("failed", error=str(error))
        except Exception as error:
            traceback.print_exc()
            tell("failed", error=f"{type(error).__name__}: {error}".splitlines()[0])


def log_to(path: Path) -> None:
    """From now on what the process prints goes to the end of this file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def main() -> None:
    """Serve the process that started this one."""
    # Libraries print; the answers have a way of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(Path(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    main()
