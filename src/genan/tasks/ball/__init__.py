"""The table-tennis ball: flight, filter, launcher and recordings. Here: where everything is, and
the filter's noises. Nothing here needs JAX: the filter of a control loop has the same ones.

The world frame is that of the lab's simulation (pam_mujoco), in which its balls of 2019 are given:
z up, the floor at z = 0, the arm's base at (0, 0, 1.21) with its axes along the world's, the table
in front of it along y. Balls fly towards -y, the arm reaches to +x, and the racket's face looks
along y at q1 = q4 = 0. A robot model has its base at its own origin: add ``Court.base`` to its
points.
"""

from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from genan.errors import DataError, listing

Triple = tuple[float, float, float]

NOISE_STEP = 0.01  # The step to which the filter's transition noise belongs [s].


@dataclass(frozen=True)
class Table:
    """Table and net (pam_mujoco; the net's height is that of the rules)."""

    centre: Triple = (0.4, 1.57, 0.775)  # Of the top surface [m]; the net is above it, along x.
    half_width: float = 0.7625  # Along x [m].
    half_length: float = 1.37  # Along y [m].
    net_height: float = 0.1525
    """Above the top surface [m]. The lab's box ends 0.1325 m above it, from the board's centre."""
    net_half_width: float = 0.7825  # Along x [m].


@dataclass(frozen=True)
class Blade:
    """The racket: an elliptic plate of the size of the lab's mesh, 148.5 x 188.2 mm."""

    half_width: float = 0.074  # Across the handle [m].
    half_length: float = 0.094  # Along the handle [m].
    half_thickness: float = 0.0056  # Half of 7.6 mm of blade and two rubbers of 1.8 mm [m].


@dataclass(frozen=True)
class Court:
    """Everything the ball can meet, in the world frame."""

    base: Triple = (0.0, 0.0, 1.21)  # Origin of the arm's base [m]; its axes are the world's.
    table: Table = field(default_factory=Table)
    blade: Blade = field(default_factory=Blade)
    ball_radius: float = 0.02  # [m]
    floor: float = 0.0  # Height of the floor [m].
    floor_factors: Triple = (0.4, 0.4, -0.5)  # Of the velocity on the floor (Ma et al. 2022).
    depth: float = 0.05
    """A ball this far below the table's surface [m] still touches it: a filter's may dip in."""

    @property
    def contact_height(self) -> float:
        """Height of the ball's centre when it touches the table [m]."""
        return self.table.centre[2] + self.ball_radius

    @property
    def target(self) -> Triple:
        """Where the ball is to land: its centre above the middle of the opponent's half [m]."""
        x, y, _ = self.table.centre
        return (x, y + self.table.half_length / 2.0, self.contact_height)


@dataclass(frozen=True)
class FilterNoise:
    """Variances of the ball's Kalman filter, the paper's numbers. The lab's settings file calls
    them standard deviations, its code uses them as covariances; so does this."""

    measurement: float = 1e-3  # Of a measured position, each axis [m^2].
    position: float = 1e-4  # Added to the position over 10 ms [m^2].
    velocity: float = 1e-2  # Added to the velocity over 10 ms [m^2/s^2].
    spin: float = 1e-4  # Added to the spin over 10 ms [rad^2/s^2].
    bounce: float = 0.0  # Added to the velocity when the ball bounces [m^2/s^2].
    first_velocity: float = 100.0  # Of the velocity at the first measurement [m^2/s^2].
    first_spin: float = 1.0  # Of the spin at the first measurement [rad^2/s^2].


MEASURED = FilterNoise(
    2.5e-5, position=1e-8, velocity=1e-5, bounce=1e-2, first_velocity=1.0, first_spin=25.0
)
"""What recorded balls show: 5 mm of camera noise, hardly a push in flight, bounces that vary."""


def launcher_text(file: str | Path) -> str:
    """The JSON text of a bundled launcher by its name, or of the file of one."""
    library = resources.files(__package__) / "library"
    bundled = library / f"{file}.json"
    try:
        return (bundled if bundled.is_file() else Path(file)).read_text(encoding="utf-8")
    except OSError as error:
        names = listing(sorted(entry.name.removesuffix(".json") for entry in library.iterdir()))
        none = f"There is no launcher {str(file)!r}; give a JSON file or one of {names}."
        raise DataError(none) from error
