"""``python -m experiments search-...``, its trials computed instead of done."""

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.docs.typed import typed
from tests.experiments.fake_executor import FakeExecutor

from experiments import executors
from experiments.jobs import Job
from experiments.store import Store
from genan.errors import GenanError

pytest.importorskip("optuna")


def distance(job: Job) -> Mapping[str, Any]:
    if job.kind == "collect":
        return {}
    if job.settings.get("num_envs", 16) == 32:
        raise GenanError("Too many at once.")
    return {"held_out_distance": 0.5 * job.settings.get("history_length", 3), "steps": 1}


@pytest.fixture
def answers(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[Job], Mapping[str, Any]]], list[Job]]:
    """Let a function do the jobs; gives the list of those that are begun."""

    def use(answer: Callable[[Job], Mapping[str, Any]]) -> list[Job]:
        started: list[Job] = []

        def executor(root: Path, *, workers: int, cpu_workers: None) -> FakeExecutor:
            fake = FakeExecutor(Store(root), answer, room=workers)
            fake.started = started
            return fake

        monkeypatch.setattr(executors, "LocalExecutor", executor)
        return started

    return use


def test_the_best_trials_are_shown_beside_the_defaults(
    answers: Any, experiments: Any, tmp_path: Path
) -> None:
    started = answers(distance)
    words = typed(
        "python -m experiments search-uan --size small --trials 50",
        *("--out", tmp_path),
        size="smoke",
        trials=12,
    )
    answer = experiments(*words[2:])
    assert answer.code == 0, answer
    kept = json.loads((tmp_path / "search-uan-smoke.search.json").read_bytes())
    best, values = kept["best"], [trial["value"] for trial in kept["trials"]]
    assert best["value"] == min(value for value in values if value is not None) < 1.5
    assert (
        kept["command"]
        == "python -m experiments search-uan --trials 12 --size smoke --seed 0 --at-once 2"
    )
    lines = answer.out.splitlines()
    assert "defaults" in lines[1] and f"trial {best['number']}" in lines[1]
    assert f"{100 * (best['value'] / 1.5 - 1):+.1f} %" in lines[4]
    failed = [trial for trial in kept["trials"] if trial["state"] == "failed"]
    assert failed and f"{len(failed)} trials failed; --retry-failed tries them again." in answer.out

    done = len(started)
    assert (
        experiments("search-uan", "--size", "smoke", "--trials", 12, "--out", tmp_path).out
        == answer.out
    )
    assert len(started) == done
    experiments(
        "search-uan", "--size", "smoke", "--trials", 12, "--out", tmp_path, "--retry-failed"
    )
    assert len(started) == done + len(failed)


def test_a_fit_is_searched_for_by_its_error(answers: Any, experiments: Any, tmp_path: Path) -> None:
    def error(job: Job) -> Mapping[str, Any]:
        return (
            {"columns": ["overall"], "ensemble": {"curve": {"mean": [[0.01]]}}}
            if job.kind == "evaluate"
            else {}
        )

    started = answers(error)
    words = typed(
        "python -m experiments search-fit --size small --trials 30", "--out", tmp_path, trials=3
    )
    answer = experiments(*words[2:])
    assert answer.code == 0 and "error after 500 steps" in answer.out and "0.573" in answer.out, (
        answer
    )
    assert {job.kind: [other.kind for other in started].count(job.kind) for job in started} == {
        "collect": 2,
        "fit": 3,
        "evaluate": 3,
    }


def test_ctrl_c_keeps_what_is_done(answers: Any, experiments: Any, tmp_path: Path) -> None:
    def interrupted(job: Job) -> Mapping[str, Any]:
        if job.label == "uan, trial 4":
            signal.raise_signal(signal.SIGINT)
        return distance(job)

    answers(interrupted)
    answer = experiments("search-uan", "--size", "smoke", "--trials", 12, "--out", tmp_path)
    assert answer.code == 130 and "the same command goes on from there" in answer.out
    kept = json.loads((tmp_path / "search-uan-smoke.search.json").read_bytes())
    assert len(kept["trials"]) == 6
    started = answers(distance)
    assert experiments("search-uan", "--size", "smoke", "--trials", 12, "--out", tmp_path).code == 0
    assert {job.label for job in started} == {f"uan, trial {k}" for k in range(6, 12)}


def test_uan_is_searched_for_longer_at_full_size(
    answers: Any, experiments: Any, tmp_path: Path
) -> None:
    """As many trials as make the comparison fair, unless asked otherwise."""
    started = answers(distance)
    assert experiments("search-uan", "--size", "full", "--out", tmp_path, "--at-once", 50).code == 0
    kept = json.loads((tmp_path / "search-uan-full.search.json").read_bytes())
    assert len(kept["trials"]) == 200 and len(started) > 190


def test_a_search_in_which_all_trials_fail_is_refused(
    answers: Any, experiments: Any, tmp_path: Path
) -> None:
    def fails(job: Job) -> Mapping[str, Any]:
        if job.kind == "collect":
            return {}
        raise GenanError("It ran away.")

    answers(fails)
    answer = experiments("search-uan", "--size", "smoke", "--trials", 2, "--out", tmp_path)
    assert answer.code == 2 and "trial 0 failed: It ran away." in answer.out


def test_refusals(refused: Any, tmp_path: Path) -> None:
    assert "There is no experiment 'search-juggling'" in refused(
        "search-juggling", "--out", tmp_path
    )
    assert "at least 1 for trials" in refused("search-uan", "--trials", 0, "--out", tmp_path)
    (tmp_path / "search-uan-smoke.search.json").write_text("{}")
    assert "is not the result of a search" in refused(
        "search-uan", "--size", "smoke", "--out", tmp_path
    )
    assert not (tmp_path / "jobs").exists() or not list((tmp_path / "jobs").iterdir())
