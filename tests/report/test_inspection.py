import sys
from pathlib import Path

import numpy as np
import pytest

from genan.data import Channels, Trajectories, inspect
from genan.errors import DataError
from genan.report.inspection import save_figures


def recording(
    nq: int, nu: int, *, count: int = 3, length: int = 50, quantum: float = 0.0
) -> Trajectories:
    rng = np.random.default_rng(0)
    channels = Channels(
        dt=0.01,
        joints=tuple(f"q{i}" for i in range(nq)),
        controls=tuple(f"u{i}" for i in range(nu)),
        control_range=np.array([[-1.0] * nu, [1.0] * nu]),
        joint_units=tuple("m" if i == 1 else "rad" for i in range(nq)),
        control_units=("bar",) * nu,
    )
    q = np.cumsum(rng.standard_normal((count * length, nq)), axis=0) * 0.01
    q = quantum * np.round(q / quantum) if quantum else q
    return Trajectories(
        channels, q, rng.uniform(-1, 1, (count * length, nu)), np.full(count, length)
    )


def picture_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nq", "nu", "quantum"), [(1, 1, 0.0), (2, 3, 0.005), (4, 8, 0.0), (12, 12, 0.0)]
)
def test_pictures_of_any_size(tmp_path, nq, nu, quantum):
    trajectories = recording(nq, nu, quantum=quantum)
    paths = save_figures(inspect(trajectories), tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["trajectories.png", "coverage.png", "signals.png"]
    for path in paths:
        width, height = picture_size(path)
        assert 400 < width < 3000 and 200 < height < 4000


def test_a_recording_that_hardly_moves(tmp_path):
    trajectories = recording(2, 2, count=1, length=3)
    still = Trajectories(
        trajectories.channels, 0 * trajectories.q, 0 * trajectories.u, trajectories.lengths
    )
    for path in save_figures(inspect(still), tmp_path):
        assert min(picture_size(path)) > 300


def test_pictures_are_made_again(tmp_path):
    trajectories = recording(1, 1)
    first, *_ = save_figures(inspect(trajectories), tmp_path)
    first.write_bytes(b"old")
    save_figures(inspect(trajectories), tmp_path)
    assert min(picture_size(first)) > 200


def test_a_file_where_the_folder_should_be(tmp_path):
    trajectories = recording(1, 1)
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(
        DataError, match=r"could not be written into .*taken: .*; give another --out"
    ):
        save_figures(inspect(trajectories), tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.slow
def test_matplotlib_is_imported_late():
    import subprocess

    code = (
        "import sys, genan.report.inspection, genan.cli.inspect; "
        "print([m for m in ('matplotlib', 'mujoco', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
