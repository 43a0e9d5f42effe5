"""``genan transfer``."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from genan.cli.terminal import Bars, KeyFlags, check_out, given, interruptible, print_table, say
from genan.deployment.realtime import realtime
from genan.errors import refuse
from genan.jax_setup import prepare
from genan.robot import Robot
from genan.robot.package import VIRTUAL, bundled_policy, check_offers
from genan.tasks.registry import task_entry
from genan.words import number

if TYPE_CHECKING:
    from genan.deployment.interface import RobotInterface
    from genan.evaluation.transfer import TransferResult, TrialSetup


@dataclass(frozen=True)
class PolicyOnRobot(KeyFlags):
    """Flags that say which policy runs on which robot."""

    task: tyro.conf.Positional[str]
    """The task: reacher; for trials also ball-in-a-cup, table-tennis or another package's."""
    policy: Path | None = None  # Its folder: a trained one or an export; left out: the bundled one.
    robot: str | None = None
    """virtual-NAME, or an interface of a robot's package; left out, the policy's virtual robot."""
    hours: float | None = None  # Operating hours behind the virtual robot [h]; left out: 0.
    realtime: bool = False
    """Run as a real-time process, as far as the computer allows; a virtual robot is paced."""
    host: str | None = None  # Address of a robot on the network.
    port: int | None = None  # Its port.
    wiring: str | None = None  # Its wiring, by name, where it is not the newest.
    skip_direction_check: bool = False
    """Fly a robot for which 'genan check' has not seen that every control moves its joint the right
    way. An inverted loop drives the arm into its stops."""

    @property
    def virtual(self) -> bool:
        return self.robot is None or self.robot.startswith(VIRTUAL)

    def robot_settings(self, **more: Any) -> dict[str, Any]:
        there = given(host=self.host, port=self.port, wiring=self.wiring)
        settings = {**given(hours=self.hours, **more), **there}
        if self.virtual:
            prepare()
            settings["paced"] = self.realtime
        return settings

    def check_directions(self, robot: "RobotInterface") -> None:
        """Refuse a real robot whose directions were never checked."""
        from genan.deployment.interface import DryRun, VirtualInterface
        from genan.evaluation.directions import is_checked

        harmless = isinstance(robot, VirtualInterface | DryRun) or self.skip_direction_check
        flags = given(robot=self.robot, host=self.host, port=self.port, wiring=self.wiring)
        todo = " ".join(f"--{name} {value}" for name, value in flags.items())
        refuse(
            (not harmless and not is_checked(robot), "Nobody has looked whether the controls of "
             f"this robot move its joints the right way; run 'genan check {todo}' first."),
        )  # fmt: skip

    @contextmanager
    def in_real_time(self) -> Iterator[None]:
        """With --realtime: what the computer gave to this process, as a table."""
        if not self.realtime:
            yield
            return
        with realtime() as grants:
            rows = [[one.what, "yes" if one.got else "NO", one.words] for one in grants]
            print_table(["asked for", "got", ""], rows)
            yield


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
        check_out(out, overwrite=self.overwrite)
        from genan.deployment.interface import served
        from genan.evaluation.transfer import RESULT, load_policy, open_trials, transfer
        from genan.rl.numpy_policy import WEIGHTS

        folder, so_far = self.policy or bundled_policy(self.task), list[Any]()
        policy = load_policy(folder, self.task)
        own = VIRTUAL + policy.contract["robot"]
        name = self.robot or own
        if self.serve:
            name = str(check_offers(own, "client", "to serve").client)
        settings = self.robot_settings(drift=self.drift)
        hours, drift = self.hours or 0.0, 1.0 if self.drift is None else self.drift
        realtime = self.realtime or self.serve or not self.virtual
        checksum = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
        about = {"robot": name, "hours": hours, "drift": drift, "realtime": realtime}
        about |= {"policy": str(self.policy or "bundled"), "policy_sha256": checksum}
        seeds = (self.robot_seeds or (0,)) if self.virtual else (None,)

        def opened(seed: int | None) -> "TrialSetup":
            if self.serve:
                processes.close()  # one robot after the other
                host, port = processes.enter_context(served(own, seed=seed or 0, hours=hours))
                setup = open_trials(policy, robot=name, host=host, port=port)
                setup.robot_seed = seed
            else:
                setup = open_trials(policy, robot=name, **given(seed=seed), **settings)
                self.check_directions(setup.robot)
            if not so_far:  # only now: a refused command leaves an earlier run alone
                (out / RESULT).unlink(missing_ok=True)
                for old in out.glob("robot*"):  # and whatever else is there
                    if old.is_dir() and re.fullmatch(r"robot(-\d+)?", old.name):
                        shutil.rmtree(old)
            return setup

        def finished(found: "TransferResult") -> None:
            so_far[:] = [found]
            total, words = self.trials * len(seeds), f"{self.task}: {found.words}"
            bars(self.task, len(found.trials), total, words)

        processes, bars = ExitStack(), Bars()
        try:
            with interruptible() as stopping, self.in_real_time(), processes, bars:
                transfer(
                    opened, robot_seeds=seeds, trials=self.trials, seed=self.seed, out=out,
                    about=about, stopping=stopping, finished=finished,
                )  # fmt: skip
        finally:  # whatever went wrong: what is done counts
            for found in so_far:
                _print_result(found)
                self._film(found, out)
                say(f"Wrote {out}")
        done = sum(len(found.trials) for found in so_far)
        if stopping() or done < self.trials * len(seeds):
            raise KeyboardInterrupt("stopped: what is done counts.")

    def _film(self, found: "TransferResult", out: Path) -> None:
        wanted = [trial for trial in found.trials if trial.number in self.videos]
        if not wanted:
            return
        from genan.evaluation.transfer import robot_folder
        from genan.viewer import rendering

        robot, entry = Robot.load(found.about["contract"]["robot"]), task_entry(self.task)
        with closing(rendering.load_renderer(rendering.Stage(robot, entry))) as renderer:
            for trial in wanted:
                folder = robot_folder(out, trial.robot_seed)
                path = rendering.film_path(folder / f"trial-{trial.number:04d}.mp4")
                name = self.robot if trial.robot_seed is None else f"robot {trial.robot_seed}"
                caption = f"{self.task}   {name}   trial {trial.number}"
                clip = rendering.trial_clip(out, trial, caption=caption, after=entry.film_after)
                rendering.write_film(rendering.film([clip], renderer), path)
                say(f"Wrote {path}")


