import numpy as np
import pytest

from genan.errors import SettingError
from genan.signals import Chirp, Multisine, Signal, Spline

BOUNDS = np.array([[-0.5, 0.0, 2.0], [0.5, 1.0, 6.0]])
DT = 0.002


def draw(signal: Signal, seed: int = 0, duration: float = 2.0) -> np.ndarray:
    return signal.draw(np.random.default_rng(seed), bounds=BOUNDS, duration=duration, dt=DT)


@pytest.mark.parametrize("signal", [Spline(), Multisine(lowest=0.5), Chirp()])
def test_every_signal_has_its_shape_stays_in_bounds_and_is_seeded(signal: Signal) -> None:
    u = draw(signal)
    assert u.shape == (1000, 3)
    overshoot = 0.5 * np.ptp(BOUNDS, axis=0) if isinstance(signal, Spline) else 0.0
    assert (u >= BOUNDS[0] - overshoot).all() and (u <= BOUNDS[1] + overshoot).all()
    assert np.ptp(u, axis=0).min() > 0.2
    np.testing.assert_array_equal(u, draw(signal))
    assert not np.array_equal(u, draw(signal, seed=1))


def test_spline_passes_through_a_drawn_control_every_half_second() -> None:
    u = draw(Spline())
    knots = np.random.default_rng(0).uniform(BOUNDS[0], BOUNDS[1], (5, 3))
    np.testing.assert_allclose(u[::250], knots[:4], atol=1e-12)


def test_each_trajectory_can_have_its_own_interval() -> None:
    signal = Spline(0.5, shortest=0.1)
    np.testing.assert_array_equal(draw(signal), draw(signal))
    intervals = [float(np.random.default_rng(seed).uniform(0.1, 0.5)) for seed in range(20)]
    quick = [np.abs(np.diff(draw(signal, seed=seed), axis=0)).mean() for seed in range(20)]
    assert np.corrcoef(1.0 / np.array(intervals), quick)[0, 1] > 0.7, (
        "shorter intervals, faster controls"
    )
    with pytest.raises(SettingError, match="shortest must be a positive number, not 0"):
        draw(Spline(shortest=0.0))


def test_spline_has_no_kinks() -> None:
    u = draw(Spline(), seed=3)
    curvature = np.diff(u, 2, axis=0) / DT**2
    assert np.abs(np.diff(curvature, axis=0)).max() < 0.02 * np.abs(curvature).max()


def test_spline_of_a_length_that_is_no_multiple_of_the_interval() -> None:
    assert draw(Spline(), duration=1.3).shape == (650, 3)


def test_multisine_excites_its_lines_evenly_and_nothing_else_and_repeats() -> None:
    u = draw(Multisine(lowest=0.5, highest=5.0), duration=4.0)
    np.testing.assert_allclose(u[:1000], u[1000:], atol=1e-12)
    spectrum = np.abs(np.fft.rfft(u[:1000] - u[:1000].mean(axis=0), axis=0))
    np.testing.assert_allclose(spectrum[1:11], np.tile(spectrum[1], (10, 1)), rtol=1e-6)
    assert spectrum[11:].max() < 1e-9 * spectrum.max() + 1e-9


def test_chirp_sweeps_from_start_to_end() -> None:
    u = Chirp(start=1.0, end=20.0).draw(
        np.random.default_rng(0), bounds=BOUNDS[:, :1], duration=4.0, dt=DT
    )
    crossings = np.flatnonzero(np.diff(np.sign(u[:, 0])))
    assert 0.5 / (DT * (crossings[1] - crossings[0])) == pytest.approx(1.0, rel=0.5)
    assert 0.5 / (DT * (crossings[-1] - crossings[-2])) == pytest.approx(20.0, rel=0.15)


@pytest.mark.parametrize(
    ("signal", "duration", "words"),
    [
        (Spline(interval=0.0), 2.0, "interval must be a positive number, not 0"),
        (Multisine(highest=400.0), 2.0, "highest < half the rate .250 Hz."),
        (Chirp(start=3.0, end=2.0), 2.0, "start < end"),
        (Spline(), 0.002, "at least 3 samples, but 0.002 s at 0.002 s per sample is 1"),
    ],
)
def test_refusals(signal: Signal, duration: float, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        draw(signal, duration=duration)
