"""Recorded balls for the pages that begin with some: shots of the virtual ball gun, in the file
that they name."""

import json
from pathlib import Path

import numpy as np

BALLS, SAMPLES, PERIOD = 6, 110, 0.01
GROUPS = ("originals_2019", "aimy_nospin_1140rpm")


def prepare_ball_recordings(folder: Path) -> None:
    """``ball_trajectories.npz``: two groups with the same balls, seen every 10 ms in the lab's
    frame."""
    from genan.robots.pamy2.virtual.tennis import STEP, BallGun, BallPhysics, Room

    gun, room, physics, every = BallGun(), Room(), BallPhysics(), round(PERIOD / STEP)
    seen = []
    for trial in range(BALLS):
        ball = gun.shot(trial)
        for k in range(SAMPLES * every):
            if k % every == 0:
                seen.append(ball.position)
            ball, _ = room.step(physics, ball, STEP, 0.0)
    group = {"t": np.tile(PERIOD * np.arange(SAMPLES), BALLS), "p": np.array(seen)}
    group |= {"v": np.full_like(group["p"], np.nan), "start": SAMPLES * np.arange(BALLS + 1)}
    columns = {f"{name}__{column}": values for name in GROUPS for column, values in group.items()}
    np.savez(folder / "ball_trajectories.npz", meta_json=json.dumps({}), **columns)
