"""Results of a simulation: metrics, totals, periods, the manifest of how it was made, and where the time went."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twin import metrics
from twin.histograms import WAYS, histogram_of, quantile_s, spent_quantile_s
from twin.kinds.registry import SINKS, SOURCES
from twin.metrics import TABLE, UNKNOWN, Ends, Latency, MarkerAge, Metrics, StandardErrors, Totals, measured
from twin.query import Query
from twin.world.meters import Row

if TYPE_CHECKING:
    from twin.trace import Rows


# results -------------------------------------------------------------------------------------------------------------
# Results of a simulation: metrics, totals, periods, and the manifest of how it was made.


LATE = ("numLateRecordsDropped", "numLateRecordsAside")

ROUNDING = 1e-12
"""Idle share below which it is the rounding error of the busy and backpressured shares."""


@dataclass(frozen=True, slots=True)
class SubtaskTotals:
    """Totals of one subtask after the warm-up, numbered from 0 in the order in which subtasks were added. Rates and
    shares of time are over the time for which it existed.

    host, socket: its last place. queue_mean, queue_max: records that wait for it at the ends of periods; for a source,
    unread records at the broker. state_bytes: the largest state at the end of a period.
    """

    subtask: int
    host: str
    socket: int
    records_in: int
    records_out: int
    rate_in_per_s: float
    rate_out_per_s: float
    busy: float
    backpressured: float
    idle: float
    queue_mean: float
    queue_max: int
    state_bytes: float


@dataclass(frozen=True, slots=True)
class EventTimeTotals:
    """What is special to an operator over event time, after the warm-up. late_dropped, late_aside: late records that
    were dropped, or sent to the output for them. watermark_lag_mean_s, watermark_lag_max_s: how far the watermark is
    behind the clock; None if none came."""

    late_dropped: int
    late_aside: int
    watermark_lag_mean_s: float | None
    watermark_lag_max_s: float | None


@dataclass(frozen=True, slots=True)
class OperatorTotals:
    """Totals of one operator after the warm-up, all subtasks together; busy, backpressured and idle are shares of time.

    subtasks: its present and former subtasks; empty if the run was read from a trace without them. spent: times that
    records spend there, by way (`twin.histograms.WAYS`, with `_s`); of chained operators, all are at the first. visits:
    share of the results on whose way it was; None if that is not known. event_time: None if it is not over event time.
    """

    operator: str
    kind: str
    parallelism: int
    records_in: int
    records_out: int
    rate_in_per_s: float
    rate_out_per_s: float
    busy: float
    backpressured: float
    idle: float
    subtasks: tuple[SubtaskTotals, ...] = ()
    spent: dict[str, SpentTime] = field(default_factory=dict)
    visits: float | None = None
    event_time: EventTimeTotals | None = None

    @property
    def busiest(self) -> SubtaskTotals | None:
        """Subtask that is busy for the largest share of its time, the first of several; None without subtasks."""
        return max(self.subtasks, key=lambda subtask: subtask.busy, default=None)


@dataclass(frozen=True, slots=True)
class HostTotals:
    """Totals of one host after the warm-up. cpu: share of its capacity in use. memory_mb: largest at a period's end."""

    host: str
    cpu: float
    memory_mb: float
    gc_slowdown: float
    sent_mbps: float


@dataclass(frozen=True, slots=True)
class LinkTotals:
    """Totals of one direction of a link ("a->b"), or of the network card of a host, after the warm-up.

    utilisation: mean share of its bandwidth in use; busiest: share in the period with the largest one.
    """

    link: str
    utilisation: float
    busiest: float
    sent_mbps: float


