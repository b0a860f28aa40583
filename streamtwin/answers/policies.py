"""Shows the answer of `twin compare-policies`: a table with a column for each policy, and a figure over time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from scenarios.questions.policies_compared import COURSE, MEANINGS, PoliciesCompared
from scenarios.questions.whatif import ComparedMetric, ComparedVariant
from streamtwin.answers import Presentation
from streamtwin.answers.comparison import changes, keeps_up, notes, rows, state
from streamtwin.tables.rounding import metric as shown
from streamtwin.tables.tables import Column, Wide, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTED = "*"
"""Mark of a significant difference."""


def told(answer: PoliciesCompared) -> Presentation:
    """Presentation of the answer, with a row for each policy and metric."""
    return Presentation(
        heading=f"{answer.scenario}: policies",
        sentences=list(changes(answer)),
        notes=[*notes(answer), *_unknown(answer)],
        tables=[_table(answer)],
        rows=rows(answer),
        figure=partial(_figure, answer),
    )


def _table(answer: PoliciesCompared) -> Wide:
    """Table with a line for each quantity that the answer has: those of the SLO only if one was given."""
    title = (
        f"{answer.scenario}: simulated, {answer.replications} runs of each on the same random numbers, "
        f"means ± 95 %; {NOTED} significantly other than {answer.compared_with!r}"
    )
    slo = "" if answer.slo_s is None else seconds(answer.slo_s)
    names = {name: meaning.format(slo=slo) for name, meaning in MEANINGS.items() if name in answer.metrics}
    columns = [Column(("",), (*names.values(), "keeps up"), number=False)]
    for row in answer.variants:
        cells = [_cell(name, row.metrics[name]) for name in names]
        columns.append(Column((row.variant,), (*cells, _state(row, answer.replications)), number=False))
    return Wide(title, tuple(columns))


def _unknown(answer: PoliciesCompared) -> Iterator[str]:
    """Notes, one for each policy whose runs are too short to tell whether it keeps up."""
    for row in answer.variants:
        if "unknown" in state(row, answer.replications):
            yield f"whether {row.variant} keeps up {'in the other runs ' * (row.backpressured_runs > 0)}{keeps_up(row)}"


def _cell(name: str, cell: ComparedMetric) -> str:
    mean, half = cell.mean, cell.half_width95
    if name.startswith("slo."):
        text = shown(name, mean and 100 * mean, half and 100 * half) + " %"
    else:
        text = shown(name, mean, half)
    return f"{text} {NOTED}" if cell.significant else text


def _state(row: ComparedVariant, runs: int) -> str:
    told, _, _ = state(row, runs).partition(";")
    return "?" if told.startswith("unknown") else told


def _figure(answer: PoliciesCompared) -> Figure:
    from figures.answers import over_time

    table: dict[str, list[Any]] = {key: [] for key in ("panel", "series", "x", "mean", "half_width")}
    for row in answer.variants:
        course = row.course or {}
        for name, panel in COURSE.items():
            for point in zip(course["at_s"], course[name], course[f"{name}_half_width95"], strict=True):
                for key, value in zip(table, (panel, row.variant, *point), strict=True):
                    table[key].append(value)
    return over_time(table)
