"""``fit``: from a recording to fitted actuators. Inspect, refuse, choose, train, keep.

How free a model may be is chosen by cross-validation over whole recordings. Every candidate, from a
linear model to a network without one, has one network (or linear model) for each fold of the
recordings, which never sees that fold; what they predict there, one step ahead and open loop,
decides. A network must be better than the best linear model in both, by more than chance would have
it, or the linear model is the result. Among networks that are, those come first that no linear
model and no baseline surpasses in either. The networks of the chosen candidate are the ensemble:
nothing is trained twice.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from genan.actuator.contract import CONTRACT, KIND
from genan.actuator.dataset import SharedData
from genan.actuator.ensemble import Ensemble
from genan.actuator.ensemble import load as load_actuators
from genan.actuator.errors import HeldOutErrors, HeldOutSamples, JobProgress, relative_errors
from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting, keep
from genan.actuator.settings import FitSettings
from genan.actuator.training import KINDS
from genan.actuator.tuning import SAMPLES, Tuning, tune
from genan.data import (
    Inspection,
    Trajectories,
    inspect,
    load,
    read_truth_for_evaluation_only,
    summary,
)
from genan.data.inspection import obstacles
from genan.errors import ActuatorError, DataError, SettingError
from genan.files import sentences
from genan.robot import Robot

AnyRobot = Robot | Path | str
Baselines = Mapping[str, HeldOutErrors]

MOST_TO_CHOOSE = 150_000
"""Samples up to which a model is chosen unasked and a ``Reference`` to them is kept."""
MOST_TO_INSPECT = 10_000  # Samples of a larger recording that are looked at before a fit.
SENTENCES = Path(__file__).with_name("choice.txt")
CANDIDATES = "candidates"  # Folder of the unfinished choice within the folder of a fit.
FOLDS = 5  # Folds that the recordings are cut into; each network leaves out another.
LENGTHS = (1, 3, 5, 10)  # Past samples that a linear model is tried with.
MANY = 80_000  # Samples above which fewer models are tried: networks take longer then.
STEPS = 30_000, 50_000  # Steps of training that a network gets, about: of few samples and of many.
BETTER = 0.99  # Part of the simpler model's error that a freer one must stay below.
DECAY = 0.1  # Weight decay of networks on a base.
REPEATED = {"epochs", "batch", "batch_size", "rate", "learning_rate", "schedule", "validation"}
REPEATED |= {"split_seed"}  # Settings that a network on true torques takes over.
CHOSEN = ["base", "folds", "hidden", "history_length", "weight_decay", "members", "epochs"]
CHOSEN += ["batch_size", "learning_rate", "loss"]  # Settings that a choice makes.
TUNED = ["history_noise", "control_noise", "history_length", "history_stride", "base", "loss"]
"""With one of these given, noise and history of a large recording are not chosen."""


def fit(
    data: Path | str | list[Path | str] | tuple[Path | str, ...] | Trajectories,
    robot: Robot | Path | str,
    *,
    out: Path | str | None = None,
    choose: Literal["auto", "always", "never"] = "auto",
    from_: Ensemble | Path | str | None = None,
    anyway: bool = False,
    overwrite: bool = False,
    observer: FitObserver | None = None,
    **settings: Any,
) -> Ensemble:
    """Learn what the actuators do: from positions and controls alone to joint torques.

    The recording is inspected, and refused where nothing can be learnt from it. With few data the
    model is chosen by cross-validation over whole recordings: a linear or parametric torque model
    alone, networks on what that leaves, or networks alone. ``genan fit`` does the same, to the
    byte.

    Args:
        data: a recording: ``Trajectories`` (q [rad or m], u in its own units), or one or several
            files.
        robot: the robot it was made on: a ``Robot``, a bundled robot's name, or the path of a
            ``robot.toml``.
        out: folder for the artifact, checkpoints and TensorBoard events; left out, nothing is
            written. A fit that was interrupted continues from its last checkpoint when the same
            call is repeated.
        choose: whether to choose the model by cross-validation. "auto": for up to 150,000 samples,
            unless a setting that the choice would make is given.
        from_: an ensemble to continue from, or its folder, with its history, networks and scaling.
        anyway: continue although the recording looks as if nothing could be learnt from it.
        overwrite: replace what an earlier fit left in ``out``.
        observer: functions that are called while the fit runs.
        settings: fields of ``FitSettings``, as ``loss="torque"``, ``history_length=10``,
            ``epochs=30``.

    Returns:
        The ensemble; ``ensemble.torque(q_history, u_history)`` gives torques [N m or N],
        ``ensemble.record`` says how it was made.
    """
    made, observer = FitSettings.from_settings(settings), observer or FitObserver()
    if out is not None:
        if isinstance(from_, Path | str) and Path(from_).resolve() == Path(out).resolve():
            raise SettingError(f"--from and --out are the same folder, {out}; give another --out.")
        if not overwrite:
            KIND.clear(Path(out), overwrite=False)
    loaded = Robot.load(robot)
    heads: list[Any] = [data] if isinstance(data, Trajectories | Path | str) else list(data)
    heads = [one if isinstance(one, Trajectories) else summary(one) for one in heads]
    samples = sum(len(one.q) if isinstance(one, Trajectories) else one.samples for one in heads)
    chooses = _chooses(choose, made, samples, observer, continues=from_ is not None)
    shared = SharedData.read(data, loaded) if samples <= MOST_TO_CHOOSE or chooses else None
    some = shared.trajectories if shared is not None else _some(heads, samples)
    # A choice tries the delay that the recording shows.
    reach = len(some.q) if chooses and not made.delay else made.history.reach
    inspection = inspect(some)
    found = obstacles(some, inspection, history_reach=reach)
    if found and not anyway:
        raise DataError(f"{' '.join(found)} To fit all the same, give --anyway.")
    for sentence in found:
        observer.note(f"continuing anyway: {sentence}")
    del some
    if shared is not None and chooses:
        recordings = len(set(shared.trajectories.recordings))
        lag, delays = inspection.lag, [made.delay]
        if lag.steps and not made.delay:
            late = f"{lag.steps} samples ({1e3 * lag.steps * lag.dt:.3g} ms)"
            observer.note(f"Commands seem to act {late} late: that is tried.")
            # It is right to a sample, and one too many hides the command.
            delays = sorted({0, lag.steps - 1, lag.steps})
        known = f"{recordings} recordings, {samples} samples"
        observer.note(f"{known}: the model is chosen by cross-validation.")
        return choose_model(
            shared, robot, made, observer, out=out, delays=delays, overwrite=overwrite
        )
    tuning = None
    if shared is None and choose == "auto" and from_ is None and not _given(made, TUNED):
        tuning = _tuned(_some(heads, samples, SAMPLES), loaded, made, inspection, observer)
        made = tuning.settings
    reference = shared.trajectories if shared is not None and out is not None else None
    fitting = Fitting(
        shared or data, robot, made, out=out, start=from_, overwrite=overwrite, reference=reference
    )
    if tuning is not None:
        fitting.record["tuning"] = tuning.record()
    del data, heads, shared
    observer.begin(fitting)
    return fitting.run(observer)


def _given(made: FitSettings, names: list[str]) -> list[str]:
    """Those of the settings that are not left to genan."""
    return [name for name in names if getattr(made, name) != getattr(FitSettings(), name)]


def _tuned(
    some: Trajectories, robot: Robot, made: FitSettings, found: Inspection, observer: FitObserver
) -> Tuning:
    """Settings chosen on some of the recording; says so."""
    noise = float(np.median([one.noise for one in found.joints])) / math.sqrt(6.0)
    observer.note(f"{len(some.q)} samples of it: noise and history are chosen by open-loop errors.")
    tuning = tune(some, robot, made, noise=noise, observer=observer)
    for line in sentences(SENTENCES, "tuned", tuning, some.channels.joint_units):
        observer.note(line)
    return tuning


def _chooses(
    choose: str, settings: FitSettings, samples: int, observer: FitObserver, *, continues: bool
) -> bool:
    """Whether the model is chosen by cross-validation; notes why not where it might be expected."""
    if choose not in ("auto", "always", "never"):
        raise SettingError(f"choose must be 'auto', 'always' or 'never', not {choose!r}.")
    if choose == "always" and continues:
        raise SettingError("--from continues with its networks; leave out --choose always.")
    if choose != "auto" or continues or samples > MOST_TO_CHOOSE:
        return choose == "always"
    if given := _given(settings, CHOSEN):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        why = f"{flags} given, so the model is not chosen by cross-validation"
        observer.note(f"{why} (--choose always does).")
    return not given


def _some(heads: list[Any], samples: int, most: int = MOST_TO_INSPECT) -> Trajectories:
    """Evenly spread trajectories of a large recording: about ``most`` of its samples."""
    parts = []
    for head in heads:
        count = min(len(head), max(2, round(most / samples * len(head))))
        chosen = np.linspace(0, len(head) - 1, count).round().astype(int)
        in_memory = isinstance(head, Trajectories)
        parts.append(head.select(chosen) if in_memory else load(head.path, chosen))
    return parts[0] if len(parts) == 1 else Trajectories.concatenate(parts)


def true_torque_baseline(
    ensemble: Ensemble, path: Path | str, robot: Robot, say: JobProgress | None = None, *, out: Path
) -> Ensemble:
    """What a torque sensor would buy: a network like those of ``ensemble``, trained on the true
    torques in ``path`` that only a virtual robot knows. For evaluation only. It is kept in
    the folder ``out`` and trained only when that does not hold it yet."""

    def identity(one: Ensemble) -> tuple[Any, Any]:
        contract = replace(one.contract, members=1, loss="", q_seen=(), u_seen=())
        return contract, one.record.get("data", {}).get("fingerprint")

    with suppress(ActuatorError):
        kept = load_actuators(out)
        if identity(kept) == identity(ensemble):
            return kept
    recorded = ensemble.record.get("settings", {})
    made = FitSettings.from_settings({k: v for k, v in recorded.items() if k in REPEATED})
    shape = ensemble.contract.architecture
    shape = replace(shape, hidden=shape.hidden or made.hidden)
    made = made.shaped(ensemble.contract.history, shape)
    settings = replace(made, loss="torque", members=1, allow_constant=True)
    shown = lambda now: say and say("training on true torques", now.epoch, now.epochs)
    tau = read_truth_for_evaluation_only(path)["tau"]
    fitting = Fitting(path, robot, settings, out=out, overwrite=True, true_torque=tau)
    return fitting.run(FitObserver(progress=shown))


# --- The choice of the model.


@dataclass(frozen=True, eq=False)
class Candidate:
    """One model that was tried, and its errors on what it left out."""

    name: str  # Short, for a table and a folder.
    words: str  # What it is, for a sentence.
    settings: FitSettings
    errors: HeldOutErrors
    relative: Float[np.ndarray, " 2"]  # Joint means; constant velocity, standing still have 1.

    @property
    def score(self) -> float:
        """Geometric mean of both errors."""
        return float(np.sqrt(np.prod(self.relative)))

    def beats(self, other: "Candidate") -> bool:
        """Whether it is no worse in either and clearly better in all."""
        no_worse = bool((self.relative <= other.relative).all())
        return no_worse and self.score < BETTER * other.score


Judged = Sequence[Candidate]


def linear_models(made: FitSettings, longest: int, delays: Sequence[int]) -> list[FitSettings]:
    """Base torque models alone, with histories of up to ``longest`` samples and each delay."""
    lengths = [length for length in LENGTHS if length <= longest] or [max(1, longest)]
    if made.history_length != FitSettings().history_length:
        lengths = [made.history_length]
    alone = replace(made, balance=made.loss == "position", hidden=(), folds=FOLDS, members=FOLDS)
    return [
        replace(alone, base=kind, history_length=length, delay=delay)
        for delay in delays
        for kind in KINDS
        for length in (lengths[:1] if kind == "parametric" else lengths)
    ]


def networks(
    settings: FitSettings, best: Candidate, nearest: Candidate, *, longest: int, samples: int
) -> list[FitSettings]:
    """Networks on the residual of linear models of every kind, and without any: what a network can
    add, the ``best`` linear model need not have, and a long history that blurs an encoder's steps,
    that of the one ``nearest`` one step ahead, serves a network as well. With many ``samples`` they
    get the ``longest`` history that was tried."""
    default, base, many = FitSettings(), best.settings, samples >= MANY
    large = (128, 128) if many else (64, 64) if samples >= 20_000 else (32, 32)
    sizes = [large] if many else [(16,), large]
    if settings.hidden != default.hidden:
        sizes = [tuple(settings.hidden)]
    batch_size, epochs = settings.batch_size or (128 if many else 64), settings.epochs
    if epochs == default.epochs:
        epochs = min(max(round(STEPS[many] * batch_size / samples), 15), 80)
    rate = settings.learning_rate or (3e-3 if samples < 20_000 else 1e-3)
    common = replace(base, batch_size=batch_size, epochs=epochs, learning_rate=rate)
    short = longest if many else max(base.history_length, 3)
    if settings.history_length != default.history_length:
        short = base.history_length
    long = max(nearest.settings.history_length, short)
    tried = [(base.base, size, short) for size in sizes]
    if not many:
        others = [kind for kind in ("both", "parametric") if kind != base.base]
        tried += [(kind, sizes[-1], short) for kind in others]
        tried += [("both", sizes[-1], long)] * (long > short)
    found = []
    for kind, hidden, length in [*tried, ("none", sizes[-1], short)]:
        decay = 0.0 if kind == "none" or hidden == (16,) else DECAY
        shape = replace(common, base=kind, hidden=hidden, history_length=length)
        found.append(replace(shape, weight_decay=decay))
    return found


def named(settings: FitSettings) -> tuple[str, str]:
    """What to call the model of these settings, short and in words."""
    said = (sentences(SENTENCES, macro, settings) for macro in ("name", "words"))
    name, words = map(" ".join, said)
    return name, words


def explain(judged: Judged, baselines: Baselines, seconds: float, *, cut: bool) -> list[str]:
    """The choice in words, by rollouts of ``seconds`` over recordings or stretches (``cut``)."""
    best, chosen = decide(judged, baselines)
    free = [one for one in judged if one.settings.hidden]
    rival = min(free, key=lambda one: one.score) if chosen is best else chosen
    means = ((name, *(chosen.errors / other).mean(axis=1)) for name, other in baselines.items())
    behind = [row for row in means if max(row[1:]) > 1.0]
    ratios = rival.relative / best.relative
    facts = chosen, chosen is best, rival, ratios, behind, seconds, cut
    return [*sentences(SENTENCES, "explain", *facts)]


def choose_model(
    data: SharedData,
    robot: AnyRobot,
    settings: FitSettings,
    observer: FitObserver,
    *,
    out: Path | str | None = None,
    delays: Sequence[int] = (0,),
    overwrite: bool = False,
) -> Ensemble:
    """Try everything, choose, save; what ``genan.fit`` does with few data. ``record["choice"]`` of
    the result has every error [rad or m], and the words. The candidates share ``settings`` and
    differ in what is left to a choice, ``delays`` of the commands [samples] among it. Until the end
    they are kept in ``out``: where the observer stops it, the same call continues from there."""
    folder = None if out is None else Path(out)
    if folder is not None:
        KIND.clear(folder, overwrite=overwrite)
        if overwrite:
            shutil.rmtree(folder / CANDIDATES, ignore_errors=True)
    trajectories = data.trajectories
    shortest = int(np.median(trajectories.lengths)) - max(delays) - 3
    linear = linear_models(settings, shortest, delays)
    reach = max(one.history.reach for one in linear)
    judged: list[Candidate] = []
    ensembles: dict[str, Ensemble] = {}
    tried = [*linear]
    for number, made in enumerate(tried, 1):  # grows when the linear ones are done
        name, words = named(made)
        observer.candidate(name, number, len(tried))
        fitting, ensembles[name] = _fit_candidate(made, data, robot, folder, observer)
        dataset = fitting.dataset
        if number == 1:
            held_out = HeldOutSamples.of(dataset, trajectories, reach=reach)
            baselines = held_out.judge_baselines(dataset)
        errors = held_out.judge(ensembles[name], dataset, fitting.dynamics)
        judged.append(Candidate(name, words, made, errors, relative_errors(errors, baselines)))
        if number == len(linear):
            best = min(judged, key=lambda one: one.score)
            nearest = min(judged, key=lambda one: one.relative[0])
            longest, samples = max(x.history_length for x in linear), sum(map(len, dataset.parts))
            tried += networks(settings, best, nearest, longest=longest, samples=samples)
    best, chosen = decide(judged, baselines)
    seconds = held_out.steps * trajectories.dt

    plain = lambda row: [float(f"{value:.6g}") for value in row]
    table = lambda errors: {"one_step": plain(errors[0]), "rollout": plain(errors[1])}
    choice = {
        "by": "stretches" if dataset.cut else "recordings",
        "rollout_steps": held_out.steps,
        "chosen": chosen.name,
        "linear": best.name,
        "tried": {one.name: table(one.errors) | {"score": one.score} for one in judged},
        "baselines": {name: table(errors) for name, errors in baselines.items()},
        "words": explain(judged, baselines, seconds, cut=dataset.cut),
    }
    ensemble = ensembles[chosen.name].with_record(choice=choice)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        keep(ensemble, folder, trajectories)
        shutil.rmtree(folder / CANDIDATES, ignore_errors=True)
    return ensemble


def _fit_candidate(
    made: FitSettings, data: SharedData, robot: AnyRobot, out: Path | None, observer: FitObserver
) -> tuple[Fitting, Ensemble]:
    """A candidate's ensemble: of an earlier run, on the same data and settings, or new."""
    folder = kept = None
    if out is not None and made.hidden:  # a linear model is solved at once
        folder = out / CANDIDATES / named(made)[0].replace(" ", "-")
    try:
        if observer.stopping():
            raise FitInterruptedError
        if folder is not None and (folder / CONTRACT).exists():
            with suppress(ActuatorError):
                kept = load_actuators(folder)
                same = kept.record.get("settings") == made.settings()
                data_same = kept.record["data"]["fingerprint"] == data.trajectories.fingerprint
                kept = kept if same and data_same else None
            folder = None
        fitting = Fitting(data, robot, made, out=folder)
        return fitting, kept or fitting.run(observer)
    except FitInterruptedError:
        safe = f"; what was finished is safe in {out}" if out is not None else ""
        then = "the same command continues from there"
        raise FitInterruptedError(f"stopped{safe}; {then}.") from None


def decide(judged: Judged, baselines: Baselines) -> tuple[Candidate, Candidate]:
    """The best linear model, and the result."""
    linear = [one for one in judged if not one.settings.hidden]
    best = min(linear, key=lambda one: one.score)
    better = [one for one in judged if one.settings.hidden and one.beats(best)]
    others = [relative_errors(errors, baselines) for errors in baselines.values()]
    least = np.min([*others, *(one.relative for one in linear)], axis=0)
    unsurpassed = [one for one in better if (one.relative <= least).all()]
    return best, min(unsurpassed or better, key=lambda one: one.score, default=best)
