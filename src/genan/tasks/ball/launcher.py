"""Balls that are ready to be played, and a launcher that draws them, as recorded balls describe it:
launch, air, table and camera, each with its spread. The numbers of a fitted launcher are a small
JSON file; ``library/`` holds the bundled ones."""

import json
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.actuator.settings import frozen
from genan.errors import DataError, listing, refuse
from genan.tasks.ball import Court, FilterNoise, Triple, launcher_text
from genan.tasks.ball.flight import AirDrag, BallFilter, Bounce, FlyingBall, filtered, fly

#: Length of an episode, step of the simulation and of the policy [s], the paper's.
DURATION, STEP, TICK = 1.09, 0.002, 0.01


class Balls(eqx.Module):
    """``n`` balls up to the racket: where they really are, and what the robot knows of them."""

    positions: Float[Array, "*n steps 3"]  # True position at 0, 2, 4, ... ms, world frame [m].
    velocities: Float[Array, "*n steps 3"]  # True velocity at the same times [m/s].
    observations: Float[Array, "*n ticks 6"]  # Filtered position [m], velocity [m/s] each 10 ms.

    def __len__(self) -> int:
        return self.positions.shape[0]


@dataclass(frozen=True)
class Launcher:
    """A launcher's balls in the world frame; spreads are standard deviations between balls."""

    launch: tuple[float, ...]  # Mean of position [m] and velocity [m/s] at the first sample (6).
    covariance: tuple[tuple[float, ...], ...]  # Of the same (6 x 6).
    spin: Triple  # Mean launch spin [rad/s].
    spin_spread: Triple  # [rad/s]
    drag: float  # [1/m]
    normal: float  # Part of the vertical speed that a bounce leaves [-].
    normal_spread: float
    tangential: float  # Part of the horizontal speed that a bounce leaves [-].
    tangential_spread: float
    roll: float  # Spin that a bounce gives, per horizontal speed before it [rad/m].
    noise: float  # Of a measured position, each axis, white [m].
    camera_period: float  # Between two frames [s]; the robot gets the latest one. 0: never old.
    source: str  # Which recordings it was fitted to.

    @classmethod
    def load(cls, file: str | Path = "ballgun-2019") -> "Launcher":
        """A bundled launcher by its name, or one from a JSON file."""
        try:
            numbers = frozen(json.loads(launcher_text(file)))
        except json.JSONDecodeError as error:
            words = f"{file} is not a launcher: it is not JSON ({error})"
            raise DataError(f"{words}; make one by fitting balls.") from error
        wanted = sorted(field.name for field in fields(cls))
        found = sorted(numbers) if isinstance(numbers, dict) else [type(numbers).__name__]
        entries = f"expected the entries {listing(wanted)}, found {listing(found)}"
        refuse((found != wanted, f"{file} is not a launcher: {entries}."), error=DataError)
        return cls(**numbers)

    def to_json(self) -> str:
        """Text of a file that ``load`` reads."""
        lines = (f' "{name}": {json.dumps(value)}' for name, value in asdict(self).items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @property
    def air(self) -> AirDrag:
        """Flight with this launcher's drag."""
        return AirDrag(drag=self.drag)

    def filter(self, noise: FilterNoise | None = None) -> BallFilter:
        """A filter with this launcher's drag, mean bounce and spin; the noises are the paper's."""
        bounce = Bounce.symmetric(self.normal, self.tangential, self.roll)
        return BallFilter(bounce, noise or FilterNoise(), self.air, first_spin=self.spin)

    def sample(self, *, key: Array) -> tuple[FlyingBall, Bounce]:
        """A ball at its launch, and how it will bounce."""
        chance = jax.random.normal(key, (11,))
        # The root of the covariance by eigenvalues: it exists even where a spread is zero.
        values, vectors = np.linalg.eigh(np.array(self.covariance))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        launch = jnp.array(self.launch) + jnp.asarray(root, chance.dtype) @ chance[:6]
        spin = jnp.array(self.spin) + jnp.array(self.spin_spread) * chance[6:9]
        normal = self.normal + self.normal_spread * chance[9]
        tangential = self.tangential + self.tangential_spread * chance[10]
        bounce = Bounce.symmetric(normal, tangential, self.roll)
        return FlyingBall(launch[:3], launch[3:], spin), bounce

    def fly(self, *, key: Array, duration: float = DURATION) -> FlyingBall:
        """A ball's whole flight at 500 Hz, with one row for each of 0, 2, ... ms."""
        ball, bounce = self.sample(key=key)
        return fly(ball, self.air, bounce, Court(), dt=STEP, steps=round(duration / STEP))

    def measure(self, path: FlyingBall, *, key: Array) -> Float[Array, "ticks 3"]:
        """What the camera says of a 500 Hz ``path`` at each 10 ms: the latest frame [m]."""
        phase_key, noise_key = jax.random.split(key)
        steps = path.position.shape[0]
        ticks = TICK * jnp.arange((steps - 1) * round(STEP * 1e6) // round(TICK * 1e6) + 1)
        phase = jax.random.uniform(phase_key, (), maxval=self.camera_period)
        # Older than the launch there is nothing: the first sample shows the first frame.
        age = jnp.mod(ticks + phase, self.camera_period) if self.camera_period > 0.0 else 0.0
        frames = jnp.maximum(ticks - age, 0.0)
        row, part = jnp.divmod(frames / STEP, 1.0)
        row = row.astype(jnp.int32)
        low, high = path.position[row], path.position[jnp.minimum(row + 1, steps - 1)]
        seen = low + part[:, None] * (high - low)
        return seen + self.noise * jax.random.normal(noise_key, seen.shape)

    def sample_balls(self, n: int, *, key: Array, duration: float = DURATION) -> Balls:
        """``n`` balls: their flights, and the filtered noisy measurements of them."""
        return _sample_balls(self, self.filter(), duration, jax.random.split(key, n))


@partial(jax.jit, static_argnums=(0, 2))
def _sample_balls(gun: Launcher, ball_filter: BallFilter, duration: float, keys: Array) -> Balls:
    def one(key: Array) -> Balls:
        fly_key, measure_key = jax.random.split(key)
        path = gun.fly(key=fly_key, duration=duration)
        measured = gun.measure(path, key=measure_key)
        ticks = TICK * jnp.arange(len(measured))
        return Balls(path.position, path.velocity, filtered(ball_filter, ticks, measured, ticks))

    return jax.vmap(one)(keys)
