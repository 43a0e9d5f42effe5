"""Chromium for tests of web pages.

A test that takes the fixture ``browser`` has the marker of that name:

    from tests.browser import Browser

    def test_page(browser: Browser) -> None:
        sheet = browser.open("file:///.../report.html")
        sheet.page.wait_for_selector("h1")
        sheet.check()  # no error on the console, no request to elsewhere
        sheet.screenshot("report-light")

Where Chromium or playwright is missing, such a test is skipped and says which.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

#: Where Chromium may be: an address in $CHROMIUM first.
NAMES = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
#: Nothing that Chromium does on its own may leave the machine.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
SOFTWARE_GL = (
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-accelerated-2d-canvas",
)
#: Schemes that need no network, and hosts that are this machine.
LOCAL_SCHEMES = ("file", "data", "blob", "about", "chrome", "devtools")
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
#: How long a page may take [ms]: tests share a machine.
PATIENCE = 60_000.0


def chromium() -> str | None:
    """The path of a Chromium, if there is one."""
    found = (shutil.which(name) for name in (os.environ.get("CHROMIUM", ""), *NAMES) if name)
    return next((path for path in found if path), None)


def missing() -> str | None:
    """Why there can be no test in a browser; None where there can."""
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        return "the Python package playwright is not installed"
    if chromium() is None:
        return f"there is no Chromium: neither $CHROMIUM nor {', '.join(NAMES)}"
    return None


@dataclass
class Sheet:
    """One open page, and what went on in it."""

    page: Any
    """playwright's page."""
    pictures: Path
    errors: list[str] = field(default_factory=list)
    """Errors and warnings on its console, and exceptions that nothing caught."""
    outside: list[str] = field(default_factory=list)
    """Addresses that it asked for and that are not on this machine."""

    def listen(self) -> None:
        """Write down what goes on from now."""
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("websocket", lambda socket: self._asked(socket.url))

    def check(self) -> None:
        """There was no error, and nothing outside was asked for."""
        assert self.errors == []
        assert self.outside == []

    def screenshot(self, name: str, *, full: bool = True) -> Path:
        """A picture of the page, or of the part that is seen."""
        path = self.pictures / f"{name}.png"
        self.page.screenshot(path=str(path), full_page=full, timeout=PATIENCE)
        return path

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _asked(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in LOCAL_SCHEMES and parts.hostname not in LOCAL_HOSTS:
            self.outside.append(address)


class Browser:
    """Opens pages; one Chromium with and one without WebGL at most, started when first needed."""

    def __init__(self, pictures: Path) -> None:
        from playwright.sync_api import sync_playwright

        self._open = ExitStack()
        self._playwright = self._open.enter_context(sync_playwright())
        self._running: dict[bool, Any] = {}
        self._pictures = pictures

    def open(
        self,
        address: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        webgl: bool = False,
        **more: Any,
    ) -> Sheet:
        """A fresh page at ``address``.

        Args:
            address: file:// or http://127.0.0.1.
            width: of the window [px].
            height: of the window [px].
            dark: whether the user prefers dark pages.
            webgl: whether 3-D is drawn (in software).
            more: for playwright's ``new_context``: ``has_touch=True``, ``is_mobile=True``.
        """
        context = self._chromium(webgl).new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            **more,
        )
        context.set_default_timeout(PATIENCE)
        self._open.callback(context.close)
        sheet = Sheet(context.new_page(), self._pictures)
        sheet.listen()
        sheet.page.goto(address)
        return sheet

    def close(self) -> None:
        """Close all pages and every Chromium."""
        self._open.close()

    def _chromium(self, webgl: bool) -> Any:
        if webgl not in self._running:
            arguments = [*QUIET, *(SOFTWARE_GL if webgl else ("--disable-gpu",))]
            launched = self._playwright.chromium.launch(
                executable_path=chromium(), args=arguments, timeout=PATIENCE
            )
            self._open.callback(launched.close)
            self._running[webgl] = launched
        return self._running[webgl]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Opens pages in Chromium; their pictures go to $GENAN_SCREENSHOTS, or to the test's own
    folder."""
    reason = missing()
    if reason is not None:
        pytest.skip(f"No test in a browser: {reason}.")
    pictures = Path(os.environ.get("GENAN_SCREENSHOTS") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    opened = Browser(pictures)
    try:
        yield opened
    finally:
        opened.close()
