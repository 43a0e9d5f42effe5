import pytest

from genan.errors import DataError, SettingError
from genan.importing.mapping import ImportSettings, choose_files

RUNS = [
    ("run_1", {"kind": "sysid", "gain": 100.0}),
    ("run_2", {"kind": "swing", "gain": 100.0}),
    ("other/a", {"kind": "swing", "gain": 200.0}),
]


def sort(recordings=RUNS, **settings):
    chosen = choose_files(ImportSettings(**settings), recordings)
    return [chosen[name] for name, _ in recordings]


def test_patterns():
    assert sort() == ["train"] * 3
    assert sort(only=("run_*",)) == ["train", "train", "none"]
    assert sort(without=("run_2", "other/*")) == ["train", "none", "none"]
    assert sort(test=("kind=swing",)) == ["train", "test", "test"]
    assert sort(only=("gain=100",), test=("*_2",)) == ["train", "test", "none"]


def test_the_last_part():
    assert sort(test=("last:33%",)) == ["train", "train", "test"]
    dated = [(f"log_2024-01-0{day}_10h00m00", {}) for day in (3, 1, 2)]
    assert sort(dated, test=("last:20%",)) == ["test", "train", "train"]


def test_refusals():
    with pytest.raises(DataError, match=r"No recording fits 'kind=walk'.*'run_1'.*'kind=swing'"):
        sort(only=("kind=walk",))
    for wrong in ("last:0%", "last:100%", "last:5"):
        with pytest.raises(SettingError, match="last:20%"):
            sort(test=(wrong,))
