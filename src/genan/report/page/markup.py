"""HTML in which nothing from a file can be anything but text."""

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Part = str | Markup | None
_EMPTY = frozenset({"img", "input", "source", "br", "hr", "col"})


def escaped(part: Part) -> Markup:
    """A part of a page: text with every sign of meaning taken out of it, HTML as it is."""
    if part is None:
        return Markup("")
    return part if isinstance(part, Markup) else Markup(html.escape(str(part), quote=True))


def joined(parts: Iterable[Part], between: str = "") -> Markup:
    """Parts after each other."""
    return Markup(between.join(escaped(part) for part in parts))


def tag(name: str, *parts: Part, **attributes: str | bool | None) -> Markup:
    """An element. ``class_="x"`` makes ``class="x"``, ``data_figure`` ``data-figure``; True stands
    alone, None not."""
    written = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        written += f" {key}" if value is True else f' {key}="{html.escape(value, quote=True)}"'
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(parts)}</{name}>")


def table(
    header: Sequence[Part], rows: Iterable[Sequence[Part]], *, numeric: Sequence[int] = ()
) -> Markup:
    """A table in a box of its own, which scrolls where the page is too narrow for it."""

    def cells(kind: str, row: Sequence[Part]) -> Markup:
        return joined(
            tag(kind, cell, class_="n" if k in numeric else None) for k, cell in enumerate(row)
        )

    head = tag("thead", tag("tr", cells("th", header)))
    body = tag("tbody", *(tag("tr", cells("td", row)) for row in rows))
    return tag("div", tag("table", head, body), class_="box", tabindex="0")
