"""One run as tables to read: metrics with their errors, operators, hosts, links and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from figures import units
from streamtwin.tables import checkpoint_table, rounding
from streamtwin.tables.tables import cell, number, of_rows, seconds
from streamtwin.tables.wide import Wide, empty
from twin.engine.measure.standard_errors import ERRORS
from twin.kinds.registry import SINKS

QUANTILES = ("p50", "p95", "p99")
MOST_DIGITS = 3
"""Of what has no error of its own beside it."""
NUMBERED = frozenset({"replica", "to_replica"})
"""Details of events in which 0 is the first one, not none of them."""


def of_run(name: str, document: Mapping[str, Any]) -> list[Table | Wide]:
    """Metrics, operators, hosts and, if there were any, links, events, checkpoints; `document`: `Run.to_dict()`."""
    tables: list[Table | Wide] = [_metrics(name, document), _operators(document), _hosts(document["hosts"])]
    links = {link: totals for link, totals in document["links"].items() if "->" in link}  # hosts' cards are above
    if links:
        tables.append(_links(links))
    changes, taken = checkpoint_table.apart(document["events"])
    if changes:
        tables.append(_events(changes))
    if taken:
        tables.append(checkpoint_table.of_checkpoints(taken))
    return tables


def _metrics(name: str, document: Mapping[str, Any]) -> Table:
    errors = {key: error and ERRORS * error for key, error in document["standard_errors"].items()}
    table = empty(f"{name}: simulated metrics")
    mean = f"mean ± {ERRORS:g} standard errors" if any(errors.values()) else "mean"
    for heading in ("metric", mean, *QUANTILES):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    rate, error = document["throughput_per_s"], errors["throughput_per_s"]
    table.add_row("throughput (results/s)", rounding.number(rate, error) or number(rate))
    for key, label in (("processing_latency_s", "processing latency"), ("e2e_latency_s", "end-to-end latency")):
        table.add_row(label, *_latency(document[key] or {}, errors[key]))
    about = document["manifest"]
    if about["simulated_s"] < about["horizon_s"]:
        table.add_row("ended at the precision, after", f"{seconds(about['simulated_s'])} simulated")
    grows = "yes" if document["backpressured"] else "no"
    table.add_row("backpressured", f"{grows} ({number(document['backpressure_per_s'])}/s unread)")
    table.add_row("success", "yes" if document["success"] else "no")
    out = document["tuples_out"]
    results = rounding.number(out, out * error / rate) if error and rate else ""
    table.add_row("tuples in / out", f"{document['tuples_in']:,} / {results or format(out, ',')}")
    return table


def _latency(latency: Mapping[str, float], error_s: float | None) -> Iterator[str]:
    """The mean with its error, and quantiles, of which nothing is known better."""
    mean_s = latency.get("mean")
    yield rounding.seconds(mean_s or 0.0, error_s) or seconds(mean_s)
    for quantile in QUANTILES:
        value_s = latency.get(quantile)
        if value_s and mean_s and error_s:
            factor, unit = units.scale(value_s)
            digits = min(MOST_DIGITS, rounding.digits(mean_s, error_s))
            yield f"{rounding.significant(value_s * factor, digits)} {unit}"
        else:
            yield seconds(value_s)


def _operators(document: Mapping[str, Any]) -> Wide:
    ages = document.get("markers", {})
    rows = [
        {"operator": name, **totals, "marker": _age(ages.get(name))} for name, totals in document["operators"].items()
    ]
    for row in rows:
        if row["kind"] in SINKS:
            row["rate_in_per_s"] = _results(row["rate_in_per_s"], document)
    columns = {
        "operator": "operator",
        "kind": "kind",
        "replicas": "replicas",
        "rate_in_per_s": "in/s",
        "rate_out_per_s": "out/s",
        "busy": "busy",
        "backpressured": "backpressured",
        "idle": "idle",
        "marker": "markers",
    }
    return of_rows("operators", columns, ({**row, **_shares(row, "busy", "backpressured", "idle")} for row in rows))


def _age(by_source: Mapping[str, float | None] | None) -> str | None:
    """Mean age of latency markers over the sources of which it is known."""
    known = [each for each in (by_source or {}).values() if each is not None]
    return seconds(sum(known) / len(known)) if known else None


def _results(rate_per_s: float, document: Mapping[str, Any]) -> Any:
    """A rate of results, no better known than that of all."""
    error = document["standard_errors"]["throughput_per_s"]
    if not error or not rate_per_s:
        return rate_per_s
    digits = rounding.digits(document["throughput_per_s"], ERRORS * error)
    return rounding.significant(rate_per_s, min(MOST_DIGITS, digits))


def _hosts(hosts: Mapping[str, Mapping[str, Any]]) -> Wide:
    rows = [{"host": name, **totals, **_shares(totals, "cpu")} for name, totals in hosts.items()]
    columns = {
        "host": "host",
        "cpu": "CPU",
        "memory_mb": "memory (MB)",
        "gc_slowdown": "slowed by GC",
        "sent_mbps": "sent (Mbit/s)",
    }
    return of_rows("hosts", columns, rows)


def _links(links: Mapping[str, Mapping[str, Any]]) -> Wide:
    rows = [{"link": name, **totals, **_shares(totals, "utilisation", "busiest")} for name, totals in links.items()]
    columns = {"link": "link", "utilisation": "in use", "busiest": "busiest period", "sent_mbps": "sent (Mbit/s)"}
    return of_rows("links", columns, rows)


def _events(events: Sequence[Mapping[str, Any]]) -> Wide:
    columns = {
        "at": "at",
        "kind": "event",
        "component": "of",
        "lasted": "lasted",
        "paused": "paused",
        "moved": "moved (MB)",
        "detail": "detail",
    }
    return of_rows("events", columns, (_event_row(event) for event in events))


def _event_row(event: Mapping[str, Any]) -> dict[str, Any]:
    end_s = event["end_s"]
    return {
        **event,
        "at": f"{event['at_s']:g} s",
        "lasted": "to the end" if end_s is None else seconds(end_s - event["at_s"]) if end_s > event["at_s"] else None,
        "paused": None if event["paused_s"] is None else seconds(event["paused_s"]),
        "moved": None if event["bytes"] is None else event["bytes"] / 1e6,
        "detail": _detail(event["detail"]),
    }


def _detail(detail: Mapping[str, Any]) -> str:
    """A decision's reason says all that it orders; else every value with its name, of counts those above 0."""
    told = (f"{key} {cell(value)}" for key, value in detail.items() if value or (key in NUMBERED and value == 0))
    return str(detail.get("reason") or ", ".join(told))


def _shares(row: Mapping[str, Any], *keys: str) -> dict[str, str]:
    return {key: f"{row[key]:.0%}" for key in keys if row.get(key) is not None}
