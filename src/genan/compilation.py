"""Compiling, once: a persistent cache of compiled programs, and a word on the screen when something
compiles.

JAX keeps compiled programs in ``~/.cache/genan/compiled`` (or ``$GENAN_CACHE_DIR``), so that the
second start of a command does not compile again. Every compilation is announced on the logger
``genan.compilation``; the command line shows it.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_log = logging.getLogger(__name__)

QUICK = {"xla_gpu_enable_triton_gemm": False}
"""Options for programs with many small matrix products: on a GPU XLA would otherwise try dozens of
kernels for each of them (starting a training of the reacher: 56 s instead of 21 s on an H200;
docs/decisions.md says at what price)."""


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    override = os.environ.get("GENAN_CACHE_DIR")
    base = (
        Path(override)
        if override
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "genan"
    )
    return base / "compiled"


def use_cache() -> None:
    """Switch JAX's persistent cache on. A folder that cannot be written costs the cache, not the
    command."""
    import jax

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.info("no compile cache: %s cannot be made (%s)", folder, error.strerror)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Announce that ``what`` compiles, and how long it took."""
    _log.info("compiling %s ...", what)
    start = time.perf_counter()
    yield
    _log.info("compiled %s in %.1f s", what, time.perf_counter() - start)
