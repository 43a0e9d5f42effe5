from pathlib import Path

import pytest

from genan.tensorboard import EventFile


@pytest.mark.filterwarnings("ignore")  # TensorBoard's own
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    file = EventFile(tmp_path)
    for step in (1, 2, 300):
        file.scalars(step, {"loss/train": 1.0 / step, "validation/member 0": -float(step)})
    found = event_accumulator.EventAccumulator(
        str(tmp_path)
    ).Reload()  # the file is not closed: readable at any time
    file.close()
    assert set(found.Tags()["scalars"]) == {"loss/train", "validation/member 0"}
    points = [(event.step, event.value) for event in found.Scalars("loss/train")]
    assert points == [(1, 1.0), (2, 0.5), (300, pytest.approx(1 / 300))]
    assert [event.value for event in found.Scalars("validation/member 0")] == [-1.0, -2.0, -300.0]
