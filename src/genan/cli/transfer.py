"""``genan transfer``."""

import hashlib
import shutil
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from rich.console import Console

from genan.cli import terminal
from genan.errors import GenanError
from genan.jax_setup import use_cache
from genan.robot import Robot
from genan.robot.package import VIRTUAL, bundled_policy, check_offers
from genan.tasks.registry import task_entry
from genan.words import number

if TYPE_CHECKING:
    from genan.evaluation.transfer import TransferResult
    from genan.evaluation.trials import TrialSetup


@dataclass(frozen=True)
class Transfer:
    """Try a policy on a robot, many times, and count: the paper's transfer trials.

    Before each trial the initial controls are drawn and ramped to over 2 s; then the policy acts
    for as long as an episode of its task. Every trial is kept in --out (docs/transfer.md). Ctrl-C
    brings the robot to rest and keeps what is done.
    """

    task: tyro.conf.Positional[str]
    """Name of the task: reacher, ball-in-a-cup, table-tennis, or one of another package."""
    policy: Path | None = None
    """Folder of the policy: the --out of 'genan train', or an export; left out, the one that comes
    with genan."""
    trials: int = 100  # How many, on each robot.
    robot: str | None = None
    """Robot to try it on: virtual-NAME, or an interface that a robot's package offers; left out,
    the virtual one of the robot that the policy was trained for."""
    robot_seeds: tuple[int, ...] | None = None
    """Which specimens of the virtual robot, one after the other; left out: 0."""
    hours: float | None = None  # Operating hours behind the virtual robot [h]; left out: 0.
    drift: float | None = None  # How fast the virtual robot ages; left out: 1.
    serve: bool = False
    """Serve the virtual robot by a process of its own, in real time, and reach it in the robot's
    own protocol."""
    host: str | None = None  # Address of a robot on the network.
    port: int | None = None  # Its port.
    seed: int = 0  # Of initial controls and goals. Trial k is the same whatever --trials is.
    realtime: bool = False  # Pace the virtual robot to real time; others always are.
    videos: tuple[int, ...] = ()  # Trials to film, on each robot.
    out: Path | None = None
    """Folder for the result and all flights; left out, runs/transfer-TASK."""
    overwrite: bool = False  # Replace what an earlier run put there.

    def run(self) -> int:
        """Try, count, film; exit code."""
        self._check()
        out = self.out or Path("runs") / f"transfer-{self.task}"
        terminal.check_out(out, overwrite=self.overwrite)
        with terminal.interruptible() as stopping:
            found, error = self._try(out, stopping)
        if found is not None and found.trials:
            screen = terminal.console()
            _print_result(screen, found)
            self._film(screen, found, out)
            screen.print(f"Wrote {out}")
        if error is not None:
            raise error
        return terminal.INTERRUPTED if stopping() else 0

    @property
    def _virtual(self) -> bool:
        return self.robot is None or self.robot.startswith(VIRTUAL)

    def _check(self) -> None:
        task_entry(self.task)
        wrong = [number for number in self.videos if not 0 <= number < self.trials]
        fixed = self.robot or self.host or self.port or self.drift is not None
        terminal.refuse(
            (not self._virtual and self.robot_seeds is not None, "There are specimens of virtual "
             f"robots alone: leave out --robot-seeds for {self.robot!r}."),
            (self.serve and fixed, "--serve starts the virtual robot on a free port; leave out "
             "--robot, --host, --port and --drift."),
            (wrong, f"Trials are numbered from 0 to {self.trials - 1}; there is no trial "
             f"{wrong and wrong[0]} to film."),
        )  # fmt: skip

    def _try(self, out: Path, stopping: Any) -> "tuple[TransferResult | None, GenanError | None]":
        """The trials there are, and why there are no more, if something went wrong."""
        from genan.deployment.interface import served
        from genan.evaluation.transfer import transfer
        from genan.evaluation.trials import load_policy, open_trials
        from genan.rl.numpy_policy import WEIGHTS

        folder = self.policy or bundled_policy(self.task)
        policy = load_policy(folder, self.task)
        own = VIRTUAL + policy.contract["robot"]
        name = self.robot or own
        if self.serve:
            name = str(check_offers(own, "client", "to serve").client)
        flags = terminal.given(hours=self.hours, drift=self.drift, host=self.host, port=self.port)
        if self._virtual:
            use_cache()
            flags["paced"] = self.realtime
        about = {
            "robot": name,
            "hours": self.hours or 0.0,
            "drift": 1.0 if self.drift is None else self.drift,
            "realtime": self.realtime or self.serve or not self._virtual,
            "policy": "bundled" if self.policy is None else str(self.policy),
            "policy_sha256": hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
        }
        seeds = (self.robot_seeds or (0,)) if self._virtual else (None,)
        so_far: list[TransferResult] = []

        def opened(seed: int | None) -> "TrialSetup":
            if self.serve:
                processes.close()  # one robot after the other
                there = served(own, seed=seed or 0, hours=self.hours or 0.0)
                host, port = processes.enter_context(there)
                setup = open_trials(policy, robot=name, host=host, port=port)
                setup.robot_seed = seed
            else:
                setup = open_trials(policy, robot=name, **terminal.given(seed=seed), **flags)
            if not so_far:
                _clear(out)  # only now: a refused command leaves an earlier run alone
            return setup

        def finished(found: "TransferResult") -> None:
            so_far[:] = [found]
            total, words = self.trials * len(seeds), f"{self.task}: {found.words}"
            bars(self.task, len(found.trials), total, words)

        with ExitStack() as processes, terminal.ProgressBars() as bars:
            try:
                found = transfer(
                    opened, robot_seeds=seeds, trials=self.trials, seed=self.seed, out=out,
                    about=about, stopping=stopping, finished=finished,
                )  # fmt: skip
            except GenanError as error:
                return (so_far[0] if so_far else None), error
        return found, None

    def _film(self, screen: Console, found: "TransferResult", out: Path) -> None:
        wanted = [trial for trial in found.trials if trial.number in self.videos]
        if not wanted:
            return
        from genan.evaluation.transfer import robot_folder
        from genan.viewer import rendering
        from genan.viewer.stage import Stage

        robot, entry = Robot.load(found.about["contract"]["robot"]), task_entry(self.task)
        with closing(rendering.load_renderer(Stage(robot, entry))) as renderer:
            for trial in wanted:
                folder = robot_folder(out, trial.robot_seed)
                path = rendering.film_path(folder / f"trial-{trial.number:04d}.mp4")
                name = self.robot if trial.robot_seed is None else f"robot {trial.robot_seed}"
                caption = f"{self.task}   {name}   trial {trial.number}"
                clip = rendering.trial_clip(out, trial, caption=caption, after=entry.film_after)
                rendering.write_film(rendering.film([clip], renderer), path)
                screen.print(f"Wrote {path}")


