"""Tables and time-lines of a run for people, and of its checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from figures import units
from figures.time_line import EventMark, Panel
from streamtwin.tables import rounding
from streamtwin.tables.tables import Column, Wide, cell, number, of_rows, seconds
from twin import metrics
from twin.chaining import fused, written
from twin.deployment import Deployment
from twin.histograms import GROWTH, histogram_of, quantile_s
from twin.kinds.registry import SINKS, SOURCES
from twin.metrics import ERRORS, Latency, Metrics, measured
from twin.plan import Location
from twin.run import OperatorTotals, Run, parts
from twin.steadiness import window_slides_s
from twin.world.meters import Row

# runs ----------------------------------------------------------------------------------------------------------------
# Tables of a run for people: metrics with their errors, operators, hosts, links and events.


QUANTILES = ("p50", "p95", "p99")
MOST_DIGITS = 3
"""Most digits of numbers that have no error beside them."""
LEAST_PART = 0.01
"""Share of the latency from which on a part of it is listed."""
LEAST_SLOWED = 1.005
"""Factor from which on work of a host that has little memory left is said to take longer."""
SAME = 1.0 - 1e-6
"""Share of a latency above which another is the same, but for rounding."""
NUMBERED = frozenset({"subtask", "to_subtask"})
"""Details of events in which 0 means the first one, and not none."""


def of_run(name: str, run: Run) -> list[Wide]:
    """Tables of a run: metrics, operators, hosts and, if there were any, event time, links, events, checkpoints."""
    tables = [_metrics(name, run), _operators(run), *_event_time(run), *_times(run), _hosts(run)]
    if any("->" in link.link for link in run.links):  # hosts' cards are above
        tables.append(_links(run))
    changes, taken = apart(run.event_rows)
    if changes:
        tables.append(_events(changes))
    if taken:
        tables.append(of_checkpoints(taken))
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
        *_without_windows(metrics),
        ("end-to-end latency", *_latency(e2e, errors["e2e_latency_s"])),
    ]
    if metrics.late_per_s:
        rows.append(("late records (records/s)", f"{number(metrics.late_per_s)}, which are no results"))
    precise = about["simulated_s"] < about["horizon_s"]
    if about["warmup_s"] or precise:
        span = f"{seconds(about['warmup_s'])} to {seconds(about['simulated_s'])}"
        rows.append(("measured from", f"{span}, when it was precise enough" if precise else span))
    grows = "yes" if metrics.backpressured else "no"
    more = f"; queues grow by {number(metrics.queue_growth_per_s)}/s" if metrics.queue_growth_per_s else ""
    rows.append(("backpressured", f"{grows} ({number(metrics.backpressure_per_s)}/s unread{more})"))
    rows.append(("keeps up", keeps_up(run)))
    results = "results came, no crash" if metrics.success else "it crashed" if run.crashed else "no results"
    rows.append(("success", f"{'yes' if metrics.success else 'no'} ({results})"))
    out = metrics.records_out
    results = rounding.number(out, out * error / rate) if error and rate else ""
    rows.append(("records in / out", f"{metrics.records_in:,} / {results or format(out, ',')}"))
    columns = zip(("metric", mean, *QUANTILES), zip_longest(*rows, fillvalue=""), strict=True)
    shown = tuple(Column((heading,), cells, number=heading != "metric") for heading, cells in columns)
    more = " of this run's; how much of them is chance is unknown" * (errors["processing_latency_s"] is None)
    return Wide(f"{name}: simulated metrics (quantiles are within {GROWTH**0.5 - 1:.0%}{more})", shown)


def _without_windows(metrics: Metrics) -> Iterator[tuple[str, ...]]:
    """Row of the latency without the wait for windows, if the job has any."""
    with_s, without_s = metrics.processing_latency_s, metrics.result_delay_s
    if with_s is not None and without_s is not None and without_s.mean < SAME * with_s.mean:
        yield ("  without the wait for windows", *_latency(without_s, None))


def keeps_up(run: Run) -> str:
    """Whether a job keeps up, in words."""
    unknown = f"unknown: {', '.join(run.full)} full, run longer"
    return {True: "yes", False: "no", None: unknown}[run.keeps_up]


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
        "parallelism": "parallelism",
        "rate_in_per_s": "in/s",
        "rate_out_per_s": "out/s",
        "dropped_per_s": "dropped/s",
        "busy": "busy",
        "busiest": "busiest subtask",
        "backpressured": "backpressured",
        "idle": "idle",
        "marker": "age of latency markers",
    }
    shares, ages_s = ("busy", "backpressured", "idle"), metrics.by_operator(run.markers)
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


def _event_time(run: Run) -> Iterator[Wide]:
    """Late records, and the mean and worst lag of watermarks, if any operator is over event time."""
    columns = {
        "operator": "operator",
        "late": "late records dropped",
        "aside": "late to an output",
        "mean": "watermark lag",
        "most": "at most",
    }
    rows = [
        {
            "operator": each.operator,
            "late": f"{each.event_time.late_dropped:,}",
            "aside": f"{each.event_time.late_aside:,}" if each.event_time.late_aside else None,
            "mean": seconds(each.event_time.watermark_lag_mean_s) or "none came",
            "most": seconds(each.event_time.watermark_lag_max_s),
        }
        for each in run.operators
        if each.event_time is not None
    ]
    if not any(row["aside"] for row in rows):
        del columns["aside"]
    if rows:
        yield of_rows("event time", columns, rows)


def drops(run: Run) -> dict[str, int]:
    """Records lost at full channels after the warm-up, by producer; those that lost none are not listed."""
    lost: Counter[str] = Counter()
    for row in measured(run.operator_rows, run.manifest["warmup_s"]):
        lost[row["operator"]] += row["numRecordsDropped"]
    return {name: count for name, count in lost.items() if count}


def _times(run: Run) -> Iterator[Wide]:
    """Table of where the time goes, of the parts that matter."""
    e2e, found = run.metrics.e2e_latency_s, parts(run.operators)
    if e2e is None or not e2e.mean or not found:
        return
    shown = [part for part in found if part.mean_s >= LEAST_PART * e2e.mean]
    rows = [
        {
            "operator": part.operator,
            "way": part.way,
            "share": f"{part.mean_s / e2e.mean:.0%}",
            "mean": seconds(part.times.mean),
            **{q: seconds(getattr(part.times, q)) for q in QUANTILES},
        }
        for part in shown
    ]
    left = 1.0 - sum(part.mean_s for part in shown) / e2e.mean
    if left >= LEAST_PART:
        rows.append({"operator": "all else", "share": f"{left:.0%}"})
    columns = {
        "operator": "operator",
        "way": "spent in",
        "share": "share",
        "mean": "mean",
        **{q: q for q in QUANTILES},
    }
    yield of_rows(f"where the time goes (shares of the mean end-to-end latency, {seconds(e2e.mean)})", columns, rows)


def _busiest(totals: OperatorTotals) -> str | None:
    """Words for the busiest subtask and its utilisation; None if it is as busy as the mean."""
    busiest = totals.busiest
    if busiest is None or f"{busiest.busy:.0%}" == f"{totals.busy:.0%}":
        return None
    numbered = all(each.subtask < totals.parallelism for each in totals.subtasks)  # else some left, and numbers go on
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
        "slowed": "slowed by full memory",
        "sent_mbps": "sent (Mbit/s)",
    }
    slowed = {each.host: f"x {each.gc_slowdown:.2f}" if each.gc_slowdown > LEAST_SLOWED else "" for each in run.hosts}
    if not any(slowed.values()):
        del columns["slowed"]
    return of_rows("hosts", columns, ({**_row(each, "cpu"), "slowed": slowed[each.host]} for each in run.hosts))


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


# time-lines ----------------------------------------------------------------------------------------------------------
# Time-lines of a run: rates, queues, latencies, utilisation of operators and hosts, and events.


MOST_POINTS = 240
MOST_SERIES = 6
MOST_MARKS = 40
DRAWN_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Group = Sequence[Row]
"""Rows of one point: of a period, or of several where there are many."""


def panels(run: Run, by_window: bool = True) -> list[Panel]:
    """Five panels on the same axis of time; in long runs a point is several periods. by_window: whether results are
    those of the windows that they come from, where these are longer than a point: between ends of windows none come."""
    operators = _by_point(run.operator_rows)
    every_s = _results_every_s(run) if by_window else 0.0
    results = _by_window(operators, every_s)
    at_s = [(group[0]["start_s"] + group[-1]["end_s"]) / 2 for group in operators]
    rest: dict[str, Any] = {"at_s": at_s, "marks": marks(run), "end_s": run.manifest["horizon_s"]}
    ends = rest | {"at_s": [group[-1]["end_s"] for group in operators], "levels": True}
    hosts = _by_point(run.host_rows)
    return [
        Panel("records a second", series=_rates(operators, results, every_s), **rest),
        Panel("waiting records", series=_queues(operators), **ends),
        Panel("end-to-end latency [s]", series=_latencies(results), logarithmic=True, nested=True, **rest),
        Panel("operators: share of time busy", series=_busy(operators, run), top=1.0, shares=True, **rest),
        Panel("hosts: share of CPU in use", series=_cpu(hosts), top=1.0, shares=True, **rest),
    ]


def marks(run: Run) -> list[EventMark]:
    """Marks of events and decisions; the first ones if there are very many."""
    return [EventMark(row["at_s"], row["end_s"], in_words(row)) for row in apart(run.event_rows)[0][:MOST_MARKS]]


def in_words(event: Mapping[str, Any]) -> str:
    """Event in words: time, kind, component, key groups, and for how long the job or a part of it was paused."""
    paused = f", paused {seconds(event['paused_s'])}" if event["paused_s"] else ""
    detail = event["detail"]
    moved = detail.get("key_groups", ())
    what = f", {len(moved)} key group{'s' * (len(moved) != 1)}" if moved else ""
    to = f" to {detail['to']}" if "to" in detail else ""
    to = f" to subtask {detail['to_subtask']}" if "to_subtask" in detail else to
    reason = f" ({detail['reason']})" if detail.get("reason") else ""
    return f"{cell(event['at_s'])} s: {event['kind']} of {event['component']}{what}{to}{paused}{reason}"


def _by_point(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows by point, in order: by period, or by several neighbouring periods if there would be too many points."""
    periods: dict[int, list[Row]] = {}
    for row in rows:
        periods.setdefault(row["period"], []).append(row)
    ordered = [periods[number] for number in sorted(periods)]
    step = -(-len(ordered) // MOST_POINTS) or 1
    return [[row for period in ordered[at : at + step] for row in period] for at in range(0, len(ordered), step)]


def _by_window(groups: Sequence[Group], every_s: float) -> list[Group]:
    """For each group, the rows of all groups that begin between the same two multiples of `every_s`."""
    together: dict[int, list[Row]] = {}
    numbers = [int(group[0]["start_s"] / every_s + 1e-9) if every_s else n for n, group in enumerate(groups)]
    for window, group in zip(numbers, groups, strict=True):
        together.setdefault(window, []).extend(group)
    return [together[window] for window in numbers]


def _of_each(groups: Sequence[Group], value: Callable[[Group], Any]) -> list[Any]:
    """Value of each group; of groups that are the same rows it is computed once."""
    known = {id(group): value(group) for group in {id(group): group for group in groups}.values()}
    return [known[id(group)] for group in groups]


def _results_every_s(run: Run) -> float:
    """Longest time between ends of windows before the sink that waits the least for them, in seconds; 0 if one waits
    for none: over a longer time its gaps would not be seen."""
    query = Deployment.model_validate_json(run.deployment_json).query
    slides_s = {each.name: max(window_slides_s(each), default=0.0) for each in query.operators}
    return min(max((slides_s[name] for name in query.ancestors(sink.name)), default=0.0) for sink in query.result_sinks)


def _length_s(group: Group) -> float:
    return float(group[-1]["end_s"] - group[0]["start_s"])


def _rates(groups: Sequence[Group], results: Sequence[Group], every_s: float) -> dict[str, list[float | None]]:
    """Rates of the job. every_s: between results; those of the last window are of all of it, though the run ends."""

    def rate(groups: Sequence[Group], key: str, kinds: Iterable[str], least_s: float = 0.0) -> list[float | None]:
        def of(group: Group) -> float:
            count = sum(row[key] or 0 for row in group if row["kind"] in kinds)
            return float(count / max(_length_s(group), least_s))

        return _of_each(groups, of)

    return {
        "arriving": rate(groups, "arrived", SOURCES),
        "taken up": rate(groups, "numRecordsIn", SOURCES),
        "results": rate(results, "latencyCount", SINKS, every_s),
    }


def _queues(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    """Queues at the sources' brokers, and before the operators with the longest ones; at the end of each point."""
    at_brokers: list[float | None] = []
    for group in groups:
        last = group[-1]["period"]
        at_brokers.append(float(sum(row["backlog"] or 0 for row in group if row["period"] == last)))
    longest = _fullest(groups, "operator", lambda rows: float(rows[-1]["queueLength"]), MOST_SERIES - 1, "before ")
    return {"unread at sources": at_brokers, **longest}


def _latencies(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    def counts(group: Group) -> Any:
        return histogram_of([row for row in group if row["kind"] in SINKS and row["latencyCount"]], "e2e")

    known = _of_each(groups, counts)
    return {name: [quantile_s(each, q) if each else None for each in known] for name, q in DRAWN_QUANTILES.items()}


def _busy(groups: Sequence[Group], run: Run) -> dict[str, list[float | None]]:
    """Busy shares of the busiest tasks; chained operators are one task, and so one line, which has all their names."""
    job = Deployment.model_validate_json(run.deployment_json)
    chains = {chain[0]: chain for chain in fused(job.query, job.plan, job.engine)}
    followers = {name for chain in chains.values() for name in chain[1:]}
    heads = [[row for row in group if row["operator"] not in followers] for group in groups]
    lines = _fullest(heads, "operator", lambda rows: _mean(rows, "busyTimeMsPerSecond") / 1000, MOST_SERIES)
    return {written(job.query, chains.get(name, (name,))): line for name, line in lines.items()}


def _cpu(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    return _fullest(groups, "host", lambda rows: _mean(rows, "cpuUtilisation"), MOST_SERIES)


def _mean(rows: Group, key: str) -> float:
    """Mean of a column of rows, weighted by the lengths of their periods."""
    lengths = [row["end_s"] - row["start_s"] for row in rows]
    return float(sum(row[key] * each for row, each in zip(rows, lengths, strict=True)) / sum(lengths))


def _fullest(
    groups: Sequence[Group], key: str, value: Callable[[Group], float], most: int, prefix: str = ""
) -> dict[str, list[float | None]]:
    """Lines of the `most` components with the highest values, the highest first, without those that are always 0."""
    lines: dict[str, list[float | None]] = {}
    for place, group in enumerate(groups):
        mine: dict[str, list[Row]] = {}
        for row in group:
            mine.setdefault(row[key], []).append(row)
        for name, rows in mine.items():
            line = lines.setdefault(name, [None] * len(groups))
            line[place] = value(rows)
    tops = {name: max(each or 0.0 for each in line) for name, line in lines.items()}
    chosen = sorted((name for name in lines if tops[name] > 0.0), key=lambda name: -tops[name])[:most]
    return {f"{prefix}{name}": lines[name] for name in chosen}


# checkpoints ---------------------------------------------------------------------------------------------------------
# Table of the checkpoints of a run: means and maxima of what one takes. Each checkpoint has a row in the trace.


KIND = "checkpoint"
"""Kind of checkpoints in the rows of events."""
EventRow = Mapping[str, Any]
QUANTITIES: Mapping[str, tuple[Callable[[EventRow], float], Callable[[float], str]]] = {
    "from the first barrier to the last upload": (lambda row: row["end_s"] - row["at_s"], seconds),
    "uploaded (MB)": (lambda row: row["bytes"] / 1e6, number),
    "state (MB)": (lambda row: row["detail"]["state_bytes"] / 1e6, number),
    "records on their way (MB)": (lambda row: row["detail"]["flying_bytes"] / 1e6, number),
    "a task waits for its last barrier": (lambda row: row["detail"]["alignment_s"], seconds),
    "records put aside meanwhile": (lambda row: row["detail"]["put_aside"], number),
}


def apart(rows: Sequence[EventRow]) -> tuple[list[EventRow], list[EventRow]]:
    """Rows of events that changed the job, and rows of checkpoints."""
    return [row for row in rows if row["kind"] != KIND], [row for row in rows if row["kind"] == KIND]


def of_checkpoints(rows: Sequence[EventRow]) -> Wide:
    """Table of checkpoints. rows: of their events. Its title has the number of completed ones, and ends of others."""
    done = [row for row in rows if row["detail"]["status"] == "completed"]
    columns = {"what": "what", "mean": "mean", "most": "most"}
    lines = [_line(what, [value(row) for row in done], told) for what, (value, told) in QUANTITIES.items() if done]
    return of_rows(f"checkpoints: {_counts(rows)}", columns, lines)


def _line(what: str, values: Sequence[float], told: Callable[[float], str]) -> dict[str, str]:
    return {"what": what, "mean": told(sum(values) / len(values)), "most": told(max(values))}


def _outcome(detail: EventRow) -> str:
    return f"failed ({detail['why']})" if "why" in detail else str(detail["status"])


def _counts(rows: Sequence[EventRow]) -> str:
    """Words for the number of checkpoints of each status; failed ones by their reasons."""
    words = [_outcome(row["detail"]) for row in rows]
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(sorted(words)))
