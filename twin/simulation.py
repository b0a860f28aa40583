"""Runs: `simulate` runs the whole job of a scenario, and `measure` one of its operators alone, for its service times.

Nothing else runs a job. What a run found is a `twin.run.Run`.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import simpy
from simpy.core import StopSimulation

from twin import VERSION
from twin.change.controller import Controller, play, reads_again, restarts
from twin.change.running_job import RunningJob
from twin.cluster import Cluster, Host, Socket
from twin.control import Policy
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.guards import conservation
from twin.guards.cautions import cautions
from twin.guards.watch import MOST_S, RunWatch
from twin.job import Job, compile
from twin.kinds.registry import SINKS
from twin.metrics import UNKNOWN, few_results, marker_ages, means_s, measured, standard_errors
from twin.plan import ExecutionPlan
from twin.profiles import EngineProfile, Noise
from twin.query import AnyOperator, Query, Sink, Source, Stream, Windowed
from twin.run import Run, host_totals, link_totals, metrics_of, operator_totals, visits
from twin.scenario import RunSettings, Scenario, config_hash
from twin.steadiness import (
    PrecisionStop,
    batches_of,
    filling,
    full,
    measured_from_s,
    queue_growth_per_s,
    source_of_change,
    too_short,
    until_the_end,
)
from twin.work import collector_paused
from twin.workload import Constant, Workload
from twin.world.meters import Statistics
from twin.world.parts import Task
from twin.world.world import World, meters

# runs ----------------------------------------------------------------------------------------------------------------


MEMORY_TICK_S = 1.0
"""Shortest simulated time between checks of the hosts' memory."""
MEMORY_TICKS = 2000
"""Most checks of memory in a run, however long it is."""
FRAMES = 20
"""Most nested calls in which a control item passes one task."""


def simulate(
    scenario: Scenario,
    policy: Policy | None = None,
    progress: Callable[[int, int], None] | None = None,
    looks: int = 0,
    tell: Callable[[str], None] | None = None,
    most_s: float = MOST_S,
) -> Run:
    """Runs a scenario for its `run.horizon_s` simulated seconds. Same scenario: the same run, on any machine.

    policy: replaces the scenario's own; it is asked at the end of each period, and may keep a history, so use a fresh
    one for each run. progress: called with (done, total) periods. looks: number of times, at equal distances, at
    which the records that wait or are on the network are counted. tell: told in a line, every ten seconds, how far a
    long run is and why it is long. most_s: CPU seconds that it may still take, when it has run for one. Raises BadInput
    if it would take more, or too much memory (`twin.guards.watch`), or a policy orders an impossible change;
    ConservationError if the simulator broke a law.
    """
    started_s, asked, job = time.process_time(), scenario, compile(scenario)
    from_s = measured_from_s(scenario)
    scenario = scenario if from_s == scenario.run.warmup_s else scenario.with_run(warmup_s=from_s)
    settings, events = scenario.run, scenario.events
    deciding = policy if policy is not None or scenario.policy is None else scenario.policy.start(scenario)
    watch = RunWatch(job, scenario, most_s, tell)
    running = build(job, scenario, deciding, watch)
    world, statistics = running.world, running.statistics
    if progress is not None:
        _report(statistics, settings, progress)
    why = source_of_change(scenario, events, deciding)
    enough = None if why or settings.precision is None else PrecisionStop(job, scenario, world, statistics)
    batches = enough or (None if why else batches_of(job, settings, world, statistics))
    crash: list[str] = []
    tick_s = max(MEMORY_TICK_S, settings.horizon_s / MEMORY_TICKS)
    world.env.process(_watch_memory(running, tick_s, crash))
    if any(calls.fails for each in job.query.operators if (calls := each.calls) is not None):
        world.env.process(_watch_calls(running, crash))
    looked: list[tuple[float, int]] = []
    if looks:
        world.env.process(_watch_queues(world, statistics, settings.horizon_s / looks, looked))
    watch.begin(world, statistics)
    with collector_paused(), _deep_stack(len(world.tasks)), suppress(StopSimulation):  # a precise run ends itself
        world.advance(settings.horizon_s)
    ended_s = world.env.now
    statistics.listeners.clear()
    chance = None if batches is None or crash else batches.table()
    statistics.close(ended_s)
    conservation.check(job, world)
    about = manifest(asked, policy) | {"warmup_s": settings.warmup_s, "simulated_s": ended_s}
    told = until_the_end(settings.precision, why, enough)
    if not why and batches is None and any(row.get("latencyCount") for row in statistics.operator_rows):
        told.append(too_short(job, asked.run))
    scenario = scenario if policy is None else scenario.with_policy(None)
    return replace(
        _outcome(job, scenario, about, world, statistics, crash, chance, told, started_s), looks=tuple(looked)
    )


