"""Chunks of bags, decompressed."""

import bz2
import importlib
from typing import Any

from genan.errors import DataError


def decompress(kind: str, data: bytes, size: int, where: str) -> bytes:
    """``data`` decompressed to ``size`` bytes; ``where`` names it in a message."""
    try:
        unpacked = _decompress(kind, data)
    except Exception as error:  # every library has errors of its own for damaged data
        raise DataError(
            f"{where} cannot be decompressed ({error}); copy the file again."
        ) from error
    if len(unpacked) != size:
        raise DataError(
            f"{where} is damaged: it has {len(unpacked)} bytes, {size} were expected; copy the "
            "file again."
        )
    return unpacked


def _decompress(kind: str, data: bytes) -> bytes:
    if kind in ("", "none"):
        return data
    if kind == "bz2":
        return bz2.decompress(data)
    if kind == "lz4":
        return bytes(importlib.import_module("lz4.frame").decompress(data))
    if kind == "zstd":
        return bytes(_zstd().decompress(data))
    raise ValueError(f"the compression {kind!r} is not known, only lz4, zstd and bz2")


def _zstd() -> Any:
    """Zstandard of the standard library, or its stand-in before Python 3.14."""
    try:
        return importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        return importlib.import_module("backports.zstd")
