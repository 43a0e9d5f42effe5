"""``train``: from actuators to a judged policy, interrupted or not."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from genan import actuator
from genan.actuator import Ensemble
from genan.actuator.ensemble import Precision
from genan.errors import GenanError, SettingError, listing, refuse
from genan.files import CHECKPOINT, load_checkpoint, save_checkpoint
from genan.jax_setup import QUICK, compiling
from genan.rl.config import PPOSettings, TrainSettings
from genan.rl.config import preset as presets
from genan.rl.contract import KIND
from genan.rl.policy import Policy, actuator_fingerprint
from genan.rl.ppo import PPO, LearnerState
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.simulation.simulator import write_divergence
from genan.tasks.registry import TaskSettings, imported, task_entry
from genan.tasks.task import Judgement, TaskEnvironment, judge, load_environment
from genan.tensorboard import EventFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKPOINT_SECONDS = 10.0  # Between two checkpoints [s]; a killed training loses no more.
TRAINERS = {"genan": "genan.rl.train:PolicyTraining", "skrl": "genan.rl.skrl:SkrlTraining"}
EVENTS, FAULT = "tensorboard", "fault.safetensors"
"""Folder of the TensorBoard events, and file of a runaway state, within a training's folder."""


class TrainingDivergedError(GenanError):
    """Learning ended in numbers that are not finite; the last checkpoint is kept."""


