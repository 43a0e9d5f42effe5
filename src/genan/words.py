"""Numbers, times and units as a person reads them."""

import math
import re

DEGREES = 180.0 / math.pi


def number(value: float) -> str:
    """Three digits, and no exponent for anything a robot does: 0.00678, 4.44, 49.6, 2500."""
    if math.isnan(value):
        return "-"
    if value == 0.0 or math.isinf(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.3g}" if abs(value) < 1e-4 or abs(value) >= 1e9 else f"{value:.{digits}f}"


def percent(value: float) -> str:
    """A percentage without its sign; one digit more close to 0 and 100."""
    return f"{value:.1f}" if 0.0 < value < 1.0 or 99.0 < value < 100.0 else f"{value:.0f}"


def interval(mean: float, low: float | None, high: float | None, unit: str = "") -> str:
    """A value with its interval: "4.44 (4.31 to 4.59)"; ``unit`` "%" asks for percentages."""
    form = percent if unit == "%" else number
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return form(mean)
    return f"{form(mean)} ({form(low)} to {form(high)})"


def duration(seconds: float) -> str:
    """How long something took: "4.2 s", "6 min 40 s", "3 h 10 min"."""
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def time_ahead(seconds: float) -> str:
    """How far a prediction reaches: "2 ms", "0.5 s"."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.1 else f"{seconds:.3g} s"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: "1 trial", "2 trials"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shortened(name: str, longest: int = 40) -> str:
    """The end of a long name, where names of recordings differ: ".../run03/trajectory.csv"."""
    return name if len(name) <= longest else f"...{name[len(name) - longest + 3 :]}"


def slug(text: str) -> str:
    """A name for files and anchors: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"


def reading_unit(unit: str) -> tuple[str, float]:
    """What a person reads for a joint's SI unit, and the factor: degrees for rad, mm for m."""
    return {"rad": ("deg", DEGREES), "m": ("mm", 1000.0)}.get(unit, (unit, 1.0))


def quantity(value: float, unit: str) -> str:
    """A value in a joint's SI unit as a person reads it: "12.5 deg", "3.21 mm"."""
    name, factor = reading_unit(unit)
    return f"{number(factor * value)} {name}"


def ordinal(count: int) -> str:
    """A place in a sequence: "1st", "2nd", "11th"."""
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{'th' if count % 100 in (11, 12, 13) else suffix}"


def with_unit(name: str, unit: str) -> str:
    """A label: the name, and the unit where there is one."""
    return name if unit in ("1", "") else f"{name} [{unit}]"


FILTERS = {name: one for name, one in dict(globals()).items() if callable(one)}
"""All of these functions, for templates."""
