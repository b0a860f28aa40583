"""Makes scenarios of published graphs of real Flink runs (ZeroTune's form), and validates the simulator on them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from scenarios.files.documents import CLOSED
from streamtwin.connect.importers.run_records import (
    KEY_FIELDS,
    KEYS,
    HostRecord,
    OperatorRecord,
    RunRecords,
    parse_graph,
    read_records,
    twin_operator,
)
from twin.cluster import Cluster, Host
from twin.deployment import Deployment, nominal_rates
from twin.errors import BadInput
from twin.key_skew import KeySkew, default_key_groups
from twin.kinds.flow import MIXED
from twin.kinds.registry import BY_KIND, SOURCES
from twin.plan import ExecutionPlan
from twin.profiles import FLINK
from twin.query import AnyOperator, Query, Sink, Stream, Windowed
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.workload import Constant, Workload

# scenarios of run graphs ---------------------------------------------------------------------------------------------
# Makes scenarios of published graphs of real Flink runs (ZeroTune's form), with the rates that were measured.
#
# The twin is given the sources' measured output, the filters' measured selectivity, the joins' measured amplification.
# Everything else that was measured is kept beside the scenario, to compare. See docs/real-runs.md.


REFERENCE_CLOCK_HZ = 2.0e9
"""Clock of a reference core: the nominal one of the 8-core machines in the published runs."""
LATENCY_MS = 0.1
"""Assumed latency between hosts of one data centre, which the graphs do not record."""
SETTINGS = RunSettings(horizon_s=60.0, warmup_s=20.0, period_s=10.0)
"""Settings of runs: long enough for a dozen firings of the longest window (3 s), short enough for dozens a minute."""

JoinInput = Literal["sent", "received"]
"""Denominator of a join's amplification: what its producers sent, or what it reports to have received."""
Dealt = Literal["evenly", "hashed"]
"""Distribution to subtasks of joins and time windows: even, or as Flink hashes keys; that of count windows is even."""


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """Rates of one operator, records/s, summed over the subtasks that reported (`reports` of `parallelism`).

    in_per_s is None for sources, offered_per_s for all others.
    """

    operator: str
    kind: str
    in_per_s: float | None
    out_per_s: float
    offered_per_s: float | None
    parallelism: int
    reports: int


@CLOSED
@dataclass(frozen=True, slots=True)
class ImportedRun:
    """The answer of `twin import run-graph`: a run as a scenario, with measurements (a row an operator, without the
    added sink), and notes on what was mended."""

    scenario: Scenario
    measured: tuple[MeasuredOperator, ...]
    notes: tuple[str, ...] = ()


