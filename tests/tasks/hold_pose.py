"""A task of another package, in one file: hold a pose while someone pushes."""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from genan.deployment.controller import TaskObservation
from genan.deployment.loop import TO_REST, Flight
from genan.evaluation.transfer import PreparedTrial, TrialSetup, TrialVerdict
from genan.robot import Robot
from genan.simulation import ArmScene, ArmState
from genan.tasks.registry import TaskEntry, TaskSettings, TrainingPreset
from genan.tasks.task import Task


@dataclass(frozen=True)
class HoldPoseSettings(TaskSettings):
    """Stay where the episode began."""

    name = "hold-pose"
    robot = "pamy2"

    duration: float = 0.5
    u_lower: tuple[float, ...] = (-0.2, -0.4, -0.2, -0.2)
    u_upper: tuple[float, ...] = (0.2, -0.1, 0.2, 0.2)
    q_drop: tuple[float, ...] = (0.0, 0.8, 0.8, 0.0)
    push: float = 1.0
    """Standard deviation of the push on each joint [N m]."""
    tolerance: float = 0.2
    """How far away from the pose a joint may end [rad]."""


class PushedArm(eqx.Module):
    """An arm under a push."""

    arm: ArmState
    push: Float[Array, "*batch nq"]


@final
class PushedScene(eqx.Module):
    """The bare arm, with the push added to its torques."""

    arm: ArmScene

    @property
    def nq(self) -> int:
        return self.arm.nq

    @property
    def dt(self) -> float:
        return self.arm.dt

    def q(self, state: PushedArm) -> Float[Array, " nq"]:
        return state.arm.q

    def qd(self, state: PushedArm) -> Float[Array, " nq"]:
        return state.arm.qd

    def step(self, state: PushedArm, tau: Float[Array, " nq"]) -> PushedArm:
        return PushedArm(self.arm.step(state.arm, tau + state.push), state.push)


@final
class HoldPose(Task):
    """The memory is the pose to hold [robots, nq] [rad]."""

    settings: HoldPoseSettings = eqx.field(static=True)
    scene: PushedScene

    @classmethod
    def load(cls, robot: Robot, settings: HoldPoseSettings) -> "HoldPose":
        return cls(settings, PushedScene(ArmScene.load(robot)))

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        return (("pose", self.scene.nq),)

    @property
    def weights(self) -> dict[str, float]:
        return {"distance": 1.0}

    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[PushedArm, Array]:
        push = self.settings.push * jax.random.normal(key, arm.q.shape, arm.q.dtype)
        return PushedArm(arm, push), arm.q

    def update(self, scene: PushedArm, memory: Array, *, key: PRNGKeyArray) -> Array:
        return memory

    def observe(self, scene: PushedArm, memory: Array) -> Array:
        return memory

    def terms(self, scene: PushedArm, memory: Array) -> dict[str, Array]:
        return {"distance": -jnp.sum((scene.arm.q - memory) ** 2, axis=-1)}

    def success(self, scene: PushedArm, memory: Array) -> Array:
        away = jnp.max(jnp.abs(scene.arm.q - memory), axis=-1)
        return (away < self.settings.tolerance).astype(memory.dtype)

    def metrics(self, scene: PushedArm, memory: Array) -> dict[str, Array]:
        return {"away": jnp.max(jnp.abs(scene.arm.q - memory), axis=-1)}

    def markers(self, scene: Any, memory: Array) -> dict[str, Any]:
        return {"goal": memory}


class HeldPose(TaskObservation):
    """The pose at the policy's first tick, at which the push begins too."""

    def __init__(self, setup: "HoldPoseTrials", push: Float[np.ndarray, " nq"]) -> None:
        self._setup, self._push = setup, push

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        pass

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        self.pose = np.array(q)
        self._setup.robot.virtual.push(self._push)

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        pass

    def parts(self) -> dict[str, Any]:
        return {"pose": self.pose}


@final
class HoldPoseTrials(TrialSetup):
    """Pushed as in training; a trial succeeds when every joint is near its pose at the end."""

    task = "hold-pose"

    def prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> PreparedTrial:
        push = float(self.constants["push"]) * chance.standard_normal(self.robot.robot.nq)
        held = HeldPose(self, push)

        def judged(flight: Flight) -> TrialVerdict:
            self.robot.virtual.push(np.zeros_like(push))
            away = np.abs(flight.q[flight.during(TO_REST).start] - held.pose).max()
            return self.verdict(bool(away < self.constants["tolerance"]), away=float(away))

        return PreparedTrial(u, self.flown(u, held), judged)


HOLD_POSE = TaskEntry(
    HoldPoseSettings,
    HoldPose,
    HoldPoseTrials,
    title="holding a pose",
    summary="Hold a pose: stay there while someone pushes.",
    outcomes=("held", "pushed away"),
    observation={"pose": "joint positions to hold [{q}]"},
    presets={"fast": TrainingPreset({"num_steps_per_env": 8, "num_minibatches": 4}, num_envs=8)},
    numbers={"away": "away [rad]"},
)