def _clear(out: Path) -> None:
    """Take away what an earlier run put into ``out``, and nothing else."""
    from genan.evaluation.transfer import RESULT

    (out / RESULT).unlink(missing_ok=True)
    for folder in [*out.glob("robot-*"), out / "robot"]:
        seed = folder.name.removeprefix("robot").removeprefix("-")
        if folder.is_dir() and (not seed or seed.isdigit()):
            shutil.rmtree(folder)


def _print_result(out: Console, found: "TransferResult") -> None:
    """One line for each robot, and one for all of them."""
    entry, name = task_entry(found.task), found.about["robot"]
    # The first is success, which has its own column; where there are but two, so has the other.
    shown = list(found.outcomes())[2 if len(entry.outcomes) == 2 else 1 :]
    measured = [entry.number] if entry.number else []
    parts = {str(name if seed is None else seed): found.on(seed) for seed in found.robot_seeds}
    rows = []
    for robot, part in (parts | {"all": found} if len(parts) > 1 else parts).items():
        low, high = part.interval
        count, counts = len(part.completed), part.outcomes()
        share = f"{100.0 * part.succeeded / count:.1f}" if count else "-"
        cells = [robot, f"{part.succeeded} of {count}", share]
        cells += [f"{100.0 * low:.1f} to {100.0 * high:.1f}"]
        cells += [number(part.mean(key)) for key, _ in measured]
        rows.append([*cells, *(str(counts.get(outcome, 0)) for outcome in shown)])
    columns = ["robot", "success", "percent", "95 % interval", *(words for _, words in measured)]
    terminal.print_table(out, [*columns, *shown], rows, left=("robot",))
    if len(found.completed) < len(found.trials):
        out.print(f"{found.words}.")
