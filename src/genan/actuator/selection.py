"""Choosing how free a model may be, by cross-validation over whole recordings.

Every candidate, from a linear model to a network without one, has one network (or linear model) for
each fold of the recordings, which never sees that fold; what they predict there, one step ahead and
open loop, decides. A network must be better than the best linear model in both, by more than chance
would have it, or the linear model is the result. Among networks that are, those come first that no
linear model and no baseline surpasses in either. The networks of the chosen candidate are the
ensemble: nothing is trained twice.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from genan.actuator import artifact
from genan.actuator.base import KINDS
from genan.actuator.dataset import Data, SharedData
from genan.actuator.ensemble import Ensemble
from genan.actuator.errors import HeldOutErrors, HeldOutSamples, judge_baselines, judge_ensemble
from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting, clear, keep
from genan.actuator.settings import FitSettings
from genan.errors import ActuatorError
from genan.robot import Robot

CANDIDATES = "candidates"  # Folder of the unfinished choice within the folder of a fit.

FOLDS = 5  # Folds that the recordings are cut into; each network leaves out another.

LENGTHS = (1, 3, 5, 10)  # Past samples that a linear model is tried with.

MANY = 80_000  # Samples above which fewer models are tried: networks take longer then.

STEPS = 30_000, 50_000  # Steps of training that a network gets, about: of few samples and of many.

BETTER = 0.99  # Part of the simpler model's error that a freer one must stay below.

_DECAY = 0.1

_CHOSEN = (
    "base folds hidden history_length weight_decay members epochs batch_size learning_rate loss"
)
"""Settings that a choice makes."""


@dataclass(frozen=True)
class Candidate:
    """One model to try."""

    name: str  # Short, for a table and a folder.
    words: str  # What it is, for a sentence.
    settings: FitSettings

    @property
    def linear(self) -> bool:
        """Whether it is the base torque model alone."""
        return not self.settings.hidden


def linear_candidates(
    settings: FitSettings, *, longest: int, delays: Sequence[int]
) -> list[Candidate]:
    """Base torque models alone, with histories of up to ``longest`` samples and each delay."""
    lengths = [length for length in LENGTHS if length <= longest] or [max(1, longest)]
    if settings.history_length != FitSettings().history_length:
        lengths = [settings.history_length]
    alone = replace(
        settings, balance=settings.loss == "position", hidden=(), folds=FOLDS, members=FOLDS
    )
    return [
        Candidate(
            f"{kind}, H {length}" + (f", delay {delay}" if delay else ""),
            _base_words(kind, length, delay),
            replace(alone, base=kind, history_length=length, delay=delay),
        )
        for delay in delays
        for kind in KINDS
        for length in (lengths[:1] if kind == "parametric" else lengths)
    ]


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
    default, base, many = FitSettings(), best.settings, samples >= MANY
    large = (128, 128) if many else (64, 64) if samples >= 20_000 else (32, 32)
    sizes = [large] if many else [(16,), large]
    if settings.hidden != default.hidden:
        sizes = [tuple(settings.hidden)]
    batch_size = settings.batch_size or (128 if many else 64)
    epochs = settings.epochs
    if epochs == default.epochs:
        epochs = min(max(round(STEPS[many] * batch_size / samples), 15), 80)
    rate = settings.learning_rate or (3e-3 if samples < 20_000 else 1e-3)
    common = replace(base, batch_size=batch_size, epochs=epochs, learning_rate=rate)

    def made(kind: str, hidden: tuple[int, ...], decay: float, length: int) -> Candidate:
        size = "x".join(map(str, hidden))
        name, on = f"network {size} alone", "alone"
        if kind != "none":
            name, on = f"{kind} + network {size}", f"on {_base_words(kind, length, base.delay)}"
        settings = replace(
            common, base=kind, hidden=hidden, weight_decay=decay, history_length=length
        )
        words = f"networks of {size} with a history of {length} {on}"
        return Candidate(f"{name}, H {length}", words, settings)

    short = longest if many else max(base.history_length, 3)
    if settings.history_length != default.history_length:
        short = base.history_length
    long = max(nearest.settings.history_length, short)
    found = [made(base.base, size, 0.0 if size == (16,) else _DECAY, short) for size in sizes]
    if not many:
        others = [kind for kind in ("both", "parametric") if kind != base.base]
        found += [made(kind, sizes[-1], _DECAY, short) for kind in others]
        found += [made("both", sizes[-1], _DECAY, long)] * (long > short)
    return [*found, made("none", sizes[-1], 0.0, short)]


def _base_words(kind: str, length: int, delay: int) -> str:
    what = {
        "linear": f"a model that is linear in a history of {length}",
        "parametric": "a parametric model (gain, spring, viscous and Coulomb friction, gravity, "
        "offset)",
        "both": f"a parametric model that is also linear in a history of {length}",
    }[kind]
    return f"{what}, commands {delay} samples late" if delay else what


@dataclass(frozen=True, eq=False)
class JudgedCandidate:
    """A candidate and its errors on what it left out."""

    candidate: Candidate
    errors: HeldOutErrors
    one_step: float
    """Mean over the joints of the error one step ahead, relative to constant velocity."""
    rollout: float  # The same open loop, relative to standing still.

    @property
    def score(self) -> float:
        """Geometric mean of both."""
        return float(np.sqrt(self.one_step * self.rollout))

    def beats(self, other: "JudgedCandidate") -> bool:
        """Whether it is no worse in either and clearly better in all."""
        no_worse = self.one_step <= other.one_step and self.rollout <= other.rollout
        return no_worse and self.score < BETTER * other.score


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """What was tried, what was chosen, and why."""

    judged: tuple[JudgedCandidate, ...]
    baselines: tuple[HeldOutErrors, ...]
    linear: JudgedCandidate  # The best linear model.
    chosen: JudgedCandidate
    steps: int  # Of the rollouts.
    dt: float  # [s]
    cut: bool  # Whether recordings had to be cut to be cross-validated.

    @property
    def sentences(self) -> tuple[str, ...]:
        """The choice in words."""
        chosen, linear, seconds = self.chosen, self.linear, f"{self.steps * self.dt:.3g} s"
        parts = "stretches of the recordings" if self.cut else "whole recordings"
        found = [f"Chosen by cross-validation over {parts}: {chosen.candidate.words}."]
        if self.cut:
            found.append(
                "There are too few recordings to leave whole ones out; more would say more."
            )
        networks = [one for one in self.judged if not one.candidate.linear]
        rival = min(networks, key=lambda one: one.score) if chosen is linear else chosen
        ahead, end = rival.one_step / linear.one_step, rival.rollout / linear.rollout
        if chosen is linear:
            found.append(
                "No network was better than it on what was left out; the best of them, "
                f"{rival.candidate.name}, had {ahead:.3g} times its error one step ahead and "
                f"{end:.3g} times after {seconds}."
            )
        else:
            found.append(
                f"On what was left out its error is {ahead:.3g} times that of the best linear "
                f"model one step ahead, and {end:.3g} times after {seconds}."
            )
        for one in self.baselines:
            ahead = float(np.mean(chosen.errors.one_step / one.one_step))
            end = float(np.mean(chosen.errors.rollout / one.rollout))
            if max(ahead, end) > 1.0:
                found.append(
                    f"Beware: {one.name} is better there "
                    f"{'one step ahead' if ahead > 1.0 else 'open loop'} ({max(ahead, end):.3g} "
                    "times as accurate): the recordings say too little, or the robot's model is "
                    "wrong."
                )
        return tuple(found)

    def record(self) -> dict[str, Any]:
        """For the artifact: every error [rad or m], and the words."""

        def table(errors: HeldOutErrors) -> dict[str, Any]:
            plain = lambda values: [float(f"{value:.6g}") for value in values]  # noqa: E731
            return {"one_step": plain(errors.one_step), "rollout": plain(errors.rollout)}

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
    """One choice: what ``genan.fit`` does with few data. A choice that was stopped continues."""

    def __init__(
        self,
        data: Data,
        robot: Robot | Path | str,
        settings: FitSettings,
        *,
        out: Path | str | None = None,
        delays: Sequence[int] = (0,),
        overwrite: bool = False,
        reference: bool = False,
    ) -> None:
        """Load the recording.

        Args:
            data: the recording.
            robot: the robot it was made on.
            settings: what all candidates share.
            out: folder for the artifact and, until then, for the candidates.
            delays: of the commands, to choose from [samples].
            overwrite: replace what an earlier fit left in ``out``.
            reference: whether to keep a ``Reference`` with the artifact.
        """
        self.robot, self.settings, self.delays = robot, settings, tuple(delays)
        self.out, self.reference = None if out is None else Path(out), reference
        if self.out is not None:
            clear(self.out, overwrite=overwrite)
            if overwrite:
                shutil.rmtree(self.out / CANDIDATES, ignore_errors=True)
        loaded = robot if isinstance(robot, Robot) else Robot.load(robot)
        self.data = data if isinstance(data, SharedData) else SharedData.read(data, loaded)

    def run(self, observer: FitObserver | None = None) -> tuple[Ensemble, ModelChoice]:
        """Try everything, choose, save; where the observer stops it, what is finished is kept."""
        observer = observer or FitObserver()
        trajectories = self.data.trajectories
        shortest = int(np.median(trajectories.lengths)) - max(self.delays) - 3
        linear = linear_candidates(self.settings, longest=shortest, delays=self.delays)
        lead = max(one.settings.history.reach for one in linear)
        judged: list[JudgedCandidate] = []
        ensembles: dict[str, Ensemble] = {}
        tried = list(linear)
        for number, candidate in enumerate(tried, 1):  # grows when the linear ones are done
            observer.candidate(candidate.name, number, len(tried))
            fitting, found = self._fit(candidate, observer)
            dataset = fitting.dataset
            if number == 1:
                first = max(candidate.settings.history.reach, 1)
                held_out = HeldOutSamples.of(dataset, lead=lead - first + 1)
                baselines = judge_baselines(trajectories, dataset, held_out)
            errors = judge_ensemble(
                candidate.name, found, dataset, fitting.dynamics, trajectories, held_out
            )
            judged.append(JudgedCandidate(candidate, errors, *_relative_errors(errors, baselines)))
            ensembles[candidate.name] = found
            if number == len(linear):
                tried += network_candidates(
                    self.settings,
                    min(judged, key=lambda one: one.score).candidate,
                    min(judged, key=lambda one: one.one_step).candidate,
                    longest=max(one.settings.history_length for one in linear),
                    samples=sum(map(len, dataset.parts)),
                )
        best, chosen = decide(judged, baselines)
        choice = ModelChoice(
            tuple(judged), baselines, best, chosen, held_out.steps, trajectories.dt, dataset.cut
        )
        ensemble = ensembles[chosen.candidate.name].with_record(choice=choice.record())
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            keep(ensemble, self.out, trajectories if self.reference else None)
            shutil.rmtree(self.out / CANDIDATES, ignore_errors=True)
        return ensemble, choice

    def _fit(self, candidate: Candidate, observer: FitObserver) -> tuple[Fitting, Ensemble]:
        """The candidate's ensemble: of an earlier run, on the same data and settings, or new."""
        folder = None
        if self.out is not None and not candidate.linear:  # a linear model is solved at once
            folder = self.out / CANDIDATES / candidate.name.replace(" ", "-")
        kept = None
        try:
            if observer.stopping():
                raise FitInterruptedError
            if folder is not None and (folder / artifact.CONTRACT).exists():
                kept = _kept(folder, candidate, self.data.trajectories.fingerprint)
                folder = None
            fitting = Fitting(self.data, self.robot, candidate.settings, out=folder)
            return fitting, kept or fitting.run(observer)
        except FitInterruptedError:
            safe = f"; what was finished is safe in {self.out}" if self.out is not None else ""
            raise FitInterruptedError(
                f"stopped{safe}, and the same command continues from there."
            ) from None


