"""Judge fitted actuators on a recording they were not fitted to.

Position errors one step ahead and open loop, with 95 % intervals over recordings, beside models to
beat and how certain the difference is; the held-control test; where the recording is new to the
model; pictures, a page and a verdict. Or, with --cross-validate, the same fit judged on its own
recordings, each left out once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from genan.actuator import Ensemble
    from genan.data import Trajectories
    from genan.evaluation import Evaluation
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
    """Fit anew so many times with the same settings, each time without another part of the
    recordings, and judge on that part. The fits are kept in 'folds' in the artifact: a second run,
    or one after Ctrl-C, goes on from there."""
    compare: tuple[Path, ...] = ()
    """Other artifacts to judge beside it."""
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
    --overwrite is given. Left out: 'evaluation' (or 'cross-validation') in the artifact, made anew
    each time."""
    overwrite: bool = False
    """Replace what an earlier run put into --out; with --cross-validate, fit all anew."""

    def run(self) -> int:
        """Judge, print, draw, keep the headline; exit code."""
        from rich.console import Console

        from genan.cli.terminal import check_folder
        from genan.errors import SettingError

        if self.data is None and self.cross_validate is None:
            raise SettingError("Give a recording to judge by (--data), or --cross-validate K.")
        folder = self.out or self.actuators / (
            "evaluation" if self.cross_validate is None else "cross-validation"
        )
        check_folder(folder, overwrite=self.overwrite or self.out is None)

        from genan.jax_setup import use_cache

        use_cache()
        from genan.actuator import load
        from genan.evaluation.actuators import load_robot

        ensemble = load(self.actuators)
        robot = load_robot(ensemble, self.robot)
        screen = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        console = Console(highlight=False)
        if self.cross_validate is not None:
            return self._cross_validate(ensemble, robot, folder, console, screen)
        return self._evaluate(ensemble, robot, folder, console, screen)

    def _evaluate(
        self,
        ensemble: "Ensemble",
        robot: "Robot",
        folder: Path,
        console: "Console",
        screen: "Console",
    ) -> int:
        from genan.actuator import load
        from genan.cli.evaluation_tables import print_evaluation
        from genan.evaluation import evaluate
        from genan.evaluation.actuators import find_reference
        from genan.report.figures import save_figures

        assert self.data is not None
        names = _names([self.actuators, *self.compare])
        others = {name: load(path) for name, path in zip(names[1:], self.compare, strict=True)}
        with _Bars(screen) as bars:
            train, missing = self._training_data(ensemble)
            if self.true_torque:
                others["true torques"] = self._true_torques(
                    ensemble, robot, train is not None, bars
                )
            if self.uan:
                others["UAN"], words = self._uan(train, robot, bars)
                screen.print(words)
            reference, unknown = find_reference(self.actuators, ensemble, train, progress=bars)
            found = evaluate(
                ensemble,
                self.data,
                robot,
                name=names[0],
                compare=others,
                train=train,
                reference=reference,
                horizon=self.horizon,
                progress=bars,
            )
        print_evaluation(console, found, missing=[words for words in (missing, unknown) if words])
        paths = save_figures(found, folder)
        self._keep(ensemble, found, folder)
        self._wrote(console, folder, [*paths, folder / "evaluation.json"])
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
        from genan.errors import SettingError
        from genan.evaluation.cross_validation import FOLDS, cross_validate
        from genan.evaluation.record import cross_validation_as_json
        from genan.report.figures import save_figures
        from genan.report.verdict import cross_validation_verdict

        assert self.cross_validate is not None
        if self.compare or self.true_torque or self.uan:
            raise SettingError(
                "--cross-validate judges one way of fitting; leave --compare, --true-torque and --uan."
            )
        train, missing = self._training_data(ensemble, self.data or self.train_data)
        if train is None:
            raise SettingError(
                f"There is nothing to cross-validate on: {missing} Or give it by --data."
            )
        with _Bars(screen) as bars, interruptible() as interrupt:
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
                f"stopped; what is done is safe in {self.actuators / FOLDS}: the same command goes on from it."
            )
            return INTERRUPTED
        print_cross_validation(console, found)
        paths = save_figures(found, folder)
        _write_json(
            folder / "evaluation.json",
            cross_validation_as_json(found),
            cross_validation_verdict(found),
        )
        self._wrote(console, folder, [*paths, folder / "evaluation.json"])
        return 0

    def _wrote(self, console: "Console", folder: Path, paths: list[Path]) -> None:
        """Say what was written, and write the page."""
        if self.report:
            from genan.report.page import write_report

            inspected = [
                path.with_name(f"{path.stem}-inspect") / "inspection.json"
                for path in (self.data, self.train_data)
                if path is not None
            ]
            runs = [
                folder,
                self.actuators / "actuator.json",
                *(path for path in inspected if path.is_file()),
            ]
            title = f"How far to trust {self.actuators.resolve().name}"
            page = folder / "report.html"
            write_report(runs, page, overwrite=True, title=title, files=False)
            paths = [*paths, page]
        for path in paths:
            console.print(f"Wrote {path}", markup=False, soft_wrap=True)

    def _train_paths(self, ensemble: "Ensemble") -> list[Path]:
        """The training recordings; several when the actuators were fitted to several."""
        if self.train_data is not None:
            return [self.train_data]
        found = ensemble.record.get("data", {}).get("path") or []
        return [Path(path) for path in ([found] if isinstance(found, str) else found)]

    def _training_data(
        self, ensemble: "Ensemble", given: Path | None = None
    ) -> "tuple[Trajectories | None, str | None]":
        """The recording to fit baselines to, or the one ``given``; or None, and why not."""
        from genan.data import Trajectories, load
        from genan.errors import GenanError

        given = given or self.train_data
        if given is not None:
            return load(given), None
        hint = "the baselines were left out; give the training recording by --train-data."
        paths, fingerprint = (
            self._train_paths(ensemble),
            ensemble.record.get("data", {}).get("fingerprint"),
        )
        if not paths or not fingerprint:
            return None, f"The artifact does not say what it was fitted to, so {hint}"
        gone = [path for path in paths if not path.exists()]
        if gone:
            return None, f"The training recording {gone[0]} is not there any more, so {hint}"
        try:
            recording = (
                Trajectories.concatenate([load(path) for path in paths])
                if len(paths) > 1
                else load(paths[0])
            )
        except GenanError as error:
            return (
                None,
                f"The training recording cannot be read ({str(error).rstrip('.')}), so {hint}",
            )
        if recording.fingerprint != fingerprint:
            return (
                None,
                f"{paths[0]} is not the recording that the actuators were fitted to any more, so {hint}",
            )
        return recording, None

    def _true_torques(
        self, ensemble: "Ensemble", robot: "Robot", known: bool, bars: Any
    ) -> "Ensemble":
        from genan.actuator.fit import has_true_torque, true_torque_baseline
        from genan.errors import SettingError

        if not known or len(self._train_paths(ensemble)) > 1:
            raise SettingError(
                "--true-torque needs one training recording; give it by --train-data."
            )
        train = self._train_paths(ensemble)[0]
        if not has_true_torque(train):
            raise SettingError(
                f"{train} holds no true torques, which --true-torque learns from; record on a virtual robot with "
                "--truth-for-evaluation-only, or leave --true-torque out."
            )
        return true_torque_baseline(
            ensemble, train, robot, bars, out=self.actuators / "baselines" / "true-torque"
        )

    def _uan(
        self, train: "Trajectories | None", robot: "Robot", bars: Any
    ) -> "tuple[Ensemble, str]":
        """UAN's network, and a sentence on how it came to be."""
        import time
        from dataclasses import replace

        from genan.errors import SettingError
        from genan.rl.uan import UanSettings, fit_uan, kept_uan

        if train is None:
            raise SettingError("--uan learns from the training recording; give it by --train-data.")
        settings = (
            UanSettings()
            if self.uan_steps is None
            else replace(UanSettings(), steps=self.uan_steps)
        )
        folder = self.actuators / "baselines" / "uan"
        kept = kept_uan(folder, train.fingerprint, settings)
        if kept is not None:
            return (
                kept,
                f"UAN: trained earlier, {kept.record['training']['steps']} steps, from {folder}.",
            )
        begun = time.perf_counter()
        found = fit_uan(
            train,
            robot,
            out=folder,
            settings=settings,
            progress=lambda at: bars("training UAN", at.steps, at.total),
        )
        seconds = time.perf_counter() - begun
        return (
            found,
            f"UAN: trained for {found.record['training']['steps']} steps in {seconds:.0f} s, in {folder}.",
        )

    def _keep(self, ensemble: "Ensemble", found: "Evaluation", folder: Path) -> None:
        """All numbers into ``evaluation.json``, the headline into the artifact."""
        from genan.actuator import save
        from genan.evaluation.record import as_json, headline
        from genan.report.verdict import verdict

        _write_json(folder / "evaluation.json", as_json(found), verdict(found))
        save(ensemble.with_record(metrics=headline(found)), self.actuators)


def _write_json(path: Path, content: dict[str, Any], verdict: tuple[str, ...]) -> None:
    import json

    from genan.files import write_atomically

    write_atomically(path, (json.dumps({**content, "verdict": list(verdict)}) + "\n").encode())


def _names(paths: list[Path]) -> list[str]:
    """What to call each artifact: its folder's name, or its path where two have the same name."""
    names = [path.name or str(path) for path in paths]
    names = [
        str(path) if names.count(name) > 1 else name
        for name, path in zip(names, paths, strict=True)
    ]
    return [name if names.index(name) == k else f"{name} ({k + 1})" for k, name in enumerate(names)]


class _Bars:
    """A progress bar for each part of the work, on ``console``."""

    def __init__(self, console: "Console") -> None:
        from genan.cli.terminal import progress_bar

        self._bar = progress_bar(console)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "_Bars":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` of ``what``."""
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done)
