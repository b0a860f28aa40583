"""Planning on sockets: how long RLAS takes, and how far its placements are from the best there are.

Run: python -m benchmarks.socket_planning [--graphs N] [--limit S]. First, whole optimisations on one core, in CPU
seconds beside those that the paper gives for eight sockets (its Table 7), the bound of all cores together without
remote memory, and what is reached in a limited time, which counts in CPU seconds too, whatever else is running. Then
small random graphs (at most 7 replicas on at most 3 sockets), where every placement can be tried.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from benchmarks.table import print_table
from optimizers.branch_and_bound import search
from optimizers.interface import Problem, Solution
from optimizers.numa.rlas import Rlas
from optimizers.numa.solution import load_bound
from optimizers.numa.space import Symmetry
from optimizers.numa.tree import Heuristics, SocketTree
from papers.briskstream.applications import APPLICATIONS, SERVERS, on_cluster
from scenarios.files.scenario_file import load
from twin.cluster import Cluster, Host, Numa
from twin.deployment import Deployment
from twin.numa import server_a
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import sustained
from twin.scenario import Scenario
from twin.spec import parse

BLADES, NEAR_NS, TRAY_NS, FAR_NS = 4, 119.0, 404.0, 700.0
"""Of the machine with 32 sockets: four of Server A, farther apart than its own trays are."""


@dataclass(frozen=True)
class Whole:
    """A whole optimisation. paper_s: what the paper took for the like, if it says."""

    name: str
    job: Deployment
    optimizer: Rlas
    paper_s: float | None


def blades() -> Cluster:
    """One machine of 32 sockets."""
    one = server_a().hosts[0]
    count = BLADES * len(one.sockets)
    latency = [
        [
            0.0 if i == j else NEAR_NS if i // 4 == j // 4 else TRAY_NS if i // 8 == j // 8 else FAR_NS
            for j in range(count)
        ]
        for i in range(count)
    ]
    parts = {
        "sockets": one.sockets * BLADES,
        "cpu_percent": one.cpu_percent * BLADES,
        "numa": Numa(latency_ns=tuple(map(tuple, latency))),
    }
    return Cluster(hosts=(Host(**{**dict(one), **parts}),))


def wholes() -> list[Whole]:
    """The paper's Table 7, the other applications and server, and a larger machine."""
    word_count = load(APPLICATIONS["WC"])
    here = on_cluster(word_count, server_a()).deployment
    found = [
        Whole(f"WC, 8 sockets of A, r = {ratio}", here, Rlas(heuristics=Heuristics(ratio=ratio)), paper_s)
        for ratio, paper_s in ((1, 93.4), (3, 48.3), (5, 23.0), (10, 46.5), (15, 45.3))
    ]
    found += [
        Whole(f"{name}, 8 sockets of {server}", on_cluster(load(path), cluster()).deployment, Rlas(), None)
        for name, path in APPLICATIONS.items()
        for server, cluster in SERVERS.items()
    ]
    return [*found, Whole("WC, 32 sockets", on_cluster(word_count, blades()).deployment, Rlas(), None)]


def small(seed: int) -> tuple[NumaJob, np.ndarray]:
    """A random job of 3 to 5 operators and up to 7 replicas on 2 or 3 unequal sockets; its replicas [o]."""
    rng = stream(seed, "small-graph")
    count, sockets = int(rng.integers(3, 6)), int(rng.integers(2, 4))
    names = [f"op{number}" for number in range(count)]
    kinds = ["source", *["map"] * (count - 2), "sink"]
    edges = [(int(rng.integers(0, end)), end) for end in range(1, count - 1)]
    edges += [(start, count - 1) for start in sorted(set(range(count - 1)) - {start for start, _ in edges})]
    cores = [int(rng.integers(1, 4)) for _ in range(sockets)]
    latency = np.zeros((sockets, sockets))
    for i, j in itertools.combinations(range(sockets), 2):
        latency[i, j] = latency[j, i] = rng.choice([100.0, 400.0, 2000.0])
    document = {
        "query": {
            "operators": [
                {"kind": kind, "name": name, "service_time_s": float(rng.uniform(0.2e-6, 3e-6)), "tuple_bytes": 64}
                | ({"selectivity": float(rng.choice([0.5, 1.0, 3.0]))} if kind == "map" else {})
                for name, kind in zip(names, kinds, strict=True)
            ],
            "streams": [{"producer": names[start], "consumer": names[end]} for start, end in edges],
        },
        "cluster": {
            "hosts": [
                {
                    "name": "h",
                    "cpu_percent": 100 * sum(cores),
                    "ram_mb": 64_000,
                    "bandwidth_mbps": 1000,
                    "latency_ms": 1,
                }
                | {"sockets": [{"cores": each} for each in cores], "numa": {"latency_ns": latency.tolist()}}
            ]
        },
        "plan": {"placement": dict.fromkeys(names, "h")},
        "workload": {"arrivals": {"op0": {"law": "constant", "rate_per_s": 1e7}}},
        "engine": "brisk",
    }
    extra = rng.integers(0, count, size=int(rng.integers(0, 8 - count)))
    return NumaJob(parse(Deployment, document)), 1 + np.bincount(extra, minlength=count)


