from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.actuator.ensembles import make_ensemble

from genan.actuator import Ensemble, History
from genan.actuator.reference import FORMAT, NAME, REASONS, Reference, columns, digest_of, usable
from genan.data import Channels, Trajectories
from genan.errors import ActuatorError
from genan.robot import Robot


def swings(count: int, *, seed: int, size: float = 0.3, length: int = 400) -> Trajectories:
    """A robot with two joints whose positions lag behind their commands."""
    robot, rng = Robot.load("carriage"), np.random.default_rng(seed)
    low, high = robot.u_range
    pairs = []
    for _ in range(count):
        t = np.arange(length)[:, None] * robot.dt
        phase, pace = rng.uniform(0.0, 6.0, (2, robot.nu)), rng.uniform(8.0, 14.0, (2, robot.nu))
        wave = 0.5 * (np.sin(pace[0] * t + phase[0]) + np.sin(pace[1] * t + phase[1]))
        u = 0.5 * (low + high) + size * (high - low) * 0.5 * wave
        pairs.append((0.2 * size / 0.3 * np.roll(wave, 5, axis=0)[:, : robot.nq] * [0.3, 1.0], u))
    return Trajectories.from_list(Channels.of_robot(robot), pairs)


@pytest.fixture(scope="module")
def actuators() -> Ensemble:
    return make_ensemble(
        Robot.load("carriage"), history=History(3), gain=0.2, damping=0.1, members=3, scatter=0.02
    )


@pytest.fixture(scope="module")
def reference(actuators: Ensemble) -> Reference:
    return Reference.of(actuators, swings(24, seed=0))


def beyond(reference: Reference, actuators: Ensemble, data: Trajectories) -> np.ndarray:
    score = reference.score(actuators, data)
    known = np.isfinite(score[:, 0])
    assert known.sum() == len(usable(actuators, data)) and np.isfinite(score[known]).all()
    return (score[known] > 1.0).mean(axis=0)


def test_a_log_like_those_trained_on_is_not_new(reference, actuators):
    assert (beyond(reference, actuators, swings(20, seed=1)) < 0.025).all()


def test_a_log_of_another_range_is_new_where_it_is(reference, actuators):
    data = swings(6, seed=2)
    q, u = data.q.copy(), data.u.copy()
    inside = np.zeros(len(q), bool)
    for k in range(6):
        inside[400 * k + 200 : 400 * k + 280] = True
    q[inside, 1] += 0.6
    moved = Trajectories(data.channels, q, u, data.lengths)
    found = reference.assess(actuators, moved)
    known = np.isfinite(found.score[:, 0])
    assert (found.score[inside, 1] > 1.0).mean() > 0.95 and (
        found.score[inside, 0] > 1.0
    ).mean() < 0.1
    assert (found.score[~inside & known, 1] > 1.0).mean() < 0.05
    reasons = [REASONS[k] for k in found.reason[inside, 1]]
    assert reasons.count("position") > 0.8 * len(reasons)


def test_faster_motions_and_new_combinations_are_told_apart(reference, actuators):
    robot = Robot.load("carriage")
    t = np.arange(400)[:, None] * robot.dt
    low, high = robot.u_range
    u = np.repeat(0.5 * (low + high)[None], 400, axis=0)
    fast = Trajectories.from_list(
        Channels.of_robot(robot), [(0.15 * np.sin(60.0 * t) * np.ones((1, 2)), u)]
    )
    found = reference.assess(actuators, fast)
    new = found.score[:, 1] > 1.0
    assert new.mean() > 0.5 and (found.reason[new, 1] == REASONS.index("velocity")).mean() > 0.5
    # every position and every command of the training, but never at the same time
    data = swings(6, seed=3)
    turned = Trajectories(data.channels, -data.q, data.u, data.lengths)
    usual, odd = (reference._nearest(_x(reference, one)).mean(axis=0) for one in (data, turned))
    assert (odd > usual).all()


def _x(reference, data):
    made = make_ensemble(
        Robot.load("carriage"), history=History(3), gain=0.2, damping=0.1, members=3, scatter=0.02
    )
    return columns(made, data, usable(made, data))


def test_commands_matter_to_the_joints_that_they_move(reference):
    assert reference.relevance.shape == (2, 3) and (reference.relevance.max(axis=1) == 1.0).all()
    assert reference.relevance[0].argmax() == 0 and reference.relevance[1].argmax() == 1


def test_it_is_kept_small_and_whole(reference, actuators, tmp_path: Path):
    path = reference.save(tmp_path)
    assert path.name == NAME and path.stat().st_size < 200_000
    again, data = Reference.load(tmp_path), swings(3, seed=4)
    assert again.belongs_to(actuators)
    np.testing.assert_allclose(
        again.score(actuators, data),
        reference.score(actuators, data),
        rtol=0.02,
        atol=2e-3,
        equal_nan=True,
    )
    assert (
        Reference.of(actuators, swings(24, seed=0)).save(tmp_path / "..").read_bytes()
        == path.read_bytes()
    )


def test_what_does_not_belong_is_refused(reference, actuators, tmp_path: Path):
    other = make_ensemble(Robot.load("carriage"), history=History(3), gain=0.3, members=3)
    assert digest_of(other) != digest_of(actuators) and not reference.belongs_to(other)
    with pytest.raises(ActuatorError, match="another model"):
        reference.score(other, swings(1, seed=0))
    with pytest.raises(ActuatorError, match="FileNotFoundError"):
        Reference.load(tmp_path)
    (tmp_path / NAME).write_bytes(b"nonsense")
    with pytest.raises(ActuatorError, match="cannot be read"):
        Reference.load(tmp_path)
    save_file({"points": np.zeros((2, 2), np.float32)}, tmp_path / NAME)
    with pytest.raises(ActuatorError, match="cannot be read as a reference"):
        Reference.load(tmp_path)
    reference.save(tmp_path)
    arrays = load_file(tmp_path / NAME)
    about = {FORMAT: reference.digest}
    save_file({**arrays, "low": arrays["low"][:3]}, tmp_path / NAME, metadata=about)
    with pytest.raises(ActuatorError, match="do not fit each other"):
        Reference.load(tmp_path)
    with pytest.raises(ActuatorError, match="long enough"):
        reference.score(actuators, swings(1, seed=0, length=3))


def test_one_recording_and_one_network_are_enough(actuators):
    alone = actuators.member(0)
    found = Reference.of(alone, swings(1, seed=5, length=2000))
    assert np.isinf(found.levels[4]).all()  # one network cannot disagree
    assert (beyond(found, alone, swings(1, seed=5, length=2000)) < 0.05).all()


def test_a_long_log_is_scored_like_a_short_one(reference, actuators, monkeypatch):
    data = swings(8, seed=6)
    whole = reference.score(actuators, data)
    for name, most in (("_SCORED", 500), ("_ASKED", 300)):
        monkeypatch.setattr(f"genan.actuator.reference.{name}", most)
    some = reference.score(actuators, data)
    known = np.isfinite(whole[:, 0])
    assert np.corrcoef(some[known, 1], whole[known, 1])[0, 1] > 0.9


def test_trajectories_that_were_not_learnt_from_calibrate_the_disagreement(actuators):
    data = swings(10, seed=7)
    found = Reference.of(actuators, data, held_out=np.array([1, 4]))
    assert np.isfinite(found.levels).all() and found.belongs_to(actuators)
