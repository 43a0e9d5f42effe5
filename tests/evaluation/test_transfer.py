"""Transfer trials judged against what an independent reading of the kept files
says."""

import json
import re
import signal
import subprocess
import sys
from copy import copy, deepcopy
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.cli.pictures import Nothing
from tests.deployment.faulty import PAMY2, FaultyRobot, MemoryRobot, Stuck
from tests.docs.programs import run_block
from tests.docs.typed import typed

from genan.cli import main
from genan.data import load as load_recording
from genan.deployment.safety import StopReason
from genan.errors import DataError, SettingError
from genan.evaluation import transfer as setups
from genan.evaluation.statistics import wilson
from genan.evaluation.transfer import (
    ReacherTrials,
    TransferResult,
    TransferTrial,
    TrialSetup,
    load_policy,
    open_trials,
    transfer,
)
from genan.rl.contract import PolicyError
from genan.rl.numpy_policy import NumpyPolicy
from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.robots.pamy2.virtual.cup_bench import CupOutcome
from genan.robots.pamy2.virtual.tennis import RallyOutcome
from genan.tasks.registry import task_entry


@pytest.fixture(scope="module")
def reacher() -> NumpyPolicy:
    return load_policy(bundled_policy("reacher"), "reacher")


def changed(policy: NumpyPolicy, **constants: object) -> NumpyPolicy:
    """The policy with other constants of its task."""
    other = deepcopy(policy)
    other.contract["constants"].update(constants)
    return other


@pytest.mark.slow
def test_reacher_trials_are_judged_by_where_the_arm_is_and_everything_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the program of the documentation, on one of its robots."""
    monkeypatch.chdir(tmp_path)
    seen: list[TransferResult] = []
    small = {"(0, 1, 2)": "(1,)", "trials=100": "trials=2, finished=seen.append"}
    found = run_block("transfer.md", 0, smaller=small, seen=seen)["found"]
    out = tmp_path / "runs" / "transfer"
    assert [len(so_far.trials) for so_far in seen] == [1, 2] and found == seen[
        -1
    ] == TransferResult.load(out)
    assert found.robot_seeds == (1,)
    folder = out / "robot-1"
    assert load_recording(folder / "flights.h5").lengths.tolist() == [3000] * 2
    for trial in found.trials:
        chance = np.random.default_rng(
            [0, trial.number]
        )  # the paper's distributions, from the paper
        u = chance.uniform([-0.5, -0.6, -0.6, -0.5], [0.5, 0.0, 0.4, 0.5])
        goal = chance.uniform([-50, 20, -50, -50], [50, 60, 50, 50])
        np.testing.assert_allclose(trial.u_init, u)
        np.testing.assert_allclose(np.rad2deg(trial.goal), goal)
        with np.load(folder / "flights.ticks" / f"{trial.number:04d}.npz") as ticks:
            # At rest for 1 s, reached after 2 s more, along a line.
            np.testing.assert_array_equal(ticks["u"][499], PAMY2.u_rest)
            np.testing.assert_allclose(ticks["u"][999], 0.5 * (u + PAMY2.u_rest), atol=1e-9)
            np.testing.assert_allclose(ticks["u"][1499], u, atol=1e-9)
            error = np.abs(np.rad2deg(ticks["q"][2500]) - goal)  # 2 s of the policy later
        np.testing.assert_allclose(trial.numbers["error"], error)
        assert trial.success == (error.mean() < 2.0) == (trial.outcome == "reached")


def forged(policy: NumpyPolicy, **entries: object) -> NumpyPolicy:
    """The same with other words in its contract, as a stranger's file may have them."""
    made = copy(policy)
    made.contract = {**policy.contract, **entries}
    for name, value in entries.items():
        if name == "action_scale":
            made.action_scale = value
    return made


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"action_scale": 10.0}, "up to 10 in a period, and the robot 'pamy2' allows 0.01"),
        ({"robot": "pamy3"}, "trained for the robot 'pamy3', not for 'pamy2'"),
        ({"rate": 500.0}, "a rate of 500 Hz, and 100 Hz by dt and action_repeat"),
    ],
)
def test_a_strangers_policy_is_refused_before_anything_moves(
    reacher: NumpyPolicy, entries: dict, words: str
) -> None:
    with pytest.raises(PolicyError, match=re.escape(words)):
        ReacherTrials(forged(reacher, **entries), MemoryRobot())
    ReacherTrials(forged(reacher, action_scale=0.001), MemoryRobot())  # slower is fine


