"""How free a model may be: what ``genan fit`` tries, from a linear model to a network without
one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from genan.actuator.base_model import KINDS
from genan.actuator.settings import FitSettings

FOLDS = 5
"""Parts that the recordings are cut into; each network leaves out another."""

LENGTHS = (1, 3, 5, 10)
"""Past samples that a linear model is tried with."""

MANY = 80_000
"""Samples from which the linear models matter less and networks take longer: fewer of them are
tried."""

STEPS = 30_000, 50_000
"""Steps of training that a network gets, about: of few samples and of many."""

_DECAY = 0.1


@dataclass(frozen=True)
class Candidate:
    """One model to try."""

    name: str
    """Short, for a table and a folder."""
    words: str
    """What it is, for a sentence."""
    settings: FitSettings

    @property
    def linear(self) -> bool:
        """Whether it is the base torque model alone."""
        return not self.settings.hidden


def linear_candidates(
    settings: FitSettings, *, longest: int, delays: Sequence[int]
) -> list[Candidate]:
    """Base torque models alone, of every kind, with histories of up to ``longest`` samples and each
    of ``delays``."""
    lengths = [length for length in LENGTHS if length <= longest] or [max(1, longest)]
    if settings.history_length != FitSettings().history_length:
        lengths = [settings.history_length]
    found = []
    for delay in delays:
        late = f", delay {delay}" if delay else ""
        for kind in KINDS:
            for length in lengths[:1] if kind == "parametric" else lengths:
                made = replace(
                    settings,
                    base=kind,
                    balance=settings.loss == "position",
                    hidden=(),
                    folds=FOLDS,
                    members=FOLDS,
                    history_length=length,
                    delay=delay,
                )
                found.append(
                    Candidate(f"{kind}, H {length}{late}", _base_words(kind, length, delay), made)
                )
    return found


def network_candidates(
    settings: FitSettings, best: Candidate, nearest: Candidate, *, longest: int, samples: int
) -> list[Candidate]:
    """Networks on the residual of linear models of every kind, and without any.

    The kinds are not left to the best linear model alone, nor is the length of the history: what a
    network can add, the model below it need not have, and a long history that blurs an encoder's
    steps serves a network as well.

    Args:
        settings: of the fit.
        best: the best linear model.
        nearest: the one that is best one step ahead.
        longest: past samples of the longest history that was tried, which networks get who have
            many samples.
        samples: to learn from.
    """
    default = FitSettings()
    large = (128, 128) if samples >= MANY else (64, 64) if samples >= 20_000 else (32, 32)
    sizes = [(16,), large] if samples < MANY else [large]
    if settings.hidden != default.hidden:
        sizes = [tuple(settings.hidden)]
    base = best.settings
    batch = settings.batch or (128 if samples >= MANY else 64)
    epochs = settings.epochs
    if epochs == default.epochs:
        epochs = min(max(round(STEPS[samples >= MANY] * batch / samples), 15), 80)
    common = replace(
        base, batch=batch, epochs=epochs, rate=settings.rate or (3e-3 if samples < 20_000 else 1e-3)
    )

    def made(kind: str, hidden: tuple[int, ...], decay: float, length: int) -> Candidate:
        size = "x".join(map(str, hidden))
        on = f"on {_base_words(kind, length, base.delay)}" if kind != "none" else "alone"
        settings = replace(
            common, base=kind, hidden=hidden, weight_decay=decay, history_length=length
        )
        name = f"{kind} + network {size}" if kind != "none" else f"network {size} alone"
        return Candidate(
            f"{name}, H {length}", f"networks of {size} with a history of {length} {on}", settings
        )

    given = settings.history_length != default.history_length
    short = (
        base.history_length if given else max(base.history_length, 3) if samples < MANY else longest
    )
    long = max(nearest.settings.history_length, short)
    found = [made(base.base, size, 0.0 if size == (16,) else _DECAY, short) for size in sizes]
    if samples < MANY:
        others = [kind for kind in ("both", "parametric") if kind != base.base]
        found += [made(kind, sizes[-1], _DECAY, short) for kind in others]
        found += [made("both", sizes[-1], _DECAY, long)] * (long > short)
    return [*found, made("none", sizes[-1], 0.0, short)]


def _base_words(kind: str, length: int, delay: int) -> str:
    what = {
        "linear": f"a model that is linear in a history of {length}",
        "parametric": "a parametric model (gain, spring, viscous and Coulomb friction, gravity, offset)",
        "both": f"a parametric model that is also linear in a history of {length}",
    }[kind]
    return f"{what}, commands {delay} samples late" if delay else what
