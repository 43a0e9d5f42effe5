import numpy as np
import pytest

from genan.errors import DataError, SettingError
from genan.importing.source import open_source


def test_the_format_is_found_out(tmp_path):
    np.savez(tmp_path / "a.npz", q=np.zeros((3, 1)))
    (tmp_path / "b.csv").write_text("time,a\n0,1\n")
    assert open_source(tmp_path / "a.npz").format == "npz"
    assert open_source(tmp_path / "b.csv").format == "csv"
    (tmp_path / "c.dat").write_text("time,a\n0,1\n")
    assert open_source(tmp_path / "c.dat", "csv").format == "csv"
    for path, message in (
        ("c.dat", "in no format that genan knows.*--format"),
        ("none.csv", "There is no log"),
        ("empty.csv", "is empty"),
        ("folder", "folder .* is empty"),
    ):
        (tmp_path / "empty.csv").touch()
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(DataError, match=message):
            open_source(tmp_path / path)
    with pytest.raises(SettingError, match="no format 'xls'; there are: 'npz'"):
        open_source(tmp_path / "c.dat", "xls")


def test_only_bags_have_two_time_stamps(tmp_path):
    np.savez(tmp_path / "a.npz", q=np.zeros((3, 1)))
    with pytest.raises(SettingError, match="only samples of a bag have two time stamps"):
        open_source(tmp_path / "a.npz", stamps="receipt")
