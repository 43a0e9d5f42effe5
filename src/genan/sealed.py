"""Folders of two files that belong together: arrays (safetensors) and the contract that says what
they are for (JSON).

Nothing in them is code. The contract carries a checksum of the arrays and one of itself, its seal,
so a damaged file, a mixed-up pair or an edit by hand is refused instead of driving an arm.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from genan.errors import GenanError, listing
from genan.files import write_atomically


@dataclass(frozen=True)
class Kind:
    """One kind of sealed folder: its files, its version, and how to speak of it."""

    format: str
    """Name of the format, as it stands in the contract."""
    version: int
    """The newest version that is read and, unless an older one is asked for, written."""
    weights: str
    """Name of the file with the arrays."""
    contract: str
    """Name of the file with the contract."""
    error: type[GenanError]
    """What to raise."""
    none: str
    """How a message begins where there is none: "There are no actuators"."""
    origin: str
    """Where one comes from: "the --out of 'genan fit'"."""
    again: str
    """How to make one anew: "fit again"."""
    unfinished: str
    """What is to be said where there is a checkpoint in its place."""
    oldest: int | None = None
    """The oldest version that is read; left out: the newest alone."""
    others: tuple[tuple[str, str], ...] = ()
    """Contract files of other kinds that may be given by mistake, and what lies beside them."""

    def write(
        self,
        folder: Path | str,
        arrays: Mapping[str, np.ndarray],
        *,
        contract: dict[str, Any],
        record: dict[str, Any],
        version: int | None = None,
    ) -> Path:
        """Write both files into ``folder``, replacing those there; each appears whole or not at
        all.

        ``version``: an older one than the newest, for content that readers of old can read.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = tensor_bytes(dict(arrays))
        write_atomically(folder / self.weights, weights)
        text = self.text(weights, contract=contract, record=record, version=version)
        write_atomically(folder / self.contract, text.encode())
        return folder

    def text(
        self,
        weights: bytes,
        *,
        contract: dict[str, Any],
        record: dict[str, Any],
        version: int | None = None,
    ) -> str:
        """The contract file beside an array file with the bytes ``weights``."""
        settings: dict[str, Any] = {
            "format": self.format,
            "version": self.version if version is None else version,
            "contract": contract,
            "record": record,
            "weights_sha256": hashlib.sha256(weights).hexdigest(),
        }
        return json.dumps({**settings, "seal": seal(settings)}, indent=1) + "\n"

    def read(self, folder: Path | str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the contract file says, and the arrays; format, seal and checksum are checked."""
        folder = Path(folder)
        settings = self.read_contract(folder)
        path = folder / self.weights
        weights = self._bytes(path)
        if hashlib.sha256(weights).hexdigest() != settings["weights_sha256"]:
            raise self.error(
                f"{path} does not belong to the {self.contract} beside it, or is damaged (its checksum differs); "
                f"fetch both files anew or {self.again}."
            )
        try:
            return settings, parse_tensors(weights)
        except SafetensorError as error:
            raise self.error(
                f"{path} cannot be read ({error}); fetch it anew or {self.again}."
            ) from None

    def read_contract(self, folder: Path) -> dict[str, Any]:
        """Everything in the contract file, checked against its own seal."""
        if not folder.is_dir():
            raise self.error(f"{self.none} in {folder}: no such folder; give {self.origin}.")
        path = folder / self.contract
        if not path.exists():
            raise self.error(
                f"{self.none} in {folder}: it has no {self.contract}{self._instead(folder)}"
            )
        try:
            settings: dict[str, Any] = json.loads(self._bytes(path))
            found = settings.pop("seal")
            known = settings["format"] == self.format
            version = settings["version"]
            missing = [
                key for key in ("contract", "record", "weights_sha256") if key not in settings
            ]
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
            raise self.error(
                f"{path} is not a contract of genan, or is damaged; fetch it anew or {self.again}."
            ) from None
        readable = range(self.version if self.oldest is None else self.oldest, self.version + 1)
        if not known or version not in readable:
            raise self.error(
                f"{path} is of format {settings['format']!r}, version {version}; this genan reads {self.format!r}, "
                f"version {' and '.join(map(str, readable))}."
            )
        if found != seal(settings):
            raise self.error(
                f"{path} was changed after genan wrote it (its seal does not fit); take the original, or {self.again} "
                "with the settings you want."
            )
        if missing:
            raise self.error(f"{path} lacks {listing(missing)}; fetch it anew or {self.again}.")
        return settings

    def check_arrays(
        self, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], *, where: str
    ) -> None:
        """Refuse arrays of another shape than the contract implies, not of float32, or with numbers
        not finite."""
        for name, shape in shapes.items():
            if name not in arrays or arrays[name].shape != shape:
                came = list(arrays[name].shape) if name in arrays else "nothing"
                raise self.error(
                    f"{where} must hold {name} of shape {list(shape)}, but holds {came}; {self.again}."
                )
            if arrays[name].dtype != np.float32:
                raise self.error(
                    f"{where} must hold {name} in float32, but holds {arrays[name].dtype}; {self.again}."
                )
            if not np.isfinite(arrays[name]).all():
                raise self.error(
                    f"{where} holds numbers in {name} that are not finite; {self.again}."
                )

    def _instead(self, folder: Path) -> str:
        """The end of the sentence about a folder without a contract."""
        for name, what in self.others:
            if (folder / name).exists():
                return f" but {name}, so it holds {what}; give {self.origin}."
        return f". {self.unfinished}" if any(folder.glob("checkpoint*")) else "."

    def _bytes(self, path: Path) -> bytes:
        if not path.exists():
            raise self.error(
                f"There is no {path}; an artifact has the two files {self.weights} and {self.contract}."
            )
        return path.read_bytes()


def seal(settings: dict[str, Any]) -> str:
    """Checksum of a contract file's content without the seal itself."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
