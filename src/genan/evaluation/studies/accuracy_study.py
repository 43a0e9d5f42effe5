"""How accurate the simulation is, and what that depends on: loss, history, rollout, data."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from genan.evaluation.paper import paper_figure
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.recipes import SEARCHED_UAN, evaluate_job, fit_job, uan_job
from genan.evaluation.studies.sizes import Size
from genan.evaluation.studies.store import Done
from genan.evaluation.studies.study import Found, Study
from genan.evaluation.studies.words import (
    MISSING,
    all_of,
    at,
    below,
    change,
    listed,
    relation,
    say,
    sentence,
)
from genan.evaluation.study_result import Figure, Finding, Series, Value

DEGREES = 180.0 / math.pi
PLAIN: dict[str, Any] = {"history_length": 3, "history_stride": 1}
"""The paper's history, which every study varies one thing of."""
QUANTITY = "mean absolute joint position error"


class AccuracyFigures(Study):
    """A study with two pictures: the error after one step, and after the whole horizon."""

    axis: str
    kind: Any = "bars"
    series_name = "position loss"
    paper_series = "position loss"
    logarithmic = False

    @abstractmethod
    def cells(self, size: Size) -> Mapping[str | float | int, Job]:
        """The actuators to judge, by their place on the axis."""

    def jobs(self, size: Size) -> Sequence[Job]:
        """One judgement for each place."""
        return [evaluate_job(size, actuators) for actuators in self.cells(size).values()]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """After one step, and after the horizon."""
        judged = {place: evaluate_job(size, job) for place, job in self.cells(size).items()}
        return tuple(self._figure(size, judged, found, steps) for steps in (1, size.horizon))

    def _figure(
        self, size: Size, judged: Mapping[str | float | int, Job], found: Found, steps: int
    ) -> Figure:
        name = f"{self.name}-1-step" if steps == 1 else f"{self.name}-{steps}-steps"
        paper = paper_figure(f"{self.name}-1-step" if steps == 1 else f"{self.name}-500-steps")
        known = dict(zip(paper.places, paper.series[self.paper_series], strict=True))
        comparable = steps in (1, 500)
        places = tuple(judged)
        values = tuple(_value(job, found.get(job.fingerprint), steps) for job in judged.values())
        beside = tuple(known.get(place) if comparable else None for place in places)
        return Figure(
            name=name,
            title="Error after 1 step (2 ms)"
            if steps == 1
            else f"Error after {steps} steps ({0.002 * steps:g} s)",
            kind=self.kind,
            axis=self.axis,
            places=places,
            quantity=QUANTITY,
            unit="deg",
            series=(Series(self.series_name, values, beside),),
            logarithmic=self.logarithmic,
            caption=self.caption(size),
        )

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """Where the error is least."""
        return sentence(
            ", ".join(
                f"after {steps} the error is least at {figure.axis.split(' (')[0]} = {_least(figure)}"
                for steps, figure in zip(("1 step", f"{size.horizon} steps"), figures, strict=False)
            )
        )

    def caption(self, size: Size) -> str:
        """What was done."""
        return (
            f"Open loop along the recorded controls of {size.test} trajectories that were not learnt from; bars are "
            "95 % intervals, ours by bootstrap over trajectories. Ours is the virtual robot, the paper's the real one."
        )


