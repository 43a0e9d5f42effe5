"""The table of a figure, for the page and as CSV: a row for each place and series, ours and the
paper's."""

import csv
import io
from collections.abc import Sequence

from genan.evaluation.study_result import Figure, Value
from genan.report.page.markup import Markup, table
from genan.report.page.words import place_words, written

HEADER = (
    "place",
    "series",
    "value",
    "low",
    "high",
    "count",
    "paper value",
    "paper low",
    "paper high",
    "note",
)
#: A cell that begins like this is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def figure_table(figure: Figure) -> Markup:
    """As a person reads it."""
    compared = any(value is not None for series in figure.series for value in series.paper)
    unit = "" if figure.unit == "1" else f" [{figure.unit}]"
    header = [figure.axis or "run", *([""] if len(figure.series) > 1 else []), f"ours{unit} (95 %)"]
    header += [f"the paper's{unit} (95 %)"] if compared else []
    header += ["of"] if _any(figure, "count") else []
    header += ["note"] if _any(figure, "note") else []
    rows = []
    for at, place in enumerate(figure.places):
        for series in figure.series:
            ours, paper = series.values[at], series.paper[at] if series.paper else None
            if ours is None and paper is None:
                continue
            row = [place_words(place)]
            row += [series.name] if len(figure.series) > 1 else []
            row += ["–" if ours is None else written(ours, figure.unit)]
            row += (["–" if paper is None else written(paper, figure.unit)]) if compared else []
            row += (
                ["" if ours is None or ours.count is None else str(ours.count)]
                if _any(figure, "count")
                else []
            )
            row += ["" if ours is None else ours.note or ""] if _any(figure, "note") else []
            rows.append(row)
    return table(header, rows)


def figure_csv(figure: Figure) -> bytes:
    """All of it: full digits, in the figure's unit."""
    rows: list[Sequence[object]] = [(figure.axis or HEADER[0], *HEADER[1:])]
    for at, place in enumerate(figure.places):
        for series in figure.series:
            ours, paper = series.values[at], series.paper[at] if series.paper else None
            rows.append(
                (
                    place,
                    series.name,
                    *_numbers(ours),
                    None if ours is None else ours.count,
                    *_numbers(paper),
                    None if ours is None else ours.note,
                )
            )
    return write_csv(rows)


def write_csv(rows: Sequence[Sequence[object]]) -> bytes:
    """Rows as CSV that a spreadsheet takes for text and numbers only."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_cell(cell) for cell in row])
    return text.getvalue().encode()


def _cell(cell: object) -> object:
    harmful = isinstance(cell, str) and cell.startswith(_FORMULA)
    return f"'{cell}" if harmful else "" if cell is None else cell


def _numbers(value: Value | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if value is None else (value.mean, value.low, value.high)


def _any(figure: Figure, name: str) -> bool:
    return any(
        getattr(value, name) is not None
        for series in figure.series
        for value in series.values
        if value is not None
    )
