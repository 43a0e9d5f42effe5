import h5py
import numpy as np
import pytest

from genan.data import load
from genan.data.hdf5 import Lock
from genan.errors import DataError
from genan.importing import import_logs
from genan.robot import Robot

RNG = np.random.default_rng(0)
ROWS = (20, 31, 1500)
Q, U = RNG.uniform(-1, 1, (sum(ROWS), 2)), RNG.uniform(-1, 1, (sum(ROWS), 2))


def write(path):
    robot, log = Robot.load("two-link"), path.parent.parent / "log.npz"
    path.parent.mkdir(exist_ok=True)
    ends = np.cumsum(ROWS)
    np.savez(log, q=Q, u=U, dt=robot.dt, traj_start=ends - ROWS, traj_end=ends)
    # only at the end is there a file:
    import_logs([log], robot, path, progress=lambda done, size: path.exists() and pytest.fail())
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "a.h5"


def test_what_is_appended_is_in_the_file(path):
    found = load(write(path))
    assert found.recordings == ("0", "1", "2") and found.lengths.tolist() == list(ROWS)
    assert np.array_equal(found.q, Q) and np.array_equal(found.u, U)
    assert [file.name for file in path.parent.iterdir()] == ["a.h5"]
    with h5py.File(path) as file:
        assert file["q"].fletcher32 and file["q"].compression is None


def test_a_flipped_bit_is_noticed(path):
    content = bytearray(write(path).read_bytes())
    content[content.index(Q[3].tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="a checksum does not fit"):
        load(path)


def test_a_full_disk_leaves_nothing(path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.Dataset, "__setitem__", full)
    with pytest.raises(
        DataError, match="could not be written: the disk is full; nothing was left behind"
    ):
        write(path)
    assert not list(path.parent.iterdir())


def test_two_writers_of_one_file(path):
    path.parent.mkdir()
    lock = Lock(path)
    with pytest.raises(DataError, match="Another process is recording into"):
        write(path)
    lock.close()
    assert not list(path.parent.iterdir())
