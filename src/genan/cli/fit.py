"""``genan fit``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console

import genan
from genan.actuator.settings import FitSettings
from genan.cli import terminal
from genan.jax_setup import use_cache
from genan.robot import Robot
from genan.words import reading_unit

if TYPE_CHECKING:
    from genan.actuator import Ensemble
    from genan.actuator.fitting import FitProgress, Fitting


@dataclass(frozen=True)
class Fit:
    """Fit an ensemble of actuator networks to a recording: from joint positions and controls alone
    to joint torques.

    With few data it also chooses how free the model may be, by cross-validation over whole
    recordings: a linear or parametric torque model alone, networks on what that leaves, or networks
    alone. Data that cannot say anything about the actuators are refused. Stop it at any time
    (Ctrl-C, or even kill -9): the same command continues from its last checkpoint, to the same
    result.
    """

    data: tuple[Path, ...]  # The recording to learn from; several files are put together.
    robot: str  # Robot it was made on: a bundled robot's name or the path of a robot.toml.
    out: Path  # Folder for the actuators, the checkpoints and the TensorBoard events.
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Continue from the actuators in this folder, with their history, networks and scaling: for a
    robot that has changed. Their errors on old and new data are shown before and after."""
    old_data: Path | None = None  # What those of --from were fitted to; left out, what they name.
    choose: Literal["auto", "always", "never"] = "auto"
    """Whether to choose the model by cross-validation. auto: for up to 150,000 samples, unless a
    setting below that the choice would make is given."""
    anyway: bool = False  # Continue although nothing seems to be learnable from the recording.
    overwrite: bool = False  # Replace what an earlier fit left in --out.
    settings: tyro.conf.OmitArgPrefixes[FitSettings] = field(default_factory=FitSettings)

    def run(self) -> None:
        use_cache()
        from genan.actuator.fitting import FitInterruptedError

        names = ("out", "choose", "from_", "anyway", "overwrite")
        asked = {name: getattr(self, name) for name in names} | self.settings.settings()
        try:
            with terminal.interruptible() as stopping, terminal.Bars() as bars:
                observer = _observer(bars, stopping)
                ensemble = genan.fit(self.data, self.robot, observer=observer, **asked)
        except FitInterruptedError as interruption:
            raise KeyboardInterrupt(str(interruption)) from None
        out = bars.console
        if "choice" in ensemble.record:
            _print_choice(out, ensemble)
        for sentence in ensemble.contract.servos:
            out.print(sentence)
        best = ", ".join(map(str, ensemble.record["training"]["best_epoch"]))
        networks = ensemble.contract.architecture.hidden
        made = f"networks (best of epoch {best})" if networks else "models"
        out.print(f"{ensemble.members} {made} in {self.out}.")
        if self.from_ is not None:
            out.print("judging before and after ...")
            _print_before_and_after(genan.load(self.from_), ensemble, self.robot, self.old_data)
        out.print(f"Next: genan evaluate --actuators {self.out} --data TEST.h5")