def best_of_all(job: NumaJob, replicas_o: np.ndarray) -> float:
    """The sustained load of the best of all placements."""
    sockets = range(len(job.locations))
    rows = [
        [
            np.bincount(places, minlength=len(sockets))
            for places in itertools.combinations_with_replacement(sockets, int(n))
        ]
        for n in replicas_o
    ]
    return float(sustained(job, np.array(list(itertools.product(*rows)), float)).load_n.max())


def optimised(whole: Whole, limit_s: float | None = None) -> tuple[Solution, float]:
    """The answer, and the CPU seconds that it took."""
    scenario = Scenario.of(whole.job).with_run(horizon_s=0.3)
    problem = Problem(scenario=scenario, cost_model=RateModel(), objective="throughput_per_s", seconds=limit_s)
    began_s = time.process_time()
    with patch("time.perf_counter", time.process_time):
        found = whole.optimizer.solve(problem)
    return found, time.process_time() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=300)
    parser.add_argument("--limit", type=float, default=1.0, metavar="S", help="of a second optimisation of each")
    arguments = parser.parse_args()
    rows: list[list[object]] = []
    for whole in wholes():
        found, took_s = optimised(whole)
        short, short_s = optimised(whole, arguments.limit)
        job = NumaJob(whole.job)
        bound = load_bound(job) * job.results_per_s
        paper = [whole.paper_s, whole.paper_s / took_s] if whole.paper_s else ["", ""]
        replicas = sum(len(places) for places in found.plan.placement.values())
        reached = [found.weighed, replicas, found.objective / 1e6, found.objective / bound]
        rows.append([whole.name, took_s, *paper, *reached, short_s, short.objective / found.objective])
        print(f"{whole.name}: {took_s:.1f} s; {rows[-1][-1]:.1%} of it in {short_s:.1f} s", flush=True)
    header = ["", "CPU s", "paper s", "faster", "weighed", "replicas", "M results/s", "of the bound without RMA"]
    header += [f"CPU s, limit {arguments.limit:g} s", "of the whole answer"]
    print_table("Whole optimisations (modelled throughput)", header, rows)

    shares: dict[str, list[float]] = {}
    for seed in range(arguments.graphs):
        job, replicas_o = small(seed)
        best = best_of_all(job, replicas_o)
        for name, heuristics in (
            ("no heuristics", Heuristics(ratio=1, symmetry=False, collocation=False, best_fit=False)),
            ("symmetry alone", Heuristics(ratio=1, collocation=False, best_fit=False)),
            ("all heuristics", Heuristics(ratio=1)),
            ("all heuristics, r = 2", Heuristics(ratio=min(2, int(job.cores_l.max())))),
        ):
            tree = SocketTree(job, replicas_o, heuristics, Symmetry(job))
            placed = search(tree.root, tree.branch).best
            assert placed is not None
            shares.setdefault(name, []).append(placed.bound / best)
        found_o = Rlas().placed(job, replicas_o)
        shares.setdefault("RLAS, all nodes it may look at", []).append(
            float(sustained(job, found_o[None]).load_n[0]) / best
        )
    rows = [
        [name, len(each), float(np.mean(np.array(each) > 1 - 1e-9)), float(np.mean(each)), float(np.min(each))]
        for name, each in shares.items()
    ]
    header = ["", "graphs", "share optimal", "mean of the best", "worst"]
    print_table("Small graphs: the placement's load, of the best of all placements", header, rows)


if __name__ == "__main__":
    main()
