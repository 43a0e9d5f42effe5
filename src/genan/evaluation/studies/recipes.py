"""The jobs that studies are made of. Two studies that ask for the same thing get the same job."""

from collections.abc import Mapping
from typing import Any

from genan.evaluation.studies.job import Job
from genan.evaluation.studies.sizes import Size

CONTROL_NOISE = 0.01
"""Of actuators that policies are trained on (docs/actuators.md)."""
CUP_INTERVAL = 0.15
"""Shortest time between two drawn controls where the arm holds a cup, which is swung faster [s]."""
LOW_ACTION_PENALTY = 250.0
"""The paper's, in place of 1250."""

SEARCHED_UAN: Mapping[str, Any] = {
    "history_length": 1,
    "horizon": 100,
    "smoothness_weight": 0.00685,
    "ppo": {
        "discount": 0.9799, "trace": 0.8273, "ratio_clip": 0.2339, "mini_batches": 32, "epochs": 6, "rate": 0.0007292,
        "initial_deviation": 0.1221, "rollouts": 32, "hidden": [32, 32], "time_limit": "bootstrap",
    },
}  # fmt: skip
"""UAN's settings: the best of 40 by ``genan search uan --size full --trials 40 --at-once 6``
(docs/search.md)."""


def collect_job(size: Size, part: str = "train", *, cup: bool = False) -> Job:
    """A recording to learn from (``train``) or to judge by (``test``)."""
    count = size.trajectories if part == "train" else size.test
    settings = {
        "robot": "virtual-pamy2-cup" if cup else "virtual-pamy2",
        "robot_seed": size.robot_seeds[0],
        "trajectories": count,
        "seed": size.seeds[part],
        "interval": 0.5,
        "shortest_interval": CUP_INTERVAL if cup else None,
    }
    held = "cup" if cup else "racket"
    return Job("collect", settings, label=f"record {count} trajectories with the {held} ({part})")


def fit_job(
    size: Size, *, trajectories: int | None = None, cup: bool = False, label: str, **changed: Any
) -> Job:
    """Actuators, fitted to the first ``trajectories`` of the recording; ``changed`` are fields of
    ``FitSettings``.
    """
    settings = {
        "robot": "pamy2-cup" if cup else "pamy2",
        "trajectories": trajectories or size.trajectories,
        **size.fit,
        "loss": "position",
        **changed,
    }
    return Job("fit", settings, {"data": collect_job(size, cup=cup)}, label=f"fit {label}")


def uan_job(size: Size, **changed: Any) -> Job:
    """UAN's network on the same recording; ``changed`` are fields of ``UanSettings``, and of its
    PPO in ``ppo``.
    """
    settings: dict[str, Any] = {
        "robot": "pamy2",
        "trajectories": size.trajectories,
        "ppo": {},
        **changed,
        **size.uan,
    }
    return Job("fit-uan", settings, {"data": collect_job(size)}, label="train UAN")


def evaluate_job(size: Size, actuators: Job) -> Job:
    """How accurate ``actuators`` are on the test recording."""
    settings = {"robot": "pamy2", "horizon": size.horizon, "lead": size.lead}
    needs = {"actuators": actuators, "data": collect_job(size, "test")}
    return Job("evaluate", settings, needs, label=f"judge: {actuators.label}")


def policy_actuators(
    size: Size, *, loss: str = "position", cup: bool = False, trajectories: int | None = None
) -> Job:
    """Actuators to train policies on."""
    count = trajectories or size.trajectories
    label = f"{loss} loss with noise on the controls, {count} trajectories{' with the cup' if cup else ''}"
    return fit_job(
        size, trajectories=count, cup=cup, label=label, loss=loss, control_noise=CONTROL_NOISE
    )


def train_job(
    size: Size, task: str, column: str, *, trajectories: int | None = None, seed: int = 0
) -> Job:
    """A policy of ``task``, trained as ``column`` of the paper's ablations says."""
    loss = "torque" if column == "torque loss" else "position"
    actuators = policy_actuators(
        size, loss=loss, cup=task == "ball-in-a-cup", trajectories=trajectories
    )
    changed: dict[str, Any] = {} if size.pool is None else {"pool": size.pool}
    training = dict(size.training[task])
    if seed:
        training["seed"] = seed
    if column == "no disagreement penalty":
        changed["disagreement_weight"] = 0.0
    elif column == "low action penalty":
        changed["action_weight"] = LOW_ACTION_PENALTY
    elif column == "no ensemble":
        training["member"] = 0
    settings = {
        "task": task,
        "changed": changed,
        "training": training,
        "ppo": dict(size.ppo.get(task, {})),
    }
    count = "" if trajectories is None else f", {trajectories} trajectories"
    chance = f", seed {seed}" if seed else ""
    return Job(
        "train", settings, {"actuators": actuators}, label=f"train {task}: {column}{count}{chance}"
    )


def transfer_jobs(size: Size, policy: Job, *, robots: int | None = None) -> tuple[Job, ...]:
    """Trials of ``policy`` on each of the robots, or on the first few of them."""
    task = policy.settings["task"]
    words = policy.label.removeprefix("train ")
    return tuple(
        Job(
            "transfer",
            {"task": task, "trials": size.trials, "robot_seed": robot_seed, "seed": 0},
            {"policy": policy},
            label=f"try {words}, on robot {robot_seed}",
        )
        for robot_seed in size.robot_seeds[:robots]
    )
