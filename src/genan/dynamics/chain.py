"""``ChainDynamics``: the dynamics specialised to one model, its constants folded in; and what each
engine covers: a model that an engine would simulate wrongly is refused by name.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from genan.dynamics.algebra import Scalar, add, lift, mul, solve, sub
from genan.dynamics.base import Dynamics, Joints, Matrix, check_shapes
from genan.dynamics.newton_euler import Link, composite_inertia, newton_euler, place, read_links
from genan.errors import RobotError, listing
from genan.robot import Robot

if TYPE_CHECKING:
    import mujoco


#: Joints that the chain engine unrolls. XLA's CPU compiler splits a loop of much more arithmetic
#: into functions that call each other over and over: a step of nine joints on axes that are not
#: aligned took 85 s for 1000 states.
CHAIN_JOINTS = 7


def refuse(robot: Robot) -> None:
    """Refuse the model of ``robot`` if neither engine reproduces MuJoCo's step on it."""
    unfaithful = not_reproduced(robot.mj_model)
    if unfaithful:
        raise RobotError(
            f"The model {robot.model_file} has {listing(unfaithful)}, which genan cannot simulate "
            "as MuJoCo does; remove it from the model: the actuator network learns what the "
            "model leaves out."
        )


def not_reproduced(model: "mujoco.MjModel") -> list[str]:
    """Features of ``model`` that neither engine reproduces."""
    import mujoco

    features = {
        # The matrix that MuJoCo inverts then depends on the velocity, and MJX leaves the term out
        # altogether.
        "polynomial joint damping": np.any(model.dof_dampingpoly),
        "polynomial joint stiffness": np.any(model.jnt_stiffnesspoly),
        "polynomial tendon damping or stiffness": np.any(model.tendon_dampingpoly)
        or np.any(model.tendon_stiffnesspoly),
        # MuJoCo integrates damping implicitly only where some of it is positive.
        "negative joint damping": np.any(model.dof_damping < 0.0),
        "the ellipsoid fluid model": _fluid(model) and np.any(model.geom_fluid),
        # MJX stops the search for the tangent after five iterations.
        "tendons that wrap inside a geom": _acting_tendons(model) and _wraps_inside(model),
        "passive-force plugins": np.any(model.body_plugin >= 0),
        "sleeping bodies": bool(model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP),
    }
    return [name for name, present in features.items() if present]


def not_in_chain(model: "mujoco.MjModel") -> list[str]:
    """Features of ``model`` that MJX covers and the chain engine does not."""
    features = {
        "tendons with stiffness, damping or armature": _acting_tendons(model),
        "fluid density or viscosity": _fluid(model),
        "gravity compensation": np.any(model.body_gravcomp),
        "mocap bodies": model.nmocap > 0,
        f"more than {CHAIN_JOINTS} joints": model.njnt > CHAIN_JOINTS,
    }
    return [name for name, present in features.items() if present]


def _acting_tendons(model: "mujoco.MjModel") -> bool:
    return any(
        np.any(p) for p in (model.tendon_stiffness, model.tendon_damping, model.tendon_armature)
    )


def _wraps_inside(model: "mujoco.MjModel") -> bool:
    import mujoco

    round_geoms = (mujoco.mjtWrap.mjWRAP_SPHERE, mujoco.mjtWrap.mjWRAP_CYLINDER)
    for wrap in np.flatnonzero(np.isin(model.wrap_type, round_geoms)):
        geom, side = model.wrap_objid[wrap], round(float(model.wrap_prm[wrap]))
        if (
            side >= 0
            and np.linalg.norm(model.site_pos[side] - model.geom_pos[geom])
            < model.geom_size[geom, 0]
        ):
            return True
    return False


def _fluid(model: "mujoco.MjModel") -> bool:
    return bool(model.opt.density > 0.0 or model.opt.viscosity > 0.0)


# --- ``ChainDynamics``: the dynamics specialised to one model, its constants folded in.


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
    dof: tuple[int, ...] = eqx.field(static=True)  # For each joint of the robot, its link.
    links: tuple[Link, ...] = eqx.field(static=True)
    gravity: tuple[float, float, float] = eqx.field(static=True)  # [m/s^2]

    def __init__(self, robot: Robot) -> None:
        refuse(robot)
        model = robot.mj_model
        missing = not_in_chain(model)
        if missing:
            raise RobotError(
                f"The model of {robot.name!r} has {listing(missing)}, which the chain engine does "
                "not cover; load it with engine 'mjx' or 'auto'."
            )
        self.nq = robot.nq
        self.dt = robot.dt
        self.dof = robot.dof
        self.links = read_links(model)
        self.damping = tuple(self.links[dof].damping for dof in robot.dof)
        x, y, z = (float(component) for component in model.opt.gravity)
        self.gravity = x, y, z

    def mass_matrix(self, q: Joints) -> Matrix:
        check_shapes(self.nq, q)
        i, j = np.meshgrid(self.dof, self.dof, indexing="ij")
        row, column = np.maximum(i, j), np.minimum(i, j)
        return lift(self._mass_entries, order=self._order, result=row * (row + 1) // 2 + column)(q)

    def bias(self, q: Joints, qd: Joints) -> Joints:
        check_shapes(self.nq, q, qd)
        return lift(self._bias, order=self._order)(q, qd)

    def passive(self, q: Joints, qd: Joints) -> Joints:
        check_shapes(self.nq, q, qd)
        return lift(self._passive, order=self._order)(q, qd)

    def inverse(self, q: Joints, qd: Joints, qdd: Joints) -> Joints:
        check_shapes(self.nq, q, qd, qdd)
        return lift(self._inverse, order=self._order)(q, qd, qdd)

    def acceleration(self, q: Joints, qd: Joints, tau: Joints) -> Joints:
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


# --- Choosing the engine for a robot.


def load_dynamics(robot: Robot, *, engine: Literal["auto", "chain", "mjx"] = "auto") -> Dynamics:
    """The rigid-body dynamics of ``robot``.

    Args:
        robot: The robot.
        engine: "chain" is specialised to the model and fast; "mjx" covers more models; "auto" takes
            the chain where it covers the model.
    """
    if engine == "auto":
        engine = "mjx" if not_in_chain(robot.mj_model) else "chain"
    if engine == "chain":
        return ChainDynamics(robot)
    from genan.dynamics.mjx import MjxDynamics  # takes about a second to import

    return MjxDynamics(robot)
