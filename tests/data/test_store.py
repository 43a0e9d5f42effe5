import json
import time

import h5py
import numpy as np
import pytest

from genan.data import Recorder, load, read_truth_for_evaluation_only, summary, write
from genan.errors import DataError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.h5"


@pytest.fixture
def stored(make, path):
    """A file of five trajectories."""
    trajectories = make(5)
    write(path, trajectories, truth={"tau": 2 * trajectories.q})
    return trajectories


def test_what_goes_in_comes_out(stored, path):
    back = load(path)
    assert back.fingerprint == stored.fingerprint
    assert back.channels.settings() == stored.channels.settings()
    assert back.provenance == stored.provenance == {"robot": "test", "seed": 0}


def test_some_trajectories_in_any_order(stored, path):
    for chosen in ([0], [4], [1, 2], [0, 1, 3, 4], [3, 0, 3], np.array([4, 2])):
        assert load(path, chosen).fingerprint == stored.select(chosen).fingerprint
        np.testing.assert_array_equal(
            read_truth_for_evaluation_only(path, chosen)["tau"], 2 * stored.select(chosen).q
        )


def test_the_summary_reads_no_samples(stored, path):
    with h5py.File(path, "r+") as file:
        _damage(path, file["q"])
    head = summary(path)
    assert len(head) == 5 and head.samples == len(stored.q)
    assert head.truth == {"tau": 2} and not head.unfinished


@pytest.mark.slow
def test_same_content_same_bytes_whenever_written(make, tmp_path):
    paths = [tmp_path / "one.h5", tmp_path / "two.h5"]
    for path in paths:
        write(path, make(3))
        time.sleep(1.1)  # HDF5 keeps times in seconds where it keeps them
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_truth_has_its_own_door(make, path):
    write(path, make(2))
    with pytest.raises(DataError, match="holds no truth for evaluation"):
        read_truth_for_evaluation_only(path)
    with pytest.raises(DataError, match=r"truth 'tau' must be \[\d+, columns\], not \[3\]"):
        write(path.with_name("other.h5"), make(2), truth={"tau": np.zeros(3)})


def test_nothing_is_overwritten(stored, make, path):
    before = path.read_bytes()
    for attempt in (
        lambda: write(path, make(1)),
        lambda: Recorder.create(path, stored.channels, provenance={}),
    ):
        with pytest.raises(DataError, match="exists already; choose another file name"):
            attempt()
    assert path.read_bytes() == before and sorted(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_made(stored, make, path):
    with pytest.raises(
        DataError, match=r"The folder .*data.h5/deeper cannot be made: Not a directory"
    ):
        write(path / "deeper" / "data.h5", make(1))


def test_a_file_written_with_plain_h5py(make, path):
    trajectories = make(3)
    with h5py.File(path, "w") as file:
        file.attrs.update(
            format="genan-trajectories", version=1, dt=0.002, provenance=json.dumps({"log": "mine"})
        )
        file.attrs.update(joints=["shoulder", "elbow"], joint_units=["rad", "rad"])
        file.attrs.update(controls=["a", "b", "c"], control_units=["1", "1", "bar"])
        file.attrs["control_range"] = trajectories.control_range
        file["q"], file["u"], file["length"] = trajectories.q, trajectories.u, trajectories.lengths
        file["time"] = 7.0 + 0.002 * np.concatenate(
            [np.arange(length) for length in trajectories.lengths]
        )
    assert load(path).fingerprint == trajectories.fingerprint
    assert load(path, [1]).provenance == {"log": "mine"}


def _damage(path, dataset):
    """Flip one byte in the middle of a dataset's first chunk."""
    chunk = dataset.id.get_chunk_info(0)
    with path.open("r+b") as file:
        file.seek(chunk.byte_offset + chunk.size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x55]))


# ----------------------------------------------------------------------------------------------
# refusals


def test_a_missing_file(path):
    with pytest.raises(DataError, match=r"There is no file .*data.h5\.$"):
        load(path)
    with pytest.raises(DataError, match="is a folder; give the recording's file"):
        load(path.parent)


def test_a_missing_file_with_a_partial_one(path, make):
    trajectories = make(2)
    with Recorder.create(path, trajectories.channels, provenance={}) as recorder:
        recorder.append(trajectories[0].q, trajectories[0].u)
    with pytest.raises(
        DataError,
        match=r"no file .*data.h5, but .*data.h5.partial holds 1 trajectory of .* to go on",
    ):
        load(path)


def test_a_foreign_file(path):
    path.write_text("t,q1,q2\n0,1,2\n")
    with pytest.raises(DataError, match="is not an HDF5 file"):
        load(path)
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros(3)
    with pytest.raises(
        DataError, match=r"not a recording of genan: .*'format' .* is None; it holds 'images'"
    ):
        load(path)


