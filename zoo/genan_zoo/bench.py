"""What the zoo's robots have in common: a specimen on a bench, at an age, moved on by ticks."""

import dataclasses
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import refuse
from genan.robot import Robot
from genan.robot.virtual import VirtualRobot
from genan_zoo.rigid import RigidTree

LANES = 8
"""Copies of a robot that are always computed together, also for one. Between two counts of an
encoder a control is blind, and there rounding may grow until it shows in what is read: equal to the
bit are only programs of one width."""
PerJoint = Float[np.ndarray, " joints"]


@contextmanager
def on_the_bench() -> Iterator[None]:
    """Double precision on the CPU: one robot gains nothing from a GPU."""
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


def read_design(file: str) -> dict[str, Any]:
    """The numbers in design.toml next to ``file``: what each is, its unit, where it comes from."""
    return tomllib.loads(Path(file).with_name("design.toml").read_text(encoding="utf-8"))


class Chance:
    """Deviations of the specimen with serial number ``seed`` from the design."""

    def __init__(self, seed: int, kind: int, build: Mapping[str, float]) -> None:
        """``kind``: a number that no other robot has; ``build``: deviations of the links."""
        self.random, self._build = np.random.default_rng([seed, kind]), build

    def drawn(self, *shape: int) -> Float[Array, "..."]:
        """Normal numbers, none beyond two standard deviations."""
        return jnp.asarray(np.clip(self.random.standard_normal(shape), -2.0, 2.0))

    def varied(self, links: RigidTree) -> RigidTree:
        """The links as they were made: "mass" and "inertia" as shares, "centre" [m]."""
        bodies, build = len(links.mass), self._build
        return dataclasses.replace(
            links,
            mass=links.mass * (1.0 + build["mass"] * self.drawn(bodies)),
            inertia=links.inertia * (1.0 + build["inertia"] * self.drawn(bodies, 1, 1)),
            centre=links.centre + build["centre"] * self.drawn(bodies, 3),
        )


class BenchRobot(VirtualRobot):
    """A robot of the zoo. All of it is deterministic: the same seed, hours and commands give the
    same positions to the last bit. Arms and states are pytrees; a state has ``seen``, what the
    encoders read, and the entries of ``truth_sizes``."""

    name: ClassVar[str]  # Of the robot.
    settle: ClassVar[int] = 100  # Ticks that a new arm holds its rest pose before anyone commands.
    group, pushable = 64, True

    @classmethod
    @abstractmethod
    def specimen(cls, robot: Robot, seed: int) -> Any:
        """The arm with serial number ``seed``: no two are the same, and none is quite the design;
        it has ``aged(hours, rate)``, the arm after ``hours`` [h], worn at ``rate`` times the usual
        rate."""

    @classmethod
    @abstractmethod
    def begin(cls, arm: Any, robot: Robot) -> Any:
        """The state of a new arm before it has settled."""

    @staticmethod
    @abstractmethod
    def tick(arm: Any, state: Any, command: Any, push: Any) -> Any:
        """The state a period later, when ``command`` was given at the start of the tick and someone
        leans on the joints with ``push`` [N m]."""

    def __init__(self, *, seed: int = 0, hours: float = 0.0, drift: float = 1.0) -> None:
        usable = hours >= 0.0 and drift >= 0.0  # False for NaN
        came = f"got hours {hours:g} and drift {drift:g}"
        refuse((not usable, f"Hours and drift must not be negative, {came}."))
        self.robot, self.seed, self.hours = Robot.load(self.name), seed, hours
        self._push, self._rate = np.zeros(self.robot.nq), np.float64(drift)
        with on_the_bench():
            self._arm = self.specimen(self.robot, seed)
        self.reset()

    def reset(self) -> None:
        self._ticks, self._state = 0, self._resting
        self.next_trial(0)

    def next_trial(self, trial: int) -> None:
        """As warm and worn as the ticks since it was switched on have made it."""
        self._age = np.float64(self.hours + self._ticks * self.robot.dt / 3600.0)

    def read(self) -> PerJoint:
        return np.array(self._state.seen[0])

    def command(self, u: Float[np.ndarray, " controls"]) -> None:
        self._state = self._run(self._state, self._age, np.asarray(u, float)[None])
        self._ticks += 1

    def push(self, torque: PerJoint) -> None:
        refuse((not np.isfinite(torque).all(), f"A push must be finite torques, got {torque}."))
        self._push = np.array(torque, float)

    def truth_for_evaluation_only(self) -> Mapping[str, Float[np.ndarray, " n"]]:
        return {name: np.asarray(getattr(self._state, name)[0]) for name in self.truth_sizes}

    def play(
        self, u: Float[np.ndarray, "batch T nu"], *, hours: Float[np.ndarray, " batch"], keep: int
    ) -> tuple[Float[np.ndarray, "batch keep nq"], Mapping[str, Float[np.ndarray, "batch keep _"]]]:
        self._check(u)
        rows = np.arange(len(u) + -len(u) % LANES).reshape(-1, LANES) % len(u)  # the last: again
        with on_the_bench():
            about = np.asarray(hours, float)[rows], np.asarray(u, float)[rows]
            passed = _play(type(self), self._arm, self._rate, self._resting, *about)
        flat = {n: np.asarray(x).reshape(-1, *np.shape(x)[2:]) for n, x in passed.items()}
        last = {name: values[: len(u), u.shape[1] - keep :] for name, values in flat.items()}
        return last.pop("seen"), last

    def _run(self, state: Any, age: np.float64, u: Float[np.ndarray, "ticks nu"]) -> Any:
        self._check(u)
        same = np.full(LANES, age), np.broadcast_to(u, (LANES, *u.shape))
        with on_the_bench():
            return _advance(type(self), self._arm, self._rate, state, *same, self._push)[0]

    def _check(self, u: Float[np.ndarray, "*batch nu"]) -> None:
        controls = self.robot.controls
        for control, values in zip(controls, np.reshape(u, (-1, len(controls))).T, strict=True):
            bad = values[~((values >= control.lower) & (values <= control.upper))]
            must = f"must lie in {control.lower:g} to {control.upper:g}"
            refuse((bad.size, f"Control {control.name!r} {must}, got {[*bad, 0.0][0]:g}."))

    @cached_property
    def _resting(self) -> Any:
        """The new arm, after holding its rest controls for a while."""
        with on_the_bench():
            one = self.begin(self._arm, self.robot)
            state = jax.tree.map(lambda value: jnp.stack([value] * LANES), one)
        return self._run(state, np.float64(0.0), np.tile(self.robot.u_rest, (self.settle, 1)))


def _passed(
    kind: type[BenchRobot], arm: Any, rate: Any, start: Any, age: Any, u: Any, push: Any
) -> tuple[Any, dict[str, Array]]:
    """The states after the commands ``u``, and what was read and true when each was given."""

    def one(start: Any, age: Any, u: Any) -> tuple[Any, dict[str, Array]]:
        aged = arm.aged(age, rate)
        shown = lambda now: {x: getattr(now, x) for x in ("seen", *kind.truth_sizes)}
        step = lambda now, command: (kind.tick(aged, now, command, push), shown(now))
        return jax.lax.scan(step, start, u)

    return jax.vmap(one)(start, age, u)


_advance = jax.jit(_passed, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _play(
    kind: type[BenchRobot], arm: Any, rate: Any, start: Any, ages: Any, u: Any
) -> dict[str, Array]:
    push = jnp.zeros(kind.truth_sizes["q"])
    block = lambda x: _passed(kind, arm, rate, start, x[0], x[1], push)[1]
    return jax.lax.map(block, (ages, u))
