"""A draft of robot.toml: what the model says, what is guessed, and that the text loads as what was
written."""

import tomllib
from pathlib import Path

import mujoco
import numpy as np
import pytest

from genan.errors import RobotError
from genan.robot import Robot
from genan.robot.draft import draft, robot_toml

ARM = """
<mujoco model="odd arm">
  <compiler angle="radian"/>
  <option timestep="0.004"/>
  <worldbody>
    <body name="a"><joint name="j1" axis="0 1 0" range="0.2 1"/><geom size=".1"/>
      <body name="b"><joint name="s" type="slide" range="-0.1 0.2"/><geom size=".1"/>
        <site name="tcp"/>
        <body name="c"><joint name="w"/><geom size=".1"/>SITES</body>
    </body></body>
  </worldbody>
  <tendon><fixed name="cord"><joint joint="j1" coef="1"/></fixed></tendon>
  <actuator>
    <motor name="geared" joint="j1" gear="50" forcerange="-2 2"/>
    <motor name="plain" joint="w" ctrlrange="-3 4"/>
    <position name="servo" joint="s" kp="20"/>
    <position name="damped" joint="w" kp="3" kv="2"/>
    <velocity name="wheel" joint="w" kv="3" ctrlrange="-1 1"/>
    <intvelocity name="integrated" joint="w" kp="3" actrange="-1 1"/>
    <muscle name="biceps" tendon="cord"/>
    <motor joint="s"/>
  </actuator>
  KEY
</mujoco>
"""
HOME = '<keyframe><key name="home" qpos="0.5 0.1 -0.3" ctrl="0 0 0.1 0 0 0 0 0"/></keyframe>'


def arm(folder: Path, *, sites: str = '<site name="tip"/>', key: str = "") -> Path:
    path = folder / "arm.xml"
    path.write_text(ARM.replace("SITES", sites).replace("KEY", key))
    return path


def load(folder: Path, text: str) -> Robot:
    (folder / "robot.toml").write_text(text)
    return Robot.load(folder)


def test_a_model_becomes_a_robot_that_loads(tmp_path: Path) -> None:
    new = draft(arm(tmp_path, key=HOME), model="arm.xml")
    robot = load(tmp_path, robot_toml(new))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml"))
    assert robot.name == "odd arm" and robot.dt == 0.004 and robot.end_effector == "tip"
    assert robot.joint_names == ("j1", "s", "w")
    np.testing.assert_allclose(robot.q_range[:, :2], model.jnt_range[:2].T, rtol=1e-5)
    assert np.isinf(robot.q_range[:, 2]).all()
    np.testing.assert_allclose(robot.q_rest, [0.5, 0.1, -0.3], rtol=1e-5)
    assert robot.control_names == (
        "geared",
        "plain",
        "servo",
        "damped",
        "wheel",
        "integrated",
        "biceps",
        "u8",
    )
    assert [c.unit for c in robot.controls] == ["1", "N m", "m", "rad", "rad/s", "rad/s", "1", "N"]
    expected = [[-2, 2], [-3, 4], [-0.1, 0.2], [-np.pi, np.pi], [-1, 1], [-1, 1], [0, 1], [-1, 1]]
    np.testing.assert_allclose(robot.u_range.T, expected, rtol=1e-5)
    assert robot.u_rest[2] == 0.1


def test_guesses_are_marked_in_the_text_and_listed(tmp_path: Path) -> None:
    new = draft(arm(tmp_path), model="arm.xml")
    text = robot_toml(new)
    marked = [line for line in text.splitlines() if "GUESS" in line][
        1:
    ]  # the first line explains the word
    assert sum(line.startswith("range") for line in marked) == 4  # servo, damped, integrated, u8
    assert sum(line.startswith("unit") for line in marked) == 2  # geared, biceps
    assert any(line.startswith("dt") for line in marked) and any(
        line.startswith("rest") for line in marked
    )
    said = " ".join(new.guesses)
    assert "The range of 'servo': the joint's range" in said and "time step, 0.004 s" in said
    assert "The range of 'damped', 'integrated', 'u8': the model sets no range." in said
    assert "middle of the range" in said  # j1 cannot rest at 0
    assert 0.2 < load(tmp_path, text).q_rest[0] < 1.0


@pytest.mark.parametrize(
    ("sites", "chosen"),
    [
        ("", None),  # only one further up: not at the end of the arm
        ('<site name="camera"/>', "camera"),
        ('<site name="camera"/><site name="tool_tip"/>', "tool_tip"),
        ('<site name="left"/><site name="right"/>', None),
    ],
)
def test_the_end_effector_is_picked_where_it_is_plain(
    tmp_path: Path, sites: str, chosen: str | None
) -> None:
    new = draft(arm(tmp_path, sites=sites), model="arm.xml")
    assert new.end_effector == chosen
    listed = robot_toml(new)
    assert all(site in listed for site in new.sites)


def test_a_urdf_gives_limits_and_efforts(tmp_path: Path) -> None:
    inertia = '<mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/>'
    link = f'<link name="{{}}"><inertial>{inertia}</inertial></link>'
    urdf = f"""<robot name="two">{link.format("base")}{link.format("upper")}{link.format("lower")}
    <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
      <axis xyz="0 1 0"/><limit lower="-1" upper="2" effort="7" velocity="1"/></joint>
    <joint name="rail" type="prismatic"><parent link="upper"/><child link="lower"/>
      <axis xyz="0 0 1"/><limit lower="0" upper="0.5" effort="0" velocity="1"/></joint></robot>"""
    (tmp_path / "two.urdf").write_text(urdf)
    new = draft(tmp_path / "two.urdf", model="two.urdf")
    robot = load(tmp_path, robot_toml(new))
    assert [joint.kind for joint in robot.joints] == ["hinge", "slide"]
    np.testing.assert_allclose(robot.q_range, [[-1, 0], [2, 0.5]], rtol=1e-5)
    assert (
        robot.control_names == ("shoulder_command", "rail_command")
        and robot.controls[0].upper == 7.0
    )
    assert any("no actuators" in guess for guess in new.guesses)


def test_names_that_need_escapes(tmp_path: Path) -> None:
    path = tmp_path / "odd.xml"
    path.write_text(
        '<mujoco model="a &quot;b&quot; \\ c"><worldbody><body>'
        '<joint name="é &quot;1&quot;"/><geom size=".1"/></body></worldbody></mujoco>'
    )
    text = robot_toml(draft(path, model="odd.xml"))
    assert tomllib.loads(text)["joints"][0]["name"] == 'é "1"'
    assert load(tmp_path, text).name == 'a "b" \\ c'


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("<freejoint/><geom size='.1'/>", "free joint"),
        ("<joint/><geom size='.1'/>", "has no name"),
        ("<geom size='.1'/>", "no joints"),
        ("<joint type='ball' name='b'/><geom size='.1'/>", "ball joint"),
    ],
)
def test_what_genan_cannot_simulate_is_refused(tmp_path: Path, inside: str, said: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(f"<mujoco><worldbody><body>{inside}</body></worldbody></mujoco>")
    with pytest.raises(RobotError, match=said):
        draft(path, model="bad.xml")
