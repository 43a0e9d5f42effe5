from pathlib import Path

import pytest

from genan.errors import DataError
from genan.evaluation.studies.catalogue import STUDIES
from genan.evaluation.studies.job import Job, in_order
from genan.evaluation.studies.sizes import FULL, SMOKE, Size
from genan.evaluation.studies.store import Done, Store
from genan.evaluation.studies.words import all_of, below, change, relation, say, sentence
from genan.evaluation.study_result import StudyResult, Value


def test_only_intervals_that_do_not_meet_tell_values_apart() -> None:
    low, mid, high = Value(1.0, 0.9, 1.1), Value(1.15, 1.05, 1.25), Value(2.0, 1.9, 2.1)
    assert below(low, high) is True and below(high, low) is False and below(low, mid) is None
    assert below(low, None) is None and below(low, Value(3.0)) is None
    assert relation(low, high) == "lower than" and relation(low, mid) == "not told apart from"
    assert (
        all_of([True, True]) is True
        and all_of([True, None]) is None
        and all_of([None, False]) is False
    )
    assert all_of([]) is None


def test_sentences() -> None:
    assert say(Value(0.7234, 0.698, 0.749), "deg") == "0.723 deg (0.698 to 0.749)"
    assert say(None, "deg") == "no result"
    assert (
        change(Value(0.9), Value(1.0)) == "10 % less"
        and change(Value(3.0), Value(1.0)) == "3 times as much"
    )
    assert (
        sentence("s = 1 is best") == "s = 1 is best."
        and sentence("after one step") == "After one step."
    )


def _invented(job: Job, number: float) -> dict[str, object]:
    """What a job could have found: errors of ``number``, or that part of the trials."""
    if job.kind == "transfer":
        count = round(job.settings["trials"] * number)
        rest = job.settings["trials"] - count
        return {
            "succeeded": count,
            "trials": count + rest,
            "outcomes": {"success": count, "missed": rest},
        }
    ends = {"mean": [0.0, number], "low": [0.0, 0.99 * number], "high": [0.0, 1.01 * number]}
    curve = {end: [row] for end, row in ends.items()}
    errors = {"one_step": ends, "curve": curve, "rollouts": 8, "diverged": 1}
    return {
        "columns": ["a", "overall"],
        "units": ["rad", "rad"],
        "trajectories": 8,
        "ensemble": errors,
    }


def _filled(store: Store, size: Size, number: float) -> None:
    for study in STUDIES.values():
        for job in in_order(study.jobs(size)):
            with store.held(job):
                store.keep(job, Done(_invented(job, number), 1.0, {"genan": "0"}, {}))


@pytest.mark.parametrize("size", [SMOKE, FULL], ids=lambda size: size.name)
@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_a_study_tells_what_it_found_before_during_and_after(
    study: object, size: Size, tmp_path: Path
) -> None:
    study = STUDIES[study.name]  # type: ignore[attr-defined]
    store = Store(tmp_path / "jobs")
    before = study.result(size, store)
    assert not before.complete and before.figures
    assert all(finding.agrees is None for finding in before.findings)
    for job in in_order(study.jobs(size)):
        with store.held(job):
            store.keep(job, Done(_invented(job, 0.5), 1.0, {"genan": "0"}, {}))
    after = study.result(size, store)
    assert after.complete
    assert all(
        value is not None
        for figure in after.figures
        for row in figure.series
        for value in row.values
    )
    assert not any("no result" in finding.ours for finding in after.findings)
    path = after.save(tmp_path)
    assert path.name == f"{study.name}-{size.name}.study.json"
    assert StudyResult.load(path) == after


def test_errors_are_in_degrees_and_runaways_are_noted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _filled(store, SMOKE, 0.5)
    one, many = STUDIES["history"].result(SMOKE, store).figures
    value = many.series[0].values[0]
    assert (
        value is not None
        and value.mean == pytest.approx(28.6479)
        and value.low == pytest.approx(0.99 * 28.6479)
    )
    assert value.note == "1 of 8 rollouts ran away"
    first = one.series[0].values[0]
    assert first is not None and first.note is None


def test_trainings_are_told_one_by_one(tmp_path: Path) -> None:
    store, size = Store(tmp_path), FULL.trained((0, 1))
    for k, job in enumerate(job for job in STUDIES["transfer"].jobs(size)):
        with store.held(job):
            # Three robots for each training: all succeed after the first, none after the second.
            store.keep(job, Done(_invented(job, float(k // 3 % 2 == 0)), 1.0, {}, {}))
    result = STUDIES["transfer"].result(size, store)
    value = result.figures[0].series[0].values[0]
    assert value is not None and (value.mean, value.count) == (50.0, 600)
    assert value.note == "training by training: 300 of 300, 0 of 300"
    assert any("2 policies" in note for note in result.notes)
    assert result.filename == "transfer-full-seeds-0-1.study.json"
    assert result.command == "genan study transfer --size full --seeds 0 1"


def test_two_trials_can_tell_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _filled(store, SMOKE, 0.0)
    findings = STUDIES["transfer"].result(SMOKE, store).findings
    assert findings and all(finding.agrees is None for finding in findings)


def test_what_is_no_result_of_a_study_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.study.json"
    with pytest.raises(DataError, match="There is no"):
        StudyResult.load(path)
    for content in (
        "",
        "[]",
        '{"format": "genan study", "version": 99}',
        '{"format": "genan study", "version": 1}',
    ):
        path.write_text(content)
        with pytest.raises(DataError, match="not the result of a study"):
            StudyResult.load(path)
