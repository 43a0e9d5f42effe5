from functools import cache

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.report.drawing import LineRenderer
from genan.report.rendering import load_renderer
from genan.report.scenes import Snapshot, Stage, cup_mesh, snapshot
from genan.robot import Robot
from genan.simulation import ArmState
from genan.simulation.cup_contact import CupSettings
from genan.tasks.ball import Court
from genan.tasks.ball.flight import AirDrag
from genan.tasks.ball.launcher import Balls
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.bundled import BallInACupSettings, ReacherSettings, TableTennisSettings
from genan.tasks.reacher import Reacher
from genan.tasks.table_tennis import RallyScene, TableTennis
from genan.tasks.task import Task

Q = np.array([0.4, -0.3, 1.0, 0.5])


@cache
def robot(task: str) -> Robot:
    return Robot.load({"ball-in-a-cup": "pamy2-cup"}.get(task, "pamy2"))


@cache
def task(name: str) -> Task:
    if name == "reacher":
        return Reacher.load(robot(name), ReacherSettings().for_robot("pamy2"))
    if name == "ball-in-a-cup":
        return BallInACup.load(robot(name), BallInACupSettings())
    balls = Balls(jnp.ones((1, 3, 3)), jnp.zeros((1, 3, 3)), jnp.zeros((1, 2, 6)))
    return TableTennis(TableTennisSettings(), RallyScene.load(robot(name), balls, air=AirDrag()))


@cache
def stage(name: str) -> Stage:
    return Stage.build(task(name), robot(name))


MOMENTS = {
    "reacher": Snapshot(Q, goal=-Q),
    "ball-in-a-cup": Snapshot(Q, ball=np.array([0.5, 0.1, 1.5]), string=0.2),
    "table-tennis": Snapshot(Q, ball=np.array([0.4, 1.2, 1.1])),
}


def tip(name: str, q: np.ndarray) -> np.ndarray:
    """The end effector by the robot's own model, in the room."""
    model = robot(name).mj_model
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    return data.site(robot(name).end_effector).xpos + np.asarray(Court().base)


@pytest.mark.parametrize("name", MOMENTS)
def test_everything_is_where_it_should_be(name: str) -> None:
    now = MOMENTS[name]
    stage(name).place(now)
    site = robot(name).end_effector
    np.testing.assert_allclose(stage(name).data.site(f"arm/{site}").xpos, tip(name, Q), atol=1e-9)
    if now.goal is not None:
        np.testing.assert_allclose(
            stage(name).data.site(f"goal/{site}").xpos, tip(name, now.goal), atol=1e-9
        )
    if now.ball is not None:
        np.testing.assert_allclose(stage(name).data.geom("ball").xpos, now.ball)


def test_a_state_becomes_a_moment() -> None:
    q = jnp.asarray(Q, jnp.float32)
    reacher = snapshot(task("reacher"), ArmState(q, 0.0 * q), -q)
    np.testing.assert_allclose(reacher.goal, -Q, rtol=1e-6)
    cup = task("ball-in-a-cup").scene
    below = cup.attachment(q) - jnp.array([0.0, 0.0, 0.1])
    hanging = snapshot(task("ball-in-a-cup"), cup.start(q, below), None)
    here = stage("ball-in-a-cup")
    here.place(hanging)
    np.testing.assert_allclose(
        here.data.site("string").xpos - hanging.ball, [0.0, 0.0, 0.1], atol=1e-6
    )
    rally = task("table-tennis").scene.start(ArmState(q, 0.0 * q), jnp.zeros((), jnp.int32))
    np.testing.assert_allclose(snapshot(task("table-tennis"), rally, None).ball, [1.0, 1.0, 1.0])


@pytest.mark.parametrize("stretched", [0.3, 0.6, 0.9, 1.0])
def test_the_string_has_its_length(stretched: float) -> None:
    here = stage("ball-in-a-cup")
    here.place(Snapshot(Q))
    start = here.data.site("string").xpos.copy()
    now = Snapshot(Q, ball=start + 0.2 * stretched * np.array([1.0, 0.0, 0.0]), string=0.2)
    here.place(now)
    points = here.string(now)
    assert points is not None
    np.testing.assert_allclose(points[[0, -1]], [start, now.ball], atol=1e-9)
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert length == pytest.approx(0.2, rel=1e-3)


def test_the_cup_is_closed_and_as_heavy_as_its_walls() -> None:
    settings = CupSettings()
    vertices, faces = cup_mesh(settings, facets=200)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    volume = np.sum(a * np.cross(b, c)) / 6.0
    r, t, h = settings.cup_radius, settings.thickness, settings.cup_height
    assert volume == pytest.approx(np.pi * (r**2 * t + (r**2 - (r - t) ** 2) * (h - t)), rel=1e-3)
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("opengl", [True, False])
def test_pictures_show_what_moves(name: str, opengl: bool) -> None:
    size = (160, 90)
    renderer = (
        load_renderer(stage(name), size=size) if opengl else LineRenderer(stage(name), size=size)
    )
    try:
        now = MOMENTS[name]
        first, again = renderer.frame(now), renderer.frame(now)
        moved = renderer.frame(Snapshot(-Q, now.goal, now.ball, now.string))
    finally:
        renderer.close()
    assert first.shape == (90, 160, 3) and first.dtype == np.uint8 and len(np.unique(first)) > 10
    changed = lambda a, b: np.mean(np.any(np.abs(a.astype(int) - b) > 20, axis=-1))  # noqa: E731
    assert changed(first, moved) > 0.002
    assert changed(first, again) < changed(first, moved)


def test_without_opengl_lines_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "off")
    assert isinstance(load_renderer(stage("reacher")), LineRenderer)