def _print_result(found: "TransferResult") -> None:
    """One line for each robot, and one for all of them."""
    entry, name = task_entry(found.task), found.about["robot"]
    # The first is success, which has its own column; where there are but two, so has the other.
    shown = list(found.outcomes())[2 if len(entry.outcomes) == 2 else 1 :]
    there = {key for trial in found.trials for key in trial.numbers}
    measured = {key: words for key, words in entry.numbers.items() if key in there}
    parts = {str(name if seed is None else seed): found.on(seed) for seed in found.robot_seeds}
    rows = []
    for robot, part in (parts | {"all": found} if len(parts) > 1 else parts).items():
        low, high = (f"{100.0 * end:.1f}" for end in part.interval)
        count, counts = len(part.completed), part.outcomes()
        share = f"{100.0 * part.succeeded / count:.1f}" if count else "-"
        means = [number(part.mean(key)) for key in measured]
        cells = [robot, f"{part.succeeded} of {count}", share, f"{low} to {high}", *means]
        rows.append([*cells, *(str(counts.get(outcome, 0)) for outcome in shown)])
    columns = ["robot", "success", "percent", "95 % interval", *measured.values()]
    print_table([*columns, *shown], rows)
    if len(found.completed) < len(found.trials):
        say(f"{found.words}.")
