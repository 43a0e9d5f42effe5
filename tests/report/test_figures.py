from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.data.plants import recorded

from genan.data import inspect
from genan.errors import DataError
from genan.evaluation.accuracy import (
    Calibration,
    Novelty,
    Overlay,
    Stretch,
    Strip,
    TorqueComparison,
)
from genan.evaluation.actuators import Evaluation
from genan.evaluation.held_control import HeldControl
from genan.evaluation.statistics import Estimate, ModelErrors, with_overall
from genan.report.figures import error_figure, save_figures, trust_figure
from genan.report.inspection import signals_figure


def estimate(values: np.ndarray, units: tuple[str, ...], *, known: bool = True) -> Estimate:
    mean = with_overall(values, units)
    return Estimate(
        mean, 0.9 * mean if known else np.nan * mean, 1.1 * mean if known else np.nan * mean
    )


def evaluation(
    nq: int,
    *,
    units: tuple[str, ...] | None = None,
    members: int = 3,
    horizon: int = 60,
    known: bool = True,
) -> Evaluation:
    """What an evaluation looks like, made of random numbers."""
    rng = np.random.default_rng(0)
    units = units or ("rad",) * nq
    joints = tuple(f"joint{i}" for i in range(nq))

    def errors(name: str, diverged: int = 0) -> ModelErrors:
        curve = np.cumsum(rng.gamma(1.0, 1e-4, (horizon, nq)), axis=0)
        step, whole = (estimate(values, units, known=known) for values in (curve[0], curve))
        return ModelErrors(name, joints, units, step, whole, 999, 20, diverged)

    recorded = np.cumsum(rng.normal(size=(horizon + 1, nq)), axis=0) * 0.01
    runaway = recorded + 0.01
    runaway[horizon // 2 :] = np.nan
    each = np.stack([runaway] + [recorded + 0.02 * k for k in range(1, members)])
    overlays = (
        Overlay("best", 3, recorded, recorded + 0.001, each[1:] if members > 1 else each),
        Overlay("worst", 7, recorded, runaway, each),
    )
    speed = np.sort(rng.gamma(1.0, 0.1, (3, 250, nq)), axis=0)
    held = HeldControl(
        "mine", joints, units, "somewhere", 20, speed[1, -1], speed[0, -1], speed[0, 0], 2.0,
        speed[2, 0], 3, 0, 0.02, speed, speed[:, :100],
    )  # fmt: skip
    return Evaluation(
        name="mine", robot="robot", dt=0.02, trajectories=20, first=10, horizon=horizon,
        bound=np.full(nq, np.pi), fingerprint="0" * 64, is_training_data=False, notes=(),
        errors=errors("mine"),
        members=tuple(errors(f"member {k}") for k in range(members if members > 1 else 0)),
        average=errors("a member alone") if members > 1 else None, compared=(errors("other", 4),),
        baselines=tuple(map(errors, ("ridge ARX, order 2", "constant velocity", "standing still"))),
        held=(held, replace(held, name="other")), overlays=overlays,
        torques=TorqueComparison(joints, units, *rng.normal(size=(2, 900, nq))),
        calibration=(
            Calibration(rng.gamma(1.0, size=9000), rng.gamma(1.0, size=9000), None, "N m"),
            Calibration(rng.gamma(1.0, size=40), rng.gamma(1.0, size=40), 50, units[0]),
        ),
    )  # fmt: skip


def novelty(nq: int, *, strips: int = 3, new: bool = True, reason: str = "position") -> Novelty:
    """What is new in a log, made up."""
    rng, joints = np.random.default_rng(1), tuple(f"joint{i}" for i in range(nq))
    known = reason in ("position", "velocity")
    ends = ((0.1, 0.9), (-0.5, 0.5)) if known else (None, None)
    stretch = Stretch("log 7", 7, "joint0", "rad", 1.0, 1.5, 2.5, reason, *ends)
    drawn = [Strip(f"log {k}", k, 3.0, rng.gamma(2.0, 0.4, (90, nq))) for k in range(strips)]
    return Novelty(
        joints, 1000, np.full(nq, 0.2 if new else 0.01), 0.2,
        np.full((5, nq), 0.04), (("log 7", 0.4),), (stretch,), tuple(drawn),
        np.full(nq, 0.3), np.full(nq, np.nan), 0.4, np.full(nq, 2.0),
    )  # fmt: skip


def picture_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


NAMES = ["error.png", "rollouts.png", "held-control.png", "trust.png"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        evaluation(1, members=1, known=False),
        evaluation(2, units=("m", "rad")),
        evaluation(4, horizon=1),
        evaluation(6),
    ],
    ids=["one joint", "slide and hinge", "one step", "six joints"],
)
def test_pictures_of_any_size(tmp_path, made):
    paths = save_figures(made, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == NAMES
    for path in paths:
        width, height = picture_size(path)
        assert 400 < width < 3000 and 200 < height < 4000


@pytest.mark.parametrize(("nq", "strips"), [(1, 1), (4, 6), (12, 2)])
def test_strips_of_novelty(tmp_path, nq, strips):
    made = replace(evaluation(1), novelty=novelty(nq, strips=strips), torques=None, calibration=())
    trust_figure(made).savefig(tmp_path / "a.png")
    width, height = picture_size(tmp_path / "a.png")
    assert 900 < width < 1500 and 100 < height < 3000


def test_without_truth_and_robot(tmp_path):
    made = evaluation(2)
    assert save_figures(replace(made, novelty=novelty(2)), tmp_path)[-1].name == "trust.png"
    held = replace(made.held[0], robot_speed_left=None, pose_difference=None, robot_speed=None)
    paths = save_figures(replace(made, torques=None, calibration=(), held=(held,)), tmp_path)
    assert [path.name for path in paths] == NAMES[:3]
    assert not (tmp_path / "trust.png").exists()


def test_a_model_that_says_nothing(tmp_path):
    made = evaluation(1)
    nothing = Calibration(np.zeros(0), np.zeros(0), 50, "rad")
    same = Calibration(np.ones(30), np.ones(30), 50, "rad")
    assert np.isnan(nothing.rank_correlation) and np.isnan(same.rank_correlation)
    assert save_figures(replace(made, calibration=(nothing, same)), tmp_path)


def test_a_model_without_error(tmp_path):
    made = evaluation(1, members=1)
    nothing = Estimate(np.zeros((60, 2)), np.zeros((60, 2)), np.zeros((60, 2)))
    perfect = replace(made, errors=replace(made.errors, curve=nothing))
    assert save_figures(perfect, tmp_path)
    assert save_figures(replace(perfect, compared=(), baselines=()), tmp_path)


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(DataError, match="could not be written"):
        save_figures(evaluation(1), tmp_path / "taken")


def test_honest_disagreement_is_recognised():
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, size=2000)
    honest, blind = (
        Calibration(x, error, None, "N m")
        for error in (x * rng.gamma(9.0, size=2000), rng.gamma(2.0, size=2000))
    )
    assert honest.rank_correlation > 0.8 and abs(blind.rank_correlation) < 0.1
    middle, quartiles = honest.bins()
    assert (
        (np.diff(middle) > 0).all()
        and (np.diff(quartiles[1]) > 0).all()
        and (quartiles[2] > quartiles[0]).all()
    )


@pytest.mark.slow
def test_results_can_be_plotted():
    from matplotlib.figure import Figure

    one = recorded("torque", "steps", nq=2, dt=0.01, delay=0.03)
    found = inspect(one)
    with_data, without = signals_figure(found), signals_figure(replace(found, data=None))
    assert len(with_data.axes) == 4 and len(without.axes) == 3
    assert isinstance(error_figure(evaluation(2)), Figure)
