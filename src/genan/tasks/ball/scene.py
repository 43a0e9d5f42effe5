"""Where everything stands: arm, table, net, target and racket, in one frame.

The world frame is that of the lab's simulation (pam_mujoco), in which its balls of 2019 are given:
z up, the floor at z = 0, the arm's base at (0, 0, 1.21) with its axes along the world's, the table
in front of it along y. Balls fly towards -y, the arm reaches to +x, and the racket's face looks
along y at q1 = q4 = 0. A robot model has its base at its own origin: add ``Scene.base`` to its
points.
"""

from dataclasses import dataclass, field

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Table:
    """Table and net (pam_mujoco; the net's height is that of the rules)."""

    centre: Vector = (0.4, 1.57, 0.775)
    """Centre of the top surface [m]; the net stands above it, along x."""
    half_width: float = 0.7625
    """Along x [m]."""
    half_length: float = 1.37
    """Along y [m]."""
    net_height: float = 0.1525
    """Above the top surface [m]. The lab's box ends 0.1325 m above it: it stands on the centre of
    the table's board."""
    net_half_width: float = 0.7825
    """Along x [m]."""


@dataclass(frozen=True)
class Blade:
    """The racket: an elliptic plate (the ellipse with the size of the lab's mesh, 148.5 x 188.2
    mm)."""

    half_width: float = 0.074
    """Across the handle [m]."""
    half_length: float = 0.094
    """Along the handle [m]."""
    half_thickness: float = 0.0056
    """Half of 7.6 mm of blade and two rubbers of 1.8 mm [m]."""


@dataclass(frozen=True)
class Scene:
    """Everything the ball can meet, in the world frame."""

    base: Vector = (0.0, 0.0, 1.21)
    """Origin of the arm's base [m]; its axes are the world's."""
    table: Table = field(default_factory=Table)
    blade: Blade = field(default_factory=Blade)
    ball_radius: float = 0.02
    """[m]"""
    ball_mass: float = 0.0027
    """[kg]"""
    floor: float = 0.0
    """Height of the floor [m]."""

    @property
    def contact_height(self) -> float:
        """Height of the ball's centre when it touches the table [m]."""
        return self.table.centre[2] + self.ball_radius

    @property
    def net_top(self) -> float:
        """Height that the ball's centre must exceed where it crosses the net [m]."""
        return self.table.centre[2] + self.table.net_height + self.ball_radius

    @property
    def far_edge(self) -> float:
        """The opponent's end of the table, along y [m]."""
        return self.table.centre[1] + self.table.half_length

    @property
    def target(self) -> Vector:
        """Where the ball is to land: its centre above the middle of the opponent's half [m]."""
        x, y, _ = self.table.centre
        return (x, y + self.table.half_length / 2.0, self.contact_height)
