"""How free a model may be: what ``genan fit`` tries, from a linear model to a network without
one.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from genan.actuator import artifact
from genan.actuator.base import KINDS
from genan.actuator.dataset import Data, load_all
from genan.actuator.ensemble import Ensemble
from genan.actuator.errors import Errors, Examination, judge_baselines, judge_ensemble
from genan.actuator.fit import Fitting, Progress
from genan.actuator.settings import FitSettings
from genan.errors import ActuatorError, SettingError
from genan.robot import Robot

FOLDS = 5
"""Parts that the recordings are cut into; each network leaves out another."""

LENGTHS = (1, 3, 5, 10)
"""Past samples that a linear model is tried with."""

MANY = 80_000
"""Samples from which the linear models matter less and networks take longer: fewer of them are
tried."""

STEPS = 30_000, 50_000
"""Steps of training that a network gets, about: of few samples and of many."""

_DECAY = 0.1


@dataclass(frozen=True)
class Candidate:
    """One model to try."""

    name: str
    """Short, for a table and a folder."""
    words: str
    """What it is, for a sentence."""
    settings: FitSettings

    @property
    def linear(self) -> bool:
        """Whether it is the base torque model alone."""
        return not self.settings.hidden


def linear_candidates(
    settings: FitSettings, *, longest: int, delays: Sequence[int]
) -> list[Candidate]:
    """Base torque models alone, of every kind, with histories of up to ``longest`` samples and each
    of ``delays``."""
    lengths = [length for length in LENGTHS if length <= longest] or [max(1, longest)]
    if settings.history_length != FitSettings().history_length:
        lengths = [settings.history_length]
    found = []
    for delay in delays:
        late = f", delay {delay}" if delay else ""
        for kind in KINDS:
            for length in lengths[:1] if kind == "parametric" else lengths:
                made = replace(
                    settings,
                    base=kind,
                    balance=settings.loss == "position",
                    hidden=(),
                    folds=FOLDS,
                    members=FOLDS,
                    history_length=length,
                    delay=delay,
                )
                found.append(
                    Candidate(f"{kind}, H {length}{late}", _base_words(kind, length, delay), made)
                )
    return found


def network_candidates(
    settings: FitSettings, best: Candidate, nearest: Candidate, *, longest: int, samples: int
) -> list[Candidate]:
    """Networks on the residual of linear models of every kind, and without any.

    The kinds are not left to the best linear model alone, nor is the length of the history: what a
    network can add, the model below it need not have, and a long history that blurs an encoder's
    steps serves a network as well.

    Args:
        settings: of the fit.
        best: the best linear model.
        nearest: the one that is best one step ahead.
        longest: past samples of the longest history that was tried, which networks get who have
            many samples.
        samples: to learn from.
    """
    default = FitSettings()
    large = (128, 128) if samples >= MANY else (64, 64) if samples >= 20_000 else (32, 32)
    sizes = [(16,), large] if samples < MANY else [large]
    if settings.hidden != default.hidden:
        sizes = [tuple(settings.hidden)]
    base = best.settings
    batch = settings.batch or (128 if samples >= MANY else 64)
    epochs = settings.epochs
    if epochs == default.epochs:
        epochs = min(max(round(STEPS[samples >= MANY] * batch / samples), 15), 80)
    common = replace(
        base, batch=batch, epochs=epochs, rate=settings.rate or (3e-3 if samples < 20_000 else 1e-3)
    )

    def made(kind: str, hidden: tuple[int, ...], decay: float, length: int) -> Candidate:
        size = "x".join(map(str, hidden))
        on = f"on {_base_words(kind, length, base.delay)}" if kind != "none" else "alone"
        settings = replace(
            common, base=kind, hidden=hidden, weight_decay=decay, history_length=length
        )
        name = f"{kind} + network {size}" if kind != "none" else f"network {size} alone"
        return Candidate(
            f"{name}, H {length}", f"networks of {size} with a history of {length} {on}", settings
        )

    given = settings.history_length != default.history_length
    short = (
        base.history_length if given else max(base.history_length, 3) if samples < MANY else longest
    )
    long = max(nearest.settings.history_length, short)
    found = [made(base.base, size, 0.0 if size == (16,) else _DECAY, short) for size in sizes]
    if samples < MANY:
        others = [kind for kind in ("both", "parametric") if kind != base.base]
        found += [made(kind, sizes[-1], _DECAY, short) for kind in others]
        found += [made("both", sizes[-1], _DECAY, long)] * (long > short)
    return [*found, made("none", sizes[-1], 0.0, short)]


def _base_words(kind: str, length: int, delay: int) -> str:
    what = {
        "linear": f"a model that is linear in a history of {length}",
        "parametric": "a parametric model (gain, spring, viscous and Coulomb friction, gravity, offset)",
        "both": f"a parametric model that is also linear in a history of {length}",
    }[kind]
    return f"{what}, commands {delay} samples late" if delay else what


# --- Choosing how free a model may be, by cross-validation over whole recordings.

CANDIDATES = "candidates"
"""Folder of the unfinished choice within the folder of a fit."""

BETTER = 0.99
"""A freer model must bring the error below this part of the simpler one's: its epochs were chosen
on the same part."""

Report = Callable[[str, int, int, Progress | None], None]
"""Told which candidate is being fitted, its number, how many there are, and where its training
stands."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate and its errors on what it left out."""

    candidate: Candidate
    errors: Errors
    one_step: float
    """Mean over the joints of the error one step ahead, relative to constant velocity."""
    rollout: float
    """The same open loop, relative to standing still."""

    @property
    def score(self) -> float:
        """Geometric mean of both."""
        return float(np.sqrt(self.one_step * self.rollout))

    def beats(self, other: "Judged") -> bool:
        """Whether it is no worse in either and clearly better in all."""
        no_worse = self.one_step <= other.one_step and self.rollout <= other.rollout
        return no_worse and self.score < BETTER * other.score


