"""Jobs: compile() makes of a deployment a frozen job, which wiring, guards, the rate model and features read.

Names and texts of a spec are looked up and parsed here, once: streams have ends by number, places are places, and each
component knows the cost and size of its tuples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from twin.chaining import Fused, fused
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.flow import Channels, flows, nominal_rates, spreads
from twin.keys import group_count
from twin.kinds.flow import Flow, OperatorRates
from twin.partitionings.traits import Partitioning
from twin.plan import Location
from twin.profiles import EngineProfile
from twin.query import AnyOperator, Query, Stream


@dataclass(frozen=True, eq=False)
class Edge:
    """Stream between two components, by their numbers.

    share: of its producer's output. bytes_each: size of a tuple on it. room: tuples that its channels into one replica
    hold. service_s: CPU seconds of its tuple at the consumer on a reference core, without the costs of windows and of
    other hosts. memory_bytes: local memory traffic of its tuple there.
    """

    stream: Stream
    producer: int
    consumer: int
    how: Partitioning
    share: float
    bytes_each: float
    room: int
    service_s: float
    memory_bytes: float

    @property
    def ends(self) -> tuple[str, str]:
        """Names of producer and consumer."""
        return self.stream.producer, self.stream.consumer

    @property
    def blocks(self) -> bool:
        """Whether a full channel blocks its producer."""
        return self.stream.overflow == "block"


@dataclass(frozen=True, eq=False)
class Stage:
    """Operator, as a job runs it.

    service_s: CPU seconds of an input tuple if all inputs have equal rates; windows add scan_s for each tuple that an
    evaluation looks at, and result_s for each result. service_scv: squared coefficient of variation of a service.
    memory_bytes, bytes_in: local memory traffic and size of an input tuple, if all inputs have equal rates; bytes_out:
    size of an emitted one.
    """

    operator: AnyOperator
    service_s: float
    service_scv: float
    scan_s: float
    result_s: float
    memory_bytes: float
    bytes_in: float
    bytes_out: float


@dataclass(frozen=True, eq=False)
class Component(Stage):
    """Node of the job: chained operators, in data-flow order, or a single one.

    places: of its replicas. inputs, outputs: numbers of edges, by the names of their other ends. The fields of `Stage`
    are those of the first operator, which takes tuples in, but for `bytes_out`, which is that of the last. key_groups:
    their number under the plan; None if tuples are not dealt by key group.
    """

    stages: tuple[Stage, ...]
    places: tuple[Location, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    key_groups: int | None

    @cached_property
    def operators(self) -> tuple[AnyOperator, ...]:
        """Operators of the component, which are chained if there are several."""
        return tuple(stage.operator for stage in self.stages)

    @property
    def name(self) -> str:
        """Name of the operator that takes tuples in."""
        return self.operator.name

    @property
    def replicas(self) -> int:
        """Number of replicas, each of which is one task."""
        return len(self.places)

    @cached_property
    def at(self) -> Counter[Location]:
        """Replicas by place."""
        return Counter(self.places)

    @cached_property
    def on(self) -> Counter[str]:
        """Replicas by host."""
        return Counter(place.host for place in self.places)


@dataclass(frozen=True, eq=False)
class Job:
    """Job as compiled from a deployment: components in data-flow order, edges by the names of their ends."""

    deployment: Deployment
    components: tuple[Component, ...]
    edges: tuple[Edge, ...]

    @property
    def query(self) -> Query:
        """Query of the deployment."""
        return self.deployment.query

    @property
    def engine(self) -> EngineProfile:
        """Engine profile of the deployment."""
        return self.deployment.engine

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Number of the component of each operator, by name."""
        return {
            operator.name: number
            for number, component in enumerate(self.components)
            for operator in component.operators
        }

    def component(self, name: str) -> Component:
        """Component of an operator. Raises KeyError if there is no such operator."""
        return self.components[self.number[name]]

    @cached_property
    def _by_ends(self) -> Mapping[tuple[str, str], Edge]:
        return {edge.ends: edge for edge in self.edges}

    def edge(self, stream: Stream) -> Edge:
        """Edge of a stream. Raises KeyError if there is none."""
        return self._by_ends[stream.producer, stream.consumer]

    def inputs(self, name: str) -> tuple[Edge, ...]:
        """Edges into a component."""
        return tuple(self.edges[s] for s in self.component(name).inputs)

    def outputs(self, name: str) -> tuple[Edge, ...]:
        """Edges out of a component."""
        return tuple(self.edges[s] for s in self.component(name).outputs)

    def one_queue(self, name: str) -> bool:
        """Whether the replicas of a component take from a common queue."""
        return any(stream.how.one_queue for stream in self.inputs(name))

    @cached_property
    def least_room(self) -> int:
        """Smallest room of all edges: tuples that may travel together."""
        return min((edge.room for edge in self.edges), default=self.engine.channel_tuples or 1)

    @cached_property
    def sources(self) -> tuple[Component, ...]:
        """Components of sources."""
        return tuple(component for component in self.components if component.operator.is_source)

    @cached_property
    def sinks(self) -> tuple[Component, ...]:
        """Components of sinks."""
        return tuple(component for component in self.components if component.operators[-1].is_sink)

    @cached_property
    def apart(self) -> Job:
        """Job with each operator by itself, as if none were chained; the job itself if none is."""
        return (
            _compiled(self.deployment, ()) if any(len(component.stages) > 1 for component in self.components) else self
        )

    def service_s(self, component: Component) -> float:
        """CPU seconds that an input tuple takes all operators of a component, without the costs of windows."""
        if len(component.stages) == 1:
            return component.service_s
        in_per_s = self.rates[component.name].in_per_s
        work = sum(stage.service_s * self.rates[stage.operator.name].in_per_s for stage in component.stages)
        return work / in_per_s if in_per_s else component.service_s

    @cached_property
    def rates(self) -> Mapping[str, OperatorRates]:
        """Rates of each operator, if all sources keep up, by name."""
        return nominal_rates(self.query, self.deployment.workload.arrivals)

    def require_pairs(self) -> None:
        """Raises BadInput if a forward stream has unequal numbers of replicas at its ends."""
        for edge in self.edges:
            producers, consumers = (self.deployment.plan.replicas(name) for name in edge.ends)
            if edge.how.paired and producers != consumers:
                raise BadInput(unpaired(edge.stream.consumer, edge.how, producers, consumers))

    @cached_property
    def channels(self) -> Channels:
        """Channels, and what else of the plan changes flows, with each operator by itself."""
        job = self.apart
        names = [each.name for each in job.components]
        services_s = {name: tuple(edge.service_s for edge in job.inputs(name)) for name in names}
        services_s |= {each.name: (each.service_s,) for each in job.sources}
        return Channels(job.least_room, services_s, spreads=spreads(job.deployment, names))

    @cached_property
    def offered_flow(self) -> Mapping[str, Flow]:
        """Flow through each operator, in bursts, if all sources keep up and each operator has one replica, by name."""
        laws = self.deployment.workload.arrivals.items()
        return flows(self.query, {name: np.array([law.mean_rate_per_s]) for name, law in laws}, True, self.channels)


