"""Verbs about policies: ``train``, ``play``, ``deploy`` and ``transfer``."""

import hashlib
import math
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
import tyro

import genan
from genan.cli.terminal import Bars, check_out, given, interruptible, print_table, say, time_left
from genan.errors import listing, refuse
from genan.jax_setup import compiling, use_cache
from genan.provenance import versions
from genan.rl.config import PPOSettings, TrainSettings, preset
from genan.robot import Robot
from genan.robot.package import VIRTUAL, bundled_actuators, bundled_policy, check_offers
from genan.tasks.registry import TaskSettings, task_entry, task_names, task_settings
from genan.words import number, plural

if TYPE_CHECKING:
    from genan.evaluation.transfer import TransferResult, TrialSetup
    from genan.rl.train import PolicyTraining
    from genan.tasks.task import Episodes

T = TypeVar("T", bound=TaskSettings)

_POOL = 16  # Robots that are settled at first: enough that episodes start differently.
_SCREENS = {"DISPLAY", "WAYLAND_DISPLAY"}


@dataclass(frozen=True, kw_only=True)
class Train(Generic[T]):
    """Train a policy for a task in the simulator.

    Stop it at any time (Ctrl-C, or even kill -9): the same command goes on from its last
    checkpoint, to the same result (not so with --trainer skrl, which keeps what it has learnt as a
    policy).
    """

    actuators: Path | None = None  # Actuators that drive the arm; left out: the bundled ones.
    out: Path  # Folder for the policy, the checkpoints and the TensorBoard events.
    robot: str | None = None  # Its name or robot.toml; left out: the one that the task is made for.
    preset: str
    """Where the settings come from: fast (see docs/policies.md), paper, or another of the task."""
    trainer: Literal["genan", "skrl"] = "genan"  # genan's compiled PPO, or skrl (genan[skrl]).
    overwrite: bool = False  # Replace what an earlier training left in --out.
    training: tyro.conf.OmitArgPrefixes[TrainSettings]
    task: T  # The task's settings.
    ppo: PPOSettings  # How it learns.

    def run(self) -> None:
        use_cache()
        import jax

        def show(now: "PolicyTraining") -> None:
            if now.steps == now.resumed:  # the first call
                env, ppo, members = now.env, now.ppo_settings, now.ensemble.members
                bars.console.print(
                    f"{now.task.name} on {now.robot.name}: {env.envs} episodes of {env.horizon} "
                    f"steps side by side on {jax.devices()[0].device_kind}, {members} actuator "
                    f"networks ({now.precision}); {now.updates} updates of "
                    f"{now.ppo.steps_per_update:,} steps each, {ppo.num_epochs} x "
                    f"{ppo.num_minibatches} minibatches."
                )
                if now.resumed:
                    done = f"going on after {now.resumed:,} steps"
                    bars.console.print(f"{done} from the checkpoint in {now.out}")
            speed = f"{now.steps_per_second:,.0f} steps/s, " if now.steps_per_second else ""
            speed += f"compiled in {now.compile_seconds:.0f} s{time_left(now.seconds_left)}"
            words = f"{now.steps / 1e6:.3g}/{now.total / 1e6:.3g} M steps"
            # The last update's: episodes first, then the reward's terms, then PPO's.
            rows: dict[str, list[str]] = {"episode": [], "reward": [], "learning": []}
            for key, value in now.curve[-1].items() if now.curve else ():
                group, _, name = key.partition("/")
                if group in rows and name not in ("kl", "steps"):
                    rows[group].append(f"{name} {value:.4g}")
            numbers = "\n".join("  ".join(row) for row in rows.values())
            bars("training", now.steps, now.total, words, speed, numbers)

        with interruptible() as stopping, Bars() as bars:
            result = genan.train(
                self.task, self.actuators, robot=self.robot, out=self.out, preset=self.preset,
                ppo=self.ppo, trainer=self.trainer, overwrite=self.overwrite, progress=show,
                stop=stopping, **vars(self.training),
            )  # fmt: skip
        found = result.judgement
        if found is None:
            done = f"stopped after {result.steps:,} steps, all of it safe in {self.out}"
            raise KeyboardInterrupt(f"{done}; the same command goes on from there.")
        low, high = found.interval
        more = ", ".join(f"{name.replace('_', ' ')} {v:.3g}" for name, v in found.metrics.items())
        bars.console.print(
            f"success in simulation: {found.succeeded} of {found.episodes} episodes "
            f"({100 * found.success:.1f} %, 95 % interval {100 * low:.1f} to {100 * high:.1f}); "
            f"mean return {found.returns:.4g}, {more}."
        )
        if result.faults:
            file, away = self.out / "fault.safetensors", f"{result.faults} episodes ran away"
            bars.console.print(f"{away} in the simulator; 'genan fault {file}' shows the first.")
        actuators = "" if self.actuators is None else f" --actuators {self.actuators}"
        play = f"genan play {self.task.name} --policy {self.out}{actuators}"
        bars.console.print(f"The policy is in {self.out}.\nNext: {play}")

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Train[Any]":
        """The command that ``arguments`` ask for; task and preset decide what the other flags start
        from."""
        name, *rest = arguments or [""]
        if name in ("-h", "--help"):
            name, rest = task_names()[0], [name]
        which = f"Which task? Expected one of {listing(task_names())} first, but got"
        refuse((name not in task_names(), f"{which} {repr(name) if name else 'nothing'}."))
        words = [part for word in rest for part in word.split("=", 1)]
        flags = dict(pairwise(words))  # By name; what is not a flag does no harm.
        presets = task_entry(name).presets
        named = flags.get("--preset", "")
        named = named if named in presets else next(iter(presets))
        chosen = preset(name, named, robot=flags.get("--robot"))
        training = TrainSettings(num_envs=chosen.num_envs, steps=chosen.steps)
        settings: Any = {"training": training, "task": chosen.task, "ppo": chosen.ppo}
        default: Any = Train(out=Path("runs") / name, preset=named, **settings)
        kind: Any = Train[type(chosen.task)]
        prog = f"genan train {name}"
        return tyro.cli(kind, prog=prog, description=cls.__doc__, args=rest, default=default)


