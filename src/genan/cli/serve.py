"""Serve the virtual PAMY2 as a robot on the network: a process of its own, in real time, in the
robot's own protocol.

Whatever can command the lab's PAMY2 over UDP can command it. It listens on this computer only,
unless --host says otherwise. Ctrl-C brings the arm to rest and ends.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genan.deployment.server import ServerSettings

#: Robots that can be served.
ROBOTS = ("virtual-pamy2",)


@dataclass(frozen=True)
class Serve:
    """Flags of ``genan serve``."""

    robot: str = "virtual-pamy2"
    """Robot to serve."""
    host: str = "127.0.0.1"
    """Address to listen on; with any other than this computer's own, others can command the
    robot."""
    port: int = 4700
    """UDP port; 0 picks a free one."""
    seed: int = 0
    """Which specimen of the virtual robot: same design, other tolerances and wear."""
    hours: float = 0.0
    """Operating hours behind the robot [h]."""
    watchdog: float = 0.04
    """How long its client may be silent before the robot brings itself to rest [s]."""
    ramp: float = 1.0
    """How long that takes [s]."""
    log: Path | None = None
    """File to write what happens to, a JSON object to a line."""

    def run(self) -> int:
        """Serve until Ctrl-C."""
        from genan.deployment.server import ServerSettings
        from genan.errors import SettingError, listing

        if self.robot not in ROBOTS:
            raise SettingError(
                f"There is no robot {self.robot!r} to serve; there are: {listing(ROBOTS)}."
            )
        if self.seed < 0:
            raise SettingError(f"A seed must not be negative, got {self.seed}.")
        return self._serve(ServerSettings(watchdog=self.watchdog, ramp=self.ramp))

    def _serve(self, settings: "ServerSettings") -> int:
        import signal
        import sys
        from contextlib import ExitStack

        from genan.cli.terminal import interruptible
        from genan.deployment.clock import WallClock
        from genan.deployment.server import Server, listen
        from genan.deployment.server_log import ServerLog
        from genan.jax_setup import use_cache
        from genan.robot.pamy2_pressures import bar_from_control

        with (
            ExitStack() as stack,
            interruptible() as interrupt,
            listen(self.host, self.port) as listening,
        ):
            # Whoever started it in the background ends it by SIGTERM, which is to be as good as
            # Ctrl-C.
            stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, interrupt))
            clock = WallClock()
            use_cache()
            from genan.virtual import VirtualPamy2

            plant = VirtualPamy2(seed=self.seed, hours=self.hours)
            rest = bar_from_control(plant.robot.u_rest)
            plant.command_pressures(rest)  # compiles
            plant.truth_for_evaluation_only()
            plant.reset()
            log = ServerLog(self.log, clock)
            server = Server(plant, rest, listening, settings=settings, log=log, clock=clock)
            host, port = server.address
            if not host.startswith("127."):
                print(
                    f"genan: anyone who can reach {host}:{port} can command this robot.",
                    file=sys.stderr,
                )
            print(f"virtual PAMY2 serves on {host}:{port}", flush=True)
            server.serve(lambda: interrupt.requested)
        print("virtual PAMY2 is at rest, and closed.")
        return 0
