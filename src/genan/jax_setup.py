"""Setting JAX up: compiled programs are kept on disk, and a fault of its compiler is avoided.

JAX keeps compiled programs in ``~/.cache/genan/compiled`` (or ``$GENAN_CACHE_DIR``), so that the
second start of a command does not compile again. Every compilation is announced on this module's
logger; the command line shows it.

jaxlib 0.10.2 and some releases after it hand sums on the CPU to a library (YNNPACK) and get some of
them wrong silently (jax-ml/jax#39103, ``docs/decisions.md``). The library is switched off through
``XLA_FLAGS``, which must happen before JAX starts its first computation.
"""

import functools
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from genan.errors import GenanError

_log = logging.getLogger(__name__)
_FLAG = "--xla_cpu_experimental_ynn_fusion_type="

QUICK = {"xla_gpu_enable_triton_gemm": False}
"""Options for programs with many small matrix products: on a GPU XLA would otherwise try dozens of
kernels for each of them (starting a training of the reacher: 56 s instead of 21 s on an H200;
docs/decisions.md says at what price)."""


def avoid_wrong_sums() -> None:
    """Switch the faulty library off in the releases that know the switch, unless the user did."""
    try:
        release = tuple(int(part) for part in version("jaxlib").split(".")[:3])
    except (PackageNotFoundError, ValueError):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if (0, 10, 1) <= release < (0, 12) and _FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}".strip()


@functools.cache
def check_sums() -> None:
    """Refuse to continue where the fault is there: JAX was started before genan was imported."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    if jax.default_backend() != "cpu":
        return
    matrices = np.random.default_rng(0).standard_normal((8000, 4, 4)).astype(np.float32)
    vectors = np.random.default_rng(1).standard_normal((5, 8000, 4)).astype(np.float32)

    def squares(matrices: Any, vectors: Any, xp: Any = jnp) -> Any:
        return xp.sum((xp.sum(matrices * vectors[:, :, None, :], axis=-1) / 2.0) ** 2, axis=-1)

    right = squares(matrices, vectors, np)
    if not np.allclose(jax.jit(squares)(matrices, vectors), right, rtol=1e-3, atol=1e-3):
        raise GenanError(
            "This release of JAX computes wrong sums here (jax-ml/jax#39103), and started before "
            f"genan could switch that off; import genan before JAX, or set XLA_FLAGS={_FLAG}."
        )


def cache_folder() -> Path:
    """Where compiled programs are kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get("GENAN_CACHE_DIR") or cache / "genan") / "compiled"


def prepare() -> None:
    """Switch JAX's persistent cache on; a folder that cannot be written only costs the cache. And
    programs on the CPU run in the thread that asks for them: a tick of a virtual robot takes two
    thirds of the time that it takes when it is handed to another thread."""
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
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
