"""What can be searched for, and among which settings: one space for each trainer.

The defaults are in every space, and a trial with the defaults is the very job that a study does
with them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from experiments.jobs import PLAIN, Job, collect_job, evaluate_job, plain_fit, train_job, uan_job
from experiments.sizes import Size
from genan.errors import SettingError, listing

SEARCHES = ("uan", "fit", "reacher", "table-tennis", "ball-in-a-cup")
"""What can be searched for."""
LONGEST, WIDEST = 20, 3
"""The longest history and the widest stride that are tried."""
DIGITS = 4
"""Significant digits of a setting: what a person can type gives the same trial."""


@dataclass(frozen=True)
class OneOf:
    """One of several values, in no order; the sampler knows them as JSON (``encoded``)."""

    name: str
    options: tuple[Any, ...]
    group: str = ""
    """Which of the job's groups of settings it belongs to: none, ``ppo``, or ``changed`` (those of
    a task)."""

    def including(self, default: Any) -> "OneOf":
        return self if default in self.options else replace(self, options=(default, *self.options))

    def encoded(self, value: Any) -> str:
        return json.dumps(value)

    def decoded(self, suggestion: Any) -> Any:
        return json.loads(suggestion)


@dataclass(frozen=True)
class Between:
    """A number between two others; the sampler knows those near one by their distance from it."""

    name: str
    low: float | int
    high: float | int
    group: str = ""
    scale: Literal["log", "linear", "log to one"] = "log"
    """Where to look closely: near zero, everywhere alike, or near one."""
    whole: bool = False  # only whole numbers

    def including(self, default: float | int) -> "Between":
        return replace(self, low=min(self.low, default), high=max(self.high, default))

    @property
    def ends(self) -> list[float | int]:
        return sorted((self.encoded(self.low), self.encoded(self.high)))

    def encoded(self, value: float | int) -> float | int:
        return 1.0 - value if self.scale == "log to one" else value

    def decoded(self, suggestion: float | int) -> float | int:
        return suggestion if self.whole else float(f"{self.encoded(suggestion):.{DIGITS}g}")


Setting = OneOf | Between


@dataclass(frozen=True)
class Space:
    """A trainer, the settings that are varied, and what makes one set of them better than
    another.
    """

    settings: tuple[Setting, ...]
    defaults: Mapping[str, Any]  # of each of the settings, as JSON can hold it
    base: Job  # the training with the defaults
    read: Callable[[Mapping[str, Any]], float | None]
    """The objective, from the result of a trial's last job; None where it has none."""
    objective: str  # what is compared, for people
    unit: str
    lower_is_better: bool = True
    judge: Callable[[Job], Job] = lambda job: job  # the last job of a trial, from its training
    notes: tuple[str, ...] = ()

    @classmethod
    def around(
        cls, known: Mapping[str, Any], settings: Sequence[Setting], *base: Any, **more: Any
    ) -> "Space":
        """One that has the defaults, which are among the ``known`` settings, within."""
        defaults = {setting.name: known[setting.name] for setting in settings}
        within = tuple(setting.including(defaults[setting.name]) for setting in settings)
        return cls(within, defaults, *base, **more)

    @property
    def shared(self) -> tuple[Job, ...]:
        """What all trials need and none of them changes."""
        last = self.judge(self.base)
        needs = {need.fingerprint: need for job in (self.base, last) for need in job.needs.values()}
        needs.pop(self.base.fingerprint, None)
        return tuple(needs.values())

    def job(self, values: Mapping[str, Any], *, label: str) -> Job:
        """The last job of the trial with these settings; those that are at their defaults are left
        unsaid.
        """
        made = dict(self.base.settings)
        for setting in self.settings:
            value = values[setting.name]
            if value == self.defaults[setting.name]:
                continue
            if setting.group:
                made[setting.group] = {**made[setting.group], setting.name: value}
            else:
                made[setting.name] = value
        return self.judge(replace(self.base, settings=made, label=label))


def find_space(what: str, size: Size) -> Space:
    """The space of ``what``, one of ``SEARCHES``."""
    if what not in SEARCHES:
        raise SettingError(f"There is no search for {what!r}; there are: {listing(SEARCHES)}.")
    if what in ("uan", "fit"):
        return _uan(size) if what == "uan" else _fit(size)
    if what not in size.training:
        raise SettingError(f"The size {size.name!r} leaves {what} out; take another --size.")
    return _task(what, size)


