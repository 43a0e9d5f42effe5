import csv
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from genan.errors import DataError
from genan.importing.table import is_csv, is_parquet, open_csv, open_parquet, sniff, time_column

RNG = np.random.default_rng(0)
TIME, VALUES = 0.01 * np.arange(40), RNG.standard_normal((40, 2))


def write_csv(path, *, header=("time", "a", "b"), delimiter=",", **options):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, **options)
        if header:
            writer.writerow(header)
        writer.writerows(np.column_stack([TIME, VALUES]).tolist())
    return path


def read(source, names):
    """Time and values of each recording."""
    found = {}
    for recording in source.read(names):
        (stream,) = recording.streams
        columns = [stream.names.index(name) for name in names]
        found[recording.name] = (stream.time, stream.values[:, columns])
    return found


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_csv_as_its_module_writes_it(tmp_path, monkeypatch, arrow, delimiter, quoting):
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    source = open_csv(write_csv(tmp_path / "run.csv", delimiter=delimiter, quoting=quoting))
    assert list(source.columns) == ["time", "a", "b"]
    (time, values) = read(source, ["b", "a"])["run"]
    assert np.array_equal(time, TIME) and np.array_equal(values, VALUES[:, ::-1])


def test_other_ways_to_write_a_table(tmp_path):
    path = tmp_path / "x.csv"
    np.savetxt(path, np.column_stack([TIME, VALUES]), fmt="%.17g", header="time a b")
    assert sniff(path).names == ("time", "a", "b") and sniff(path).delimiter == " "
    assert np.array_equal(read(open_csv(path), ["a", "b"])["x"][1], VALUES)
    np.savetxt(path, VALUES, delimiter=",")
    assert sniff(path).names == ("0", "1")
    np.testing.assert_allclose(read(open_csv(path), ["0", "1"])["x"][1], VALUES)
    path.write_text(
        "\ufeff# made by a logger\nstamp_ms;a;b\n0;1,5;2\n\n# half time\n10;;3,25\n",
        encoding="utf-8",
    )
    time, values = read(open_csv(path), ["a", "b"])["x"]
    np.testing.assert_allclose(time, [0.0, 0.01])
    np.testing.assert_array_equal(values, [[1.5, 2.0], [np.nan, 3.25]])


def test_a_folder_with_a_file_for_each_recording(tmp_path):
    for name in ("day1/run_10.csv", "day1/run_9.csv", "day2/run_1.csv", ".hidden/x.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_csv(tmp_path / name)
    source = open_csv(tmp_path)
    assert is_csv(tmp_path) and not is_parquet(tmp_path)
    names = ["day1/run_9", "day1/run_10", "day2/run_1"]
    assert list(read(source, ["a"])) == names == [name for name, _ in source.recordings]
    write_csv(tmp_path / "day1" / "run_9.tsv", delimiter="\t")
    write_csv(tmp_path / "day1" / "10.30.csv")
    assert list(read(open_csv(tmp_path), ["a"]))[:3] == [
        "day1/10.30",
        "day1/run_9.csv",
        "day1/run_9.tsv",
    ]
    write_csv(tmp_path / "day2" / "run_2.csv", header=("time", "a", "c"))
    with pytest.raises(
        DataError, match=r"run_2.csv has no column 'b'; the columns there are: 'time', 'a', 'c'"
    ):
        read(open_csv(tmp_path), ["b"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,a\n", None),
        ("# only a comment\n", "has no rows"),
        ("time,a\n0,1\n1,high\n", "cannot be read as a table of numbers.*high"),
        ("time,a\n0,1\n1,2,3\n", "cannot be read as a table of numbers"),
        ("a,a\n0,1\n", "the column 'a' twice"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    if message is None:
        assert len(read(open_csv(path), ["a"])["x"][1]) == 0
        return
    with pytest.raises(DataError, match=message):
        read(open_csv(path), ["a"])


def test_parquet(tmp_path):
    stamps = pa.array(
        (1_700_000_000_000_000 + np.round(1e6 * TIME)).astype(np.int64), pa.timestamp("us")
    )
    content = {
        "timestamp": stamps,
        "a": VALUES[:, 0].astype(np.float32),
        "n": pa.array([None, *range(39)]),
        "text": ["x"] * 40,
        "q": pa.FixedSizeListArray.from_arrays(VALUES.reshape(-1), 2),
        "u": VALUES.tolist(),
    }
    parquet.write_table(pa.table(content), tmp_path / "run.parquet", row_group_size=16)
    source = open_parquet(tmp_path / "run.parquet")
    assert is_parquet(tmp_path / "run.parquet")
    assert list(source.columns) == ["timestamp", "a", "n", "q:0", "q:1", "u:0", "u:1"]
    time, values = read(source, ["q:1", "u:0", "a", "n"])["run"]
    np.testing.assert_allclose(time - time[0], TIME, atol=3e-7)
    assert np.array_equal(values[:, :2], VALUES[:, ::-1])
    assert np.array_equal(values[:, 2], VALUES[:, 0].astype(np.float32))
    assert np.isnan(values[0, 3]) and np.array_equal(values[1:, 3], np.arange(39))


def test_a_parquet_file_cut_in_the_middle(tmp_path):
    path = tmp_path / "run.parquet"
    parquet.write_table(pa.table({"a": VALUES[:, 0]}), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        open_parquet(path)


def test_the_time_column_is_known_by_its_name():
    for names, found in (
        (["a", "time"], "time"),
        (["t", "q"], "t"),
        (["Timestamp", "b"], "Timestamp"),
        (["stamp_ns", "b"], "stamp_ns"),
        (["time [ms]", "b"], "time [ms]"),
        (["time", "timestamp_ns"], "time"),
        (["tau", "theta", "temp", "times_called"], None),
        (["time_ms", "time_ns"], None),
    ):
        assert time_column(names) == found
