"""``genan export``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import genan
from genan.cli import terminal
from genan.errors import listing, refuse


@dataclass(frozen=True, kw_only=True)
class Export(terminal.KeyFlags):
    """Write fitted actuators or a policy for other programs, as one ONNX file or as a folder that
    needs NumPy alone, and check them."""

    actuators: Path | None = None  # Fitted actuators to export: the --out of 'genan fit'.
    policy: Path | None = None  # A policy to export instead: the --out of 'genan train'.
    format: str
    """onnx: one file, for onnxruntime and others; numpy: a folder with its own runtime."""
    out: Path  # File (onnx) or folder (numpy); it must not exist, unless --overwrite is given.
    overwrite: bool = False  # Replace the export that an earlier run put there.

    def run(self) -> None:
        formats, came = ("onnx", "numpy"), "none" if self.policy is None else "both"
        none = f"There is no format {self.format!r} to export to"
        one = "Give the folder of one thing to export, --actuators or --policy"
        refuse(
            (self.format not in formats, f"{none}; the formats are: {listing(formats)}."),
            ((self.actuators is None) == (self.policy is None), f"{one}, not {came}."),
        )
        terminal.check_out(self.out, overwrite=self.overwrite, folder=False)
        folder: Any = self.actuators or self.policy
        export: Any
        if self.actuators is not None:
            from genan.actuator import export

            made = genan.load(folder)
            what, words = "ensemble", f"of the torque range ({export.TOLERANCE:.0e} is allowed)"
        else:
            from genan.rl import export

            made = genan.Policy.load(folder)
            what, words = "policy", f"of the largest action ({export.allowed(made):.0e} is allowed)"
        if self.format == "onnx":
            found = export.difference_onnx(made, export.export_onnx(made, self.out))
        else:
            found = export.difference_numpy(made, export.export_numpy(folder, self.out))
        print(f"Wrote {self.out}\nLargest difference to the {what}: {found:.1e} {words}")
