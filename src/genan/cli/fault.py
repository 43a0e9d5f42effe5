"""Show the state in which a simulation ran away: what was running, and where every number stood
just before."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

#: Names of the recorded arrays that get a table of their own.
_PAST_Q, _PAST_U, _U, _ACTION = "past.q", "past.u", "u", "action"


@dataclass(frozen=True)
class Fault:
    """Flags of ``genan fault``."""

    file: tyro.conf.Positional[Path]
    """The file that a simulation left when it ran away."""

    def run(self) -> int:
        """Print it; exit code."""
        from rich.console import Console

        from genan.simulation.divergence import read_divergence

        found, about = read_divergence(self.file)
        arrays = {name: array[0] for name, array in found.items()}  # a batch of one
        console = Console(highlight=False, markup=False, soft_wrap=True)
        _print_about(console, about)
        _print_past(console, arrays)
        _print_scene(console, arrays)
        console.print()
        console.print(_verdict(arrays))
        return 0


def _print_about(console: "Console", about: dict[str, Any]) -> None:
    count = about.get("count", 1)
    console.print(
        f"{count} episode{'' if count == 1 else 's'} ran away; this is the state before the first "
        "did."
    )
    for name, value in about.items():
        if name != "count":
            console.print(f"{name}: {value}")


def _print_past(console: "Console", arrays: "dict[str, np.ndarray]") -> None:
    """The recent past, oldest first, then the present; joint positions in degrees."""
    import numpy as np
    from rich.table import Table

    q, qd = _joints(arrays)
    nq, nu = len(q), len(arrays[_U])
    head = [*(f"q{k + 1} [deg]" for k in range(nq)), *(f"u{k + 1}" for k in range(nu))]
    table = Table("step", *head, box=None, pad_edge=False)
    past_q, past_u = arrays.get(_PAST_Q, np.empty((0, nq))), arrays.get(_PAST_U, np.empty((0, nu)))
    for k, (position, control) in enumerate(zip(past_q, past_u, strict=True)):
        table.add_row(str(k - len(past_q)), *_numbers(np.degrees(position)), *_numbers(control))
    table.add_row("0", *_numbers(np.degrees(q)), *_numbers(arrays[_U]))
    for column in table.columns:
        column.justify = "right"
    console.print()
    console.print(table)
    console.print()
    console.print(f"velocities [deg/s]: {'  '.join(_numbers(np.degrees(qd)))}")
    if _ACTION in arrays:
        console.print(f"action (before squashing): {'  '.join(_numbers(arrays[_ACTION]))}")


def _print_scene(console: "Console", arrays: "dict[str, np.ndarray]") -> None:
    """What else the scene holds: ball, racket, clock."""
    import numpy as np

    nq = len(_joints(arrays)[0])
    for name, array in arrays.items():
        if not name.startswith("scene.") or name in _joint_names(arrays):
            continue
        console.print(f"{name.removeprefix('scene.')}: {'  '.join(_numbers(np.ravel(array)))}")
    for name, what in (("scene.qpos", "ball position [m]"), ("scene.qvel", "ball velocity [m/s]")):
        if name in arrays:
            console.print(f"{what}: {'  '.join(_numbers(arrays[name][nq:]))}")


def _joint_names(arrays: "dict[str, np.ndarray]") -> tuple[str, str]:
    """The arrays that hold joint positions and velocities, in any of the scenes."""
    for pair in (
        ("scene.q", "scene.qd"),
        ("scene.arm.q", "scene.arm.qd"),
        ("scene.qpos", "scene.qvel"),
    ):
        if pair[0] in arrays:
            return pair
    from genan.errors import DataError

    raise DataError("The fault holds no joint positions, so it cannot be shown.")


def _joints(arrays: "dict[str, np.ndarray]") -> "tuple[np.ndarray, np.ndarray]":
    """Joint positions [rad] and velocities [rad/s]; what a scene holds beside them comes after
    them."""
    q, qd = (arrays[name] for name in _joint_names(arrays))
    nq = arrays[_PAST_Q].shape[-1] if _PAST_Q in arrays else len(q)
    return q[:nq], qd[:nq]


def _verdict(arrays: "dict[str, np.ndarray]") -> str:
    """Which entry is not finite, or the largest one."""
    import numpy as np

    largest, where = -1.0, ""
    for name, array in arrays.items():
        flat = np.ravel(np.asarray(array, np.float64))
        for k, value in enumerate(flat):
            at = (
                f"{name}{list(map(int, np.unravel_index(k, np.shape(array))))}"
                if np.ndim(array)
                else name
            )
            if not np.isfinite(value):
                return f"Not finite: {at} is {value}."
            if np.issubdtype(array.dtype, np.floating) and abs(value) > largest:
                largest, where = abs(float(value)), f"{at} is {value:.6g}"
    return f"All numbers are finite before the step; the largest is {where}."


def _numbers(values: "np.ndarray") -> list[str]:
    return [f"{float(value):.4g}" for value in values]