@dataclass(frozen=True)
class Play:
    """Watch episodes in the learned simulator: a policy, or one that knows nothing; judge and film
    them."""

    task: tyro.conf.Positional[str]  # The task: reacher, ball-in-a-cup or table-tennis.
    policy: Path | None = None  # The --out of 'genan train'; left out: the bundled one.
    agent: Literal["policy", "zero", "random"] = "policy"
    """Who acts: the policy, zero (leaves the controls alone) or random (changes them at random)."""
    actuators: Path | None = None  # Actuators that drive the arm; left out: the bundled ones.
    robot: str | None = None  # Its name or robot.toml; left out, the one that the task is made for.
    episodes: int = 3  # How many.
    seed: int = 0  # Of everything that is drawn at random.
    video: Path | None = None  # File for the film, .mp4 or .gif; left out, TASK.mp4 here.
    window: bool = False  # Show the episodes in a window, which needs a screen; no film is made.
    overwrite: bool = False  # Replace the film of an earlier run.

    def run(self) -> None:
        entry = task_entry(self.task)
        blind = sys.platform.startswith("linux") and not _SCREENS & os.environ.keys()
        refuse(
            (self.episodes < 1, f"At least one episode must be played, not {self.episodes}."),
            (self.policy is not None and self.agent != "policy",
             f"Give --policy or --agent {self.agent}, not both."),
            (self.window and self.video is not None, "Give --video or --window, not both."),
            (self.window and blind, "There is no screen here to open a window on (DISPLAY is not "
             "set); film with --video."),
        )  # fmt: skip
        from genan.viewer import rendering

        path = wanted = self.video or Path(f"{self.task}.mp4")
        if not self.window:
            path = rendering.film_path(wanted)
            if path != wanted:
                encoder = "There is no MP4 encoder here ('pip install genan[video]' brings one)"
                say(f"{encoder}: {path} instead.")
            check_out(path, overwrite=self.overwrite, flag="--video", folder=False)
            missing = f"There is no folder {path.parent} to put the film into"
            refuse((not path.parent.is_dir(), f"{missing}; make it or give another --video."))
        use_cache()
        import jax

        from genan.tasks.task import load_environment, random_agent, record_episodes, zero_agent

        if self.agent == "policy":
            policy = genan.Policy.load(self.policy or bundled_policy(self.task))
            theirs = f"The policy was trained for the task {policy.contract.task!r}"
            refuse((policy.contract.task != self.task, f"{theirs}, not for {self.task!r}."))
            settings = entry.settings.of_record(policy.contract.constants)
        else:
            settings = task_settings(self.task, robot=self.robot)
        settings = replace(settings, pool=max(_POOL, self.episodes))
        robot = Robot.load(self.robot or settings.robot)
        ensemble = genan.load(self.actuators or bundled_actuators(settings.robot))
        environment = load_environment(
            settings, ensemble, envs=self.episodes, robot=robot, stagger=False
        )
        if self.agent == "policy":
            policy.check_environment(environment)
            if not policy.was_trained_on(ensemble):
                say("The policy was trained on other actuators than these.")
            agent = lambda observation, key: policy.mean(observation)
        else:
            ignorant = zero_agent if self.agent == "zero" else random_agent
            agent = ignorant(environment.action_size)
        with compiling(f"{self.task}, {plural(self.episodes, 'episode')}"):
            key = jax.random.key(self.seed)
            played = jax.device_get(record_episodes(environment, agent, key=key))
        self._print(played, environment.weights)
        stage = rendering.Stage(robot, entry)
        if self.window:
            rendering.play_in_window(environment, played, stage)
            return
        clips = []
        for k, result in enumerate(_results(played, "success", "no success")):
            caption = f"{self.task}, {self.agent}   episode {k + 1} of {self.episodes}"
            clip = rendering.episode_clip(environment, played, k, caption=caption, result=result)
            clips.append(clip)
        with closing(rendering.load_renderer(stage)) as renderer, Bars() as bars:
            if isinstance(renderer, rendering.FlatRenderer):
                say("OpenGL does not work here, so the pictures are flat drawings.")

            def pictures() -> Iterator[Any]:
                for k, picture in enumerate(rendering.film(clips, renderer)):
                    bars("filming", k + 1, sum(map(len, clips)))
                    yield picture

            rendering.write_film(pictures(), path)
        say(f"Wrote {path}")

    def _print(self, played: "Episodes", weights: Mapping[str, float]) -> None:
        terms = {name: w * played.terms[name].sum(0) for name, w in weights.items() if w}
        columns = {
            "episode": [str(k + 1) for k in range(self.episodes)],
            "return": [f"{total:.2f}" for total in played.reward.sum(0)],
            "success": _results(played, "yes", "no"),
            **{name: [f"{value:.2f}" for value in each] for name, each in terms.items()},
            **{name: [f"{value:.3g}" for value in each] for name, each in played.metrics.items()},
        }
        print_table(columns)
        say(f"{int(played.success.sum())} of {plural(self.episodes, 'episode')} succeeded.")


