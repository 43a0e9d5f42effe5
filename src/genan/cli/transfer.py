"""Try a policy on a robot, many times, and count: the paper's transfer trials.

Before each trial the initial controls are drawn and ramped to over 2 s; then the policy acts for as
long as an episode of its task. Every trial is kept in --out (docs/transfer.md). Ctrl-C brings the
robot to rest and keeps what is done.
"""

import math
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from genan.errors import SettingError
from genan.robot.package import VIRTUAL, check_offers
from genan.tasks.registry import task_entry

if TYPE_CHECKING:
    from rich.console import Console

    from genan.evaluation.transfer import TransferResult as Result
    from genan.evaluation.trials import TrialSetup
    from genan.rl.numpy_policy import NumpyPolicy


@dataclass(frozen=True)
class Transfer:
    """Flags of ``genan transfer``."""

    task: tyro.conf.Positional[str]
    """Name of the task: reacher, ball-in-a-cup, table-tennis, or one of another package."""
    policy: Path | None = None
    """Folder of the policy: the --out of 'genan train', or an export; left out, the one that comes
    with genan."""
    trials: int = 100
    """How many, on each robot."""
    robot: str | None = None
    """Robot to try it on: virtual-NAME, or an interface that a robot's package offers; left out,
    the virtual one of the robot that the policy was trained for."""
    robot_seeds: tuple[int, ...] | None = None
    """Which specimens of the virtual robot, one after the other; left out: 0."""
    hours: float | None = None
    """Operating hours behind the virtual robot [h]; left out: 0."""
    drift: float | None = None
    """How fast the virtual robot ages; left out: 1."""
    serve: bool = False
    """Serve the virtual robot by a process of its own, in real time, and reach it in the robot's
    own protocol."""
    host: str | None = None
    """Address of a robot on the network."""
    port: int | None = None
    """Its port."""
    seed: int = 0
    """Of initial controls and goals. Trial k is the same whatever --trials is."""
    realtime: bool = False
    """Pace the virtual robot to real time; others always are."""
    videos: tuple[int, ...] = ()
    """Trials to film, on each robot."""
    out: Path | None = None
    """Folder for the result and all flights; left out, runs/transfer-TASK."""
    overwrite: bool = False
    """Replace what an earlier run put there."""

    def run(self) -> int:
        """Try, count, film; exit code."""
        from rich.console import Console

        from genan.cli import INTERRUPTED
        from genan.cli.terminal import check_folder, interruptible
        from genan.evaluation.trials import open_trials

        console = Console(highlight=False, markup=False, soft_wrap=True)
        out = self.out or Path("runs") / f"transfer-{self.task}"
        self._check()
        check_folder(out, overwrite=self.overwrite)
        policy, settings = self._policy(), self._settings()
        own = VIRTUAL + policy.contract["robot"]
        if self._virtual:
            from genan.jax_setup import use_cache

            use_cache()

        stack = ExitStack()

        def open_on(robot_seed: int | None) -> "TrialSetup":
            chosen = {} if robot_seed is None else {"seed": robot_seed}
            if self.serve:
                from genan.deployment.interface import served

                stack.close()  # one robot after the other
                host, port = stack.enter_context(
                    served(own, seed=robot_seed or 0, hours=self.hours or 0.0)
                )
                client = check_offers(own, "client", "to serve").client
                there = open_trials(policy, robot=client, host=host, port=port)
                there.robot_seed = robot_seed
                return there
            return open_trials(policy, robot=self.robot or own, **chosen, **settings)

        with stack, interruptible() as interrupt:
            found, error = self._fly(open_on, self._name(own), out, lambda: interrupt.requested)
        if found is not None and found.trials:
            _print_result(console, found, robot=found.about["robot"])
            self._film(console, found, out)
            console.print(f"Wrote {out}")
        if error is not None:
            raise error
        return INTERRUPTED if interrupt.requested else 0

    def _check(self) -> None:
        task_entry(self.task)
        if not self._virtual and self.robot_seeds is not None:
            raise SettingError(
                "There are specimens of virtual robots alone: leave out --robot-seeds for "
                f"{self.robot!r}."
            )
        if self.serve and (self.robot or self.host or self.port or self.drift is not None):
            raise SettingError(
                "--serve starts the virtual robot on a free port; leave out --robot, --host, "
                "--port and --drift."
            )
        wrong = [number for number in self.videos if not 0 <= number < self.trials]
        if wrong:
            raise SettingError(
                f"Trials are numbered from 0 to {self.trials - 1}; there is no trial {wrong[0]} "
                "to film."
            )

    def _name(self, own: str) -> str:
        """What the robot is called in the result."""
        if self.serve:
            return str(check_offers(own, "client", "to serve").client)
        return self.robot or own

    @property
    def _virtual(self) -> bool:
        return self.robot is None or self.robot.startswith(VIRTUAL)

    def _policy(self) -> "NumpyPolicy":
        from genan.evaluation.trials import load_policy

        return load_policy(self._folder(), self.task)

    def _folder(self) -> Path:
        from genan.robot.package import bundled_policy

        return self.policy if self.policy is not None else bundled_policy(self.task)

    def _settings(self) -> dict[str, Any]:
        asked = {"hours": self.hours, "drift": self.drift, "host": self.host, "port": self.port}
        settings: dict[str, Any] = {
            name: value for name, value in asked.items() if value is not None
        }
        if self._virtual:
            settings["paced"] = self.realtime
        return settings

    def _fly(
        self, open_on: Any, name: str, out: Path, stopping: Any
    ) -> "tuple[Result | None, Exception | None]":
        """The trials there are, and why there are no more, if something went wrong."""
        from rich.console import Console

        from genan.cli.terminal import progress_bar
        from genan.errors import GenanError
        from genan.evaluation.transfer import transfer

        seeds = (self.robot_seeds or (0,)) if self._virtual else (None,)
        so_far: list[Result] = []
        with progress_bar(Console(stderr=True)) as bar:
            line = bar.add_task(self.task, total=self.trials * len(seeds))

            def finished(found: "Result") -> None:
                so_far[:] = [found]
                bar.update(
                    line, completed=len(found.trials), description=f"{self.task}: {found.words}"
                )

            def opened(robot_seed: int | None) -> "TrialSetup":
                there = open_on(robot_seed)
                if not so_far:
                    _clear(out)  # only now: a refused command leaves an earlier run alone
                return there

            try:
                found = transfer(
                    opened,
                    robot_seeds=seeds,
                    trials=self.trials,
                    seed=self.seed,
                    out=out,
                    about=self._about(name),
                    stopping=stopping,
                    finished=finished,
                )
            except GenanError as error:
                return (so_far[0] if so_far else None), error
        return found, None

    def _about(self, robot: str) -> dict[str, Any]:
        import hashlib

        from genan.rl.numpy_policy import WEIGHTS

        return {
            "robot": robot,
            "hours": self.hours or 0.0,
            "drift": 1.0 if self.drift is None else self.drift,
            "realtime": self.realtime or self.serve or not self._virtual,
            "policy": "bundled" if self.policy is None else str(self.policy),
            "policy_sha256": hashlib.sha256((self._folder() / WEIGHTS).read_bytes()).hexdigest(),
        }

    def _film(self, console: "Console", found: "Result", out: Path) -> None:
        wanted = [trial for trial in found.trials if trial.number in self.videos]
        if not wanted:
            return
        from genan.evaluation.transfer import robot_folder
        from genan.robot import Robot
        from genan.viewer import rendering
        from genan.viewer.rendering import film, film_path, trial_clip, write_film
        from genan.viewer.stage import Stage

        robot, entry = Robot.load(found.about["contract"]["robot"]), task_entry(self.task)
        renderer = rendering.load_renderer(Stage(robot, entry))
        try:
            for trial in wanted:
                path = film_path(
                    robot_folder(out, trial.robot_seed) / f"trial-{trial.number:04d}.mp4"
                )
                name = self.robot if trial.robot_seed is None else f"robot {trial.robot_seed}"
                caption = f"{self.task}   {name}   trial {trial.number}"
                clip = trial_clip(out, trial, caption=caption, after=entry.film_after)
                write_film(film([clip], renderer), path)
                console.print(f"Wrote {path}")
        finally:
            renderer.close()


