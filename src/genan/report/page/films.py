"""Films in the page: put into it while there is room, linked beyond."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from genan.report.page.gather import Found
from genan.report.page.markup import Markup, Part, tag
from genan.report.page.words import plural

#: Bytes of film, and of pictures, in the page; written as text they become a third more.
FILM_ROOM, PICTURE_ROOM = 9_000_000, 1_500_000

_TYPES = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png"}


def chosen(found: Sequence[Found], room: int) -> set[Path]:  # type: ignore[type-arg]
    """Which of them fit into ``room`` bytes together: the small ones first, so that many do."""
    taken: set[Path] = set()
    for one in sorted(found, key=lambda one: (one.path.stat().st_size, one.label)):
        size = one.path.stat().st_size
        if size > room:
            break
        room -= size
        taken.add(one.path)
    return taken


def data_address(path: Path) -> str:
    """The file as an address that holds all of it."""
    return (
        f"data:{_TYPES[path.suffix.lower()]};base64,{base64.b64encode(path.read_bytes()).decode()}"
    )


def link(path: Path, start: Path) -> str:
    """The address of ``path`` from a page in the folder ``start``."""
    return quote(os.path.relpath(path, start.absolute()).replace(os.sep, "/"))


def film_cards(films: Sequence[Found[None]], folder: Path) -> Markup:
    """All films of a page in ``folder``."""
    inside = chosen(films, FILM_ROOM)
    cards = tag(
        "div", *(_card(film, film.path in inside, folder) for film in films), class_="films"
    )
    left = len(films) - len(inside)
    words: Part = None
    if left:
        verb = "is" if left == 1 else "are"
        words = tag(
            "p",
            f"{plural(left, 'film')} {verb} too large for this file and {verb} linked instead: such a link works as "
            "long as this page stays where it was made.",
            class_="note",
        )
    return Markup(cards + (words or ""))


def _card(film: Found[None], inside: bool, folder: Path) -> Markup:
    name = tag("figcaption", film.label)
    if not inside:
        size = f"{film.path.stat().st_size / 1e6:.1f} MB"
        return tag(
            "figure",
            tag("a", f"open the film ({size})", href=link(film.path, folder)),
            name,
            class_="film away",
        )
    address = data_address(film.path)
    if film.path.suffix.lower() == ".gif":
        return tag("figure", tag("img", src=address, alt=f"film {film.label}"), name, class_="film")
    video = tag(
        "video", src=address, controls=True, muted=True, loop=True, playsinline=True, preload="auto"
    )
    return tag("figure", video, name, class_="film")
