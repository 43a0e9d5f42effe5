import csv
import json
import warnings
from html.parser import HTMLParser

import pytest
from tests.report.material import (
    study_result,
    write_all,
    write_evaluation,
    write_inspection,
    write_policy,
    write_transfer,
)

from genan.errors import SettingError
from genan.evaluation.study_result import Figure, SearchResult, SearchTrial, Series, Value
from genan.report import page as pages
from genan.report.charts import chart_files, chart_svg
from genan.report.page import write_report

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
    """No drawing by Matplotlib: for tests of what is written."""
    monkeypatch.setattr("genan.report.charts.chart_svg", lambda chart: "<svg></svg>")
    monkeypatch.setattr("genan.report.charts._saved", lambda figure, form, **_: form.encode())


def read_csv(path):
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))


def page(path):
    return Outline(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_everything_in_one_file(tmp_path, quick):
    runs = write_all(tmp_path / "runs", film=b"film")
    written = write_report([runs], tmp_path / "report.html")
    found = page(written.path)
    for sentence in (
        "Reacher transfers: 94 of 100 trials succeed on virtual-pamy2, 95 % interval 88 to 97 %.",
        "Table tennis transfers: 291 of 300 trials succeed on 3 specimens of virtual-pamy2",
        "One step (2 ms) ahead the model is off by 0.0103 (0.00928 to 0.0113) deg, after 1 s by "
        "2.77 (2.49 to 3.05) deg; constant velocity would be off by 0.0129 deg and 144 deg.",
        "The data: 2 things look suspicious in data.h5 (200 trajectories, 6 min 40 s in all)",
        "Study “History” (smoke): of 3 findings of the paper 1 agrees, 1 differs, 1 is open.",
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
    linked = [link["href"] for link in found.all("a") if link["href"].startswith("report_files/")]
    assert len(linked) == written.count
    for link in linked:
        assert (tmp_path / link).is_file()
    assert len(set(linked)) == len(linked)
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
    assert not found.all("img") and not found.all("script") and found.all("svg")
    assert not any("onerror" in attributes for _, attributes in found.elements)
    assert HOSTILE in "".join(found.text)
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
    assert {"transfer-success-1.png", "transfer-success-2.png"} <= {
        p.name for p in written.files.iterdir()
    }


def test_large_films_are_linked(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(pages, "FILM_ROOM", 1000)
    write_policy(tmp_path / "runs" / "a b")
    for name, size in (("a b/large#1.mp4", 900), ("small.gif", 300)):
        (tmp_path / "runs" / name).write_bytes(b"x" * size)
    found = page(write_report([tmp_path / "runs"], tmp_path / "pages" / "report.html").path)
    assert len(found.all("video")) == 0 and len(found.all("img")) == 1
    assert "../runs/a%20b/large%231.mp4" in [link["href"] for link in found.all("a")]
    assert "1 film is too large for this file and linked instead" in found.words


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
        patched.setattr("genan.report.charts.chart_files", lambda _: interrupted(None, None))
        with pytest.raises(KeyboardInterrupt):
            write_report([tmp_path / "runs"], tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_everything_that_an_evaluation_says_is_text(tmp_path, quick):
    harm = "<script>alert(1)</script>"
    comparison = {"verdict": "better", "certainty": "likely", "sentence": harm}
    novelty = {
        "beyond": {harm: 0.123, "q": 0.004},
        "error_beyond_over_within": {"q": 2.5},
        "stretches": [
            {"recording": harm, "joint": "q", "from": 0.5, "to": 1.25, "peak": None, "reason": "x"}
        ],
    }
    more = {"certainty": {"comparisons": [comparison]}, "novelty": novelty, "verdict": [harm]}
    write_evaluation(tmp_path / "a", **more)
    text = write_report([tmp_path], tmp_path / "report.html").path.read_text()
    assert "<script>" not in text and text.count("&lt;script&gt;") == 4
    found = Outline(text).words
    for words in ("✓ better, likely", "12 %", "0.4 %", "2.50", "0.50 to 1.25", "inf"):
        assert words in found, words
    assert "Verdict" not in found  # of one evaluation it is on top
    write_evaluation(tmp_path / "b")
    assert "Verdict" in page(write_report([tmp_path], tmp_path / "two.html").path).words


def test_searches(tmp_path, quick):
    trials = [
        SearchTrial(k, {"rate": rate}, f"fit-{k}", "done", value)
        for k, (rate, value) in enumerate([(0.1, 2.0), (0.2, 1.25)])
    ]
    command = "python -m experiments search fit"
    SearchResult("fit", "smoke", "error", "deg", True, tuple(trials), command).save(tmp_path)
    words = page(write_report([tmp_path], tmp_path / "report.html").path).words
    assert "error 1.25 deg with rate 0.2; 2.00 deg with the defaults" in words
    assert "1 search" in words and "0 (defaults)" in words


def test_without_files(tmp_path, quick):
    write_transfer(tmp_path / "runs", "reacher")
    written = write_report([tmp_path / "runs"], tmp_path / "report.html", files=False)
    assert written.count == 0 and not written.files.exists()
    assert not [one for one in page(written.path).all("a") if "report_files" in one["href"]]


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
        found, svg = chart_files(figure), chart_svg(figure)
    assert found["png"].startswith(b"\x89PNG") and found["pdf"].startswith(b"%PDF")
    assert svg.startswith("<svg") and "currentColor" in svg
    assert found == chart_files(figure) and svg == chart_svg(figure)
