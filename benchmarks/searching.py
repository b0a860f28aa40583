"""Plans by runs against plans by predictions: regret after so many runs.

python -m benchmarks.searching [--family demanding] [--jobs 24] [--first 30000] [--keep FOLDER]
python -m benchmarks.searching --enumerated [--keep FOLDER]     twelve problems of the suite, of which all plans are run
python -m benchmarks.searching --promise [--jobs 12]            fewest hosts under a promise of p99

Each job is a placement that no corpus and no suite holds. Ways to spend 3, 8, 20 and 40 runs: the plan of each start
alone (no runs), the search by runs (`twin optimize --budget`), the first plans in the order of the predictions (what
`--prove` did in earlier versions), and plans at random. Their answers are judged by runs with other seeds, which are
the same for all plans; regret is against the best plan known: the best of all answers, or of all plans of the twelve
problems, whose best plans are another table, to compare with and to cite. Jobs are kept in the folder, so that the
command can go on.

A promise is SLACK times the p99 that a search for the lowest finds. Then the fewest hosts are searched that keep it, by
40 runs, beside the cheapest hosts by rates with several head rooms. All are judged by other runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import print_table
from optimizers.interface import USUAL_S, Problem
from optimizers.objectives import NOTHING_MORE, PRICE, Requirements
from optimizers.planner import loads_of, rates_at
from optimizers.registry import OPTIMIZERS
from optimizers.rules import distinct
from optimizers.searching import Budget, predicted_order
from optimizers.space import SpacePlans, as_plans
from scenarios.executing import Processes
from scenarios.planning.bench import PlanBench, half_width95
from scenarios.planning.searching import Goal, RunBench, search, starts
from scenarios.suite import FAMILIES
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.simulation import simulate

SPENT = (3, 8, 20, 40)
P99 = "e2e_latency_s.p99"
ENUMERATED = [
    "demanding-2",
    "demanding-6",
    "demanding-15",
    "demanding-18",
    "edge-2-way-6",
    "edge-2-way-11",
    "edge-linear-3",
    "edge-linear-12",
    "links-4",
    "replicas-5",
    "hosts-and-sockets-4",
    "numa-1",
]
"""Problems of the suite with 64 to 256 plans, before those count once that exchange equal hosts."""
SLACK = 1.25
"""Promised p99 over the lowest that was found."""
ROOMS = (0.2, 0.5, 1.0, 2.0)
"""Head rooms with which the cheapest hosts by rates are bought."""
JUDGES = 7_000_003
"""Seed whose children are those of the runs that judge."""
LISTED = 20_000
"""Plans up to which all are ordered by predictions; of larger spaces, so many drawn at random."""


def jobs(family: str, first: int) -> Iterator[tuple[str, Scenario]]:
    """Jobs of a family from a seed on, with 20 plans at least."""
    made = FAMILIES[family]
    for seed in count(first):
        job = made.make(seed).model_copy(update={"name": f"{family}-seed-{seed}"})
        if SpacePlans(job, made.space.settled(free_subtasks=False)).count >= 20:
            yield family, job


def problems() -> Iterator[tuple[str, Scenario]]:
    """The enumerated problems, with their families."""
    for name in ENUMERATED:
        family, _, number = name.rpartition("-")
        yield family, FAMILIES[family].member(int(number) - 1)


def answers(job: Scenario, family: str) -> dict[tuple[str, int], ExecutionPlan]:
    """Plans by way and number of runs."""
    made = FAMILIES[family]
    space = made.space.settled(free_subtasks=False)
    problem = Problem(scenario=job, cost_model=rates_at("mean"), objective=made.objective, space=space)
    found: dict[tuple[str, int], ExecutionPlan] = {}
    proposed = {}
    for name, plan in starts(problem, None, USUAL_S):
        if plan not in proposed.values():
            proposed[name] = plan
        found[name, 0] = plan
    rng, plans = random_stream(job.run.seed, "benchmark"), SpacePlans(job, space)
    drawn = list(as_plans(job, plans.sample(rng, LISTED)))
    drawn = [drawn[row] for row in distinct(job, drawn)]
    loads = [rates_at(load) for load in loads_of(job)]
    ordered = [*proposed.values(), *(drawn[row] for row in predicted_order(problem, loads, drawn))]
    for runs in SPENT:
        found["search by runs", runs] = search(problem, made.objective, Budget(runs=runs)).found.best.plan
        found["first by predictions", runs] = _best(problem, ordered, runs)
        found["random plans", runs] = _best(problem, [job.plan, *drawn], runs)
    return found


def _best(problem: Problem, plans: list[ExecutionPlan], runs: int) -> ExecutionPlan:
    """Best of the first different plans in one run each, by the runs of a search."""
    some = [plans[row] for row in distinct(problem.scenario, plans)][:runs]
    goal = Goal.of(problem.scenario, problem.objective, problem.requirements)
    bench = RunBench(problem, goal, Budget(runs=runs), Processes(1))
    ranks = [bench.judged([run]).rank(goal.sign) for run in bench([(plan, 0) for plan in some], 1)]
    return some[min(range(len(some)), key=ranks.__getitem__)]


def judged(job: Scenario, family: str, replications: int, everything: bool) -> dict[str, Any]:
    """Regrets by way and number of runs, and whether the plan is of a worse kind than the best; of a job of which all
    plans are run, also the best one."""
    made, found = FAMILIES[family], answers(job, family)
    bench = PlanBench(job, made.objective, simulate, replications, seed=JUDGES)
    bench.simulate(found.values())
    reference: dict[str, Any] = {}
    if everything:
        plans = list(as_plans(job, SpacePlans(job, made.space.settled(free_subtasks=False)).all()))
        plans = [plans[row] for row in distinct(job, plans)]
        bench.race(plans)
        best = min(plans, key=lambda plan: _whole_rank(bench, plan, replications))
        outcome = bench.outcome(best)
        reference = {
            "objective": made.objective,
            "plans": len(plans),
            "keep_up": sum(bench.outcome(plan).rank[0] == 0 for plan in plans),
            "best": outcome.mean,
            "ci95": half_width95(outcome.values),
            "placement": best.model_dump(mode="json")["placement"],
        }
    rows = [[way, runs, *_regret(bench, plan)] for (way, runs), plan in found.items()]
    return {"job": job.name, "rows": rows, "reference": reference}


def _whole_rank(bench: PlanBench, plan: ExecutionPlan, replications: int) -> tuple[float, float, float]:
    """Rank of a plan, behind all others if it was beaten before it had all runs."""
    outcome = bench.outcome(plan)
    return (float(len(outcome.values) < replications), *outcome.rank)


def _regret(bench: PlanBench, plan: ExecutionPlan) -> tuple[float | None, bool]:
    regret = bench.regret(plan)[0]
    worse = bench.outcome(plan).rank[0] > bench.best.rank[0]
    return (None if worse else regret), worse


def promised(job: Scenario, family: str, replications: int) -> dict[str, Any]:
    """What was promised (s; None if nothing can be), and by way: the number of hosts, p99 (s) over all results of the
    runs that judge, whether the job keeps up in most of them."""
    space = FAMILIES[family].space.settled(free_subtasks=False)
    base = Problem(scenario=job, cost_model=rates_at("mean"), space=space)
    lowest = search(base, P99, Budget(runs=SPENT[-1])).found.best.plan
    promise_s = SLACK * p99_of(job, lowest, replications)[0]
    if not math.isfinite(promise_s):
        return {"job": job.name, "promise_s": None, "plans": {}}
    asked = replace(base, requirements=Requirements(at_most={P99: promise_s}))
    plans = {"search by 40 runs": search(asked, PRICE, Budget(runs=SPENT[-1])).found.best.plan}
    for room in ROOMS:
        roomy = replace(base, objective=PRICE, requirements=Requirements(head_room=room))
        plans[f"milp-hosts, head room {room:g}"] = OPTIMIZERS["milp-hosts"].solve(roomy).plan
    plans |= {"lowest p99": lowest, "as given": job.plan}
    told = {way: (len(plan.hosts(*plan.placement)), *p99_of(job, plan, replications)) for way, plan in plans.items()}
    return {"job": job.name, "promise_s": promise_s, "plans": told}


def p99_of(job: Scenario, plan: ExecutionPlan, replications: int) -> tuple[float, bool]:
    """p99 (s) of the results of all runs that judge a plan, and whether the job keeps up in most of them."""
    goal = Goal.of(job, P99, NOTHING_MORE)
    problem = Problem(scenario=job.with_run(seed=JUDGES), cost_model=rates_at("mean"))
    bench = RunBench(problem, goal, Budget(runs=replications), Processes(1))
    runs = list(bench([(plan, number) for number in range(replications)], 1))
    return goal.value(P99, runs), bench.judged(runs).missed == 0.0


def tell_promises(family: str, first: int, count: int, replications: int, keep: Path | None) -> None:
    """Prints a line a job: hosts and p99 of the search, and the fewest hosts known to keep the promise."""
    rows = []
    for _, job in islice(jobs(family, first), count):
        found = _kept(keep, f"promise-{job.name}-{replications}-runs", partial(promised, job, family, replications))
        promise_s, plans = found["promise_s"], found["plans"]
        if promise_s is None:
            print(f"{job.name} has no results in most runs, so nothing can be promised", flush=True)
            continue
        keeping = [hosts for hosts, p99_s, well in plans.values() if well and p99_s <= promise_s]
        hosts, p99_s, well = plans["search by 40 runs"]
        states = (str(hosts), f"{p99_s:.4g}", "kept" if well and p99_s <= promise_s else "broken")
        rows.append((job.name, f"{promise_s:.4g}", *states, str(min(keeping, default="-"))))
        print(f"{job.name} judged", flush=True)
    heads = ("job", "promise, s", "hosts", "p99, s", "promise", "fewest known")
    print_table(f"fewest hosts under a promise of p99, {family}", heads, rows)


def _kept(folder: Path | None, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file of the folder holds, which is made where there is none."""
    file = None if folder is None else folder / f"{name}.json"
    if file is not None and file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    found = make()
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found), encoding="utf-8")
    return found


