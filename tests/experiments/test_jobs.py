from collections import Counter
from dataclasses import replace

import pytest

from experiments.jobs import (
    SEARCHED_UAN,
    Job,
    evaluate_job,
    in_order,
    like_uan,
    longest_first,
    plain_fit,
    train_job,
    uan_job,
)
from experiments.sizes import ABLATIONS, COLUMNS, FAST, FULL, PAPER, SIZES, SMALL, SMOKE, Size
from experiments.studies import STUDIES
from genan.errors import SettingError
from genan.evaluation.study_result import paper_figure

DATA = Job("collect", {"trajectories": 8, "seed": 0})
FIT = Job("fit", {"epochs": 2}, {"data": DATA}, label="fit it")


def test_a_fingerprint_follows_everything_that_a_result_depends_on_and_nothing_else() -> None:
    other_data = replace(
        FIT, needs={"data": replace(DATA, settings={"trajectories": 8, "seed": 1})}
    )
    assert FIT.fingerprint == replace(FIT, label="another name").fingerprint
    assert (
        FIT.fingerprint == replace(FIT, settings=dict(reversed(FIT.settings.items()))).fingerprint
    )
    different = {
        FIT.fingerprint,
        replace(FIT, settings={"epochs": 3}).fingerprint,
        replace(FIT, kind="train").fingerprint,
        other_data.fingerprint,
        replace(FIT, needs={"actuators": DATA}).fingerprint,
    }
    assert len(different) == 5


def test_a_job_that_means_something_else_has_another_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = FIT.fingerprint
    monkeypatch.setattr("experiments.jobs.RECIPES", {"collect": 99, "fit": 1})
    # What is made of other data is something else too.
    assert Job.from_json(FIT.as_json()).fingerprint != before


def test_a_job_comes_back_from_json() -> None:
    assert Job.from_json(FIT.as_json()) == FIT


def test_needs_come_first_and_each_job_once() -> None:
    again = Job("fit", {"epochs": 2}, {"data": Job("collect", {"seed": 0, "trajectories": 8})})
    assert in_order([FIT, again, DATA]) == [DATA, FIT]


def test_full_is_the_papers_size() -> None:
    assert FULL.trajectories == 2500 and FULL.test == 800 and FULL.trials == 100
    for name, places in {
        "history-1-step": FULL.histories,
        "stride-1-step": FULL.strides,
        "rollout-1-step": FULL.rollouts,
        "dataset-size-1-step": FULL.dataset_sizes,
        "transfer-reacher": FULL.training["reacher"][PAPER].columns,
        "transfer-ball-in-a-cup": FULL.training["ball-in-a-cup"][FAST].columns,
        "transfer-table-tennis": FULL.training["table-tennis"][PAPER].columns,
    }.items():
        assert places == paper_figure(name).places, name


@pytest.mark.parametrize("size", [SMOKE, SMALL, FULL], ids=lambda size: size.name)
def test_studies_share_what_they_have_in_common(size: Size) -> None:
    apart = [len(in_order(study.jobs(size))) for study in STUDIES.values()]
    together = in_order([job for study in STUDIES.values() for job in study.jobs(size)])
    assert len(together) < sum(apart)
    # Everything that is fitted to the racket's data learns from one recording.
    recordings = {
        job.needs["data"].id
        for job in together
        if job.kind == "fit" and job.settings["robot"] == "pamy2"
    }
    assert len(recordings) == 1
    # The outcomes of table tennis cost nothing once its transfer is known.
    known = {job.id for job in in_order(STUDIES["transfer"].jobs(size))}
    assert {job.id for job in in_order(STUDIES["table-tennis"].jobs(size))} <= known


def test_the_history_fits_before_the_first_sample_that_is_judged() -> None:
    for size in SIZES.values():
        assert max(*size.histories, *(3 * stride for stride in size.strides)) <= size.lead


def test_each_ablation_changes_one_thing() -> None:
    whole, torque, calm, single, low = (train_job(FULL, "reacher", column) for column in COLUMNS)
    assert torque.needs["actuators"].settings == {
        **whole.needs["actuators"].settings,
        "loss": "torque",
    }
    assert torque.settings == whole.settings
    assert calm.settings == {**whole.settings, "changed": {"disagreement_weight": 0.0}}
    assert single.settings == {
        **whole.settings,
        "training": {**whole.settings["training"], "member": 0},
    }
    assert low.settings == {**whole.settings, "changed": {"action_weight": 250.0}}
    assert {job.needs["actuators"].id for job in (whole, calm, single, low)} == {
        whole.needs["actuators"].id
    }


