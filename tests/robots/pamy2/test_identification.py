from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genan.errors import SettingError
from genan.robots.pamy2 import identification
from genan.robots.pamy2.identification import (
    REAL,
    TransferFunction,
    fit_transfer_function,
    frequency_response,
    hysteresis,
    identify,
    spread,
)
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.signals import Multisine


@pytest.mark.parametrize(
    "true", [TransferFunction(-18.6, 1.19, 0.23, 0.02), TransferFunction(17.2, 3.1, 0.84, 0.034)]
)
def test_a_known_joint_is_found_from_a_simulated_record(true: TransferFunction) -> None:
    """The record comes from integrating the differential equation, not from the formula that is
    fitted."""
    dt, period = 0.002, 10.0
    bounds = np.array([[-1.0], [1.0]])
    d = Multisine(lowest=0.1, highest=6.0).draw(
        np.random.default_rng(0), bounds=bounds, duration=4 * period, dt=dt
    )[:, 0]
    w, late = 2 * np.pi * true.natural_frequency, round(true.delay / dt)
    delayed = np.concatenate([np.zeros(late), d[: len(d) - late]])
    q = np.zeros_like(d)
    x = v = 0.0
    for k in range(1, len(d)):
        for _ in range(4):
            a = w * w * (true.gain * delayed[k - 1] - x) - 2 * true.damping * w * v
            v += 0.25 * dt * a
            x += 0.25 * dt * v
        q[k] = x
    steady = slice(round(2 * period / dt), None)
    frequency, response = frequency_response(d[steady], q[steady], dt=dt, period=period)
    assert len(frequency) == 60
    found = fit_transfer_function(frequency, response)
    assert found.natural_frequency == pytest.approx(true.natural_frequency, rel=0.01)
    assert found.damping == pytest.approx(true.damping, rel=0.02)
    assert found.gain == pytest.approx(true.gain, rel=0.01)
    assert found.delay == pytest.approx(true.delay, abs=0.002)
    assert found.fit > 0.999


def test_a_record_of_broken_periods_is_refused() -> None:
    with pytest.raises(SettingError, match="whole periods of 10 s, but the record has 1.2 s"):
        frequency_response(np.zeros(600), np.zeros(600), dt=0.002, period=10.0)


def test_an_extra_pole_is_found_and_not_invented() -> None:
    frequency = np.arange(1, 31) / 10.0
    slow = TransferFunction(-18.6, 1.19, 0.23, 0.02, 0.57, 0.9)
    found = fit_transfer_function(frequency, slow.response(frequency), extra_pole=True)
    for name in ("gain", "natural_frequency", "damping", "delay", "pole", "zero"):
        assert getattr(found, name) == pytest.approx(getattr(slow, name), rel=0.02), name
    plain = fit_transfer_function(frequency, slow.response(frequency))
    assert np.isinf(plain.pole) and plain.fit < found.fit


def test_spread_is_a_fifth_or_what_the_other_date_says() -> None:
    low, high = spread(0, 3.0, "natural_frequency")
    assert (low, high) == (pytest.approx(0.8 * 1.19), pytest.approx(1.2 * 1.19))
    assert spread(1, 3.0, "gain") == (pytest.approx(9.5), pytest.approx(1.2 * 29.0))
    assert spread(2, 10.0, "pole") == (pytest.approx(0.8 * 1.8), pytest.approx(1.2 * 1.8))


@pytest.mark.slow
def test_virtual_pamy2_identifies_like_the_real_one(
    genan: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    keep = lambda *arguments, **settings: made.append(identify(*arguments, **settings)) or made[0]
    monkeypatch.setattr(identification, "identify", keep)
    answer = genan("identify", "--robot", "virtual-pamy2", "--out", tmp_path / "bench")
    assert answer.code == 0, answer.err
    assert "With the lab's model structure" in answer.out and "Hysteresis loop" in answer.out
    assert "frequency" in answer.out and "damping" in answer.out and "[Hz]" in answer.out
    assert "Table object" not in answer.out
    assert "of 31 figures within 20 %" in answer.out and "without it" in answer.out
    for picture in ("frequency-response.png", "hysteresis.png"):
        assert (tmp_path / "bench" / picture).read_bytes().startswith(b"\x89PNG")

    (found,) = made
    assert {(e.joint, e.highest): e.real for e in found.experiments} == REAL
    agree, count = found.agreement
    assert count == 31 and agree >= 22
    for e in found.experiments:
        assert e.model.gain < 0.0 and e.within("gain"), e.model
    widths = np.degrees([loop.width for loop in found.loops])
    assert (widths > 2.0).all() and (widths < 15.0).all()


@pytest.mark.slow
def test_without_friction_and_creep_there_is_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identification, "SESSIONS", 1)  # a bound needs no average
    effects = "hysteresis", "creep", "capstan", "bearing", "quantisation", "disturbance", "play"
    widths = np.degrees([loop.width for loop in hysteresis(VirtualPamy2(without=effects))])
    assert widths.max() < 1.0  # what is left is delay and lag times the speed of the sweep
