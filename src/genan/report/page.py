"""Put the pages together: the report over everything that runs left, and the inspection of one
recording. One HTML file each, which opens offline and asks for nothing from anywhere."""

import base64
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from genan import words
from genan.data import Inspection, Summary
from genan.errors import SettingError
from genan.evaluation.study_result import Figure, Value
from genan.files import write_atomically
from genan.report import charts as run_charts
from genan.report.charts import chart_files, chart_svg, chart_table, write_csv
from genan.report.gather import PICTURES, Found, Material, gather
from genan.report.inspection import lag_words
from genan.robot.package import VIRTUAL, robot_folder, robot_names
from genan.tasks.registry import task_entry, task_names
from genan.version import __version__

TITLE = "What a robot's actuators do, learnt from motion alone"
CONTENTS = "contents.csv"  # In the folder next to the page: every file there, and what it shows.
#: Bytes of film, and of pictures, in the page; written as text they become a third more.
FILM_ROOM, PICTURE_ROOM = 9_000_000, 1_500_000
#: Runs that a row names, at most.
NAMED = 4
#: Tiles with large numbers, at most.
TILES = 8
_TYPES = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png"}


@dataclass(frozen=True)
class WrittenReport:
    """A report that is on the disk."""

    path: Path
    files: Path  # Folder of its pictures and tables.
    count: int  # How many there are.
    size: int  # Of the page [bytes].
    material: Material


@dataclass
class _Charts:
    """The charts of a page so far, by a name that no other has."""

    files: str | None  # Name of the folder of their files; None where there are none.
    drawn: dict[str, Figure] = field(default_factory=dict)

    def __call__(self, chart: Figure, prefix: str = "") -> dict[str, Any]:
        """What the page needs to show the chart."""
        name = stem = words.slug(f"{prefix}-{chart.name}" if prefix else chart.name)
        k = 2
        while name in self.drawn:
            name, k = f"{stem}-{k}", k + 1
        self.drawn[name] = chart
        header, rows = chart_table(chart)
        kinds = () if self.files is None else ("png", "pdf", "csv")
        links = {kind.upper(): quote(f"{self.files}/{name}.{kind}") for kind in kinds}
        return {"name": name, "chart": chart, "header": header, "rows": rows, "links": links}


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    overwrite: bool = False,
    title: str = TITLE,
    files: bool = True,
) -> WrittenReport:
    """Make the report on ``runs``.

    Args:
        runs: files and folders that genan's commands wrote.
        out: the page; its pictures and tables go to ``<out>_files`` next to it.
        overwrite: whether an earlier report there may be replaced.
        title: of the page.
        files: whether to write the charts as PNG, PDF and CSV too.
    """
    check_out(out, overwrite=overwrite)
    folder = files_folder(out)
    material = gather(runs, leave_out=folder.absolute())
    charts = _Charts(folder.name if files else None)
    page = _render("report.html", title=title, **_context(material, charts, out.parent))
    content = {
        f"{name}.{kind}": data
        for name, chart in (charts.drawn if files else {}).items()
        for kind, data in chart_files(chart).items()
    }
    rows = [(name, charts.drawn[name.rpartition(".")[0]].title) for name in sorted(content)]
    out.parent.mkdir(parents=True, exist_ok=True)
    if files:
        _write_files(folder, {**content, CONTENTS: write_csv([("file", "what"), *rows])})
    write_atomically(out, page)
    return WrittenReport(out, folder, len(rows), len(page), material)


def save_inspection_page(
    found: Inspection, head: Summary, pictures: tuple[Path, ...], folder: Path
) -> Path:
    """Write ``inspection.html`` into ``folder``, with the pictures inside; returns the file."""
    shown = _files_in_page([Found("", path, None) for path in pictures], sys.maxsize, folder)
    title = f"Inspection of {head.path.name}"
    page = _render("inspection.html", title=title, found=found, pictures=shown, lag_words=lag_words)
    write_atomically(folder / "inspection.html", page)
    return folder / "inspection.html"


def files_folder(out: Path) -> Path:
    """The folder next to the page ``out``."""
    return out.with_name(f"{out.stem}_files")


def check_out(out: Path, *, overwrite: bool) -> None:
    """Refuse a page that is there already, or that is no page."""
    if out.is_dir():
        raise SettingError(
            f"{out} is a folder; give the name of a file by --out, such as {out / 'report.html'}."
        )
    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(
            f"The report is an HTML file, so --out should end in .html, not "
            f"{out.suffix or out.name!r}."
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


def _render(template: str, **context: Any) -> bytes:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("genan.report")
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined, extensions=["jinja2.ext.do"],
    )  # fmt: skip
    for function in (
        words.number, words.percent, words.duration, words.plural, words.slug, words.interval,
        words.reading_unit, words.with_unit, words.time_ahead, run_charts.task_words, _measured,
        _listed,
    ):  # fmt: skip
        environment.filters[function.__name__.lstrip("_")] = function
    environment.filters["svg"] = chart_svg
    page = environment.get_template(template).render(version=__version__, **context)
    return page.encode("utf-8", errors="replace")