def test_full_trains_by_the_papers_tables_and_as_we_would() -> None:
    from genan.rl.config import preset
    from genan.tasks.registry import task_settings

    jobs = in_order([job for study in STUDIES.values() for job in study.jobs(FULL)])
    made = [job.settings for job in jobs if job.kind == "train"]
    presets = Counter((one["task"], one["preset"]) for one in made)
    assert presets == {
        ("reacher", "paper"): 5 + 14,  # ablations, and the other sizes of the data set
        ("reacher", "fast"): 5,
        ("table-tennis", "paper"): 5,
        ("table-tennis", "fast"): 6,  # and the landing reward as it is printed
        ("ball-in-a-cup", "sparse"): 5,
        ("ball-in-a-cup", "paper"): 1,
    }
    for one in made:
        chosen = preset(one["task"], one["preset"])
        assert replace(chosen.ppo, **one["ppo"]).time_limit == "bootstrap"
        # The paper's rewards and weights.
        paper, task = task_settings(one["task"]), replace(chosen.task, **one["changed"])
        differ = {k for k, v in vars(task).items() if v != getattr(paper, k)}
        ablated = {key for part in ABLATIONS.values() for key in part.get("changed", ())}
        assert differ - {"mass_spread", "string_spread"} <= ablated, (one["task"], differ)
    (long,) = (one for one in made if (one["task"], one["preset"]) == ("ball-in-a-cup", "paper"))
    assert long["training"]["steps"] >= 10**9
    first = next(job for job in in_order(longest_first(jobs)) if job.kind == "train")
    assert first.settings == long


def test_a_long_rollout_begins_before_a_short_one_and_that_before_none() -> None:
    none, short, long = (
        plain_fit(FULL, **changed)
        for changed in ({}, *({"loss": "multi-step", "rollout": steps} for steps in (2, 50)))
    )
    assert longest_first([none, short, long]) == [long, short, none]
    # What is made of a long fit is as long as that.
    judged = [evaluate_job(FULL, fit) for fit in (none, short, long)]
    assert longest_first(judged) == judged[::-1]


def test_one_genan_is_like_uan() -> None:
    uan = uan_job(FULL, **SEARCHED_UAN)
    genan = like_uan(FULL, uan).settings
    assert (genan["loss"], genan["members"]) == ("position", 1)
    assert genan["hidden"] == uan.settings["ppo"]["hidden"]
    assert (genan["history_length"], genan["history_stride"]) == (uan.settings["history_length"], 1)


def test_seeds_in_a_row_are_trained_side_by_side_and_others_one_by_one() -> None:
    once, thrice, apart = (FULL.trained(seeds) for seeds in ((0,), (0, 1, 2), (0, 2, 4)))
    long = {"train": 1, "transfer": 3}  # the long training of ball-in-a-cup, once in any case
    for name in ("transfer", "dataset-size", "table-tennis"):
        one, three, others = (
            Counter(job.kind for job in in_order(STUDIES[name].jobs(size)))
            for size in (once, thrice, apart)
        )
        for kind, count in one.items():
            alone = long.get(kind, 0) if name == "transfer" else 0
            times = {"train": (1, 3), "transfer": (3, 3)}.get(kind, (1, 1))
            found = three[kind] - alone, others[kind] - alone
            assert found == tuple((count - alone) * t for t in times), (name, kind)
        # What was trained before by itself is not trained again.
        known = {job.id for job in STUDIES[name].jobs(once)}
        assert known < {job.id for job in STUDIES[name].jobs(apart)}
    assert (FULL.label, once.label, thrice.label) == ("full", "full-seeds-0", "full-seeds-0-1-2")
    assert (FULL.flags, thrice.flags) == ("--size full", "--size full --seeds 0 1 2")
    assert FULL.training_seeds == (0, 1, 2, 3, 4) and SMALL.training_seeds == (0,)
    for wrong in ((), (0, 0), (-1,)):
        with pytest.raises(SettingError, match="Seeds of trainings must be different numbers"):
            FULL.trained(wrong)
