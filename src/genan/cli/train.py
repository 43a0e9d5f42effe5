"""Train a policy for a task in the simulator: reacher, ball-in-a-cup or table-tennis.

Stop it at any time (Ctrl-C, or even kill -9): the same command goes on from its last checkpoint, to
the same result (not so with --trainer skrl, which keeps what it has learnt as a policy).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import tyro

from genan.cli.terminal import time_left
from genan.errors import SettingError, listing
from genan.rl.config import PPOSettings, TrainSettings, envs_preset, preset
from genan.tasks.registry import TaskSettings, task_entry, task_names, task_settings

if TYPE_CHECKING:
    from genan.rl.train import Progress, Training

T = TypeVar("T", bound=TaskSettings)

PROG = "genan train"


@dataclass(frozen=True)
class Train(Generic[T]):
    """Flags of ``genan train``."""

    actuators: Path | None = None
    """Folder of the actuators that drive the arm; left out: those that come with genan."""
    out: Path = Path("runs/policy")
    """Folder for the policy, the checkpoints and the TensorBoard events."""
    robot: str | None = None
    """Bundled robot or path of a robot.toml; left out: the one that the task is made for."""
    preset: Literal["fast", "paper"] = "fast"
    """Where the settings come from: fast (learns sooner, see docs/policies.md) or paper (its
    tables)."""
    trainer: Literal["genan", "skrl"] = "genan"
    """Who trains: genan's compiled PPO, or skrl (pip install genan[skrl])."""
    overwrite: bool = False
    """Replace what an earlier training left in --out."""
    training: tyro.conf.OmitArgPrefixes[TrainSettings] = field(default_factory=TrainSettings)
    task: T = field(default_factory=lambda: task_settings("reacher"))
    """The task's constants."""
    ppo: PPOSettings = field(default_factory=PPOSettings)
    """How it learns."""

    def run(self) -> int:
        """Train, with progress; exit code."""
        from rich.console import Console

        from genan.cli import INTERRUPTED
        from genan.jax_setup import use_cache

        use_cache()
        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        training = self._training()
        _introduce(console, training)
        policy = _train(console, training)
        if policy is None:
            console.print(
                f"stopped after {training.steps:,} steps, all of it safe in {self.out}; the same command goes on from "
                "there."
            )
            return INTERRUPTED
        _conclude(console, training, self)
        return 0

    def _training(self) -> "Training":
        from genan.rl.train import Training
        from genan.robot.package import bundled_actuators

        if self.trainer == "skrl":
            from genan.rl.skrl import SkrlTraining as Training
        return Training(
            self.task,
            bundled_actuators(self.task.robot) if self.actuators is None else self.actuators,
            self.training,
            ppo=self.ppo,
            robot=self.robot,
            out=self.out,
            overwrite=self.overwrite,
        )


def parse(arguments: Sequence[str]) -> Train[Any]:
    """The command that ``arguments`` ask for; task and preset decide what the other flags start
    from."""
    name, *rest = arguments or [""]
    if name in ("-h", "--help"):
        name, rest = "reacher", [name]
    if name not in task_names():
        came = repr(name) if name else "nothing"
        raise SettingError(
            f"Which task? Expected one of {listing(task_names())} first, but got {came}."
        )
    chosen = _value(rest, "--preset") or "fast"
    chosen = chosen if chosen in task_entry(name).presets else next(iter(task_entry(name).presets))
    settings = task_settings(name, robot=_value(rest, "--robot"), preset=chosen)
    default = Train(
        out=Path("runs") / name,
        training=TrainSettings(envs=envs_preset(name, chosen)),
        task=settings,
        ppo=preset(name, chosen),
    )
    kind: Any = Train[type(settings)]
    command: Train[Any] = tyro.cli(
        kind, prog=f"{PROG} {name}", description=__doc__, args=rest, default=default
    )
    return command


def _value(arguments: Sequence[str], flag: str) -> str | None:
    for k, argument in enumerate(arguments):
        if argument == flag and k + 1 < len(arguments):
            return arguments[k + 1]
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return None


def _introduce(console: Any, training: "Training") -> None:
    import jax

    env, ppo = training.env, training.ppo_settings
    console.print(
        f"{training.task.name} on {training.robot.name}: {env.envs} episodes of {env.horizon} steps side by side on "
        f"{jax.devices()[0].device_kind}, {env.simulator.drive.ensemble.members} actuator networks "
        f"({training.precision}); {training.updates} updates of {training.ppo.steps_per_update:,} steps each, "
        f"{ppo.epochs} x {ppo.mini_batches} minibatches."
    )
    if training.resumed:
        console.print(
            f"going on after {training.resumed:,} steps from the checkpoint in {training.out}"
        )


def _train(console: Any, training: "Training") -> Any:
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    from genan.cli.terminal import interruptible

    total = training.updates * training.ppo.steps_per_update
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[speed]}"),
        console=console,
    )
    numbers = Text("")
    task = bar.add_task(
        _millions(training.steps, total), total=float(total), completed=training.steps, speed=""
    )

    def show(now: "Progress") -> None:
        bar.update(
            task, completed=now.steps, description=_millions(now.steps, total), speed=_speed(now)
        )
        numbers.plain = _numbers(now)

    with (
        interruptible() as interrupt,
        Live(Group(bar, numbers), console=console, refresh_per_second=4),
    ):
        found = training.run(progress=show, stopping=lambda: interrupt.requested)
    if not console.is_terminal:
        console.print()  # rich leaves the last line open
    return found


def _conclude(console: Any, training: "Training", command: Train[Any]) -> None:
    verdict = training.verdict
    assert verdict is not None
    low, high = verdict.interval
    more = ", ".join(
        f"{name.replace('_', ' ')} {value:.3g}" for name, value in verdict.metrics.items()
    )
    console.print(
        f"success in simulation: {verdict.succeeded} of {verdict.episodes} episodes ({100 * verdict.success:.1f} %, "
        f"95 % interval {100 * low:.1f} to {100 * high:.1f}); mean return {verdict.returns:.4g}, {more}."
    )
    if training.faults:
        console.print(
            f"{training.faults} episodes ran away in the simulator; 'genan fault {command.out / 'fault.safetensors'}' "
            "shows the first."
        )
    console.print(f"The policy is in {command.out}.")
    bundled = "" if command.actuators is None else f" --actuators {command.actuators}"
    console.print(f"Next: genan play {training.task.name} --policy {command.out}{bundled}")


def _millions(steps: int, total: int) -> str:
    return f"{steps / 1e6:.3g}/{total / 1e6:.3g} M steps"


def _speed(now: "Progress") -> str:
    compiled = f"compiled in {now.compile_seconds:.0f} s"
    if not now.steps_per_second:
        return compiled
    left = time_left(now.seconds_left)
    return f"{now.steps_per_second:,.0f} steps/s, {compiled}{left}"


def _numbers(now: "Progress") -> str:
    """The last update's numbers: episodes first, then the reward's terms."""
    latest = now.latest
    episode = [
        f"{key.removeprefix('episode/')} {value:.4g}"
        for key, value in latest.items()
        if key.startswith("episode/")
    ]
    reward = [
        f"{key.removeprefix('reward/')} {value:.4g}"
        for key, value in latest.items()
        if key.startswith("reward/")
    ]
    learning = f"deviation {latest['learning/deviation']:.3g}  rate {latest['learning/rate']:.2g}"
    return "\n".join(["  ".join(episode), "  ".join(reward), learning])
