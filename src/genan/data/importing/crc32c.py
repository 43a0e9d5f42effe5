"""The checksum of TFRecords (CRC-32C, Castagnoli), hundreds of megabytes a second in NumPy.

The remainder of a long message is the sum of the remainders of its parts, each moved on by what
follows it; so many parts are worked on side by side, two bytes of each at a time, and added up in
pairs.
"""

import importlib
from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import UInt32

_POLYNOMIAL = 0x82F63B78

#: Bytes of a part, and most parts that are worked on side by side (both powers of two).
_PART, _PARTS = 256, 4096

#: Shorter messages are done byte by byte.
_SHORT = 256


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """The checksum of ``data``, or, given that of what stood before it, of both together."""
    if (compiled := _compiled()) is not None:
        return int(compiled(crc, bytes(data)))
    register = crc ^ 0xFFFFFFFF
    view = memoryview(data)
    for start in range(0, len(view), _PART * _PARTS):
        block = view[start : start + _PART * _PARTS]
        if len(block) < _SHORT:
            register = _bytewise(block, register)
        else:
            register = _moved(register, len(block)) ^ _remainder(block)
    return register ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """The checksum as TFRecords hold it: turned and shifted, so that checksums of checksums do not
    cancel."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _compiled() -> Callable[[int, bytes], int] | None:
    """A compiled routine, where one is installed."""
    try:
        library = importlib.import_module("google_crc32c")
    except ImportError:
        return None
    return library.extend if library.implementation == "c" else None


@cache
def _bytes_table() -> list[int]:
    """What each byte leaves behind."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@cache
def _pairs_table() -> UInt32[np.ndarray, "65536"]:
    """What each two bytes leave behind."""
    one = np.array(_bytes_table(), np.uint32)
    value = np.arange(65536, dtype=np.uint32)
    for _ in range(2):
        value = one[value & 0xFF] ^ (value >> np.uint32(8))
    return value


def _bytewise(data: bytes | memoryview, register: int) -> int:
    table = _bytes_table()
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _remainder(data: memoryview) -> int:
    """Of a block, begun with an empty register: zeros in front of it change nothing, so it is
    filled up with them."""
    parts = 1 << max(0, (len(data) - 1) // _PART).bit_length()
    padded = np.zeros(parts * _PART, np.uint8)
    padded[len(padded) - len(data) :] = np.frombuffer(data, np.uint8)
    pairs = np.ascontiguousarray(padded.view("<u2").reshape(parts, -1).T)
    table, register = _pairs_table(), np.zeros(parts, np.uint32)
    index = np.empty(parts, np.uint16)
    for row in pairs:
        np.bitwise_xor(register.astype(np.uint16), row, out=index)
        register >>= np.uint32(16)
        register ^= table[index]
    power = _PART.bit_length() - 1
    while len(register) > 1:
        register = _shifted(register[0::2], power) ^ register[1::2]
        power += 1
    return int(register[0])


def _moved(register: int, length: int) -> int:
    """A register after ``length`` zero bytes."""
    value = np.array([register], np.uint32)
    for power in range(length.bit_length()):
        if length >> power & 1:
            value = _shifted(value, power)
    return int(value[0])


def _shifted(register: UInt32[np.ndarray, " n"], power: int) -> UInt32[np.ndarray, " n"]:
    """Registers after 2^power zero bytes."""
    table = _zeros_table(power)
    moved = table[0][register & 0xFF]
    for byte in range(1, 4):
        moved = moved ^ table[byte][(register >> np.uint32(8 * byte)) & 0xFF]
    return moved


@cache
def _zeros_table(power: int) -> UInt32[np.ndarray, "4 256"]:
    """What 2^power zero bytes make of each byte of a register."""
    values = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    if power == 0:
        return np.array(_bytes_table(), np.uint32)[values & 0xFF] ^ (values >> np.uint32(8))
    return np.stack([_shifted(_shifted(row, power - 1), power - 1) for row in values])
