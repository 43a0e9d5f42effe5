"""Logs of o80 in Parquet and CSV come back; pickles are refused without being opened."""

import csv
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.table import is_o80, open_o80

pa = pytest.importorskip("pyarrow", reason="logs of o80 are read with pyarrow")
import pyarrow.parquet as pq  # noqa: E402

N, LOST = 80, 12
START = 1_690_000_000_000_000_123


def _log() -> dict[str, np.ndarray]:
    """As ``o80_pam`` names its columns; the reference is found after LOST samples."""
    rng = np.random.default_rng(0)
    log: dict[str, np.ndarray] = {
        "iteration": np.arange(1000, 1000 + N),
        "frequency": np.full(N, 500.0),
        "time_stamp": START + np.arange(N) * 2_000_003,
    }
    for i in range(4):
        log[f"position_{i}"], log[f"velocity_{i}"] = rng.normal(size=(2, N))
        for kind in ("desired", "observed"):
            for side in ("ago", "antago"):
                log[f"{kind}_pressure_{i}_{side}"] = rng.integers(12000, 25000, N)
        log[f"reference_found_{i}"] = np.arange(N) >= LOST - i
    return log


def _write(path: Path, log: dict[str, np.ndarray]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(log), path, row_group_size=30)
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(log)
        writer.writerows(zip(*(values.tolist() for values in log.values()), strict=True))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_logs_come_back_from_where_the_reference_was_found(tmp_path: Path, suffix: str) -> None:
    log = _log()
    for name in ("a", "b"):
        _write(tmp_path / f"{name}{suffix}", log)
    source = open_o80(tmp_path)
    assert is_o80(tmp_path)
    assert is_o80(tmp_path / f"a{suffix}")
    assert source.positions == ["position_0", "position_1", "position_2", "position_3"]
    assert source.commands[:3] == [
        "desired_pressure_0_ago",
        "desired_pressure_0_antago",
        "desired_pressure_1_ago",
    ]
    assert len(source.commands) == 8
    words = source.columns
    assert words["position_0"] == "rad"
    assert words["observed_pressure_3_antago"] == "counts"
    names = (*source.positions, *source.commands)
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for chunk in source.read(names):
        (stream,) = chunk.streams
        assert stream.time is not None
        assert stream.names == (*names, "time_stamp")
        found.setdefault(chunk.name, []).append((stream.time, stream.values[:, :-1]))
    assert list(found) == [name for name, _ in source.recordings] == ["a", "b"]
    time, values = (np.concatenate(part) for part in zip(*found["b"], strict=True))
    np.testing.assert_allclose(time, np.arange(N - LOST) * 2_000_003e-9, atol=1e-12)
    np.testing.assert_array_equal(
        values, np.stack([log[name][LOST:] for name in names], axis=1).astype(float)
    )


class _Runs:
    """What a stranger's pickle may do."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("the pickle was opened",))


@pytest.mark.parametrize("name", ["run.df", "run.pkl"])
def test_pickles_are_refused_with_the_line_that_converts_them(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(_Runs()))
    assert is_o80(tmp_path / name)
    with pytest.raises(
        DataError,
        match=rf"not opened here.*pandas.read_pickle\('{name}'\).to_parquet\('run.parquet'\)",
    ):
        open_o80(tmp_path / name)


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    log = _log()
    _write(tmp_path / "run.parquet", log)
    with pytest.raises(
        DataError,
        match=(
            "no column 'position_4'; the columns there are: 'iteration', 'frequency', "
            "'time_stamp', 'position_0'"
        ),
    ):
        list(open_o80(tmp_path / "run.parquet").read(["position_4"]))
    _write(tmp_path / "other.csv", {"time": np.arange(3), "q": np.zeros(3)})
    assert not is_o80(tmp_path / "other.csv")
    with pytest.raises(
        DataError, match="is no log of o80: expected 'time_stamp'.*found 'time', 'q'"
    ):
        open_o80(tmp_path / "other.csv")
    lost = log | {"reference_found_2": np.zeros(N, bool)}
    _write(tmp_path / "lost.csv", lost)
    with pytest.raises(DataError, match="none of its 80 samples has its reference found"):
        list(open_o80(tmp_path / "lost.csv").read(["position_0"]))
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "run.parquet").read_bytes()[:500])
    assert not is_o80(tmp_path / "cut.parquet")
    with pytest.raises(DataError, match="cut.parquet cannot be read"):
        list(open_o80(tmp_path / "cut.parquet").read(["position_0"]))
    text = (tmp_path / "lost.csv").read_text().splitlines()
    text[5] = text[5].replace(",", ",oops,", 1)
    (tmp_path / "bad.csv").write_text("\n".join(text))
    with pytest.raises(DataError, match="bad.csv cannot be read"):
        list(open_o80(tmp_path / "bad.csv").read(["position_0"]))
