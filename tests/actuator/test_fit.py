"""Fitting: what is learnt, what survives an interruption, what is kept when the numbers break."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.setting import waves

import genan
from genan.actuator import Ensemble, FitObserver, FitProgress, FitSettings, Fitting
from genan.actuator import ensemble as artifact
from genan.actuator.contract import KIND
from genan.actuator.fitting import FitDivergedError, FitInterruptedError
from genan.data import Channels, Trajectories, write
from genan.dynamics import load_dynamics
from genan.errors import SettingError
from genan.files import CHECKPOINT
from genan.robot import Robot

SMALL = {"hidden": (16,), "members": 2, "epochs": 4, "batch_size": 64, "history_length": 2}


@pytest.fixture(scope="module")
def driven() -> Trajectories:
    """A pendulum whose drive is known: tau = 0.4 u - 0.05 qd."""
    robot = Robot.load("pendulum")
    dynamics = load_dynamics(robot)
    rng = np.random.default_rng(0)
    t = np.arange(300) * robot.dt
    u = np.stack([np.sin(rng.uniform(4, 25) * t + rng.uniform(0, 6)) for _ in range(24)])[
        :, :, None
    ]

    def step(state: tuple, u: jax.Array) -> tuple:
        q, qd = state
        return dynamics.step(q, qd, 0.4 * u - 0.05 * qd), q

    run = jax.vmap(lambda q, u: jax.lax.scan(step, (q, jnp.zeros(1)), u)[1])
    with jax.enable_x64(True):
        q = np.asarray(run(jnp.asarray(rng.uniform(-1, 1, (24, 1))), jnp.asarray(u)))
    return Trajectories.from_list(Channels.of_robot(robot), list(zip(q, u, strict=True)))


def arrays(ensemble: Ensemble) -> dict[str, np.ndarray]:
    return artifact.tensors(ensemble)


def same(a: Ensemble, b: Ensemble) -> bool:
    return all(
        np.array_equal(x, y) for x, y in zip(arrays(a).values(), arrays(b).values(), strict=True)
    )


@pytest.mark.parametrize(
    "loss",
    ["position", *(pytest.param(x, marks=pytest.mark.slow) for x in ("torque", "multi-step"))],
)
def test_a_known_drive_is_found(driven: Trajectories, loss: str) -> None:
    """Torques of the fit on positions it has seen the likes of, against the law that made them."""
    extra = {"rollout": 5} if loss == "multi-step" else {}
    ensemble = genan.fit(
        driven,
        "pendulum",
        loss=loss,
        hidden=(32,),
        members=2,
        epochs=10,
        history_length=1,
        batch_size=64,
        learning_rate=1e-2,
        **extra,
    )
    robot = Robot.load("pendulum")
    q, u = driven[3].q, driven[3].u
    t = np.arange(1, len(q))
    tau = np.asarray(
        ensemble.torque(np.stack([q[t - 1], q[t]], axis=1), np.stack([u[t - 1], u[t]], axis=1))
    )
    law = 0.4 * u[t] - 0.05 * (q[t] - q[t - 1]) / robot.dt
    assert np.abs(tau - law).mean() < 0.05 * law.std()


@pytest.mark.slow
def test_members_differ_and_are_those_of_fits_with_their_own_seed(driven: Trajectories) -> None:
    two = genan.fit(driven, "pendulum", **SMALL, seed=5)
    second = genan.fit(driven, "pendulum", **{**SMALL, "members": 1}, seed=6)
    weights = np.asarray(two.layers[0].weight)
    assert not np.allclose(weights[0], weights[1])
    np.testing.assert_allclose(weights[1], second.layers[0].weight[0], rtol=1e-4, atol=1e-5)


def test_the_best_epoch_is_kept_and_patience_stops_a_member(driven: Trajectories) -> None:
    few = driven.select(range(5))
    settings = {**SMALL, "epochs": 60, "learning_rate": 0.2, "schedule": "constant", "patience": 3}
    ensemble = genan.fit(few, "pendulum", **settings)
    training = ensemble.record["training"]
    curve = np.array(training["validation_loss"])
    assert training["epochs"] == len(curve) < 60
    for member, best in enumerate(training["best_epoch"]):
        stop = best + 3  # what comes after a member's own end no longer counts
        assert curve[: min(stop, len(curve)), member].argmin() == best - 1
        assert training["best_validation_loss"][member] == pytest.approx(curve[best - 1, member])
    assert training["epochs"] == max(training["best_epoch"]) + 3


@pytest.mark.slow
def test_stopping_and_going_on_gives_the_same_weights_to_the_bit(
    driven: Trajectories, tmp_path: Path
) -> None:
    whole = genan.fit(driven, "pendulum", **SMALL)
    settings = FitSettings(**SMALL)
    calls = iter([False] * 5 + [True])
    first = Fitting(driven, "pendulum", settings, out=tmp_path / "a")
    with pytest.raises(FitInterruptedError, match="the same command continues"):
        first.run(FitObserver(stopping=lambda: next(calls)))
    assert (tmp_path / "a" / CHECKPOINT).exists()
    second = Fitting(driven, "pendulum", settings, out=tmp_path / "a")
    assert 0.0 < second.resumed < 4.0
    ensemble = second.run()
    assert ensemble is not None and same(whole, ensemble)
    assert ensemble.record["training"] == whole.record["training"]
    assert not (tmp_path / "a" / CHECKPOINT).exists()
    assert same(artifact.load(tmp_path / "a"), whole)


KILLED = """
import sys, time
import genan.actuator.fitting as fitting
from genan.actuator import FitObserver, FitSettings, Fitting
fitting.CHECKPOINT_SECONDS = 0.0
settings = FitSettings(hidden=(16,), members=2, epochs=40, batch_size=64, history_length=2)
run = Fitting(sys.argv[1], "two-link", settings, out=sys.argv[2])
def progress(now):
    print(now.epoch, flush=True)
    time.sleep(0.02)  # so that it is not done before it is killed
