"""How much an experiment takes: smoke shows that it runs, small is an hour on two cores, full is
the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from genan.errors import SettingError

ABLATIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "position loss": {},
    "torque loss": {"fit": {"loss": "torque"}},
    "no disagreement penalty": {"changed": {"disagreement_weight": 0.0}},
    "no ensemble": {"training": {"member": 0}},
    "low action penalty": {"changed": {"action_weight": 250.0}},  # the paper's, in place of 1250
}
"""What the paper's ablations change in a policy's training, the whole method first: in the fit of
the actuators, in the task (``changed``), in the training."""
COLUMNS = tuple(ABLATIONS)


@dataclass(frozen=True)
class Size:
    """What one size of all experiments consists of."""

    name: str
    trajectories: int
    """To learn from."""
    test: int
    """Trajectories to judge by."""
    horizon: int
    """Steps of the open-loop rollouts."""
    lead: int
    """Samples of a trajectory before the first that is predicted from: the longest history must fit
    in."""
    fit: Mapping[str, Any]
    """Settings of every fit."""
    histories: tuple[int, ...]
    strides: tuple[int, ...]
    rollouts: tuple[int, ...]
    """Steps of the multi-step loss."""
    dataset_sizes: tuple[int, ...]
    training: Mapping[str, Mapping[str, Any]]
    """Settings of a policy's training, task by task; a task that is not here is left out."""
    ablations: Mapping[str, tuple[str, ...]]
    """Which of ``COLUMNS`` are tried, task by task."""
    trials: int
    """Of a policy, on each robot."""
    robot_seeds: tuple[int, ...]
    """Robots that policies are tried on; the first is the one that was recorded."""
    ppo: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is changed in how policies learn, task by task."""
    uan: Mapping[str, Any] = field(default_factory=dict)
    """What is changed in UAN's training."""
    rollout_members: int = 1
    """Networks of an ensemble in the study of rollouts: its loss takes long."""
    notes: tuple[str, ...] = ()
    """How it falls short of the paper's size."""
    pool: int | None = None
    """Settled robots that episodes start from; None: the task's own."""
    seeds: Mapping[str, int] = field(default_factory=lambda: {"train": 0, "test": 1})
    """Of the exploration signals."""
    training_seeds: tuple[int, ...] = (0,)
    """Each policy is trained once for each of them."""

    @property
    def label(self) -> str:
        """What its results are called: the name, and the seeds if policies were trained with
        others than 0."""
        seeds = "-".join(map(str, self.training_seeds))
        return self.name if self.training_seeds == (0,) else f"{self.name}-seeds-{seeds}"

    @property
    def flags(self) -> str:
        """What asks for it on the command line."""
        seeds = " ".join(map(str, self.training_seeds))
        return f"--size {self.name}" + ("" if seeds == "0" else f" --seeds {seeds}")

    def trained(self, seeds: Sequence[int]) -> "Size":
        """The same with policies trained once for each of ``seeds``."""
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise SettingError(
                f"Seeds of trainings must be different numbers from 0 on, not {list(seeds)}."
            )
        return replace(self, training_seeds=tuple(seeds))


_TASKS = ("reacher", "table-tennis", "ball-in-a-cup")

SMOKE = Size(
    name="smoke",
    trajectories=24,
    test=8,
    horizon=50,
    lead=10,
    fit={"members": 2, "hidden": [16], "epochs": 2, "batch": 1024},
    uan={"steps": 2048, "envs": 16, "checks": 2},
    histories=(1, 3),
    strides=(1, 2),
    rollouts=(1, 3),
    dataset_sizes=(12, 24),
    training={task: {"envs": 32, "steps": 4096, "judge": 32} for task in _TASKS},
    ppo={task: {"rollouts": 64, "mini_batches": 2} for task in _TASKS},
    ablations={
        "reacher": ("position loss", "torque loss", "no ensemble"),  # what compiling allows
        "table-tennis": ("position loss",),
        "ball-in-a-cup": ("position loss",),
    },
    trials=2,
    robot_seeds=(0,),
    pool=32,
    notes=("This size shows that everything runs; its numbers mean nothing.",),
)

SMALL = Size(
    name="small",
    trajectories=200,
    test=100,
    horizon=500,
    lead=20,
    fit={"members": 3, "hidden": [128, 128], "epochs": 30},
    histories=(1, 2, 3, 5, 10, 20),
    strides=(1, 2, 3, 4, 5),
    rollouts=(1, 3, 5, 10),
    dataset_sizes=(50, 100, 200),
    training={
        "reacher": {"envs": 512, "steps": 6_000_000},
        "table-tennis": {"envs": 512, "steps": 4_000_000},
    },
    ppo={"reacher": {"mini_batches": 8}, "table-tennis": {"mini_batches": 8}},
    ablations=dict.fromkeys(("reacher", "table-tennis"), COLUMNS),
    trials=50,
    robot_seeds=(0,),
    notes=(
        "200 trajectories and three networks of 2 x 128, trained for 30 epochs; the paper has "
        "2500, and networks of 2 x 512 trained for 150 epochs.",
        "Ball-in-a-cup is left out: it takes more steps than two cores do in an hour.",
    ),
)

FULL = Size(
    name="full",
    trajectories=2500,
    test=800,
    horizon=500,
    lead=20,
    fit={"members": 5, "hidden": [512, 512], "epochs": 150},
    histories=(1, 2, 3, 5, 10, 20),
    strides=(1, 2, 3, 4, 5),
    rollouts=(1, 3, 5, 10, 20, 30),
    dataset_sizes=(50, 100, 200, 500, 1000, 1500, 2000, 2500),
    training={
        "reacher": {"steps": 20_000_000},
        "table-tennis": {"steps": 25_000_000},
        "ball-in-a-cup": {"steps": 150_000_000, "envs": 4096},
    },
    ablations=dict.fromkeys(_TASKS, COLUMNS),
    trials=100,
    robot_seeds=(0, 1, 2),
)

SIZES = {size.name: size for size in (SMOKE, SMALL, FULL)}
