from collections.abc import Callable
from pathlib import Path

from tests.report.material import write_inspection, write_transfer


def test_report(genan: Callable, refused: Callable, tmp_path: Path) -> None:
    write_transfer(tmp_path / "runs" / "one", "reacher", trials=20)
    write_inspection(tmp_path / "runs" / "two")
    (tmp_path / "runs" / "three").mkdir()
    (tmp_path / "runs" / "three" / "policy.json").write_text('{"format": "gen')
    out = tmp_path / "report.html"
    answer = genan("report", tmp_path / "runs", "--out", out, "--title", "Mine & yours")
    assert answer.code == 0, answer.err
    assert "Found 1 inspected recording, 1 series of transfer trials." in answer.out
    assert "Not read:" in answer.out and "three/policy.json" in answer.out
    text = out.read_text(encoding="utf-8")
    assert "<h1>Mine &amp; yours</h1>" in text and "19 of 20 trials succeed" in text
    assert "three/policy.json" in text and "<svg" in text
    assert len(text) < 200e3
    assert (tmp_path / "report_files" / "transfer-success.pdf").read_bytes().startswith(b"%PDF")
    assert "--overwrite" in refused("report", tmp_path / "runs", "--out", out)
    assert genan("report", tmp_path / "runs", "--out", out, "--overwrite").code == 0


def test_nothing_to_report(refused: Callable, tmp_path: Path) -> None:
    assert "looked for" in refused("report", tmp_path, "--out", tmp_path / "report.html")
    assert "Say what the report should be about" in refused("report")
    assert "There is no" in refused("report", tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []
