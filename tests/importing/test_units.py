import math

import pytest

from genan.importing.mapping import time_factor, time_unit_in_name, unit_factor
from genan.errors import SettingError


@pytest.mark.parametrize(
    ("unit", "wanted", "factor"),
    [
        ("rad", "rad", 1.0),
        ("deg", "rad", math.pi / 180),
        ("mrad", "rad", 1e-3),
        ("rev", "rad", 2 * math.pi),
        ("mm", "m", 1e-3),
        ("mV", "V", 1e-3),
        ("kPa", "bar", 1e-2),
        ("mbar", "Pa", 100.0),
        ("mNm", "N m", 1e-3),
        ("rpm", "rad/s", 2 * math.pi / 60),
        ("%", "1", 0.01),
        ("ticks", "ticks", 1.0),
    ],
)
def test_factors(unit, wanted, factor):
    assert unit_factor(unit, wanted, what="x") == pytest.approx(factor, rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "wanted"), [("mV", "bar"), ("ticks", "rad"), ("deg", "V"), ("m", "rad")]
)
def test_what_cannot_be_converted(unit, wanted):
    with pytest.raises(
        SettingError, match=rf"joint 'elbow' is in '{unit}' in the log and in '{wanted}'.*--scale"
    ):
        unit_factor(unit, wanted, what="joint 'elbow'")


def test_time():
    assert [time_factor(unit) for unit in ("s", "ms", "us", "ns")] == [1.0, 1e-3, 1e-6, 1e-9]
    with pytest.raises(SettingError, match="'min'"):
        time_factor("min")
    names = {
        "time": "s",
        "t_ms": "ms",
        "stamp_ns": "ns",
        "time [us]": "us",
        "time_sec": "s",
        "items": "s",
        "t(ms)": "ms",
    }
    assert {name: time_unit_in_name(name) for name in names} == names
