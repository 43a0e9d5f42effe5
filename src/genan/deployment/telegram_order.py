"""``TelegramOrder``: which of two telegrams is newer, though their counter goes round, and whether
it began anew."""

from typing import Literal

RIVALS = 5
"""This many telegrams in a row that count up from an old number are a sender that began anew."""
QUIET = 0.01
"""... provided that nothing newer came for this long [s], which telegrams that overtake one another
do not take."""

Verdict = Literal["first", "next", "old", "restarted"]


class TelegramOrder:
    """Judges telegrams by their number, modulo 2**bits."""

    def __init__(self, *, bits: int) -> None:
        """``bits`` of the counter."""
        self._modulus = 1 << bits
        self._last: int | None = None
        self._since = 0.0
        self._rival: int | None = None
        self._rivals = 0

    def take(self, number: int, *, now: float) -> Verdict:
        """Whether telegram ``number`` is news at time ``now`` [s]; if it is, it is the newest from
        here on."""
        if self._last is None:
            return self._accept(number, now, "first")
        if self._newer(number, self._last):
            return self._accept(number, now, "next")
        if self._rival is None or not self._newer(number, self._rival):
            self._rivals = 0
        self._rival = number
        self._rivals += 1
        if self._rivals >= RIVALS and now - self._since >= QUIET:
            return self._accept(number, now, "restarted")
        return "old"

    def _newer(self, number: int, than: int) -> bool:
        return 0 < (number - than) % self._modulus < self._modulus // 2

    def _accept(self, number: int, now: float, verdict: Verdict) -> Verdict:
        self._last, self._since = number, now
        self._rival, self._rivals = None, 0
        return verdict
