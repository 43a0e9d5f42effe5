"""What came out, in sentences: the top of the report."""

from collections.abc import Iterator, Mapping, Sequence

from genan.evaluation.record import EvaluationRecord
from genan.evaluation.study_result import SearchResult, StudyResult, Value
from genan.evaluation.transfer import TransferResult
from genan.report.gather import ArtifactRecord, Found, Material
from genan.report.inspection_record import InspectionRecord
from genan.report.run_charts import scaled, success, task_words
from genan.robot.package import VIRTUAL, robot_folder, robot_names
from genan.tasks.registry import task_entry, task_names
from genan.words import duration, interval, number, percent, plural, reading_unit, time_ahead

#: What an actuator model must beat, in the order in which it is named.
_SIMPLE = ("constant velocity", "standing still")
#: More series of trials of one task than this are summed up in one sentence.
MANY = 4
#: Runs that a warning or a row names, at most.
NAMED = 4


def sentences(material: Material) -> Iterator[tuple[str, str]]:
    """Each with the anchor of the section that has the rest of it."""
    for task in dict.fromkeys(one.content.task for one in material.transfers):
        some = [one for one in material.transfers if one.content.task == task]
        if len(some) > MANY:
            yield "transfer", _range_sentence(task, some)
        else:
            for transfer in some:
                yield "transfer", _transfer_sentence(transfer, named=len(some) > 1)
    for evaluation in material.evaluations:
        if len(material.evaluations) == 1 and evaluation.content.verdict:
            yield from (("actuators", sentence) for sentence in evaluation.content.verdict)
        else:
            yield "actuators", _accuracy_sentence(evaluation, named=len(material.evaluations) > 1)
    for inspection in material.inspections:
        yield "data", data_sentence(inspection.content)
    for policy in material.policies:
        if judged(policy.content) is not None:
            yield "training", _policy_sentence(policy, named=len(material.policies) > 1)
    for study in material.studies:
        yield "studies", _study_sentence(study.content)
    for search in material.searches:
        yield "studies", search_sentence(search.content)


def about_tasks(material: Material) -> list[str]:
    """What each task is that runs are about."""
    found = {one.content.task for one in material.transfers}
    found |= {one.content.contract.task for one in material.policies}
    return [task_entry(name).summary for name in task_names() if name in found]


def about_robots(material: Material) -> list[str]:
    """What the folder of each robot says about it in ``about.txt``."""
    found = {str(one.content.about.get("robot", "")) for one in material.transfers}
    found |= {one.content.contract.robot for one in (*material.actuators, *material.policies)}
    names = {name.removeprefix(VIRTUAL) for name in found} & set(robot_names())
    paths = [robot_folder(name) / "about.txt" for name in sorted(names)]
    return [path.read_text(encoding="utf-8").strip() for path in paths if path.is_file()]


def judged(policy: ArtifactRecord) -> Value | None:
    """Success rate of a policy in simulation [%], where it was judged."""
    found = policy.record.get("judged") or {}
    if found.get("success") is None:
        return None
    low, high = found["interval"]
    return Value(100.0 * found["success"], 100.0 * low, 100.0 * high, found["episodes"])


def data_sentence(run: InspectionRecord) -> str:
    """The verdict on the data."""
    amount = plural(run.trajectories, "trajectory", "trajectories")
    much = f"{run.file} ({amount}, {duration(run.duration)} in all)"
    count = len(run.suspicious)
    if not count:
        return f"The data: nothing suspicious in {much}."
    first = f"{plural(count, 'thing looks', 'things look')} suspicious in {much}"
    return f"The data: {first}. {'First: ' if count > 1 else ''}{run.suspicious[0]}"


def search_sentence(result: SearchResult) -> str:
    """The best trial of a search compared with the defaults."""
    best, defaults = result.best, result.defaults
    text = f"Search “{result.what}” ({result.size}): "
    if best is None or best.value is None:
        return f"{text}no trial is done."
    chosen = ", ".join(f"{name} {value}" for name, value in best.settings.items())
    text += f"{result.objective} {number(best.value)} {result.unit} with {chosen}"
    if defaults is None or defaults.value is None:
        return f"{text}."
    return f"{text}; {number(defaults.value)} {result.unit} with the defaults."


