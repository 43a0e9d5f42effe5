"""The sections of the page. Each takes the material and gives HTML; an empty one is left out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genan.evaluation.study_result import Figure
from genan.report.page.figures import (
    error_figure,
    loss_figures,
    success,
    training_figures,
    transfer_figures,
)
from genan.report.page.films import PICTURE_ROOM, chosen, data_address, film_cards, link
from genan.report.page.gather import PICTURES, Found, Material
from genan.report.page.markup import Markup, Part, joined, table, tag
from genan.report.page.plots import plot
from genan.report.page.runs import Evaluated
from genan.report.page.summary import data_sentence
from genan.report.page.tables import figure_table
from genan.report.page.trust_section import trust_parts
from genan.report.page.words import duration, number, percent, slug, task_words
from genan.report.style import reading_unit


@dataclass
class Sheet:
    """What the sections need of the page, and what they leave for it."""

    folder: Path
    """Where the page will be."""
    files: str
    """Name of the folder beside it, for pictures and tables."""
    figures: dict[str, Figure] = field(default_factory=dict)
    """All figures so far, by a name that no other has."""

    def chart(self, figure: Figure, prefix: str = "") -> Markup:
        """A figure's place in the page: title, drawing, caption, table, and where to get it."""
        name = stem = slug(f"{prefix}-{figure.name}" if prefix else figure.name)
        k = 2
        while name in self.figures:
            name, k = f"{stem}-{k}", k + 1
        self.figures[name] = figure
        unit = "" if figure.unit in ("1", "") else f" [{figure.unit}]"
        above = (
            None
            if figure.kind == "stacked"
            else tag("p", f"{figure.quantity}{unit}", class_="quantity")
        )
        rows = plot(figure).get("rows", 0)
        log = None
        if figure.kind != "stacked" and figure.unit != "%":
            log = tag("button", "log scale", type="button", class_="log", data_for=name)
        files = [
            tag("a", form.upper(), href=link(Path(self.files) / f"{name}.{form}", Path()))
            for form in ("png", "pdf", "csv")
        ]
        return tag(
            "figure",
            tag("h4", figure.title),
            above,
            tag(
                "div",
                class_="plot",
                id=f"plot-{name}",
                data_figure=name,
                data_rows=str(rows) if rows else None,
                role="img",
                aria_label=f"{figure.title}; the table below has its numbers",
            ),
            tag("figcaption", figure.caption) if figure.caption else None,
            tag("div", log, tag("span", "Save as ", joined(files, " · ")), class_="tools"),
            tag("details", tag("summary", "Table"), figure_table(figure)),
            class_="chart",
            id=f"figure-{name}",
        )


def charts(made: Iterable[Markup]) -> Markup:
    """Figures beside each other where the page is wide enough."""
    return tag("div", *made, class_="charts")


def data_section(material: Material, sheet: Sheet) -> Markup:
    """Recordings and what is said of them."""
    parts: list[Part] = []
    for found in material.inspections:
        run = found.content
        parts += [tag("h3", run.file), tag("p", data_sentence(found), class_="verdict")]
        if len(run.suspicious) > 1:
            parts.append(tag("ul", *(tag("li", sentence) for sentence in run.suspicious)))
        rows = []
        for joint in run.joints:
            unit, factor = reading_unit(str(joint.get("unit", "")))
            span = (
                f"{number(factor * joint['lowest'])} to {number(factor * joint['highest'])} {unit}"
            )
            fast = f"{number(factor * joint['speed_p99'])} {unit}/s"
            rows.append(
                [str(joint.get("name", "")), span, fast, f"{100.0 * joint['phase_covered']:.0f} %"]
            )
        parts.append(
            table(["joint", "positions", "speed, 99 %", "states visited"], rows, numeric=(1, 2, 3))
        )
        parts.append(
            tag(
                "p",
                f"Recorded at {1.0 / run.dt:.6g} Hz. States visited: part of a grid of position and velocity.",
                class_="note",
            )
        )
    return joined([*parts, _pictures(material, sheet, "data")])


def _pictures(material: Material, sheet: Sheet, section: str) -> Part:
    """The pictures that belong to a section; beyond ``PICTURE_ROOM`` they are linked."""
    inside = chosen(material.pictures, PICTURE_ROOM)
    cards = []
    for found in material.pictures:
        if PICTURES[found.path.name][0] != section:
            continue
        words = tag("figcaption", found.content, " ", tag("span", found.label, class_="path"))
        if found.path in inside:
            shown = tag("img", src=data_address(found.path), alt=found.content)
        else:
            shown = tag("a", "open the picture", href=link(found.path, sheet.folder))
        cards.append(tag("figure", shown, words, class_="picture"))
    return joined(cards) if cards else None


