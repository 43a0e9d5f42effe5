"""Train a policy for a task in the simulator.

Stop it at any time (Ctrl-C, or even kill -9): the same command goes on from its last checkpoint, to
the same result (not so with --trainer skrl, which keeps what it has learnt as a policy).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import tyro

from genan.cli.terminal import time_left
from genan.errors import SettingError, listing
from genan.rl.config import PPOSettings, TrainSettings, preset
from genan.tasks.registry import TaskSettings, task_entry, task_names

if TYPE_CHECKING:
    from genan.rl.train import PolicyTraining, TrainingResult

T = TypeVar("T", bound=TaskSettings)


@dataclass(frozen=True, kw_only=True)
class Train(Generic[T]):
    """Flags of ``genan train``."""

    actuators: Path | None = None
    """Folder of the actuators that drive the arm; left out: those that come with genan."""
    out: Path
    """Folder for the policy, the checkpoints and the TensorBoard events."""
    robot: str | None = None
    """Bundled robot or path of a robot.toml; left out: the one that the task is made for."""
    preset: str
    """Where the settings come from: fast (learns sooner, see docs/policies.md), paper (its tables),
    or another preset of the task."""
    trainer: Literal["genan", "skrl"] = "genan"
    """Who trains: genan's compiled PPO, or skrl (pip install genan[skrl])."""
    overwrite: bool = False
    """Replace what an earlier training left in --out."""
    training: tyro.conf.OmitArgPrefixes[TrainSettings]
    task: T
    """The task's settings."""
    ppo: PPOSettings
    """How it learns."""

    def run(self) -> int:
        """Train, with progress; exit code."""
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.text import Text

        from genan.cli import INTERRUPTED
        from genan.cli.terminal import interruptible
        from genan.jax_setup import use_cache
        from genan.rl.train import train

        use_cache()
        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        bar = Progress(TextColumn("{task.description}"), BarColumn(), console=console)
        line, numbers = bar.add_task(""), Text("")

        def show(now: "PolicyTraining") -> None:
            if now.steps == now.resumed:  # the first call
                _introduce(console.print, now)
            bar.update(line, completed=now.steps, total=now.total, description=_status(now))
            numbers.plain = _numbers(now.curve[-1] if now.curve else {})

        display = Live(Group(bar, numbers), console=console, refresh_per_second=4)
        with interruptible() as interrupt, display:
            result = train(
                self.task, self.actuators, robot=self.robot, out=self.out, preset=self.preset,
                ppo=self.ppo, trainer=self.trainer, overwrite=self.overwrite, progress=show,
                stop=lambda: interrupt.requested, **vars(self.training),
            )  # fmt: skip
        if not console.is_terminal:
            console.print()  # rich leaves the last line open
        _conclude(console.print, result, self)
        return 0 if result.finished else INTERRUPTED


def parse(arguments: Sequence[str]) -> Train[Any]:
    """The command that ``arguments`` ask for; task and preset decide what the other flags start
    from.
    """
    name, *rest = arguments or [""]
    if name in ("-h", "--help"):
        name, rest = task_names()[0], [name]
    if name not in task_names():
        came = repr(name) if name else "nothing"
        raise SettingError(
            f"Which task? Expected one of {listing(task_names())} first, but got {came}."
        )
    presets = task_entry(name).presets
    given = _value(rest, "--preset") or ""
    named = given if given in presets else next(iter(presets))
    chosen = preset(name, named, robot=_value(rest, "--robot"))
    default = Train(
        out=Path("runs") / name,
        preset=named,
        training=TrainSettings(num_envs=chosen.num_envs, steps=chosen.steps),
        task=chosen.task,
        ppo=chosen.ppo,
    )
    kind: Any = Train[type(chosen.task)]
    command: Train[Any] = tyro.cli(
        kind, prog=f"genan train {name}", description=__doc__, args=rest, default=default
    )
    return command


def _value(arguments: Sequence[str], flag: str) -> str | None:
    words = [part for word in arguments for part in word.split("=", 1)]
    return words[words.index(flag) + 1] if flag in words[:-1] else None


def _introduce(say: Any, training: "PolicyTraining") -> None:
    import jax

    env, ppo = training.env, training.ppo_settings
    say(
        f"{training.task.name} on {training.robot.name}: {env.envs} episodes of {env.horizon} "
        f"steps side by side on {jax.devices()[0].device_kind}, {training.ensemble.members} "
        f"actuator networks ({training.precision}); {training.updates} updates of "
        f"{training.ppo.steps_per_update:,} steps each, {ppo.num_epochs} x {ppo.num_minibatches} "
        "minibatches."
    )
    if training.resumed:
        say(f"going on after {training.resumed:,} steps from the checkpoint in {training.out}")


def _conclude(say: Any, result: "TrainingResult", command: Train[Any]) -> None:
    judgement = result.judgement
    if judgement is None:
        say(
            f"stopped after {result.steps:,} steps, all of it safe in {command.out}; the same "
            "command goes on from there."
        )
        return
    low, high = judgement.interval
    more = ", ".join(f"{name.replace('_', ' ')} {v:.3g}" for name, v in judgement.metrics.items())
    say(
        f"success in simulation: {judgement.succeeded} of {judgement.episodes} episodes "
        f"({100 * judgement.success:.1f} %, 95 % interval {100 * low:.1f} to {100 * high:.1f}); "
        f"mean return {judgement.returns:.4g}, {more}."
    )
    if result.faults:
        say(
            f"{result.faults} episodes ran away in the simulator; 'genan fault "
            f"{command.out / 'fault.safetensors'}' shows the first."
        )
    say(f"The policy is in {command.out}.")
    actuators = "" if command.actuators is None else f" --actuators {command.actuators}"
    say(f"Next: genan play {command.task.name} --policy {command.out}{actuators}")


def _status(now: "PolicyTraining") -> str:
    done = f"{now.steps / 1e6:.3g}/{now.total / 1e6:.3g} M steps"
    speed = f", {now.steps_per_second:,.0f} steps/s" if now.steps_per_second else ""
    return f"{done}{speed}, compiled in {now.compile_seconds:.0f} s{time_left(now.seconds_left)}"


def _numbers(latest: dict[str, float]) -> str:
    """The last update's numbers: episodes first, then the reward's terms, then PPO's."""
    rows: dict[str, list[str]] = {"episode": [], "reward": [], "learning": []}
    for key, value in latest.items():
        group, _, name = key.partition("/")
        if group in rows and name not in ("kl", "steps"):
            rows[group].append(f"{name} {value:.4g}")
    return "\n".join("  ".join(row) for row in rows.values())
