"""``ChainDynamics``: the dynamics specialised to one model, its constants folded in."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from genan.dynamics.algebra import Scalar, add, mul, solve, sub
from genan.dynamics.base import Dynamics, check_shapes
from genan.dynamics.coverage import not_in_chain, refuse
from genan.dynamics.lift import lift
from genan.dynamics.links import Link, read_links
from genan.dynamics.recursion import composite_inertia, newton_euler, place
from genan.errors import RobotError, listing
from genan.robot import Robot


@final
class ChainDynamics(Dynamics):
    """Newton-Euler and composite rigid bodies, unrolled over the joints of one model.

    Covers trees of up to seven hinges and slides on a fixed base with joint springs, dampers and
    armature. Derivatives are in reverse mode (``jax.grad``, ``jax.jacrev``); ``jax.jvp`` and
    ``jax.jacfwd`` raise.
    """

    nq: int = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    damping: tuple[float, ...] = eqx.field(static=True)
    dof: tuple[int, ...] = eqx.field(static=True)
    """For each joint of the robot, its link."""
    links: tuple[Link, ...] = eqx.field(static=True)
    gravity: tuple[float, float, float] = eqx.field(static=True)
    """[m/s^2]"""

    def __init__(self, robot: Robot) -> None:
        refuse(robot)
        model = robot.mj_model
        missing = not_in_chain(model)
        if missing:
            raise RobotError(
                f"The model of {robot.name!r} has {listing(missing)}, which the chain engine does not cover; load it "
                "with engine 'mjx' or 'auto'."
            )
        self.nq = robot.nq
        self.dt = robot.dt
        self.dof = robot.dof
        self.links = read_links(model)
        self.damping = tuple(self.links[dof].damping for dof in robot.dof)
        x, y, z = (float(component) for component in model.opt.gravity)
        self.gravity = x, y, z

    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nq nq"]:  # noqa: D102
        check_shapes(self.nq, q)
        i, j = np.meshgrid(self.dof, self.dof, indexing="ij")
        row, column = np.maximum(i, j), np.minimum(i, j)
        return lift(self._mass_entries, order=self._order, result=row * (row + 1) // 2 + column)(q)

    def bias(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Float[Array, " nq"]:  # noqa: D102
        check_shapes(self.nq, q, qd)
        return lift(self._bias, order=self._order)(q, qd)

    def passive(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Float[Array, " nq"]:  # noqa: D102
        check_shapes(self.nq, q, qd)
        return lift(self._passive, order=self._order)(q, qd)

    def inverse(  # noqa: D102
        self, q: Float[Array, " nq"], qd: Float[Array, " nq"], qdd: Float[Array, " nq"]
    ) -> Float[Array, " nq"]:
        check_shapes(self.nq, q, qd, qdd)
        return lift(self._inverse, order=self._order)(q, qd, qdd)

    def acceleration(  # noqa: D102
        self, q: Float[Array, " nq"], qd: Float[Array, " nq"], tau: Float[Array, " nq"]
    ) -> Float[Array, " nq"]:
        check_shapes(self.nq, q, qd, tau)
        return lift(self._acceleration, order=self._order, pullback=self._acceleration_pullback)(
            q, qd, tau
        )

    @property
    def _order(self) -> Int[np.ndarray, " nq"]:
        return np.asarray(self.dof)

    # From here on everything is in the order of the links.

    def _mass_entries(self, q: Sequence[Scalar]) -> list[Scalar]:
        return [entry for row in composite_inertia(place(self.links, q)) for entry in row]

    def _bias(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
        return newton_euler(place(self.links, q), qd, [0.0] * self.nq, gravity=self.gravity)

    def _passive(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
        return [
            add(
                mul(-link.stiffness, sub(position, link.spring_reference)),
                mul(-link.damping, velocity),
            )
            for link, position, velocity in zip(self.links, q, qd, strict=True)
        ]

    def _inverse(
        self, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar]
    ) -> list[Scalar]:
        rigid = newton_euler(place(self.links, q), qd, qdd, gravity=self.gravity)
        drive = [
            mul(link.armature + self.dt * link.damping, a)
            for link, a in zip(self.links, qdd, strict=True)
        ]
        return [
            sub(add(r, d), p) for r, d, p in zip(rigid, drive, self._passive(q, qd), strict=True)
        ]

    def _acceleration(
        self, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar]
    ) -> list[Scalar]:
        return self._divide(q, self._net(q, qd, tau))

    def _acceleration_pullback(
        self,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        tau: Sequence[Scalar],
        cotangents: Sequence[Scalar],
    ) -> tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]]:
        """Through the inverse dynamics, whose derivative is far smaller than that of factoring A.

        From inverse(q, qd, qdd) = tau: the derivative of qdd by tau is A^-1, by q it is -A^-1 d
        inverse / dq.
        """
        qdd = self._divide(q, self._net(q, qd, tau), kept=True)
        by_tau = self._divide(q, cotangents, kept=True)
        _, pull = jax.vjp(lambda q, qd: self._inverse(q, qd, qdd), q, qd)
        by_q, by_qd = pull([-c for c in by_tau])
        return by_q, by_qd, by_tau

    def _net(
        self, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar]
    ) -> list[Scalar]:
        return [
            sub(add(t, p), b)
            for t, p, b in zip(tau, self._passive(q, qd), self._bias(q, qd), strict=True)
        ]

    def _divide(
        self, q: Sequence[Scalar], forces: Sequence[Scalar], *, kept: bool = False
    ) -> list[Scalar]:
        """A(q)^-1 ``forces``."""
        effective = composite_inertia(place(self.links, q))
        for row, link in zip(effective, self.links, strict=True):
            row[-1] = add(row[-1], self.dt * link.damping)
        return solve(effective, forces, kept=kept)
