from pathlib import Path

import pytest
from tests.browser import Browser
from tests.report.material import write_all

from genan.report.page import write_report

#: For each chart, how wide it is and how many marks and texts it shows.
MARKS = """() => Array.from(document.querySelectorAll(".plot svg")).map((chart) => [
  chart.clientWidth, ...["path", "text"].map((name) => chart.querySelectorAll(name).length)])"""
WIDTHS = "() => [document.documentElement.scrollWidth, window.innerWidth]"
GROUND = "() => getComputedStyle(document.body).backgroundColor"
INK = "() => getComputedStyle(document.querySelector('.plot svg text')).fill"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    studies = ("accuracy", "dataset-size", "table-tennis")
    runs = write_all(folder / "runs", film=b"", studies=studies)
    return write_report([runs], folder / "report.html", files=False).path


def test_charts_in_light_and_dark_and_on_a_phone(browser: Browser, report: Path) -> None:
    sheet = browser.open(report.as_uri())
    charts = sheet.page.evaluate(MARKS)
    assert len(charts) >= 12
    assert all(width > 200 and paths > 10 and texts > 5 for width, paths, texts in charts), charts
    light = [sheet.page.evaluate(question) for question in (GROUND, INK)]
    sheet.screenshot("report-light")
    sheet.page.locator("#theme").check()
    dark = [sheet.page.evaluate(question) for question in (GROUND, INK)]
    assert all(one != other for one, other in zip(light, dark, strict=True))
    sheet.screenshot("report-dark", full=False)
    sheet.check()

    size = {"width": 375, "height": 812, "is_mobile": True, "has_touch": True}
    phone = browser.open(report.as_uri(), dark=True, **size)
    assert phone.page.evaluate(GROUND) == dark[0]
    wide, window = phone.page.evaluate(WIDTHS)
    assert wide <= window == 375
    phone.page.locator("details summary").first.click()
    phone.screenshot("report-phone-dark")
    phone.check()
