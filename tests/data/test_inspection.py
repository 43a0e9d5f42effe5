import numpy as np
import pytest
from tests.real_data import LOGS, needs

from genan.data import Channels, Trajectories, inspect
from genan.data.inspection import obstacles
from genan.robot import Robot

DT = 0.002


def moving(*, count=6, length=500, nq=2, nu=2, seed=0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Healthy motion: smooth, everything moves, with a little sensor noise."""
    rng = np.random.default_rng(seed)
    t = DT * np.arange(length)[:, None]
    wave = lambda n: np.sin(rng.uniform(4, 12, n) * t + rng.uniform(0, 6, n))
    q = [
        0.4 * wave(nq) + 0.3 * wave(nq) + 1e-5 * rng.standard_normal((length, nq))
        for _ in range(count)
    ]
    return q, [0.9 * wave(nu) for _ in range(count)]


def recording(q: list[np.ndarray], u: list[np.ndarray], **changes) -> Trajectories:
    nq, nu = q[0].shape[1], u[0].shape[1]
    settings = {
        "dt": DT,
        "joints": tuple(f"q{i + 1}" for i in range(nq)),
        "controls": tuple(f"u{i + 1}" for i in range(nu)),
        "control_range": np.array([[-1.0] * nu, [1.0] * nu]),
    }
    return Trajectories.from_list(Channels(**(settings | changes)), list(zip(q, u, strict=True)))


def sentences(q, u, robot=None, **changes) -> str:
    return "\n".join(inspect(recording(q, u, **changes), robot).suspicious)


@pytest.mark.parametrize(("nq", "nu"), [(1, 1), (1, 3), (4, 8), (12, 12)])
def test_healthy_recordings_of_any_size(nq, nu):
    q, u = moving(nq=nq, nu=nu)
    found = inspect(recording(q, u))
    assert found.suspicious == ()
    assert len(found.joints) == nq and len(found.controls) == nu
    assert len(found.pairs_covered) == nq * (nq - 1) // 2


def test_the_numbers():
    q = [np.array([[0.0], [1.0], [3.0], [3.0]]), np.array([[5.0], [5.0], [5.0]])]
    u = [np.array([[-1.0], [0.0], [1.0], [1.0]]), np.array([[0.5], [0.1], [0.2]])]
    found = inspect(recording(q, u, dt=0.5))
    assert (found.trajectories, found.samples, found.dt) == (2, 7, 0.5)
    assert (found.duration, found.shortest, found.longest) == (3.5, 1.5, 2.0)
    joint, control = found.joints[0], found.controls[0]
    assert (joint.lowest, joint.highest) == (0.0, 5.0)
    assert joint.deviation == pytest.approx(np.std(np.concatenate(q)))
    assert (
        joint.speed_median == 2.0 and joint.speed_highest == 4.0
    )  # speeds 2, 4, 0 at the inner samples
    assert joint.second_difference == pytest.approx(np.sqrt((1 + 4 + 0) / 3))
    assert (control.lowest, control.highest, control.fastest) == (-1.0, 1.0, 2.0)
    assert joint.limits is None and joint.limits_covered is None


def test_coverage():
    line = np.linspace(-1, 1, 2001)[:, None]
    square = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    u = [np.sin(np.arange(len(square)))[:, None]]
    assert inspect(recording([square], u)).pairs_covered["q1", "q2"] == pytest.approx(1.0)
    diagonal = inspect(recording([np.hstack([line, line])], [u[0][:2001]]))
    assert diagonal.pairs_covered["q1", "q2"] == pytest.approx(1 / 20, abs=0.005)


def test_limits_of_the_robot():
    robot = Robot.load("two-link")
    lower, upper = robot.q_range
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    assert np.isfinite(half).all()
    q, u = moving(nu=robot.nu)
    names = {"joints": robot.joint_names, "controls": robot.control_names}
    inside = [middle + 0.25 * half * one / 0.7 for one in q]
    found = inspect(recording(inside, u, **names), robot)
    assert found.suspicious == ()
    assert found.joints[0].limits_covered == pytest.approx(0.25, abs=0.08)
    beyond = [one + np.array([half[0], 0.0]) for one in inside]
    text = sentences(beyond, u, robot, **names)
    assert (
        f"Joint '{robot.joint_names[0]}' is beyond the robot's limits (" in text
        and "by up to" in text
    )
    hardly = [middle + 0.01 * half * one for one in q]
    assert "visits only" in sentences(hardly, u, robot, **names)


# ----------------------------------------------------------------------------------------------
# what looks wrong


def test_a_dead_joint_and_a_dead_control():
    q, u = moving()
    text = sentences([one * [1, 0] + [0, 0.5] for one in q], [one * [0, 1] for one in u])
    assert "Joint 'q2' never moves: it stays at 28.6 deg in every sample; is it connected?" in text
    assert "Control 'u1' never changes: it is 0 in every sample" in text
    assert len(text.splitlines()) == 2


def test_degrees():
    q, u = moving()
    text = sentences([np.rad2deg(one) for one in q], u)
    assert "Joint 'q1' spans" in text and "it looks like degrees; convert it to radians" in text
    assert "degrees" not in sentences([np.rad2deg(one) for one in q], u, joint_units=("m", "m"))


def test_a_frozen_encoder():
    q, u = moving()
    q[3][100:300, 1] = q[3][100, 1]
    text = sentences(q, u)
    assert (
        "Joint 'q2' stands exactly still for up to 0.398 s while controls and other joints move"
        in text
    )
    assert (
        "(longest at trajectory 3, sample 100 (counted from 0); 1 in all, 6.63 % of the time)"
        in text
    )
    q, u = moving(nq=1)
    q[0][:] = q[0][0]
    u[0][:] = 0.3
    assert sentences(q, u) == "", "standing still under a held control is no fault"


def test_jumps():
    q, u = moving()
    q[2][250:, 0] += 0.5
    text = sentences(q, u)
    assert "Joint 'q1' jumps: 28." in text
    assert (
        "at trajectory 2, sample 250 (counted from 0)" in text
        or "at trajectory 2, sample 249" in text
    )
    assert "1 trajectory in all; samples are missing or wrong there." in text
    q, u = moving()
    q[1][100, 1] = 0.0
    q[4][200:, 1] += 2 * np.pi
    text = sentences(q, u)
    assert "the encoder wraps round: unwrap it" in text and "2 trajectories in all" in text


def test_a_sensor_slower_than_the_log():
    q, u = moving()
    text = sentences([np.repeat(one[::2], 2, axis=0) for one in q], u)
    assert "Joint 'q1' repeats its last value in 100 % of the samples" in text
    assert "log at its rate" in text


def test_an_encoder_too_coarse_for_the_rate():
    q, u = moving()
    step = np.deg2rad(0.1)
    found = inspect(recording([step * np.round(one / step) for one in q], u))
    assert found.joints[0].quantum == pytest.approx(step, rel=1e-3)
    assert (
        "Too coarsely measured for the rate: joint 'q1', 'q2'; what one sample of accel"
        in found.suspicious[0]
    )
    assert " deg of 0.100 deg" in found.suspicious[0] and len(found.suspicious) == 1


def test_controls_at_their_ends_or_hardly_used():
    q, u = moving()
    text = sentences(q, [np.clip(one * [3, 0.01], -1, 1) for one in u])
    assert "Control 'u1' is at the end of its range (-1 to 1) in" in text
    assert "Control 'u2' uses only 0.9 % of its range" in text
    switch = [np.hstack([one[:, :1], np.sign(one[:, 1:])]) for one in u]
    assert sentences(q, switch) == "", "a switch is at its bounds on purpose"


def test_short_and_duplicated_trajectories():
    q, u = moving()
    text = sentences([*q, q[1], q[2][:4]], [*u, u[1], u[2][:4]])
    assert (
        "1 of 8 trajectories are very short: number 7 (counted from 0) has 4 samples where 500 "
        "are usual." in text
    )
    assert "Recorded twice: 1 trajectory; number 6 equals number 1 (counted from 0)" in text


# ----------------------------------------------------------------------------------------------
# real logs


@needs(LOGS)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "quantum", "phrase"),
    [
        (
            "pamy1",
            (1153, 4, 8),
            (0.000633, 0.001267, 0.001267, 0.001354),
            "Joint 'q4' stands exactly still",
        ),
        ("double_pendulum", (20, 2, 2), (25 / 65535, 25 / 65535), ""),
        ("xl330", (12, 1, 3), (2 * np.pi / 4096,), "Joint 'q1' stands exactly still"),
    ],
)
def test_real_logs(name, shape, quantum, phrase):
    log = np.load(LOGS / f"{name}.npz")
    cuts = list(zip(log["traj_start"], log["traj_end"], strict=True))
    q, u = log["q"], log["u"].astype(float)
    trajectories = recording(
        [q[start:stop] for start, stop in cuts],
        [u[start:stop] for start, stop in cuts],
        dt=float(log["dt"]),
        control_range=np.stack([u.min(axis=0), u.max(axis=0)]),
    )
    found = inspect(trajectories)
    assert (found.trajectories, len(found.joints), len(found.controls)) == shape
    for joint, expected in zip(found.joints, quantum, strict=True):
        assert joint.quantum == (None if expected is None else pytest.approx(expected, rel=2e-3))
    assert phrase in "\n".join(found.suspicious)
    assert ("Stiction: joint 'q1'" in "\n".join(found.verdict)) == (name != "double_pendulum")
    assert obstacles(trajectories, found, history_reach=3) == ()
    assert not any("jumps" in sentence or "degrees" in sentence for sentence in found.suspicious)
