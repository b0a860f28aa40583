"""Shows the answers of `twin whatif` and `twin compare`: variants side by side, and the significant changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from scenarios.questions.kept import said_once
from scenarios.questions.variants import label, short
from scenarios.questions.whatif import ComparedMetric, ComparedVariant, VariantsCompared
from streamtwin.answers import Presentation
from streamtwin.tables import rounding
from streamtwin.tables.tables import Wide, of_rows, places, seconds
from twin.steadiness import filling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = {
    "variant": "variant",
    "metric": "metric",
    "value": "mean ± 95 %",
    "change": "change ± 95 %",
    "words": "in words",
}
LEAST_PART, MOST_PARTS = 0.01, 5
"""Share of the latency by which a part differs that is listed, and the most of these."""
FARTHEST = 10.0
"""Share of the mean beyond which a change is told in its unit: of almost nothing, per cents tell nothing."""
LISTED = ("mean", "half_width95", "difference", "difference95", "p_value", "p_adjusted", "significant", "words")
"""Fields of a metric that a row has."""


def told(answer: VariantsCompared) -> Presentation:
    """Presentation of the answer, with a row for each variant and metric."""
    return Presentation(
        heading=f"{answer.scenario}: what if",
        sentences=list(changes(answer)),
        notes=list(notes(answer)),
        tables=[_table(answer), *_parts(answer)],
        rows=rows(answer),
        figure=partial(_figure, answer),
    )


def rows(answer: VariantsCompared) -> list[dict[str, Any]]:
    """Rows, one for each variant and metric, with unrounded numbers."""
    return [
        {"variant": row.variant, "metric": metric, **{key: asdict(cell)[key] for key in LISTED}}
        for row in answer.variants
        for metric, cell in row.metrics.items()
    ]


def changes(answer: VariantsCompared) -> Iterator[str]:
    """Sentences on the number of variants that keep up, and on the largest significant change of each metric."""
    runs, count = answer.replications, len(answer.variants)
    well = [
        row.variant
        for row in answer.variants
        if row.success_runs == runs and not row.backpressured_runs and not row.full
    ]
    named = ": " + ", ".join(f"'{name}'" for name in well) if 0 < len(well) < min(count, 5) else ""
    keep = "keeps" if len(well) == 1 else "keep"
    yield f"Of {count} variants, {len(well)} {keep} up in all of {runs} runs{named}."
    units = _in_units(answer)
    for metric in answer.metrics:
        cells = {row.variant: row.metrics[metric] for row in answer.variants if row.metrics[metric].significant}
        sure = {variant: abs(cell.difference or 0.0) for variant, cell in cells.items()}
        name = metric.removesuffix(".mean")
        if not sure:
            yield f"{name}: nothing differs significantly from '{answer.compared_with}'."
            continue
        most = max(sure, key=lambda variant, sure=sure: sure[variant])  # type: ignore[misc]
        among = f"largest of {len(sure)} significant changes" if len(sure) > 1 else "only significant change"
        changed = change(metric, cells[most], in_unit=metric in units)
        yield f"{name}: {cells[most].words} in '{most}' ({changed}), the {among}."


def notes(answer: VariantsCompared) -> Iterator[str]:
    """Warnings of the runs, and a note if the precision that was asked for is not reached."""
    said = said_once((row.variant, text) for row in answer.variants for text in row.warnings)
    yield from (f"warning: {text}" for text in said)
    if answer.needed:
        wanted = f"{answer.precision:.2g} is not reached"
        yield f"{wanted}; it would take about {answer.needed:,} runs of each (--replications)"


def change(metric: str, cell: ComparedMetric, *, in_unit: bool = False) -> str:
    """Change in percent of the first variant's mean, with its interval; empty where nothing is compared. It is in the
    metric's unit if so asked, where that mean is 0 or next to it, and where the interval goes beyond -100 %."""
    apart, share, half = cell.difference, cell.share, cell.share95 or 0.0
    if apart is None:
        return ""
    if share is not None and not in_unit and not _too_far(cell):
        interval = "" if cell.share95 is None else f" ± {100 * half:,.{_digits(cell)}f}"
        return f"{100 * share:+z,.{_digits(cell)}f}{interval} %" if share or half else "0 %"
    sign = "+" if apart > 0.0 else ""
    return sign + rounding.metric(metric, apart, cell.difference95, difference=True)


def _digits(cell: ComparedMetric) -> int:
    half = cell.share95 or 0.0
    return 1 if max(abs(cell.share or 0.0), half) < 0.1 or (cell.share95 is not None and half < 0.005) else 0


def _too_far(cell: ComparedMetric) -> bool:
    """Whether the interval goes beyond -100 %, though no metric falls below 0; or it is a change of almost nothing."""
    if cell.share is None:
        return False
    if cell.share > FARTHEST:
        return True
    return round(100 * cell.share, _digits(cell)) - round(100 * (cell.share95 or 0.0), _digits(cell)) < -100.0


