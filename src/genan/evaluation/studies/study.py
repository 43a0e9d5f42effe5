"""A study: a declared grid of jobs, and what is made of their results."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from genan.evaluation.studies.job import Job, in_order
from genan.evaluation.studies.sizes import Size
from genan.evaluation.studies.store import Done, Store
from genan.evaluation.studies.words import MISSING
from genan.evaluation.study_result import Figure, Finding, JobNote, StudyResult

JOBS = "jobs"
"""Folder of the jobs within that of the studies."""

Found = Mapping[str, Done]
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
        """The pictures, as far as there are results."""

    @abstractmethod
    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """What the paper says, and what the pictures say."""

    @abstractmethod
    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What came out, in a sentence."""

    def notes(self, size: Size) -> tuple[str, ...]:
        """What a reader must know."""
        return size.notes

    def result(
        self, size: Size, store: Store, *, failed: Mapping[str, str] | None = None
    ) -> StudyResult:
        """All there is so far; ``failed`` says why jobs failed, by their fingerprints."""
        everything = in_order(self.jobs(size))
        found = {
            job.fingerprint: done for job in everything if (done := store.find(job)) is not None
        }
        figures = self.figures(size, found)
        headline = self.headline(size, figures)
        return StudyResult(
            study=self.name,
            size=size.label,
            title=self.title,
            question=self.question,
            figures=figures,
            findings=tuple(_so_far(finding) for finding in self.findings(size, figures)),
            jobs=tuple(
                _note(job, found.get(job.fingerprint), (failed or {}).get(job.fingerprint))
                for job in everything
            ),
            command=f"genan study {self.name} {size.flags}",
            notes=self.notes(size),
            headline="" if MISSING in headline else headline,
        )


def store_in(folder: Path) -> Store:
    """The store of the studies in ``folder``."""
    return Store(folder / JOBS)


def _so_far(finding: Finding) -> Finding:
    """A finding that some results are missing for is none yet."""
    if MISSING not in finding.ours:
        return finding
    return Finding(finding.paper, f"Not all jobs are done. {finding.ours}", None)


def _note(job: Job, done: Done | None, error: str | None) -> JobNote:
    if done is None:
        state = "missing" if error is None else "failed"
        return JobNote(job.id, job.kind, job.label, state, error=error, settings=dict(job.settings))  # type: ignore[arg-type]
    return JobNote(
        job.id,
        job.kind,
        job.label,
        "done",
        seconds=done.seconds,
        settings=dict(job.settings),
        versions=dict(done.versions),
        hardware=dict(done.hardware),
    )
