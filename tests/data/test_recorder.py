import hashlib
import os
import random
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from genan.data import Channels, Recorder, load, read_truth_for_evaluation_only, summary, write
from genan.errors import DataError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.h5"


def partial(path):
    return path.with_name(path.name + ".partial")


def record(path, trajectories, numbers, *, finish=True, seed=0):
    with Recorder.resume_or_create(
        path,
        trajectories.channels,
        provenance={"seed": seed, "versions": {"genan": "1"}},
        truth={"tau": 2},
    ) as recorder:
        for number in numbers:
            one = trajectories[number]
            recorder.append(one.q, one.u, truth={"tau": 3 * one.q}, dt=one.dt)
        if finish:
            recorder.finish()
        return len(recorder)


def test_a_recording_is_what_was_appended(make, path):
    trajectories = make(6)
    record(path, trajectories, range(6))
    assert load(path).fingerprint == trajectories.fingerprint
    np.testing.assert_array_equal(read_truth_for_evaluation_only(path)["tau"], 3 * trajectories.q)
    assert list(path.parent.iterdir()) == [path], "the partial file and the lock are gone"


def test_an_interrupted_recording_gives_the_same_bytes(make, tmp_path):
    trajectories = make(6)
    record(tmp_path / "whole.h5", trajectories, range(6))
    broken = tmp_path / "broken.h5"
    assert record(broken, trajectories, range(2), finish=False) == 2
    assert summary(partial(broken)).unfinished
    assert record(broken, trajectories, range(2, 5), finish=False) == 5
    record(broken, trajectories, [5])
    assert broken.read_bytes() == (tmp_path / "whole.h5").read_bytes()
    write(tmp_path / "written.h5", load(broken), truth=read_truth_for_evaluation_only(broken))
    assert (tmp_path / "written.h5").read_bytes() == broken.read_bytes()


def test_reading_while_it_is_written(make, path):
    trajectories = make(3)
    with Recorder.create(path, trajectories.channels, provenance={}) as recorder:
        for number, one in enumerate(trajectories):
            recorder.append(one.q, one.u)
            code = f"from genan.data import load; print(load({str(partial(path))!r}).fingerprint)"
            here = load(partial(path)).fingerprint
            assert here == trajectories.select(range(number + 1)).fingerprint
        other = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert other.stdout.strip() == here


def test_a_refused_trajectory_changes_nothing(make, path):
    trajectories = make(2)
    q, u = trajectories[0].q, trajectories[0].u
    nan, wild = q.copy(), u.copy()
    nan[4, 1], wild[2, 2] = np.nan, 9.0
    with Recorder.create(path, trajectories.channels, provenance={}, truth={"tau": 2}) as recorder:
        recorder.append(q, u, truth={"tau": q})
        before = partial(path).read_bytes()
        for arguments, message in (
            ({"q": nan}, "Joint 'elbow' is nan in trajectory 1 at sample 4"),
            ({"u": wild}, "Control 'c' is 9 in trajectory 1 at sample 2"),
            ({"q": q[:, :1]}, r"q must be \[samples, 2\]"),
            ({"u": u[:-1]}, "q has 32 samples|q has .* samples, u has"),
            ({"q": q[:2], "u": u[:2]}, r"Trajectory 1 \(counted from 0\) has 2 samples"),
            (
                {"dt": 0.01},
                r"Two rates: the recording is sampled at 500 Hz .* trajectory 1 at 100 Hz",
            ),
            ({"truth": {}}, "truth should be 'tau', not none"),
            ({"truth": {"tau": q[:3]}}, r"truth 'tau' of trajectory 1 must be finite numbers"),
            ({"truth": {"tau": nan}}, r"truth 'tau' of trajectory 1 must be finite numbers"),
        ):
            with pytest.raises(DataError, match=message):
                recorder.append(**({"q": q, "u": u, "truth": {"tau": q}} | arguments))
        assert partial(path).read_bytes() == before and len(recorder) == 1
        recorder.append(trajectories[1].q, trajectories[1].u, truth={"tau": trajectories[1].q})
        recorder.finish()
    assert load(path).fingerprint == trajectories.fingerprint


def test_another_recording_is_not_mixed_in(make, path):
    trajectories = make(2)
    record(path, trajectories, [0, 1], finish=False)
    before = partial(path).read_bytes()
    with pytest.raises(DataError) as error:
        record(path, trajectories, [], seed=1)
    assert "holds 2 trajectories of a recording with other settings" in str(error.value)
    assert (
        "provenance.seed (the partial has 0, asked 1); use another --out, or delete the partial"
        in str(error.value)
    )
    faster = Channels(
        dt=0.001,
        joints=trajectories.joints,
        controls=trajectories.controls,
        control_range=trajectories.control_range,
        control_units=trajectories.control_units,
    )
    with pytest.raises(
        DataError, match=r"provenance.seed .*dt \(the partial has 0.002, asked 0.001\), truth.tau"
    ):
        Recorder.resume_or_create(path, faster, provenance={"versions": {"genan": "1"}})
    with pytest.raises(
        DataError, match="holds 2 trajectories of an unfinished recording; resume it"
    ):
        Recorder.create(path, trajectories.channels, provenance={})
    assert partial(path).read_bytes() == before
    record(path, trajectories, [])
    assert load(path).fingerprint == trajectories.fingerprint


