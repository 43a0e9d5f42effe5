"""Small files that would take gigabytes are refused, in one sentence, before they do."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.importing import bombs
from tests.importing.bombs import BOMBS, PERIOD, write, write_robot

import genan
from genan import memory
from genan.errors import ActuatorError, DataError, SettingError
from genan.files import SafetensorError, parse_tensors
from genan.importing import ImportSettings, import_logs
from genan.robot import Robot

ALLOWED, MOST = "0.2", 300  # [GB], and MB that a refusal may take more than nothing.
#: Runs commands, each in a fork of a process that has imported everything, with 6 GB at most.
CHILD = """
import json, os, resource, signal, sys
import genan.importing.convert, genan.data, genan.importing.ros, genan.importing.tfrecord
import genan.importing.lerobot, genan.importing.npz, genan.cli.import_
import pyarrow.csv, pyarrow.parquet, rosbags.rosbag1, rosbags.rosbag2, mcap.reader, h5py
from genan.cli import main
found = {}
for name, arguments in json.load(sys.stdin).items():
    end, start = os.pipe()
    if not (child := os.fork()):
        os.dup2(start, 2)
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        signal.alarm(100)
        try:
            code = main(arguments)
        except BaseException as error:
            code = 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(code)
    os.close(start)
    with os.fdopen(end, errors="replace") as pipe:
        said = pipe.read()
    _, status, used = os.wait4(child, 0)
    found[name] = os.waitstatus_to_exitcode(status), said, used.ru_maxrss // 1024
print(json.dumps(found))
"""


def check(folder, names, **environment):
    """Import bombs; each must be refused in a sentence, and take no more than ``MOST``. Returns the
    most that one took [MB]."""
    robot, commands = write_robot(folder), {"nothing": ["import", "there-is-no-log", "--robot"]}
    commands["nothing"] += [str(robot), "--out", str(folder / "nothing.h5")]
    for name in names:
        bomb = BOMBS[name]
        own = ["--joints", bomb.columns[0], "--controls", bomb.columns[1], *bomb.flags]
        own += ["--out", str(folder / f"{name}.h5"), "--robot", str(robot)]
        commands[name] = [bomb.verb, str(write(name, folder))]
        commands[name] += own if bomb.verb == "import" else []
    environment["MIMALLOC_ARENA_EAGER_COMMIT"] = "0"
    environment["PYTHONPATH"] = str(Path(genan.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    answers = json.loads(ended.stdout.splitlines()[-1])
    _, said, before = answers.pop("nothing")
    assert "There is no log" in said
    wrong = {}
    for name, (code, said, peak) in answers.items():
        print(f"{name:<32}{code:>4}{peak - before:>7} MB  {said.strip()[-200:]}")
        lines = [line for line in said.splitlines() if line.startswith("genan: ")]
        words = re.search(BOMBS[name].words, said)
        if code != 2 or len(lines) != 1 or not words or peak - before > MOST:
            wrong[name] = code, said[-600:], peak - before
    assert not wrong
    return max(0, max(peak for *_, peak in answers.values()) - before)


@pytest.mark.slow
@pytest.mark.parametrize("format", sorted({bomb.format for bomb in BOMBS.values()}))
def test_bombs_are_refused_before_they_take_memory(tmp_path, format):
    names = [name for name, bomb in BOMBS.items() if bomb.format == format]
    check(tmp_path, names, GENAN_MAX_MEMORY=ALLOWED)


@pytest.mark.slow
def test_the_usual_limit_refuses_bombs_of_three_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "SIZE", 3_000_000_000)
    names = ["npz_zeros", "npz_columns_without_rows", "bag_bz2", "mcap_zstd", "h5_fill_value"]
    check(tmp_path, names, GENAN_MAX_MEMORY="")


def write_log(folder):
    rows = 2_000_000
    np.savez(folder / "a.npz", q=np.zeros((rows, 1)), u=np.zeros((rows, 1)), dt=PERIOD)
    return folder / "a.npz", Robot.load(write_robot(folder))


def test_max_memory_is_what_an_import_may_take(tmp_path):
    (log, robot), before = write_log(tmp_path), resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(DataError, match=r"a.npz, unpacked, would take 0.032 GB .* the 0.03 GB"):
        import_logs([log], robot, tmp_path / "a.h5", settings=ImportSettings(max_memory=0.03))
    with pytest.raises(DataError, match=r"would take .* the 0.1 GB allowed"):
        import_logs([log], robot, tmp_path / "a.h5", settings=ImportSettings(max_memory=0.1))
    made = import_logs([log], robot, tmp_path / "a.h5", settings=ImportSettings(max_memory=1.0))
    assert made.data.recordings == 1
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with pytest.raises(SettingError, match="max_memory must be a positive number"):
        ImportSettings(max_memory=0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses memory to a process")
def test_what_is_taken_without_asking_is_refused_too(tmp_path):
    with (
        pytest.raises(DataError, match="Reading log.npz would take more than the 0.1 GB allowed"),
        memory.allow(0.1, [Path("log.npz")]),
    ):
        np.empty(4_000_000_000, np.uint8)  # far more than other threads may give back meanwhile


def test_the_limit_grows_with_the_file(tmp_path, monkeypatch):
    monkeypatch.delenv("GENAN_MAX_MEMORY", raising=False)
    monkeypatch.setattr(memory, "_status", lambda *_: 100_000_000)  # kB that are free
    with (tmp_path / "a").open("wb") as file:
        assert memory.limit([tmp_path]) == 2e9
        file.truncate(100_000_000)
        assert memory.limit([tmp_path]) == memory.limit([tmp_path / "a"]) == 5e9
    monkeypatch.setattr(memory, "_status", lambda *_: 1_000_000)
    assert memory.limit([tmp_path]) == 0.512e9
    monkeypatch.setenv("GENAN_MAX_MEMORY", "7")
    assert memory.limit([tmp_path]) == 7e9
    monkeypatch.setenv("GENAN_MAX_MEMORY", "much")
    with pytest.raises(SettingError, match="GENAN_MAX_MEMORY should be a number of GB"):
        memory.limit([tmp_path])


def test_stamps_as_close_as_numbers_are(tmp_path):
    log, robot = tmp_path / "a.csv", Robot.load(write_robot(tmp_path))
    log.write_text("\n".join(["time,q,u", *(f"{k * 5e-324},0,0" for k in range(9))]))
    with pytest.raises(DataError, match="No trajectory is left"):
        import_logs([log], robot, tmp_path / "a.h5")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"seal": ' * 100_000])
def test_contracts_that_are_nested_without_end(tmp_path, text):
    (tmp_path / "actuator.json").write_text(text)
    with pytest.raises(ActuatorError, match="actuator.json is not a contract of genan"):
        genan.load(tmp_path)


@pytest.mark.parametrize("size", [10**6, 10**10, 2**63])
def test_arrays_whose_header_is_longer_than_the_file(size):
    with pytest.raises(SafetensorError):
        parse_tensors(size.to_bytes(8, "little") + b'{"w": {"dtype": "F32"}}')
    declared = {"w": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}
    header = json.dumps(declared).encode()
    with pytest.raises(SafetensorError):
        parse_tensors(len(header).to_bytes(8, "little") + header + bytes(100))
