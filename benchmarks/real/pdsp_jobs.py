"""PDSP-Bench's Flink applications as scenarios: chains behind a Kafka source, on four workers; ages of their markers.

The operators, the partitioning of their input and their selectivities are public in its workload generator. Costs are
not: all are the profile's, to be calibrated.

Producers send a burst a second, and latency markers leave the sources all the time. A marker that meets a burst waits
for a buffer that the burst fills; another one waits for the next flush, however fast the job is on average. So ages are
a mean of both, by the share of time in which records come. A burst lasts for as long as the slowest operator makes it
last.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from optimizers.objectives import at_rate
from tests.twin.worlds import deployment
from twin.query import Query
from twin.rates.answer import RateAnswer
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

Chain = tuple[tuple[float, str], ...]
"""Selectivity of each operator, and partitioning of its input: r(ebalance), f(orward if parallelisms agree), k(eyed).

Streams out of a source have Flink's default partitioning: overloaded runs with as many sources as parsers have markers
a thirtieth as old as those with other numbers, so they have a channel each.
"""

APPLICATIONS: Mapping[tuple[str, str], Chain] = {
    ("Word Count", ""): ((6.0, "f"), (1.0, "k")),
    ("Smart Grid", ""): ((1.0, "f"), (0.006, "k")),
    ("Spike Detection", ""): ((1.0, "f"), (1.0, "k"), (0.0093, "f")),
    ("Ad Analytics", "without"): ((1.0, "f"), (1.0, "f"), (0.7, "k")),
    ("Linear Road", ""): ((1.0, "f"), (0.02, "k"), (1.0, "r"), (1.0, "r")),
    ("Machine Outlier", ""): ((1.0, "f"), (0.0128, "k")),
    ("Sentiment Analysis", ""): ((1.0, "f"), (1.0, "f")),
    ("TPCH", "without"): ((1.0, "f"), (0.5, "f"), (1.0, "f"), (1.0, "k")),
    ("TPCH", "with"): ((1.0, "f"), (0.5, "k"), (1.0, "f"), (1.0, "k")),
}
WORKERS = 4
KEY_GROUPS = 128
HOT_WORD = 1 / 6
"""Share of Word Count's tokens that are the empty string."""
DEALT = {"r": "rebalance", "k": "hash", "f": "forward"}
LINEAR_ROAD_LATE = 10
"""Parallelism of Linear Road's last operators, whatever is recorded."""

HOP_MS = 50.0
"""Age that a marker gains by a hop where no records come: half the time between two flushes."""
ALWAYS = 0.95
"""Share of time in which records come from which on they count as coming always."""
BELOW = 0.97
"""Load of the operators while a burst is stretched: one that does not fill channels."""


def scenario(row: Mapping[str, str]) -> Scenario:
    """Job of one run, at its nominal rate."""
    chain = APPLICATIONS[row["application"], row["variant"]]
    counts = _parallelisms(row, len(chain))
    names = ["source", *(f"o{number}" for number in range(len(chain))), "writer"]
    operators: list[dict[str, Any]] = [
        {"name": name, "kind": "map", "selectivity": selectivity} | ({"key_groups": KEY_GROUPS} if how == "k" else {})
        for name, (selectivity, how) in zip(names[1:], chain, strict=False)
    ]
    alike = [here == there for here, there in pairwise(counts)]
    ways = [how if how != "f" or same else "r" for (_, how), same in zip((*chain, (1.0, "r")), alike, strict=True)]
    cores, clock = float(row["cores_per_node"]), float(row["clock_ghz"])
    host = {"cpu_percent": 100 * cores * clock / 2.8, "ram_mb": 128_000, "bandwidth_mbps": 25_000, "latency_ms": 0.05}
    hot = {"shares": [HOT_WORD, *[(1 - HOT_WORD) / (KEY_GROUPS - 1)] * (KEY_GROUPS - 1)]}
    places = [f"w{number}" for number in range(WORKERS)]
    job = deployment(
        [{"name": "source", "kind": "source"}, *operators, {"name": "writer", "kind": "sink"}],
        list(pairwise(names)),
        {"source": {"law": "constant", "rate_per_s": float(row["offered_per_s"])}},
        hosts=[{"name": name, **host} for name in places],
        placement={
            name: [places[each % WORKERS] for each in range(count)] for name, count in zip(names, counts, strict=True)
        },
        engine="flink",
        partitioning={name: DEALT[how] for name, how in zip(names[1:], ways, strict=True)},
        keys={"o1": hot} if row["application"] == "Word Count" else {},
    )
    return Scenario.of(job, RunSettings(horizon_s=330, warmup_s=30))


def _parallelisms(row: Mapping[str, str], operators: int) -> list[int]:
    """Parallelisms of source, operators and writer."""
    given = [int(each) for each in row["parallelism"].split(",")]
    if row["application"] == "Linear Road":
        return [given[0], given[0], given[1], *[LINEAR_ROAD_LATE] * 3]
    inner = [*given[1:-1], *[given[-2]] * operators][:operators]
    return [given[0], *inner, given[-1]]


def ages_ms(job: Scenario, answer: RateAnswer) -> float:
    """Ages of latency markers (which skip windows), summed over the operators behind the source and the committer."""
    source, *order = (answer.operators.index(name) for name in ("source", *behind(job.query)))
    channel_s, coming = answer.channel_s[0, order], float(answer.offered_pressure[0].max())
    if coming < ALWAYS:
        meeting_s = RateModel().answer(at_rate(job, BELOW / coming), [job.plan]).channel_s[0, order]
        channel_s = coming * meeting_s + (1.0 - coming) * HOP_MS / 1000.0
    source_s = answer.channel_s[0, source] + answer.queue_s[0, source]
    at_each_s = source_s + np.cumsum(channel_s + answer.queue_s[0, order])
    return 1000.0 * float(at_each_s.sum() + at_each_s[-1]) + HOP_MS  # once more at the last for the committer


def behind(query: Query) -> list[str]:
    """Operators behind the source, in data-flow order."""
    found, at = [], "source"
    while following := query.outputs(at):
        at = following[0].consumer
        found.append(at)
    return found
