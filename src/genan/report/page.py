"""Put the pages together: the report over everything that runs left, and the inspection of one
recording. One HTML file each, which opens offline and asks for nothing from anywhere."""

import base64
import itertools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from genan import words
from genan.data import Inspection, Summary
from genan.errors import refuse
from genan.evaluation.study_result import Figure, Value
from genan.files import place_folder, render, write_atomically
from genan.report import charts
from genan.report.gather import Found, Material, Runs, gather
from genan.report.inspection import lag_words
from genan.robot.package import VIRTUAL, robot_folder, robot_names
from genan.tasks.registry import task_entry, task_names
from genan.version import __version__

TITLE = "What a robot's actuators do, learnt from motion alone"
CONTENTS = "contents.csv"  # In the folder next to the page: every file there, and what it shows.
FILM_ROOM, PICTURE_ROOM = 9_000_000, 1_500_000  # In the page [bytes]; as text a third more.
NAMED = 4  # Runs that a row names, at most.
TEMPLATES = Path(__file__).with_name("templates")
_TYPES = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png"}


@dataclass(frozen=True)
class WrittenReport:
    """A report that is on the disk."""

    path: Path
    files: Path  # Folder of its pictures and tables.
    count: int  # How many there are.
    size: int  # Of the page [bytes].
    material: Material


def write_report(
    runs: Runs, out: Path, *, overwrite: bool = False, title: str = TITLE, files: bool = True
) -> WrittenReport:
    """Make the report on ``runs``, files and folders that genan's commands wrote. ``out``: the
    page; with ``files``, its charts go to ``<out>_files`` next to it as PNG, PDF and CSV.
    ``overwrite``: whether an earlier report there may be replaced."""
    folder = check_out(out, overwrite=overwrite)
    material = gather(runs, leave_out=folder.absolute())
    drawn: dict[str, Figure] = {}

    def named(chart: Figure, prefix: str = "") -> str:
        """A name for the chart that no other in the page has."""
        stem = words.slug(f"{prefix}-{chart.name}" if prefix else chart.name)
        names = (f"{stem}-{k}" if k > 1 else stem for k in itertools.count(1))
        name = next(name for name in names if name not in drawn)
        drawn[name] = chart
        return name

    page = _render(
        "report.html", title=title, material=material, named=named, files=folder.name * files,
        pictures=_embedded(material.pictures, PICTURE_ROOM, out.parent), **_about(material),
        films=_embedded(material.films, FILM_ROOM, out.parent), hardware=_hardware(material),
        versions=_versions(material),
    )  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    count = _write_charts(drawn, folder) if files else 0
    write_atomically(out, page)
    return WrittenReport(out, folder, count, len(page), material)


def _write_charts(drawn: Mapping[str, Figure], folder: Path) -> int:
    """The charts as files, in place of those of an earlier report, by its list; how many."""
    each = {name: charts.chart_files(chart) for name, chart in drawn.items()}
    content = {f"{name}.{end}": data for name in each for end, data in each[name].items()}
    rows = [(name, drawn[name.rpartition(".")[0]].title) for name in sorted(content)]
    content[CONTENTS] = charts.write_csv([("file", "what"), *rows])
    listed = folder / CONTENTS
    text = listed.read_text(encoding="utf-8", errors="replace") if listed.is_file() else ""
    place_folder(folder, content, lambda _: None)
    for name in {line.partition(",")[0] for line in text.splitlines()[1:]} - content.keys():
        if Path(name).name == name and name.endswith((".png", ".pdf", ".csv")):
            (folder / name).unlink(missing_ok=True)
    return len(rows)


def save_inspection_page(found: Inspection, head: Summary, pictures: Runs, folder: Path) -> Path:
    """Write ``inspection.html`` into ``folder``, with the pictures inside; returns the file."""
    shown = _embedded([Found("", path, None) for path in pictures], sys.maxsize, folder)
    title = f"Inspection of {head.path.name}"
    page = _render("inspection.html", title=title, found=found, pictures=shown, lag_words=lag_words)
    write_atomically(folder / "inspection.html", page)
    return folder / "inspection.html"


