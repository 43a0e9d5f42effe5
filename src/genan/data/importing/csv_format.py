"""How a text table is written: delimiter, header, comments, decimal sign; found out from its first
lines."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from genan.errors import DataError

_LOOKED_AT = 50
_DELIMITERS = (",", ";", "\t", "|", " ")


@dataclass(frozen=True)
class CsvFormat:
    """What a reader must know of a text table."""

    delimiter: str
    """One character; " " stands for any white space."""
    names: tuple[str, ...]
    """Name of each column: from the header, or "0", "1", ... without one."""
    skip: int
    """Lines before the first row of numbers."""
    decimal: str
    """ "." or ","."""


def sniff(path: Path) -> CsvFormat:
    """Look at the first lines of a file."""
    lines, cut = _head(path)
    comments = [line for line in lines if line.lstrip().startswith("#")]
    content = [
        (number, line) for number, line in enumerate(lines) if line.strip() and line not in comments
    ]
    if not content:
        raise DataError(
            f"{path} has no rows" + (f" in its first {_LOOKED_AT} lines." if cut else ".")
        )
    delimiter = _delimiter([line for _, line in content])
    decimal = "," if delimiter != "," and re.search(r"\d,\d", content[-1][1]) else "."
    rows = [_cells(line, delimiter) for _, line in content]
    if _is_numeric(
        rows[0], decimal
    ):  # no header, or one behind a comment sign, as numpy.savetxt writes it
        first = content[0][0]
        before = [line for line in lines[:first] if line in comments]
        names = _cells(before[-1].lstrip("# \t"), delimiter) if before else []
        if len(names) != len(rows[0]) or _is_numeric(names, decimal):
            names = [str(number) for number in range(len(rows[0]))]
        return CsvFormat(delimiter, _unique(names, path), first, decimal)
    return CsvFormat(delimiter, _unique(rows[0], path), content[0][0] + 1, decimal)


def _head(path: Path) -> tuple[list[str], bool]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines: list[str] = []
            for _ in range(_LOOKED_AT):
                line = file.readline(1_000_000)
                if not line:
                    return lines, False
                lines.append(line.rstrip("\r\n"))
            return lines, True
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is no text table (it is not UTF-8); save it as CSV in UTF-8."
        ) from None


def _delimiter(lines: list[str]) -> str:
    """The one that gives the same number of cells, more than one, in all lines; by their rank where
    several do."""
    best, most = ",", 1
    for delimiter in _DELIMITERS:
        counts = {len(_cells(line, delimiter)) for line in lines}
        if len(counts) == 1 and max(counts) > 1:
            return delimiter
        if min(counts, default=0) > most:
            best, most = delimiter, min(counts)
    return best


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def _is_numeric(cells: list[str], decimal: str) -> bool:
    """Whether all cells are numbers or empty, and one is a number."""
    found = False
    for cell in cells:
        try:
            float(cell.replace(decimal, "."))
            found = True
        except ValueError:
            if cell and cell.lower() not in ("null", "na", "n/a"):
                return False
    return found


def _unique(names: list[str], path: Path) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1 and name})
    if twice:
        raise DataError(
            f"{path} has the column {twice[0]!r} twice; every column needs its own name."
        )
    return tuple(name or f"column {number}" for number, name in enumerate(names))
