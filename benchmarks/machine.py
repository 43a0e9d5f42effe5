"""What machine a benchmark ran on, in one line."""

import os
import platform

from genan.provenance import processor


def machine() -> str:
    """CPU, cores, system and Python."""
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}, Python "
        f"{platform.python_version()}"
    )
