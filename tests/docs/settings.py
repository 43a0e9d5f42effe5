"""How the pages' commands and programs are run in the tests: made small, or by other tests."""

from collections.abc import Callable
from pathlib import Path

from tests.docs.balls import prepare_ball_recordings
from tests.docs.own_robot import prepare_logs, prepare_recordings, prepare_table
from tests.keys import write_keys

#: Flags that are set to these values wherever the verb is run.
SMALLER: dict[str, dict[str, tuple[str, ...]]] = {
    "collect": {
        "--trajectories": ("4",),
        "--duration": ("1",),
        "--ramp": ("0.2",),
        "--settle": ("0.1",),
    },
    "fit": {"--members": ("1",), "--hidden": ("8",), "--epochs": ("1",)},
    "evaluate": {"--horizon": ("20",)},
}

#: Words that are added to single lines.
ADDED: dict[str, tuple[str, ...]] = {
    "python benchmarks/virtual_ball_gun.py check --data ball_trajectories.npz": ("--balls", "6")
}

#: Verbs whose lines are never run on the page itself, and why: other tests run each of them, as
#: ``ELSEWHERE`` says.
LONG: dict[str, str] = {
    "train": "compiles for a quarter of a minute for each task",
    "play": "draws films of a simulation that is compiled first",
    "transfer": "runs a robot, in real time with --serve",
    "check": "moves a robot",
    "deploy": "runs a robot; some pages name hosts in a laboratory",
    "serve": "runs until it is stopped",
    "view": "runs until it is stopped",
    "identify": "records a minute of motion, and compiles it",
}

#: Lines that other tests run, by ``typed`` (tests/docs/typed.py), because what they need is at hand
#: there.
ELSEWHERE: dict[str, str] = {
    line: f"tests/{test}.py"
    for test, lines in {
        "benchmarks/test_real_logs": (
            "python benchmarks/real_logs.py logs --out runs/real",
        ),  # where the logs are
        "cli/test_check": (
            "genan check --robot virtual-pamy2",
            "genan check --robot my-arm --actuators mine",
        ),
        "cli/test_deploy": (
            "genan deploy reacher --robot my-arm --policy my-reacher --goal 20 40 --dry-run",
            "genan deploy reacher --robot pamy2-udp --host 192.168.0.110 --policy runs/reacher "
            "--goal 10 30 20 0 --dry-run",
            "genan deploy reacher --robot virtual-pamy2 --goal 10 30 20 0 --record flights.h5",
        ),
        "cli/test_evaluate": (
            "genan evaluate --actuators runs/pamy2 --data new.h5 --out runs/new-log",
            "genan evaluate --actuators runs/position --compare runs/torque --data test.h5 "
            "--true-torque",
        ),
        "cli/test_fit": (
            "genan fit --data new.h5 --robot pamy2 --from runs/pamy2 --out runs/pamy2-may",
        ),
        "cli/test_play": (
            "genan play reacher --policy reacher --actuators actuators",
            "genan play reacher --policy runs/reacher",
            "genan play table-tennis",
        ),
        "experiments/test_main_search": (
            "python -m experiments search-fit --size small --trials 30",
            "python -m experiments search-uan --size small --trials 50",
        ),
        "experiments/test_main": (
            "python -m experiments search-reacher --size full --trials 40 --at-once 4",
            "python -m experiments accuracy --size small",
            "python -m experiments all --size smoke",
            "python -m experiments history stride --size full",
            "genan train ball-in-a-cup --actuators runs/actuators-cup --steps 80000000 "
            "--task.control-spread 0.03 --out runs/ball-in-a-cup",
            "python -m experiments transfer --size full",
        ),
        "cli/test_sign": (
            "genan deploy reacher --robot my-arm --policy runs/reacher --goal 20 40 "
            "--require-signature lab.pub",
        ),
        "cli/test_train": (
            "genan train reacher --robot robot.toml --actuators mine --out my-reacher",
            "genan train reacher --task.action-weight 250",
        ),
        "cli/test_transfer": (
            "genan transfer reacher --policy reacher --trials 20 --out transfer",
            "genan transfer reacher --policy reacher --serve --trials 20 --out transfer",
            "genan transfer reacher --policy runs/reacher --trials 100",
            "genan transfer reacher --robot my-arm --policy my-reacher --trials 20",
            "genan transfer reacher --robot pamy2-udp --host 192.168.0.110 --trials 20",
        ),
        "cli/test_view": (
            "genan view --live",
            "genan view --live table-tennis --hours 50",
            "genan view data/pamy2.h5 --actuators runs/pamy2",
            "genan view runs/transfer-reacher/robot-0/flights.h5",
        ),
        "robots/pamy2/test_server": (
            "genan serve --robot virtual-pamy2 --port 4700 --seed 0 --log serve.jsonl",
        ),
        "experiments/two_nodes": (
            "python -m experiments all --size full --ray head:6379 --out /shared/studies",
        ),
        "evaluation/test_cross_validation": (
            "genan evaluate --actuators runs/pamy2 --cross-validate 3",
        ),
        "evaluation/test_transfer": (
            "genan transfer table-tennis --robot-seeds 0 1 2 --videos 0 3",
        ),
        "tasks/test_follow": (
            "genan train follow --actuators actuators --out runs/follow",
            "genan transfer follow --policy runs/follow",
        ),
        "test_zoo": (
            "genan collect --robot virtual-hydraulic-arm --trajectories 300 --out data.h5",
            "genan collect --robot virtual-hydraulic-arm --trajectories 64 --seed 1 --out test.h5",
            "genan fit --data data.h5 --robot hydraulic-arm --out actuators",
            "genan evaluate --actuators actuators --data test.h5",
            "genan transfer reacher --policy reacher --robot-seeds 0 1 2 --trials 20",
            "python benchmarks/any_robot.py servo-arm --steps 3000000 --seeds 5 --trials 20 "
            "--tasks reacher",
        ),
        "rl/test_train": (
            "genan train reacher",
            "genan train reacher --actuators actuators --out reacher",
            "genan train reacher --actuators actuators --num-envs 512 --ppo.num-minibatches 8 "
            "--steps 8000000 --out reacher",
        ),
    }.items()
    for line in lines
}

