import math

import pytest

from genan.errors import SettingError
from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import paper_figure, paper_figures

VARIANTS = (
    "position loss",
    "torque loss",
    "no disagreement penalty",
    "no ensemble",
    "low action penalty",
)


def test_every_figure_is_whole():
    names = paper_figures()
    assert len(names) == 15
    for name in names:
        figure = paper_figure(name)
        assert "2604.09487" in figure.source and figure.series
        for values in figure.series.values():
            assert len(values) == len(figure.places)
            for value in values:
                assert value.low is not None and value.high is not None
                assert value.low <= value.mean <= value.high and math.isfinite(value.mean)


def test_what_the_paper_says_in_its_text():
    # "yielding 6 % and 29 % lower errors, respectively, than Torque GenAN"
    for name, percent in (("accuracy-1-step", 6), ("accuracy-500-steps", 29)):
        position, torque, uan = paper_figure(name).series["error"]
        assert round(100 * (1 - position.mean / torque.mean)) == percent
        assert uan.low > 5 * position.high


def test_success_rates_have_wilson_intervals_of_100_trials():
    for name in paper_figures():
        figure = paper_figure(name)
        if figure.unit != "%":
            continue
        for value in (value for values in figure.series.values() for value in values):
            low, high = wilson(round(value.mean), 100)
            assert (value.low, value.high) == pytest.approx((100 * low, 100 * high), abs=2e-3)


def test_figures_that_show_the_same_agree():
    shared = paper_figure("history-500-steps").series["position loss"][2]
    assert paper_figure("history-500-steps").places[2] == 3
    for name in ("stride-500-steps", "rollout-500-steps"):
        assert paper_figure(name).series["position loss"][0] == shared
    assert paper_figure("accuracy-500-steps").series["error"][0] == shared
    success = paper_figure("transfer-table-tennis").series["success"]
    assert success == paper_figure("table-tennis-outcomes").series["success"]
    assert paper_figure("transfer-reacher").places == VARIANTS
    outcomes = paper_figure("table-tennis-outcomes").series
    for k in range(len(VARIANTS)):
        assert sum(values[k].mean for values in outcomes.values()) == 100.0


def test_what_is_not_there_is_refused():
    with pytest.raises(SettingError, match="no figure 'histroy'; there are: 'accuracy-1-step'"):
        paper_figure("histroy")
