"""The six commands of "Train a policy for your robot", small, on a robot whose physics the
simulator does not know; and a robot with a slide and more controls than joints."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.docs.typed import typed

from genan.cli import main
from genan.data import Channels, Trajectories, write
from genan.dynamics import load_dynamics
from genan.evaluation.transfer import TransferResult
from genan.rl.policy import Policy
from genan.robot import Robot

pytestmark = pytest.mark.slow

FIT = ("--base", "parametric", "--hidden", "--folds", 2, "--members", 2)
FEW = "--steps 256 --num-envs 8 --judge 8 --task.pool 8 --task.ramped 0 --task.duration 1"
FEW += " --ppo.hidden 8 --ppo.num-steps-per-env 16 --ppo.num-minibatches 2 --ppo.num-epochs 1"


def test_a_policy_for_your_robot(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "hydraulic-arm"
    data, test, actuators = place / "data.h5", place / "test.h5", place / "actuators"
    policy, tried = place / "reacher", place / "transfer-reacher" / "seed-0"
    place.mkdir()
    for line in (
        typed(
            "genan collect --robot virtual-hydraulic-arm --trajectories 300 --out data.h5",
            trajectories=12,
            out=data,
        ),
        typed(
            "genan collect --robot virtual-hydraulic-arm --trajectories 64 --seed 1 --out test.h5",
            trajectories=4,
            out=test,
        ),
        typed(
            "genan fit --data data.h5 --robot hydraulic-arm --out actuators",
            *FIT,
            data=data,
            out=actuators,
        ),
        typed(
            "genan evaluate --actuators actuators --data test.h5",
            "--horizon",
            25,
            actuators=actuators,
            data=test,
        ),
        typed(
            "genan train reacher --actuators actuators --out reacher",
            *FEW.split(),
            actuators=actuators,
            out=policy,
        ),
        typed(
            "genan transfer reacher --policy reacher --robot-seeds 0 1 2 --trials 20",
            "--out",
            tried,
            policy=policy,
            trials=1,
        ),
    ):
        assert main(line) == 0, line
    assert "Not worth deploying" in capsys.readouterr().err
    # Everything was taken from the recording: where it went, and how fast its controls changed.
    motion = json.loads((actuators / "actuator.json").read_text())["record"]["data"]["motion"]
    constants = Policy.load(policy).contract.constants
    np.testing.assert_allclose(constants["goal_lower"], motion["q_lower"], rtol=1e-2)
    assert len(constants["action_scale"]) == 3
    found = TransferResult.load(tried)
    assert found.robot_seeds == (0, 1, 2) and len(found.trials) == 3
    # The benchmark types the same, and what is done is not done again: its table is left to make.
    (tried / "done").touch()
    line = typed(
        "python benchmarks/any_robot.py servo-arm --steps 3000000 --seeds 5 --trials 20 "
        "--tasks reacher",
        *("--out", tmp_path),
        instead={"servo-arm": "hydraulic-arm"},
        seeds=1,
    )
    done = subprocess.run(
        [sys.executable, *line], cwd=repository, capture_output=True, text=True, check=True
    )
    assert "$ genan" not in done.stdout
    table = done.stdout.splitlines()
    assert table[-2].startswith("| task | in simulation")
    assert table[-1].startswith("| reacher | 0.0")


def test_a_robot_with_a_slide_and_more_controls_than_joints(tmp_path: Path) -> None:
    """Two valves push a carriage to and fro, a third brakes the link that swings on it."""
    robot, rng = Robot.load("carriage"), np.random.default_rng(0)
    dynamics, pieces = load_dynamics(robot), []
    assert [joint.unit for joint in robot.joints] == ["m", "rad"] and robot.nu == 3
    low, high = robot.u_range
    step = jax.jit(dynamics.step)
    for _ in range(6):
        t = robot.dt * np.arange(400)[:, None]
        wave = np.sin(rng.uniform(2, 9, robot.nu) * t + rng.uniform(0, 6, robot.nu))
        u = 0.5 * (low + high) + 0.3 * (high - low) * wave
        q, qd, rows = robot.q_rest, np.zeros(2), []
        for push, pull, brake in u:
            rows.append(q)
            tau = np.array([3.0 * (push - pull) - 5.0 * qd[0], -0.2 * brake * qd[1]])
            q, qd = (np.asarray(x, float) for x in step(q, qd, tau))
        pieces.append((np.array(rows), u))
    data, actuators, policy = (tmp_path / name for name in ("data.h5", "actuators", "reacher"))
    write(data, Trajectories.from_list(Channels.of_robot(robot), pieces))
    fit = ["fit", "--data", data, "--robot", "carriage", "--out", actuators, *FIT]
    train = ["train", "reacher", "--actuators", actuators, "--out", policy, *FEW.split()]
    for line in (fit, train):
        assert main(list(map(str, line))) == 0, line
    constants = Policy.load(policy).contract.constants
    assert len(constants["goal_lower"]) == 2 and len(constants["action_scale"]) == 3