def main() -> None:
    """Prints a table: a line a way and number of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="demanding", choices=sorted(FAMILIES))
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--first", type=int, default=30_000, help="seed of the first job that is looked at")
    parser.add_argument("--replications", type=int, default=6)
    parser.add_argument("--enumerated", action="store_true", help="problems of the suite of which all plans are run")
    parser.add_argument("--keep", type=Path, default=None, help="folder for what is done")
    parser.add_argument("--promise", action="store_true", help="fewest hosts under a promise of p99")
    given = parser.parse_args()
    if given.promise:
        tell_promises(given.family, given.first, given.jobs, given.replications, given.keep)
        return
    by_way = defaultdict[tuple[str, int], list[tuple[float | None, bool]]](list)
    references = list[tuple[str, ...]]()
    asked = problems() if given.enumerated else islice(jobs(given.family, given.first), given.jobs)
    for family, job in asked:
        make = partial(judged, job, family, given.replications, given.enumerated)
        found = _kept(given.keep, f"{job.name}-{given.replications}-runs", make)
        for way, runs, regret, worse in found["rows"]:
            by_way[way, runs].append((regret, worse))
        if known := found["reference"]:
            half = f"{known['best']:.4g} ± {known['ci95']:.2g}"
            references.append((job.name, known["objective"], str(known["plans"]), str(known["keep_up"]), half))
        print(f"{job.name} judged", flush=True)
    if references:
        print_table("the best of all plans", ("problem", "objective", "plans", "keep up", "best, s"), references)
    rows = []
    for (way, runs), each in sorted(by_way.items(), key=lambda pair: (pair[0][1], pair[0][0])):
        known = np.array([regret for regret, _ in each if regret is not None] or [np.nan])
        good = sum(regret is not None and regret <= 0.01 for regret, _ in each)
        shares = (np.mean(known), np.median(known), np.max(known), good / len(each))
        worse_kind = str(sum(worse for _, worse in each))
        rows.append((way, str(runs), str(len(each)), worse_kind, *(f"{share:.1%}" for share in shares)))
    what = "enumerated" if given.enumerated else given.family
    print_table(
        f"{what}: regret after so many runs; {given.replications} runs a plan judge",
        ("way", "runs", "jobs", "worse kind", "regret, mean", "median", "worst", "within 1 %"),
        rows,
    )


if __name__ == "__main__":
    main()
