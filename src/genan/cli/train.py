"""``genan train``."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import tyro

import genan
from genan.cli.terminal import Bars, KeyFlags, interruptible, time_left
from genan.errors import GenanError, listing, refuse
from genan.files import sentences
from genan.jax_setup import prepare
from genan.rl.config import PPOSettings, TrainSettings, preset
from genan.robot.package import bundled_actuators, find_actuators
from genan.tasks.registry import TaskSettings, task_entry, task_names

if TYPE_CHECKING:
    from genan.rl.train import PolicyTraining

T = TypeVar("T", bound=TaskSettings)
SENTENCES = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True, kw_only=True)
class Train(KeyFlags, Generic[T]):
    """Train a policy for a task in the simulator.

    Stop it at any time (Ctrl-C, or even kill -9): the same command goes on from its last
    checkpoint, to the same result (not so with --trainer skrl, which keeps what it has learnt as a
    policy).
    """

    actuators: Path | None = None  # Actuators that drive the arm; left out: the bundled ones.
    out: Path  # Folder for the policy, the checkpoints and the TensorBoard events.
    robot: str | None = None
    """Its name or robot.toml; left out: the one that the task is made for, if the actuators drive
    it, else their own."""
    preset: str
    """Where the settings come from: fast (see docs/policies.md), paper, or another of the task."""
    trainer: Literal["genan", "skrl"] = "genan"  # genan's compiled PPO, or skrl (genan[skrl]).
    overwrite: bool = False  # Replace what an earlier training left in --out.
    training: tyro.conf.OmitArgPrefixes[TrainSettings]
    task: T  # The task's settings.
    ppo: PPOSettings  # How it learns.

    def run(self) -> None:
        prepare()
        import jax

        from genan.rl.train import means

        def show(now: "PolicyTraining") -> None:
            if now.steps == now.resumed:  # the first call
                for sentence in sentences(SENTENCES, "begin", now, jax.devices()[0].device_kind):
                    bars.console.print(sentence)
            speed = f"{now.steps_per_second:,.0f} steps/s, " if now.steps_per_second else ""
            speed += f"compiled in {now.compile_seconds:.0f} s{time_left(now.seconds_left)}"
            words = f"{now.steps / 1e6:.3g}/{now.total / 1e6:.3g} M steps"
            # The last update's: episodes first, then the reward's terms, then PPO's.
            rows: dict[str, list[str]] = {"episode": [], "reward": [], "learning": []}
            for key, value in means(now.curve[-1]).items() if now.curve else ():
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
        actuators = "" if self.actuators is None else f" --actuators {self.actuators}"
        play = f"genan play {self.task.name} --policy {self.out}{actuators}"
        seeds = result.policy.record.get("seeds", [])
        facts = found, result, play, seeds, result.late_gain()
        for sentence in sentences(SENTENCES, "end", *facts):
            bars.console.print(sentence)

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Train[Any]":
        """The command that ``arguments`` ask for; task and preset decide the other defaults."""
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
        usual, about = task_entry(name).settings.robot, dict[str, Any]()
        if {"--actuators", "--robot"} & {*flags}:
            from genan.actuator.contract import read_contract  # not for --help

            folder = flags.get("--actuators") or bundled_actuators(usual)
            with suppress(GenanError):  # what cannot be read is refused once the flags are right
                contract, about["record"] = read_contract(find_actuators(folder))
                robot = contract.find_robot(about["record"], flags.get("--robot"), usual=usual)
                about["robot"] = robot
        chosen = preset(name, named, **about)
        training = TrainSettings(num_envs=chosen.num_envs, steps=chosen.steps)
        settings: Any = {"training": training, "task": chosen.task, "ppo": chosen.ppo}
        default: Any = Train(out=Path("runs") / name, preset=named, **settings)
        kind: Any = Train[type(chosen.task)]
        prog = f"genan train {name}"
        return tyro.cli(kind, prog=prog, description=cls.__doc__, args=rest, default=default)