@dataclass(frozen=True, eq=False)
class Choice:
    """What was tried, what was chosen, and why."""

    judged: tuple[Judged, ...]
    baselines: tuple[Errors, ...]
    linear: Judged
    """The best linear model."""
    chosen: Judged
    steps: int
    """Of the rollouts."""
    dt: float
    """[s]"""
    units: tuple[str, ...]
    """Of the joints."""
    cut: bool
    """Whether recordings had to be cut to be cross-validated."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The choice in words."""
        chosen, linear = self.chosen, self.linear
        found = [f"Chosen by cross-validation over whole recordings: {chosen.candidate.words}."]
        if self.cut:
            found[0] = (
                f"Chosen by cross-validation over stretches of the recordings: {chosen.candidate.words}."
            )
            found.append(
                "There are too few recordings to leave whole ones out; more would say more."
            )
        if chosen is linear:
            rival = min(
                (one for one in self.judged if not one.candidate.linear), key=lambda one: one.score
            )
            found.append(
                f"No network was better than it on what was left out; the best of them, {rival.candidate.name}, had "
                f"{rival.one_step / linear.one_step:.3g} times its error one step ahead and "
                f"{rival.rollout / linear.rollout:.3g} times after {self.steps * self.dt:.3g} s."
            )
        else:
            found.append(
                f"On what was left out its error is {chosen.one_step / linear.one_step:.3g} times that of the best "
                f"linear model one step ahead, and {chosen.rollout / linear.rollout:.3g} times after "
                f"{self.steps * self.dt:.3g} s."
            )
        for one in self.baselines:
            ahead, open_loop = (
                float(np.mean(mine / theirs))
                for mine, theirs in (
                    (chosen.errors.one_step, one.one_step),
                    (chosen.errors.rollout, one.rollout),
                )
            )
            if ahead > 1.0 or open_loop > 1.0:
                found.append(
                    f"Beware: {one.name} is better there {'one step ahead' if ahead > 1.0 else 'open loop'} "
                    f"({max(ahead, open_loop):.3g} times as accurate): the recordings say too little, or the robot's "
                    "model is wrong."
                )
        return tuple(found)

    def record(self) -> dict[str, Any]:
        """For the artifact: every error [rad or m], and the words."""
        table = lambda one: {"one_step": _plain(one.one_step), "rollout": _plain(one.rollout)}  # noqa: E731
        return {
            "by": "stretches" if self.cut else "recordings",
            "rollout_steps": self.steps,
            "chosen": self.chosen.candidate.name,
            "linear": self.linear.candidate.name,
            "tried": {
                one.candidate.name: {**table(one.errors), "score": one.score} for one in self.judged
            },
            "baselines": {one.name: table(one) for one in self.baselines},
            "words": list(self.sentences),
        }