@dataclass(frozen=True, slots=True)
class Run:
    """Run of a scenario, as simulated. `cpu_s` is the processor time that the simulation itself took."""

    metrics: Metrics
    operators: tuple[OperatorTotals, ...]
    hosts: tuple[HostTotals, ...]
    warnings: tuple[str, ...]
    manifest: dict[str, Any]
    deployment_json: str
    crashed: bool
    cpu_s: float
    operator_rows: tuple[Row, ...]
    host_rows: tuple[Row, ...]
    link_rows: tuple[Row, ...] = ()
    event_rows: tuple[Row, ...] = ()
    subtask_rows: tuple[Row, ...] = ()
    links: tuple[LinkTotals, ...] = ()
    markers: tuple[MarkerAge, ...] = ()  # ages of latency markers, after the warm-up
    standard_errors: StandardErrors = UNKNOWN  # of the metrics, by chance alone
    full: tuple[str, ...] = ()  # names of operators and hosts; see `twin.steadiness.full`
    looks: tuple[tuple[float, int], ...] = ()  # seconds, and how many records then waited or were on the way
    duplicates: int = 0  # results that reached a sink twice, because of a replay
    checkpoints_json: str | None = None  # what they cost; None: nothing

    @property
    def keeps_up(self) -> bool | None:
        """Whether the job keeps up with its load; None if what is `full` for the whole run may yet hold it up."""
        return None if self.metrics.keeps_up and self.full else self.metrics.keeps_up

    def to_dict(self) -> dict[str, Any]:
        """Returns the run for JSON: metrics and standard errors; operators, hosts and links by name; events in
        order."""
        return {
            **dataclasses.asdict(self.metrics),
            "standard_errors": dataclasses.asdict(self.standard_errors),
            "cpu_s": self.cpu_s,
            "crashed": self.crashed,
            "keeps_up": self.keeps_up,
            "full": list(self.full),
            "operators": {operator.operator: _without(operator, "operator") for operator in self.operators},
            "hosts": {host.host: _without(host, "host") for host in self.hosts},
            "links": {link.link: _without(link, "link") for link in self.links},
            "markers": metrics.by_source(self.markers),
            "duplicates": self.duplicates,
            "events": [dict(row) for row in self.event_rows],
            "warnings": list(self.warnings),
            "manifest": self.manifest,
        }

    def rows(self, run: str, index: int = 0, name: str = "", subtasks: bool = False) -> Rows:
        """Rows of the trace tables, under the run's identifier. subtasks: whether to include rows of subtasks."""
        about = {
            "run": run,
            "index": index,
            "name": name,
            "status": "ok",
            "error": None,
            "deployment": self.deployment_json,
            "checkpoints": self.checkpoints_json,
            "cpu_s": self.cpu_s,
            "crashed": self.crashed,
            **self.manifest,
        }
        return {
            "runs": [about],
            "operators": [{"run": run, **row, **({} if subtasks else {"spent": None})} for row in self.operator_rows],
            "hosts": [{"run": run, **row} for row in self.host_rows],
            "links": [{"run": run, **row} for row in self.link_rows],
            "events": [{"run": run, **row, "detail": json.dumps(row["detail"])} for row in self.event_rows],
            "subtasks": [{"run": run, **row} for row in self.subtask_rows] if subtasks else [],
        }


def _without(record: Any, key: str) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(record).items() if name != key}


def metrics_of(
    operator_rows: Sequence[Row], warmup_s: float, crashed: bool, queue_growth_per_s: float = 0.0
) -> Metrics:
    """Metrics T, Lp, Le, R, RO and S from the periods that start at or after the warm-up.

    `spark.pipeline` adds up the same totals from a trace. Raises ValueError if no period is left.
    """
    rows = measured(operator_rows, warmup_s)
    if not rows:
        raise ValueError(f"warmup_s = {warmup_s} leaves no period of statistics")
    seconds = max(row["end_s"] for row in rows) - min(row["start_s"] for row in rows)
    # added up in the order of names, so that the order of operators in a file does not change the last bit
    sinks = sorted((row for row in rows if row["kind"] in SINKS), key=lambda row: (row["start_s"], row["operator"]))
    sources = [row for row in rows if row["kind"] in SOURCES]
    totals = Totals(
        seconds=seconds,
        results=sum(row["latencyCount"] for row in sinks),
        processing_s=sum(row["processingLatencySum_s"] for row in sinks),
        e2e_s=sum(row["e2eLatencySum_s"] for row in sinks),
        arrived=sum(row["arrived"] for row in sources),
        taken=sum(row["numRecordsIn"] for row in sources),
        alive=not crashed,
    )
    found: dict[str, Any] = {name: each.of(totals) for name, each in TABLE.items() if each.kind != "latency"}
    for name, key in (("processing_latency_s", "processing"), ("e2e_latency_s", "e2e")):
        found[name] = _latency(sinks, key, TABLE[name].of(totals)) if totals.results else None
    if totals.results and all(row.get("resultDelaySum_s") is not None for row in sinks):  # older traces lack it
        delay_s = sum(row["resultDelaySum_s"] for row in sinks) / totals.results
        found["result_delay_s"] = _latency(sinks, "delay", delay_s)
    return Metrics(
        **found,
        backpressure_per_s=max(0.0, (totals.arrived - totals.taken) / seconds),
        records_in=totals.taken,
        records_out=totals.results,
        queue_growth_per_s=queue_growth_per_s,
        late_per_s=sum(row.get(key) or 0 for row in rows for key in LATE) / seconds,
    )


