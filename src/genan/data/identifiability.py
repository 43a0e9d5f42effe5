"""Reasons why nothing can be learnt from a recording, whatever the network: ``genan fit`` refuses
for them."""

import numpy as np

from genan.data.inspection import Inspection
from genan.data.trajectories import Trajectories

#: Part of the one-step second differences' variance that is motion, below which a joint shows
#: nothing but its sensor.
LEAST_MOTION = 0.01
#: Fewest samples the sensor is judged from.
_FEWEST = 500


def obstacles(
    trajectories: Trajectories, inspection: Inspection, *, history_reach: int
) -> tuple[str, ...]:
    """Why nothing can be identified, one sentence each; empty where something can.

    Args:
        trajectories: the recording.
        inspection: what ``inspect`` found in it.
        history_reach: age of the oldest command that the network sees [samples], delay included.
    """
    found = []
    joints = inspection.joints
    if all(joint.lowest == joint.highest for joint in joints):
        found.append(
            f"No joint moves: all {inspection.samples} samples are the same; record the robot moving."
        )
    if not (np.ptp(trajectories.u, axis=0) > 0.0).any():
        found.append(
            f"No command changes: all {inspection.samples} samples are the same, so what commands do cannot be seen; "
            "record with commands that vary."
        )
    lags = [joint for joint in inspection.lag.joints if joint.steps is not None]
    shortest = min((joint.lowest for joint in lags), default=0)
    if lags and shortest > history_reach:
        found.append(
            f"Commands act {shortest} samples or more after they are given and the history reaches {history_reach} "
            f"samples back, so the network never sees the command that acts; give --delay {inspection.lag.steps}."
        )
    moving = [joint for joint in joints if joint.lowest < joint.highest]
    if (
        moving
        and inspection.samples >= _FEWEST
        and all(joint.signal_share < LEAST_MOTION for joint in moving)
    ):
        best = max(moving, key=lambda joint: joint.signal_share)
        advice = (
            f"take every {inspection.decimation}th sample"
            if inspection.decimation
            else "move faster or measure finer"
        )
        found.append(
            f"The signal is under the sensor's noise: at most {100 * best.signal_share:.2g} % of the one-step second "
            f"differences' variance is motion (joint {best.name!r}), where {100 * LEAST_MOTION:.0f} % is the "
            f"least; {advice}."
        )
    return tuple(found)
