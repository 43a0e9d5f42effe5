"""What to do with an evaluation: how far to trust the model, where not, and what to record next."""

from functools import partial
from itertools import compress
from pathlib import Path

from genan.evaluation.accuracy import Stretch
from genan.evaluation.actuators import CrossValidation, Evaluation
from genan.files import sentences

ENOUGH = 8  # From this many recordings on a difference can be certain (chance alone: 1 in 256).
_said = partial(sentences, Path(__file__).with_name("templates") / "verdict.txt", enough=ENOUGH)


def verdict(found: Evaluation) -> tuple[str, ...]:
    """Three to six sentences that a laboratory can act on."""
    novelty = found.novelty
    new_joints = [] if novelty is None else [*compress(novelty.joints, novelty.new)]
    return _said("verdict", found, new_joints)


def cross_validation_verdict(found: CrossValidation) -> tuple[str, ...]:
    """The same of a cross-validation."""
    return _said("cross_validation", found)


def why_words(one: Stretch) -> str:
    """What is new about it."""
    return " ".join(_said("why", one))
