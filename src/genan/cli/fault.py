"""Show the state in which a simulation ran away: what was running, and where every number stood
just before."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from genan.errors import DataError
from genan.words import plural

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fault:
    """Flags of ``genan fault``."""

    file: tyro.conf.Positional[Path]
    """The file that a simulation left when it ran away."""

    def run(self) -> int:
        """Print it; exit code."""
        import numpy as np
        from rich.console import Console
        from rich.table import Table

        from genan.simulation.divergence import read_divergence

        found, about = read_divergence(self.file)
        arrays = {name: array[0] for name, array in found.items()}  # a batch of one
        name_q, name_qd = _joints(arrays)
        u = arrays["u"]
        past_q, past_u = (
            arrays.get("past.q", np.empty((0, 0))),
            arrays.get("past.u", np.empty((0, 0))),
        )
        nq = past_q.shape[1] or len(arrays[name_q])  # what a scene holds next to them comes after
        q, qd = arrays[name_q][:nq], arrays[name_qd][:nq]
        console = Console(highlight=False, markup=False, soft_wrap=True)
        episodes = plural(about.pop("count", 1), "episode")
        console.print(f"{episodes} ran away; this is the state before the first did.")
        for name, value in about.items():
            console.print(f"{name}: {value}")
        head = [*(f"q{k + 1} [deg]" for k in range(nq)), *(f"u{k + 1}" for k in range(len(u)))]
        table = Table("step", *head, box=None, pad_edge=False)
        for k, (position, control) in enumerate(zip([*past_q, q], [*past_u, u], strict=True)):
            numbers = _numbers(np.degrees(position)).split() + _numbers(control).split()
            table.add_row(str(k - len(past_q)), *numbers)
        for column in table.columns:
            column.justify = "right"
        console.print("", table, "", sep="\n")
        console.print(f"velocities [deg/s]: {_numbers(np.degrees(qd))}")
        if "action" in arrays:
            console.print(f"action (before squashing): {_numbers(arrays['action'])}")
        for name, array in arrays.items():
            if name.startswith("scene.") and name not in (name_q, name_qd):
                console.print(f"{name.removeprefix('scene.')}: {_numbers(np.ravel(array))}")
        for name, what in ((name_q, "position [m]"), (name_qd, "velocity [m/s]")):
            if len(arrays[name]) > nq:
                console.print(f"ball {what}: {_numbers(arrays[name][nq:])}")
        console.print("", _verdict(arrays), sep="\n")
        return 0


def _joints(arrays: "Arrays") -> tuple[str, str]:
    """Names of the arrays that hold joint positions and velocities, in any task's scene."""
    for q, qd in (("q", "qd"), ("qpos", "qvel")):
        for name in arrays:
            if name.startswith("scene.") and name.endswith(f".{q}"):
                return name, name.removesuffix(q) + qd
    raise DataError("The fault holds no joint positions, so it cannot be shown.")


def _verdict(arrays: "Arrays") -> str:
    """Which entry is not finite, or the largest one."""
    import numpy as np

    largest, where = -1.0, ""
    for name, array in arrays.items():
        for index, value in np.ndenumerate(np.asarray(array, np.float64)):
            at = f"{name}{list(index)}" if index else name
            if not np.isfinite(value):
                return f"Not finite: {at} is {value}."
            if np.issubdtype(array.dtype, np.floating) and abs(value) > largest:
                largest, where = abs(float(value)), f"{at} is {value:.6g}"
    return f"All numbers are finite before the step; the largest is {where}."


def _numbers(values: "np.ndarray") -> str:
    return "  ".join(f"{float(value):.4g}" for value in values)
