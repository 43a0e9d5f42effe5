"""``typed`` hands out lines of the pages and no others, with everything in them that a reader
sees."""

import pytest
from tests.docs.typed import typed

pytestmark = pytest.mark.docs

TRAIN = (
    "genan train reacher --actuators actuators --num-envs 512 --ppo.num-minibatches 8 "
    "--steps 8000000 --out reacher"
)


def test_values_are_changed_and_flags_added() -> None:
    words = typed(TRAIN, "--judge", 4, num_envs=4, ppo__num_minibatches=2)
    assert words == [
        *(
            "train",
            "reacher",
            "--actuators",
            "actuators",
            "--num-envs",
            "4",
            "--ppo.num-minibatches",
            "2",
        ),
        *("--steps", "8000000", "--out", "reacher", "--judge", "4"),
    ]
    words = typed(
        "python -m experiments history stride --size full",
        instead={"stride": "rollout"},
        size="smoke",
    )
    assert words == ["-m", "experiments", "history", "rollout", "--size", "smoke"]
    goal = "genan deploy reacher --robot virtual-pamy2 --goal 10 30 20 0 --record flights.h5"
    assert typed(goal, goal=(1, 2))[4:] == ["--goal", "1", "2", "--record", "flights.h5"]


def test_what_is_on_no_page_or_not_in_the_line_is_refused() -> None:
    for refused, words in (
        (lambda: typed("genan train reacher --num-envs 3"), "no page has the line"),
        (lambda: typed(TRAIN, "--out", "other"), "has --out already"),
        (lambda: typed(TRAIN, judge=4), "there is no --judge"),
        (lambda: typed(TRAIN, instead={"chess": "go"}), "does not stand once"),
        (lambda: typed("genan view --live", live=0), "--live has no value"),
        (lambda: typed("make demo"), "neither genan nor python"),
    ):
        with pytest.raises(AssertionError, match=words):
            refused()
