"""How often policies succeed on the robot, and what the parts of the method are good for."""

from collections.abc import Mapping, Sequence
from typing import Any

from genan.evaluation.paper import paper_figure
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.recipes import train_job, transfer_jobs
from genan.evaluation.studies.sizes import COLUMNS, Size
from genan.evaluation.studies.study import Found, Study
from genan.evaluation.studies.words import MISSING, all_of, at, below, relation, say, sentence
from genan.evaluation.study_result import Figure, Finding, Series, Value
from genan.intervals import wilson

TENNIS = "table-tennis"
ENDS = {"success": ("success",), "return too long": ("too long",), "return too short": ("too short",),
        "missed ball": ("missed",)}  # fmt: skip
"""What can become of a ball, by the paper's names and by those of our trials."""
OTHER = "other"
"""What the paper has no name for: beside the table, or stopped by the guard."""

WIDE = 20.0
"""An interval wider than this [%] says nothing of a difference that it does not show."""
HALF = Value(50.0, 50.0, 50.0)
ONE_TRAINING = (
    "Every place is one policy, trained once. The intervals are those of its trials; policies trained again with the "
    "same settings and another seed differ by more."
)
SEVERAL_TRAININGS = (
    "Every place is {count} policies, each trained with a seed of its own. The intervals take all their trials as "
    "independent, which those of one policy are not: look at the trainings one by one."
)


def trainings(size: Size) -> str:
    """What a reader must know about how often policies were trained."""
    count = len(size.training_seeds)
    return ONE_TRAINING if count == 1 else SEVERAL_TRAININGS.format(count=count)


def success(trials: Sequence[Job], found: Found) -> Value | None:
    """The success rate over all trainings and robots [%], with Wilson's interval; None where one is
    missing.
    """
    done = [found.get(job.fingerprint) for job in trials]
    if any(one is None for one in done):
        return None
    results = [one.result for one in done if one is not None]
    succeeded, total = (sum(result[name] for result in results) for name in ("succeeded", "trials"))
    return _percent(succeeded, total, job=trials[0].id, note=_one_by_one(trials, results))


def _one_by_one(trials: Sequence[Job], results: Sequence[Mapping[str, Any]]) -> str | None:
    """What the sum is made of: training by training where there are several, or else robot by
    robot.
    """
    if len(results) < 2:
        return None
    policies = list(dict.fromkeys(job.needs["policy"].id for job in trials))
    parts = [[result] for result in results]
    if len(policies) > 1:
        parts = [
            [
                result
                for job, result in zip(trials, results, strict=True)
                if job.needs["policy"].id == policy
            ]
            for policy in policies
        ]
    each = (
        f"{sum(r['succeeded'] for r in part)} of {sum(r['trials'] for r in part)}" for part in parts
    )
    return f"{'training by training' if len(policies) > 1 else 'robot by robot'}: {', '.join(each)}"


def _percent(count: int, total: int, *, job: str, note: str | None = None) -> Value:
    """A part of all trials [%], with Wilson's interval."""
    low, high = (round(100.0 * end, 6) for end in wilson(count, total))
    return Value(100.0 * count / total, low, high, count=total, job=job, note=note)


