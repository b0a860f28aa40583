"""How finely a run whose fidelity is `auto` follows tuples: one by one where they are few, else in segments.

Segments save nothing where tuples are hardly more than them, dealt to many replicas, and they cost precision: most of
it where tasks crowd on a processor that is nearly full.
"""

from __future__ import annotations

from collections import defaultdict

from twin.guards.crowding import crowded
from twin.guards.effort import LONG_STEPS, estimate
from twin.guards.effort_rates import outlook
from twin.job import Job, compile
from twin.scenario import Scenario

WORTH = 3.0
"""So many times the steps of a fast run are spent on an exact one, if it is not long."""
WORTH_CROWDED = 10.0
"""The same where a fast one would have to warn that its latencies are uncertain."""


def settled(scenario: Scenario, compiled: Job | None = None) -> Scenario:
    """The same, with `exact` or `fast` for `auto`. Where segments are asked for, it is fast.

    compiled: the job that it describes, where that is there already.
    """
    if scenario.run.fidelity != "auto":
        return scenario
    fast, exact = (scenario.with_run(fidelity=each) for each in ("fast", "exact"))
    if scenario.run.segments is not None:
        return fast
    job = compiled or compile(scenario)
    segments, tuples = (estimate(job, each.run, each.events).steps for each in (fast, exact))
    if tuples <= segments or tuples <= min(WORTH * segments, LONG_STEPS):
        return exact
    affordable = tuples <= min(WORTH_CROWDED * segments, 2.0 * LONG_STEPS)
    return exact if affordable and _uncertain(job, scenario.run.horizon_s) else fast


def _uncertain(job: Job, horizon_s: float) -> bool:
    """Whether a processor is expected to be crowded and nearly full."""
    arrivals = job.deployment.workload.arrivals
    seen = outlook(job.apart, {each.name: arrivals[each.name].mean_rate_per_s for each in job.sources}, horizon_s)
    hosts = {host.name: host for host in job.deployment.cluster.hosts}
    used: defaultdict[str, float] = defaultdict(float)
    for place, share in seen.used.items():
        host = hosts[place.host]
        used[place.host] += share * host.socket_capacity(place.socket) / (host.cpu_percent / 100)
    return bool(crowded(job, used))
