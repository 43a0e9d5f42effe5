"""What a torque sensor would buy: the same network, trained on the true torques that only a virtual
robot can tell."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from genan.actuator.artifact import load
from genan.actuator.contract import Contract
from genan.actuator.ensemble import Ensemble
from genan.data import summary
from genan.errors import ActuatorError
from genan.robot import Robot

if TYPE_CHECKING:
    from genan.actuator.progress import Progress


def has_true_torque(train_path: Path | str) -> bool:
    """Whether the recording holds true torques."""
    return "tau" in summary(train_path).truth


def true_torque_baseline(
    ensemble: Ensemble,
    train_path: Path | str,
    robot: Robot,
    progress: Callable[[str, int, int], None] | None = None,
    *,
    out: Path,
) -> Ensemble:
    """A network like those of ``ensemble``, trained on the true torques in ``train_path``.

    It is kept in the folder ``out`` and trained only when that does not hold it yet. ``progress``
    is told what is being done, how much of it is done, and how much there is.
    """
    kept = _kept(ensemble, out)
    if kept is not None:
        return kept
    from genan.actuator.fit import fit_true_torque

    def told(at: "Progress") -> None:
        if progress is not None:
            progress("training on true torques", at.epoch, at.epochs)

    return fit_true_torque(ensemble, data=Path(train_path), robot=robot, out=out, progress=told)


def _kept(ensemble: Ensemble, out: Path) -> Ensemble | None:
    """The network in ``out``, if it is the counterpart of ``ensemble``: same channels, history,
    shape and data."""
    try:
        kept = load(out)
    except ActuatorError:
        return None
    same = _shape(ensemble.contract) == _shape(kept.contract)
    data = [one.record.get("data", {}).get("fingerprint") for one in (ensemble, kept)]
    return kept if same and data[0] == data[1] else None


def _shape(contract: Contract) -> Contract:
    """``contract`` without what differs between a network and its counterpart."""
    return replace(contract, members=1, loss="", q_seen=(), u_seen=())
