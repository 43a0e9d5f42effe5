"""How the pages' commands are run in the tests: made small, left to other tests, or not at all, and why."""

from collections.abc import Callable
from pathlib import Path

from tests.docs.own_robot import prepare_logs, prepare_recordings, prepare_table

#: Flags that are set to these values wherever the verb is run; None: the flag is left out.
SMALLER: dict[str, dict[str, tuple[str, ...] | None]] = {
    "collect": {"--trajectories": ("4",)},  # of 2 s each
    "fit": {"--members": ("1",), "--hidden": ("8",), "--epochs": ("1",)},
    "evaluate": {"--horizon": ("20",), "--true-torque": None},  # which trains another network first
}

#: Verbs that are only parsed here: why, and the test that runs them.
ELSEWHERE: dict[str, tuple[str, str]] = {
    "train": ("compiles for a quarter of a minute for each task", "tests/cli/test_train.py"),
    "play": ("draws films of a simulation that is compiled first", "tests/cli/test_play.py"),
    "transfer": ("runs a robot, in real time with --serve", "tests/cli/test_transfer.py"),
    "deploy": ("runs a robot; some pages name hosts in a laboratory", "tests/cli/test_deploy.py"),
    "serve": ("runs until it is stopped", "tests/cli/test_serve.py"),
    "view": ("runs until it is stopped", "tests/cli/test_view.py"),
    "study": ("the smallest study takes minutes", "tests/cli/test_study.py"),
    "search": ("the smallest search takes minutes", "tests/cli/test_search.py"),
    "identify": ("records a minute of motion, and compiles it", "tests/cli/test_identify.py"),
}

#: Single lines that are only parsed here: why not, and where the like is run.
NOT_RUN: dict[str, str] = {
    "genan evaluate --actuators runs/position --compare runs/torque --data test.h5 --true-torque": (
        "eight seconds for two more flags; tests/cli/test_evaluate.py"
    ),
    "genan evaluate --actuators runs/pamy2 --cross-validate 3": "fits three times; tests/cli/test_evaluate.py",
    "genan evaluate --actuators runs/pamy2 --data new.h5 --out runs/new-log": "runs with test.h5 on the same page",
    "genan fit --data new.h5 --robot pamy2 --from runs/pamy2 --out runs/pamy2-may": "runs in README.md",
    "genan fit --data train.h5 --robot pamy2 --control-noise 0.01 --out runs/actuators": "runs in getting-started.md",
    "genan collect --robot virtual-pamy2-cup --shortest-interval 0.15 --out cup.h5": "a second robot to compile",
    "genan fit --data cup.h5 --robot pamy2-cup --control-noise 0.01 --out runs/actuators-cup": "needs that recording",
}

#: Pages whose Python is not run, but for its imports: why.
IMPORTS_ONLY: dict[str, str] = {
    "actuators.md": "fits five networks; the same calls run in tests/actuator/test_fit.py",
    "add-a-robot.md": "speaks to a robot that the reader has; tests/deployment/test_registry.py",
    "ball-in-a-cup.md": "parts of a program; tests/simulation/test_cup_scene.py",
    "data-format.md": "tests/data/test_documentation.py runs it with logs",
    "deployment.md": "flies a robot; tests/deployment/test_loop.py",
    "index.md": "fits five networks; tests/actuator/test_fit.py",
    "pamy2-protocol.md": "speaks to a robot; tests/deployment/test_udp.py",
    "policies.md": "trains for minutes; tests/rl/test_train.py, tests/rl/test_export_numpy.py",
    "search.md": "searches for minutes; tests/evaluation/studies/test_search.py",
    "table-tennis.md": "needs a recording of balls; tests/tasks/ball/test_recorded_balls.py",
    "transfer.md": "100 trials on three robots; tests/evaluation/test_transfer.py",
    "virtual-pamy2.md": "parts of a program; tests/virtual/test_cup_bench.py",
    "virtual-table-tennis.md": "plays a rally; tests/virtual/test_tennis_bench.py",
}

#: Text of Python blocks that is made small.
REPLACED: dict[str, str] = {}

#: Names that a page's Python takes for granted.
PRELUDES: dict[str, str] = {}

Words = tuple[str, ...]
_COLLECT = ("collect", "--trajectories", "2500", "--truth-for-evaluation-only", "--out", "train.h5")
_TEST = ("collect", "--trajectories", "800", "--seed", "1", "--truth-for-evaluation-only", "--out", "test.h5")
_DESCRIBE = ("new-robot", "arm.xml", "--logs", "bags")
_IMPORT = ("import", "bags", "--robot", "robot.toml", "--out", "mine.h5")
_FIT = ("fit", "--data", "train.h5", "--robot", "pamy2", "--loss", "position", "--out", "runs/pamy2")


def _policy(folder: Path) -> None:
    import shutil

    from genan.rl.library import bundled

    shutil.copytree(bundled("reacher"), folder / "runs" / "reacher")


def _runs(folder: Path) -> None:
    import shutil

    from tests.report.page.material import write_all

    write_all(folder / "runs", studies=("accuracy",))
    (folder / "films").mkdir()
    shutil.copy(folder / "runs" / "reacher.mp4", folder / "films" / "reacher.mp4")


def _new(folder: Path) -> None:
    import shutil

    shutil.copy(folder / "train.h5", folder / "new.h5")


#: What pages take for granted: commands that make it, or a function that does.
_GIVEN: dict[str, tuple[Words, ...] | Callable[[Path], None]] = {
    "train.h5": (_COLLECT,),
    "test.h5": (_TEST,),
    "runs/pamy2": (_FIT,),
    "new.h5": _new,
    "runs/reacher": _policy,
    "runs of all kinds": _runs,
    "the reader's logs": prepare_logs,
    "the reader's recordings": prepare_recordings,
    "the reader's table": prepare_table,
    "mine.h5": (_DESCRIBE, _IMPORT),
}

#: What each page takes for granted, in the order in which it is made.
PREPARED: dict[str, tuple[str, ...]] = {
    "README.md": ("the reader's logs", "the reader's recordings"),
    "data-format.md": ("the reader's table",),
    "inspect.md": ("the reader's logs", "mine.h5"),
    "from-your-logs.md": ("the reader's logs",),
    "robots.md": ("the reader's logs",),
    "add-a-robot.md": ("the reader's logs",),
    "artifact-format.md": ("train.h5", "runs/pamy2"),
    "using-the-network.md": ("train.h5", "runs/pamy2"),
    "actuators.md": ("train.h5", "test.h5", "new.h5"),
    "trust.md": ("train.h5", "test.h5", "new.h5", "runs/pamy2"),
    "export.md": ("train.h5", "runs/pamy2"),
    "policies.md": ("runs/reacher",),
    "report.md": ("runs of all kinds",),
}


def given(what: str, folder: Path) -> tuple[Words, ...]:
    """Make a thing in ``folder``, or say by which commands it is made."""
    made = _GIVEN[what]
    if callable(made):
        made(folder)
        return ()
    return made