run.run(FitObserver(progress=progress))
"""


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    data = waves(Robot.load("two-link"), lengths=(90, 80, 100, 70, 85, 95))
    write(tmp_path / "data.h5", data)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "data.h5"), str(tmp_path / "killed")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 3:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    settings = FitSettings(hidden=(16,), members=2, epochs=40, batch_size=64, history_length=2)
    again = Fitting(tmp_path / "data.h5", "two-link", settings, out=tmp_path / "killed")
    assert again.resumed >= 2.0
    whole = genan.fit(
        data, "two-link", hidden=(16,), members=2, epochs=40, batch_size=64, history_length=2
    )
    ensemble = again.run()
    assert ensemble is not None and same(ensemble, whole)


@pytest.mark.slow
def test_a_checkpoint_of_another_fit_is_refused_by_name(
    driven: Trajectories, tmp_path: Path
) -> None:
    with pytest.raises(FitInterruptedError):
        Fitting(driven, "pendulum", FitSettings(**SMALL), out=tmp_path).run(
            FitObserver(stopping=lambda: True)
        )
    with pytest.raises(SettingError, match=r"settings.epochs is 4 there and 9 here.*--overwrite"):
        Fitting(driven, "pendulum", FitSettings(**{**SMALL, "epochs": 9}), out=tmp_path)
    with pytest.raises(SettingError, match="data is"):
        Fitting(driven.select(range(9)), "pendulum", FitSettings(**SMALL), out=tmp_path)
    assert (tmp_path / CHECKPOINT).exists()
    Fitting(
        driven, "pendulum", FitSettings(**{**SMALL, "epochs": 1}), out=tmp_path, overwrite=True
    ).run()
    assert artifact.load(tmp_path).record["training"]["epochs"] == 1


@pytest.mark.slow
def test_a_loss_that_breaks_stops_the_fit_and_keeps_the_best(
    driven: Trajectories, tmp_path: Path
) -> None:
    settings = FitSettings(**{**SMALL, "epochs": 50}, schedule="constant")
    fitting = Fitting(driven, "pendulum", settings, out=tmp_path)
    calls = iter(range(1000))

    def poison(now: FitProgress) -> None:
        if now.epoch == 2 and next(calls) == 1:
            layers = fitting.state.layers
            broken = layers[0].bias.at[1].set(jnp.nan)
            fitting.state = jax.tree.map(
                lambda a: broken if a is layers[0].bias else a, fitting.state
            )

    with pytest.raises(
        FitDivergedError,
        match=r"member 1 is not finite from step \d+ of epoch 3 on.*of epoch 2, 2.*--learning-rate",
    ):
        fitting.run(FitObserver(progress=poison))
    kept = artifact.load(tmp_path)
    assert "member 1" in kept.record["training"]["fault"]
    assert all(np.isfinite(a).all() for a in arrays(kept).values())


def test_a_fit_that_breaks_at_once_says_that_nothing_is_kept(
    driven: Trajectories, tmp_path: Path
) -> None:
    fitting = Fitting(
        driven, "pendulum", FitSettings(**{**SMALL, "learning_rate": 1e30}), out=tmp_path
    )
    with pytest.raises(FitDivergedError, match="before there was anything worth keeping"):
        fitting.run()
    assert not (tmp_path / KIND.contract).exists()


@pytest.mark.slow
def test_going_on_from_an_ensemble_keeps_its_scaling_and_improves_on_new_data(
    driven: Trajectories,
) -> None:
    old = genan.fit(driven.select(range(10)), "pendulum", **{**SMALL, "epochs": 15})
    new = genan.fit(
        driven,
        "pendulum",
        from_=old,
        epochs=15,
        batch_size=64,
        learning_rate=2e-3,
        hidden=(7,),
        members=9,
    )
    assert new.contract.architecture == old.contract.architecture and new.members == old.members
    np.testing.assert_array_equal(new.scaling.input_mean, old.scaling.input_mean)
    best = [np.mean(one.record["training"]["best_validation_loss"]) for one in (old, new)]
    assert best[1] < best[0]
    assert new.record["from"]["fingerprint"] == old.record["data"]["fingerprint"]


def test_progress_tells_epoch_losses_speed_and_time_left(driven: Trajectories) -> None:
    seen: list[FitProgress] = []
    genan.fit(driven, "pendulum", observer=FitObserver(progress=seen.append), **SMALL)
    last = seen[-1]
    assert (last.epoch, last.epochs, last.share) == (4, 4, 0.0)
    assert len(last.train) == len(last.validation) == len(last.best_epoch) == 2
    assert last.samples_per_second > 0.0 and last.seconds_left == 0.0
    assert any(0.0 < now.share < 1.0 for now in seen)


def test_training_does_not_depend_on_how_it_is_cut_into_chunks(driven: Trajectories) -> None:
    """The compiled pieces are the same program: one long piece and many short ones give the same
    weights."""
    first = Fitting(driven, "pendulum", FitSettings(**SMALL))
    state = first.state
    advance, _ = first.training.compiled(state)
    assert first.training.steps % first.training.chunk == 0
    for _ in range(first.training.steps // first.training.chunk):
        state = advance(state)
    assert int(state.step) == first.training.steps


def test_a_finished_folder_is_not_written_over(driven: Trajectories, tmp_path: Path) -> None:
    genan.fit(driven, "pendulum", out=tmp_path / "run", **SMALL)
    before = (tmp_path / "run" / KIND.weights).read_bytes()
    with pytest.raises(SettingError, match="holds finished actuators"):
        genan.fit(driven, "pendulum", out=tmp_path / "run", **SMALL)
    assert (tmp_path / "run" / KIND.weights).read_bytes() == before
    genan.fit(driven, "pendulum", out=tmp_path / "run", overwrite=True, **SMALL)
    assert (tmp_path / "run" / KIND.weights).read_bytes() == before  # the same fit, the same bytes


def test_a_folder_called_like_the_robot_is_not_taken_for_it(
    driven: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = {**SMALL, "epochs": 1}
    fitted = genan.fit(driven, "pendulum", out="pendulum", **few)  # type: ignore[arg-type]
    assert fitted.contract.find_robot(fitted.record) == Robot.load("pendulum")


def test_settings_that_do_not_exist_or_contradict_are_refused(driven: Trajectories) -> None:
    with pytest.raises(SettingError, match=r"no setting 'epoch'; there are: loss, balance"):
        genan.fit(driven, "pendulum", epoch=3)
    for settings, words in (
        ({"loss": "torques"}, "no loss 'torques'; there are: 'position', 'torque', 'multi-step'"),
        ({"rollout": 5}, "needs the loss 'multi-step'"),
        ({"members": 0}, "members must be at least 1"),
        ({"learning_rate": -1.0}, "positive"),
        ({"validation": 1.0}, "between 0 and 1"),
        ({"activation": "swish"}, "no activation 'swish'"),
        ({"history_noise": -1.0}, "0 or more"),
        ({"hidden": (0,)}, "at least one neuron"),
    ):
        with pytest.raises(SettingError, match=words):
            FitSettings(**settings)  # type: ignore[arg-type]


def test_batch_follows_the_amount_of_data() -> None:
    settings = FitSettings()
    assert [
        settings.batch_size_for(n) for n in (10_000, 160_000, 400_000, 2_000_000, 10_000_000)
    ] == [256, 512, 1024, 8192, 8192]


def test_time_is_not_part_of_the_result(driven: Trajectories) -> None:
    a = genan.fit(driven, "pendulum", **SMALL)
    time.sleep(0.01)
    b = genan.fit(driven, "pendulum", **SMALL)
    assert same(a, b) and a.record == b.record
