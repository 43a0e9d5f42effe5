"""What a notebook user sees: ten names, short representations, tables and figures."""

import numpy as np
from tests.actuator.ensembles import make_ensemble

import genan
from genan.data import Channels
from genan.deployment.interface import open_robot
from genan.signals import Spline


def test_ten_names_and_what_they_print() -> None:
    assert dir(genan) == sorted(genan.__all__) and len(genan.__all__) == 11  # and the version
    robot = genan.Robot.load("two-link")
    ensemble = make_ensemble(robot, members=2)
    simulator = genan.Simulator.build(ensemble, robot)
    loop = genan.ControlLoop(open_robot("virtual-pamy2"))
    for one, part in (
        (robot, "joints"),
        (ensemble, "2 members"),
        (simulator, "ArmScene at"),
        (loop, "VirtualInterface"),
        (genan.Policy.load("reacher"), "success"),
    ):
        assert part in repr(one) and len(repr(one)) < 400


def test_results_are_tables_and_figures() -> None:
    robot = genan.Robot.load("two-link")
    chance, pairs = np.random.default_rng(0), []
    for _ in range(4):
        u = Spline().draw(chance, bounds=0.5 * robot.u_range, duration=1.0, dt=robot.dt)
        pairs.append((np.cumsum(u, axis=0) * robot.dt, u))
    data = genan.Trajectories.from_list(Channels.of_robot(robot), pairs)
    assert "4 trajectories" in repr(data)
    found = genan.inspect(data, robot)
    assert found.to_table()["name"] == list(robot.joint_names) and "verdict" in repr(found)
    judged = genan.evaluate(make_ensemble(robot, members=2), data, robot, train=data, horizon=20)
    table = judged.to_table()
    assert {len(column) for column in table.values()} == {len(table["model"])}
    assert table["model"][0] == "ensemble" and "ridge ARX" in repr(judged)
    for result in (found, judged):
        assert result.plot().axes
