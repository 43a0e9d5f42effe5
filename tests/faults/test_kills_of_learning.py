"""SIGKILL at random moments of ``genan fit`` and ``genan train``."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.actuator.ensembles import make_ensemble
from tests.actuator.setting import waves
from tests.faults.kills import KILLS, Job

from genan.actuator import save
from genan.data import write
from genan.files import CHECKPOINT
from genan.robot import Robot

pytestmark = pytest.mark.faults

#: Checkpoints are made every 10 s by users' jobs, which take hours.
OFTEN = "import genan.{0} as job; job.CHECKPOINT_SECONDS = 0.1"


def checkpointed(there: Path, whole: Path) -> bool:
    return (there / "out" / CHECKPOINT).exists()


def test_fit(tmp_path: Path, tried: Callable) -> None:
    write(tmp_path / "data.h5", waves(Robot.load("two-link"), lengths=(90, 80, 100, 70, 85, 95)))
    few = ("--members", 2, "--hidden", 16, "--history-length", 2, "--batch-size", 16)
    words = ("fit", "--data", "../data.h5", "--robot", "two-link", "--out", "out", "--epochs", 120)
    setup = OFTEN.format("actuator.fitting")
    job = Job((*words, *few), "out/actuator.json", setup, check=checkpointed)
    tried("kills of 'fit'", KILLS, job.killed(tmp_path, seed=3))


def test_train(tmp_path: Path, tried: Callable) -> None:
    arm = Robot.load("pamy2")
    made = make_ensemble(arm, damping=0.5, gain=5.0, members=2, scatter=0.01)
    save(made, tmp_path / "actuators")
    few = (
        "--num-envs", 4, "--steps", 4096, "--judge", 4, "--task.pool", 4, "--task.ramped", 0,
        "--task.duration", 0.05, "--ppo.num-steps-per-env", 4, "--ppo.num-minibatches", 2,
        "--ppo.num-epochs", 1, "--ppo.hidden", 8,
    )  # fmt: skip
    words = ("train", "reacher", "--actuators", "../actuators", "--out", "out", *few)
    job = Job(words, "out/policy.json", OFTEN.format("rl.train"), check=checkpointed)
    tried("kills of 'train'", KILLS, job.killed(tmp_path, seed=4))
