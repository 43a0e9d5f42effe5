"""How far to trust fitted actuators: the verdict, how certain it is, and where a log is new to
them."""

from genan.report.page.gather import Found
from genan.report.page.markup import Markup, Part, joined, table, tag
from genan.report.page.runs import Evaluated
from genan.report.page.words import number

_MARKS = {"better": ("✓ better", "yes"), "worse": ("✗ worse", "no"), "level": ("level", "open")}


def trust_parts(found: Found[Evaluated], *, alone: bool) -> Markup:
    """Verdict, comparisons and novelty; nothing of what the file does not have.

    Args:
        found: the evaluation.
        alone: whether it is the only one; then its verdict stands on top of the page.
    """
    run = found.content
    parts: list[Part] = []
    if run.verdict and not alone:
        parts += [
            tag("h4", "Verdict"),
            tag("ul", *(tag("li", sentence) for sentence in run.verdict)),
        ]
    if run.comparisons:
        rows: list[list[Part]] = []
        for one in run.comparisons:
            words, kind = _MARKS.get(one.verdict, (one.verdict, "open"))
            sure = f"{words}, {one.certainty}" if one.verdict != "level" else words
            rows.append([tag("span", sure, class_=kind), one.sentence])
        explained = (
            "Certain: the probability that chance alone did it is at most 1 in 200; likely: 1 in 20; level: more than "
            "that. Recordings are compared as wholes, each with itself."
        )
        parts += [
            tag("h4", "Beside the baselines"),
            table(["the model is", "in words"], rows),
            tag("p", explained, class_="note"),
        ]
    if run.beyond:
        new = [
            [joint, f"{100.0 * part:.2g} %", "–" if ratio is None else number(ratio)]
            for joint, (part, ratio) in run.beyond.items()
        ]
        explained = (
            "A score is given to every sample and joint: how far position, velocity, command, their combination and "
            "the disagreement of the networks are from what the model was trained on. Beyond 1 lies 1 % of a "
            "recording like those; a log with much more is new to the model there, and it should not be trusted."
        )
        parts += [
            tag("h4", "New to the model"),
            table(["joint", "samples beyond 1", "error there / elsewhere"], new, numeric=(1, 2)),
            tag("p", explained, class_="note"),
        ]
    if run.stretches:
        worst = [
            [
                one.recording,
                one.joint,
                f"{one.begin:.2f} to {one.end:.2f}",
                number(one.peak),
                one.reason,
            ]
            for one in run.stretches
        ]
        header = ["recording", "joint", "time [s]", "highest score", "new is the"]
        parts.append(
            tag(
                "details",
                tag("summary", "The worst stretches"),
                table(header, worst, numeric=(2, 3)),
            )
        )
    return joined(parts)