def test_an_empty_partial_is_no_obstacle(make, path):
    trajectories = make(1)
    record(path, trajectories, [], finish=False, seed=1)
    record(path, trajectories, [0], seed=2)
    assert load(path).provenance["seed"] == 2


def test_one_recorder_at_a_time(make, path):
    trajectories = make(1)
    with Recorder.create(path, trajectories.channels, provenance={}):
        for attempt in (
            lambda: Recorder.resume_or_create(path, trajectories.channels, provenance={}),
            lambda: write(path, trajectories),
        ):
            with pytest.raises(
                DataError, match=r"Another process is recording into .*data.h5 at this moment"
            ):
                attempt()
    write(path, trajectories)


def test_a_closed_recorder_says_so(make, path):
    trajectories = make(1)
    recorder = Recorder.create(path, trajectories.channels, provenance={})
    recorder.append(trajectories.q, trajectories.u)
    recorder.close()
    recorder.close()
    with pytest.raises(DataError, match="is closed; begin it again to add"):
        recorder.append(trajectories.q, trajectories.u)
    with pytest.raises(DataError, match="is closed; begin it again to finish"):
        recorder.finish()


def test_an_interruption_half_way_through_a_trajectory(make, path, monkeypatch):
    trajectories = make(3)
    with Recorder.create(path, trajectories.channels, provenance={}) as recorder:
        recorder.append(trajectories[0].q, trajectories[0].u)
        with monkeypatch.context() as patch:
            put = Recorder._put

            def interrupted(self, name, *arguments):
                if name == "u":
                    raise KeyboardInterrupt
                put(self, name, *arguments)

            patch.setattr(Recorder, "_put", interrupted)
            with pytest.raises(KeyboardInterrupt):
                recorder.append(np.zeros((999, 2)), np.zeros((999, 3)))
        assert load(partial(path)).fingerprint == trajectories.select([0]).fingerprint
        for number in (1, 2):
            recorder.append(trajectories[number].q, trajectories[number].u)
        recorder.finish()
    assert load(path).fingerprint == trajectories.fingerprint


def test_a_partial_file_cut_short(make, path):
    trajectories = make(40)
    record(path, trajectories, range(40), finish=False)
    # A clean end leaves a file that HDF5 measures itself; a killed one has to be measured by genan.
    for clean in (True, False):
        if not clean:
            code = _CHILD.format(path=str(path), count=5000)
            partial(path).unlink()
            child = subprocess.Popen(
                [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
            )
            assert child.stdout is not None
            while child.stdout.readline().strip() != "300":
                pass
            _kill(child)
            load(partial(path))
        whole = partial(path).read_bytes()
        partial(path).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(DataError, match="is cut short"):
            load(partial(path))


@pytest.mark.parametrize("place", [8, 30, 44])
def test_a_damaged_partial_file_is_refused_soon(make, path, place):
    record(path, make(3), range(3), finish=False)
    damaged = bytearray(partial(path).read_bytes())
    damaged[place] ^= 0xFF  # of the superblock, which has a checksum: HDF5 reads it again and again
    partial(path).write_bytes(damaged)
    code = f"from genan.data import load; load({str(partial(path))!r})"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "DataError" in ended.stderr and "copy it again" in ended.stderr, ended.stderr


# ----------------------------------------------------------------------------------------------
# killed

_CHILD = textwrap.dedent("""
    import time

    import numpy as np
    from genan.data import Channels, Recorder

    bounds = np.array([[0.0], [1.0]])
    channels = Channels(dt=0.01, joints=("a", "b"), controls=("u",), control_range=bounds)
    more = dict(provenance={{"seed": 3}}, truth={{"tau": 2}})
    with Recorder.resume_or_create({path!r}, channels, **more) as recorder:
        print("ready", flush=True)
        for number in range(len(recorder), {count}):
            rng = np.random.default_rng([3, number])
            length = int(rng.integers(3, 300))
            q = rng.standard_normal((length, 2))
            recorder.append(q, rng.uniform(size=(length, 1)), truth={{"tau": -q}})
            time.sleep(0.002)  # however fast the machine, the kills come before the end
            if number % 100 == 0:
                print(number, flush=True)
        print("finishing", flush=True)
        recorder.finish()
""")


def _kill(child):
    child.kill()
    child.wait()
    child.stdout.close()


def _start(path, count):
    code = _CHILD.format(path=str(path), count=count)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def _run_to_the_end(path, count):
    with _start(path, count) as child:
        child.communicate()
    assert child.returncode == 0


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    count = 1000
    whole, broken = tmp_path / "whole.h5", tmp_path / "broken.h5"
    _run_to_the_end(whole, count)
    expected = load(whole)
    dice = random.Random(0)
    recorded, kills = 0, 0
    while kills < 5:
        child = _start(broken, count)
        if (
            kills % 3
        ):  # while trajectories are appended; else perhaps while the partial file is made or copied
            assert child.stdout.readline() == "ready\n"
            time.sleep(dice.uniform(0.0, 0.15))
        else:
            time.sleep(dice.uniform(0.2, 0.6))
        _kill(child)
        kills += 1
        if partial(broken).exists() and len(summary(partial(broken))):
            there = load(partial(broken))
            assert len(there) >= recorded, "whole trajectories were lost"
            assert there.fingerprint == expected.select(range(len(there))).fingerprint
            recorded = len(there)
    assert 0 < recorded < count
    for _ in range(3):  # and while the finished file is being made
        if broken.exists():
            break
        child = _start(broken, count)
        while child.stdout.readline() != "finishing\n":
            pass
        time.sleep(dice.uniform(0.0, 0.02))
        _kill(child)
    if not broken.exists():
        _run_to_the_end(broken, count)
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (whole, broken)]
    assert digests[0] == digests[1]


