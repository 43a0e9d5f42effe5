"""Triangles of the shapes that a MuJoCo model is drawn with. Edges are sharp: surfaces that meet
share no vertices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

#: Corners of a circle, and of one that is only seen faintly: a page is drawn on whatever graphics
#: there are.
FACETS, COARSE = 20, 10


@dataclass(frozen=True)
class Mesh:
    """A surface of triangles that look outwards."""

    vertices: Float[np.ndarray, "vertices 3"]
    """[m]"""
    faces: Int[np.ndarray, "faces 3"]
    """Rows of ``vertices``."""

    def placed(
        self, position: Float[np.ndarray, " 3"], rotation: Float[np.ndarray, "3 3"]
    ) -> "Mesh":
        """The same, turned by ``rotation`` and moved to ``position`` [m]."""
        return Mesh(self.vertices @ rotation.T + position, self.faces)

    def grown(self, by: float) -> "Mesh":
        """The same, with its surface moved outwards ``by`` [m]: two arms in one place would
        flicker."""
        corners = self.vertices[self.faces]
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals = np.zeros_like(self.vertices)
        for k in range(3):
            np.add.at(normals, self.faces[:, k], across)
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        return Mesh(self.vertices + by * normals / np.maximum(lengths, 1e-30), self.faces)


def merged(meshes: Sequence[Mesh]) -> Mesh:
    """All of them as one."""
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes[:-1])])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces))


def box(half: Sequence[float]) -> Mesh:
    """A box of these half sizes [m] about the origin."""
    corners: list[np.ndarray] = []
    faces: list[tuple[int, int, int]] = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            across, along = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
            start = len(corners)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                corners.append(side * np.eye(3)[axis] + side * a * across + b * along)
            faces += [(start, start + 1, start + 2), (start, start + 2, start + 3)]
    return Mesh(np.array(corners) * np.asarray(half, float), np.array(faces))


def cylinder(radius: float, half: float, *, facets: int = FACETS) -> Mesh:
    """About z, from -``half`` to ``half`` [m]; a circle has so many ``facets``."""
    side = [(radius, -half), (radius, half)]
    return _turned([[(0.0, -half), side[0]], side, [side[1], (0.0, half)]], facets)


def capsule(radius: float, half: float, *, facets: int = FACETS) -> Mesh:
    """A cylinder about z of half length ``half`` [m] with a half ball on each end; see
    ``cylinder``."""
    angles = np.linspace(-0.5 * math.pi, 0.5 * math.pi, 2 * (facets // 4))
    lift = np.where(np.arange(len(angles)) < len(angles) // 2, -half, half)
    outline = [
        (radius * math.cos(a), radius * math.sin(a) + float(z))
        for a, z in zip(angles.tolist(), lift, strict=True)
    ]
    return _turned([outline], facets)


def ellipsoid(radii: Sequence[float], *, facets: int = FACETS) -> Mesh:
    """About the origin, with these radii [m]; see ``cylinder``."""
    unit = capsule(1.0, 0.0, facets=facets)
    return Mesh(unit.vertices * np.asarray(radii, float), unit.faces)


def _turned(outlines: Sequence[Sequence[tuple[float, float]]], facets: int) -> Mesh:
    """Surfaces that lines of (radius, z), from below upwards, make when they are turned about z."""
    angle = 2.0 * math.pi * np.arange(facets) / facets
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(facets)], axis=1)
    around, after = np.arange(facets), (np.arange(facets) + 1) % facets
    parts = []
    for outline in outlines:
        rings = [radius * circle + np.array([0.0, 0.0, z]) for radius, z in outline]
        faces = []
        for k in range(len(rings) - 1):
            low, high = k * facets, (k + 1) * facets
            faces.append(np.stack([low + around, low + after, high + after], axis=1))
            faces.append(np.stack([low + around, high + after, high + around], axis=1))
        parts.append(Mesh(np.concatenate(rings), np.concatenate(faces)))
    return merged(parts)
