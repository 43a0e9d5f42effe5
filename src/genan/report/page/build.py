"""Put the page together and write it: one HTML file, and beside it every figure and table as files
of their own."""

import importlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from genan.errors import GenanError, SettingError
from genan.files import write_atomically
from genan.report.page.gather import PICTURES, Material, gather
from genan.report.page.markup import Markup, escaped, joined, tag
from genan.report.page.plots import plot
from genan.report.page.sections import (
    Section,
    Sheet,
    actuators_section,
    data_section,
    filled,
    films_section,
    training_section,
    transfer_section,
)
from genan.report.page.setup_section import setup_section
from genan.report.page.still import still
from genan.report.page.study_sections import studies_section, study_anchor
from genan.report.page.tables import figure_csv, write_csv
from genan.report.page.top import top
from genan.version import __version__

TITLE = "What a robot's actuators do, learnt from motion alone"
CONTENTS = "contents.csv"
"""In the folder beside the page: every file there, and what it shows."""


@dataclass(frozen=True)
class Written:
    """A report that is on the disk."""

    path: Path
    files: Path
    """Folder of its pictures and tables."""
    count: int
    """How many these are."""
    size: int
    """Of the page [bytes]."""
    material: Material


def files_folder(out: Path) -> Path:
    """The folder beside the page ``out``."""
    return out.with_name(f"{out.stem}_files")


def write_report(
    runs: Sequence[Path], out: Path, *, overwrite: bool = False, title: str = TITLE
) -> Written:
    """Make the report on ``runs``.

    Args:
        runs: files and folders that genan's commands wrote.
        out: the page; its pictures and tables go to ``<out>_files`` beside it.
        overwrite: whether an earlier report there may be replaced.
        title: of the page.
    """
    check_out(out, overwrite=overwrite)
    plotly = plotly_source()
    material = gather(runs, leave_out=files_folder(out).absolute())
    sheet = Sheet(folder=out.parent, files=files_folder(out).name)
    page = _page(material, sheet, plotly, title)
    stills = {
        f"{name}.{form}": data
        for name, figure in sheet.figures.items()
        for form, data in still(figure).items()
    }
    tables = {f"{name}.csv": figure_csv(figure) for name, figure in sheet.figures.items()}
    rows = [
        ("file", "what"),
        *((file, sheet.figures[file.rpartition(".")[0]].title) for file in sorted(stills | tables)),
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    _write_files(files_folder(out), {**stills, **tables, CONTENTS: write_csv(rows)})
    write_atomically(out, page)
    return Written(out, files_folder(out), len(rows) - 1, len(page), material)


def check_out(out: Path, *, overwrite: bool) -> None:
    """Refuse a page that is there already, or that is no page."""
    if out.is_dir():
        raise SettingError(
            f"{out} is a folder; give the name of a file by --out, such as {out / 'report.html'}."
        )
    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(
            f"The report is an HTML file, so --out should end in .html, not {out.suffix or out.name!r}."
        )
    files = files_folder(out)
    if files.exists() and not files.is_dir():
        raise SettingError(
            f"{files} is a file, but the report's pictures and tables go to a folder of that name."
        )
    there = next((path for path in (out, files) if path.exists()), None)
    if there is not None and not overwrite:
        raise SettingError(
            f"{there} exists; give another --out, or --overwrite to replace the earlier report."
        )


def plotly_source() -> str:
    """The program that draws the figures, as plotly brings it."""
    try:
        found = importlib.import_module("plotly.offline").get_plotlyjs()
    except ModuleNotFoundError:
        raise GenanError(
            "The report's figures need the package plotly; 'pip install plotly' brings it."
        ) from None
    return str(found).replace("</script", "<\\/script")


def _page(material: Material, sheet: Sheet, plotly: str, title: str) -> bytes:
    body = [top(material), *filled(_sections(material), material, sheet)]
    here = resources.files(__package__)
    figures = json.dumps(
        {name: plot(figure) for name, figure in sheet.figures.items()}, allow_nan=False
    )
    parts: Mapping[str, str] = {
        "title": escaped(title),
        "version": escaped(__version__),
        "counted": escaped(material.counted()),
        "contents": _contents(material),
        "body": joined(body, "\n"),
        "style": (here / "page.css").read_text(encoding="utf-8"),
        "script": (here / "page.js").read_text(encoding="utf-8"),
        "plotly": plotly,
        "figures": figures.replace("<", "\\u003c"),  # no text can end the script that it stands in
    }
    template = Template((here / "template.html").read_text(encoding="utf-8"))
    return template.substitute(parts).encode("utf-8", errors="replace")


def _sections(material: Material) -> list[tuple[str, str, str, bool, Section]]:
    return [
        (
            "transfer",
            "Trials on the robot",
            "A policy that only ever practised in simulation is put on the robot, again and again, and its successes "
            "are counted.",
            bool(material.transfers),
            transfer_section,
        ),
        (
            "data",
            "The data",
            "Everything is learnt from recordings of the robot moving: joint positions and controls. What is in them "
            "bounds what can be learnt.",
            bool(
                material.inspections
                or any(PICTURES[one.path.name][0] == "data" for one in material.pictures)
            ),
            data_section,
        ),
        (
            "actuators",
            "The actuators",
            "A network learns which torques the actuators exert. It is judged by simulating recorded motions anew: how "
            "far from the recording does the simulated arm end up?",
            bool(material.evaluations or material.actuators),
            actuators_section,
        ),
        (
            "training",
            "Training the policies",
            "In the simulator with these actuators, policies learn by trial and error.",
            bool(material.policies),
            training_section,
        ),
        (
            "studies",
            "Studies: beside the paper",
            "Each repeats a figure or table of the paper (arXiv 2604.09487), whose robot was the real PAMY2. Numbers "
            "of two robots need not be equal; findings, which setting is better than which, should be.",
            bool(material.studies),
            studies_section,
        ),
        ("films", "Films", "What it looks like.", bool(material.films), films_section),
        (
            "setup",
            "With what it was made",
            "Versions, hardware and configuration.",
            True,
            setup_section,
        ),
    ]


def _contents(material: Material) -> Markup:
    lines = [
        tag("li", tag("a", "In short", href="#summary")),
        tag("li", tag("a", "What this is about", href="#about")),
    ]
    for anchor, title, _, there, _ in _sections(material):
        if not there:
            continue
        below = None
        if anchor == "studies":
            entries = (
                (study_anchor(one), f"{one.content.title} ({one.content.size})")
                for one in material.studies
            )
            below = tag("ul", *(tag("li", tag("a", name, href=f"#{at}")) for at, name in entries))
        lines.append(tag("li", tag("a", title, href=f"#{anchor}"), below))
    return tag("ul", *lines)


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write them, all or none, and take away what an earlier report put there and this one does
    not."""
    new = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        new.mkdir(parents=True)
        for name, content in files.items():
            (new / name).write_bytes(content)
        if not folder.exists():
            new.replace(folder)
            return
        for line in _lines(folder / CONTENTS)[1:]:
            name = line.partition(",")[0]
            if (
                name not in files
                and Path(name).name == name
                and name.endswith((".png", ".pdf", ".csv"))
            ):
                (folder / name).unlink(missing_ok=True)
        for name in files:
            (new / name).replace(folder / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
