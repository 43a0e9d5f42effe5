"""The design of the virtual PAMY2 in numbers: every value with where it comes from.

Tags: [R] read in a published source of the lab, [D] derived from one, [L] from the literature on
such parts, [C] calibrated so that ``genan identify`` meets the lab's identified dynamics, [P] set
so that the paper's recipe is off by what it is in the paper after 500 steps, [A] assumed.
``docs/virtual-pamy2.md`` tells the whole story.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import SettingError, listing
from genan.robots.pamy2.virtual.arm import Encoder, RigidArm
from genan.robots.pamy2.virtual.cup import CupAndBall
from genan.robots.pamy2.virtual.muscle import Air, Muscle, Tendon

DELAY_TICKS = 4
"""Transport delay of a command in 2 ms ticks: telegram, PLC cycle and valve dead time [C]."""

_DEG = np.pi / 180.0


class Parameters(eqx.Module):
    """Everything that is fixed about one virtual PAMY2 at one age."""

    arm: RigidArm
    muscle: Muscle
    tendon: Tendon
    air: Air
    encoder: Encoder
    delay: int = eqx.field(static=True, default=DELAY_TICKS)  # Transport delay [ticks of 2 ms].
    toy: CupAndBall | None = None
    """Cup, string and ball in the robot's hand, if it plays with them."""

    def without(self, *effects: str) -> "Parameters":
        """The same robot with these effects (of ``EFFECTS``) switched off."""
        parameters = self
        for effect in effects:
            if effect not in _SWITCHES:
                raise SettingError(
                    f"There is no effect {effect!r} to switch off; there are: {listing(EFFECTS)}."
                )
            parameters = _SWITCHES[effect](parameters)
        return parameters


END_EFFECTORS = ("racket", "cup")  # What the arm can hold.


def design(end_effector: str = "racket") -> Parameters:
    """PAMY2 as drawn: every specimen is this one with its own small deviations."""
    if end_effector not in END_EFFECTORS:
        raise SettingError(
            f"The virtual PAMY2 has no end effector {end_effector!r}; there are: "
            f"{listing(END_EFFECTORS)}."
        )
    arm = _arm() if end_effector == "racket" else _arm_with_cup()
    return Parameters(arm=arm, muscle=_muscle(), tendon=_tendon(), air=_air(), encoder=_encoder())


def _pairs(*per_joint: float) -> jnp.ndarray:
    """One value per joint, given to both muscles of its pair."""
    return jnp.asarray(np.repeat(per_joint, 2))


#: Neutral pose [rad]: where the assembly is symmetric. Shoulder and elbow are set so that the pose
#: at the lab's anchor pressures is near the lab's start pose, and the paper's initial controls lead
#: to the paper's goals [C].
_Q_NEUTRAL = np.array([0.0, 35.0, 22.0, 0.0]) * _DEG


