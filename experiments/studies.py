"""The seven studies of the paper: which jobs each takes, and what is made of their results.

What each asks and what the paper says is in studies.toml.
"""

import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.jobs import (
    SEARCHED_UAN,
    Job,
    evaluate_job,
    in_order,
    like_uan,
    plain_fit,
    policy_actuators,
    train_job,
    transfer_jobs,
    uan_job,
)
from experiments.sizes import COLUMNS, FAST, PAPER, Size
from experiments.store import JobResult, Store
from experiments.words import (
    Place,
    ValueComparison,
    at,
    below,
    finding,
    say,
    sentence,
    trainings_interval,
)
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
TRANSFERS = {True: "does not transfer", False: "transfers", None: "cannot be told from half"}
"""Whether a policy does, by whether it is below ``HALF``."""
PPO = {FAST: "fast PPO", PAPER: "PPO as in the paper"}
"""Names of rows, by presets."""
NEVER = Value(0.0, 0.0, 100.0 * wilson(0, 100)[1])
"""What did not occur in the paper's 100 trials [%]."""
POINTS = 20
"""Of the curve of a long training."""
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
        places = tuple(dict.fromkeys(place for row in self.rows.values() for place in row))
        paper = paper_figures().get(self.about["name"])
        rows = dict(paper.series) if paper else {}
        first = PPO[PAPER] if PPO[PAPER] in self.rows else next(iter(self.rows))
        rows.setdefault(first, next(iter(rows.values()), ()))  # whatever our row is called

        def papers(name: str) -> tuple[Value | None, ...]:
            known = dict(zip(paper.places, rows.get(name, ()), strict=False)) if paper else {}
            return tuple(map(known.get, places)) if known else ()

        def ours(row: Mapping[Place, Cell]) -> tuple[Value | None, ...]:
            return tuple(row[at].value(found) if at in row else None for at in places)

        series = tuple(Series(name, ours(row), papers(name)) for name, row in self.rows.items())
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
        panels = list(zip(self.panels(size), figures, strict=True))
        rows = dict.fromkeys(name for panel, _ in panels for name in panel.rows)
        for claim in self.claims:
            for name in rows if self.kind == "transfer" else [None]:
                comparisons = list(_comparisons(claim, panels, self, name))
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
        panels = self.panels(size)
        figures = tuple(panel.figure(found) for panel in panels)
        cells = [cell for panel in panels for row in panel.rows.values() for cell in row.values()]
        whole = bool(cells) and all(cell.value(found) is not None for cell in cells)
        trained = () if self.kind == "accuracy" else _trained(size)
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
            headline=self.headline(size, figures) if whole else "",
        )


def _note(job: Job, found: Mapping[str, JobResult], failed: Mapping[str, str]) -> JobNote:
    one, settings = found.get(job.fingerprint), dict(job.settings)
    if one is None:
        error = failed.get(job.fingerprint)
        state: Any = "missing" if error is None else "failed"
        return JobNote(job.id, job.kind, job.label, state, error=error, settings=settings)
    about = {"versions": dict(one.versions), "hardware": dict(one.hardware)}
    return JobNote(job.id, job.kind, job.label, "done", one.seconds, None, settings, **about)


def _trained(size: Size) -> tuple[str, ...]:
    """What a reader must know about how policies were trained."""
    limits = "Time limits are bootstrapped in every training, with the paper's PPO table too."
    count = len(size.training_seeds)
    if count == 1:
        return (
            "Every place is one policy, trained once. The intervals are Wilson's, of its trials; "
            "policies trained again with the same settings and another seed differ by more.",
            limits,
        )
    return (
        f"Every place is the mean of {count} policies, each trained with a seed of its own, unless "
        "its note says one training. The intervals cover chance of trials and of trainings "
        "(Student's t over the trainings, never narrower than Wilson's of all trials), on these "
        "robots.",
        limits,
    )


def _comparisons(
    claim: Mapping[str, Any], panels: Sequence[tuple[Panel, Figure]], study: Study, name: str | None
) -> Iterable[ValueComparison]:
    """What a claim of the paper compares (studies.toml), in the row ``name`` where it matters."""
    for panel, figure in (panels[k] for k in claim.get("figures", ())):
        where = panel.where
        there = [place for place in claim.get("falling", ()) if place in figure.places]
        pairs: list[tuple[Any, Any, Any]] = [(b, a, "lower") for a, b in itertools.pairwise(there)]
        for key in ("lower", "higher", "no_worse"):
            pairs += [(a, b, key.replace("_", " ")) for a, b in claim.get(key, ())]
        ends = {"first": figure.places[0], "last": figure.places[-1]}
        for a, b, expected in pairs:
            one, other = ends.get(a, a), ends.get(b, b)
            if one in figure.places and other in figure.places:
                names = (f"{study.symbol}{one}", f"{study.symbol}{other}")
                values = (at(figure, one), at(figure, other))
                yield ValueComparison(where, names, values, figure.unit, expected)
    if "ensemble_up_to" in claim:
        figure = panels[-1][1]
        few = [count for count in figure.places if float(count) <= claim["ensemble_up_to"]]
        for count in few or figure.places[:1]:
            values = (at(figure, count, 1), at(figure, count))
            names = ("one network", "the ensemble")
            yield ValueComparison(f"{count} trajectories", names, values, figure.unit)
    column = claim.get("column", claim.get("above_half"))
    for panel, figure in panels:
        row: Mapping[Place, Cell] = panel.rows.get(name, {}) if name else {}
        if column not in row or WHOLE not in row:
            continue
        task, index = panel.where, list(panel.rows).index(name or "")
        where = f"{task}, {name}" if len({n for p, _ in panels for n in p.rows}) > 1 else task
        value, whole = (at(figure, place, index) for place in (column, WHOLE))
        if "above_half" in claim:
            pair = (column, "half of the trials"), (value, HALF)
            yield ValueComparison(where, *pair, figure.unit, "higher")
            continue
        worse, no_worse = task in claim["worse_in"], task in claim.get("no_worse_in", ())
        verdict: Any = "worse" if worse else "no worse" if no_worse else None
        yield ValueComparison(where, (column, WHOLE), (value, whole), figure.unit, verdict)


