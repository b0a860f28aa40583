"""What a run costs, in CPU seconds, beside the limits.

Run: python -m benchmarks.simulator_speed [--runs N]. Four-minute runs of Costream's Table II; a service of the chains;
tasks that crowd a host; and how the cost grows with operators, horizon and rate: linearly. CPU seconds of a
machine that does other work meanwhile are more than those of an idle one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import count, islice
from typing import Any

import numpy as np

from benchmarks.table import print_table
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from tests.twin.worlds import HOST, chain
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

FIRST_SEED = 10_000
KINDS = {1: "linear", 2: "two-way join", 3: "three-way join"}
MEAN_S, P95_S = 0.12, 0.25
"""Limits of the CPU time of a run of Table II: mean, and 95th percentile."""
SERVICE_NS = 120.0
"""Limit of the CPU time of a record at an operator of a chain."""
CROWDED = 2.0
"""Limit of the ratio of a service's CPU time among 200 tasks on a host to that among 24."""
CROWD_S = 0.34
"""Limit of the CPU time of five seconds of 98 maps on 16 cores."""
BEST_OF = 3


def limit(what: str, measured: float, most: float) -> None:
    """Prints whether a limit is kept."""
    print(f"{what}: {measured:.3g} (limit {most:g}), {'kept' if measured <= most else 'NOT KEPT'}")


def table_ii(runs: int) -> None:
    """Prints CPU seconds of random queries by kind of query, and all together against the limits."""
    drawn = (random_scenario(SPACES["costream"], seed, RunSettings()).deployment for seed in count(FIRST_SEED))
    jobs = list(islice(drawn, runs))
    done = [simulate(Scenario.of(job, RunSettings(seed=index))) for index, job in enumerate(jobs)]
    seconds = np.array([run.cpu_s for run in done])
    sources = np.array([len(job.query.sources) for job in jobs])
    pressed = np.array([run.metrics.backpressured for run in done])
    masks = {**{name: sources == number for number, name in KINDS.items()}, "all": sources > 0}
    middle = (0.5, 0.95, 1.0)
    rows = [
        (name, mask.sum(), seconds[mask].mean(), *np.quantile(seconds[mask], middle), pressed[mask].mean())
        for name, mask in masks.items()
        if mask.any()
    ]
    header = ("query", "runs", "mean", "median", "p95", "max", "backpressured")
    print_table("CPU s of a 240 s run", header, rows)
    limit("mean CPU s", seconds.mean(), MEAN_S)
    limit("95th percentile", float(np.quantile(seconds, 0.95)), P95_S)


def growth(what: str, jobs: Mapping[float, Scenario]) -> list[tuple[float, float, float]]:
    """Prints and returns, by size: size, best CPU seconds, and nanoseconds of a service."""
    rows = []
    for size, job in jobs.items():
        done = min((simulate(job) for _ in range(BEST_OF)), key=lambda run: run.cpu_s)
        services = sum([row["numRecordsIn"] for row in done.operator_rows])
        rows.append((size, done.cpu_s, 1e9 * done.cpu_s / services))
    print_table(f"by {what}", (what, "CPU s", "ns a service"), rows)
    power = float(np.polyfit(np.log(list(jobs)), np.log([row[1] for row in rows]), 1)[0])
    print(f"CPU s grow with the {what} to the power {power:.2f}")
    return rows


def line_of_maps(maps: int, cores: float = 64.0, load: float = 0.3, rate: float = 3200.0, **run: Any) -> Scenario:
    """Job source -> maps -> sink on one host. load: of each map. cores: of the host."""
    middle = [{"kind": "map", "name": f"m{k}", "service_time_s": load / rate} for k in range(maps)]
    job = chain(middle, rate, hosts=[{**HOST, "cpu_percent": 100 * cores}])
    return Scenario.of(job).with_run(**{"horizon_s": 60.0, **run})


def line_of_subtasks(parallelism: int, rate: float = 3200.0) -> Scenario:
    """Job source -> map -> map -> sink; each subtask of the maps is on a host of its own, at a load of 0.3."""
    hosts = [{**HOST, "name": f"h{number}"} for number in range(parallelism)]
    middle = [{"kind": "map", "name": name, "service_time_s": 0.3 * parallelism / rate} for name in ("m0", "m1")]
    spread = [host["name"] for host in hosts]
    job = chain(middle, rate, hosts=[HOST, *hosts], placement={"m0": spread, "m1": spread})
    return Scenario.of(job, RunSettings(horizon_s=60.0))


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="random queries")
    asked = parser.parse_args()
    table_ii(asked.runs)
    lengths = (2, 4, 8, 16, 32)
    chains = growth("operators", {n: line_of_maps(n - 1) for n in lengths})
    limit("ns a service, at most", max(row[2] for row in chains), SERVICE_NS)
    growth("operators on one core", {n: line_of_maps(n - 1, cores=1.0, load=0.7 / (n - 1)) for n in lengths})
    brief = {"horizon_s": 5, "warmup_s": 1, "period_s": 1}
    # maps, beside a source and a sink
    crowded = {n: line_of_maps(n, cores=16.0, load=22.0 / n, **brief) for n in (22, 48, 98, 198)}
    grown = growth("maps that ask for 22 of a host's 16 cores", crowded)
    limit("a service among 200 tasks over one among 24", grown[-1][2] / grown[0][2], CROWDED)
    limit("CPU s of 98 maps", grown[2][1], CROWD_S)
    growth("parallelism", {n: line_of_subtasks(n) for n in (1, 8, 64)})
    growth("horizon", {horizon_s: line_of_maps(3, horizon_s=horizon_s) for horizon_s in (30.0, 120.0, 480.0)})
    growth("rate", {rate: line_of_maps(3, rate=rate, horizon_s=20.0) for rate in (1e3, 1e4, 1e5)})


if __name__ == "__main__":
    main()