def _context(material: Material, charts: _Charts, folder: Path) -> dict[str, Any]:
    """Everything that the report's template shows."""
    done = [found for found in material.transfers if found.content.trials]
    studies = [
        {
            "found": found,
            "anchor": words.slug(f"study-{found.label}"),
            "charts": [
                charts(figure, f"{found.content.study}-{found.content.size}")
                for figure in found.content.figures
            ],
        }
        for found in material.studies
    ]
    pictures = _files_in_page(material.pictures, PICTURE_ROOM, folder)
    return {
        "material": material,
        "tiles": [(one, run_charts.success(one.content)) for one in done] * (len(done) <= TILES),
        "robots": _about_robots(material),
        "tasks": _about_tasks(material),
        "transfer_charts": [charts(one) for one in run_charts.transfer_charts(material.transfers)],
        "error_charts": [charts(run_charts.error_chart(one)) for one in material.evaluations],
        "loss_charts": [charts(one) for one in run_charts.loss_charts(material.actuators)],
        "training_charts": [charts(one) for one in run_charts.training_charts(material.policies)],
        "studies": studies,
        "pictures": {
            section: [one for one in pictures if one["found"].path.stem in names]
            for section, names in PICTURES.items()
        },
        "films": _files_in_page(material.films, FILM_ROOM, folder),
        "versions": _versions(material),
        "hardware": _hardware(material),
        "success": run_charts.success,
        "judged": run_charts.judged,
        "epochs": lambda run: len(run_charts.validation_losses(run)),
    }


def _files_in_page(found: Sequence[Found[Any]], room: int, folder: Path) -> list[dict[str, Any]]:
    """Films or pictures: inside the page while there is room (small ones first), linked beyond."""
    inside: set[Path] = set()
    sizes = {one.path: one.path.stat().st_size for one in found}
    for path in sorted(sizes, key=lambda path: (sizes[path], path)):
        room -= sizes[path]
        if room >= 0:
            inside.add(path)
    return [
        {
            "found": one,
            "inside": one.path in inside,
            "address": _address(one.path, None if one.path in inside else folder),
            "size": f"{sizes[one.path] / 1e6:.1f} MB",
            "moving": one.path.suffix.lower() == ".mp4",
        }
        for one in found
    ]


def _address(path: Path, start: Path | None) -> str:
    """Where the file is from the folder ``start``; None: an address that holds all of it."""
    if start is not None:
        return quote(os.path.relpath(path, start.absolute()).replace(os.sep, "/"))
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:{_TYPES[path.suffix.lower()]};base64,{content}"


def _made_with(material: Material) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Each run that says so, and the versions it was made with."""
    for artifact in (*material.actuators, *material.policies):
        yield artifact.label, artifact.content.record.get("versions") or {}
    read: tuple[Found[Any], ...] = (*material.inspections, *material.evaluations)
    yield from ((one.label, one.content.versions) for one in read)
    for transfer in material.transfers:
        yield transfer.label, transfer.content.about.get("versions") or {}
    for study in material.studies:
        yield from ((study.label, job.versions) for job in study.content.jobs)
    for search in material.searches:
        yield from ((search.label, versions) for versions in search.content.versions)


def _versions(material: Material) -> list[tuple[str, str, str]]:
    """Package, version, and the runs that were made with it."""
    rows = _grouped(
        (pair, label) for label, found in _made_with(material) for pair in found.items()
    )
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
    return [
        (
            key,
            ", ".join(list(runs)[:NAMED]) + f" and {len(runs) - NAMED} more" * (len(runs) > NAMED),
        )
        for key, runs in sorted(found.items())
    ]


def _about_tasks(material: Material) -> list[str]:
    """What each task is that runs are about."""
    found = {one.content.task for one in material.transfers}
    found |= {one.content.contract.task for one in material.policies}
    return [task_entry(name).summary for name in task_names() if name in found]


def _about_robots(material: Material) -> list[str]:
    """What the folder of each robot says about it in ``about.txt``."""
    found = {str(one.content.about.get("robot", "")) for one in material.transfers}
    found |= {one.content.contract.robot for one in (*material.actuators, *material.policies)}
    names = {name.removeprefix(VIRTUAL) for name in found} & set(robot_names())
    paths = [robot_folder(name) / "about.txt" for name in sorted(names)]
    return [path.read_text(encoding="utf-8").strip() for path in paths if path.is_file()]


def _measured(value: Value | None, unit: str, factor: float = 1.0, ends: bool = True) -> str:
    """A value with its interval and unit: "4.44 (4.31 to 4.59) deg"."""
    value = run_charts.scaled(value, factor)
    if value is None:
        return "without bound"
    low, high = (value.low, value.high) if ends else (None, None)
    return f"{words.interval(value.mean, low, high, unit)} {unit}"


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write them, all or none, and remove what only an earlier report put there."""
    new = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        new.mkdir(parents=True)
        for name, content in files.items():
            (new / name).write_bytes(content)
        if not folder.exists():
            new.replace(folder)
            return
        listed = folder / CONTENTS
        text = listed.read_text(encoding="utf-8", errors="replace") if listed.is_file() else ""
        for line in text.splitlines()[1:]:
            name = line.partition(",")[0]
            mine = Path(name).name == name and name.endswith((".png", ".pdf", ".csv"))
            if mine and name not in files:
                (folder / name).unlink(missing_ok=True)
        for name in files:
            (new / name).replace(folder / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
