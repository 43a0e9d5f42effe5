"""``genan fit``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro

import genan
from genan.actuator.settings import FitSettings
from genan.cli import terminal
from genan.cli.terminal import Bars, estimate, print_table, say, time_left
from genan.files import sentences
from genan.jax_setup import prepare
from genan.robot import Robot
from genan.words import reading_unit

if TYPE_CHECKING:
    from genan.actuator import Ensemble
    from genan.actuator.fitting import FitProgress, Fitting


@dataclass(frozen=True)
class Fit(terminal.KeyFlags):
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
        prepare()
        from genan.actuator.fitting import FitInterruptedError

        names = ("out", "choose", "from_", "anyway", "overwrite")
        asked = {name: getattr(self, name) for name in names} | self.settings.settings()
        try:
            with terminal.interruptible() as stopping, Bars() as bars:
                observer = _observer(bars, stopping)
                ensemble = genan.fit(self.data, self.robot, observer=observer, **asked)
        except FitInterruptedError as interruption:
            raise KeyboardInterrupt(str(interruption)) from None
        record, contract = ensemble.record, ensemble.contract
        if "choice" in record:
            _print_choice(record["choice"], contract.joint_units, contract.dt)
        best = ", ".join(map(str, record["training"]["best_epoch"]))
        made = f"networks (best of epoch {best})" if contract.architecture.hidden else "models"
        for sentence in (*contract.servos, f"{ensemble.members} {made} in {self.out}."):
            say(sentence, stderr=True)
        if self.from_ is not None:
            say("judging before and after ...", stderr=True)
            self._print_before_and_after(ensemble)
        say(f"Next: genan evaluate --actuators {self.out} --data TEST.h5", stderr=True)

    def _print_before_and_after(self, after: "Ensemble") -> None:
        """Errors of the actuators that the fit continued from and of the new ones."""
        from genan.evaluation.actuators import compare_refit

        before, robot = genan.load(str(self.from_)), Robot.load(self.robot)
        found, missing = compare_refit(before, after, robot, old=self.old_data)
        rows = []
        for recording, count, *both in found:
            for column in range(len(both[0].joints), len(both[0].columns)):
                unit, factor = reading_unit(both[0].units[column])
                ends = {1: [errors.one_step[column] for errors in both]}
                ends[len(both[0].curve.mean)] = [errors.curve[-1, column] for errors in both]
                for steps, errors in ends.items():
                    cells = [estimate(error, factor) for error in errors]
                    rows.append((str(count), recording, str(steps), *cells, unit))
        columns = ("held out", "of", "steps", "mean absolute error before", "after", "unit")
        print_table(columns, rows)
        if missing is not None:
            say(missing)


def _observer(bars: Bars, stopping: Any) -> Any:
    from genan.actuator.fitting import FitObserver

    trying: list[str] = []  # The candidates of a choice so far.
    note = bars.console.print

    def begin(fitting: "Fitting") -> None:
        weights = sum(layer.weight.size + layer.bias.size for layer in fitting.state.layers)
        for sentence in sentences(Path(__file__).with_suffix(".txt"), "begin", fitting, weights):
            note(sentence)
        resumed, epochs = fitting.resumed, fitting.settings.epochs
        bars("fit", resumed, epochs, f"epoch {resumed:.3g}/{epochs}", "")

    def candidate(name: str, number: int, total: int) -> None:
        trying.append(f"{number} of {total}: {name}")
        bars(trying[-1], 0.0, 1.0, speed="")

    def progress(now: "FitProgress") -> None:
        speed = f"{now.samples_per_second:.3g} samples/s{time_left(now.seconds_left)}"
        speed = speed if now.samples_per_second else ""
        done, numbers = now.epoch + now.share, ""
        if trying:
            bars(trying[-1], done / now.epochs, 1.0, speed=speed)
            return
        for name in ("train", "validation", "best_epoch") if now.train else ():
            row = "  ".join(f"{value:<6.4g}" for value in getattr(now, name))
            numbers += f"{name.replace('_', ' '):<10}  {row}\n"
        bars("fit", done, now.epochs, f"epoch {now.epoch}/{now.epochs}", speed, numbers)

    return FitObserver(note, begin, candidate, progress, stopping)


def _print_choice(choice: dict[str, Any], joint_units: tuple[str, ...], dt: float) -> None:
    """What was tried, best first, with errors on what each had left out; and the choice in words.
    The score is that of ``genan.actuator.fit``: the geometric mean of the errors one step ahead,
    relative to constant velocity, and open loop, relative to standing still."""
    units = sorted(set(joint_units), reverse=True)
    unit, factor = reading_unit(units[0]) if len(units) == 1 else (" or ".join(units), 1.0)
    known, rows = choice["baselines"], []
    scales = known["constant velocity"]["one_step"], known["standing still"]["rollout"]
    for name, errors in {**choice["tried"], **known}.items():
        both = np.array([errors["one_step"], errors["rollout"]])
        relative = (both / np.maximum(scales, np.finfo(float).tiny)).mean(axis=1)
        rows.append((np.sqrt(relative.prod()), name, *(factor * both.mean(axis=1))))
    rows.sort(key=lambda row: (np.isnan(row[0]), row[0]))
    cells = [(name, f"{one:.3g}", f"{end:.3g}", f"{score:.3f}") for score, name, one, end in rows]
    end = f"{choice['rollout_steps'] * dt:.3g} s [{unit}]"
    print_table(("model", f"one step [{unit}]", end, "score"), cells, stderr=True)
    caption = "Root mean square errors on recordings left out, mean over the joints."
    for sentence in (caption, *choice["words"]):
        say(sentence, stderr=True)
