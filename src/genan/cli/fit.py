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
from genan.cli.terminal import interruptible, table, time_left
from genan.words import reading_unit

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

        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        names = ("out", "choose", "from_", "anyway", "overwrite")
        asked = {name: getattr(self, name) for name in names} | self.settings.settings()
        try:
            with interruptible() as interrupt, _FitScreen(console) as screen:
                observer = screen.observer(lambda: interrupt.requested)
                ensemble = fit(self.data, self.robot, observer=observer, **asked)
        except FitInterruptedError as interruption:
            console.print(str(interruption))
            return INTERRUPTED
        if "choice" in ensemble.record:
            _print_choice(console, ensemble)
        for sentence in ensemble.contract.servos:
            console.print(sentence)
        best = ", ".join(map(str, ensemble.record["training"]["best_epoch"]))
        made = (
            f"networks (best of epoch {best})"
            if ensemble.contract.architecture.hidden
            else "models"
        )
        console.print(f"{ensemble.members} {made} in {self.out}.")
        if self.from_ is not None:
            _print_before_and_after(self, console, ensemble)
        console.print(f"Next: genan evaluate --actuators {self.out} --data TEST.h5")
        return 0


class _FitScreen:
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
        self._choosing = False

    def __enter__(self) -> "_FitScreen":
        return self

    def __exit__(self, *error: object) -> None:
        if self._live.is_started:
            self._live.stop()
            if not self._console.is_terminal:
                self._console.print()  # rich leaves the last line open

    def observer(self, stopping: Any) -> Any:
        from genan.actuator.fitting import FitObserver

        return FitObserver(self._console.print, self._begin, self._candidate, self._show, stopping)

    def _begin(self, fitting: Any) -> None:
        origin, contract = fitting.origin, fitting.contract
        weights = sum(layer.weight.size + layer.bias.size for layer in fitting.state.layers)
        self._console.print(
            f"{origin['trajectories']} trajectories: {origin['train_samples']} samples to learn "
            f"from, {origin['validation_samples']} held out; {contract.members} networks of "
            f"{contract.inputs} inputs, {weights} weights in all; batches of "
            f"{fitting.training.batch_size}, {fitting.precision}."
        )
        short, done = origin["trajectories_too_short"], f"{fitting.resumed:.3g}"
        if short:
            self._console.print(f"{short} trajectories are too short for the history and left out.")
        if fitting.resumed:
            self._console.print(
                f"continuing after {done} epochs from a checkpoint in {fitting.out}"
            )
        self._bar(f"epoch {done}/{fitting.settings.epochs}")

    def _candidate(self, name: str, number: int, total: int) -> None:
        self._choosing = True
        self._bar(f"{number} of {total}: {name}")

    def _bar(self, description: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=1.0, speed="")
        self._task = self._bars.add_task(description, total=1.0, speed="")
        self._live.start()

    def _show(self, now: Any) -> None:
        speed = f"{now.samples_per_second:.3g} samples/s{time_left(now.seconds_left)}"
        done = (now.epoch + now.share) / now.epochs
        self._bars.update(self._task, completed=done, speed=speed if now.samples_per_second else "")
        if self._choosing:
            return
        self._bars.update(self._task, description=f"epoch {now.epoch}/{now.epochs}")
        rows = {"training": now.train, "validation": now.validation, "best epoch": now.best_epoch}
        lines = (
            f"{name:<10}  {'  '.join(f'{x:<6.4g}' for x in row)}" for name, row in rows.items()
        )
        self._losses.plain = "\n".join(lines) if now.train else ""


def _print_choice(console: Any, ensemble: "Ensemble") -> None:
    """What was tried, with errors on what each had left out, and the choice in words."""
    import numpy as np

    choice, contract = ensemble.record["choice"], ensemble.contract
    units = sorted(set(contract.joint_units), reverse=True)
    unit, factor = reading_unit(units[0]) if len(units) == 1 else (" or ".join(units), 1.0)
    seconds = f"{choice['rollout_steps'] * contract.dt:.3g} s"
    rows = []
    for name, errors in {**choice["tried"], **choice["baselines"]}.items():
        cells = [f"{factor * np.mean(errors[part]):.3g}" for part in ("one_step", "rollout")]
        rows.append((name, *cells, f"{errors['score']:.3f}" if "score" in errors else ""))
    columns = ("model", f"one step [{unit}]", f"{seconds} [{unit}]", "score")
    console.print(table(columns, rows, left=("model",)))
    console.print("Root mean square errors on recordings left out, mean over the joints.")
    for sentence in choice["words"]:
        console.print(sentence)


def _print_before_and_after(asked: Fit, console: Any, after: "Ensemble") -> None:
    """Errors of the actuators that the fit continued from and of the new ones."""
    from rich.console import Console

    from genan.actuator import load
    from genan.evaluation.cross_validation import compare_refit
    from genan.robot import Robot

    assert asked.from_ is not None
    console.print("judging before and after ...")
    before, robot = load(asked.from_), Robot.load(asked.robot)
    found, missing = compare_refit(before, after, robot, old=asked.old_data)
    rows = []
    for pair in found:
        horizon = len(pair.before.curve.mean)
        for column in range(len(pair.before.joints), len(pair.before.columns)):
            unit, factor = reading_unit(pair.before.units[column])
            for steps in (1, horizon):
                both = (
                    errors.one_step[column] if steps == 1 else errors.curve[-1, column]
                    for errors in (pair.before, pair.after)
                )
                cells = [
                    f"{e.mean:.3g} ({e.low:.3g}-{e.high:.3g})"
                    for e in (b.times(factor) for b in both)
                ]
                rows.append((str(pair.trajectories), pair.recording, str(steps), *cells, unit))
    columns = ("held out", "of", "steps", "mean absolute error before", "after", "unit")
    out = Console(highlight=False, markup=False, soft_wrap=True)
    out.print(table(columns, rows, left=("of", "unit")))
    if missing is not None:
        out.print(missing)