def read_run_graph(path: str | Path, join_input: JoinInput = "sent", dealt: Dealt = "evenly") -> ImportedRun:
    """Reads the run in a graph file. Raises BadInput (file, what, why) if it cannot be read as one."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise BadInput(f"{file} cannot be read: {why}; name a .graph file") from None
    records = read_records(parse_graph(text, str(file)), str(file))
    notes = (*records.notes, *_scaled(records))
    return ImportedRun(_scenario(file, records, notes, join_input, dealt), _measured(records), notes)


def _scaled(records: RunRecords) -> list[str]:
    return [
        f"{each.name}: {len(each.reports)} of {each.parallelism} subtasks reported, its rate is scaled up to all"
        for each in records.operators
        if each.kind in SOURCES and len(each.reports) < each.parallelism
    ]


def _measured(records: RunRecords) -> tuple[MeasuredOperator, ...]:
    return tuple(
        MeasuredOperator(
            operator=each.name,
            kind=each.kind,
            in_per_s=each.in_per_s,
            out_per_s=each.out_per_s,
            offered_per_s=each.fields.number("confEventRate") if each.kind in SOURCES else None,
            parallelism=each.parallelism,
            reports=len(each.reports),
        )
        for each in records.operators
    )


def _scenario(file: Path, records: RunRecords, notes: tuple[str, ...], join_input: JoinInput, dealt: Dealt) -> Scenario:
    names = {host.id: f"host-{number}" for number, host in enumerate(records.hosts, start=1)}
    hosts = "; ".join(f"{name} was {host}" for host, name in names.items())
    mended = f" Mended: {'; '.join(notes)}." if notes else ""
    sources = [each for each in records.operators if each.kind in SOURCES]
    keys = _keys(records) if dealt == "hashed" else {}
    try:
        return Scenario(
            name=file.stem,
            description=f"A real Flink run, imported from {file.name}. Hosts: {hosts}.{mended}",
            query=_query(records, join_input, keys),
            cluster=Cluster(hosts=tuple(_host(host, names[host.id]) for host in records.hosts)),
            plan=ExecutionPlan(placement=_placement(records, names)),
            workload=Workload(
                arrivals={each.name: Constant(rate_per_s=each.sent_per_s) for each in sources}, keys=keys
            ),
            engine=FLINK,
            run=SETTINGS,
        )
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadInput(f"{file}: this graph is not a query that can run: {reason}") from None


def _host(record: HostRecord, name: str) -> Host:
    core_percent = 100.0 * record.clock_hz / REFERENCE_CLOCK_HZ
    return Host(
        name=name,
        cpu_percent=core_percent * record.cores,
        core_percent=core_percent,
        ram_mb=record.memory_bytes / 1e6,
        bandwidth_mbps=record.link_mbps,
        latency_ms=LATENCY_MS,
    )


def _placement(records: RunRecords, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Hosts of all subtasks: those that reported are where they reported from; others go, one by one, where there are

    fewest. The sink gets one subtask on each host of the last operators.
    """
    placement = {}
    for operator in records.operators:
        counts = Counter({host.id: 0 for host in records.hosts})
        counts.update(report.host for report in operator.reports)
        for _ in range(operator.parallelism - len(operator.reports)):
            counts[min(counts, key=counts.__getitem__)] += 1
        placement[operator.name] = tuple(names[host] for host, count in counts.items() for _ in range(count))
    ends = {host for operator in _last(records) for host in placement[operator.name]}
    placement["sink"] = tuple(name for name in names.values() if name in ends)
    return placement


def _last(records: RunRecords) -> list[OperatorRecord]:
    producers = {producer for producer, _ in records.streams}
    return [operator for operator in records.operators if operator.id not in producers]


def _keys(records: RunRecords) -> dict[str, KeySkew]:
    """Key skew of operators with keyed input, but for count windows."""
    keyed = [each for each in records.operators if each.kind in KEY_FIELDS]
    counting = [each for each in keyed if not BY_KIND[each.kind].joins and each.fields.text("windowPolicy") == "count"]
    return {each.name: each.fields.choice(KEY_FIELDS[each.kind], KEYS) for each in keyed if each not in counting}


def _query(records: RunRecords, join_input: JoinInput, keys: Mapping[str, KeySkew]) -> Query:
    by_id = {operator.id: operator for operator in records.operators}
    operators: list[AnyOperator] = []
    streams: list[Stream] = []
    for each in records.operators:
        producers = [by_id[producer] for producer, consumer in records.streams if consumer == each.id]
        sent_per_s = sum(producer.sent_per_s for producer in producers)
        by_sent = BY_KIND[each.kind].joins and join_input == "sent"
        operator = twin_operator(each, sent_per_s if by_sent else each.in_per_s or 0.0)
        if each.name in keys:
            operator = operator.model_copy(update={"key_groups": default_key_groups(each.parallelism)})
        operators.append(operator)
        # count windows count each key by itself, so the load of subtasks does not depend on the number of keys
        counts = isinstance(operator, Windowed) and not operator.joins and operator.window.policy == "count"
        streams.extend(_stream(producer.name, each.name, counts) for producer in producers)
    streams.extend(_stream(each.name, "sink", False) for each in _last(records))
    return Query(operators=(*operators, Sink(name="sink")), streams=tuple(streams))


def _stream(producer: str, consumer: str, rebalance: bool) -> Stream:
    return Stream(producer=producer, consumer=consumer, partitioning="rebalance" if rebalance else None)


