"""Jobs: compile() makes of a deployment a frozen job, which wiring, guards, the rate model and features read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twin.chaining import Fused, fused, links_of
from twin.deployment import Channels, Deployment, flows, nominal_rates, spreads
from twin.errors import BadInput
from twin.kinds.flow import Flow, OperatorRates
from twin.partitionings import Partitioning
from twin.plan import Location
from twin.profiles import EngineProfile
from twin.query import AnyOperator, Query, Stream
from twin.workload import group_count

# jobs ----------------------------------------------------------------------------------------------------------------
# Names and texts of a spec are looked up and parsed here, once: streams have ends by number, places are places, and
# each component knows the cost and size of its records.


@dataclass(frozen=True, eq=False)
class Edge:
    """Stream between two components, by their numbers.

    share: of its producer's output. bytes_each: size of a record on it. room: records that its channels into one
    subtask hold. service_s: CPU seconds of its record at the consumer on a reference core, without the costs of windows
    and of other hosts. memory_bytes: local memory traffic of its record there.
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
    def key(self) -> tuple[str, ...]:
        """Key of the stream."""
        return self.stream.key

    @property
    def blocks(self) -> bool:
        """Whether a full channel blocks its producer."""
        return self.stream.overflow == "block"


@dataclass(frozen=True, eq=False)
class Stage:
    """Operator, as a job runs it.

    service_s: CPU seconds of an input record if all inputs have equal rates; windows add scan_s for each record that an
    evaluation looks at, and result_s for each result. service_scv: squared coefficient of variation of a service.
    memory_bytes, bytes_in: local memory traffic and size of an input record, if all inputs have equal rates; bytes_out:
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

    before: for each operator, the number of the one that it follows; -1 for the first. places: of its subtasks. inputs:
    numbers of edges, by the names of its inputs. outputs: those by the names of their ends; those of one operator are
    next to each other. exits: for each operator, the part of `outputs` that is its own. The fields of `Stage` are those
    of the first operator, which takes records in. key_groups: their number under the plan; None if records are not
    dealt by key group.
    """

    stages: tuple[Stage, ...]
    before: tuple[int, ...]
    places: tuple[Location, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    exits: tuple[range, ...]
    key_groups: int | None

    @cached_property
    def operators(self) -> tuple[AnyOperator, ...]:
        """Operators of the component, which are chained if there are several."""
        return tuple(stage.operator for stage in self.stages)

    @property
    def name(self) -> str:
        """Name of the operator that takes records in."""
        return self.operator.name

    @property
    def parallelism(self) -> int:
        """Number of subtasks, each of which is one task."""
        return len(self.places)

    @cached_property
    def at(self) -> Counter[Location]:
        """Subtasks by place."""
        return Counter(self.places)

    @cached_property
    def on(self) -> Counter[str]:
        """Subtasks by host."""
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
    def _by_key(self) -> Mapping[tuple[str, ...], Edge]:
        return {edge.key: edge for edge in self.edges}

    def edge(self, stream: Stream) -> Edge:
        """Edge of a stream. Raises KeyError if there is none."""
        return self._by_key[stream.key]

    def inputs(self, name: str) -> tuple[Edge, ...]:
        """Edges into a component."""
        return tuple(self.edges[s] for s in self.component(name).inputs)

    def outputs(self, name: str) -> tuple[Edge, ...]:
        """Edges out of a component."""
        return tuple(self.edges[s] for s in self.component(name).outputs)

    def position(self, stream: Stream) -> int:
        """Number of a stream among those that leave its producer's component. Raises KeyError if it lies within one."""
        edge = self.edge(stream)
        return next(number for number, s in enumerate(self.components[edge.producer].outputs) if self.edges[s] is edge)

    def one_queue(self, name: str) -> bool:
        """Whether the subtasks of a component take from a common queue."""
        return any(stream.how.one_queue for stream in self.inputs(name))

    @cached_property
    def least_room(self) -> int:
        """Smallest room of all edges: records that may travel together."""
        return min((edge.room for edge in self.edges), default=self.engine.channel_records or 1)

    @cached_property
    def sources(self) -> tuple[Component, ...]:
        """Components of sources."""
        return tuple(component for component in self.components if component.operator.is_source)

    @cached_property
    def apart(self) -> Job:
        """Job with each operator by itself, as if none were chained; the job itself if none is."""
        return (
            _compiled(self.deployment, ()) if any(len(component.stages) > 1 for component in self.components) else self
        )

    def service_s(self, component: Component) -> float:
        """CPU seconds that an input record takes all operators of a component, without the costs of windows."""
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
        """Raises BadInput if a forward stream has unequal numbers of subtasks at its ends."""
        for edge in self.edges:
            producers, consumers = (self.deployment.plan.parallelism(name) for name in edge.ends)
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
        """Flow through each operator, in bursts, if all sources keep up and each operator has one subtask, by name."""
        laws = self.deployment.workload.arrivals.items()
        return flows(self.query, {name: np.array([law.mean_rate_per_s]) for name, law in laws}, True, self.channels)


def unpaired(consumer: str, how: Partitioning, producers: int, consumers: int) -> str:
    """Words on a forward stream with unequal numbers of subtasks at its ends."""
    got = f"{producers} -> {consumers}"
    return f"stream into {consumer!r}: {how} needs equal subtasks, got {got}; use rebalance or rescale"


def compile(what: Deployment | Job) -> Job:
    """Job that a deployment, or scenario, describes; a job is returned unchanged."""
    return what if isinstance(what, Job) else _compiled(what, fused(what.query, what.plan, what.engine))


def _compiled(what: Deployment, together: Sequence[Fused]) -> Job:
    query = what.query
    inner = links_of(query, together)
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
    for index in sorted(range(len(streams)), key=lambda index: streams[index].side):
        inputs[number[streams[index].consumer]].append(index)
    for index, stream in enumerate(streams):
        outputs[number[stream.producer]].append(index)
    components = (
        _component(what, group, tuple(inputs[index]), {each: streams[each] for each in outputs[index]})
        for index, group in enumerate(groups)
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
    """Records that a stream's channels into one subtask of its consumer hold, if all are full."""
    engine, plan = deployment.engine, deployment.plan
    if engine.network_memory is None:
        assert engine.channel_records is not None
        return engine.channel_records
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
    channels: float = 1 if how.one_queue else consumers
    senders: float = producers
    if how.pointwise:
        channels, senders = max(consumers / producers, 1), max(producers / consumers, 1)
        far_each = min(far_each, senders)
    return int(engine.network_memory.held(senders, channels, remote, size, spans, far_each))


def _component(
    deployment: Deployment, names: Sequence[str], inputs: tuple[int, ...], outputs: Mapping[int, Stream]
) -> Component:
    query, places = deployment.query, deployment.plan.locations(names[0])
    stages = tuple(_stage(query, deployment.engine, query.operator(name)) for name in names)
    before = (-1, *(names.index(query.inputs(name)[0].producer) for name in names[1:]))
    leaving = [stream.producer for stream in outputs.values()]
    starts = [leaving.index(name) if name in leaving else 0 for name in names]
    exits = tuple(range(start, start + leaving.count(name)) for start, name in zip(starts, names, strict=True))
    groups = group_count(query, names[0], len(places))
    return Component(
        **vars(stages[0]),
        stages=stages,
        before=before,
        places=places,
        inputs=inputs,
        outputs=tuple(outputs),
        exits=exits,
        key_groups=groups,
    )


def _stage(query: Query, engine: EngineProfile, operator: AnyOperator) -> Stage:
    return Stage(
        operator=operator,
        service_s=engine.service_s(query, operator),
        service_scv=engine.service_scv_of(operator),
        scan_s=engine.scan_s(query, operator),
        result_s=engine.result_s(operator),
        memory_bytes=engine.memory_bytes(query, operator),
        bytes_in=engine.input_bytes(query, operator.name),
        bytes_out=engine.output_bytes(query, operator.name),
    )