def _clear(out: Path) -> None:
    """Take away what an earlier run put into ``out``, and nothing else."""
    from genan.evaluation.transfer import RESULT

    (out / RESULT).unlink(missing_ok=True)
    for folder in [*out.glob("robot-*"), out / "robot"]:
        number = folder.name.removeprefix("robot").removeprefix("-")
        if folder.is_dir() and (not number or number.isdigit()):
            shutil.rmtree(folder)


def _print_result(console: "Console", found: "Result", *, robot: str) -> None:
    """One line for each robot, and one for all of them."""
    from rich.table import Table

    from genan.cli.terminal import print_table

    entry = task_entry(found.task)
    # The first is success, which has its own column; where there are but two, so has the other.
    shown = list(found.outcomes())[2 if len(entry.outcomes) == 2 else 1 :]
    table = Table(
        "robot",
        "success",
        "percent",
        "95 % interval",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for name in [*([entry.number[1]] if entry.number else []), *shown]:
        table.add_column(name)
    for column in table.columns[1:]:
        column.justify = "right"
    rows = [(str(robot if seed is None else seed), found.on(seed)) for seed in found.robot_seeds]
    for name, part in [*rows, ("all", found)] if len(rows) > 1 else rows:
        low, high = part.interval
        counts = part.outcomes()
        table.add_row(
            name,
            f"{part.succeeded} of {len(part.completed)}",
            f"{100.0 * part.succeeded / len(part.completed):.1f}" if part.completed else "-",
            f"{100.0 * low:.1f} to {100.0 * high:.1f}",
            *([_number(part.mean(entry.number[0]))] if entry.number else []),
            *(str(counts.get(name, 0)) for name in shown),
        )
    print_table(console, table)
    if len(found.completed) < len(found.trials):
        console.print(f"{found.words}.")


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
