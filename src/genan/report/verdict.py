"""What to do with an evaluation: how far to trust the model, where not, and what to record next."""

import numpy as np

from genan.evaluation.accuracy import Novelty, Stretch
from genan.evaluation.actuators import CrossValidation, Evaluation
from genan.evaluation.statistics import BaselineComparison
from genan.words import number, quantity, reading_unit, shortened, time_ahead

_UNCOMPARED = (
    "How good that is cannot be said without baselines; give the training recording by "
    "--train-data.",
)
_KNOWN = (
    "These are the data that the model was fitted to: judge it on others, or give "
    "--cross-validate 5, before you trust it.",
)
ENOUGH = 8  # From this many recordings on a difference can be certain (chance alone: 1 in 256).


def verdict(found: Evaluation) -> tuple[str, ...]:
    """Three to six sentences that a laboratory can act on."""
    held, novelty, comparison = found.held[0], found.novelty, found.comparison
    words = f"Held controls: {held.verdict}"
    if held.fit_for_training:
        words = "With its control held it comes to rest: policies can be trained with it."
    elif held.compared:
        words = "Do not train policies with it: with its control held it does not come to rest."
    return (
        _accuracy(found),
        *(_KNOWN if found.is_training_data else ()),
        *(comparison.overall if comparison else _UNCOMPARED),
        words,
        *(() if novelty is None else (novelty_words(novelty),)),
        next_words(novelty, comparison),
    )


def cross_validation_verdict(found: CrossValidation) -> tuple[str, ...]:
    """The same of a cross-validation."""
    accurate = _accuracy(found)
    return (
        f"Fitted with these settings to all but one of {len(found.folds)} parts of the "
        f"{found.recordings} recordings, and judged on the one left out: "
        f"{accurate[0].lower()}{accurate[1:]}",
        *(found.comparison.overall if found.comparison else _UNCOMPARED),
        "This holds for new recordings of the same kind; for another kind, judge it on one "
        "(--data).",
    )


def _accuracy(found: Evaluation | CrossValidation) -> str:
    """How far the model is off."""
    errors, words = found.errors, []
    for k, unit in enumerate(errors.units[len(errors.joints) :], start=len(errors.joints)):
        step, last = (quantity(x[k], unit) for x in (errors.one_step.mean, errors.curve.mean[-1]))
        words.append(
            f"{step} one step ahead and {last} after {time_ahead(found.horizon * found.dt)}"
        )
    ran = f"; {errors.diverged} of {errors.rollouts} rollouts ran away" if errors.diverged else ""
    return f"The model is off by {' and '.join(words)} (mean absolute error){ran}."


def novelty_words(novelty: Novelty) -> str:
    """Where not to trust it."""
    shares = zip(novelty.joints, novelty.beyond, strict=True)
    parts = ", ".join(f"{joint} {100 * part:.2g} %" for joint, part in shares)
    if not novelty.new.any():
        usual = f"beyond what it was trained on: {parts}; 1 % is usual"
        return f"Nothing much in this log is new to it ({usual})."
    new = {novelty.joints[j] for j in np.flatnonzero(novelty.new)}
    worst, where = next((one for one in novelty.stretches if one.joint in new), None), ""
    if worst is not None:
        place = f"recording {shortened(worst.recording)}, {worst.begin:.2f} to {worst.end:.2f} s"
        where = f", first of all {place}, {worst.joint}: {why_words(worst)}"
    usual = f"{parts} of the samples; 1 % is usual"
    return f"Do not trust it where the log is new to it ({usual}){where}."


def why_words(one: Stretch) -> str:
    """What is new about it."""
    if one.reason in ("position", "velocity") and one.span is not None and one.known is not None:
        name, factor = reading_unit(one.unit)
        name = f"{name}/s" if one.reason == "velocity" else name
        span, known = ([factor * end for end in pair] for pair in (one.span, one.known))
        above = span[1] - known[1] >= known[0] - span[0]
        far = f"up to {number(span[1])}" if above else f"down to {number(span[0])}"
        return f"{one.reason} {far} {name}, trained {number(known[0])} to {number(known[1])} {name}"
    return {
        "command": "a command beyond those trained",
        "combination": "position, velocity and command in a new combination",
        "disagreement": "the members disagree as they rarely do",
    }.get(one.reason, f"a {one.reason} not seen before")


def next_words(novelty: Novelty | None, comparison: BaselineComparison | None) -> str:
    """What to record next."""
    if novelty is not None and novelty.new.any():
        first = {one.joint: one for one in reversed(novelty.stretches)}
        joints = [novelty.joints[j] for j in np.flatnonzero(novelty.new)]
        *more, last = [_wish(joint, first.get(joint)) for joint in joints]
        wanted = f"{', '.join(more)} and {last}" if more else last
        return f"Record next {wanted}; then fit with the new recordings as well."
    if comparison is not None and comparison.recordings < ENOUGH:
        few = f"{comparison.recordings} recordings here, and only from {ENOUGH} on"
        return f"Record more to judge by: {few} can a difference be certain."
    if comparison is not None:
        steps = max(one.steps for one in comparison.comparisons)
        if any(comparison.best(steps, unit).verdict != "better" for unit in comparison.units):
            return (
                "Record next longer and more varied motions: what the model lacks far ahead is not "
                "in what is new here, and a log of a few seconds says little about slow effects."
            )
    here = "this log asks nothing new of it"
    return f"Record next what you will use it for, and judge it there: {here}."


def _wish(joint: str, one: Stretch | None) -> str:
    if one is None:
        return f"more motions of {joint}"
    where = f"recording {shortened(one.recording)} at {one.begin:.1f} to {one.end:.1f} s"
    return {
        "position": f"motions of {joint} that go there ({why_words(one)})",
        "velocity": f"motions of {joint} that are as fast ({why_words(one)})",
        "command": f"commands to {joint} as large as here",
    }.get(one.reason, f"motions of {joint} like {where}")
