"""Logs of other programs into recordings: one file per format, one mapping, one resampling for all
of them."""

from genan.data.importing.convert import Imported, ImportedFile, import_logs
from genan.data.importing.settings import ImportSettings
from genan.data.importing.sources import FORMATS, open_source

__all__ = ["FORMATS", "ImportSettings", "Imported", "ImportedFile", "import_logs", "open_source"]
