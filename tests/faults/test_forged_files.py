"""Damaged recordings, exports and results: refused in a sentence, or the same as before."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.actuator.setting import waves
from tests.deployment.faulty import MemoryRobot
from tests.faults.commands import PATIENCE, ROOT
from tests.faults.forging import damaged, within

from genan.data import Recorder, write
from genan.errors import GenanError
from genan.evaluation.transfer import ReacherTrials, TransferResult, load_policy, transfer
from genan.rl.export import export_onnx
from genan.rl.policy import Policy
from genan.robot import Robot
from genan.robot.package import bundled_policy

pytestmark = pytest.mark.faults

#: Looks at files, in a process that a library may take down: a line of JSON for each.
CHILD = """
import hashlib, json, resource, signal, sys, warnings
import numpy as np
from genan.errors import GenanError
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
signal.signal(signal.SIGALRM, signal.SIG_DFL)  # one that hangs is killed

def recording(path):
    from genan.data import load
    found = load(path)
    content = found.q.tobytes() + found.u.tobytes() + found.lengths.tobytes()
    return hashlib.sha256(content).hexdigest() + repr(found.channels)

def onnx(path):
    from genan.files import open_session
    session = open_session(path, error=GenanError)
    seen = np.linspace(-1.0, 1.0, 16, dtype=np.float32)[None]
    return repr(session.run(None, {session.get_inputs()[0].name: seen})[0].tolist())

warnings.simplefilter("ignore")
for line in sys.stdin:
    signal.alarm(20)
    try:
        said = ["taken", globals()[sys.argv[1]](line.strip())]
    except GenanError as error:
        said = ["refused", str(error)]
    except BaseException as error:
        said = ["fault", f"{type(error).__name__}: {error}"]
    print(json.dumps(said), flush=True)
"""


def looked_at(kind: str, paths: list[Path]) -> list[tuple[str, str]]:
    """What became of each: refused, taken, or a fault, with what was said or found."""
    found: list[tuple[str, str]] = []
    places = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    while len(found) < len(paths):  # a child that was taken down leaves the rest to another
        words = "\n".join(map(str, paths[len(found) :]))
        ended = subprocess.run(
            [sys.executable, "-c", CHILD, kind], input=words, capture_output=True, text=True,
            env=environment, timeout=5 * PATIENCE, check=False,
        )  # fmt: skip
        found += [tuple(json.loads(line)) for line in ended.stdout.splitlines()]
        if ended.returncode:
            found.append(("fault", f"the process ended with {ended.returncode}: {ended.stderr}"))
    return found


def check(kind: str, source: Path, folder: Path, count: int) -> tuple[int, list[str]]:
    """Damage a file in many ways: how many were refused, and what was taken for another thing."""
    chance, paths, what = random.Random(count), [source], ["nothing"]
    for number in range(count):
        paths.append(folder / f"{number}{source.suffix}")
        shutil.copy(source, paths[-1])
        what.append(damaged(paths[-1], chance))
    (first, whole), *rest = looked_at(kind, paths)
    assert first == "taken", whole
    faults, refused, others = [], 0, []
    for words, (became, said) in zip(what[1:], rest, strict=True):
        refused += became == "refused"
        if became == "fault" or (became == "refused" and "\n" in said):
            faults.append(f"{words}: {said[:300]}")
        if became == "taken" and said != whole:
            others.append(f"{words}: {said[-300:]}")
    assert not faults, f"{len(faults)} of {count}:\n" + "\n".join(faults)
    return refused, others


def test_recordings(tmp_path: Path, tried: Callable) -> None:
    source, count = tmp_path / "data.h5", 400
    data = waves(Robot.load("two-link"), lengths=(90, 80, 100))
    write(source, data)
    refused, others = check("recording", source, tmp_path, count)
    same = hashlib.sha256(data.q.tobytes() + data.u.tobytes() + data.lengths.tobytes())
    changed = [words for words in others if words.partition(": ")[2][:64] != same.hexdigest()]
    assert not [words for words in others if "joints=" not in words]
    assert refused > 50
    print(len(others), changed, others[:3])
    words = f"{refused} refused in a sentence, {count - refused - len(others)} the same samples"
    tried("damaged recordings", count, f"{words}, {len(others)} with another name or rate")


def test_unfinished_recordings(tmp_path: Path, tried: Callable) -> None:
    data, source, count = waves(Robot.load("two-link")), tmp_path / "data.h5.partial", 300
    with Recorder.create(tmp_path / "data.h5", data.channels, provenance={}) as recorder:
        for k in range(len(data.lengths)):
            one = data.select([k])
            recorder.append(one.q, one.u)
    refused, others = check("recording", source, tmp_path, count)
    assert refused > 50
    words = f"{refused} refused in a sentence; no fault, none hung"
    tried("damaged unfinished recordings", count, words)
    print(len(others))


def test_onnx_exports(tmp_path: Path, tried: Callable) -> None:
    source, count = tmp_path / "policy.onnx", 200
    export_onnx(Policy.load(bundled_policy("reacher")), source)
    refused, others = check("onnx", source, tmp_path, count)
    words = f"{refused} refused by onnxruntime in a sentence; no crash, none hung"
    tried("damaged ONNX files", count, f"{words} ({len(others)} say something else: no seal)")


def test_results(tmp_path: Path, tried: Callable) -> None:
    trials = ReacherTrials(load_policy(bundled_policy("reacher"), "reacher"), MemoryRobot())
    transfer(lambda _: trials, robot_seeds=(None,), trials=2, out=tmp_path)
    path, chance, faults, refused = tmp_path / "transfer.json", random.Random(5), [], 0
    whole, count = path.read_bytes(), 300
    absurd = (b"[" * 200_000, b'{"a":' * 200_000, b"", b"null", b"1e999", b"9" * 10_000)
    for number in range(count + len(absurd)):
        path.write_bytes(whole)
        if number < len(absurd):
            what = repr(absurd[number][:20])
            path.write_bytes(absurd[number])
        else:
            what = damaged(path, chance)
        try:
            with within():
                TransferResult.load(tmp_path)
        except GenanError as error:
            refused += 1
            if "\n" in str(error):
                faults.append(f"{what}: {error}")
        except BaseException as error:
            faults.append(f"{what}: {type(error).__name__}: {error}"[:300])
    assert not faults, "\n".join(faults)
    words = f"{refused} refused in a sentence; it has no seal, so other numbers are not seen"
    tried("damaged results of trials", count + len(absurd), words)
