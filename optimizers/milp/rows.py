"""Columns and rows of every placement program: which operator is on which socket, and limits of utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from optimizers.program import Program, Terms
from optimizers.rules import bin_ranges
from optimizers.space import Space, counts_of, enough_memory
from twin.rates.coefficients import PlacementCoefficients

# which operator is where ---------------------------------------------------------------------------------------------
# Columns of every placement program: which operator is on which socket, and which streams stay on their host.
#
# place[o, l] is the share of operator o that is on socket l: 0 or 1 or, for an operator that may be spread, the share
# of its subtasks. z[s, l] is the share of a stream that stays on its host, at the socket of its producer (`stays_out`)
# and of its consumer (`stays_in`); z is at most the share of either end, and staying is never dearer than leaving, so
# z needs no integrality. That is O(streams x sockets) columns where McCormick's products or flows have one for each
# pair of sockets. For operators on one host z is exact; of spread ones less stays in truth, the product of both
# shares.
#
# Costream's rules (`optimizers.rules`) are exact and linear. Never weaker: floor[o, k] is 1 if the data of o have been
# on a host whose weakest bin is at least k (k = 1, 2); it never falls along a stream, and forbids hosts whose
# strongest bin is below k. No return: seen[o, h] is 1 if the data of o have been on h; a stream may go to a host that
# its data have seen only if it is there already. Neither needs integrality: `place` pushes them up, and nothing else
# holds them.


@dataclass(frozen=True, slots=True)
class PlacementColumns:
    """Columns of a placement: place [O, L], stays_out and stays_in [S, L]. allowed_ol: where an operator may be."""

    place: np.ndarray
    stays_out: np.ndarray
    stays_in: np.ndarray
    allowed_ol: np.ndarray

    def shares_ol(self, values: np.ndarray) -> np.ndarray:
        """[O, L] share of every operator on every socket, in a solution."""
        return np.asarray(values[self.place])

    def leaves(self, s: int, producer: int, each_l: np.ndarray) -> list[Terms]:
        """Terms of a stream's share that leaves its host, by the sockets of its producer."""
        return [(self.place[producer], each_l), (self.stays_out[s], -each_l)]

    def arrives(self, s: int, consumer: int, each_l: np.ndarray) -> list[Terms]:
        """Terms of a stream's share that comes from another host, by the sockets of its consumer."""
        return [(self.place[consumer], each_l), (self.stays_in[s], -each_l)]


def assign(program: Program, job: PlacementCoefficients, space: Space, most: float) -> PlacementColumns:
    """Adds columns and rows that put every operator where the space allows it. most: utilisation of a core by one
    subtask."""
    allowed_ol = space.allows_ol(job.deployment) & enough_memory(job)
    spread = space.spreads(job.deployment)
    if spread:
        allowed_ol &= _enough_core(job, most)
    pinned_o = space.pinned_o(job.deployment)
    whole_ol = np.broadcast_to(~pinned_o[:, None] & (not spread), allowed_ol.shape)
    place = program.variables(allowed_ol.shape, upper=allowed_ol, integer=whole_ol)
    program.rows((place, 1.0), low=1.0, high=1.0)
    if spread:
        _whole_subtasks(program, job, place)
    stay(program, job, place, space)
    if space.most_moves is not None:
        _at_most_moves(program, job, place, space.most_moves)
    return _with_streams(program, job, place, allowed_ol)


def _with_streams(
    program: Program, job: PlacementCoefficients, place: np.ndarray, allowed_ol: np.ndarray
) -> PlacementColumns:
    host_l, streams, sockets = job.places.host_l, len(job.producer_s), place.shape[1]
    start, end = place[list(job.producer_s)], place[list(job.consumer_s)]
    out = program.variables((streams, sockets), upper=1.0)
    program.rows((out.reshape(-1, 1), 1.0), (start.reshape(-1, 1), -1.0), high=0.0)
    if len(set(host_l.tolist())) == sockets:
        program.rows((out.reshape(-1, 1), 1.0), (end.reshape(-1, 1), -1.0), high=0.0)
        return PlacementColumns(place, out, out, allowed_ol)
    into = program.variables((streams, sockets), upper=1.0)
    program.rows((into.reshape(-1, 1), 1.0), (end.reshape(-1, 1), -1.0), high=0.0)
    for h in range(int(host_l.max()) + 1):
        here = host_l == h
        program.rows((out[:, here], 1.0), (end[:, here], -1.0), high=0.0)
        program.rows((into[:, here], 1.0), (start[:, here], -1.0), high=0.0)
        program.rows((out[:, here], 1.0), (into[:, here], -1.0), low=0.0, high=0.0)
    return PlacementColumns(place, out, into, allowed_ol)


