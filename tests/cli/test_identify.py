from collections.abc import Callable
from pathlib import Path


def test_identify_refuses_what_it_cannot_do(refused: Callable, tmp_path: Path) -> None:
    assert "'pendulum' to identify; there are: 'virtual-pamy2'" in refused(
        "identify", "--robot", "pendulum", "--out", tmp_path
    )
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(
        "identify", "--robot", "virtual-pamy2", "--out", tmp_path / "file"
    )
