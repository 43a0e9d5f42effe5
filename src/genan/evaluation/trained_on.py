"""What a model was trained on: kept beside it, or learnt from the training recording where that is
to be had."""

from contextlib import suppress
from pathlib import Path

from genan.actuator import Ensemble
from genan.actuator.errors import JobProgress as Progress
from genan.actuator.reference import NAME, Reference
from genan.data import Trajectories
from genan.errors import ActuatorError


def find_reference(
    folder: Path,
    ensemble: Ensemble,
    train: Trajectories | None,
    *,
    progress: Progress | None = None,
) -> tuple[Reference | None, str | None]:
    """The reference of the actuators in ``folder``, and, where there is none, why.

    Args:
        folder: of the artifact; a reference that is made is kept there.
        ensemble: the actuators in it.
        train: their training recording, if there is one.
        progress: told what is being done, how much of it is done, and how much there is.
    """
    if (folder / NAME).exists():
        try:
            kept = Reference.load(folder)
            if kept.belongs_to(ensemble):
                return kept, None
        except ActuatorError:
            pass  # damaged or of another version: it is made anew, where that can be done
    without = "so where this log is new to it cannot be said"
    if train is None:
        return (
            None,
            f"There is no {NAME} in {folder} that fits, and no training recording to make it from, {without}.",
        )
    fitted_to = ensemble.record.get("data", {}).get("fingerprint")
    if fitted_to and fitted_to != train.fingerprint:
        return (
            None,
            f"The recording of --train-data is not the one that the actuators were fitted to, {without}.",
        )
    say = progress or (lambda what, done, total: None)
    say("what it was trained on", 0, 1)
    made = Reference.of(ensemble, train)
    with suppress(
        OSError
    ):  # a folder that cannot be written to, such as an installed package's: made anew each time
        made.save(folder)
    say("what it was trained on", 1, 1)
    return made, None
