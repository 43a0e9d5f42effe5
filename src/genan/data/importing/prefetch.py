"""Read ahead: while one chunk is worked on, the next is read in a thread."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

#: Chunks that wait at most.
_DEPTH = 2
_END = object()


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """The same items, in the same order; an error comes at its place. The thread ends when the
    reader goes away."""
    waiting: queue.Queue[object] = queue.Queue(_DEPTH)
    gone = threading.Event()

    def put(item: object) -> bool:
        while not gone.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(_END)
        except BaseException as error:
            put(_Failed(error))

    thread = threading.Thread(target=read, name="genan-import", daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if item is _END:
                return
            if isinstance(item, _Failed):
                raise item.error
            yield item
    finally:
        gone.set()
        thread.join()


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error
