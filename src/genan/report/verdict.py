"""What to do with an evaluation: how far to trust the model, where not, and what to record next."""

from pathlib import Path
from typing import Any

from genan.evaluation.accuracy import Novelty, Stretch
from genan.evaluation.actuators import CrossValidation, Evaluation
from genan.evaluation.statistics import BaselineComparison
from genan.files import sentences

ENOUGH = 8  # From this many recordings on a difference can be certain (chance alone: 1 in 256).


def verdict(found: Evaluation) -> tuple[str, ...]:
    """Three to six sentences that a laboratory can act on."""
    return _said("verdict", found, _new(found.novelty))


def cross_validation_verdict(found: CrossValidation) -> tuple[str, ...]:
    """The same of a cross-validation."""
    return _said("cross_validation", found)


def novelty_words(novelty: Novelty) -> str:
    """Where not to trust it."""
    return " ".join(_said("novel", novelty, _new(novelty)))


def why_words(one: Stretch) -> str:
    """What is new about it."""
    return " ".join(_said("why", one))


def next_words(novelty: Novelty | None, comparison: BaselineComparison | None) -> str:
    """What to record next."""
    return " ".join(_said("next", novelty, comparison, _new(novelty)))


def _new(novelty: Novelty | None) -> list[str]:
    """The joints that were somewhere new."""
    if novelty is None:
        return []
    return [joint for joint, new in zip(novelty.joints, novelty.new, strict=True) if new]


def _said(macro: str, *facts: Any) -> tuple[str, ...]:
    template = Path(__file__).with_name("templates") / "verdict.txt"
    return sentences(template, macro, *facts, enough=ENOUGH)
