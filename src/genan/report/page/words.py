"""Numbers as a person reads them."""

import math
import re
from pathlib import PurePath

from genan.evaluation.study_result import Value


def number(value: float) -> str:
    """Three digits, and no exponent for anything a robot does: 0.00678, 4.44, 49.6, 2500."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.3g}" if abs(value) < 1e-4 or abs(value) >= 1e9 else f"{value:.{digits}f}"


def percent(value: float) -> str:
    """A percentage; a digit more where nothing and everything are near."""
    return f"{value:.1f}" if 0.0 < value < 1.0 or 99.0 < value < 100.0 else f"{value:.0f}"


def written(value: Value, unit: str) -> str:
    """A value with its interval: "4.44 (4.31 to 4.59)"; without the unit."""
    form = percent if unit == "%" else number
    if value.low is None or value.high is None:
        return form(value.mean)
    return f"{form(value.mean)} ({form(value.low)} to {form(value.high)})"


def place_words(place: str | float) -> str:
    """A place on an axis: a name, or a number without needless digits."""
    return place if isinstance(place, str) else f"{place:g}"


def duration(seconds: float) -> str:
    """A time: "4.2 s", "6 min 40 s", "3 h 10 min"."""
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def ahead(seconds: float) -> str:
    """How far ahead: "2 ms", "1 s"."""
    return f"{1e3 * seconds:.4g} ms" if seconds < 0.1 else f"{seconds:.4g} s"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def slug(text: str) -> str:
    """A name for files and anchors: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"


def task_words(task: str) -> str:
    """What a person calls a task."""
    return task if task == "ball-in-a-cup" else task.replace("-", " ")


def robot_words(robot: str, *, specimen: bool) -> str:
    """What a person calls a robot; ``specimen``: whether it is known to be a virtual one."""
    if robot == "virtual-pamy2":
        return "the virtual PAMY2"
    if robot == "pamy2-udp":
        return (
            "the virtual PAMY2, reached over UDP as the real one is"
            if specimen
            else "a PAMY2 reached over UDP"
        )
    return "PAMY2" if robot.startswith("pamy2") else f"the robot {PurePath(robot).stem}"
