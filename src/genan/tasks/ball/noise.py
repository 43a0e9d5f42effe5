"""The noises of the ball's Kalman filter. Nothing here needs JAX: the filter of a control loop has
the same ones."""

from dataclasses import dataclass

#: The step to which the transition noise belongs [s].
NOISE_STEP = 0.01


@dataclass(frozen=True)
class Noise:
    """Variances; the defaults are the paper's numbers.

    The lab's settings file calls such numbers standard deviations, its code uses them as
    covariances; so does this.
    """

    measurement: float = 1e-3
    """Of a measured position, each axis [m^2]."""
    position: float = 1e-4
    """Added to the position over 10 ms [m^2]."""
    velocity: float = 1e-2
    """Added to the velocity over 10 ms [m^2/s^2]."""
    spin: float = 1e-4
    """Added to the spin over 10 ms [rad^2/s^2]."""
    bounce: float = 0.0
    """Added to the velocity when the ball bounces [m^2/s^2]."""
    first_velocity: float = 100.0
    """Of the velocity at the first measurement, when nothing is known of it [m^2/s^2]."""
    first_spin: float = 1.0
    """Of the spin at the first measurement [rad^2/s^2]."""


#: What the recorded balls show: 5 mm of camera noise and age of frames, hardly a push in flight,
#: and bounces that vary.
MEASURED = Noise(
    2.5e-5, position=1e-8, velocity=1e-5, bounce=1e-2, first_velocity=1.0, first_spin=25.0
)
