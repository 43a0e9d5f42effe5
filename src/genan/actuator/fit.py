"""``fit``: from a recording to fitted actuators. Inspect, refuse, choose, train, keep."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from genan.actuator.artifact import load as load_actuators
from genan.actuator.contract import Contract
from genan.actuator.dataset import Data, SharedData
from genan.actuator.ensemble import Ensemble
from genan.actuator.errors import JobProgress
from genan.actuator.fitting import FitObserver, FitProgress, Fitting, clear
from genan.actuator.selection import Choosing, chosen_fields
from genan.actuator.settings import FitSettings
from genan.data import (
    Inspection,
    Summary,
    Trajectories,
    inspect,
    load,
    read_truth_for_evaluation_only,
    summary,
)
from genan.data.inspection.words import obstacles
from genan.errors import ActuatorError, DataError, SettingError
from genan.robot import Robot

MOST_TO_CHOOSE = 150_000
"""Samples up to which the model is chosen by cross-validation without being asked for, and up to
which ``fit`` keeps a reference to them; of more, 'genan evaluate' does."""

MOST_TO_INSPECT = 10_000  # Samples of a larger recording that are looked at before a fit.


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
    source: Data = data
    if out is not None:
        if isinstance(from_, Path | str) and Path(from_).resolve() == Path(out).resolve():
            raise SettingError(f"--from and --out are the same folder, {out}; give another --out.")
        if not overwrite:
            clear(Path(out), overwrite=False)
    loaded = robot if isinstance(robot, Robot) else Robot.load(robot)
    heads = _heads(data)
    samples = sum(len(one.q) if isinstance(one, Trajectories) else one.samples for one in heads)
    chooses = _chooses(choose, made, samples, observer, continues=from_ is not None)
    shared = None
    if samples <= MOST_TO_CHOOSE or chooses:
        source = shared = SharedData.read(data, loaded)
    some = shared.trajectories if shared is not None else _some(heads, samples)
    found = _refuse(some, made, observer, chooses=chooses, anyway=anyway)
    del some
    if chooses:
        delays = _delays(made, found, observer)
        choosing = Choosing(
            source, robot, made, out=out, delays=delays, overwrite=overwrite, reference=True
        )
        recordings = len(set(choosing.data.trajectories.recordings))
        observer.note(
            f"{recordings} recordings, {samples} samples: the model is chosen by cross-validation."
        )
        return choosing.run(observer)[0]
    reference = shared.trajectories if shared is not None and out is not None else None
    fitting = Fitting(
        source, robot, made, out=out, start=from_, overwrite=overwrite, reference=reference
    )
    del data, heads, source, shared
    observer.begin(fitting)
    return fitting.run(observer)


def _chooses(
    choose: str, settings: FitSettings, samples: int, observer: FitObserver, *, continues: bool
) -> bool:
    """Whether the model is chosen by cross-validation; notes why not where it might be expected."""
    if choose not in ("auto", "always", "never"):
        raise SettingError(f"choose must be 'auto', 'always' or 'never', not {choose!r}.")
    if choose == "always" and continues:
        raise SettingError(
            "--from continues with the networks it is given; leave out --choose always."
        )
    if choose != "auto" or continues or samples > MOST_TO_CHOOSE:
        return choose == "always"
    given = chosen_fields(settings)
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        observer.note(
            f"{flags} given, so the model is not chosen by cross-validation (--choose always does)."
        )
    return not given


def _heads(data: Any) -> list[Trajectories] | list[Summary]:
    """The recording in memory, or what its files hold."""
    if isinstance(data, Trajectories):
        return [data]
    return [summary(path) for path in ([data] if isinstance(data, Path | str) else data)]


def _some(heads: list[Trajectories] | list[Summary], samples: int) -> Trajectories:
    """Evenly spread trajectories of a large recording that can be inspected in a second or two."""
    parts = []
    for head in heads:
        count = min(len(head), max(2, round(MOST_TO_INSPECT / samples * len(head))))
        chosen = np.linspace(0, len(head) - 1, count).round().astype(int)
        parts.append(
            head.select(chosen) if isinstance(head, Trajectories) else load(head.path, chosen)
        )
    return parts[0] if len(parts) == 1 else Trajectories.concatenate(parts)


def _refuse(
    trajectories: Trajectories,
    settings: FitSettings,
    observer: FitObserver,
    *,
    chooses: bool,
    anyway: bool,
) -> Inspection:
    """Refuse recordings from which nothing can be identified; what was found in them."""
    reach = settings.history.reach
    if chooses and not settings.delay:  # a choice tries the delay that the recording shows
        reach = len(trajectories.q)
    inspection = inspect(trajectories)
    found = obstacles(trajectories, inspection, history_reach=reach)
    if found and not anyway:
        raise DataError(f"{' '.join(found)} To fit all the same, give --anyway.")
    for sentence in found:
        observer.note(f"continuing anyway: {sentence}")
    return inspection


def _delays(settings: FitSettings, found: Inspection, observer: FitObserver) -> tuple[int, ...]:
    """Delays to choose from [samples]: the one given, or none and the one the recording shows."""
    lag = found.lag
    if settings.delay or not lag.steps:
        return (settings.delay,)
    late = f"{lag.steps} samples ({1e3 * lag.steps * lag.dt:.3g} ms)"
    observer.note(f"Commands seem to act {late} late: that is tried.")
    # It is right to a sample, and one too many hides the command.
    return tuple(sorted({0, lag.steps - 1, lag.steps}))


def has_true_torque(train_path: Path | str) -> bool:
    """Whether the recording holds true torques."""
    return "tau" in summary(train_path).truth


def true_torque_baseline(
    ensemble: Ensemble,
    train_path: Path | str,
    robot: Robot,
    progress: JobProgress | None = None,
    *,
    out: Path,
) -> Ensemble:
    """What a torque sensor would buy: a network like those of ``ensemble``, trained on the true
    torques in ``train_path`` that only a virtual robot knows. For evaluation only.

    It is kept in the folder ``out`` and trained only when that does not hold it yet. ``progress``
    is called with what is being done, how much of it is done, and how much there is.
    """
    try:
        kept = load_actuators(out)
        data = [one.record.get("data", {}).get("fingerprint") for one in (ensemble, kept)]
        if _counterpart(ensemble.contract) == _counterpart(kept.contract) and data[0] == data[1]:
            return kept
    except ActuatorError:
        pass
    past, shape = ensemble.contract.history, ensemble.contract.architecture
    names = (
        "epochs",
        "batch",
        "batch_size",
        "rate",
        "learning_rate",
        "schedule",
        "validation",
        "split_seed",
    )
    recorded = ensemble.record.get("settings", {})
    made = FitSettings.from_settings({name: recorded[name] for name in names if name in recorded})
    settings = replace(
        made,
        loss="torque",
        history_length=past.length,
        history_stride=past.stride,
        delta=past.delta,
        delay=past.delay,
        hidden=shape.hidden or made.hidden,
        activation=shape.activation,
        members=1,
        allow_constant=True,
    )

    def show(now: FitProgress) -> None:
        if progress is not None:
            progress("training on true torques", now.epoch, now.epochs)

    tau = read_truth_for_evaluation_only(train_path)["tau"]
    data_path = Path(train_path)
    fitting = Fitting(data_path, robot, settings, out=out, overwrite=True, true_torque=tau)
    return fitting.run(FitObserver(progress=show))


def _counterpart(contract: Contract) -> Contract:
    """``contract`` without what differs between a network and its true-torque counterpart."""
    return replace(contract, members=1, loss="", q_seen=(), u_seen=())