# ---------------------------------------------------------------------------------------------- a
# full disk

_FILL = textwrap.dedent("""
    import sys
    from pathlib import Path

    import numpy as np
    from genan.data import Channels, Recorder, load, write
    from genan.errors import DataError

    folder, mode = Path(sys.argv[1]), sys.argv[2]
    bounds = np.array([[0.0], [1.0]])
    channels = Channels(dt=0.01, joints=("a", "b"), controls=("u",), control_range=bounds)
    rng = np.random.default_rng(0)

    def attempt(path, count):
        with Recorder.resume_or_create(path, channels, provenance={}) as recorder:
            while len(recorder) < count:
                recorder.append(rng.standard_normal((200, 2)), rng.uniform(size=(200, 1)))
            return recorder.finish()

    path = folder / "data.h5"
    if mode == "recording":
        ballast, count = 0, 100_000
    else:  # room for the partial file but not for the finished one
        ballast, count = 1_500_000, 200
    (folder / "ballast").write_bytes(b"x" * ballast)
    try:
        attempt(path, count)
    except DataError as error:
        print(error)
    partial = folder / "data.h5.partial"
    print(len(load(partial)), sorted(p.name for p in folder.iterdir()))
    if mode == "recording":
        try:
            attempt(path, count)
        except DataError as error:
            print(error)
        print(len(load(partial)))
    else:
        (folder / "ballast").unlink()
        print(len(load(attempt(path, count))))
    print("end")
""")


def _on_small_disk(tmp_path, mode):
    """Run the script above on a 3 MB disk of its own, in a namespace that ends with it."""
    script, disk = tmp_path / "fill.py", tmp_path / "disk"
    script.write_text(_FILL)
    disk.mkdir()
    command = (
        f"mount -t tmpfs -o size=3m none {disk} && exec {sys.executable} {script} {disk} {mode}"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"this machine does not let a test mount a small disk: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces to mount a small disk")
def test_a_disk_that_fills_up_while_recording(tmp_path):
    first, there, again, still, end = _on_small_disk(tmp_path, "recording")
    safe = int(there.split()[0])
    assert safe > 100
    assert f"(the disk is full), with {safe} trajectories safe in" in first
    assert first.endswith("data.h5.partial; make room and run the same command again to go on.")
    assert "['ballast', 'data.h5.partial']" in there
    assert f"cannot be written: the disk is full, with {safe} trajectories safe in it." in again
    assert (int(still), end) == (safe, "end")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces to mount a small disk")
def test_a_disk_that_fills_up_at_the_end(tmp_path):
    message, there, finished, end = _on_small_disk(tmp_path, "finishing")
    assert "(the disk is full), with 200 trajectories safe in" in message
    assert there == "200 ['ballast', 'data.h5.partial']"
    assert (finished, end) == ("200", "end")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_write_that_fails(make, path):
    """The same without a small disk: the operating system refuses every write from now on."""
    trajectories = make(2)
    recorder = Recorder.create(path, trajectories.channels, provenance={})
    recorder.append(trajectories[0].q, trajectories[0].u)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, recorder._file.id.get_vfd_handle())
    os.close(full)
    with pytest.raises(
        DataError,
        match=r"\(the disk is full\), with 1 trajectory safe in .*data.h5.partial; make room",
    ):
        recorder.append(trajectories[1].q, trajectories[1].u)
    assert load(partial(path)).fingerprint == trajectories.select([0]).fingerprint
    with Recorder.resume_or_create(path, trajectories.channels, provenance={}) as recorder:
        recorder.append(trajectories[1].q, trajectories[1].u)
        recorder.finish()
    assert load(path).fingerprint == trajectories.fingerprint
