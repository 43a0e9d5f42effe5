"""Where a command puts what it makes: a folder that is there already is not written into
unasked."""

from pathlib import Path

from genan.errors import SettingError


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that exists, unless what an earlier run put there may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file, so nothing can be put there; give another --out.")
    if folder.exists() and not overwrite:
        raise SettingError(
            f"{folder} exists; give another --out, or --overwrite to replace what an earlier run put there."
        )
