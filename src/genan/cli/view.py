"""Look at it in 3-D, in a web page on this computer: a recording with the simulated arm over it, or
a policy live.

'genan view RECORDING.h5' replays: scrub time, choose trajectory and member, see torque, control and
disagreement. 'genan view --live' runs a policy on the virtual robot: drag the goal, push the arm,
age the robot; in tasks without a goal, start trials. Ctrl-C ends it.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from genan.errors import SettingError


@dataclass(frozen=True)
class View:
    """Flags of ``genan view``."""

    what: tyro.conf.Positional[str | None] = None
    """The recording: of 'genan collect', or the flights.h5 of 'genan transfer'. With --live, the
    task: reacher (also when left out), table-tennis or ball-in-a-cup."""
    live: bool = False
    """Run a policy on the virtual robot instead of replaying a recording."""
    actuators: Path | None = None
    """Folder of the fitted actuators that drive the simulated arm; left out, those that come with
    genan."""
    member: int | None = None
    """Which member of the ensemble drives it at first, counted from 0; left out, the mean of
    all."""
    trajectory: int | None = None
    """Which trajectory of the recording to begin with, counted from 0; left out: 0."""
    robot: str | None = None
    """The recording's robot: a bundled robot's name or the path of a robot.toml; left out, the one
    that the actuators were fitted for."""
    policy: Path | None = None
    """Folder of the policy to watch live; left out, the one that comes with genan."""
    seed: int | None = None
    """Which specimen of the virtual robot; left out: 0."""
    hours: float | None = None
    """Operating hours behind the virtual robot [h]; left out: 0."""
    port: int = 8080
    """Port of the page, which only this computer can reach; 0 picks a free one."""

    def run(self) -> int:
        """Show it until Ctrl-C."""
        import signal
        from contextlib import ExitStack
        from functools import partial

        from genan.cli.terminal import interruptible
        from genan.viewer.live import view_live
        from genan.viewer.replay import view_recording

        replays = {"trajectory": self.trajectory, "robot": self.robot}
        lives = {"policy": self.policy, "seed": self.seed, "hours": self.hours}
        if not self.live and self.what is None:
            raise SettingError(
                "Give a recording to replay, or --live to watch a policy on the virtual robot."
            )
        for flag, value in (replays if self.live else lives).items():
            if value is not None:
                where = "a recording" if self.live else "--live"
                other = "with --live" if self.live else "for a recording"
                raise SettingError(
                    f"--{flag} is for {where} and means nothing {other}; leave it out."
                )
        if self.seed is not None and self.seed < 0:
            raise SettingError(f"A seed must not be negative, got {self.seed}.")
        look = (
            partial(view_live, self.what or "reacher")
            if self.live
            else partial(view_recording, Path(self.what or ""))
        )
        asked = {name: value for name, value in (lives | replays).items() if value is not None}
        with ExitStack() as stack, interruptible() as interrupt:
            # Whoever started it in the background ends it by SIGTERM, as good as Ctrl-C.
            stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, interrupt))
            look(
                actuators=self.actuators,
                member=self.member,
                port=self.port,
                stopping=lambda: interrupt.requested,
                opened=_say,
                **asked,
            )
        print("The viewer is closed.")
        return 0


def _say(address: str) -> None:
    print(f"Open {address} in a browser on this computer; Ctrl-C here ends it.", flush=True)
