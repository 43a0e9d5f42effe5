"""``genan report``."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from genan.errors import refuse


@dataclass(frozen=True)
class Report:
    """Make one HTML page of everything that runs left: summary, charts, tables, films.

    Looks through the given files and folders for what genan's commands write (studies, evaluations,
    transfer trials, policies, actuators, inspections, films). The page opens offline; next to it
    every chart is kept as PNG, PDF and CSV.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]  # Files and folders, searched to the bottom.
    out: Path = Path("report.html")
    """The page; pictures and tables go to <out>_files. Both new, unless --overwrite."""
    title: str | None = None  # Title of the page.
    overwrite: bool = False  # Replace the report that an earlier run put there.

    def run(self) -> None:
        from genan.report.page import TITLE, check_out, write_report

        about = "Say what the report should be about: 'genan report runs --out report.html'."
        refuse((not self.runs, about))
        check_out(self.out, overwrite=self.overwrite)
        title = self.title or TITLE
        written = write_report(self.runs, self.out, overwrite=self.overwrite, title=title)
        print(f"Found {written.material.counted()}.")
        for broken in written.material.broken:
            print(f"Not read: {broken.path}: {broken.content}.")
        print(f"Wrote {written.path} ({written.size / 1e6:.1f} MB); open it in a browser.")
        if written.count:
            print(f"Wrote {written.files}: {written.count} pictures and tables.")
