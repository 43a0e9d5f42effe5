"""The scene of ball-in-a-cup as a MuJoCo model: arm, ring of boxes for the wall, ball on slides,
string as a tendon.

It is the judge of ``genan.simulation.cup_scene.CupScene`` in the tests, and what plain MJX steps in
``cup_scene.py``: ``qpos`` of a ``CupState`` is ``qpos`` of this model.
"""

import math

import mujoco

from genan.robot import Robot
from genan.simulation.cup_scene import CupSettings

#: Constraints as stiff as MuJoCo takes them.
_SOLIMP = [0.9999, 0.9999, 0.001, 0.5, 2.0]
_BALL_COLOUR = [0.15, 0.45, 0.80, 1.0]
_CUP_COLOUR = [0.90, 0.55, 0.10, 0.35]


def cup_model(
    robot: Robot, settings: CupSettings, *, facets: int = 24, limits: bool = True
) -> mujoco.MjModel:
    """The scene on ``robot`` as a MuJoCo model that steps at the robot's ``dt``.

    A taut string is brought to its length in one step, as in ``CupScene``. Contacts do not rebound
    and have no friction: MuJoCo has no restitution.

    Args:
        robot: An arm whose end effector is the site of its cup.
        settings: Ball, string and cup.
        facets: Number of boxes that make up the wall; the first is centred on the cup frame's x
            axis.
        limits: Whether the joints stop at the robot's limits.
    """
    dt = robot.dt
    spec = mujoco.MjSpec.from_file(str(robot.model_file))
    for element in [*spec.keys, *spec.sensors, *spec.actuators]:
        spec.delete(element)
    spec.option.timestep = dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    for joint in robot.joints:
        # MjSpec reads angles in the unit of the file's compiler.
        unit = math.degrees(1.0) if spec.compiler.degree and joint.kind == "hinge" else 1.0
        element = spec.joint(joint.name)
        element.limited, element.range = limits, [joint.lower * unit, joint.upper * unit]
        element.solref_limit, element.solimp_limit = [-1.0 / dt**2, -1.0 / dt], _SOLIMP

    site = spec.site(robot.end_effector)
    body = site.parent
    frame = body.add_frame(pos=site.pos, quat=_quaternion(site))
    colliders = _add_cup(body, frame, settings, facets)
    string_end = body.add_site(name="string", pos=[0.0, 0.0, settings.attachment])
    string_end.set_frame(frame)

    ball = spec.worldbody.add_body(name="ball")
    slide, sphere = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtGeom.mjGEOM_SPHERE
    for axis, direction in zip("xyz", [[1, 0, 0], [0, 1, 0], [0, 0, 1]], strict=True):
        ball.add_joint(name=f"ball_{axis}", type=slide, axis=direction, limited=False)
    inertia = 0.4 * settings.ball_mass * settings.ball_radius**2
    ball.mass, ball.inertia, ball.explicitinertial = settings.ball_mass, [inertia] * 3, True
    size = [settings.ball_radius, 0, 0]
    ball.add_geom(name="ball", type=sphere, size=size, rgba=_BALL_COLOUR, contype=0, conaffinity=0)
    ball.add_site(name="ball")

    string = spec.add_tendon(
        name="string",
        limited=True,
        range=[0.0, settings.string_length],
        width=0.001,
        solref_limit=[-1.0 / dt**2, -1.0 / dt],
        solimp_limit=_SOLIMP,
    )
    string.wrap_site("string")
    string.wrap_site("ball")
    carrier = spec.body(body.parent.name)
    capsules = [g for g in carrier.geoms if g.type == mujoco.mjtGeom.mjGEOM_CAPSULE]
    for number, geom in enumerate(capsules):
        geom.name = geom.name or f"link_{number}"
        colliders.append(geom.name)
    solref = [-settings.recovery / dt**2, -1.0 / dt]
    for name in colliders:
        spec.add_pair(geomname1="ball", geomname2=name, condim=1, solref=solref, solimp=_SOLIMP)
    return spec.compile()


def _add_cup(
    body: "mujoco.MjsBody", frame: "mujoco.MjsFrame", settings: CupSettings, facets: int
) -> list[str]:
    """Geoms of wall and bottom; returns their names."""
    half = 0.5 * settings.thickness
    middle = settings.cup_radius - half
    looks = {"contype": 0, "conaffinity": 0, "mass": 0.0, "rgba": _CUP_COLOUR, "group": 3}
    bottom = body.add_geom(
        name="cup_bottom",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[settings.cup_radius, half, 0.0],
        pos=[0.0, 0.0, half - settings.rim],
        **looks,
    )
    bottom.set_frame(frame)
    names = ["cup_bottom"]
    for k in range(facets):
        angle = 2.0 * math.pi * k / facets
        wall = body.add_geom(
            name=f"cup_wall_{k}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[half, settings.cup_radius * math.tan(math.pi / facets), settings.rim],
            pos=[middle * math.cos(angle), middle * math.sin(angle), 0.0],
            quat=[math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle)],
            **looks,
        )
        wall.set_frame(frame)
        names.append(wall.name)
    return names


def _quaternion(site: "mujoco.MjsSite") -> list[float]:
    """Orientation of ``site``, whichever way its file gives it."""
    alt = site.alt
    if alt.type == mujoco.mjtOrientation.mjORIENTATION_QUAT:
        return [float(value) for value in site.quat]
    probe = mujoco.MjSpec()
    copied = probe.worldbody.add_site(name="probe")
    copied.alt = alt
    return [float(value) for value in probe.compile().site("probe").quat]
