"""The top of the page: what this is about, what came out, and what to be wary of."""

from genan.report.page.figures import success
from genan.report.page.gather import Found, Material
from genan.report.page.markup import Markup, Part, joined, tag
from genan.report.page.setup_section import version_warning
from genan.report.page.summary import INTRODUCTION, about_robot, sentences, tasks
from genan.report.page.words import percent, plural, task_words

#: Tiles with large numbers; more would be a wall.
TILES = 8


def top(material: Material) -> Markup:
    """Introduction, large numbers, sentences, warnings."""
    found = list(sentences(material))
    parts: list[Part] = [tag("h2", "In short"), _tiles(material)]
    if found:
        lines = (
            tag("li", text, " ", tag("a", "more", href=f"#{anchor}")) for anchor, text in found
        )
        parts.append(tag("ul", *lines, class_="summary"))
    warning = version_warning(material)
    if warning:
        parts.append(tag("p", tag("b", "Different versions. "), warning, class_="warning"))
    if material.broken:
        parts.append(_broken(material))
    parts += [tag("h2", "What this is about", id="about"), tag("p", INTRODUCTION)]
    robot = about_robot(material)
    parts.append(tag("p", robot) if robot else None)
    parts.append(_tasks(material))
    parts.append(
        tag(
            "p",
            "Numbers come with their 95 % interval in brackets: were everything repeated with other trials or "
            "trajectories of the same kind, such intervals would hold the true value in 19 of 20 cases. Where two "
            "intervals overlap much, a difference may be chance.",
        )
    )
    return tag("section", *parts, id="summary")


def _tasks(material: Material) -> Part:
    known = tasks(material)
    return tag("ul", *(tag("li", words) for words in known)) if known else None


def _broken(material: Material) -> Markup:
    named = tag(
        "ul", *(tag("li", tag("code", one.label), f": {one.content}.") for one in material.broken)
    )
    words = f"{plural(len(material.broken), 'file')} could not be read and {'is' if len(material.broken) == 1 else 'are'}"
    return tag("div", tag("b", f"{words} left out:"), named, class_="warning", id="broken")


def _tiles(material: Material) -> Part:
    done = [found for found in material.transfers if found.content.trials]
    return (
        tag("div", *(_tile(found) for found in done), class_="tiles")
        if 0 < len(done) <= TILES
        else None
    )


def _tile(found: Found) -> Markup:  # type: ignore[type-arg]
    trials = found.content
    rate = success(trials)
    low, high = rate.low or 0.0, rate.high or 0.0
    bar = joined(
        [
            tag("i", style=f"left:{low:.1f}%;width:{high - low:.1f}%"),
            tag("b", style=f"left:{rate.mean:.1f}%"),
        ]
    )
    return tag(
        "div",
        tag("p", task_words(trials.task).capitalize(), class_="name"),
        tag("p", f"{percent(rate.mean)} %", class_="large"),
        tag("div", bar, class_="span", aria_hidden="true"),
        tag(
            "p",
            f"{trials.succeeded} of {plural(len(trials.trials), 'trial')}, {percent(low)} to {percent(high)} %",
        ),
        tag("p", found.label, class_="path"),
        class_="tile",
    )
