"""Verdict on a run in sentences: whether the job keeps up, and its bottleneck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scenarios.measures import measures
from scenarios.questions.kept import RunOutcome
from scenarios.questions.resources import (
    FULL,
    Resource,
    busy_words,
    holding,
    most_subtasks,
    others_words,
    resources,
    task_of,
)
from streamtwin.tables.run_tables import apart, drops
from streamtwin.tables.tables import number, seconds
from twin.deployment import Deployment
from twin.metrics import measured
from twin.run import Run

MOST_NAMES = 4
UNKNOWN = "This run is too short to say whether the job keeps up, as queues may still fill before what is full"
"""Words for runs in which a resource was full all of the time, or at the end, but nothing more was left unread yet."""
LONG = 0.1
"""Share of the periods in which a resource must be full to be called the bottleneck of a run."""


def verdict(job: Deployment, run: Run) -> str:
    """Sentences on whether a job kept up, what binds, and how long it was paused."""
    return " ".join((_state(job, run), *_drops(job, run), *_bottleneck(job, run), *_pauses(run)))


def _state(job: Deployment, run: Run) -> str:
    metrics = run.metrics
    if run.crashed:
        return f"{run.warnings[0][0].upper()}{run.warnings[0][1:]}."
    if not metrics.success:
        return "No result reached a sink."
    if metrics.backpressured:
        return f"The job does not keep up: {number(metrics.backpressure_per_s)} records a second stay unread."
    if more_per_s := metrics.queue_growth_per_s:
        return f"The job does not keep up: its queues grow by {number(more_per_s)} records a second until the end."
    if run.full:
        found = [each for each in _holding(job, run) if each.name in run.full]
        return f"{UNKNOWN}: {joined(list(_full(job, found)) or list(run.full))}."
    return "The job keeps up with its input."


def _holding(job: Deployment, run: Run) -> list[Resource]:
    return holding(resources(job, [RunOutcome(measures(run))]), job)


def _bottleneck(job: Deployment, run: Run) -> Iterator[str]:
    """Sentence on what binds; none where the state of the job has named it."""
    if run.keeps_up is not None:
        yield _binding(job, run)


def _binding(job: Deployment, run: Run) -> str:
    found = _holding(job, run)
    words = list(_full(job, found))
    if words:
        return f"{'Nearly full:' if run.metrics.keeps_up else 'The bottleneck is'} {joined(words)}."
    found = [each for each in found if each.kind != "memory"]  # which more records need not fill
    if not found:
        return "Nothing was in use."
    top = found[0]
    operator = f"{'the busiest subtask of ' * top.uneven}operator {task_of(top.name, job)}"
    name = operator if top.kind == "operator" else f"the {top.kind} of {top.name}"
    if run.metrics.keeps_up:
        room = f"it could bear about {number(1 / top.used)} times as much"
        which = " that could hold it up" if drops(run) else ""
        return f"The fullest resource{which} is {name} ({top.used:.0%} in use): {room}{_of_the_load(job)}."
    at_times = _at_times(job, run)
    average = f"{name}, {top.used:.0%} in use on average"
    return f"The bottleneck is {at_times}." if at_times else f"Nothing was full for long (the fullest: {average})."


def _of_the_load(job: Deployment) -> str:
    """Caution where what comes to a resource may grow faster than the load; empty where it does not."""
    joins = some([each.name for each in job.query.topological if each.grows_faster])
    return f"; the load may grow by less, where matches of {joins} grow faster than its inputs" if joins else ""


def _at_times(job: Deployment, run: Run) -> str:
    """Resource that was full in most periods after the warm-up, if in one of ten: a host's CPU before operators."""
    periods = measured(run.host_rows, run.manifest["warmup_s"])
    names = job.query.holding_up
    hosts = job.plan.hosts(*names)
    cpus = Counter(row["host"] for row in periods if row["cpuUtilisation"] >= FULL and row["host"] in hosts)
    rows = measured(run.operator_rows, run.manifest["warmup_s"])
    full = [row["operator"] for row in rows if row["busyTimeMsPerSecond"] >= 1000 * FULL]
    busy = Counter(name for name in full if name in names)
    count = len({row["period"] for row in rows})
    for found in (cpus, busy):
        for name, times in found.most_common(1):
            if times >= LONG * count:
                on = some(sorted(job.plan.hosts(name))) if found is busy else ""
                what = f"operator {task_of(name, job)} on {on}" if found is busy else f"the CPU of {name}"
                return f"{what}, full in {times} of {count} periods"
    return ""


def _full(job: Deployment, found: Sequence[Resource]) -> Iterator[str]:
    """Words for each resource that binds. An operator on a host with a full CPU waits for it, and is named with it."""
    full = [each for each in found if each.used >= FULL]
    hosts = {each.name for each in full if each.kind == "CPU"}
    on = {name: {*job.plan.hosts(name)} for name in job.plan.placement}
    for each in full:
        if each.kind == "CPU":
            there = [operator.name for operator in job.query.topological if each.name in on[operator.name]]
            used = f"{each.used:.0%} in use{others_words(each, job)}"
            yield f"the CPU of {each.name} ({used}), which {some(there)} use{'s' * (len(there) == 1)}"
        elif each.kind != "operator":
            yield f"the {each.kind} of {each.name} ({each.used:.0%} in use)"
        elif not on[each.name] & hosts:
            where = some(sorted(each.full_on or on[each.name]))
            # with several sockets, one of them may be full; and where one subtask is hot, more of them help little
            spare = not each.uneven and all(job.cluster.host(name).socket_count == 1 for name in on[each.name])
            room = f", with {most_subtasks(each.name, job) or 'cores to spare there'}" if spare else ""
            yield f"operator {task_of(each.name, job)} on {where} ({busy_words(each)}){room}"


def _drops(job: Deployment, run: Run) -> Iterator[str]:
    """Sentences on what was lost at full channels after the warm-up, by producer."""
    totals = {each.operator: each for each in run.operators}
    for name, lost in drops(run).items():
        into = [totals[each.consumer] for each in job.query.outputs(name) if each.overflow == "drop"]
        share = lost / (lost + sum(each.records_in for each in into))
        busy = joined(f"{each.operator} ({each.busy:.0%} busy)" for each in into)
        yield f"It drops {number(100 * share)}% of all records for {busy}, at full channels from {name}."


def _pauses(run: Run) -> Iterator[str]:
    events, _ = apart(run.event_rows)
    paused = [row["paused_s"] for row in events if row["paused_s"]]
    if events:
        stood = f", which paused it, or a part of it, for {seconds(sum(paused))} in all" if paused else ""
        yield f"{len(events):,} event{'s' * (len(events) > 1)} changed it while it ran{stood}."


def some(names: Sequence[str]) -> str:
    """Words for a few of many names."""
    if len(names) <= MOST_NAMES + 1:
        return joined(names)
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more"


def joined(words: Iterable[str]) -> str:
    """Words joined as in a sentence."""
    listed = list(words)
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1]))) if listed else ""
