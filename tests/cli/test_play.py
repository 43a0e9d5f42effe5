from pathlib import Path

import pytest
from PIL import Image, ImageSequence
from tests.cli.pictures import Nothing
from tests.docs.typed import typed
from tests.rl.policies import ensemble, policy

from genan.actuator import save as save_actuators


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy and actuators of the two-link arm, and actuators of PAMY2."""
    base = tmp_path_factory.mktemp("play")
    policy().save(base / "policy")
    save_actuators(ensemble(), base / "two-link")
    save_actuators(ensemble("pamy2"), base / "pamy2")
    return base


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No file of one test meets another, wide lines, and flat drawings, which are
    quicker."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MUJOCO_GL", "off")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return tmp_path


def rows(out: str) -> list[list[str]]:
    return [
        line.split() for line in out.splitlines() if line[:1].isdigit() and "succeeded" not in line
    ]


@pytest.mark.slow
def test_a_policy_is_played_as_it_was_trained_and_filmed(
    genan, folder: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = ("--robot", "two-link", "--episodes", 2)
    mine = typed(
        "genan play reacher --policy reacher --actuators actuators",
        *(*on, "--video", "film.gif"),
        policy=folder / "policy",
        actuators=folder / "two-link",
    )
    answer = genan(*mine)
    assert answer.code == 0, answer.err
    assert "OpenGL does not work here" in answer.out and "Wrote film.gif" in answer.out
    header, *_ = answer.out.splitlines()
    assert header.split()[:3] == ["episode", "return", "success"]
    for row in rows(answer.out):
        terms = dict(zip(header.split(), row, strict=True))
        total = sum(float(terms[name]) for name in ("distance", "action", "disagreement", "limit"))
        assert float(terms["return"]) == pytest.approx(total, abs=0.03)
    with Image.open(here / "film.gif") as film:
        durations = [frame.info["duration"] for frame in ImageSequence.Iterator(film)]
    assert sum(durations) == pytest.approx(
        1000 * 2 * (2.0 + 0.6), abs=1.0
    )  # two episodes, whose ends stay a while
    monkeypatch.setattr("genan.viewer.rendering.load_renderer", Nothing)
    same = genan(
        *typed(
            "genan play reacher --policy runs/reacher",
            *(*on, "--actuators", folder / "two-link", "--video", "same.gif"),
            policy=folder / "policy",
        )
    )
    assert same.code == 0 and rows(same.out) == rows(answer.out) and (here / "same.gif").exists()


@pytest.mark.slow
def test_one_that_knows_nothing_plays_in_the_place_of_an_old_film(
    genan, folder: Path, here: Path
) -> None:
    (here / "reacher.mp4").write_text("old")
    (here / "reacher.gif").write_text("old")
    answer = genan(
        "play",
        "reacher",
        "--agent",
        "zero",
        "--actuators",
        folder / "pamy2",
        "--episodes",
        1,
        "--overwrite",
    )
    assert answer.code == 0, answer.err
    header, row = answer.out.splitlines()[0].split(), rows(answer.out)
    assert len(row) == 1 and float(row[0][header.index("action")]) == 0.0
    assert any((here / f"reacher.{kind}").stat().st_size > 1000 for kind in ("mp4", "gif"))


@pytest.mark.slow
def test_the_bundled_policy_returns_a_ball(
    genan, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genan.viewer.rendering.load_renderer", Nothing)
    answer = genan(*typed("genan play table-tennis", "--episodes", 1))
    assert answer.code == 0 and "1 of 1 episode succeeded" in answer.out, answer
    assert any((here / f"table-tennis.{kind}").exists() for kind in ("mp4", "gif"))


def test_what_cannot_be_is_refused(refused, folder: Path, here: Path) -> None:
    actuators = ("--actuators", folder / "pamy2")
    assert "'reacher', 'follow', 'ball-in-a-cup', 'table-tennis'" in refused(
        "play", "reach", *actuators
    )
    assert "At least one episode" in refused("play", "reacher", "--episodes", 0)
    assert "not both" in refused(
        "play", "reacher", "--policy", folder / "policy", "--agent", "zero"
    )
    assert "no screen" in refused("play", "reacher", "--window")
    assert "not both" in refused("play", "reacher", "--window", "--video", "a.mp4")
    assert "'.mp4', '.gif'" in refused("play", "reacher", "--video", "a.avi")
    assert "no folder" in refused("play", "reacher", "--video", "nowhere/a.gif")
    (here / "film.gif").write_text("")
    assert "--overwrite" in refused("play", "reacher", "--video", "film.gif")
    assert "trained for the task 'reacher'" in refused(
        "play", "table-tennis", "--policy", folder / "policy"
    )
    assert "There is no policy" in refused(
        "play", "reacher", "--policy", folder / "two-link", *actuators
    )