def test_a_trial_does_not_depend_on_how_many_there_are(reacher: NumpyPolicy) -> None:
    trials = ReacherTrials(reacher, MemoryRobot())
    first, again, other = trials.prepare(7), trials.prepare(7), trials.prepare(7, seed=1)
    np.testing.assert_array_equal(first.u, again.u)
    np.testing.assert_array_equal(first.goal, again.goal)
    assert (first.u != other.u).any() and (first.u != trials.prepare(8).u).any()


def test_a_trial_that_was_stopped_is_a_failure_and_the_next_one_goes_on(
    reacher: NumpyPolicy, tmp_path: Path
) -> None:
    robot = FaultyRobot(Stuck(stale=True), tick=2000)
    trials = ReacherTrials(reacher, robot)
    found = transfer(lambda _: trials, robot_seeds=(None,), trials=2, out=tmp_path)
    assert [trial.outcome for trial in found.trials] == [
        StopReason.STALE.value
    ] * 2 and found.succeeded == 0
    assert "no new reading (for 4" in found.trials[0].stop and robot.stopped == 2
    assert found.outcomes() == {"reached": 0, "not reached": 0, StopReason.STALE.value: 2}
    with np.load(tmp_path / "robot" / "flights.ticks" / "0000.npz") as ticks:
        about = json.loads(str(ticks["about"]))
    # One that cannot be put back rests for a second first.
    assert about["phases"] == ["Hold", "RampTo", "PolicyController", "to rest"]


def test_the_operator_keeps_what_is_done(reacher: NumpyPolicy, tmp_path: Path) -> None:
    done: list[TransferResult] = []
    asked = iter(range(10**9))

    def stopping() -> bool:
        return bool(done) and next(asked) > 500  # in the middle of the second trial

    trials = ReacherTrials(reacher, MemoryRobot())
    found = transfer(
        lambda _: trials,
        robot_seeds=(None,),
        trials=5,
        out=tmp_path,
        stopping=stopping,
        finished=done.append,
    )
    assert len(found.trials) == 1 and found == TransferResult.load(tmp_path)
    assert (
        found.about["trials"] == 5
        and len(load_recording(tmp_path / "robot" / "flights.h5").lengths) == 2
    )