def _arm() -> RigidArm:
    # Rigid bodies: the lab's CAD values [R]. Rubber stops begin 3 degrees before the limits [A].
    return RigidArm(
        offset=jnp.array(
            [[0.0, 0.0, 0.010], [0.0, 0.0, 0.064], [0.0069795, 0.0, 0.39986], [0.0, 0.0, 0.0]]
        ),
        mass=jnp.array([0.884596, 0.747222, 0.310582, 0.538422]),
        centre=jnp.array(
            [
                [0.00013, -0.00040, 0.00002],
                [0.003188, 0.001564, 0.187132],
                [0.000476, 0.006274, 0.018086],
                [-0.000078, 0.000224, 0.278462],
            ]
        ),
        inertia=jnp.array(
            [
                [9.5718e-4, 9.4313e-4, 1.66206e-3, -7e-8, -2.2e-7, -2.1e-7],
                [1.83751e-3, 1.94289e-3, 2.01105e-4, 9.37e-7, -2.8551e-5, -4.048e-6],
                [1.70713e-4, 2.30283e-4, 9.1428e-5, -6.4e-8, -2.172e-6, -1.543e-6],
                [1.15973e-3, 1.65717e-3, 5.28448e-4, 2e-8, 1e-8, 7e-8],
            ]
        ),
        stop=jnp.array([[-87.0, -72.0, -82.0, -82.0], [87.0, 82.0, 82.0, 82.0]]) * _DEG,
        stop_stiffness=jnp.array([300.0, 300.0, 120.0, 40.0]),  # [A]
        stop_damping=jnp.array([3.0, 3.0, 0.8, 0.1]),  # [A]
        hose_stiffness=jnp.array([0.117, 1.95, 0.0806, 0.983]),  # [C]
        q_neutral=jnp.asarray(_Q_NEUTRAL),
        viscosity=jnp.array([0.125, 0.716, 0.0187, 0.125]),  # [C]
        bearing_friction=jnp.array([0.586, 0.64, 0.18, 0.179]),  # [C]
        bearing_distance=jnp.array([0.01, 0.01, 0.01, 0.02]) * _DEG,  # [A]
        stiction=jnp.array(0.69),  # [C]
        stiction_speed=jnp.array(3.0) * _DEG,  # [A]
    )


#: Forearm tube and cup, as in the robot ``pamy2-cup``: mass [kg], centre [m], inertia xx, yy, zz
#: about it [kg m^2].
_TUBE = (0.187, np.array([0.0, 0.0, 0.14]), np.array([1.2331e-3, 1.2331e-3, 2.0e-5]))  # [D]
# Mass [R], the rest [A].
_CUP = (0.107, np.array([0.030, 0.0, 0.325]), np.array([1.85e-4, 1.30e-4, 1.30e-4]))


def _arm_with_cup() -> RigidArm:
    """The arm whose last link carries a cup instead of the racket."""
    arm = _arm()
    mass = _TUBE[0] + _CUP[0]
    centre = (_TUBE[0] * _TUBE[1] + _CUP[0] * _CUP[1]) / mass
    inertia = np.zeros((3, 3))
    for part_mass, part_centre, part_inertia in (_TUBE, _CUP):
        r = part_centre - centre
        inertia += np.diag(part_inertia) + part_mass * (r @ r * np.eye(3) - np.outer(r, r))
    entries = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    return dataclasses.replace(
        arm,
        mass=arm.mass.at[3].set(mass),
        centre=arm.centre.at[3].set(jnp.asarray(centre)),
        inertia=arm.inertia.at[3].set(jnp.asarray(entries)),
    )


def _muscle() -> Muscle:
    return Muscle(
        length=_pairs(1.2, 0.68, 0.68, 0.68),  # DMSP-20-1200N and DMSP-20-680N [R]
        static=jnp.array([-4.356, 281.2, -0.3287, -9.270, 302.2, -265.7]),  # DMSP-20, Sarosi [L]
        strength=_pairs(0.935, 0.967, 1.09, 1.06),  # of the catalogue's [C]
        damping=_pairs(38.7, 72.8, 13.1, 23.3),  # [C]
        damping_pressure=_pairs(10.3, 14.6, 6.57, 11.6),  # [C]
        # About 0.5, 0.13 and 0.09 of the muscle's own stiffness [C]; the first relaxes near the
        # lab's slow poles, 0.41 to 0.57 Hz [C], the others as slowly as rubber is known for [A].
        creep_stiffness=jnp.stack(
            [
                _pairs(1050.0, 2730.0, 3140.0, 3550.0),
                _pairs(297.0, 770.0, 884.0, 1000.0),
                _pairs(198.0, 513.0, 590.0, 667.0),
            ],
            axis=-1,
        ),
        creep_time=jnp.array([0.25, 4.0, 40.0]),
        slip_force=_pairs(1.19, 1.61, 0.926, 0.65),  # [C]
        slip_share=jnp.array([0.3, 0.3, 0.4]),  # [A]
        slip_distance=jnp.array([0.4e-3, 1.5e-3, 5.0e-3]),  # [A]
        slip_pressure=jnp.array(2.0),
    )


