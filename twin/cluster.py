"""Clusters: heterogeneous hosts with NUMA sockets, joined by a network; and two servers of eight sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from twin.errors import BadInput, suggest
from twin.query import Name
from twin.spec import Spec

# clusters ------------------------------------------------------------------------------------------------------------
# Clusters: heterogeneous hosts with NUMA sockets, joined by a network.


Tier = Literal["edge", "fog", "cloud"]
Matrix = tuple[tuple[float, ...], ...]


class Socket(Spec):
    """NUMA socket. A host's CPU share is spread over its sockets in proportion to their cores (times clocks)."""

    cores: Annotated[int, Field(gt=0, le=4096)]
    clock_ghz: Annotated[
        float | None,
        Field(ge=1e-3, le=100, description="of all sockets or of none; absent: a task gets a reference core"),
    ] = None
    bandwidth_gbps: Annotated[
        float | None, Field(ge=1e-6, le=10**6, description="local DRAM, gigabytes a second; absent: never a limit")
    ] = None


class Numa(Spec):
    """Distances between the sockets of a host: `latency_ns[i][j]` is the time that a fetcher on socket j takes for one
    cache line of socket i's memory. The two directions may differ, as measured matrices do."""

    latency_ns: Annotated[
        Matrix,
        Field(description="from socket i's memory to socket j; the diagonal, local memory, is part of service times"),
    ]
    bandwidth_gbps: Annotated[
        Matrix | None,
        Field(description="gigabytes a second from socket i's memory to socket j; the diagonal is not used"),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_latency()
        for i, row in enumerate(self.bandwidth_gbps or ()):
            if len(row) != len(self.latency_ns) or len(self.bandwidth_gbps or ()) != len(self.latency_ns):
                size = len(self.latency_ns)
                raise ValueError(f"bandwidth_gbps must be {size} x {size}, as latency_ns is")
            for j, value in enumerate(row):
                if i != j and value <= 0:
                    raise ValueError(f"bandwidth_gbps[{i}][{j}] must be > 0 off the diagonal, got {value}")
        return self

    def _check_latency(self) -> None:
        size = len(self.latency_ns)
        for i, row in enumerate(self.latency_ns):
            if len(row) != size:
                raise ValueError(f"latency_ns must be square: row {i} has {len(row)} entries, expected {size}")
            for j, value in enumerate(row):
                if value < 0:
                    raise ValueError(f"latency_ns[{i}][{j}] must be >= 0, got {value}")


class Host(Spec):
    """Machine of a cluster. The four hardware features are Costream's (Table I); the network ones are outgoing."""

    name: Name
    cpu_percent: Annotated[float, Field(ge=1e-6, le=10**6, description="100 = one reference core")]
    ram_mb: Annotated[float, Field(ge=1e-6, le=10**9)]
    bandwidth_mbps: Annotated[float, Field(ge=1e-6, le=10**9, description="outgoing, shared by all streams")]
    latency_ms: Annotated[
        float, Field(ge=0, le=10**6, description="outgoing, to any other host; not used where the cluster has links")
    ]
    tier: Tier | None = None
    price_per_hour: Annotated[
        float | None,
        Field(gt=0, le=10**9, description="in any currency; absent: hosts are counted where prices matter"),
    ] = None
    others_percent: Annotated[
        float,
        Field(
            ge=0,
            le=10**6,
            exclude_if=lambda value: value == 0.0,
            description="of cpu_percent, what other processes use",
        ),
    ] = 0.0
    core_percent: Annotated[
        float,
        Field(
            ge=1e-6,
            le=10**6,
            exclude_if=lambda value: value == 100.0,
            description="what one core is worth, by its clock: all that a subtask can use; not beside clock_ghz",
        ),
    ] = 100.0
    sockets: Annotated[tuple[Socket, ...], Field(description="absent: one socket")] = ()
    numa: Annotated[Numa | None, Field(description="absent: sockets are equally near")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.numa is not None and len(self.numa.latency_ns) != self.socket_count:
            size = len(self.numa.latency_ns)
            raise ValueError(f"host {self.name!r}: numa.latency_ns is {size} x {size} for {self.socket_count} sockets")
        clocked = [socket.clock_ghz is not None for socket in self.sockets]
        if any(clocked) and not all(clocked):
            raise ValueError(f"host {self.name!r}: give clock_ghz for all sockets or for none")
        if any(clocked) and self.core_percent != 100.0:
            raise ValueError(f"host {self.name!r}: its sockets have clock_ghz, which says core_percent; leave one out")
        if self.others_percent >= self.cpu_percent:
            raise ValueError(
                f"host {self.name!r}: others_percent {self.others_percent:g} leaves nothing of cpu_percent "
                f"{self.cpu_percent:g}; give less"
            )
        return self

    @property
    def left_percent(self) -> float:
        """Part of `cpu_percent` that other processes leave to the job."""
        return self.cpu_percent - self.others_percent

    @property
    def socket_count(self) -> int:
        """Number of sockets, at least 1."""
        return max(1, len(self.sockets))

    def socket_capacity(self, socket: int) -> float:
        """Reference cores of one socket that other processes leave to the job; they use all sockets alike."""
        return self._spread(self.left_percent / 100, socket)

    def core_speed(self, socket: int) -> float:
        """Speed of one core of a socket, in reference cores, which is all that a task can use at a time.

        With clocks given, `cpu_percent` is spread over cores x clock. Without, it is `core_percent`, whatever the
        socket's number of cores.
        """
        if not self.sockets or self.sockets[socket].clock_ghz is None:
            return self.core_percent / 100
        return self._spread(self.cpu_percent / 100, socket) / self.sockets[socket].cores

    def _spread(self, cores: float, socket: int) -> float:
        if not self.sockets:
            return cores
        weights = [each.cores * (each.clock_ghz or 1.0) for each in self.sockets]
        return cores * weights[socket] / sum(weights)

    def socket_latency_s(self, producer: int, consumer: int) -> float:
        """Seconds per remote cache line between two sockets; 0 on the same one."""
        if self.numa is None or producer == consumer:
            return 0.0
        return self.numa.latency_ns[producer][consumer] * 1e-9


class Link(Spec):
    """A full-duplex connection of two hosts or switches; each direction has the bandwidth, and a queue, of its own."""

    between: tuple[Name, Name]
    bandwidth_mbps: Annotated[float, Field(ge=1e-6, le=10**9)]
    latency_ms: Annotated[float, Field(ge=0, le=10**6)]


HOP_MS = 1e-6
"""Time added to each link's latency, so that of equally fast routes the shorter one is taken."""


class Routes:
    """All routes of one network; each is found when it is first asked for."""

    def __init__(self, nodes: Iterable[str], links: Iterable[tuple[str, str, float]]) -> None:
        import networkx as nx  # takes an eighth of a second, which only clusters with links need

        self._paths = nx.single_source_dijkstra_path
        self._graph: nx.Graph[str] = nx.Graph()
        self._graph.add_nodes_from(sorted(nodes))  # the search follows this order, which decides among equals
        ends = sorted((min(one, other), max(one, other), latency_ms) for one, other, latency_ms in links)
        self._graph.add_weighted_edges_from((one, other, latency_ms + HOP_MS) for one, other, latency_ms in ends)
        self._parts: dict[str, int] = {}
        for number, part in enumerate(nx.connected_components(self._graph)):
            self._parts.update(dict.fromkeys(part, number))
        self._from: dict[str, dict[str, list[str]]] = {}

    def connected(self, start: str, end: str) -> bool:
        """Whether any route leads from one node to another. Raises KeyError for an unknown node."""
        return self._parts[start] == self._parts[end]

    def between(self, start: str, end: str) -> tuple[tuple[str, str], ...]:
        """Links of the route as (from, to), in order; none from a node to itself.

        Raises KeyError if there is no route.
        """
        if start not in self._from:
            self._from[start] = self._paths(self._graph, start)
        nodes = self._from[start][end]
        return tuple(pairwise(nodes))


class Cluster(Spec):
    """All hosts offered to a job, and, if `links` are given, how they are connected.

    Without links every host reaches every other at its own `bandwidth_mbps` and `latency_ms`. With links, a stream
    leaves through its host's network card (`bandwidth_mbps`) and crosses every link of the route with the lowest
    latency, which is the sum of the links'; `latency_ms` of hosts is not used then.
    """

    hosts: Annotated[tuple[Host, ...], Field(min_length=1)]
    links: Annotated[tuple[Link, ...], Field(description="absent: every host reaches every other directly")] = ()
    switches: Annotated[tuple[Name, ...], Field(description="nodes of the network that carry no operators")] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [host.name for host in self.hosts]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise ValueError(f"host name {name!r} is used {times} times; names must be unique")
        for name in self.switches:
            if name in names or self.switches.count(name) > 1:
                raise ValueError(f"switch name {name!r} is used more than once; names must be unique")
        if self.switches and not self.links:
            raise ValueError(f"switches without links lead nowhere; add links to {self.switches[0]!r}")
        self._check_links({*names, *self.switches})
        return self

    def _check_links(self, nodes: set[str]) -> None:
        seen: set[frozenset[str]] = set()
        for link in self.links:
            for end in link.between:
                if end not in nodes:
                    raise ValueError(f"link {' - '.join(link.between)}: unknown node {end!r}; {suggest(end, nodes)}")
            ends = frozenset(link.between)
            if len(ends) < 2:
                raise ValueError(f"link {' - '.join(link.between)} connects a node with itself; remove it")
            if ends in seen:
                raise ValueError(f"link {' - '.join(link.between)} is given twice; remove one")
            seen.add(ends)

    @cached_property
    def routes(self) -> Routes:
        """Routes between the hosts, over the links."""
        nodes = (*(host.name for host in self.hosts), *self.switches)
        return Routes(nodes, [(*link.between, link.latency_ms) for link in self.links])

    def host(self, name: str) -> Host:
        """Host of that name. Raises KeyError, with a suggestion, if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(f"unknown host {name!r}; {suggest(name, (host.name for host in self.hosts))}")

    def require_routes(self, pairs: Iterable[tuple[str, str]], place: str) -> None:
        """Raises ValueError, naming both hosts, for the first pair that no route connects."""
        if not self.links:
            return
        for start, end in pairs:
            if not self.routes.connected(start, end):
                raise ValueError(f"{place}: no route from host {start!r} to {end!r}; add links or place it elsewhere")


# two servers of eight sockets ----------------------------------------------------------------------------------------
# The two eight-socket servers of BriskStream (SIGMOD 2019), from the class figures of its Table 2.
#
# They are clusters of one host, called `server` on both, so that a plan for one can be tried on the other. A scenario
# names them: `cluster: server-a`. One reference core (`cpu_percent` 100) is one core of Server A at 1.2 GHz:
# BriskStream's operator profiles refer to it.


SERVER = "server"
REFERENCE_GHZ = 1.2
SOCKETS = 8
HALF_TRAY, TRAY = 2, 4

RAM_MB = 512_000.0
"""Assumed, as it is not published."""
CARD_MBPS, CARD_MS = 10_000.0, 0.1
"""Assumed, as they are not published; nothing leaves the one host."""

A_FETCH_NS = {1: 119.0, 2: 171.0, 3: 404.0, 4: 479.0}
"""Time of a remote cache line beyond that of a local one, by hops, as implied by the estimates in the paper's Table 3.
The idle latencies of Table 2 (307.7 ns one hop, 548.0 ns most hops) include the local access."""
A_GBPS = {1: 13.2, 2: 13.2, 3: 5.8, 4: 5.8}
"""Bandwidth by hops. One hop and most hops are published; within a tray counts as one hop."""

B_FETCH_NS = {1: 185.2 - 50.0, 2: 294.9 - 50.0, 3: 349.6 - 50.0}
"""Time of a remote cache line, for the other socket of a pair, the other pair of a tray, and across trays: idle latency
less that of the last-level cache. Table 2 has the first and the last; the one between the pairs of a tray is the median
of the 16 that its authors measured, 294 to 299 ns. It is assumed that fetching takes this, as Table 3 has Server A
alone."""
B_GBPS = {1: 10.6, 2: 10.8, 3: 10.8}


def hops_a(i: int, j: int) -> int:
    """Hops between two sockets of Server A: trays 0-3 and 4-7; in a tray, 0-2 and 1-3 are two hops, others one.

    Across trays there are 3, or 4 if the halves of the trays (0-1 and 4-5, 2-3 and 6-7) are not opposite.
    """
    if i == j:
        return 0
    if i // TRAY == j // TRAY:
        return 2 if abs(i - j) == HALF_TRAY else 1
    opposite = i % TRAY // HALF_TRAY == j % TRAY // HALF_TRAY
    return 3 if opposite else 4


def hops_b(i: int, j: int) -> int:
    """Class of distance between two sockets of Server B, whose node controller makes all sockets of the other tray
    equally far: 3; in a tray the other of a pair (0-1, 2-3) is 1 away, those of the other pair 2."""
    if i == j:
        return 0
    if i // TRAY != j // TRAY:
        return 3
    return 1 if i // HALF_TRAY == j // HALF_TRAY else 2


def server_a(sockets: int = SOCKETS) -> Cluster:
    """Server A: sockets of 18 cores at 1.2 GHz, 54.3 GB/s each, connected directly (glue-less).

    sockets: number in use, the first of the eight. Raises BadInput if it is not from 1 to 8.
    """
    return _server(sockets, 18, 1.2, 54.3, hops_a, A_FETCH_NS, A_GBPS)


def server_b(sockets: int = SOCKETS) -> Cluster:
    """Server B: sockets of 8 cores at 2.27 GHz, 24.2 GB/s each, joined by a node controller (glue-assisted).

    sockets: number in use, the first of the eight. Raises BadInput if it is not from 1 to 8.
    """
    return _server(sockets, 8, 2.27, 24.2, hops_b, B_FETCH_NS, B_GBPS)


def _server(
    sockets: int,
    cores: int,
    clock_ghz: float,
    local_gbps: float,
    hops: Callable[[int, int], int],
    fetch_ns: dict[int, float],
    gbps: dict[int, float],
) -> Cluster:
    if not 1 <= sockets <= SOCKETS:
        raise BadInput(f"sockets must be from 1 to {SOCKETS}, got {sockets}")
    every = range(sockets)
    latency = tuple(tuple(fetch_ns.get(hops(i, j), 0.0) for j in every) for i in every)
    bandwidth = tuple(tuple(gbps.get(hops(i, j), local_gbps) for j in every) for i in every)
    socket = Socket(cores=cores, clock_ghz=clock_ghz, bandwidth_gbps=local_gbps)
    host = Host(
        name=SERVER,
        cpu_percent=100.0 * sockets * cores * clock_ghz / REFERENCE_GHZ,
        ram_mb=RAM_MB,
        bandwidth_mbps=CARD_MBPS,
        latency_ms=CARD_MS,
        sockets=(socket,) * sockets,
        numa=Numa(latency_ns=latency, bandwidth_gbps=bandwidth),
    )
    return Cluster(hosts=(host,))


CLUSTERS = {"server-a": server_a(), "server-b": server_b()}


def cluster_by_name(value: Any) -> Any:
    """Replaces a cluster's name by the cluster; keeps anything else. Raises ValueError for an unknown name."""
    if not isinstance(value, str):
        return value
    if value not in CLUSTERS:
        raise ValueError(f"unknown cluster {value!r}; {suggest(value, CLUSTERS)}")
    return CLUSTERS[value]


def cluster_name(cluster: Cluster) -> str | None:
    """Name of a cluster; None if it has none."""
    return next((name for name, known in CLUSTERS.items() if known == cluster), None)