class TransferStudy(Study):
    """All tasks, with the paper's ablations."""

    name, title = "transfer", "Transfer to the robot"
    question = "How often do policies trained in simulation succeed on the robot, and which part of the method matters?"

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """How often the whole method succeeds."""
        return sentence("; ".join(_success_words(figure) for figure in figures))

    def notes(self, size: Size) -> tuple[str, ...]:
        """What the intervals do not hold."""
        return (*size.notes, trainings(size))

    def jobs(self, size: Size) -> Sequence[Job]:
        """Trials of every policy on every robot."""
        return [
            job
            for task in size.training
            for column in size.ablations[task]
            for job in trials_of(size, task, column)
        ]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """One for each task."""
        return tuple(self._figure(size, task, found) for task in size.training)

    def _figure(self, size: Size, task: str, found: Found) -> Figure:
        paper = paper_figure(f"transfer-{task}")
        known = dict(zip(paper.places, paper.series["success"], strict=True))
        places = tuple(column for column in COLUMNS if column in size.ablations[task])
        values = tuple(success(trials_of(size, task, column), found) for column in places)
        return Figure(
            name=f"transfer-{task}",
            title=f"{task.replace('-', ' ').capitalize()}: success on the robot",
            kind="bars",
            axis="how the policy was trained",
            places=places,
            quantity="trials that succeed",
            unit="%",
            series=(Series("success", values, tuple(known.get(column) for column in places)),),
            caption=f"{size.trials} trials on {_robots(size)} (the paper: 100 trials on the real robot); Wilson's 95 % "
            "intervals.",
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """What each part is worth."""
        whole = COLUMNS[0]
        pictures = dict(zip(size.training, figures, strict=True))
        found = [
            Finding(
                "Policies transfer zero-shot on all three tasks: reacher 90, ball-in-a-cup 75, table tennis 96 of 100.",
                sentence(
                    ", ".join(
                        f"{task}: {say(at(picture, whole), '%')}"
                        for task, picture in pictures.items()
                    )
                ),
                # Half of the trials is far above chance in all three.
                all_of([below(HALF, at(picture, whole)) for picture in figures]),
            )
        ]
        claims: dict[str, tuple[str, dict[str, bool | None]]] = {
            "torque loss": (
                "Actuators learnt with the torque loss are as good for reacher and ball-in-a-cup, but not for table "
                "tennis (75 against 96).",
                {"reacher": None, "ball-in-a-cup": None, TENNIS: True},
            ),
            "no disagreement penalty": (
                "Without the disagreement penalty table tennis is worse (82 against 96); mixed for the others (86 "
                "against 90, 56 against 75).",
                {TENNIS: True},
            ),
            "no ensemble": (
                "Without an ensemble table tennis is worse (83 against 96), the others are not.",
                {"reacher": None, "ball-in-a-cup": None, TENNIS: True},
            ),
            "low action penalty": (
                "A low action penalty is worse in all tasks (70, 55 and 54 against 90, 75 and 96).",
                {"reacher": True, "ball-in-a-cup": True, TENNIS: True},
            ),
        }
        for column, (claim, expected) in claims.items():
            tried = {
                task: picture for task, picture in pictures.items() if column in picture.places
            }
            if tried:
                words = "; ".join(
                    f"{task}: {say(at(picture, column), '%')}, {relation(at(picture, column), at(picture, whole))} "
                    f"{say(at(picture, whole), '%')}"
                    for task, picture in tried.items()
                )
                answers = [
                    _as_expected(at(picture, column), at(picture, whole), expected[task])
                    for task, picture in tried.items()
                    if task in expected
                ]
                found.append(Finding(claim, sentence(words), all_of(answers)))
        return tuple(found)


def _success_words(figure: Figure) -> str:
    """One figure's first place: "Reacher transfers: 94 of 100 trials succeed, 95 % interval 88 to
    97 %".
    """
    value = at(figure, COLUMNS[0])
    task = figure.title.split(":")[0]
    if value is None or value.count is None or value.low is None or value.high is None:
        return f"{task}: {MISSING}"
    count = round(value.mean / 100.0 * value.count)
    interval = f"95 % interval {value.low:.0f} to {value.high:.0f} %"
    return f"{task} transfers: {count} of {value.count} trials succeed, {interval}"


class TableTennisOutcomes(Study):
    """What becomes of the balls that are not returned."""

    name, title = TENNIS, "Table tennis: what becomes of the ball"
    question = "How do policies fail at table tennis?"

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What becomes of most balls that are lost."""
        (figure,) = figures
        if not figure.places:
            return MISSING
        place = figure.places[0]
        ends = {row.name: at(figure, place, k) for k, row in enumerate(figure.series)}
        return sentence(
            f"{place}: {', '.join(f'{end} {say(value, figure.unit)}' for end, value in ends.items())}"
        )

    def notes(self, size: Size) -> tuple[str, ...]:
        """What the intervals do not hold."""
        return (*size.notes, trainings(size))

    def jobs(self, size: Size) -> Sequence[Job]:
        """The trials of the study of transfer."""
        if TENNIS not in size.training:
            return []
        return [job for column in size.ablations[TENNIS] for job in trials_of(size, TENNIS, column)]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """Parts of all balls, for each way of training."""
        paper = paper_figure("table-tennis-outcomes")
        places = tuple(column for column in COLUMNS if column in size.ablations.get(TENNIS, ()))
        series = []
        for end in (*ENDS, OTHER):
            known = (
                dict(zip(paper.places, paper.series[end], strict=True))
                if end in paper.series
                else {}
            )
            values = tuple(_part(trials_of(size, TENNIS, column), found, end) for column in places)
            beside = tuple(known.get(column) for column in places) if known else ()
            series.append(Series(end, values, beside))
        return (
            Figure(
                name="table-tennis-outcomes",
                title="Table tennis: what became of the ball",
                kind="stacked",
                axis="how the policy was trained",
                places=places,
                quantity="trials",
                unit="%",
                series=tuple(series),
                caption=f"The same {size.trials} trials on {_robots(size)} as in the study of transfer. "
                f"{OTHER.capitalize()}: beside the table, or stopped by the guard.",
            ),
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """How it fails with and without the whole method."""
        (figure,) = figures
        found = []
        for column in figure.places:
            ends = {row.name: at(figure, column, k) for k, row in enumerate(figure.series)}
            failed = {
                end: value
                for end, value in ends.items()
                if end != "success" and value is not None and value.mean
            }
            theirs = {
                row.name: row.paper[figure.places.index(column)]
                for row in figure.series
                if row.paper
            }
            paper = ", ".join(
                f"{end} {value.mean:g}" for end, value in theirs.items() if value is not None
            )
            words = (
                ", ".join(f"{end} {say(value, '%')}" for end, value in failed.items())
                or "no ball was lost"
            )
            if ends["success"] is None:
                words = "no result"
            most = max(failed, key=lambda end: failed[end].mean, default=None)
            worst = max(
                (end for end in theirs if end != "success"), key=lambda end: _mean(theirs[end])
            )
            agrees = (
                None
                if ends["success"] is None or most is None or len(failed) < 2
                else most == worst
            )
            found.append(
                Finding(
                    f"{str(column).capitalize()}: of 100 balls {paper}.",
                    sentence(f"{column}: {words}"),
                    agrees,
                )
            )
        return tuple(found)


def trials_of(size: Size, task: str, column: str) -> tuple[Job, ...]:
    """The trials of all policies that were trained in this way."""
    policies = (train_job(size, task, column, seed=seed) for seed in size.training_seeds)
    return tuple(job for policy in policies for job in transfer_jobs(size, policy))


def _part(trials: Sequence[Job], found: Found, end: str) -> Value | None:
    """The part of the trials that ended so [%]."""
    done = [found.get(job.fingerprint) for job in trials]
    if any(one is None for one in done):
        return None
    outcomes = [one.result["outcomes"] for one in done if one is not None]
    total = sum(sum(each.values()) for each in outcomes)
    named = {name for names in ENDS.values() for name in names}
    wanted = (
        {name for each in outcomes for name in each if name not in named}
        if end == OTHER
        else set(ENDS[end])
    )
    count = sum(each.get(name, 0) for each in outcomes for name in wanted)
    return _percent(count, total, job=trials[0].id)


def _as_expected(value: Value | None, whole: Value | None, worse: bool | None) -> bool | None:
    """Whether ``value`` is worse than ``whole`` where the paper's is, and is not where the paper's
    is not.
    """
    answer = below(value, whole)
    if value is None or whole is None:
        return None
    if answer is None and (_wide(value) or _wide(whole)):
        return None
    return answer is True if worse else answer is not True


def _wide(value: Value) -> bool:
    """Whether an interval is too wide to say that there is no difference."""
    return value.low is None or value.high is None or value.high - value.low > WIDE


def _robots(size: Size) -> str:
    count = len(size.robot_seeds)
    return (
        "the recorded robot"
        if count == 1
        else f"each of {count} robots, of which only the first was ever recorded"
    )


def _mean(value: Value | None) -> float:
    return 0.0 if value is None else value.mean
