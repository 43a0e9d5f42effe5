"""All studies by their names, in the order of the paper."""

from collections.abc import Sequence

from genan.errors import SettingError, listing
from genan.evaluation.studies.accuracy_study import (
    Accuracy,
    HistoryLength,
    HistoryStride,
    RolloutLength,
)
from genan.evaluation.studies.data_study import DatasetSize
from genan.evaluation.studies.study import Study
from genan.evaluation.studies.transfer_study import TableTennisOutcomes, TransferStudy

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Accuracy(),
        HistoryLength(),
        HistoryStride(),
        RolloutLength(),
        DatasetSize(),
        TransferStudy(),
        TableTennisOutcomes(),
    )
}

ALL = "all"
"""What stands for every study."""


def find_studies(names: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these names, each once; ``all`` stands for all of them."""
    if not names:
        raise SettingError(f"Which study? There are: {listing([*STUDIES, ALL])}.")
    for name in names:
        if name not in (*STUDIES, ALL):
            raise SettingError(
                f"There is no study {name!r}; there are: {listing([*STUDIES, ALL])}."
            )
    return (
        tuple(STUDIES.values())
        if ALL in names
        else tuple(STUDIES[name] for name in dict.fromkeys(names))
    )
