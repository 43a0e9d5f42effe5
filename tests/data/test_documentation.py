"""The examples in docs/data-format.md run and give the same recording."""

import re
from pathlib import Path

import numpy as np
import pytest

from genan.data import load

PAGE = Path(__file__).parents[2] / "docs" / "data-format.md"


def test_the_examples_agree(tmp_path, monkeypatch):
    if not PAGE.exists():
        pytest.skip(f"the documentation is not here ({PAGE})")
    rng = np.random.default_rng(0)
    logs = [
        (rng.standard_normal((length, 2)), rng.uniform(-1, 1, (length, 2))) for length in (5, 9)
    ]
    fingerprints = []
    for number, example in enumerate(
        re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        exec(example, {"my_logs": logs})
        recording = load("mine.h5")
        assert recording.provenance["robot"] == "my arm" and len(recording) == 2
        fingerprints.append(recording.fingerprint)
    assert len(fingerprints) == 2 and fingerprints[0] == fingerprints[1]
