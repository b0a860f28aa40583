"""The ways that streams take between hosts: network cards and, where the cluster has links, their routes.

Without links a stream's way depends on its producer's host alone. In a network that is a tree, a stream crosses a
directed link exactly if it starts on the link's one side and ends on the other: one column t >= [starts here] - [ends
here] for each stream and directed link, the *cut* form. In other networks there is a column for each pair of hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from optimizers.milp.assignment import Assignment
from optimizers.program import Program, Terms
from twin.cluster import Cluster
from twin.rates.coefficients import PlacementCoefficients

MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Links:
    """Directed links: capacity in bytes a second and latency, [K]."""

    ends: tuple[tuple[str, str], ...]
    bandwidth_k: np.ndarray
    latency_s_k: np.ndarray

    @classmethod
    def of(cls, cluster: Cluster) -> Links:
        """Both directions of every link."""
        directed = [(ends, link) for link in cluster.links for ends in (link.between, link.between[::-1])]
        return cls(
            ends=tuple(ends for ends, _ in directed),
            bandwidth_k=np.array([link.bandwidth_mbps for _, link in directed]) * MEGA / 8,
            latency_s_k=np.array([link.latency_ms for _, link in directed]) * 1e-3,
        )


@dataclass(frozen=True, slots=True)
class Ways:
    """By stream, terms of its latency in seconds and of the seconds that a byte takes on links; by link, its load."""

    latency: list[list[Terms]]
    per_byte: list[list[Terms]]
    loads: list[list[Terms]]
    bandwidth_k: np.ndarray


def ways(program: Program, job: PlacementCoefficients, assignment: Assignment) -> Ways:
    """The terms of every stream's way, with the columns that they need."""
    cluster = job.deployment.cluster
    if not cluster.links:
        latency_l = job.places.latency_h[job.places.host_l]
        latency = [assignment.leaves(s, start, latency_l) for s, start in enumerate(job.producer_s)]
        return Ways(latency, [[] for _ in latency], [], np.zeros(0))
    links = Links.of(cluster)
    graph = nx.Graph([link.between for link in cluster.links])
    graph.add_nodes_from(host.name for host in cluster.hosts)
    if nx.is_tree(graph):
        crossed, route_sk = _cut(program, job, assignment, links, graph)
    else:
        crossed, route_sk = _pairs(program, job, assignment, links)
    return Ways(
        latency=[[(crossed[s], route_sk @ links.latency_s_k)] for s in range(len(crossed))],
        per_byte=[[(crossed[s], route_sk @ (1.0 / links.bandwidth_k))] for s in range(len(crossed))],
        loads=[
            [(crossed[s], route_sk[:, k] * job.streams.bytes_per_s[s]) for s in range(len(crossed))]
            for k in range(len(links.ends))
        ],
        bandwidth_k=links.bandwidth_k,
    )


def _cut(
    program: Program, job: PlacementCoefficients, assignment: Assignment, links: Links, graph: nx.Graph[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Columns [S, K] and, as each is of one link, the identity."""
    crosses = program.variables((len(job.producer_s), len(links.ends)), upper=1.0)
    hosts = [host.name for host in job.deployment.cluster.hosts]
    for k, (here, there) in enumerate(links.ends):
        cut = nx.restricted_view(graph, [], [(here, there)])
        side = nx.node_connected_component(cut, here)
        behind_l = np.isin(job.places.host_l, [h for h, name in enumerate(hosts) if name in side])
        start = assignment.place[list(job.producer_s)][:, behind_l]
        end = assignment.place[list(job.consumer_s)][:, behind_l]
        program.rows((crosses[:, k, None], 1.0), (start, -1.0), (end, 1.0), low=0.0)
    return crosses, np.eye(len(links.ends))


def _pairs(
    program: Program, job: PlacementCoefficients, assignment: Assignment, links: Links
) -> tuple[np.ndarray, np.ndarray]:
    """Columns [S, P] by pairs of different hosts, and which links each pair crosses [P, K]."""
    hosts = [host.name for host in job.deployment.cluster.hosts]
    routes, number = job.deployment.cluster.routes, {ends: k for k, ends in enumerate(links.ends)}
    pairs = [(g, h) for g in range(len(hosts)) for h in range(len(hosts)) if g != h]
    route_pk = np.zeros((len(pairs), len(links.ends)))
    open_p = np.array([routes.connected(hosts[g], hosts[h]) for g, h in pairs])
    for p in np.flatnonzero(open_p):
        for ends in routes.between(*(hosts[each] for each in pairs[p])):
            route_pk[p, number[ends]] = 1.0
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