class Choosing:
    """One choice: what ``genan fit`` does with few data. A choice that was stopped goes on where it
    was."""

    def __init__(
        self,
        data: Data,
        robot: Robot | Path | str,
        settings: FitSettings,
        *,
        out: Path | str | None = None,
        delays: Sequence[int] = (0,),
        overwrite: bool = False,
    ) -> None:
        """Load the recording. ``delays``: of the commands, to choose from [samples]."""
        self.robot = robot
        self.data, self.out = data, None if out is None else Path(out)
        self.settings, self.delays = settings, tuple(delays)
        self.trajectories = load_all(data)[0]
        if self.out is not None:
            self._clear(overwrite=overwrite)

    def run(
        self, *, report: Report | None = None, stopping: Callable[[], bool] = lambda: False
    ) -> tuple[Ensemble, Choice] | None:
        """Try everything, choose, save; None when ``stopping`` said so before, with what is
        finished kept."""
        say = report or (lambda name, number, total, progress: None)
        shortest = int(np.median(self.trajectories.lengths)) - max(self.delays) - 3
        linear = linear_candidates(self.settings, longest=shortest, delays=self.delays)
        lead = max(one.settings.history.reach for one in linear)
        judged: list[Judged] = []
        ensembles: dict[str, Ensemble] = {}
        exam: Examination | None = None
        baselines: tuple[Errors, ...] = ()
        tried = list(linear)
        for number, candidate in enumerate(tried, 1):  # grows when the linear ones are done
            if stopping():
                return None
            fitting = self._fitting(candidate)
            say(candidate.name, number, len(tried), None)
            found = self._kept(candidate) or fitting.run(
                progress=lambda now: say(candidate.name, number, len(tried), now),  # noqa: B023
                stopping=stopping,
            )
            if found is None:
                return None
            if exam is None:
                exam = Examination.of(
                    fitting.dataset, lead=lead - max(candidate.settings.history.reach, 1) + 1
                )
                baselines = judge_baselines(self.trajectories, fitting.dataset, exam)
            errors = judge_ensemble(candidate.name, found, fitting.dataset, fitting.dynamics, exam)
            judged.append(Judged(candidate, errors, *_relative_errors(errors, baselines)))
            ensembles[candidate.name] = found
            if number == len(linear):
                best = min(judged, key=lambda one: one.score)
                samples = sum(map(len, fitting.dataset.parts))
                nearest = min(judged, key=lambda one: one.one_step)
                longest = max(one.settings.history_length for one in linear)
                tried += network_candidates(
                    self.settings,
                    best.candidate,
                    nearest.candidate,
                    longest=longest,
                    samples=samples,
                )
        assert exam is not None
        return self._finish(judged, baselines, ensembles, exam, fitting)

    def _finish(
        self,
        judged: list[Judged],
        baselines: tuple[Errors, ...],
        ensembles: dict[str, Ensemble],
        exam: Examination,
        fitting: Fitting,
    ) -> tuple[Ensemble, Choice]:
        linear, chosen = decide(judged, baselines)
        choice = Choice(
            tuple(judged),
            baselines,
            linear,
            chosen,
            exam.steps,
            fitting.dataset.channels.dt,
            fitting.dataset.channels.joint_units,
            fitting.dataset.cut,
        )
        found = ensembles[chosen.candidate.name]
        ensemble = found.with_record(choice=choice.record())
        if self.out is not None:
            artifact.save(ensemble, self.out)
            shutil.rmtree(self.out / CANDIDATES, ignore_errors=True)
        return ensemble, choice

    def _fitting(self, candidate: Candidate) -> Fitting:
        folder = self._folder(candidate)
        finished = folder is not None and (folder / artifact.CONTRACT).exists()
        return Fitting(self.data, self.robot, candidate.settings, out=None if finished else folder)

    def _kept(self, candidate: Candidate) -> Ensemble | None:
        """The candidate's ensemble, if an earlier run finished it on the same data with the same
        settings."""
        folder = self._folder(candidate)
        if folder is None:
            return None
        try:
            kept = artifact.load(folder)
        except ActuatorError:
            return None
        same = kept.record.get("settings") == candidate.settings.settings()
        return (
            kept
            if same and kept.record["data"]["fingerprint"] == self.trajectories.fingerprint
            else None
        )

    def _folder(self, candidate: Candidate) -> Path | None:
        if (
            self.out is None or candidate.linear
        ):  # a linear model is solved in less time than it takes to read
            return None
        return self.out / CANDIDATES / candidate.name.replace(" ", "-")

    def _clear(self, *, overwrite: bool) -> None:
        assert self.out is not None
        if self.out.exists() and not self.out.is_dir():
            raise SettingError(f"{self.out} is a file; give a folder for the actuators.")
        if (self.out / artifact.CONTRACT).exists() and not overwrite:
            raise SettingError(
                f"{self.out} holds finished actuators; give another --out, or --overwrite to fit them anew."
            )
        if overwrite:
            for name in (artifact.CONTRACT, artifact.WEIGHTS):
                (self.out / name).unlink(missing_ok=True)
            shutil.rmtree(self.out / CANDIDATES, ignore_errors=True)


