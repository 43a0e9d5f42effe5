r"""The virtual ball gun against recorded balls: how its numbers were found, and how well they meet
the recordings.

    python benchmarks/virtual_ball_gun.py check --data ball_trajectories.npz
    python benchmarks/virtual_ball_gun.py fit --data ball_trajectories.npz

``check`` prints, side by side, where recorded and virtual balls bounce, how fast before and after,
and where and when they come to the racket's plane: the median, and half the width of the middle 68
%, because a few of the recorded balls have frames missing at the bounce. ``fit`` repeats the
calibration: with drag, lift and grip of the virtual physics as they are, launch, spin and
restitution of every recorded ball by robust least squares over its whole flight, then their means,
spreads and correlations over the balls; it prints the cost, by which drag, lift and grip were
chosen.
"""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro

from genan.errors import DataError, GenanError
from genan.robots.pamy2.virtual.tennis import (
    QUANTITIES,
    STEP,
    BallGun,
    BallPhysics,
    BallState,
    Obstacle,
    Room,
)

ROOM, BALL = Room(), BallPhysics()
#: Level of the ball's centre on the table, and the racket's plane [m].
LEVEL, PLANE = ROOM.table[2] + BALL.radius, 0.0
#: Noise of a recorded position, age of the camera's frame included [m], and the fit's step [s].
NOISE, TICK = 0.005, 0.01
#: Before a ball's spins [rad/s] and its restitution are known: what they are about, and how far off
#: they may be.
PRIOR, PRIOR_SPREAD = np.array([44.0, 4.0, 0.927]), np.array([10.0, 10.0, 0.02])


@dataclass(frozen=True)
class Check:
    """Recorded and virtual balls side by side."""

    data: Path
    """.npz with recorded balls in the world frame."""
    group: str = "originals_2019"
    balls: int = 400
    """Virtual balls."""


@dataclass(frozen=True)
class Fit:
    """The numbers of the ball gun, fitted again."""

    data: Path
    """.npz with recorded balls in the world frame."""
    group: str = "originals_2019"


class Flights(NamedTuple):
    """Balls at common times, padded with NaN."""

    times: np.ndarray
    positions: np.ndarray


def recorded(path: Path, group: str) -> Flights:
    """The recorded balls of a group, each [T, 3], padded with NaN."""
    try:
        with np.load(path, allow_pickle=False) as file:
            times, positions, start = (file[f"{group}__{part}"] for part in ("t", "p", "start"))
    except (OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as a .npz with the group {group!r} ({error})."
        ) from error
    length = int(np.diff(start).max())
    padded = np.full((len(start) - 1, length, 3), np.nan)
    for row, (a, b) in enumerate(itertools.pairwise(start)):
        if not np.allclose(times[a:b], TICK * np.arange(b - a), atol=1e-6):
            raise DataError(
                f"{path}, {group!r}: expected stamps every {TICK:g} s from 0 on in ball {row}."
            )
        padded[row, : b - a] = positions[a:b]
    return Flights(TICK * np.arange(length), padded)


