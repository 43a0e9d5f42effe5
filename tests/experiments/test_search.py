"""Searches over functions whose best settings are known, jobs being computed instead of done."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.docs.programs import run_block
from tests.experiments.fake_executor import FakeExecutor

from experiments import executors
from experiments.jobs import Job, collect_job, in_order, plain_fit, train_job, uan_job
from experiments.search import AT_RANDOM, search
from experiments.sizes import FULL, SIZES, SMALL, SMOKE
from experiments.spaces import SEARCHES, Between, find_space
from experiments.store import Store
from experiments.work import tuples
from genan.errors import DataError, GenanError, SettingError
from genan.evaluation.study_result import SearchResult

pytest.importorskip("optuna")

TRIALS = 30


def bowl(job: Job) -> Mapping[str, Any]:
    """UAN's distance were it a bowl: least, 1, with a rate of 1e-4 and a history of 10; it bursts
    at a wide start."""
    if job.kind == "collect":
        return {}
    ppo = job.settings["ppo"]
    if ppo.get("init_std", 1.0) > 1.5:
        raise GenanError("It burst.")
    rate = math.log10(ppo.get("learning_rate", 1e-3)) + 4.0
    history = math.log10(job.settings.get("history_length", 3) / 10)
    return {"held_out_distance": 1.0 + rate**2 + history**2, "steps": 1}


def look(store: Store, executor: FakeExecutor, trials: int = TRIALS, **more: Any) -> SearchResult:
    return search("uan", SMOKE, store, executor, trials=trials, **more)


@pytest.mark.slow
def test_the_best_settings_are_found_beyond_chance(store: Store) -> None:
    result = look(store, FakeExecutor(store, bowl), trials=120)
    defaults, best = result.defaults, result.best
    assert defaults is not None and best is not None and best.value is not None
    assert defaults.value == pytest.approx(2.0 + math.log10(3 / 10) ** 2)
    at_random = min(t.value for t in result.trials[1:AT_RANDOM] if t.value is not None)
    assert best.value < 1.01 < 1.05 < at_random
    assert best.settings["learning_rate"] == pytest.approx(1e-4, rel=0.3)
    assert next(iter(result.importance)) == "learning_rate" and sum(
        result.importance.values()
    ) == pytest.approx(1.0, abs=0.01)
    assert result.complete and len(result.trials) == 120
    assert [t.value for t in result.ranked()] == sorted(
        t.value for t in result.trials if t.value is not None
    )
    assert result.hardware == ({"processor": "none"},) and result.trials[1].seconds == 1.5


def test_the_documented_program_searches(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = []

    def executor(root: Path, *, workers: int) -> FakeExecutor:
        made.append((root, workers))
        return FakeExecutor(Store(root), bowl)

    monkeypatch.setattr(executors, "LocalExecutor", executor)
    result = run_block("search.md", 0, smaller={"trials=50": "trials=5"})["result"]
    assert made == [(Path("runs/studies/jobs"), 2)]
    expected = search("uan", SMALL, store, FakeExecutor(store, bowl), trials=5)
    assert result == expected and len(result.trials) == 5


def test_trials_that_fail_do_not_stop_it(store: Store) -> None:
    result = look(store, FakeExecutor(store, bowl))
    failed = [trial for trial in result.trials if trial.state == "failed"]
    assert (
        not result.importance
        and failed
        and all(trial.error == "It burst." and trial.value is None for trial in failed)
    )
    assert all(
        (trial.settings["init_std"] > 1.5) == (trial.state == "failed") for trial in result.trials
    )


def test_a_search_done_again_is_the_same_and_does_nothing(store: Store, tmp_path: Path) -> None:
    first = look(store, FakeExecutor(store, bowl))
    again = FakeExecutor(store, bowl)
    failures = {trial.job for trial in first.trials if trial.state == "failed"}
    assert look(store, again) == first and {job.id for job in again.started} == failures
    told = FakeExecutor(store, bowl)
    assert (
        look(store, told, earlier=SearchResult.load(first.save(tmp_path))) == first
        and not told.started
    )
    elsewhere = Store(tmp_path / "elsewhere")
    assert look(elsewhere, FakeExecutor(elsewhere, bowl), seed=1).trials[1:] != first.trials[1:]


def test_a_longer_search_begins_with_the_shorter_one(store: Store) -> None:
    short = look(store, FakeExecutor(store, bowl), trials=13, at_once=4)
    longer = FakeExecutor(store, bowl)
    assert look(store, longer, trials=20, at_once=4).trials[:13] == short.trials
    done = {trial.job for trial in short.trials if trial.state == "done"}
    assert not done & {job.id for job in longer.started}


@pytest.mark.parametrize("after", [0, 6])
def test_an_interrupted_search_goes_on_to_the_same_end(tmp_path: Path, after: int) -> None:
    whole, store = Store(tmp_path / "whole"), Store(tmp_path / "jobs")
    expected = look(whole, FakeExecutor(whole, bowl), trials=20)
    executor = FakeExecutor(store, bowl, room=1)
    saved: list[SearchResult] = []
    part = look(
        store,
        executor,
        trials=20,
        saved=saved.append,
        stopping=lambda: len(executor.started) > after,
    )
    assert len(part.trials) < 20 and part.trials[: len(saved)] == expected.trials[: len(saved)]
    assert all(
        trial.state == "missing" or trial == expected.trials[trial.number] for trial in part.trials
    )
    rest = FakeExecutor(store, bowl)
    assert look(store, rest, trials=20) == expected
    kept = {trial.job for trial in part.trials if trial.state == "done"}
    assert not kept & {job.id for job in rest.started}


def test_nothing_begins_when_what_all_trials_need_fails(store: Store) -> None:
    def fails(job: Job) -> Mapping[str, Any]:
        raise GenanError("The disk is full.")

    executor = FakeExecutor(store, fails)
    with pytest.raises(DataError, match="No trial can begin: The disk is full."):
        look(store, executor)
    assert [job.kind for job in executor.started] == ["collect"]


def test_a_value_that_is_no_number_is_a_failed_trial(store: Store) -> None:
    curve = {"mean": [[None, None]], "low": [[None, None]], "high": [[None, None]]}
    nothing = {"columns": ["joint 1", "overall"], "ensemble": {"curve": curve}}
    result = search("fit", SMOKE, store, FakeExecutor(store, lambda job: nothing), trials=2)
    assert [trial.state for trial in result.trials] == ["failed", "failed"] and result.best is None
    assert (
        "no number" in str(result.trials[0].error) and result.trials[0].seconds == 3.0
    )  # fit and judgement


def test_a_task_is_searched_for_success(store: Store) -> None:
    def successful(job: Job) -> Mapping[str, Any]:
        return (
            {"judged": {"success": min(1.0, job.settings["ppo"].get("num_epochs", 5) / 8)}}
            if job.kind == "train"
            else {}
        )

    result = search("reacher", SMOKE, store, FakeExecutor(store, successful), trials=20)
    assert result.best is not None and result.best.value == 100.0 and not result.lower_is_better
    assert result.defaults is not None and result.defaults.value == 62.5


@pytest.mark.slow
@pytest.mark.parametrize("size", ["smoke", "full"])
@pytest.mark.parametrize("what", SEARCHES)
def test_every_setting_can_be_tried(what: str, size: str) -> None:
    """Each end and each option, alone, is a job whose settings the trainer accepts."""
    if what not in ("uan", "fit", *SIZES[size].training):
        return
    space = find_space(what, SIZES[size])
    for setting in space.settings:
        options = (setting.low, setting.high) if isinstance(setting, Between) else setting.options
        for option in (*options, space.defaults[setting.name]):
            assert setting.decoded(setting.encoded(option)) == option
            job = space.job({**space.defaults, setting.name: option}, label="trial")
            accept({part.kind: part for part in in_order([job])})
            json.dumps(job.as_json(), allow_nan=False)


def accept(jobs: Mapping[str, Job]) -> None:
    from experiments.uan import PPO_SETTINGS, UanSettings
    from genan.actuator.settings import FitSettings
    from genan.rl.config import TrainSettings, preset

    if "fit-uan" in jobs:
        made = dict(jobs["fit-uan"].settings)
        ppo = replace(PPO_SETTINGS, **tuples(made.pop("ppo")))
        settings = UanSettings(
            **{k: v for k, v in made.items() if k not in ("robot", "trajectories")}, ppo=ppo
        )
        ppo.minibatch_size(settings.num_envs)
    elif "train" in jobs:
        made = dict(jobs["train"].settings)
        chosen = preset(made["task"], made["preset"])
        replace(chosen.task, **made["changed"])
        ppo = replace(chosen.ppo, **tuples(made["ppo"]))
        ppo.minibatch_size(TrainSettings(**made["training"]).num_envs)
    else:
        made = tuples(jobs["fit"].settings)
        FitSettings(**{k: v for k, v in made.items() if k not in ("robot", "trajectories")})


def test_the_defaults_are_the_jobs_of_the_studies() -> None:
    for size in (SMOKE, SMALL, FULL):
        jobs = {what: find_space(what, size) for what in ("uan", "fit", "reacher")}
        made = {what: space.job(space.defaults, label="trial 0") for what, space in jobs.items()}
        assert made["uan"].fingerprint == uan_job(size).fingerprint
        assert (
            made["reacher"].fingerprint == train_job(size, "reacher", "position loss").fingerprint
        )
        assert made["fit"].needs["actuators"].fingerprint == plain_fit(size).fingerprint
        assert made["fit"].needs["data"].settings["seed"] not in size.seeds.values()
        assert made["fit"].needs["data"].fingerprint != collect_job(size, "test").fingerprint


@pytest.mark.parametrize("what", SEARCHES)
def test_no_search_looks_at_what_results_are_judged_by(what: str) -> None:
    """Neither at the test recording nor at robots that were never recorded."""
    for size in (SMOKE, SMALL, FULL):
        if what not in ("uan", "fit", *size.training):
            continue
        space = find_space(what, size)
        jobs = in_order([space.job(space.defaults, label="trial 0")])
        recordings = [job for job in jobs if job.kind == "collect"]
        assert all(job.kind != "transfer" for job in jobs)
        assert all(job.settings["robot_seed"] == 0 for job in recordings)
        seeds = {job.settings["seed"] for job in recordings}
        assert recordings and size.seeds["test"] not in seeds


def test_the_result_survives_its_file(store: Store, tmp_path: Path) -> None:
    result = look(store, FakeExecutor(store, bowl), trials=25)
    path = result.save(tmp_path)
    assert path.name == "search-uan-smoke.search.json" and SearchResult.load(path) == result
    assert (
        result.best is not None
        and json.loads(path.read_bytes())["best"]["number"] == result.best.number
    )
    path.write_text("{}")
    with pytest.raises(DataError, match="not the result of a search"):
        SearchResult.load(path)
    with pytest.raises(DataError, match="There is no"):
        SearchResult.load(tmp_path / "none.json")


def test_refusals(store: Store) -> None:
    executor = FakeExecutor(store, bowl)
    with pytest.raises(
        SettingError, match="There is no search for 'juggling'; there are: 'uan', 'fit'"
    ):
        search("juggling", SMOKE, store, executor, trials=1)
    with pytest.raises(SettingError, match="The size 'small' leaves ball-in-a-cup out"):
        search("ball-in-a-cup", SMALL, store, executor, trials=1)
    with pytest.raises(SettingError, match="at least 1 for trials, not 0"):
        look(store, executor, trials=0)


def test_without_optuna_it_says_what_to_install(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingError, match=r"pip install genan\[search\]"):
        look(store, FakeExecutor(store, bowl))
