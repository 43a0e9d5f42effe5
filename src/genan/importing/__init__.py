"""Logs of other programs into recordings: a module per format, one mapping, one resampling."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.importing.convert import Imported, ImportedFile, import_logs
    from genan.importing.mapping import ImportSettings
    from genan.importing.source import open_source

__all__ = ["ImportSettings", "Imported", "ImportedFile", "import_logs", "open_source"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"ImportSettings": "mapping", "open_source": "source"}.get(name, "convert")
    return getattr(importlib.import_module(f"genan.importing.{module}"), name)
