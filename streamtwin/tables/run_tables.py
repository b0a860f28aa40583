"""Tables of a run for people: metrics with their errors, operators, hosts, links and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from figures import units
from streamtwin.tables import checkpoint_table, rounding
from streamtwin.tables.tables import cell, number, of_rows, seconds
from streamtwin.tables.wide import Column, Wide
from twin import markers
from twin.engine.measure.standard_errors import ERRORS
from twin.engine.sketch import GROWTH
from twin.kinds.registry import SINKS
from twin.metrics import Latency, measured
from twin.plan import Location
from twin.run import OperatorTotals, Run

QUANTILES = ("p50", "p95", "p99")
MOST_DIGITS = 3
"""Most digits of numbers that have no error beside them."""
NUMBERED = frozenset({"replica", "to_replica"})
"""Details of events in which 0 means the first one, and not none."""


def of_run(name: str, run: Run) -> list[Wide]:
    """Tables of a run: metrics, operators, hosts and, if there were any, links, events, checkpoints."""
    tables = [_metrics(name, run), _operators(run), _hosts(run)]
    if any("->" in link.link for link in run.links):  # hosts' cards are above
        tables.append(_links(run))
    changes, taken = checkpoint_table.apart(run.event_rows)
    if changes:
        tables.append(_events(changes))
    if taken:
        tables.append(checkpoint_table.of_checkpoints(taken))
    return tables


def _metrics(name: str, run: Run) -> Wide:
    metrics, about = run.metrics, run.manifest
    errors = {metric: error and ERRORS * error for metric, error in asdict(run.standard_errors).items()}
    mean = f"mean ± {ERRORS:g} standard errors" if any(errors.values()) else "mean"
    rate, error = metrics.throughput_per_s, errors["throughput_per_s"]
    processing, e2e = metrics.processing_latency_s, metrics.e2e_latency_s
    rows: list[tuple[str, ...]] = [
        ("throughput (results/s)", rounding.number(rate, error) or number(rate)),
        ("processing latency", *_latency(processing, errors["processing_latency_s"])),
        ("end-to-end latency", *_latency(e2e, errors["e2e_latency_s"])),
    ]
    precise = about["simulated_s"] < about["horizon_s"]
    if about["warmup_s"] or precise:
        span = f"{seconds(about['warmup_s'])} to {seconds(about['simulated_s'])}"
        rows.append(("measured from", f"{span}, when it was precise enough" if precise else span))
    grows = "yes" if metrics.backpressured else "no"
    more = f"; queues grow by {number(metrics.queue_growth_per_s)}/s" if metrics.queue_growth_per_s else ""
    rows.append(("backpressured", f"{grows} ({number(metrics.backpressure_per_s)}/s unread{more})"))
    rows.append(("keeps up", _keeps_up(run)))
    results = "results came, no crash" if metrics.success else "it crashed" if run.crashed else "no results"
    rows.append(("success", f"{'yes' if metrics.success else 'no'} ({results})"))
    out = metrics.tuples_out
    results = rounding.number(out, out * error / rate) if error and rate else ""
    rows.append(("tuples in / out", f"{metrics.tuples_in:,} / {results or format(out, ',')}"))
    columns = zip(("metric", mean, *QUANTILES), zip_longest(*rows, fillvalue=""), strict=True)
    shown = tuple(Column((heading,), cells, number=heading != "metric") for heading, cells in columns)
    more = " of this run's; how much of them is chance is unknown" * (errors["processing_latency_s"] is None)
    return Wide(f"{name}: simulated metrics (quantiles are within {GROWTH**0.5 - 1:.0%}{more})", shown)


def _keeps_up(run: Run) -> str:
    """Whether a job keeps up, in words: what is full for the whole run may yet hold it up."""
    full = f"unknown: {', '.join(run.full)} full, run longer" if run.full else "yes"
    return full if run.metrics.keeps_up else "no"


def _latency(latency: Latency | None, error_s: float | None) -> Iterator[str]:
    """Cells of a latency: the mean with its error, and quantiles with no more digits than the mean."""
    mean_s = latency.mean if latency is not None else None
    yield rounding.seconds(mean_s or 0.0, error_s) or seconds(mean_s)
    for quantile in QUANTILES:
        value_s = getattr(latency, quantile, None)
        if value_s and mean_s and error_s:
            factor, unit = units.scale(value_s)
            digits = min(MOST_DIGITS, rounding.digits(mean_s, error_s))
            yield f"{rounding.significant(value_s * factor, digits)} {unit}"
        else:
            yield seconds(value_s)


def _operators(run: Run) -> Wide:
    columns = {
        "operator": "operator",
        "kind": "kind",
        "replicas": "replicas",
        "rate_in_per_s": "in/s",
        "rate_out_per_s": "out/s",
        "dropped_per_s": "dropped/s",
        "busy": "busy",
        "busiest": "busiest subtask",
        "backpressured": "backpressured",
        "idle": "idle",
        "marker": "markers",
    }
    shares, ages_s = ("busy", "backpressured", "idle"), markers.by_operator(run.markers)
    lost, measured_s = drops(run), run.manifest["simulated_s"] - run.manifest["warmup_s"]
    rows = [
        {
            **_row(each, *shares),
            "busiest": _busiest(each),
            "rate_in_per_s": _rate_in(each, run),
            "dropped_per_s": lost.get(each.operator, 0) / measured_s if lost else None,
            "marker": seconds(ages_s[each.operator]) if each.operator in ages_s else None,
        }
        for each in run.operators
    ]
    if not any(row["busiest"] for row in rows):
        del columns["busiest"]
    if not lost:
        del columns["dropped_per_s"]
    return of_rows("operators", columns, rows)


def drops(run: Run) -> dict[str, int]:
    """Records lost at full channels after the warm-up, by producer; those that lost none are not listed."""
    lost: Counter[str] = Counter()
    for row in measured(run.operator_rows, run.manifest["warmup_s"]):
        lost[row["operator"]] += row["numRecordsDropped"]
    return {name: count for name, count in lost.items() if count}


def _busiest(totals: OperatorTotals) -> str | None:
    """Words for the busiest subtask and its utilisation; None if it is as busy as the mean."""
    busiest = totals.busiest
    if busiest is None or f"{busiest.busy:.0%}" == f"{totals.busy:.0%}":
        return None
    numbered = all(each.subtask < totals.replicas for each in totals.subtasks)  # else some left, and numbers go on
    which = f"subtask {busiest.subtask}" if numbered else "one"
    return f"{busiest.busy:.0%} ({which} on {Location(busiest.host, busiest.socket)})"


def _rate_in(totals: OperatorTotals, run: Run) -> Any:
    """Input rate of an operator; of a sink with no more digits than the throughput."""
    error = run.standard_errors.throughput_per_s
    if totals.kind not in SINKS or not error or not totals.rate_in_per_s:
        return totals.rate_in_per_s
    digits = rounding.digits(run.metrics.throughput_per_s, ERRORS * error)
    return rounding.significant(totals.rate_in_per_s, min(MOST_DIGITS, digits))


def _hosts(run: Run) -> Wide:
    columns = {
        "host": "host",
        "cpu": "CPU",
        "memory_mb": "memory (MB)",
        "gc_slowdown": "slowed by GC",
        "sent_mbps": "sent (Mbit/s)",
    }
    return of_rows("hosts", columns, (_row(each, "cpu") for each in run.hosts))


def _links(run: Run) -> Wide:
    columns = {"link": "link", "utilisation": "in use", "busiest": "busiest period", "sent_mbps": "sent (Mbit/s)"}
    rows = (_row(each, "utilisation", "busiest") for each in run.links if "->" in each.link)
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
    """Details of an event in words: a decision's reason, which tells all; else every value but 0 with its name."""
    told = (f"{key} {cell(value)}" for key, value in detail.items() if value or (key in NUMBERED and value == 0))
    return str(detail.get("reason") or ", ".join(told))


def _row(totals: Any, *shares: str) -> dict[str, Any]:
    """Fields of a record as a row, with shares in percent."""
    row = asdict(totals)
    return {**row, **{key: f"{row[key]:.0%}" for key in shares}}
