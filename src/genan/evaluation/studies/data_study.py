"""How much data is needed: for an accurate simulation, and for a policy that works on the robot."""

from collections.abc import Mapping, Sequence

from genan.evaluation.paper import paper_figure, paper_values
from genan.evaluation.studies.accuracy_study import AccuracyFigures
from genan.evaluation.studies.job import Job
from genan.evaluation.studies.recipes import (
    CONTROL_NOISE,
    policy_actuators,
    train_job,
    transfer_jobs,
)
from genan.evaluation.studies.sizes import Size
from genan.evaluation.studies.study import Found
from genan.evaluation.studies.transfer_study import success, trainings
from genan.evaluation.studies.words import all_of, at, below, listed, relation, say, sentence
from genan.evaluation.study_result import Figure, Finding, Series, Value

ENSEMBLES = {"ensemble": "position loss", "no ensemble": "no ensemble"}
"""How policies are trained in this study, by the paper's names of its ablations."""


class DatasetSize(AccuracyFigures):
    """Accuracy and the reacher's success over the number of trajectories."""

    name, title = "dataset-size", "Size of the data set"
    question = "How many trajectories must be recorded?"
    axis = "trajectories of 2 s"
    kind, logarithmic = "lines", True

    def cells(self, size: Size) -> Mapping[str | float | int, Job]:
        """The actuators that the policies are trained on, as in the paper."""
        return {count: policy_actuators(size, trajectories=count) for count in size.dataset_sizes}

    def jobs(self, size: Size) -> Sequence[Job]:
        """Judgements, then trials."""
        trials = [
            job
            for count in size.dataset_sizes
            for column in ENSEMBLES
            for job in self._trials(size, count, column)
        ]
        return [*super().jobs(size), *trials]

    def figures(self, size: Size, found: Found) -> tuple[Figure, ...]:
        """Two of accuracy, one of success."""
        name = "dataset-size-reacher"
        paper = paper_figure(name).places
        rows = []
        for column in ENSEMBLES:
            known = dict(zip(paper, paper_values(name, column), strict=True))
            values = tuple(
                success(self._trials(size, count, column), found) for count in size.dataset_sizes
            )
            rows.append(
                Series(column, values, tuple(known.get(count) for count in size.dataset_sizes))
            )
        return (
            *super().figures(size, found),
            Figure(
                name=name,
                title="Reacher: success on the robot",
                kind="lines",
                axis=self.axis,
                places=size.dataset_sizes,
                quantity="trials that succeed",
                unit="%",
                series=tuple(rows),
                logarithmic=True,
                caption=f"{size.trials} trials on the robot that was recorded (the paper: 100); Wilson's 95 % "
                "intervals. No ensemble: the policy is trained on one of the networks.",
            ),
        )

    def headline(self, size: Size, figures: Sequence[Figure]) -> str:
        """What the least and the most data give."""
        _, many, reacher = figures
        return sentence(
            "; ".join(
                f"with {count} trajectories the error after {size.horizon} steps is {say(at(many, count), many.unit)} "
                f"and {say(at(reacher, count), reacher.unit)} of the reacher's trials succeed"
                for count in (size.dataset_sizes[0], size.dataset_sizes[-1])
            )
        )

    def notes(self, size: Size) -> tuple[str, ...]:
        """Which actuators these are."""
        return (
            *size.notes,
            trainings(size),
            f"Policies need actuators fitted with noise on the controls ({CONTROL_NOISE:g}), so this study's errors "
            "are those of such actuators, a little above those without.",
        )

    def findings(self, size: Size, figures: Sequence[Figure]) -> tuple[Finding, ...]:
        """More is better, up to a point; an ensemble helps when there is little."""
        one, many, reacher = figures
        counts = size.dataset_sizes
        least, most = counts[0], counts[-1]
        found = [
            Finding(
                "More data lowers both errors.",
                sentence(
                    f"from {least} to {most} trajectories {say(at(one, least), 'deg')} to {say(at(one, most), 'deg')} "
                    f"after one step, {say(at(many, least), 'deg')} to {say(at(many, most), 'deg')} after "
                    f"{size.horizon}"
                ),
                all_of([below(at(figure, most), at(figure, least)) for figure in (one, many)]),
            )
        ]
        if 1500 in counts and 2500 in counts:
            told = relation(at(many, 2500), at(many, 1500))
            found.append(
                Finding(
                    "The errors stop falling at about 1500 trajectories.",
                    sentence(
                        f"after {size.horizon} steps the error with 2500 is {told} that with 1500: "
                        f"{listed(many, (1000, 1500, 2000, 2500))}"
                    ),
                    _no_longer(at(many, 2500), at(many, 1500)),
                )
            )
        if 1000 in counts and 2500 in counts:
            with_1000, with_2500 = at(reacher, 1000), at(reacher, 2500)
            found.append(
                Finding(
                    "1000 trajectories (33 minutes) are enough for the reacher to transfer as well as with 2500.",
                    sentence(f"with the ensemble {listed(reacher, (200, 500, 1000, 2500))}"),
                    _no_longer(with_1000, with_2500),
                )
            )
        little = [count for count in counts if count <= 500] or [least]
        gains = [below(at(reacher, count, 1), at(reacher, count, 0)) for count in little]
        found.append(
            Finding(
                "With little data an ensemble transfers better than one network (50 trajectories: 29 against 4 %).",
                sentence(
                    "; ".join(
                        f"{count} trajectories: ensemble {say(at(reacher, count, 0), '%')}, one network "
                        f"{say(at(reacher, count, 1), '%')}"
                        for count in little
                    )
                ),
                True if any(gains) and False not in gains else (False if False in gains else None),
            )
        )
        return tuple(found)

    def _trials(self, size: Size, count: int, column: str) -> tuple[Job, ...]:
        # The whole recording is the same job as in the study of transfer.
        policies = (
            train_job(size, "reacher", ENSEMBLES[column], trajectories=count, seed=seed)
            for seed in size.training_seeds
        )
        return tuple(job for policy in policies for job in transfer_jobs(size, policy, robots=1))


def _no_longer(one: Value | None, other: Value | None) -> bool | None:
    """Whether ``one`` is not below ``other``; None where one of them is missing."""
    return None if one is None or other is None else below(one, other) is not True
