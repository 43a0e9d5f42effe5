from pathlib import Path

import mujoco
import numpy as np
import pytest

from genan.errors import RobotError
from genan.robot import LogColumn, LogEntry, Robot, robot_names

ARM = """<mujoco><worldbody><body name="a">
  <inertial mass="1" pos="0 0 -0.2" diaginertia="1e-3 1e-3 1e-3"/>
  <joint name="one" axis="0 1 0" {first}/>
  <body name="b" pos="0 0 -0.3"><inertial mass="1" pos="0 0 -0.2" diaginertia="1e-3 1e-3 1e-3"/>
    <joint name="two" {second}/></body></body></worldbody>{more}</mujoco>"""

TOML = """name = "arm"
model = "arm.xml"
dt = 0.01
[[joints]]
name = "one"
[[joints]]
name = "two"
[[controls]]
name = "u"
range = [-1, 1]
"""


def write(
    folder: Path,
    toml: str = TOML,
    *,
    first: str = "",
    second: str = "",
    more: str = "",
    xml: str = ARM,
) -> Path:
    (folder / "arm.xml").write_text(
        xml.replace("{first}", first).replace("{second}", second).replace("{more}", more)
    )
    (folder / "robot.toml").write_text(toml)
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(RobotError) as caught:
        Robot.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", robot_names())
def test_bundled_robots_load(name: str) -> None:
    robot = Robot.load(name)
    assert robot.name == name
    assert robot.mj_model.nq == robot.nq
    assert robot.mj_model.nu == 0
    assert robot.mj_model.opt.timestep == robot.dt
    assert (robot.q_range[0] <= robot.q_rest).all() and (robot.q_rest <= robot.q_range[1]).all()
    assert (robot.u_range[0] <= robot.u_explore[0]).all() and (
        robot.u_explore[1] <= robot.u_range[1]
    ).all()
    site = robot.mj_model.site(robot.end_effector)
    assert site.name == robot.end_effector


@pytest.mark.parametrize(
    ("pose", "racket", "diagonal", "coupling", "gravity"),
    [
        (
            (0, 0, 0, 0),
            (0.007, 0, 0.8347),
            (0.00255, 0.33204, 0.04374, 0.00053),
            0.1059,
            (0, -0.083, -0.001, 0),
        ),
        (
            (0, 45, 45, 0),
            (0.6485, 0, 0.3518),
            (0.2192, 0.2971, 0.04374, 0.00053),
            0.0885,
            (0, -4.91, -1.53, 0),
        ),
        (
            (0, 90, 0, 0),
            (0.7607, 0, 0.067),
            (0.3330, 0.3320, 0.04374, 0.00053),
            0.1059,
            (0, -6.23, -1.53, 0),
        ),
    ],
)
def test_pamy2_is_the_labs_model(
    pose: tuple, racket: tuple, diagonal: tuple, coupling: float, gravity: tuple
) -> None:
    """The figures that the lab's own file compiles to."""
    model = Robot.load("pamy2").mj_model
    data = mujoco.MjData(model)
    data.qpos[:] = np.radians(pose)
    mujoco.mj_forward(model, data)
    inertia = np.zeros((4, 4))
    mujoco.mj_fullM(model, data, inertia)
    np.testing.assert_allclose(data.site("racket").xpos, racket, atol=3e-4)
    np.testing.assert_allclose(np.diag(inertia), diagonal, atol=5e-5)
    np.testing.assert_allclose(inertia[1, 2], coupling, atol=5e-5)
    np.testing.assert_allclose(data.qfrc_bias, gravity, atol=6e-3)


def test_cup_weighs_107_grams_and_opens_upwards_at_rest() -> None:
    robot = Robot.load("pamy2-cup")
    model = robot.mj_model
    assert model.body("cup").mass[0] == pytest.approx(0.107)
    data = mujoco.MjData(model)
    data.qpos[:] = robot.q_rest
    mujoco.mj_forward(model, data)
    opening = data.site("cup").xmat.reshape(3, 3)[:, 2]
    np.testing.assert_allclose(opening, [0, 0, 1], atol=1e-9)