def _tendon() -> Tendon:
    # Pulley radii: 40, 23.7 and 17.2 mm from the lab's drawings [D]; joint 1's bearing seat has 50
    # to 54 mm [C].
    radius = (0.054, 0.040, 0.0237, 0.0172)
    arm = np.zeros((8, 4))
    for joint, r in enumerate(radius):
        # The agonist pulls towards negative angles [R].
        arm[2 * joint, joint], arm[2 * joint + 1, joint] = -r, r
    # Ideal routes pass through the joint centres; a guide 1 to 2 mm off couples the joints [A].
    arm[4:6, 1] = 0.0015
    arm[6:8, 1] = -0.0010
    arm[6:8, 2] = 0.0012
    route = np.zeros((8, 4))
    route[2:4, 0] = 0.2
    route[4:6, :2] = 0.4
    route[6:8, :3] = 0.4
    return Tendon(
        arm=jnp.array(arm),
        q_neutral=jnp.asarray(_Q_NEUTRAL),
        y_assembly=_pairs(0.074, 0.043, 0.0336, 0.0306) * _pairs(1.2, 0.68, 0.68, 0.68),  # [C]
        # 1.8 mm string on joint 2, 1.4 mm in long guides beyond [A].
        stiffness=_pairs(1.2e5, 1.2e5, 0.3e5, 0.3e5),
        slack=jnp.zeros(8),
        friction=jnp.full(8, 0.00545),  # [C]
        wrap=_pairs(0.1, 0.25, 0.35, 0.4),  # [A]
        route=jnp.array(route),
        slide_distance=jnp.array(1.0e-3),  # [A]
    )


def _air() -> Air:
    # The lab's simulator has lags of 15.9 ms for joint 1 and 43.9 ms for the others [R]; the split
    # into loop and line is [C]; filling is quicker than venting [L].
    fill = np.array([0.0112, 0.0308, 0.026, 0.0347])
    vent = np.array([0.0171, 0.039, 0.0433, 0.0454])
    band = np.array([0.5, 0.6, 0.6, 0.6])
    return Air(
        band=_pairs(*band),
        fill_rate=_pairs(*(band / fill)),
        vent_rate=_pairs(*(band / vent)),
        supply=jnp.array(6.0),
        reference=jnp.array(2.0),
        swelling=jnp.array(0.012),
        line_time=_pairs(0.00558, 0.0326, 0.0101, 0.039),
        play=jnp.array(0.01),  # [A]
        offset=jnp.zeros(8),
        # Bore 20 mm, 1.2 and 0.68 m long, on a buffer of 2 l [R].
        share=jnp.asarray(np.pi / 4 * 0.02**2 / 0.002 * np.repeat([1.2, 0.68, 0.68, 0.68], 2)),
        supply_time=jnp.array(0.3),  # [A]
        disturbance=jnp.array(0.04),  # [P]
        disturbance_way=jnp.array(0.5),  # [A]
        disturbance_time=jnp.array(60.0),  # [A]
    )


def _encoder() -> Encoder:
    quantum = jnp.array([0.0180, 0.0196, 0.0250, 0.0250]) * _DEG  # [R]
    jitter = jnp.array(0.002 * 7.3 / 500.0)  # [R]
    return Encoder(quantum=quantum, homing_error=jnp.zeros(4), jitter=jitter)


def _replace(parameters: Parameters, part: str, **fields: object) -> Parameters:
    changed = dataclasses.replace(getattr(parameters, part), **fields)
    return dataclasses.replace(parameters, **{part: changed})


def _without_coupling(parameters: Parameters) -> Parameters:
    own = jnp.repeat(jnp.eye(4), 2, axis=0)
    return _replace(parameters, "tendon", arm=parameters.tendon.arm * own)


