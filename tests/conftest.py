import os
import tempfile
from pathlib import Path

import pytest

# One compile cache for the whole run, commands started by the tests included, and none of the user's own.
_CACHE = tempfile.TemporaryDirectory(prefix="genan-test-cache-")
os.environ["GENAN_CACHE_DIR"] = _CACHE.name
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parents[1]
