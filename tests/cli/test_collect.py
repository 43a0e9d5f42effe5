import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genan.data import load, read_truth_for_evaluation_only, summary

pytestmark = pytest.mark.slow

#: Short trajectories keep the tests quick; everything else is as users have it.
QUICK = ("--robot", "virtual-pamy2", "--duration", "0.2", "--ramp", "0.2", "--settle", "0.1")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


#: ``genan collect`` with Ctrl-C as in a terminal, wherever the tests run.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from genan.cli import main; raise SystemExit(main())"
)


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMMAND, "collect", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_same_seed_same_bytes_two_seeds_differ(genan: Callable, tmp_path: Path) -> None:
    names = {
        "a": ("--seed", 1),
        "b": ("--seed", 1),
        "c": ("--seed", 2),
        "d": ("--seed", 1, "--robot-seed", 1),
    }
    for name, flags in names.items():
        answer = genan(
            "collect", "--out", tmp_path / f"{name}.h5", "--trajectories", 5, *QUICK, *flags
        )
        assert answer.code == 0, answer.err
        assert "5 trajectories" in answer.err
    digests = {name: digest(tmp_path / f"{name}.h5") for name in names}
    assert digests["a"] == digests["b"]
    assert len(set(digests.values())) == 3
    recorded = load(tmp_path / "a.h5")
    assert (
        recorded.fingerprint
        == load(tmp_path / "b.h5").fingerprint
        != load(tmp_path / "c.h5").fingerprint
    )
    assert (len(recorded), recorded.dt, recorded.q.shape, recorded.u.shape) == (
        5,
        0.002,
        (500, 4),
        (500, 4),
    )
    assert (
        recorded.provenance["robot"] == "virtual-pamy2" and recorded.provenance["signal_seed"] == 1
    )
    assert recorded.provenance["versions"]["genan"]


def test_the_arm_with_the_cup_moves_differently(genan: Callable, tmp_path: Path) -> None:
    for name in ("virtual-pamy2", "virtual-pamy2-cup"):
        flags = ("--robot", name, "--shortest-interval", 0.1)
        assert (
            genan(
                "collect", "--out", tmp_path / f"{name}.h5", "--trajectories", 2, *QUICK, *flags
            ).code
            == 0
        )
    racket, cup = (load(tmp_path / f"{name}.h5") for name in ("virtual-pamy2", "virtual-pamy2-cup"))
    np.testing.assert_array_equal(racket.u, cup.u)
    assert np.abs(racket.q - cup.q).max() > np.radians(2.0)
    assert cup.provenance["shortest"] == 0.1


def test_truth_is_recorded_behind_its_door_only(genan: Callable, tmp_path: Path) -> None:
    out = tmp_path / "t.h5"
    assert (
        genan(
            "collect", "--out", out, "--trajectories", 2, *QUICK, "--truth-for-evaluation-only"
        ).code
        == 0
    )
    truth = read_truth_for_evaluation_only(out)
    assert truth["tau"].shape == (200, 4) and truth["pressure"].shape == (200, 8)
    assert np.abs(truth["q"] - load(out).q).max() < np.radians(0.5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--trajectories", 0), "The setting trajectories must be at least 1, not 0."),
        (
            ("--robot", "pamy3"),
            "no 'pamy3' to record on; there are: 'virtual-cable-arm', 'virtual-hydraulic-arm',",
        ),
        (("--shortest-interval", 0), "shortest_interval must be a positive number, not 0."),
        (
            ("--shortest-interval", 0.6),
            "--shortest-interval must not be above --interval (0.5 s), got 0.6.",
        ),
        (
            ("--lower", -2, -1, -1, -1),
            "range of control 'u1' must lie within -1 to 1 with low < high, got -2 to 0.42",
        ),
        (("--upper", 0.5, 0.5), "--upper needs 4 values, one per control, got 2."),
        (("--duration", 0.001), "at least 3 samples"),
        (("--ramp", -1), "The setting ramp must be 0 or more, not -1."),
        (("--hours", -1), "must not be negative"),
        (("--seed", -1), "The setting seed must be 0 or more, not -1."),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(
    refused: Callable, tmp_path: Path, flags: tuple, words: str
) -> None:
    assert words in refused(
        "collect", "--robot", "virtual-pamy2", "--out", tmp_path / "a.h5", *flags
    )
    assert not (tmp_path / "a.h5").exists()


def test_an_existing_output_is_left_alone(refused: Callable, tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    file.write_text("precious")
    assert "exists" in refused("collect", "--out", file, "--trajectories", 1, *QUICK)
    assert file.read_text() == "precious"
    assert str(tmp_path) in refused("collect", "--out", tmp_path, "--trajectories", 1, *QUICK)


def test_killed_and_interrupted_it_loses_nothing_and_goes_on_to_the_same_bytes(
    genan: Callable, refused: Callable, tmp_path: Path
) -> None:
    total = 384  # six groups: more than are recorded between three looks
    flags = ("--trajectories", total, *QUICK)
    whole = tmp_path / "whole.h5"
    assert genan("collect", "--out", whole, *flags).code == 0
    reference = load(whole)
    out, partial, draw = tmp_path / "killed.h5", tmp_path / "killed.h5.partial", random.Random(0)

    def kept() -> int:
        """How many trajectories are kept, all of them as they should be."""
        killed = load(partial)
        np.testing.assert_array_equal(killed.q, reference.q[: len(killed.q)])
        np.testing.assert_array_equal(killed.u, reference.u[: len(killed.u)])
        return len(killed)

    process = start("--out", out, *flags)  # killed while recording
    _wait_for(out, trajectories=draw.randint(1, 60), process=process)
    process.kill()
    process.communicate()
    assert not out.exists() and 0 < kept() < total

    # Other settings do not go on from it.
    before = kept()
    assert "signal_seed" in refused("collect", "--out", out, *flags, "--seed", 2)
    assert kept() == before

    process = start("--out", out, *flags)  # killed while starting, resuming or compiling
    _wait_for(out, trajectories=before + 1, process=process, seconds=draw.uniform(0.2, 2.0))
    process.kill()
    process.communicate()
    assert not out.exists() and before <= kept() < total

    process = start("--out", out, *flags)  # Ctrl-C
    _wait_for(out, trajectories=kept() + 1, process=process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert f"{kept()} of {total} trajectories are safe in {partial}" in err.replace("\n", " ")

    assert genan("collect", "--out", out, *flags).code == 0
    assert digest(out) == digest(whole)
    assert not partial.exists()


def test_a_full_disk_is_one_sentence_and_loses_nothing(refused: Callable, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    try:
        sentence = refused("collect", "--out", disk / "a.h5", "--trajectories", 400, *QUICK)
        assert "disk is full" in sentence or (
            "No space left" in sentence and "run the same command again" in sentence
        )
        safe = int(re.search(r"(\d+) trajectories safe", sentence)[1])  # type: ignore[index]
        assert len(summary(disk / "a.h5.partial")) == safe > 0
    finally:
        subprocess.run(["umount", disk], check=True)


def _wait_for(
    out: Path, *, trajectories: int, process: subprocess.Popen[str], seconds: float = 120.0
) -> None:
    """Until the partial recording holds that many trajectories, the process has ended, or the
    seconds are over."""
    partial = out.with_name(out.name + ".partial")
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and process.poll() is None:
        if partial.exists():
            try:
                if len(summary(partial)) >= trajectories:
                    return
            except Exception:  # it is being created
                pass
        time.sleep(0.01)


assert os.environ["GENAN_CACHE_DIR"]  # the commands started here compile into the tests' cache
