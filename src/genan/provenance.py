"""Where a result comes from: versions and machine. No clocks: same work, same bytes."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from genan.version import __version__


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version(), "genan": __version__}
    for package in ("jax", "mujoco", "numpy", "scipy", "h5py"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def processor() -> str:
    """The processor's own name."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
