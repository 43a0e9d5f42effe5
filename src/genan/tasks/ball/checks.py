"""Whether a recorded ball can be played: each reason against it is one sentence."""

import numpy as np
from jaxtyping import Float

from genan.errors import DataError
from genan.tasks.ball.scene import Scene

#: Fewest samples, longest time between two of them [s] and farthest way between two of them [m].
LEAST, LONGEST_GAP, FARTHEST_JUMP = 20, 0.05, 0.4
#: The first part of the flight, over which the fall is looked at [s], and how far it may be from g
#: [m/s^2]: drag and spin change it by up to 3.
FALL_TIME, FALL_TOLERANCE = 0.3, 4.0
#: How near to the base the ball must come along y, and the least it must travel that way [m].
NEAREST, APPROACH = 0.6, 1.0
GRAVITY = 9.81


def check(
    times: Float[np.ndarray, " n"], positions: Float[np.ndarray, "n 3"], name: str, scene: Scene
) -> None:
    """Refuse a recording with times [s] or positions [m] that cannot be a ball that is shot at the
    robot."""
    if len(times) < LEAST:
        raise DataError(
            f"{name}: {len(times)} samples are too few for a flight; record {LEAST} or more."
        )
    if not (np.isfinite(times).all() and np.isfinite(positions).all()):
        bad = int(np.argmin(np.isfinite(times) & np.isfinite(positions).all(axis=1)))
        raise DataError(
            f"{name}: sample {bad} is not a finite number; leave out samples at which the ball was not seen."
        )
    steps = np.diff(times)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise DataError(
            f"{name}: time stamps should increase, but {times[k + 1]:.4f} s comes after {times[k]:.4f} s; sort the "
            "samples and leave out repeated ones."
        )
    if steps.max() > LONGEST_GAP:
        k = int(np.argmax(steps))
        raise DataError(
            f"{name}: {steps[k]:.3f} s are missing after {times[k]:.3f} s, and {LONGEST_GAP} s is the longest gap that "
            "can be bridged; leave this ball out. (Are the stamps in seconds?)"
        )
    jumps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    if jumps.max() > FARTHEST_JUMP:
        k = int(np.argmax(jumps))
        raise DataError(
            f"{name}: the ball jumps by {jumps[k]:.2f} m at {times[k + 1]:.3f} s, more than {FARTHEST_JUMP} m; leave "
            "out samples at which something else was seen. (Are the positions in metres?)"
        )
    _check_frame(times, positions, name, scene)


def _check_frame(times: np.ndarray, positions: np.ndarray, name: str, scene: Scene) -> None:
    frame = (
        "the world frame has z up, the floor at z = 0, the robot's base at "
        f"{scene.base} m and the table's centre at {scene.table.centre} m, and balls come along -y"
    )
    early = times - times[0] <= FALL_TIME
    curve = np.polynomial.polynomial.polyfit(times[early] - times[0], positions[early], 2)
    pull = 2.0 * curve[2]
    if abs(pull[2] + GRAVITY) > FALL_TOLERANCE:
        x, y, z = pull
        raise DataError(
            f"{name}: a ball should fall along -z with about {GRAVITY} m/s^2, but this one is accelerated by "
            f"({x:.1f}, {y:.1f}, {z:.1f}) m/s^2 in its first {FALL_TIME} s; turn it into the world frame: {frame}."
        )
    first, nearest = positions[0, 1], positions[:, 1].min()
    if first - nearest < APPROACH or nearest > scene.base[1] + NEAREST:
        raise DataError(
            f"{name}: a ball should come along -y to y = {scene.base[1] + NEAREST:.1f} m or nearer, but this one "
            f"starts at y = {first:.2f} m and comes to {nearest:.2f} m; turn it into the world frame: {frame}."
        )
    table = scene.table
    over = (
        np.abs(positions[:, :2] - np.array(table.centre[:2]))
        < np.array([table.half_width, table.half_length]) - 0.05
    )
    lowest = positions[over.all(axis=1), 2].min(initial=np.inf)
    if lowest < table.centre[2] - scene.ball_radius:
        raise DataError(
            f"{name}: a ball should stay above the table, whose surface is at z = {table.centre[2]} m, but this one "
            f"comes down to {lowest:.2f} m over it; move it into the world frame: {frame}."
        )
