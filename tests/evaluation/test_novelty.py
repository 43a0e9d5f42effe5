import json
from pathlib import Path

import numpy as np
import pytest

from genan.actuator import History
from genan.actuator.reference import NAME, Reference
from genan.data import Trajectories
from genan.evaluation.actuators import as_json, evaluate, find_reference
from genan.report.verdict import verdict, why_words
from genan.robot import Robot


@pytest.fixture
def carriage() -> Robot:
    return Robot.load("carriage")


def shifted(data: Trajectories, first: int, last: int) -> Trajectories:
    """``data`` with the second joint elsewhere from sample ``first`` to ``last`` of the third
    trajectory."""
    q = data.q.copy()
    rows = data.offsets[2] + np.arange(first, last)
    q[rows, 1] += 4.0 * np.ptp(data.q[:, 1]) * np.sin(np.pi * np.linspace(0.0, 1.0, last - first))
    return Trajectories(data.channels, q, data.u, data.lengths, recordings=tuple("abcd"))


@pytest.mark.slow
def test_a_planted_excursion_is_found_by_time_and_joint(carriage, ensemble, recorded):
    actuators = ensemble(
        carriage, history=History(2), damping=0.1, gain=0.2, members=2, scatter=0.01
    )
    train = recorded(carriage, (400,) * 12)
    reference = Reference.of(actuators, train)
    data = recorded(carriage, (400,) * 4)
    planted = shifted(data, 150, 250)
    found = evaluate(actuators, planted, train=train, reference=reference, horizon=40)
    novelty = found.novelty
    assert novelty.new.tolist() == [False, True] and novelty.recordings[0][0] == "c"
    worst = novelty.stretches[0]
    assert (worst.recording, worst.trajectory, worst.joint) == ("c", 2, "swing")
    dt = carriage.dt
    assert 150 * dt - 0.02 < worst.begin < 185 * dt and 215 * dt < worst.end < 250 * dt + 0.02
    assert (
        worst.reason in ("position", "velocity")
        and worst.peak > 2.0
        and worst.known[0] < worst.known[1]
    )
    assert "deg" in why_words(worst) and "trained" in why_words(worst)
    assert novelty.strips[0].recording == "c" and (novelty.strips[0].score[:, 1] > 1.0).any()
    assert novelty.error_ratio[1] > 1.0 and (np.abs(novelty.rollout_correlation) <= 1.0).all()
    words = verdict(found)
    assert 4 <= len(words) <= 7 and "recording c" in " ".join(words) and "Record next" in words[-1]
    text = as_json(found)
    json.dumps(text, allow_nan=False)
    assert text["novelty"]["stretches"][0]["joint"] == "swing" and text["versions"]["genan"]
    assert (
        text["models"]["ensemble"]["one_step_rms"]["mean"][0]
        >= text["models"]["ensemble"]["one_step"]["mean"][0]
    )

    usual = evaluate(actuators, data, reference=reference, horizon=40)
    words = verdict(usual)
    assert not usual.novelty.new.any() and "Nothing much in this log is new" in " ".join(words)
    assert usual.comparison is None and "without baselines" in words[1]


def test_the_reference_is_kept_and_made_anew(carriage, ensemble, recorded, tmp_path: Path):
    actuators, data = ensemble(carriage, damping=0.1, gain=0.2), recorded(carriage, (60, 60, 60))
    nothing, why = find_reference(tmp_path, actuators, None)
    assert nothing is None and "no training recording" in why
    made, why = find_reference(tmp_path, actuators, data)
    assert why is None and (tmp_path / NAME).exists()
    kept, _ = find_reference(tmp_path, actuators, None)
    assert kept.digest == made.digest
    other = ensemble(carriage, damping=0.3, gain=0.2)
    assert find_reference(tmp_path, other, None)[0] is None
    assert find_reference(tmp_path, other, data)[0].belongs_to(other)
    stranger = ensemble(carriage, damping=0.5, record='{"data": {"fingerprint": "1"}}')
    assert (
        "not the one that the actuators were fitted to"
        in find_reference(tmp_path, stranger, data)[1]
    )
    (tmp_path / NAME).write_bytes(b"damaged")
    assert find_reference(tmp_path, actuators, data)[0].belongs_to(actuators)
