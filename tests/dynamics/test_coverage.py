"""What the engines do not cover is refused, or left to MJX, by name."""

from collections.abc import Callable

import pytest

from genan.dynamics import load_dynamics
from genan.dynamics.mjx import MjxDynamics
from genan.errors import RobotError

ARM = """<mujoco>{option}<worldbody>{world}<body {body}>
  <body {arm}><joint name="a" axis="0 1 0" {joint}/>
    <geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" {geom}/>
    <site name="end" pos="0.3 0 0"/></body></body></worldbody>{tendon}</mujoco>"""
SPATIAL = (
    '<tendon><spatial stiffness="{}"><site site="base"/>{}<site site="end"/></spatial></tendon>'
)
BASE = '<site name="base" pos="0 0 .3"/><site name="middle" pos=".05 0 .1"/>'
ROUND = '<geom name="round" type="cylinder" size=".05 .1" pos=".05 0 .1" euler="90 0 0"/>'
THROUGH = '<geom geom="round" sidesite="middle"/>'

NEITHER = {
    "polynomial joint damping": {"joint": 'damping="1 0 2"'},
    "polynomial joint stiffness": {"joint": 'stiffness="1 2"'},
    "polynomial tendon damping or stiffness": {"world": BASE, "tendon": SPATIAL.format("1 2", "")},
    "negative joint damping": {"joint": 'damping="-1"'},
    "the ellipsoid fluid model": {
        "option": '<option density="1"/>',
        "geom": 'fluidshape="ellipsoid"',
    },
    "tendons that wrap inside a geom": {
        "world": BASE + ROUND,
        "tendon": SPATIAL.format("1", THROUGH),
    },
    "sleeping bodies": {"option": '<option><flag sleep="enable"/></option>'},
}

MJX_ONLY = {
    "tendons with stiffness, damping or armature": {
        "world": BASE,
        "tendon": SPATIAL.format("1", ""),
    },
    "fluid density or viscosity": {"option": '<option viscosity="1"/>'},
    "gravity compensation": {"arm": 'gravcomp="1"'},
    "mocap bodies": {"body": 'mocap="true"'},
}


def arm(parts: dict[str, str]) -> str:
    empty = dict.fromkeys(("option", "world", "body", "arm", "joint", "geom", "tendon"), "")
    return ARM.format(**(empty | parts))


@pytest.mark.parametrize("engine", ["auto", "chain", "mjx"])
@pytest.mark.parametrize("feature", NEITHER)
def test_what_neither_engine_reproduces_is_refused(
    feature: str, engine: str, make_robot: Callable
) -> None:
    robot = make_robot(arm(NEITHER[feature]), ["a"])
    with pytest.raises(
        RobotError, match=f"has '{feature}', which genan cannot simulate as MuJoCo does; remove it"
    ):
        load_dynamics(robot, engine=engine)


@pytest.mark.parametrize("feature", MJX_ONLY)
def test_what_only_mjx_covers_is_left_to_it(feature: str, make_robot: Callable) -> None:
    robot = make_robot(arm(MJX_ONLY[feature]), ["a"])
    assert isinstance(load_dynamics(robot), MjxDynamics)
    with pytest.raises(
        RobotError, match=f"has '{feature}', which the chain engine does not cover; take engine"
    ):
        load_dynamics(robot, engine="chain")


def test_more_joints_than_the_chain_unrolls_are_left_to_mjx(make_robot: Callable) -> None:
    names = [f"joint{i}" for i in range(8)]
    joints = "".join(f'<joint name="{name}" type="slide" armature="1"/>' for name in names[:6])
    hinges = "".join(f'<joint name="{name}" armature="1"/>' for name in names[6:])
    robot = make_robot(
        f'<mujoco><worldbody><body>{joints}<geom size="0.1"/>'
        f'<body>{hinges}<geom size="0.1"/></body></body></worldbody></mujoco>',
        names,
    )
    assert isinstance(load_dynamics(robot), MjxDynamics)
    with pytest.raises(
        RobotError, match="'more than 7 joints', which the chain engine does not cover"
    ):
        load_dynamics(robot, engine="chain")


def test_settings_that_do_not_change_the_bare_arm_are_no_obstacle(make_robot: Callable) -> None:
    flag = '<flag energy="enable" fwdinv="enable"/>'
    option = f'<option solver="PGS" cone="elliptic" integrator="RK4">{flag}</option>'
    world = '<geom type="ellipsoid" size="1 1 1"/><geom type="plane" size="1 1 1"/>'
    robot = make_robot(arm({"option": option, "world": world}), ["a"])
    assert isinstance(load_dynamics(robot, engine="mjx"), MjxDynamics)
