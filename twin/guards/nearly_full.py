"""Where many tasks share a processor that is all but full, what each waits is a matter of chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from twin.engine.measure.statistics import Row
from twin.guards.crowding import COLLIDING, NEARLY_FULL, crowded
from twin.job import Job
from twin.markers import MarkerAge, by_operator
from twin.scenario import RunSettings

CHANCY = 0.97
"""Of a crowded host in use: beyond, even exact runs of ordinary length differ from seed to seed."""
UNDER_WAY = 0.1
"""Of a result's age: where it is under way for less, a third of that is lost in how long windows hold it."""
NAMED = 4

SEEDS = "latencies may differ twofold from one seed to another: average several (twin whatif --replications)"
UNSURE = "latencies there may be twice or half of what they are: set fidelity: exact"
LOW = "high percentiles of latencies there may be a third too low: set fidelity: exact"


def nearly_full(
    job: Job, settings: RunSettings, rows: Sequence[Row], hosts: Sequence[Row], ages: Sequence[MarkerAge]
) -> list[str]:
    """One line for all hosts of as many cores of which the same is to be said. rows: of the operators."""
    used = _used(hosts)
    cores = {host.name: host.cpu_percent / 100 for host in job.deployment.cluster.hosts}
    tasks = crowded(job, used, COLLIDING)
    alike: defaultdict[tuple[float, str], list[str]] = defaultdict(list)
    for host in tasks:
        if settings.fidelity == "exact":
            what = SEEDS if used[host] > CHANCY else ""
        else:
            what = UNSURE if used[host] > NEARLY_FULL else LOW
        if what and (what != LOW or _under_way(job, settings, rows, ages) > UNDER_WAY):
            alike[cores[host], what].append(host)
    return [
        f"{_names(those)}: {_range([tasks[each] for each in those])} tasks share {_cores(has)}"
        f"{' each' if len(those) > 1 else ''}, {_range([round(100 * used[each]) for each in those])} % busy; "
        f"{what}, or give {'them' if len(those) > 1 else 'it'} room"
        for (has, what), those in alike.items()
    ]


def _used(hosts: Sequence[Row]) -> dict[str, float]:
    """By host, the mean over all periods."""
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for row in hosts:
        shares[row["host"]].append(row["cpuUtilisation"])
    return {host: sum(each) / len(each) for host, each in shares.items()}


def _under_way(job: Job, settings: RunSettings, rows: Sequence[Row], ages: Sequence[MarkerAge]) -> float:
    """Share of a result's age that is no window's: what its markers waited, and a service at each operator.

    The largest of all sinks; 1 if nothing is known.
    """
    measured = [row for row in rows if row["start_s"] >= settings.warmup_s]
    served_s = sum(
        _service_s([row for row in measured if row["operator"] == each.name]) for each in job.deployment.query.operators
    )
    waited_s = by_operator(ages)
    shares = []
    for sink in job.deployment.query.sinks:
        mine = [row for row in measured if row["operator"] == sink.name]
        age_s = sum(row["processingLatencySum_s"] for row in mine)
        if age_s > 0.0 and sink.name in waited_s:
            shares.append((waited_s[sink.name] + served_s) * sum(row["latencyCount"] for row in mine) / age_s)
    return max(shares, default=1.0)


def _service_s(rows: Sequence[Row]) -> float:
    """Of a tuple that comes in, what it leads to included."""
    busy_s = sum(row["busyTimeMsPerSecond"] / 1000 * row["replicas"] * (row["end_s"] - row["start_s"]) for row in rows)
    return busy_s / max(1, sum(row["numRecordsIn"] for row in rows))


def _names(hosts: Sequence[str]) -> str:
    named = hosts if len(hosts) <= NAMED else hosts[: NAMED - 1]
    more = [f"{len(hosts) - len(named)} others"] if len(named) < len(hosts) else []
    *first, last = [*named, *more]
    return f"{', '.join(first)} and {last}" if first else last


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _cores(number: float) -> str:
    return f"{number:g} core{'' if number == 1.0 else 's'}"
