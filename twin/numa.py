"""The two eight-socket servers of BriskStream (SIGMOD 2019), from the class figures of its Table 2.

They are clusters of one host, called `server` on both, so that a plan for one can be tried on the other. A scenario
names them: `cluster: server-a`. One reference core (`cpu_percent` 100) is one core of Server A at 1.2 GHz:
BriskStream's operator profiles refer to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twin.cluster import Cluster, Host, Numa, Socket
from twin.errors import BadInput, suggest

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