def _without_flow(parameters: Parameters) -> Parameters:
    """Valves that follow their command within a tick, and volumes that do not change."""
    quick = jnp.full(8, 1e4)
    return _replace(
        parameters,
        "air",
        fill_rate=quick,
        vent_rate=quick,
        band=jnp.full(8, 10.0),
        swelling=jnp.array(0.0),
        line_time=jnp.zeros(8),
    )


_SWITCHES: dict[str, Callable[[Parameters], Parameters]] = {
    "hysteresis": lambda p: _replace(p, "muscle", slip_force=jnp.zeros(8)),
    "creep": lambda p: _replace(p, "muscle", creep_stiffness=0.0 * p.muscle.creep_stiffness),
    "capstan": lambda p: _replace(p, "tendon", friction=jnp.zeros(8)),
    "coupling": _without_coupling,
    "delay": lambda p: dataclasses.replace(p, delay=0),
    "flow": _without_flow,
    "bearing": lambda p: _replace(p, "arm", bearing_friction=jnp.zeros(4)),
    "quantisation": lambda p: _replace(p, "encoder", quantum=jnp.zeros(4)),
    "jitter": lambda p: _replace(p, "encoder", jitter=jnp.array(0.0)),
    "disturbance": lambda p: _replace(p, "air", disturbance=jnp.array(0.0)),
    "play": lambda p: _replace(p, "air", play=jnp.array(0.0)),
    "supply": lambda p: _replace(p, "air", share=jnp.zeros(8)),
}

EFFECTS = tuple(_SWITCHES)
"""Effects that can be switched off, for tests and for studies of what each one does."""


# One specimen of the design: no two robots are the same, and none is quite its CAD model.
#
# Every deviation is a seeded draw, fixed for the specimen's life::
#
#     value = design x (1 + spread N(0, 1)),   centre of mass and homing: design + spread N(0, 1)

#: Relative spread of one standard deviation (absolute where a unit is given) [A].
_MASS = 0.03
_INERTIA = 0.04
_CENTRE = 0.002  # m
_STRENGTH = 0.02
_FRICTION = 0.08
_RADIUS = 0.01
_ASSEMBLY = 0.02
_HOMING = np.radians(0.15)  # rad


def specimen(design: Parameters, seed: int) -> Parameters:
    """The robot with serial number ``seed``."""
    draw = np.random.default_rng([seed, 0x5EC])

    def about_one(spread: float, like: jnp.ndarray) -> jnp.ndarray:
        return jnp.asarray(1.0 + spread * np.clip(draw.standard_normal(like.shape), -2.0, 2.0))

    arm, muscle, tendon = design.arm, design.muscle, design.tendon
    along = np.array([0.3, 0.3, 1.0])  # along the links, where the mass is, a centre is known worst
    arm = dataclasses.replace(
        arm,
        mass=arm.mass * about_one(_MASS, arm.mass),
        centre=arm.centre
        + jnp.asarray(_CENTRE * along * np.clip(draw.standard_normal((4, 3)), -2.0, 2.0)),
        inertia=arm.inertia * about_one(_INERTIA, arm.mass)[:, None],
        bearing_friction=arm.bearing_friction * about_one(_FRICTION, arm.bearing_friction),
        viscosity=arm.viscosity * about_one(_FRICTION, arm.viscosity),
    )
    muscle = dataclasses.replace(
        muscle,
        strength=muscle.strength * about_one(_STRENGTH, muscle.strength),
        slip_force=muscle.slip_force * about_one(_FRICTION, muscle.slip_force),
        damping=muscle.damping * about_one(_FRICTION, muscle.damping),
    )
    tendon = dataclasses.replace(
        tendon,
        arm=tendon.arm * about_one(_RADIUS, tendon.slack)[:, None],
        y_assembly=tendon.y_assembly * about_one(_ASSEMBLY, tendon.y_assembly),
        friction=tendon.friction * about_one(_FRICTION, tendon.friction),
    )
    encoder = dataclasses.replace(
        design.encoder,
        homing_error=jnp.asarray(_HOMING * np.clip(draw.standard_normal(4), -2.0, 2.0)),
    )
    return dataclasses.replace(design, arm=arm, muscle=muscle, tendon=tendon, encoder=encoder)