ProgressFunction = Callable[["PolicyTraining"], None]


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """A policy, and how it was learnt."""

    policy: Policy
    judgement: Judgement | None  # How good it is in the simulator; None: stopped before.
    steps: int  # Policy steps, all episodes together.
    curve: list[dict[str, float | int]]  # Of every update: "steps", "episode/success", ...
    faults: int  # Episodes that ran away in the simulator.
    out: Path | None  # Folder of the policy, if it was saved.

    @property
    def finished(self) -> bool:
        """Whether the training came to its end."""
        return self.judgement is not None

    def late_gain(self) -> float:
        """How much the share of successful episodes still rose over the last fifth of them."""
        rates = [point["episode/success"] for point in self.curve if "episode/success" in point]
        tenth = max(1, len(rates) // 10)
        early, late = rates[-2 * tenth : -tenth], rates[-tenth:]
        return float(np.mean(late) - np.mean(early)) if early else 0.0

    def __repr__(self) -> str:
        end = "" if self.finished else ", stopped"
        return f"TrainingResult({self.policy}, {self.steps:,} steps{end})"

    def plot(self) -> "Figure":
        """The learning curve: success rate and mean return of the episodes of each update."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 5.0), layout="constrained")
        upper, lower = figure.subplots(2, sharex=True)
        for axes, name, unit in ((upper, "episode/success", 100.0), (lower, "episode/return", 1.0)):
            points = [(point["steps"], point[name]) for point in self.curve if name in point]
            axes.plot(*np.array(points).reshape(-1, 2).T * [[1e-6], [unit]])
        upper.set_ylabel("success [%]")
        lower.set(xlabel="policy steps [million]", ylabel="return")
        return figure


def train(
    task: TaskSettings | str,
    actuators: Ensemble | Path | str | None = None,
    *,
    robot: Robot | Path | str | None = None,
    out: Path | str | None = None,
    steps: int | None = None,
    seed: int = 0,
    preset: str | None = None,
    ppo: PPOSettings | None = None,
    trainer: str = "genan",
    overwrite: bool = False,
    progress: ProgressFunction | None = None,
    stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> TrainingResult:
    """Learn a policy in the simulator, judge it there and, with ``out``, save it.

    Args:
        task: name of a task, which takes the settings of its preset, or its settings.
        actuators: an ensemble, or the folder of one; left out, those that come with genan.
        robot: a robot, the name of a bundled one, or the path of a robot.toml; left out, the one
            that the task is made for, if the actuators drive it, else their own.
        out: folder for the policy, checkpoints and TensorBoard events; left out, nothing is
            written. An interrupted training goes on from its last checkpoint when the same call is
            repeated, to the same result. With several seeds, the best policy of them by simulated
            episodes is here, and each in ``seed-K``.
        steps: policy steps, all episodes together; left out, what the preset says.
        seed: of everything random.
        preset: where settings that are left out come from: "fast" (the default), "paper" (its
            tables), or another preset of the task.
        ppo: how it learns; left out, what the preset says.
        trainer: "genan", or "skrl" for skrl's PPO (pip install 'genan[skrl]').
        overwrite: replace what an earlier training left in ``out``.
        progress: called with the ``PolicyTraining`` before the first update and after each.
        stop: asked before every update; once it says True, everything is saved and the training
            ends.
        settings: other fields of ``TrainSettings``, as ``num_envs=512``, ``seeds=5``.

    Returns:
        The result: ``result.policy(observation)`` gives actions [..., nu] in the controls' units,
        ``result.judgement.success`` the success rate from 0 to 1, ``result.plot()`` the learning
        curve.
    """
    known = TrainSettings.__dataclass_fields__
    for what, given, names in (("setting", settings, known), ("trainer", (trainer,), TRAINERS)):
        for name in given:
            none = f"There is no {what} {name!r}; there are: {listing(names)}."
            refuse((name not in names, none))
    kind: type[PolicyTraining] = imported(TRAINERS[trainer])
    name = task if isinstance(task, str) else task.name
    usual = task_entry(name).settings.robot
    if not isinstance(actuators, Ensemble):
        actuators = actuator.load(actuators or bundled_actuators(usual))
    robot = actuators.contract.find_robot(actuators.record, robot, usual=usual)
    chosen = presets(name, preset, robot=robot, record=actuators.record)
    task = chosen.task if isinstance(task, str) else task
    steps = chosen.steps if steps is None else steps
    how = TrainSettings(steps=steps, seed=seed, **{"num_envs": chosen.num_envs, **settings})
    ppo = ppo or chosen.ppo
    training = kind(task, actuators, how, ppo, robot=robot, out=out, overwrite=overwrite)
    return training.run(progress=progress, stop=stop)


class PolicyTraining:
    """One training: what ``train`` does, in parts."""

    algorithm: Any = PPO

    def __init__(
        self,
        task: TaskSettings,
        actuators: Ensemble,
        settings: TrainSettings,
        ppo: PPOSettings,
        *,
        robot: Robot,
        out: Path | str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Check everything, build the simulator, take up an unfinished training in ``out``."""
        several, own = settings.seeds > 1, self.algorithm is PPO
        refuse((several and not own, "Several seeds at once need --trainer genan; skrl has one."))
        try:
            if settings.device != "auto":
                jax.config.update("jax_default_device", jax.devices(settings.device)[0])
        except RuntimeError:
            none = "A GPU was asked for, but JAX finds none: install genan[gpu], check the driver"
            raise SettingError(f"{none} with nvidia-smi, or take --device cpu.") from None
        member = settings.member
        self.ensemble = actuators if member is None else actuators.member(member)
        self.settings, self.ppo_settings, self.robot = settings, ppo, robot
        self.task, self.out = task.for_robot(robot.name), None if out is None else Path(out)
        if self.out is not None:
            KIND.clear(self.out, overwrite=overwrite, more=[FAULT])
        auto: Precision = "float32" if jax.default_backend() == "cpu" else "tf32"
        self.precision = auto if settings.precision == "auto" else settings.precision
        self.env = load_environment(
            self.task, self.ensemble, envs=settings.num_envs, robot=robot, precision=self.precision
        )
        self.ppo = self.algorithm(self.env, ppo)
        size = self.ppo.steps_per_update
        self.updates = max(1, round((settings.steps or presets(task.name).steps) / size))
        self.total = self.updates * size  # policy steps to do
        self.compile_seconds = 0.0
        self.steps_per_second = 0.0  # in this run, compiling left out; 0 before it is known
        self.curve: list[dict[str, Any]] = []  # numbers of every update, by name; lists with seeds
        self.faults, self.resumed = 0, 0  # episodes that ran away; steps done before this run
        with self._compiling("the simulator"):
            self.learner: LearnerState = jax.block_until_ready(self.ppo.begin(self._keys()))
        self._saved = time.perf_counter()
        if self.out is not None:
            self._resume(self.out)

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for an unfinished training to go on."""
        return {
            "task": {"name": self.task.name, **self.task.settings()},
            "ppo": self.ppo_settings.settings(),
            "training": {**self.settings.settings(), "precision": self.precision},
            "updates": self.updates, "robot": self.robot.name,
            "actuators": actuator_fingerprint(self.ensemble),
        }  # fmt: skip

    @property
    def steps(self) -> int:
        """Policy steps that are done."""
        return int(np.max(self.learner.updates)) * self.ppo.steps_per_update

    @property
    def seeds(self) -> list[int]:
        """Of the policies that are trained."""
        return [self.settings.seed + k for k in range(self.settings.seeds)]

    @property
    def seconds_left(self) -> float:
        """Estimated; infinite before it is known."""
        speed = self.steps_per_second
        return (self.total - self.steps) / speed if speed else float("inf")

    def run(
        self, *, progress: ProgressFunction | None = None, stop: Callable[[], bool] = lambda: False
    ) -> TrainingResult:
        """Train to the end, judge and save the policy; or until ``stop`` says so."""
        show, begun = progress or (lambda _: None), None
        show(self)
        with closing(EventFile(self.out / EVENTS)) if self.out else nullcontext() as events:
            log: Callable[..., Any] = events.scalars if events else lambda *_: None
            for update, numbers in enumerate(self.curve, 1):  # before an interruption
                log(update * self.ppo.steps_per_update, means(numbers))
            while self.steps < self.total:
                if stop():
                    return self._stopped()
                self._update(first=begun is None)
                log(self.steps, means(self.curve[-1]))
                now = time.perf_counter()
                if begun is None:
                    begun, before = now, self.steps
                else:
                    self.steps_per_second = (self.steps - before) / (now - begun)
                show(self)
                if now - self._saved > CHECKPOINT_SECONDS:
                    self._save()
        return self._finish()

    def policy(self, judgement: Judgement | None = None, *, which: int = 0) -> Policy:
        """The policy as it is now; of several seeds, the one at place ``which``."""
        curve, agent = self._curve(points=100, which=which), self.learner.agent
        record = {"steps": self.steps, "faults": self.faults, "curve": curve}
        record |= {"seed": self.seeds[which], "num_envs": self.settings.num_envs}
        record["actuators"] = self.ensemble.record.get("data", {})
        if judgement is not None:
            record["judged"] = judgement.record()
        if self.settings.seeds > 1:
            agent = jax.tree.map(lambda a: a[which], agent)
        return Policy.of(agent, self.env, self.robot, self.ppo_settings, record=record)

    def _update(self, *, first: bool) -> None:
        """One update further: keep its numbers, refuse what is not finite, note what ran away."""
        try:
            with self._compiling("the training program") if first else nullcontext():
                self._refill()
                self.learner, report = self.ppo.advance(self.learner)
                numbers = _numbers(report)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
                raise
            steps = f"{self.ppo_settings.num_steps_per_env} steps of each in an update"
            words = f"The device ran out of memory with {self.env.envs} environments and {steps}"
            raise SettingError(f"{words}; lower --num-envs or --ppo.num-steps-per-env.") from None
        telling = [numbers[name] for name in ("loss/policy", "loss/value", "reward/mean")]
        kept = f"; the last checkpoint is kept in {self.out}" if self.out is not None else ""
        words = f"The training was stopped: its loss is not finite after {self.steps} steps{kept}"
        lower = (not np.isfinite(telling).all(), f"{words}; try a lower --ppo.learning-rate.")
        refuse(lower, error=TrainingDivergedError)
        self.curve.append(numbers)
        divergence, robot = self.learner.rollout.state.divergence, self.robot
        faults = int(np.sum(divergence.count))
        if faults and not self.faults and self.out is not None:
            if self.settings.seeds > 1:
                place = int(np.argmax(divergence.count))
                divergence = jax.tree.map(lambda a: a[place], divergence)
            about = {"task": self.task.name, "robot": robot.name, "steps": self.steps}
            about |= {"joints": [*robot.joint_names], "controls": [*robot.control_names]}
            write_divergence(divergence, self.out / FAULT, **about)
        self.faults = faults

    def _refill(self) -> None:
        """Now and then, settle some of the starts again."""
        every = max(1, round(self.settings.refill / self.ppo_settings.num_steps_per_env))
        done, count = self.steps // self.ppo.steps_per_update, max(1, self.task.pool // 8)
        if done and done % every == 0:
            state = _refill(self.env, self.learner.rollout.state, count, self._keys(done))
            self.learner = eqx.tree_at(lambda learner: learner.rollout.state, self.learner, state)

    def _keys(self, *parts: int) -> Key[Array, "*seeds"]:
        """The key of the training that ``parts`` lead to; with several seeds, all of theirs."""
        keys = [reduce(jax.random.fold_in, parts, jax.random.key(seed)) for seed in self.seeds]
        return jnp.stack(keys) if len(keys) > 1 else keys[0]

    @contextmanager
    def _compiling(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        with compiling(what):
            yield
        self.compile_seconds += time.perf_counter() - start

    def _resume(self, out: Path) -> None:
        found = load_checkpoint(out, self.learner, identity=self.identity, work="training")
        out.mkdir(parents=True, exist_ok=True)
        if found is not None:
            self.learner, self.curve = found
            self.resumed = self.steps
            self.faults = int(np.sum(self.learner.rollout.state.divergence.count))

    def _save(self) -> None:
        if self.out is not None:
            save_checkpoint(self.out, self.learner, identity=self.identity, extra=self.curve)
        self._saved = time.perf_counter()

    def _stopped(self) -> TrainingResult:
        self._save()
        return self._result(None)

    def _finish(self) -> TrainingResult:
        env, judged = replace(self.env, envs=self.settings.judge), []
        with self._compiling("the judging of the policy"):
            for which, seed in enumerate(self.seeds):  # one program: all differ in arrays alone
                policy = replace(self.policy(which=which), record_json="{}")
                judged.append(judge(env, policy.mean, key=jax.random.key(seed + 1)))
        best = max(range(len(judged)), key=lambda k: (judged[k].success, judged[k].returns))
        result = self._result(judged[best], which=best)
        if len(judged) > 1:
            each = [{"seed": s, **j.record()} for s, j in zip(self.seeds, judged, strict=True)]
            result = replace(result, policy=result.policy.with_record(seeds=each))
        if self.out is not None:
            for which, seed in enumerate(self.seeds if len(judged) > 1 else ()):
                self.policy(judged[which], which=which).save(self.out / f"seed-{seed}")
            result.policy.save(self.out)
            (self.out / CHECKPOINT).unlink(missing_ok=True)
        return result

    def _result(self, judgement: Judgement | None, which: int = 0) -> TrainingResult:
        policy, curve = self.policy(judgement, which=which), self._curve(which=which)
        return TrainingResult(policy, judgement, self.steps, curve, self.faults, self.out)

    def _curve(self, points: int | None = None, which: int = 0) -> list[dict[str, float | int]]:
        """The numbers of every update, or of at most ``points`` of them, rounded."""
        every = 1 if points is None else max(1, -(-len(self.curve) // points))
        counted = lambda k: {"update": k, "steps": k * self.ppo.steps_per_update}
        of = lambda value: round(float(np.ravel(value)[which]), 6)
        rounded = lambda k: {name: of(value) for name, value in self.curve[k - 1].items()}
        return [counted(k) | rounded(k) for k in range(every, len(self.curve) + 1, every)]


@partial(eqx.filter_jit, compiler_options=QUICK)
def _refill(env: TaskEnvironment, state: Any, count: int, key: Key[Array, "*seeds"]) -> Any:
    refill = lambda state, key: env.refill(state, count, key=key)
    return (jax.vmap(refill) if key.ndim else refill)(state, key)


def means(numbers: dict[str, Any]) -> dict[str, float]:
    """Of an update's numbers, over the seeds that are trained side by side."""
    return {name: float(np.mean(value)) for name, value in numbers.items()}


def _numbers(report: dict[str, Array]) -> dict[str, Any]:
    """An update's numbers, sums and means first, lists where there are several seeds; what no
    episode could say is left out."""
    found = {name: np.asarray(a, float).tolist() for name, a in jax.device_get(report).items()}
    ended, first = found.pop("episodes"), ("reward/mean", "episode/return", "episode/success")
    names = sorted(found, key=lambda name: (name not in first, name))
    return {name: found[name] for name in names if np.min(ended) or "episode/" not in name}
