"""``train``: from actuators to a policy, interrupted or not."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from genan import actuator
from genan.actuator import Ensemble
from genan.actuator.network import Precision
from genan.errors import GenanError, SettingError
from genan.files import load_checkpoint, remove_checkpoint, save_checkpoint
from genan.jax_setup import QUICK, compiling
from genan.provenance import versions
from genan.rl import policy as artifact
from genan.rl.config import PPOSettings, TrainSettings, envs_preset, preset, task_preset
from genan.rl.episodes import Verdict, judge
from genan.rl.policy import Policy, actuator_fingerprint
from genan.rl.ppo import PPO, Learner, Report
from genan.robot import Robot
from genan.simulation.divergence import write_divergence
from genan.tasks.registry import TaskSettings
from genan.tasks.task import load_environment
from genan.tensorboard import EventFile

CHECKPOINT_SECONDS = 10.0
"""Time between two checkpoints [s]; a killed training loses no more than this."""
EVENTS, FAULT = "tensorboard", "fault.safetensors"
"""Folder of the TensorBoard events, and file of a runaway state, within a training's folder."""


@dataclass(frozen=True)
class Progress:
    """Where a training stands."""

    steps: int
    """Steps of the policy that are done, all episodes together."""
    total: int
    """Steps to do."""
    latest: dict[str, float]
    """Numbers of the last update, by name: return, success, each reward term, losses."""
    steps_per_second: float
    """In this run, compiling left out."""
    seconds_left: float
    """Estimated; infinite before it is known."""
    compile_seconds: float
    """What compiling took in this run."""


ProgressFunction = Callable[[Progress], None]


class DivergedError(GenanError):
    """Learning ended in numbers that are not finite; the last checkpoint is kept."""


def train(
    task: TaskSettings | str,
    actuators: Ensemble | Path | str,
    *,
    out: Path | str | None = None,
    robot: Robot | Path | str | None = None,
    ppo: PPOSettings | None = None,
    overwrite: bool = False,
    progress: ProgressFunction | None = None,
    **settings: Any,
) -> Policy:
    """Learn a policy in the simulator.

    Args:
        task: name of a task (reacher, ball-in-a-cup, table-tennis), which takes its fast preset, or
            its settings.
        actuators: an ensemble, or the folder of one.
        out: folder for the policy, checkpoints and TensorBoard events; left out, nothing is
            written. An interrupted training goes on from its last checkpoint when the same call is
            repeated.
        robot: the robot; left out, the one that the task is made for.
        ppo: how it learns; left out, the fast preset of the task.
        overwrite: replace what an earlier training left in ``out``.
        progress: called after every update.
        settings: fields of ``TrainSettings``, as ``envs=512``, ``steps=10_000_000``.

    Returns:
        The policy; ``policy.change(observation)`` gives changes of control, ``policy.record`` says
        how it was made.
    """
    known = TrainSettings.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise SettingError(f"There is no setting {name!r}; there are: {', '.join(known)}.")
    if isinstance(task, str):
        settings.setdefault("envs", envs_preset(task, "fast"))
        task = task_preset(task, "fast")
    training = Training(
        task,
        actuators,
        TrainSettings(**settings),
        ppo=ppo,
        robot=robot,
        out=out,
        overwrite=overwrite,
    )
    found = training.run(progress=progress)
    assert found is not None  # nobody asked it to stop
    return found


