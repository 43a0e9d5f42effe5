"""The design of the virtual PAMY2, whose numbers are in ``design.toml`` with where they come from;
its specimens, each a little off the design, and how they age."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import listing, refuse
from genan.robots.pamy2.virtual import DESIGN
from genan.robots.pamy2.virtual.arm import Encoder, RigidArm
from genan.robots.pamy2.virtual.cup import CupAndBall
from genan.robots.pamy2.virtual.muscle import Air, Muscle, Tendon

#: Transport delay of a command in 2 ms ticks: telegram, PLC cycle and valve dead time [C].
DELAY_TICKS = 4
_DEG = np.pi / 180.0
Part = TypeVar("Part")


class Parameters(eqx.Module):
    """Everything that is fixed about one virtual PAMY2 at one age."""

    arm: RigidArm
    muscle: Muscle
    tendon: Tendon
    air: Air
    encoder: Encoder
    delay: int = eqx.field(static=True, default=DELAY_TICKS)  # Transport delay [ticks of 2 ms].
    toy: CupAndBall | None = None  # Cup, string and ball in its hand, if it plays with them.

    def without(self, *effects: str) -> "Parameters":
        """The same robot with these effects (of ``EFFECTS``) switched off."""
        parameters = self
        for effect in effects:
            none = f"There is no effect {effect!r} to switch off; there are: {listing(EFFECTS)}."
            refuse((effect not in _SWITCHES, none))
            parameters = _SWITCHES[effect](parameters)
        return parameters


END_EFFECTORS = ("racket", "cup")  # What the arm can hold.


def design(end_effector: str = "racket") -> Parameters:
    """PAMY2 as drawn: every specimen is this one with its own small deviations."""
    none, there = f"The virtual PAMY2 has no end effector {end_effector!r}", listing(END_EFFECTORS)
    refuse((end_effector not in END_EFFECTORS, f"{none}; there are: {there}."))
    basis, length, band = DESIGN["basis"], _pairs("muscle", "length"), _pairs("air", "band")
    fill, vent = (np.repeat(basis[name], 2) for name in ("fill", "vent"))
    assembly = np.repeat(basis["assembly"], 2) * length
    share = np.pi / 4 * basis["bore"] ** 2 / basis["buffer"] * length
    arm = _part(RigidArm, "arm")
    return Parameters(
        arm=arm if end_effector == "racket" else _with_cup(arm),
        muscle=_part(Muscle, "muscle"),
        tendon=_part(Tendon, "tendon", q_neutral=arm.q_neutral, y_assembly=assembly),
        air=_part(Air, "air", fill_rate=band / fill, vent_rate=band / vent, share=share),
        encoder=_part(Encoder, "encoder"),
    )


def _pairs(table: str, name: str) -> Float[np.ndarray, "8 *more"]:
    """What ``design.toml`` has of each joint, for both muscles of its pair."""
    return np.repeat(DESIGN[table]["pairs"][name], 2, axis=0)


def _part(kind: Callable[..., Part], table: str, **more: Any) -> Part:
    """One of the parts, of what ``design.toml`` has of it and ``more`` that follows from that."""
    found = {**DESIGN[table], **more}
    found |= {name: _pairs(table, name) for name in found.pop("pairs", ())}
    degrees = found.pop("degrees", {})
    found |= {name: np.array(angle) * _DEG for name, angle in degrees.items()}
    return kind(**{name: jnp.asarray(value) for name, value in found.items()})


def _with_cup(arm: RigidArm) -> RigidArm:
    """The arm whose last link carries a cup instead of the racket."""
    names = ("mass", "centre", "inertia")
    bodies = [[np.array(body[name]) for name in names] for body in DESIGN["cup"]]
    mass = sum(own for own, _, _ in bodies)
    centre = sum(own * place for own, place, _ in bodies) / mass
    inertia = np.zeros((3, 3))
    for own, place, moments in bodies:
        r = place - centre
        inertia += np.diag(moments) + own * (r @ r * np.eye(3) - np.outer(r, r))
    entries = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    link = zip(names, (mass, centre, entries), strict=True)
    changed = {name: getattr(arm, name).at[3].set(jnp.asarray(value)) for name, value in link}
    return dataclasses.replace(arm, **changed)


def _replace(parameters: Parameters, part: str, **fields: object) -> Parameters:
    changed = dataclasses.replace(getattr(parameters, part), **fields)
    return dataclasses.replace(parameters, **{part: changed})


def _without_flow(parameters: Parameters) -> Parameters:
    """Valves that follow their command within a tick, and volumes that do not change."""
    quick = dict.fromkeys(("fill_rate", "vent_rate"), jnp.full(8, 1e4))
    quick |= {"band": jnp.full(8, 10.0), "line_time": jnp.zeros(8)}
    return _replace(parameters, "air", swelling=jnp.array(0.0), **quick)


_SWITCHES: dict[str, Callable[[Parameters], Parameters]] = {
    "hysteresis": lambda p: _replace(p, "muscle", slip_force=jnp.zeros(8)),
    "creep": lambda p: _replace(p, "muscle", creep_stiffness=0.0 * p.muscle.creep_stiffness),
    "capstan": lambda p: _replace(p, "tendon", friction=jnp.zeros(8)),
    "coupling": lambda p: _replace(p, "tendon", arm=p.tendon.arm * np.repeat(np.eye(4), 2, 0)),
    "delay": lambda p: dataclasses.replace(p, delay=0),
    "flow": _without_flow,
    "bearing": lambda p: _replace(p, "arm", bearing_friction=jnp.zeros(4)),
    "quantisation": lambda p: _replace(p, "encoder", quantum=jnp.zeros(4)),
    "jitter": lambda p: _replace(p, "encoder", jitter=jnp.array(0.0)),
    "disturbance": lambda p: _replace(p, "air", disturbance=jnp.array(0.0)),
    "play": lambda p: _replace(p, "air", play=jnp.array(0.0)),
    "supply": lambda p: _replace(p, "air", share=jnp.zeros(8)),
}

#: Effects that can be switched off, for tests and for studies of what each one does.
EFFECTS = tuple(_SWITCHES)


def specimen(design: Parameters, seed: int) -> Parameters:
    """The robot with serial number ``seed``: no two are the same, and none is quite its CAD model.

    Every deviation is a seeded draw, fixed for the specimen's life; a spread of each axis is
    absolute::

        value = design x (1 + spread N(0, 1)),   value = design + spread N(0, 1)
    """
    draw, parts = np.random.default_rng([seed, 0x5EC]), dict[str, Any]()
    drawn = lambda shape: np.clip(draw.standard_normal(shape), -2.0, 2.0)
    for part, spreads in DESIGN["spread"].items():
        parts[part] = getattr(design, part)
        for name, spread in spreads.items():
            value: Array = getattr(parts[part], name)
            if isinstance(spread, list):
                value = value + jnp.asarray(np.array(spread) * drawn(value.shape))
            else:
                value = (value.T * jnp.asarray(1.0 + spread * drawn(len(value)))).T
            parts[part] = dataclasses.replace(parts[part], **{name: value})
    return dataclasses.replace(design, **parts)


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
        strength = muscle.strength * (1.0 - 0.010 * warm + 0.006 * room)
        damping = muscle.damping * (1.0 - 0.10 * warm - 0.03 * room)
        friction = tendon.friction * (1.0 - 0.05 * warm + 0.15 * wear + 0.03 * room)
        slack = tendon.slack + 0.5e-3 * creep * self.share
        aged = _replace(parameters, "muscle", strength=strength, damping=damping)
        aged = _replace(aged, "tendon", slack=slack, friction=friction)
        return _replace(aged, "air", offset=air.offset + 0.01 * self.rate * turn)
