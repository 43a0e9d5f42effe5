"""Write fitted actuators or a policy for other programs, as one ONNX file or as a folder that needs
NumPy alone, and check them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genan.errors import SettingError, listing

FORMATS = ("onnx", "numpy")


@dataclass(frozen=True, kw_only=True)
class Export:
    """Flags of ``genan export``."""

    actuators: Path | None = None
    """Folder of fitted actuators to export: the --out of 'genan fit'."""
    policy: Path | None = None
    """Folder of a policy to export instead: the --out of 'genan train'."""
    format: str
    """What to write: "onnx" (one file, run by onnxruntime and others) or "numpy" (a folder with its
    own runtime, for a robot's computer)."""
    out: Path
    """File (onnx) or folder (numpy) to write; it must not exist yet, unless --overwrite is
    given."""
    overwrite: bool = False
    """Replace the export that an earlier run put there."""

    def run(self) -> int:
        """Export, check, say what came of it; exit code."""
        if self.format not in FORMATS:
            raise SettingError(
                f"There is no format {self.format!r} to export to; the formats are: "
                f"{listing(FORMATS)}."
            )
        if (self.actuators is None) == (self.policy is None):
            raise SettingError(
                "Give the folder of one thing to export, --actuators or --policy, not "
                f"{'none' if self.policy is None else 'both'}."
            )
        if self.out.exists() and not self.overwrite:
            raise SettingError(
                f"{self.out} exists; give another --out, or --overwrite to replace the export."
            )
        folder: Any = self.actuators or self.policy
        export: Any
        if self.actuators is not None:
            from genan.actuator import export, load

            made, words = load(folder), f"of the torque range ({export.TOLERANCE:.0e} is allowed)"
        else:
            from genan.rl import export
            from genan.rl.policy import Policy

            made = Policy.load(folder)
            words = f"of the largest action ({export.allowed(made):.0e} is allowed)"
        if self.format == "onnx":
            found = export.difference_onnx(made, export.export_onnx(made, self.out))
        else:
            found = export.difference_numpy(made, export.export_numpy(folder, self.out))

        from rich.console import Console

        console = Console(highlight=False, markup=False)
        console.print(f"Wrote {self.out}", soft_wrap=True)
        what = "ensemble" if self.actuators is not None else "policy"
        console.print(f"Largest difference to the {what}: {found:.1e} {words}", soft_wrap=True)
        return 0
