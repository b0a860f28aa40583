"""Network cards, links, and the paths that tuples take from place to place."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from twin.deployment import Deployment
from twin.engine.streams.channel import Inbox, Path, Paths
from twin.engine.streams.network import Jitter, Nic, route
from twin.plan import Location
from twin.profiles import Noise
from twin.randomness import random_stream
from twin.wiring.world import World


class Network:
    """Network of one world. All links are there from the start, a host's card from its first use on."""

    def __init__(self, deployment: Deployment, world: World, noise: Noise, seed: int) -> None:
        self.cluster = deployment.cluster
        self.engine = deployment.engine
        self.world = world
        self.noise = noise
        self.seed = seed
        self._hosts = {host.name: host for host in self.cluster.hosts}
        self._jitters: dict[Nic, Jitter] = {}
        self._link_latency_s: dict[tuple[str, str], float] = {}
        for link in self.cluster.links:
            for ends in (link.between, link.between[::-1]):
                world.links["->".join(ends)] = self._made("->".join(ends), link.bandwidth_mbps)
                self._link_latency_s[ends] = link.latency_ms * 1e-3

    def nic(self, host: str) -> Any:
        """Network card of a host."""
        if host not in self.world.nics:
            self.world.nics[host] = self._made(host, self._hosts[host].bandwidth_mbps)
        return self.world.nics[host]

    def _made(self, name: str, bandwidth_mbps: float) -> Any:
        nic = Nic(self.world.env, bandwidth_mbps)
        if self.noise.jitter_scv > 0.0:
            self._jitters[nic] = Jitter(random_stream(self.seed, f"jitter:{name}"), self.noise.jitter_scv)
        return nic

    def paths(self, start: Location, ends: Sequence[Location], inboxes: Sequence[Inbox], size: float) -> Paths:
        """Paths from a place to all receivers of a stream. The sequences may grow later, for new paths."""
        remote_s = self.serialise_s(size)
        send_s = [0.0 if end.host == start.host else remote_s for end in ends]
        if len(inboxes) < len(ends):  # a shared queue: its tuples may be taken on any socket
            common = self.path(start, ends[0], inboxes[0], size)
            common.fetch_s = fmean(self.costs_s(start, end, size)[1] for end in ends)
            return Paths(lambda _: common, send_s[:1], lambda _: inboxes[0])
        return Paths(
            lambda replica: self.path(start, ends[replica], inboxes[replica], size), send_s, inboxes.__getitem__
        )

    def path(self, start: Location, end: Location, inbox: Inbox, size: float) -> Path:
        """Path from a place to an inbox at another place, for tuples of `size` bytes."""
        send_s, fetch_s = self.costs_s(start, end, size)
        if start.host == end.host:
            return Path(inbox, None, 0.0, size, send_s, fetch_s)
        if self.cluster.links or self.noise.jitter_scv > 0.0:
            leg = route(self.hops(start.host, end.host), size, inbox, self._jitters)
            return Path(inbox, leg, 0.0, size, send_s, fetch_s)
        nic = self.nic(start.host)
        path = Path(inbox, nic, self._hosts[start.host].latency_ms * 1e-3, size, send_s, fetch_s)
        nic.carry(path)
        return path

    def costs_s(self, start: Location, end: Location, size: float) -> tuple[float, float]:
        """CPU seconds that `size` bytes cost at the sender and at the receiver."""
        if start.host != end.host:
            return self.serialise_s(size), size * self.engine.deserialise_ns_per_byte * 1e-9
        host = self._hosts[start.host]
        # cache lines take the same time at any clock speed
        line_s = host.socket_latency_s(start.socket, end.socket) * host.core_speed(end.socket)
        return 0.0, self.engine.lines_of(size) * line_s

    def serialise_s(self, size: float) -> float:
        """CPU seconds of serialising `size` bytes."""
        return size * self.engine.serialise_ns_per_byte * 1e-9

    def hops(self, start: str, end: str) -> list[tuple[Any, float]]:
        """Cards and links from host to host, each with its latency in seconds: the card without one, then the links of
        the route. In a cluster without links, the card alone, with the host's latency."""
        nic = self.nic(start)
        if not self.cluster.links:
            return [(nic, self._hosts[start].latency_ms * 1e-3)]
        routes = self.cluster.routes
        links = routes.between(start, end) if routes.connected(start, end) else ()  # else no tuples go there
        return [(nic, 0.0), *((self.world.links["->".join(ends)], self._link_latency_s[ends]) for ends in links)]
