"""compile(): a deployment as a frozen job, which wiring, guards, the rate model and features read.

What a spec says by name and text is looked up and parsed here, once: streams have ends by number, places are places,
and each component knows what its tuples cost and how large they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from twin.deployment import Deployment
from twin.flow import nominal_rates
from twin.keys import group_count
from twin.kinds.flow import OperatorRates
from twin.partitionings.traits import Partitioning
from twin.plan import Location
from twin.profiles import EngineProfile
from twin.query import AnyOperator, Query, Stream


@dataclass(frozen=True, eq=False)
class Edge:
    """A stream between two components, by their numbers.

    bytes_each: size of a tuple on it. room: tuples that its channels into one replica hold. service_s: CPU seconds that
    a tuple of it costs its consumer on a reference core, what windows and other hosts cost apart. memory_bytes: local
    memory traffic that it causes there.
    """

    stream: Stream
    producer: int
    consumer: int
    how: Partitioning
    bytes_each: float
    room: int
    service_s: float
    memory_bytes: float

    @property
    def ends(self) -> tuple[str, str]:
        """The names of producer and consumer."""
        return self.stream.producer, self.stream.consumer

    @property
    def blocks(self) -> bool:
        """Whether a full channel holds its producer up."""
        return self.stream.overflow == "block"


@dataclass(frozen=True, eq=False)
class Component:
    """A node of the job: operators that run as one, in data-flow order. Today one each.

    places: of its replicas. inputs, outputs: numbers of edges, by the names of their other ends. service_s: CPU seconds
    of an input tuple if all inputs bring as many; of what windows do, scan_s a tuple looked at and result_s a result.
    service_scv: squared coefficient of variation of a service. memory_bytes: local memory traffic of an input tuple,
    and bytes_in: its size, likewise; bytes_out: of an emitted one. key_groups: their number under the plan; None if
    tuples are not dealt by key group.
    """

    operators: tuple[AnyOperator, ...]
    places: tuple[Location, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    service_s: float
    service_scv: float
    scan_s: float
    result_s: float
    memory_bytes: float
    bytes_in: float
    bytes_out: float
    key_groups: int | None

    @property
    def operator(self) -> AnyOperator:
        """The one that takes tuples in."""
        return self.operators[0]

    @property
    def name(self) -> str:
        """That of the operator that takes tuples in."""
        return self.operators[0].name

    @property
    def replicas(self) -> int:
        """How many tasks it is."""
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
    """Components in data-flow order, edges by the names of their ends."""

    deployment: Deployment
    components: tuple[Component, ...]
    edges: tuple[Edge, ...]

    @property
    def query(self) -> Query:
        """What is computed."""
        return self.deployment.query

    @property
    def engine(self) -> EngineProfile:
        """What tuples cost."""
        return self.deployment.engine

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Of each component, by name."""
        return {each.name: number for number, each in enumerate(self.components)}

    def component(self, name: str) -> Component:
        """That of this name. Raises KeyError if there is none."""
        return self.components[self.number[name]]

    @cached_property
    def _by_ends(self) -> Mapping[tuple[str, str], Edge]:
        return {each.ends: each for each in self.edges}

    def edge(self, stream: Stream) -> Edge:
        """That of a stream. Raises KeyError if there is none."""
        return self._by_ends[stream.producer, stream.consumer]

    def inputs(self, name: str) -> tuple[Edge, ...]:
        """The edges into a component."""
        return tuple(self.edges[s] for s in self.component(name).inputs)

    def outputs(self, name: str) -> tuple[Edge, ...]:
        """The edges out of a component."""
        return tuple(self.edges[s] for s in self.component(name).outputs)

    def one_queue(self, name: str) -> bool:
        """Whether the replicas of a component take from a common queue."""
        return any(each.how.one_queue for each in self.inputs(name))

    @cached_property
    def least_room(self) -> int:
        """Of all edges; how much may travel together."""
        return min((each.room for each in self.edges), default=self.engine.channel_tuples)

    @cached_property
    def sources(self) -> tuple[Component, ...]:
        """Where tuples come from."""
        return tuple(each for each in self.components if each.operator.is_source)

    @cached_property
    def sinks(self) -> tuple[Component, ...]:
        """Where results arrive."""
        return tuple(each for each in self.components if each.operators[-1].is_sink)

    @cached_property
    def rates(self) -> Mapping[str, OperatorRates]:
        """What flows through each operator if all sources keep up."""
        return nominal_rates(self.query, self.deployment.workload.arrivals)


def compile(what: Deployment | Job) -> Job:
    """The job that a deployment, or scenario, describes; of a job, itself."""
    if isinstance(what, Job):
        return what
    query, streams = what.query, what.query.streams_by_name
    number = {operator.name: index for index, operator in enumerate(query.topological)}
    edges = tuple(_edge(what, each, number) for each in streams)
    inputs: dict[str, list[int]] = {name: [] for name in number}
    outputs: dict[str, list[int]] = {name: [] for name in number}
    for index, each in enumerate(streams):
        inputs[each.consumer].append(index)
        outputs[each.producer].append(index)
    components = (
        _component(what, each, tuple(inputs[each.name]), tuple(outputs[each.name])) for each in query.topological
    )
    return Job(what, tuple(components), edges)


def _edge(deployment: Deployment, each: Stream, number: Mapping[str, int]) -> Edge:
    query, engine = deployment.query, deployment.engine
    return Edge(
        stream=each,
        producer=number[each.producer],
        consumer=number[each.consumer],
        how=query.partitioning(each),
        bytes_each=engine.output_bytes(query, each.producer),
        room=engine.room(_channels(deployment, each), engine.output_bytes(query, each.producer)),
        service_s=engine.service_s_of(query, query.operator(each.consumer), each.producer),
        memory_bytes=engine.memory_bytes_of(query, query.operator(each.consumer), each.producer),
    )


def _channels(deployment: Deployment, each: Stream) -> int:
    """Of a stream, into one replica of its consumer."""
    return 1 if deployment.query.partitioning(each).paired else deployment.plan.replicas(each.producer)


def _component(
    deployment: Deployment, operator: AnyOperator, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Component:
    query, engine, plan = deployment.query, deployment.engine, deployment.plan
    places = plan.locations(operator.name)
    return Component(
        operators=(operator,),
        places=places,
        inputs=inputs,
        outputs=outputs,
        service_s=engine.service_s(query, operator),
        service_scv=engine.service_scv_of(operator),
        scan_s=engine.scan_s(operator),
        result_s=engine.result_s(operator),
        memory_bytes=engine.memory_bytes(query, operator),
        bytes_in=engine.input_bytes(query, operator.name),
        bytes_out=engine.output_bytes(query, operator.name),
        key_groups=group_count(query, operator.name, len(places)),
    )