def _kept(folder: Path, candidate: Candidate, fingerprint: str) -> Ensemble | None:
    try:
        kept = artifact.load(folder)
    except ActuatorError:
        return None
    same = kept.record.get("settings") == candidate.settings.settings()
    return kept if same and kept.record["data"]["fingerprint"] == fingerprint else None


def chosen_fields(settings: FitSettings) -> list[str]:
    """Settings that a choice would make and that were made by hand."""
    default = FitSettings()
    return [name for name in _CHOSEN.split() if getattr(settings, name) != getattr(default, name)]


def decide(
    judged: Sequence[JudgedCandidate], baselines: Sequence[HeldOutErrors]
) -> tuple[JudgedCandidate, JudgedCandidate]:
    """The best linear model, and the result."""
    linear = [one for one in judged if one.candidate.linear]
    best = min(linear, key=lambda one: one.score)
    better = [one for one in judged if not one.candidate.linear and one.beats(best)]
    others = [_relative_errors(one, baselines) for one in baselines]
    others += [(one.one_step, one.rollout) for one in linear]
    ahead, open_loop = np.min(others, axis=0)
    unsurpassed = [one for one in better if one.one_step <= ahead and one.rollout <= open_loop]
    return best, min(unsurpassed or better, key=lambda one: one.score, default=best)


def _relative_errors(
    errors: HeldOutErrors, baselines: Sequence[HeldOutErrors]
) -> tuple[float, float]:
    """Means over the joints, relative to constant velocity and to standing still."""
    known, tiny = {one.name: one for one in baselines}, np.finfo(float).tiny
    speed, still = known["constant velocity"].one_step, known["standing still"].rollout
    ahead, end = errors.one_step / np.maximum(speed, tiny), errors.rollout / np.maximum(still, tiny)
    return float(np.mean(ahead)), float(np.mean(end))
