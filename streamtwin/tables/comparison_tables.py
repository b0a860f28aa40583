"""Variants beside each other as a table to read; documents are those of `scenarios.questions.whatif`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamtwin.tables import rounding
from streamtwin.tables.tables import number, of_rows, seconds
from streamtwin.tables.wide import Wide

COLUMNS = {
    "variant": "variant",
    "metric": "metric",
    "value": "mean ± 95 %",
    "change": "change ± 95 %",
    "words": "in words",
}


def of_comparison(document: Mapping[str, Any]) -> Wide:
    """A line a variant and metric, and whether it keeps up."""
    title = (
        f"{document['scenario']}: simulated, {document['replications']} runs of each on the same random numbers; "
        f"changes from '{document['compared_with']}'"
    )
    return of_rows(title, COLUMNS, (line for row in document["variants"] for line in _lines(row, document)))


def _lines(row: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    first = True
    for metric, cell in row["metrics"].items():
        words = cell.get("words", "")
        yield {
            "variant": row["variant"] if first else "",
            "metric": metric.removesuffix(".mean"),
            "value": value(metric, cell["mean"], cell["half_width95"]),
            "change": change(cell),
            "words": words,
        }
        first = False
    yield {"variant": "", "metric": "keeps up", "value": "", "change": "", "words": _state(row, document)}


def _state(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Of how many runs."""
    runs = document["replications"]
    failed, full = runs - row["success_runs"], row["backpressured_runs"]
    if failed:
        return f"no results or a crash {_of(failed, runs)}"
    return f"no, {_of(full, runs)}" if full else keeps_up(row)


def keeps_up(row: Mapping[str, Any]) -> str:
    """Of a variant that was not backpressured in any run."""
    if not row.get("full"):
        return "yes"
    return f"unknown: {', '.join(row['full'])} was fully used, so queues may still be filling; run longer"


def _of(some: int, runs: int) -> str:
    return "in all runs" if some == runs else f"in {some} of {runs} runs"


def value(metric: str, mean: float | None, half_width: float | None) -> str:
    """A mean with its interval, in the unit that reads best."""
    if mean is None or not math.isfinite(mean):
        return "no results"
    duration = in_seconds(metric)
    show = rounding.seconds if duration else rounding.number
    text = show(mean, half_width) if mean > 0.0 else ""
    return text or (seconds(mean) if duration else number(mean))


def change(cell: Mapping[str, Any]) -> str:
    """As a share of the first variant's mean; empty where nothing is compared."""
    share, half = cell.get("share"), cell.get("share95")
    if share is None:
        return ""
    digits = 1 if max(abs(share), half or 0.0) < 0.1 or (half is not None and half < 0.005) else 0
    if not share and not half:
        return "0 %"
    return f"{100 * share:+,.{digits}f}" + (f" ± {100 * half:,.{digits}f} %" if half is not None else " %")


def in_seconds(metric: str) -> bool:
    """Whether a metric is a duration."""
    return metric.partition(".")[0].endswith("latency_s")


def csv_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A line a variant and metric, numbers as they are."""
    keys = ("mean", "half_width95", "difference", "difference95", "p_value", "p_adjusted", "significant", "words")
    return [
        {"variant": row["variant"], "metric": metric, **{key: cell.get(key) for key in keys}}
        for row in document["variants"]
        for metric, cell in row["metrics"].items()
    ]


def notes(document: Mapping[str, Any]) -> Sequence[str]:
    """What a reader should know besides: precision that is not reached, and the runs' own warnings."""
    lines = [f"warning: {row['variant']}: {text}" for row in document["variants"] for text in row["warnings"]]
    if document["needed"]:
        wanted = f"{document['precision']:.2g} is not reached"
        lines.append(f"{wanted}; it would take about {document['needed']:,} runs of each (--replications)")
    return lines
