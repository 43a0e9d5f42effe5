"""Fit an ensemble of actuator networks to a recording: from joint positions and controls alone to
joint torques.

With few data it also chooses how free the model may be, by cross-validation over whole recordings:
a linear or parametric torque model alone, networks on what that leaves, or networks alone. Data
that cannot say anything about the actuators are refused. Stop it at any time (Ctrl-C, or even kill
-9): the same command goes on from its last checkpoint, to the same result.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from genan.actuator.settings import FitSettings
from genan.cli.terminal import time_left

MOST_TO_CHOOSE = 150_000
"""Samples up to which the model is chosen by cross-validation without being asked for."""

MOST_TO_INSPECT = 10_000
"""Samples of a larger recording that are looked at before a fit."""

if TYPE_CHECKING:
    from genan.actuator.fit import Fitting, Progress
    from genan.data import Inspection, Trajectories


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
    """Go on from the actuators in this folder, with their history, networks and scaling: for a
    robot that has changed. Their errors on old and new data are shown before and after."""
    old_data: Path | None = None
    """Recording that the actuators of --from were fitted to; left out, the file that they name."""
    choose: Literal["auto", "always", "never"] = "auto"
    """Whether to choose the model by cross-validation. auto: for up to 150,000 samples, unless a
    setting below that the choice would make is given."""
    anyway: bool = False
    """Go on although the recording looks as if nothing could be learnt from it."""
    overwrite: bool = False
    """Replace what an earlier fit left in --out."""
    settings: tyro.conf.OmitArgPrefixes[FitSettings] = field(default_factory=FitSettings)

    def run(self) -> int:
        """Fit, with progress; exit code."""
        from rich.console import Console

        from genan.cli import INTERRUPTED
        from genan.jax_setup import use_cache

        use_cache()
        from genan.actuator.fit import Fitting

        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        if self.from_ is not None and self.from_.resolve() == self.out.resolve():
            from genan.errors import SettingError

            raise SettingError(
                f"--from and --out are the same folder, {self.out}; give another --out."
            )
        chosen = self._chooses(console)
        found = self._refuse(console, chosen=chosen)
        if chosen:
            from genan.cli.fit_choice import choose

            return choose(console, self, lag=found.lag)
        fitting = Fitting(
            self.data,
            self.robot,
            self.settings,
            out=self.out,
            start=self.from_,
            overwrite=self.overwrite,
        )
        _introduce(console, fitting)
        ensemble = _train(console, fitting)
        if ensemble is None:
            console.print(
                f"stopped after {_epochs(fitting)} of {fitting.settings.epochs} epochs, all of it safe in {self.out}; "
                "the same command goes on from there."
            )
            return INTERRUPTED
        best = ", ".join(map(str, ensemble.record["training"]["best_epoch"]))
        console.print(f"{_networks(ensemble.members)} (best of epoch {best}) in {self.out}.")
        for sentence in ensemble.contract.servos:
            console.print(sentence)
        if fitting.start is not None:
            from genan.cli.refit_table import print_before_and_after

            print_before_and_after(console, fitting, ensemble, old=self.old_data)
        if len(fitting.dataset.samples.q) <= MOST_TO_CHOOSE:  # of more, 'genan evaluate' keeps it
            keep_reference(ensemble, self.data, self.out, held_out=fitting.validation_trajectories)
        console.print(f"Next: genan evaluate --actuators {self.out} --data TEST.h5")
        return 0

    def _refuse(self, console: Any, *, chosen: bool) -> "Inspection":
        """Refuse recordings from which nothing can be identified; what was found in them."""
        from genan.data import inspect
        from genan.data.inspection.words import obstacles
        from genan.errors import DataError

        trajectories = self._some()
        # A choice tries the delay that the recording shows.
        reach = (
            len(trajectories.q)
            if chosen and not self.settings.delay
            else self.settings.history.reach
        )
        inspection = inspect(trajectories)
        found = obstacles(trajectories, inspection, history_reach=reach)
        if found and not self.anyway:
            raise DataError(f"{' '.join(found)} To fit all the same, give --anyway.")
        for sentence in found:
            console.print(f"going on anyway: {sentence}")
        return inspection

    def _some(self) -> "Trajectories":
        """All trajectories, or of many so many, evenly spread, that they can be looked at in a
        second or two."""
        import numpy as np

        from genan.data import Trajectories, load, summary

        heads = [summary(path) for path in self.data]
        samples = sum(head.samples for head in heads)
        part = 1.0 if samples <= MOST_TO_CHOOSE else MOST_TO_INSPECT / samples
        parts = []
        for head in heads:
            count = min(len(head), max(2, round(part * len(head))))
            chosen = np.linspace(0, len(head) - 1, count).round().astype(int)
            parts.append(load(head.path, None if count == len(head) else chosen))
        return parts[0] if len(parts) == 1 else Trajectories.concatenate(parts)

    def _chooses(self, console: Any) -> bool:
        """Whether the model is chosen by cross-validation; says why not where it might be
        expected."""
        from genan.actuator.selection import chosen_fields
        from genan.data import summary
        from genan.errors import SettingError

        if self.choose == "never" or (self.choose == "auto" and self.from_ is not None):
            return False
        if self.from_ is not None:
            raise SettingError(
                "--from goes on with the networks it is given; leave out --choose always."
            )
        if self.choose == "always":
            return True
        given = chosen_fields(self.settings)
        samples = sum(summary(path).samples for path in self.data)
        if samples > MOST_TO_CHOOSE:
            return False
        if given:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            console.print(
                f"{flags} given, so the model is not chosen by cross-validation (--choose always does)."
            )
            return False
        return True


def keep_reference(
    ensemble: Any, data: tuple[Path, ...], out: Path, *, held_out: Any = None
) -> None:
    """What the networks have seen, beside them, so that new logs can be held against it without the
    recording."""
    from genan.actuator.dataset import load_all
    from genan.actuator.reference import Reference

    Reference.of(ensemble, load_all(data)[0], held_out=held_out).save(out)


def _introduce(console: Any, fitting: "Fitting") -> None:
    origin, training = fitting.origin, fitting.training
    weights = sum(layer.weight.size + layer.bias.size for layer in fitting.state.layers)
    console.print(
        f"{origin['trajectories']} trajectories: {origin['train_samples']} samples to learn from, "
        f"{origin['validation_samples']} held out; {_networks(fitting.contract.members)} of "
        f"{fitting.contract.inputs} inputs, {weights} weights in all; batches of {training.batch}, {fitting.precision}."
    )
    if origin["trajectories_too_short"]:
        console.print(
            f"{origin['trajectories_too_short']} trajectories are too short for the history and left out."
        )
    if fitting.resumed:
        console.print(
            f"going on after {_epochs(fitting)} epochs from the checkpoint in {fitting.out}"
        )


def _networks(count: int) -> str:
    return f"{count} network" if count == 1 else f"{count} networks"


def _epochs(fitting: "Fitting") -> str:
    done = int(fitting.state.epoch) + int(fitting.state.step) / fitting.training.steps
    return f"{done:.3g}"


def _train(console: Any, fitting: "Fitting") -> Any:
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    from genan.cli.terminal import interruptible

    bar = Bar(
        TextColumn("epoch {task.description}"),
        BarColumn(),
        TextColumn("{task.fields[speed]}"),
        console=console,
    )
    losses = Text("")
    total = fitting.settings.epochs
    task = bar.add_task(f"{_epochs(fitting)}/{total}", total=float(total), completed=0, speed="")
    bar.update(task, completed=fitting.resumed)

    def show(now: "Progress") -> None:
        bar.update(
            task,
            completed=now.epoch + now.share,
            description=f"{now.epoch}/{total}",
            speed=_speed(now),
        )
        losses.plain = _losses(now)

    with (
        interruptible() as interrupt,
        Live(Group(bar, losses), console=console, refresh_per_second=4),
    ):
        found = fitting.run(progress=show, stopping=lambda: interrupt.requested)
    if not console.is_terminal:
        console.print()  # rich leaves the last line open
    return found


def _speed(now: "Progress") -> str:
    if not now.samples_per_second:
        return ""
    left = time_left(now.seconds_left)
    return f"{now.samples_per_second:.3g} samples/s{left}"


def _losses(now: "Progress") -> str:
    """The last whole epoch's losses, member by member."""
    rows = (("training", now.train), ("validation", now.validation), ("best epoch", now.best_epoch))
    return (
        "\n".join(f"{name:<10}  {'  '.join(f'{x:<6.4g}' for x in row)}" for name, row in rows)
        if now.train
        else ""
    )
