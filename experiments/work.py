"""Doing a job: what each kind of it is.

Every kind goes on from where an interruption left its folder, and asks ``stopping`` often enough to
end within seconds. Imports are late, so that a process starts fast and loads what its jobs need.
"""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.jobs import Job
from experiments.store import LOG, PRODUCTS, JobResult, StoppedError, Store
from genan.errors import GenanError
from genan.provenance import processor, versions

DATA = PRODUCTS["collect"]
"""The recording in the folder of a collect job; actuators and policies are in the folders of their
jobs themselves."""


@dataclass(frozen=True)
class RunningJob:
    """A job while it is being done."""

    settings: Mapping[str, Any]
    folder: Path
    needs: Mapping[str, Path]  # folders of the jobs that it needs
    stopping: Callable[[], bool]
    progress: Callable[[float], None]  # given what part is done, 0 to 1


def attempt(
    job: Job, store: Store, *, stopping: Callable[[], bool], progress: Callable[[float], None]
) -> dict[str, str]:
    """Do ``job``; what became of it (``what``: done, stopped or failed) and why (``error``).

    What is printed meanwhile goes to the job's log.
    """
    with _printing_to(store.folder(job) / LOG):
        try:
            perform(job, store, stopping=stopping, progress=progress)
            return {"what": "done"}
        except StoppedError:
            return {"what": "stopped"}
        except GenanError as error:
            return {"what": "failed", "error": str(error)}
        except Exception as error:
            traceback.print_exc()
            return {"what": "failed", "error": f"{type(error).__name__}: {error}".splitlines()[0]}


