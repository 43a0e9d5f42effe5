"""Write fitted actuators or a policy for other programs, as one ONNX file or as a folder that needs
NumPy alone, and check them.
"""

from dataclasses import dataclass
from pathlib import Path

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
        if self.actuators is not None and self.policy is not None:
            raise SettingError(
                "--actuators and --policy cannot be exported into one place; give one of them at "
                "a time."
            )
        if self.out.exists() and not self.overwrite:
            raise SettingError(
                f"{self.out} exists; give another --out, or --overwrite to replace the export in "
                "it."
            )
        if self.actuators is not None:
            found = self._export_actuators(self.actuators)
        elif self.policy is not None:
            found = self._export_policy(self.policy)
        else:
            raise SettingError(
                "There is nothing to export; give --actuators or --policy, the folder of one of "
                "them."
            )

        from rich.console import Console

        console = Console(highlight=False, markup=False)
        console.print(f"Wrote {self.out}", soft_wrap=True)
        console.print(f"Largest difference to {found}", soft_wrap=True)
        return 0

    def _export_actuators(self, folder: Path) -> str:
        from genan.actuator import export, load

        ensemble = load(folder)
        if self.format == "onnx":
            found = export.difference_onnx(ensemble, export.export_onnx(ensemble, self.out))
        else:
            found = export.difference_numpy(ensemble, export.export_numpy(folder, self.out))
        return f"the ensemble: {found:.1e} of the torque range ({export.TOLERANCE:.0e} is allowed)"

    def _export_policy(self, folder: Path) -> str:
        from genan.rl import export
        from genan.rl.policy import Policy

        policy = Policy.load(folder)
        if self.format == "onnx":
            found = export.difference_onnx(policy, export.export_onnx(policy, self.out))
        else:
            found = export.difference_numpy(policy, export.export_numpy(folder, self.out))
        limit = export.allowed(policy)
        return f"the policy: {found:.1e} of the largest action ({limit:.0e} is allowed)"
