"""Where a result comes from: versions and machine. No clocks: same work, same bytes."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from genan.version import __version__


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version(), "genan": __version__}
    for package in ("jax", "mujoco", "numpy", "scipy", "h5py"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, str]:
    """Processor, cores and, where JAX runs already, its device; nothing here starts JAX."""
    found = {"processor": processor(), "cores": str(os.cpu_count())}
    jax = sys.modules.get("jax")
    if jax is not None:
        found["device"] = str(jax.devices()[0].device_kind)
    return found


def processor() -> str:
    """The processor's own name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
