import numpy as np
import pytest

from genan.errors import SettingError
from genan.robots.pamy2.identification import (
    REAL,
    TransferFunction,
    fit_transfer_function,
    frequency_response,
    hysteresis,
    spread,
)
from genan.robots.pamy2.identification import experiments as identify
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.signals import Multisine


@pytest.mark.parametrize(
    "true",
    [TransferFunction(-18.6, 1.19, 0.23, 0.02, 1.0), TransferFunction(17.2, 3.1, 0.84, 0.034, 1.0)],
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


def test_spread_is_that_of_the_labs_table() -> None:
    low, high = spread(0, "natural_frequency")
    assert (low, high) == (pytest.approx(0.9 * 1.19), pytest.approx(1.1 * 1.37))
    low, high = spread(1, "gain")
    assert (low, high) == (pytest.approx(0.9 * 9.5), pytest.approx(1.1 * 29.0))


@pytest.mark.slow
def test_virtual_pamy2_identifies_like_the_real_one() -> None:
    robot = VirtualPamy2(seed=0)
    experiments = identify(robot)
    assert {(e.joint, e.highest): e.real for e in experiments} == REAL
    for e in experiments:
        where = f"joint {e.joint + 1}, 0-{e.highest:g} Hz: {e.model}"
        assert e.within("gain"), where
        if (e.joint, e.highest) == (2, 3.0):
            assert (
                not e.resonant
            )  # the elbow's own resonance lies above this band; docs/virtual-pamy2.md
            continue
        assert e.within("natural_frequency") and e.within("damping") and e.within("delay"), where
    widths = np.degrees([loop.width for loop in hysteresis(robot)])
    assert (widths > 2.0).all() and (widths < 10.0).all()


@pytest.mark.slow
def test_without_friction_there_is_no_loop() -> None:
    smooth = VirtualPamy2(seed=0, without=("hysteresis", "capstan", "bearing", "quantisation"))
    widths = np.degrees([loop.width for loop in hysteresis(smooth)])
    assert widths.max() < 1.0  # what is left is delay, lag and creep times the speed of the sweep