KILLED = """
import os, signal, sys
from tests.deployment.faulty import MemoryRobot
from genan.evaluation.transfer import load_policy
from genan.evaluation.transfer import ReacherTrials
from genan.evaluation.transfer import transfer
from genan.robot.package import bundled_policy

def finished(found):
    if len(found.trials) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

trials = ReacherTrials(load_policy(bundled_policy("reacher"), "reacher"), MemoryRobot())
assert "jax" not in sys.modules  # a robot's computer needs none
transfer(lambda _: trials, robot_seeds=(None,), trials=5, out=sys.argv[1], finished=finished)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_what_was_done(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path], cwd=root, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert [trial.number for trial in TransferResult.load(tmp_path).trials] == [0, 1]
    assert len(load_recording(tmp_path / "robot" / "flights.h5.partial").lengths) == 2


@pytest.mark.slow
def test_table_tennis_returns_the_ball_and_keeps_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genan.viewer.rendering.load_renderer", Nothing)
    command = typed(
        "genan transfer table-tennis --robot-seeds 0 1 2 --videos 0 3",
        *("--trials", 1, "--out", tmp_path / "out"),
        robot_seeds=(0, 1),
        videos=0,
    )
    assert main(command) == 0
    trial, other = TransferResult.load(tmp_path / "out").trials
    assert trial.success == (trial.outcome == "success")
    assert (trial.robot_seed, other.robot_seed) == (0, 1)
    folder = tmp_path / "out" / "robot-0"
    assert len(list((tmp_path / "out").glob("robot-*/trial-0000.*"))) == 2  # filmed
    with np.load(folder / "balls" / "0000.npz") as kept:
        time, ball = kept["time"], kept["ball"]
    with np.load(folder / "flights.ticks" / "0000.npz") as kept:
        phase, flown = kept["phase"], kept["time"]
    # Launched after the ramp, soon seen.
    assert time[0] == pytest.approx(3.0) and 3.0 < flown[phase == 3][0] < 3.03
    turn = int(np.argmin(ball[:, 1]))
    assert np.all(np.diff(ball[:turn, 1]) < 0.0)  # it comes, and goes back
    down = turn + int(np.argmax((ball[turn:, 2] < 0.80) & (ball[turn:, 1] > ball[turn, 1] + 1.0)))
    np.testing.assert_allclose(trial.numbers["landing"][:2], ball[down, :2], atol=0.1)


@pytest.fixture(scope="module")
def cup_policy(reacher: NumpyPolicy) -> NumpyPolicy:
    """A policy that leaves the controls alone: its weights are zero."""
    contract = deepcopy(reacher.contract)
    contract |= {"task": "ball-in-a-cup", "robot": "pamy2-cup"}
    contract["constants"] |= {"buffer": 5, "duration": 0.1}
    for name in ("goal_lower", "goal_upper", "tolerance"):
        del contract["constants"][name]
    contract["observation"] = [
        {"name": name, "size": size, "words": ""}
        for name, size in (
            ("q", 4),
            ("qd", 4),
            ("u", 4),
            ("ball_position", 3),
            ("ball_velocity", 3),
        )
    ]
    contract["network"]["hidden"] = [4]
    shapes = {
        "layers.0.weight": (18, 4),
        "layers.0.bias": (4,),
        "layers.1.weight": (4, 4),
        "layers.1.bias": (4,),
    }
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    arrays |= {"scale.mean": np.zeros(18, np.float32), "scale.deviation": np.ones(18, np.float32)}
    return NumpyPolicy(
        {"contract": contract, "record": {}}, arrays | {"log_deviation": np.zeros(4, np.float32)}
    )


@pytest.fixture(scope="module")
def cup_trials(cup_policy: NumpyPolicy) -> TrialSetup:
    return open_trials(cup_policy, seed=0)


@pytest.mark.slow
def test_a_ball_that_nobody_swings_is_never_in_the_cup(
    cup_trials: TrialSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setups, "RAMP", 0.3)
    found = transfer(lambda _: cup_trials, trials=1, out=tmp_path)
    assert found.trials[0].outcome == "never in" and found.trials[0].numbers == {
        "seconds_in_cup": 0.0
    }
    with np.load(tmp_path / "robot-0" / "balls" / "0000.npz") as kept:
        ball, string = kept["ball"], kept["string"]
    assert len(string) == -(-len(ball) // 10)
    np.testing.assert_allclose(string[1, -1], ball[10])  # it ends in the ball
    assert np.linalg.norm(np.diff(string, axis=1), axis=2).sum(axis=1) == pytest.approx(
        0.2, abs=0.02
    )


@pytest.mark.slow
def test_the_documented_program_swings_the_ball_with_a_tracker_of_its_own(
    cup_trials: TrialSetup,
) -> None:
    cup_trials.robot.connect()
    cup_trials.bench.reset()
    cup_trials.prepare(0)  # the ball hangs
    hanging, _ = cup_trials.bench.ball_for_evaluation_only()
    names = {
        "robot": cup_trials.robot,
        "source": cup_trials.tracker,
        "load_policy": load_policy,
        "bundled_policy": bundled_policy,
    }
    left = run_block("transfer.md", 1, smaller={"seconds=2.0": "seconds=0.2"}, **names)
    assert left["flight"].stop.reason is StopReason.FINISHED
    swung, _ = cup_trials.bench.ball_for_evaluation_only()
    assert np.linalg.norm(swung - hanging) > 0.05


def test_rates_intervals_and_tables() -> None:
    rows = [("success", 0), ("too long", 0), ("success", 1), ("success", 1), ("side", 1)]
    trials = [
        TransferTrial(k, seed, name == "success", name, "", [], None, {"n": k})
        for k, (name, seed) in enumerate(rows)
    ]
    found = TransferResult("table-tennis", tuple(trials))
    expected = binomtest(3, 5).proportion_ci(method="wilson")
    np.testing.assert_allclose(found.interval, (expected.low, expected.high), atol=1e-6)
    assert found.on(1).outcomes() == {
        "success": 2,
        "too long": 0,
        "too short": 0,
        "missed": 0,
        "side": 1,
    }
    assert found.mean("n") == 2.0 and np.isnan(found.mean("nothing"))
    assert task_entry("table-tennis").outcomes == tuple(
        o.value for o in (*list(RallyOutcome)[:3], RallyOutcome.MISSED, RallyOutcome.SIDE)
    )
    assert task_entry("ball-in-a-cup").outcomes == tuple(outcome.value for outcome in CupOutcome)


def test_what_cannot_be_is_refused(
    reacher: NumpyPolicy, cup_policy: NumpyPolicy, tmp_path: Path
) -> None:
    robot = MemoryRobot()
    with pytest.raises(
        SettingError, match="trained for the task 'reacher', not for 'table-tennis'"
    ):
        load_policy(bundled_policy("reacher"), "table-tennis")
    with pytest.raises(
        SettingError, match="trained for the task 'ball-in-a-cup', not for 'reacher'"
    ):
        ReacherTrials(cup_policy, robot)
    with pytest.raises(
        SettingError, match="'q1' must lie within its limits -90 to 90 deg, not at 114.6"
    ):
        ReacherTrials(changed(reacher, goal_upper=[2.0, 1.0, 0.8, 0.8]), robot)
    with pytest.raises(SettingError, match="controls to go to"):
        ReacherTrials(changed(reacher, u_lower=[-3.0, 0.0, 0.0, 0.0]), robot)
    robot.robot = Robot.load("two-link")
    with pytest.raises(PolicyError, match="trained for the joints"):
        ReacherTrials(reacher, robot)
    with pytest.raises(
        SettingError, match="need a ball tracker, and none is connected to 'pamy2-udp'"
    ):
        open_trials(cup_policy, robot="pamy2-udp")
    with pytest.raises(SettingError, match="no robot 'pamy3'"):
        open_trials(cup_policy, robot="pamy3")
    with pytest.raises(SettingError, match="no setting 'host'"):
        open_trials(cup_policy, host="localhost")
    with pytest.raises(SettingError, match="At least one trial"):
        transfer(lambda _: ReacherTrials(reacher, MemoryRobot()), trials=0)
    with pytest.raises(SettingError, match="name one robot twice"):
        transfer(lambda _: ReacherTrials(reacher, MemoryRobot()), robot_seeds=(1, 1))
    with pytest.raises(PolicyError, match="no policy in"):
        load_policy(tmp_path / "nowhere", "reacher")
    with pytest.raises(DataError, match="'genan transfer' makes one"):
        TransferResult.load(tmp_path)
    (tmp_path / "transfer.json").write_text("{}")
    with pytest.raises(DataError, match="not the result of a transfer"):
        TransferResult.load(tmp_path)


def test_a_trial_lost_to_a_busy_computer_is_no_failure_of_the_policy(tmp_path: Path) -> None:
    def trial(number: int, reason: StopReason) -> TransferTrial:
        done = reason is StopReason.FINISHED
        outcome = "reached" if done else reason.value
        return TransferTrial(number, 0, done, outcome, reason.value, [0.0], None, {}, reason.name)

    reasons = [StopReason.FINISHED] * 3 + [StopReason.LATE] * 2 + [StopReason.POSITION]
    found = TransferResult("reacher", tuple(trial(k, reason) for k, reason in enumerate(reasons)))
    assert (found.succeeded, len(found.completed)) == (3, 4)
    assert found.words == (
        "3 of 4 completed trials succeeded; 2 were stopped because a computer was late"
    )
    assert found.interval == wilson(3, 4)
    found.save(tmp_path)
    assert TransferResult.load(tmp_path) == found