def _uan(size: Size) -> Space:
    from experiments.uan import UanSettings

    defaults = UanSettings()
    known = {**asdict(defaults), **defaults.ppo.settings(), **size.uan}
    envs = known["num_envs"]
    # Not the bound, where episodes end: the objective is cut there, so that a narrow one would look
    # good.
    settings = (
        Between("history_length", 1, LONGEST, whole=True),
        OneOf("num_envs", (envs // 2, envs, 2 * envs, 4 * envs)),
        OneOf("horizon", (None, 50, 100, 200, 500)),
        Between("smoothness_weight", 1e-5, 1e-1),
        *_ppo(deviation=(0.1, 3.0)),
        Between("learning_rate", 3e-5, 1e-2, "ppo"),
        OneOf("num_steps_per_env", (32, 64, 128, 256), "ppo"),
        OneOf("hidden", _networks(known["hidden"]), "ppo"),
        OneOf("activation", ("tanh", "elu"), "ppo"),
        OneOf("output_gain", (0.01, 0.1, 1.0), "ppo"),
        OneOf("time_limit", ("terminal", "bootstrap"), "ppo"),
    )
    return Space.around(
        known,
        settings,
        uan_job(size),
        lambda result: result["held_out_distance"],
        objective="distance from held-out trajectories",
        unit="standard deviations",
    )


def _fit(size: Size) -> Space:
    from experiments.studies import DEGREES
    from genan.actuator.settings import FitSettings

    known = {**FitSettings().settings(), **size.fit, **PLAIN}
    settings = (
        Between("history_length", 1, LONGEST, whole=True),
        Between("history_stride", 1, WIDEST, scale="linear", whole=True),
        OneOf("hidden", _networks(known["hidden"])),
        OneOf("activation", ("tanh", "relu", "elu", "softsign")),
        OneOf("learning_rate", (None, 3e-4, 5e-4, 1e-3, 2e-3, 4e-3)),
        OneOf("batch_size", (None, 512, 1024, 2048, 4096, 8192)),
        OneOf("control_noise", (0.0, 0.003, 0.01, 0.03)),
        OneOf("history_noise", (0.0, 3e-5, 1e-4, 3e-4, 1e-3)),
    )
    # A recording for the search alone: what is chosen by the test recording cannot be judged by it.
    test = collect_job(size, "test")
    seed, label = max(size.seeds.values()) + 1, f"record {size.test} trajectories to search by"
    recording = replace(test, settings={**test.settings, "seed": seed}, label=label)

    def judge(actuators: Job) -> Job:
        job = evaluate_job(size, actuators)
        # All trials are judged at the same samples, whose past is long enough for the longest.
        made = {**job.settings, "lead": max(size.lead, LONGEST * WIDEST)}
        return replace(job, settings=made, needs={**job.needs, "data": recording})

    def read(result: Mapping[str, Any]) -> float | None:
        error = result["ensemble"]["curve"]["mean"][-1][result["columns"].index("overall")]
        return None if error is None else DEGREES * error

    objective = f"error after {size.horizon} steps on a recording of its own"
    return Space.around(
        known, settings, plain_fit(size), read, objective=objective, unit="deg", judge=judge
    )


def _task(task: str, size: Size) -> Space:
    from genan.rl.config import preset

    base = train_job(size, task, "position loss")
    chosen, changed = preset(task, base.settings["preset"]), base.settings["ppo"]
    learning = chosen.ppo
    known = {**learning.settings(), **chosen.task.settings(), **changed}
    # The penalties on actions and disagreement are left alone: they cost success here and win it on
    # a robot.
    weights: dict[str, tuple[Setting, ...]] = {
        "table-tennis": (
            Between("hit_weight", 1.0, 100.0, "changed"),
            Between("landing_weight", 5.0, 500.0, "changed"),
            OneOf("landing_paid", ("once", "each-step"), "changed"),
        ),
        "ball-in-a-cup": (
            Between("cup_reward", 1.0, 100.0, "changed"),
            Between("velocity_weight", 1e-3, 0.1, "changed"),
        ),
    }
    settings = (
        *_ppo(deviation=(0.1, 1.5)),
        Between("learning_rate", 3e-5, learning.max_learning_rate, "ppo"),
        Between("kl_threshold", 0.002, 0.03, "ppo"),
        OneOf("hidden", _networks(known["hidden"]), "ppo"),
        OneOf("activation", ("leaky_relu", "elu", "tanh"), "ppo"),
        Between("limit_weight", 0.1, 10.0, "changed"),
        *weights.get(task, ()),
    )
    return Space.around(
        known,
        settings,
        base,
        lambda result: 100.0 * result["judged"]["success"],
        objective="success in the simulator",
        unit="%",
        lower_is_better=False,
        notes=(
            "This is success in the simulator, which says little about a robot: try the best with "
            "genan transfer.",
        ),
    )


def _ppo(deviation: tuple[float, float]) -> tuple[Setting, ...]:
    """Of PPO, whatever it learns."""
    return (
        Between("gamma", 0.9, 0.999, "ppo", "log to one"),
        Between("gae_lambda", 0.8, 1.0, "ppo", "linear"),
        Between("clip_range", 0.05, 0.4, "ppo"),
        OneOf("entropy_coef", (0.0, 3e-4, 1e-3, 3e-3, 1e-2), "ppo"),
        OneOf("num_minibatches", (4, 8, 16, 32), "ppo"),
        Between("num_epochs", 2, 8, "ppo", whole=True),
        Between("init_std", *deviation, "ppo"),
    )


def _networks(default: Sequence[int]) -> tuple[list[int], ...]:
    """Narrower, wider and deeper than the default, which they cost in proportion to."""
    width, depth = int(default[0]), len(default)
    sizes = ((width // 2, depth), (width, depth), (2 * width, depth), (4 * width, depth))
    return tuple([wide] * deep for wide, deep in (*sizes, (width, depth + 1)))
