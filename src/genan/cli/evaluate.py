"""Judge fitted actuators on a recording they were not fitted to.

Position errors one step ahead and open loop, with 95 % intervals over trajectories, beside models to beat; the
held-control test; and pictures of all of it. The headline is kept in the artifact.
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
    data: Path
    """A recording that it was not fitted to."""
    compare: tuple[Path, ...] = ()
    """Other artifacts to judge beside it."""
    robot: str | None = None
    """The robot: a bundled robot's name or the path of a robot.toml; left out, the one that it was fitted for."""
    train_data: Path | None = None
    """The recording that the baselines are fitted to; left out, the one that the actuators were fitted to."""
    horizon: int = 500
    """Steps of the open-loop rollouts."""
    true_torque: bool = False
    """Also judge a network trained on true torques, what a torque sensor would buy. Only for recordings of a virtual
    robot that have them; it is trained the first time, which takes its time, and kept in the artifact."""
    uan: bool = False
    """Also judge an unsupervised actuator net, a network taught by reinforcement learning on the same recording; it is
    trained the first time, for a minute or two, and kept in the artifact."""
    uan_steps: int | None = None
    """Steps of its training; left out: as many as were measured to be worth it."""
    out: Path | None = None
    """Folder for the pictures and evaluation.json; it must not exist yet, unless --overwrite is given. Left out:
    'evaluation' in the artifact, made anew each time."""
    overwrite: bool = False
    """Replace what an earlier run put into --out."""

    def run(self) -> int:
        """Judge, print, draw, keep the headline; exit code."""
        from rich.console import Console

        from genan.cli.output import check_folder

        folder = self.out or self.actuators / "evaluation"
        check_folder(folder, overwrite=self.overwrite or self.out is None)

        from genan.compilation import use_cache

        use_cache()
        from genan.actuator import load
        from genan.cli.evaluation_tables import print_evaluation
        from genan.evaluation import evaluate
        from genan.evaluation.actuators import load_robot
        from genan.report.actuators import save_figures

        ensemble = load(self.actuators)
        names = _names([self.actuators, *self.compare])
        others = {name: load(path) for name, path in zip(names[1:], self.compare, strict=True)}
        robot = load_robot(ensemble, self.robot)
        screen = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        with _Bars(screen) as bars:
            train, missing = self._training_data(ensemble)
            if self.true_torque:
                others["true torques"] = self._true_torques(ensemble, robot, train is not None, bars)
            if self.uan:
                others["UAN"], words = self._uan(train, robot, bars)
                screen.print(words)
            found = evaluate(
                ensemble,
                self.data,
                robot,
                name=names[0],
                compare=others,
                train=train,
                horizon=self.horizon,
                progress=bars,
            )
        console = Console(highlight=False)
        print_evaluation(console, found, missing=missing)
        paths = save_figures(found, folder)
        self._keep(ensemble, found, folder)
        for path in (*paths, folder / "evaluation.json"):
            console.print(f"Wrote {path}", markup=False, soft_wrap=True)
        return 0

    def _train_paths(self, ensemble: "Ensemble") -> list[Path]:
        """The training recordings; several when the actuators were fitted to several."""
        if self.train_data is not None:
            return [self.train_data]
        found = ensemble.record.get("data", {}).get("path") or []
        return [Path(path) for path in ([found] if isinstance(found, str) else found)]

    def _training_data(self, ensemble: "Ensemble") -> "tuple[Trajectories | None, str | None]":
        """The recording to fit baselines to; or None, and why not."""
        from genan.data import Trajectories, load
        from genan.errors import GenanError

        if self.train_data is not None:
            return load(self.train_data), None
        hint = "the baselines were left out; give the training recording by --train-data."
        paths, fingerprint = self._train_paths(ensemble), ensemble.record.get("data", {}).get("fingerprint")
        if not paths or not fingerprint:
            return None, f"The artifact does not say what it was fitted to, so {hint}"
        gone = [path for path in paths if not path.exists()]
        if gone:
            return None, f"The training recording {gone[0]} is not there any more, so {hint}"
        try:
            recording = Trajectories.concatenate([load(path) for path in paths]) if len(paths) > 1 else load(paths[0])
        except GenanError as error:
            return None, f"The training recording cannot be read ({str(error).rstrip('.')}), so {hint}"
        if recording.fingerprint != fingerprint:
            return None, f"{paths[0]} is not the recording that the actuators were fitted to any more, so {hint}"
        return recording, None

    def _true_torques(self, ensemble: "Ensemble", robot: "Robot", known: bool, bars: Any) -> "Ensemble":
        from genan.actuator.baselines.true_torque import has_true_torque, true_torque_baseline
        from genan.errors import SettingError

        if not known or len(self._train_paths(ensemble)) > 1:
            raise SettingError("--true-torque needs one training recording; give it by --train-data.")
        train = self._train_paths(ensemble)[0]
        if not has_true_torque(train):
            raise SettingError(
                f"{train} holds no true torques, which --true-torque learns from; record on a virtual robot with "
                "--truth-for-evaluation-only, or leave --true-torque out."
            )
        return true_torque_baseline(ensemble, train, robot, bars, out=self.actuators / "baselines" / "true-torque")

    def _uan(self, train: "Trajectories | None", robot: "Robot", bars: Any) -> "tuple[Ensemble, str]":
        """UAN's network, and a sentence on how it came to be."""
        import time
        from dataclasses import replace

        from genan.errors import SettingError
        from genan.rl.uan import fit_uan, kept_uan
        from genan.rl.uan_settings import UanSettings

        if train is None:
            raise SettingError("--uan learns from the training recording; give it by --train-data.")
        settings = UanSettings() if self.uan_steps is None else replace(UanSettings(), steps=self.uan_steps)
        folder = self.actuators / "baselines" / "uan"
        kept = kept_uan(folder, train.fingerprint, settings)
        if kept is not None:
            return kept, f"UAN: trained earlier, {kept.record['training']['steps']} steps, from {folder}."
        begun = time.perf_counter()
        found = fit_uan(
            train, robot, out=folder, settings=settings, progress=lambda at: bars("training UAN", at.steps, at.total)
        )
        seconds = time.perf_counter() - begun
        return found, f"UAN: trained for {found.record['training']['steps']} steps in {seconds:.0f} s, in {folder}."

    def _keep(self, ensemble: "Ensemble", found: "Evaluation", folder: Path) -> None:
        """All numbers into ``evaluation.json``, the headline into the artifact."""
        import json

        from genan.actuator import Ensemble, save
        from genan.evaluation.record import as_json, headline
        from genan.files import write_atomically

        write_atomically(folder / "evaluation.json", (json.dumps(as_json(found)) + "\n").encode())
        record = {**ensemble.record, "metrics": headline(found)}
        save(
            Ensemble(ensemble.contract, ensemble.layers, ensemble.scaling, json.dumps(record, sort_keys=True)),
            self.actuators,
        )


def _names(paths: list[Path]) -> list[str]:
    """What to call each artifact: its folder's name, or its path where two have the same name."""
    names = [path.name or str(path) for path in paths]
    names = [str(path) if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)]
    return [name if names.index(name) == k else f"{name} ({k + 1})" for k, name in enumerate(names)]


class _Bars:
    """A progress bar for each part of the work, on ``console``."""

    def __init__(self, console: "Console") -> None:
        from genan.cli.progress import progress_bar

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
