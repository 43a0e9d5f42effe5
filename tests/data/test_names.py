from dataclasses import replace

import h5py
import numpy as np
import pytest

from genan.data import Recorder, Trajectories, load, split, summary, write
from genan.errors import DataError


def named(make, *names):
    """A recording with these names."""
    made = make(len(names))
    return Trajectories(made.channels, made.q, made.u, made.lengths, made.provenance, names)


def test_each_is_its_own_unless_told(make):
    assert make(3).recordings == ("0", "1", "2")
    assert make(3).recording_numbers.tolist() == [0, 1, 2]
    pieces = named(make, "b", "a", "b")
    assert pieces.recording_numbers.tolist() == [0, 1, 0]
    assert pieces.select([2, 1]).recordings == ("b", "a")
    assert pieces.fingerprint == make(3).fingerprint


def test_names_are_kept_on_disk(make, tmp_path):
    pieces = named(make, "run é", "a", "run é")
    write(tmp_path / "a.h5", pieces)
    assert (
        load(tmp_path / "a.h5").recordings
        == pieces.recordings
        == summary(tmp_path / "a.h5").recordings
    )
    assert load(tmp_path / "a.h5", [1, 2]).recordings == ("a", "run é")
    write(tmp_path / "own.h5", make(2))
    with h5py.File(tmp_path / "own.h5") as file:
        assert "recording" not in file
    with h5py.File(
        tmp_path / "a.h5", "a"
    ) as file:  # texts of variable length, as h5py writes them, are read too
        del file["recording"]
        file["recording"] = ["x", "y", "x"]
    assert load(tmp_path / "a.h5").recordings == ("x", "y", "x")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["recording"]
        file["recording"] = ["x", "y"]
    with pytest.raises(DataError, match="3 trajectories and 2 names of recordings"):
        load(tmp_path / "a.h5")


def test_a_recorder_keeps_them_through_an_interruption(make, tmp_path):
    pieces = named(make, "a", "a", "2", "b")
    for stop in (2, 4):
        with Recorder.resume_or_create(
            tmp_path / "a.h5", pieces.channels, provenance={}
        ) as recorder:
            while len(recorder) < stop:
                one = pieces[len(recorder)]
                name = pieces.recordings[len(recorder)]
                recorder.append(one.q, one.u, recording=None if name == "2" else name)
            if stop == 2:
                assert load(recorder.partial).recordings == ("a", "a")
    with Recorder.resume_or_create(tmp_path / "a.h5", pieces.channels, provenance={}) as recorder:
        recorder.finish()
    assert load(tmp_path / "a.h5").recordings == pieces.recordings


def test_a_split_keeps_recordings_together(make):
    pieces = named(make, *(f"run {number // 3}" for number in range(30)))
    for seed in range(5):
        train, held_out = split(pieces, seed=seed)
        assert {n // 3 for n in train}.isdisjoint({n // 3 for n in held_out}) and len(train) == 24
        assert np.array_equal(split(pieces.recordings, seed=seed)[0], train)
        assert np.array_equal(split(make(20), seed=seed)[0], split(20, seed=seed)[0])
    with pytest.raises(DataError, match="at least 2 recordings; there is 1 of 3 trajectories"):
        split(["a"] * 3, seed=0)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (("0", "1"), ("0",), ("0", "1", "2")),
        (("a", "b"), ("c",), ("a", "b", "c")),
        (("a", "b"), ("a",), ("0/a", "0/b", "1/a")),
    ],
)
def test_joining(make, first, second, joined):
    parts = [named(make, *first), named(make, *second)]
    other = [replace(part, provenance={"part": k}) for k, part in enumerate(parts)]
    assert Trajectories.concatenate(other).recordings == joined
    same = [replace(part, provenance={}) for part in parts]
    assert Trajectories.concatenate(same).recordings == joined, "no origin is not the same origin"


def test_concatenation_of_parts_of_one_file(make):
    pieces = named(make, "a", "a", "b")
    assert Trajectories.concatenate([pieces.select([0]), pieces.select([1, 2])]).recordings == (
        "a",
        "a",
        "b",
    )


def test_refusals(make):
    for names, message in (
        (("a",), "give one for each"),
        (("a", "", "b"), "list of names"),
        (("a" * 300,) * 3, "256"),
    ):
        with pytest.raises(DataError, match=message):
            named(make, *names) if len(names) == 3 else Trajectories(
                make(3).channels, make(3).q, make(3).u, make(3).lengths, {}, names
            )
