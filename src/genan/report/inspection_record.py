"""``inspection.json``: what ``genan inspect`` keeps and ``genan report`` reads."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from genan.data import Inspection, Summary
from genan.errors import DataError
from genan.files import write_atomically
from genan.provenance import versions

FORMAT, VERSION = "genan inspection", 1
FILE = "inspection.json"


@dataclass(frozen=True)
class InspectionRecord:
    """What the report shows of an inspection. SI units."""

    file: str
    trajectories: int
    duration: float  # All trajectories together [s].
    dt: float  # Between two samples [s].
    joints: tuple[Mapping[str, Any], ...]
    """Each with ``name``, ``unit``, ``lowest``, ``highest``, ``speed_p99``, ``phase_covered``."""
    suspicious: tuple[str, ...]  # What looks wrong, one sentence each.
    versions: Mapping[str, str]

    @classmethod
    def load(cls, path: Path) -> "InspectionRecord":
        """Read ``inspection.json``."""
        try:
            content = json.loads(path.read_bytes())
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"format {content['format']!r}, version {content['version']}")
            for joint in content["joints"]:
                numbers = ("lowest", "highest", "speed_p99", "phase_covered")
                joint |= {name: float(joint[name]) for name in numbers}
            return cls(
                file=str(content["file"]),
                trajectories=int(content["trajectories"]),
                duration=float(content["duration"]),
                dt=float(content["dt"]),
                joints=tuple(content["joints"]),
                suspicious=tuple(map(str, content["suspicious"])),
                versions=dict(content.get("versions") or {}),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} is not the result of an inspection ({error}); run 'genan inspect' again."
            ) from None


def save_inspection(found: Inspection, head: Summary, fingerprint: str, folder: Path) -> Path:
    """Write ``inspection.json`` into ``folder``; returns the file. SI units (rad or m, s)."""
    numbers = asdict(replace(found, data=None))
    _, pairs, spectrum, verdict = (
        numbers.pop(name) for name in ("data", "pairs_covered", "spectrum", "verdict")
    )
    numbers["timing"] = None if found.timing is None else found.timing.as_json()
    for joint, measured in zip(numbers["joints"], found.joints, strict=True):
        joint["signal_share"] = measured.signal_share
    content = {
        "format": FORMAT,
        "version": VERSION,
        "file": head.path.name,
        "fingerprint": fingerprint,
        "unfinished": head.unfinished,
        "verdict": " ".join(found.suspicious) or "Nothing suspicious.",
        "words": list(verdict),
        **numbers,
        "spectrum": {name: np.round(values, 9).tolist() for name, values in spectrum.items()},
        "pairs_covered": [
            {"joints": list(pair), "covered": covered} for pair, covered in pairs.items()
        ],
        "provenance": head.provenance,
        "versions": versions(),
    }
    text = json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"
    write_atomically(folder / FILE, text.encode())
    return folder / FILE


def lag_words(steps: int | None, dt: float) -> str:
    """A joint's lag as a person reads it: "3 (6 ms)"."""
    return "unknown" if steps is None else f"{steps} ({1e3 * steps * dt:.3g} ms)"


def _plain(part: Any) -> Any:
    """None for what is not a finite number: a control may have no bound."""
    if isinstance(part, dict):
        return {key: _plain(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(value) for value in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part