@contextlib.contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """What is printed within goes to the end of this file; then it goes where it went before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = [os.dup(1), os.dup(2)]

    def turn(places: list[int]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for place, to in enumerate(places, 1):
            os.dup2(to, place)

    with path.open("ab") as file:
        turn([file.fileno()] * 2)
    try:
        yield
    finally:
        turn(before)
        for kept in before:
            os.close(kept)


def perform(
    job: Job,
    store: Store,
    *,
    stopping: Callable[[], bool] = lambda: False,
    progress: Callable[[float], None] = lambda share: None,
) -> JobResult:
    """Do ``job``, whose needs are done, and keep what it found; what another process has found
    meanwhile is taken.
    """
    from genan.jax_setup import prepare

    prepare()
    with store.held(job, stopping=stopping) as folder:
        known = store.find(job)
        if known is not None and store.usable(job):
            return known
        before, begun = store.spent(job), time.perf_counter()
        needs = {part: store.folder(need) for part, need in job.needs.items()}
        running = RunningJob(dict(job.settings), folder, needs, stopping, progress)
        try:
            result = WORK[job.kind](running)
        except BaseException:
            store.note_spent(job, before + time.perf_counter() - begun)
            raise
        found = JobResult(result, before + time.perf_counter() - begun, versions(), hardware())
        store.keep(job, found)
        return found


def hardware() -> dict[str, str]:
    """Processor, cores and, where JAX runs already, its device; nothing here starts JAX."""
    found = {"processor": processor(), "cores": str(os.cpu_count())}
    if jax := sys.modules.get("jax"):
        found["device"] = str(jax.devices()[0].device_kind)
    return found


def _collect(job: RunningJob) -> dict[str, Any]:
    from genan.data import Channels, Recorder
    from genan.deployment.collection import Plan, record
    from genan.robot import Robot
    from genan.robot.package import VIRTUAL, open_virtual
    from genan.signals import Spline

    made = dict(job.settings)
    path = job.folder / DATA
    count = made["trajectories"]
    if not path.exists():  # else: interrupted between the last two files
        channels = Channels.of_robot(Robot.load(made["robot"].removeprefix(VIRTUAL)))
        plan = Plan(seed=made["seed"], signal=Spline(made["interval"], made["shortest_interval"]))
        robot = open_virtual(made["robot"], seed=made["robot_seed"], hours=made["hours"])
        with Recorder.resume_or_create(
            path, channels, provenance={**made, "versions": versions()}
        ) as recorder:
            whole = record(
                recorder,
                robot,
                plan,
                trajectories=count,
                recorded=lambda: job.progress(len(recorder) / count),
                stopping=job.stopping,
            )
            if not whole:
                raise StoppedError(f"Stopped after {len(recorder)} of {count} trajectories.")
            recorder.finish()
    return {"trajectories": count}


def _fit(job: RunningJob) -> dict[str, Any]:
    from genan.actuator import load
    from genan.actuator.contract import CONTRACT
    from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting
    from genan.actuator.settings import FitSettings

    if (job.folder / CONTRACT).exists():
        ensemble = load(job.folder)
    else:
        made = tuples(dict(job.settings))
        robot, count = made.pop("robot"), made.pop("trajectories")
        fitting = Fitting(_first(job, count), robot, FitSettings(**made), out=job.folder)
        epochs = fitting.settings.epochs
        observer = FitObserver(
            progress=lambda now: job.progress((now.epoch + now.share) / epochs),
            stopping=job.stopping,
        )
        try:
            ensemble = fitting.run(observer)
        except FitInterruptedError:
            done = int(fitting.state.epoch)
            raise StoppedError(f"Stopped after {done} of {epochs} epochs.") from None
    training = ensemble.record["training"]
    return {
        name: training[name]
        for name in ("best_epoch", "best_validation_loss", "batch", "precision", "device")
    }


def _fit_uan(job: RunningJob) -> dict[str, Any]:
    from experiments.uan import PPO_SETTINGS, UanProgress, UanSettings, fit_uan

    made = dict(job.settings)
    robot, count, ppo = made.pop("robot"), made.pop("trajectories"), made.pop("ppo")
    learning = replace(PPO_SETTINGS, **tuples(ppo))

    def show(now: UanProgress) -> None:
        job.progress(now.steps / now.total)
        if job.stopping():
            raise StoppedError(
                f"Stopped after {now.steps} of {now.total} steps, which begin again."
            )

    ensemble = fit_uan(
        _first(job, count),
        robot,
        settings=UanSettings(**made, ppo=learning),
        out=job.folder,
        progress=show,
    )
    distances = ensemble.record["training"]["held_out_distance"]
    return {
        "steps": ensemble.record["training"]["steps"],
        "held_out_distance": min(d for _, d in distances),
    }


def _evaluate(job: RunningJob) -> dict[str, Any]:
    from genan.actuator import load as load_actuators
    from genan.data import load
    from genan.dynamics import load_dynamics
    from genan.evaluation.accuracy import judge_ensemble, plan
    from genan.evaluation.actuators import errors_as_json
    from genan.evaluation.held_control import find_starts, judge_held_control
    from genan.robot import Robot

    made = dict(job.settings)
    ensemble, recording = load_actuators(job.needs["actuators"]), load(job.needs["data"] / DATA)
    dynamics = load_dynamics(Robot.load(made["robot"]))
    # All models of all studies are judged at the same samples, however far each looks back.
    trial = plan(
        recording, [made["lead"], ensemble.contract.history.reach], horizon=made["horizon"]
    )
    parts: list[str] = []

    def show(part: str, done: int, total: int) -> None:
        if part not in parts:
            parts.append(part)  # of three: one step, the ensemble's rollouts, the members'
        job.progress((len(parts) - 1 + done / max(total, 1)) / 3)
        if job.stopping():
            raise StoppedError("Stopped while judging, which begins again.")

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


def _train(job: RunningJob) -> dict[str, Any]:
    from genan.rl.config import preset
    from genan.rl.contract import CONTRACT, read_contract
    from genan.rl.train import train

    made = dict(job.settings)
    if not (job.folder / CONTRACT).exists():
        chosen = preset(made["task"], made["preset"])
        result = train(
            replace(chosen.task, **tuples(made["changed"])),
            job.needs["actuators"],
            ppo=replace(chosen.ppo, **tuples(made["ppo"])),
            out=job.folder,
            progress=lambda now: job.progress(now.steps / now.total),
            stop=job.stopping,
            **made["training"],
        )
        if not result.finished:
            raise StoppedError(f"Stopped after {result.steps} steps.")
    _, record = read_contract(job.folder)
    name = "episode/success"
    curve = [[point["steps"], point[name]] for point in record["curve"] if name in point]
    return {"judged": dict(record["judged"]), "steps": record["steps"], "curve": curve}


def _transfer(job: RunningJob) -> dict[str, Any]:
    from experiments.at_once import reach_at_once
    from genan.evaluation.transfer import load_policy, open_trials, transfer

    made = dict(job.settings)
    folder = job.needs["policy"] / f"seed-{made['training_seed']}"  # where several were trained
    folder = folder if folder.exists() else job.needs["policy"]
    policy = load_policy(folder, made["task"])
    total = made["trials"]
    protocol = {"robot_seeds": (made["robot_seed"],), "trials": total, "seed": made["seed"]}
    if made["task"] == "reacher":
        found = reach_at_once(folder, **protocol)
    else:
        found = transfer(
            lambda seed: open_trials(policy, seed=seed),
            stopping=job.stopping,
            finished=lambda so_far: job.progress(len(so_far.trials) / total),
            **protocol,
        )
    if len(found.trials) < total:
        raise StoppedError(
            f"Stopped after {len(found.trials)} of {total} trials, which begin again."
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


def _first(job: RunningJob, count: int) -> Any:
    """The first ``count`` trajectories of the recording that the job needs."""
    from genan.data import load

    return load(job.needs["data"] / DATA, range(count))


WORK: dict[str, Callable[[RunningJob], dict[str, Any]]] = {
    "collect": _collect,
    "fit": _fit,
    "fit-uan": _fit_uan,
    "evaluate": _evaluate,
    "train": _train,
    "transfer": _transfer,
}
"""How each kind of job is done; what it returns is what it found."""
