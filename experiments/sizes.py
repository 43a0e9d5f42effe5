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
    "printed landing reward": {"changed": {"landing": "printed", "landing_paid": "each-step"}},
}
"""What the paper's ablations change in a policy's training, the whole method first: in the fit of
the actuators, in the task (``changed``), in the training. The last is no ablation but another
reading of the paper: its landing reward word for word, where the others have the lab's."""
COLUMNS = tuple(ABLATIONS)[:5]
"""The paper's."""
FAST, PAPER = "fast", "paper"
"""How policies learn: as we would, or by the paper's tables."""
OURS: Mapping[str, str] = {"ball-in-a-cup": "sparse"}
"""The preset that ``FAST`` stands for, where it is not the one of that name; all have the paper's
rewards and weights."""

SEARCH_TRIALS = 50


@dataclass(frozen=True)
class Trainings:
    """The policies of a task that learn in one way."""

    settings: Mapping[str, Any]  # of each training: steps, num_envs, ...
    columns: tuple[str, ...] = COLUMNS  # which of ``ABLATIONS``
    once: bool = False  # with the first seed only: it takes long


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
    training: Mapping[str, Mapping[str, Trainings]]
    """Which policies are trained: task by task and preset by preset (``FAST``, ``PAPER``), the one
    that is compared with the paper first; a task that is not here is left out."""
    trials: int  # of a policy, on each robot
    robot_seeds: tuple[int, ...]
    """Robots that policies are tried on; the first is the one that was recorded."""
    ppo: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is changed in how policies learn, task by task."""
    uan: Mapping[str, Any] = field(default_factory=dict)  # what is changed in UAN's training
    notes: tuple[str, ...] = ()  # how it falls short of the paper's size
    pool: int | None = None  # settled robots that episodes start from; None: the task's own
    seeds: Mapping[str, int] = field(default_factory=lambda: {"train": 0, "test": 1})
    """Of the exploration signals."""
    training_seeds: tuple[int, ...] = (0,)  # each policy is trained once for each of them
    search_trials: Mapping[str, int] = field(default_factory=dict)
    """Trials of a search unless asked otherwise, where they are not ``SEARCH_TRIALS``."""

    @property
    def _other_seeds(self) -> tuple[str, ...]:
        usual = self.training_seeds == SIZES[self.name].training_seeds
        return () if usual else tuple(map(str, self.training_seeds))

    @property
    def label(self) -> str:
        """What its results are called: the name, and the seeds if they are not the size's own."""
        return "-".join([self.name, *(["seeds", *self._other_seeds] if self._other_seeds else [])])

    @property
    def flags(self) -> str:
        seeds = self._other_seeds
        return " ".join(["--size", self.name, *(["--seeds", *seeds] if seeds else [])])

    def seeds_of(self, task: str, preset: str) -> tuple[int, ...]:
        """The seeds that policies of ``task`` are trained with."""
        once = self.training[task][preset].once
        return self.training_seeds[:1] if once else self.training_seeds

    def trained(self, seeds: Sequence[int]) -> "Size":
        """The same with policies trained once for each of ``seeds``."""
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise SettingError(
                f"Seeds of trainings must be different numbers from 0 on, not {list(seeds)}."
            )
        return replace(self, training_seeds=tuple(seeds))


def _read() -> dict[str, Size]:
    content = tomllib.loads(Path(__file__).with_name("sizes.toml").read_text(encoding="utf-8"))
    for size in content.values():
        size.update({name: tuple(row) for name, row in size.items() if isinstance(row, list)})
        size["training"] = {
            task: {preset: _trainings(**made) for preset, made in presets.items()}
            for task, presets in size["training"].items()
        }
    return {name: Size(name, **size) for name, size in content.items()}


def _trainings(
    *, columns: Sequence[str] = COLUMNS, once: bool = False, **settings: Any
) -> Trainings:
    return Trainings(settings, tuple(columns), once)


SIZES = _read()
SMOKE, SMALL, FULL = SIZES["smoke"], SIZES["small"], SIZES["full"]
