"""Cautions about a run for readers of its results: events that never happened, and reasons why there are no results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from twin.checkpoints import Checkpoints
from twin.control import PolicySpec
from twin.engine.measure.meters import Row
from twin.event_time import in_time
from twin.event_time_events import told_event
from twin.events import AnyEvent
from twin.job import Component, Job
from twin.key_skew import KeySkew
from twin.metrics import measured
from twin.partitions import busiest, counts, even
from twin.query import AnyOperator, Query, Windowed
from twin.scenario import RunSettings, Scenario
from twin.scheduling import beyond_slots
from twin.steadiness import in_step, outlasting, uneven
from twin.wiring.world import World

MOST_LATE = 1e-3
"""Share of late tuples above which there is a warning."""
MOST_OPEN = 0.15
"""Share of sessions that have not ended above which there is a warning: the run is then shorter than 1 / 0.15 of their
mean lengths, and without those that are longer, the mean of exponential lengths is 1 % too low."""
NEARLY_ALL = 0.9
"""Share of served records from which on an operator that sends nothing is not called too slow."""
LONG_S = 10.0
"""CPU seconds of one tuple from which on there is a warning."""


def cautions(job: Job, scenario: Scenario, world: World, rows: Sequence[Row], crashed: bool) -> tuple[str, ...]:
    """Warnings about a run, one line each, with the remedy. rows: rows of the operators.

    crashed: whether the job lacked memory, which explains other things that did not happen.
    """
    settings, events = scenario.run, scenario.events
    totals = _totals(rows)
    unevaluated = {} if crashed else _unevaluated(job, settings, totals)
    return (
        *_dropped(rows),
        *unevaluated.values(),
        *_slow(job),
        *_idle(job),
        *_crowded(job),
        *beyond_slots(scenario),
        *(line for source in job.sources for line in _of_partitions(source, world)),
        *_of_event_time(job, rows, totals),
        *([] if crashed else _silent(job, settings, totals, unevaluated, rows)),
        *_of_events(world, settings, events),
        *_of_policy(scenario.policy, settings, world),
        *_of_checkpoints(world, scenario.checkpoints, rows[-1]["end_s"]),
        *_outlasting(job, world, totals, rows[-1]["end_s"]),
        *uneven(scenario, settings.warmup_s, rows[-1]["end_s"]),
        *in_step(scenario, settings.warmup_s, rows[-1]["end_s"], _latency_s(job, rows, settings.warmup_s)),
    )


def _dropped(rows: Sequence[Row]) -> list[str]:
    """Warnings about tuples lost at full channels, which no metric counts."""
    lines = []
    dropping: dict[str, list[Row]] = {row["operator"]: [] for row in rows if row["numRecordsDropped"]}
    for row in rows:
        if row["operator"] in dropping:
            dropping[row["operator"]].append(row)
    for name, mine in dropping.items():
        lost, made = (sum(row[key] for row in mine) for key in ("numRecordsDropped", "numRecordsOut"))
        lines.append(f"{name}: {lost} of the {made} tuples that it sent were dropped at full channels")
    return lines


Totals = dict[str, dict[str, int]]
_COUNTS = ("arrived", "numRecordsIn", "numRecordsOut", "latencyCount")


def _totals(rows: Sequence[Row]) -> Totals:
    """Sums over all periods, with those of the warm-up, by operator."""
    totals: Totals = {}
    for row in rows:
        mine = totals.setdefault(row["operator"], dict.fromkeys(_COUNTS, 0))
        for key in _COUNTS:
            mine[key] += row.get(key) or 0
    return totals


def _outlasting(job: Job, world: World, totals: Totals, end_s: float) -> Iterator[str]:
    """Warnings about windows and sessions that last as long as the run, or longer."""
    yield from outlasting([each for each in job.query.operators if totals[each.name]["numRecordsOut"]], end_s)
    for component in job.components:
        logics = [task.logic for task in world.tasks[component.name]]
        begun, finished = (sum(getattr(logic, name, 0) for logic in logics) for name in ("begun", "finished"))
        if finished and begun - finished > MOST_OPEN * begun:
            yield (
                f"{component.name}: {begun - finished:,} of {begun:,} sessions had not ended with the run; those that "
                "are missing are the longest, so that latencies are too low; make run.horizon_s several times as long"
            )


def _latency_s(job: Job, rows: Sequence[Row], warmup_s: float) -> float:
    """Mean end-to-end latency of results, in seconds; infinite without results."""
    sinks = {sink.name for sink in job.query.sinks}
    mine = [row for row in measured(rows, warmup_s) if row["operator"] in sinks]
    results = sum(row["latencyCount"] or 0 for row in mine)
    return sum(row["e2eLatencySum_s"] or 0.0 for row in mine) / results if results else math.inf


def _unevaluated(job: Job, settings: RunSettings, totals: Totals) -> dict[str, str]:
    """Warnings about windows that were never evaluated, by operator."""
    lines = {}
    for operator in job.query.operators:
        if not isinstance(operator, Windowed):
            continue
        window, name = operator.window, operator.name
        if window.policy == "time" and window.slide >= settings.horizon_s:
            lines[name] = (
                f"{name}: its window slides every {window.slide:g} s, not within the horizon of "
                f"{settings.horizon_s:g} s, so it is never evaluated; run longer or shorten the window"
            )
        elif window.policy == "count":
            seen, replicas = totals[name]["numRecordsIn"], job.component(name).replicas
            if seen < window.slide or (seen < window.slide * replicas and not totals[name]["numRecordsOut"]):
                among = f" to its {replicas} replicas" if replicas > 1 else ""
                lines[name] = (
                    f"{name}: its window slides every {window.slide:g} tuples and only {seen} came{among}, "
                    "so it was never evaluated; run longer or shorten the window"
                )
    return lines


def _slow(job: Job) -> list[str]:
    """Warnings about service times that are so long that a wrong unit is likely."""
    times = {operator.name: operator.service_time_s or 0.0 for operator in job.deployment.query.operators}
    words = "service_time_s is in seconds; write 5ms for milliseconds"
    return [f"{name}: a tuple takes {time_s:g} s; {words}" for name, time_s in times.items() if time_s >= LONG_S]


def _idle(job: Job) -> list[str]:
    return [
        f"plan.key_groups.{name} gives replica {replica} no key group, so it is idle; give it one or leave it out"
        for name, owners in job.deployment.plan.key_groups.items()
        for replica in range(job.component(name).replicas)
        if replica not in owners
    ]


def _crowded(job: Job) -> list[str]:
    """Warnings about operators whose parameters are impossible with their key groups."""
    query, keys = job.deployment.query, job.deployment.workload.keys
    lines = [
        operator.crowded(len(query.inputs(operator.name)), keys.get(operator.name, KeySkew()).zipf)
        for operator in query.operators
        if not keys.get(operator.name, KeySkew()).placed
    ]
    return [line for line in lines if line]


def _of_partitions(source: Component, world: World) -> Iterator[str]:
    """Warnings about a source whose partitions its replicas cannot share evenly."""
    partitions, replicas = source.operator.parts, len(world.tasks[source.name])  # events and policies change it
    if partitions is None:
        return
    name, read = source.name, counts(partitions, replicas)
    idle = sum(count == 0 for count in read)
    if idle:
        yield f"{name}: {idle} of {replicas} replicas read none of its {partitions} partitions; give it fewer"
    elif not even(partitions, replicas):
        yield (
            f"{name}: {replicas} replicas read {partitions} partitions, so some read {read[0]} and others {read[-1]}: "
            f"the busiest gets {busiest(partitions, replicas):.2f} times the mean; use a divisor of {partitions}"
        )
    brokers = world.brokers[name]
    reading = counts(partitions, len(brokers))  # only replicas that read any; a restart may have dealt partitions anew
    lags = {number: broker.backlog / reading[number] for number, broker in enumerate(brokers)}
    least, most = min(lags.values()), max(lags.values())
    if most > 2.0 * least + 1.0 and not even(partitions, replicas):
        worst = max(lags, key=lags.__getitem__)
        yield (
            f"{name}: at the end {most:,.0f} tuples of each partition of replica {worst} are unread, "
            f"and {least:,.0f} of those that lag least"
        )


def _silent(
    job: Job, settings: RunSettings, totals: Totals, explained: dict[str, str], rows: Sequence[Row]
) -> list[str]:
    """Warnings about sinks without results, which say where the flow ended, or without results after the warm-up."""
    lines = []
    reached = _reached(job.query)
    for sink in (sink for sink in job.query.sinks if sink.name in reached):
        results = totals[sink.name]["latencyCount"]
        if results:
            mine = [row for row in rows if row["operator"] == sink.name]
            if not any(row["latencyCount"] for row in measured(mine, settings.warmup_s)):
                lines.append(
                    f"nothing reached {sink.name!r} after the warm-up of {settings.warmup_s:g} s, though "
                    f"{results} tuples did before; run longer or shorten run.warmup_s"
                )
            continue
        behind = {sink.name, *job.query.ancestors(sink.name)}
        path = [operator for operator in job.query.topological if operator.name in behind]
        causes = [cause for operator in path if (cause := _stop(job, operator, totals, explained))]
        lines.append(f"nothing reached {sink.name!r}: {', and '.join(causes) or 'the horizon came first; run longer'}")
    return lines


def _reached(query: Query) -> set[str]:
    """Operators to which other tuples come than late records, which may never come."""
    found: set[str] = set()
    for each in query.topological:
        producers = [query.operator(stream.producer) for stream in query.inputs(each.name)]
        if not producers or any(one.name in found and getattr(one, "late_to", None) != each.name for one in producers):
            found.add(each.name)
    return found


def _stop(job: Job, operator: AnyOperator, totals: Totals, explained: dict[str, str]) -> str:
    """Reason why no tuple leaves an operator to which tuples came; empty if tuples leave it, or none came."""
    name, mine = operator.name, totals[operator.name]
    if operator.is_source:
        if not mine["arrived"]:
            return f"no tuple arrived at source {name!r}; raise its rate or run longer"
        came = mine["arrived"]
    else:
        came = sum(totals[stream.producer]["numRecordsOut"] for stream in job.query.inputs(name))
    taken = mine["numRecordsIn"]
    if not came or mine["numRecordsOut"]:
        return ""
    if not taken:
        return f"{name!r} took in none of the {came} tuples that were sent to it; {_SLOW}"
    if name in explained:
        return f"the window of {name!r} was never evaluated"
    served = taken - job.deployment.plan.replicas(name)  # each may have one in service
    remedy = _HELD if served >= NEARLY_ALL * came else _SLOW
    return (
        operator.why_silent(taken, came) or f"{name!r} took in {taken} of {came} tuples and nothing came out; {remedy}"
    )


_HELD = "its results may wait for a watermark, or for a checkpoint to complete: see these, or run longer"
_SLOW = "give it more CPU (cpu_percent, service_time_s) or network (bandwidth_mbps, latency_ms), or run longer"


def _of_events(world: World, settings: RunSettings, events: Sequence[AnyEvent]) -> list[str]:
    lines = [
        f"{told_event(index, event)} lies beyond the horizon of {settings.horizon_s:g} s and "
        "never happens; run longer or move it"
        for index, event in enumerate(events)
        if event.at_s >= settings.horizon_s
    ]
    lines += world.ledger.warnings
    for record in world.ledger.events:
        if record.kind in ("migration", "scale") and record.end_s is None:
            lines.append(f"{record.kind} of {record.component} at {record.at_s:g} s had not ended at the horizon")
    return lines


def _of_policy(policy: PolicySpec | None, settings: RunSettings, world: World) -> list[str]:
    """Warns of a policy that changed nothing, as it never had the time, or for the reason that it gave last."""
    if policy is None:
        return []
    told = [record.detail for record in world.ledger.events if record.kind == "decision"]
    if told and not any(each["moves"] or each["rescales"] or each.get("operations") for each in told):
        return [f"policy {policy.name} changed nothing: {told[-1]['reason']}"]
    periods, period_s = policy.periods_before_acting, settings.period_s
    first_s = periods * period_s + settings.decision_latency_s
    if first_s < settings.horizon_s:
        return []
    seen = f"{periods} periods of {period_s:g} s" if periods > 1 else f"a period of {period_s:g} s"
    why = f"policy {policy.name} can change nothing before {first_s:g} s, as it must have seen {seen}"
    horizon = f"the horizon is {settings.horizon_s:g} s, so it never acts"
    return [f"{why}; {horizon}; run longer, or shorten run.period_s or what the policy waits for"]


def _of_checkpoints(world: World, spec: Checkpoints | None, end_s: float) -> Iterator[str]:
    """Warnings about checkpoints that took, or are taking, too long; not about those that an event ended."""
    rows = [record for record in world.ledger.events if record.kind == "checkpoint"]
    late = [record for record in rows if "not complete" in str(record.detail.get("why", ""))]
    if late:
        remedy = "give them more checkpoints.timeout_s, or a faster storage; unaligned ones do not wait for slow inputs"
        yield f"{len(late)} of {len(rows)} checkpoints were given up: {late[0].detail['why']}; {remedy}"
    taken_s = [(record.end_s or end_s) - record.at_s for record in rows if not record.detail.get("why")]
    longest_s = max(taken_s, default=0.0)
    if spec is not None and longest_s > spec.interval_s and not late:
        held = "; what a sink holds back at the end is in no metric" if spec.sinks == "exactly-once" else ""
        yield (
            f"a checkpoint took {longest_s:.3g} s, longer than the interval of {spec.interval_s:g} s, so fewer are "
            f"made than asked for{held}; lengthen checkpoints.interval_s, or use a faster storage"
        )


# over event time: tuples that are in no window, and windows that never end -------------------------------------------


def _of_event_time(job: Job, rows: Sequence[Row], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Warnings about operators over event time. rows: rows of the operators. totals: their sums, by operator."""
    timed = [operator.name for operator in job.query.operators if operator.needs_event_time]
    return [*_late(job, timed, totals), *_waiting(job, timed, rows)] if timed else []


