"""``result.plot()``: results say what they are, ``genan.report`` draws them when asked."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(figure: str, result: Any) -> "Figure":
    """The figure called ``figure`` in ``genan.report.figures`` of ``result``.

    Imported by name: no result depends on the package that shows it.
    """
    found: Figure = getattr(importlib.import_module("genan.report.figures"), figure)(result)
    return found
