"""What optimizers claim, beside every plan: other spaces, objectives and requirements than in `benchmarks.claims`.

Run: python -m benchmarks.claim_proofs [--jobs N] [--first SEED] [--minutes M]. Jobs are those of
`benchmarks.claimed_jobs` that have at most MOST plans. Each is asked about in one space, with one objective and one
requirement, drawn by its seed; `optimal`, `infeasible`, bounds and "no fewer will do" are compared with all plans of
that space under the rate model. No run is simulated. Jobs that are done are kept in .claims/, as those of
`benchmarks.claims` are."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.claimed_jobs import claimed_job, every_plan
from benchmarks.claims import ROWS, rows_of
from benchmarks.kept import ROOT, Kept
from benchmarks.table import print_table
from optimizers.counted import as_plans
from optimizers.interface import OBJECTIVES, Problem, Solution, Status
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.requirements import Requirements, at_rate
from optimizers.selection import Estimated, estimate, goodness
from optimizers.space import Space, counts_of
from twin.errors import BadInput
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.scenario import Scenario

MOST = 700
"""Plans, with the given numbers of replicas, of a job that is asked about."""
SHARES = (0.1, 0.3, 0.6, 1.0)
"""Of the rates of the job, at which most are overloaded."""
NAMES = ("local-search", "exhaustive", "costream", "branch-and-bound", "milp", "milp-hosts", "rlas", "rlas-placement")
WHOLE = frozenset({"branch-and-bound"})
"""Those that keep operators whole, unless they are asked otherwise."""
ASKED = ("throughput_per_s", "processing_latency_s", "e2e_latency_s")
CLOSE = {"throughput_per_s": 1e-3, "processing_latency_s": 1e-5, "e2e_latency_s": 1e-5}
"""What is claimed to be the best is so to this, relatively."""


def question(seed: int) -> Problem:
    """A job with a space, an objective and a requirement."""
    rng = stream(seed, "claim-proofs")
    job = at_rate(claimed_job(seed), float(rng.choice(SHARES)))
    name = str(rng.choice([each.name for each in job.query.operators]))
    hosts = tuple(host.name for host in job.cluster.hosts)
    spaces: list[dict[str, Any]] = [
        {},
        {"spread": False},
        {"pinned": frozenset({name})},
        {"allowed": {name: hosts[-1:]}},
        {"costream_rules": True},
        {"most_moves": 1},
    ]
    space = Space(free_replicas=False, **spaces[int(rng.integers(len(spaces)))])
    objective = str(rng.choice(ASKED))
    latency_s = float(RateModel().predict(job, [job.plan])["e2e_latency_s"][0])
    limit = {"e2e_latency_s": float(rng.choice([0.9, 1.1])) * latency_s} if 0.0 < latency_s < np.inf else {}
    required = [Requirements(), Requirements(), Requirements(head_room=0.2), Requirements(at_most=limit)]
    return Problem(
        scenario=job,
        cost_model=RateModel(),
        objective=objective,
        space=space,
        requirements=required[int(rng.integers(len(required)))],
    )


def asked(problem: Problem, name: str, counts_nol: np.ndarray) -> tuple[Problem, np.ndarray]:
    """What an optimizer speaks of: the problem with its own rules and requirements, and the plans of that space."""
    optimizer, whole = Planner(OPTIMIZERS[name]), name in WHOLE and problem.space.spread is None
    mine = problem.settled(free_replicas=False, costream_rules=optimizer.traits.costream_rules)
    mine = replace(mine, space=replace(mine.space, spread=False)) if whole else mine
    mine = replace(mine, requirements=optimizer.traits.required(problem))
    return mine, counts_nol[mine.space.holds(mine.deployment, counts_nol)]


def wrong(problem: Problem, found: Solution, every: Estimated) -> str:
    """What of status, bound and answer the plans refute; empty if nothing."""
    here = estimate(problem, [problem.deployment.plan, found.plan])
    cost = goodness(problem, every)[2]
    best = float(cost[every.sane].min(initial=np.inf))
    sign = 1.0 if OBJECTIVES[problem.objective] == "min" else -1.0
    mine, theirs = (tuple(each) for each in goodness(problem, here).T)
    own = found.plan == problem.deployment.plan  # kept, be it against an optimizer's own rules
    if not own and not problem.space.includes(problem.deployment, found.plan):
        return "a plan that is not of the space"
    if problem.space.includes(problem.deployment, problem.deployment.plan) and theirs > mine:
        return f"worse than the given plan: {theirs} against {mine}"
    if found.status is Status.INFEASIBLE and every.sane.any():
        return "infeasible, but a plan will do"
    close = CLOSE[problem.objective]
    if found.status is Status.OPTIMAL and not (theirs[0] == 0.0 and theirs[2] <= best + close * abs(best)):
        return f"optimal with {sign * theirs[2]:.6g}, but a plan has {sign * best:.6g}"
    if found.bound is not None and sign * found.bound > best + 1e-6 * abs(best):
        return f"bound {found.bound:.6g}, but a plan has {sign * best:.6g}"
    return ""


def too_many(problem: Problem, found: Solution, every: np.ndarray, sane: np.ndarray) -> str:
    """By how few hosts it can be done, if fewer than was said; empty if that is true."""
    if found.status is Status.INFEASIBLE and sane.any():
        return "infeasible, but a plan will do"
    fewest = int(_hosts(problem.deployment, every[sane]).min(initial=10**6))
    used = int(_hosts(problem.deployment, counts_of(problem.deployment, found.plan)[None])[0])
    return f"no fewer than {used} hosts, but {fewest} do" if "no fewer" in found.message and fewest < used else ""


def _hosts(job: Scenario, counts_nol: np.ndarray) -> np.ndarray:
    """Hosts that carry anything. [N]"""
    sockets = [len(host.sockets) or 1 for host in job.cluster.hosts]
    host_l = np.repeat(np.arange(len(sockets)), sockets)
    used_nl = counts_nol.any(axis=1)
    return np.asarray(sum(used_nl[:, host_l == host].any(axis=1).astype(int) for host in range(len(sockets))))


def answered(seed: int) -> list[Any]:
    """By optimizer: what it claims, and what is wrong of that; empty if it refuses."""
    problem = question(seed)
    counts_nol = every_plan(problem.deployment)
    rows: dict[str, list[str]] = {}
    for name in NAMES if len(counts_nol) <= MOST else ():
        mine, inside_nol = asked(problem, name, counts_nol)
        try:
            found = Planner(OPTIMIZERS[name]).solve(problem)
        except BadInput:
            continue
        every = estimate(mine, as_plans(mine.deployment, inside_nol))
        hosts = name == "milp-hosts"
        said = too_many(mine, found, inside_nol, every.sane) if hosts else wrong(mine, found, every)
        rows[name] = [found.status.value, said]
    return [rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no job is begun")
    options = parser.parse_args()
    sources = [path for room in ("optimizers", "twin/rates") for path in (ROOT / room).rglob("*.py")]
    kept = Kept(ROWS, [*sources, *(ROOT / "benchmarks").glob("claim*.py")], options.minutes)
    said: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
    seeds = range(options.first, options.first + options.jobs)
    for seed, (found,) in zip(seeds, rows_of(kept, "proof", answered, seeds), strict=False):
        for name, (status, error) in found.items():
            said[name].update([status, *(["false"] if error else [])])
            if error:
                print(f"job {seed}, {name}: {error} ({status})", flush=True)
    rows = [
        [name, sum(each[status] for status in Status), *(each[status] for status in Status), each["false"]]
        for name, each in said.items()
    ]
    print_table("Claims beside every plan", ["", "jobs", *(str(status) for status in Status), "false"], rows)


if __name__ == "__main__":
    main()
