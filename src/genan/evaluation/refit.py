"""Was it worth going on? Errors of actuators before and after they went on learning, on the old
data and on the new."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genan.actuator.dataset import load_all, split_usable
from genan.actuator.ensemble import Ensemble
from genan.actuator.settings import FitSettings
from genan.data import Trajectories
from genan.dynamics import load_dynamics
from genan.errors import DataError, GenanError
from genan.evaluation.accuracy import Errors, judge_ensemble
from genan.evaluation.trial import plan
from genan.robot import Robot

MOST = 200
"""Trajectories that errors are measured on, at most."""


@dataclass(frozen=True, eq=False)
class BeforeAndAfter:
    """Errors on one recording."""

    recording: str
    """Which recording, in words."""
    trajectories: int
    """How many of its trajectories were held out, and judged by."""
    before: Errors
    after: Errors


def compare(
    before: Ensemble, after: Ensemble, robot: Robot, *, old: Path | None = None
) -> tuple[list[BeforeAndAfter], str | None]:
    """Errors on trajectories that neither fit learnt from; and, where the old recording is not to
    be had, why.

    Args:
        before: the ensemble that was gone on from.
        after: what became of it.
        robot: their robot.
        old: the recording that ``before`` was fitted to; left out, the file that it names.
    """
    found, missing = [], None
    for words, ensemble, path in (("new data", after, None), ("old data", before, old)):
        try:
            held_out = _held_out(ensemble, path)
        except GenanError as error:
            missing = f"No table for the {words}: {error}"
            continue
        trial = plan(held_out, [before.contract.history.reach])
        judged = [
            judge_ensemble(words, one, load_dynamics(robot), trial).errors
            for one in (before, after)
        ]
        found.append(BeforeAndAfter(words, len(held_out), *judged))
    return found, missing


def _held_out(ensemble: Ensemble, path: Path | None) -> Trajectories:
    """Trajectories that ``ensemble`` was not fitted to, from the recording that it was fitted
    to."""
    origin: dict[str, Any] = ensemble.record.get("data", {})
    named = path or origin.get("path")
    if named is None:
        raise DataError("the actuators do not name a file; give it by --old-data.")
    trajectories, _ = load_all(named)
    if trajectories.fingerprint != origin.get("fingerprint"):
        raise DataError(
            f"{named} is not the recording that they were fitted to; give it by --old-data."
        )
    _, held_out = split_usable(trajectories, FitSettings.from_settings(ensemble.record["settings"]))
    return trajectories.select(held_out[:MOST])
