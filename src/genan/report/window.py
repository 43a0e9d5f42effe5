"""A window that plays episodes at real time, again and again, until it is closed."""

import time
from typing import TYPE_CHECKING

import numpy as np

from genan.report.rendering import Trail, add_extras
from genan.report.scenes import Stage, snapshot
from genan.tasks.task import Task

if TYPE_CHECKING:
    from genan.rl.episodes import Episodes

#: How long the end of an episode stays [s].
_PAUSE = 1.0


def show(task: Task, episodes: "Episodes", stage: Stage, *, period: float) -> None:
    """Play ``episodes`` (NumPy arrays), whose states are ``period`` [s] apart, in MuJoCo's
    viewer."""
    import jax
    import mujoco.viewer

    with mujoco.viewer.launch_passive(
        stage.model, stage.data, show_left_ui=False, show_right_ui=False
    ) as viewer:
        camera = stage.camera
        viewer.cam.lookat[:] = camera.lookat
        viewer.cam.distance, viewer.cam.azimuth, viewer.cam.elevation = (
            camera.distance,
            camera.azimuth,
            camera.elevation,
        )
        while viewer.is_running():
            for k in range(episodes.reward.shape[1]):
                trail = Trail()
                start = time.perf_counter()
                for at in range(int(np.sum(np.asarray(episodes.sound)[:, k])) + 1):
                    if not viewer.is_running():
                        return
                    moment = jax.tree.map(
                        lambda a, t=at, e=k: np.asarray(a[t, e]), (episodes.scene, episodes.memory)
                    )
                    now = snapshot(task, *moment)
                    with viewer.lock():
                        stage.place(now)
                        viewer.user_scn.ngeom = 0
                        add_extras(viewer.user_scn, stage, now, trail)
                    viewer.sync()
                    time.sleep(max(0.0, start + (at + 1) * period - time.perf_counter()))
                time.sleep(_PAUSE)