def chosen_fields(settings: FitSettings) -> list[str]:
    """Settings that a choice would make and that were made by hand."""
    default = FitSettings()
    names = (
        "base",
        "folds",
        "hidden",
        "history_length",
        "weight_decay",
        "members",
        "epochs",
        "batch",
        "rate",
        "loss",
    )
    return [name for name in names if getattr(settings, name) != getattr(default, name)]


def decide(judged: Sequence[Judged], baselines: Sequence[Errors]) -> tuple[Judged, Judged]:
    """The best linear model, and what is handed out."""
    linear = min((one for one in judged if one.candidate.linear), key=lambda one: one.score)
    better = [one for one in judged if not one.candidate.linear and one.beats(linear)]
    others = [_relative_errors(one, baselines) for one in baselines]
    others += [(one.one_step, one.rollout) for one in judged if one.candidate.linear]
    ahead, open_loop = np.min(others, axis=0)
    unsurpassed = [one for one in better if one.one_step <= ahead and one.rollout <= open_loop]
    return linear, min(unsurpassed or better, key=lambda one: one.score, default=linear)


def _relative_errors(errors: Errors, baselines: Sequence[Errors]) -> tuple[float, float]:
    """Mean over the joints, one step ahead relative to constant velocity, and open loop relative to
    standing still."""
    known = {one.name: one for one in baselines}
    speed, still = known["constant velocity"].one_step, known["standing still"].rollout
    tiny = np.finfo(float).tiny
    ahead, open_loop = (
        errors.one_step / np.maximum(speed, tiny),
        errors.rollout / np.maximum(still, tiny),
    )
    return float(np.mean(ahead)), float(np.mean(open_loop))


def _plain(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
