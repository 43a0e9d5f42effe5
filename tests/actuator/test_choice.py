"""The choice: a linear drive gets a linear model, another gets a network, and a stopped choice goes
on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.setting import driven

from genan.actuator import Ensemble, FitSettings
from genan.actuator import ensemble as artifact
from genan.actuator.contract import KIND
from genan.actuator.dataset import SharedData
from genan.actuator.errors import HeldOutSamples
from genan.actuator.fit import CANDIDATES, Candidate, _chooses, choose_model, decide, explain
from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting
from genan.data import Trajectories
from genan.dynamics import load_dynamics
from genan.errors import SettingError
from genan.robot import Robot

QUICK = FitSettings(epochs=2, history_length=2, batch_size=256, hidden=(8,))


def chosen(data: Trajectories, observer: FitObserver | None = None, **how: Any) -> Ensemble:
    shared = SharedData.read(data, Robot.load("pendulum"))
    return choose_model(shared, "pendulum", QUICK, observer or FitObserver(), **how)


@pytest.mark.slow
def test_a_drive_of_a_known_kind_gets_a_model_of_that_kind(tmp_path: Path) -> None:
    ensemble = chosen(driven(delay=2), out=tmp_path / "a", delays=(0, 2))
    choice, kinds = ensemble.record["choice"], ("parametric", "both")
    assert "delay 2" in choice["linear"] and choice["linear"].startswith(kinds)
    assert ensemble.contract.history.delay == 2
    assert ensemble.record["settings"]["base"] in kinds
    scores = {name: one["score"] for name, one in choice["tried"].items()}
    assert scores[choice["chosen"]] <= scores[choice["linear"]]
    kept = artifact.load(tmp_path / "a")
    assert kept.record["choice"] == choice
    assert kept.contract == ensemble.contract and not (tmp_path / "a" / CANDIDATES).exists()
    with pytest.raises(SettingError, match="holds finished actuators"):
        chosen(driven(delay=2), out=tmp_path / "a")


@pytest.mark.slow
def test_a_stopped_choice_goes_on_where_it_was(tmp_path: Path) -> None:
    data, seen = driven(delay=0), []
    observer = FitObserver(
        candidate=lambda name, number, total: seen.append(name),
        stopping=lambda: "parametric + network 8, H 2" in seen,
    )
    with pytest.raises(FitInterruptedError, match="what was finished is safe in"):
        chosen(data, observer, out=tmp_path / "a")
    assert not (tmp_path / "a" / KIND.contract).exists()
    trained: set[str] = set()
    seen.clear()
    observer = FitObserver(
        candidate=lambda name, number, total: seen.append(name),
        progress=lambda now: trained.add(seen[-1]),
    )
    ensemble = chosen(data, observer, out=tmp_path / "a")
    assert trained == {
        "parametric + network 8, H 2",
        "network 8 alone, H 2",
    }  # the one before was finished
    assert len(ensemble.record["choice"]["tried"]) == 6 and ensemble.contract.history.delay == 0


@pytest.mark.slow
def test_errors_on_what_was_left_out_are_those_of_a_plain_loop() -> None:
    data = driven(delay=0)
    settings = FitSettings(base="linear", hidden=(), folds=4, members=4, history_length=2)
    fitting = Fitting(data, "pendulum", settings)
    ensemble = fitting.run()
    whole = HeldOutSamples.of(fitting.dataset, data, reach=4)
    assert whole.steps * data.dt <= 0.5
    exam = replace(
        whole,
        rows=tuple(rows[::200] for rows in whole.rows),
        starts=tuple(s[:1] for s in whole.starts),
        steps=12,
    )
    found = exam.judge(ensemble, fitting.dataset, fitting.dynamics)
    dynamics, dt = load_dynamics(fitting.robot), data.dt
    squares, ends = [], []
    for member in range(4):
        alone = ensemble.member(member)
        for row in exam.rows[member].tolist():
            tau = alone.torque(data.q[row - 2 : row + 1][None], data.u[row - 2 : row + 1][None])[0]
            now, speed = jnp.asarray(data.q[row]), jnp.asarray((data.q[row] - data.q[row - 1]) / dt)
            position, _ = dynamics.step(now, speed, tau)
            squares.append((np.asarray(position) - data.q[row + 1]) ** 2)
        for row in exam.starts[member].tolist():
            now, speed = jnp.asarray(data.q[row]), jnp.asarray((data.q[row] - data.q[row - 1]) / dt)
            q, state = [*data.q[row - 2 : row + 1]], (now, speed)
            for r in range(exam.steps):
                tau = alone.torque(np.stack(q[-3:])[None], data.u[row + r - 2 : row + r + 1][None])[
                    0
                ]
                state = dynamics.step(*state, tau)
                q.append(np.asarray(state[0]))
            off = np.abs(np.asarray(state[0]) - data.q[row + exam.steps])
            ends.append(np.minimum(off, exam.bound) ** 2)  # some run away
    one_step, rollout = found
    np.testing.assert_allclose(one_step, np.sqrt(np.mean(squares, axis=0)), rtol=0.02, atol=1e-7)
    np.testing.assert_allclose(rollout, np.sqrt(np.mean(ends, axis=0)), rtol=0.02, atol=1e-5)
    baselines = exam.judge_baselines(fitting.dataset)
    assert list(baselines) == ["standing still", "constant velocity", "ridge ARX"]
    still, constant, _ = baselines.values()
    assert one_step < constant[0] < still[0]


GUESSES = {
    "constant velocity": np.array([[1.0], [9.0]]),
    "standing still": np.array([[9.0], [1.0]]),
}


def judged(name: str, one_step: float, rollout: float, *, linear: bool) -> Candidate:
    settings = FitSettings(base="linear", hidden=() if linear else (8,))
    errors = np.array([one_step, rollout])
    return Candidate(name, name, settings, errors[:, None], errors)


def test_a_network_must_be_better_in_both_and_by_more_than_chance() -> None:
    linear = judged("linear", 1.0, 1.0, linear=True)
    assert judged("good", 0.9, 0.9, linear=False).beats(linear)
    assert not judged("worse open loop", 0.5, 1.01, linear=False).beats(linear)
    assert not judged("worse one step", 1.01, 0.5, linear=False).beats(linear)
    assert not judged("level", 0.999, 0.999, linear=False).beats(linear)


def test_what_something_plain_surpasses_comes_last() -> None:
    guesses, arx = GUESSES, np.array([[0.65], [2.0]])
    best, near = judged("best", 0.8, 0.5, linear=True), judged("near", 0.6, 1.5, linear=True)
    far, sound = judged("far", 0.7, 0.1, linear=False), judged("sound", 0.6, 0.4, linear=False)
    worse = judged("worse", 0.5, 0.6, linear=False)
    assert decide([best, near, far, sound, worse], guesses) == (best, sound)
    assert decide([best, far, sound], guesses) == (best, far)  # nothing plain is nearer than either
    assert decide([best, near, far], guesses) == (best, far)  # there is nothing sound
    assert decide([best, far, sound], guesses | {"ridge ARX": arx}) == (best, sound)
    assert decide([best, near, worse], guesses) == (best, best)


def test_a_better_baseline_is_owned_up_to() -> None:
    linear, network = judged("linear", 1.0, 1.0, linear=True), judged("n", 0.8, 0.8, linear=False)
    better = GUESSES | {"ridge ARX": np.array([[0.5], [2.0]])}
    words = explain((linear, network), better, 0.5, cut=False)
    assert words[-1].startswith(
        "Beware: ridge ARX is better there one step ahead (1.6 times as accurate)"
    )


def test_no_network_is_handed_out_that_is_worse() -> None:
    linear, network = judged("linear", 1.0, 1.0, linear=True), judged("n", 0.8, 1.2, linear=False)
    words = explain((linear, network), GUESSES, 0.5, cut=True)
    assert "stretches of the recordings: linear" in words[0] and "too few recordings" in words[1]
    assert words[2].endswith("had 0.8 times its error one step ahead and 1.2 times after 0.5 s.")


def test_settings_made_by_hand_are_seen() -> None:
    notes: list[str] = []
    asked = lambda **made: _chooses(
        "auto", FitSettings(**made), 100, FitObserver(note=notes.append), continues=False
    )
    assert asked(history_noise=1e-4, seed=3) and not notes
    assert not asked(hidden=(8,), epochs=3) and notes[0].startswith("--hidden, --epochs given")
