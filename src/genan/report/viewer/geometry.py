"""A robot's drawing from its MuJoCo model: meshes for each body, and where each body is in a
pose."""

from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np
from jaxtyping import Float

from genan.report.viewer.primitives import FACETS, Mesh, box, capsule, cylinder, ellipsoid, merged
from genan.robot import Robot

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Shape:
    """One thing to draw on a body, in the body's frame."""

    mesh: Mesh
    colour: Colour
    """Red, green, blue, each from 0 to 1."""
    opacity: float = 1.0


@dataclass(frozen=True)
class Poses:
    """Where the bodies of one robot are at one moment, in the frame of its base."""

    position: Float[np.ndarray, "bodies 3"]
    """[m]"""
    wxyz: Float[np.ndarray, "bodies 4"]
    """Unit quaternions."""
    tip: Float[np.ndarray, " 3"]
    """The end effector [m]."""


class Body:
    """A robot as something to draw. Not for several threads at once: it places one MuJoCo state."""

    def __init__(self, robot: Robot, *, facets: int = FACETS) -> None:
        """Read the shapes of ``robot``'s model, round ones with so many ``facets``. Bodies without
        any are left out."""
        model = robot.mj_model
        self.robot = robot
        shapes = _shapes(model, facets)
        self._bodies = np.array(sorted(shapes), int)
        self.shapes: tuple[tuple[Shape, ...], ...] = tuple(
            tuple(shapes[body]) for body in sorted(shapes)
        )
        """For each drawn body, its shapes."""
        self.names: tuple[str, ...] = tuple(
            model.body(body).name or f"body{body}" for body in sorted(shapes)
        )
        """Names of the drawn bodies."""
        self._model, self._data = model, mujoco.MjData(model)
        self._dof = list(robot.dof)
        named = robot.end_effector is not None
        self._site = int(model.site(robot.end_effector).id) if named else -1

    def __len__(self) -> int:
        """Drawn bodies."""
        return len(self._bodies)

    def poses(self, q: Float[np.ndarray, " nq"]) -> Poses:
        """Where everything is at the joint positions ``q`` [rad or m]."""
        self._place(q)
        data = self._data
        return Poses(data.xpos[self._bodies], data.xquat[self._bodies], self._tip())

    def tip(self, q: Float[np.ndarray, " nq"]) -> Float[np.ndarray, "3"]:
        """The end effector in the frame of the base [m]; the last body where the robot names
        none."""
        self._place(q)
        return self._tip()

    def jacobian(self, q: Float[np.ndarray, " nq"]) -> Float[np.ndarray, "3 nq"]:
        """Velocity of the tip for each joint's velocity [m/rad; 1 for slides]."""
        self._place(q)
        mujoco.mj_comPos(self._model, self._data)
        found = np.zeros((3, self._model.nv))
        if self._site >= 0:
            mujoco.mj_jacSite(self._model, self._data, found, None, self._site)
        else:
            mujoco.mj_jacBody(self._model, self._data, found, None, self._model.nbody - 1)
        return found[:, self._dof]

    @cached_property
    def reach(self) -> float:
        """How far it gets from its base, about [m]."""
        chance, (low, high) = np.random.default_rng(0), np.clip(self.robot.q_range, -np.pi, np.pi)
        poses = [self.poses(chance.uniform(low, high)) for _ in range(50)]
        return max(
            float(np.linalg.norm([*pose.position, pose.tip], axis=1).max()) for pose in poses
        )

    def _place(self, q: Float[np.ndarray, " nq"]) -> None:
        self._data.qpos[self._dof] = q
        mujoco.mj_kinematics(self._model, self._data)

    def _tip(self) -> Float[np.ndarray, "3"]:
        data = self._data
        return (data.site_xpos[self._site] if self._site >= 0 else data.xpos[-1]).copy()


def outline(shapes: tuple[Shape, ...]) -> Mesh:
    """All shapes of a body as one mesh: what a ghost is drawn with."""
    return merged([shape.mesh for shape in shapes])


def _shapes(model: mujoco.MjModel, facets: int) -> dict[int, list[Shape]]:
    """The model's visible geoms by body."""
    found: dict[int, list[Shape]] = {}
    for geom in range(model.ngeom):
        red, green, blue, opacity = _rgba(model, geom)
        mesh = _mesh(model, geom, facets)
        if mesh is None or opacity == 0.0:
            continue
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        placed = mesh.placed(model.geom_pos[geom], rotation.reshape(3, 3))
        found.setdefault(int(model.geom_bodyid[geom]), []).append(
            Shape(placed, (red, green, blue), opacity)
        )
    return found


def _rgba(model: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    material = int(model.geom_matid[geom])
    red, green, blue, alpha = (float(part) for part in (model.mat_rgba[material] if material >= 0 else
                                                        model.geom_rgba[geom]))  # fmt: skip
    return red, green, blue, alpha


def _mesh(model: mujoco.MjModel, geom: int, facets: int) -> Mesh | None:
    """The surface of a geom in its own frame; None for what is not drawn: planes, since the page
    has a floor."""
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    match kind:
        case mujoco.mjtGeom.mjGEOM_BOX:
            return box(size.tolist())
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return ellipsoid([float(size[0])] * 3, facets=facets)
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return ellipsoid(size.tolist(), facets=facets)
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            return capsule(float(size[0]), float(size[1]), facets=facets)
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return cylinder(float(size[0]), float(size[1]), facets=facets)
        case mujoco.mjtGeom.mjGEOM_MESH:
            number = int(model.geom_dataid[geom])
            first, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
            start, faces = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
            return Mesh(
                np.asarray(model.mesh_vert[first : first + count], float),
                np.asarray(model.mesh_face[start : start + faces], int),
            )
    return None
