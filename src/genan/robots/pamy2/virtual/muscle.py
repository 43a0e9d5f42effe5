"""A McKibben muscle: force from pressure and contraction, with damping, creep and hysteresis; the
air that fills it, and the string that it pulls.

Static force of a 20 mm fluidic muscle, pressure p [bar] and contraction kappa [%]::

    F(p, kappa) = (a1 p + a2) exp(a3 kappa) + a4 kappa p + a5 p + a6          [N]

the form and the values that Sarosi fitted to Festo's DMSP-20 (the muscle of PAMY2); the exponential
is the passive stretch of the bladder. On top of it act, against the contraction y [m] and its rate:

- damping of braid and air (rate-dependent hysteresis):  -(c0 + c1 p) dy/dt
- creep of rubber and braid, a Prony series of springs that relax:  -sum k_i (y - y_i),
  dy_i/dt = (y - y_i) / T_i
- friction in the braid (rate-independent hysteresis with memory), Maxwell slip: elements i of
  stiffness k_i that hold up to a slip distance s_i:  -(p / p_ref) sum k_i z_i,  z_i <- clip(z_i +
  dy, -s_i, s_i)

A muscle pulls and never pushes: the net force is cut off at zero.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.robots.pamy2.virtual.columns import Joints, Muscles, Scalar, applied

MusclesByJoints = Float[Array, "8 4"]
Elements = Float[Array, "8 elements"]  # Of the braid's friction, per muscle.
Branches = Float[Array, "8 branches"]  # Of the rubber's creep, per muscle.


class Muscle(eqx.Module):
    """Parameters of the eight muscles; every field has one entry per muscle, or one for all."""

    length: Muscles  # Nominal length [m].
    static: Float[Array, "6"]  # a1 [N/bar], a2 [N], a3 [1/%], a4 [N/(% bar)], a5 [N/bar], a6 [N].
    strength: Muscles  # Factor on the static force: no two are the same, and warm rubber is softer.
    damping: Muscles  # c0 [N s/m].
    damping_pressure: Muscles  # c1 [N s/(m bar)].
    creep_stiffness: Branches  # k_i [N/m].
    creep_time: Float[Array, " branches"]  # T_i [s].
    slip_force: Muscles  # Braid friction with all elements slipping, at the reference pressure [N].
    slip_share: Float[Array, " elements"]  # Share of it that each element carries; sums to one.
    slip_distance: Float[Array, " elements"]  # Contraction after which each element slips [m].
    slip_pressure: Scalar  # p_ref [bar].

    def static_force(self, pressure: Muscles, y: Muscles) -> Muscles:
        """Static force [N] at pressure [bar] and contraction y [m], before the cut at zero."""
        a1, a2, a3, a4, a5, a6 = self.static
        kappa = 100.0 * y / self.length
        bladder = (a1 * pressure + a2) * jnp.exp(a3 * kappa)
        return self.strength * (bladder + (a4 * kappa + a5) * pressure + a6)

    def stiffness(self, pressure: Muscles, y: Muscles) -> Muscles:
        """-dF/dy of the static force [N/m], never negative."""
        a1, a2, a3, a4, _, _ = self.static
        kappa = 100.0 * y / self.length
        slope = (a1 * pressure + a2) * a3 * jnp.exp(a3 * kappa) + a4 * pressure
        return jnp.maximum(-self.strength * slope * 100.0 / self.length, 0.0)

    def viscosity(self, pressure: Muscles) -> Muscles:
        """Damping coefficient c0 + c1 p [N s/m]."""
        return self.damping + self.damping_pressure * pressure

    def friction(self, pressure: Muscles, slip: Elements) -> Muscles:
        """Force of the Maxwell elements [N] against a contraction that stretched them."""
        load = jnp.maximum(pressure, 0.0) / self.slip_pressure * self.slip_force
        return load * jnp.sum(self.slip_share / self.slip_distance * slip, axis=-1)

    def slipped(self, slip: Elements, dy: Muscles) -> Elements:
        """Element states [m] after the contraction changed by ``dy`` [m]."""
        return jnp.clip(slip + dy[:, None], -self.slip_distance, self.slip_distance)

    def creep(self, y: Muscles, y_creep: Branches) -> Array:
        """Force of the springs that relax [N] against the contraction."""
        return jnp.sum(self.creep_stiffness * (y[:, None] - y_creep), axis=-1)

    def crept(self, y_creep: Branches, y: Muscles, h: float) -> Branches:
        """Relaxed contractions [m] after ``h`` [s]."""
        return y_creep + (y[:, None] - y_creep) * (h / (self.creep_time + h))


ATMOSPHERE = 1.013  # Atmospheric pressure [bar]; all pressures of the robot are gauge pressures.


class Air(eqx.Module):
    """Parameters of valves, supply and volumes, one entry per muscle unless said otherwise.

    A command travels (transport delay), the valve follows it with play, its loop opens in
    proportion to the pressure error up to its limits, valve and hose take a moment, the flow fills
    or vents the muscle's volume, and a moving muscle compresses its own air::

        p_held <- clip(p_held, p_command - play, p_command + play)
        dv/dt = (clip((p_held + offset + d - p) / p_band, -1, 1) - v) / T_line
        dp/dt = (v > 0 ? fill : vent) v psi(p) / (V / V0) - (p + p_atm) (dV/dt) / V

        fill psi = fill rate x sqrt((p_buffer - p) / (p_supply - p_ref)),   vent psi = vent rate x
        sqrt(p / p_ref)

    All muscles fill from one buffer, whose pressure sags and recovers. And a valve never stops
    twice at the same place: the pressure that its loop holds is off by d, which wanders about zero
    with the way that the valve has gone, and hardly while it stands::

        dp_buffer/dt = (p_supply - p_buffer) / T_supply - sum (V0 / V_buffer) filling flow
        d <- a d + sqrt(1 - a^2) disturbance n,   a = exp(-|change of p_held| / way - h / T_wander)

    so the small-signal loop is of second order with the time constants p_band / rate, different for
    filling and venting, and T_line, and large steps run into the flow limit. V = V0 (1 + v1 kappa):
    a contracting muscle swells.
    """

    band: Muscles  # Pressure error that opens the valve fully [bar].
    fill_rate: Muscles  # Pressure rise with the valve fully open at the reference pressure [bar/s].
    vent_rate: Muscles  # Pressure fall with the valve fully open at the reference pressure [bar/s].
    supply: Scalar  # Supply pressure [bar].
    reference: Scalar  # p_ref [bar].
    swelling: Scalar  # v1: growth of the volume with contraction [1/%].
    line_time: Muscles  # T_line of valve spool and hose [s].
    play: Scalar  # Half the width of the valve's hysteresis [bar].
    offset: Muscles  # What the loops are off by today [bar].
    share: Muscles  # V0 / V_buffer: what filling takes from the buffer.
    supply_time: Scalar  # T_supply, in which the buffer recovers [s].
    disturbance: Scalar  # Standard deviation of d [bar].
    disturbance_way: Scalar  # Way of the valve after which d is another [bar].
    disturbance_time: Scalar  # T_wander: time after which it is all the same [s].

    def held(self, held: Muscles, command: Muscles) -> Muscles:
        """What the valve makes of a new command [bar]."""
        return jnp.clip(held, command - self.play, command + self.play)

    def disturbed(self, d: Muscles, moved: Muscles, n: Muscles, h: float) -> Muscles:
        """Value of d [bar] ``h`` [s] later; valves ``moved`` [bar], ``n`` are normal numbers."""
        a = jnp.exp(-jnp.abs(moved) / self.disturbance_way - h / self.disturbance_time)
        return a * d + jnp.sqrt(1.0 - a * a) * self.disturbance * n

    def supplied(self, buffer: Scalar, flow: Muscles, h: float) -> Scalar:
        """Pressure of the buffer [bar] after ``h`` [s] of flow into the muscles [bar/s]."""
        taken = jnp.sum(self.share * jnp.maximum(flow, 0.0))
        return buffer + h * ((self.supply - buffer) / self.supply_time - taken)

    def opened(self, opening: Muscles, pressure: Muscles, command: Muscles, h: float) -> Muscles:
        """Valve opening in [-1, 1] after ``h`` [s], at pressure and command [bar]."""
        wanted = jnp.clip((command - pressure) / self.band, -1.0, 1.0)
        return opening + (wanted - opening) * (h / (self.line_time + h))

    def flow(self, pressure: Muscles, opening: Muscles, buffer: Scalar, kappa: Muscles) -> Muscles:
        """Rise of pressure by what flows in or out [bar/s], at pressures [bar], contraction [%]."""
        above = jnp.maximum(buffer - pressure, 0.0)
        fill = self.fill_rate * jnp.sqrt(above / (self.supply - self.reference))
        vent = self.vent_rate * jnp.sqrt(jnp.maximum(pressure, 0.0) / self.reference)
        return opening * jnp.where(opening > 0.0, fill, vent) / (1.0 + self.swelling * kappa)

    def compression(self, pressure: Muscles, kappa: Muscles, kappa_rate: Muscles) -> Muscles:
        """Rise of pressure [bar/s] because the muscle's volume changes."""
        swelling = self.swelling * kappa_rate / (1.0 + self.swelling * kappa)
        return -(pressure + ATMOSPHERE) * swelling