#: Blocks of Python, by page and number (from 0), that other tests run with ``run_block``: what they
#: need is made there.
BLOCKS_ELSEWHERE: dict[tuple[str, int], str] = {
    ("README.md", 0): "tests/rl/test_train.py",
    ("pamy2-protocol.md", 0): "tests/robots/pamy2/test_udp.py",
    ("train.md", 0): "tests/rl/test_train.py",
    ("search.md", 0): "tests/experiments/test_search.py",
    ("transfer.md", 0): "tests/evaluation/test_transfer.py",
    ("transfer.md", 1): "tests/evaluation/test_transfer.py",
    ("virtual-pamy2.md", 0): "tests/robots/pamy2/test_cup_bench.py",
    ("virtual-table-tennis.md", 0): "tests/robots/pamy2/test_tennis_bench.py",
}

#: Text of Python blocks that is made small.
REPLACED: dict[str, str] = {
    'out="runs/pamy2-python"': 'members=1, hidden=(8,), epochs=1, out="runs/pamy2-python"',
    '"data.h5", "pamy2",': '"data.h5", "pamy2", members=1, hidden=(8,), epochs=1,',
    "RampTo(u, seconds=2.0, robot=arm": "RampTo(u, seconds=0.2, robot=arm",
}

#: Names that a page's Python takes for granted.
PRELUDES: dict[str, str] = {
    "data-format.md": """
import numpy as np
waves = [np.sin(0.1 * np.arange(2 * rows)).reshape(rows, 2) for rows in (5, 9)]
my_logs = [(q, np.zeros_like(q)) for q in waves]
""",
    "index.md": "import numpy as np; q_history, u_history = np.zeros((2, 4, 4))",
    "policy-format.md": """
import jax, numpy as np
from genan.actuator import load
from genan.robot.package import bundled_actuators
from genan.robot import Robot
from genan.tasks.registry import task_settings
from genan.tasks.task import load_environment
robot, ensemble = Robot.load("pamy2"), load(bundled_actuators("pamy2"))
env = load_environment(task_settings("reacher"), ensemble, envs=2)
key, observation = jax.random.key(0), np.zeros(16, np.float32)
q = qd = u = goal = np.zeros(4)
""",
}