def test_units_become_si_and_mjcf_limits_are_taken(tmp_path: Path) -> None:
    toml = TOML.replace('name = "one"', 'name = "one"\nunit = "deg"\nrange = [-90, 45]\nrest = 30')
    robot = Robot.load(write(tmp_path, toml, second='type="slide" axis="1 0 0" range="-0.1 0.2"'))
    np.testing.assert_allclose(robot.q_range, [[-np.pi / 2, -0.1], [np.pi / 4, 0.2]])
    np.testing.assert_allclose(robot.q_rest, [np.pi / 6, 0.0])
    assert [joint.kind for joint in robot.joints] == ["hinge", "slide"]
    assert [joint.unit for joint in robot.joints] == ["rad", "m"]


def test_where_logs_have_things(tmp_path: Path) -> None:
    toml = TOML.replace(
        'name = "two"', 'name = "two"\nlog = "q2"\nlog_unit = "deg"\nlog_offset = 90'
    )
    robot = Robot.load(write(tmp_path, toml + '[import]\ntime = "t"\ngap = 0.5\n'))
    assert [joint.log for joint in robot.joints] == [LogColumn(), LogColumn("q2", "deg", 1.0, 90.0)]
    assert robot.log == LogEntry(time="t", gap=0.5) and robot.controls[0].log == LogColumn()


def test_joint_order_may_differ_from_the_model(tmp_path: Path) -> None:
    toml = TOML.replace('"one"', '"x"').replace('"two"', '"one"').replace('"x"', '"two"')
    robot = Robot.load(write(tmp_path, toml))
    assert robot.joint_names == ("two", "one")
    assert robot.dof == (1, 0)


def test_urdf_works(tmp_path: Path) -> None:
    inertia = '<inertia ixx="1e-2" iyy="1e-2" izz="1e-2" ixy="0" ixz="0" iyz="0"/>'
    link = f'<inertial><origin xyz="0 0 -0.1"/><mass value="1"/>{inertia}</inertial>'
    urdf = f"""<robot name="arm"><link name="base"/>
      <link name="l1">{link}</link><link name="l2">{link}</link>
      <joint name="one" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="2" effort="1" velocity="1"/></joint>
      <joint name="two" type="prismatic"><parent link="l1"/><child link="l2"/><axis xyz="1 0 0"/>
        <limit lower="0" upper="0.3" effort="1" velocity="1"/></joint></robot>"""
    robot = Robot.load(write(tmp_path, TOML, xml=urdf))
    assert [joint.kind for joint in robot.joints] == ["hinge", "slide"]
    np.testing.assert_allclose(robot.q_range, [[-1, 0], [2, 0.3]])


def test_drive_of_the_model_is_taken_out(tmp_path: Path) -> None:
    more = '<actuator><position joint="one" kp="100"/></actuator>'
    more += '<keyframe><key qpos="0 0" ctrl="1"/></keyframe>'
    robot = Robot.load(write(tmp_path, more=more))
    assert robot.mj_model.nu == 0 and robot.mj_model.nkey == 0


def test_what_the_file_switches_off_stays_off(tmp_path: Path) -> None:
    more = '<option><flag gravity="disable" spring="disable" damper="disable"/></option>'
    model = Robot.load(write(tmp_path, first='stiffness="3" damping="2"', more=more)).mj_model
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = [0.5, 0.2], [0.0, 1.0]
    mujoco.mj_forward(model, data)
    assert not model.opt.gravity.any() and not data.qfrc_passive.any()


def test_unknown_robot_lists_those_there_are() -> None:
    with pytest.raises(RobotError, match="pamy2.*pendulum"):
        Robot.load("pammy2")