class Tendon(eqx.Module):
    """Parameters of the eight tendons, elastic strings that rub where they bend.

    A muscle's tendon calls for the contraction ``y_path = y0 + sum_j arm[m, j] (q_j - q_neutral_j)
    + slack``. The string stretches by what the muscle contracts beyond it and carries tension only
    when taut::

        T_muscle = k max(y - y_path, 0)

    On the way it bends through guides: Euler-Eytelwein (capstan) friction, growing with the tension
    and with the angles of the joints on its route, against the direction w in [-1, 1] of sliding,
    which builds up over a small distance (Dahl)::

        wrap(q)  = wrap0_m + sum_j route[m, j] |q_j|
        T_joint  = T_muscle exp(-mu wrap w),      w <- clip(w + dy / x_slide, -1, 1)
        tau_j    = sum_m arm[m, j] T_joint

    Off-diagonal arms couple the tendons of the distal joints to the joints they pass.
    """

    arm: MusclesByJoints  # Moment arms [m]: positive where a muscle pulls towards positive angles.
    q_neutral: Joints  # Pose at which every muscle has its assembly contraction [rad].
    y_assembly: Muscles  # y0: contraction at the neutral pose with a taut, unstretched string [m].
    stiffness: Muscles  # k of string, guides and mounts together [N/m].
    slack: Muscles  # Elongation by creep of string and printed parts [m].
    friction: Muscles  # mu of string on guide.
    wrap: Muscles  # wrap0: fixed bending angle of the route [rad].
    route: MusclesByJoints  # Share of each joint's angle that adds to the bending of the route.
    slide_distance: Scalar  # x_slide [m].

    def path(self, q: Joints) -> Muscles:
        """Contraction y_path [m] that pose q [rad] calls for."""
        dq = q - self.q_neutral
        return self.y_assembly + self.slack + applied(self.arm, dq)

    def path_rate(self, qd: Joints) -> Muscles:
        """Rate of y_path [m/s]."""
        return applied(self.arm, qd)

    def joint_tension(self, tension: Muscles, q: Joints, slide: Muscles) -> Muscles:
        """Tension at the pulley [N] from the tension at the muscle [N]."""
        bend = self.wrap + applied(self.route, jnp.abs(q))
        return tension * jnp.exp(-self.friction * bend * slide)

    def torque(self, joint_tension: Muscles) -> Joints:
        """Joint torques [N m] from the tensions at the pulleys [N]."""
        return applied(self.arm.T, joint_tension)

    def slid(self, slide: Muscles, dy: Muscles) -> Muscles:
        """Sliding direction w after the contraction changed by ``dy`` [m]."""
        return jnp.clip(slide + dy / self.slide_distance, -1.0, 1.0)
