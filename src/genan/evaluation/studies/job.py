"""A job: one piece of work of a study, known by the fingerprint of everything that its result
depends on.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

RECIPES = {"collect": 1, "fit": 1, "fit-uan": 1, "evaluate": 1, "train": 1, "transfer": 1}
"""What kinds of jobs there are. The number is part of every fingerprint: it is raised when a kind
of job comes to mean something else, so that old results are not taken for new ones."""


@dataclass(frozen=True)
class Job:
    """What to do, and with the results of which others."""

    kind: str
    """One of ``RECIPES``."""
    settings: Mapping[str, Any]
    """All that it depends on, as JSON can hold it."""
    needs: Mapping[str, "Job"] = field(default_factory=dict)
    """The jobs whose results it works on, by the part that they play: ``data``, ``actuators``,
    ``policy``."""
    label: str = ""
    """What a person calls it; no part of the fingerprint."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of kind, settings, and the fingerprints of what it needs."""
        content = {
            "kind": self.kind,
            "recipe": RECIPES[self.kind],
            "settings": self.settings,
            "needs": {part: job.fingerprint for part, job in self.needs.items()},
        }
        return hashlib.sha256(
            json.dumps(content, sort_keys=True, allow_nan=False).encode()
        ).hexdigest()

    @property
    def id(self) -> str:
        """Its name: kind and the beginning of the fingerprint."""
        return f"{self.kind}-{self.fingerprint[:12]}"

    def as_json(self) -> dict[str, Any]:
        """The job and all it needs, as JSON can hold it."""
        return {
            "kind": self.kind,
            "settings": dict(self.settings),
            "needs": {part: job.as_json() for part, job in self.needs.items()},
            "label": self.label,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Job":
        """What ``as_json`` gave."""
        needs = {part: cls.from_json(job) for part, job in content["needs"].items()}
        return cls(content["kind"], content["settings"], needs, content["label"])


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """These jobs and all that they need, each once, and none before what it needs."""
    found: dict[str, Job] = {}

    def visit(job: Job) -> None:
        if job.fingerprint in found:
            return
        for need in job.needs.values():
            visit(need)
        found[job.fingerprint] = job

    for job in jobs:
        visit(job)
    return list(found.values())
