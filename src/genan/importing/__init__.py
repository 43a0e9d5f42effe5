"""Logs of other programs into recordings: a module for each format, one mapping and one resampling
for all of them."""

from genan.importing.convert import Imported, ImportedFile, import_logs
from genan.importing.settings import ImportSettings
from genan.importing.source import FORMATS, open_source

__all__ = ["FORMATS", "ImportSettings", "Imported", "ImportedFile", "import_logs", "open_source"]
