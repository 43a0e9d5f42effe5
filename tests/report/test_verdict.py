from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.test_comparison import errors
from tests.report.test_figures import evaluation, novelty

from genan.evaluation.statistics import compare
from genan.report.verdict import verdict


def compared(count: int, ratio: float):
    ours = np.random.default_rng(0).uniform(0.9, 1.1, count)
    return compare(errors("mine", ours), [errors("ridge ARX", ratio * ours)])


def said_of(new, comparison=None) -> str:
    return " ".join(verdict(replace(evaluation(2), novelty=new, comparison=comparison)))


def test_a_verdict_is_a_few_sentences_to_act_on():
    made = replace(evaluation(2), novelty=novelty(2), comparison=compared(20, 2.0))
    words = verdict(made)
    assert 3 <= len(words) <= 6
    assert (
        words[0].startswith("The model is off by")
        and "one step ahead" in words[0]
        and "after 1.2 s" in words[0]
    )
    assert words[1] == "Better than every baseline, one step ahead and after 1 s; certain."
    assert "policies" in words[2] and words[3].startswith("Do not trust it where")
    assert (
        "recording log 7, 1.00 to 1.50 s, joint0: position up to 51.6 deg, "
        "trained -28.6 to 28.6 deg" in words[3]
    )
    assert (
        words[4].startswith("Record next motions of joint0 that go there")
        and "and more motions of joint1" in words[4]
    )
    first = verdict(replace(made, is_training_data=True))
    assert "fitted to" in first[1] and "--cross-validate 5" in first[1] and first[0] == words[0]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("velocity", "as fast"),
        ("command", "commands to joint0"),
        ("combination", "like recording log 7 at 1.0 to 1.5 s"),
    ],
)
def test_what_to_record_next_depends_on_what_is_new(reason, said):
    words = said_of(novelty(1, reason=reason))
    assert said in words and "recording log 7" in words


def test_where_nothing_is_new_the_baselines_decide():
    usual = novelty(2, new=False)
    assert "Nothing much in this log is new" in said_of(usual)
    assert "only from 8 on" in said_of(usual, compared(4, 2.0))
    assert "longer and more varied" in said_of(usual, compared(20, 0.5))
    assert "what you will use it for" in said_of(usual, compared(20, 2.0))
    assert "what you will use it for" in said_of(None)
