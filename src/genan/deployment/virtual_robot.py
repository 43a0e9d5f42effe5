"""``VirtualRobot``: the virtual PAMY2 in this process, behind the interface of any other robot."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from genan.deployment.clock import Clock, StepClock, WallClock
from genan.deployment.interface import ConnectionLostError, Reading, RobotInterface
from genan.robot import Robot

if TYPE_CHECKING:
    from genan.virtual.robot import VirtualPamy2


class VirtualRobot(RobotInterface):
    """A virtual PAMY2 that moves on by a period with each command."""

    def __init__(
        self,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        paced: bool = False,
        bench: "VirtualPamy2 | None" = None,
    ) -> None:
        """Which specimen of the design, how worn, and how fast its time goes.

        Args:
            seed: of the specimen.
            hours: operating hours behind it [h].
            drift: how fast it ages.
            paced: 500 Hz of real time; otherwise as fast as it can be computed.
            bench: one that is there already, instead of all this but the pace.
        """
        self.robot = Robot.load("pamy2") if bench is None else bench.robot
        self._steps = StepClock(self.robot.dt)
        self.clock: Clock = WallClock() if paced else self._steps
        self._seed, self._hours, self._drift = seed, hours, drift
        self._bench = bench
        self._connected = False
        self._u = self.robot.u_rest

    def connect(self) -> None:
        """Put it together (and compile it) the first time; later it goes on from where it was let
        go."""
        if self._bench is None:
            from genan.virtual.robot import VirtualPamy2  # with JAX: only where it is used

            self._bench = VirtualPamy2(seed=self._seed, hours=self._hours, drift=self._drift)
            self._bench.command(self._u)  # compiles, which no tick should wait for
            self._bench.reset()
        self._connected = True

    @property
    def bench(self) -> "VirtualPamy2":
        """The robot itself, for who judges a trial. It is not part of the interface."""
        if self._bench is None or not self._connected:
            raise ConnectionLostError("The virtual robot is not connected; call connect first.")
        return self._bench

    def read(self) -> Reading:
        """Joint positions that its encoders report [rad], with the time that it has run for [s]."""
        return Reading(self._steps.now(), self.bench.read())

    def command(self, u: Float[np.ndarray, "4"]) -> Float[np.ndarray, "4"]:
        """Run for one period at ``u``, within its range; returns that."""
        self._u = np.clip(u, *self.robot.u_range)
        self.bench.command(self._u)
        self._steps.advance()
        return self._u

    def idle(self) -> None:
        """One period with the controls as they are."""
        self.command(self._u)

    def stop(self) -> None:
        """Let go of it; it stays as it is."""
        self._connected = False