class Drift(eqx.Module):
    """How one specimen ages with its operating hours; drawn once from its seed.

    With t the operating hours since the robot was put together, and every magnitude scaled by
    ``rate``::

        warm(t)  = 1 - exp(-t / 0.5 h)                           muscles and guides warm up
        creep(t) = log(1 + t / 2 h)                              strings and printed parts give way
        wear(t)  = sqrt(t / 100 h)                               guides wear, friction rises
        room(t)  = seeded sum of slow waves, about +-1           the room's temperature, and more
        turn(t)  = a seeded wave of minutes for each muscle      what a session's pressures do

        strength x (1 - 0.010 warm + 0.006 room)       damping x (1 - 0.10 warm - 0.03 room)
        slack    + 0.5 mm creep x muscle's share
        tendon friction x (1 - 0.05 warm + 0.15 wear + 0.03 room)
        pressure + 0.01 bar turn

    No figures are published for PAMY2; the magnitudes are chosen so that a day's work shifts
    resting poses by a degree or so, as the paper's limitations describe.
    """

    rate: Float[Array, ""]  # Scale of all drift: 0 is a robot that never changes, 1 the usual.
    share: Float[Array, "8"]  # Share of the tendon creep that each muscle's string takes.
    period: Float[Array, "waves"]  # Periods of the slow waves [h].
    phase: Float[Array, "waves"]  # Phases of the slow waves [rad].
    turn_period: Float[Array, "8"]  # Periods of the waves of a session [h].
    turn_phase: Float[Array, "8"]  # Their phases [rad].

    @classmethod
    def drawn(cls, seed: int, *, rate: float) -> "Drift":
        """The drift of the specimen with serial number ``seed``."""
        draw = np.random.default_rng([seed, 0xD21F7])
        return cls(
            rate=jnp.asarray(rate),
            share=jnp.asarray(draw.uniform(0.3, 1.7, 8)),
            period=jnp.asarray(np.array([3.0, 11.0, 24.0]) * draw.uniform(0.8, 1.25, 3)),
            phase=jnp.asarray(draw.uniform(0.0, 2.0 * np.pi, 3)),
            turn_period=jnp.asarray(draw.uniform(0.1, 0.7, 8)),
            turn_phase=jnp.asarray(draw.uniform(0.0, 2.0 * np.pi, 8)),
        )

    def aged(self, parameters: Parameters, hours: Float[Array, ""]) -> Parameters:
        """The robot after ``hours`` of operation [h]."""
        warm = self.rate * (1.0 - jnp.exp(-hours / 0.5))
        creep = self.rate * jnp.log1p(hours / 2.0)
        wear = self.rate * jnp.sqrt(hours / 100.0)
        waves = jnp.sin(2.0 * jnp.pi * hours / self.period + self.phase) - jnp.sin(self.phase)
        room = self.rate * jnp.mean(waves)
        turn = jnp.sin(2.0 * jnp.pi * hours / self.turn_period + self.turn_phase)
        muscle, tendon, air = parameters.muscle, parameters.tendon, parameters.air
        return dataclasses.replace(
            parameters,
            air=dataclasses.replace(air, offset=air.offset + 0.01 * self.rate * turn),
            muscle=dataclasses.replace(
                muscle,
                strength=muscle.strength * (1.0 - 0.010 * warm + 0.006 * room),
                damping=muscle.damping * (1.0 - 0.10 * warm - 0.03 * room),
            ),
            tendon=dataclasses.replace(
                tendon,
                slack=tendon.slack + 0.5e-3 * creep * self.share,
                friction=tendon.friction * (1.0 - 0.05 * warm + 0.15 * wear + 0.03 * room),
            ),
        )
