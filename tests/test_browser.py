from pathlib import Path

from tests.browser import Browser


def test_errors_and_requests_to_elsewhere_are_seen(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<h1>quiet</h1>")
    browser.open(page.as_uri()).check()
    page.write_text(
        "<img src='http://elsewhere.invalid/x.png'><script>undefinedFunction()</script>"
    )
    loud = browser.open(page.as_uri())
    assert loud.outside == ["http://elsewhere.invalid/x.png"]
    assert any("undefinedFunction" in error for error in loud.errors)
