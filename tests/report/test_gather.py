import json

import pytest
from tests.actuator.ensembles import CASES, make
from tests.report.material import (
    STUDIES,
    study_result,
    write_all,
    write_evaluation,
    write_inspection,
    write_transfer,
)

from genan.actuator import save
from genan.errors import DataError
from genan.report.gather import gather
from genan.report.page import write_report


def test_everything_is_found_in_a_fixed_order(tmp_path):
    found = gather([write_all(tmp_path / "runs")])
    assert [one.content.study for one in found.studies] == sorted(STUDIES)
    tasks = [one.content.task for one in found.transfers]
    assert tasks == ["ball-in-a-cup", "reacher", "table-tennis"]
    assert [one.label for one in found.policies] == ["reacher", "table-tennis"]
    assert [one.label for one in found.films] == ["reacher.mp4", "tennis.mp4"]
    assert found.evaluations[0].content.models[0].name == "actuators"
    fitted = found.actuators[0].content
    assert fitted.contract.members == 5 and len(fitted.record["training"]["validation_loss"]) == 150
    assert found.inspections[0].content["trajectories"] == 200
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
    with pytest.raises(DataError, match=r"nothing of genan in .*: looked for \*\.study\.json, "):
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


@pytest.mark.parametrize(
    ("case", "version"),
    [("stride", 1), ("delay", 2), ("network on a base", 2), ("servos", 3), ("stiction", 3)],
)
def test_actuators_of_every_format_are_read(case, version, tmp_path):
    folder = save(make(**CASES[case], record='{"data": {"trajectories": 3}}'), tmp_path)
    content = json.loads((folder / "actuator.json").read_text())
    assert content["version"] == version
    (found,) = gather([tmp_path]).actuators
    assert found.content.record["data"] == {"trajectories": 3}
    assert "<svg" not in write_report([tmp_path], tmp_path / "report.html").path.read_text()
    (folder / "actuator.json").write_text(json.dumps({**content, "version": 9}))
    with pytest.raises(DataError, match="version 9; this genan reads 'genan actuators', version 1"):
        gather([tmp_path])
