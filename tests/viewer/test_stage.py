from functools import cache

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.robot import Robot
from genan.simulation.simulator import ArmScene, ArmState, Tip
from genan.tasks.ball.flight import AirDrag
from genan.tasks.ball.launcher import Balls
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.bundled import sagging
from genan.tasks.reacher import Reacher
from genan.tasks.registry import task_entry, task_settings
from genan.tasks.table_tennis import RallyScene, TableTennis
from genan.tasks.task import Task
from genan.viewer.rendering import (
    FlatRenderer,
    GLRenderer,
    Renderer,
    Snapshot,
    Stage,
    load_renderer,
    snapshots,
)

Q = np.array([0.4, -0.3, 1.0, 0.5])
BALL = np.array([0.5, 0.1, 0.3])
MOMENTS = {
    "reacher": Snapshot(Q, goal=-Q),
    "ball-in-a-cup": Snapshot(Q, markers={"ball": BALL, "string": np.stack([Q[:3], BALL])}),
    "table-tennis": Snapshot(Q, markers={"ball": np.array([0.4, 1.2, 1.1])}),
}


@cache
def robot(name: str) -> Robot:
    return Robot.load(task_entry(name).settings.robot)


@cache
def task(name: str) -> Task:
    kinds = {"reacher": Reacher, "ball-in-a-cup": BallInACup}
    if name in kinds:
        return kinds[name].load(robot(name), task_settings(name))
    balls = Balls(jnp.ones((1, 3, 3)), jnp.zeros((1, 3, 3)), jnp.zeros((1, 2, 6)))
    arm, tip = ArmScene.load(robot(name)), Tip.read(robot(name))
    return TableTennis(task_settings(name), RallyScene(arm, tip, balls, AirDrag()))


@cache
def stage(name: str) -> Stage:
    return Stage(robot(name), task_entry(name))


def tip(name: str, q: np.ndarray) -> np.ndarray:
    """The end effector by the robot's own model, in the task's frame."""
    model = robot(name).mj_model
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    return data.site(robot(name).end_effector).xpos + np.asarray(task_entry(name).base or (0, 0, 0))


@pytest.mark.parametrize("name", MOMENTS)
def test_everything_is_where_it_should_be(name: str) -> None:
    now, here = MOMENTS[name], stage(name)
    here.place(now)
    site = robot(name).end_effector
    np.testing.assert_allclose(here.data.site(f"arm/{site}").xpos, tip(name, Q), atol=1e-9)
    if now.goal is not None:
        where = here.data.site(f"goal/{site}").xpos
        np.testing.assert_allclose(where, tip(name, now.goal), atol=1e-9)
    for thing in here.moving:
        np.testing.assert_allclose(here.data.body(thing).xpos, now.markers[thing])


def test_what_is_not_there_is_hidden() -> None:
    here = stage("table-tennis")
    seen = lambda: here.model.geom_rgba[here.model.geom_bodyid == here.moving["ball"], 3]
    here.place(Snapshot(Q))
    assert seen() == [0.0]
    here.place(MOMENTS["table-tennis"])
    assert seen() == [1.0]


def test_a_state_becomes_a_moment() -> None:
    q = jnp.asarray(Q, jnp.float32)[None]
    (reacher,) = snapshots(task("reacher"), ArmState(q, 0.0 * q), -q)
    np.testing.assert_allclose(reacher.goal, -Q, rtol=1e-6)
    cup = task("ball-in-a-cup").scene
    below = cup.attachment(q[0]) - jnp.array([0.0, 0.0, 0.1])
    state = jax.tree.map(lambda a: a[None], cup.start(q[0], below))
    (hanging,) = snapshots(task("ball-in-a-cup"), state, None)
    np.testing.assert_allclose(hanging.markers["ball"], below, atol=1e-6)
    np.testing.assert_allclose(hanging.markers["string"][0], cup.attachment(q[0]), atol=1e-6)
    tennis = task("table-tennis")
    rally = jax.vmap(tennis.scene.start)(ArmState(q, 0.0 * q), jnp.zeros(1, jnp.int32))
    (flying,) = snapshots(tennis, rally, None)
    np.testing.assert_allclose(flying.markers["ball"], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(flying.q, Q, rtol=1e-6)


def test_the_string_has_its_length() -> None:
    stretched = np.array([0.3, 0.6, 0.9, 1.0])
    start, end = np.zeros((4, 3)), 0.2 * stretched[:, None] * np.array([1.0, 0.0, 0.0])
    points = sagging(start, end, np.full(4, 0.2))
    np.testing.assert_allclose(points[:, [0, -1]], np.stack([start, end], axis=1), atol=1e-9)
    lengths = np.linalg.norm(np.diff(points, axis=1), axis=2).sum(axis=1)
    np.testing.assert_allclose(lengths, 0.2, rtol=1e-3)


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("make", [load_renderer, FlatRenderer])
def test_pictures_show_what_moves(name: str, make: type[GLRenderer]) -> None:
    now = MOMENTS[name]
    renderer = make(stage(name), size=(160, 90))
    assert isinstance(renderer, Renderer)
    try:
        first, again = renderer.frame(now), renderer.frame(now)
        moved = renderer.frame(Snapshot(-Q, now.goal, now.markers))
    finally:
        renderer.close()
    assert first.shape == (90, 160, 3) and first.dtype == np.uint8 and len(np.unique(first)) > 10
    changed = lambda a, b: np.mean(np.any(np.abs(a.astype(int) - b) > 20, axis=-1))
    assert changed(first, moved) > 0.002
    assert changed(first, again) < changed(first, moved)


def test_without_opengl_the_pictures_are_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "off")
    assert isinstance(load_renderer(stage("reacher")), FlatRenderer)


@pytest.mark.parametrize("name", ["pamy2", "pendulum", "carriage", "two-link"])
def test_every_robot_is_above_the_floor_and_in_view(name: str) -> None:
    machine = Robot.load(name)
    here = Stage(machine)
    chance, (low, high) = np.random.default_rng(1), np.clip(machine.q_range, -np.pi, np.pi)
    half = np.tan(np.radians(0.5 * here.model.vis.global_.fovy))
    for q in chance.uniform(low, high, (20, machine.nq)):
        here.place(Snapshot(q))
        assert here.data.xpos[1:, 2].min() > here.floor
        away = np.linalg.norm(here.data.xpos - here.camera.lookat, axis=1).max()
        assert away < 1.3 * half * here.camera.distance
