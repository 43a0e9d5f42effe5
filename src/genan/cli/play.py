"""Watch episodes in the learned simulator: a policy, or one that knows nothing; judge and film
them."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from genan.cli.terminal import table
from genan.errors import SettingError
from genan.tasks.registry import task_entry, task_settings
from genan.words import plural

if TYPE_CHECKING:
    from rich.console import Console

    from genan.rl.policy import Policy
    from genan.tasks.task import Episodes, TaskEnvironment

#: Robots that are settled before the first episode: enough that episodes start differently.
_POOL = 16
_SCREENS = {"DISPLAY", "WAYLAND_DISPLAY"}


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
        from genan.robot import Robot
        from genan.robot.package import bundled_actuators
        from genan.tasks.task import load_environment, random_agent, record_episodes, zero_agent
        from genan.viewer.stage import Stage

        policy, entry = self._policy(), task_entry(self.task)
        settings = (
            task_settings(self.task, robot=self.robot)
            if policy is None
            else entry.settings.of_record(policy.contract.constants)
        )
        settings = replace(settings, pool=max(_POOL, self.episodes))
        robot = Robot.load(self.robot or settings.robot)
        ensemble = load(self.actuators or bundled_actuators(settings.robot))
        environment = load_environment(
            settings, ensemble, envs=self.episodes, robot=robot, stagger=False
        )
        if policy is None:
            agents = {"zero": zero_agent, "random": random_agent}
            agent = agents[self.agent](environment.action_size)
        else:
            policy.check_environment(environment)
            if not policy.was_trained_on(ensemble):
                console.print("The policy was trained on other actuators than these.")
            agent = lambda observation, key: policy.mean(observation)  # noqa: E731
        with compiling(f"{self.task}, {plural(self.episodes, 'episode')}"):
            played = jax.device_get(
                record_episodes(environment, agent, key=jax.random.key(self.seed))
            )
        _print_episodes(console, environment, played)
        stage = Stage(robot, entry)
        if path is None:
            from genan.viewer.rendering import play_in_window

            play_in_window(environment, played, stage)
        else:
            _film(console, environment, played, stage, path, name=f"{self.task}, {self.agent}")
        return 0

    def _check(self) -> None:
        task_entry(self.task)
        if self.episodes < 1:
            raise SettingError(f"At least one episode must be played, not {self.episodes}.")
        if self.policy is not None and self.agent != "policy":
            raise SettingError(f"Give --policy or --agent {self.agent}, not both.")
        if self.window and self.video is not None:
            raise SettingError("Give --video or --window, not both.")
        if self.window and sys.platform.startswith("linux") and not _SCREENS & os.environ.keys():
            raise SettingError(
                "There is no screen here to open a window on (DISPLAY is not set); film with "
                "--video."
            )

    def _film_path(self, console: "Console") -> Path:
        from genan.viewer.rendering import film_path

        wanted = self.video or Path(f"{self.task}.mp4")
        path = film_path(wanted)
        if path != wanted:
            console.print(
                "There is no MP4 encoder here ('pip install genan[video]' brings one): "
                f"{path} instead."
            )
        if path.exists() and not self.overwrite:
            raise SettingError(
                f"{path} exists; give another --video, or --overwrite to replace it."
            )
        if not path.parent.is_dir():
            raise SettingError(
                f"There is no folder {path.parent} to put the film into; make it or give another "
                "--video."
            )
        return path

    def _policy(self) -> "Policy | None":
        if self.agent != "policy":
            return None
        from genan.rl.policy import Policy
        from genan.robot.package import bundled_policy

        policy = Policy.load(self.policy or bundled_policy(self.task))
        if policy.contract.task != self.task:
            raise SettingError(
                f"The policy was trained for the task {policy.contract.task!r}, not for "
                f"{self.task!r}."
            )
        return policy


def _print_episodes(console: "Console", environment: "TaskEnvironment", played: "Episodes") -> None:
    weights = {name: weight for name, weight in environment.weights.items() if weight}
    rows = []
    for k in range(environment.envs):
        terms = [f"{weight * played.terms[n][:, k].sum():.2f}" for n, weight in weights.items()]
        found = [f"{values[k]:.3g}" for values in played.metrics.values()]
        total, success = f"{played.reward[:, k].sum():.2f}", _result(played, k, ("yes", "no"))
        rows.append([str(k + 1), total, success, *terms, *found])
    heads = ["episode", "return", "success", *weights, *played.metrics]
    made = table(heads, rows, left=["episode"])
    # As wide as it is: numbers that are cut off say nothing.
    made.width = console.measure(made, options=console.options.update(max_width=1000)).maximum
    console.print(made, crop=False)
    successes = int(played.success.sum())
    console.print(f"{successes} of {plural(environment.envs, 'episode')} succeeded.")


def _result(played: "Episodes", k: int, words: tuple[str, str]) -> str:
    return "ran away" if not played.sound[-1, k] else words[0 if played.success[k] else 1]


def _film(
    console: "Console",
    environment: "TaskEnvironment",
    played: "Episodes",
    stage: Any,
    path: Path,
    *,
    name: str,
) -> None:
    from rich.console import Console
    from rich.progress import track

    from genan.viewer import rendering

    renderer = rendering.load_renderer(stage)
    if not renderer.rendered:
        console.print("OpenGL does not work here, so the pictures are flat drawings.")
    clips = []
    for k in range(environment.envs):
        caption = f"{name}   episode {k + 1} of {environment.envs}"
        result = _result(played, k, ("success", "no success"))
        clips.append(rendering.episode_clip(environment, played, k, caption=caption, result=result))
    screen = Console(stderr=True)
    bar = track(
        rendering.film(clips, renderer), "filming", total=sum(map(len, clips)), console=screen,
        transient=True, disable=not screen.is_terminal,
    )  # fmt: skip
    try:
        rendering.write_film(iter(bar), path)
    finally:
        renderer.close()
    console.print(f"Wrote {path}")
