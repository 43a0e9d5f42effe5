"""What studies say of planted numbers, and of those that were found at full size."""

from pathlib import Path

import pytest

from experiments.jobs import Job, in_order
from experiments.sizes import FULL, SMOKE, Size
from experiments.store import JobResult, Store
from experiments.studies import STUDIES
from experiments.words import ValueComparison, below, finding, say
from genan.errors import DataError
from genan.evaluation.study_result import SearchResult, StudyResult, Value

RESULTS = Path(__file__).parents[2] / "docs" / "results"
LOW, MID, HIGH = Value(1.0, 0.9, 1.1), Value(1.15, 1.05, 1.25), Value(2.2, 2.1, 2.3)


def comparison(one: Value | None, other: Value | None, **more: object) -> ValueComparison:
    return ValueComparison("after 1 step", ("this", "that"), (one, other), "deg", **more)  # type: ignore[arg-type]


def test_only_intervals_that_do_not_meet_tell_values_apart() -> None:
    assert below(LOW, HIGH) is True and below(HIGH, LOW) is False and below(LOW, MID) is None
    assert below(LOW, None) is None and below(LOW, Value(3.0)) is None
    assert say(Value(0.7234, 0.698, 0.749), "deg") == "0.723 deg (0.698 to 0.749)"
    assert say(None, "deg") == "no result" and say(Value(50.0, 50.0, 50.0), "%") == "50.0 %"


@pytest.mark.parametrize(
    ("expected", "lower", "meeting", "higher"),
    [
        ("lower", True, None, False),
        ("higher", False, None, True),
        ("worse", True, False, False),
        ("no worse", False, True, True),
    ],
)
def test_what_the_paper_expects_is_compared(
    expected: str, lower: bool, meeting: bool | None, higher: bool
) -> None:
    found = [comparison(LOW, other, expected=expected).holds for other in (HIGH, MID)]
    assert [*found, comparison(HIGH, LOW, expected=expected).holds] == [lower, meeting, higher]
    assert comparison(LOW, None, expected=expected).holds is None
    wide = comparison(Value(50.0, 30.0, 70.0), Value(60.0, 40.0, 80.0), expected=expected)
    assert wide.holds is None


def test_a_finding_says_and_weighs_all_comparisons() -> None:
    yes, no, open_ = comparison(LOW, HIGH), comparison(HIGH, LOW), comparison(LOW, MID)
    (found,) = finding("It is so.", [yes])
    assert found.agrees is True and found.ours == (
        "After 1 step: this, 1.00 deg (0.900 to 1.10), is lower than that, 2.20 deg (2.10 to "
        "2.30): 55 % less."
    )
    (found,) = finding("It is so.", [no])
    assert found.agrees is False and found.ours.endswith(": 2.2 times as much.")
    for comparisons, all_of_them, some_of_them in (
        ([yes, yes], True, True),
        ([yes, open_], None, True),
        ([yes, open_, no], False, False),
        ([open_], None, None),
        ([yes, comparison(HIGH, LOW, expected=None)], True, True),
    ):
        (found,), (some,) = (
            finding("It is so.", comparisons, some=value) for value in (False, True)
        )
        assert (found.agrees, some.agrees) == (all_of_them, some_of_them)
    (found,) = finding("It is so.", [yes, comparison(LOW, None)])
    assert found.agrees is None and found.ours.startswith("Not all results are there.")
    assert finding("It is so.", []) == ()


@pytest.mark.parametrize("name", STUDIES)
def test_what_was_found_at_full_size_is_read_and_judged_as_it_was(name: str) -> None:
    kept = StudyResult.load(RESULTS / f"{name}-full.study.json")
    study = STUDIES[name]
    again = study.findings(FULL, kept.figures)
    assert [(f.paper, f.agrees) for f in again] == [(f.paper, f.agrees) for f in kept.findings]
    assert study.headline(FULL, kept.figures)
    assert len(in_order(study.jobs(FULL))) == len(kept.jobs)


def test_the_search_at_full_size_is_read() -> None:
    kept = SearchResult.load(RESULTS / "search-uan-full.search.json")
    assert kept.complete and kept.best is not None and kept.best.number == 34


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
                store.keep(job, JobResult(_invented(job, number), 1.0, {"genan": "0"}, {}))


@pytest.mark.parametrize("size", [SMOKE, FULL], ids=lambda size: size.name)
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_what_it_found_before_and_after(
    name: str, size: Size, store: Store, tmp_path: Path
) -> None:
    study = STUDIES[name]
    before = study.result(size, store)
    assert not before.complete and before.figures
    assert all(finding.agrees is None for finding in before.findings) and not before.headline
    for job in in_order(study.jobs(size)):
        with store.held(job):
            store.keep(job, JobResult(_invented(job, 0.5), 1.0, {"genan": "0"}, {}))
    after = study.result(size, store)
    assert after.complete
    assert all(
        value is not None
        for figure in after.figures
        for row in figure.series
        for value in row.values
    )
    assert after.headline and after.findings
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


def test_trainings_are_shown_one_by_one(tmp_path: Path) -> None:
    store, size = Store(tmp_path), FULL.trained((0, 1))
    for k, job in enumerate(job for job in STUDIES["transfer"].jobs(size)):
        with store.held(job):
            # Three robots for each training: all succeed after the first, none after the second.
            store.keep(job, JobResult(_invented(job, float(k // 3 % 2 == 0)), 1.0, {}, {}))
    result = STUDIES["transfer"].result(size, store)
    value = result.figures[0].series[0].values[0]
    assert value is not None and (value.mean, value.count) == (50.0, 600)
    assert value.note == "training by training: 300 of 300, 0 of 300"
    assert any("2 policies" in note for note in result.notes)
    assert result.filename == "transfer-full-seeds-0-1.study.json"
    assert result.command == "python -m experiments transfer --size full --seeds 0 1"


def test_a_trial_can_tell_nothing(tmp_path: Path) -> None:
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
