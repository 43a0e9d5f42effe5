"""Doing a job: what each kind of it is.

Every kind goes on from where an interruption left its folder, and asks ``stopping`` often enough to
end within seconds.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from genan.evaluation.studies.job import Job
from genan.evaluation.studies.store import PRODUCTS, Done, StoppedError, Store
from genan.provenance import hardware, versions

DATA = PRODUCTS["collect"]
"""The recording in the folder of a collect job; actuators and policies lie in the folders of their
jobs themselves."""


@dataclass(frozen=True)
class Task:
    """A job while it is being done."""

    job: Job
    folder: Path
    needs: Mapping[str, Path]
    """Folders of the jobs that it needs."""
    stopping: Callable[[], bool]
    progress: Callable[[float], None]
    """Told what part is done, 0 to 1."""

    @property
    def settings(self) -> dict[str, Any]:
        """The job's."""
        return dict(self.job.settings)


def perform(
    job: Job,
    store: Store,
    *,
    stopping: Callable[[], bool] = lambda: False,
    progress: Callable[[float], None] = lambda share: None,
) -> Done:
    """Do ``job``, whose needs are done, and keep what it found; what another process has found
    meanwhile is taken.
    """
    with store.held(job, stopping=stopping) as folder:
        found = store.find(job)
        if found is not None and store.usable(job):
            return found
        before, begun = store.spent(job), time.perf_counter()
        needs = {part: store.folder(need) for part, need in job.needs.items()}
        try:
            result = WORK[job.kind](Task(job, folder, needs, stopping, progress))
        except BaseException:
            store.note_spent(job, before + time.perf_counter() - begun)
            raise
        done = Done(result, before + time.perf_counter() - begun, versions(), hardware())
        store.keep(job, done)
        return done


def _collect(task: Task) -> dict[str, Any]:
    from genan.data import Channels, Recorder
    from genan.robot import Robot
    from genan.signals import Spline
    from genan.virtual import Plan, VirtualPamy2
    from genan.virtual.recording import ROBOTS, record

    made = task.settings
    description, held = ROBOTS[made["robot"]]
    path = task.folder / DATA
    count = made["trajectories"]
    if not path.exists():  # else: interrupted between the last two files
        channels = Channels.of_robot(Robot.load(description))
        plan = Plan(seed=made["seed"], signal=Spline(made["interval"], made["shortest_interval"]))
        robot = VirtualPamy2(seed=made["robot_seed"], end_effector=held)
        with Recorder.resume_or_create(
            path, channels, provenance={**made, "versions": versions()}
        ) as recorder:
            whole = record(
                recorder,
                robot,
                plan,
                trajectories=count,
                recorded=lambda: task.progress(len(recorder) / count),
                stopping=task.stopping,
            )
            if not whole:
                raise StoppedError(f"Stopped after {len(recorder)} of {count} trajectories.")
            recorder.finish()
    return {"trajectories": count}


def _fit(task: Task) -> dict[str, Any]:
    from genan.actuator import load
    from genan.actuator.artifact import CONTRACT
    from genan.actuator.fit import Fitting
    from genan.actuator.settings import FitSettings

    if (task.folder / CONTRACT).exists():
        ensemble = load(task.folder)
    else:
        made = tuples(task.settings)
        robot, count = made.pop("robot"), made.pop("trajectories")
        fitting = Fitting(_first(task, count), robot, FitSettings(**made), out=task.folder)
        epochs = fitting.settings.epochs
        found = fitting.run(
            progress=lambda now: task.progress((now.epoch + now.share) / epochs),
            stopping=task.stopping,
        )
        if found is None:
            raise StoppedError(f"Stopped after {int(fitting.state.epoch)} of {epochs} epochs.")
        ensemble = found
    training = ensemble.record["training"]
    return {
        name: training[name]
        for name in ("best_epoch", "best_validation_loss", "batch", "precision", "device")
    }


def _fit_uan(task: Task) -> dict[str, Any]:
    from genan.rl.uan import PPO_SETTINGS, UanProgress, UanSettings, fit_uan

    made = task.settings
    robot, count, ppo = made.pop("robot"), made.pop("trajectories"), made.pop("ppo")
    learning = replace(PPO_SETTINGS, **tuples(ppo))

    def show(now: UanProgress) -> None:
        task.progress(now.steps / now.total)
        if task.stopping():
            raise StoppedError(f"Stopped after {now.steps} of {now.total} steps, which begin anew.")

    ensemble = fit_uan(
        _first(task, count),
        robot,
        settings=UanSettings(**made, ppo=learning),
        out=task.folder,
        progress=show,
    )
    distances = ensemble.record["training"]["held_out_distance"]
    return {
        "steps": ensemble.record["training"]["steps"],
        "held_out_distance": min(d for _, d in distances),
    }


