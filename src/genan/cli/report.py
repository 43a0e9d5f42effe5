"""Make one HTML page of everything that runs left: summary, charts, tables, films.

Looks through the given files and folders for what genan's commands write (studies, evaluations,
transfer trials, policies, actuators, inspections, films). The page opens offline; next to it every
chart is kept as PNG, PDF and CSV.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Report:
    """Flags of ``genan report``."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Files and folders of runs; folders are searched to the bottom."""
    out: Path = Path("report.html")
    """The page. Its pictures and tables go to <out>_files next to it. Neither may exist yet, unless
    --overwrite is given."""
    title: str | None = None
    """Title of the page."""
    overwrite: bool = False
    """Replace the report that an earlier run put there."""

    def run(self) -> int:
        """Find, draw, write; exit code."""
        from rich.console import Console

        from genan.errors import SettingError
        from genan.report.page import TITLE, check_out, write_report

        if not self.runs:
            raise SettingError(
                "Say what the report should be about: 'genan report runs --out report.html'."
            )
        check_out(self.out, overwrite=self.overwrite)
        written = write_report(
            self.runs, self.out, overwrite=self.overwrite, title=self.title or TITLE
        )
        console = Console(highlight=False, markup=False, soft_wrap=True)
        console.print(f"Found {written.material.counted()}.")
        for broken in written.material.broken:
            console.print(f"Not read: {broken.path}: {broken.content}.")
        console.print(f"Wrote {written.path} ({written.size / 1e6:.1f} MB); open it in a browser.")
        if written.count:
            console.print(f"Wrote {written.files}: {written.count} pictures and tables.")
        return 0
