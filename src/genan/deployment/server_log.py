"""``ServerLog``: what happened to a served robot, and when, one JSON object to a line."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from genan.deployment.clock import Clock
from genan.errors import SettingError


class ServerLog:
    """Writes events as they happen. A robot must not stop for its log: what cannot be written is
    left out."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        """Write to ``path``, anew; None keeps the events in memory only."""
        self.events: list[dict[str, Any]] = []
        """The events, where they are not written to a file."""
        self._clock, self._began = clock, clock.now()
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = path.open("w", encoding="utf-8")
            except OSError as error:
                raise SettingError(
                    f"The log {path} cannot be written ({error.strerror}); choose another."
                ) from error

    def write(self, event: str, **details: Any) -> None:
        """Note that ``event`` happens now."""
        entry = {"time": round(self._clock.now() - self._began, 6), "event": event, **details}
        if self._file is None:
            self.events.append(entry)
            return
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
        except OSError:
            self.close()

    def close(self) -> None:
        """Nothing more will happen; a second call does nothing."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
