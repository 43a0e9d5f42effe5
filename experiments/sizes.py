"""How much an experiment takes: smoke shows that it runs, small is an hour on two cores, full is
the paper's. The numbers are in sizes.toml."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
    trajectories: int  # to learn from
    test: int  # trajectories to judge by
    horizon: int  # steps of the open-loop rollouts
    lead: int
    """Samples of a trajectory before the first that is predicted from: the longest history must fit
    in."""
    fit: Mapping[str, Any]  # settings of every fit
    histories: tuple[int, ...]
    strides: tuple[int, ...]
    rollouts: tuple[int, ...]  # steps of the multi-step loss
    dataset_sizes: tuple[int, ...]
    training: Mapping[str, Mapping[str, Any]]
    """Settings of a policy's training, task by task; a task that is not here is left out."""
    trials: int  # of a policy, on each robot
    robot_seeds: tuple[int, ...]
    """Robots that policies are tried on; the first is the one that was recorded."""
    ablations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which of ``COLUMNS`` are tried, task by task; all of them where nothing is said."""
    ppo: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is changed in how policies learn, task by task."""
    uan: Mapping[str, Any] = field(default_factory=dict)  # what is changed in UAN's training
    notes: tuple[str, ...] = ()  # how it falls short of the paper's size
    pool: int | None = None  # settled robots that episodes start from; None: the task's own
    seeds: Mapping[str, int] = field(default_factory=lambda: {"train": 0, "test": 1})
    """Of the exploration signals."""
    training_seeds: tuple[int, ...] = (0,)  # each policy is trained once for each of them

    def columns(self, task: str) -> tuple[str, ...]:
        """The ablations of ``task`` that are tried, none where the task is left out."""
        return self.ablations.get(task, COLUMNS) if task in self.training else ()

    @property
    def label(self) -> str:
        """What its results are called: the name, and the seeds if policies were trained with
        others than 0."""
        seeds = "-".join(map(str, self.training_seeds))
        return self.name if self.training_seeds == (0,) else f"{self.name}-seeds-{seeds}"

    @property
    def flags(self) -> str:
        seeds = " ".join(map(str, self.training_seeds))
        return f"--size {self.name}" + ("" if seeds == "0" else f" --seeds {seeds}")

    def trained(self, seeds: Sequence[int]) -> "Size":
        """The same with policies trained once for each of ``seeds``."""
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise SettingError(
                f"Seeds of trainings must be different numbers from 0 on, not {list(seeds)}."
            )
        return replace(self, training_seeds=tuple(seeds))


def _read() -> dict[str, Size]:
    content = tomllib.loads(Path(__file__).with_name("sizes.toml").read_text(encoding="utf-8"))
    rows = ("histories", "strides", "rollouts", "dataset_sizes", "robot_seeds", "notes")
    for size in content.values():
        size.update({name: tuple(size[name]) for name in rows if name in size})
        size["ablations"] = {task: tuple(row) for task, row in size.get("ablations", {}).items()}
    return {name: Size(name, **size) for name, size in content.items()}


SIZES = _read()
SMOKE, SMALL, FULL = SIZES["smoke"], SIZES["small"], SIZES["full"]
