"""Which recordings of a log are taken, and which of them are kept for the test."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from genan.data.importing.settings import ImportSettings
from genan.errors import DataError, SettingError, listing

Facts = Mapping[str, str | float]

_LAST = re.compile(r"last:(\d+(?:\.\d+)?)%$")


@dataclass(frozen=True)
class Choice:
    """Sorts recordings by patterns: ``run_*`` (name), ``kind=sysid`` (what the log says of it),
    ``last:20%``."""

    only: tuple[str, ...]
    without: tuple[str, ...]
    test: tuple[str, ...]
    last: Mapping[str, frozenset[str]]
    """The recordings that each pattern ``last:...%`` stands for."""

    def of(self, recording: str, facts: Facts) -> Literal["train", "test", "none"]:
        """Where a recording goes."""
        if self.only and not self._any(self.only, recording, facts):
            return "none"
        if self._any(self.without, recording, facts):
            return "none"
        return "test" if self._any(self.test, recording, facts) else "train"

    def _any(self, patterns: Sequence[str], recording: str, facts: Facts) -> bool:
        return any(
            recording in self.last[pattern]
            if pattern in self.last
            else _matches(pattern, recording, facts)
            for pattern in patterns
        )


def needs_list(settings: ImportSettings) -> bool:
    """Whether the recordings must be known before the first is read."""
    return any(map(_LAST.match, (*settings.only, *settings.without, *settings.test)))


def choice(settings: ImportSettings, recordings: Sequence[tuple[str, Facts]] | None) -> Choice:
    """From the settings and, where they are known, all recordings in the order of the log."""
    patterns = (*settings.only, *settings.without, *settings.test)
    last = {}
    for pattern in patterns:
        if pattern.startswith("last:"):
            share = _LAST.match(pattern)
            if share is None or not 0.0 < float(share.group(1)) < 100.0:
                raise SettingError(
                    f"Write the last part of the recordings as last:20%, not {pattern!r}."
                )
            last[pattern] = _last(recordings or (), float(share.group(1)) / 100.0)
    chosen = Choice(settings.only, settings.without, settings.test, last)
    if recordings is not None:
        _refuse_useless(chosen, patterns, recordings)
    return chosen


def _refuse_useless(
    chosen: Choice, patterns: Sequence[str], recordings: Sequence[tuple[str, Facts]]
) -> None:
    for pattern in patterns:
        if not any(chosen._any((pattern,), name, facts) for name, facts in recordings):
            facts = sorted(
                {f"{key}={value}" for _, facts in recordings for key, value in facts.items()}
            )
            said = f"; they say of themselves: {listing(facts[:20])}" if facts else ""
            more = f" and {len(recordings) - 6} more" if len(recordings) > 6 else ""
            raise DataError(
                f"No recording fits the pattern {pattern!r}; there are "
                f"{listing(name for name, _ in recordings[:6])}{more}{said}."
            )


def _matches(pattern: str, recording: str, facts: Facts) -> bool:
    if fnmatchcase(recording, pattern):
        return True
    key, equals, value = pattern.partition("=")
    if not equals or key not in facts:
        return False
    there = facts[key]
    try:
        return float(value) == float(there)
    except ValueError:
        return fnmatchcase(str(there), value)


def _last(recordings: Sequence[tuple[str, Facts]], share: float) -> frozenset[str]:
    """The last ones in time where every name carries a date, else in the order of the log."""
    names = [name for name, _ in recordings]
    moments = [_moment(name) for name in names]
    if all(moment is not None for moment in moments):
        names = [
            name
            for _, name in sorted(
                zip(map(str, moments), names, strict=True), key=lambda pair: pair[0]
            )
        ]
    count = min(max(1, math.floor(share * len(names) + 0.5)), len(names))
    return frozenset(names[len(names) - count :])


def _moment(name: str) -> str | None:
    digits = re.search(r"(\d{4})-?(\d\d)-?(\d\d)[-_T ](\d\d)[h:-]?(\d\d)[m:-]?(\d\d)", name)
    return None if digits is None else "".join(digits.groups())
