"""PDSP-Bench's Flink applications as scenarios: chains behind a Kafka source, on four workers.

What is given is public in its workload generator: the operators, how their input is dealt, and what passes. Nothing is
said of costs: all are the profile's, to be calibrated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.scenario import Scenario
from twin.spec import parse

Chain = tuple[tuple[float, str], ...]
"""Selectivity of an operator, and how its input is dealt: r(ebalance), f(orward where parallelisms agree), k(eyed).

What leaves a source is dealt as Flink does where nobody says how: overloaded runs with as many sources as parsers have
markers a thirtieth as old as those with other numbers, so they have a channel each.
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
"""Of Word Count's tokens, those that are the empty string."""
DEALT = {"r": "rebalance", "k": "hash", "f": "forward"}
LINEAR_ROAD_LATE = 10
"""Parallelism of Linear Road's last operators, whatever is recorded."""


def scenario(row: Mapping[str, str]) -> Scenario:
    """The job of one run, at its nominal rate."""
    chain = APPLICATIONS[row["application"], row["variant"]]
    counts = _parallelisms(row, len(chain))
    names = ["source", *(f"o{number}" for number in range(len(chain))), "writer"]
    places = [f"w{number}" for number in range(WORKERS)]
    operators: list[dict[str, Any]] = [{"name": "source", "kind": "source"}]
    for name, (selectivity, how) in zip(names[1:], chain, strict=False):
        keyed = {"key_groups": KEY_GROUPS} if how == "k" else {}
        operators.append({"name": name, "kind": "map", "selectivity": selectivity, **keyed})
    operators.append({"name": "writer", "kind": "sink"})
    ways = [how for _, how in chain] + ["r"]
    streams = []
    for number, how in enumerate(ways):
        alike = counts[number] == counts[number + 1]
        partitioning = DEALT[how] if how != "f" or alike else "rebalance"
        streams.append({"producer": names[number], "consumer": names[number + 1], "partitioning": partitioning})
    cores, clock = float(row["cores_per_node"]), float(row["clock_ghz"])
    host = {"cpu_percent": 100 * cores * clock / 2.8, "ram_mb": 128_000, "bandwidth_mbps": 25_000, "latency_ms": 0.05}
    offered = float(row["offered_per_s"])
    hot = {"shares": [HOT_WORD, *[(1 - HOT_WORD) / (KEY_GROUPS - 1)] * (KEY_GROUPS - 1)]}
    data = {
        "name": row["application"],
        "query": {"operators": operators, "streams": streams},
        "cluster": {"hosts": [{"name": name, **host} for name in places]},
        "plan": {
            "placement": {
                name: [places[each % WORKERS] for each in range(count)]
                for name, count in zip(names, counts, strict=True)
            }
        },
        "workload": {
            "arrivals": {"source": {"law": "constant", "rate_per_s": offered}},
            "keys": {"o1": hot} if row["application"] == "Word Count" else {},
        },
        "engine": "flink",
        "run": {"horizon_s": 330, "warmup_s": 30},
    }
    return parse(Scenario, data)


def _parallelisms(row: Mapping[str, str], operators: int) -> list[int]:
    """Of source, operators and writer."""
    given = [int(each) for each in row["parallelism"].split(",")]
    if row["application"] == "Linear Road":
        return [given[0], given[0], given[1], *[LINEAR_ROAD_LATE] * 3]
    inner = [*given[1:-1], *[given[-2]] * operators][:operators]
    return [given[0], *inner, given[-1]]
