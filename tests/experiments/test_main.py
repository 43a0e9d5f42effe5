"""``python -m experiments``: all studies at their smallest, killed half-way and gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.actuator.ensembles import make_ensemble
from tests.docs.typed import typed
from tests.experiments.two_nodes import TINY

from experiments.executors import LocalExecutor
from experiments.jobs import Job, in_order, plain_fit
from experiments.sizes import SIZES, SMOKE
from experiments.store import DONE, Store
from experiments.studies import STUDIES
from experiments.work import perform
from genan.actuator import load, save
from genan.cli import main
from genan.evaluation.study_result import StudyResult
from genan.rl.policy import Policy
from genan.robot import Robot


def _finished(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.parent.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in root.glob(f"*/{DONE}")
    }


def _alive(group: list[int]) -> list[int]:
    return [pid for pid in group if Path(f"/proc/{pid}").exists() and "Z" not in _state(pid)]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def _workers(of: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(of)], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def _until(holds: Callable[[], Any], seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@dataclass(frozen=True)
class Studied:
    """All studies, killed in the middle and gone on with."""

    out: Path
    command: list[str]
    workers: list[int]
    """Processes of the one that was killed."""
    before: dict[str, tuple[int, bytes]]
    """Jobs that it had finished."""
    half: str
    """The one among them that was half written, or so it looked."""
    went_on: "subprocess.CompletedProcess[str]"
    after: dict[str, tuple[int, bytes]]


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Studied:
    out = tmp_path_factory.mktemp("studied") / "studies"
    # One process, which compiles everything once; the tests have the other core.
    more = ("--out", out, "--workers", 1)
    command = [sys.executable, *typed("python -m experiments all --size smoke", *more)]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # In the middle of a job: some are done, and there is a folder of one that is not.
    _until(
        lambda: (
            len(_finished(out / "jobs")) >= 2
            and len(list((out / "jobs").iterdir())) > len(_finished(out / "jobs"))
        )
    )
    workers = _workers(killed.pid)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    _until(lambda: not _alive(workers), 20.0)  # no orphans
    before = _finished(out / "jobs")
    half = out / "jobs" / next(iter(before)) / DONE
    content = half.read_bytes()
    half.write_bytes(content[: len(content) // 2])
    went_on = subprocess.run(command, capture_output=True, text=True)
    return Studied(
        out, command, workers, before, half.parent.name, went_on, _finished(out / "jobs")
    )


@pytest.mark.slow
def test_all_studies_run_are_killed_go_on_and_are_known(
    studied: Studied, tmp_path: Path, experiments: Any
) -> None:
    out, before, after = studied.out, studied.before, studied.after
    assert studied.workers
    assert studied.went_on.returncode == 0, studied.went_on.stdout + studied.went_on.stderr
    for name, kept in before.items():  # a job that was half written is not taken for done
        assert (after[name] == kept) == (name != studied.half), name
    everything = in_order([job for study in STUDIES.values() for job in study.jobs(SMOKE)])
    assert set(after) == {job.id for job in everything}

    again = experiments("all", "--size", "smoke", "--out", out)
    assert again.code == 0 and f"{len(everything)} jobs known already" in again.out
    assert _finished(out / "jobs") == after
    for name in STUDIES:
        assert StudyResult.load(out / f"{name}-smoke.study.json").complete

    # The same result as without interruption, in another process and another folder.
    store, fresh = Store(out / "jobs"), Store(tmp_path / "fresh")
    for job in in_order([next(job for job in STUDIES["accuracy"].jobs(SMOKE))]):
        found = perform(job, fresh)
        kept = store.find(job)
        assert kept is not None and json.loads(json.dumps(found.result)) == kept.result, job.label
    # A study of how many trajectories it takes fits to the first of them.
    few = plain_fit(SMOKE, trajectories=5)
    perform(few, fresh)
    assert load(fresh.folder(few)).record["data"]["trajectories"] == 5


@pytest.mark.slow
def test_one_study_two_studies_and_a_search_take_over_what_is_known(
    studied: Studied, experiments: Any
) -> None:
    on = ("--out", studied.out)
    words = typed("python -m experiments accuracy --size small", *on, size="smoke")
    answer = experiments(*words[2:])
    assert answer.code == 0 and "UAN" in answer.out and "10 jobs known already" in answer.out, (
        answer
    )
    words = typed("python -m experiments history stride --size full", *on, size="smoke")
    answer = experiments(*words[2:])
    assert answer.code == 0 and "jobs known already" in answer.out, answer
    assert [line for line in answer.out.splitlines() if line.startswith("Wrote ")] == [
        f"Wrote {studied.out / name}-smoke.study.json" for name in ("history", "stride")
    ]
    words = typed("python -m experiments transfer --size full", *on, size="smoke")
    answer = experiments(*words[2:])
    assert answer.code == 0 and "Table tennis: success on the robot" in answer.out, answer
    pytest.importorskip("optuna")
    # The first trial has the defaults: it is the training of a study.
    words = typed(
        "python -m experiments search-reacher --size full --trials 40 --at-once 4",
        *on,
        size="smoke",
        trials=1,
    )
    answer = experiments(*words[2:])
    assert answer.code == 0 and "success in the simulator [%], 1 trials" in answer.out, answer
    assert set(_finished(studied.out / "jobs")) == set(studied.after)


@pytest.mark.slow
def test_ball_in_a_cup_is_trained(tmp_path: Path) -> None:
    """The studies leave it out at this size."""
    robot = Robot.load("pamy2-cup")
    made_up = make_ensemble(robot, damping=0.5, gain=5.0, members=2, scatter=0.01)
    few = ("--num-envs", 8, "--judge", 8, "--task.pool", SMOKE.pool)
    cup = typed(
        "genan train ball-in-a-cup --actuators runs/actuators-cup --steps 80000000 "
        "--task.control-spread 0.03 --out runs/ball-in-a-cup",
        *few,
        *("--ppo.num-steps-per-env", 16, "--ppo.num-minibatches", 2),
        actuators=save(made_up, tmp_path / "actuators-cup"),
        steps=128,
        out=tmp_path / "cup",
    )
    assert main(cup) == 0
    assert Policy.load(tmp_path / "cup").contract.robot == "pamy2-cup"


HISTORY = [sys.executable, "-m", "experiments", "history", "--size", "smoke", "--workers", "1"]


@pytest.mark.slow
def test_ctrl_c_stops_where_it_is_safe(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*HISTORY, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    _until(lambda: any(tmp_path.glob("jobs/*/")))
    workers = _workers(running.pid)
    os.kill(running.pid, signal.SIGINT)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "the same command goes on from there" in said
    assert workers
    _until(lambda: not _alive(workers), 20.0)
    assert not StudyResult.load(tmp_path / "history-smoke.study.json").complete


@pytest.mark.slow
def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*HISTORY, "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _until(lambda: any(tmp_path.glob("jobs/*/")))
    workers = _workers(running.pid)
    os.kill(running.pid, signal.SIGINT)
    time.sleep(0.3)  # two at the same moment are one
    os.kill(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert "Traceback" not in said, said
    assert running.returncode == 130
    assert workers
    _until(lambda: not _alive(workers), 20.0)


@pytest.mark.slow
def test_a_job_that_fails_says_why_and_costs_no_other(
    tmp_path: Path, experiments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "smoke", TINY)
    # A recording cannot go on from a file that is none.
    test = next(
        job for job in in_order(STUDIES["history"].jobs(TINY)) if job.label.endswith("(test)")
    )
    folder = Store(tmp_path / "jobs").folder(test)
    folder.mkdir(parents=True)
    (folder / "data.h5.partial").write_bytes(b"not a recording")
    answer = experiments("history", "--size", "smoke", "--workers", 1, "--out", tmp_path)
    assert answer.code == 2
    assert "failed: record 6 trajectories with the racket (test)" in answer.out
    assert "failed, which it needs" in answer.out
    done = {job["kind"] for job in map(_job, (tmp_path / "jobs").glob(f"*/{DONE}"))}
    assert "fit" in done


def _job(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes())["job"]


def test_the_plan(tmp_path: Path, experiments: Any) -> None:
    flags = ("--size", "full", "--plan", "--out", tmp_path / "none")
    answer = experiments("stride", "history", *flags)
    assert answer.code == 0 and "22 jobs, 22 to do." in answer.out
    assert not (tmp_path / "none").exists()


def test_only_some_jobs_and_what_they_need(tmp_path: Path, experiments: Any, refused: Any) -> None:
    flags = ("--size", "smoke", "--plan", "--out", tmp_path / "none", "--only")
    answer = experiments("all", *flags, "judge: fit loss torque", "train reacher")
    assert answer.code == 0, answer.err
    *lines, last = answer.out.splitlines()
    jobs = {job.id: job for study in STUDIES.values() for job in in_order(study.jobs(SMOKE))}
    shown = [line.split()[2] for line in lines]  # "to do", the job's name, its line
    wanted = in_order(
        job
        for job in jobs.values()
        if "judge: fit loss torque" in job.label or "train reacher" in job.label
    )
    assert set(shown) == {job.id for job in wanted} < set(jobs)
    assert {job.kind for job in wanted} >= {"collect", "fit", "evaluate", "train", "transfer"}
    assert last == f"{len(wanted)} jobs, {len(wanted)} to do."
    sentence = refused("all", *flags, "nonsense")
    assert "No job of these studies has 'nonsense' in its line" in sentence


def test_the_experiments_are_listed(experiments: Any) -> None:
    answer = experiments()
    assert answer.code == 0
    assert all(f"  {name} " in answer.out for name in (*STUDIES, "all", "search-uan"))


def test_wrong_names_and_flags(refused: Any, tmp_path: Path) -> None:
    assert "There is no experiment 'hystory'; there are: 'accuracy'" in refused("hystory")
    smoke = ("--size", "smoke", "--out", tmp_path)
    assert "At least one process" in refused("history", *smoke, "--workers", 0)
    assert "different numbers from 0 on" in refused("transfer", *smoke, "--seeds", 0, 0)


@pytest.mark.parametrize("verb", ["study", "search"])
def test_the_old_verbs_say_where_they_went(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "accuracy"]) == 2
    assert "'python -m experiments' lists and runs them" in capsys.readouterr().err


@pytest.mark.slow
def test_a_crashed_worker_is_one_failed_job(tmp_path: Path) -> None:
    executor = LocalExecutor(tmp_path, workers=1)
    job = Job("collect", {"robot": "virtual-pamy2", "trajectories": 10**6}, label="for ever")
    try:
        executor.start(job)
        assert not executor.has_room(job)
        (worker,) = _workers(os.getpid())
        os.kill(worker, signal.SIGKILL)
        events: list[Any] = []
        _until(lambda: events.extend(executor.wait(0.2)) or events, 60.0)
        assert events[-1].what == "failed" and "killed 9" in events[-1].error
        assert executor.has_room(job)
    finally:
        executor.close()