def _latency(sinks: Sequence[Row], key: str, mean_s: float) -> Latency:
    histogram = histogram_of(sinks, key)
    return Latency(mean_s, *(quantile_s(histogram, q) for q in (0.5, 0.95, 0.99)))


def operator_totals(
    rows: Sequence[Row],
    warmup_s: float,
    subtask_rows: Sequence[Row] = (),
    visits: Mapping[str, float | None] | None = None,
) -> tuple[OperatorTotals, ...]:
    """Totals of operators over the periods that start at or after the warm-up, in the rows' order of operators."""
    periods = {row["period"] for row in measured(rows, warmup_s)}
    subtasks: dict[str, dict[int, list[Row]]] = {}
    for row in subtask_rows:
        if row["period"] in periods:
            subtasks.setdefault(row["operator"], {}).setdefault(row["subtask"], []).append(row)
    return tuple(
        OperatorTotals(
            operator=name,
            kind=mine[0]["kind"],
            parallelism=mine[-1]["parallelism"],
            **_flow(mine),
            subtasks=tuple(_subtask(number, each) for number, each in sorted(subtasks.get(name, {}).items())),
            spent=spent_times(mine),
            visits=None if visits is None else visits.get(name),
            event_time=_event_time(mine),
        )
        for name, mine in _after(rows, "operator", warmup_s).items()
    )


def _event_time(rows: Sequence[Row]) -> EventTimeTotals | None:
    """What is special to an operator over event time; None if it is not, or in traces of older versions."""
    known = [row for row in rows if row.get("numLateRecordsDropped") is not None]
    if not known:
        return None
    lags = [row for row in known if row["watermarkLagMean_s"] is not None]
    seconds = sum(row["end_s"] - row["start_s"] for row in lags)
    mean_s = (
        sum(row["watermarkLagMean_s"] * (row["end_s"] - row["start_s"]) for row in lags) / seconds if lags else None
    )
    return EventTimeTotals(
        late_dropped=sum(row["numLateRecordsDropped"] for row in known),
        late_aside=sum(row["numLateRecordsAside"] for row in known),
        watermark_lag_mean_s=mean_s,
        watermark_lag_max_s=max((row["watermarkLagMax_s"] for row in lags), default=None),
    )


def _after(rows: Sequence[Row], key: str, warmup_s: float) -> dict[str, list[Row]]:
    """Rows by component, in order: those of periods that start at or after the warm-up."""
    found: dict[str, list[Row]] = {row[key]: [] for row in rows}
    for row in measured(rows, warmup_s):
        found[row[key]].append(row)
    return found


def _flow(rows: Sequence[Row]) -> dict[str, Any]:
    """Numbers of records, rates and shares of time of an operator or a subtask."""
    lengths = [row["end_s"] - row["start_s"] for row in rows]
    seconds = sum(lengths)
    records_in, records_out = (sum(row[key] for row in rows) for key in ("numRecordsIn", "numRecordsOut"))

    def share(key: str) -> float:
        return float(sum(row[key] * length for row, length in zip(rows, lengths, strict=True)) / seconds / 1000)

    idle = share("idleTimeMsPerSecond")
    return {
        "records_in": records_in,
        "records_out": records_out,
        "rate_in_per_s": records_in / seconds,
        "rate_out_per_s": records_out / seconds,
        "busy": share("busyTimeMsPerSecond"),
        "backpressured": share("backPressuredTimeMsPerSecond"),
        "idle": idle if idle > ROUNDING else 0.0,
    }


def waiting(row: Mapping[str, Any]) -> int:
    """Number of records that wait at a period's end: those of a source at its broker. row: of an operator or
    subtask."""
    return int(row["queueLength"] if row["backlog"] is None else row["backlog"])


def _subtask(number: int, rows: Sequence[Row]) -> SubtaskTotals:
    queues = list(map(waiting, rows))
    return SubtaskTotals(
        subtask=number,
        host=rows[-1]["host"],
        socket=rows[-1]["socket"],
        **_flow(rows),
        queue_mean=sum(queues) / len(queues),
        queue_max=max(queues),
        state_bytes=max(row["stateBytes"] for row in rows),
    )