def _results(played: "Episodes", good: str, bad: str) -> list[str]:
    found = zip(played.sound[-1], played.success, strict=True)
    return ["ran away" if not sound else good if success else bad for sound, success in found]


@dataclass(frozen=True)
class PolicyOnRobot:
    """Flags that say which policy runs on which robot."""

    task: tyro.conf.Positional[str]
    """The task: reacher; for trials also ball-in-a-cup, table-tennis or another package's."""
    policy: Path | None = None  # Its folder: a trained one or an export; left out: the bundled one.
    robot: str | None = None
    """virtual-NAME, or an interface of a robot's package; left out, the policy's virtual robot."""
    hours: float | None = None  # Operating hours behind the virtual robot [h]; left out: 0.
    realtime: bool = False  # Pace the virtual robot to real time; others always are.
    host: str | None = None  # Address of a robot on the network.
    port: int | None = None  # Its port.

    @property
    def virtual(self) -> bool:
        return self.robot is None or self.robot.startswith(VIRTUAL)

    def robot_settings(self, **more: Any) -> dict[str, Any]:
        settings = given(hours=self.hours, host=self.host, port=self.port, **more)
        if self.virtual:
            use_cache()
            settings["paced"] = self.realtime
        return settings


@dataclass(frozen=True)
class Deploy(PolicyOnRobot):
    """Run a policy on a robot, once.

    The controls are ramped to the initial ones, the policy acts for as long as an episode of its
    task, and the controls are brought to rest. Ctrl-C does that at any time; so does whatever the
    safety limits see (docs/deployment.md). Exit code 1: it was stopped by one of them.
    """

    goal: tuple[float, ...] = ()  # Joint position to reach, a number a joint [degrees; slides: m].
    initial: tuple[float, ...] | None = None
    """Controls to start from, ramped to over 2 s; left out, the middle of those trained from."""
    record: Path | None = None  # File to record to (HDF5); it must not exist yet.
    max_seconds: float = math.inf  # Longest time until the controls are brought to rest [s].
    dry_run: bool = False  # Do everything but send: the robot is read, and stays as it is.
    robot_seed: int | None = None  # Which specimen of the virtual robot.

    def run(self) -> int:
        missing = f"There is no task {self.task!r} to deploy; there are: 'reacher'."
        refuse((self.task != "reacher", missing))  # It needs nothing but the robot.
        from genan.deployment.controller import Goal
        from genan.deployment.interface import DryRun
        from genan.deployment.loop import TO_REST, FlightRecorder
        from genan.deployment.safety import StopReason
        from genan.evaluation.transfer import load_policy, open_trials

        policy = load_policy(self.policy or bundled_policy(self.task), self.task)
        setup = open_trials(policy, robot=self.robot, **self.robot_settings(seed=self.robot_seed))
        robot, arm = setup.robot, setup.robot.robot
        joints = f"{arm.nq} numbers, one for each of the joints {listing(arm.joint_names)}"
        refuse((len(self.goal) != arm.nq, f"Give --goal, {joints}, not {len(self.goal)}."))
        units = [math.pi / 180.0 if joint.unit == "rad" else 1.0 for joint in arm.joints]
        controller = setup.policy_controller(Goal(np.multiply(self.goal, units), arm))
        middle = (setup.constant("u_lower") + setup.constant("u_upper")) / 2.0
        ramp = setup.ramp(middle if self.initial is None else np.array(self.initial, float))
        about: dict[str, Any] = {"robot": self.robot or VIRTUAL + policy.contract["robot"]}
        about |= {"robot_seed": self.robot_seed or 0, "task": self.task}
        about |= {"goal_degrees": list(self.goal), "policy": str(self.policy or "bundled")}
        about |= {"actuators_sha256": policy.contract["actuators_sha256"]}
        about |= {"dry_run": self.dry_run, "versions": versions()}
        robot = DryRun(robot) if self.dry_run else robot
        recorder = FlightRecorder(self.record, arm, provenance=about) if self.record else None
        with interruptible() as stopping, recorder or nullcontext():
            settings: Any = {"safety": setup.safety, "max_seconds": self.max_seconds}
            loop = genan.ControlLoop(robot, recorder=recorder, stopping=stopping, **settings)
            with loop:
                flight = loop.run(ramp, controller)
        print(f"{'Dry run: ' if flight.dry else ''}{flight.summary}")
        if flight.stop.sound and not flight.dry:
            error = np.abs(flight.q[flight.during(TO_REST).start] / units - self.goal)
            parts = ", ".join(f"{j} {e:.2f}" for j, e in zip(arm.joint_names, error, strict=True))
            mean = f"{error.mean():.2f} on average"
            print(f"distance to the goal at the end: {mean} ({parts}) [degrees or m]")
        if self.record is not None:
            kept = self.record if self.record.exists() else self.record.with_suffix(".ticks")
            print(f"Wrote {kept}")
        if stopping():
            raise KeyboardInterrupt("stopped: the controls were brought to rest.")
        return 0 if flight.stop.reason in (StopReason.FINISHED, StopReason.TIME) else 1


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
        drift = 1.0 if self.drift is None else self.drift
        realtime = self.realtime or self.serve or not self.virtual
        about = {"robot": name, "hours": self.hours or 0.0, "drift": drift}
        about |= {"realtime": realtime, "policy": str(self.policy or "bundled")}
        about |= {"policy_sha256": hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()}
        seeds = (self.robot_seeds or (0,)) if self.virtual else (None,)

        def opened(seed: int | None) -> "TrialSetup":
            if self.serve:
                processes.close()  # one robot after the other
                there = served(own, seed=seed or 0, hours=self.hours or 0.0)
                host, port = processes.enter_context(there)
                setup = open_trials(policy, robot=name, host=host, port=port)
                setup.robot_seed = seed
            else:
                setup = open_trials(policy, robot=name, **given(seed=seed), **settings)
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

        try:
            with interruptible() as stopping, ExitStack() as processes, Bars() as bars:
                transfer(
                    opened, robot_seeds=seeds, trials=self.trials, seed=self.seed, out=out,
                    about=about, stopping=stopping, finished=finished,
                )  # fmt: skip
        finally:  # whatever went wrong: what is done counts
            for found in so_far:
                _print_result(found)
                self._film(found, out)
                say(f"Wrote {out}")
        if stopping():
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
    print_table([*columns, *shown], rows)
    if len(found.completed) < len(found.trials):
        say(f"{found.words}.")
