"""``genan view``."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from genan.cli.terminal import KeyFlags, given, interruptible
from genan.errors import refuse


@dataclass(frozen=True)
class View(KeyFlags):
    """Look at it in 3-D, in a web page on this computer: a recording with the simulated arm over
    it, or a policy live.

    'genan view RECORDING.h5' replays: scrub time, choose trajectory and member, see torque, control
    and disagreement. 'genan view --live' runs a policy on the virtual robot: drag the goal, push
    the arm, age the robot; in tasks without a goal, start trials. Ctrl-C ends it.
    """

    what: tyro.conf.Positional[str | None] = None
    """The recording: of 'genan collect', or the flights.h5 of 'genan transfer'. With --live, the
    task: reacher (also when left out), table-tennis or ball-in-a-cup."""
    live: bool = False  # Run a policy on the virtual robot instead of replaying a recording.
    actuators: Path | None = None  # Actuators of the simulated arm; left out: the bundled ones.
    member: int | None = None  # Which member drives it at first, from 0; left out, the mean of all.
    trajectory: int | None = None  # Which one to begin with, counted from 0; left out: 0.
    robot: str | None = None  # The recording's: its name or robot.toml; left out, the actuators'.
    policy: Path | None = None  # The policy to watch live; left out: the bundled one.
    seed: int | None = None  # Which specimen of the virtual robot; left out: 0.
    hours: float | None = None  # Operating hours behind the virtual robot [h]; left out: 0.
    port: int = 8080  # Port of the page, which only this computer can reach; 0 picks a free one.

    def run(self) -> None:
        from genan.viewer.live import view_live
        from genan.viewer.replay import view_recording

        replays = given(trajectory=self.trajectory, robot=self.robot)
        lives = given(policy=self.policy, seed=self.seed, hours=self.hours)
        is_for, other = "--live and means nothing for a recording", lives
        if self.live:
            is_for, other = "a recording and means nothing with --live", replays
        refuse(
            (not self.live and self.what is None,
             "Give a recording to replay, or --live to watch a policy on the virtual robot."),
            *((True, f"--{flag} is for {is_for}; leave it out.") for flag in other),
            ((self.seed or 0) < 0, f"A seed must not be negative, got {self.seed}."),
        )  # fmt: skip
        # Whoever started it in the background ends it by SIGTERM, which is as good as Ctrl-C.
        with interruptible(signal.SIGTERM) as stopping:
            look: Any = view_live if self.live else view_recording
            look(
                (self.what or "reacher") if self.live else Path(self.what or ""), port=self.port,
                actuators=self.actuators, member=self.member, stopping=stopping, opened=_say,
                **lives, **replays,
            )  # fmt: skip
        print("The viewer is closed.")


def _say(address: str) -> None:
    print(f"Open {address} in a browser on this computer; Ctrl-C here ends it.", flush=True)
