"""What both pages have in common: how they look, and the loop that shows picture after picture."""

import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from genan.errors import GenanError
from genan.report.style import COLOURS

FRAMES = 30
"""Pictures a second."""
LATER = 1.5
"""What compiles begins this long after the first browser came [s]: it draws its first picture
meanwhile."""
#: Width of the two panels [px].
CONTROLS, CURVES = 300, 330


@runtime_checkable
class Page(Protocol):
    """Something that goes on."""

    def step(self, seconds: float, *, watched: bool) -> None:
        """Go on by so many ``seconds`` of the wall's time; nothing is drawn when it is not
        ``watched``."""
        ...


def dress(server: Any, *, title: str, words: str) -> Any:
    """Theme, heading and the panel for the curves, which is given back."""
    gui = server.gui
    gui.configure_theme(brand_color=_rgb(COLOURS[0]), show_logo=False, show_share_button=False)
    gui.main_panel.dock_right()
    gui.main_panel.set_width(CONTROLS)
    gui.add_markdown(f"### {title}\n{words}")
    panel = gui.add_panel()
    tab = panel.add_tab("Curves")
    panel.dock_left()
    panel.set_width(CURVES)
    return tab


def key(entries: dict[str, str]) -> str:
    """HTML that says what is drawn in which colour: name to CSS colour."""
    spots = (
        f'<span style="white-space:nowrap;margin-right:0.9em"><span style="color:{colour}">&#9632;</span> {name}</span>'
        for name, colour in entries.items()
    )
    return f'<div style="font-size:0.8em;padding:0 0.9em 0.3em 0.9em;color:#555">{" ".join(spots)}</div>'


def show(server: Any, page: Page, stopping: Callable[[], bool]) -> None:
    """Picture after picture until ``stopping``. Browsers come and go; without one nothing is
    drawn."""
    before = due = time.perf_counter()
    while not stopping():
        now = time.perf_counter()
        with server.atomic():
            page.step(now - before, watched=bool(server.get_clients()))
        before = now
        due = max(due + 1.0 / FRAMES, now)  # a picture that came late is not made up for
        time.sleep(max(0.0, due - time.perf_counter()))


def in_words(error: BaseException) -> str:
    """An error as a line on the page."""
    return str(error) if isinstance(error, GenanError) else f"{type(error).__name__}: {error}"


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return red, green, blue
