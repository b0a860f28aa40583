"""How fast replicas were while they were busy: a busy time holds waits for cores that others use.

The rate model knows a speed at which a replica is never slower; none is faster than a core of its own. Between the two,
what a host was measured to use of its cores is what its replicas used.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamtwin.connect.shadow.window import Window
from twin.scenario import Scenario

LEAST_BUSY = 0.01
"""Share of the time below which a busy time says nothing."""


def speeds_of(scenario: Scenario, window: Window, least: Mapping[str, float]) -> dict[str, float]:
    """Reference cores of a busy replica, by operator whose busy time is known. least: by the rate model."""
    busy = {name: each["busy"] for name, each in window.operators.items() if each.get("busy", 0.0) >= LEAST_BUSY}
    known = {name: share for name, share in busy.items() if name in least}
    factors = {host: _factor(scenario, window, host, known, least) for host in window.hosts}
    found = {}
    for name in known:
        hosts = [place.host for place in scenario.plan.locations(name)]
        found[name] = least[name] * sum(factors.get(host, 1.0) for host in hosts) / len(hosts)
    return found


def _factor(
    scenario: Scenario, window: Window, host: str, busy: Mapping[str, float], least: Mapping[str, float]
) -> float:
    """The factor on the speeds in `least` with which all replicas on a host use the CPU that was measured."""
    there = {name: sum(place.host == host for place in scenario.plan.locations(name)) for name in busy}
    slowest = sum(count * busy[name] * least[name] for name, count in there.items())
    fastest = sum(count * busy[name] * max(1.0, least[name]) for name, count in there.items())
    measured = window.hosts[host].get("cpu")
    if measured is None or slowest <= 0.0:
        return 1.0
    cores = measured * scenario.cluster.host(host).cpu_percent / 100
    return min(max(cores, slowest), fastest) / slowest
