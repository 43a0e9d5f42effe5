"""The checksum against published values and a reference that goes bit by bit."""

import numpy as np
import pytest

from genan.data.importing import crc32c as module
from genan.data.importing.crc32c import crc32c, masked


def _reference(data: bytes) -> int:
    """As the definition says: one bit after the other."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.fixture(params=["numpy", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(module, "_compiled", lambda: None)
    elif module._compiled() is None:
        pytest.skip("google-crc32c is not installed")


@pytest.mark.usefixtures("way")
def test_published_values() -> None:
    """RFC 3720, appendix B.4, and the check value of the polynomial."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(bytes(range(31, -1, -1))) == 0x113FDB5C
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 4097])
def test_any_length_and_in_parts(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    assert crc32c(data) == _reference(data)
    assert crc32c(data[length // 3 :], crc32c(data[: length // 3])) == _reference(data)


def test_blocks_of_many_parts_equal_the_sum_of_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_compiled", lambda: None)
    data = np.random.default_rng(0).bytes((1 << 20) + 4321)
    crc = 0
    for first in range(0, len(data), 200):
        crc = crc32c(data[first : first + 200], crc)
    assert crc32c(data) == crc


def test_the_mask_is_that_of_tensorboard() -> None:
    tensorboard = pytest.importorskip("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
    for data in (b"", b"abc", bytes(100)):
        assert masked(crc32c(data)) == tensorboard.masked_crc32c(data)
