"""Measured service times: an operator alone on a core of its own, and the CPU time of each of its records.

This is how BriskStream profiles operators (SIGMOD 2019, Section 3.1): one at a time, on stored input, in local memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twin.cluster import Cluster, Host, Socket
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import compile
from twin.plan import ExecutionPlan
from twin.profiles import EngineProfile, Noise
from twin.query import AnyOperator, Query, Sink, Source, Stream, Windowed
from twin.scenario import RunSettings
from twin.workload import Constant, Workload
from twin.world.parts import Task
from twin.world.world import World

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
    and window evaluations (times_s). [tuples]

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
    """Steps on until that many services have begun and `until_s` is past; returns the work of each. [tuples]"""
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
