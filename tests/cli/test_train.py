"""``genan train``: flags, words, Ctrl-C."""

from types import SimpleNamespace

import pytest
from tests.actuator.ensembles import make_ensemble
from tests.docs.typed import typed
from tests.rl.policies import TASK
from tests.rl.policies import ensemble as two_link_ensemble

from genan import actuator
from genan.cli import main
from genan.cli.train import SENTENCES, Train
from genan.errors import SettingError
from genan.files import sentences
from genan.rl.policy import Policy
from genan.rl.train import TrainingResult
from genan.robot import Robot
from genan.robot.package import robot_folder
from genan.tasks.registry import task_settings
from genan.tasks.task import Judgement

QUICK = [
    "--num-envs", "4", "--steps", "32", "--judge", "4", "--task.pool", "4", "--task.ramped", "0",
    "--task.duration", "0.05", "--ppo.num-steps-per-env", "4", "--ppo.num-minibatches", "2",
    "--ppo.num-epochs", "1", "--ppo.hidden", "8",
]  # fmt: skip
#: The refusal of a reacher with other than four joints.
RANGES = ("u_lower", "u_upper", "q_drop", "goal_lower", "goal_upper")


@pytest.fixture(scope="module")
def actuators(tmp_path_factory):
    folder = tmp_path_factory.mktemp("actuators")
    actuator.save(
        make_ensemble(Robot.load("pamy2"), damping=0.5, gain=5.0, members=2, scatter=0.01), folder
    )
    return folder


@pytest.mark.slow
def test_a_policy_is_trained_and_a_second_time_refused(tmp_path, capsys):
    mine = {"robot": robot_folder("two-link") / "robot.toml"}
    mine["actuators"] = actuator.save(two_link_ensemble(), tmp_path / "mine")
    few = [
        word
        for name in RANGES
        for word in (f"--task.{name.replace('_', '-')}", *getattr(TASK, name))
    ] + QUICK
    command = typed(
        "genan train reacher --robot robot.toml --actuators mine --out my-reacher",
        *("--task.action-weight", 250, *few),
        **mine,
        out=tmp_path / "run",
    )
    assert main(command) == 0
    words = capsys.readouterr().err
    assert "success in simulation:" in words and "95 % interval" in words
    assert f"genan play reacher --policy {tmp_path / 'run'}" in words and "compiled" in words
    assert main(command) == 2
    assert "holds a finished policy" in capsys.readouterr().err
    flags = [word for name, value in mine.items() for word in (f"--{name}", value)]
    again = typed(
        "genan train reacher --task.action-weight 250", "--out", tmp_path / "again", *flags, *few
    )
    assert main(again) == 0  # the same training, which is not compiled twice
    assert Policy.load(tmp_path / "again").contract.constants["action_weight"] == 250.0


@pytest.mark.parametrize(
    ("success", "gain", "words"),
    [
        (0.97, 0.0, "Worth trying on the robot."),
        (0.7, 0.1, "Careful: it fails often even in simulation. Its success was still rising"),
        (0.7, 0.0, "usually helps is --seeds 5"),
        (0.1, 0.0, "Not worth deploying: it fails mostly even in simulation. It had stopped"),
    ],
)
def test_the_end_says_whether_the_policy_is_worth_deploying(success, gain, words, tmp_path):
    curve = [{"episode/success": rate} for rate in [0.1] * 18 + [0.2, 0.2, 0.2 + gain, 0.2 + gain]]
    result = SimpleNamespace(curve=[{}, *curve], faults=2, out=tmp_path)
    late = TrainingResult.late_gain(result)  # type: ignore[arg-type]
    assert late == pytest.approx(gain)
    judged = Judgement(1000, round(1000 * success), -2.0, {"error": 1.0}, 0)
    said = sentences(SENTENCES, "end", judged, result, "genan play", [], late)
    assert words in " ".join(said) and f"{tmp_path}/fault.safetensors" in " ".join(said)


def test_the_task_decides_what_the_flags_start_from():
    tennis = Train.parse(["table-tennis"])
    assert (
        tennis.task.duration == 1.09
        and tennis.ppo.num_steps_per_env == 109
        and str(tennis.out) == "runs/table-tennis"
    )
    paper = Train.parse(["ball-in-a-cup", "--preset", "paper", "--ppo.num-epochs", "3"])
    assert (
        paper.ppo.num_steps_per_env == 1024
        and paper.ppo.num_epochs == 3
        and paper.ppo.num_minibatches == 128
    )
    assert paper.task == task_settings("ball-in-a-cup") and paper.training.num_envs == 1024
    fast = Train.parse(["ball-in-a-cup", "--task.velocity-weight", "0.5"])
    assert (fast.task.shaping_weight, fast.task.velocity_weight, fast.training.num_envs) == (
        1000.0,
        0.5,
        4096,
    )
    changed = Train.parse(["reacher", "--task.action-weight", "250"])
    assert changed.task.action_weight == 250.0


def test_wrong_tasks_and_flags(actuators, tmp_path, capsys):
    for arguments, came in (
        ([], "nothing"),
        (["chess"], "'chess'"),
        (["--num-envs", "3"], "'--num-envs'"),
    ):
        with pytest.raises(SettingError, match=f"Which task.*got {came}"):
            Train.parse(arguments)
    assert (
        main(
            [
                "train",
                "reacher",
                "--actuators",
                str(tmp_path / "none"),
                "--out",
                str(tmp_path / "x"),
            ]
        )
        == 2
    )
    assert "There are no actuators" in capsys.readouterr().err
    assert main(["train", "reacher", "--actuators", str(actuators), "--robot", "pendulum"]) == 2
    assert "joints" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "reacher", "--speed", "3"])
