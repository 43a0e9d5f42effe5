"""The files of a folder of logs, in the order a person would count them: run_2 before run_10."""

import re
from pathlib import Path


def natural_files(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The file itself, or every file below the folder with one of the endings; hidden ones are left
    out."""
    if not path.is_dir():
        return [path]
    found = [
        file
        for file in path.rglob("*")
        if file.is_file()
        and file.name.lower().endswith(endings)
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    return sorted(found, key=lambda file: _counted(str(file.relative_to(path))))


def recording_names(root: Path, files: list[Path], endings: tuple[str, ...]) -> list[str]:
    """What the recordings in files are called: by their places below the folder, without their
    endings."""
    relative = [file.name if file == root else file.relative_to(root).as_posix() for file in files]
    short = [_without(name, endings) for name in relative]
    return [
        name if short.count(name) == 1 else full for name, full in zip(short, relative, strict=True)
    ]


def _without(name: str, endings: tuple[str, ...]) -> str:
    longest = max(
        (ending for ending in endings if name.lower().endswith(ending)), key=len, default=""
    )
    return name[: len(name) - len(longest)] or name


def _counted(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
