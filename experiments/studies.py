"""The seven studies of the paper: which jobs each takes, and what is made of their results."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.jobs import (
    CONTROL_NOISE,
    SEARCHED_UAN,
    Job,
    evaluate_job,
    in_order,
    plain_fit,
    policy_actuators,
    train_job,
    transfer_jobs,
    uan_job,
)
from experiments.sizes import COLUMNS, Size
from experiments.store import JobResult, Store
from experiments.words import Comparison, Place, at, compare, finding, say, sentence
from genan.evaluation.paper import paper_figure
from genan.evaluation.study_result import Figure, Finding, JobNote, Series, StudyResult, Value
from genan.intervals import wilson

DEGREES = 180.0 / math.pi
WHOLE = COLUMNS[0]
"""The whole method."""
TENNIS = "table-tennis"
HALF = Value(50.0, 50.0, 50.0)
"""Far above chance in all tasks [%]."""

Found = Mapping[str, JobResult]
"""What jobs have found, by their fingerprints; one that is not done is not there."""


class Study(ABC):
    """One question, and how it is answered."""

    name: str
    title: str
    question: str

    @abstractmethod
    def jobs(self, size: Size) -> Sequence[Job]:
        """The last jobs of each line of work; what they need is found from them."""

    @abstractmethod
    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """The figures, as far as there are results."""

    @abstractmethod
    def findings(self, size: Size, figures: Sequence[Figure]) -> Iterable[Finding]:
        """What the paper says, and what the figures say."""

    @abstractmethod
    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What came out, in words; asked for when every value is there."""

    def notes(self, size: Size) -> tuple[str, ...]:
        """What a reader must know."""
        return size.notes

    def result(
        self, size: Size, store: Store, *, failed: Mapping[str, str] | None = None
    ) -> StudyResult:
        """All there is so far; ``failed`` says why jobs failed, by their fingerprints."""
        jobs = in_order(self.jobs(size))
        found = {job.fingerprint: one for job in jobs if (one := store.find(job)) is not None}
        figures = self.figures(size, found)
        values = [value for figure in figures for row in figure.series for value in row.values]
        return StudyResult(
            study=self.name,
            size=size.label,
            title=self.title,
            question=self.question,
            figures=figures,
            findings=tuple(self.findings(size, figures)),
            jobs=tuple(_note(job, found, failed or {}) for job in jobs),
            command=f"python -m experiments {self.name} {size.flags}",
            notes=self.notes(size),
            headline="" if None in values or not values else sentence(self.headline(size, figures)),
        )


def _note(job: Job, found: Found, failed: Mapping[str, str]) -> JobNote:
    one, settings = found.get(job.fingerprint), dict(job.settings)
    if one is None:
        error = failed.get(job.fingerprint)
        state: Any = "missing" if error is None else "failed"
        return JobNote(job.id, job.kind, job.label, state, error=error, settings=settings)
    about = {"versions": dict(one.versions), "hardware": dict(one.hardware)}
    return JobNote(job.id, job.kind, job.label, "done", one.seconds, None, settings, **about)


def _beside(figure: str, series: str, places: Sequence[Place]) -> tuple[Value | None, ...]:
    """The paper's values at these places; empty where it has no such series."""
    paper = paper_figure(figure)
    known = dict(zip(paper.places, paper.series.get(series, ()), strict=False))
    return tuple(known.get(place) for place in places) if known else ()


@dataclass(frozen=True)
class Order:
    """A sentence of the paper about errors: which are lower than which."""

    paper: str
    lower: Callable[[Sequence[Any]], Iterable[tuple[Place, Place]]]
    """From all places, pairs of which the first has the lower error."""
    figures: tuple[int, ...] = (0, 1)
    """0: after one step, 1: after the whole horizon."""


