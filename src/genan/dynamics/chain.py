"""``ChainDynamics``: the dynamics specialised to one model, its constants folded in."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.dynamics.algebra import Scalar, add, mul, solve, sub
from genan.dynamics.base import Dynamics, check_shapes
from genan.dynamics.coverage import not_in_chain, refuse
from genan.dynamics.links import Link, read_links
from genan.dynamics.recursion import composite_inertia, newton_euler, place
from genan.errors import RobotError, listing
from genan.robot import Robot


@final
class ChainDynamics(Dynamics):
    """Newton-Euler and composite rigid bodies, unrolled over the joints of one model.

    Covers trees of hinges and slides on a fixed base with joint springs, dampers and armature.
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
        matrix = composite_inertia(place(self.links, self._scalars(q)))
        return jnp.stack([self._array(matrix[dof], q.dtype) for dof in self.dof])

    def bias(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Float[Array, " nq"]:  # noqa: D102
        return self._array(self._bias(self._scalars(q), self._scalars(qd)), jnp.result_type(q, qd))

    def passive(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Float[Array, " nq"]:  # noqa: D102
        return self._array(self._passive(self._scalars(q), self._scalars(qd)), jnp.result_type(q, qd))

    def inverse(  # noqa: D102
        self, q: Float[Array, " nq"], qd: Float[Array, " nq"], qdd: Float[Array, " nq"]
    ) -> Float[Array, " nq"]:
        q_, qd_, qdd_ = self._scalars(q), self._scalars(qd), self._scalars(qdd)
        rigid = newton_euler(place(self.links, q_), qd_, qdd_, gravity=self.gravity)
        drive = [mul(link.armature + self.dt * link.damping, a) for link, a in zip(self.links, qdd_, strict=True)]
        passive = self._passive(q_, qd_)
        tau = [sub(add(r, d), p) for r, d, p in zip(rigid, drive, passive, strict=True)]
        return self._array(tau, jnp.result_type(q, qd, qdd))

    def acceleration(  # noqa: D102
        self, q: Float[Array, " nq"], qd: Float[Array, " nq"], tau: Float[Array, " nq"]
    ) -> Float[Array, " nq"]:
        q_, qd_, tau_ = self._scalars(q), self._scalars(qd), self._scalars(tau)
        poses = place(self.links, q_)
        effective = composite_inertia(poses)
        for index, link in enumerate(self.links):
            effective[index][index] = add(effective[index][index], self.dt * link.damping)
        bias = newton_euler(poses, qd_, [0.0] * self.nq, gravity=self.gravity)
        net = [sub(add(t, p), b) for t, p, b in zip(tau_, self._passive(q_, qd_), bias, strict=True)]
        return self._array(solve(effective, net), jnp.result_type(q, qd, tau))

    def _bias(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
        return newton_euler(place(self.links, q), qd, [0.0] * self.nq, gravity=self.gravity)

    def _passive(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
        return [
            add(mul(-link.stiffness, sub(position, link.spring_reference)), mul(-link.damping, velocity))
            for link, position, velocity in zip(self.links, q, qd, strict=True)
        ]

    def _scalars(self, values: Float[Array, " nq"]) -> list[Scalar]:
        """The robot's ``values`` in the order of the links."""
        check_shapes(self.nq, values)
        entries = jnp.unstack(values)
        return [entries[self.dof.index(link)] for link in range(self.nq)]

    def _array(self, values: Sequence[Scalar], dtype: jnp.dtype) -> Float[Array, " nq"]:
        """``values`` of the links in the robot's order; those that are constant get their precision here."""
        return jnp.stack([jnp.asarray(values[dof], dtype) for dof in self.dof])