def test_a_truncated_file(stored, path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        DataError, match=rf"is cut short: its end is missing \({len(whole) // 2} bytes are left\)"
    ):
        load(path)
    path.write_bytes(whole[:100])
    with pytest.raises(DataError, match=r"is cut short|cannot be read|not an HDF5 file"):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is not an HDF5 file"):
        load(path)


def test_a_damaged_file(stored, path):
    with h5py.File(path, "r") as file:
        _damage(path, file["u"])
    with pytest.raises(
        DataError, match=r"data.h5 is damaged: a checksum does not fit the samples; copy it again"
    ):
        load(path)


def test_a_damaged_head_is_refused_whatever_is_hit(stored, path):
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(0, 2000, 3):
            damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            load(path)
        except DataError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.attrs.modify("version", 2), "has format version 2; this genan reads up to 1"),
        (lambda f: f.attrs.modify("dt", -1.0), "data.h5: The period dt"),
        (lambda f: f.attrs.modify("provenance", "[1]"), "provenance must be a JSON table"),
        (lambda f: f.attrs.modify("provenance", "{"), "describes itself wrongly"),
        (lambda f: f.attrs.__delitem__("joints"), "lacks the attribute 'joints'"),
        (lambda f: f.attrs.create("joints", ["shoulder"]), "1 joints and 2 joint units"),
        (lambda f: f.__delitem__("u"), "lacks the dataset 'u'; it holds 'length', 'q'"),
        (
            lambda f: _replace(f, "u", f["u"][:, :2]),
            r"'u' should be \[\d+, 3\], .* and is \[\d+, 2\]",
        ),
        (lambda f: _replace(f, "q", f["q"][:-1]), r"'q' should be \[\d+, 2\]"),
        (lambda f: _replace(f, "q", f["q"][:, 0]), "'q' should be numbers with 2 dimensions"),
        (lambda f: _replace(f, "q", np.array([["x"]], dtype="S1")), "'q' should be numbers"),
        (lambda f: _replace(f, "length", f["length"][:-1]), "should be"),
        (lambda f: _replace(f, "length", np.zeros(0, int)), "should be"),
        (
            lambda f: _replace(f, "q", _nan(f["q"][:])),
            r"data.h5: Joint 'elbow' is nan in trajectory 0 at sample 3",
        ),
        (
            lambda f: _replace(f, "time", np.zeros(3)),
            r"'time' should be \[\d+\] seconds and is \[3\]",
        ),
    ],
)
def test_files_that_contradict_themselves(stored, path, change, message):
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(DataError, match=message):
        load(path)


def _replace(file, name, values):
    if name in file:
        del file[name]
    file[name] = values


def _nan(q):
    q[3, 1] = np.nan
    return q


def test_zero_trajectories(path, make):
    channels = make(1).channels
    with (
        Recorder.create(path, channels, provenance={}) as recorder,
        pytest.raises(DataError, match="Zero trajectories"),
    ):
        recorder.finish()
    with pytest.raises(
        DataError, match=r"data.h5.partial: It holds zero trajectories; record some first"
    ):
        load(path.with_name("data.h5.partial"))


def test_a_fault_is_named_by_its_number_in_the_file(stored, path):
    with h5py.File(path, "r+") as file:
        file["q"][stored.offsets[3] + 2, 0] = np.inf
    load(path, [0, 1, 2, 4])
    with pytest.raises(DataError, match="Joint 'shoulder' is inf in trajectory 3 at sample 2"):
        load(path, [1, 3])
    with pytest.raises(
        DataError, match=r"data.h5: There is no trajectory 5; the recording has 0 to 4"
    ):
        load(path, [5])


def test_two_rates_in_one_file(stored, path):
    time_stamps = np.concatenate([0.002 * np.arange(length) for length in stored.lengths])
    start, stop = stored.offsets[3], stored.offsets[4]

    def with_time(stamps):
        with h5py.File(path, "r+") as file:
            _replace(file, "time", stamps)

    with_time(time_stamps + 1e-6 * np.random.default_rng(0).uniform(-5, 5, len(time_stamps)))
    load(path)
    slow = time_stamps.copy()
    slow[start:stop] *= 5
    with_time(slow)
    load(path, [0, 1, 2, 4])
    with pytest.raises(
        DataError, match=r"two rates in one file: trajectory 3 .* sampled at 100 Hz .* says 500 Hz"
    ):
        load(path)
    with pytest.raises(DataError, match=r"trajectory 3 "):
        load(path, [4, 3])
    gap = time_stamps.copy()
    gap[start + 7 : stop] += 0.004
    with_time(gap)
    with pytest.raises(
        DataError, match=r"In trajectory 3 .* is a gap: 6 ms pass between the samples 6 and 7"
    ):
        load(path)
