"""Shows the answer of `twin improve`: regret and errors of a model, round by round."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scenarios.improving import COLUMNS, ModelImproved
from streamtwin.answers import Presentation
from streamtwin.tables.tables import of_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def told(answer: ModelImproved) -> Presentation:
    """Presentation of the answer, with a row for each round."""
    first, last = answer.rows[0], answer.rows[-1]
    where = f"{answer.model} on {answer.on}"
    title = f"{where}: simulated regret over {answer.judges} jobs of {answer.plans} plans each at most"
    alone = f"mean regret before {first.regret:.1%}, after {answer.rounds} rounds {last.regret:.1%}"

    def figure() -> Figure:
        from figures.charts import lines

        series: dict[str, list[Any]] = {
            "series": [row.strategy for row in answer.rows],
            "x": [row.runs for row in answer.rows],
            "y": [100.0 * row.regret for row in answer.rows],
        }
        return lines(series, "simulated runs learned from", "mean regret (%)")

    return Presentation(
        heading=where,
        sentences=[answer.compared or alone],
        tables=[of_rows(title, COLUMNS, (row.shown for row in answer.rows))],
        rows=[asdict(row) for row in answer.rows],
        figure=figure,
    )
