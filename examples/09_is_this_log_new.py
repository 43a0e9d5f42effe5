"""Is a new log like what the model was trained on? Where it is not, by time and joint, the model is
not to be trusted.

Every sample of every joint gets a score: its position, its velocity, the commands that matter to
it, all of them together, and how much the networks disagree, each against the training recording.
Beyond 1 lies 1 % of a recording like those trained on. `genan evaluate` does the same and says
whether the errors are larger there; this needs no errors, so it also works where the future is not
known yet.

    python examples/09_is_this_log_new.py actuators data.h5 new.h5
"""

import sys

import numpy as np

import genan
from genan.actuator.reference import REASONS, Reference
from genan.data import load


def main(actuators: str, train: str, new: str) -> None:
    ensemble, log = genan.load(actuators), load(new)
    ensemble.contract.check_channels(
        log.channels, whose=new
    )  # another rate, order or unit is refused by name
    reference = Reference.of(ensemble, load(train))  # reference.save(actuators) keeps it for later
    found = reference.assess(ensemble, log)

    known = np.isfinite(found.score[:, 0])  # the first samples of a trajectory have no history yet
    for j, joint in enumerate(log.joints):
        beyond = found.score[known, j] > 1.0
        line = f"joint {joint}: {100 * beyond.mean():.1f} % of the samples are new"
        if beyond.any():
            why = np.bincount(found.reason[known, j][beyond], minlength=len(REASONS))
            line += f", mostly by {REASONS[int(why.argmax())]}"
        print(line)

    worst = int(np.nanargmax(found.score.max(axis=1)))
    number = int(np.searchsorted(log.offsets, worst, side="right")) - 1
    at = (worst - log.offsets[number]) * log.dt
    print(
        f"most of all in recording {log.recordings[number]} after {at:.2f} s, score "
        f"{found.score[worst].max():.1f}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
