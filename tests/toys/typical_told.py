"""Shows the answer of `twin typical`, a question that the test of the guide adds."""

from __future__ import annotations

from scenarios.questions.typical import TypicalValue

from streamtwin.answers import Presentation
from streamtwin.tables.rounding import metric


def told(answer: TypicalValue) -> Presentation:
    """Presentation of the answer, with a row for each run."""
    value = metric(answer.metric, answer.mean, answer.half_width95)
    return Presentation(
        heading=f"{answer.scenario}: what is typical",
        sentences=[f"{answer.metric} is {value}."],
        rows=[{"run": run, "value": value} for run, value in enumerate(answer.values)],
    )
