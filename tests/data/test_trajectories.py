import numpy as np
import pytest

from genan.data import Channels, Trajectories
from genan.errors import DataError
from genan.robot import Robot


def test_single_trajectories_are_views(make):
    trajectories = make(4)
    assert len(trajectories) == 4 and len(list(trajectories)) == 4
    start, stop = trajectories.offsets[2], trajectories.offsets[3]
    assert np.shares_memory(trajectories[2].q, trajectories.q)
    np.testing.assert_array_equal(trajectories[2].u, trajectories.u[start:stop])
    np.testing.assert_array_equal(trajectories[-1].q, trajectories[3].q)
    with pytest.raises(IndexError):
        trajectories[4]
    with pytest.raises(ValueError, match="read-only"):
        trajectories.q[0, 0] = 1.0


def test_select_and_concatenate(make):
    trajectories = make(5)
    chosen = trajectories.select([3, 0, 3])
    np.testing.assert_array_equal(chosen[0].q, trajectories[3].q)
    np.testing.assert_array_equal(chosen[1].u, trajectories[0].u)
    both = Trajectories.concatenate(
        [trajectories.select([0, 1]), trajectories.select(np.arange(2, 5))]
    )
    assert both.fingerprint == trajectories.fingerprint
    assert both.provenance == trajectories.provenance
    assert (
        Trajectories.concatenate([make(1, seed=1), make(1, seed=2)]).provenance["concatenated"][1][
            "seed"
        ]
        == 2
    )
    for wrong, message in (
        ([5], "no trajectory 5; the recording has 0 to 4"),
        ([-1], "no trajectory -1"),
        ([], "Zero"),
    ):
        with pytest.raises(DataError, match=message):
            trajectories.select(wrong)
    with pytest.raises(DataError, match="whole numbers"):
        trajectories.select(np.array([0.5]))
    with pytest.raises(DataError, match="nothing to concatenate"):
        Trajectories.concatenate([])


def test_recordings_of_two_rates_cannot_be_concatenated(make, channels):
    first = make(1)
    slower = Channels(
        dt=0.01,
        joints=channels.joints,
        controls=channels.controls,
        control_range=channels.control_range,
    )
    second = Trajectories(slower, first.q, first.u, first.lengths)
    with pytest.raises(DataError, match=r"dt \(the first has 0.002, this one 0.01\)"):
        Trajectories.concatenate([first, second])


def test_fingerprint_is_of_the_content(make, channels):
    trajectories = make(3)
    same = Trajectories(
        channels, np.array(trajectories.q, order="F"), trajectories.u, trajectories.lengths
    )
    assert same.fingerprint == trajectories.fingerprint
    assert len(same.fingerprint) == 64
    other = np.array(trajectories.q)
    other[5, 1] += 1e-15
    renamed = Channels(
        dt=channels.dt,
        joints=("x", "y"),
        controls=channels.controls,
        control_range=channels.control_range,
    )
    for different in (
        Trajectories(channels, other, trajectories.u, trajectories.lengths),
        Trajectories(channels, trajectories.q, trajectories.u, trajectories.lengths[::-1]),
        Trajectories(renamed, trajectories.q, trajectories.u, trajectories.lengths),
    ):
        assert different.fingerprint != trajectories.fingerprint


def test_float32_and_integers_are_taken(channels):
    trajectories = Trajectories(
        channels, np.zeros((9, 2), np.float32), np.zeros((9, 3), int), np.array([4, 5])
    )
    assert trajectories.q.dtype == trajectories.u.dtype == np.float64


def broken(q=None, u=None, lengths=(4, 5), provenance=None):
    def build(channels: Channels) -> Trajectories:
        return Trajectories(
            channels,
            np.zeros((9, 2)) if q is None else q,
            np.zeros((9, 3)) if u is None else u,
            np.array(lengths, dtype=int),
            provenance or {},
        )

    return build


def at(shape, place, value):
    array = np.zeros(shape)
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (broken(q=np.zeros((9, 3))), r"q must be \[samples, 2\].*shoulder, elbow.*not \[9, 3\]"),
        (broken(u=np.zeros(9)), r"u must be \[samples, 3\].*not \[9\]"),
        (broken(u=np.zeros((8, 3))), "q has 9 samples, u has 8 and the lengths add up to 9"),
        (broken(lengths=(4, 4)), "add up to 8"),
        (
            broken(lengths=(7, 2)),
            r"Trajectory 1 \(counted from 0\) has 2 samples; the shortest .* has 3",
        ),
        (broken(q=np.zeros((0, 2)), u=np.zeros((0, 3)), lengths=()), "zero trajectories"),
        (
            broken(q=at((9, 2), (6, 1), np.nan)),
            r"Joint 'elbow' is nan in trajectory 1 at sample 2 \(counted from 0\)",
        ),
        (broken(u=at((9, 3), (0, 2), np.inf)), "Control 'c' is inf in trajectory 0 at sample 0"),
        (
            broken(u=at((9, 3), (8, 0), 1.1)),
            "Control 'a' is 1.1 in trajectory 1 at sample 4 .* outside its range -1 to 1",
        ),
        (
            broken(u=at((9, 3), (3, 2), -0.1)),
            "Control 'c' is -0.1 in trajectory 0 at sample 3 .* range 0 to 5",
        ),
        (broken(provenance={"robot": object()}), "provenance must be plain"),
    ],
)
def test_refusals(build, message, channels):
    with pytest.raises(DataError, match=message):
        build(channels)


def test_rounding_past_the_range_is_no_fault(channels):
    broken(u=at((9, 3), (0, 0), 1.0 + 1e-10))(channels)
    with pytest.raises(DataError, match="outside its range"):
        broken(u=at((9, 3), (0, 0), 1.0 + 1e-8))(channels)


def test_a_control_without_bounds():
    channels = Channels(
        dt=0.01, joints=("j",), controls=("u",), control_range=np.array([[0.0], [np.inf]])
    )
    Trajectories(channels, np.zeros((3, 1)), np.full((3, 1), 1e9), np.array([3]))
    with pytest.raises(DataError, match="outside its range 0 to inf"):
        Trajectories(channels, np.zeros((3, 1)), np.full((3, 1), -1.0), np.array([3]))


def test_from_list_names_the_trajectory(channels):
    fine = (np.zeros((5, 2)), np.zeros((5, 3)))
    with pytest.raises(DataError, match="Joint 'shoulder' is nan in trajectory 1 at sample 3"):
        Trajectories.from_list(channels, [fine, (at((5, 2), (3, 0), np.nan), fine[1])])
    with pytest.raises(DataError, match="zero trajectories"):
        Trajectories.from_list(channels, [])


def test_a_robot_with_a_narrower_range_is_refused():
    robot = Robot.load("pendulum")
    fitting = Channels.of_robot(robot)
    wider = Channels(
        dt=robot.dt,
        joints=fitting.joints,
        controls=fitting.controls,
        control_range=fitting.control_range * 2,
        control_units=fitting.control_units,
    )
    u = np.repeat(wider.control_range[1:], 3, axis=0)
    with pytest.raises(
        DataError, match=r"Robot 'pendulum' cannot have recorded this: Control .* outside its range"
    ):
        Trajectories(wider, np.zeros((3, 1)), u, np.array([3])).check_robot(robot)
    Trajectories(wider, np.zeros((3, 1)), u / 2, np.array([3])).check_robot(robot)
