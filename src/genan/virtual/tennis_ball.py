"""The true table-tennis ball: it spins, the air drags and lifts it, and what it touches changes its
spin.

::

    dv/dt = -g z - c C_D |v| v + c C_L r (spin x v),    c = density area / (2 mass)
    C_L   = slope / (1 + saturation S),                 S = r |spin| / |v|
    dw/dt = -decay spin

by the rule of Runge and Kutta in steps of 0.5 ms. Arrays of many balls go through the same code as
the floats of one; the calibration does that.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from genan.virtual.triples import Triple, cross, dot, minus, plus, scaled

STEP = 0.0005
"""Longest step of the flight [s]."""


class BallState(NamedTuple):
    """Where the ball is and what it does, in the world frame."""

    position: Triple
    """Centre [m]."""
    velocity: Triple
    """[m/s]"""
    spin: Triple
    """Angular velocity [rad/s]."""


@dataclass(frozen=True)
class BallPhysics:
    """Ball and air. [R] read in a source of the lab, [L] literature, [C] calibrated on recorded
    balls, [A] assumed."""

    mass: float = 0.0027
    """[kg] [R]"""
    radius: float = 0.02
    """[m] [R]"""
    gravity: float = 9.808
    """[m/s^2], the lab's ball models [R]."""
    density: float = 1.18
    """Of the air [kg/m^3], the lab's ball models [R]."""
    drag: float = 0.388
    """C_D [C]."""
    lift_slope: float = 2.26
    """C_L per spin ratio S, of a ball that spins slowly [C]."""
    lift_saturation: float = 8.0
    """How much less a quick spin lifts: C_L S stays below slope / saturation [A]; the slope above
    was fitted to it."""
    spin_decay: float = 0.05
    """Share of the spin that the air takes in a second [1/s] [A]."""

    @cached_property
    def _air(self) -> float:
        return 0.5 * self.density * math.pi * self.radius**2 / self.mass

    def acceleration(self, velocity: Triple, spin: Triple, turning: float) -> Triple:
        """Of the ball in the air [m/s^2]; ``turning`` is the speed of its surface, r |spin|
        [m/s]."""
        vx, vy, vz = velocity
        wx, wy, wz = spin
        speed = (vx * vx + vy * vy + vz * vz) ** 0.5
        drag = self._air * self.drag * speed
        lift = (
            self._air
            * self.lift_slope
            * self.radius
            * speed
            / (speed + self.lift_saturation * turning + 1e-12)
        )
        return (
            lift * (wy * vz - wz * vy) - drag * vx,
            lift * (wz * vx - wx * vz) - drag * vy,
            lift * (wx * vy - wy * vx) - drag * vz - self.gravity,
        )

    def flown(self, ball: BallState, h: float) -> BallState:
        """The ball ``h`` [s] later, if it meets nothing on its way: one step of Runge and Kutta."""
        (px, py, pz), (vx, vy, vz), (wx, wy, wz) = ball
        middle = (
            1.0 - 0.5 * h * self.spin_decay
        )  # the spin changes so little that its value halfway serves the step
        spin = (wx * middle, wy * middle, wz * middle)
        turning = self.radius * (spin[0] ** 2 + spin[1] ** 2 + spin[2] ** 2) ** 0.5
        half = 0.5 * h
        ax, ay, az = self.acceleration((vx, vy, vz), spin, turning)
        bx, by, bz = self.acceleration(
            (vx + half * ax, vy + half * ay, vz + half * az), spin, turning
        )
        cx, cy, cz = self.acceleration(
            (vx + half * bx, vy + half * by, vz + half * bz), spin, turning
        )
        dx, dy, dz = self.acceleration((vx + h * cx, vy + h * cy, vz + h * cz), spin, turning)
        sixth, square = h / 6.0, h * h / 6.0
        left = 1.0 - h * self.spin_decay
        return BallState(
            (
                px + h * vx + square * (ax + bx + cx),
                py + h * vy + square * (ay + by + cy),
                pz + h * vz + square * (az + bz + cz),
            ),
            (
                vx + sixth * (ax + 2.0 * bx + 2.0 * cx + dx),
                vy + sixth * (ay + 2.0 * by + 2.0 * cy + dy),
                vz + sixth * (az + 2.0 * bz + 2.0 * cz + dz),
            ),
            (wx * left, wy * left, wz * left),
        )

    def energy(self, ball: BallState) -> float:
        """Kinetic energy of flight and spin, and that of height above the floor [J]; the ball is a
        thin shell."""
        squares = [sum(x * x for x in part) for part in (ball.velocity, ball.spin)]
        turning = self.radius**2 * squares[1] / 1.5
        return self.mass * (0.5 * (squares[0] + turning) + self.gravity * ball.position[2])


def rebound(
    ball: BallState,
    normal: Triple,
    surface: Triple,
    *,
    radius: float,
    restitution: float,
    grip: float,
    friction: float,
) -> BallState:
    """The ball just after it met a surface, where it was just before.

    The surface pushes along its normal and rubs against the sliding of the ball's touching point,
    whose velocity is s:

        dv = -(1 + e) v_n n - k s,   dspin = 3 k / (2 r) n x s,   k = min(grip, mu (1 + e) |v_n| /
        |s|)

    With a grip of 2/5 a ball that does not slide leaves rolling (Nakashima et al. 2010); more would
    throw its surface back. Between them momentum and angular momentum are kept whatever k is, and
    energy does not grow up to k = 4/5.

    Args:
        ball: just before.
        normal: of the surface, towards the ball, of length 1.
        surface: velocity of the surface where it is touched [m/s].
        radius: of the ball [m].
        restitution: e, the part of the normal speed that is left.
        grip: largest k.
        friction: mu of the sliding ball; infinite where it never slides.
    """
    relative = minus(ball.velocity, surface)
    coming = dot(relative, normal)
    arm = scaled(-radius, normal)
    slide = minus(plus(relative, cross(ball.spin, arm)), scaled(coming, normal))
    sliding = math.sqrt(dot(slide, slide))
    push = (1.0 + restitution) * abs(coming)
    k = min(grip, friction * push / sliding) if sliding > 1e-9 else grip
    change = plus(scaled(push, normal), scaled(-k, slide))
    turn = scaled(1.5 * k / radius, cross(normal, slide))
    return BallState(ball.position, plus(ball.velocity, change), plus(ball.spin, turn))
