"""Direction check: does every control move its joint the way that the model says?

Behind another wiring than it was learnt with every loop is inverted, and the first flight finds out
at full speed. So each control makes a small step from rest, and the sign of the answer is compared
with the actuators'. What agreed is remembered, for one robot and its wiring (``is_checked``).
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import RobotInterface
from genan.deployment.loop import ControlLoop, Hold, RampTo
from genan.errors import ActuatorError, SettingError, refuse
from genan.files import Place, write_atomically
from genan.robot import Robot

if TYPE_CHECKING:
    from genan.actuator import Ensemble

REST, RISE, WAIT, READ = 0.5, 0.25, 0.5, 0.1
"""At rest, on the way, and at the step [s]; positions are means over the last of it [s]."""
WEAK = 0.2  # Less than this part of what the model says is no answer.
SMALLEST = 1e-3  # A step by which the model moves every joint less tells nothing [rad, m].

Moves = Float[np.ndarray, "nu nq"]


@dataclass(frozen=True)
class Direction:
    """What one control did to the joint that it should move most."""

    control: str
    joint: str
    step: float  # Of the control, in its unit.
    model: float  # Answer of the actuators [rad or m].
    robot: float  # Answer of the robot [rad or m].

    @property
    def agrees(self) -> bool:
        """Whether the robot went the way that the model says, and not just a little."""
        return self.robot / self.model > WEAK

    @property
    def words(self) -> str:
        """In words."""
        if self.agrees:
            return "as the model"
        return "INVERTED" if self.robot / self.model < -WEAK else "no answer"


def check_directions(
    robot: RobotInterface,
    actuators: Place,
    *,
    part: float = 0.05,
    stopping: Callable[[], bool] = lambda: False,
) -> tuple[Direction, ...]:
    """Step each control of a ``robot`` by a ``part`` of its range, within its limits and at its
    rate, and compare with the ``actuators`` in a folder. All agreeing is remembered."""
    from genan.actuator import load

    refuse((not 0.0 < part <= 0.25, f"A step is a part of a range, 0 to 0.25, not {part:g}."))
    arm = robot.robot
    (ensemble := load(actuators)).contract.check_robot(arm)  # before anything moves
    lower, upper = arm.u_range
    outwards = np.where(arm.u_rest + part * (upper - lower) <= upper, part, -part)
    steps = outwards * (upper - lower)
    moves, rests, last = [], [], max(1, round(READ / arm.dt))
    with ControlLoop(robot, stopping=stopping) as loop:
        for k in range(arm.nu):
            u = np.where(np.arange(arm.nu) == k, arm.u_rest + steps, arm.u_rest)
            ramp = RampTo(u, seconds=RISE, robot=arm, change=np.inf)
            flight = loop.run(Hold(seconds=REST, robot=arm), ramp, Hold(seconds=WAIT, robot=arm))
            if not flight.stop.sound:
                raise SettingError(f"The direction check ended because {flight.stop}.")
            ends = [np.flatnonzero(flight.phase == phase)[-1] + 1 for phase in (0, 2)]
            before, after = (flight.q[end - last : end].mean(axis=0) for end in ends)
            moves.append(after - before)
            rests.append(before)
    expected = model_moves(arm, ensemble, np.array(rests), steps)
    spans = np.ptp(arm.q_range, axis=0)
    found = []
    for k, control in enumerate(arm.control_names):
        joint = int(np.argmax(np.abs(expected[k]) / spans))
        if abs(expected[k, joint]) < SMALLEST:
            still = f"The actuators move no joint when {control!r} makes a step of {steps[k]:.3g}"
            raise ActuatorError(f"{still}; give a larger --step, or other actuators.")
        numbers = (float(x) for x in (steps[k], expected[k, joint], moves[k][joint]))
        found.append(Direction(control, arm.joint_names[joint], *numbers))
    if all(direction.agrees for direction in found):
        stamp = {**_identity(robot), "directions": [asdict(direction) for direction in found]}
        place = _stamp(robot)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(stamp, indent=1).encode())
    else:
        _stamp(robot).unlink(missing_ok=True)
    return tuple(found)


def model_moves(
    arm: Robot, ensemble: "Ensemble", rests: Moves, steps: Float[np.ndarray, " nu"]
) -> Moves:
    """How far the actuators move the joints [rad or m] in the same steps, more than they do
    without; ``rests``: joint positions before each of them."""
    from genan.actuator.errors import rollouts
    from genan.dynamics import load_dynamics

    history, dt = ensemble.contract.history, arm.dt
    past = np.repeat(rests[:, None], max(history.span, 1) + 1, axis=1)
    rise, wait = round(RISE / dt), round(WAIT / dt)
    shares = np.minimum(np.arange(1, rise + wait + 1) / rise, 1.0)
    shares = np.concatenate([np.zeros(history.reach), shares])[:, None]
    u = arm.u_rest + np.stack([shares * row for row in np.diag(steps)])
    both = np.concatenate([u, np.broadcast_to(arm.u_rest, u.shape)])
    found = rollouts(ensemble, load_dynamics(arm), np.concatenate([past, past]), both)[0]
    stepped, held = np.split(found[:, -max(1, round(READ / dt)) :].mean(axis=1), 2)
    return stepped - held


def is_checked(robot: RobotInterface) -> bool:
    """Whether a direction check of this robot, with this wiring, has agreed."""
    return _stamp(robot).exists()


def _identity(robot: RobotInterface) -> dict[str, Any]:
    return {"robot": robot.robot.name, "interface": type(robot).__name__, **robot.identity()}


def _stamp(robot: RobotInterface) -> Path:
    """Where the check of this robot is remembered."""
    digest = hashlib.sha256(json.dumps(_identity(robot), sort_keys=True).encode()).hexdigest()
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "genan" / "directions" / f"{robot.robot.name}-{digest[:16]}.json"
