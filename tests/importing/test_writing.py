import h5py
import numpy as np
import pytest

from genan.data import load
from genan.importing.writing import TrajectoryWriter
from genan.errors import DataError


def test_what_is_appended_is_in_the_file(make, tmp_path):
    trajectories = make(5)
    writer = TrajectoryWriter(tmp_path / "deep" / "a.h5", trajectories.channels, overwrite=False)
    for one in trajectories:
        writer.append(one.q, one.u, "run")
    writer.finish({"robot": "test"})
    assert not writer.path.exists()  # only now:
    writer.publish()
    found = load(writer.path)
    assert found.fingerprint == trajectories.fingerprint and found.recordings == ("run",) * 5
    assert [path.name for path in writer.path.parent.iterdir()] == ["a.h5"]
    with h5py.File(writer.path) as file:
        assert file["q"].fletcher32 and file["q"].compression is None


def test_a_flipped_bit_is_noticed(make, tmp_path):
    trajectories = make(2)
    writer = TrajectoryWriter(tmp_path / "a.h5", trajectories.channels, overwrite=False)
    for one in trajectories:
        writer.append(one.q, one.u, "run")
    writer.finish({})
    writer.publish()
    content = bytearray(writer.path.read_bytes())
    content[content.index(trajectories.q[3].tobytes())] ^= 1
    writer.path.write_bytes(content)
    with pytest.raises(DataError, match="a checksum does not fit"):
        load(writer.path)


def test_a_full_disk_leaves_nothing(make, tmp_path, monkeypatch):
    trajectories = make(1)
    writer = TrajectoryWriter(tmp_path / "a.h5", trajectories.channels, overwrite=False)
    with pytest.raises(DataError, match="Another process is recording into"):
        TrajectoryWriter(tmp_path / "a.h5", trajectories.channels, overwrite=False)

    def full(*_):
        raise OSError(28, "No space left on device")

    writer.append(trajectories.q, trajectories.u, "run")
    monkeypatch.setattr(h5py.Dataset, "__setitem__", full)
    with pytest.raises(
        DataError, match="could not be written: the disk is full; nothing was left behind"
    ):
        writer.finish({})
    assert not list(tmp_path.iterdir())


def test_an_import_given_up_leaves_nothing(make, tmp_path):
    writer = TrajectoryWriter(tmp_path / "a.h5", make(1).channels, overwrite=False)
    writer.append(np.zeros((3, 2)), np.zeros((3, 3)), "run")
    writer.discard()
    writer.discard()
    assert not list(tmp_path.iterdir())
