from pathlib import Path

from genan.evaluation.study_result import Value
from genan.report.page.gather import Found
from genan.report.page.runs import Accuracy, Compared, Evaluated, Stretch
from genan.report.page.trust_section import trust_parts


def found(**more) -> Found[Evaluated]:
    model = Accuracy("mine", Value(1e-4, None, None), (Value(1e-3, None, None),), 3, 0)
    return Found(
        "a", Path("a"), Evaluated("robot", 0.01, 3, False, "rad", (model,), {}, (), {}, **more)
    )


def test_nothing_is_said_of_what_is_not_there():
    assert trust_parts(found(), alone=False) == ""


def test_everything_is_text():
    harm = "<script>alert(1)</script>"
    page = trust_parts(
        found(
            verdict=(harm,),
            comparisons=(
                Compared("better", "likely", harm),
                Compared("level", "open", "so so"),
                Compared(harm, "", ""),
            ),
            beyond={harm: (0.123, None), "q": (0.004, 2.5)},
            stretches=(Stretch(harm, "q", 0.5, 1.25, float("inf"), "position"),),
        ),
        alone=False,
    )
    assert "<script>" not in page and page.count("&lt;script&gt;") == 5
    for words in (
        "✓ better, likely",
        "level",
        "12 %",
        "0.4 %",
        "2.50",
        "0.50 to 1.25",
        "inf",
        "position",
    ):
        assert words in page, words


def test_the_verdict_stands_on_top_where_there_is_one_evaluation():
    assert "Verdict" in trust_parts(found(verdict=("x",)), alone=False)
    assert "Verdict" not in trust_parts(found(verdict=("x",)), alone=True)
