"""Cautions about a run for readers of its results: events that never happened, and reasons why there are no results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twin.checkpoints import Checkpoints
from twin.control import PolicySpec
from twin.events import AnyEvent, told_event
from twin.job import Component, Job
from twin.key_skew import KeySkew
from twin.metrics import measured
from twin.quantities import written
from twin.query import AnyOperator, Query, Windowed
from twin.scenario import RunSettings, Scenario
from twin.scheduling import beyond_slots
from twin.steadiness import in_step, outlasting, uneven
from twin.workload import even, read_by, read_shares
from twin.world.logics import CallLogic
from twin.world.meters import Row
from twin.world.world import World

MOST_LATE = 1e-3
"""Share of late records above which there is a warning."""
MOST_OPEN = 0.15
"""Share of sessions that have not ended above which there is a warning: the run is then shorter than 1 / 0.15 of their
mean lengths, and without those that are longer, the mean of exponential lengths is 1 % too low."""
NEARLY_ALL = 0.9
"""Share of served records from which on an operator that sends nothing is not called too slow."""
DAY_S = 86_400.0
LONG_S = 10.0
"""CPU seconds of one record from which on there is a warning."""
FEW_PERCENT, FEW_MB = 16, 64
"""CPU and memory of a used host up to which there is a warning: people who think in cores and gigabytes write so."""


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
        *_small(job),
        *_idle(job),
        *updated(job.query),
        *_for_ever(job, rows),
        *_crowded(job),
        *beyond_slots(scenario),
        *(line for source in job.sources for line in _of_partitions(source, world)),
        *_of_calls(job, world),
        *_of_event_time(job, rows, totals),
        *([] if crashed else _silent(job, settings, totals, unevaluated, rows, _uncommitted(world, scenario, rows))),
        *_of_events(world, settings, events),
        *_of_policy(scenario.policy, settings, world),
        *_of_increments(scenario),
        *_of_checkpoints(world, scenario.checkpoints, rows[-1]["end_s"]),
        *_outlasting(job, world, totals, rows[-1]["end_s"]),
        *uneven(scenario, settings.warmup_s, rows[-1]["end_s"]),
        *in_step(scenario, settings.warmup_s, rows[-1]["end_s"], _latency_s(job, rows, settings.warmup_s)),
    )


def _dropped(rows: Sequence[Row]) -> list[str]:
    """Warnings about records lost at full channels, which no metric counts."""
    lines = []
    dropping: dict[str, list[Row]] = {row["operator"]: [] for row in rows if row["numRecordsDropped"]}
    for row in rows:
        if row["operator"] in dropping:
            dropping[row["operator"]].append(row)
    for name, mine in dropping.items():
        lost, made = (sum(row[key] for row in mine) for key in ("numRecordsDropped", "numRecordsOut"))
        remedy = "give their consumer more subtasks or CPU, or let the stream block (overflow: block)"
        lines.append(f"{name}: {lost} of the {made} records that it sent were dropped at full channels; {remedy}")
    return lines


Totals = dict[str, dict[str, int]]
_COUNTS = ("arrived", "numRecordsIn", "numRecordsOut", "latencyCount", "numLateRecordsDropped")


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
            seen, parallelism = totals[name]["numRecordsIn"], job.component(name).parallelism
            if seen < window.slide or (seen < window.slide * parallelism and not totals[name]["numRecordsOut"]):
                among = f" to its {parallelism} subtasks" if parallelism > 1 else ""
                lines[name] = (
                    f"{name}: its window slides every {window.slide:g} records and only {seen} came{among}, "
                    "so it was never evaluated; run longer or shorten the window"
                )
    return lines


def _slow(job: Job) -> list[str]:
    """Warnings about service times that are so long that a wrong unit is likely."""
    times = {operator.name: operator.service_time_s or 0.0 for operator in job.deployment.query.operators}
    words = "service_time_s is in seconds; write 5ms for milliseconds"
    return [f"{name}: a record takes {time_s:g} s; {words}" for name, time_s in times.items() if time_s >= LONG_S]


def _small(job: Job) -> Iterator[str]:
    """Warnings about hosts that are so small that a wrong unit is likely."""
    hosts = {host.name: host for host in job.deployment.cluster.hosts}
    for name in job.deployment.plan.hosts(*job.deployment.plan.placement):
        host = hosts[name]
        if host.cpu_percent <= FEW_PERCENT:
            cores = f"for {host.cpu_percent:g} cores write cpu_percent: {100 * host.cpu_percent:g}"
            yield f"{name} has {host.cpu_percent:g} % of one core (cpu_percent: {host.cpu_percent:g}); {cores}"
        if host.ram_mb <= FEW_MB:
            gigabytes = f"for {host.ram_mb:g} GB write ram_mb: {1000 * host.ram_mb:g}"
            yield f"{name} has {host.ram_mb:g} MB of memory (ram_mb: {host.ram_mb:g}); {gigabytes}"


def _idle(job: Job) -> list[str]:
    return [
        f"plan.key_groups.{name} gives subtask {subtask} no key group, so it is idle; give it one or leave it out"
        for name, owners in job.deployment.plan.key_groups.items()
        for subtask in range(job.component(name).parallelism)
        if subtask not in owners
    ]


def updated(query: Query) -> Iterator[str]:
    """Warnings about operators that get changes of rows, and take each for a new row."""
    senders: dict[str, str] = {}  # of changes that leave an operator: who made them first
    for operator in query.topological:
        name, producers = operator.name, sorted(query.upstream[operator.name])
        came = next((senders[producer] for producer in producers if producer in senders), "")
        if came and operator.if_updated:
            yield f"{name}: it takes each change of a row that {came!r} sends for a new row: {operator.if_updated}"
        elif came and operator.hands_over == "records":
            senders[name] = came
        if operator.updates:
            senders[name] = name


def _for_ever(job: Job, rows: Sequence[Row]) -> Iterator[str]:
    """Warnings about joins that never forget a row, so that their state grows as long as the job runs."""
    for operator in job.query.operators:
        if operator.joins and operator.keeps_rows and not operator.memory_s:
            mine = [row for row in rows if row["operator"] == operator.name]
            at_end, more = mine[-1]["stateBytes"], mine[-1]["stateBytes"] - mine[0]["stateBytes"]
            per_day = more / max(mine[-1]["end_s"] - mine[0]["end_s"], 1e-9) * DAY_S
            grows = f", and it grows by {written(per_day / 1e6)} MB a day" if more > 0 else ""
            yield (
                f"{operator.name}: it keeps the rows of both sides for ever: {written(at_end / 1e6)} MB at "
                f"the end of the run{grows}; give it a ttl_s (table.exec.state.ttl), or bounds (interval-join)"
            )


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
    """Warnings about a source whose partitions its subtasks cannot share evenly."""
    operator, name = source.operator, source.name
    if operator.parts is None:
        return
    parallelism = len(world.tasks[name])  # events and policies change it
    read = [len(own) for own in read_by(operator, parallelism, operator.parts)]
    shares, fullness = read_shares(operator, parallelism), operator.part_shares
    alike, most, idle = even(operator, parallelism), shares.max() * parallelism, read.count(0)
    silent = int((shares == 0.0).sum()) - idle
    waits = name in world.event_times.heeding and getattr(operator, "idle_s", None) is None
    held = "; watermarks wait for them, so give the source idle_s" if waits else ""
    if idle:
        none = f"{idle} of {parallelism} subtasks read none of its {operator.parts} partitions"
        yield f"{name}: {none}; give it fewer{held}"
    elif fullness is None and not alike:
        yield (
            f"{name}: {parallelism} subtasks read {operator.parts} partitions, so some read {max(read)} and others "
            f"{min(read)}: the busiest gets {most:.2f} times the mean; {_alike(operator.parts, parallelism)} read "
            "as many each"
        )
    if silent:
        yield f"{name}: {silent} of {parallelism} subtasks read only partitions without records, and are idle{held}"
    if fullness is not None and not alike:
        yield (
            f"{name}: subtask {shares.argmax()} reads {shares.max():.0%} of all records, {most:.2f} times the mean, as "
            f"partition {fullness.argmax()} alone has {fullness.max():.0%}; let producers spread records evenly"
        )
    each = [1] * parallelism if fullness is not None else read
    lags = {broker.number: broker.backlog / each[broker.number] for broker in world.brokers[name]}
    least, longest = min(lags.values()), max(lags.values())
    if longest > 2.0 * least + 1.0 and not alike:
        whose = f"{'' if fullness is not None else 'each partition of '}subtask {max(lags, key=lags.__getitem__)}"
        yield f"{name}: at the end {longest:,.0f} records of {whose} are unread, {least:,.0f} of those that lag least"


def _alike(parts: int, parallelism: int) -> str:
    """Words for the numbers of subtasks, next to this one, that would share partitions evenly."""
    below = max(each for each in range(1, parallelism) if parts % each == 0)
    above = min((each for each in range(parallelism + 1, parts + 1) if parts % each == 0), default=0)
    return f"{below} or {above} subtasks would" if above else f"{below} would"


def _of_calls(job: Job, world: World) -> list[str]:
    """Warnings about records that were dropped as their calls were lost."""
    lines = []
    for operator in job.query.operators:
        if operator.calls is None or operator.calls.sure:
            continue
        logics = [task.logic.steps[0] for task in world.tasks[operator.name]]
        made = [logic.calling for logic in logics if isinstance(logic, CallLogic)]
        late, failed, ended = (sum(int(getattr(each, key)) for each in made) for key in ("late", "failed", "answered"))
        if late + failed:
            lines.append(
                f"{operator.name}: of {ended} calls {late} timed out and {failed} failed for the last time; their "
                "records were dropped; raise capacity and timeout_s, allow retries, or give the other system more room"
            )
    return lines


def _silent(
    job: Job,
    settings: RunSettings,
    totals: Totals,
    explained: dict[str, str],
    rows: Sequence[Row],
    uncommitted: str,
) -> list[str]:
    """Warnings about sinks without results, which say where the flow ended, or without results after the warm-up.
    uncommitted: why nothing that came to the sinks was committed; empty if it was."""
    lines = []
    for sink in job.query.result_sinks:
        results = totals[sink.name]["latencyCount"]
        if results:
            mine = [row for row in rows if row["operator"] == sink.name]
            if not any(row["latencyCount"] for row in measured(mine, settings.warmup_s)):
                lines.append(
                    f"nothing reached {sink.name!r} after the warm-up of {settings.warmup_s:g} s, though "
                    f"{results} records did before; run longer or shorten run.warmup_s"
                )
            continue
        if uncommitted and totals[sink.name]["numRecordsIn"]:
            lines.append(f"{sink.name!r} holds {totals[sink.name]['numRecordsIn']} results: {uncommitted}")
            continue
        behind = {sink.name, *job.query.ancestors(sink.name)}
        path = [operator for operator in job.query.topological if operator.name in behind]
        causes = [cause for operator in path if (cause := _stop(job, operator, totals, explained))]
        lines.append(f"nothing reached {sink.name!r}: {', and '.join(causes) or 'the horizon came first; run longer'}")
    return lines


def _uncommitted(world: World, scenario: Scenario, rows: Sequence[Row]) -> str:
    """Why sinks committed nothing: they are exactly-once, and no checkpoint was completed. Empty if one was."""
    spec = scenario.checkpoints
    begun = [record for record in world.ledger.events if record.kind == "checkpoint"]
    if spec is None or spec.sinks != "exactly-once" or any(each.detail["status"] == "completed" for each in begun):
        return ""
    how = f"{len(begun)} began" if begun else f"the first begins after up to {spec.phases_s(np.ones(1))[0]:g} s"
    return (
        f"they leave as a checkpoint completes, and none did within {rows[-1]['end_s']:g} s ({how}); shorten "
        "checkpoints.interval_s or checkpoints.first_s, or run longer"
    )


def _stop(job: Job, operator: AnyOperator, totals: Totals, explained: dict[str, str]) -> str:
    """Reason why no record leaves an operator to which records came; empty if records leave it, or none came."""
    name, mine = operator.name, totals[operator.name]
    if operator.is_source:
        if not mine["arrived"]:
            return f"no record arrived at source {name!r}; raise its rate or run longer"
        came = mine["arrived"]
    else:
        came = sum(totals[stream.producer]["numRecordsOut"] for stream in job.query.inputs(name))
    taken = mine["numRecordsIn"]
    if not came or mine["numRecordsOut"]:
        return ""
    if not taken:
        return f"{name!r} took in none of the {came} records that were sent to it; {_SLOW}"
    if name in explained:
        return f"the window of {name!r} was never evaluated"
    served = taken - job.deployment.plan.parallelism(name)  # each may have one in service
    remedy = _HELD if served >= NEARLY_ALL * came else _SLOW
    return (
        operator.why_silent(taken, came) or f"{name!r} took in {taken} of {came} records and nothing came out; {remedy}"
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


def _of_increments(scenario: Scenario) -> Iterator[str]:
    """Warns of increments of a heap, named or by default, which Flink does not have."""
    spec = scenario.checkpoints
    if spec is not None and spec.state == "incremental" and not scenario.engine.stores:
        yield (
            "checkpoints.state is incremental, and state is on the heap, of which Flink uploads all: uploads are "
            "smaller here; say engine.state_backend=rocksdb, whose accesses take CPU, or full"
        )


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
    if late and spec is not None:
        remedies = (
            "give them more checkpoints.timeout_s, or a faster storage",
            "unaligned ones do not wait for slow inputs" * (spec.mode == "aligned"),
            "incremental ones upload only what changed" * (spec.state == "full"),
            "Flink restarts the job at the first unless told otherwise: checkpoints.tolerated_failures=0"
            * (spec.tolerated_failures is None),
        )
        why = late[0].detail["why"]
        yield f"{len(late)} of {len(rows)} checkpoints were given up: {why}; {'; '.join(filter(None, remedies))}"
    taken_s = [(record.end_s or end_s) - record.at_s for record in rows if not record.detail.get("why")]
    longest_s = max(taken_s, default=0.0)
    if spec is not None and longest_s > spec.interval_s and not late:
        held = "; what a sink holds back at the end is in no metric" if spec.sinks == "exactly-once" else ""
        yield (
            f"a checkpoint took {longest_s:.3g} s, longer than the interval of {spec.interval_s:g} s, so fewer are "
            f"made than asked for{held}; lengthen checkpoints.interval_s, or use a faster storage"
        )


# over event time: records that are in no window, and windows that never end ------------------------------------------


def _of_event_time(job: Job, rows: Sequence[Row], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Warnings about operators over event time. rows: rows of the operators. totals: their sums, by operator."""
    timed = [operator.name for operator in job.query.operators if operator.needs_event_time]
    return [*_late(timed, totals), *_waiting(job, timed, rows)] if timed else []


def _late(timed: Sequence[str], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    lines = []
    for name in timed:
        came, late = totals[name]["numRecordsIn"], totals[name]["numLateRecordsDropped"]
        if late > MOST_LATE * came:
            lines.append(
                f"{name}: {late:,} of {came:,} records ({late / came:.1%}) came late, behind the watermark, and "
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
                f"{behind[0]}: no record came from {source!r} {since}, so event time stops there: no window ends, and "
                "nothing stored expires, as in Flink without idleness; let the source send now and then"
            )
    return lines


def _last_s(source: str, rows: Sequence[Row]) -> float:
    """End of the last period in which a source got records, in seconds; 0 if it never did."""
    return max((row["end_s"] for row in rows if row["operator"] == source and row["arrived"]), default=0.0)
