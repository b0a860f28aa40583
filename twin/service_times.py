"""An operator alone on a core of its own, and what each of its tuples costs there.

This is how BriskStream profiles operators (SIGMOD 2019, Section 3.1): one at a time, on stored input, in local memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twin.cluster import Cluster, Host, Socket
from twin.deployment import Deployment
from twin.engine.station.task import Task
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.profiles import EngineProfile, Noise
from twin.query import AnyOperator, Query, Sink, Source, Stream, TimeWindow, Windowed
from twin.scenario import RunSettings
from twin.wiring.build import build
from twin.wiring.wiring import Wiring
from twin.wiring.world import World
from twin.workload import Constant, Workload

OFFERED = 1.5
"""Offered load of an operator that is to be always busy."""
WINDOWS = 5
"""Lengths of a time window that are measured at least, and ..."""
MOST = 20
"""... how many times the tuples asked for that may take."""
ROOM = 1024
"""Tuples that a channel holds here, whatever the engine's channels hold."""


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """times_s: CPU seconds of each tuple on one reference core, results and window evaluations included. [tuples]

    inputs: tuples offered by each producer. results_per_input: tuples emitted, over those whose service has ended.
    """

    times_s: np.ndarray
    inputs: Mapping[str, int]
    results_per_input: float


def measure(
    deployment: Deployment, operator: str, inputs_per_s: Mapping[str, float], tuples: int, seed: int
) -> MeasuredTimes:
    """Runs one operator of a deployment alone, tuple by tuple, until it has served that many.

    Its input lies ready on another core of the same memory, so that fetching costs nothing and nothing interferes: no
    pauses, no batches. An operator without a window is always busy. One with a window is offered its input at the
    given rates, as these decide what a window holds; with a window of time it serves for five lengths of it at least.

    inputs_per_s: by producer, > 0; of a source, by its own name. Raises BadInput if the operator costs nothing, or is
    one of several that form windows together.
    """
    spec = deployment.query.operator(operator)
    if spec.merges or spec.hands_over == "partials":
        raise BadInput(
            f"operator {operator!r} cannot be profiled: it forms windows of partial results together with others, and "
            "profiles are of one operator alone; plan without a profile, from the costs that the scenario gives"
        )
    window = spec.window if isinstance(spec, Windowed) else None
    service_s = deployment.engine.service_s(deployment.query, spec, inputs_per_s)
    if window is None and service_s <= 0.0:
        raise BadInput(
            f"operator {operator!r} has a profile with zero cost: it could take any rate, and no plan would matter to "
            "it; give it a service_time_s above 0"
        )
    factor = 1.0 if window is not None else OFFERED / service_s / sum(inputs_per_s.values())
    offered = {name: rate * factor for name, rate in inputs_per_s.items()}
    least_s = WINDOWS * window.size_s if isinstance(window, TimeWindow) else 0.0
    world = build(Wiring(_alone(deployment, spec, offered), RunSettings(seed=seed)))
    task = world.tasks[operator][0]
    times_s = _serve(world, task, tuples, least_s)
    served = {name: world.tasks[name][0].tuples_in for name in offered}
    completed = len(times_s) - task.in_service
    return MeasuredTimes(times_s, served, task.output.tuples_out / completed)


def _serve(world: World, task: Task, tuples: int, least_s: float) -> np.ndarray:
    """Steps through the run, noting the work of every service that begins. [tuples]"""
    times_s: list[float] = []
    env = world.env
    while len(times_s) < tuples or (env.now < least_s and len(times_s) < MOST * tuples):
        env.step()
        if task.tuples_in > len(times_s):  # one at a time: a service takes time
            times_s.append(task.in_service_work_s)
    return np.array(times_s)


def _alone(deployment: Deployment, spec: AnyOperator, offered: Mapping[str, float]) -> Deployment:
    """The operator between sources that stand for its producers and sinks for its consumers, which all cost nothing."""
    query, engine, name = deployment.query, deployment.engine, spec.name
    feeds = [] if spec.is_source else [_source(query, engine, each) for each in offered]
    ends = [Sink(name=each.consumer, service_time_s=0.0) for each in query.outputs(name)]
    streams = [Stream(producer=each.name, consumer=name) for each in feeds]
    streams += [Stream(producer=name, consumer=each.name) for each in ends]
    places: dict[str, tuple[str, ...]] = {
        each.name: ("alone/1" if each is spec else "alone",) for each in (*feeds, spec, *ends)
    }
    quiet = {"noise": Noise(), "batch_tuples": 1, "buffer_bytes": None, "flush_s": None, "context_switch": 0.0}
    room = {"channel_tuples": ROOM, "network_memory": None}
    return Deployment(
        query=Query(operators=(*feeds, spec, *ends), streams=tuple(streams)),
        cluster=_two_cores(),
        plan=ExecutionPlan(placement=places),
        workload=Workload(arrivals={each: Constant(rate_per_s=rate) for each, rate in offered.items()}),
        engine=engine.model_copy(update=quiet | room),
    )


def _source(query: Query, engine: EngineProfile, name: str) -> Source:
    """What a producer emits, for nothing."""
    size = engine.output_bytes(query, name)
    return Source(name=name, columns=query.columns_out[name], tuple_bytes=size, service_time_s=0.0)


def _two_cores() -> Cluster:
    """One memory, two sockets of one reference core."""
    cores = (Socket(cores=1), Socket(cores=1))
    host = Host(name="alone", cpu_percent=200.0, ram_mb=1e9, bandwidth_mbps=1e9, latency_ms=0.0, sockets=cores)
    return Cluster(hosts=(host,))
