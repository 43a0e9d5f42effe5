import threading

import pytest

from genan.data.importing.prefetch import prefetch


def test_the_same_items_and_errors_at_their_place():
    assert list(prefetch(iter(range(100)))) == list(range(100))

    def failing():
        yield 1
        raise ValueError("broken")

    items = prefetch(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="broken"):
        next(items)


def test_the_thread_ends_with_the_reader():
    items = prefetch(iter(range(1000)))
    next(items)
    items.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "genan-import"]