def version_warning(made: Sequence[tuple[str, Mapping[str, str]]]) -> str | None:
    """A sentence where runs come from different versions of genan."""
    labels: dict[str, dict[str, None]] = {}
    for label, versions in made:
        if "genan" in versions:
            labels.setdefault(versions["genan"], {})[label] = None
    if len(labels) < 2:
        return None
    parts = [f"{version} made {named(list(labels[version]))}" for version in sorted(labels)]
    return (
        f"These runs come from {len(labels)} versions of genan, so numbers may differ for that "
        f"reason alone: {'; '.join(parts)}."
    )


def named(labels: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
    return ", ".join(labels[:NAMED]) + more


def _transfer_sentence(found: Found[TransferResult], *, named: bool) -> str:
    trials = found.content
    task, which = task_words(trials.task).capitalize(), f" ({found.label})" if named else ""
    if not trials.trials:
        return f"{task}{which}: no trial was finished."
    specimens = [seed for seed in trials.robot_seeds if seed is not None]
    robot = trials.about.get("robot", "an unnamed robot")
    on = f"{len(specimens)} specimens of {robot}" if len(specimens) > 1 else robot
    low, high = (percent(100.0 * end) for end in trials.interval)
    verb = "succeed" if trials.succeeded != 1 else "succeeds"
    return (
        f"{task} transfers{which}: {trials.succeeded} of {plural(len(trials.trials), 'trial')} "
        f"{verb} on {on}, 95 % interval {low} to {high} %."
    )


def _range_sentence(task: str, some: Sequence[Found[TransferResult]]) -> str:
    """The worst and the best of many series of trials."""
    done = [(success(one.content), one.label) for one in some if one.content.trials]
    done.sort(key=lambda row: row[0].mean)
    text = f"{task_words(task).capitalize()} was tried in {len(some)} series of trials"
    if not done:
        return f"{text}, none of which was finished."
    worst, best = (
        f"{interval(rate.mean, rate.low, rate.high, '%')} % ({label})"
        for rate, label in (done[0], done[-1])
    )
    return f"{text}, in which from {worst} to {best} of the trials succeed."


def _accuracy_sentence(found: Found[EvaluationRecord], *, named: bool) -> str:
    """How far the model is off, one step ahead and at the end, compared with the simplest guess."""
    run = found.content
    model = run.models[0]
    unit, factor = reading_unit(run.unit)

    def words(value: Value | None, *, ends: bool = True) -> str:
        value = scaled(value, factor)
        if value is None:
            return "without bound"
        low, high = (value.low, value.high) if ends else (None, None)
        return f"{interval(value.mean, low, high)} {unit}"

    text = (
        f"One step ({time_ahead(run.dt)}) ahead the model{f' ({found.label})' if named else ''} is "
        f"off by {words(model.one_step)}, after {time_ahead(run.dt * len(model.curve))} by "
        f"{words(model.curve[-1])}"
    )
    simple = next((one for name in _SIMPLE for one in run.models if one.name == name), None)
    if simple is not None:
        guess, then = (words(v, ends=False) for v in (simple.one_step, simple.curve[-1]))
        text += f"; {simple.name} would be off by {guess} and {then}"
    if model.diverged:
        text += f"; {model.diverged} of {model.rollouts} rollouts ran away"
    seen = " This was judged on the data that it was fitted to." if run.training_data else ""
    return f"{text}.{seen}"


def _policy_sentence(found: Found[ArtifactRecord], *, named: bool) -> str:
    rate = judged(found.content)
    assert rate is not None
    which = f" ({found.label})" if named else ""
    return (
        f"In simulation the {task_words(found.content.contract.task)} policy{which} succeeds in "
        f"{percent(rate.mean)} % of {rate.count} episodes ({percent(rate.low or 0.0)} to "
        f"{percent(rate.high or 0.0)} %)."
    )


def _study_sentence(result: StudyResult) -> str:
    """How a study's findings compare with the paper's."""
    marks = [finding.agrees for finding in result.findings]
    words = {True: ("agrees", "agree"), False: ("differs", "differ"), None: ("is open", "are open")}
    parts = [plural(marks.count(mark), *words[mark]) for mark in words if mark in marks]
    found = f"of {plural(len(marks), 'finding')} of the paper {', '.join(parts)}"
    found = found if marks else "nothing to compare"
    if result.headline:
        found = f"{result.headline} {found[0].upper()}{found[1:]}"
    missing = sum(job.state != "done" for job in result.jobs)
    late = f"; {missing} of its {len(result.jobs)} jobs are not done" if missing else ""
    return f"Study “{result.title}” ({result.size}): {found}{late}."