class Accuracy(AccuracyFigures):
    """Position loss, torque loss and UAN."""

    name, title = "accuracy", "Accuracy of the simulation"
    question = "Which way of learning an actuator network simulates the arm best?"
    axis = "how the actuators were learnt"
    series_name, paper_series = "error", "error"

    def cells(self, size: Size) -> Mapping[str | float | int, Job]:
        """The three of the paper."""
        return {
            "position loss": plain_fit(size),
            "torque loss": fit_job(size, label="torque loss", loss="torque", **PLAIN),
            "UAN": uan_job(size, **SEARCHED_UAN),
        }

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """Position against torque, both against UAN."""
        position, torque, uan = (
            [at(figure, place) for figure in figures] for place in figures[0].places
        )
        ours = "; ".join(
            f"{figure.title.lower()}: position loss {say(p, 'deg')}, torque loss {say(t, 'deg')}: {change(p, t)}"
            for figure, p, t in zip(figures, position, torque, strict=True)
        )
        against = "; ".join(
            f"{figure.title.lower()}: UAN {say(u, 'deg')}, {change(u, p)} than the position loss"
            for figure, u, p in zip(figures, uan, position, strict=True)
        )
        return (
            Finding(
                "The position loss is more accurate than the torque loss: 6 % after one step, 29 % after 500.",
                sentence(ours),
                all_of([below(p, t) for p, t in zip(position, torque, strict=True)]),
            ),
            Finding(
                "UAN is less accurate than both: it has 12 times the error of the position loss after one step and 11 "
                "times after 500.",
                sentence(against.replace(" as much than", " that of")),
                all_of(
                    [
                        below(other, u)
                        for other, u in zip([*position, *torque], [*uan, *uan], strict=True)
                    ]
                ),
            ),
        )

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """All three."""
        return sentence(
            "; ".join(
                f"after {steps} the {', the '.join(f'{p} is off by {say(at(figure, p), figure.unit)}' for p in places)}"
                for steps, figure in zip(("1 step", f"{size.horizon} steps"), figures, strict=True)
                if (places := figure.places)
            ).replace("the UAN", "UAN")
        )


class HistoryLength(AccuracyFigures):
    """How far back the network sees."""

    name, title = "history", "Length of the history"
    question = "How many past samples does the network need?"
    axis = "history length H"

    def cells(self, size: Size) -> Mapping[str | float | int, Job]:
        """One ensemble for each length."""
        return {
            H: plain_fit(size)
            if H == 3
            else fit_job(size, label=f"history of {H}", history_length=H, history_stride=1)
            for H in size.histories
        }

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """Longer is better, H = 1 is too short, H = 20 too long."""
        one, many = figures
        lengths = [H for H in size.histories if H <= 10]
        pairs = list(itertools.pairwise(lengths))
        shorter, longer = min(size.histories), max(lengths)
        found = [
            Finding(
                "Longer histories have lower errors up to H = 10, after one step and after 500.",
                sentence(
                    f"from H = {shorter} to H = {longer} the error goes from {say(at(one, shorter), 'deg')} to "
                    f"{say(at(one, longer), 'deg')} after one step and from {say(at(many, shorter), 'deg')} to "
                    f"{say(at(many, longer), 'deg')} after {size.horizon}; step by step after {size.horizon}: "
                    f"{listed(many, lengths, name='H = ')}"
                ),
                _falls(figures, pairs),
            )
        ]
        if 2 in size.histories:
            found.append(
                Finding(
                    "H = 2 is a strong improvement over H = 1; one past sample is not enough.",
                    sentence(
                        f"after one step H = 2 has {change(at(one, 2), at(one, 1))} error than H = 1 "
                        f"({say(at(one, 2), 'deg')} against {say(at(one, 1), 'deg')}), after {size.horizon} steps "
                        f"{change(at(many, 2), at(many, 1))} ({say(at(many, 2), 'deg')} against "
                        f"{say(at(many, 1), 'deg')})"
                    ),
                    all_of([below(at(figure, 2), at(figure, 1)) for figure in figures]),
                )
            )
        if 20 in size.histories:
            found.append(
                Finding(
                    "H = 20 is too long: slightly worse than H = 10.",
                    sentence(
                        f"H = 20 is {relation(at(one, 20), at(one, 10))} H = 10 after one step "
                        f"({say(at(one, 20), 'deg')} against {say(at(one, 10), 'deg')}) and "
                        f"{relation(at(many, 20), at(many, 10))} it after {size.horizon} "
                        f"({say(at(many, 20), 'deg')} against {say(at(many, 10), 'deg')})"
                    ),
                    all_of([below(at(figure, 10), at(figure, 20)) for figure in figures]),
                )
            )
        return tuple(found)