Words = tuple[str, ...]
_ON = ("--robot", "virtual-pamy2")
_COLLECT = (
    "collect",
    *_ON,
    "--trajectories",
    "2500",
    "--truth-for-evaluation-only",
    "--out",
    "train.h5",
)
_TEST = (
    "collect",
    *_ON,
    "--trajectories",
    "800",
    "--seed",
    "1",
    "--truth-for-evaluation-only",
    "--out",
    "test.h5",
)
_DESCRIBE = ("new-robot", "arm.xml", "--logs", "bags")
_IMPORT = ("import", "bags", "--robot", "robot.toml", "--out", "mine.h5")
_FIT = (
    "fit",
    "--data",
    "train.h5",
    "--robot",
    "pamy2",
    "--loss",
    "position",
    "--out",
    "runs/pamy2",
)


def _policy(folder: Path) -> None:
    import shutil

    from genan.robot.package import bundled_policy

    shutil.copytree(bundled_policy("reacher"), folder / "runs" / "reacher")


def _runs(folder: Path) -> None:
    import shutil

    from tests.report.material import write_all

    write_all(folder / "runs", studies=("accuracy",))
    (folder / "films").mkdir()
    shutil.copy(folder / "runs" / "reacher.mp4", folder / "films" / "reacher.mp4")


def _new(folder: Path) -> None:
    import shutil

    shutil.copy(folder / "train.h5", folder / "new.h5")


def _data(folder: Path) -> None:
    import shutil

    shutil.copy(folder / "train.h5", folder / "data.h5")


def _balls(folder: Path) -> None:
    """Two balls of the bundled launcher, as a tracker at 100 Hz would have logged them."""
    import jax
    import numpy as np

    from genan.tasks.ball.launcher import Launcher

    path = Launcher.load().fly(key=jax.random.key(0), duration=1.3)
    rows = np.column_stack([0.01 * np.arange(120), np.asarray(path.position)[:600:5]])
    both = np.concatenate([np.column_stack([np.full(120, ball), rows]) for ball in (0, 1)])
    np.savetxt(folder / "my_balls.csv", both, delimiter=",", header="ball,t,x,y,z", comments="")


#: What pages take for granted: commands that make it, or a function that does.
_GIVEN: dict[str, tuple[Words, ...] | Callable[[Path], object]] = {
    "train.h5": (_COLLECT,),
    "test.h5": (_TEST,),
    "runs/pamy2": (_FIT,),
    "new.h5": _new,
    "data.h5": _data,
    "my_balls.csv": _balls,
    "ball_trajectories.npz": prepare_ball_recordings,
    "runs/reacher": _policy,
    "runs of all kinds": _runs,
    "lab.pub": lambda folder: write_keys(folder / "lab"),
    "the reader's logs": prepare_logs,
    "the reader's recordings": prepare_recordings,
    "the reader's table": prepare_table,
    "mine.h5": (_DESCRIBE, _IMPORT),
}

#: What each page takes for granted, in the order in which it is made.
PREPARED: dict[str, tuple[str, ...]] = {
    "README.md": ("the reader's logs", "the reader's recordings"),
    "data-format.md": ("the reader's table",),
    "index.md": ("train.h5", "data.h5"),
    "table-tennis.md": ("my_balls.csv", "ball_trajectories.npz"),
    "virtual-table-tennis.md": ("ball_trajectories.npz",),
    "inspect.md": ("the reader's logs", "mine.h5"),
    "from-your-logs.md": ("the reader's logs",),
    "robots.md": ("the reader's logs",),
    "add-a-robot.md": ("the reader's logs",),
    "artifact-format.md": ("train.h5", "runs/pamy2", "runs/reacher", "lab.pub"),
    "using-the-network.md": ("train.h5", "runs/pamy2"),
    "fit.md": ("train.h5", "test.h5", "new.h5"),
    "trust.md": ("train.h5", "test.h5", "new.h5", "runs/pamy2"),
    "export.md": ("train.h5", "runs/pamy2"),
    "policy-format.md": ("runs/reacher",),
    "report.md": ("runs of all kinds",),
}


def given(what: str, folder: Path) -> tuple[Words, ...]:
    """Make a thing in ``folder``, or say by which commands it is made."""
    made = _GIVEN[what]
    if callable(made):
        made(folder)
        return ()
    return made
