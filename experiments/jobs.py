"""The jobs that experiments are made of. Two experiments that ask for the same get the same job."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from experiments.sizes import ABLATIONS, FAST, OURS, Size

RECIPES = {"collect": 2, "fit": 1, "fit-uan": 1, "evaluate": 1, "train": 2, "transfer": 4}
"""What kinds of jobs there are. The number is part of every fingerprint: it is raised when a kind
of job comes to mean something else, so that old results are not taken for new ones."""
ON_CPU = ("collect", "transfer")
"""Kinds of jobs that a GPU does not help."""

HISTORY_NOISE = 0.0001745
"""Of actuators that policies are trained on [rad] (docs/actuators.md)."""
LATER = 6.0
"""When test data are recorded: hours after the training data [h]."""
CUP_INTERVAL = 0.15
"""Shortest time between two drawn controls where the arm holds a cup, which is swung faster [s]."""
PLAIN: Mapping[str, Any] = {"history_length": 3, "history_stride": 1}
"""The paper's history, which every study varies one thing of."""
SEARCHED_UAN: Mapping[str, Any] = {
    "history_length": 1,
    "horizon": 100,
    "smoothness_weight": 0.00685,
    "ppo": {
        "gamma": 0.9799, "gae_lambda": 0.8273, "clip_range": 0.2339, "num_minibatches": 32,
        "num_epochs": 6, "learning_rate": 0.0007292, "init_std": 0.1221, "num_steps_per_env": 32,
        "hidden": [32, 32], "time_limit": "bootstrap",
    },
}  # fmt: skip
"""UAN's settings: the best of 40 by ``search-uan --size full --trials 40 --at-once 6``
(docs/search.md)."""


@dataclass(frozen=True)
class Job:
    """What to do, and with the results of which others; known by the fingerprint of everything
    that its result depends on."""

    kind: str  # one of ``RECIPES``
    settings: Mapping[str, Any]  # all that it depends on, as JSON can hold it
    needs: Mapping[str, "Job"] = field(default_factory=dict)
    """The jobs whose results it works on, by the part that they play: ``data``, ``actuators``,
    ``policy``."""
    label: str = ""  # what a person calls it; no part of the fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of kind, settings, and the fingerprints of what it needs."""
        content = {
            "kind": self.kind,
            "recipe": RECIPES[self.kind],
            "settings": self.settings,
            "needs": {part: job.fingerprint for part, job in self.needs.items()},
        }
        text = json.dumps(content, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def id(self) -> str:
        """Its name: kind and the beginning of the fingerprint."""
        return f"{self.kind}-{self.fingerprint[:12]}"

    def as_json(self) -> dict[str, Any]:
        """The job and all it needs, as JSON can hold it."""
        needs = {part: job.as_json() for part, job in self.needs.items()}
        settings = dict(self.settings)
        return {"kind": self.kind, "settings": settings, "needs": needs, "label": self.label}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Job":
        needs = {part: cls.from_json(job) for part, job in content["needs"].items()}
        return cls(content["kind"], content["settings"], needs, content["label"])


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """These jobs and all that they need, each once, and none before what it needs."""
    found: dict[str, Job] = {}
    for job in jobs:
        for one in (*in_order(job.needs.values()), job):
            found.setdefault(one.fingerprint, one)
    return list(found.values())


STEPS_OF_A_ROLLOUT = 2_000_000
"""Policy steps that take as long as one simulated step of a multi-step loss, all epochs."""


def longest_first(jobs: Iterable[Job]) -> list[Job]:
    """These jobs, those that a long training or fit is part of before others: it must not begin
    last."""

    def length(job: Job) -> int:
        steps = job.settings.get("training", {}).get("steps", 0)
        return int(max(steps, STEPS_OF_A_ROLLOUT * job.settings.get("rollout", 0)))

    return sorted(jobs, key=lambda job: -max(map(length, in_order([job]))))


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
        "hours": LATER if part == "test" else 0.0,
    }
    held = "cup" if cup else "racket"
    return Job("collect", settings, label=f"record {count} trajectories with the {held} ({part})")