class Training:
    """One training: what ``train`` does, for those who want to stop it in between."""

    def __init__(
        self,
        task: TaskSettings,
        actuators: Ensemble | Path | str,
        settings: TrainSettings,
        *,
        ppo: PPOSettings | None = None,
        robot: Robot | Path | str | None = None,
        out: Path | str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Check everything, build the simulator, and take up an unfinished training that lies in
        ``out``."""
        self.task, self.settings = task, settings
        self.ppo_settings = ppo or preset(task.name, "fast")
        self.out = None if out is None else Path(out)
        _on_device(settings.device)
        self.ensemble = actuators if isinstance(actuators, Ensemble) else actuator.load(actuators)
        if settings.member is not None:
            self.ensemble = self.ensemble.member(settings.member)
        self.robot = robot if isinstance(robot, Robot) else Robot.load(robot or task.robot)
        self._clear(overwrite=overwrite)
        self.precision: Precision = _precision(settings.precision)
        self.env = load_environment(
            task, self.ensemble, envs=settings.envs, robot=self.robot, precision=self.precision
        )
        self.ppo = PPO(self.env, self.ppo_settings)
        self.total = settings.steps_for(task.name)
        self.updates = max(1, round(self.total / self.ppo.steps_per_update))
        self.compile_seconds = 0.0
        self.curve: list[dict[str, float]] = []
        self.verdict: Verdict | None = None
        self.faults = 0
        self.learner = self._begin()
        self._resume()

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for an unfinished training to go on."""
        return {
            "task": {"name": self.task.name, **self.task.settings()},
            "ppo": self.ppo_settings.settings(),
            "training": {**self.settings.settings(), "precision": self.precision},
            "updates": self.updates,
            "robot": self.robot.name,
            "actuators": actuator_fingerprint(self.ensemble),
        }

    @property
    def steps(self) -> int:
        """Steps of the policy that are done."""
        return int(self.learner.updates) * self.ppo.steps_per_update

    def run(
        self,
        *,
        progress: ProgressFunction | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Policy | None:
        """Train to the end, judge and save the policy; None when ``stopping`` said so before, with
        everything saved."""
        events = self._events()
        begun, before = time.perf_counter(), self.steps
        first = True
        try:
            while int(self.learner.updates) < self.updates:
                if stopping():
                    self._save()
                    return None
                report = self._update(first=first)
                if first:
                    begun, before, first = time.perf_counter(), self.steps, False
                self._look(report)
                if events is not None:
                    events.scalars(self.steps, self.curve[-1])
                if progress is not None:
                    progress(self._progress(time.perf_counter() - begun, self.steps - before))
                self._save_in_time()
        finally:
            if events is not None:
                events.close()
        return self._finish()

    def policy(self, verdict: Verdict | None = None) -> Policy:
        """The policy as it is now."""
        record = {
            "steps": self.steps,
            "seed": self.settings.seed,
            "envs": self.settings.envs,
            "ppo": self.ppo_settings.settings(),
            "actuators": self.ensemble.record.get("data", {}),
            "curve": _thinned(self.curve),
            "faults": self.faults,
            "versions": versions(),
        }
        if verdict is not None:
            record["judged"] = {
                "episodes": verdict.episodes,
                "success": verdict.success,
                "interval": list(verdict.interval),
                "return": verdict.returns,
                **verdict.metrics,
            }
        return Policy.of(self.learner.agent, self.env, self.robot, self.ppo_settings, record=record)

    def _begin(self) -> Learner:
        with self._compiling("the simulator"):
            return jax.block_until_ready(self.ppo.begin(jax.random.key(self.settings.seed)))

    def _update(self, *, first: bool) -> Report:
        try:
            if not first:
                self._refill()
                self.learner, report = self.ppo.advance(self.learner)
                return jax.device_get(report)
            with self._compiling("the training program"):
                self._refill()
                self.learner, report = self.ppo.advance(self.learner)
                return jax.device_get(report)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
                raise
            raise SettingError(
                f"The device ran out of memory with {self.settings.envs} environments and rollouts of "
                f"{self.ppo_settings.rollouts} steps; lower --envs or --ppo.rollouts."
            ) from None

    def _refill(self) -> None:
        """Now and then, settle some of the starts anew."""
        every = max(1, round(self.settings.refill / self.ppo_settings.rollouts))
        done = int(self.learner.updates)
        if done == 0 or done % every:
            return
        key = jax.random.fold_in(jax.random.key(self.settings.seed), done)
        state = _refilled(self.env, self.learner.scene.state, key, max(1, self.task.pool // 8))
        self.learner = eqx.tree_at(lambda learner: learner.scene.state, self.learner, state)

    def _look(self, report: Report) -> None:
        """Keep the numbers of an update; stop where they are not finite, and note where a
        simulation ran away."""
        numbers = _numbers(report)
        if not np.isfinite(
            [numbers["loss/policy"], numbers["loss/value"], numbers["reward/mean"]]
        ).all():
            kept = f"; the last checkpoint is kept in {self.out}" if self.out is not None else ""
            raise DivergedError(
                f"The training was stopped: its loss is not finite after {self.steps} steps{kept}; try a lower "
                "--ppo.rate."
            )
        self.curve.append(numbers)
        faults = int(self.learner.scene.state.divergence.count)
        if faults > self.faults and not self.faults and self.out is not None:
            write_divergence(
                self.learner.scene.state.divergence, self.out / FAULT, task=self.task.name, robot=self.robot.name,
                joints=list(self.robot.joint_names), controls=list(self.robot.control_names), steps=self.steps,
            )  # fmt: skip
        self.faults = faults

    def _progress(self, seconds: float, steps: int) -> Progress:
        speed = steps / seconds if steps and seconds > 0.0 else 0.0
        total = self.updates * self.ppo.steps_per_update
        left = (total - self.steps) / speed if speed else float("inf")
        return Progress(self.steps, total, self.curve[-1], speed, left, self.compile_seconds)

    def _compiling(self, what: str) -> Any:
        return _Timed(what, self)

    def _clear(self, *, overwrite: bool) -> None:
        """Refuse a folder with a finished policy or a file; with ``overwrite``, forget what is
        there."""
        if self.out is None:
            return
        if self.out.exists() and not self.out.is_dir():
            raise SettingError(f"{self.out} is a file; give a folder for the policy.")
        if overwrite:
            for name in (artifact.KIND.contract, artifact.KIND.weights, FAULT):
                (self.out / name).unlink(missing_ok=True)
            remove_checkpoint(self.out)
        elif (self.out / artifact.KIND.contract).exists():
            raise SettingError(
                f"{self.out} holds a finished policy; give another --out, or --overwrite."
            )

    def _resume(self) -> None:
        self._saved = time.perf_counter()
        self.resumed = 0
        if self.out is None:
            return
        found = load_checkpoint(self.out, self.learner, identity=self.identity, work="training")
        if found is not None:
            self.learner, self.curve = found
            self.resumed = self.steps
            self.faults = int(self.learner.scene.state.divergence.count)
        else:
            self.out.mkdir(parents=True, exist_ok=True)

    def _save(self) -> None:
        if self.out is not None:
            save_checkpoint(self.out, self.learner, identity=self.identity, beside=self.curve)
        self._saved = time.perf_counter()

    def _save_in_time(self) -> None:
        if time.perf_counter() - self._saved > CHECKPOINT_SECONDS:
            self._save()

    def _events(self) -> EventFile | None:
        """TensorBoard's file, with what was learnt before an interruption."""
        if self.out is None:
            return None
        events = EventFile(self.out / EVENTS)
        for update, numbers in enumerate(self.curve):
            events.scalars((update + 1) * self.ppo.steps_per_update, numbers)
        return events

    def _finish(self) -> Policy:
        policy = self.policy()
        with self._compiling("the judging of the policy"):
            self.verdict = judge(
                replace(self.env, envs=self.settings.judge),
                policy.mean,
                key=jax.random.key(self.settings.seed + 1),
            )
        policy = self.policy(self.verdict)
        if self.out is not None:
            artifact.save(policy, self.out)
            remove_checkpoint(self.out)
        return policy


class _Timed:
    """Announces that something compiles, and adds up what that takes."""

    def __init__(self, what: str, training: Training) -> None:
        self._announced = compiling(what)
        self._training = training

    def __enter__(self) -> None:
        self._start = time.perf_counter()
        self._announced.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._announced.__exit__(*error)
        self._training.compile_seconds += time.perf_counter() - self._start


@partial(eqx.filter_jit, compiler_options=QUICK)
def _refilled(env: Any, state: Any, key: Any, count: int) -> Any:
    return env.refill(state, count, key=key)


def _numbers(report: Report) -> dict[str, float]:
    """An update's report as flat numbers; what no episode could tell is left out."""
    numbers = {
        "reward/mean": float(report.reward),
        **{f"reward/{name}": float(value) for name, value in report.terms.items()},
        "loss/policy": float(report.losses.policy),
        "loss/value": float(report.losses.value),
        "loss/entropy": float(report.losses.entropy),
        "learning/kl": float(report.losses.kl),
        "learning/rate": float(report.rate),
        "learning/deviation": float(report.deviation),
        "learning/steps": float(report.losses.steps),
    }
    if int(report.episodes):
        numbers |= {
            "episode/return": float(report.returns),
            "episode/success": float(report.success),
        }
        numbers |= {f"episode/{name}": float(value) for name, value in report.metrics.items()}
    return numbers


def _thinned(curve: list[dict[str, float]], points: int = 100) -> list[dict[str, float | int]]:
    """At most ``points`` of the curve's updates, with the number of each."""
    every = max(1, -(-len(curve) // points))
    return [
        {"update": k + 1, **{name: round(value, 6) for name, value in curve[k].items()}}
        for k in range(every - 1, len(curve), every)
    ]


def _on_device(device: str) -> None:
    """Make ``device`` the one that everything runs on; refuse a GPU that is not there."""
    if device == "auto":
        return
    try:
        found = jax.devices("gpu" if device == "gpu" else "cpu")
    except RuntimeError:
        raise SettingError(
            "A GPU was asked for, but JAX finds none: install genan[gpu], check the driver with nvidia-smi, or take "
            "--device cpu."
        ) from None
    jax.config.update("jax_default_device", found[0])


def _precision(asked: str) -> Precision:
    if asked == "auto":
        return "float32" if jax.default_backend() == "cpu" else "tf32"
    return "tf32" if asked == "tf32" else "float32"


__all__ = ["DivergedError", "Progress", "Training", "train"]