def test_missing_and_extra_joints(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, TOML.replace('"two"', '"elbow"')))
    assert "'elbow' is not in the model" in message and "'one', 'two'" in message
    message = refusal(write(tmp_path, TOML.replace('[[joints]]\nname = "two"\n', "")))
    assert "also moves joint 'two'" in message


@pytest.mark.parametrize(
    ("first", "second", "more", "words"),
    [
        ('type="ball"', "", "", "'one' on body 'a' is a ball joint"),
        (
            "",
            "",
            '<equality><joint name="tie" joint1="one" joint2="two"/></equality>',
            "constraints 'tie' close a loop",
        ),
        (
            "",
            "",
            '<equality><connect body1="b" anchor="0 0 0"/></equality>',
            "constraints 'equality 0' close a loop",
        ),
        ("nonsense", "", "", "does not compile in MuJoCo"),
        ('type="free"', "", "", "does not compile|free joint"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    tmp_path: Path, first: str, second: str, more: str, words: str
) -> None:
    import re

    xml = ARM.replace('axis="0 1 0" {first}', "{first}") if first.startswith("type") else ARM
    assert re.search(
        words, refusal(write(tmp_path, first=first, second=second, more=more, xml=xml))
    )


def test_free_joint_is_refused_by_name(tmp_path: Path) -> None:
    xml = ARM.replace('<joint name="one" axis="0 1 0" {first}/>', '<freejoint name="one"/>')
    assert "'one' on body 'a'" in refusal(write(tmp_path, xml=xml))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("dt = 0.01", "dt = 0", "expected dt = a time step in seconds"),
        (
            "dt = 0.01",
            'dt = "fast"',
            "expected dt = a time step in seconds, above 0 and up to 1, found 'fast'",
        ),
        ("dt = 0.01", "", "expected dt = a time step in seconds, above 0 and up to 1, found None"),
        ("dt = 0.01", "dt = 0.01\nrate = 5", "unknown key 'rate'; the keys there are"),
        ("range = [-1, 1]", "range = [1, -1]", "expected range = [low, high] with low < high"),
        ("range = [-1, 1]", "range = [-1, 1]\nrest = 2", "rest 2 lies outside the control's range"),
        ("range = [-1, 1]", "range = [-1, 1]\nexplore = [-3, 0]", "explore -3 lies outside"),
        ('name = "two"', 'name = "one"', "'one' is listed twice"),
        (
            'name = "two"',
            'name = "two"\nunit = "mm"',
            "is a hinge joint, so its unit must be one of 'rad', 'deg'",
        ),
        ('name = "two"', 'name = "two"\nunit = "turns"', "unit must be one of"),
        (
            'name = "two"',
            'name = "two"\nrange = [1, 2]\nrest = 0',
            "rests at 0 rad, outside its range 1 to 2",
        ),
        ('model = "arm.xml"', 'model = "leg.xml"', "does not exist"),
        ('model = "arm.xml"', 'model = "arm.xml"\nend_effector = "hand"', "'hand' is not a site"),
        ("[[controls]]", "[[controls", "is not valid TOML"),
        ('name = "two"', 'name = "two"\nlog = 3', 'expected log = "..." (a text), found 3'),
        (
            'name = "two"',
            'name = "two"\nlog_scale = 0',
            "expected log_scale = a finite number other than 0, found 0",
        ),
        ("[[controls]]", "[import]\nrate = 5\n[[controls]]", "[import]: unknown key 'rate'"),
        (
            "[[controls]]",
            "[import]\ngap = -1\n[[controls]]",
            "expected gap = a positive time in seconds, found -1",
        ),
        ("dt = 0.01", "dt = 0.01\nimport = 3", "expected import = a table, found 3"),
        (
            '[[controls]]\nname = "u"\nrange = [-1, 1]\n',
            "",
            "expected controls = one or more [[controls]] tables, found None",
        ),
    ],
)
def test_bad_descriptions_say_what_is_wrong(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TOML
    assert words in refusal(write(tmp_path, TOML.replace(old, new)))
