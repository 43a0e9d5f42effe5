"""``genan evaluate``."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import genan
from genan.cli import terminal
from genan.cli.terminal import Bars, KeyFlags, estimate, print_table, say
from genan.errors import SettingError, refuse
from genan.files import sentences, write_atomically
from genan.jax_setup import prepare
from genan.robot import Robot
from genan.signature import SIGNATURE
from genan.words import number, reading_unit, shortened

if TYPE_CHECKING:
    from genan.actuator import Ensemble
    from genan.evaluation.accuracy import Novelty
    from genan.evaluation.actuators import Evaluation

WORDS = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Evaluate(KeyFlags):
    """Judge fitted actuators on a recording they were not fitted to.

    Position errors one step ahead and open loop, with 95 % intervals over recordings, compared with
    models to beat and how certain the difference is; the held-control test; where the recording is
    new to the model; pictures, a page and a verdict. Or, with --cross-validate, the same fit judged
    on its own recordings, each left out once.
    """

    actuators: Path  # The artifact to judge: the --out of 'genan fit'.
    data: Path | None = None
    """A recording that it was not fitted to. With --cross-validate: the recordings to leave out in
    turn; left out, those that it was fitted to."""
    cross_validate: int | None = None
    """Fit again this many times, each time without another part of the recordings, and judge on
    that. The fits are kept in the artifact: after Ctrl-C the same command goes on from there."""
    compare: tuple[Path, ...] = ()  # Other artifacts to judge as well.
    robot: str | None = None  # Its name or robot.toml; left out, the one that it was fitted for.
    train_data: Path | None = None  # What baselines are fitted to; left out, what it was fitted to.
    horizon: int = 500  # Steps of the open-loop rollouts.
    true_torque: bool = False
    """Also judge a network trained on true torques, what a torque sensor would buy, where a virtual
    robot has recorded them; it is trained the first time and kept in the artifact."""
    report: bool = True  # Write report.html, one page with all of it.
    out: Path | None = None
    """Folder for pictures, evaluation.json and report.html; it must not exist, unless --overwrite
    is given. Left out: 'evaluation' or 'cross-validation' in the artifact, made again each time."""
    overwrite: bool = False  # Replace what is in --out; with --cross-validate, fit all again.

    def run(self) -> None:
        crossing = self.cross_validate is not None
        refuse(
            (self.data is None and not crossing,
             "Give a recording to judge by (--data), or --cross-validate K."),
            (crossing and (self.compare or self.true_torque), "--cross-validate judges one set of "
             "settings; leave out --compare and --true-torque."),
        )  # fmt: skip
        folder = self.out or self.actuators / ("cross-validation" if crossing else "evaluation")
        terminal.check_out(folder, overwrite=self.overwrite or self.out is None)
        prepare()
        from genan.actuator import save
        from genan.evaluation.actuators import headline
        from genan.report.verdict import cross_validation_verdict, verdict

        ensemble = genan.load(self.actuators)
        robot = ensemble.contract.find_robot(ensemble.record, self.robot)
        if crossing:
            found = self._cross_validate(ensemble, robot)
            _print_errors(found)
            sentences = cross_validation_verdict(found)
        else:
            name, *names = _names([self.actuators, *self.compare])
            others = dict(zip(names, map(genan.load, self.compare), strict=True))
            with Bars() as bars:
                if self.true_torque:
                    others["true torques"] = self._true_torques(ensemble, robot, bars)
                found = genan.evaluate(
                    self.actuators, str(self.data), robot, name=name, compare=others,
                    train=self.train_data, horizon=self.horizon, progress=bars,
                )  # fmt: skip
            _print_evaluation(found)
            sentences = verdict(found)
        terminal.print_sentences("Verdict", "cyan", sentences)
        for path in self._write(folder, found, sentences):
            say(f"Wrote {path}")
        if not crossing and not (self.actuators / SIGNATURE).exists():  # signed is signed
            save(ensemble.with_record(metrics=headline(found)), self.actuators)

    def _true_torques(self, ensemble: "Ensemble", robot: Robot, bars: Bars) -> "Ensemble":
        """The network of --true-torque, trained or as it was kept."""
        from genan.actuator.fit import true_torque_baseline
        from genan.data import summary
        from genan.evaluation.actuators import training_data, training_paths

        train, _ = training_data(ensemble, self.train_data)
        paths = [self.train_data] if self.train_data else training_paths(ensemble)
        if train is None or len(paths) != 1:
            one = "--true-torque needs one training recording"
            raise SettingError(f"{one}; give it by --train-data.")
        none = f"{paths[0]} holds no true torques, which --true-torque learns from; record on a"
        none += " virtual robot with --truth-for-evaluation-only, or leave --true-torque out."
        refuse(("tau" not in summary(paths[0]).truth, none))
        out = self.actuators / "baselines" / "true-torque"
        return true_torque_baseline(ensemble, paths[0], robot, bars, out=out)

    def _cross_validate(self, ensemble: "Ensemble", robot: Robot) -> Any:
        from genan.evaluation.actuators import training_data
        from genan.evaluation.cross_validation import FOLDS, cross_validate

        train, missing = training_data(ensemble, self.data or self.train_data)
        if train is None:
            raise SettingError(f"There is nothing to cross-validate on: {missing} Or give --data.")
        with Bars() as bars, terminal.interruptible() as stopping:
            found = cross_validate(
                ensemble, train, robot, parts=self.cross_validate or 0, horizon=self.horizon,
                folder=self.actuators / FOLDS, name=_names([self.actuators])[0],
                overwrite=self.overwrite, progress=bars, stopping=stopping,
            )  # fmt: skip
        if found is None:
            safe = f"stopped; what is done is safe in {self.actuators / FOLDS}"
            raise KeyboardInterrupt(f"{safe}: the same command goes on from it.")
        return found

    def _write(self, folder: Path, found: Any, verdict: tuple[str, ...]) -> list[Path]:
        """Pictures, all numbers and the page."""
        from genan.evaluation.actuators import EVALUATION, as_json
        from genan.report.figures import save_figures
        from genan.report.page import write_report

        paths, page = [*save_figures(found, folder), folder / EVALUATION], folder / "report.html"
        content = json.dumps({**as_json(found), "verdict": list(verdict)}) + "\n"
        write_atomically(folder / EVALUATION, content.encode())
        if not self.report:
            return paths
        logs = [path for path in (self.data, self.train_data) if path is not None]
        inspected = [p.with_name(f"{p.stem}-inspect") / "inspection.json" for p in logs]
        runs = [folder, self.actuators / "actuator.json", *filter(Path.is_file, inspected)]
        title = f"How far to trust {self.actuators.resolve().name}"
        write_report(runs, page, overwrite=True, title=title, files=False)
        return [*paths, page]


def _names(paths: list[Path]) -> list[str]:
    """What to call each artifact: its folder's name, or its path where two have the same name."""
    names = [path.name or str(path) for path in paths]
    pairs = zip(names, paths, strict=True)
    names = [str(path) if names.count(name) > 1 else name for name, path in pairs]
    return [name if names.index(name) == k else f"{name} ({k + 1})" for k, name in enumerate(names)]


