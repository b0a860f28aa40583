"""Planners at size: what they find, what they prove of it, and how long they take, on random jobs on many hosts.

Run: python -m benchmarks.planners [--planners NAME,...] [--sizes OPERATORSxHOSTS,...] [--seeds N] [--load L]
[--different]. The jobs are those of `tests/optimizers/large_jobs.py`; each operator goes to one host. A row is a
planner on a job: its latency over the given plan's, the gap of its bound, and seconds of wall and CPU time.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.table import print_table
from optimizers.interface import Problem
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate
from optimizers.space import Space
from tests.optimizers.large_jobs import large_job
from twin.rates.model import RateModel

PLANNERS = "local-search,milp,branch-and-bound"
SIZES = "10x10,20x50,30x40,50x200"
HEADER = ("job", "planner", "latency", "over given", "status", "gap", "wall s", "CPU s", "estimated", "weighed")
MILLI = 1e3


def row_of(name: str, problem: Problem) -> tuple[object, ...]:
    """Row of a planner: what it finds of the problem, and what that takes."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    found = OPTIMIZERS[name].solve(problem)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    given = estimate(problem, [problem.deployment.plan]).candidate(0)
    gap = "no bound" if found.gap is None else f"{100.0 * found.gap:.2f} %"
    return (
        problem.scenario.name,
        name,
        f"{MILLI * found.objective:.4g} ms",
        f"{found.objective / given.objective:.3f}" if found.feasible else "overloaded",
        str(found.status),
        gap,
        f"{wall_s:.1f}",
        f"{cpu_s:.1f}",
        found.evaluations,
        found.weighed,
    )


def main() -> None:
    """Prints a row for each planner and job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planners", default=PLANNERS)
    parser.add_argument("--sizes", default=SIZES, help="operators x hosts")
    parser.add_argument("--seeds", type=int, default=1, help="jobs of each size")
    parser.add_argument("--load", type=float, default=0.2, help="of an operator, as `large_job` has it")
    parser.add_argument("--different", action="store_true", help="hosts are all different, instead of four kinds")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds; by default each planner's own")
    options = parser.parse_args()
    rows = []
    for size in options.sizes.split(","):
        operators, hosts = map(int, size.split("x"))
        for seed in range(options.seeds):
            job = large_job(operators, hosts, seed, kinds=None if options.different else 4, load=options.load)
            space = Space(spread=False, free_subtasks=False)
            problem = Problem(scenario=job, cost_model=RateModel(), space=space, seconds=options.time_limit)
            rows += [row_of(name, problem) for name in options.planners.split(",")]
    hosts_are = "all different" if options.different else "of four kinds"
    print_table(f"load {options.load:g}, hosts {hosts_are}", HEADER, rows)


if __name__ == "__main__":
    main()