def _late(job: Job, timed: Sequence[str], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    lines = []
    for name in timed:
        came, late = totals[name]["numRecordsIn"], totals[name]["numRecordsIn"] - totals[name]["latencyCount"]
        if getattr(job.query.operator(name), "late_to", None) is not None:  # late records are counted there
            continue
        if not in_time(job.query, name) and totals[name]["latencyCount"] and late > MOST_LATE * came:
            lines.append(
                f"{name}: {late:,} of {came:,} tuples ({late / came:.1%}) came late, behind the watermark, and "
                "count in no result; give their source a larger slack_s"
            )
    return lines


def _waiting(job: Job, timed: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Warnings about sources that have fallen silent: windows behind them wait, whatever other sources send."""
    last_s = {name: _last_s(name, rows) for name in (source.name for source in job.query.sources)}
    lines = []
    for source, silent_s in last_s.items():
        behind = [name for name in timed if source in job.query.ancestors(name)]
        others = {other for name in behind for other in job.query.ancestors(name) & set(last_s)}
        period_s = max(row["end_s"] - row["start_s"] for row in rows)
        if max((last_s[other] for other in others), default=0.0) > silent_s + 2.0 * period_s:
            since = f"since {silent_s:g} s" if silent_s else "ever"
            lines.append(
                f"{behind[0]}: no tuple came from {source!r} {since}, so event time stops there: no window ends, and "
                "nothing stored expires, as in Flink without idleness; let the source send now and then"
            )
    return lines


def _last_s(source: str, rows: Sequence[Row]) -> float:
    """End of the last period in which a source got tuples, in seconds; 0 if it never did."""
    return max((row["end_s"] for row in rows if row["operator"] == source and row["arrived"]), default=0.0)
