"""The laws of exact simulation by name, and which of them a deployment depends on.

An exact run is found again by its deployment and the numbers of the laws that it uses, not by the source code: exact
runs take hours, and most changes to the code are meant to leave them as they are. Raise the number of a law by hand
whenever a change alters what exact simulation computes there (its distribution, not just its bits); runs without that
law stay. `benchmarks.validity.pins` notices where that was forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from twin.deployment import Deployment
from twin.query import Aggregate, Filter, Join, Map
from twin.workload import Constant, Poisson

ENOUGH_MEMORY = 16.0
"""Times what the engine itself takes: with so much below the onset of its slow-down, a host does not feel its heap."""


class Law(NamedTuple):
    """number: raised when the law changes. used: whether a deployment's exact runs depend on it."""

    number: int
    about: str
    used: Callable[[Deployment], bool]


def _windows(job: Deployment, kinds: type | tuple[type, ...], policy: str | None = None) -> bool:
    found = (each for each in job.query.operators if isinstance(each, kinds) and isinstance(each, Aggregate | Join))
    return any(policy in (None, each.window.policy) for each in found)


def _charged(job: Deployment, joins: bool) -> bool:
    """Whether an operator (a join, or another) costs what the engine's profile says."""
    return any(isinstance(each, Join) == joins and each.service_time_s is None for each in job.query.operators)


def _crowded(job: Deployment) -> bool:
    """Whether a socket has more replicas than cores."""
    hosts = {host.name: host for host in job.cluster.hosts}
    tasks = Counter(place for name in job.plan.placement for place in job.plan.locations(name))
    return any(
        count > max(1.0, hosts[place.host].socket_capacity(place.socket) / hosts[place.host].core_speed(place.socket))
        for place, count in tasks.items()
    )


def _used_hosts(job: Deployment) -> set[str]:
    return {place.host for name in job.plan.placement for place in job.plan.locations(name)}


def _tight(job: Deployment) -> bool:
    """Whether a host could come to feel its heap."""
    memory = job.engine.memory
    used = _used_hosts(job)
    rams = [host.ram_mb for host in job.cluster.hosts if host.name in used]
    return min(rams) * memory.onset < ENOUGH_MEMORY * memory.base_mb


def _partitionings(job: Deployment) -> set[str]:
    return {job.query.partitioning(each).name for each in job.query.streams}


def _hashed(job: Deployment) -> bool:
    hashed = (each.consumer for each in job.query.streams if job.query.partitioning(each).name == "hash")
    return any(job.plan.replicas(name) > 1 for name in hashed)


def _keyed(job: Deployment) -> bool:
    grouped = any(getattr(each, "key_groups", None) is not None for each in job.query.operators)
    return grouped or "two-choice" in _partitionings(job)


def _numa(job: Deployment) -> bool:
    return any(host.socket_count > 1 or host.core_speed(0) != 1.0 for host in job.cluster.hosts)


def _mixed(job: Deployment) -> bool:
    """Whether streams of several sizes lead into an operator that is no join."""
    query, size = job.query, job.engine.output_bytes
    merging = [each.name for each in query.operators if not isinstance(each, Join)]
    return any(len({size(query, each.producer) for each in query.inputs(name)}) > 1 for name in merging)


def _selective(job: Deployment) -> bool:
    return any(isinstance(each, Filter | Map) and each.selectivity != 1 for each in job.query.operators)


def _batched(job: Deployment) -> bool:
    return job.engine.batch_tuples > 1 or job.engine.buffer_bytes is not None


def _noisy(job: Deployment) -> bool:
    return job.engine.noise.gc_interval_s is not None or job.engine.noise.jitter_scv > 0


def _varying(job: Deployment) -> bool:
    return not all(isinstance(each, Constant | Poisson) for each in job.workload.arrivals.values())


LAWS: dict[str, Law] = {
    "queues": Law(1, "arrivals, services, credits, backpressure, latencies, counters", lambda _: True),
    "selectivity": Law(1, "how many tuples filters and maps emit", _selective),
    "costs": Law(1, "what the profile charges, joins apart", lambda job: _charged(job, joins=False)),
    "mixed costs": Law(1, "what tuples of several sizes cost an operator that takes them all", _mixed),
    "join costs": Law(1, "what the profile charges for joins", lambda job: _charged(job, joins=True)),
    "aggregates": Law(1, "distinct groups and their ages", lambda job: _windows(job, Aggregate)),
    "joins": Law(3, "matches and their ages", lambda job: _windows(job, Join)),
    "count windows": Law(1, "when they are evaluated", lambda job: _windows(job, (Aggregate, Join), "count")),
    "time windows": Law(1, "when they are evaluated", lambda job: _windows(job, (Aggregate, Join), "time")),
    "dealing": Law(1, "tuples among replicas", lambda job: any(len(each) > 1 for each in job.plan.placement.values())),
    "hashing": Law(1, "tuples among replicas by keys", _hashed),
    "key groups": Law(1, "tuples by key group, skew", _keyed),
    "shared queues": Law(1, "replicas that take from one queue", lambda job: "shared" in _partitionings(job)),
    "shedding": Law(1, "full channels that drop", lambda job: any(s.overflow == "drop" for s in job.query.streams)),
    "sharing": Law(2, "more replicas than cores on a socket", _crowded),
    "network": Law(1, "cards, latencies, (de)serialisation", lambda job: len(_used_hosts(job)) > 1),
    "links": Law(1, "routes over links and switches", lambda job: bool(job.cluster.links)),
    "batching": Law(1, "buffers and their flush", _batched),
    "memory": Law(1, "heaps that slow down and overflow", _tight),
    "sockets": Law(1, "distances, clocks and bandwidths of sockets", _numa),
    "noise": Law(1, "pauses and jitter", _noisy),
    "varying arrivals": Law(1, "rates that change", _varying),
}


def laws_of(job: Deployment) -> dict[str, int]:
    """The laws that exact runs of a deployment depend on, with their numbers."""
    return {name: law.number for name, law in LAWS.items() if law.used(job)}
