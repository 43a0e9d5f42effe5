import csv
import json
import sys
import warnings
from html.parser import HTMLParser

import pytest
from tests.report.page.material import (
    study_result,
    write_all,
    write_evaluation,
    write_inspection,
    write_policy,
    write_transfer,
)

from genan.errors import GenanError, SettingError
from genan.evaluation.study_result import Figure, Series, Value
from genan.report.page import build, films
from genan.report.page.build import write_report
from genan.report.page.still import still

HOSTILE = "<img src=x onerror=alert(1)></script>$\\frac{"


class Outline(HTMLParser):
    """Elements with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self.text, self._code = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._code = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._code = False

    def handle_data(self, data):
        if not self._code:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def quick(monkeypatch):
    """No pictures by Matplotlib, and no plotly.js: for tests of what is written."""
    monkeypatch.setattr(build, "still", lambda figure: {"png": b"png", "pdf": b"pdf"})
    monkeypatch.setattr(build, "plotly_source", lambda: "var Plotly;")


def read_csv(path):
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))


def page(path):
    return Outline(path.read_text(encoding="utf-8"))


def test_everything_in_one_file(tmp_path, quick):
    runs = write_all(tmp_path / "runs", film=b"film")
    written = write_report([runs], tmp_path / "report.html")
    found = page(written.path)
    for sentence in (
        "Reacher transfers: 94 of 100 trials succeed on the virtual PAMY2, 95 % interval 88 to 97 %.",
        "Table tennis transfers: 291 of 300 trials succeed on 3 specimens of the virtual PAMY2",
        "One step (2 ms) ahead the model is off by 0.0103 (0.00928 to 0.0113) deg, after 1 s by 2.77 (2.49 to 3.05) "
        "deg; constant velocity would be off by 0.0129 deg and 144 deg.",
        "The data's verdict: 2 things look suspicious in data.h5 (200 trajectories, 6 min 40 s in all)",
        "Study “History” (smoke): of 3 findings of the paper 1 agrees, 1 differs, 1 cannot be told.",
        "✓ agrees",
        "✗ differs",
        "? cannot tell",
        "genan study history --size smoke",
        "✓ rests",
    ):
        assert sentence in found.words
    anchors = {attributes.get("id") for _, attributes in found.elements}
    inside = [link["href"][1:] for link in found.all("a") if link["href"].startswith("#")]
    assert inside and set(inside) <= anchors
    assert [video["src"].partition(",")[0] for video in found.all("video")] == [
        "data:video/mp4;base64"
    ] * 2
    beside = [link["href"] for link in found.all("a") if link["href"].startswith("report_files/")]
    assert len(beside) == written.count
    for link in beside:
        assert (tmp_path / link).is_file()
    assert len(set(beside)) == len(beside)
    again = write_report([runs], tmp_path / "other.html")
    assert again.path.read_text().replace("other_files", "report_files") == written.path.read_text()


def test_a_table_as_csv(tmp_path, quick):
    result = study_result("history")
    result.save(tmp_path / "runs")
    written = write_report([tmp_path / "runs"], tmp_path / "report.html")
    header, *rows = read_csv(written.files / "history-smoke-history-1-step.csv")
    figure = result.figures[0]
    assert header[:4] == ["history length H", "series", "value", "low"] and len(rows) == len(
        figure.places
    )
    assert [float(row[2]) for row in rows] == [value.mean for value in figure.series[0].values]
    assert [float(row[6]) for row in rows] == [value.mean for value in figure.series[0].paper]
    listed = [row[0] for row in read_csv(written.files / "contents.csv")[1:]]
    assert sorted(path.name for path in written.files.iterdir()) == sorted(
        ["contents.csv", *listed]
    )


def test_names_from_files_are_text(tmp_path):
    runs = tmp_path / "runs" / HOSTILE.replace("/", "-")
    write_transfer(runs, "reacher")
    content = json.loads((runs / "transfer.json").read_text())
    content["trials"][-1]["outcome"] = HOSTILE
    content["about"]["robot"] = content["about"]["note"] = HOSTILE
    (runs / "transfer.json").write_text(json.dumps(content))
    write_inspection(runs, suspicious=(HOSTILE,), file=HOSTILE)
    write_evaluation(runs, notes=[HOSTILE])
    result = study_result("transfer")
    value = Value(1.0, note=f"={HOSTILE}")
    figure = Figure(
        HOSTILE,
        HOSTILE,
        "bars",
        HOSTILE,
        (HOSTILE,),
        HOSTILE,
        HOSTILE,
        (Series(f"_{HOSTILE}", (value,)),),
    )
    changed = type(result)(
        **{**vars(result), "title": HOSTILE, "figures": (figure,), "command": HOSTILE}
    )
    changed.save(runs)
    written = write_report([tmp_path / "runs"], tmp_path / "report.html", title=HOSTILE)
    found = page(written.path)
    assert not found.all("img") and len(found.all("script")) == 3
    assert not any("onerror" in attributes for _, attributes in found.elements)
    assert HOSTILE in "".join(found.text)
    specs = written.path.read_text().partition('id="figures">')[2].partition("</script>")[0]
    drawn = json.dumps(json.loads(specs))
    assert "&lt;img" in drawn and "<img" not in drawn  # plotly reads a few tags in its texts
    (table,) = written.files.glob("transfer-smoke-*.csv")
    assert read_csv(table)[1][-1] == f"'={HOSTILE}"


def test_different_versions_are_pointed_out(tmp_path, quick):
    write_transfer(tmp_path / "runs" / "old", "reacher")
    write_transfer(tmp_path / "runs" / "new", "reacher")
    path = tmp_path / "runs" / "new" / "transfer.json"
    path.write_text(path.read_text().replace('"genan": "0.1.0"', '"genan": "0.2.0"'))
    words = page(write_report([tmp_path / "runs"], tmp_path / "report.html").path).words
    assert (
        "These runs come from 2 versions of genan" in words
        and "0.1.0 made old; 0.2.0 made new." in words
    )


def test_unfinished_and_unsaid(tmp_path, quick):
    result = study_result("accuracy")
    jobs = (
        *result.jobs,
        type(result.jobs[0])("fit-9", "fit", "fit 9", "failed", error="out of memory"),
    )
    type(result)(**{**vars(result), "jobs": jobs, "findings": ()}).save(tmp_path / "runs")
    write_transfer(tmp_path / "runs", "table-tennis", trials=1, rate=1.0)
    words = page(write_report([tmp_path / "runs"], tmp_path / "report.html").path).words
    assert "of its 7 jobs 1 failed" in words and "failed: out of memory" in words
    assert "1 of its 7 jobs are not done" in words
    assert "1 of 1 trial succeeds" in words


def test_many_trials_of_one_task(tmp_path, quick):
    for k in range(10):
        write_transfer(tmp_path / "runs" / f"run-{k}", "reacher", rate=0.5 + 0.05 * k, trials=20)
    written = write_report([tmp_path / "runs"], tmp_path / "report.html")
    words = page(written.path).words
    assert (
        "in 10 series of trials, in which from 50 (30 to 70) % (run-0) to 95 (76 to 99.1) % (run-9)"
        in words
    )
    assert {"transfer-success-reacher-1.png", "transfer-success-reacher-2.png"} <= {
        p.name for p in written.files.iterdir()
    }


def test_large_films_are_linked(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(films, "FILM_ROOM", 1000)
    write_policy(tmp_path / "runs" / "a b")
    for name, size in (("a b/large#1.mp4", 900), ("small.gif", 300)):
        (tmp_path / "runs" / name).write_bytes(b"x" * size)
    found = page(write_report([tmp_path / "runs"], tmp_path / "pages" / "report.html").path)
    assert len(found.all("video")) == 0 and len(found.all("img")) == 1
    assert "../runs/a%20b/large%231.mp4" in [link["href"] for link in found.all("a")]
    assert "1 film is too large for this file and is linked instead" in found.words


def test_an_earlier_report_is_replaced_only_when_asked(tmp_path, quick):
    write_transfer(tmp_path / "runs", "reacher")
    out = tmp_path / "report.html"
    written = write_report([tmp_path / "runs"], out)
    with pytest.raises(SettingError, match=r"report\.html exists"):
        write_report([tmp_path / "runs"], out)
    (written.files / "mine.png").write_bytes(b"mine")
    (tmp_path / "runs" / "transfer.json").unlink()
    write_policy(tmp_path / "runs")
    write_report([tmp_path / "runs"], out, overwrite=True)
    names = {path.name for path in written.files.iterdir()}
    assert (
        "mine.png" in names
        and "training-reacher.png" in names
        and "transfer-success.png" not in names
    )
    out.unlink()
    with pytest.raises(SettingError, match="report_files exists"):
        write_report([tmp_path / "runs"], out)
    with pytest.raises(SettingError, match="is a folder"):
        write_report([tmp_path / "runs"], tmp_path)
    with pytest.raises(SettingError, match=r"should end in \.html"):
        write_report([tmp_path / "runs"], tmp_path / "report.pdf")


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch, quick):
    write_transfer(tmp_path / "runs", "reacher")

    def interrupted(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(build, "figure_csv", lambda figure: interrupted(None, None))
        with pytest.raises(KeyboardInterrupt):
            write_report([tmp_path / "runs"], tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_no_plotly(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(GenanError, match="pip install plotly"):
        write_report([tmp_path], tmp_path / "report.html")


@pytest.mark.parametrize("kind", ["bars", "lines", "stacked"])
def test_pictures_of_holes_and_odd_names(kind):
    values = (Value(1.0, 0.5, 2.0), None, Value(3.0))
    figure = Figure(
        "x",
        "日本 $1",
        kind,
        "_n",
        (1.0, 2.0, 3.0),
        "error",
        "deg",
        (Series("_a$", values, values[::-1]),),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = still(figure)
    assert found["png"].startswith(b"\x89PNG") and found["pdf"].startswith(b"%PDF")
    assert found == still(figure)