def _in_units(answer: VariantsCompared) -> set[str]:
    """Metrics of which a change has to be shown in the metric's unit, so that all of their changes are."""
    return {metric for metric in answer.metrics if any(_too_far(row.metrics[metric]) for row in answer.variants)}


def keeps_up(row: ComparedVariant) -> str:
    """Words on whether a variant keeps up that was not backpressured in any run: yes, or unknown and why."""
    return f"unknown: {filling(row.full)[0]}" if row.full else "yes"


def _table(answer: VariantsCompared) -> Wide:
    """Table with a line for each variant and metric, and one for each variant on whether it keeps up."""
    title = (
        f"{answer.scenario}: simulated, {answer.replications} runs of each on the same random numbers; "
        f"changes from '{answer.compared_with}'"
    )
    units, moved = _in_units(answer), _moved(answer)
    return of_rows(
        title, COLUMNS, (line for row in answer.variants for line in _lines(row, answer.replications, units, moved))
    )


def _parts(answer: VariantsCompared) -> Iterator[Wide]:
    """Table of the parts of the latency that differ most between variants."""
    means = {
        name: [row.parts.get(name) or 0.0 for row in answer.variants] for row in answer.variants for name in row.parts
    }
    longest_s = max((sum(value or 0.0 for value in row.parts.values()) for row in answer.variants), default=0.0)
    apart = {name: max(each) - min(each) for name, each in means.items()}
    shown = sorted((name for name in apart if apart[name] >= LEAST_PART * longest_s), key=lambda name: -apart[name])
    if longest_s and shown:
        columns = {"variant": "variant", **{name: name.removesuffix("_s") for name in shown[:MOST_PARTS]}}
        rows = (
            {"variant": row.variant, **{name: seconds(row.parts.get(name)) for name in shown[:MOST_PARTS]}}
            for row in answer.variants
        )
        yield of_rows("where the time goes: parts of the mean end-to-end latency that differ most", columns, rows)


def _moved(answer: VariantsCompared) -> list[str]:
    """Operators that are not at the same places in all variants."""
    first, *others = (row.placement for row in answer.variants)
    names = dict.fromkeys(name for placement in (first, *others) for name in placement)
    return [name for name in names if any(each.get(name) != first.get(name) for each in others)]


def _lines(row: ComparedVariant, runs: int, units: set[str], moved: Sequence[str]) -> Iterator[dict[str, str]]:
    for number, (metric, cell) in enumerate(row.metrics.items()):
        yield {
            "variant": "" if number else row.variant,
            "metric": metric.removesuffix(".mean"),
            "value": rounding.metric(metric, cell.mean, cell.half_width95),
            "change": change(metric, cell, in_unit=metric in units),
            "words": cell.words or "",
        }
    for name in moved:
        if name in row.placement:
            yield _said(f"{name} on", places(row.placement[name]))
    yield _said("keeps up", state(row, runs))
    nothing = "nothing" if row.success_runs == runs and not row.backpressured_runs else "nothing for long"
    yield _said("binds", "; ".join(row.binds) or "; ".join(filter(None, (nothing, row.fullest))))


def _said(what: str, words: str) -> dict[str, str]:
    return {"variant": "", "metric": what, "value": "", "change": "", "words": words}


def state(row: ComparedVariant, runs: int) -> str:
    """Words on whether a variant keeps up: the number of runs in which it does not, or why that is unknown."""
    failed, full = runs - row.success_runs, row.backpressured_runs
    if failed:
        return f"no results or a crash {_of(failed, runs)}"
    others = f"; in the others {keeps_up(row)}" if row.full and full < runs else ""
    return f"no, {_of(full, runs)}{others}" if full else keeps_up(row)


def _of(count: int, runs: int) -> str:
    return "in all runs" if count == runs else f"in {count} of {runs} runs"


def _figure(answer: VariantsCompared) -> Figure:
    """Figure of the variants. If a knob takes numbers, its values are the x axis, and each combination of the other
    settings is a line."""
    from figures.answers import comparison

    over = next((name for row in answer.variants for name, value in row.settings.items() if _number(value)), None)
    drawn = [row for row in answer.variants if over is None or over in row.settings]
    points = [_point(row, over, metric) for row in drawn for metric in row.metrics]
    return comparison({key: [point[key] for point in points] for key in points[0]}, short(over) if over else "")


def _point(row: ComparedVariant, over: str | None, metric: str) -> dict[str, Any]:
    cell = row.metrics[metric]
    return {
        "metric": metric,
        "variant": row.variant,
        "series": label({name: value for name, value in row.settings.items() if name != over}),
        "x": math.nan if over is None else row.settings[over],
        "mean": cell.mean,
        "half_width": math.nan if cell.half_width95 is None else cell.half_width95,
    }


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
