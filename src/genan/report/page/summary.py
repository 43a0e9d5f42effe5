"""What came out, in sentences: the top of the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from genan.evaluation.study_result import StudyResult, Value
from genan.evaluation.transfer import Transfer
from genan.report.page.figures import scaled, success
from genan.report.page.gather import Found, Material
from genan.report.page.runs import Evaluated, Inspected, Trained
from genan.report.page.words import (
    ahead,
    duration,
    number,
    percent,
    plural,
    robot_words,
    task_words,
    written,
)
from genan.report.style import reading_unit

#: What an actuator model must beat, in the order in which it is named.
_SIMPLE = ("constant velocity", "standing still")

#: More series of trials of one task than this are told in one sentence.
MANY = 4

INTRODUCTION = (
    "A robot's actuators rarely do what they are told: muscles, gears and belts have friction, delay and hysteresis "
    "that no data sheet describes. Genan learns what they do from recorded joint positions and controls alone, without "
    "any torque sensor. What it has learnt becomes part of a physics simulator; in this simulator a policy, a small "
    "neural network that controls the robot, practises a task; and the finished policy is put on the robot as it is, "
    "with no further training. If the task then works, simulation and robot agree where it matters."
)
PAMY2 = (
    "The robot is PAMY2, an arm with four joints. Each is pulled by a pair of artificial muscles: rubber tubes that "
    "shorten when air is let in. Such an arm is light, fast and hard to model, which makes it a good test. The virtual "
    "PAMY2 is a program that stands in for it: its physics are its own, and nothing that learns or simulates here may "
    "look inside it."
)
TASKS = {
    "reacher": "Reacher: move all joints to a given position within two seconds.",
    "ball-in-a-cup": "Ball-in-a-cup: swing up a ball that hangs on a string, and catch it in a cup at the arm's end.",
    "table-tennis": "Table tennis: return a ball to the other side of the table.",
}


def about_robot(material: Material) -> str | None:
    """A paragraph on the robot, where it is one that we know."""
    groups: tuple[tuple[Found[Any], ...], ...] = (
        material.evaluations,
        material.actuators,
        material.policies,
    )
    robots = {found.content.robot for group in groups for found in group}
    robots |= {str(one.content.about.get("robot", "")) for one in material.transfers}
    known = any(robot.startswith(("pamy2", "virtual-pamy2")) for robot in robots) or bool(
        material.studies
    )
    return PAMY2 if known else None


def tasks(material: Material) -> list[str]:
    """What each task is that runs are about."""
    there = {one.content.task for one in material.transfers} | {
        one.content.task for one in material.policies
    }
    return [words for task, words in TASKS.items() if task in there]


def sentences(material: Material) -> Iterator[tuple[str, str]]:
    """Each with the anchor of the section that has the rest of it."""
    for task in dict.fromkeys(one.content.task for one in material.transfers):
        some = [one for one in material.transfers if one.content.task == task]
        for transfer in some if len(some) <= MANY else []:
            yield "transfer", transfer_sentence(transfer, named=len(some) > 1)
        if len(some) > MANY:
            yield "transfer", range_sentence(task, some)
    for evaluation in material.evaluations:
        if len(material.evaluations) == 1 and evaluation.content.verdict:
            yield from (("actuators", sentence) for sentence in evaluation.content.verdict)
        else:
            yield "actuators", accuracy_sentence(evaluation, named=len(material.evaluations) > 1)
    for inspection in material.inspections:
        yield "data", data_sentence(inspection)
    for policy in material.policies:
        if policy.content.judged is not None:
            yield "training", policy_sentence(policy, named=len(material.policies) > 1)
    for study in material.studies:
        yield "studies", study_sentence(study.content)


def transfer_sentence(found: Found[Transfer], *, named: bool) -> str:
    """How many trials succeed."""
    trials = found.content
    task, which = task_words(trials.task).capitalize(), f" ({found.label})" if named else ""
    if not trials.trials:
        return f"{task}{which}: no trial was finished."
    specimens = [seed for seed in trials.robot_seeds if seed is not None]
    robot = robot_words(
        str(trials.about.get("robot", "an unnamed robot")), specimen=bool(specimens)
    )
    on = f"{len(specimens)} specimens of {robot}" if len(specimens) > 1 else robot
    rate = success(trials)
    verb = "succeed" if trials.succeeded != 1 else "succeeds"
    return (
        f"{task} transfers{which}: {trials.succeeded} of {plural(len(trials.trials), 'trial')} {verb} on {on}, 95 % "
        f"interval {percent(rate.low or 0.0)} to {percent(rate.high or 0.0)} %."
    )


def range_sentence(task: str, some: Sequence[Found[Transfer]]) -> str:
    """The worst and the best of many series of trials."""
    done = sorted(
        (one for one in some if one.content.trials), key=lambda one: success(one.content).mean
    )
    text = f"{task_words(task).capitalize()} was tried in {len(some)} series of trials"
    if not done:
        return f"{text}, none of which was finished."
    worst, best = (
        f"{written(success(one.content), '%')} % ({one.label})" for one in (done[0], done[-1])
    )
    return f"{text}, in which from {worst} to {best} of the trials succeed."


def accuracy_sentence(found: Found[Evaluated], *, named: bool) -> str:
    """How far the model is off, one step ahead and at the end, beside the simplest guess."""
    run = found.content
    model = run.models[0]
    unit, factor = reading_unit(run.si_unit)
    end = ahead(run.dt * len(model.curve))
    last = scaled(model.curve[-1], factor)

    def words(value: Value | None) -> str:
        return f"{written(value, unit)} {unit}" if value is not None else "without bound"

    text = (
        f"One step ({ahead(run.dt)}) ahead the model{f' ({found.label})' if named else ''} is off by "
        f"{words(scaled(model.one_step, factor))}, after {end} by {words(last)}"
    )
    simple = next((one for name in _SIMPLE for one in run.models if one.name == name), None)
    if simple is not None:
        there = scaled(simple.curve[-1], factor)
        then = "without bound" if there is None else f"{number(there.mean)} {unit}"
        guess = scaled(simple.one_step, factor)
        assert guess is not None
        text += f"; {simple.name} would be off by {number(guess.mean)} {unit} and {then}"
    if model.diverged:
        text += f"; {model.diverged} of {model.rollouts} rollouts ran away"
    seen = " This was judged on the data that it was fitted to." if run.training_data else ""
    return f"{text}.{seen}"


def data_sentence(found: Found[Inspected]) -> str:
    """The data's verdict."""
    run = found.content
    much = (
        f"{plural(run.trajectories, 'trajectory', 'trajectories')}, {duration(run.duration)} in all"
    )
    if not run.suspicious:
        return f"The data's verdict: nothing suspicious in {run.file} ({much})."
    first = run.suspicious[0]
    if len(run.suspicious) == 1:
        return f"The data's verdict: one thing looks suspicious in {run.file} ({much}). {first}"
    return f"The data's verdict: {len(run.suspicious)} things look suspicious in {run.file} ({much}); the first: {first}"


