"""What ``genan inspect`` says of a sound, a suspicious and an unfinished recording."""

import json

import numpy as np
import pytest

from genan.cli.inspect import Inspect
from genan.data import Channels, Recorder, Trajectories, write
from genan.errors import DataError
from genan.robot import Robot


@pytest.fixture
def recording() -> Trajectories:
    """Exploration of the bundled two-link arm, made up."""
    robot = Robot.load("two-link")
    rng = np.random.default_rng(0)
    t = robot.dt * np.arange(400)[:, None]
    lower, upper = robot.q_range
    recordings = []
    for _ in range(4):
        wave = [
            np.sin(rng.uniform(5, 15, n) * t + rng.uniform(0, 6, n)) for n in (robot.nq, robot.nu)
        ]
        q = (
            (lower + upper) / 2
            + 0.4 * (upper - lower) * wave[0]
            + 1e-5 * rng.standard_normal((400, robot.nq))
        )
        recordings.append(
            (q, robot.u_range.mean(axis=0) + 0.4 * np.ptp(robot.u_range, axis=0) * wave[1])
        )
    provenance = {"robot": "two-link", "seed": 0, "versions": {"genan": "0.1.0"}}
    return Trajectories.from_list(Channels.of_robot(robot), recordings, provenance=provenance)


def test_what_it_prints(recording, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "data.h5"
    write(path, recording, truth={"tau": recording.q})
    Inspect(file=path, robot="two-link").run()
    text = capsys.readouterr().out
    rate = f"{1 / recording.dt:.6g} Hz"
    for part in (
        "4 of",
        "1600 samples",
        rate,
        recording.fingerprint,
        "two-link",
        "genan 0.1.0",
        "true tau stored, for evaluation only",
        *recording.joints,
        *recording.controls,
        "limits",
        "Nothing suspicious.",
        "data-inspect/trajectories.png",
        "data-inspect/coverage.png",
    ):
        assert part in text
    names = sorted(p.name for p in (tmp_path / "data-inspect").iterdir())
    pictures = ["coverage.png", "signals.png", "trajectories.png"]
    assert names == sorted([*pictures, "inspection.html", "inspection.json"])
    found = json.loads((tmp_path / "data-inspect" / "inspection.json").read_text())
    assert (
        found["verdict"] == "Nothing suspicious."
        and found["trajectories"] == 4
        and found["file"] == "data.h5"
    )
    assert [joint["name"] for joint in found["joints"]] == list(recording.joints)


def test_what_is_suspicious_is_printed(recording, tmp_path, capsys):
    path = tmp_path / "data.h5"
    write(path, Trajectories(recording.channels, 0 * recording.q, recording.u, recording.lengths))
    Inspect(file=path, out=tmp_path / "pictures").run()
    text = " ".join(capsys.readouterr().out.split())
    assert "Suspicious" in text and f"Joint '{recording.joints[0]}' never moves" in text
    assert (tmp_path / "pictures" / "coverage.png").exists()


def test_an_unfinished_recording(recording, tmp_path, capsys):
    path = tmp_path / "data.h5"
    with Recorder.create(path, recording.channels, provenance={}) as recorder:
        recorder.append(recording[0].q, recording[0].u)
    Inspect(file=tmp_path / "data.h5.partial", out=tmp_path / "pictures").run()
    assert "unfinished: read up to its last whole" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(
        DataError, match=r"data.h5.partial holds 1 trajectory of an unfinished recording"
    ):
        Inspect(file=path).run()
