"""The machine that a result was made on, in words."""

import os
import platform
import sys
from pathlib import Path


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
