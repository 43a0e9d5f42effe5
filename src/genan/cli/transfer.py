"""``genan transfer``."""

import hashlib
import shutil
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from genan.cli import terminal
from genan.cli.deploy import PolicyOnRobot
from genan.errors import refuse
from genan.robot import Robot
from genan.robot.package import VIRTUAL, check_offers
from genan.tasks.registry import task_entry
from genan.words import number

if TYPE_CHECKING:
    from genan.evaluation.transfer import TransferResult
    from genan.evaluation.trials import TrialSetup


@dataclass(frozen=True)
class Transfer(PolicyOnRobot):
    """Try a policy on a robot, many times, and count: the paper's transfer trials.

    Before each trial the initial controls are drawn and ramped to over 2 s; then the policy acts
    for as long as an episode of its task. Every trial is kept in --out (docs/transfer.md). Ctrl-C
    brings the robot to rest and keeps what is done.
    """

    trials: int = 100  # How many, on each robot.
    robot_seeds: tuple[int, ...] | None = None  # Specimens of the virtual robot; left out: 0.
    drift: float | None = None  # How fast the virtual robot ages; left out: 1.
    serve: bool = False  # Serve the virtual robot in a process of its own, in real time.
    seed: int = 0  # Of initial controls and goals. Trial k is the same whatever --trials is.
    videos: tuple[int, ...] = ()  # Trials to film, on each robot.
    out: Path | None = None  # For result and flights; left out, runs/transfer-TASK.
    overwrite: bool = False  # Replace what an earlier run put there.

    def run(self) -> None:
        task_entry(self.task)
        wrong = [number for number in self.videos if not 0 <= number < self.trials]
        fixed = self.robot or self.host or self.port or self.drift is not None
        refuse(
            (not self.virtual and self.robot_seeds is not None, "There are specimens of virtual "
             f"robots alone: leave out --robot-seeds for {self.robot!r}."),
            (self.serve and fixed, "--serve starts the virtual robot on a free port; leave out "
             "--robot, --host, --port and --drift."),
            (wrong, f"Trials are numbered from 0 to {self.trials - 1}; there is no trial "
             f"{wrong and wrong[0]} to film."),
        )  # fmt: skip
        out = self.out or Path("runs") / f"transfer-{self.task}"
        terminal.check_out(out, overwrite=self.overwrite)
        so_far: list[TransferResult] = []
        try:
            with terminal.interruptible() as stopping:
                self._try(out, so_far, stopping)
        finally:  # whatever went wrong: what is done counts
            for found in so_far:
                screen = terminal.console()
                _print_result(screen, found)
                self._film(screen, found, out)
                screen.print(f"Wrote {out}")
        if stopping():
            raise KeyboardInterrupt("stopped: what is done counts.")

    def _try(self, out: Path, so_far: "list[TransferResult]", stopping: Any) -> None:
        from genan.deployment.interface import served
        from genan.evaluation.transfer import transfer
        from genan.evaluation.trials import load_policy, open_trials
        from genan.rl.numpy_policy import WEIGHTS

        policy = load_policy(self.policy_folder, self.task)
        own = VIRTUAL + policy.contract["robot"]
        name = self.robot or own
        if self.serve:
            name = str(check_offers(own, "client", "to serve").client)
        settings = self.robot_settings(drift=self.drift)
        weights = (self.policy_folder / WEIGHTS).read_bytes()
        about = {
            "robot": name,
            "hours": self.hours or 0.0,
            "drift": 1.0 if self.drift is None else self.drift,
            "realtime": self.realtime or self.serve or not self.virtual,
            "policy": str(self.policy or "bundled"),
            "policy_sha256": hashlib.sha256(weights).hexdigest(),
        }
        seeds = (self.robot_seeds or (0,)) if self.virtual else (None,)

        def opened(seed: int | None) -> "TrialSetup":
            if self.serve:
                processes.close()  # one robot after the other
                there = served(own, seed=seed or 0, hours=self.hours or 0.0)
                host, port = processes.enter_context(there)
                setup = open_trials(policy, robot=name, host=host, port=port)
                setup.robot_seed = seed
            else:
                setup = open_trials(policy, robot=name, **terminal.given(seed=seed), **settings)
            if not so_far:
                _clear(out)  # only now: a refused command leaves an earlier run alone
            return setup

        def finished(found: "TransferResult") -> None:
            so_far[:] = [found]
            total, words = self.trials * len(seeds), f"{self.task}: {found.words}"
            bars(self.task, len(found.trials), total, words)

        with ExitStack() as processes, terminal.Bars() as bars:
            transfer(
                opened, robot_seeds=seeds, trials=self.trials, seed=self.seed, out=out,
                about=about, stopping=stopping, finished=finished,
            )  # fmt: skip

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
        low, high = (f"{100.0 * end:.1f}" for end in part.interval)
        count, counts = len(part.completed), part.outcomes()
        share = f"{100.0 * part.succeeded / count:.1f}" if count else "-"
        means = [number(part.mean(key)) for key, _ in measured]
        cells = [robot, f"{part.succeeded} of {count}", share, f"{low} to {high}", *means]
        rows.append([*cells, *(str(counts.get(outcome, 0)) for outcome in shown)])
    columns = ["robot", "success", "percent", "95 % interval", *(words for _, words in measured)]
    terminal.print_table(out, [*columns, *shown], rows)
    if len(found.completed) < len(found.trials):
        out.print(f"{found.words}.")
