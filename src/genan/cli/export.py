"""Write fitted actuators for other programs, as one ONNX file or as a folder that needs NumPy alone, and check them."""

from dataclasses import dataclass
from pathlib import Path

from genan.errors import SettingError, listing

FORMATS = ("onnx", "numpy")


@dataclass(frozen=True)
class Export:
    """Flags of ``genan export``."""

    actuators: Path
    """Folder of the fitted actuators: the --out of 'genan fit'."""
    format: str
    """What to write: "onnx" (one file, run by onnxruntime and others) or "numpy" (a folder with its own runtime, for a
    robot's computer)."""
    out: Path
    """File (onnx) or folder (numpy) to write; it must not exist yet, unless --overwrite is given."""
    overwrite: bool = False
    """Replace the export that an earlier run put there."""

    def run(self) -> int:
        """Export, check, say what came of it; exit code."""
        if self.format not in FORMATS:
            raise SettingError(f"There is no format {self.format!r} to export to; the formats are: {listing(FORMATS)}.")
        if self.out.exists() and not self.overwrite:
            raise SettingError(f"{self.out} exists; give another --out, or --overwrite to replace the export in it.")

        from rich.console import Console

        from genan.actuator import export, load

        ensemble = load(self.actuators)
        if self.format == "onnx":
            path = export.export_onnx(ensemble, self.out)
            found = export.difference_onnx(ensemble, path)
        else:
            path = export.export_numpy(self.actuators, self.out)
            found = export.difference_numpy(ensemble, path)
        console = Console(highlight=False, markup=False)
        console.print(f"Wrote {path}", soft_wrap=True)
        console.print(
            f"Largest difference to the ensemble: {found:.1e} of the torque range ({export.TOLERANCE:.0e} is allowed)",
            soft_wrap=True,
        )
        return 0