def policy_sentence(found: Found[Trained], *, named: bool) -> str:
    """How good the policy is where it was trained."""
    run = found.content
    assert run.judged is not None
    rate, low, high, episodes = run.judged
    which = f" ({found.label})" if named else ""
    return (
        f"In simulation the {task_words(run.task)} policy{which} succeeds in {percent(rate)} % of {episodes} episodes "
        f"({percent(low)} to {percent(high)} %)."
    )


def study_sentence(result: StudyResult) -> str:
    """How a study's findings stand beside the paper's."""
    marks = [finding.agrees for finding in result.findings]
    parts = [
        f"{marks.count(mark)} {one if marks.count(mark) == 1 else many}"
        for mark, one, many in (
            (True, "agrees", "agree"),
            (False, "differs", "differ"),
            (None, *["cannot be told"] * 2),
        )
        if mark in marks
    ]
    found = (
        f"of {plural(len(marks), 'finding')} of the paper {', '.join(parts)}"
        if marks
        else "nothing to compare"
    )
    if result.headline:
        found = f"{result.headline} {found[0].upper()}{found[1:]}"
    text = f"Study “{result.title}” ({result.size}): {found}"
    missing = sum(job.state != "done" for job in result.jobs)
    return (
        f"{text}; {missing} of its {len(result.jobs)} jobs are not done." if missing else f"{text}."
    )