def fit_job(
    size: Size, *, trajectories: int | None = None, cup: bool = False, label: str, **changed: Any
) -> Job:
    """Actuators, fitted to the first ``trajectories`` of the recording; ``changed`` are fields of
    ``FitSettings``."""
    settings = {
        "robot": "pamy2-cup" if cup else "pamy2",
        "trajectories": trajectories or size.trajectories,
        **size.fit,
        "loss": "position",
        **changed,
    }
    return Job("fit", settings, {"data": collect_job(size, cup=cup)}, label=f"fit {label}")


def plain_fit(size: Size, **changed: Any) -> Job:
    """The paper's actuators, or one thing about them changed."""
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changed.items())
    return fit_job(size, label=words or "position loss", **{**PLAIN, **changed})


def uan_job(size: Size, **changed: Any) -> Job:
    """UAN's network on the same recording; ``changed`` are fields of ``UanSettings``, and of its
    PPO in ``ppo``."""
    about = {"robot": "pamy2", "trajectories": size.trajectories, "ppo": {}}
    settings = {**about, **changed, **size.uan}
    return Job("fit-uan", settings, {"data": collect_job(size)}, label="train UAN")


def like_uan(size: Size, uan: Job) -> Job:
    """One network of the size and history of UAN's, learnt with the position loss."""
    history = {name: uan.settings.get(name, usual) for name, usual in PLAIN.items()}
    hidden = uan.settings["ppo"]["hidden"]
    return fit_job(size, label="GenAN of UAN's size", members=1, hidden=hidden, **history)


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
    label = f"{loss} loss with history noise, {count} trajectories{' with the cup' if cup else ''}"
    noise = HISTORY_NOISE
    return fit_job(size, trajectories=count, cup=cup, label=label, loss=loss, history_noise=noise)


def train_job(
    size: Size,
    task: str,
    column: str,
    *,
    preset: str = FAST,
    trajectories: int | None = None,
    seeds: Sequence[int] = (0,),
) -> Job:
    """Policies of ``task``, trained as ``column`` of the paper's ablations says, one for each of
    ``seeds``, which follow one another: they are trained side by side."""
    ablation = ABLATIONS[column]
    actuators = policy_actuators(
        size, cup=task == "ball-in-a-cup", trajectories=trajectories, **ablation.get("fit", {})
    )
    settings = {
        "task": task,
        "preset": OURS.get(task, FAST) if preset == FAST else preset,
        "changed": {
            **({} if size.pool is None else {"pool": size.pool}),
            **ablation.get("changed", {}),
        },
        "training": {
            **size.training[task][preset].settings,
            **({"seed": seeds[0]} if seeds[0] else {}),
            **({"seeds": len(seeds)} if len(seeds) > 1 else {}),
            **ablation.get("training", {}),
        },
        "ppo": {"time_limit": "bootstrap", **size.ppo.get(task, {})},
    }
    more = f", {trajectories} trajectories" if trajectories else ""
    more += f", seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else ""
    more += f", seed {seeds[0]}" if len(seeds) == 1 and seeds[0] else ""
    words = f"train {task}, {preset}: {column}{more}"
    return Job("train", settings, {"actuators": actuators}, label=words)


def transfer_jobs(
    size: Size, policy: Job, seed: int, *, robots: int | None = None
) -> tuple[Job, ...]:
    """Trials of the policy that ``policy`` trains with ``seed``, on each of the robots, or on the
    first few of them."""
    return tuple(
        Job(
            "transfer",
            {
                "task": policy.settings["task"],
                "trials": size.trials,
                "robot_seed": robot_seed,
                "training_seed": seed,
                "seed": 0,
            },
            {"policy": policy},
            label=f"try seed {seed} on robot {robot_seed}: {policy.label}",
        )
        for robot_seed in size.robot_seeds[:robots]
    )