CELLS: dict[str, Callable[[Size], Mapping[Place, Job]]] = {
    "accuracy": lambda size: {
        "position loss": plain_fit(size),
        "torque loss": plain_fit(size, loss="torque"),
        "UAN": (uan := uan_job(size, **SEARCHED_UAN)),
        "GenAN of UAN's size": like_uan(size, uan),
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
            close = [at for at in row if at != least and below(row[least], row[at]) is None]
            beside = f", not distinguishable from {', '.join(map(str, close))}" if close else ""
            parts.append(
                f"{where} the error is least at {study.symbol}{least}: {say(row[least], 'deg')}"
                f"{beside}"
            )
        else:
            errors = (f"{place} {say(value, 'deg')}" for place, value in row.items())
            parts.append(f"{where} the errors are: {', '.join(errors)}")
    return "; ".join(parts)


def trials_of(
    size: Size, task: str, column: str, preset: str, *, robots: int | None = None, **more: Any
) -> tuple[Job, ...]:
    """The trials of all policies that are trained in this way."""
    seeds = size.seeds_of(task, preset)
    in_a_row = seeds == tuple(range(seeds[0], seeds[0] + len(seeds)))
    together = [seeds] if in_a_row else [(seed,) for seed in seeds]
    return tuple(
        job
        for some in together
        for policy in (train_job(size, task, column, preset=preset, seeds=some, **more),)
        for seed in some
        for job in transfer_jobs(size, policy, seed, robots=robots)
    )


def _part(end: str) -> Callable[[Cell, Sequence[Mapping[str, Any]]], Value]:
    """The part of all trials that ended so [%], with an interval of trials and trainings."""

    def count(result: Mapping[str, Any]) -> int:
        if end == "success":
            return int(result["succeeded"])
        outcomes = {**result["outcomes"]}
        named = {name: outcomes.pop(theirs, 0) for name, theirs in ENDS.items()}
        return int(sum(outcomes.values()) if end == OTHER else named[end])

    def read(cell: Cell, results: Sequence[Mapping[str, Any]]) -> Value:
        counts = [(count(result), int(result["trials"])) for result in results]
        policies = _summed((job.settings["training_seed"] for job in cell.jobs), counts)
        robots = _summed((job.settings["robot_seed"] for job in cell.jobs), counts)
        each, of = zip(*policies, strict=True)
        low, high = (round(100.0 * edge, 6) for edge in trainings_interval(each, of))
        rates = tuple(100.0 * one / total for one, total in policies)
        value = Value(sum(rates) / len(rates), low, high, sum(of), cell.jobs[0].id, None, rates)
        if value.spread is None:
            notes = ["one training: the interval is of its trials alone"]
        else:
            rows = ", ".join(f"{rate:.1f}" for rate in rates)
            notes = [f"{len(rates)} trainings, {value.spread:.1f} points apart (std): {rows} %"]
        if len(robots) > 1:
            notes.append(f"robot by robot: {', '.join(f'{one} of {n}' for one, n in robots)}")
        return replace(value, note="; ".join(notes))

    return read


def _summed(keys: Iterable[Any], counts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The counts of each key together, in the order in which the keys come first."""
    sums: dict[Any, tuple[int, int]] = {}
    for key, (one, of) in zip(keys, counts, strict=True):
        before = sums.get(key, (0, 0))
        sums[key] = before[0] + one, before[1] + of
    return list(sums.values())


def _dataset(study: Study, size: Size) -> list[Panel]:
    """Accuracy, and the reacher's success, over the number of trajectories."""
    preset = next(iter(size.training["reacher"]))

    def row(column: str) -> dict[Place, Cell]:
        # With the whole recording these are the jobs of the study of transfer.
        trials = {
            count: trials_of(size, "reacher", column, preset, robots=1, trajectories=count)
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
        "caption": f"{size.trials} trials of each policy on the robot that was recorded (the "
        f"paper: 100); {PPO[preset]}. No ensemble: the policy is trained on one of the networks.",
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
    """Success of each kind of training, one figure for each task; and the curves of long ones."""
    success = {"quantity": "trials that succeed", "unit": "%"}
    panels = [
        Panel(
            task,
            {
                PPO[preset]: {
                    column: Cell(trials_of(size, task, column, preset), _part("success"))
                    for column in made.columns
                }
                for preset, made in presets.items()
            },
            {
                "name": f"transfer-{task}",
                "title": f"{_spoken(task)}: success on the robot",
                "kind": "bars",
                "axis": study.axis,
                "caption": f"{_trials(size)} (the paper: 100 trials on the real robot).",
                **success,
            },
        )
        for task, presets in size.training.items()
    ]
    for task, presets in size.training.items():
        for preset in (preset for preset, made in presets.items() if made.once):
            job = train_job(size, task, WHOLE, preset=preset, seeds=size.seeds_of(task, preset))
            steps = [job.settings["training"]["steps"] * k / POINTS for k in range(1, POINTS + 1)]
            about = {
                "name": f"learning-{task}",
                "title": f"{_spoken(task)}: success in simulation while it learns",
                "kind": "lines",
                "axis": "steps [M]",
                "caption": f"One training, {PPO[preset]}, with bootstrapped time limits.",
                **success,
                "quantity": "episodes that succeed",
            }
            row: dict[Place, Cell] = {s / 1e6: Cell((job,), _learnt(s)) for s in steps}
            panels.append(Panel(f"{task} while it learns", {PPO[preset]: row}, about))
    return panels


def _learnt(steps: float) -> Callable[[Cell, Sequence[Mapping[str, Any]]], Value | None]:
    """The success of a training's episodes after that many steps [%]."""

    def read(cell: Cell, results: Sequence[Mapping[str, Any]]) -> Value | None:
        curve = results[0]["curve"]
        near = min(curve, key=lambda point: abs(point[0] - steps), default=None)
        return Value(100.0 * near[1], job=cell.jobs[0].id) if near else None

    return read


def _transfer_headline(study: Study, size: Size, figures: Sequence[Figure]) -> str:
    """How often the whole method succeeds."""
    parts = []
    for task, figure in zip(size.training, figures, strict=False):
        for row in figure.series:
            value = dict(zip(figure.places, row.values, strict=True))[WHOLE]
            if value is not None:
                spread = "" if value.spread is None else f", spread {value.spread:.1f} points"
                many = f"{len(value.trainings)} training{'s' if value.spread is not None else ''}"
                parts.append(
                    f"{_spoken(task)}, {row.name}, {TRANSFERS[below(value, HALF)]}: "
                    f"{say(value, '%')} of {value.count} trials succeed ({many}{spread})"
                )
    return "; ".join(parts)


def _spoken(task: str) -> str:
    return task.replace("-", " ").capitalize()


def _trials(size: Size) -> str:
    robots = f"each of {len(size.robot_seeds)} robots, of which only the first was ever recorded"
    where = "the recorded robot" if len(size.robot_seeds) == 1 else robots
    return f"{size.trials} trials of each policy on {where}"


def _outcomes(study: Study, size: Size) -> list[Panel]:
    """What becomes of the balls, for each kind of training."""
    preset, made = next(iter(size.training[TENNIS].items()))
    trials = {column: trials_of(size, TENNIS, column, preset) for column in made.columns}
    about = {
        "name": "table-tennis-outcomes",
        "title": "Table tennis: what became of the ball",
        "kind": "stacked",
        "axis": study.axis,
        "quantity": "trials",
        "unit": "%",
        "caption": f"{_trials(size)}, the same as in the study of transfer, {PPO[preset]}. Other: "
        "next to the table, or stopped by the guard.",
    }
    rows: dict[str, dict[Place, Cell]] = {
        end: {column: Cell(jobs, _part(end)) for column, jobs in trials.items()}
        for end in (*ENDS, OTHER)
    }
    return [Panel(TENNIS, rows, about)]


def _outcome_findings(figure: Figure) -> Iterable[Finding]:
    """Whether policies fail most often in the way in which the paper's do, as far as these told
    their ways apart."""
    for k, column in enumerate(figure.places):
        theirs: dict[str, Any] = {row.name: row.paper[k] for row in figure.series if row.paper}
        if None in theirs.values() or not theirs:
            continue
        paper = ", ".join(f"{end} {value.mean:g}" for end, value in theirs.items())
        ours = {row.name: row.values[k] for row in figure.series if row.name != "success"}
        worst = max(theirs.keys() & ours.keys(), key=lambda end: theirs[end].mean)
        comparisons = [
            ValueComparison(
                str(column),
                (worst, end),
                (ours[worst], value),
                figure.unit,
                "higher" if below(theirs.get(end, NEVER), theirs[worst]) else None,
            )
            for end, value in ours.items()
            if end != worst
        ]
        yield from finding(f"{str(column).capitalize()}: of 100 balls {paper}.", comparisons)


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
