"""Data card of a corpus: drawn parameters, results and failures, as data and as Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from twin.files import parse_json
from twin.kinds.registry import SOURCES
from twin.metrics import REGRESSION_METRICS
from twin.plan import Location

# the card ------------------------------------------------------------------------------------------------------------
# Data card of a corpus: drawn parameters, results and failures. Pure functions: tables in, a JSON value out.
#
# Drawn parameters are read off the deployments of all runs, failed ones included; labels are of all runs that could be
# simulated, whether or not they count as a success of the job.


QUANTILES = {"p1": 0.01, "p5": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99}
FEW_RESULTS = (20, 200)
MOST_VALUES = 24
"""Most distinct values of which the card gives the frequency of each; of more, it gives quantiles."""

UNITS: Mapping[str, str] = {
    "query type": "",
    "sources": "",
    "filters": "",
    "aggregations": "",
    "joins": "",
    "operators": "",
    "kind of operator": "",
    "event rate, linear": "1/s a source",
    "event rate, 2-way join": "1/s a source",
    "event rate, 3-way join": "1/s a source",
    "record width": "values of a source's record",
    "data type": "of a source's value",
    "filter function": "",
    "filter literal": "",
    "filter selectivity": "",
    "window": "",
    "window size": "records",
    "window length": "s",
    "slide": "share of the window",
    "aggregate function": "",
    "aggregated value": "",
    "group-by": "",
    "groups": "",
    "join key": "",
    "join selectivity": "",
    "hosts offered": "",
    "hosts in use": "",
    "CPU of hosts in use": "%",
    "RAM of hosts in use": "MB",
    "bandwidth of hosts in use": "Mbit/s",
    "latency of hosts in use": "ms",
}
"""Units of all parameters, in the order of the card. Parameters that never occur are left out."""


def card(recipe: Mapping[str, Any], runs: Iterable[Mapping[str, Any]], labels: Iterable[Mapping[str, Any]]) -> Any:
    """Makes the card as a JSON value.

    recipe: taken over as it is. runs: rows with run, status, error, cpu_s and deployment (JSON). labels: rows of
    spark.pipeline.labels.
    """
    drawn: dict[str, list[Any]] = defaultdict(list)
    types: dict[str, str] = {}
    failures: dict[str, list[tuple[str, str]]] = defaultdict(list)
    cpu_s = 0.0
    total = 0
    for run in runs:
        total += 1
        cpu_s += run["cpu_s"] or 0.0
        if run["status"] != "ok":
            failures[_kind(run["error"])].append((run["run"], run["error"]))
        if run["deployment"]:
            deployment = parse_json(run["deployment"])
            types[run["run"]] = query_type(deployment)
            for name, value in parameters(deployment):
                drawn[name].append(value)
    failed = sum(map(len, failures.values()))
    return {
        "recipe": dict(recipe),
        "runs": {"total": total, "simulated": total - failed, "failed": failed, "simulation_cpu_s": cpu_s},
        "failures": [
            {"error": min(each)[1], "runs": len(each), "first": min(each)[0]}
            for _, each in sorted(failures.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        "parameters": {name: {"unit": unit, **spread(drawn[name])} for name, unit in UNITS.items() if drawn[name]},
        "labels": _labels(list(labels), types),
    }


def _kind(error: str) -> str:
    """Exception and the line that raised it: errors that differ in the numbers they mention count as one."""
    return f"{error.partition(':')[0]} {error.rpartition(' (')[2]}" if error.endswith(")") else error.partition(":")[0]


def query_type(deployment: Mapping[str, Any]) -> str:
    """Costream's type of a query, by the number of streams that it joins."""
    sources = sum(operator["kind"] in SOURCES for operator in deployment["query"]["operators"])
    return "linear" if sources == 1 else f"{sources}-way join"


