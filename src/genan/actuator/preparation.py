"""From settings and data to a training: which loss, which rows for which member, how much work at
once."""

import jax
import jax.numpy as jnp
import numpy as np

from genan.actuator.dataset import Dataset
from genan.actuator.losses import (
    Loss,
    Member,
    MultiStepLoss,
    PositionLoss,
    TorqueLoss,
    balanced_scale,
    multi_step_scale,
    position_scale,
)
from genan.actuator.network import Precision
from genan.actuator.scaling import Scaling
from genan.actuator.settings import FitSettings
from genan.actuator.training import Schooling, Training
from genan.dynamics import Dynamics

PIECE_OPERATIONS = {"cpu": 2e11, "gpu": 1e13}
"""Floating-point operations to run in one go: on a CPU a second or two, which is how long Ctrl-C
may wait."""

PIECE_STEPS = {"cpu": 64, "gpu": 512}
"""Steps to run in one go at most; a GPU loses milliseconds whenever the host looks."""


def platform() -> str:
    """What JAX computes on: "cpu" or "gpu"."""
    found: str = jax.devices()[0].platform
    return found


def precision_for(asked: str) -> Precision:
    """The precision of training's matrix products that was asked for, or the device's own."""
    if asked == "auto":
        return "bfloat16" if platform() == "gpu" else "float32"
    found: Precision = asked  # type: ignore[assignment]  # FitSettings has checked it
    return found


def prepare_training(
    settings: FitSettings,
    dataset: Dataset,
    scaling: Scaling,
    dynamics: Dynamics,
    precision: Precision,
) -> Training:
    """The training that ``settings`` ask for, on ``dataset``."""
    samples, rows = dataset.samples, dataset.train_rows
    member = Member(dataset.history, settings.activation, scaling, precision)
    loss: Loss
    if samples.response is not None:
        loss = PositionLoss(
            member, (balanced_scale if settings.balance else position_scale)(samples, rows)
        )
    elif settings.loss == "torque":
        loss = TorqueLoss(member)
    else:
        loss = MultiStepLoss(
            member, dynamics, multi_step_scale(samples, rows, dynamics, steps=settings.steps)
        )
    own = _own_rows(dataset, settings.members) if dataset.folded else None
    batch = settings.batch_for(len(rows) if own is None else own[0].shape[1])
    inputs, outputs = (
        dataset.history.inputs(dataset.channels.nq, dataset.channels.nu),
        dataset.channels.nq,
    )
    weights = sum(a * b for a, b in settings.architecture.sizes(inputs, outputs))
    schooling = Schooling(
        epochs=settings.epochs,
        batch=batch,
        rate=settings.rate_for(batch),
        schedule=settings.schedule,
        patience=settings.patience,
        noise=(settings.history_noise,) * outputs,
        control_noise=_control_noise(settings, scaling, dataset.channels.nq, dataset.channels.nu),
        weight_decay=settings.weight_decay,
        seed=settings.seed,
        piece=_piece(6.0 * weights * batch * settings.members * settings.steps),
    )
    if own is None:
        return Training(
            loss, samples, jnp.asarray(rows), jnp.asarray(dataset.parts[1]), None, schooling
        )
    return Training(loss, samples, *map(jnp.asarray, own), schooling)


def _own_rows(dataset: Dataset, members: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to learn from [members, n] and to select by [members, v], filled up by repeating, and
    how many count."""
    learnt = [
        np.concatenate([dataset.parts[part] for part in dataset.learnt(k)]) for k in range(members)
    ]
    held = [dataset.parts[dataset.left_out(k)] for k in range(members)]
    filled = (
        np.stack([np.resize(rows, max(map(len, lists))) for rows in lists])
        for lists in (learnt, held)
    )
    return *filled, np.array([len(rows) for rows in held], np.int32)  # type: ignore[return-value]


def _control_noise(settings: FitSettings, scaling: Scaling, nq: int, nu: int) -> tuple[float, ...]:
    """Standard deviation of the noise on each control, in its unit."""
    present = (
        settings.history.rows * nq
    )  # the inputs of q come first, and of a control's the present one
    deviation = np.asarray(scaling.input_std[present : present + nu], np.float64)
    return tuple((settings.control_noise * deviation).tolist())


def _piece(operations: float) -> int:
    """Steps to run in one go, of so many operations each."""
    device = platform()
    return min(
        max(1, round(PIECE_OPERATIONS.get(device, 1e13) / operations)), PIECE_STEPS.get(device, 512)
    )
