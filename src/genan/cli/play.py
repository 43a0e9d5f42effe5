"""``genan play``."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

import genan
from genan.cli.terminal import Bars, KeyFlags, check_out, print_table, say
from genan.errors import refuse
from genan.jax_setup import compiling, prepare
from genan.robot.package import bundled_actuators, bundled_policy
from genan.tasks.registry import task_entry, task_settings
from genan.words import plural

if TYPE_CHECKING:
    from genan.tasks.task import Episodes

_POOL = 16  # Robots that are settled at first: enough that episodes start differently.
_SCREENS = {"DISPLAY", "WAYLAND_DISPLAY"}


@dataclass(frozen=True)
class Play(KeyFlags):
    """Judge and film episodes in the learned simulator: of a policy, or one that knows nothing."""

    task: tyro.conf.Positional[str]  # The task: reacher, ball-in-a-cup or table-tennis.
    policy: Path | None = None  # The --out of 'genan train'; left out: the bundled one.
    agent: Literal["policy", "zero", "random"] = "policy"
    """Who acts: the policy, zero (leaves the controls alone) or random (changes them at random)."""
    actuators: Path | None = None  # Actuators that drive the arm; left out: the bundled ones.
    robot: str | None = None  # Its name or robot.toml; left out, the one that the task is made for.
    episodes: int = 3  # How many.
    seed: int = 0  # Of everything that is drawn at random.
    video: Path | None = None  # File for the film, .mp4 or .gif; left out, TASK.mp4 here.
    window: bool = False  # Show the episodes in a window, which needs a screen; no film is made.
    overwrite: bool = False  # Replace the film of an earlier run.

    def run(self) -> None:
        entry = task_entry(self.task)
        blind = sys.platform.startswith("linux") and not _SCREENS & os.environ.keys()
        refuse(
            (self.episodes < 1, f"At least one episode must be played, not {self.episodes}."),
            (self.policy is not None and self.agent != "policy",
             f"Give --policy or --agent {self.agent}, not both."),
            (self.window and self.video is not None, "Give --video or --window, not both."),
            (self.window and blind, "There is no screen here to open a window on (DISPLAY is not "
             "set); film with --video."),
        )  # fmt: skip
        from genan.viewer import rendering

        path = wanted = self.video or Path(f"{self.task}.mp4")
        if not self.window:
            path = rendering.film_path(wanted)
            if path != wanted:
                encoder = "There is no MP4 encoder here ('pip install genan[video]' brings one)"
                say(f"{encoder}: {path} instead.")
            check_out(path, overwrite=self.overwrite, flag="--video", folder=False)
            missing = f"There is no folder {path.parent} to put the film into"
            refuse((not path.parent.is_dir(), f"{missing}; make it or give another --video."))
        prepare()
        import jax

        from genan.tasks.task import load_environment, random_agent, record_episodes, zero_agent

        usual = entry.settings.robot
        ensemble = genan.load(self.actuators or bundled_actuators(usual))
        robot = ensemble.contract.find_robot(ensemble.record, self.robot, usual=usual)
        if self.agent == "policy":
            policy = genan.Policy.load(self.policy or bundled_policy(self.task))
            theirs = f"The policy was trained for the task {policy.contract.task!r}"
            refuse((policy.contract.task != self.task, f"{theirs}, not for {self.task!r}."))
            settings = entry.settings.of_record(policy.contract.constants)
        else:
            settings = task_settings(self.task, robot=robot, record=ensemble.record)
        settings = replace(settings, pool=max(_POOL, self.episodes))
        environment = load_environment(
            settings, ensemble, envs=self.episodes, robot=robot, stagger=False
        )
        if self.agent == "policy":
            policy.check_environment(environment)
            if not policy.was_trained_on(ensemble):
                say("The policy was trained on other actuators than these.")
            agent = lambda observation, key: policy.mean(observation)
        else:
            ignorant = zero_agent if self.agent == "zero" else random_agent
            agent = ignorant(environment.action_size)
        with compiling(f"{self.task}, {plural(self.episodes, 'episode')}"):
            key = jax.random.key(self.seed)
            played = jax.device_get(record_episodes(environment, agent, key=key))
        self._print(played, environment.weights)
        stage = rendering.Stage(robot, entry)
        if self.window:
            rendering.play_in_window(environment, played, stage)
            return
        clips = []
        for k, result in enumerate(_results(played, "success", "no success")):
            caption = f"{self.task}, {self.agent}   episode {k + 1} of {self.episodes}"
            clip = rendering.episode_clip(environment, played, k, caption=caption, result=result)
            clips.append(clip)
        with closing(rendering.load_renderer(stage)) as renderer, Bars() as bars:
            if isinstance(renderer, rendering.FlatRenderer):
                say("OpenGL does not work here, so the pictures are flat drawings.")

            def pictures() -> Iterator[Any]:
                for k, picture in enumerate(rendering.film(clips, renderer)):
                    bars("filming", k + 1, sum(map(len, clips)))
                    yield picture

            rendering.write_film(pictures(), path)
        say(f"Wrote {path}")

    def _print(self, played: "Episodes", weights: Mapping[str, float]) -> None:
        terms = {name: w * played.terms[name].sum(0) for name, w in weights.items() if w}
        columns = {
            "episode": [str(k + 1) for k in range(self.episodes)],
            "return": [f"{total:.2f}" for total in played.reward.sum(0)],
            "success": _results(played, "yes", "no"),
            **{name: [f"{value:.2f}" for value in each] for name, each in terms.items()},
            **{name: [f"{value:.3g}" for value in each] for name, each in played.metrics.items()},
        }
        print_table(columns)
        say(f"{int(played.success.sum())} of {plural(self.episodes, 'episode')} succeeded.")


def _results(played: "Episodes", good: str, bad: str) -> list[str]:
    found = zip(played.sound[-1], played.success, strict=True)
    return ["ran away" if not sound else good if success else bad for sound, success in found]
