"""A dry run of a change in words and as a table; documents are those of `scenarios.questions.dry_run`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from streamtwin.tables.comparison_tables import value
from streamtwin.tables.tables import number, of_rows, seconds
from streamtwin.tables.wide import Wide

PANELS = {"waiting": "waiting tuples", "latency": "latency, 99 % (s)"}
SERIES = {"without": "as it is", "with": "with the change"}


def sentences(document: Mapping[str, Any]) -> list[str]:
    """What the change does, and what to bear in mind."""
    return [_effect(document), *_limits(document)]


def _effect(document: Mapping[str, Any]) -> str:
    known = document["measures"]
    return (
        f"{document['change']}: the longest pause is {_mean(known, 'pause_s')}; the backlog grows by up to "
        f"{_mean(known, 'lag')} tuples, and the job has caught up after {_mean(known, 'catch_up_s')}; "
        f"{_mean(known, 'late')} results come later than any without the change, and {_mean(known, 'twice')} come twice"
    )


def _limits(document: Mapping[str, Any]) -> Iterator[str]:
    runs, behind = document["replications"], document["measures"]["catch_up_s"]["values"].count(None)
    if document["keeps_up_without"] < runs:
        yield (
            f"careful: in {runs - document['keeps_up_without']} of {runs} runs the job does not keep up even without "
            "the change, so its backlog grows anyway"
        )
    if behind:
        remedy = "lengthen it (--set run.horizon_s=SECONDS)"
        yield f"in {behind} of {runs} runs it has not caught up by the end of the run; {remedy}"
    yield f"catching up is timed by periods of {seconds(document['period_s'])}"


def _mean(known: Mapping[str, Any], name: str) -> str:
    return _value(name, known[name]["mean"], None)


def of_measures(document: Mapping[str, Any], meanings: Mapping[str, str]) -> Wide:
    """A line a quantity: the mean with its interval, and the lowest and highest of the runs."""
    title = f"{document['scenario']}: {document['change']}, simulated, {document['replications']} pairs of runs"
    known = document["measures"]
    told = {name: meaning for name, meaning in meanings.items() if name in known}
    if "full" in document:
        columns = {"what": "what", "mean": "the region", "full": "the whole job", "saved": "more by ± 95 %"}
        beside = (_row(name, meaning, known[name]) | _beside(name, document) for name, meaning in told.items())
        return of_rows(title, columns, beside)
    columns = {"what": "what", "mean": "mean ± 95 %", "low": "lowest run", "high": "highest run"}
    return of_rows(title, columns, (_row(name, meaning, known[name]) for name, meaning in told.items()))


def _beside(name: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Where the whole job restarts."""
    parts = {part: document[part].get(name, {"mean": None, "half_width95": None}) for part in ("full", "saved")}
    return {part: _value(name, known["mean"], known["half_width95"]) for part, known in parts.items()}


def _row(name: str, meaning: str, known: Mapping[str, Any]) -> dict[str, str]:
    values = [math.inf if each is None else each for each in known["values"]]
    low, high = (_value(name, each(values), None) for each in (min, max))
    return {"what": meaning, "mean": _value(name, known["mean"], known["half_width95"]), "low": low, "high": high}


def _value(name: str, mean: float | None, half: float | None) -> str:
    if mean is None or not math.isfinite(mean):
        return "longer than the run" if name == "catch_up_s" else "-"
    if name.endswith("_s"):
        return value("latency_s", mean, half) if mean else "0 s"
    return value(name, mean, half) if half else number(mean)


def csv_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A line a run."""
    columns = {name: known["values"] for name, known in document["measures"].items()}
    return [
        {"run": index, **{name: values[index] for name, values in columns.items()}}
        for index in range(document["replications"])
    ]


def course_rows(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns for a figure over time: panel, series, x [s], mean, half_width (not known). Periods without results are
    left out, so that a line joins those with some."""
    table: dict[str, list[Any]] = {key: [] for key in ("panel", "series", "x", "mean", "half_width")}
    for name, panel in PANELS.items():
        for which, series in SERIES.items():
            course = document["course"][which]
            known = [(at_s, mean) for at_s, mean in zip(course["at_s"], course[name], strict=True) if mean is not None]
            for at_s, mean in known:
                for key, each in zip(table, (panel, series, at_s, mean, math.nan), strict=True):
                    table[key].append(each)
    return table
