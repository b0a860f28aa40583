"""Where many tasks share a processor that is nearly full: segments say little there about how tuples are delayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from twin.job import Job

CROWD = 1.5
"""Tasks a core, and ..."""
NEARLY_FULL, FULL = 0.8, 0.99
"""... shares of a host in use between which it is so. Beyond, it is saturated, and what waits in channels decides."""
COLLIDING = 0.6
"""Share of a host in use from which on segments make high percentiles of its tasks' latencies too low."""


def crowded(job: Job, used: Mapping[str, float], above: float = NEARLY_FULL) -> dict[str, int]:
    """Tasks by host, of those hosts. used: share of each host's processors that is in use; above: `NEARLY_FULL`."""
    tasks = sum((each.on for each in job.components), start=Counter[str]())
    cores = {host.name: host.cpu_percent / 100 for host in job.deployment.cluster.hosts}
    return {
        host: tasks[host]
        for host, share in used.items()
        if tasks[host] > CROWD * max(1.0, cores[host]) and above < share < FULL
    }