def _enough_core(job: PlacementCoefficients, most: float) -> np.ndarray:
    """[O, L] whether a socket has a core that is fast enough for a subtask of an operator."""
    need_o = job.operators.work / job.operators.parallelism * job.operators.skew
    return np.asarray(need_o[:, None] <= most * job.places.core_l)


def _whole_subtasks(program: Program, job: PlacementCoefficients, place: np.ndarray) -> None:
    """Adds rows that make shares those of whole subtasks; subtasks that take from one queue are on one host."""
    subtasks_o, host_l = job.operators.parallelism, job.places.host_l
    count = program.variables(place.shape, upper=subtasks_o[:, None], integer=True)
    program.rows(
        (place.reshape(-1, 1), np.repeat(subtasks_o, place.shape[1])[:, None]),
        (count.reshape(-1, 1), -1.0),
        low=0.0,
        high=0.0,
    )
    for o in np.flatnonzero(job.operators.shared):
        here = program.variables((int(host_l.max()) + 1,), upper=1.0, integer=True)
        program.rows((here[None], 1.0), low=1.0, high=1.0)
        program.rows((place[o][:, None], 1.0), (here[host_l][:, None], -1.0), high=0.0)


def stay(program: Program, job: PlacementCoefficients, place: np.ndarray, space: Space) -> None:
    """Adds rows that keep pinned operators where the deployment's plan has them, on several sockets if need be."""
    pinned_o = space.pinned_o(job.deployment)
    if pinned_o.any():
        home_ol = counts_of(job.deployment, job.deployment.plan)[pinned_o]
        share = (home_ol / home_ol.sum(axis=1, keepdims=True)).ravel()
        program.rows((place[pinned_o].reshape(-1, 1), 1.0), low=share, high=share)


def _at_most_moves(program: Program, job: PlacementCoefficients, place: np.ndarray, most_moves: int) -> None:
    """Adds rows that let at most so many operators leave their place in the deployment's plan."""
    counts_ol = counts_of(job.deployment, job.deployment.plan)
    row, column = np.nonzero(counts_ol)
    moved = program.variables((len(counts_ol),), upper=1.0, integer=True)
    home = counts_ol[row, column] / counts_ol[row].sum(axis=1)
    program.rows((place[row, column][:, None], 1.0), (moved[row][:, None], 1.0), low=home)
    program.row((moved, 1.0), high=float(most_moves))


def exclude(program: Program, assignment: PlacementColumns, counts_ol: np.ndarray) -> None:
    """Adds a no-good cut against a placement that has each operator on one socket unless it is pinned."""
    one_o = (counts_ol > 0).sum(axis=1) == 1
    chosen = assignment.place[one_o][counts_ol[one_o] > 0]
    program.row((chosen, 1.0), high=len(chosen) - 1.0)


HIGHER = (1, 2)


def obey_costream(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    """Adds both of Costream's rules; the sockets of a host count as one."""
    _never_weaker(program, job, assignment)
    _no_return(program, job, assignment)


def _never_weaker(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    bins = list(bin_ranges(job.deployment.cluster).values())
    lowest_l, highest_l = np.array(bins)[job.places.host_l].T
    place = assignment.place
    for k in HIGHER:
        floor = program.variables((len(place),), upper=1.0)
        program.rows((place[:, lowest_l >= k], 1.0), (floor[:, None], -1.0), high=0.0)
        program.rows((place[:, highest_l < k], 1.0), (floor[:, None], 1.0), high=1.0)
        start, end = floor[list(job.producer_s)], floor[list(job.consumer_s)]
        program.rows((start[:, None], 1.0), (end[:, None], -1.0), high=0.0)


def _no_return(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    host_l = job.places.host_l
    seen = program.variables((len(assignment.place), int(host_l.max()) + 1), upper=1.0)
    start, end = list(job.producer_s), list(job.consumer_s)
    for h in range(seen.shape[1]):
        here = assignment.place[:, host_l == h]
        program.rows((here, 1.0), (seen[:, h, None], -1.0), high=0.0)
        program.rows((seen[start, h, None], 1.0), (seen[end, h, None], -1.0), high=0.0)
        program.rows((here[end], 1.0), (seen[start, h, None], 1.0), (here[start], -1.0), high=1.0)


# limits of utilisation -----------------------------------------------------------------------------------------------
# Utilisation limits: cores, network cards, links, credits and memory; the highest utilisation is a column itself.
#
# One row an operator says that a subtask has one core, instead of a row for each operator and socket: the sum over
# sockets gives a far tighter relaxation. Without links a stream's way between hosts depends on its producer's host
# alone. In a network that is a tree, a stream crosses a directed link exactly if it starts on the link's one side and
# ends on the other: one column t >= [starts here] - [ends here] for each stream and directed link, the *cut* form. In
# other networks there is a column for each pair of hosts.


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
        share = each.skew[o] / each.parallelism[o]
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
