import json
import re

from tests.data.plants import recorded

from genan.data import inspect, summary, write
from genan.report.inspection import load_inspection, save_figures, save_inspection
from genan.report.page import save_inspection_page


def test_one_file_that_asks_for_nothing(tmp_path):
    one = recorded("torque", "steps", nq=2, dt=0.01, delay=0.03, quantum=1e-3)
    write(tmp_path / "<b>.h5", one)
    head, found = summary(tmp_path / "<b>.h5"), inspect(one)
    pictures = save_figures(found, tmp_path / "out")
    page = save_inspection_page(found, head, pictures, tmp_path / "out").read_text(encoding="utf-8")
    assert "Inspection of &lt;b&gt;.h5" in page and "<b>.h5" not in page
    assert all(
        address.startswith("data:") for address in re.findall(r'(?:src|href)="([^"]*)"', page)
    )
    assert page.count("<img") == len(pictures) and "http:" not in page and "https:" not in page
    assert "fit with --delay 3." in page and "3 (30 ms)" in page
    assert "prefers-color-scheme: dark" in page and "<script" not in page
    path = save_inspection(found, head, "abc", tmp_path / "out")
    assert load_inspection(path)["trajectories"] == found.trajectories
    record = json.loads(path.read_text())
    assert (
        record["words"] == list(found.verdict)
        and record["lag"]["steps"] == 3
        and record["timing"] is None
    )
    assert record["joints"][0]["signal_share"] == found.joints[0].signal_share
    assert len(record["spectrum"]["frequencies"]) == len(record["spectrum"]["joints"][0])