def build(job: Job, scenario: Scenario, deciding: Policy | None, watch: RunWatch) -> RunningJob:
    """Builds a job that is about to begin: its world, its meters, and all that will happen to it."""
    settings, events, rescaling = scenario.run, scenario.events, scenario.engine.rescaling
    decides = deciding is not None
    replayable, restarting = (each(rescaling, events, decides) for each in (reads_again, restarts))
    spec = scenario.checkpoints
    replayable = replayable or (spec is not None and spec.tolerated_failures is not None)
    world = World(job, settings, scenario.checkpoints, replayable, watch, restarting)
    statistics = Statistics(world.env, *meters(world), settings.period_s, settings.warmup_s)
    running = RunningJob(world, statistics)
    if events or decides or scenario.checkpoints is not None:
        changing = play(running, events, decides)
        if deciding is not None:
            Controller(changing, deciding, settings.decision_latency_s)
    return running


def _outcome(
    job: Job,
    scenario: Scenario,
    about: dict[str, Any],
    world: World,
    statistics: Statistics,
    crash: Sequence[str],
    batches: np.ndarray | None,
    told: Sequence[str],
    started_s: float,
) -> Run:
    rows, warmup_s = statistics.operator_rows, scenario.run.warmup_s
    events = tuple(record.row() for record in sorted(world.ledger.events, key=lambda each: each.at_s))
    growth_per_s = queue_growth_per_s(scenario, rows, statistics.link_rows, events, warmup_s)
    metrics = metrics_of(rows, warmup_s, bool(crash), growth_per_s)
    errors = UNKNOWN if batches is None else standard_errors(batches, growing=metrics.backpressured)
    without_spare = full(scenario, rows, statistics.subtask_rows, statistics.host_rows, events, warmup_s)
    markers = marker_ages(scenario.query, means_s(statistics.stream_rows, warmup_s))
    return Run(
        metrics=metrics,
        standard_errors=errors,
        operators=operator_totals(rows, warmup_s, statistics.subtask_rows, _visits(scenario, statistics)),
        hosts=host_totals(statistics.host_rows, warmup_s),
        warnings=(
            *crash,
            *cautions(job, scenario, world, rows, bool(crash)),
            *([] if metrics.backpressured or crash else filling(without_spare)),
            *few_results(metrics.throughput_per_s, errors),
            *told,
        ),
        manifest=about,
        deployment_json=scenario.model_dump_json(exclude_none=True, include=set(Deployment.model_fields)),
        crashed=bool(crash),
        cpu_s=time.process_time() - started_s,
        operator_rows=tuple(rows),
        host_rows=tuple(statistics.host_rows),
        link_rows=tuple(statistics.link_rows),
        event_rows=events,
        subtask_rows=tuple(statistics.subtask_rows),
        links=link_totals(statistics.link_rows, warmup_s),
        markers=markers,
        full=without_spare,
        duplicates=world.ledger.duplicates,
        checkpoints_json=None
        if scenario.checkpoints is None
        else scenario.checkpoints.model_dump_json(exclude_none=True),
    )


def _visits(scenario: Scenario, statistics: Statistics) -> dict[str, float]:
    """Share of the results after the warm-up on whose way each operator was."""
    warmup_s, came, results = scenario.run.warmup_s, Counter[tuple[str, str]](), Counter[str]()
    for row in measured(statistics.stream_rows, warmup_s):
        came[row["ends"]] += row["records"]
    for row in measured(statistics.operator_rows, warmup_s):
        if row["kind"] in SINKS:
            results[row["operator"]] += row["latencyCount"]
    return visits(scenario.query, came, results)


def _report(statistics: Statistics, settings: RunSettings, progress: Callable[[int, int], None]) -> None:
    ends = count(1)
    total = statistics.count(settings.horizon_s)
    statistics.listeners.append(lambda _operators, _hosts: progress(next(ends), total))


