"""How the virtual PAMY2 is commanded: by the same rule from controls to pressures as the real
one."""

from genan.robot.pamy2_pressures import (
    HARD_LIMITS,
    bar_from_control,
    bar_from_counts,
    counts_from_bar,
    counts_from_control,
)

__all__ = [
    "HARD_LIMITS",
    "bar_from_control",
    "bar_from_counts",
    "counts_from_bar",
    "counts_from_control",
]
