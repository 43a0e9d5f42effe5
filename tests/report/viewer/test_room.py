import numpy as np

from genan.report.viewer import room
from genan.simulation.cup_contact import CupSettings
from genan.tasks.ball import Court


def test_things_are_where_the_tasks_have_them() -> None:
    scene = Court()
    assert scene.base == room.BASE and room.ball_radius() == scene.ball_radius
    assert CupSettings().ball_radius == room.WOODEN_BALL
    top = room.table()[0].mesh.vertices
    x, y, z = scene.table.centre
    low, high = top.min(axis=0), top.max(axis=0)
    np.testing.assert_allclose(0.5 * (low + high)[:2], (x, y))
    np.testing.assert_allclose(
        (high - low)[:2], (2.0 * scene.table.half_width, 2.0 * scene.table.half_length)
    )
    assert high[2] == z
    post = np.concatenate([shape.mesh.vertices for shape in room.post()])
    assert post[:, 2].min() == 0.0 and post[:, 2].max() < scene.base[2]