def check_out(out: Path, *, overwrite: bool) -> Path:
    """Refuse a page that is there already, or that is none; the folder that goes with it."""
    files = out.with_name(f"{out.stem}_files")
    there = [path for path in (out, files) if path.exists() and not overwrite]
    refuse(
        (out.is_dir(), f"{out} is a folder; give a file by --out, such as {out / 'report.html'}."),
        (out.suffix.lower() not in (".html", ".htm"),
         f"The report is an HTML file, so --out should end in .html, not {out.name!r}."),
        (files.is_file(), f"{files} is a file, and pictures and tables go to a folder so named."),
        (there, f"{there and there[0]} exists; give another --out, or --overwrite to replace it."),
    )  # fmt: skip
    return files


def _render(template: str, **context: Any) -> bytes:
    filters: Any = {"task_words": charts.task_words, "measured": _measured, "listed": _listed}
    path, known = TEMPLATES / template, {"plots": charts, "version": __version__}
    text = render(path, html=True, filters=filters, **known, **context)
    return text.encode("utf-8", errors="replace")


def _embedded(found: Sequence[Found[Any]], room: int, folder: Path) -> list[dict[str, Any]]:
    """Films or pictures: in the page while there is room (small ones first), linked beyond."""
    shown = {}
    for size, path in sorted((one.path.stat().st_size, one.path) for one in found):
        room -= size
        address = quote(os.path.relpath(path, folder.absolute()).replace(os.sep, "/"))
        if room >= 0:
            content = base64.b64encode(path.read_bytes()).decode()
            address = f"data:{_TYPES[path.suffix.lower()]};base64,{content}"
        shown[path] = {"inside": room >= 0, "address": address, "size": f"{size / 1e6:.1f} MB"}
    moving = lambda path: path.suffix.lower() == ".mp4"
    return [{"found": one, "moving": moving(one.path), **shown[one.path]} for one in found]


def _versions(material: Material) -> list[tuple[str, str, str]]:
    """Package, version, and the runs that were made with it."""
    artifacts = (*material.actuators, *material.policies)
    made = [
        *((one.label, one.content.record.get("versions")) for one in artifacts),
        *((one.label, one.content["versions"]) for one in material.inspections),
        *((one.label, one.content.versions) for one in material.evaluations),
        *((one.label, one.content.about.get("versions")) for one in material.transfers),
        *((one.label, job.versions) for one in material.studies for job in one.content.jobs),
        *((one.label, each) for one in material.searches for each in one.content.versions),
    ]
    rows = _grouped((pair, label) for label, found in made for pair in (found or {}).items())
    rows.sort(key=lambda row: row[0][0] not in ("genan", "python"))
    return [(*pair, runs) for pair, runs in rows]


def _hardware(material: Material) -> list[tuple[str, str]]:
    """What runs ran on, and the runs."""
    studies = [
        (_listed(job.hardware), f"study {one.content.study} ({one.content.size})")
        for one in material.studies
        for job in one.content.jobs
        if job.hardware
    ]
    trained = [(one.label, one.content.record.get("training") or {}) for one in material.actuators]
    fits = [(f"fitted on: {made['device']}", name) for name, made in trained if made.get("device")]
    return _grouped([*studies, *fits])


def _grouped(pairs: Iterable[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """Each key once, in order, with the first few of its runs and how many more there are."""
    found: dict[Any, dict[str, None]] = {}
    for key, run in pairs:
        found.setdefault(key, {})[run] = None
    more = lambda runs: f" and {len(runs) - NAMED} more" * (len(runs) > NAMED)
    return [(key, ", ".join([*runs][:NAMED]) + more(runs)) for key, runs in sorted(found.items())]


def _about(material: Material) -> dict[str, list[str]]:
    """What the tasks are that runs are about, and what the folder of each robot says about it."""
    tasks = {one.content.task for one in material.transfers}
    tasks |= {one.content.contract.task for one in material.policies}
    robots = {str(one.content.about.get("robot", "")) for one in material.transfers}
    robots |= {one.content.contract.robot for one in (*material.actuators, *material.policies)}
    names = {name.removeprefix(VIRTUAL) for name in robots} & set(robot_names())
    texts = [robot_folder(name) / "about.txt" for name in sorted(names)]
    return {
        "tasks": [task_entry(name).summary for name in task_names() if name in tasks],
        "robots": [text.read_text(encoding="utf-8").strip() for text in texts if text.is_file()],
    }


def _measured(value: Value | None, unit: str, factor: float = 1.0, ends: bool = True) -> str:
    """A value with its interval and unit: "4.44 (4.31 to 4.59) deg"."""
    if value is None:
        return "without bound"
    value = value.times(factor)
    low, high = (value.low, value.high) if ends else (None, None)
    return f"{words.interval(value.mean, low, high, unit)} {unit}"


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
