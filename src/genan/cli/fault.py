"""``genan fault``."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from genan.cli.terminal import print_table, say
from genan.errors import DataError, refuse
from genan.words import plural


@dataclass(frozen=True)
class Fault:
    """Show the state in which a simulation ran away: what ran, and every number just before."""

    file: tyro.conf.Positional[Path]  # The file that a simulation left when it ran away.

    def run(self) -> None:
        from genan.simulation.simulator import read_divergence

        found, about = read_divergence(self.file)
        arrays = {name: array[0] for name, array in found.items()}  # a batch of one
        # The arrays that hold joint positions and velocities, in any task's scene.
        held = [n for n in arrays if n.startswith("scene.") and n.endswith((".q", ".qpos"))]
        missing = "The fault holds no joint positions, so it cannot be shown."
        refuse((not held, missing), error=DataError)
        name_q, name_qd = known = held[0], f"{held[0]}d".replace("qposd", "qvel")
        # What a scene holds next to the joints comes after them.
        nq = arrays["past.q"].shape[1] if "past.q" in arrays else len(arrays[name_q])
        q = np.degrees([*arrays.get("past.q", ()), arrays[name_q][:nq]])
        u = np.array([*arrays.get("past.u", ()), arrays["u"]])
        episodes = plural(about.pop("count", 1), "episode")
        facts = (f"{name}: {value}" for name, value in about.items())
        say("\n".join([f"{episodes} ran away; this is the state before the first did.", *facts]))
        columns = {"step": [str(k) for k in range(1 - len(q), 1)]}
        columns |= {f"q{k + 1} [deg]": _numbers(values) for k, values in enumerate(q.T)}
        columns |= {f"u{k + 1}": _numbers(values) for k, values in enumerate(u.T)}
        print_table(columns)
        shown = {
            "velocities [deg/s]": np.degrees(arrays[name_qd][:nq]),
            "action (before squashing)": arrays.get("action", np.empty(0)),
            **{n[6:]: a for n, a in arrays.items() if n[:6] == "scene." and n not in known},
            "ball position [m]": arrays[name_q][nq:],
            "ball velocity [m/s]": arrays[name_qd][nq:],
        }
        for name, array in shown.items():
            if array.size:
                say(f"{name}: {'  '.join(_numbers(np.ravel(array)))}")
        say(_verdict(arrays))


def _verdict(arrays: dict[str, np.ndarray]) -> str:
    """Which entry is not finite, or the largest one."""
    floating = {n: a for n, a in arrays.items() if np.issubdtype(a.dtype, np.floating)}
    numbers = [(n, k, float(x)) for n, a in floating.items() for k, x in np.ndenumerate(a)]
    strange = [one for one in numbers if not np.isfinite(one[2])]
    name, index, value = strange[0] if strange else max(numbers, key=lambda one: abs(one[2]))
    at = f"{name}{list(index)}" if index else name
    if strange:
        return f"Not finite: {at} is {value}."
    return f"All numbers are finite before the step; the largest is {at} is {value:.6g}."


def _numbers(values: np.ndarray) -> list[str]:
    return [f"{float(value):.4g}" for value in values]