def unpaired(consumer: str, how: Partitioning, producers: int, consumers: int) -> str:
    """Words on a forward stream with unequal numbers of replicas at its ends."""
    return f"stream into {consumer!r}: {how} needs equal replicas, got {producers} -> {consumers}; use rebalance"


def compile(what: Deployment | Job) -> Job:
    """Job that a deployment, or scenario, describes; a job is returned unchanged."""
    return what if isinstance(what, Job) else _compiled(what, fused(what.query, what.plan, what.engine))


def _compiled(what: Deployment, together: Sequence[Fused]) -> Job:
    query = what.query
    inner = {pair for group in together for pair in pairwise(group)}
    group_of = {group[0]: group for group in together}
    followers = {name for _, name in inner}
    groups = [
        group_of.get(operator.name, (operator.name,))
        for operator in query.topological
        if operator.name not in followers
    ]
    number = {name: index for index, group in enumerate(groups) for name in group}
    streams = [stream for stream in query.streams_by_name if (stream.producer, stream.consumer) not in inner]
    inputs, outputs = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for index, stream in enumerate(streams):
        inputs[number[stream.consumer]].append(index)
        outputs[number[stream.producer]].append(index)
    components = (
        _component(what, group, tuple(inputs[index]), tuple(outputs[index])) for index, group in enumerate(groups)
    )
    return Job(what, tuple(components), tuple(_edge(what, stream, number) for stream in streams))


def _edge(deployment: Deployment, each: Stream, number: Mapping[str, int]) -> Edge:
    query, engine = deployment.query, deployment.engine
    return Edge(
        stream=each,
        producer=number[each.producer],
        consumer=number[each.consumer],
        how=query.partitioning(each),
        share=query.operator(each.producer).share_to(each.consumer),
        bytes_each=engine.output_bytes(query, each.producer),
        room=_room(deployment, each),
        service_s=engine.service_s_of(query, query.operator(each.consumer), each.producer),
        memory_bytes=engine.memory_bytes_of(query, query.operator(each.consumer), each.producer),
    )


def _room(deployment: Deployment, each: Stream) -> int:
    """Tuples that a stream's channels into one replica of its consumer hold, if all are full."""
    engine, plan = deployment.engine, deployment.plan
    if engine.network_memory is None:
        assert engine.channel_tuples is not None
        return engine.channel_tuples
    starts, ends = (
        Counter(each.host for each in plan.locations(each.producer)),
        Counter(each.host for each in plan.locations(each.consumer)),
    )
    producers, consumers = starts.total(), ends.total()
    how = deployment.query.partitioning(each)
    far = {host: count * (producers - starts[host]) for host, count in ends.items()}  # channels from other hosts
    remote = sum(far.values()) / (producers * consumers)
    far_each = sum(count * (producers - starts[host]) for host, count in far.items()) / max(sum(far.values()), 1)
    bytes_each = engine.output_bytes(deployment.query, each.producer)
    size, spans = engine.batch_of(bytes_each), engine.spans_of(bytes_each)
    channels = 1 if how.paired or how.one_queue else consumers
    senders, far_each = (1, min(far_each, 1.0)) if how.paired else (producers, far_each)
    return int(engine.network_memory.held(senders, channels, remote, size, spans, far_each))


def _component(
    deployment: Deployment, names: Sequence[str], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Component:
    query, places = deployment.query, deployment.plan.locations(names[0])
    stages = tuple(_stage(query, deployment.engine, query.operator(name)) for name in names)
    first = {**vars(stages[0]), "bytes_out": stages[-1].bytes_out}
    groups = group_count(query, names[0], len(places))
    return Component(**first, stages=stages, places=places, inputs=inputs, outputs=outputs, key_groups=groups)


def _stage(query: Query, engine: EngineProfile, operator: AnyOperator) -> Stage:
    return Stage(
        operator=operator,
        service_s=engine.service_s(query, operator),
        service_scv=engine.service_scv_of(operator),
        scan_s=engine.scan_s(operator),
        result_s=engine.result_s(operator),
        memory_bytes=engine.memory_bytes(query, operator),
        bytes_in=engine.input_bytes(query, operator.name),
        bytes_out=engine.output_bytes(query, operator.name),
    )
