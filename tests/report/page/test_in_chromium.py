from pathlib import Path

import pytest
from tests.browser import Browser, browser  # noqa: F401
from tests.report.page.material import write_all

from genan.report.page import build
from genan.report.page.build import write_report

#: For each figure, how many marks plotly drew; none where a figure is not drawn.
MARKS = """() => Array.from(document.querySelectorAll(".plot")).map((place) =>
  [place.dataset.figure, place.querySelectorAll(".trace.bars .point path, .trace.scatter path.js-line").length])"""
WIDTHS = "() => [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(build, "still", lambda figure: {"png": b"png", "pdf": b"pdf"})
        runs = write_all(
            folder / "runs", film=b"", studies=("accuracy", "dataset-size", "table-tennis")
        )
        return write_report([runs], folder / "report.html").path


def test_figures_are_drawn_in_light_and_dark_and_on_a_phone(browser: Browser, report: Path) -> None:  # noqa: F811
    sheet = browser.open(report.as_uri())
    sheet.page.wait_for_selector("body[data-drawn]")
    marks = dict(sheet.page.evaluate(MARKS))
    assert len(marks) >= 12 and min(marks.values()) > 0, marks
    grounds = [sheet.page.evaluate("() => getComputedStyle(document.body).backgroundColor")]
    sheet.screenshot("report-light")

    log = sheet.page.locator("button.log").first
    name = log.get_attribute("data-for")
    kind = f"() => document.getElementById('plot-{name}')._fullLayout.yaxis.type"
    before = sheet.page.evaluate(kind)
    log.click()
    sheet.page.wait_for_function(f"{kind[6:]} !== '{before}'")

    sheet.page.locator("#theme").click()
    assert sheet.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    grounds.append(sheet.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]
    sheet.screenshot("report-dark", full=False)
    sheet.check()

    phone = browser.open(
        report.as_uri(), width=375, height=812, dark=True, is_mobile=True, has_touch=True
    )
    phone.page.wait_for_selector("body[data-drawn]")
    assert phone.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    wide, window = phone.page.evaluate(WIDTHS)
    assert wide <= window == 375
    phone.page.locator("details summary").first.click()
    phone.screenshot("report-phone-dark")
    phone.check()