def _observer(bars: terminal.Bars, stopping: Any) -> Any:
    """Shows bars and losses while a fit runs."""
    from genan.actuator.fitting import FitObserver

    trying: list[str] = []  # The candidates of a choice so far.
    say = bars.console.print

    def begin(fitting: "Fitting") -> None:
        origin, contract = fitting.origin, fitting.contract
        weights = sum(layer.weight.size + layer.bias.size for layer in fitting.state.layers)
        say(
            f"{origin['trajectories']} trajectories: {origin['train_samples']} samples to learn "
            f"from, {origin['validation_samples']} held out; {contract.members} networks of "
            f"{contract.inputs} inputs, {weights} weights in all; batches of "
            f"{fitting.training.batch_size}, {fitting.precision}."
        )
        if short := origin["trajectories_too_short"]:
            say(f"{short} trajectories are too short for the history and left out.")
        if fitting.resumed:
            done = f"continuing after {fitting.resumed:.3g} epochs"
            say(f"{done} from a checkpoint in {fitting.out}")
        epochs = fitting.settings.epochs
        bars("fit", fitting.resumed, epochs, f"epoch {fitting.resumed:.3g}/{epochs}", "")

    def candidate(name: str, number: int, total: int) -> None:
        trying.append(f"{number} of {total}: {name}")
        bars(trying[-1], 0.0, 1.0, speed="")

    def progress(now: "FitProgress") -> None:
        speed = f"{now.samples_per_second:.3g} samples/s{terminal.time_left(now.seconds_left)}"
        speed = speed if now.samples_per_second else ""
        done, numbers = now.epoch + now.share, ""
        if trying:
            bars(trying[-1], done / now.epochs, 1.0, speed=speed)
            return
        for name in ("train", "validation", "best_epoch") if now.train else ():
            row = "  ".join(f"{value:<6.4g}" for value in getattr(now, name))
            numbers += f"{name.replace('_', ' '):<10}  {row}\n"
        bars("fit", done, now.epochs, f"epoch {now.epoch}/{now.epochs}", speed, numbers)

    return FitObserver(say, begin, candidate, progress, stopping)


def _print_choice(out: Console, ensemble: "Ensemble") -> None:
    """What was tried, best first, with errors on what each had left out; and the choice in words.

    The score is that of ``genan.actuator.fit``: the geometric mean of the error one step
    ahead, relative to constant velocity, and open loop, relative to standing still.
    """
    choice, contract = ensemble.record["choice"], ensemble.contract
    units = sorted(set(contract.joint_units), reverse=True)
    unit, factor = reading_unit(units[0]) if len(units) == 1 else (" or ".join(units), 1.0)
    known, tiny = choice["baselines"], np.finfo(float).tiny
    scales = (
        ("one_step", np.maximum(known["constant velocity"]["one_step"], tiny)),
        ("rollout", np.maximum(known["standing still"]["rollout"], tiny)),
    )
    rows = []
    for name, errors in {**choice["tried"], **known}.items():
        score = np.sqrt(np.prod([np.mean(errors[part] / scale) for part, scale in scales]))
        rows.append((score, name, *(factor * np.mean(errors[part]) for part, _ in scales)))
    rows.sort(key=lambda row: (np.isnan(row[0]), row[0]))
    cells = [(name, f"{one:.3g}", f"{end:.3g}", f"{score:.3f}") for score, name, one, end in rows]
    end = f"{choice['rollout_steps'] * contract.dt:.3g} s [{unit}]"
    terminal.print_table(out, ("model", f"one step [{unit}]", end, "score"), cells)
    out.print("Root mean square errors on recordings left out, mean over the joints.")
    for sentence in choice["words"]:
        out.print(sentence)


def _print_before_and_after(
    before: "Ensemble", after: "Ensemble", robot: str, old: Path | None
) -> None:
    """Errors of the actuators that the fit continued from and of the new ones."""
    from genan.evaluation.cross_validation import compare_refit

    found, missing = compare_refit(before, after, Robot.load(robot), old=old)
    rows = []
    for pair in found:
        both = (pair.before, pair.after)
        for column in range(len(pair.before.joints), len(pair.before.columns)):
            unit, factor = reading_unit(pair.before.units[column])
            ends = {1: [errors.one_step[column] for errors in both]}
            ends[len(pair.before.curve.mean)] = [errors.curve[-1, column] for errors in both]
            for steps, errors in ends.items():
                cells = [terminal.estimate(error, factor) for error in errors]
                rows.append((str(pair.trajectories), pair.recording, str(steps), *cells, unit))
    columns = ("held out", "of", "steps", "mean absolute error before", "after", "unit")
    terminal.print_table(terminal.console(), columns, rows)
    if missing is not None:
        terminal.console().print(missing)
