import h5py
import numpy as np
import pytest

from genan.data import Channels, load
from genan.errors import DataError
from genan.importing.output import open_writer

CHANNELS = Channels(
    dt=0.002,
    joints=("shoulder", "elbow"),
    controls=("a", "b", "c"),
    control_range=np.array([[-1.0, -1.0, 0.0], [1.0, 1.0, 5.0]]),
    control_units=("1", "1", "bar"),
)
RNG = np.random.default_rng(0)
RUNS = [(RNG.uniform(-1, 1, (n, 2)), RNG.uniform(0, 1, (n, 3))) for n in (20, 31, 1500)]


def write(path):
    with open_writer(path, CHANNELS, overwrite=False) as writer:
        for q, u in RUNS:
            writer.append(q, u, "run")
        writer.finish({"robot": "test"})
        assert not path.exists()  # only at the end of the block:


def test_what_is_appended_is_in_the_file(tmp_path):
    path = tmp_path / "deep" / "a.h5"
    write(path)
    found = load(path)
    assert found.recordings == ("run",) * 3 and found.provenance == {"robot": "test"}
    for one, (q, u) in zip(found, RUNS, strict=True):
        assert np.array_equal(one.q, q) and np.array_equal(one.u, u)
    assert [file.name for file in path.parent.iterdir()] == ["a.h5"]
    with h5py.File(path) as file:
        assert file["q"].fletcher32 and file["q"].compression is None


def test_a_flipped_bit_is_noticed(tmp_path):
    write(tmp_path / "a.h5")
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[content.index(RUNS[0][0][3].tobytes())] ^= 1
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(DataError, match="a checksum does not fit"):
        load(tmp_path / "a.h5")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.Dataset, "__setitem__", full)
    with pytest.raises(
        DataError, match="could not be written: the disk is full; nothing was left behind"
    ):
        write(tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


def test_two_writers_of_one_file(tmp_path):
    with (
        pytest.raises(DataError, match="Another process is recording into"),
        open_writer(tmp_path / "a.h5", CHANNELS, overwrite=False),
        open_writer(tmp_path / "a.h5", CHANNELS, overwrite=False),
    ):
        pass
    assert not list(tmp_path.iterdir())
