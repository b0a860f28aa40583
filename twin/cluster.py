"""Where a job runs: heterogeneous hosts with NUMA sockets, joined by a network."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from twin.errors import suggest
from twin.query import Name
from twin.spec import Spec

Tier = Literal["edge", "fog", "cloud"]
CACHE_LINE_BYTES = 64


class Socket(Spec):
    """One NUMA socket. A host's CPU share is spread over its sockets in proportion to their cores."""

    cores: Annotated[int, Field(gt=0, le=4096)]


class Numa(Spec):
    """Socket-to-socket distances inside a host: `latency_ns[i][j]` is what one remote cache line costs the fetcher."""

    latency_ns: Annotated[tuple[tuple[float, ...], ...], Field(description="square matrix, zero on the diagonal")]

    @model_validator(mode="after")
    def _check(self) -> Self:
        size = len(self.latency_ns)
        for i, row in enumerate(self.latency_ns):
            if len(row) != size:
                raise ValueError(f"latency_ns must be square: row {i} has {len(row)} entries, expected {size}")
            for j, value in enumerate(row):
                if value < 0 or (i == j and value != 0):
                    raise ValueError(f"latency_ns[{i}][{j}] must be >= 0, and 0 on the diagonal, got {value}")
                if value != self.latency_ns[j][i]:
                    raise ValueError(f"latency_ns must be symmetric: [{i}][{j}] is {value}, [{j}][{i}] is not")
        return self


class Host(Spec):
    """A machine. The four hardware features are Costream's (Table I); the network ones are outgoing."""

    name: Name
    cpu_percent: Annotated[float, Field(gt=0, le=10**6, description="100 = one reference core")]
    ram_mb: Annotated[float, Field(gt=0, le=10**9)]
    bandwidth_mbps: Annotated[float, Field(gt=0, le=10**9, description="outgoing, shared by all streams")]
    latency_ms: Annotated[float, Field(ge=0, le=10**6, description="outgoing, to any other host")]
    tier: Tier | None = None
    sockets: Annotated[tuple[Socket, ...], Field(description="absent: one socket")] = ()
    numa: Annotated[Numa | None, Field(description="absent: sockets are equally near")] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.numa is not None and len(self.numa.latency_ns) != self.socket_count:
            size = len(self.numa.latency_ns)
            raise ValueError(f"host {self.name!r}: numa.latency_ns is {size} x {size} for {self.socket_count} sockets")
        return self

    @property
    def socket_count(self) -> int:
        """At least 1."""
        return max(1, len(self.sockets))

    def socket_capacity(self, socket: int) -> float:
        """Reference cores of one socket."""
        if not self.sockets:
            return self.cpu_percent / 100
        return self.cpu_percent / 100 * self.sockets[socket].cores / sum(each.cores for each in self.sockets)

    def socket_latency_s(self, producer: int, consumer: int) -> float:
        """Seconds per remote cache line between two sockets; 0 on the same one."""
        return self.numa.latency_ns[producer][consumer] * 1e-9 if self.numa else 0.0


class Cluster(Spec):
    """All hosts offered to a job."""

    hosts: Annotated[tuple[Host, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [host.name for host in self.hosts]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"host name {name!r} is used {names.count(name)} times; names must be unique")
        return self

    def host(self, name: str) -> Host:
        """The host of that name. Raises KeyError, with a suggestion, if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(f"unknown host {name!r}; {suggest(name, (host.name for host in self.hosts))}")
