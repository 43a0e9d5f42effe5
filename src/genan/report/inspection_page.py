"""An inspection as one HTML page that opens offline: the verdict, what looks wrong, tables and
pictures."""

from importlib import resources
from pathlib import Path

from genan.data import Inspection, Summary
from genan.files import write_atomically
from genan.report.page.films import data_address
from genan.report.page.markup import Markup, escaped, joined, table, tag
from genan.report.style import reading_unit
from genan.version import __version__

FILE = "inspection.html"
_CAPTIONS = {
    "trajectories.png": "Some of the trajectories.",
    "coverage.png": "Where the recording has been.",
    "resolution.png": "What acceleration adds to the position over some samples, in steps of the encoder: above the "
    "line it can be seen.",
    "lag.png": "How much of a joint's motion commands of each age explain beyond the joint's own past.",
    "spectrum.png": "Which frequencies commands excite, and which the motion has.",
    "timing.png": "Times without samples.",
}


def save_page(found: Inspection, head: Summary, pictures: tuple[Path, ...], folder: Path) -> Path:
    """Write ``inspection.html`` into ``folder``, whole or not at all, with the pictures inside;
    returns the file."""
    body = joined(
        [
            tag("h2", "Verdict"),
            tag("ul", *(tag("li", sentence) for sentence in found.verdict), class_="verdict"),
            tag("h2", "What looks wrong"),
            tag("ul", *(tag("li", sentence) for sentence in found.suspicious))
            if found.suspicious
            else tag("p", "Nothing suspicious."),
            tag("h2", "Joints"),
            _joints(found),
            tag("h2", "Commands"),
            _controls(found),
            tag("h2", "Pictures"),
            *(
                tag(
                    "figure",
                    tag("img", src=data_address(path), alt=_CAPTIONS[path.name]),
                    tag("figcaption", _CAPTIONS[path.name]),
                    class_="picture",
                )
                for path in pictures
            ),
        ],
        "\n",
    )
    style = (resources.files("genan.report.page") / "page.css").read_text(encoding="utf-8")
    amount = (
        f"{found.trajectories} trajectories, {found.duration:.4g} s at {1.0 / found.dt:.6g} Hz."
    )
    page = _TEMPLATE.format(
        title=escaped(f"Inspection of {head.path.name}"),
        style=style,
        amount=escaped(amount),
        body=body,
        version=__version__,
    )
    write_atomically(folder / FILE, page.encode("utf-8", errors="replace"))
    return folder / FILE


def _joints(found: Inspection) -> Markup:
    rows = []
    for joint, lag in zip(found.joints, found.lag.joints, strict=True):
        unit, factor = reading_unit(joint.unit)
        rows.append(
            [
                joint.name,
                f"{factor * joint.lowest:.4g} to {factor * joint.highest:.4g} {unit}",
                f"{factor * joint.speed_p99:.3g} {unit}/s",
                "-" if joint.quantum is None else f"{factor * joint.quantum:.3g} {unit}",
                f"{factor * joint.signal:.2g} {unit}",
                f"{100 * joint.signal_share:.2g} %",
                lag_words(lag.steps, found.dt),
                lag.control or "-",
                f"{100 * joint.stuck:.2g} %",
                f"{100 * joint.phase_covered:.0f} %",
            ]
        )
    header = [
        "joint",
        "positions",
        "speed, 99 %",
        "encoder step",
        "one-step signal",
        "of it motion",
        "lag",
        "most by",
    ]
    return table([*header, "stuck", "states visited"], rows, numeric=tuple(range(1, 10)))


def _controls(found: Inspection) -> Markup:
    rows = [
        [
            control.name,
            f"{control.lowest:.4g} to {control.highest:.4g} {'' if control.unit == '1' else control.unit}",
            f"{control.lower:.4g} to {control.upper:.4g}",
            f"{100 * control.saturated:.1f} %",
            f"{control.excited:.3g} Hz",
            f"{100 * control.covered:.0f} %",
        ]
        for control in found.controls
    ]
    return table(["control", "used", "range", "at an end", "95 % of its power below", "values and rates visited"], rows,
                 numeric=tuple(range(1, 6)))  # fmt: skip


def lag_words(steps: int | None, dt: float) -> str:
    """A joint's lag as a person reads it."""
    return "not told" if steps is None else f"{steps} ({1e3 * steps * dt:.3g} ms)"


_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}
@media (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark;
  --page: #16181b; --card: #1e2125; --ink: #e7e6e1; --soft: #a4a49e; --line: #373b40; --accent: #7cc0ec;
  --tint: #1c2831; }} }}
.page.single {{ display: block; }}
.single main > .box, .single .picture {{ max-width: none; }}
.single h2 {{ margin-top: 2.2rem; max-width: none; }}
.single .verdict {{ font-style: normal; }}
.single td {{ white-space: nowrap; }}
.single img {{ max-width: 100%; height: auto; background: #fff; }}
</style>
</head>
<body>
<header>
<div class="bar"><span class="brand">genan inspect</span></div>
<h1>{title}</h1>
<p>{amount}</p>
</header>
<div class="page single"><main>
{body}
</main></div>
<footer><p>Made by genan {version}. This file is complete: it opens offline and asks for nothing.</p></footer>
</body>
</html>
"""