# predicted beside measured -------------------------------------------------------------------------------------------
# Validates the simulator on imported real runs: predicted against measured rates, operator by operator.
#
# The relative error of a quantity is |predicted - measured| / measured. It is computed for predicted quantities: the
# input rate of every operator but the sources, and the output rate of every filter, join and aggregate. Given
# quantities (the sources' output) and those that were not measured (zero rates, the added sink) are left out.
#
# Sources, selectivities and amplifications are given with a run, so most of its rates follow by conservation of flow;
# a simulator that does no better than that has shown nothing. The output of windows is the real prediction.


CYCLES = 12.0
"""Length of a simulated run, in cycles of its slowest window; the first third is warm-up. A cycle is the time in which
every subtask sees one window's content."""


Rates = Mapping[str, tuple[float, float]]
"""Rates (records/s) in and out, by operator."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one operator of one run, records/s. Errors are None where nothing is predicted or was measured."""

    run: str
    family: str
    operator: str
    kind: str
    measured_in_per_s: float | None
    predicted_in_per_s: float | None
    measured_out_per_s: float
    predicted_out_per_s: float
    relative_error_in: float | None
    relative_error_out: float | None

    @property
    def errors(self) -> tuple[float, ...]:
        """Relative errors that exist, one or two."""
        return tuple(each for each in (self.relative_error_in, self.relative_error_out) if each is not None)


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Relative errors of one group: number of quantities, median and 90th percentile, and the share within 5 %."""

    quantities: int
    median: float
    p90: float
    within_5_percent: float


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class RunsValidated:
    """The answer of `twin validate-runs`. beside: errors of the simulator, of conservation of flow alone, and of the

    law of windows alone by policy. by_quantity: by kind of operator and side, such as `filter in`. by_family: by the
    folder of a run's file. operators: one a row of every run that imported; failed: the reason by file for those that
    did not. notes: by run, what was mended.
    """

    median_relative_error: float
    beside: Mapping[str, ErrorSummary]
    runs: int
    by_quantity: Mapping[str, ErrorSummary]
    by_family: Mapping[str, ErrorSummary]
    operators: tuple[Comparison, ...]
    failed: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]


def validate(directory: str | Path, settings: RunSettings, simulate: Callable[[Scenario], Run]) -> RunsValidated:
    """Imports and simulates every `.graph` file below `directory`, in order of their paths, and compares the rates.

    `settings.horizon_s` is the longest run; most are shorter (`fitted`). A file that does not import, or whose scenario
    cannot be simulated, becomes an entry of `failed`. Raises BadInput if the directory holds no such file, or nothing
    is left to compare.
    """
    folder = Path(directory)
    files = sorted(folder.rglob("*.graph"))
    if not files:
        why = "holds no .graph file" if folder.is_dir() else "is not a folder"
        raise BadInput(f"{folder} {why}; name the folder with the published run graphs")
    rows: list[Comparison] = []
    by_conservation: list[Comparison] = []
    windows: list[tuple[str, float]] = []
    failed: dict[str, str] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for file in files:
        name = file.relative_to(folder).with_suffix("").as_posix()
        family = file.relative_to(folder).parts[0] if file.parent != folder else folder.name
        try:
            run = read_run_graph(file)
            deployment = run.scenario.deployment
            simulated = simulate(Scenario.of(deployment, fitted(deployment, settings))).operators
            rates = {each.operator: (each.rate_in_per_s, each.rate_out_per_s) for each in simulated}
            rows.extend(compare(run, rates, name, family))
        except BadInput as error:
            failed[name] = str(error)
        else:
            by_conservation.extend(compare(run, conserved(run), name, family))
            windows.extend(window_errors(run))
            if run.notes:
                notes[name] = run.notes
    errors = [error for row in rows for error in row.errors]
    if not errors:
        reason = f" (the first, {min(failed)}: {failed[min(failed)]})" if failed else ""
        raise BadInput(f"nothing to compare: {len(failed)} files failed{reason}, none left an operator with rates")
    sides = [(f"{row.kind} in", row.relative_error_in) for row in rows]
    sides += [(f"{row.kind} out", row.relative_error_out) for row in rows]
    beside = [("simulated", error) for error in errors]
    beside += [("by conservation alone", error) for row in by_conservation for error in row.errors]
    beside += [(f"{policy} windows, from their own input", error) for policy, error in windows]
    return RunsValidated(
        median_relative_error=statistics.median(errors),
        beside=_summaries(beside),
        runs=len({row.run for row in rows}),
        by_quantity=_summaries((group, error) for group, error in sides if error is not None),
        by_family=_summaries((row.family, error) for row in rows for error in row.errors),
        operators=tuple(rows),
        failed=failed,
        notes=notes,
    )


def fitted(deployment: Deployment, settings: RunSettings) -> RunSettings:
    """Settings with a horizon of CYCLES cycles of the slowest window, if that is shorter."""
    rates = nominal_rates(deployment.query, deployment.workload.arrivals)
    cycles_s = [0.0]
    for operator in deployment.query.operators:
        if isinstance(operator, Windowed):
            window, in_per_s = operator.window, rates[operator.name].in_per_s
            if window.policy == "count" and in_per_s > 0:
                cycles_s.append(window.size * deployment.plan.parallelism(operator.name) / in_per_s)
            elif window.policy == "time":
                cycles_s.append(window.size)
    horizon_s = CYCLES * max(cycles_s)
    if not 0 < horizon_s < settings.horizon_s:
        return settings
    third_s = horizon_s / 3
    return RunSettings(**{**dict(settings), "horizon_s": horizon_s, "warmup_s": third_s, "period_s": third_s})


def conserved(run: ImportedRun) -> Rates:
    """Rates by conservation of flow: sources deliver what is given, and operators emit a ratio of their input."""
    rates = nominal_rates(run.scenario.query, run.scenario.workload.arrivals)
    return {name: (each.in_per_s, each.out_per_s) for name, each in rates.items()}


def window_errors(run: ImportedRun) -> list[tuple[str, float]]:
    """Policy and relative error of each aggregate whose input and output were measured."""
    errors: list[tuple[str, float]] = []
    for each in run.measured:
        operator = run.scenario.query.operator(each.operator)
        if isinstance(operator, Windowed) and not operator.joins and each.in_per_s and each.out_per_s:
            flow = operator.through((np.array([each.in_per_s]),), [np.array([np.inf])], MIXED)
            error = abs(float(flow.out_per_s[0]) - each.out_per_s) / each.out_per_s
            errors.append((operator.window.policy, error))
    return errors


def compare(run: ImportedRun, rates: Rates, name: str, family: str) -> list[Comparison]:
    """Comparisons, one for each measured operator."""
    return [_comparison(each, rates[each.operator], name, family) for each in run.measured]


def relative_error(predicted: float, measured: float | None) -> float | None:
    """Relative error |predicted - measured| / measured; None where nothing was measured."""
    return abs(predicted - measured) / measured if measured else None


def _comparison(measured: MeasuredOperator, rates: tuple[float, float], name: str, family: str) -> Comparison:
    given = measured.kind in SOURCES
    in_per_s, out_per_s = rates
    return Comparison(
        run=name,
        family=family,
        operator=measured.operator,
        kind=measured.kind,
        measured_in_per_s=measured.in_per_s,
        predicted_in_per_s=None if given else in_per_s,
        measured_out_per_s=measured.out_per_s,
        predicted_out_per_s=out_per_s,
        relative_error_in=None if given else relative_error(in_per_s, measured.in_per_s),
        relative_error_out=None if given else relative_error(out_per_s, measured.out_per_s),
    )


def _summaries(labelled: Iterable[tuple[str, float]]) -> dict[str, ErrorSummary]:
    groups: dict[str, list[float]] = {}
    for label, error in labelled:
        groups.setdefault(label, []).append(error)
    return {label: _summary(sorted(groups[label])) for label in sorted(groups)}


def _summary(errors: list[float]) -> ErrorSummary:
    return ErrorSummary(
        quantities=len(errors),
        median=statistics.median(errors),
        p90=errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        within_5_percent=sum(error <= 0.05 for error in errors) / len(errors),
    )