class HistoryStride(AccuracyFigures):
    """How far apart the past samples are."""

    name, title = "stride", "Stride of the history"
    question = "Should the past samples be next to each other, or spread out?"
    axis = "history stride s (H = 3)"

    def cells(self, size: Size) -> Mapping[str | float | int, Job]:
        """One ensemble for each stride."""
        return {
            s: plain_fit(size)
            if s == 1
            else fit_job(size, label=f"stride of {s}", history_length=3, history_stride=s)
            for s in size.strides
        }

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """Shorter is better."""
        one, many = figures
        longer = [s for s in size.strides if s > 1]
        far = [s for s in longer if s > 2]
        found = [
            Finding(
                "After one step s = 1 is better than all longer strides.",
                sentence(listed(one, size.strides, name="s = ")),
                all_of([below(at(one, 1), at(one, s)) for s in longer]),
            ),
            Finding(
                "After 500 steps s = 2 is slightly better than s = 1.",
                sentence(
                    f"s = 2 is {relation(at(many, 2), at(many, 1))} s = 1: {listed(many, (1, 2), name='s = ')}"
                ),
                below(at(many, 2), at(many, 1)),
            ),
        ]
        if far:
            found.append(
                Finding(
                    "After 500 steps strides of 3 and more are worse than s = 1, those of 4 and 5 three to four times.",
                    sentence(listed(many, (1, *far), name="s = ")),
                    all_of([below(at(many, 1), at(many, s)) for s in far]),
                )
            )
        return tuple(found)


class RolloutLength(AccuracyFigures):
    """How far ahead the loss looks."""

    name, title = "rollout", "Rollout length of the loss"
    question = "Does a loss over several simulated steps pay?"
    axis = "rollout length R"

    def cells(self, size: Size) -> Mapping[str | float | int, Job]:
        """One for each length; R = 1 is the position loss."""
        members = size.rollout_members
        return {
            R: fit_job(size, label=f"position loss, {members} network", members=members, **PLAIN)
            if R == 1
            else fit_job(
                size,
                label=f"multi-step loss over {R}",
                members=members,
                loss="multi-step",
                rollout=R,
                **PLAIN,
            )
            for R in size.rollouts
        }

    def notes(self, size: Size) -> tuple[str, ...]:
        """One network."""
        count = "one network" if size.rollout_members == 1 else f"{size.rollout_members} networks"
        return (
            *size.notes,
            f"In this study every model is {count}, which the loss over 30 steps is dear enough for.",
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """Better for many steps, worse for one."""
        one, many = figures
        first, last = min(size.rollouts), max(size.rollouts)
        return (
            Finding(
                "After one step shorter rollouts are better: R = 30 has 20 % more error than R = 1.",
                sentence(listed(one, size.rollouts, name="R = ")),
                below(at(one, first), at(one, last)),
            ),
            Finding(
                "After 500 steps longer rollouts tend to be slightly better: R = 30 has 13 % less error than R = 1.",
                sentence(
                    f"R = {last} has {change(at(many, last), at(many, first))} error than R = {first}: "
                    f"{listed(many, size.rollouts, name='R = ')}"
                ),
                below(at(many, last), at(many, first)),
            ),
        )


def _least(figure: Figure) -> str:
    """Where our value is least, and what it is there."""
    row = figure.series[0].values
    if any(value is None for value in row):
        return MISSING
    value, place = min(
        (
            (value, place)
            for value, place in zip(row, figure.places, strict=True)
            if value is not None
        ),
        key=lambda pair: pair[0].mean,
    )
    return f"{place}: {say(value, figure.unit)}"


def plain_fit(size: Size) -> Job:
    """The paper's actuators."""
    return fit_job(size, label="position loss", **PLAIN)


def _value(job: Job, done: Done | None, steps: int) -> Value | None:
    """The overall error of a judgement [deg]."""
    if done is None:
        return None
    errors, overall = done.result["ensemble"], done.result["columns"].index("overall")
    estimate = {end: errors["one_step"][end][overall] for end in ("mean", "low", "high")}
    if steps > 1:
        estimate = {end: errors["curve"][end][-1][overall] for end in ("mean", "low", "high")}
    note = (
        f"{errors['diverged']} of {errors['rollouts']} rollouts ran away"
        if steps > 1 and errors["diverged"]
        else None
    )
    numbers: list[Any] = [
        None if number is None else DEGREES * number for number in estimate.values()
    ]
    if numbers[0] is None:
        return None
    return Value(*numbers, count=done.result["trajectories"], job=job.id, note=note)


def _falls(figures: Sequence[Figure], pairs: Sequence[tuple[Any, Any]]) -> bool | None:
    """Whether the error falls from place to place: False where it rises anywhere, None where it
    only does not fall.
    """
    return all_of(
        [
            below(at(figure, later), at(figure, before))
            for figure in figures
            for before, later in pairs
        ]
    )
