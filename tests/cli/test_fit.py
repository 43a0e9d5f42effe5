"""``genan fit`` as a user meets it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.actuator.setting import driven, waves
from tests.docs.typed import typed

from genan import files
from genan.actuator import FitObserver
from genan.actuator import ensemble as artifact
from genan.actuator.fit import fit
from genan.actuator.fitting import FitInterruptedError
from genan.data import Trajectories, write
from genan.robot import Robot

FEW = ("--hidden", 8, "--members", 2, "--epochs", 2, "--batch-size", 64)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.h5"
    write(path, waves(Robot.load("two-link"), lengths=(90, 80, 100, 70, 85, 95)))
    return path


def test_fits_and_says_what_comes_next(genan: Callable, data: Path, tmp_path: Path) -> None:
    answer = genan("fit", "--data", data, "--robot", "two-link", "--out", tmp_path / "run", *FEW)
    assert answer.code == 0, answer.err
    for words in (
        "6 trajectories",
        "samples to learn from",
        "epoch 2/2",
        "validation",
        "Next: genan evaluate",
    ):
        assert words in answer.err
    assert artifact.load(tmp_path / "run").members == 2
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.slow
@pytest.mark.parametrize(("length", "stride"), [(1, 1), (20, 1), (3, 5)])
def test_the_shortest_longest_and_widest_history_of_the_paper_train(
    genan: Callable, data: Path, tmp_path: Path, length: int, stride: int
) -> None:
    flags = ("--history-length", length, "--history-stride", stride)
    answer = genan(
        "fit", "--data", data, "--robot", "two-link", "--out", tmp_path / "run", *FEW, *flags
    )
    assert answer.code == 0, answer.err
    assert artifact.load(tmp_path / "run").contract.history.span == length * stride


@pytest.mark.slow
def test_plain_history_noise_and_other_losses_train(
    genan: Callable, data: Path, tmp_path: Path
) -> None:
    for k, flags in enumerate(
        (
            ("--no-delta", "--loss", "torque"),
            ("--history-noise", 1e-4, "--loss", "multi-step", "--rollout", 3),
        )
    ):
        answer = genan(
            "fit", "--data", data, "--robot", "two-link", "--out", tmp_path / f"{k}", *FEW, *flags
        )
        assert answer.code == 0, answer.err


@pytest.mark.slow
def test_going_on_shows_errors_before_and_after(
    genan: Callable, data: Path, tmp_path: Path
) -> None:
    genan("fit", "--data", data, "--robot", "two-link", "--out", tmp_path / "old", *FEW)
    write(
        tmp_path / "new.h5",
        waves(Robot.load("two-link"), lengths=(90, 80, 100, 70, 85, 95), seed=4),
    )
    flags = ("--robot", "two-link", "--epochs", 2, "--batch-size", 64)
    answer = genan(
        *typed(
            "genan fit --data new.h5 --robot pamy2 --from runs/pamy2 --out runs/pamy2-may",
            *flags[2:],
            data=tmp_path / "new.h5",
            robot="two-link",
            out=tmp_path / "new",
            **{"from": tmp_path / "old"},
        )
    )
    assert answer.code == 0, answer.err
    assert "before" in answer.out and "new data" in answer.out and "old data" in answer.out
    data.unlink()
    answer = genan(
        "fit",
        "--data",
        tmp_path / "new.h5",
        "--from",
        tmp_path / "old",
        "--out",
        tmp_path / "n2",
        *flags,
    )
    assert answer.code == 0 and "No table for the old data" in answer.out


def test_refusals_are_one_sentence(refused: Callable, data: Path, tmp_path: Path) -> None:
    base = ("fit", "--data", data, "--robot", "two-link", "--out", tmp_path / "run", *FEW)
    assert "no loss 'foo'" in refused(*base, "--loss", "foo")
    assert "the longest has 100" in refused(*base, "--history-length", 200)
    assert "the same folder" in refused(*base, "--from", tmp_path / "run")
    assert "no such folder" in refused(*base, "--from", tmp_path / "nothing")
    assert "lacks the joint" in refused(
        "fit", "--data", data, "--robot", "pamy2", "--out", tmp_path / "run"
    )
    assert "nowhere.h5" in refused(
        "fit", "--data", tmp_path / "nowhere.h5", "--robot", "two-link", "--out", tmp_path / "r"
    )
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(
        "fit", "--data", data, "--robot", "two-link", "--out", tmp_path / "file"
    )
    assert not (tmp_path / "run").exists()


def test_actuators_of_another_robot_are_not_gone_on_from(
    genan: Callable, refused: Callable, data: Path, tmp_path: Path
) -> None:
    genan("fit", "--data", data, "--robot", "two-link", "--out", tmp_path / "old", *FEW)
    robot = Robot.load("pendulum")
    write(tmp_path / "p.h5", waves(robot))
    words = refused(
        "fit",
        "--data",
        tmp_path / "p.h5",
        "--robot",
        "pendulum",
        "--from",
        tmp_path / "old",
        "--out",
        tmp_path / "n",
    )
    assert "The actuators were fitted for the joints" in words


@pytest.mark.slow
def test_one_trajectory(refused: Callable, tmp_path: Path) -> None:
    whole = waves(Robot.load("two-link"))
    write(tmp_path / "one.h5", Trajectories.from_list(whole.channels, [(whole[0].q, whole[0].u)]))
    words = refused(
        "fit", "--data", tmp_path / "one.h5", "--robot", "two-link", "--out", tmp_path / "run", *FEW
    )
    assert "validation needs another" in words
    words = refused(
        "fit", "--data", tmp_path / "one.h5", "--robot", "two-link", "--out", tmp_path / "run"
    )
    assert "too few to be cross-validated" in words


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_goes_on(
    genan: Callable, data: Path, tmp_path: Path
) -> None:
    flags = ["--hidden", "8", "--members", "2", "--epochs", "250", "--batch-size", "64"]
    command = [
        "fit",
        "--data",
        str(data),
        "--robot",
        "two-link",
        "--out",
        str(tmp_path / "run"),
        *flags,
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "genan", *command], stderr=subprocess.PIPE, text=True
    ) as process:
        events = tmp_path / "run" / "tensorboard"
        while process.poll() is None and not (
            events.exists() and any(f.stat().st_size > 2000 for f in events.iterdir())
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate()
    assert process.returncode == 130 and "the same command continues from there" in words, words
    answer = genan(*command)
    assert answer.code == 0 and "continuing after" in answer.err
    genan(*[str(tmp_path / "whole") if part == str(tmp_path / "run") else part for part in command])
    one, other = (artifact.tensors(artifact.load(tmp_path / name)) for name in ("run", "whole"))
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_data_that_cannot_say_anything_are_refused_unless_told_to_go_on(
    genan: Callable, refused: Callable, tmp_path: Path
) -> None:
    write(tmp_path / "late.h5", driven(delay=40))
    command = (
        "fit",
        "--data",
        tmp_path / "late.h5",
        "--robot",
        "pendulum",
        "--out",
        tmp_path / "run",
        *FEW,
    )
    words = refused(*command)
    assert "the network never sees the command that acts" in words and "--anyway" in words
    assert any(f"give --delay {delay}." in words for delay in (39, 40, 41)), words
    assert not (tmp_path / "run").exists()
    answer = genan(*command, "--anyway")
    assert answer.code == 0 and "continuing anyway: Commands act" in answer.err
    assert artifact.load(tmp_path / "run").contract.history.delay == 0
    assert genan(*command[:-2], "--delay", 40, "--overwrite").code == 0
    assert artifact.load(tmp_path / "run").contract.history.delay == 40


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of an artifact; TensorBoard's events carry the time of day and are no part of
    it."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert set(found) == {"actuator.json", "model.safetensors", "reference.safetensors"}
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (FEW, {"hidden": (8,), "members": 2, "epochs": 2, "batch_size": 64}),
        (
            ("--choose", "always", "--epochs", 1, "--hidden", 4, "--history-length", 1),
            {"choose": "always", "epochs": 1, "hidden": (4,), "history_length": 1},
        ),
    ],
    ids=["given", "chosen"],
)
def test_command_and_function_write_the_same_bytes(
    genan: Callable, tmp_path: Path, flags: tuple, settings: dict
) -> None:
    data = tmp_path / "data.h5"
    write(data, driven(delay=0))
    answer = genan("fit", "--data", data, "--robot", "pendulum", "--out", tmp_path / "a", *flags)
    assert answer.code == 0, answer.err
    if "choose" in settings:
        assert (
            "Chosen by cross-validation over whole recordings" in answer.err
            and "ridge ARX" in answer.err
        )
        choice = artifact.load(tmp_path / "a").record["choice"]
        assert choice["chosen"] in choice["tried"]
    stops = iter([False] * (5 if "choose" in settings else 1) + [True])
    with pytest.raises(FitInterruptedError):
        fit(
            data,
            "pendulum",
            out=tmp_path / "b",
            observer=FitObserver(stopping=lambda: next(stops, False)),
            **settings,
        )
    assert not (tmp_path / "b" / "actuator.json").exists()
    fit([data], "pendulum", out=tmp_path / "b", **settings)  # continues where it was stopped
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.slow
def test_a_fit_that_dies_before_its_last_file_is_not_finished(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"hidden": (8,), "members": 2, "epochs": 2, "batch_size": 64}
    fit(data, "two-link", out=tmp_path / "whole", **settings)
    real = files.write_atomically

    for name in ("reference.safetensors", "model.safetensors", "actuator.json"):

        def die(path: Path, content: bytes, name: str = name) -> None:
            if path.name == name:
                raise OSError("no space left")
            real(path, content)

        with monkeypatch.context() as patch:
            patch.setattr("genan.files.write_atomically", die)
            patch.setattr("genan.actuator.reference.write_atomically", die)
            with pytest.raises(OSError, match="no space"):
                fit(data, "two-link", out=tmp_path / "run", **settings)
        assert not (tmp_path / "run" / "actuator.json").exists()
    fit(data, "two-link", out=tmp_path / "run", **settings)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
