"""How much a study takes: smoke shows that it runs, small is an hour on two cores, full is the
paper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from genan.errors import SettingError, listing

COLUMNS = (
    "position loss",
    "torque loss",
    "no disagreement penalty",
    "no ensemble",
    "low action penalty",
)
"""The paper's ablations of a policy's training, the whole method first."""


@dataclass(frozen=True)
class Size:
    """What one size of all studies consists of."""

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
    uan: Mapping[str, Any]
    """What is changed in UAN's training."""
    histories: tuple[int, ...]
    strides: tuple[int, ...]
    rollouts: tuple[int, ...]
    """Steps of the multi-step loss."""
    rollout_members: int
    """Networks of an ensemble in that study: its loss takes long."""
    dataset_sizes: tuple[int, ...]
    training: Mapping[str, Mapping[str, Any]]
    """Settings of a policy's training, task by task; a task that is not here is left out."""
    ppo: Mapping[str, Mapping[str, Any]]
    """What is changed in how it learns, task by task."""
    ablations: Mapping[str, tuple[str, ...]]
    """Which of ``COLUMNS`` are tried, task by task."""
    trials: int
    """Of a policy, on each robot."""
    robot_seeds: tuple[int, ...]
    """Robots that policies are tried on; the first is the one that was recorded."""
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
        """What its results are called: the name, and how often policies were trained if more than
        once.
        """
        seeds = "-".join(map(str, self.training_seeds))
        return self.name if self.training_seeds == (0,) else f"{self.name}-seeds-{seeds}"

    @property
    def flags(self) -> str:
        """What asks for it on the command line."""
        seeds = (
            ""
            if self.training_seeds == (0,)
            else f" --seeds {' '.join(map(str, self.training_seeds))}"
        )
        return f"--size {self.name}{seeds}"

    def trained(self, seeds: Sequence[int]) -> "Size":
        """The same with policies trained once for each of ``seeds``."""
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise SettingError(
                f"Seeds of trainings must be different numbers from 0 on, not {list(seeds)}."
            )
        return replace(self, training_seeds=tuple(seeds))


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
    rollout_members=1,
    dataset_sizes=(12, 24),
    training={
        "reacher": {"envs": 32, "steps": 4096, "judge": 32},
        "table-tennis": {"envs": 32, "steps": 4096, "judge": 32},
        "ball-in-a-cup": {"envs": 32, "steps": 4096, "judge": 32},
    },
    ppo={
        "reacher": {"rollouts": 64, "mini_batches": 2},
        "table-tennis": {"rollouts": 64, "mini_batches": 2},
        "ball-in-a-cup": {"rollouts": 64, "mini_batches": 2},
    },
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
    uan={},
    histories=(1, 2, 3, 5, 10, 20),
    strides=(1, 2, 3, 4, 5),
    rollouts=(1, 3, 5, 10),
    rollout_members=1,
    dataset_sizes=(50, 100, 200),
    training={
        "reacher": {"envs": 512, "steps": 6_000_000},
        "table-tennis": {"envs": 512, "steps": 4_000_000},
    },
    ppo={"reacher": {"mini_batches": 8}, "table-tennis": {"mini_batches": 8}},
    ablations={"reacher": COLUMNS, "table-tennis": COLUMNS},
    trials=50,
    robot_seeds=(0,),
    notes=(
        "200 trajectories and three networks of 2 x 128, trained for 30 epochs; the paper has 2500, and networks of "
        "2 x 512 trained for 150 epochs.",
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
    uan={},
    histories=(1, 2, 3, 5, 10, 20),
    strides=(1, 2, 3, 4, 5),
    rollouts=(1, 3, 5, 10, 20, 30),
    rollout_members=1,
    dataset_sizes=(50, 100, 200, 500, 1000, 1500, 2000, 2500),
    training={
        "reacher": {"steps": 20_000_000},
        "table-tennis": {"steps": 25_000_000},
        "ball-in-a-cup": {"steps": 150_000_000, "envs": 4096},
    },
    ppo={},
    ablations=dict.fromkeys(("reacher", "table-tennis", "ball-in-a-cup"), COLUMNS),
    trials=100,
    robot_seeds=(0, 1, 2),
)

SIZES = {size.name: size for size in (SMOKE, SMALL, FULL)}


def find_size(name: str) -> Size:
    """The size of this name."""
    if name not in SIZES:
        raise SettingError(f"There is no size {name!r}; there are: {listing(SIZES)}.")
    return SIZES[name]
