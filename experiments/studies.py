"""The seven studies of the paper: which jobs each takes, and what is made of their results.

What each asks and what the paper says is in studies.toml.
"""

import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.jobs import (
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
from experiments.words import Place, ValueComparison, at, finding, say, sentence
from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import (
    Figure,
    Finding,
    JobNote,
    Series,
    StudyResult,
    Value,
    paper_figures,
)

DEGREES = 180.0 / math.pi
WHOLE = COLUMNS[0]
"""The whole method."""
TENNIS = "table-tennis"
HALF = Value(50.0, 50.0, 50.0)
"""Far above chance in all tasks [%]."""
ENDS = {
    "success": "success",
    "return too long": "too long",
    "return too short": "too short",
    "missed ball": "missed",
}
"""What can become of a ball, by the paper's names and by those of our trials."""
OTHER = "other"
"""What the paper has no name for: next to the table, or stopped by the guard."""


@dataclass(frozen=True)
class Cell:
    """One value of a figure: the jobs that it takes, and how it is read from what they found."""

    jobs: tuple[Job, ...]
    read: Callable[["Cell", Sequence[Mapping[str, Any]]], Value | None]

    def value(self, found: Mapping[str, JobResult]) -> Value | None:
        """The value; None while a job is missing."""
        results = [found[job.fingerprint].result for job in self.jobs if job.fingerprint in found]
        return self.read(self, results) if len(results) == len(self.jobs) else None


@dataclass(frozen=True)
class Panel:
    """A figure before its values are known."""

    where: str  # what a sentence calls it: "after 500 steps", "reacher"
    rows: Mapping[str, Mapping[Place, Cell]]
    about: Mapping[str, Any]  # the other fields of ``Figure``

    def figure(self, found: Mapping[str, JobResult]) -> Figure:
        """The figure, as far as there are results, with the paper's values."""
        places = tuple(next(iter(self.rows.values())))
        paper = paper_figures().get(self.about["name"])

        def papers(name: str) -> tuple[Value | None, ...]:
            if paper is not None and name not in paper.series:
                return ()
            known = dict(zip(paper.places, paper.series[name], strict=True)) if paper else {}
            return tuple(known.get(place) for place in places)

        series = tuple(
            Series(name, tuple(cell.value(found) for cell in row.values()), papers(name))
            for name, row in self.rows.items()
        )
        return Figure(places=places, series=series, **self.about)


@dataclass(frozen=True)
class Study:
    """One question, and how it is answered."""

    name: str
    kind: str  # one of ``KINDS``
    title: str
    question: str
    claims: Sequence[Mapping[str, Any]] = ()  # what the paper says (studies.toml)
    axis: str = "how the policy was trained"
    symbol: str = ""  # what is before a place in a sentence
    series: str = "position loss"  # name of the row of errors, the paper's too
    note: str = ""

    def panels(self, size: Size) -> Sequence[Panel]:
        """Its figures, before their values are known."""
        return KINDS[self.kind][0](self, size)

    def jobs(self, size: Size) -> Sequence[Job]:
        """The last jobs of each line of work; what they need is found from them."""
        rows = [row for panel in self.panels(size) for row in panel.rows.values()]
        return [job for row in rows for cell in row.values() for job in cell.jobs]

    def findings(self, size: Size, figures: Sequence[Figure]) -> Iterable[Finding]:
        """What the paper says, and what the figures say."""
        if self.kind == "outcomes":
            yield from _outcome_findings(figures[0])
        places = [panel.where for panel in self.panels(size)]
        for claim in self.claims:
            comparisons = list(_comparisons(claim, dict(zip(places, figures, strict=True)), self))
            yield from finding(claim["paper"], comparisons, some="ensemble_up_to" in claim)

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What came out, in words; every value must be there."""
        return sentence(KINDS[self.kind][1](self, size, figures))

    def result(
        self, size: Size, store: Store, *, failed: Mapping[str, str] | None = None
    ) -> StudyResult:
        """All there is so far; ``failed`` says why jobs failed, by their fingerprints."""
        jobs = in_order(self.jobs(size))
        found = {job.fingerprint: one for job in jobs if (one := store.find(job)) is not None}
        figures = tuple(panel.figure(found) for panel in self.panels(size))
        values = [value for figure in figures for row in figure.series for value in row.values]
        trained = () if self.kind == "accuracy" else (_trained(size),)
        return StudyResult(
            study=self.name,
            size=size.label,
            title=self.title,
            question=self.question,
            figures=figures,
            findings=tuple(self.findings(size, figures)),
            jobs=tuple(_note(job, found, failed or {}) for job in jobs),
            command=f"python -m experiments {self.name} {size.flags}",
            notes=(*size.notes, *trained, *filter(None, [self.note])),
            headline="" if None in values or not values else self.headline(size, figures),
        )


def _note(job: Job, found: Mapping[str, JobResult], failed: Mapping[str, str]) -> JobNote:
    one, settings = found.get(job.fingerprint), dict(job.settings)
    if one is None:
        error = failed.get(job.fingerprint)
        state: Any = "missing" if error is None else "failed"
        return JobNote(job.id, job.kind, job.label, state, error=error, settings=settings)
    about = {"versions": dict(one.versions), "hardware": dict(one.hardware)}
    return JobNote(job.id, job.kind, job.label, "done", one.seconds, None, settings, **about)


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


def _comparisons(
    claim: Mapping[str, Any], figures: Mapping[str, Figure], study: Study
) -> Iterable[ValueComparison]:
    """What a claim of the paper compares (studies.toml)."""
    numbered = list(figures.items())
    for where, figure in (numbered[k] for k in claim.get("figures", ())):
        there = [place for place in claim.get("falling", ()) if place in figure.places]
        pairs: list[tuple[Any, Any, Any]] = [(b, a, "lower") for a, b in itertools.pairwise(there)]
        pairs += [(a, b, "lower") for a, b in claim.get("lower", ())]
        pairs += [(a, b, "no worse") for a, b in claim.get("no_worse", ())]
        ends = {"first": figure.places[0], "last": figure.places[-1]}
        for a, b, expected in pairs:
            one, other = ends.get(a, a), ends.get(b, b)
            if one in figure.places and other in figure.places:
                names = (f"{study.symbol}{one}", f"{study.symbol}{other}")
                values = (at(figure, one), at(figure, other))
                yield ValueComparison(where, names, values, figure.unit, expected)
    if "ensemble_up_to" in claim:
        figure = numbered[-1][1]
        few = [count for count in figure.places if float(count) <= claim["ensemble_up_to"]]
        for count in few or figure.places[:1]:
            values = (at(figure, count, 1), at(figure, count))
            names = ("one network", "the ensemble")
            yield ValueComparison(f"{count} trajectories", names, values, figure.unit)
    for task, figure in numbered if "above_half" in claim else ():
        names = (WHOLE, "half of the trials")
        yield ValueComparison(task, names, (at(figure, WHOLE), HALF), figure.unit, "higher")
    for task, figure in numbered if "column" in claim else ():
        names = (claim["column"], WHOLE)
        worse, no_worse = task in claim["worse_in"], task in claim.get("no_worse_in", ())
        if names[0] in figure.places:
            values = (at(figure, names[0]), at(figure, WHOLE))
            verdict: Any = "worse" if worse else "no worse" if no_worse else None
            yield ValueComparison(task, names, values, figure.unit, verdict)


CELLS: dict[str, Callable[[Size], Mapping[Place, Job]]] = {
    "accuracy": lambda size: {
        "position loss": plain_fit(size),
        "torque loss": plain_fit(size, loss="torque"),
        "UAN": uan_job(size, **SEARCHED_UAN),
    },
    "history": lambda size: {H: plain_fit(size, history_length=H) for H in size.histories},
    "stride": lambda size: {s: plain_fit(size, history_stride=s) for s in size.strides},
    "rollout": lambda size: {
        R: plain_fit(size, members=1, **({} if R == 1 else {"loss": "multi-step", "rollout": R}))
        for R in size.rollouts
    },
    "dataset-size": lambda size: {
        count: policy_actuators(size, trajectories=count) for count in size.dataset_sizes
    },
}
"""The actuators that a study judges, by their place on the axis."""


def _accuracy(study: Study, size: Size) -> list[Panel]:
    """The error after one step, and after the whole horizon."""
    jobs = {place: evaluate_job(size, job) for place, job in CELLS[study.name](size).items()}
    return [
        Panel(
            _after(steps),
            {study.series: {place: Cell((job,), _error(steps)) for place, job in jobs.items()}},
            {
                "name": f"{study.name}-{steps}-step{'' if steps == 1 else 's'}",
                "title": f"Error {_after(steps)} ({2 * steps:g} ms)",
                "kind": "lines" if study.kind == "dataset-size" else "bars",
                "logarithmic": study.kind == "dataset-size",
                "axis": study.axis,
                "quantity": "mean absolute joint position error",
                "unit": "deg",
                "caption": f"Open loop along the recorded controls of {size.test} trajectories "
                "that were not learnt from; bars are 95 % intervals, ours by bootstrap over "
                "trajectories. Ours is the virtual robot, the paper's the real one.",
            },
        )
        for steps in (1, size.horizon)
    ]


def _after(steps: int) -> str:
    return f"after {steps} step{'' if steps == 1 else 's'}"


def _error(steps: int) -> Callable[[Cell, Sequence[Mapping[str, Any]]], Value | None]:
    """The overall error of a judgement [deg], one step ahead or at the end of its rollouts."""

    def read(cell: Cell, results: Sequence[Mapping[str, Any]]) -> Value | None:
        (result,) = results
        errors, overall = result["ensemble"], result["columns"].index("overall")
        rows = errors["one_step" if steps == 1 else "curve"]
        ends = [rows[end] if steps == 1 else rows[end][-1] for end in ("mean", "low", "high")]
        mean, low, high = (None if e[overall] is None else DEGREES * e[overall] for e in ends)
        if mean is None:
            return None
        ran_away = f"{errors['diverged']} of {errors['rollouts']} rollouts ran away"
        note = ran_away if steps > 1 and errors["diverged"] else None
        return Value(mean, low, high, result["trajectories"], cell.jobs[0].id, note)

    return read


def _accuracy_headline(study: Study, size: Size, figures: Sequence[Figure]) -> str:
    """The errors of all models that have names, or where the error is least."""
    parts = []
    for where, figure in zip((_after(1), _after(size.horizon)), figures, strict=True):
        row: dict[Place, Any] = {place: at(figure, place) for place in figure.places}
        if study.symbol:
            least = min(row, key=lambda place: row[place].mean)
            parts.append(
                f"{where} the error is least at {study.symbol}{least}: {say(row[least], 'deg')}"
            )
        else:
            errors = (f"{place} {say(value, 'deg')}" for place, value in row.items())
            parts.append(f"{where} the errors are: {', '.join(errors)}")
    return "; ".join(parts)


def trials_of(
    size: Size, task: str, column: str, *, robots: int | None = None, **more: Any
) -> tuple[Job, ...]:
    """The trials of all policies that are trained in this way."""
    policies = (train_job(size, task, column, seed=seed, **more) for seed in size.training_seeds)
    return tuple(job for policy in policies for job in transfer_jobs(size, policy, robots=robots))


def _part(end: str) -> Callable[[Cell, Sequence[Mapping[str, Any]]], Value]:
    """The part of all trials that ended so [%], with Wilson's interval."""

    def count(result: Mapping[str, Any]) -> int:
        if end == "success":
            return int(result["succeeded"])
        outcomes = {**result["outcomes"]}
        named = {name: outcomes.pop(theirs, 0) for name, theirs in ENDS.items()}
        return int(sum(outcomes.values()) if end == OTHER else named[end])

    def read(cell: Cell, results: Sequence[Mapping[str, Any]]) -> Value:
        policies = [job.needs["policy"].id for job in cell.jobs]
        several = len(set(policies)) > 1
        sums: dict[str, list[int]] = {}
        for policy, job, result in zip(policies, cell.jobs, results, strict=True):
            one = sums.setdefault(policy if several else job.id, [0, 0])
            one[:] = one[0] + count(result), one[1] + result["trials"]
        number, total = (sum(column) for column in zip(*sums.values(), strict=True))
        low, high = (round(100.0 * edge, 6) for edge in wilson(number, total))
        each = ", ".join(f"{one} of {of}" for one, of in sums.values())
        by = "training by training" if several else "robot by robot"
        note = f"{by}: {each}" if len(sums) > 1 else None
        return Value(100.0 * number / total, low, high, total, cell.jobs[0].id, note)

    return read


def _dataset(study: Study, size: Size) -> list[Panel]:
    """Accuracy, and the reacher's success, over the number of trajectories."""

    def row(column: str) -> dict[Place, Cell]:
        # With the whole recording these are the jobs of the study of transfer.
        trials = {
            count: trials_of(size, "reacher", column, robots=1, trajectories=count)
            for count in size.dataset_sizes
        }
        return {count: Cell(jobs, _part("success")) for count, jobs in trials.items()}

    about = {
        "name": "dataset-size-reacher",
        "title": "Reacher: success on the robot",
        "kind": "lines",
        "logarithmic": True,
        "axis": study.axis,
        "quantity": "trials that succeed",
        "unit": "%",
        "caption": f"{size.trials} trials on the robot that was recorded (the paper: 100); "
        "Wilson's 95 % intervals. No ensemble: the policy is trained on one of the networks.",
    }
    rows = {"ensemble": row(WHOLE), "no ensemble": row("no ensemble")}
    return [*_accuracy(study, size), Panel("reacher with the ensemble", rows, about)]


def _dataset_headline(study: Study, size: Size, figures: Sequence[Figure]) -> str:
    """What the least and the most data give."""
    _, many, reacher = figures
    return "; ".join(
        f"with {count} trajectories the error {_after(size.horizon)} is "
        f"{say(at(many, count), many.unit)} and {say(at(reacher, count), reacher.unit)} of the "
        "reacher's trials succeed"
        for count in dict.fromkeys((many.places[0], many.places[-1]))
    )


def _transfer(study: Study, size: Size) -> list[Panel]:
    """Success of each kind of training, one figure for each task."""
    return [
        Panel(
            task,
            {"success": {c: Cell(trials_of(size, task, c), _part("success")) for c in columns}},
            {
                "name": f"transfer-{task}",
                "title": f"{_spoken(task)}: success on the robot",
                "kind": "bars",
                "axis": study.axis,
                "quantity": "trials that succeed",
                "unit": "%",
                "caption": f"{_trials(size)} (the paper: 100 trials on the real robot); Wilson's "
                "95 % intervals.",
            },
        )
        for task, columns in ((task, size.columns(task)) for task in size.training)
    ]


def _transfer_headline(study: Study, size: Size, figures: Sequence[Figure]) -> str:
    """How often the whole method succeeds."""
    values: dict[str, Any] = {t: at(f, WHOLE) for t, f in zip(size.training, figures, strict=True)}
    return "; ".join(
        f"{_spoken(task)} transfers: {round(value.mean / 100.0 * value.count)} of {value.count} "
        f"trials succeed, 95 % interval {value.low:.0f} to {value.high:.0f} %"
        for task, value in values.items()
    )


def _spoken(task: str) -> str:
    return task.replace("-", " ").capitalize()


def _trials(size: Size) -> str:
    robots = f"each of {len(size.robot_seeds)} robots, of which only the first was ever recorded"
    where = "the recorded robot" if len(size.robot_seeds) == 1 else robots
    return f"{size.trials} trials on {where}"


def _outcomes(study: Study, size: Size) -> list[Panel]:
    """What becomes of the balls, for each kind of training."""
    trials = {column: trials_of(size, TENNIS, column) for column in size.columns(TENNIS)}
    about = {
        "name": "table-tennis-outcomes",
        "title": "Table tennis: what became of the ball",
        "kind": "stacked",
        "axis": study.axis,
        "quantity": "trials",
        "unit": "%",
        "caption": f"{_trials(size)}, the same as in the study of transfer. Other: next to the "
        "table, or stopped by the guard.",
    }
    rows: dict[str, dict[Place, Cell]] = {
        end: {column: Cell(jobs, _part(end)) for column, jobs in trials.items()}
        for end in (*ENDS, OTHER)
    }
    return [Panel(TENNIS, rows, about)]


def _outcome_findings(figure: Figure) -> Iterable[Finding]:
    """Whether policies fail most often in the way in which the paper's do."""
    for k, column in enumerate(figure.places):
        theirs: dict[str, Any] = {row.name: row.paper[k] for row in figure.series if row.paper}
        paper = ", ".join(f"{end} {value.mean:g}" for end, value in theirs.items())
        ours: dict[str, Any] = {row.name: row.values[k] for row in figure.series}
        done = None not in ours.values()
        lost = {e: v for e, v in ours.items() if done and e != "success" and v.mean}
        theirs.pop("success")
        agrees = None
        if len(lost) > 1:
            most, worst = (max(ends, key=lambda e: ends[e].mean) for ends in (lost, theirs))
            agrees = most == worst
        words = ", ".join(f"{end} {say(value, '%')}" for end, value in lost.items())
        words = words or ("no ball was lost" if done else "not all results are there")
        claim = f"{str(column).capitalize()}: of 100 balls {paper}."
        yield Finding(claim, sentence(f"{column}: {words}"), agrees)


def _outcomes_headline(study: Study, size: Size, figures: Sequence[Figure]) -> str:
    """What becomes of the balls with the whole method."""
    (figure,) = figures
    ends = (f"{row.name} {say(row.values[0], figure.unit)}" for row in figure.series)
    return f"{figure.places[0]}: {', '.join(ends)}"


KINDS: Mapping[
    str, tuple[Callable[[Study, Size], list[Panel]], Callable[[Study, Size, Sequence[Figure]], str]]
] = {
    "accuracy": (_accuracy, _accuracy_headline),
    "dataset-size": (_dataset, _dataset_headline),
    "transfer": (_transfer, _transfer_headline),
    "outcomes": (_outcomes, _outcomes_headline),
}
"""The figures of each kind of study, and its headline."""

STUDIES: Mapping[str, Study] = {
    name: Study(name, **content)
    for name, content in tomllib.loads(
        Path(__file__).with_name("studies.toml").read_text(encoding="utf-8")
    ).items()
}
"""All studies by their names, in the order of the paper."""