def _print_errors(found: Any) -> None:
    """What was judged, and the errors: of all models, of each joint, and compared."""
    from genan.evaluation.statistics import SENTENCES

    errors, models = found.errors, found.table
    say(*sentences(WORDS, "judged", found))
    for sentence in (*sentences(WORDS, "warning", found), *found.notes):
        say(f"• {sentence}", "yellow")
    say()
    names, units = [model.name for model in models], [reading_unit(unit) for unit in errors.units]
    ends = {"1 step": [model.one_step for model in models]}
    ends[f"{found.horizon} steps"] = [model.curve[-1] for model in models]
    columns = {"mean absolute error": names}
    for k, (unit, factor) in list(enumerate(units))[len(errors.joints) :]:
        for step, each in ends.items():
            columns[f"{step} [{unit}]"] = [estimate(one[k], factor) for one in each]
    away = [f"{model.diverged} of {model.rollouts}" if model.diverged else "0" for model in models]
    print_table(columns | {"diverged": away})
    known, together = np.isfinite(errors.one_step.low).all(), found.average is not None
    bounds = [f"{f * bound:.3g} {u}" for bound, (u, f) in zip(found.bound, units, strict=False)]
    facts = known, together, any(model.diverged for model in models), bounds
    say(f"{' '.join(sentences(SENTENCES, 'caption', *facts))}\n", "dim")
    for step, each in ends.items() if len(errors.joints) > 1 else ():
        columns = {step: names}
        for k, (joint, (unit, factor)) in enumerate(zip(errors.joints, units, strict=False)):
            columns[f"{joint} [{unit}]"] = [number(factor * one.mean[k]) for one in each]
        print_table(columns)
        say()
    if found.comparison is not None:
        say("Compared with the baselines:", "bold")
        colours = {"better": "green", "level": "yellow", "worse": "red"}
        for one in found.comparison.comparisons:
            of = f" ({reading_unit(one.unit)[0]})" if len(found.comparison.units) > 1 else ""
            say(f"• {one.sentence}{of}", colours[one.verdict])
        say()


