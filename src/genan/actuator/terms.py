"""What a torque depends on that no linear function of a history can say.

With these terms among its inputs, a model that is linear in all of them can have Coulomb friction (a tanh of the
velocity); can correct the gravity of a rigid-body model whose masses are a little wrong (sines and cosines of the
angles, and their products for every pair of joints: all that the gravity of a planar pair of links is made of); and can
have a stiffness that is commanded (products of controls with positions and with each other: a servo's gain, its switch,
the pressure of a muscle).
"""

from dataclasses import dataclass
from typing import Any

from genan.errors import SettingError


@dataclass(frozen=True)
class Terms:
    """Inputs beside the history. Hashable: part of a compiled program."""

    friction: tuple[tuple[float, ...], ...] = ()
    """For each joint, changes of position over one stride of the history at which tanh(change / this) bends [rad or
    m]; every joint has as many. Empty: no such inputs."""
    turning: tuple[int, ...] = ()
    """Joints, counted from 0, whose sine and cosine are inputs, and the products of these for every pair of them."""
    products: tuple[int, int] | None = None
    """Number of joints and of controls, where the products of each control with each position, and of every two
    controls, are inputs."""

    def __post_init__(self) -> None:
        if len({len(bends) for bends in self.friction}) > 1 or any(not w > 0.0 for b in self.friction for w in b):
            raise SettingError(f"Every joint needs equally many positive bends of its friction, not {self.friction}.")
        if list(self.turning) != sorted(set(self.turning)) or any(joint < 0 for joint in self.turning):
            raise SettingError(f"The turning joints must be named once, in rising order, not as {self.turning}.")

    def __bool__(self) -> bool:
        return bool(self.friction or self.turning or self.products)

    @property
    def count(self) -> int:
        """Number of inputs."""
        k = len(self.turning)
        nq, nu = self.products or (0, 0)
        products = nu * nq + nu * (nu + 1) // 2
        return sum(map(len, self.friction)) + 2 * k + 4 * (k * (k - 1) // 2) + products

    def features(self, q_history: Any, u_history: Any, xp: Any) -> list[Any]:
        """The inputs, as arrays [..., k] to be put one behind the other.

        Args:
            q_history: positions [..., H + 1, nq] [rad or m], oldest first.
            u_history: controls [..., H + 1, nu], oldest first.
            xp: the module that computes, ``numpy`` or ``jax.numpy``.
        """
        q, parts = q_history[..., -1, :], []
        if self.friction:
            change = q - q_history[..., -2, :]
            for bends in zip(*self.friction, strict=True):
                parts.append(xp.tanh(change / xp.asarray(bends, dtype=q.dtype)))
        if self.turning:
            angle = q[..., list(self.turning)]
            sine, cosine = xp.sin(angle), xp.cos(angle)
            first, second = self.pairs
            parts += [sine, cosine]
            for a in (sine, cosine):
                for b in (sine, cosine):
                    parts.append(a[..., first] * b[..., second])
        if self.products:
            u = u_history[..., -1, :]
            joints, controls, one, other = self.factors
            parts += [u[..., controls] * q[..., joints], u[..., one] * u[..., other]]
        return parts

    @property
    def factors(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Joint and control of each product of the two, and both controls of each product of controls."""
        nq, nu = self.products or (0, 0)
        crossed = [(j, c) for c in range(nu) for j in range(nq)]
        among = [(c, d) for c in range(nu) for d in range(c, nu)]
        return [j for j, _ in crossed], [c for _, c in crossed], [c for c, _ in among], [d for _, d in among]

    @property
    def pairs(self) -> tuple[list[int], list[int]]:
        """The first and the second of every pair of turning joints, counted among them."""
        k = len(self.turning)
        pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
        return [i for i, _ in pairs], [j for _, j in pairs]

    def settings(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        products = None if self.products is None else list(self.products)
        return {
            "friction": [list(bends) for bends in self.friction],
            "turning": list(self.turning),
            "products": products,
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Terms":
        """The terms that ``settings`` describe."""
        friction = tuple(tuple(float(w) for w in bends) for bends in settings["friction"])
        nq_nu = settings["products"]
        products = None if nq_nu is None else (int(nq_nu[0]), int(nq_nu[1]))
        return cls(friction, tuple(int(joint) for joint in settings["turning"]), products)
