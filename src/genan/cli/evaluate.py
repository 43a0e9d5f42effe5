"""Judge fitted actuators on a recording they were not fitted to.

Position errors one step ahead and open loop, with 95 % intervals over recordings, compared with
models to beat and how certain the difference is; the held-control test; where the recording is new
to the model; pictures, a page and a verdict. Or, with --cross-validate, the same fit judged on its
own recordings, each left out once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genan.cli.terminal import ProgressBars, check_folder
from genan.errors import SettingError

if TYPE_CHECKING:
    from rich.console import Console

    from genan.actuator import Ensemble
    from genan.data import Trajectories
    from genan.evaluation.actuators import Evaluation
    from genan.evaluation.cross_validation import CrossValidation
    from genan.robot import Robot


@dataclass(frozen=True)
class Evaluate:
    """Flags of ``genan evaluate``."""

    actuators: Path
    """The artifact to judge: the --out of 'genan fit'."""
    data: Path | None = None
    """A recording that it was not fitted to. With --cross-validate: the recordings to leave out in
    turn; left out, those that it was fitted to."""
    cross_validate: int | None = None
    """Fit again this many times with the same settings, each time without another part of the
    recordings, and judge on that part. The fits are kept in 'folds' in the artifact: a second run,
    or one after Ctrl-C, goes on from there."""
    compare: tuple[Path, ...] = ()
    """Other artifacts to judge as well."""
    robot: str | None = None
    """The robot: a bundled robot's name or the path of a robot.toml; left out, the one that it was
    fitted for."""
    train_data: Path | None = None
    """The recording that the baselines are fitted to; left out, the one that the actuators were
    fitted to."""
    horizon: int = 500
    """Steps of the open-loop rollouts."""
    true_torque: bool = False
    """Also judge a network trained on true torques, what a torque sensor would buy. Only for
    recordings of a virtual robot that have them; it is trained the first time, which takes its
    time, and kept in the artifact."""
    uan: bool = False
    """Also judge an unsupervised actuator net, a network taught by reinforcement learning on the
    same recording; it is trained the first time, for a minute or two, and kept in the artifact."""
    uan_steps: int | None = None
    """Steps of its training; left out: as many as were measured to be worth it."""
    report: bool = True
    """Write report.html, one page with all of it."""
    out: Path | None = None
    """Folder for the pictures, evaluation.json and report.html; it must not exist yet, unless
    --overwrite is given. Left out: 'evaluation' (or 'cross-validation') in the artifact, made again
    each time."""
    overwrite: bool = False
    """Replace what an earlier run put into --out; with --cross-validate, fit all again."""

    def run(self) -> int:
        """Judge, print, draw, keep the headline; exit code."""
        from rich.console import Console

        if self.data is None and self.cross_validate is None:
            raise SettingError("Give a recording to judge by (--data), or --cross-validate K.")
        kind = "evaluation" if self.cross_validate is None else "cross-validation"
        folder = self.out or self.actuators / kind
        check_folder(folder, overwrite=self.overwrite or self.out is None)

        from genan.jax_setup import use_cache

        use_cache()
        from genan.actuator import load
        from genan.evaluation.actuators import load_robot

        ensemble = load(self.actuators)
        robot = load_robot(ensemble, self.robot)
        screen = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        console = Console(highlight=False)
        judge = self._evaluate if self.cross_validate is None else self._cross_validate
        return judge(ensemble, robot, folder, console, screen)

    def _evaluate(
        self,
        ensemble: "Ensemble",
        robot: "Robot",
        folder: Path,
        console: "Console",
        screen: "Console",
    ) -> int:
        from genan.actuator import load, save
        from genan.cli.evaluation_tables import print_evaluation
        from genan.evaluation.actuators import evaluate, training_data
        from genan.evaluation.record import headline
        from genan.report.verdict import verdict

        assert self.data is not None
        names = _names([self.actuators, *self.compare])
        others = {name: load(path) for name, path in zip(names[1:], self.compare, strict=True)}
        with ProgressBars(screen) as bars:
            if self.true_torque:
                others["true torques"] = self._true_torques(ensemble, robot, bars)
            if self.uan:
                train, _ = training_data(ensemble, self.train_data)
                others["UAN"], how = self._uan(train, robot, bars)
                screen.print(how)
            found = evaluate(
                self.actuators,
                self.data,
                robot,
                name=names[0],
                compare=others,
                train=self.train_data,
                horizon=self.horizon,
                progress=bars,
            )
        print_evaluation(console, found)
        self._write(console, folder, found, verdict(found))
        save(ensemble.with_record(metrics=headline(found)), self.actuators)
        return 0

    def _cross_validate(
        self,
        ensemble: "Ensemble",
        robot: "Robot",
        folder: Path,
        console: "Console",
        screen: "Console",
    ) -> int:
        from genan.cli import INTERRUPTED
        from genan.cli.evaluation_tables import print_cross_validation
        from genan.cli.terminal import interruptible
        from genan.evaluation.actuators import training_data
        from genan.evaluation.cross_validation import FOLDS, cross_validate
        from genan.report.verdict import cross_validation_verdict

        assert self.cross_validate is not None
        if self.compare or self.true_torque or self.uan:
            raise SettingError(
                "--cross-validate judges one set of settings; leave out --compare, --true-torque "
                "and --uan."
            )
        train, missing = training_data(ensemble, self.data or self.train_data)
        if train is None:
            raise SettingError(
                f"There is nothing to cross-validate on: {missing} Or give it by --data."
            )
        with ProgressBars(screen) as bars, interruptible() as interrupt:
            found = cross_validate(
                ensemble,
                train,
                robot,
                parts=self.cross_validate,
                folder=self.actuators / FOLDS,
                name=_names([self.actuators])[0],
                horizon=self.horizon,
                overwrite=self.overwrite,
                progress=bars,
                stopping=lambda: interrupt.requested,
            )
        if found is None:
            screen.print(
                f"stopped; what is done is safe in {self.actuators / FOLDS}: the same command goes "
                "on from it."
            )
            return INTERRUPTED
        print_cross_validation(console, found)
        self._write(console, folder, found, cross_validation_verdict(found))
        return 0

    def _write(
        self,
        console: "Console",
        folder: Path,
        found: "Evaluation | CrossValidation",
        verdict: tuple[str, ...],
    ) -> None:
        """Pictures, all numbers and the page."""
        import json

        from genan.evaluation.record import EVALUATION, as_json
        from genan.files import write_atomically
        from genan.report.figures import save_figures

        paths = [*save_figures(found, folder), folder / EVALUATION]
        content = json.dumps({**as_json(found), "verdict": list(verdict)}) + "\n"
        write_atomically(folder / EVALUATION, content.encode())
        if self.report:
            from genan.report.page import write_report

            logs = [path for path in (self.data, self.train_data) if path is not None]
            inspected = [p.with_name(f"{p.stem}-inspect") / "inspection.json" for p in logs]
            runs = [folder, self.actuators / "actuator.json"]
            runs += [path for path in inspected if path.is_file()]
            title = f"How far to trust {self.actuators.resolve().name}"
            page = write_report(runs, folder / "report.html", overwrite=True, title=title)
            paths.append(page.path)
        for path in paths:
            console.print(f"Wrote {path}", markup=False, soft_wrap=True)

    def _true_torques(self, ensemble: "Ensemble", robot: "Robot", bars: ProgressBars) -> "Ensemble":
        from genan.actuator.fit import has_true_torque, true_torque_baseline
        from genan.evaluation.actuators import training_data, training_paths

        paths = [self.train_data] if self.train_data else training_paths(ensemble)
        if training_data(ensemble, self.train_data)[0] is None or len(paths) != 1:
            raise SettingError(
                "--true-torque needs one training recording; give it by --train-data."
            )
        if not has_true_torque(paths[0]):
            raise SettingError(
                f"{paths[0]} holds no true torques, which --true-torque learns from; record on a "
                "virtual robot with --truth-for-evaluation-only, or leave --true-torque out."
            )
        out = self.actuators / "baselines" / "true-torque"
        return true_torque_baseline(ensemble, paths[0], robot, bars, out=out)

    def _uan(
        self, train: "Trajectories | None", robot: "Robot", bars: ProgressBars
    ) -> "tuple[Ensemble, str]":
        """UAN's network, and a sentence on how it was made."""
        import time
        from dataclasses import replace

        from genan.rl.uan import UanSettings, fit_uan, kept_uan

        if train is None:
            raise SettingError("--uan learns from the training recording; give it by --train-data.")
        settings = UanSettings()
        if self.uan_steps is not None:
            settings = replace(settings, steps=self.uan_steps)
        folder = self.actuators / "baselines" / "uan"
        found, how = kept_uan(folder, train.fingerprint, settings), "trained earlier for"
        if found is None:
            begun = time.perf_counter()
            found = fit_uan(
                train,
                robot,
                out=folder,
                settings=settings,
                progress=lambda at: bars("training UAN", at.steps, at.total),
            )
            how = f"trained in {time.perf_counter() - begun:.0f} s for"
        return found, f"UAN: {how} {found.record['training']['steps']} steps, in {folder}."


def _names(paths: list[Path]) -> list[str]:
    """What to call each artifact: its folder's name, or its path where two have the same name."""
    names = [path.name or str(path) for path in paths]
    pairs = zip(names, paths, strict=True)
    names = [str(path) if names.count(name) > 1 else name for name, path in pairs]
    return [name if names.index(name) == k else f"{name} ({k + 1})" for k, name in enumerate(names)]