def parameters(deployment: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Parameters of a deployment: names of UNITS and values, as often as they occur in it."""
    operators, hosts = deployment["query"]["operators"], deployment["cluster"]["hosts"]
    kinds = Counter(operator["kind"] for operator in operators)
    kind = query_type(deployment)
    yield from (("query type", kind), ("operators", len(operators)), ("hosts offered", len(hosts)))
    yield from (("kind of operator", each) for each in kinds.elements())
    yield from (("sources", sum(kinds[each] for each in SOURCES)), ("filters", kinds["filter"]))
    yield from (("aggregations", kinds["aggregate"]), ("joins", kinds["join"]))
    for law in deployment["workload"]["arrivals"].values():
        if "rate_per_s" in law:
            yield f"event rate, {kind}", law["rate_per_s"]
    for operator in operators:
        yield from _operator(operator)
    places = deployment["plan"]["placement"].values()
    used = {Location.parse(text).host for place in places for text in ([place] if isinstance(place, str) else place)}
    yield "hosts in use", len(used)
    for host in hosts:
        if host["name"] in used:
            yield "CPU of hosts in use", host["cpu_percent"]
            yield "RAM of hosts in use", host["ram_mb"]
            yield "bandwidth of hosts in use", host["bandwidth_mbps"]
            yield "latency of hosts in use", host["latency_ms"]


FIELDS: Mapping[str, Mapping[str, str]] = {
    "filter": {
        "function": "filter function",
        "literal_type": "filter literal",
        "selectivity": "filter selectivity",
    },
    "aggregate": {
        "function": "aggregate function",
        "value_type": "aggregated value",
        "group_by": "group-by",
        "groups": "groups",
    },
    "join": {"key_type": "join key", "selectivity": "join selectivity"},
}
"""Parameters of operators and their names on the card, by kind."""


def _operator(operator: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if operator["kind"] in SOURCES:
        counts = operator["columns"]
        yield "record width", sum(counts.values())
        for name, count in counts.items():
            yield from [("data type", name.removesuffix("s"))] * count
    told = {"group_by": "none"} | {name: value for name, value in operator.items() if value is not None}
    yield from ((label, told[name]) for name, label in FIELDS.get(operator["kind"], {}).items() if name in told)
    if "window" in operator:
        yield from _window(operator["window"])


def _window(window: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    counting = window["policy"] == "count"
    suffix = "records" if counting else "s"
    slide = window.get(f"slide_{suffix}")
    yield "window", f"{'tumbling' if slide is None else 'sliding'}, by {'count' if counting else 'time'}"
    yield "window size" if counting else "window length", window[f"size_{suffix}"]
    if slide is not None:
        yield "slide", slide / window[f"size_{suffix}"]


def spread(values: Sequence[Any]) -> dict[str, Any]:
    """Distribution of values: {"values", "shares"} if few are distinct, else {"values", "min", "p1", ..., "max"}."""
    counts = Counter(values)
    if len(counts) <= MOST_VALUES or isinstance(values[0], str):
        ordered = sorted(counts)
        return {"values": len(values), "shares": {_text(value): counts[value] / len(values) for value in ordered}}
    array = np.array(values, dtype=float)
    ends = {"min": float(array.min()), "max": float(array.max())}
    return {"values": len(values), **ends, **_quantiles(array)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _quantiles(array: np.ndarray) -> dict[str, float]:
    found = np.quantile(array, list(QUANTILES.values()))
    return dict(zip(QUANTILES, map(float, found), strict=True))


def _labels(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> dict[str, Any]:
    """Labels of all runs, and by query type."""
    groups: dict[str, list[Mapping[str, Any]]] = {"all": list(rows)}
    for name in sorted(set(types.values()), key=lambda spread: (spread != "linear", spread)):
        groups[name] = [row for row in rows if types.get(row["run"]) == name]
    return {name: _labels_of(group) for name, group in groups.items() if group}


def _labels_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Labels of a group of runs: regressions over the successful runs, shares over all."""
    successful = [row for row in rows if row["success"]]
    results = np.array([row["records_out"] or 0 for row in successful])
    regressions = {}
    for metric in REGRESSION_METRICS:
        known = np.array([row[metric] for row in successful if row[metric] is not None], dtype=float)
        if len(known):
            regressions[metric] = _quantiles(known)
    return {
        "rows": len(rows),
        "successful": len(successful) / len(rows),
        "backpressured": sum(bool(row["backpressured"]) for row in rows) / len(rows),
        "few_results": {f"< {few}": float((results < few).mean()) if len(results) else None for few in FEW_RESULTS},
        **regressions,
    }


# as Markdown ---------------------------------------------------------------------------------------------------------
# Data card of a corpus as Markdown.


SPREAD = ("min", *QUANTILES, "max")


def card_text(card: Mapping[str, Any]) -> str:
    """Markdown text of a card that `twin.corpus.card.card` made."""
    recipe, runs = card["recipe"], card["runs"]
    lines = [
        "# Data card: a simulated corpus",
        "",
        "Every number is of simulated runs; nothing here was measured on a real cluster.",
        "",
        "```",
        str(recipe["command"]),
        "```",
        "",
        *_table(("recipe", ""), [(key, value) for key, value in recipe.items() if key != "command"]),
        "",
        "{total:,} runs, {failed:,} of which failed to simulate; {simulation_cpu_s:,.0f} s of CPU.".format(**runs),
        "",
        "## Failures",
        "",
        *_failures(card["failures"]),
        "",
        "## Labels",
        "",
        *_labelled(card["labels"]),
        "",
        "## Drawn parameters",
        "",
        "Over all runs, as often as each occurs in one.",
        "",
        *_parameters(card["parameters"]),
    ]
    return "\n".join(lines) + "\n"


def _failures(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    if not failures:
        return ["None."]
    return _table(
        ("error of the first", "runs", "first"),
        [(failure["error"], failure["runs"], failure["first"]) for failure in failures],
    )


def _labelled(labels: Mapping[str, Any]) -> list[str]:
    if not labels:
        return ["No run was simulated."]
    few = [f"< {bound}" for bound in FEW_RESULTS]
    shares = _table(
        ("query type", "runs", "successful", "backpressured", *(f"{bound} results" for bound in few)),
        [
            (name, group["rows"], _share(group["successful"]), _share(group["backpressured"]),
             *(_share(group["few_results"][bound]) for bound in few))
            for name, group in labels.items()
        ],
    )  # fmt: skip
    values = _table(
        ("query type", "metric", *QUANTILES),
        [
            (name, metric, *(group[metric][quantile] for quantile in QUANTILES))
            for metric in REGRESSION_METRICS
            for name, group in labels.items()
            if metric in group
        ],
    )
    return [*shares, "", "Few results, and the metrics' quantiles, are over successful runs.", "", *values]


def _parameters(parameters: Mapping[str, Any]) -> list[str]:
    shares = [
        (
            name,
            parameter["unit"],
            ", ".join(f"{value}: {_share(share)}" for value, share in parameter["shares"].items()),
        )
        for name, parameter in parameters.items()
        if "shares" in parameter
    ]
    spreads = [
        (name, parameter["unit"], *(parameter[column] for column in SPREAD))
        for name, parameter in parameters.items()
        if "shares" not in parameter
    ]
    return [
        *_table(("parameter", "unit", "frequencies"), shares),
        "",
        *(_table(("parameter", "unit", *SPREAD), spreads) if spreads else []),
    ]


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    listed = [headings, ["---"] * len(headings), *([_cell(value) for value in row] for row in rows)]
    return [f"| {' | '.join(row)} |" for row in listed]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if value < 1e6 else str(value)
    return str(value).replace("|", "\\|").replace("\n", " ")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
