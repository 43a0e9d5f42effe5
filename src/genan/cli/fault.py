"""``genan fault``."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from genan.cli.terminal import console, print_table
from genan.errors import DataError
from genan.words import plural

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fault:
    """Show the state in which a simulation ran away: what was running, and where every number was
    just before."""

    file: tyro.conf.Positional[Path]  # The file that a simulation left when it ran away.

    def run(self) -> int:
        """Print it; exit code."""
        from genan.simulation.divergence import read_divergence

        found, about = read_divergence(self.file)
        arrays = {name: array[0] for name, array in found.items()}  # a batch of one
        name_q, name_qd = _joints(arrays)
        past_q, past_u = (arrays.get(name, np.empty((0, 0))) for name in ("past.q", "past.u"))
        nq = past_q.shape[1] or len(arrays[name_q])  # what a scene holds next to them comes after
        out = console()
        episodes = plural(about.pop("count", 1), "episode")
        out.print(f"{episodes} ran away; this is the state before the first did.")
        for name, value in about.items():
            out.print(f"{name}: {value}")
        positions, controls = [*past_q, arrays[name_q][:nq]], [*past_u, arrays["u"]]
        head = [
            *(f"q{k + 1} [deg]" for k in range(nq)),
            *(f"u{k + 1}" for k in range(len(arrays["u"]))),
        ]
        rows = [
            [str(k - len(past_q)), *_numbers(np.degrees(q)), *_numbers(u)]
            for k, (q, u) in enumerate(zip(positions, controls, strict=True))
        ]
        print_table(out, ["step", *head], rows)
        shown = {"velocities [deg/s]": np.degrees(arrays[name_qd][:nq])}
        if "action" in arrays:
            shown["action (before squashing)"] = arrays["action"]
        for name, array in arrays.items():
            if name.startswith("scene.") and name not in (name_q, name_qd):
                shown[name.removeprefix("scene.")] = np.ravel(array)
        for name, what in ((name_q, "position [m]"), (name_qd, "velocity [m/s]")):
            if len(arrays[name]) > nq:
                shown[f"ball {what}"] = arrays[name][nq:]
        for name, array in shown.items():
            out.print(f"{name}: {'  '.join(_numbers(array))}")
        out.print(_verdict(arrays))
        return 0


def _joints(arrays: Arrays) -> tuple[str, str]:
    """Names of the arrays that hold joint positions and velocities, in any task's scene."""
    for q, qd in (("q", "qd"), ("qpos", "qvel")):
        for name in arrays:
            if name.startswith("scene.") and name.endswith(f".{q}"):
                return name, name.removesuffix(q) + qd
    raise DataError("The fault holds no joint positions, so it cannot be shown.")


def _verdict(arrays: Arrays) -> str:
    """Which entry is not finite, or the largest one."""
    largest, where = -1.0, ""
    for name, array in arrays.items():
        for index, value in np.ndenumerate(np.asarray(array, np.float64)):
            at = f"{name}{list(index)}" if index else name
            if not np.isfinite(value):
                return f"Not finite: {at} is {value}."
            if np.issubdtype(array.dtype, np.floating) and abs(value) > largest:
                largest, where = abs(float(value)), f"{at} is {value:.6g}"
    return f"All numbers are finite before the step; the largest is {where}."


def _numbers(values: np.ndarray) -> list[str]:
    return [f"{float(value):.4g}" for value in values]
