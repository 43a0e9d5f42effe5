"""``VirtualRobot``: a program that plays a robot. A subclass in a robot's folder
(``RobotPackage.virtual``) makes it known to ``collect``, ``deploy``, ``transfer`` and ``view``. Its
physics are its own: it imports nothing of genan's dynamics, actuators or simulator."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from genan.errors import SettingError
from genan.robot.robot import Robot


class VirtualRobot(ABC):
    """A robot that moves on by one period with each command. The same seed, hours and commands must
    give the same positions to the last bit. The constructor takes ``seed`` (which specimen),
    ``hours`` (operating hours behind it) and ``drift`` (how fast it ages, 1 is the usual)."""

    robot: Robot  # Its description.
    seed: int = 0
    hours: float = 0.0
    truth_sizes: ClassVar[Mapping[str, int]] = {}  # What only a program can tell (tau, ...): sizes.
    group: ClassVar[int] = 1  # Trajectories that ``play`` computes at once; above 1: in threads.
    pushable: ClassVar[bool] = False  # Whether ``push`` works.

    @abstractmethod
    def reset(self) -> None:
        """Back to rest at the rest controls, as after switching the robot on."""

    def next_trial(self, trial: int) -> None:
        """Ready for another trial, as the robot is now: hysteresis and drift go on. Props are put
        in place for ``trial``, counted from 0."""
        return

    @abstractmethod
    def read(self) -> Float[np.ndarray, " nq"]:
        """Joint positions that the sensors report [rad or m]."""

    @abstractmethod
    def command(self, u: Float[np.ndarray, " nu"]) -> object:
        """Run for one period at the controls ``u``; what it returns is the robot's own matter."""

    def push(self, torque: Float[np.ndarray, " nq"]) -> None:
        """Lean on the arm with ``torque`` [N m] from now on; zeros let go of it."""
        raise SettingError(f"The virtual {self.robot.name} cannot be pushed.")

    def truth_for_evaluation_only(self) -> Mapping[str, Float[np.ndarray, " n"]]:
        """The values of ``truth_sizes`` now: to judge a model, never to train or control."""
        return {}

    def play(
        self, u: Float[np.ndarray, "batch T nu"], *, hours: Float[np.ndarray, " batch"], keep: int
    ) -> tuple[Float[np.ndarray, "batch keep nq"], Mapping[str, Float[np.ndarray, "batch keep _"]]]:
        """Play each row of controls from rest; positions and truth of the last ``keep`` periods.
        Positions are those read when a period's control is given. ``hours`` is the age of each copy
        [h]; a robot that does not age ignores it."""
        positions, truths = [], []
        for controls in u:
            self.reset()
            for k, control in enumerate(controls):
                if k >= len(controls) - keep:
                    positions.append(np.array(self.read(), float))
                    truths.append(self.truth_for_evaluation_only())
                self.command(control)
        rows = lambda values: np.array(values).reshape(len(u), keep, -1)
        truth = {name: rows([tick[name] for tick in truths]) for name in self.truth_sizes}
        return rows(positions), truth
