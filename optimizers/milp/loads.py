"""Utilisation limits: cores, network cards, links, credits and memory; the highest utilisation is a column itself.

One row an operator says that a replica has one core, instead of a row for each operator and socket: the sum over
sockets gives a far tighter relaxation. Without links a stream's way between hosts depends on its producer's host alone.
In a network that is a tree, a stream crosses a directed link exactly if it starts on the link's one side and ends on
the other: one column t >= [starts here] - [ends here] for each stream and directed link, the *cut* form. In other
networks there is a column for each pair of hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from optimizers.milp.assignment import PlacementColumns
from optimizers.program import Program, Terms
from twin.rates.coefficients import PlacementCoefficients

MEGA = 1e6
Ends = Sequence[tuple[str, str]]
"""Ends of directed links: both directions of every link."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Routes of streams. Terms by stream: latency in seconds, and seconds that a byte takes on links; by link: its load
    [bytes a second]. bandwidth_k: bytes a second of the links."""

    latency: list[list[Terms]]
    per_byte: list[list[Terms]]
    loads: list[list[Terms]]
    bandwidth_k: np.ndarray


def ways(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> Ways:
    """Routes of all streams, with the columns that they need added to the program."""
    cluster = job.deployment.cluster
    if not cluster.links:
        latency_l = job.places.latency_h[job.places.host_l]
        latency = [assignment.leaves(s, start, latency_l) for s, start in enumerate(job.producer_s)]
        return Ways(latency, [[] for _ in latency], [], np.zeros(0))
    directed = [(ends, link) for link in cluster.links for ends in (link.between, link.between[::-1])]
    ends = [each for each, _ in directed]
    bandwidth_k = np.array([link.bandwidth_mbps for _, link in directed]) * MEGA / 8
    latency_s_k = np.array([link.latency_ms for _, link in directed]) * 1e-3
    graph = nx.Graph([link.between for link in cluster.links])
    graph.add_nodes_from(host.name for host in cluster.hosts)
    if nx.is_tree(graph):
        crossed, route_sk = _cut(program, job, assignment, ends, graph)
    else:
        crossed, route_sk = _pairs(program, job, assignment, ends)
    return Ways(
        latency=[[(crossed[s], route_sk @ latency_s_k)] for s in range(len(crossed))],
        per_byte=[[(crossed[s], route_sk @ (1.0 / bandwidth_k))] for s in range(len(crossed))],
        loads=[
            [(crossed[s], route_sk[:, k] * job.streams.bytes_per_s[s]) for s in range(len(crossed))]
            for k in range(len(ends))
        ],
        bandwidth_k=bandwidth_k,
    )


def _cut(
    program: Program, job: PlacementCoefficients, assignment: PlacementColumns, ends: Ends, graph: nx.Graph[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Columns [S, K] of streams by directed link in a tree, and the identity [K, K], as each column is of one link."""
    crosses = program.variables((len(job.producer_s), len(ends)), upper=1.0)
    hosts = [host.name for host in job.deployment.cluster.hosts]
    for k, (here, there) in enumerate(ends):
        cut = nx.restricted_view(graph, [], [(here, there)])
        side = nx.node_connected_component(cut, here)
        behind_l = np.isin(job.places.host_l, [h for h, name in enumerate(hosts) if name in side])
        start = assignment.place[list(job.producer_s)][:, behind_l]
        end = assignment.place[list(job.consumer_s)][:, behind_l]
        program.rows((crosses[:, k, None], 1.0), (start, -1.0), (end, 1.0), low=0.0)
    return crosses, np.eye(len(ends))


def _pairs(
    program: Program, job: PlacementCoefficients, assignment: PlacementColumns, ends: Ends
) -> tuple[np.ndarray, np.ndarray]:
    """Columns [S, P] of streams by pairs of different hosts, and the links that each pair crosses [P, K]."""
    hosts = [host.name for host in job.deployment.cluster.hosts]
    routes, number = job.deployment.cluster.routes, {link: k for k, link in enumerate(ends)}
    pairs = [(g, h) for g in range(len(hosts)) for h in range(len(hosts)) if g != h]
    route_pk = np.zeros((len(pairs), len(ends)))
    open_p = np.array([routes.connected(hosts[g], hosts[h]) for g, h in pairs])
    for p in np.flatnonzero(open_p):
        for link in routes.between(*(hosts[each] for each in pairs[p])):
            route_pk[p, number[link]] = 1.0
    flow = program.variables((len(job.producer_s), len(pairs)), upper=open_p.astype(float))
    first_p, second_p = np.array(pairs).T
    for h in range(len(hosts)):
        here = job.places.host_l == h
        start = assignment.place[list(job.producer_s)][:, here]
        end = assignment.place[list(job.consumer_s)][:, here]
        stays = assignment.stays_out[:, here]
        program.rows((flow[:, first_p == h], 1.0), (stays, 1.0), (start, -1.0), low=0.0, high=0.0)
        program.rows((flow[:, second_p == h], 1.0), (stays, 1.0), (end, -1.0), low=0.0, high=0.0)
    return flow, route_pk