def actuators_section(material: Material, sheet: Sheet) -> Markup:
    """Fitted actuators: error over time, the held-control test, how they came to be."""
    parts: list[Part] = []
    for found in material.evaluations:
        parts += [
            tag("h3", f"How accurate: {found.label}"),
            sheet.chart(error_figure(found)),
            _accuracies(found),
        ]
        parts.append(trust_parts(found, alone=len(material.evaluations) == 1))
        parts += [tag("p", note, class_="note") for note in found.content.notes]
    parts.append(_pictures(material, sheet, "actuators"))
    if material.actuators:
        rows = [
            [
                found.label,
                run.loss,
                f"{run.members} of {' x '.join(str(size) for size in run.hidden)}",
                f"{run.history[0]}, stride {run.history[1]}",
                "–" if run.trajectories is None else str(run.trajectories),
                f"{len(run.validation_loss) or '–'}",
            ]
            for found in material.actuators
            for run in (found.content,)
        ]
        parts += [
            tag("h3", "Fitted actuators"),
            table(
                ["run", "loss", "networks", "history", "trajectories", "epochs"],
                rows,
                numeric=(4, 5),
            ),
            charts(sheet.chart(figure) for figure in loss_figures(material.actuators)),
        ]
    return joined(parts)


def _accuracies(found: Found[Evaluated]) -> Markup:
    """Every model's errors, and whether it comes to rest when its controls are held."""
    run = found.content
    unit, factor = reading_unit(run.si_unit)
    rows: list[list[Part]] = []
    for model in run.models:
        last = model.curve[-1]
        verdict, fit = run.held.get(model.name, ("", False))
        mark = (
            None
            if not verdict
            else tag("span", "✓ rests" if fit else "✗ does not rest", class_="yes" if fit else "no")
        )
        rows.append(
            [
                model.name,
                number(factor * model.one_step.mean),
                "–" if last is None else number(factor * last.mean),
                f"{model.diverged} of {model.rollouts}" if model.diverged else "none",
                *([mark] if run.held else []),
            ]
        )
    end = duration(run.dt * len(run.models[0].curve))
    header = [
        "model",
        f"one step [{unit}]",
        f"after {end} [{unit}]",
        "ran away",
        *(["controls held"] if run.held else []),
    ]
    said = [
        tag("li", tag("strong", name), f": {verdict}") for name, (verdict, _) in run.held.items()
    ]
    explained = (
        "Controls held: a robot whose controls do not change comes to rest. A model that does not is no place to train "
        "a policy in, however small its errors."
    )
    return joined(
        [
            table(header, rows, numeric=(1, 2, 3)),
            tag("p", explained, class_="note") if said else None,
            tag("ul", *said) if said else None,
        ]
    )


def training_section(material: Material, sheet: Sheet) -> Markup:
    """Policies: learning curves, and how good they are in simulation."""
    rows = []
    for found in material.policies:
        run = found.content
        judged = "–"
        if run.judged is not None:
            rate, low, high, _ = run.judged
            judged = f"{percent(rate)} % ({percent(low)} to {percent(high)})"
        rows.append(
            [
                found.label,
                task_words(run.task),
                "–" if run.steps is None else f"{run.steps / 1e6:.3g} M",
                judged,
            ]
        )
    return joined(
        [
            charts(sheet.chart(figure) for figure in training_figures(material.policies)),
            table(["run", "task", "steps", "success in simulation"], rows, numeric=(2, 3)),
        ]
    )


def transfer_section(material: Material, sheet: Sheet) -> Markup:
    """Trials on the robot."""
    rows = []
    for found in material.transfers:
        trials = found.content
        for seed in trials.robot_seeds:
            part = trials.on(seed)
            rate = success(part)
            others = [
                f"{name} {count}" for name, count in list(part.outcomes().items())[1:] if count
            ]
            rows.append(
                [
                    found.label,
                    task_words(trials.task),
                    str(trials.about.get("robot", "")) if seed is None else f"robot {seed}",
                    f"{part.succeeded} of {len(part.trials)}",
                    f"{percent(rate.mean)} % ({percent(rate.low or 0.0)} to {percent(rate.high or 0.0)})",
                    ", ".join(others) or "–",
                ]
            )
    header = ["run", "task", "robot", "succeeded", "rate (95 %)", "other outcomes"]
    return joined(
        [
            *(sheet.chart(figure) for figure in transfer_figures(material.transfers)),
            table(header, rows, numeric=(3, 4)),
        ]
    )


def films_section(material: Material, sheet: Sheet) -> Markup:
    """Films."""
    return film_cards(material.films, sheet.folder)


def settings_table(settings: Mapping[str, Any]) -> Markup:
    """Settings of a run, in alphabetical order."""
    return table(
        ["setting", "value"], [[str(name), str(settings[name])] for name in sorted(settings)]
    )


Section = Callable[[Material, Sheet], Markup]


def filled(
    parts: Sequence[tuple[str, str, str, bool, Section]], material: Material, sheet: Sheet
) -> list[Markup]:
    """Sections with their headings. Of each: anchor, title, what it is about, whether there is
    anything, its maker."""
    return [
        tag(
            "section",
            tag("h2", title),
            tag("p", words, class_="lead"),
            make(material, sheet),
            id=anchor,
        )
        for anchor, title, words, there, make in parts
        if there
    ]
