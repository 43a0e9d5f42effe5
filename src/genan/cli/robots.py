"""Verbs about robots: ``robots``, ``new-robot``, ``serve`` and ``identify``."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from genan.cli.terminal import check_out, interruptible, print_table, say
from genan.errors import RobotError, refuse
from genan.jax_setup import use_cache
from genan.robot import Robot, robot_names
from genan.robot.package import VIRTUAL, check_offers, find_package, open_virtual
from genan.words import DEGREES, plural


@dataclass(frozen=True)
class Robots:
    """List the robots there are, or check a robot.toml with its model and show what genan
    understands of it."""

    robot: Annotated[str | None, tyro.conf.Positional] = None
    """An installed robot's name, or the path of a robot.toml; left out: list the installed ones."""

    def run(self) -> None:
        if self.robot is None:
            for name in robot_names():
                try:
                    print(f"{name:<12}{Robot.load(name).description}")
                except RobotError as error:  # of another package, which must not hide the others
                    print(f"{name:<12}{error}")
            return
        robot = Robot.load(self.robot)
        say(f"{robot.name}: {robot.description}", "bold")
        counts = f"{robot.nq} joints, {robot.nu} controls, {1.0 / robot.dt:g} Hz"
        say(f"{counts}, model {robot.model_file}")
        if robot.name in robot_names():
            package = find_package(robot.name)
            virtual = [VIRTUAL + robot.name] if package.virtual else []
            if offers := [*virtual, *package.interfaces]:
                say(f"runs on {', '.join(offers)}")
        rows = []
        for joint in robot.joints:
            unit, factor = ("deg", DEGREES) if joint.kind == "hinge" else ("m", 1.0)
            numbers = (f"{factor * x:g}" for x in (joint.lower, joint.upper, joint.rest))
            rows.append((joint.name, joint.kind, *numbers, unit))
        print_table(("joint", "kind", "lower", "upper", "rest", "unit"), rows)
        rows = []
        for c in robot.controls:
            numbers = (f"{x:g}" for x in (c.lower, c.upper, c.rest))
            rows.append((c.name, c.unit, *numbers, f"{c.explore_lower:g} to {c.explore_upper:g}"))
        print_table(("control", "unit", "lower", "upper", "rest", "explored"), rows)


@dataclass(frozen=True)
class NewRobot:
    """Describe a new robot: write a commented robot.toml from its MJCF or URDF model and, if you
    have one, a log of it.

    What neither of them says is guessed; guesses are marked in the file and listed on the screen.
    """

    model: tyro.conf.Positional[Path]  # The robot's MJCF or URDF; robot.toml refers to it.
    logs: Path | None = None
    """A log in any format that 'genan import' reads: columns, ranges and rate are taken from it."""
    out: Path | None = None  # Folder for robot.toml; left out, the model's own.
    name: str | None = None  # What the robot is to be called; left out, what the model says.

    def run(self) -> None:
        from genan.importing.new_robot import new_robot

        path, new = new_robot(self.model, logs=self.logs, out=self.out, name=self.name)
        robot = Robot.load(path)
        joints, controls = plural(robot.nq, "joint"), plural(robot.nu, "control")
        print(f"Wrote {path}: {joints}, {controls}, {1.0 / robot.dt:.4g} Hz.")
        guessed = "Guessed, so check it in the file (marked GUESS):"
        print(guessed if new.guesses else "Nothing had to be guessed.")
        for guess in new.guesses:
            print(f"  - {guess}")
        step = f"import {self.logs} --robot {path} --out data.h5" if self.logs else f"robots {path}"
        print(f"Next: genan {step}")


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

    def run(self) -> None:
        package = check_offers(self.robot, "server", "to serve")
        refuse((self.seed < 0, f"A seed must not be negative, got {self.seed}."))
        # Whoever started it in the background ends it by SIGTERM, which is as good as Ctrl-C.
        with interruptible(signal.SIGTERM) as stopping:
            use_cache()
            server = package.load("server")(
                lambda: open_virtual(self.robot, seed=self.seed, hours=self.hours), host=self.host,
                port=self.port, watchdog=self.watchdog, ramp=self.ramp, log=self.log,
            )  # fmt: skip
            host, port = server.address
            if not host.startswith("127."):
                warning = f"genan: anyone who can reach {host}:{port} can command this robot."
                print(warning, file=sys.stderr)
            print(f"{self.robot} serves on {host}:{port}", flush=True)
            server.serve(stopping)
        print(f"{self.robot} is at rest, and closed.")


@dataclass(frozen=True)
class Identify:
    """Identify a robot's dynamics on the bench, compared with the real robot's figures.

    The experiments are the robot's own (``RobotPackage.identify``): PAMY2's repeat the lab's
    multisine identification, joint by joint, and sweep each control slowly up and down. Prints a
    table and draws.
    """

    robot: str  # Robot to put on the bench: virtual-NAME.
    out: Path = Path("identify")  # For the pictures; new, unless --overwrite is given.
    overwrite: bool = False  # Replace the pictures that an earlier run put into --out.
    seed: int = 0  # Seed of the excitation.
    robot_seed: int = 0  # Which specimen of the virtual robot.
    hours: float = 0.0  # Operating hours behind the robot [h].
    drift: float = 1.0  # How fast the robot ages: 0 never changes, 1 is the usual.

    def run(self) -> None:
        package = check_offers(self.robot, "identify", "to identify")
        check_out(self.out, overwrite=self.overwrite)
        use_cache()
        robot = open_virtual(self.robot, seed=self.robot_seed, hours=self.hours, drift=self.drift)
        found = package.load("identify")(robot, seed=self.seed)
        print(*found.lines(), sep="\n")
        for path in found.save_figures(self.out):
            print(f"picture: {path}")