def _evaluate(task: Task) -> dict[str, Any]:
    from genan.actuator import load as load_actuators
    from genan.data import load
    from genan.dynamics import load_dynamics
    from genan.evaluation.accuracy import judge_ensemble
    from genan.evaluation.held_control import find_starts, judge_held_control
    from genan.evaluation.record import errors_as_json
    from genan.evaluation.trial import plan
    from genan.robot import Robot

    made = task.settings
    ensemble, recording = load_actuators(task.needs["actuators"]), load(task.needs["data"] / DATA)
    dynamics = load_dynamics(Robot.load(made["robot"]))
    # All models of all studies are judged at the same samples, however far each looks back.
    trial = plan(
        recording, [made["lead"], ensemble.contract.history.reach], horizon=made["horizon"]
    )
    shares = {"one step": 0.0, "steps": 0.3, "alone": 0.6}

    def show(what: str, done: int, total: int) -> None:
        begun = next((share for word, share in shares.items() if what.endswith(word)), 0.0)
        task.progress(begun + 0.3 * done / max(total, 1))
        if task.stopping():
            raise StoppedError("Stopped while judging, which begins anew.")

    judged = judge_ensemble("ensemble", ensemble, dynamics, trial, progress=show)
    holds = find_starts(recording, first=trial.first)
    held = judge_held_control("ensemble", ensemble, dynamics, holds, recording)
    return {
        "columns": list(judged.errors.columns),
        "units": list(judged.errors.units),
        "horizon": trial.horizon,
        "trajectories": len(recording),
        "ensemble": errors_as_json(judged.errors),
        "member": None if judged.average is None else errors_as_json(judged.average),
        "held_control": {"fit_for_training": held.fit_for_training, "verdict": held.verdict},
    }


def _train(task: Task) -> dict[str, Any]:
    from genan.rl import policy as artifact
    from genan.rl.config import TrainSettings, preset, task_preset
    from genan.rl.train import Training

    made = task.settings
    if (task.folder / artifact.KIND.contract).exists():
        policy = artifact.load(task.folder)
    else:
        name = made["task"]
        training = Training(
            replace(task_preset(name, "fast"), **tuples(made["changed"])),
            task.needs["actuators"],
            TrainSettings(**made["training"]),
            ppo=replace(preset(name, "fast"), **tuples(made["ppo"])),
            out=task.folder,
        )
        found = training.run(
            progress=lambda now: task.progress(now.steps / now.total), stopping=task.stopping
        )
        if found is None:
            raise StoppedError(f"Stopped after {training.steps} steps.")
        policy = found
    return {"judged": dict(policy.record["judged"]), "steps": policy.record["steps"]}


def _transfer(task: Task) -> dict[str, Any]:
    from genan.evaluation.transfer import Transfer, transfer
    from genan.evaluation.trials import load_policy, open_arena
    from genan.jax_setup import use_cache

    use_cache()
    made = task.settings
    policy = load_policy(task.needs["policy"], made["task"])
    total = made["trials"]

    def finished(so_far: Transfer) -> None:
        task.progress(len(so_far.trials) / total)

    found = transfer(
        lambda seed: open_arena(policy, seed=seed),
        robot_seeds=(made["robot_seed"],),
        trials=total,
        seed=made["seed"],
        stopping=task.stopping,
        finished=finished,
    )
    if len(found.trials) < total:
        raise StoppedError(
            f"Stopped after {len(found.trials)} of {total} trials, which begin anew."
        )
    return {
        "succeeded": found.succeeded,
        "trials": len(found.trials),
        "outcomes": found.outcomes(),
        "mean_error": None if made["task"] != "reacher" else round(found.mean("mean_error"), 6),
    }


def tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were before JSON made lists of tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }


def _first(task: Task, count: int) -> Any:
    """The first ``count`` trajectories of the recording that the job needs."""
    from genan.data import load

    return load(task.needs["data"] / DATA, range(count))


WORK: dict[str, Callable[[Task], dict[str, Any]]] = {
    "collect": _collect,
    "fit": _fit,
    "fit-uan": _fit_uan,
    "evaluate": _evaluate,
    "train": _train,
    "transfer": _transfer,
}
"""How each kind of job is done; what it returns is what it found."""