def virtual(balls: int, seconds: float = 1.3) -> Flights:
    """Balls of the virtual gun, every 2 ms."""
    gun, every = BallGun(), round(0.002 / STEP)
    steps = round(seconds / STEP)
    rows = np.empty((balls, steps // every + 1, 3))
    for trial in range(balls):
        ball = gun.shot(trial)
        luck = float(np.random.default_rng([0xB0C, trial]).standard_normal())
        rows[trial, 0] = ball.position
        for k in range(1, steps + 1):
            ball, touched = ROOM.step(BALL, ball, STEP, luck)
            if k % every == 0:
                rows[trial, k // every] = ball.position
            if touched is Obstacle.FLOOR:
                rows[trial, k // every + 1 :] = np.nan
                break
    return Flights(0.002 * np.arange(rows.shape[1]), rows)


def describe(flights: Flights) -> dict[str, np.ndarray]:
    """What is compared, per ball, from positions alone and in the same way for both kinds of ball.

    Bounce: where the parabolas through the 0.1 s on either side meet the table.
    Crossing of the racket's plane: a parabola through the 0.12 s around it.
    """
    rows = []
    for path in flights.positions:
        there = np.isfinite(path[:, 0])
        t, p = flights.times[there], path[there]
        lowest = int(np.argmin(np.where((t > 0.4) & (t < 0.8), p[:, 2], np.inf)))
        before = (t > t[lowest] - 0.11) & (t < t[lowest] - 0.008)
        after = (t < t[lowest] + 0.11) & (t > t[lowest] + 0.008)
        when, place, coming = _meets(t[before], p[before], 2, LEVEL, t[lowest])
        _, _, going = _meets(t[after], p[after], 2, LEVEL, t[lowest])
        crossing = int(np.argmax(p[:, 1] < PLANE))
        if crossing == 0:
            continue
        near = np.abs(t - t[crossing]) < 0.06
        arrival, point, speed = _meets(t[near], p[near], 1, PLANE, t[crossing])
        rows.append([when, *place[:2], *coming, *going, arrival, point[0], point[2], *speed])
    return dict(zip(WORDS, np.array(rows).T, strict=True))


WORDS = (
    "bounce: time [s]", "bounce: x [m]", "bounce: y [m]",
    "before: vx [m/s]", "before: vy [m/s]", "before: vz [m/s]",
    "after: vx [m/s]", "after: vy [m/s]", "after: vz [m/s]",
    "y = 0: time [s]", "y = 0: x [m]", "y = 0: z [m]",
    "y = 0: vx [m/s]", "y = 0: vy [m/s]", "y = 0: vz [m/s]",
)  # fmt: skip


def _meets(
    t: np.ndarray, p: np.ndarray, axis: int, level: float, about: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Time, position and velocity at which the parabola through samples near ``about`` comes to a
    level of an axis."""
    curve = np.polynomial.polynomial.polyfit(t - about, p, 2)
    c, b, a = curve[:, axis] - np.array([level, 0.0, 0.0])
    roots = np.roots([a, b, c])
    s = float(np.real(roots[np.argmin(np.abs(roots))]))
    return about + s, curve[0] + s * curve[1] + s * s * curve[2], curve[1] + 2.0 * s * curve[2]


def check(flags: Check) -> None:
    ours, theirs = describe(virtual(flags.balls)), describe(recorded(flags.data, flags.group))
    counts = [len(next(iter(found.values()))) for found in (theirs, ours)]
    print(f"{'median and spread':20}{f'{counts[0]} recorded':>20}{f'{counts[1]} virtual':>20}")
    for word in WORDS:
        numbers = ""
        for found in (theirs, ours):
            low, middle, high = np.percentile(found[word], [16, 50, 84])
            numbers += f"{middle:10.3f} +-{0.5 * (high - low):7.3f}"
        print(f"{word:20}{numbers}")
    late = [100.0 * np.mean(found["y = 0: time [s]"] < 1.09) for found in (theirs, ours)]
    print(f"{'there by 1.09 s [%]':20}{late[0]:17.0f}{late[1]:20.0f}")


def fit(flags: Fit) -> None:
    seen = recorded(flags.data, flags.group).positions
    there = np.isfinite(seen)
    seen, balls = np.where(there, seen, 0.0), len(seen)
    unknowns = np.tile(np.r_[np.zeros(3), 0.24, -4.15, 2.28, PRIOR], (balls, 1))
    unknowns[:, :3] = seen[:, 0]
    steps = np.array([1e-4] * 3 + [1e-3] * 3 + [0.1, 0.1, 1e-3])
    for _ in range(8):
        path = _paths(unknowns, seen.shape[1])
        residual = np.where(there, (path - seen) / NOISE, 0.0).reshape(balls, -1)
        weight = 1.0 / np.sqrt(1.0 + (residual / 3.0) ** 2)
        slopes = np.stack(
            [
                np.where(
                    there,
                    (_paths(unknowns + step * row, seen.shape[1]) - path) / (step * NOISE),
                    0.0,
                )
                for step, row in zip(steps, np.eye(9), strict=True)
            ],
            axis=-1,
        ).reshape(balls, -1, 9)
        weighted = slopes * weight[:, :, None]
        matrix = np.einsum("nij,nik->njk", weighted, slopes)
        right = np.einsum("nij,ni->nj", weighted, residual)
        matrix[:, 6:, 6:] += np.diag(PRIOR_SPREAD**-2)
        right[:, 6:] += (unknowns[:, 6:] - PRIOR) / PRIOR_SPREAD**2
        unknowns = unknowns - np.linalg.solve(matrix, right[..., None])[..., 0]
    residual = (_paths(unknowns, seen.shape[1]) - seen)[there]
    cost = 9.0 * np.sum(np.sqrt(1.0 + (residual / NOISE / 3.0) ** 2) - 1.0)
    cost += 0.5 * np.sum(((unknowns[:, 6:] - PRIOR) / PRIOR_SPREAD) ** 2)
    print(f"cost {cost:.0f}, residual {1e3 * np.sqrt(np.mean(residual**2)):.2f} mm")
    vx, vy, vz = unknowns[:, 3:6].T
    level = np.hypot(vx, vy)
    shots = np.column_stack(
        [
            unknowns[:, :3],
            np.hypot(level, vz),
            np.arctan2(vx, -vy),
            np.arctan2(vz, level),
            unknowns[:, 6:],
        ]
    )
    names = (*QUANTITIES, "restitution")
    for name, mean, spread, row in zip(
        names, shots.mean(axis=0), shots.std(axis=0), np.corrcoef(shots.T), strict=True
    ):
        print(
            f"{name:12}{mean:9.4f} +-{spread:8.4f}  correlation "
            + " ".join(f"{r:5.2f}" for r in row)
        )


def _paths(unknowns: np.ndarray, length: int) -> np.ndarray:
    """Positions [balls, length, 3] every 10 ms of balls with these launches, spins about x and z,
    and restitutions."""
    none = np.zeros(len(unknowns))
    x, y, z, vx, vy, vz, top, side, restitution = unknowns.T
    state = np.stack([x, y, z, vx, vy, vz, top, none, side])
    path, bounced = np.empty((len(unknowns), length, 3)), none > 0
    for k in range(length):
        path[:, k] = state[:3].T
        after = _flown(state, TICK)
        down = (after[2] < LEVEL) & (after[5] < 0.0) & ~bounced
        if down.any():
            until = TICK * (state[2] - LEVEL)[down] / (state[2] - after[2])[down]
            for _ in range(3):  # Newton, on the height
                touching = _flown(state[:, down], until)
                until = until - (touching[2] - LEVEL) / touching[5]
            after[:, down] = _flown(
                _off_table(_flown(state[:, down], until), restitution[down]), TICK - until
            )
            bounced |= down
        state = after
    return path


def _flown(state: np.ndarray, h: float | np.ndarray) -> np.ndarray:
    """One step of the virtual physics for many balls [9, balls]."""
    after = BALL.flown(BallState(tuple(state[:3]), tuple(state[3:6]), tuple(state[6:])), h)  # type: ignore[arg-type]
    return np.stack([*after.position, *after.velocity, *after.spin])


def _off_table(state: np.ndarray, restitution: np.ndarray) -> np.ndarray:
    """The virtual bounce for many balls [9, balls]."""
    x, y, z, vx, vy, vz, wx, wy, wz = state
    r = BALL.radius
    slide = np.stack([vx - r * wy, vy + r * wx])
    k = np.minimum(
        ROOM.grip, ROOM.friction * (1.0 + restitution) * np.abs(vz) / np.linalg.norm(slide, axis=0)
    )
    sx, sy = k * slide
    turn = 1.5 / r
    return np.stack(
        [x, y, z, vx - sx, vy - sy, -restitution * vz, wx - turn * sy, wy + turn * sx, wz]
    )


def main() -> int:
    """Run it; exit code."""
    flags = tyro.extras.subcommand_cli_from_dict({"check": Check, "fit": Fit}, description=__doc__)
    try:
        if isinstance(flags, Check):
            check(flags)
        else:
            fit(flags)
    except GenanError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
