"""Show what a policy does in a task: play some episodes in the simulator, print their rewards, film
them."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from genan.errors import SettingError
from genan.tasks.registry import TaskSettings, task_entry, task_settings

if TYPE_CHECKING:
    from rich.console import Console

    from genan.rl.episodes import Agent, Episodes
    from genan.rl.policy import Policy
    from genan.robot import Robot
    from genan.tasks.task import TaskEnvironment

#: Robots that are settled before the first episode: enough that episodes start differently.
_POOL = 16


@dataclass(frozen=True)
class Play:
    """Flags of ``genan play``."""

    task: tyro.conf.Positional[str]
    """The task: reacher, ball-in-a-cup or table-tennis."""
    policy: Path | None = None
    """Folder of the policy: the --out of 'genan train'; left out, the one that comes with genan."""
    agent: Literal["policy", "zero", "random"] = "policy"
    """Who acts: the policy, or one that knows nothing: zero (leaves the controls alone), random
    (changes them at random)."""
    actuators: Path | None = None
    """Folder of the fitted actuators that drive the arm; left out, those that come with genan."""
    robot: str | None = None
    """A bundled robot's name or the path of a robot.toml; left out, the robot that the task is made
    for."""
    episodes: int = 3
    """How many."""
    seed: int = 0
    """Of everything that is drawn at random."""
    video: Path | None = None
    """File for the film, .mp4 or .gif; left out, TASK.mp4 here."""
    window: bool = False
    """Show the episodes in a window instead of filming them; needs a screen."""
    overwrite: bool = False
    """Replace the film of an earlier run."""

    def run(self) -> int:
        """Play, print, film; exit code."""
        from rich.console import Console

        console = Console(highlight=False, markup=False, soft_wrap=True)
        self._check()
        path = None if self.window else self._film_path(console)

        from genan.jax_setup import compiling, use_cache

        use_cache()
        import jax

        from genan.actuator import load
        from genan.rl.episodes import record_episodes
        from genan.robot import Robot
        from genan.robot.package import bundled_actuators
        from genan.tasks.task import load_environment

        policy = self._policy()
        settings = replace(self._settings(policy), pool=max(_POOL, self.episodes))
        robot = Robot.load(self.robot or settings.robot)
        ensemble = load(
            self.actuators if self.actuators is not None else bundled_actuators(settings.robot)
        )
        environment = load_environment(
            settings, ensemble, envs=self.episodes, robot=robot, stagger=False
        )
        if policy is not None:
            policy.check_environment(environment)
            if not policy.was_trained_on(ensemble):
                console.print("The policy was trained on other actuators than these.")
        agent = self._agent(environment, policy)
        with compiling(f"{self.task}, {_count(self.episodes)}"):
            played = jax.device_get(
                record_episodes(environment, agent, key=jax.random.key(self.seed))
            )
        _print_episodes(console, environment, played)
        if path is None:
            _show(environment, robot, played)
        else:
            _film(console, environment, robot, played, path, name=f"{self.task}, {self.agent}")
        return 0

    def _check(self) -> None:
        task_entry(self.task)
        if self.episodes < 1:
            raise SettingError(f"At least one episode must be played, not {self.episodes}.")
        if self.policy is not None and self.agent != "policy":
            raise SettingError(f"Give --policy or --agent {self.agent}, not both.")
        if self.window and self.video is not None:
            raise SettingError("Give --video or --window, not both.")
        if self.window and sys.platform.startswith("linux") and not _screen():
            raise SettingError(
                "There is no screen here to open a window on (DISPLAY is not set); film with --video."
            )

    def _film_path(self, console: "Console") -> Path:
        from genan.report.video import film_path

        wanted = self.video or Path(f"{self.task}.mp4")
        path = film_path(wanted)
        if path != wanted:
            console.print(
                f"There is no MP4 encoder here ('pip install genan[video]' brings one): {path} instead."
            )
        if path.exists() and not self.overwrite:
            raise SettingError(
                f"{path} exists; give another --video, or --overwrite to replace it."
            )
        if not path.parent.is_dir():
            raise SettingError(
                f"There is no folder {path.parent} to put the film into; make it or give another --video."
            )
        return path

    def _policy(self) -> "Policy | None":
        if self.agent != "policy":
            return None
        from genan.rl.policy import load
        from genan.robot.package import bundled_policy

        policy = load(self.policy if self.policy is not None else bundled_policy(self.task))
        if policy.contract.task != self.task:
            raise SettingError(
                f"The policy was trained for the task {policy.contract.task!r}, not for {self.task!r}."
            )
        return policy

    def _settings(self, policy: "Policy | None") -> TaskSettings:
        """The task as the policy was trained in it, or as the paper has it."""
        if policy is None:
            return task_settings(self.task, robot=self.robot)
        return task_entry(self.task).settings.of_record(policy.contract.constants)

    def _agent(self, environment: "TaskEnvironment", policy: "Policy | None") -> "Agent":
        from genan.rl.episodes import random_agent, zero_agent

        if policy is not None:
            return lambda observation, key: policy.mean(observation)
        return {"zero": zero_agent, "random": random_agent}[self.agent](environment.action_size)


def _screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _count(episodes: int) -> str:
    return "1 episode" if episodes == 1 else f"{episodes} episodes"


def _print_episodes(console: "Console", environment: "TaskEnvironment", played: "Episodes") -> None:
    from rich.table import Table

    weights = {name: weight for name, weight in environment.weights.items() if weight}
    names = list(weights)
    table = Table("episode", "return", "success", *names, *played.metrics, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for k in range(environment.envs):
        terms = [f"{weights[name] * played.terms[name][:, k].sum():.2f}" for name in names]
        found = [f"{values[k]:.3g}" for values in played.metrics.values()]
        table.add_row(
            str(k + 1), f"{played.reward[:, k].sum():.2f}", _result(played, k), *terms, *found
        )
    # As wide as it is: numbers that are cut off say nothing.
    table.width = console.measure(table, options=console.options.update(max_width=1000)).maximum
    console.print(table, crop=False)
    console.print(f"{int(played.success.sum())} of {_count(environment.envs)} succeeded.")


def _result(played: "Episodes", k: int) -> str:
    return "ran away" if not played.sound[-1, k] else "yes" if played.success[k] else "no"


def _period(environment: "TaskEnvironment") -> float:
    return float(environment.task.settings.action_repeat * environment.simulator.scene.dt)


def _film(
    console: "Console",
    environment: "TaskEnvironment",
    robot: "Robot",
    played: "Episodes",
    path: Path,
    *,
    name: str,
) -> None:
    from rich.console import Console
    from rich.progress import track

    from genan.report.rendering import load_renderer
    from genan.report.scenes import Stage
    from genan.report.video import count_pictures, film, write_film

    task = environment.task
    renderer = load_renderer(Stage.build(task, robot))
    if not renderer.rendered:
        console.print("OpenGL does not work here, so the pictures are line drawings.")
    words = {"yes": "success", "no": "no success", "ran away": "ran away"}
    captions = [
        (f"{name}   episode {k + 1} of {environment.envs}", words[_result(played, k)])
        for k in range(environment.envs)
    ]
    try:
        period = _period(environment)
        frames = film(task, played, renderer, period=period, captions=captions)
        total = count_pictures(played, period=period)
        screen = Console(stderr=True)
        bar = track(
            frames,
            "filming",
            total=total,
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )
        write_film(iter(bar), path)
    finally:
        renderer.close()
    console.print(f"Wrote {path}")


def _show(environment: "TaskEnvironment", robot: "Robot", played: "Episodes") -> None:
    from genan.report.scenes import Stage
    from genan.report.window import show

    show(
        environment.task, played, Stage.build(environment.task, robot), period=_period(environment)
    )
