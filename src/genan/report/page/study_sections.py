"""The sections on studies: figures beside the paper's, findings in words, what repeats it."""

from genan.evaluation.study_result import Finding, JobNote, StudyResult
from genan.report.page.gather import Found, Material
from genan.report.page.markup import Markup, Part, joined, table, tag
from genan.report.page.sections import Sheet, charts
from genan.report.page.words import duration, plural, slug

#: How a finding stands to the paper's: sign, word, class.
_MARKS = {
    True: ("✓", "agrees", "yes"),
    False: ("✗", "differs", "no"),
    None: ("?", "cannot tell", "open"),
}


def studies_section(material: Material, sheet: Sheet) -> Markup:
    """All studies."""
    return joined(_study(found, sheet) for found in material.studies)


def study_anchor(found: Found[StudyResult]) -> str:
    """Where a study is in the page."""
    return slug(f"study-{found.label}")


def _study(found: Found[StudyResult], sheet: Sheet) -> Markup:
    result = found.content
    prefix = f"{result.study}-{result.size}"
    return tag(
        "article",
        tag("h3", result.title, " ", tag("span", result.size, class_="badge")),
        tag("p", result.question, class_="question"),
        tag("ul", *(tag("li", note) for note in result.notes), class_="notes")
        if result.notes
        else None,
        None if result.complete else tag("p", _unfinished(result), class_="warning"),
        tag("div", *(_finding(finding) for finding in result.findings), class_="findings")
        if result.findings
        else None,
        charts(sheet.chart(figure, prefix) for figure in result.figures),
        tag("p", "To repeat it: ", tag("code", result.command)),
        _jobs(result),
        tag("p", found.label, class_="path"),
        class_="study",
        id=study_anchor(found),
    )


def _unfinished(result: StudyResult) -> str:
    states = [job.state for job in result.jobs]
    words = [f"{states.count(state)} {state}" for state in ("failed", "missing") if state in states]
    return f"This study is not finished: of its {plural(len(states), 'job')} {' and '.join(words)}."


def _finding(finding: Finding) -> Markup:
    sign, word, kind = _MARKS[finding.agrees]
    return tag(
        "div",
        tag("p", tag("span", f"{sign} {word}", class_=f"mark {kind}")),
        tag("p", tag("b", "The paper: "), finding.paper),
        tag("p", tag("b", "Here: "), finding.ours),
        class_=f"finding {kind}",
    )


def _jobs(result: StudyResult) -> Part:
    if not result.jobs:
        return None
    rows: list[list[Part]] = [
        [
            job.label or job.id,
            job.kind,
            job.state if job.error is None else f"{job.state}: {job.error}",
            "–" if job.seconds is None else duration(job.seconds),
            _settings(job),
        ]
        for job in result.jobs
    ]
    total = sum(job.seconds or 0.0 for job in result.jobs)
    words = f"{plural(len(result.jobs), 'job')}, {duration(total)} of work in all"
    return tag(
        "details",
        tag("summary", words),
        table(["job", "kind", "state", "took", "settings"], rows, numeric=(3,)),
    )


def _settings(job: JobNote) -> str:
    return ", ".join(f"{name} {value}" for name, value in job.settings.items())
