import json

import pytest
from tests.report.page.material import (
    STUDIES,
    study_result,
    write_all,
    write_evaluation,
    write_inspection,
    write_transfer,
)

from genan.errors import DataError
from genan.report.page.gather import gather


def test_everything_is_found_in_a_fixed_order(tmp_path):
    found = gather([write_all(tmp_path / "runs")])
    assert [one.content.study for one in found.studies] == list(STUDIES)
    assert [one.content.task for one in found.transfers] == [
        "reacher",
        "ball-in-a-cup",
        "table-tennis",
    ]
    assert [one.label for one in found.policies] == ["reacher", "table-tennis"]
    assert [one.label for one in found.films] == ["reacher.mp4", "tennis.mp4"]
    assert found.evaluations[0].content.models[0].name == "actuators"
    assert (
        found.actuators[0].content.members == 5
        and len(found.actuators[0].content.validation_loss) == 150
    )
    assert found.inspections[0].content.trajectories == 200
    assert found.broken == ()
    assert (
        gather([tmp_path / "runs" / "studies", tmp_path / "runs"]) == found
    )  # given twice, there once


def test_jobs_of_studies_are_passed_by_unless_asked_for(tmp_path):
    write_transfer(tmp_path / "store" / "transfer-0123", "reacher")
    (tmp_path / "store" / "transfer-0123" / "job.json").write_text("{}")
    study_result("accuracy").save(tmp_path)
    assert gather([tmp_path]).transfers == ()
    assert len(gather([tmp_path / "store" / "transfer-0123"]).transfers) == 1


def test_nothing_of_genan(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(
        DataError, match=r"nothing of genan in .*: looked for \*\.study\.json, evaluation\.json"
    ):
        gather([tmp_path])
    with pytest.raises(DataError, match="There is no .*gone"):
        gather([tmp_path / "gone"])


def broken_study(change):
    def write(folder):
        path = study_result("history").save(folder)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return write


def half(folder):
    write_transfer(folder, "reacher")
    whole = (folder / "transfer.json").read_bytes()
    (folder / "transfer.json").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    "write",
    [
        half,
        lambda folder: write_evaluation(folder, models={}),
        lambda folder: write_evaluation(folder, columns=None),
        lambda folder: (folder / "policy.json").write_text("[]"),
        lambda folder: (folder / "actuator.json").write_text(
            '{"format": "genan actuators", "version": 9}'
        ),
        broken_study(lambda content: content["figures"][0]["series"][0]["values"].pop()),
        broken_study(lambda content: content["figures"][0].update(kind="pie")),
        broken_study(lambda content: content.update(title=None)),
        broken_study(
            lambda content: content["figures"][0]["series"][0]["values"][0].update(mean="many")
        ),
        broken_study(
            lambda content: content["figures"][0]["series"][0]["values"][0].update(
                mean=float("nan")
            )
        ),
    ],
)
def test_what_is_broken_is_named_and_the_rest_read(tmp_path, write):
    folder = tmp_path / "bad"
    folder.mkdir()
    write(folder)
    with pytest.raises(DataError, match="Nothing of what was found can be read: .*bad"):
        gather([tmp_path])
    write_inspection(tmp_path / "good")
    found = gather([tmp_path])
    assert len(found.inspections) == 1 and len(found.broken) == 1
    assert found.broken[0].label.startswith("bad/") and found.broken[0].content


def test_errors_without_bound_and_without_interval(tmp_path):
    write_evaluation(tmp_path, horizon=3)
    content = json.loads((tmp_path / "evaluation.json").read_text())
    curve = content["models"]["actuators"]["curve"]
    curve["mean"][2][2] = None
    curve["low"][1][2] = None
    (tmp_path / "evaluation.json").write_text(json.dumps(content))
    (found,) = gather([tmp_path]).evaluations
    first, second, third = found.content.models[0].curve
    assert (
        first.low < first.mean < first.high
        and (second.low, second.high) == (None, None)
        and third is None
    )
