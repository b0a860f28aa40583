"""CPU seconds and memory of a large cluster: 1,000 hosts, 20,000 key groups, a minute of simulated time.

Each host carries a subtask of every operator, so that streams join 1,000 producers to 1,000 consumers. Run: python -m
benchmarks.scale [--hosts N] [--groups N] [--rate RECORDS_PER_S]. The limits are 60 CPU s, building included, and 2 GB.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import pairwise

from benchmarks.table import print_table
from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

ENDS = ("source", "map", "aggregate", "sink")
LIMIT_CPU_S = 60.0
LIMIT_GB = 2.0


def cluster(hosts: int, groups: int, rate_per_s: float) -> Deployment:
    """Keyed aggregation with skewed, drifting keys: source -> map -> aggregate -> sink, a subtask of each per host."""
    names = [f"h{number}" for number in range(hosts)]
    window = {"policy": "time", "size_s": 5.0, "slide_s": 1.0}
    keyed = {"key_groups": groups, "group_by": "int", "groups": 10 * groups, "state_bytes_per_group": 1e5}
    operators = [
        {"kind": "map", "name": "map", "service_time_s": 2e-5},
        {"kind": "aggregate", "name": "aggregate", "window": window, "service_time_s": 5e-5, **keyed},
    ]
    host = {"cpu_percent": 400, "ram_mb": 16_000, "bandwidth_mbps": 1000, "latency_ms": 1}
    return deployment(
        [source(service_time_s=1e-6), *operators, sink(service_time_s=1e-6)],
        list(pairwise(ENDS)),
        {"source": rate_per_s},
        hosts=[{"name": name, **host} for name in names],
        placement=dict.fromkeys(ENDS, names),
        keys={"aggregate": {"zipf": 0.5, "drift_every_s": 10}},
    )


def main() -> None:
    """Prints CPU seconds, events and peak memory beside the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=1e6, help="records a second, all sources together")
    options = parser.parse_args()
    began_s = time.process_time()
    job = cluster(options.hosts, options.groups, options.rate)
    read_s = time.process_time() - began_s
    run = simulate(Scenario.of(job, RunSettings(horizon_s=60)))
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    total_s = time.process_time() - began_s
    rows = [
        ("reading and checking the deployment, CPU s", read_s, ""),
        ("simulating 60 s, CPU s", run.cpu_s, ""),
        ("together, CPU s", total_s, LIMIT_CPU_S),
        ("peak memory, GB", peak_gb, LIMIT_GB),
    ]
    title = f"{options.hosts} hosts, {options.groups} key groups, {options.rate:g} records/s"
    print_table(title, ("", "measured", "limit"), rows)
    print(f"  results: {run.metrics.throughput_per_s:.4g}/s, backpressured: {run.metrics.backpressured}")


if __name__ == "__main__":
    main()
