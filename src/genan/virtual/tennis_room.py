"""The room of the table tennis: where arm, table and net stand, and what the ball does when it
meets them.

World frame: z up, floor at z = 0, balls come along -y, the arm reaches to +x; the lab's simulation
and its recorded balls are given in it.
"""

import enum
from dataclasses import dataclass

from genan.virtual.tennis_ball import BallPhysics, BallState, rebound
from genan.virtual.triples import Triple


class Touch(enum.Enum):
    """What the ball met within a step."""

    NOTHING = enum.auto()
    TABLE = enum.auto()
    NET = enum.auto()
    FLOOR = enum.auto()


@dataclass(frozen=True)
class Room:
    """Places and surfaces. [R] read in a source of the lab, [L] literature, [C] calibrated, [A]
    assumed."""

    base: Triple = (0.0, 0.0, 1.21)
    """Origin of the arm's base, its axes along the world's [m] [R]."""
    table: Triple = (0.4, 1.57, 0.775)
    """Middle of the table's top; the net stands above it, along x [m] [R]."""
    half_width: float = 0.7625
    """Of the table, along x [m] [R]."""
    half_length: float = 1.37
    """Of the table, along y [m] [R]."""
    net_height: float = 0.1525
    """Above the top [m]; the rules."""
    net_half_width: float = 0.915
    """Along x, posts included [m]; the rules."""
    friction: float = 0.25
    """mu of the ball on the table [L: Nakashima et al. 2010]."""
    grip: float = 0.424
    """Largest part of the touching point's sliding that a bounce takes [C]."""
    restitution: float = 0.927
    """Of the table, at the mean impact [C]."""
    restitution_slope: float = -0.04
    """Change with the speed of the impact [s/m] [C]."""
    impact: float = 3.9
    """Mean vertical speed of the impact [m/s] [C]."""
    restitution_spread: float = 0.012
    """Standard deviation from bounce to bounce [C]."""
    tape_restitution: float = 0.4
    """Of the net's upper edge [A]."""
    net_speed: float = 0.08
    """Part of its speed that the ball keeps when it runs into the net, backwards [A]."""
    floor_restitution: float = 0.75
    """[A]"""

    @property
    def net_top(self) -> float:
        """Height of the net's upper edge [m]."""
        return self.table[2] + self.net_height

    def over_table(self, position: Triple) -> bool:
        """Whether the ball's centre is above or below the table's top."""
        return (
            abs(position[0] - self.table[0]) <= self.half_width
            and abs(position[1] - self.table[1]) <= self.half_length
        )

    def step(
        self, physics: BallPhysics, ball: BallState, h: float, luck: float = 0.0
    ) -> tuple[BallState, Touch]:
        """The ball ``h`` [s] later, off whatever it meets, and what that was.

        ``luck``, in standard deviations, is how much more than usual the table gives back.
        """
        after = physics.flown(ball, h)
        height = self.table[2] + physics.radius
        if after.position[2] < height <= ball.position[2]:
            until = h * (ball.position[2] - height) / (ball.position[2] - after.position[2])
            touching = physics.flown(ball, until)
            if self.over_table(touching.position):
                x, y, _ = touching.position
                restitution = self.table_restitution(-touching.velocity[2], luck)
                up = self._off(physics, touching._replace(position=(x, y, height)), restitution)
                return physics.flown(up, h - until), Touch.TABLE
        if abs(after.position[1] - self.table[1]) < 2.0 * physics.radius:
            after, touched = self._at_net(physics, ball, after)
            if touched:
                return after, Touch.NET
        if after.position[2] < physics.radius and after.velocity[2] < 0.0:
            x, y, _ = after.position
            lying = after._replace(position=(x, y, physics.radius))
            return self._off(physics, lying, self.floor_restitution), Touch.FLOOR
        return after, Touch.NOTHING

    def table_restitution(self, speed: float, luck: float = 0.0) -> float:
        """Part of the vertical ``speed`` [m/s] that a bounce leaves."""
        usual = self.restitution + self.restitution_slope * (speed - self.impact)
        return min(max(usual + self.restitution_spread * luck, 0.0), 1.0)

    def _off(self, physics: BallPhysics, ball: BallState, restitution: float) -> BallState:
        """The ball off something flat and level."""
        return rebound(
            ball,
            (0.0, 0.0, 1.0),
            (0.0, 0.0, 0.0),
            radius=physics.radius,
            restitution=restitution,
            grip=self.grip,
            friction=self.friction,
        )

    def _at_net(
        self, physics: BallPhysics, before: BallState, ball: BallState
    ) -> tuple[BallState, bool]:
        """The ball near the net, and whether it touches it: its tape, which throws back, or the
        mesh, which catches."""
        (x, y, z), (vx, vy, vz), _ = ball
        if abs(x - self.table[0]) > self.net_half_width:
            return ball, False
        aside, above = y - self.table[1], z - self.net_top
        if above < 0.0:
            if aside * (before.position[1] - self.table[1]) > 0.0 or vy == 0.0:
                return ball, False
            back = (before.position[0], before.position[1], z)
            return BallState(
                back, (0.3 * vx, -self.net_speed * vy, 0.3 * vz), (0.0, 0.0, 0.0)
            ), True
        apart = (aside * aside + above * above) ** 0.5
        if apart >= physics.radius or aside * vy + above * vz >= 0.0:
            return ball, False
        normal = (0.0, aside / apart, above / apart)
        bounced = rebound(
            ball,
            normal,
            (0.0, 0.0, 0.0),
            radius=physics.radius,
            restitution=self.tape_restitution,
            grip=0.2,
            friction=float("inf"),
        )
        return bounced, True
