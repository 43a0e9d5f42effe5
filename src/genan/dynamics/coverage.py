"""What each engine covers: a model that an engine would simulate wrongly is refused by name."""

from typing import TYPE_CHECKING

import numpy as np

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
            f"The model {robot.model_file} has {listing(unfaithful)}, which genan cannot simulate as MuJoCo does; "
            "remove it from the model: the actuator network learns what the model leaves out."
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
