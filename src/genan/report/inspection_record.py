"""An inspection as JSON can hold it: what ``genan inspect`` leaves for ``genan report``."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from genan.data import Inspection, Summary
from genan.files import write_atomically
from genan.provenance import versions

FORMAT, VERSION = "genan inspection", 1
FILE = "inspection.json"


def save_inspection(found: Inspection, head: Summary, fingerprint: str, folder: Path) -> Path:
    """Write ``inspection.json`` into ``folder``, whole or not at all; returns the file. SI units
    (rad or m, s)."""
    numbers = asdict(found)
    pairs, spectrum, verdict = (
        numbers.pop(name) for name in ("pairs_covered", "spectrum", "verdict")
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
    write_atomically(
        folder / FILE, (json.dumps(_plain(content), indent=1, allow_nan=False) + "\n").encode()
    )
    return folder / FILE


def _plain(part: Any) -> Any:
    """None for what is not a finite number: a control may have no bound."""
    if isinstance(part, dict):
        return {key: _plain(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(value) for value in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part