@dataclass(frozen=True)
class AccuracyStudy(Study):
    """Two figures: the error after one step, and after the whole horizon, for several actuators."""

    name: str
    title: str
    question: str
    axis: str
    cells: Callable[[Size], Mapping[Place, Job]]
    """The actuators to judge, by their place on the axis."""
    orders: tuple[Order, ...]
    symbol: str = ""
    """What is before a place in a sentence."""
    series: str = "position loss"
    """The row's name, the paper's too."""
    note: str = ""

    kind: ClassVar[Any] = "bars"

    def jobs(self, size: Size) -> Sequence[Job]:
        """One judgement for each place."""
        return [evaluate_job(size, actuators) for actuators in self.cells(size).values()]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """After one step, and after the horizon."""
        return tuple(self._figure(size, found, steps) for steps in (1, size.horizon))

    def _figure(self, size: Size, found: Found, steps: int) -> Figure:
        places = tuple(self.cells(size))
        jobs = [evaluate_job(size, actuators) for actuators in self.cells(size).values()]
        values = tuple(_error(job, found.get(job.fingerprint), steps > 1) for job in jobs)
        name = f"{self.name}-1-step" if steps == 1 else f"{self.name}-{steps}-steps"
        paper = _beside(name, self.series, places) if steps in (1, 500) else (None,) * len(places)
        return Figure(
            name=name,
            title=f"Error {_after(steps)} ({2 * steps:g} ms)",
            kind=self.kind,
            axis=self.axis,
            places=places,
            quantity="mean absolute joint position error",
            unit="deg",
            series=(Series(self.series, values, paper),),
            logarithmic=self.kind == "lines",
            caption=f"Open loop along the recorded controls of {size.test} trajectories that were "
            "not learnt from; bars are 95 % intervals, ours by bootstrap over trajectories. Ours "
            "is the virtual robot, the paper's the real one.",
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> Iterable[Finding]:
        """Which errors are lower than which."""
        for order in self.orders:
            comparisons = []
            for k in order.figures:
                figure, where = figures[k], _after((1, size.horizon)[k])
                for pair in order.lower(figure.places):
                    if set(pair) <= set(figure.places):
                        comparisons.append(compare(figure, pair, where, symbol=self.symbol))
            yield from finding(order.paper, comparisons)

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """The errors of all models that have names, or where the error is least."""
        parts = []
        for steps, figure in zip((1, size.horizon), figures, strict=False):
            row = {place: at(figure, place) for place in figure.places}
            if self.symbol:
                least = min(row, key=lambda place: row[place].mean)  # type: ignore[union-attr]
                row = {least: row[least]}
            names = (f"{self.symbol}{p} {say(value, figure.unit)}" for p, value in row.items())
            what = "the error is least at" if self.symbol else "the errors are:"
            parts.append(f"{_after(steps)} {what} {', '.join(names)}")
        return "; ".join(parts)

    def notes(self, size: Size) -> tuple[str, ...]:
        """Those of the size, and the study's own."""
        return (*size.notes, *filter(None, [self.note]))


def _after(steps: int) -> str:
    return f"after {steps} step{'' if steps == 1 else 's'}"


def _error(job: Job, found: JobResult | None, rollout: bool) -> Value | None:
    """The overall error of a judgement [deg], one step ahead or at the end of its rollouts."""
    if found is None:
        return None
    errors, overall = found.result["ensemble"], found.result["columns"].index("overall")
    rows = errors["curve"] if rollout else errors["one_step"]
    ends = [rows[end][-1] if rollout else rows[end] for end in ("mean", "low", "high")]
    mean, low, high = (None if end[overall] is None else DEGREES * end[overall] for end in ends)
    if mean is None:
        return None
    ran_away = f"{errors['diverged']} of {errors['rollouts']} rollouts ran away"
    note = ran_away if rollout and errors["diverged"] else None
    return Value(mean, low, high, count=found.result["trajectories"], job=job.id, note=note)


def _trained(size: Size) -> str:
    """What a reader must know about how often policies were trained."""
    count = len(size.training_seeds)
    if count == 1:
        return (
            "Every place is one policy, trained once. The intervals are those of its trials; "
            "policies trained again with the same settings and another seed differ by more."
        )
    return (
        f"Every place is {count} policies, each trained with a seed of its own. The intervals take "
        "all their trials as independent, which those of one policy are not: look at the trainings "
        "one by one."
    )


def trials_of(
    size: Size, task: str, column: str, *, robots: int | None = None, **more: Any
) -> tuple[Job, ...]:
    """The trials of all policies that are trained in this way."""
    policies = (train_job(size, task, column, seed=seed, **more) for seed in size.training_seeds)
    return tuple(job for policy in policies for job in transfer_jobs(size, policy, robots=robots))


def _part(
    trials: Sequence[Job], found: Found, count: Callable[[Mapping[str, Any]], int]
) -> Value | None:
    """The part of all trials that ``count`` counts [%], with Wilson's interval; None where some
    are not done."""
    if any(job.fingerprint not in found for job in trials):
        return None
    results = [found[job.fingerprint].result for job in trials]
    counts, totals = [count(each) for each in results], [each["trials"] for each in results]
    number, total = sum(counts), sum(totals)
    low, high = (round(100.0 * end, 6) for end in wilson(number, total))
    note = None
    if len(trials) > 1:
        policies = [job.needs["policy"].id for job in trials]
        several = len(set(policies)) > 1
        keys = policies if several else [job.id for job in trials]
        sums = {key: [0, 0] for key in keys}
        for key, one, of in zip(keys, counts, totals, strict=True):
            sums[key] = [sums[key][0] + one, sums[key][1] + of]
        each = ", ".join(f"{one} of {of}" for one, of in sums.values())
        note = f"{'training by training' if several else 'robot by robot'}: {each}"
    return Value(100.0 * number / total, low, high, count=total, job=trials[0].id, note=note)


def success(trials: Sequence[Job], found: Found) -> Value | None:
    """The success rate over all trainings and robots [%]."""
    return _part(trials, found, lambda result: int(result["succeeded"]))


class DatasetSize(AccuracyStudy):
    """Accuracy and the reacher's success over the number of trajectories."""

    kind: ClassVar[Any] = "lines"
    rows: ClassVar[Mapping[str, str]] = {"ensemble": WHOLE, "no ensemble": "no ensemble"}
    """How policies are trained, by the paper's names of its ablations."""

    def _trials(self, size: Size, count: int, row: str) -> tuple[Job, ...]:
        # With the whole recording these are the jobs of the study of transfer.
        return trials_of(size, "reacher", self.rows[row], robots=1, trajectories=count)

    def jobs(self, size: Size) -> Sequence[Job]:
        """Judgements, then trials."""
        pairs = itertools.product(size.dataset_sizes, self.rows)
        trials = [job for count, row in pairs for job in self._trials(size, count, row)]
        return [*super().jobs(size), *trials]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """Two of accuracy, one of success."""
        name, counts = "dataset-size-reacher", size.dataset_sizes
        reacher = Figure(
            name=name,
            title="Reacher: success on the robot",
            kind="lines",
            axis=self.axis,
            places=counts,
            quantity="trials that succeed",
            unit="%",
            series=tuple(
                Series(
                    row,
                    tuple(success(self._trials(size, count, row), found) for count in counts),
                    _beside(name, row, counts),
                )
                for row in self.rows
            ),
            logarithmic=True,
            caption=f"{size.trials} trials on the robot that was recorded (the paper: 100); "
            "Wilson's 95 % intervals. No ensemble: the policy is trained on one of the networks.",
        )
        return (*super().figures(size, found), reacher)

    def findings(self, size: Size, figures: Sequence[Figure]) -> Iterable[Finding]:
        """More is better, up to a point; an ensemble helps when there is little."""
        yield from super().findings(size, figures)
        _, many, reacher = figures
        for paper, figure, pair, where in (
            (
                "The errors stop falling at about 1500 trajectories.",
                many,
                (2500, 1500),
                _after(size.horizon),
            ),
            (
                "1000 trajectories (33 minutes) are enough for the reacher to transfer as well as "
                "with 2500.",
                reacher,
                (1000, 2500),
                "reacher with the ensemble",
            ),
        ):
            if set(pair) <= set(figure.places):
                yield from finding(paper, [compare(figure, pair, where, expected="no worse")])
        little = [n for n in size.dataset_sizes if n <= 500] or size.dataset_sizes[:1]
        names, unit = ("one network", "the ensemble"), reacher.unit
        comparisons = [
            Comparison(f"{n} trajectories", names, (at(reacher, n, 1), at(reacher, n)), unit)
            for n in little
        ]
        yield from finding(
            "With little data an ensemble transfers better than one network (50 trajectories: 29 "
            "against 4 %).",
            comparisons,
            some=True,
        )

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What the least and the most data give."""
        _, many, reacher = figures
        return "; ".join(
            f"with {count} trajectories the error {_after(size.horizon)} is "
            f"{say(at(many, count), many.unit)} and {say(at(reacher, count), reacher.unit)} of the "
            "reacher's trials succeed"
            for count in (size.dataset_sizes[0], size.dataset_sizes[-1])
        )

    def notes(self, size: Size) -> tuple[str, ...]:
        """How policies and actuators were made."""
        return (*size.notes, _trained(size), self.note)


class TransferStudy(Study):
    """All tasks, with the paper's ablations."""

    name, title = "transfer", "Transfer to the robot"
    question = (
        "How often do policies trained in simulation succeed on the robot, and which part of the "
        "method matters?"
    )
    claims: ClassVar[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
        "torque loss": (
            "Actuators learnt with the torque loss are as good for reacher and ball-in-a-cup, but "
            "not for table tennis (75 against 96).",
            (TENNIS,),
            ("reacher", "ball-in-a-cup"),
        ),
        "no disagreement penalty": (
            "Without the disagreement penalty table tennis is worse (82 against 96); mixed for the "
            "others (86 against 90, 56 against 75).",
            (TENNIS,),
            (),
        ),
        "no ensemble": (
            "Without an ensemble table tennis is worse (83 against 96), the others are not.",
            (TENNIS,),
            ("reacher", "ball-in-a-cup"),
        ),
        "low action penalty": (
            "A low action penalty is worse in all tasks (70, 55 and 54 against 90, 75 and 96).",
            ("reacher", "ball-in-a-cup", TENNIS),
            (),
        ),
    }
    """What the paper says of each ablation, in which tasks it is worse, and in which it is not."""

    def jobs(self, size: Size) -> Sequence[Job]:
        """Trials of every policy on every robot."""
        pairs = [(task, column) for task in size.training for column in size.ablations[task]]
        return [job for task, column in pairs for job in trials_of(size, task, column)]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """One for each task."""
        return tuple(
            Figure(
                name=f"transfer-{task}",
                title=f"{_spoken(task)}: success on the robot",
                kind="bars",
                axis="how the policy was trained",
                places=(places := size.ablations[task]),
                quantity="trials that succeed",
                unit="%",
                series=(
                    Series(
                        "success",
                        tuple(success(trials_of(size, task, place), found) for place in places),
                        _beside(f"transfer-{task}", "success", places),
                    ),
                ),
                caption=f"{_trials(size)} (the paper: 100 trials on the real robot); Wilson's 95 % "
                "intervals.",
            )
            for task in size.training
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> Iterable[Finding]:
        """What each part is worth."""
        by_task = dict(zip(size.training, figures, strict=True))
        names = (WHOLE, "half of the trials")
        yield from finding(
            "Policies transfer zero-shot on all three tasks: reacher 90, ball-in-a-cup 75, table "
            "tennis 96 of 100.",
            [
                Comparison(task, names, (at(figure, WHOLE), HALF), figure.unit, "higher")
                for task, figure in by_task.items()
            ],
        )
        for column, (paper, worse, no_worse) in self.claims.items():
            expected: dict[str, Any] = {
                **dict.fromkeys(worse, "worse"),
                **dict.fromkeys(no_worse, "no worse"),
            }
            yield from finding(
                paper,
                [
                    compare(figure, (column, WHOLE), task, expected=expected.get(task))
                    for task, figure in by_task.items()
                    if column in figure.places
                ],
            )

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """How often the whole method succeeds."""
        by_task = {
            task: at(figure, WHOLE) for task, figure in zip(size.training, figures, strict=True)
        }
        return "; ".join(
            f"{_spoken(task)} transfers: {round(value.mean / 100.0 * value.count)} of "
            f"{value.count} trials succeed, 95 % interval {value.low:.0f} to {value.high:.0f} %"
            for task, value in by_task.items()
            if value is not None and value.count is not None
        )

    def notes(self, size: Size) -> tuple[str, ...]:
        """What the intervals do not hold."""
        return (*size.notes, _trained(size))


class TableTennisOutcomes(TransferStudy):
    """What becomes of the balls that are not returned."""

    name, title = TENNIS, "Table tennis: what becomes of the ball"
    question = "How do policies fail at table tennis?"
    ends: ClassVar[Mapping[str, str]] = {
        "success": "success",
        "return too long": "too long",
        "return too short": "too short",
        "missed ball": "missed",
    }
    """What can become of a ball, by the paper's names and by those of our trials."""
    other: ClassVar[str] = "other"
    """What the paper has no name for: next to the table, or stopped by the guard."""

    def jobs(self, size: Size) -> Sequence[Job]:
        """Trials of the study of transfer."""
        places = size.ablations.get(TENNIS, ())
        return [job for column in places for job in trials_of(size, TENNIS, column)]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """Parts of all balls, for each kind of training."""
        name, places = "table-tennis-outcomes", size.ablations.get(TENNIS, ())

        def count(result: Mapping[str, Any], end: str) -> int:
            outcomes = {**result["outcomes"]}
            named = {key: outcomes.pop(key, 0) for key in self.ends.values()}
            return int(sum(outcomes.values()) if end == self.other else named[self.ends[end]])

        def value(column: str, end: str) -> Value | None:
            trials = trials_of(size, TENNIS, column)
            return _part(trials, found, lambda result: count(result, end))

        return (
            Figure(
                name=name,
                title="Table tennis: what became of the ball",
                kind="stacked",
                axis="how the policy was trained",
                places=places,
                quantity="trials",
                unit="%",
                series=tuple(
                    Series(
                        end,
                        tuple(value(column, end) for column in places),
                        _beside(name, end, places),
                    )
                    for end in (*self.ends, self.other)
                ),
                caption=f"{_trials(size)}, the same as in the study of transfer. Other: next to "
                "the table, or stopped by the guard.",
            ),
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> Iterable[Finding]:
        """How it fails with and without the whole method: as the paper's do most often?"""
        (figure,) = figures
        for k, column in enumerate(figure.places):
            ours = {row.name: row.values[k] for row in figure.series}
            theirs = {row.name: row.paper[k].mean for row in figure.series if row.paper}  # type: ignore[union-attr]
            paper = ", ".join(f"{end} {mean:g}" for end, mean in theirs.items())
            lost = {
                end: value
                for end, value in ours.items()
                if end != "success" and value is not None and value.mean
            }
            words = ", ".join(f"{end} {say(value, '%')}" for end, value in lost.items())
            agrees = None
            if None in ours.values():
                words = "not all results are there"
            elif len(lost) > 1:
                failures = {end: mean for end, mean in theirs.items() if end != "success"}
                most = max(lost, key=lambda end: lost[end].mean)
                agrees = most == max(failures, key=lambda end: failures[end])
            yield Finding(
                f"{str(column).capitalize()}: of 100 balls {paper}.",
                sentence(f"{column}: {words or 'no ball was lost'}"),
                agrees,
            )

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What becomes of the balls with the whole method."""
        (figure,) = figures
        ends = (f"{row.name} {say(row.values[0], figure.unit)}" for row in figure.series)
        return f"{figure.places[0]}: {', '.join(ends)}"


def _spoken(task: str) -> str:
    return task.replace("-", " ").capitalize()


def _trials(size: Size) -> str:
    robots = f"each of {len(size.robot_seeds)} robots, of which only the first was ever recorded"
    where = "the recorded robot" if len(size.robot_seeds) == 1 else robots
    return f"{size.trials} trials on {where}"


def _rollout_fits(size: Size) -> dict[Place, Job]:
    """One for each length; R = 1 is the position loss."""
    members = size.rollout_members
    return {
        R: plain_fit(size, members=members)
        if R == 1
        else plain_fit(size, members=members, loss="multi-step", rollout=R)
        for R in size.rollouts
    }


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        AccuracyStudy(
            "accuracy",
            "Accuracy of the simulation",
            "Which method of learning an actuator network simulates the arm best?",
            "how the actuators were learnt",
            lambda size: {
                "position loss": plain_fit(size),
                "torque loss": plain_fit(size, loss="torque"),
                "UAN": uan_job(size, **SEARCHED_UAN),
            },
            (
                Order(
                    "The position loss is more accurate than the torque loss: 6 % after one step, "
                    "29 % after 500.",
                    lambda at: [("position loss", "torque loss")],
                ),
                Order(
                    "UAN is less accurate than both: it has 12 times the error of the position "
                    "loss after one step and 11 times after 500.",
                    lambda at: [("position loss", "UAN"), ("torque loss", "UAN")],
                ),
            ),
            series="error",
        ),
        AccuracyStudy(
            "history",
            "Length of the history",
            "How many past samples does the network need?",
            "history length H",
            lambda size: {H: plain_fit(size, history_length=H) for H in size.histories},
            (
                Order(
                    "Longer histories have lower errors up to H = 10, after one step and after "
                    "500.",
                    lambda at: itertools.pairwise([H for H in reversed(at) if H <= 10]),
                ),
                Order(
                    "H = 2 is a strong improvement over H = 1; one past sample is not enough.",
                    lambda at: [(2, 1)],
                ),
                Order("H = 20 is too long: slightly worse than H = 10.", lambda at: [(10, 20)]),
            ),
            symbol="H = ",
        ),
        AccuracyStudy(
            "stride",
            "Stride of the history",
            "Should the past samples be next to each other, or spread out?",
            "history stride s (H = 3)",
            lambda size: {s: plain_fit(size, history_stride=s) for s in size.strides},
            (
                Order(
                    "After one step s = 1 is better than all longer strides.",
                    lambda at: [(1, s) for s in at if s > 1],
                    figures=(0,),
                ),
                Order(
                    "After 500 steps s = 2 is slightly better than s = 1.",
                    lambda at: [(2, 1)],
                    figures=(1,),
                ),
                Order(
                    "After 500 steps strides of 3 and more are worse than s = 1, those of 4 and 5 "
                    "three to four times.",
                    lambda at: [(1, s) for s in at if s > 2],
                    figures=(1,),
                ),
            ),
            symbol="s = ",
        ),
        AccuracyStudy(
            "rollout",
            "Rollout length of the loss",
            "Does a loss over several simulated steps pay?",
            "rollout length R",
            _rollout_fits,
            (
                Order(
                    "After one step shorter rollouts are better: R = 30 has 20 % more error than "
                    "R = 1.",
                    lambda at: [(min(at), max(at))],
                    figures=(0,),
                ),
                Order(
                    "After 500 steps longer rollouts tend to be slightly better: R = 30 has 13 % "
                    "less error than R = 1.",
                    lambda at: [(max(at), min(at))],
                    figures=(1,),
                ),
            ),
            symbol="R = ",
            note="In this study every model is one network: the loss over 30 steps takes long.",
        ),
        DatasetSize(
            "dataset-size",
            "Size of the data set",
            "How many trajectories must be recorded?",
            "trajectories of 2 s",
            lambda size: {n: policy_actuators(size, trajectories=n) for n in size.dataset_sizes},
            (Order("More data lowers both errors.", lambda at: [(max(at), min(at))]),),
            symbol="trajectories = ",
            note=f"Policies need actuators fitted with noise on the controls ({CONTROL_NOISE:g}), "
            "so this study's errors are those of such actuators, a little above those without.",
        ),
        TransferStudy(),
        TableTennisOutcomes(),
    )
}
