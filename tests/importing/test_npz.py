import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.npz import is_npz, open_npz

RNG = np.random.default_rng(0)
Q, U = RNG.standard_normal((50, 2)).astype(np.float32), RNG.standard_normal((50, 3))


def read(source, names):
    """Recordings as {name: {columns: (time, values)}}, and the facts of each."""
    found = list(source.read(names))
    joined = {one.name: {s.names: (s.time, s.values) for s in one.streams} for one in found}
    return joined, {one.name: dict(one.facts) for one in found}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_plain_arrays_cut_into_recordings(tmp_path, save):
    save(
        tmp_path / "log.npz",
        q=Q,
        u=np.asfortranarray(U),
        tau=Q[:, 0],
        dt=0.01,
        u_names=np.array(["goal", "enable", "gain"]),
        traj_start=[0, 20],
        traj_end=[20, 45],
        traj_name=["first", "second"],
        traj_kind=["sysid", "swing"],
        traj_meta=[[1.0, np.nan], [2.0, 3.0]],
        traj_meta_names=["mass", "gain"],
    )
    source = open_npz(tmp_path / "log.npz")
    assert is_npz(tmp_path / "log.npz") and source.period == 0.01
    assert source.positions == ["q:0", "q:1"] and source.commands == ["goal", "enable", "gain"]
    assert {"q:0", "u:2", "goal", "enable", "tau", "tau:0"} <= set(source.columns)
    found, facts = read(source, ["q:1", "gain", "tau"])
    assert facts == {
        "first": {"kind": "sysid", "mass": 1.0},
        "second": {"kind": "swing", "mass": 2.0, "gain": 3.0},
    }
    assert source.recordings == list(facts.items())
    for name, rows in (("first", slice(0, 20)), ("second", slice(20, 45))):
        ((time, values),) = found[name].values()
        assert time is None and np.array_equal(
            values, np.column_stack([Q[:, 1], U[:, 2], Q[:, 0]])[rows]
        )


def test_a_time_array_and_a_folder_of_files(tmp_path):
    for run in (2, 10):
        np.savez(tmp_path / f"run_{run}.npz", q=Q + run, u=U, time=0.5 + 0.01 * np.arange(50))
    source = open_npz(tmp_path)
    assert is_npz(tmp_path) and source.period is None
    found, _ = read(source, ["q:0", "u:0"])
    assert list(found) == ["run_2", "run_10"]
    time, values = found["run_10"][("q:0", "u:0")]
    assert np.array_equal(time, 0.5 + 0.01 * np.arange(50)) and np.array_equal(
        values[:, 0], (Q + 10)[:, 0]
    )


def test_what_mujoco_sysid_saves(tmp_path):
    timeseries = pytest.importorskip("mujoco.sysid._src.timeseries")
    times = 0.1 + 0.01 * np.arange(50)
    signals = [
        ("elbow_qpos", 1, timeseries.SignalType.MjStateQPos),
        ("imu", 3, timeseries.SignalType.MjSensor),
    ]
    data = np.column_stack([Q[:, :1], U])
    timeseries.TimeSeries.from_custom_map(times, data, signals).save_to_disk(
        tmp_path / "series.npz"
    )
    found, _ = read(open_npz(tmp_path / "series.npz"), ["elbow_qpos", "imu:2"])
    time, values = found["series"][("elbow_qpos", "imu:2")]
    assert np.array_equal(time, times) and np.array_equal(values, data[:, [0, 3]])
    timeseries.TimeSeries(times, data).save_to_disk(tmp_path / "bare.npz")
    assert list(open_npz(tmp_path / "bare.npz").columns) == ["data:0", "data:1", "data:2", "data:3"]


def test_a_trajectory_of_mujoco_sysid_has_three_clocks(tmp_path):
    slow, fast = 0.02 * np.arange(25), 0.01 * np.arange(50)
    np.savez(
        tmp_path / "roll.npz",
        control_times=slow,
        control_data=U[:25, :1],
        control_signal_mapping=np.asarray('{"motor_ctrl": [5, [0]]}'),
        sensordata_times=fast,
        sensordata_data=Q,
        initial_state=np.zeros(4),
    )
    found, _ = read(open_npz(tmp_path / "roll.npz"), ["motor_ctrl", "sensordata:1"])
    time, values = found["roll"][("motor_ctrl",)]
    assert np.array_equal(time, slow) and np.array_equal(values, U[:25, :1])
    time, values = found["roll"][("sensordata:1",)]
    assert np.array_equal(time, fast) and np.array_equal(values, Q[:, 1:])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"q": Q, "u": U[:40], "dt": 0.01}, "q has 50 rows and u has 40"),
        ({"q": Q, "u": U, "dt": [0.01, 0.02]}, "dt should be one positive number"),
        (
            {"q": Q, "u": U, "dt": 0.01, "traj_start": [0, 10], "traj_end": [20, 30]},
            "do not cut its 50 rows",
        ),
        ({"q": Q, "u": U, "traj_start": [0], "traj_end": [51]}, "do not cut its 50 rows"),
        (
            {"q": Q, "u": U, "traj_start": [0], "traj_end": [50], "traj_name": ["a", "b"]},
            "should have 1 entries",
        ),
        ({"q": Q, "u": U}, "has no column 'w:0'; the columns there are: 'q:0', 'q:1', 'u:0'"),
        (
            {"q": np.array([{}, {}], dtype=object), "u": U},
            "the array 'q' cannot be read .*Object arrays",
        ),
        (
            {"times": Q[:, 0], "data": U, "signal_mapping": np.asarray("no json")},
            "is no list of signals",
        ),
        (
            {"times": Q[:, 0], "data": U, "signal_mapping": np.asarray('{"a": [0, [7]]}')},
            "names columns that .* lacks",
        ),
    ],
)
def test_refusals(tmp_path, arrays, message):
    np.savez(tmp_path / "log.npz", **arrays)
    with pytest.raises(DataError, match=message):
        source = open_npz(tmp_path / "log.npz")
        assert source.columns
        list(source.read(["w:0"]))


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, q=Q, u=U, dt=0.01)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="the archive cannot be read"):
        open_npz(path)
    flipped = bytearray(whole)
    place = whole.index(Q[30].tobytes())
    flipped[place] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(DataError, match="cannot be read .*CRC.*q.npy"):
        list(open_npz(path).read(["q:0", "u:0"]))