def host_totals(rows: Sequence[Row], warmup_s: float) -> tuple[HostTotals, ...]:
    """Totals of hosts: means and maxima over the periods that start at or after the warm-up."""
    totals = []
    for name, mine in _after(rows, "host", warmup_s).items():
        seconds = sum(row["end_s"] - row["start_s"] for row in mine)
        totals.append(
            HostTotals(
                host=name,
                cpu=sum(row["cpuUtilisation"] * (row["end_s"] - row["start_s"]) for row in mine) / seconds,
                memory_mb=max(row["memoryUsedMb"] for row in mine),
                gc_slowdown=max(row["gcSlowdown"] for row in mine),
                sent_mbps=sum(row["bytesOut"] for row in mine) * 8e-6 / seconds,
            )
        )
    return tuple(totals)


def link_totals(rows: Sequence[Row], warmup_s: float) -> tuple[LinkTotals, ...]:
    """Totals of links that carried anything: means and maxima over the periods that start at or after the warm-up."""
    totals = []
    for name, mine in _after(rows, "link", warmup_s).items():
        lengths = [row["end_s"] - row["start_s"] for row in mine]
        if not any(row["bytesOut"] for row in mine):
            continue
        totals.append(
            LinkTotals(
                link=name,
                utilisation=sum(row["utilisation"] * each for row, each in zip(mine, lengths, strict=True))
                / sum(lengths),
                busiest=max(row["utilisation"] for row in mine),
                sent_mbps=sum(row["bytesOut"] for row in mine) * 8e-6 / sum(lengths),
            )
        )
    return tuple(totals)


# where the time goes -------------------------------------------------------------------------------------------------
# Where the time goes: which part of the mean end-to-end latency results spend at which operator, and how.


@dataclass(frozen=True, slots=True)
class SpentTime:
    """Times that records spent at an operator in one way, in seconds; quantiles are within 1 %. count: of records, or
    of results where it is they that wait."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class TimePart:
    """Part of the mean end-to-end latency. mean_s: seconds of it. times: of single records at the operator."""

    operator: str
    way: str
    mean_s: float
    times: SpentTime


def spent_times(rows: Iterable[Mapping[str, Any]]) -> dict[str, SpentTime]:
    """Times by way, such as `queue_s`, from the rows of an operator's periods."""
    sums: dict[str, float] = {}
    counts: dict[str, dict[int, int]] = {}
    for row in rows:
        for each in row.get("spent") or ():
            way = each["way"]
            sums[way] = sums.get(way, 0.0) + each["sum_s"]
            histogram = counts.setdefault(way, {})
            for bucket, count in zip(each["buckets"], each["counts"], strict=True):
                histogram[bucket] = histogram.get(bucket, 0) + count
    found = {}
    for way in WAYS:
        if way in counts:
            total = sum(counts[way].values())
            quantiles = (spent_quantile_s(counts[way], q) for q in (0.5, 0.95, 0.99))
            found[f"{way}_s"] = SpentTime(total, sums[way] / total, *quantiles)
    return found


def visits(query: Query, came: Mapping[Ends, float], results: Mapping[str, float]) -> dict[str, float]:
    """Share of the results on whose way each operator was. Where streams meet, a result is from each in proportion.

    came: records by stream; absent within a chain. results: by sink.
    """
    total = sum(results.values())
    found = dict.fromkeys((operator.name for operator in query.topological), 0.0)
    if not total:
        return found
    for name in reversed(list(found)):
        found[name] += results.get(name, 0.0) / total
        producers = query.upstream[name]
        all_came = sum(came.get((each, name), 0.0) for each in producers)
        for each in producers:
            found[each] += found[name] * (came.get((each, name), 0.0) / all_came if all_came else 1.0 / len(producers))
    return found


def parts(operators: Sequence[Any]) -> list[TimePart]:
    """Parts of the mean end-to-end latency, the largest first. operators: `OperatorTotals`."""
    found = [
        TimePart(each.operator, way.removesuffix("_s"), each.visits * _mean_s(each.spent, way), times)
        for each in operators
        if each.visits
        for way, times in each.spent.items()
    ]
    return sorted(found, key=lambda part: -part.mean_s)


def _mean_s(spent: Mapping[str, SpentTime], way: str) -> float:
    """Mean time in one way of all records at an operator; few of them wait for barriers."""
    times = spent[way]
    return times.mean * (times.count / spent["queue_s"].count if way == "barriers_s" else 1.0)