@contextmanager
def _deep_stack(tasks: int) -> Iterator[None]:
    """Raises the recursion limit: barriers and watermarks may pass all tasks in one moment, call by call."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + FRAMES * tasks)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def manifest(scenario: Scenario, policy: Policy | None = None) -> dict[str, Any]:
    """Manifest of a run, from which it can be made again: version, configuration hash, seed, and the settings.

    policy: one that takes the place of the scenario's own.
    """
    return {
        "version": VERSION,
        "config_hash": config_hash(scenario, policy),
        **scenario.run.model_dump(include={"seed", "horizon_s", "warmup_s", "period_s", "precision"}),
    }


def _watch_memory(job: RunningJob, tick_s: float, crash: list[str]) -> Generator[simpy.Event, object, None]:
    while not crash:
        yield job.world.env.timeout(tick_s)
        crowded = [host for host, memory in job.world.memories.items() if memory.update()]
        if crowded and not crash:
            _crash(job)
            crash += [_out_of_memory(host, job) for host in crowded]


def _out_of_memory(host: str, job: RunningJob) -> str:
    fullest = job.world.memories[host].fullest()
    most = f", where {fullest} held the most" if fullest else ", by the engine alone"
    return (
        f"the job crashed: {host} was out of memory at {job.world.env.now:g} s{most}; give it more ram_mb, or keep "
        "less there (shorter windows, fewer subtasks)"
    )


def _watch_calls(job: RunningJob, crash: list[str]) -> Generator[simpy.Event, object, None]:
    how = yield job.world.failed
    if not crash:
        _crash(job)
        crash.append(
            f"the job failed: {how} at {job.world.env.now:g} s, which an engine answers by a restart, over and over; "
            "drop such records (on_timeout, on_failure: drop), or allow more time or attempts"
        )


def _crash(job: RunningJob) -> None:
    for tasks in job.world.tasks.values():  # one worker's crash fails the job; the brokers go on filling
        for task in tasks:
            task.halted = True
    job.crash()


def _watch_queues(
    world: World, statistics: Statistics, every_s: float, looked: list[tuple[float, int]]
) -> Generator[simpy.Event, object, None]:
    for number in count(1):
        yield world.env.first(max(0.0, number * every_s - world.env.now))
        now_s = world.env.now
        waiting = sum(meter.waiting(now_s) for meter in statistics.operators)
        looked.append((now_s, waiting + sum(card.records_in - card.records_out for card in world.every_card())))


# service times of an operator alone ----------------------------------------------------------------------------------
# An operator runs alone on a core of its own, and the CPU time of each of its records is noted. This is how BriskStream
# profiles operators (SIGMOD 2019, Section 3.1): one at a time, on stored input, in local memory.


OFFERED = 1.5
"""Offered load of an operator that is to be always busy."""
FILLED = 1.0618
"""Lengths of an operator's memory after which it is full. Not whole, so that no window is evaluated just then."""
WINDOWS = 5
"""Most lengths of an operator's memory that are measured once it is full."""
MOST = 20
"""Most records that these lengths may take, over the records asked for."""
FAST = 100.0
"""Speed of the core, in reference cores, if input comes at given rates, so that it keeps up with all of it."""
ROOM = 1024
"""Capacity of channels in records, in place of that of the engine."""


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Measured times of an operator, with full memory: CPU seconds of each record on one reference core, with results
    and window evaluations (times_s). [records]

    inputs: records offered by each producer. results_per_input: records emitted over records whose service has ended.
    """

    times_s: np.ndarray
    inputs: Mapping[str, int]
    results_per_input: float


def measure(
    deployment: Deployment, operator: str, inputs_per_s: Mapping[str, float], records: int, seed: int
) -> MeasuredTimes:
    """Runs one operator of a deployment alone, record by record, until it has served that many.

    Its input lies ready on another core of the same memory, so that fetching costs nothing and nothing interferes: no
    pauses, no batches. An operator without a memory is always busy. One with a window, sessions or bounds in time is
    offered its input at the given rates, as these decide what it holds, on a core that keeps up; it is measured for
    whole lengths of its memory, at least one.

    inputs_per_s: by producer, > 0; of a source, by its own name. Raises BadInput if the operator costs nothing, is one
    of several that form windows together, or remembers more than that many records show.
    """
    spec = deployment.query.operator(operator)
    if spec.merges or spec.hands_over == "partials":
        raise BadInput(
            f"operator {operator!r} cannot be profiled: it forms windows of partial results together with others, and "
            "profiles are of one operator alone; plan without a profile, from the costs that the scenario gives"
        )
    timed = isinstance(spec, Windowed) or spec.memory_s > 0.0
    service_s = deployment.engine.service_s(deployment.query, spec, inputs_per_s)
    if not timed and service_s <= 0.0:
        raise BadInput(
            f"operator {operator!r} has a profile with zero cost: it could take any rate, and no plan would matter to "
            "it; give it a service_time_s above 0"
        )
    factor = 1.0 if timed else OFFERED / service_s / sum(inputs_per_s.values())
    offered = {name: rate * factor for name, rate in inputs_per_s.items()}
    lengths = _lengths(spec, sum(offered.values()), records)
    core = FAST if timed else 1.0
    world = World(compile(_alone(deployment, spec, offered, core)), RunSettings(seed=seed))
    task = world.tasks[operator][0]
    _serve(world, task, 0, FILLED * spec.memory_s)
    before, emitted = task.records_in - task.in_service, task.records_out
    times_s = core * _serve(world, task, records, (FILLED + lengths) * spec.memory_s)
    served = dict.fromkeys(offered, 0)
    for stream in deployment.query.inputs(operator):
        if stream.producer in offered:
            served[stream.producer] += world.tasks[stream.side][0].records_in
    if spec.is_source:
        served[operator] = task.records_in
    completed = task.records_in - task.in_service - before
    return MeasuredTimes(times_s, served, (task.records_out - emitted) / completed)


def _lengths(spec: AnyOperator, in_per_s: float, records: int) -> int:
    """Number of lengths of an operator's memory to measure, by the records that come in each."""
    held = in_per_s * spec.memory_s
    if not held:
        return 0
    if held > MOST * records:
        raise BadInput(
            f"operator {spec.name!r} cannot be profiled on {records} records: {held:.0f} come in the "
            f"{spec.memory_s:g} s that it remembers; give --samples {math.ceil(held / MOST)} or more"
        )
    return max(min(WINDOWS, int(MOST * records / held)), math.ceil(records / held))