MEMORY = 1.0 - 1e-6
"""Usable share of the memory that crashes a host; just below 1."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Columns of loads: used, the highest utilisation; cores [L], in use on a socket; cards [H], utilisation."""

    used: np.ndarray
    cores: np.ndarray
    cards: np.ndarray


def limit(program: Program, job: PlacementCoefficients, assignment: PlacementColumns, ways: Ways, most: float) -> Loads:
    """Adds rows that keep every utilisation at most at the column `used`, and that at most at `most`."""
    place = job.places
    used = program.variables((1,), upper=most)
    cores = program.variables((len(place.host_l),))
    cards = program.variables((len(place.bandwidth_h),))
    _cores(program, job, assignment, cores)
    program.rows((cores[:, None], 1.0), (np.broadcast_to(used, (len(cores), 1)), -place.capacity_l[:, None]), high=0.0)
    _one_core(program, job, assignment, used)
    _cards(program, job, assignment, cards)
    program.rows((cards[:, None], 1.0), (np.broadcast_to(used, (len(cards), 1)), -1.0), high=0.0)
    for k, terms in enumerate(ways.loads):
        program.row(*((columns, of / ways.bandwidth_k[k]) for columns, of in terms), (used, -1.0), high=0.0)
    for s, terms in enumerate(ways.latency):
        per_second = job.streams.credits_per_s[s]
        program.row(*((columns, of * per_second) for columns, of in terms), (used, -1.0), high=0.0)
    _memory(program, job, assignment)
    return Loads(used, cores, cards)


def _cores(program: Program, job: PlacementCoefficients, assignment: PlacementColumns, cores: np.ndarray) -> None:
    """Adds rows for the cores in use on each socket: by operators there, and by streams that leave and arrive there."""
    sockets = np.ones(len(cores))
    terms: list[Terms] = [(assignment.place, job.operators.work[:, None])]
    for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        for columns, of in assignment.leaves(s, start, sockets * job.streams.send[s]):
            terms.append((columns[None], of))
        for columns, of in assignment.arrives(s, end, sockets * job.streams.receive[s]):
            terms.append((columns[None], of))
    program.rows(
        *((columns.T, np.broadcast_to(of, columns.shape).T) for columns, of in terms),
        (cores[:, None], -1.0),
        low=0.0,
        high=0.0,
    )


def _one_core(program: Program, job: PlacementCoefficients, assignment: PlacementColumns, used: np.ndarray) -> None:
    each_l, each = 1.0 / job.places.core_l, job.operators
    for o in range(len(job.names)):
        share = each.skew[o] / each.replicas[o]
        terms: list[Terms] = [(assignment.place[o], each.work[o] * share * each_l), (used, -1.0)]
        for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
            if start == o and job.streams.send[s]:
                terms += assignment.leaves(s, o, job.streams.send[s] * share * each_l)
            if end == o and job.streams.receive[s]:
                terms += assignment.arrives(s, o, job.streams.receive[s] * share * each_l)
        program.row(*terms, high=0.0)


def _cards(program: Program, job: PlacementCoefficients, assignment: PlacementColumns, cards: np.ndarray) -> None:
    start, sent_s = list(job.producer_s), job.streams.bytes_per_s
    for h, card in enumerate(cards):
        here = job.places.host_l == h
        share = np.repeat(sent_s / job.places.bandwidth_h[h], int(here.sum()))
        program.row(
            (assignment.place[start][:, here].ravel(), share),
            (assignment.stays_out[:, here].ravel(), -share),
            (np.array([card]), -1.0),
            low=0.0,
            high=0.0,
        )


def _memory(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    law = job.deployment.engine.memory
    for h, ram_mb in enumerate(job.places.ram_mb_h):
        room_mb = law.crash * MEMORY * float(ram_mb) - law.base_mb
        if room_mb >= job.operators.held_mb.sum():
            continue
        here = job.places.host_l == h
        held = np.repeat(job.operators.held_mb, int(here.sum()))
        program.row((assignment.place[:, here].ravel(), held), high=max(0.0, room_mb))
