import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from genan.cli import VERBS

HEAVY = ("jax", "mujoco", "h5py", "matplotlib", "scipy")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Help must answer in under a second, so it must not pay for JAX, MuJoCo and their like."""
    script = (
        "import sys\nfrom genan.cli import main\n"
        f"try:\n    code = main({arguments!r})\nexcept SystemExit as stop:\n    code = stop.code\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('LOADED', loaded, code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "LOADED [] 0" in done.stdout
    assert len(done.stdout.splitlines()) >= 2 or arguments == ["--version"]


def test_every_verb_has_its_module_and_flags(genan: Callable) -> None:
    usage = genan("--help")
    assert usage.code == 0
    for verb, line in VERBS.items():
        assert line in usage.out
        flags = genan(verb, "--help")
        assert flags.code == 0 and f"genan {verb}" in flags.out


def test_unknown_verb_suggests_the_near_one(refused: Callable) -> None:
    assert "There is no verb 'colect'; did you mean 'collect'?" in refused("colect")
    assert "'genan --help' lists the verbs" in refused("dance")


def test_unknown_flag_is_refused_by_name(genan: Callable, tmp_path: Path) -> None:
    answer = genan(
        "collect", "--robot", "virtual-pamy2", "--out", tmp_path / "a.h5", "--trajectorys", 3
    )
    assert answer.code == 2
    assert (
        "--trajectorys" in answer.err
        and "--trajectories" in answer.err
        and "Traceback" not in answer.err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "genan", "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("genan ")


def test_robots_lists_and_shows(genan: Callable) -> None:
    listing = genan("robots")
    assert listing.code == 0 and "pamy2-cup" in listing.out
    shown = genan("robots", "carriage")
    assert shown.code == 0 and "slide" in shown.out and "3 controls" in shown.out


@pytest.mark.parametrize(
    ("toml", "xml", "words"),
    [
        (
            '[[joints]]\nname = "elbow"\n',
            '<joint name="q"/>',
            "joint 'elbow' is not in the model; it has 'q'",
        ),
        (
            '[[joints]]\nname = "q"\n',
            '<joint name="q"/><joint name="r" axis="1 0 0"/>',
            "also moves joint 'r'",
        ),
        (
            '[[joints]]\nname = "q"\n',
            '<joint name="q" axiss="1 0 0"/>',
            "does not compile in MuJoCo",
        ),
        ('[[joints]]\nname = "q"\n', '<freejoint name="q"/>', "is a free joint"),
    ],
)
def test_bad_robots_are_refused(
    refused: Callable, tmp_path: Path, toml: str, xml: str, words: str
) -> None:
    (tmp_path / "robot.toml").write_text(
        f'name = "r"\nmodel = "m.xml"\ndt = 0.01\n{toml}[[controls]]\nname = "u"\nrange = [0, 1]\n'
    )
    (tmp_path / "m.xml").write_text(
        f'<mujoco><worldbody><body>{xml}<geom size="0.1"/></body></worldbody></mujoco>'
    )
    assert words in refused("robots", tmp_path)
