"""What a flight consists of beside the policy: ramps and pauses. They are controllers like any
other."""

import math

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Reading
from genan.errors import SettingError
from genan.robot import Robot


class RampTo:
    """Bring the controls to ``u`` along a line; slower than asked for where the rate limit needs
    it."""

    repeat = 1

    def __init__(
        self, u: Float[np.ndarray, " nu"], *, seconds: float, robot: Robot, change: float
    ) -> None:
        """Refuses controls out of the range of ``robot``.

        Args:
            u: where to go.
            seconds: how long it takes [s]; the paper's 2 s before each trial.
            robot: whose controls they are.
            change: largest change of a control in a period (``SafetySettings.change``).
        """
        lower, upper = robot.u_range
        if np.shape(u) != (robot.nu,) or not np.all((lower <= u) & (u <= upper)):
            raise SettingError(
                f"The controls to go to must be {robot.nu} numbers from {lower.tolist()} to {upper.tolist()}, not "
                f"{np.asarray(u).tolist()}."
            )
        if not 0.0 <= seconds < math.inf:
            raise SettingError(
                f"A ramp must last a number of seconds of at least 0, not {seconds:g}."
            )
        self._u, self._change = np.array(u, float), change
        self._ticks = self._left = round(seconds / robot.dt)
        self._begun = False

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """See how far it is."""
        self.start(u)

    def start(self, u: Float[np.ndarray, " nu"]) -> None:
        """See how far it is from ``u``; a ramp needs no reading."""
        farthest = float(np.abs(self._u - u).max())
        # A tick more than needed where rounding would ask for a little more than the limit in the
        # last one.
        self._left = max(self._ticks, math.ceil(farthest / self._change - 1e-9))
        self._begun = True

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """A ramp looks at nothing."""

    def act(self, reading: Reading | None, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """An equal part of what is left."""
        change = (self._u - u) / max(self._left, 1)
        self._left -= 1
        return change

    def done(self) -> bool:
        """Whether it is there."""
        return self._begun and self._left <= 0


class Hold:
    """Leave the controls as they are."""

    repeat = 1

    def __init__(self, *, seconds: float, robot: Robot) -> None:
        """For ``seconds`` [s]."""
        self._left = round(seconds / robot.dt)
        self._change = np.zeros(robot.nu)

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """Nothing to begin."""

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """A pause looks at nothing."""

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """No change."""
        self._left -= 1
        return self._change

    def done(self) -> bool:
        """Whether the time is up."""
        return self._left <= 0
