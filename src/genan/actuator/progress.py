"""Where a fit stands and how fast it goes, for whoever shows it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from genan.actuator.training import Training


@dataclass(frozen=True)
class Progress:
    """Where a fit stands."""

    epoch: int
    """Whole epochs done."""
    epochs: int
    """Epochs to do."""
    share: float
    """Part of the present epoch that is done, 0 to 1."""
    train: list[float]
    """Each member's mean training loss in the last whole epoch; empty before there is one."""
    validation: list[float]
    """Each member's validation loss after the last whole epoch; empty before there is one."""
    best_epoch: list[int]
    """Epoch of each member's lowest validation loss so far."""
    samples_per_second: float
    """Samples that all members together have learnt from per second, in this run."""
    seconds_left: float
    """Estimated time to the last epoch [s]."""


class Pace:
    """How fast a fit goes, compiling left out."""

    def __init__(self, training: Training, *, members: int) -> None:
        self._piece = training.piece * training.batch * members
        self._epoch = training.steps * training.batch * members
        self._samples = 0
        self._begun: float | None = None

    def count(self) -> None:
        """One more piece is done."""
        if self._begun is None:
            self._begun = time.perf_counter()
        else:
            self._samples += self._piece

    @property
    def samples_per_second(self) -> float:
        """Samples of all members per second, validation and everything else included; 0 before it
        is known."""
        passed = time.perf_counter() - self._begun if self._begun is not None else 0.0
        return self._samples / passed if passed > 0.0 else 0.0

    def seconds_for(self, epochs: float) -> float:
        """Time that ``epochs`` more epochs take [s]; infinite before it is known."""
        return epochs * self._epoch / self.samples_per_second if self._samples else float("inf")


ProgressFunction = Callable[[Progress], None]