def _print_evaluation(found: "Evaluation") -> None:
    _print_errors(found)
    first = found.held[0]
    say(f"Held control: {first.source}.", "bold")
    for held in found.held:
        say(f"• {held.name}: {held.verdict}", "green" if held.fit_for_training else "red")
    units, factors = zip(*map(reading_unit, first.joint_units), strict=True)
    columns: dict[str, Any] = {"joint": first.joints, "unit": units}
    for name, values in {
        "speed after 1 s": first.speed_left,
        "the robot's": first.robot_speed_left,
        f"pose after {first.hold:.2g} s off by": first.pose_difference,
        "usual speed": first.usual_speed,
    }.items():
        if values is not None:
            columns[name] = [number(f * x) for f, x in zip(factors, values, strict=True)]
    print_table(columns)
    say("speeds per second", "dim")
    for sentence in sentences(WORDS, "agreement", found.torques, found.calibration):
        say(sentence)
    say()
    if found.novelty is not None:
        _print_novelty(found.novelty)


def _print_novelty(novelty: "Novelty") -> None:
    from genan.actuator.reference import REASONS
    from genan.report.verdict import why_words

    r = lambda value: f"{value:.2f}" if np.isfinite(value) else "-"
    beyond = "samples with a score beyond 1 (1 % of a recording like those trained on)"
    say(f"New to the model: {beyond}.", "bold")
    reasons = [REASONS[int(k)] for k in novelty.reasons.argmax(axis=0)]
    parts = zip(reasons, novelty.beyond, strict=True)
    columns = {
        "joint": novelty.joints,
        "mostly": [reason if part > 0.0 else "-" for reason, part in parts],
        "beyond 1": [f"{100 * part:.2g} %" for part in novelty.beyond],
        "error beyond / within": [number(float(ratio)) for ratio in novelty.error_ratio],
        "r, 1 step": map(r, novelty.step_correlation),
        "r, rollout": map(r, novelty.rollout_correlation),
    }
    print_table(columns)
    whole = f"of all joints along rollouts {r(novelty.whole_correlation)}"
    say(f"Error: one step ahead. r: rank correlation of score and error; {whole}.", "dim")
    rows = [
        [shortened(one.recording), one.joint, f"{one.begin:.2f}", f"{one.end:.2f}",
         number(one.peak), why_words(one)]
        for one in novelty.stretches
    ]  # fmt: skip
    if novelty.new.any():
        print_table(["recording", "joint", "from [s]", "to [s]", "score", "why"], rows)
    say()