def _serve(world: World, task: Task, records: int, until_s: float) -> np.ndarray:
    """Steps on until that many services have begun and `until_s` is past; returns the work of each. [records]"""
    times_s: list[float] = []
    env, before = world.env, task.records_in
    while len(times_s) < records or env.now < until_s:
        world.step()
        if task.records_in > before + len(times_s):  # at most one a step, as a service takes time
            times_s.append(task.in_service_work_s)
    return np.array(times_s)


def _alone(deployment: Deployment, spec: AnyOperator, offered: Mapping[str, float], core: float) -> Deployment:
    """Deployment of the operator with sources and sinks in place of its producers and consumers, which cost nothing."""
    query, engine, name = deployment.query, deployment.engine, spec.name
    inputs = {stream.side: stream.producer for stream in query.inputs(name) if stream.producer in offered}
    feeds = [_source(query, engine, side, producer) for side, producer in inputs.items()]
    consumers = dict.fromkeys(each.consumer for each in query.outputs(name))
    ends = [Sink(name=each, service_time_s=0.0) for each in consumers]
    streams = [Stream(producer=each.name, consumer=name) for each in feeds]
    streams += [Stream(producer=name, consumer=each.name) for each in ends]
    places: dict[str, tuple[str, ...]] = {
        each.name: ("alone/1" if each is spec else "alone",) for each in (*feeds, spec, *ends)
    }
    rates = {side: offered[producer] for side, producer in inputs.items()} or offered
    quiet = {"noise": Noise(), "batch_records": 1, "buffer_bytes": None, "flush_s": None, "context_switch": 0.0}
    room = {"channel_records": ROOM, "network_memory": None}
    return Deployment(
        query=Query(operators=(*feeds, spec, *ends), streams=tuple(streams)),
        cluster=_two_cores(core),
        plan=ExecutionPlan(placement=places),
        workload=Workload(arrivals={each: Constant(rate_per_s=rate) for each, rate in rates.items()}),
        engine=engine.model_copy(update=quiet | room),
    )


def _source(query: Query, engine: EngineProfile, name: str, producer: str) -> Source:
    """Source that emits the records of a producer, at no cost."""
    size = engine.output_bytes(query, producer)
    return Source(name=name, columns=query.columns_out[producer], record_bytes=size, service_time_s=0.0)


def _two_cores(core: float) -> Cluster:
    """Cluster of one memory and two sockets of one core each, whose speed is given in reference cores."""
    host = Host(
        name="alone",
        cpu_percent=200.0 * core,
        core_percent=100.0 * core,
        ram_mb=1e9,
        bandwidth_mbps=1e9,
        latency_ms=0.0,
        sockets=(Socket(cores=1), Socket(cores=1)),
    )
    return Cluster(hosts=(host,))
