from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import permutation_test

from genan.evaluation.statistics import FEW, ErrorSums, ModelErrors, compare, marks
from genan.words import time_ahead

HORIZON, DT = 100, 0.01


def errors(
    name: str, sizes: np.ndarray, *, units: tuple[str, ...] = ("rad",), horizon: int = HORIZON
) -> ModelErrors:
    """A model whose errors in recording g are ``sizes[g]``, growing with the steps."""
    count, k = len(sizes), 2 * len(units)
    steps = np.maximum(np.arange(horizon + 1), 1)[:, None]
    absolute = np.repeat(sizes[:, None], k, axis=1).astype(float)[:, None] * steps
    steps = marks(horizon, DT)
    squares = absolute[:, [0, *steps]] ** 2
    names, counts = tuple(map(str, range(count))), np.ones((count, 2), int)
    joints = tuple(f"j{i}" for i in range(len(units)))
    sums = ErrorSums(names, joints, units, DT, absolute, squares, counts, steps)
    return ModelErrors.of(name, sums, diverged=0)


def against(ours: np.ndarray, theirs: np.ndarray, *, horizon: int = HORIZON):
    return compare(errors("mine", ours, horizon=horizon), [errors("ARX", theirs, horizon=horizon)])


def test_a_model_that_is_always_better_is_certainly_so():
    rng = np.random.default_rng(0)
    ours = rng.uniform(0.9, 1.1, 20)
    found = against(ours, 1.8 * ours * rng.uniform(0.9, 1.1, 20))
    assert [one.steps for one in found.comparisons] == [1, 50, 100]
    for one in found.comparisons:
        assert (
            one.verdict == "better"
            and one.certainty == "certain"
            and one.wins == one.recordings == 20
        )
        assert one.low < 1.8 < one.high and one.better == 1.0 and one.chance < 0.005
        assert one.joint_ratios == pytest.approx((one.ratio,))
    assert found.comparisons[0].sentence.startswith("One step (10 ms) ahead 1.8")
    assert found.comparisons[0].sentence.endswith(
        "as accurate as ARX, better in 20 of 20 recordings; certain."
    )
    assert found.comparisons[1].sentence.startswith("After 0.5 s 1.")
    assert found.spans == ((pytest.approx(0.01), pytest.approx(1.0)),)
    assert found.overall == ("Better than every baseline, one step ahead and after 1 s; certain.",)


def test_a_worse_model_is_called_worse():
    ours = np.random.default_rng(1).uniform(0.9, 1.1, 12)
    found = against(ours, 0.5 * ours)
    one = found.comparisons[0]
    assert one.verdict == "worse" and one.wins == 0 and one.ratio == pytest.approx(0.5)
    assert (
        "worse than ARX: 0.50 times (0.50 to 0.50) as accurate, better in 0 of 12 recordings; "
        "certain." in one.sentence
    )
    assert found.spans == (None,) and "Not better than every baseline" in found.overall[0]


def test_equal_models_are_level():
    rng = np.random.default_rng(2)
    found = against(rng.uniform(0.5, 1.5, 30), rng.uniform(0.5, 1.5, 30))
    one = found.comparisons[0]
    assert one.verdict == "level" and one.certainty == "open"
    assert "level with ARX: no difference can be told from 30 recordings" in one.sentence


def test_few_recordings_are_not_believed():
    ours = np.array([1.0, 1.1, 0.9, 1.0])
    found = against(ours, 1.5 * ours)
    one = found.comparisons[0]
    assert one.better == 1.0 and one.chance == pytest.approx(1 / 16) and one.verdict == "level"
    assert (
        "better in 4 of 4 recordings; too few to be sure: chance alone does that 1 time in 16."
        in one.sentence
    )
    assert "only 4 recordings" in found.overall[-1]
    five = against(np.ones(5), np.full(5, 1.5)).comparisons[0]
    assert five.certainty == "likely" and len(against(np.ones(FEW), np.full(FEW, 1.5)).overall) == 1
    only = against(np.ones(1), np.full(1, 1.5)).comparisons[0]
    assert "in the one recording there is" in only.sentence and np.isnan(only.low)


def test_chance_is_that_of_scipy():
    rng = np.random.default_rng(3)
    ours, theirs = rng.lognormal(size=9), rng.lognormal(0.4, size=9)
    one = against(ours, theirs).comparisons[0]
    logs = np.log(theirs) - np.log(ours)
    side = "greater" if logs.mean() > 0 else "less"
    known = permutation_test(
        (np.log(theirs), np.log(ours)),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        alternative=side,
    )
    assert one.chance == pytest.approx(known.pvalue)


def test_false_certainty_is_rare():
    """Of equal models about 1 in 20 is at least likely on each side, and 1 in 200 certain."""
    rng = np.random.default_rng(4)
    words = [
        against(*rng.lognormal(size=(2, 10)), horizon=1).comparisons[0].certainty
        for _ in range(100)
    ]
    assert words.count("open") >= 82 and words.count("certain") <= 3


def test_many_recordings_use_random_signs():
    ours = np.random.default_rng(5).lognormal(size=40)
    assert against(ours, 1.3 * ours).comparisons[0].certainty == "certain"


def test_hinges_and_slides_are_compared_apart():
    ours = np.random.default_rng(6).uniform(0.9, 1.1, 10)
    mine, other = (
        errors(name, size, units=("m", "rad")) for name, size in (("a", ours), ("b", 2 * ours))
    )
    found = compare(mine, [other])
    assert (
        found.units == ("m", "rad")
        and len(found.comparisons) == 6
        and "joints in m" in found.overall[0]
    )


def test_nothing_to_compare_with():
    assert compare(errors("a", np.ones(3)), []) is None
    mine = errors("a", np.ones(10))
    perfect = errors("b", np.zeros(10))
    assert "cannot be compared" in compare(perfect, [perfect]).comparisons[0].sentence
    assert compare(mine, [perfect]).comparisons[0].verdict == "worse"
    assert compare(replace(mine, sums=None), [mine]) is None
    assert [time_ahead(s) for s in (0.002, 0.5, 1.0)] == ["2 ms", "0.5 s", "1 s"]
