"""Fit an ensemble of actuator networks to a recording: from joint positions and controls alone to
joint torques.

With few data it also chooses how free the model may be, by cross-validation over whole recordings:
a linear or parametric torque model alone, networks on what that leaves, or networks alone. Data
that cannot say anything about the actuators are refused. Stop it at any time (Ctrl-C, or even kill
-9): the same command continues from its last checkpoint, to the same result.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from genan.actuator.settings import FitSettings
from genan.cli.terminal import time_left

if TYPE_CHECKING:
    from genan.actuator import Ensemble


@dataclass(frozen=True)
class Fit:
    """Flags of ``genan fit``."""

    data: tuple[Path, ...]
    """The recording to learn from; several files are put together."""
    robot: str
    """Robot it was made on: a bundled robot's name or the path of a robot.toml."""
    out: Path
    """Folder for the actuators, the checkpoints and the TensorBoard events."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Continue from the actuators in this folder, with their history, networks and scaling: for a
    robot that has changed. Their errors on old and new data are shown before and after."""
    old_data: Path | None = None
    """Recording that the actuators of --from were fitted to; left out, the file that they name."""
    choose: Literal["auto", "always", "never"] = "auto"
    """Whether to choose the model by cross-validation. auto: for up to 150,000 samples, unless a
    setting below that the choice would make is given."""
    anyway: bool = False
    """Continue although the recording looks as if nothing could be learnt from it."""
    overwrite: bool = False
    """Replace what an earlier fit left in --out."""
    settings: tyro.conf.OmitArgPrefixes[FitSettings] = field(default_factory=FitSettings)

    def run(self) -> int:
        """Fit, with progress; exit code."""
        from rich.console import Console

        from genan.jax_setup import use_cache

        use_cache()
        from genan.actuator.fit import fit
        from genan.actuator.fitting import FitInterruptedError
        from genan.cli import INTERRUPTED
        from genan.cli.terminal import interruptible

        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        try:
            with interruptible() as interrupt, _Screen(console) as screen:
                ensemble = fit(
                    self.data,
                    self.robot,
                    out=self.out,
                    choose=self.choose,
                    from_=self.from_,
                    anyway=self.anyway,
                    overwrite=self.overwrite,
                    observer=screen.observer(lambda: interrupt.requested),
                    **self.settings.settings(),
                )
        except FitInterruptedError as interruption:
            console.print(str(interruption))
            return INTERRUPTED
        self._conclude(console, ensemble)
        return 0

    def _conclude(self, console: Any, ensemble: "Ensemble") -> None:
        if "choice" in ensemble.record:
            _print_choice(console, ensemble)
        for sentence in ensemble.contract.servos:
            console.print(sentence)
        best = ", ".join(map(str, ensemble.record["training"]["best_epoch"]))
        linear = not ensemble.contract.architecture.hidden
        what = _count(ensemble.members, "model" if linear else "network")
        console.print(f"{what}{'' if linear else f' (best of epoch {best})'} in {self.out}.")
        if self.from_ is not None:
            from genan.cli.refit_table import print_before_and_after

            print_before_and_after(console, self.from_, ensemble, self.robot, old=self.old_data)
        console.print(f"Next: genan evaluate --actuators {self.out} --data TEST.h5")


class _Screen:
    """Bars and losses while a fit runs."""

    def __init__(self, console: Any) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.text import Text

        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}")
        self._console, self._bars, self._losses = console, Progress(*columns), Text("")
        self._live = Live(Group(self._bars, self._losses), console=console, refresh_per_second=4)
        self._task: Any = None
        self._candidate = False

    def __enter__(self) -> "_Screen":
        return self

    def __exit__(self, *error: object) -> None:
        if self._live.is_started:
            self._live.stop()
            if not self._console.is_terminal:
                self._console.print()  # rich leaves the last line open

    def observer(self, stopping: Any) -> Any:
        """What ``fit`` calls."""
        from genan.actuator.fitting import FitObserver

        return FitObserver(self._console.print, self.begin, self.candidate, self.show, stopping)

    def begin(self, fitting: Any) -> None:
        """Say what is learnt from what."""
        origin, training = fitting.origin, fitting.training
        weights = sum(layer.weight.size + layer.bias.size for layer in fitting.state.layers)
        self._console.print(
            f"{origin['trajectories']} trajectories: {origin['train_samples']} samples to learn "
            f"from, {origin['validation_samples']} held out; "
            f"{_count(fitting.contract.members, 'network')} of {fitting.contract.inputs} inputs, "
            f"{weights} weights in all; batches of {training.batch_size}, {fitting.precision}."
        )
        if origin["trajectories_too_short"]:
            short = origin["trajectories_too_short"]
            self._console.print(f"{short} trajectories are too short for the history and left out.")
        if fitting.resumed:
            self._console.print(
                f"continuing after {fitting.resumed:.3g} epochs, from the checkpoint in "
                f"{fitting.out}"
            )
        self._bar(f"epoch {fitting.resumed:.3g}/{fitting.settings.epochs}")

    def candidate(self, name: str, number: int, total: int) -> None:
        """A bar for the next candidate."""
        self._candidate = True
        self._bar(f"{number} of {total}: {name}")

    def _bar(self, description: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=1.0, speed="")
        self._task = self._bars.add_task(description, total=1.0, speed="")
        self._live.start()

    def show(self, now: Any) -> None:
        """Bring bar and losses up to date."""
        speed = f"{now.samples_per_second:.3g} samples/s{time_left(now.seconds_left)}"
        self._bars.update(
            self._task,
            completed=(now.epoch + now.share) / now.epochs,
            speed=speed if now.samples_per_second else "",
        )
        if self._candidate:
            return
        self._bars.update(self._task, description=f"epoch {now.epoch}/{now.epochs}")
        rows = {"training": now.train, "validation": now.validation, "best epoch": now.best_epoch}
        lines = (
            f"{name:<10}  {'  '.join(f'{x:<6.4g}' for x in row)}" for name, row in rows.items()
        )
        self._losses.plain = "\n".join(lines) if now.train else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _print_choice(console: Any, ensemble: "Ensemble") -> None:
    """What was tried, with errors on what each had left out, and the choice in words."""
    import numpy as np
    from rich import box
    from rich.table import Table

    choice, contract = ensemble.record["choice"], ensemble.contract
    units = set(contract.joint_units)
    unit, factor = (
        ("deg", 180.0 / np.pi)
        if units == {"rad"}
        else (" or ".join(sorted(units, reverse=True)), 1.0)
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    seconds = f"{choice['rollout_steps'] * contract.dt:.3g} s"
    for column in (f"one step [{unit}]", f"{seconds} [{unit}]", "score"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, errors in {**choice["tried"], **choice["baselines"]}.items():
        cells = [f"{factor * np.mean(errors[part]):.3g}" for part in ("one_step", "rollout")]
        score = f"{errors['score']:.3f}" if "score" in errors else ""
        table.add_row(name, *cells, score, style="bold" if name == choice["chosen"] else None)
    console.print(table)
    console.print("Root mean square errors on recordings left out, mean over the joints.")
    for sentence in choice["words"]:
        console.print(sentence)
