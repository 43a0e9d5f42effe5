"""``genan serve``."""

import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from genan.cli.terminal import given, interruptible
from genan.errors import refuse
from genan.jax_setup import prepare
from genan.robot.package import check_offers, open_virtual


@dataclass(frozen=True)
class Serve:
    """Serve a virtual robot on the network: a process of its own, in real time, in the robot's own
    protocol.

    Whatever can command the real robot over the network can command it. It listens on this computer
    only, unless --host says otherwise. Ctrl-C brings the arm to rest and ends.
    """

    robot: str  # Robot to serve: virtual-NAME.
    host: str = "127.0.0.1"  # Address to listen on; any other lets others command the robot.
    port: int = 4700  # Port; 0 picks a free one.
    seed: int = 0  # Which specimen of the virtual robot: other tolerances and wear.
    hours: float = 0.0  # Operating hours behind the robot [h].
    watchdog: float = 0.04  # How long its client may be silent before the robot goes to rest [s].
    ramp: float = 1.0  # How long that takes [s].
    log: Path | None = None  # File to write what happens to, a JSON object to a line.
    wiring: str | None = None  # Which wiring it has, by name (docs/pamy2-protocol.md).
    attached: bool = False  # End, as by Ctrl-C, when standard input does: who started it is gone.

    def run(self) -> None:
        package = check_offers(self.robot, "server", "to serve")
        refuse((self.seed < 0, f"A seed must not be negative, got {self.seed}."))
        # Whoever started it in the background ends it by SIGTERM, which is as good as Ctrl-C.
        with interruptible(signal.SIGTERM) as stopping:
            prepare()
            server = package.load("server")(
                lambda: open_virtual(self.robot, seed=self.seed, hours=self.hours), host=self.host,
                port=self.port, watchdog=self.watchdog, ramp=self.ramp, log=self.log,
                **given(wiring=self.wiring),
            )  # fmt: skip
            host, port = server.address
            if not host.startswith("127."):
                warning = f"genan: anyone who can reach {host}:{port} can command this robot."
                print(warning, file=sys.stderr)
            print(f"{self.robot} serves on {host}:{port}", flush=True)
            watching = threading.Thread(target=os.read, args=(0, 1), daemon=True)
            if self.attached:
                watching.start()
            server.serve(lambda: stopping() or (self.attached and not watching.is_alive()))
        print(f"{self.robot} is at rest, and closed.")
