"""What a file says about where it came from. No clocks: the same work gives the same bytes."""

import platform
from importlib.metadata import PackageNotFoundError, version

from genan.version import __version__

_PACKAGES = ("jax", "mujoco", "numpy", "scipy", "h5py")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version(), "genan": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
