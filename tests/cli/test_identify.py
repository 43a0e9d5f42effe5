from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_identify_prints_the_table_and_draws(genan: Callable, tmp_path: Path) -> None:
    answer = genan("identify", "--robot", "virtual-pamy2", "--out", tmp_path / "bench")
    assert answer.code == 0, answer.err
    assert "With the lab's model structure" in answer.out and "Hysteresis loop" in answer.out
    assert "frequency" in answer.out and "damping" in answer.out and "[Hz]" in answer.out
    assert "Table object" not in answer.out
    assert "of 31 figures within 20 %" in answer.out and "without it" in answer.out
    for picture in ("frequency-response.png", "hysteresis.png"):
        assert (tmp_path / "bench" / picture).read_bytes().startswith(b"\x89PNG")


def test_identify_refuses_what_it_cannot_do(refused: Callable, tmp_path: Path) -> None:
    assert "'pendulum' to identify; there are: 'virtual-pamy2'" in refused(
        "identify", "--robot", "pendulum", "--out", tmp_path
    )
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(
        "identify", "--robot", "virtual-pamy2", "--out", tmp_path / "file"
    )
