"""Verbs that show what is there: ``report``, ``view`` and ``fault``."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from genan.cli.terminal import given, interruptible, print_table, say
from genan.errors import DataError, refuse
from genan.words import plural


@dataclass(frozen=True)
class Report:
    """Make one HTML page of everything that runs left: summary, charts, tables, films.

    Looks through the given files and folders for what genan's commands write (studies, evaluations,
    transfer trials, policies, actuators, inspections, films). The page opens offline; next to it
    every chart is kept as PNG, PDF and CSV.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]  # Files and folders, searched to the bottom.
    out: Path = Path("report.html")
    """The page; pictures and tables go to <out>_files. Both new, unless --overwrite."""
    title: str | None = None  # Title of the page.
    overwrite: bool = False  # Replace the report that an earlier run put there.

    def run(self) -> None:
        from genan.report.page import TITLE, check_out, write_report

        about = "Say what the report should be about: 'genan report runs --out report.html'."
        refuse((not self.runs, about))
        check_out(self.out, overwrite=self.overwrite)
        title = self.title or TITLE
        written = write_report(self.runs, self.out, overwrite=self.overwrite, title=title)
        print(f"Found {written.material.counted()}.")
        for broken in written.material.broken:
            print(f"Not read: {broken.path}: {broken.content}.")
        print(f"Wrote {written.path} ({written.size / 1e6:.1f} MB); open it in a browser.")
        if written.count:
            print(f"Wrote {written.files}: {written.count} pictures and tables.")


@dataclass(frozen=True)
class View:
    """Look at it in 3-D, in a web page on this computer: a recording with the simulated arm over
    it, or a policy live.

    'genan view RECORDING.h5' replays: scrub time, choose trajectory and member, see torque, control
    and disagreement. 'genan view --live' runs a policy on the virtual robot: drag the goal, push
    the arm, age the robot; in tasks without a goal, start trials. Ctrl-C ends it.
    """

    what: tyro.conf.Positional[str | None] = None
    """The recording: of 'genan collect', or the flights.h5 of 'genan transfer'. With --live, the
    task: reacher (also when left out), table-tennis or ball-in-a-cup."""
    live: bool = False  # Run a policy on the virtual robot instead of replaying a recording.
    actuators: Path | None = None  # Actuators of the simulated arm; left out: the bundled ones.
    member: int | None = None  # Which member drives it at first, from 0; left out, the mean of all.
    trajectory: int | None = None  # Which one to begin with, counted from 0; left out: 0.
    robot: str | None = None  # The recording's: its name or robot.toml; left out, the actuators'.
    policy: Path | None = None  # The policy to watch live; left out: the bundled one.
    seed: int | None = None  # Which specimen of the virtual robot; left out: 0.
    hours: float | None = None  # Operating hours behind the virtual robot [h]; left out: 0.
    port: int = 8080  # Port of the page, which only this computer can reach; 0 picks a free one.

    def run(self) -> None:
        from genan.viewer.live import view_live
        from genan.viewer.replay import view_recording

        replays = given(trajectory=self.trajectory, robot=self.robot)
        lives = given(policy=self.policy, seed=self.seed, hours=self.hours)
        is_for, other = "--live and means nothing for a recording", lives
        if self.live:
            is_for, other = "a recording and means nothing with --live", replays
        refuse(
            (not self.live and self.what is None,
             "Give a recording to replay, or --live to watch a policy on the virtual robot."),
            *((True, f"--{flag} is for {is_for}; leave it out.") for flag in other),
            ((self.seed or 0) < 0, f"A seed must not be negative, got {self.seed}."),
        )  # fmt: skip
        # Whoever started it in the background ends it by SIGTERM, which is as good as Ctrl-C.
        with interruptible(signal.SIGTERM) as stopping:
            look: Any = view_live if self.live else view_recording
            look(
                (self.what or "reacher") if self.live else Path(self.what or ""), port=self.port,
                actuators=self.actuators, member=self.member, stopping=stopping, opened=_say,
                **lives, **replays,
            )  # fmt: skip
        print("The viewer is closed.")


def _say(address: str) -> None:
    print(f"Open {address} in a browser on this computer; Ctrl-C here ends it.", flush=True)


@dataclass(frozen=True)
class Fault:
    """Show the state in which a simulation ran away: what was running, and where every number was
    just before."""

    file: tyro.conf.Positional[Path]  # The file that a simulation left when it ran away.

    def run(self) -> None:
        from genan.simulation.simulator import read_divergence

        found, about = read_divergence(self.file)
        arrays = {name: array[0] for name, array in found.items()}  # a batch of one
        # The arrays that hold joint positions and velocities, in any task's scene.
        ends = (".q", ".qpos")
        held = [n for end in ends for n in arrays if n.startswith("scene.") and n.endswith(end)]
        missing = "The fault holds no joint positions, so it cannot be shown."
        refuse((not held, missing), error=DataError)
        name_q, name_qd = held[0], f"{held[0]}d".replace("qposd", "qvel")
        # What a scene holds next to the joints comes after them.
        nq = arrays["past.q"].shape[1] if "past.q" in arrays else len(arrays[name_q])
        q = np.degrees([*arrays.get("past.q", ()), arrays[name_q][:nq]])
        u = np.array([*arrays.get("past.u", ()), arrays["u"]])
        episodes = plural(about.pop("count", 1), "episode")
        say(f"{episodes} ran away; this is the state before the first did.")
        for name, value in about.items():
            say(f"{name}: {value}")
        columns = {"step": [str(k) for k in range(1 - len(q), 1)]}
        columns |= {f"q{k + 1} [deg]": _numbers(values) for k, values in enumerate(q.T)}
        columns |= {f"u{k + 1}": _numbers(values) for k, values in enumerate(u.T)}
        print_table(columns)
        shown = {"velocities [deg/s]": np.degrees(arrays[name_qd][:nq])}
        shown["action (before squashing)"] = arrays.get("action", np.empty(0))
        for name, array in arrays.items():
            if name.startswith("scene.") and name not in (name_q, name_qd):
                shown[name.removeprefix("scene.")] = np.ravel(array)
        shown["ball position [m]"] = arrays[name_q][nq:]
        shown["ball velocity [m/s]"] = arrays[name_qd][nq:]
        for name, array in shown.items():
            if len(array):
                say(f"{name}: {'  '.join(_numbers(array))}")
        say(_verdict(arrays))


def _verdict(arrays: dict[str, np.ndarray]) -> str:
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
